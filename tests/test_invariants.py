"""The design's ten invariants, each for every dialect."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from unspool import Dialect, Parser, Policy, ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.check.promises import DIALECT_PROMISES, RAW_PROMISES, TURNS, WRITTEN_PROMISES
from unspool.dialect.patterns import worded
from unspool.message import Message

from .fuzz import mutate
from .support import (
    CALLING,
    DIALECTS,
    JSON_LIKE,
    TOOLS,
    VERBATIM,
    XML,
    Trial,
    cases,
    closings,
    examples,
    expected,
    literals,
    named,
    notices,
    number,
    parse_case,
    random_split,
    readings,
    run,
    same,
    tools_of,
    values,
)
from .writing import write_calls

CASES = cases()


every_case = pytest.mark.parametrize("case", CASES, ids=str)


def mutants(dialect: Dialect, count: int) -> Iterator[str]:
    """Mutated raw texts of a dialect's examples, the same in every run."""
    rng = random.Random(dialect.name)
    raws = [c.raw for c in cases([dialect])]
    for _ in range(count):
        yield mutate(rng.choice(raws), rng, dialect)


# -- what the examples say ---------------------------------------------------------------------------------------------


@every_case
def test_an_example_means_what_its_file_says(case: Trial) -> None:
    message, _ = parse_case(case, ids=None)
    assert message.reasoning == case.example.reasoning
    assert message.content == case.example.content
    assert "stray_open" not in notices(message)
    assert values(message) == expected(case.example)
    assert [c.status for c in message.tool_calls] == ["ok"] * len(case.calls)
    for call, meant in zip(message.tool_calls, case.calls, strict=True):
        assert meant.id in (None, call.id)


# -- 1. chunking is invisible ------------------------------------------------------------------------------------------


