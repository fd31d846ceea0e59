"""Rollouts: rows of a file, token ids, conversations; each beside something of the same moments."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool.batch.blocks import Block
from unspool.batch.reading import Reading
from unspool.batch.run import Job
from unspool.batch.work import SCHEMA, Worker
from unspool.rl import Conversation

from .effort import Effort
from .table import Row
from .texts import PROSE, ever_new

_DIALECT: Final = "hermes"
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["query"],
            },
        },
    }
]
_TEMPLATE: Final = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def _output(i: int) -> str:
    """1.1 kB with reasoning and two calls."""
    call = "".join(
        f'\n<tool_call>\n{{"name": "search", "arguments": {{"query": "harbour {i} {k}", "limit": {k}}}}}\n</tool_call>'
        for k in (3, 5)
    )
    thought = ever_new(PROSE, 2_000)[i % 997 : i % 997 + 700]
    return f"<think>\n{thought}\n</think>\n\nI will look it up twice, for {i}.{call}"


def rollouts(effort: Effort) -> Iterator[Row]:
    """Rows, ids and turns a second, by one core; what two workers are worth."""
    count = 4_000 if effort.everywhere else 600
    rows: list[dict[str, Any]] = [{"key": i, "output": _output(i), "tools": _TOOLS} for i in range(count)]
    size = sum(len(r["output"]) for r in rows) / count
    lines: list[bytes | None] = [json.dumps(r).encode() for r in rows]
    schema = pa.schema([*SCHEMA, ("key", pa.int64()), ("output", pa.string()), ("tools", pa.string())])
    worker = Worker(Reading(dialect=_DIALECT), schema)
    case = f"{size:,.0f} characters, two calls"
    whole = _best(lambda: worker.work(Block(0, "", 0, lines)))
    parsed = _best(lambda: [unspool.parse(r["output"], _DIALECT, tools=_TOOLS) for r in rows])
    plain = _best(lambda: [json.loads(line) for line in lines if line is not None])
    yield Row("rows by one core", f"batch, {case}", count / whole, "rows/s")
    yield Row("rows by one core", "the same by parse() alone", count / parsed, "rows/s")
    yield Row("rows by one core", "json.loads of the same lines", count / plain, "rows/s")
    yield from _ids(effort)
    if effort.everywhere:
        yield _workers(rows * 4)


def _ids(effort: Effort) -> Iterator[Row]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"])
    text = _output(7) * 20 + ever_new(PROSE, effort.whole // 4) + "<|im_end|>"
    ids = tokenizer.encode(text, add_special_tokens=False).ids

    def parse() -> None:
        parser = unspool.Parser(_DIALECT, tools=_TOOLS, tokenizer=tokenizer)
        parser.feed_tokens(ids)
        parser.close()

    asked = [{"role": "user", "content": "?"}]
    fresh = Conversation(_DIALECT, tokenizer, template=_TEMPLATE, messages=asked, tools=_TOOLS)
    yield Row("token ids by one core", "feed_tokens of all at once", len(ids) / _best(parse) / 1e6, "M/s")
    extended = _best(lambda: fresh.copy().extend(ids))
    yield Row("token ids by one core", "Conversation.extend", len(ids) / extended / 1e6, "M/s")
    plain = _output(7).partition("</think>\n\n")[2]
    answer = tokenizer.encode(ever_new(PROSE, 700) + plain + "<|im_end|>", add_special_tokens=False).ids
    turns = 32 if effort.everywhere else 8

    def talk() -> None:
        conversation = fresh.copy()
        for _ in range(turns):
            conversation.extend(answer)
            conversation.add(asked)

    yield Row("turns of a conversation", f"{turns} of 1.1 kB, each", _best(talk) / turns * 1e3, "ms")


def _workers(rows: list[dict[str, Any]]) -> Row:
    """How much faster two workers are than one; says nothing where other programs have the cores."""
    took = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.jsonl"
        source.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        for workers in (1, 2):
            start = time.perf_counter()
            Job([str(source)], f"{folder}/{workers}.jsonl", Reading(dialect=_DIALECT), workers=workers, rows=500).run()
            took.append(time.perf_counter() - start)
    case = f"{len(rows):,} rows, {os.cpu_count()} cores"
    return Row("two workers beside one", case, took[0] / took[1], "×", 1.8, "least")


def _best(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of processor time; the quickest of a few."""
    quickest = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        quickest = min(quickest, time.process_time() - start)
    return quickest
