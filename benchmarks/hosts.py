"""The cost of the plug-ins inside vLLM and SGLang, compared with the engines' own parsers: `make bench-plugins`.

A call with a long argument is streamed through each engine's own path, a few characters at a time: vLLM's
``DelegatingParser.parse_delta``, SGLang's ``FunctionCallParser.parse_stream_chunk``. The processor time of a parser
that reads nothing is subtracted, which leaves the parser's own time. (In vLLM that parser passes each piece on as text,
since every piece makes a message there.) All are measured in one run, in turns.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import unspool
from unspool import Dialect, Stage

from .clock import seconds
from .table import Row, table
from .texts import SOURCE

CHUNK: Final = 4
SIZES: Final = (1_000, 50_000)
PATIENCE: Final = 5.0
"""Seconds after which a reader is stopped, and not measured again. Its cost per token so far counts."""
LONG: Final = 8
"""The most rounds for the long arguments, as far as `PATIENCE` allows."""
LOOK: Final = 100
"""The number of pieces between two checks of the clock."""
NOTHING: Final = "nothing"
_MARKER: Final = re.compile(r"<[^\s<>={}]{1,40}>")
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
        },
    },
}


@dataclass(frozen=True)
class Family:
    """A dialect, the names of the engines' own parsers for it, and whether its arguments are JSON."""

    dialect: str
    vllm: str
    sglang: str
    json: bool


FAMILIES: Final = (
    Family("hermes", "hermes", "hermes", True),
    Family("deepseekv31", "deepseek_v31", "deepseekv31", True),
    Family("kimi_k2", "kimi_k2", "kimi_k2", True),
    Family("qwen3_coder", "qwen3_coder", "qwen3_coder", False),
    Family("glm45", "glm45", "glm45", False),
)

Pieces = list[tuple[str, list[int]]]
Read = Callable[[Pieces], Iterator[str]]
"""Reads an output in pieces, and yields the part of the call's arguments from each."""


def output(dialect: Dialect, size: int) -> tuple[str, dict[str, str]]:
    """An output with one call, whose longest argument has ``size`` characters, and its arguments."""
    source = SOURCE * (size // len(SOURCE) + 1)
    arguments = {"path": "a.py", "text": _MARKER.sub("", source)[:size].strip()}
    call = {"function": {"name": "write", "arguments": json.dumps(arguments)}}
    raw = unspool.render({"role": "assistant", "tool_calls": [call]}, dialect, tools=[TOOL], stage=Stage.CONTENT)
    for end in dialect.end:
        raw = raw.removesuffix(end)
    return raw, arguments


def pieces(raw: str, encode: Callable[[str], list[int]]) -> Pieces:
    """An output in pieces like tokens: each marker by itself, other text in `CHUNK` characters."""
    found, at = [], 0
    for match in [*_MARKER.finditer(raw), None]:
        end = len(raw) if match is None else match.start()
        found += [raw[i : min(i + CHUNK, end)] for i in range(at, end, CHUNK)]
        if match is not None:
            found.append(match[0])
            at = match.end()
    return [(piece, encode(piece)) for piece in found]


# --- vLLM -------------------------------------------------------------------------------------------------------------


def tokenizer(special: Sequence[str]) -> Any:
    """A tokenizer of bytes, with special tokens."""
    library = importlib.import_module("tokenizers")
    alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
    inner = library.Tokenizer(library.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = library.decoders.ByteLevel()
    inner.add_special_tokens(list(special))
    return importlib.import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=inner)


def vllm_readers(family: Family, tok: Any) -> dict[str, Read]:
    """vLLM's path with each parser."""
    importlib.import_module("vllm.plugins").load_general_plugins()
    request_type = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionRequest
    manager = importlib.import_module("vllm.parser").ParserManager
    message_type = importlib.import_module("vllm.entrypoints.generate.base.protocol").DeltaMessage
    tools = importlib.import_module("vllm.tool_parsers").ToolParserManager
    message: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "model": "m", "tools": [TOOL]}
    request = request_type(**message, tool_choice="auto")

    class Nothing(importlib.import_module("vllm.tool_parsers").ToolParser):  # type: ignore[misc]
        engine_based_streaming = True

        def extract_tool_calls_streaming(self, _: str, __: str, delta_text: str, *more: Any) -> Any:
            return message_type(content=delta_text)

    tools.register_module(name=NOTHING, module=Nothing)

    def reader(name: str) -> Read:
        kind = manager.get_parser(
            tool_parser_name=name,
            reasoning_parser_name=None,
            enable_auto_tools=True,
            model_name="m",
            tokenizer=tok,
        )

        def read(given: Pieces) -> Iterator[str]:
            parser = kind(tok, request.tools)
            last = len(given) - 1
            for i, (text, ids) in enumerate(given):
                message = parser.parse_delta(text, ids, request, [1], finished=i == last)
                calls = message.tool_calls if message is not None else ()
                yield "".join([c.function.arguments or "" for c in calls if c.function]) if calls else ""

        return read

    return {n: reader(n) for n in (f"unspool_{family.dialect}", family.vllm, NOTHING)}


