"""The memory of literals changes only the time, whether it is warm, cold or too small, in one thread or in many."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import pieces, run, tool
from unspool import Message, Parser, Policy, Stage
from unspool.parser.readers import memory as module

TOOLS = [tool("f")]
BODIES = [
    json.dumps({"a": [1, -2.5, 1e20, {"b": None, "c": [True, {}]}], "d": {"e": "x", "f": "\\n\u00e9"}, "g": 0}),
    '{"a": 1, "a": 2, "b": {"a": 1, "c": 2, "c": 3}}',
    '{"a": 1e308, "b": 1e309}',
    '{"a": 12345678901234567890, "b": ' + "9" * 320 + ".5}",
    '{"a": [1e300, 2e300], "b": [' + "1" * 298 + ", " + "1" * 310 + 'e300, 1], "c": 2}',
    '{"key": tru, "b": 1}',
    '{"a\\u0062": 1, "ab": 2}',
    '{"a": [1,2 ,3 , 4], "b" : "c" , "d":{"e":{}}}',
]
PYTHON = [
    "a=[1, -2.5, 3e20, {'b': None, 'c': [True, {}, (), (1, 2)]}], d={'e': 'x', 'f': '\\n\u00e9'}, g=0",
    "a=1, a=2, b={'a': 1, 'c': 2, 'c': {'d': [3]}}, e={'c': 1}",
    "a={'k': 1e308}, b={'k': 1e309}",
    "a=12345678901234567890, b=" + "9" * 320 + ".5",
    "a={'key': Tru}, b=1",
    "a=('x'), b=[('x', 1), (({'y': ('z' 'z')})), (0x1F,)], c=((), 0b2)",
    """a={"it's": 1, 'say "hi"': '\\'', r'k\\': r'\\d', \'\'\'t\'\'\': 'b\\x41c'}""",
    "a = [1,2 ,3 , 4] , b= 'c' , d={'e':{} , }",
    f"a=[{'{'}'{'k' * 50}': 1{'}'}], {'b' * 50}={' ' * 5000}1, c={' ' * 5000}'d'",
    "a=[{1, 2}, {'b', 'c'}, {'d': {'e'}}], f=[007, 1_000, .5, 5.], g={'h': 1,}",
]
QUOTED = [
    '{a:[1,-2.5,3e20,{b:null,c:[true,{}]}],d:{e:<|"|>x<|"|>,<|"|>f g<|"|>:<|"|>"y"<|<|"|>},h:0}',
    "{a:1,a:2,b:{a:1,c:2,c:3}}",
    '{key : tru,b:<|"|><|"|>}',
]
REPAIRED = [
    '{\'a\': [1, 2,], "b": {True, False}, c: None , "d": {"e": {}, "e": 1}, "f":\u00a0.5}',
    '{"a": [{"b": {"c": 1} , "d": [1,\n 2]}, {"b": "x", "d": \'y\'}], "b": undefined}',
]
WRITTEN = [
    *(("hermes", None, body) for body in BODIES),
    *(("pythonic", None, body) for body in PYTHON),
    *(("pythonic", "repair", body) for body in PYTHON),
    *(("gemma4", None, body) for body in QUOTED),
    *(("hermes", "repair", body) for body in [*BODIES, *REPAIRED]),
]
ENVELOPES = {
    "hermes": '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>',
    "pythonic": "[f({})]",
    "gemma4": "<|tool_call>call:f{}<tool_call|>",
}


def answer(body: str, size: int, dialect: str = "hermes", bad: Any = None) -> tuple[Message, list[Any]]:
    """The message, and the events of each piece."""
    text = ENVELOPES[dialect].format(body)
    policy = None if bad is None else Policy(bad_arguments=bad)
    parser = Parser(dialect, tools=TOOLS, stage=Stage.CONTENT, policy=policy, ids=lambda index, name: f"{name}-{index}")
    events: list[Any] = [parser.feed(piece) for piece in pieces(text, size)]
    parser.close()
    return parser.message, events


