"""Threads that read concurrently: `make free-threaded PYTHON=python3.14t`, on an interpreter without a global lock.

The threads share objects that are new: dialects, toolsets, a tokenizer and formats of conversations. Each thread reads
everything in its own order, and must get the results of a single thread. Finally, `unspool.batch` with two threads is
compared with one thread.
"""

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from tokenizers import Tokenizer

from unspool import Dialect, Parser, constrain, detect_dialect, list_dialects, render
from unspool.batch import parse_many
from unspool.check.trials import Trial, cases, number, random_split, same
from unspool.rl import Conversation
from unspool.toolset import Toolset, read_toolset

from ..tokenizer import byte_level
from .rows import output, row

_TEMPLATE = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_FORMATS = 20
"""How many templates of conversations there are: more than the cache of formats holds."""


class Shared(NamedTuple):
    """The new objects that all threads use."""

    cases: list[Trial]
    tools: dict[str, Toolset]
    tokenizer: Tokenizer
    mark: str
    """A text in templates that makes their formats new."""


def fresh(of: int, turn: int) -> Shared:
    """Every ``of``-th shipped dialect, as if it had just been loaded, with its outputs."""
    dialects = [msgspec.structs.replace(d) for d in list_dialects()[turn % of :: of]]
    tools = {d.name: read_toolset(case.tools) for d in dialects for case in islice(cases([d]), 1)}
    tokenizer = byte_level(special=("<|im_start|>", "<|im_end|>"), normalized=True)
    return Shared(cases(dialects), tools, tokenizer, f"{turn} of {of}")


def readings(shared: Shared, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What a thread reads, by name. The seed decides how texts are cut."""
    rng = random.Random(seed)
    for case in shared.cases:
        yield f"{case}", partial(_text, case, shared.tools[case.dialect.name], rng)
        yield f"{case} by ids", partial(_ids, case, shared)
    for dialect in {case.dialect.name: case.dialect for case in shared.cases}.values():
        yield f"{dialect.name} written", partial(_written, dialect, shared.tools[dialect.name])
    yield "detection", partial(detect_dialect, output=[output(1), output(2)])
    for i in range(_FORMATS):
        yield f"conversation {i}", partial(_conversation, shared, i)


def _text(case: Trial, tools: Toolset, rng: random.Random) -> Any:
    parser = Parser(case.dialect, tools=tools, stage=case.example.stage, ids=number)
    for chunk in random_split(case.raw, rng):
        parser.feed(chunk)
    parser.close()
    return same(parser.message)


def _ids(case: Trial, shared: Shared) -> Any:
    ids = shared.tokenizer.encode(case.raw, add_special_tokens=False).ids
    tools = shared.tools[case.dialect.name]
    parser = Parser(case.dialect, tools=tools, stage=case.example.stage, ids=number, tokenizer=shared.tokenizer)
    parser.feed_tokens(ids)
    parser.close()
    return same(parser.message)


def _written(dialect: Dialect, tools: Toolset) -> Any:
    actual = constrain(dialect, tools, "auto")
    return render({"role": "assistant", "content": "Hello."}, dialect), actual is None or actual.lark


def _conversation(shared: Shared, i: int) -> Any:
    template = f"{{# {shared.mark}: {i} #}}{_TEMPLATE}"
    asked = [{"role": "user", "content": f"{i}?"}]
    conversation = Conversation("hermes", shared.tokenizer, template=template, messages=asked)
    conversation.extend(shared.tokenizer.encode("Hi.<|im_end|>", add_special_tokens=False).ids)
    conversation.add(asked)
    return conversation.ids.tolist(), conversation.kinds.tolist()


def everything(shared: Shared, seed: int, begin: threading.Barrier | None = None) -> dict[str, Any]:
    """Read everything in an order that depends on the seed, once all threads have started."""
    work = list(readings(shared, seed))
    if begin is not None:
        random.Random(seed).shuffle(work)
        begin.wait(60)
    return {name: read() for name, read in work}


def race(threads: int, of: int, turn: int = 0) -> int:
    """Count the readings, which must be the same in all threads as in a single one.

    Args:
        threads: the number of threads.
        of: every ``of``-th dialect is read.
        turn: the first dialect that is read.

    Raises:
        AssertionError: a reading differs.
    """
    shared, begin = fresh(of, turn), threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        actual = [pool.submit(everything, shared, seed, begin) for seed in range(threads)]
        found = [one.result() for one in actual]
    alone = everything(fresh(of, turn), 0)
    for one in found:
        assert one.keys() == alone.keys()
        differ = [name for name in alone if one[name] != alone[name]]
        assert not differ, f"differ from what one thread reads: {', '.join(differ[:5])}"
    return len(alone) * threads


def one_memory(threads: int, times: int) -> None:
    """Assert that objects derived from a dialect are cached in one place, whichever thread asks first.

    Raises:
        AssertionError: two threads got different objects.
    """
    shared = list_dialects()[0]
    begin = threading.Barrier(threads)

    def asked(dialects: list[Dialect]) -> list[int]:
        found = []
        for dialect in dialects:
            begin.wait(60)
            found.append(id(dialect.compiled))
        return found

    dialects = [msgspec.structs.replace(shared) for _ in range(times)]
    with ThreadPoolExecutor(threads) as pool:
        first, *others = [one.result() for one in [pool.submit(asked, dialects) for _ in range(threads)]]
    assert all(other == first for other in others)


def _seconds(workers: int, rows: list[dict[str, Any]]) -> tuple[float, list[dict[str, Any]]]:
    began = time.perf_counter()
    found = list(parse_many(rows, "hermes", workers=workers))
    return time.perf_counter() - began, found


def _faster(count: int) -> float:
    """How much faster two threads are than one, in the best of three rounds."""
    rows = [row(i) for i in range(count)]
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(3):
        for workers in best:
            took, found = _seconds(workers, rows)
            best[workers] = min(best[workers], took)
            assert [one["key"] for one in found] == list(range(count))
    print(f"{count:,} rows: one thread {best[1]:.1f} s, two {best[2]:.1f} s, {best[1] / best[2]:.2f} times as fast")
    return best[1] / best[2]


def _locked() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def main() -> int:
    """Run the checks and measure; return the exit code, which is 2 if the interpreter has a global lock."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--threads", type=int, default=8)
    p.add_argument("--rows", type=int, default=20_000)
    options = p.parse_args()
    if _locked():
        print("this interpreter has a global lock; PYTHON=python3.14t names one without", file=sys.stderr)
        return 2
    one_memory(options.threads, 2_000)
    done = 0
    for turn in range(options.rounds):
        done += race(options.threads, 8, turn)
    print(f"{done:,} readings by {options.threads} threads in {options.rounds} rounds: none differs")
    _faster(options.rows)
    return 1 if _locked() else 0  # a package may have turned the lock on


if __name__ == "__main__":
    sys.exit(main())
