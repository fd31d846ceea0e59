"""The machine follows its table, and consists of small parts that depend on each other in one direction."""

import ast
import inspect
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import unspool.parser
from unspool import Notice, Parser, Policy
from unspool.check.trials import cases
from unspool.dialect.registry import list_dialects
from unspool.parser import machine
from unspool.parser.states import Standing, State
from unspool.parser.table import INSIDE, TABLE

from ..transitions import BY_STEPS, descriptions, drawing, recorded

SOURCE = Path(unspool.parser.__file__).parents[1]


def test_every_state_has_a_line_in_the_table_and_a_description() -> None:
    assert list(TABLE) == list(State)
    assert list(descriptions()) == list(State)
    assert all(why for row in TABLE.values() for why in row.leads_to.values())


@pytest.mark.parametrize(
    ("dialect", "broken", "closing"),
    [
        ("deepseekv31", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a" b', "<｜tool▁call▁end｜>"),
        ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a\nx", "</function>"),
    ],
)
def test_a_broken_call_is_recovered_up_to_its_closing_marker_which_close_takes(
    dialect: str, broken: str, closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[State, str, int, int]] = []

    def step(owner: Any) -> bool:
        state, start = owner._at.state, owner._tape.here
        going: bool = steps[state](owner)
        taken.append((state, TABLE[state].step.__qualname__, start, owner._tape.here))
        return going

    steps = machine.STEPS
    monkeypatch.setattr(machine, "STEPS", (step,) * len(steps))
    Parser(dialect).feed(broken + closing + "x")
    end = len(broken + closing)
    recovered = [(name, there) for state, name, _, there in taken if state is State.RECOVER]
    assert recovered[-1] == ("Calls.recover", len(broken))
    assert [name for _, name, start, there in taken if start < end <= there] == ["Calls.close"]


def test_every_state_can_be_reached_and_left() -> None:
    reached = {to for _, to in BY_STEPS} | {State.EDGE, State.UNDECIDED}
    assert reached == set(State)
    assert {state for state, _ in BY_STEPS} == set(State)


def test_a_change_that_the_table_lacks_is_found() -> None:
    with recorded(), pytest.raises(AssertionError, match="EDGE → RECOVER from outside is not in the table"):
        Standing().state = State.RECOVER


def test_a_step_may_not_change_the_state_as_only_the_outside_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STEPS", (lambda at: setattr(at, "state", State.UNDECIDED),))
    with recorded(), pytest.raises(AssertionError, match="EDGE → UNDECIDED in a step is not in the table"):
        machine.STEPS[State.EDGE](Standing())


def test_the_picture_shows_every_change() -> None:
    drawn = drawing()
    for state, to in BY_STEPS:
        entered = to in INSIDE and state not in INSIDE
        edge = f'"{state.name}" -> "{INSIDE[0].name}" [lhead' if entered else f'"{state.name}" -> "{to.name}"\n'
        assert edge in drawn


def test_no_property_changes_what_it_belongs_to() -> None:
    # A value that is kept after its first use is a `cached_property`.
    asked = 0
    for path in sorted((*(SOURCE / "parser").rglob("*.py"), *(SOURCE / "dialect").glob("*.py"), *SOURCE.glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else ()
            if any(isinstance(d, ast.Name) and d.id == "property" for d in decorators):
                asked += 1
                for one in ast.walk(node):
                    if isinstance(one, ast.Attribute | ast.Subscript):
                        assert isinstance(one.ctx, ast.Load), f"{path.name}:{one.lineno}: {ast.unparse(one)}"
    assert asked > 20


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a module. Skipping the expressions in them saves most of the time."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, field, ()):
            yield node
            yield from statements(node)


def imports(path: Path, name: str) -> set[str]:
    """The modules of unspool that a module imports, at any place in it."""
    found: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            target = f"{base}.{node.module}" if node.module else base
            found |= {f"{target}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


PATHS = {
    ".".join(("unspool", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


@cache
def graph_of_imports() -> dict[str, set[str]]:
    """The imports of each module: modules, or modules of packages."""
    graph = {}
    for name, path in PATHS.items():
        found = {m if m in PATHS else m.rpartition(".")[0] for m in imports(path, name)}
        graph[name] = {m for m in found if m in PATHS and m != name}
    return graph


def test_imports_are_acyclic_even_those_for_types() -> None:
    graph = graph_of_imports()
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " → ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())
    assert len(done) > 200


def below(graph: dict[str, set[str]], name: str) -> set[str]:
    """The modules that a module imports, directly or indirectly."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        waiting += (more := graph[waiting.pop()] - found)
        found |= more
    return found


@pytest.mark.slow
def test_a_chunk_goes_down_through_the_modules_and_does_not_come_back_up() -> None:
    names = {str(path): name for name, path in PATHS.items()}
    calls: set[tuple[str, str]] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        before = frame.f_back
        if event == "call" and before is not None and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            here, there = names.get(before.f_code.co_filename), names.get(frame.f_code.co_filename)
            if here and there and here != there:
                calls.add((here, there))

    for case in random.Random(1).sample(cases(list_dialects()), 40):
        broken = case.raw[: 2 * len(case.raw) // 3] + '}"' + case.raw
        for text, policy in ((case.raw, None), (broken, Policy(bad_arguments="text", markers_in_strings="end"))):
            parser = Parser(case.dialect, tools=case.tools, stage=case.example.stage, policy=policy)
            sys.setprofile(called)
            try:
                for at in range(0, len(text), 5):
                    parser.feed(text[at : at + 5])
                parser.close()
            finally:
                sys.setprofile(None)
    graph = graph_of_imports()
    known = {name: below(graph, name) for name, _ in calls}
    assert [call for call in sorted(calls) if call[1] not in known[call[0]]] == []
    assert len(calls) > 100


def test_a_broken_call_that_is_held_beyond_the_cap_is_released_and_read_on() -> None:
    # Once the hold is released, there is no hold left to ask about.
    text = "<|channel|>analysis to=functions.get_weather code<|message|>{" + "a" * 70_000
    parser = Parser("harmony", policy=Policy(bad_arguments="text"))
    events = [*parser.feed(text), *parser.close()]
    assert "hold_overflow" in {e.kind for e in events if isinstance(e, Notice)}
    assert events[-1].end == len(text)
