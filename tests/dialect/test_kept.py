"""What is kept of dialect files from strangers is small, however many there are."""

import gc
import tracemalloc

from unspool import Parser
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base


def compiled(key: str, number: int) -> None:
    """Read a file whose key lists as much as it may, and compile it."""
    listed = ", ".join(f"'<{number}{'x' * 470}{i}>'" for i in range(60))
    example = "[[examples]]\nraw = '<t>a</t>b'\nreasoning = 'a'\ncontent = 'b'\n"
    toml = f"name = 'a'\nreasoning = '<t>{{reasoning}}</t>'\n{key} = [{listed}]\n{example}"
    Parser(parse_dialect(toml, "a.toml", find_base)).close("stop")


def test_files_with_many_long_texts_leave_little_behind() -> None:
    for key in ("start", "end"):
        compiled(key, 0)
        gc.collect()
        tracemalloc.start()
        for number in range(1, 11):
            compiled(key, number)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert kept < 20 * 1024 * 1024, key
