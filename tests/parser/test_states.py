"""The machine follows its table."""

from typing import Any

import pytest

from unspool import Notice, Parser, Policy
from unspool.parser import machine
from unspool.parser.states import State
from unspool.parser.table import INSIDE, TABLE

from ..transitions import BY_STEPS, descriptions, drawing


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
        state, start = owner._parts.state, owner._tape.here
        going: bool = steps[state](owner)
        taken.append((state, TABLE[state].step.__qualname__, start, owner._tape.here))
        return going

    steps = machine.STEPS
    monkeypatch.setattr(machine, "STEPS", (step,) * len(steps))
    Parser(dialect).feed(broken + closing + "x")
    end = len(broken + closing)
    recovered = [(name, there) for state, name, _, there in taken if state is State.RECOVER]
    assert recovered[-1] == ("Calls.inside", len(broken))
    assert [name for _, name, start, there in taken if start < end <= there] == ["Calls.close"]


def test_every_state_can_be_reached_and_left() -> None:
    reached = {to for _, to in BY_STEPS} | {State.EDGE, State.UNDECIDED}
    assert reached == set(State)
    assert {state for state, _ in BY_STEPS} == set(State)


def test_the_picture_shows_every_change() -> None:
    drawn = drawing()
    for state, to in BY_STEPS:
        entered = to in INSIDE and state not in INSIDE
        edge = f'"{state.name}" -> "{INSIDE[0].name}" [lhead' if entered else f'"{state.name}" -> "{to.name}"\n'
        assert edge in drawn


def test_a_broken_call_that_is_held_beyond_the_cap_is_released_and_read_on() -> None:
    # Once the hold is released, there is no hold left to ask about.
    text = "<|channel|>analysis to=functions.get_weather code<|message|>{" + "a" * 70_000
    parser = Parser("harmony", policy=Policy(bad_arguments="text"))
    events = [*parser.feed(text), *parser.close()]
    assert "hold_overflow" in {e.kind for e in events if isinstance(e, Notice)}
    assert events[-1].end == len(text)
