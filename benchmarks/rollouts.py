"""Rollouts: rows of a file, token ids, conversations; each next to a reference measured at the same time."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool.batch.blocks import RowBlock
from unspool.batch.reading import SCHEMA, Reading, RowReader
from unspool.batch.work import read_block
from unspool.rl import Conversation

from .effort import Effort
from .outputs import DIALECT, TOOLS, long_answer, rollout
from .starting import with_bytecode
from .table import Row
from .texts import PROSE, ever_new

_TURNS: Final = 2
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>

_TEMPLATE: Final = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def rollouts(effort: Effort) -> Iterator[Row]:
    """Rows, ids and turns per second on one core, and the gain from two workers."""
    count = 4_000 if effort.everywhere else 600
    rows: list[dict[str, Any]] = [{"key": i, "output": rollout(i), "tools": TOOLS} for i in range(count)]
    size = sum(len(r["output"]) for r in rows) / count
    lines: list[bytes | None] = [json.dumps(r).encode() for r in rows]
    schema = pa.schema([*SCHEMA, ("key", pa.int64()), ("output", pa.string()), ("tools", pa.string())])
    reader = RowReader(Reading(dialect=DIALECT))
    case = f"{size:,.0f} characters, two calls"
    whole = _best(lambda: read_block(reader, RowBlock(lines), schema))
    parsed = _best(lambda: [unspool.parse(r["output"], DIALECT, tools=TOOLS) for r in rows])
    plain = _best(lambda: [json.loads(line) for line in lines if line is not None])
    yield Row("rows by one core", f"batch, {case}", count / whole, "rows/s")
    yield Row("rows by one core", "the same by parse() alone", count / parsed, "rows/s")
    yield Row("rows by one core", "json.loads of the same lines", count / plain, "rows/s")
    yield from _answers(effort)
    yield from _ids(effort)
    if effort.everywhere:
        yield from _workers(rows * 30)
        yield from _memory()


def _ids(effort: Effort) -> Iterator[Row]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"])
    text = rollout(7) * 20 + ever_new(PROSE, effort.whole // 4) + "<|im_end|>"
    ids = tokenizer.encode(text, add_special_tokens=False).ids

    def parse() -> None:
        parser = unspool.Parser(DIALECT, tools=TOOLS, tokenizer=tokenizer)
        parser.feed_tokens(ids)
        parser.close()

    asked = [{"role": "user", "content": "?"}]
    fresh = Conversation(DIALECT, tokenizer, template=_TEMPLATE, messages=asked, tools=TOOLS)
    yield Row("token ids by one core", "feed_tokens of all at once", len(ids) / _best(parse) / 1e6, "M/s", 1.0, "least")
    extended = _best(lambda: fresh.copy().extend(ids))
    yield Row("token ids by one core", "Conversation.extend", len(ids) / extended / 1e6, "M/s", 1.0, "least")
    plain = rollout(7).partition("</think>\n\n")[2]
    answer = tokenizer.encode(ever_new(PROSE, 700) + plain + "<|im_end|>", add_special_tokens=False).ids
    turns = 32 if effort.everywhere else 8

    def talk() -> None:
        conversation = fresh.copy()
        for _ in range(turns):
            conversation.extend(answer)
            conversation.add(asked)

    yield Row("turns of a conversation", f"{turns} of 1.1 kB, each", _best(talk) / turns * 1e3, "ms")


def _answers(effort: Effort) -> Iterator[Row]:
    """The time for a billion characters in long answers, from lines to a table."""
    text = long_answer(100_000)
    lines: list[bytes | None] = [json.dumps({"output": text}).encode()] * (80 if effort.everywhere else 10)
    reader, schema = RowReader(Reading(dialect=DIALECT)), pa.schema([*SCHEMA, ("output", pa.string())])
    took = _best(lambda: read_block(reader, RowBlock(lines), schema))
    yield Row("10⁹ characters by one core", "answers of 100 kB", took / (len(lines) * len(text)) * 1e9, "s", 60.0)


def _workers(rows: list[dict[str, Any]]) -> Iterator[Row]:
    """How much faster two workers are than one.

    Two cores rarely double the speed: hardware threads share a core, and other programs use them too. So the reference
    is two independent processes, each with its own run over half of the rows, at the same time. Two workers must reach
    0.9 of the reference's gain: 1.8 if that is 2.
    """
    _adopt()
    with tempfile.TemporaryDirectory() as folder:
        middle = len(rows) // 2
        for name, part in {"all": rows, "first": rows[:middle], "second": rows[middle:], "few": rows[:9]}.items():
            lines = "".join(json.dumps(r) + "\n" for r in part)
            Path(folder, f"{name}.jsonl").write_text(lines, encoding="utf-8")
        _spent(folder, ["few"])  # fills the cache of bytecode
        one, two, apart = _Spent(), _Spent(), _Spent()
        for _ in range(_TURNS):
            one = min(one, _spent(folder, ["all"]))
            apart = min(apart, _spent(folder, ["first", "second"]))
            two = min(two, _spent(folder, ["all"], "--workers", "2"))
        case = f"{len(rows):,} rows, one of {os.cpu_count()} cores {one.clock:.0f} s"
        yield Row("two workers beside one", f"{case}: by the clock", one.clock / two.clock, "×")
        yield Row("two workers beside one", "two runs with nothing in common", one.clock / apart.clock, "×")
        yield Row("two workers beside one", "share of that", apart.clock / two.clock, "", 0.9, "least")
        yield Row("two workers beside one", "processor time, all processes", two.processor / one.processor, "×", 1.25)


class _Spent(NamedTuple):
    """Seconds by the clock, and of processor time."""

    clock: float = float("inf")
    processor: float = float("inf")


def _spent(folder: str, names: list[str], *words: str) -> _Spent:
    """The cost of runs side by side, each in a process of its own, as users start them."""
    before, start = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "unspool", "batch", "-d", DIALECT]
    commands = [
        [*command, f"{folder}/{n}.jsonl", "-o", f"{folder}/{n}.out.jsonl", *(words or ("--workers", "1"))]
        for n in names
    ]
    env = with_bytecode(folder)
    runs = [subprocess.Popen(line, env=env, stderr=subprocess.DEVNULL) for line in commands]
    for run in runs:
        if run.wait():
            raise RuntimeError(f"unspool batch: ended with {run.returncode}")
    took = time.perf_counter() - start
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = os.times()
    children = after.children_user + after.children_system - before.children_user - before.children_system
    return _Spent(took, children)


def _adopt() -> None:
    """Become the parent of orphaned processes, such as workers whose parent has ended, so that their time counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def _memory() -> Iterator[Row]:
    """The peak memory of runs over 100,000 and 1,000,000 rows, each in a process of its own."""
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (100_000, 1_000_000):
            source = Path(folder) / "in.jsonl"
            with source.open("w", encoding="utf-8") as stream:
                stream.writelines(f'{{"key": {i}, "output": "Answer {i}."}}\n' for i in range(count))
            words = ["batch", str(source), "-d", DIALECT, "-o", f"{folder}/{count}", "--workers", "1"]
            ran = subprocess.run([sys.executable, "-c", _PEAK, *words], capture_output=True, text=True, check=True)
            peaks.append(int(ran.stdout))
    case = "1,000,000 short rows, parquet"
    yield Row("memory of a run", case, peaks[1] / 1024, "MiB")
    yield Row("memory of a run", "times that of 100,000 rows", peaks[1] / peaks[0], "×", 1.1)


_PEAK: Final = """
import resource, sys
from unspool.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""


def _best(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of processor time: the fastest of several runs."""
    quickest = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        quickest = min(quickest, time.process_time() - start)
    return quickest