def described(message: Message) -> Any:
    """What does not depend on the cuts between pieces."""
    return [(c.name, c.arguments, c.status) for c in message.tool_calls], {(n.kind, n.detail) for n in message.notices}


@pytest.mark.parametrize(
    ("dialect", "bad", "raw"),
    [
        ("pythonic", None, "[f(a=1, Hello<b"),
        ("pythonic", None, "[f(a={'k': [1, 2]}, b"),
        ("gemma4", None, '<|tool_call>call:f{a:<|"|>x<|"|>,b c d'),
        ("hermes", "repair", '<tool_call>\n{"name": "f", "arguments": {"a": True, b: [1 2'),
        ("hermes", None, '<tool_call>\n{"name": "f", "arguments": {"a": {"b": tru, 1'),
        ("pythonic", None, '[f(s=\'a "b" \tc\n d é\x01 e'),
        ("qwen3-coder", None, '<tool_call>\n<function=f>\n<parameter=s>\na "b" \tc\n d é\x01 e'),
    ],
)
def test_a_broken_call_keeps_its_raw_text_however_it_is_cut(dialect: str, bad: Any, raw: str) -> None:
    policy = None if bad is None else Policy(bad_arguments=bad)
    for size in (1, 1, 3, 100):
        message, _ = run(
            dialect, pieces(raw, size), tools=TOOLS, stage=Stage.CONTENT, policy=policy, finish_reason="length"
        )
        (call,) = message.tool_calls
        assert call.raw == raw


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Empties the memory."""

    def empty(most: int = 20_000) -> None:
        monkeypatch.setattr(module, "_MOST_STEPS", most)
        module.memory._forget()

    return empty


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("dialect", "bad", "body"), WRITTEN)
def test_a_recalled_piece_gives_the_events_of_a_new_one(dialect: str, bad: Any, body: str, cold: Any) -> None:
    whole = answer(body, 20_000, dialect, bad)[0]
    for size in (1, 3, 4, 7):
        cold()
        first = answer(body, size, dialect, bad)
        for other in WRITTEN:
            if other[:2] == (dialect, bad):
                answer(other[2], size, dialect, bad)
        assert answer(body, size, dialect, bad) == first
        assert described(first[0]) == described(whole)


def test_a_memory_that_always_forgets_gives_the_same_events(cold: Any) -> None:
    cold()
    expected = [answer(body, size, dialect, bad) for dialect, bad, body in WRITTEN for size in (1, 3, 4)]
    cold(most=2)
    assert [answer(body, size, dialect, bad) for dialect, bad, body in WRITTEN for size in (1, 3, 4)] == expected


def test_pieces_of_every_syntax_are_recalled(cold: Any) -> None:
    for dialect, body in (("hermes", BODIES[0]), ("pythonic", PYTHON[0]), ("gemma4", QUOTED[0])):
        cold()
        answer(body, 4, dialect)
        steps = module.memory._steps
        answer(body, 4, dialect)
        assert module.memory._steps == steps > 10


def test_the_memory_of_steps_is_bounded(cold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cold(most=500)
    monkeypatch.setattr(module, "_MOST_SPOTS", 700)
    rng = random.Random(1)
    for _ in range(40):
        nested: Any = rng.random()
        for _ in range(rng.randint(1, 30)):
            nested = [nested] if rng.random() < 0.5 else {str(rng.random()): nested}
        answer(json.dumps({"a": nested}), 3)
        answer(f"{rng.choice('abc') * rng.randint(1, 9)}{rng.randrange(999)}={nested!r}", 3, "pythonic")
        assert sum(map(len, module.memory._spots.values())) <= 500
        assert len(module.memory._spots) <= 700


def test_threads_share_the_memory_of_steps(cold: Any) -> None:
    cold()
    expected = [answer(body, 4) for body in BODIES]
    cold(most=20)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [answer(body, 4) for body in BODIES], range(40)):
            assert found == expected
