"""What streams besides strings: content, reasoning, nested and numeric arguments; small chunks and many tools."""

from collections.abc import Iterator

from .effort import Effort
from .samples import content_sample, nested_sample, number_sample, reasoning_sample, string_sample
from .strings import CHUNK, feeding
from .table import Row, ranked
from .texts import HUNDRED_TOOLS


def kinds(effort: Effort) -> Iterator[Row]:
    """feed() per chunk of four characters in other text; nothing is promised."""
    dialects = effort.dialects()
    thinking = [d for d in dialects if d.reasoning]
    rounds = max(5, effort.rounds // 5)
    for kind, sample, some in (
        ("content", content_sample, dialects),
        ("reasoning", reasoning_sample, thinking),
    ):
        found = [(feeding(sample(d), CHUNK, rounds), d) for d in some]
        yield from ranked("other text, 4 characters a chunk", found, "× bare", of=kind)
    for kind, sample in (("nested arguments", nested_sample), ("numeric arguments", number_sample)):
        found = [(feeding(sample(d), CHUNK, rounds, closing=True), d) for d in dialects]
        yield from ranked("other text, 4 characters a chunk", found, "× bare", of=kind)
    found = [(feeding(string_sample(d), CHUNK, rounds, tools=HUNDRED_TOOLS), d) for d in dialects]
    yield from ranked("string argument, 4 characters a chunk", found, "× bare", of="100 tools")
    found = [(feeding(string_sample(d), 1, rounds), d) for d in dialects]
    yield from ranked("string argument, 1 character a chunk", found, "× bare")