@every_case
def test_every_raw_text_keeps_the_promises_that_check_tries(case: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.raw != case.example.raw[0]:  # for other spellings than the first, try fewer places
        monkeypatch.setattr("unspool.check.trials.MAX_PLACES", 80)
    for promise in RAW_PROMISES:
        promise(case)


@pytest.mark.parametrize("promise", WRITTEN_PROMISES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("case", examples(), ids=str)
def test_every_first_raw_text_is_written_and_generated(case: Trial, promise: Callable[[Trial], None]) -> None:
    promise(case)


@pytest.mark.parametrize("promise", DIALECT_PROMISES, ids=lambda p: p.__name__)
@pytest.mark.parametrize(**named(DIALECTS))
def test_every_dialect_keeps_the_promises_that_check_tries(
    dialect: Dialect, promise: Callable[[Dialect], None]
) -> None:
    promise(dialect)


@pytest.mark.parametrize(**named(DIALECTS))
def test_chunking_is_invisible_in_mutated_outputs(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for text in mutants(dialect, 12):  # `make fuzz` tries more
        for tools in (None, tools_of(dialect)):
            whole = same(run(dialect, [text], tools=tools, ids=number)[0])
            for chunks in (list(text), random_split(text, rng, 5), random_split(text, rng, 30)):
                assert same(run(dialect, chunks, tools=tools, ids=number)[0]) == whole, chunks


# -- 2. conservation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(DIALECTS))
def test_blank_output_is_no_anomaly(dialect: Dialect) -> None:
    for text in ("", " ", "\n\n", " \n" * 40):
        message, _ = run(dialect, [text])
        assert notices(message) == []
        assert message.finish_reason == "stop"


# -- 3. arguments of an ok call are one JSON object --------------------------------------------------------------------


def reject(constant: str) -> None:
    raise AssertionError(f"{constant} in the arguments of an ok call")


def assert_sound(message: Message) -> None:
    for call in message.tool_calls:
        if call.status in ("ok", "repaired"):
            assert isinstance(json.loads(call.arguments, parse_constant=reject), dict), call


@pytest.mark.parametrize(**named(CALLING))
def test_arguments_of_ok_calls_are_objects_whatever_the_output(dialect: Dialect) -> None:
    for text in mutants(dialect, 60):
        for policy in (None, Policy(bad_arguments="repair")):
            assert_sound(run(dialect, [text], policy=policy)[0])


BYTES = [
    '{"b" : 1.0,\n "a":[1e-07 ,12345678901234567890123, -0.0]}',
    '{  "z":"\\u00e9\\/\\ud83c\\udf27 é",  "b":{"x":null,"x":true}, "a":  []  }',
    '{"n":1E300,"a":"\\"}]) \\\\"}',
]


@pytest.mark.parametrize(**named(VERBATIM))
@pytest.mark.parametrize("arguments", BYTES)
def test_json_arguments_keep_the_models_own_bytes(dialect: Dialect, arguments: str) -> None:
    text = write_calls(dialect, [("f", arguments), ("g", "{}")])
    for message in readings(dialect, text, tools=TOOLS):
        assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [
            ("f", arguments, "ok"),
            ("g", "{}", "ok"),
        ]


@pytest.mark.parametrize(**named(VERBATIM))
@pytest.mark.parametrize("arguments", ["null", "", " ", '""', '"{}"', "{}"])
def test_missing_null_and_empty_arguments_are_an_empty_object(dialect: Dialect, arguments: str) -> None:
    # If nothing with a letter or digit closes a call, a name alone is no call.
    closed = dialect.call[0].after or all(worded(t.closing) for t in dialect.calls)
    bare = not closed and dialect.call[0].text.rstrip().endswith("{arguments}")
    if (dialect.call[0].object is not None or bare) and not arguments.strip():
        arguments = "null"
    if "{name}{arguments}" in dialect.call[0].text and arguments == "null":
        arguments = "{}"  # otherwise it would be part of the name
    text = write_calls(dialect, [("now", arguments), ("f", '{"a": "x"}')])
    for message in readings(dialect, text, tools=TOOLS):
        assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [
            ("now", "{}", "ok"),
            ("f", '{"a": "x"}', "ok"),
        ]


@pytest.mark.parametrize(**named(VERBATIM))
def test_a_string_that_holds_an_object_is_unwrapped(dialect: Dialect) -> None:
    inner = '{"a": "x \\" \\\\ \\n é 🌧", "n": 12345678901234567890}'
    text = write_calls(dialect, [("f", json.dumps(inner)), ("now", "{}")])
    for message in readings(dialect, text, tools=TOOLS):
        assert message.tool_calls[0].arguments == inner
        assert [c.status for c in message.tool_calls] == ["ok", "ok"]


@pytest.mark.parametrize(**named(VERBATIM))
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "[" * 600 + "]" * 600, '{"a":' * 600 + "1" + "}" * 600]
)
def test_what_is_no_json_is_invalid_and_the_next_call_is_read(dialect: Dialect, value: str) -> None:
    text = write_calls(dialect, [("f", f'{{"a": {value}}}'), ("g", '{"a": "x"}')])
    for chunks in ([text], random_split(text, random.Random(1), 9)):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("g", "ok")]
        assert message.tool_calls[1].arguments == '{"a": "x"}'
        assert "bad_arguments" in notices(message)


@pytest.mark.parametrize(**named(CALLING))
def test_fragments_of_arguments_add_up_and_are_never_retracted(dialect: Dialect) -> None:
    text = write_calls(dialect, [("f", {"a": "one two three", "n": 12345}), ("g", {"a": "x"})])
    parser = Parser(dialect, tools=TOOLS)
    fields: dict[int, str] = {}
    for c in [*text, None]:
        for event in parser.close() if c is None else parser.feed(c):
            if isinstance(event, ToolCallStart):
                fields[event.index] = ""
            if isinstance(event, ToolCallDelta):
                fields[event.index] += event.arguments
        assert {t.index: t.arguments for t in parser.message.tool_calls} == fields
    assert [json.loads(a) for a in fields.values()] == [{"a": "one two three", "n": 12345}, {"a": "x"}]


