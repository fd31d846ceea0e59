"""Dialects are data: no module knows a family's name or one of its markers."""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import unspool

from .support import DIALECTS, literals

SOURCE = Path(unspool.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
CORE = [
    m for m in MODULES if m.relative_to(SOURCE).parts[0] in ("parser", "dialect", "renderer", "message.py", "events.py")
]

SCHEMA_WORDS = {"json", "python", "think", "openai"}
"""Names that are also words of the schema, of Python, or of a protocol."""
SCHEMA_MARKERS = {"json", "python", "name", "arguments", "function"}
NAMES = {name.lower() for d in DIALECTS for name in d.names} - SCHEMA_WORDS
_TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_/]+\]")
WHOLE = {t for d in DIALECTS for t in literals(d) if any(c.isalpha() for c in t) and not t.isalpha()} - SCHEMA_MARKERS
MARKERS = WHOLE | {tag for t in WHOLE for tag in _TAG.findall(t) if any(c.isalpha() for c in tag)}
_WORD = re.compile(r"[\w.+-]*\w")


TESTS = Path(__file__).parent
ACROSS = {
    "agui_node", "attacks", "benchmarks", "clients", "deploy", "docs", "engines/conformance", "models", "examples",
    "fuzz", "harness", "hygiene", "invariants", "languages", "limits", "misuse", "readme", "site", "templates", "traps",
    "ui",
}  # fmt: skip
"""Tests that belong to no single module: of promises, of everything together, or of files beside the package."""


def test_the_tests_mirror_the_sources() -> None:
    sources = {p.relative_to(SOURCE).with_suffix("") for p in MODULES}
    packages = {p.parent for p in sources if p.name == "__init__"} - {Path()}
    files = {Path(p.stem.removeprefix("test_")) for p in TESTS.glob("test_*.py")}
    folders = {p.parent.relative_to(TESTS) for p in TESTS.glob("*/**/test_*.py")}
    assert {str(p) for p in (files - sources) | (folders - packages - sources)} == ACROSS
    assert {p for p in packages if len(p.parts) == 1} - folders == set()


ROLES = {"Limits", "Printer", "ReasoningHalf", "ToolHalf"}
"""Classes that are the same for different things: servers and templates, engines, grammars."""


def test_each_class_has_a_name_of_its_own() -> None:
    parsed = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    classes = (node for module in parsed for node in ast.walk(module) if isinstance(node, ast.ClassDef))
    names = Counter(node.name.lstrip("_") for node in classes)
    assert {name for name, times in names.items() if times > 1} == ROLES


def test_the_target_of_a_mark_names_the_folder_of_each_test_that_has_it() -> None:
    root = TESTS.parent
    targets = (root / "Makefile").read_text(encoding="utf-8").splitlines()
    options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    hidden = set(re.findall(r"not (\w+)", options["addopts"]))
    assert hidden >= {"local", "processes", "clients"}
    for path in TESTS.rglob("*.py"):
        for mark in hidden & set(re.findall(r"pytest\.mark\.(\w+)", path.read_text(encoding="utf-8"))):
            commands = [line for line in targets if re.search(rf"-m '?{mark}\b", line)]
            named = [root / name for line in commands for name in re.findall(r" (tests[\w/.]*)", line)]
            assert {path, *path.parents} & set(named), (mark, path)


@cache
def texts(path: Path) -> list[tuple[int, str]]:
    """The string literals of a module that are not docstrings, and their lines."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    said = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    return [
        (n.lineno, n.value)
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in said
    ]


def test_no_module_contains_the_name_of_a_dialect() -> None:
    found = [(p, n, w) for p in MODULES for n, text in texts(p) for w in _WORD.findall(text.lower()) if w in NAMES]
    assert found == []


def test_no_module_contains_a_marker_with_a_letter() -> None:
    any_marker = re.compile("|".join(map(re.escape, MARKERS)))
    found = [(p, line, m) for p in MODULES for line, text in texts(p) for m in any_marker.findall(text)]
    assert found == []


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_identifier_of_the_core_is_named_after_a_dialect(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
    }
    parts = {part for name in names for part in name.lower().split("_")} | {n.lower() for n in names}
    assert parts & {n for n in NAMES if len(n) > 3} <= {"openai"}, "`to_openai` is the name of a protocol"


def test_the_lists_of_modules_names_and_markers_are_not_empty() -> None:
    assert len(MODULES) > 10
    assert {"hermes", "qwen3-coder", "deepseek_v3"} <= NAMES
    assert {"<tool_call>", "[TOOL_CALLS]", "<|channel|>"} <= MARKERS


def test_no_regex_of_the_core_can_backtrack_over_text_without_bound() -> None:
    # Backtracking explodes if two quantifiers over the same characters are adjacent.
    for path in CORE:
        for line, text in texts(path):
            assert not re.search(r"\.\*(?![+?]).*\.\*", text), f"{path.name}:{line}: {text!r}"


@pytest.mark.parametrize(
    "word", [
        "eval(", "exec(", "literal_eval", "import socket", "import threading", "import logging", "import asyncio",
        "time.time",
    ],
)  # fmt: skip
def test_the_core_evaluates_nothing_and_does_no_input_or_output(word: str) -> None:
    for path in CORE:
        assert word not in path.read_text(encoding="utf-8"), path


def test_the_list_of_packages_for_contributors_is_that_of_the_layers() -> None:
    root = Path(__file__).parents[1]
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    *packages, modules = contracts[0]["layers"]
    layers = [name for layer in packages for name in layer.split(" | ")]
    table = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| package |")[2].partition("\n\n")[0]
    assert re.findall(r"`unspool\.(\w+)`", table)[: len(layers)] == layers
    assert modules.split(" : ") == sorted(p.stem for p in SOURCE.glob("[!_]*.py"))
