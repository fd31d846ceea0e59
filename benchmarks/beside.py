"""Whole outputs, one row at a time, compared with SGLang's and vLLM's own parsers: `make bench-rollouts`.

Each parser reads 1.1 kB with reasoning and two calls, as in evaluations; the engines use their functions for answers
that are not streamed. For comparison, ``json.loads`` of the same row is listed too. The figures are the processor time
of one core, the best of several interleaved rounds.
"""

import importlib
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import unspool

from .clock import seconds
from .hosts import tokenizer
from .outputs import DIALECT, TOOLS, rollout
from .table import Row, table

COUNT: Final = 500
ROUNDS: Final = 5
Read = Callable[[str], list[tuple[str, Any]]]
"""Reads an output, and returns the names and arguments of its calls."""


def ours(text: str) -> list[tuple[str, Any]]:
    """`unspool.parse`."""
    return [(c.name, c.arguments) for c in unspool.parse(text, DIALECT, tools=TOOLS).tool_calls]


def sglang() -> Read:
    """SGLang's parser of reasoning, then that of calls."""
    calls = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    thoughts = importlib.import_module("sglang.srt.parser.reasoning_parser").ReasoningParser
    tool = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool(**TOOLS[0])

    def read(text: str) -> list[tuple[str, Any]]:
        _, rest = thoughts("qwen3").parse_non_stream(text)
        return [(c.name, c.parameters) for c in calls([tool], "hermes").parse_non_stream(rest)[1]]

    return read


def vllm(reasoning: str, tools: str) -> Read:
    """vLLM's parsers of this name."""
    importlib.import_module("vllm.plugins").load_general_plugins()
    request_type = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionRequest
    words = tokenizer(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    kind = importlib.import_module("vllm.parser").ParserManager.get_parser(
        tool_parser_name=tools,
        reasoning_parser_name=reasoning,
        enable_auto_tools=True,
        model_name="m",
        tokenizer=words,
    )
    message: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "model": "m", "tools": TOOLS}
    request = request_type(**message, tool_choice="auto")

    def read(text: str) -> list[tuple[str, Any]]:
        _, _, calls = kind(words, request.tools).parse(text, request, enable_auto_tools=True)
        return [(c.name, c.arguments) for c in calls or ()]

    return read


def batch() -> Callable[[list[bytes]], None]:
    """`unspool batch` from JSON lines to a table: reading, parsing, checking arguments, counting, columns."""
    pa = importlib.import_module("pyarrow")
    blocks, reading, work = (importlib.import_module(f"unspool.batch.{n}") for n in ("blocks", "reading", "work"))
    schema = pa.schema([*reading.SCHEMA, ("output", pa.string()), ("tools", pa.string())])
    worker = work.Worker(reading.Reader(reading.Reading(dialect=DIALECT)), schema)

    def whole(lines: list[bytes]) -> None:
        assert worker.work(blocks.Block(number=0, file="", first=0, rows=lines)).summary.rows == len(lines)

    return whole


def _each(read: Read, texts: list[str]) -> None:
    for text in texts:
        read(text)


def main() -> int:
    """Measure, and print a table. The exit code is 1 if a parser does not find the calls."""
    texts = [rollout(i) for i in range(COUNT)]
    lines = [json.dumps({"output": text, "tools": TOOLS}).encode() for text in texts]
    readers: dict[str, Read] = {
        "unspool.parse": ours,
        "SGLang, hermes with qwen3's reasoning": sglang(),
        "vLLM, hermes with qwen3's reasoning": vllm("qwen3", "hermes"),
    }
    for name, read in readers.items():
        found = [(n, json.loads(a) if isinstance(a, str) else a) for n, a in read(texts[7])]
        if found != [("search", {"query": f"harbour 7 {k}", "limit": k}) for k in (3, 5)]:
            print(f"{name}: reads {found}", file=sys.stderr)
            return 1
    whole = batch()
    work: dict[str, Callable[[], Any]] = {name: partial(_each, read, texts) for name, read in readers.items()}
    work["unspool batch, from lines to a table"] = lambda: whole(lines)
    work["json.loads of the lines"] = lambda: [json.loads(line) for line in lines]
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, run in work.items():
            start = seconds()
            run()
            best[name] = min(best[name], seconds() - start)
    size = sum(map(len, texts)) // COUNT
    rows = [Row(f"{size:,} characters, two calls", name, COUNT / took, "rows/s") for name, took in best.items()]
    print(table(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