# -- 4. markers inside strings are data --------------------------------------------------------------------------------

NASTY = [
    "[", "]", "{", "}", "(", ")", "[]", "{}", '"', "'", '"""', "'''", "\\", "\\n", '\\"', "```", "```json", "<|", "|>",
    "</", "<", ">",
    '{"name": "g", "arguments": {}}', "[g()]", "g(a='x')", ", n=3)", '"}}]', "'}]", "<tool_call>", "</tool_call>",
    "</think>", "<think>",
    "\n\nline\n", "\t", "é 北京 🌧️", "\u2028", "&quot;&amp;<>&",
]  # fmt: skip


def holdable(dialect: Dialect) -> list[str]:
    """Texts that a string argument of a dialect can contain."""
    found = [*NASTY, *literals(dialect)]
    if dialect.codec.quote != '"':
        found = [t for t in found if dialect.codec.quote not in t]
    return found


@pytest.mark.parametrize(**named(JSON_LIKE))
def test_every_marker_bracket_and_quote_inside_a_string_is_data(dialect: Dialect) -> None:
    turn = len(dialect.name)
    for text in holdable(dialect):
        turn += 1
        for i, value in enumerate((text, f"x {text} y", f"{text}\n")):
            calls: list[tuple[str, Any]] = [("f", {"a": value, "n": 3}), ("g", {"a": text})]
            raw = write_calls(dialect, calls)
            for chunks in ([raw], list(raw))[: 2 if i == turn % 3 else 1]:  # single characters only for every third
                message, _ = run(dialect, chunks, tools=TOOLS)
                assert values(message) == calls, raw
                assert message.content == ""


@pytest.mark.parametrize(**named(XML))
def test_markers_inside_text_values_are_data_as_are_closings_that_nothing_legal_follows(dialect: Dialect) -> None:
    own = closings(dialect)
    foreign = [t for t in (*NASTY, *literals(dialect)) if t.strip()]
    for text in (*own, *(t for t in foreign if not any(t.startswith(c) or c.startswith(t) for c in own))):
        calls: list[tuple[str, Any]] = [("f", {"a": f"x {text} y", "n": 3}), ("g", {"a": "x"})]
        raw = write_calls(dialect, calls)
        for message in readings(dialect, raw, tools=TOOLS):
            assert (values(message), message.content) == (calls, ""), raw


BROKEN = [
    *('{"a": @@}', '{"a" "b"}', '{"a": tru}', '{"a": 01}', '{"a": "x", }', "{@@}", '{"a": 1.x}', '{"a": -}', "{,}"),
    *('{"a": "\\x"}', '{"a": "\n"}', "{1: 2}", '{"a": 1 2}', '{"a": 1e+}', '{"a": tru' + "e" * 80 + " }"),
]


