"""Limits: what is held and for how long, and that work grows linearly with the text (invariants 5 and 6)."""

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from unspool import ContentDelta, Dialect, Parser, Policy, get_dialect
from unspool.dialect.compiling import compile_plan
from unspool.dialect.markers import literals_of
from unspool.dialect.patterns import Pattern
from unspool.policy import CHOICES

from .support import (
    CALLING,
    DIALECTS,
    THINKING,
    TOOLS,
    cases,
    dialect_of,
    literals,
    named,
    notices,
    number,
    pieces,
    run,
    same,
    tool,
    tools_of,
)
from .writing import around_reasoning, write_calls, write_reasoning

CAP = 65_536


# -- 5. hold back only what must be ------------------------------------------------------------------------------------

SENTENCE = "It was a warm day, and 3 cats sat there. "


def pending(parser: Parser, chunks: Sequence[str]) -> int:
    """Feed chunks, and return the most characters that waited after any of them."""
    fed = emitted = most = 0
    for chunk in chunks:
        fed += len(chunk)
        events = parser.feed(chunk)
        if events:
            emitted = events[-1].end
        most = max(most, fed - emitted)
    return most


@pytest.mark.parametrize(**named(DIALECTS))
def test_plain_words_of_content_go_out_at_once(dialect: Dialect) -> None:
    for tools in (None, TOOLS):
        parser = Parser(dialect, stage="content", tools=tools)
        parser.feed("Well then: ")  # a single word might be a header
        out = ""
        for word in (SENTENCE * 3).split(" "):
            events = parser.feed(f"{word} ")
            out += "".join(e.text for e in events if isinstance(e, ContentDelta))
            assert out.rstrip().endswith(word), f"{word!r} is held back"


@pytest.mark.parametrize(**named(THINKING))
def test_plain_words_of_reasoning_go_out_at_once(dialect: Dialect) -> None:
    parser = Parser(dialect, stage="reasoning")
    for word in (SENTENCE * 3).split(" "):
        parser.feed(f"{word} ")
        assert parser.message.reasoning.rstrip().endswith(word), f"{word!r} is held back"


@pytest.mark.parametrize(**named(CALLING))
def test_string_arguments_stream_as_they_arrive(dialect: Dialect) -> None:
    head, tail = write_calls(dialect, [("f", {"a": "⌖"})]).split("⌖")
    parser = Parser(dialect, tools=TOOLS)
    parser.feed(head)
    for word in (SENTENCE * 3).split(" "):
        parser.feed(f"{word} ")
        assert parser.message.tool_calls[0].arguments.rstrip().endswith(word), f"{word!r} is held back"
    parser.feed(tail)
    parser.close()
    assert json.loads(parser.message.tool_calls[0].arguments) == {"a": SENTENCE * 3 + " "}


ENDLESS = [
    " ", "\n", "<", "</", "{", "[", "<|", '"', "\\", "a", "1", "a ", "'", "`", ",", "(", "\n<", '{"', "]]", "e\n",
]  # fmt: skip