# --- SGLang -----------------------------------------------------------------------------------------------------------


def sglang_readers(family: Family, tok: Any) -> dict[str, Read]:
    """SGLang's path with each detector."""
    importlib.import_module("sglang.srt.plugins").load_plugins()
    front = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    base = importlib.import_module("sglang.srt.function_call.base_format_detector").BaseFormatDetector
    result = importlib.import_module("sglang.srt.function_call.core_types").StreamingParseResult
    tool = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool(**TOOL)
    empty = result()

    class Nothing(base):  # type: ignore[misc, valid-type]
        def has_tool_call(self, text: str) -> bool:
            return False

        def detect_and_parse(self, text: str, tools: Any) -> Any:
            return result()

        def structure_info(self) -> Any:
            return None

        def parse_streaming_increment(self, new_text: str, tools: Any) -> Any:
            return empty

    front.ToolCallParserEnum[NOTHING] = Nothing

    def reader(name: str) -> Read:
        def read(given: Pieces) -> Iterator[str]:
            parser = front([tool], name)
            for text, _ in given:
                calls = parser.parse_stream_chunk(text)[1]
                yield "".join([c.parameters for c in calls]) if calls else ""
            yield "".join([c.parameters for c in parser.parse_stream_end()[1]])

        return read

    return {n: reader(n) for n in (f"unspool_{family.dialect}", family.sglang, NOTHING)}


HOSTS: Final = {"vllm": vllm_readers, "sglang": sglang_readers}


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(readers: dict[str, Read], given: Pieces, arguments: dict[str, str], rounds: int) -> list[float]:
    """Seconds per piece in each reader, the fastest of several rounds."""
    best, spent = dict.fromkeys(readers, float("inf")), dict.fromkeys(readers, 0.0)
    for _ in range(rounds):
        for name, read in readers.items():
            if spent[name] > PATIENCE:
                continue
            fragments, count, start = [], 0, seconds()
            for part in read(given):
                fragments.append(part)
                count += 1
                if count % LOOK == 0 and seconds() - start > PATIENCE:
                    break
            took = seconds() - start
            spent[name] += took
            best[name] = min(best[name], took / count)
            if count >= len(given) and name != NOTHING and json.loads("".join(fragments)) != arguments:
                raise ValueError(f"{name}: the arguments did not arrive")
    return list(best.values())


def hosts(only: Sequence[str], families: Sequence[Family], rounds: int) -> Iterator[Row]:
    """Ours and theirs in every engine, family and size."""
    for host in only:
        for family in families:
            dialect = unspool.get_dialect(family.dialect)
            for size in SIZES:
                raw, arguments = output(dialect, size)
                tok = tokenizer(sorted(set(_MARKER.findall(raw))))
                given = pieces(raw, lambda text: list(tok.encode(text)))  # noqa: B023  # it is used at once
                readers = HOSTS[host](family, tok)
                ours, theirs, nothing = measured(readers, given, arguments, rounds if size == SIZES[0] else LONG)
                case = f"{family.dialect}, {size // 1000} kB"
                yield Row(f"{host}: unspool, a token", case, (ours - nothing) * 1e6, "µs")
                yield Row(f"{host}: its own, a token", case, (theirs - nothing) * 1e6, "µs")
                times = (theirs - nothing) / max(ours - nothing, 1e-9)
                long = size == SIZES[-1]
                least = 10.0 if family.json and long else 1.0
                yield Row(f"{host}: times less", case, times, "×", least, "least")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table. The exit code is 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__)
    parser.add_argument("--host", action="append", choices=list(HOSTS), help="only this engine")
    parser.add_argument("--family", action="append", choices=[f.dialect for f in FAMILIES], help="only this dialect")
    parser.add_argument("--rounds", type=int, default=20, help="rounds for the short arguments; default: 20")
    options = parser.parse_args(argv)
    rows = []
    families = [f for f in FAMILIES if options.family is None or f.dialect in options.family]
    for row in hosts(options.host or list(HOSTS), families, options.rounds):
        rows.append(row)
        print(f"{row.measurement}, {row.case}: {row.value:.2f} {row.unit}", file=sys.stderr, flush=True)
    print(table(sorted(rows, key=lambda row: row.measurement)), end="")
    return int(any(row.kept is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