@pytest.mark.parametrize(**named(VERBATIM))
@pytest.mark.parametrize("arguments", BROKEN)
def test_a_broken_call_ends_at_its_closing_and_leaves_others_alone(dialect: Dialect, arguments: str) -> None:
    raw = write_calls(dialect, [("f", arguments), ("g", '{"a": "x"}')])
    for message in readings(dialect, raw, tools=TOOLS, policy=Policy(bad_arguments="raw")):
        assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("g", "ok")], message
        assert message.tool_calls[0].arguments.rstrip() == arguments
        assert message.tool_calls[1].arguments == '{"a": "x"}'
        assert [bool(c.raw) for c in message.tool_calls] == [True, False]
        assert (message.content, message.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize(**named(VERBATIM))
def test_only_the_outputs_end_closes_an_unterminated_string(dialect: Dialect) -> None:
    head, tail = write_calls(dialect, [("f", '{"a": "⌖"}'), ("g", '{"a": "x"}')]).split("⌖")
    tail = tail.replace('"', "'").replace("\n", " ")
    for message in readings(dialect, head + tail, tools=TOOLS, policy=Policy(markers_in_strings="data")):
        assert [(c.name, c.status) for c in message.tool_calls] == [("f", "incomplete")]
        assert message.tool_calls[0].arguments == f'{{"a": "{tail}'


@pytest.mark.parametrize(**named(VERBATIM))
def test_markers_stay_data_after_an_error_inside_their_string(dialect: Dialect) -> None:
    for text, error in zip(holdable(dialect), itertools.cycle(["\n", "\\|", "\t", "\\u12"]), strict=False):
        inner = json.dumps(text, ensure_ascii=False)[1:-1]
        arguments = f'{{"a": "x {error} {inner} y"}}'
        raw = write_calls(dialect, [("f", arguments), ("g", '{"a": "x"}')])
        for chunks in ([raw], random_split(raw, random.Random(text), 5)):
            message, _ = run(dialect, chunks, tools=TOOLS, policy=Policy(bad_arguments="raw"))
            assert [(c.name, c.arguments.rstrip(), c.status) for c in message.tool_calls] == [
                ("f", arguments, "invalid"),
                ("g", '{"a": "x"}', "ok"),
            ], raw


# -- 7. truncation at any offset ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(JSON_LIKE))
def test_a_call_whose_arguments_closed_themselves_is_ok_with_a_notice(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"})])
    at = raw.rindex(")") if dialect.codec.name == "python" and not dialect.call[0].object else raw.rindex("}")
    if raw[at + 1 :].strip():
        message, _ = run(dialect, [raw[: at + 1]], tools=TOOLS)
        assert values(message) == [("f", {"a": "x"})]
        assert message.tool_calls[0].status == "ok"
        assert "missing_close" in notices(message)


# -- 8. round trip through an independent writer -----------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
def test_calls_written_by_the_templates_are_read_back(dialect: Dialect) -> None:
    for calls in map(list, TURNS[:-1]):
        raw = write_calls(dialect, calls)
        for message in readings(dialect, raw, tools=TOOLS):
            assert values(message) == calls, raw
            assert [c.status for c in message.tool_calls] == ["ok"] * len(calls), raw
            assert (message.reasoning, message.content) == ("", ""), raw


# -- 9. order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
def test_calls_are_counted_in_order_and_named_once_before_their_arguments(dialect: Dialect) -> None:
    calls: list[tuple[str, Any]] = [("f", {"a": str(i)}) if i % 2 else ("now", {}) for i in range(12)]
    raw = write_calls(dialect, calls)
    for chunks in ([raw], list(raw)):
        message, events = run(dialect, chunks, tools=TOOLS)
        starts = [e for e in events if isinstance(e, ToolCallStart)]
        assert [(e.index, e.name) for e in starts] == [(i, name) for i, (name, _) in enumerate(calls)]
        assert [e.index for e in events if isinstance(e, ToolCallEnd)] == list(range(12))
        assert values(message) == calls
        assert len({c.id for c in message.tool_calls}) == 12, "every call has an id of its own"


# -- 10. nothing is shared ---------------------------------------------------------------------------------------------


def test_two_hundred_interleaved_parsers_equal_sequential_ones() -> None:
    rng = random.Random(10)
    chosen = rng.sample(CASES, 200)
    alone = [same(parse_case(case)[0]) for case in chosen]
    parsers = [Parser(c.dialect, tools=c.tools, stage=c.example.stage, ids=number) for c in chosen]
    chunks = [random_split(c.raw, rng, 6)[::-1] for c in chosen]
    waiting = [i for i, c in enumerate(chunks) if c]
    while waiting:
        i = rng.choice(waiting)
        parsers[i].feed(chunks[i].pop())
        if not chunks[i]:
            waiting.remove(i)
    for parser in parsers:
        parser.close()
    assert [same(p.message) for p in parsers] == alone