def endless(dialect: Dialect) -> list[tuple[str, str]]:
    """Beginnings of texts, each with text that repeats endlessly after it."""
    heads = [""]
    if dialect.reasoning:
        heads.append(around_reasoning(dialect)[0])
    if dialect.call:
        call = write_calls(dialect, [("f", {"a": "MARK"})])
        at = call.index("MARK")
        heads += [call[:at], call[: call.index("f", call.index("f") and 0) + 1]]
        heads += [call[: at // 2], call[: at - 1], call[: at + 4]]
    return [(head, tail) for head in dict.fromkeys(heads) for tail in ENDLESS]


@pytest.mark.parametrize(**named(DIALECTS))
def test_no_endless_text_is_held_back_beyond_the_cap(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    size = CAP + 20_000
    everything = endless(dialect)
    for head, tail in rng.sample(everything, min(6, len(everything))):
        text = head + tail * (size // len(tail))
        chunks = pieces(text, 4000)
        parser = Parser(dialect, stage=rng.choice((None, None, "content", "undecided")))
        assert pending(parser, chunks) <= CAP + 8000, (head, tail)
        parser.close()


@pytest.mark.parametrize(**named(DIALECTS))
def test_no_white_space_is_held_beyond_the_cap_wherever_an_output_stops(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for case in rng.choices(cases([dialect]), k=12):
        for surplus in ("", rng.choice("])}")):
            head = case.raw[: rng.randint(0, len(case.raw))] + surplus
            parser = Parser(dialect, stage=case.example.stage, tools=tools_of(dialect), policy=random_policy(rng))
            assert pending(parser, [head, *[" " * 4000] * 22]) <= CAP + 8000, head
            parser.close()


@pytest.mark.parametrize(**named([d for d in DIALECTS if d.call]))
def test_no_white_space_after_surplus_brackets_of_a_call_is_held_beyond_the_cap(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"})])
    for head in (raw, raw[:-1], raw[: -len(raw) // 5]):
        for surplus in "])}":
            parser = Parser(dialect, tools=[tool("f", a="string")])
            assert pending(parser, [head + surplus, *[" " * 4000] * 22]) <= CAP + 8000, head + surplus


@pytest.mark.parametrize(
    ("name", "head", "unit"),
    [
        ("xlam", '[{"name"', " "),
        ("xlam", '<tool_call>{"type": "', "a"),
        ("mistral", '[TOOL_CALLS] [{"name": "now", "arguments": {}, "id": "a', "a"),
        ("kimi_k2", "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}", "\n"),
        ("deepseek", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}", " "),
        ("pythonic", "[now(", " "),
        ("gemma4", "<|tool_call>call:now{", " "),
        ("llama3", "{'name': 'now', 'parameters': {", "\n"),
    ],
)
def test_what_is_dropped_or_decides_nothing_goes_out_after_a_while(name: str, head: str, unit: str) -> None:
    for policy in (Policy(), Policy(bad_arguments="text"), Policy(bad_arguments="repair")):
        parser = Parser(name, tools=[tool("now")], policy=policy)
        assert pending(parser, [head, *[unit * 4000] * 22]) <= CAP + 8000, policy
        parser.close()


@pytest.mark.parametrize("chunk", [1000, 200_000])
def test_repair_drops_white_space_after_a_comma_beyond_the_cap(chunk: int) -> None:
    text = '<tool_call>{"name": "now", "arguments": {"a": 1,' + " " * 200_000 + '"b": 2, }}</tool_call>'
    parser = Parser("hermes", tools=[tool("now")], policy=Policy(bad_arguments="repair"))
    for piece in pieces(text, chunk):
        parser.feed(piece)
    parser.close()
    (call,) = parser.message.tool_calls
    assert json.loads(call.arguments) == {"a": 1, "b": 2}
    assert CAP <= len(call.arguments) < CAP + 100


RUNS = (" ", "\n", "\t\n", "a", "1", '"', "_", ",", "\\", "a ", "/", "=")
"""Texts that are repeated up to a limit."""


@pytest.mark.parametrize(**named(DIALECTS))
@pytest.mark.parametrize(("around", "count"), [((64, 256, 1024, 4096), 20), ((CAP,), 2)], ids=["short", "cap"])
def test_long_runs_mean_the_same_however_they_are_cut(dialect: Dialect, around: Sequence[int], count: int) -> None:
    rng = random.Random(dialect.name)
    for case in rng.choices(cases([dialect]), k=count):
        unit, size = rng.choice(RUNS), rng.choice(around) + rng.randint(-1, 2)
        at = rng.randint(0, len(case.raw))
        text = case.raw[:at] + (unit * size)[:size] + case.raw[at:]
        how: dict[str, Any] = {"stage": case.example.stage, "tools": tools_of(dialect), "policy": random_policy(rng)}
        whole, _ = run(dialect, [text], ids=number, **how)
        chunk = rng.choice((13, 97, 1000) if size < CAP // 2 else (1000, 7919, 60_000))
        cut, _ = run(dialect, pieces(text, chunk), ids=number, **how)
        assert same(cut) == same(whole), (case.raw[:at], unit, size, how["policy"])


FUNCTION = "<tool_call>\n<function=f>\n<parameter=a>\n", "\n</parameter>\n</function>\n</tool_call>"
NAMELESS = '<tool_call>{"x": "', '", "name": "now", "arguments": {}}</tool_call>'
NOW = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("name", "around", "value", "schema"),
    [
        ("qwen3-coder", FUNCTION, "1" * 70_000, {"type": "integer"}),
        ("qwen3-coder", FUNCTION, "null" + " " * 70_000, {"type": ["string", "null"]}),
        ("qwen3-coder", FUNCTION, "[" + "1," * 32_766 + "1]" + "z" * 99, {}),
        ("qwen3-coder", FUNCTION, "[" + "1," * 32_700 + "x" * 400, {}),
        ("hermes", NAMELESS, "x" * 66_000 + NOW, {}),
        ("hermes", NAMELESS, "x" * 65_400 + NOW * 5, {}),
        ("hermes", (NOW[:-14] + '"a": "', "}}</tool_call>"), "x" * 70_000 + '"', {}),
        ("hermes", ('<tool_call>{"name":', '"now", "arguments": {}}</tool_call>'), " " * 70_000, {}),
    ],
)
def test_what_lies_beyond_the_cap_decides_nothing_however_it_is_cut(
    name: str, around: tuple[str, str], value: str, schema: dict[str, Any]
) -> None:
    text = f"Sure. {around[0]}{value}{around[1]}"
    tools = [tool("now", a="string"), tool("f", a=schema)]
    for policy in (Policy(), Policy(bad_arguments="drop"), Policy(bad_arguments="text", text_before_tools="content")):
        whole, _ = run(name, [text], ids=number, tools=tools, policy=policy)
        for chunk in (100, 7919, CAP):
            cut, _ = run(name, pieces(text, chunk), ids=number, tools=tools, policy=policy)
            assert (same(cut), notices(cut)) == (same(whole), notices(whole)), (chunk, policy)


def random_policy(rng: random.Random) -> Policy:
    """A policy with up to three settings that are not the library's."""
    fields = rng.sample(sorted(CHOICES), rng.randint(0, 3))
    return Policy(**{field: rng.choice(CHOICES[field]) for field in fields})


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize(
    "policy", [Policy(bad_arguments="drop"), Policy(bad_arguments="text"), Policy(unclosed_reasoning="content")]
)
def test_what_a_policy_holds_is_let_go_at_the_cap(dialect: Dialect, policy: Policy) -> None:
    text = write_calls(dialect, [("f", {"a": "word " * 30_000})])
    if policy.unclosed_reasoning:
        if not dialect.reasoning:
            pytest.skip("the dialect has no reasoning")
        text = write_reasoning(dialect, "word " * 30_000)
    parser = Parser(dialect, policy=policy, tools=TOOLS)
    assert pending(parser, pieces(text, 4000)) <= CAP + 8000
    parser.close()
    assert "hold_overflow" in notices(parser.message)
    assert len(parser.message.reasoning + "".join(c.arguments for c in parser.message.tool_calls)) >= 149_990


# -- 6. linear ---------------------------------------------------------------------------------------------------------


def fastest(work: Callable[[], object], repeats: int) -> float:
    """Seconds of processor time of the fastest run."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return max(best, 1e-6)


def growth(dialect: Dialect, small: str, large: str, chunk: int, *, enough: float, attempts: int = 5) -> float:
    """How many times as long a larger text takes. A busy machine may spoil some measurements, but not all.

    Args:
        dialect: the dialect that reads both.
        small, large: the texts.
        chunk: the size of their chunks.
        enough: a ratio below which it need not be measured again.
        attempts: how often it is measured at most.
    """
    ratio = float("inf")
    for attempt in range(1, attempts + 1):
        begin = fastest(lambda: feed_all(dialect, small, chunk), attempt)
        ratio = min(ratio, fastest(lambda: feed_all(dialect, large, chunk), attempt) / begin)
        if ratio < enough:
            break
    return ratio


def growing(dialect: Dialect) -> list[Callable[[int], str]]:
    """Texts of any size."""
    code = 'def f(x):\n    return "a\\tb" if x < 3 else [{"k": 1}]  # ünï\n'
    kinds: list[Callable[[int], str]] = [lambda n: SENTENCE * (n // len(SENTENCE)), lambda n: "< " * (n // 2)]
    if dialect.reasoning:
        kinds.append(lambda n: write_reasoning(dialect, code * (n // len(code))))
    if dialect.call:
        kinds.append(lambda n: write_calls(dialect, [("f", {"a": code * (n // len(code))})]))
        kinds.append(lambda n: write_calls(dialect, [("f", {"a": "x"})] * (n // 40)))
        kinds.append(lambda n: write_calls(dialect, [("f", {"a": "</" * (n // 2)})]))
    return kinds


def feed_all(dialect: Dialect, text: str, size: int) -> None:
    parser = Parser(dialect, tools=TOOLS)
    for i in range(0, len(text), size):
        parser.feed(text[i : i + size])
    parser.close()


@pytest.mark.parametrize(**named(DIALECTS))
def test_four_times_the_text_takes_four_times_the_time(dialect: Dialect) -> None:
    for i, kind in enumerate(growing(dialect)):
        # Whole texts for all kinds, but small chunks only for every third, because the same code reads both.
        for size, chunk in ((8_000, 1 << 30), (3_000, 6))[: 2 if (len(dialect.name) + i) % 3 == 0 else 1]:
            small, large = kind(size), kind(size * 4)
            ratio = growth(dialect, small, large, chunk, enough=6.5)
            assert ratio < 8, f"4 times {small[:60]!r} takes {ratio:.1f} times as long, fed by {chunk}"


def test_calls_whose_strings_end_at_the_blocks_closing_take_time_in_proportion() -> None:
    keys = """calls = "<c>{calls}</c>"\ncall = "# {name}{arguments} /#"\npolicy = { markers_in_strings = "end" }"""
    dialect = dialect_of(keys)
    small, large = (write_calls(dialect, [("f", {"a": "x"})] * n) for n in (200, 1600))
    ratio = growth(dialect, small, large, 1 << 30, enough=12)
    assert ratio < 20, f"8 times as many calls take {ratio:.1f} times as long"


def idle(dialect: Dialect) -> list[tuple[str, str]]:
    """Beginnings of texts, each with a character that may go on for long after it: one that begins a marker."""
    characters = sorted({c for literal in literals(dialect) for c in (literal[0], literal[-1])} | set("`[]{}<'"))
    heads = ["Well then: "]
    if dialect.call:
        call = write_calls(dialect, [("f", {"a": "MARK"})])
        at = call.index("MARK")
        heads += [call[:at], call[: at - 1] + "@@ ", call[: at + 4] + '" @ ', call, f"{call} then "]
    return [(head, c) for head in heads for c in characters]


@pytest.mark.parametrize(**named(DIALECTS))
def test_a_character_that_opens_and_closes_nothing_costs_less_than_a_marker(dialect: Dialect) -> None:
    def cost(dialect: Dialect, head: str, unit: str) -> float:
        """Seconds of one unit of two hundred; zero if they make events, which have their own cost."""
        parser = Parser(dialect, tools=TOOLS)
        parser.feed(head)
        begin = time.process_time()
        events = parser.feed(unit * 200)
        taken = time.process_time() - begin
        return 0.0 if len(events) > 20 and len(unit) == 1 else taken / 200

    marker = min(cost(get_dialect("hermes"), "Well then: ", "<tool_call>") for _ in range(5))
    for head, c in idle(dialect):
        least = cost(dialect, head, c) / marker
        for _ in range(9):  # a machine that became busy is as slow with a marker
            if least > 1:
                least = min(least, cost(dialect, head, c) / cost(get_dialect("hermes"), "Well then: ", "<tool_call>"))
        assert least < 1, f"{c!r} after {head!r} costs {least:.1f} times as much as a marker"


@pytest.mark.parametrize(**named([d for d in CALLING if d.argument]))
def test_repeated_closings_of_an_argument_cost_no_more_than_other_tags(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [0]
    match = Pattern.match

    def count(self: Pattern, *args: Any) -> int:
        asked[0] += 1
        return match(self, *args)

    monkeypatch.setattr(Pattern, "match", count)
    head = write_calls(dialect, [("f", {"a": "MARK"})]).split("MARK")[0]
    spellings = {literals_of(c) for p in compile_plan(dialect).arguments.parameters for c in p.closings}
    for closing in sorted(spellings):
        parser = Parser(dialect, tools=TOOLS)
        parser.feed(head)
        begin = asked[0]
        for character in closing * 100:
            parser.feed(character)
        assert asked[0] - begin < 1200 * len(closing), closing


@pytest.mark.slow
@pytest.mark.parametrize(
    **named([d for d in DIALECTS if d.name in ("deepseekv31", "qwen3-coder", "pythonic", "gemma4", "harmony")])
)
def test_a_long_argument_takes_time_in_proportion(dialect: Dialect) -> None:
    for kind in growing(dialect):
        small, large = kind(25_000), kind(100_000)
        ratio = growth(dialect, small, large, 64, enough=5.5, attempts=4)
        assert ratio < 8, f"4 times {small[:60]!r} takes {ratio:.1f} times as long"


@pytest.mark.parametrize(
    **named([d for d in CALLING if not d.argument and d.codec.quote == '"' and d.codec.name == "json"])
)
def test_many_broken_calls_take_time_in_proportion(dialect: Dialect) -> None:
    small, large = (write_calls(dialect, [("f", '{"a": @@}')] * n) for n in (100, 400))
    ratio = growth(dialect, small, large, 1 << 30, enough=5.5)
    assert ratio < 8, f"4 times as many broken calls take {ratio:.1f} times as long"
