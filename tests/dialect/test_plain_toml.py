"""`read_plain` reads shipped files as `tomllib` does, and leaves everything doubtful to it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from unspool.dialect.plain_toml import MoreThanPlain, read_plain

PIECES = [
    *("a", "b", "a.b", "b.c", "[a]", "[b]", "[[a]]", "[a.b]", " = ", "=", "[", "]", ","),
    *("\n", " ", "\t", "\r", "#", "# note\n", "{}", "true", "3", "é", "\x7f", "\u3000"),
    *('"x"', '""', '"\\n"', '"\\""', '"\\/"', '"\\u0041"', '"\\ud800"', '"""y"""', '"'),
    *("'z'", "''", "'\\'", "'''\nw'''", "''''", "'"),
    *("a = 'x'\n", "b.c = ['x', \"y\"]\n", "\n[c]\n", "\n\"a.b\" = 'x'\n"),
]


SHIPPED = Path(unspool.__file__).parent / "dialects"


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_file_is_plain_toml(path: Path) -> None:
    head = path.read_text(encoding="utf-8").split("\n[[examples]]", 1)[0]
    assert read_plain(head) == tomllib.loads(head)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@settings(max_examples=200)
def test_plain_toml_is_read_as_tomllib_reads_it(text: str) -> None:
    try:
        found = read_plain(text)
    except MoreThanPlain:
        return
    assert found == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    ["a = 3", "a = {}", "a", "a = 'x' b = 'y'", "a = 'x'\na = 'y'", "a = 'x'\na.b = 'y'", "[[a]]", "[a", 'a = "x'],
)
def test_other_toml_is_left_to_tomllib(text: str) -> None:
    with pytest.raises(MoreThanPlain):
        read_plain(text)


def test_a_shipped_dialect_needs_no_tomllib() -> None:
    code = "import sys, unspool; unspool.Parser('hermes').feed('Hello'); print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "False"
