"""The modules of the reader and the lists of ``words.json`` name each other."""

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import unspool.engines.builtin
from unspool.engines.builtin.reader import words

FOLDER = Path(unspool.engines.builtin.__file__).parent
LISTS = json.loads((FOLDER / "reader" / "words.json").read_text(encoding="utf-8"))


@cache
def trees() -> dict[str, ast.Module]:
    return {p.name: ast.parse(p.read_text(encoding="utf-8")) for p in sorted(FOLDER.rglob("*.py"))}


def keys() -> Iterator[tuple[str, str, str]]:
    """The keys that code takes from a dict, which has a name of its own: the place, the name, the key."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                    yield f"{path}:{node.lineno}", name, key


def test_every_list_that_the_reader_names_exists() -> None:
    tables = {name: table for name, table in vars(words).items() if name.isupper() and isinstance(table, dict)}
    tables["_DATA"] = LISTS
    assert [f"{place}: {name}[{key!r}]" for place, name, key in keys() if key not in tables.get(name, {key})] == []
    assert len({key for _, name, key in keys() if name == "SETS"}) > 100


def test_every_list_is_used() -> None:
    used = {(name, key) for _, name, key in keys()}
    assert [key for key in LISTS if ("_DATA", key) not in used] == []
    named = {key for name, key in used if name == "SETS"} | set(LISTS["wanted"].values())
    assert sorted(LISTS["sets"].keys() - named) == []


def test_a_question_asks_for_a_set_that_exists() -> None:
    assert set(LISTS["wanted"].values()) <= LISTS["sets"].keys()


def test_every_table_of_words_is_used() -> None:
    read = {
        n.id for t in trees().values() for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    tables = [name for name in vars(words) if name.isupper() or name.strip("_").isupper()]
    assert [name for name in tables if name not in read] == []
    assert len(tables) > 50
