"""Errors of models in literals: unterminated strings, nested quotes, sets, leading zeros, repeated keys."""

import json
import random
import re
from typing import Any

import pytest

from tests.parser.test_tokens import special
from tests.support import (
    JSON_LIKE,
    PYTHON,
    QUOTED,
    RFC_NAMES,
    TOOLS,
    VERBATIM,
    alike,
    dialect_of,
    many_cuts,
    named,
    notices,
    random_split,
    readings,
    run,
    values,
)
from tests.writing import write_argument_text, write_calls
from unspool import Dialect, Parser, Policy, get_dialect, render
from unspool.check.promises import closings
from unspool.dialect.compiling import compile_plan, marked
from unspool.dialect.patterns import worded
from unspool.dialect.plan import string_ends

END = Policy(markers_in_strings="end")
MEND = Policy(bad_arguments="repair")


def every_way(dialect: Dialect, raw: str, **options: Any) -> Any:
    return alike(dialect, raw, many_cuts(raw), **{"tools": TOOLS, **options})


# -- open strings ------------------------------------------------------------------------------------------------------


def ending(dialect: Dialect) -> bool:
    """Whether the closings of calls and of their blocks, and the opening of the next call, contain words."""
    each = "{call}" in dialect.calls[0].text
    block = dialect.calls[0].after if each else ()
    closings = ["".join(p for p in after if isinstance(p, str)) for after in (dialect.call[0].after, block) if after]
    following = (dialect.calls if each and dialect.calls[0].before else dialect.call)[0].before
    worded = bool(closings) and all(any(c.isalnum() for c in closing) for closing in closings)
    return worded and marked(following, dialect.anywhere)


ENDING = [d for d in VERBATIM if ending(d)]
BEHIND = dialect_of("""
calls = "<calls>{calls}</calls>"
call = '<call>{"name": "{name}", "arguments": {arguments}, "index": {index}}</call>'
separator.calls = " | "
""")
"""A dialect with a separator between calls, and a member behind their arguments."""


def left_open(dialect: Dialect) -> tuple[str, str]:
    """Two calls, the first with an unterminated string, and the value of that string."""
    raw = write_calls(dialect, [("f", {"a": "北!"}), ("g", {"a": "y"})])
    at = raw.index("北!") + 2
    rest = raw[at:]
    closes = re.match(r'["}\] \n]*(?:, "[^"]*": [^}]*[}\] \n]*)?', rest)  # members after the arguments too
    assert closes is not None
    return raw[:at] + rest[closes.end() :], "北!"


@pytest.mark.parametrize(**named([*ENDING, BEHIND]))
def test_under_end_a_closing_before_something_legal_ends_an_open_string(dialect: Dialect) -> None:
    raw, value = left_open(dialect)
    message = every_way(dialect, raw, policy=END.over(Policy(bad_arguments="repair")))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "repaired"), ("g", "ok")], raw
    assert values(message) == [("f", {"a": value}), ("g", {"a": "y"})]
    message = every_way(dialect, raw, policy=END.over(Policy(bad_arguments="raw")))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("g", "ok")], raw
    assert message.tool_calls[0].arguments == '{"a": "北!'
    message = every_way(dialect, raw, policy=Policy(markers_in_strings="data", bad_arguments="raw"))
    assert message.tool_calls[0].status in ("incomplete", "invalid")
    assert len(message.tool_calls[0].arguments) > len('{"a": "北!')


def closing_word(dialect: Dialect, raw: str) -> str:
    """The first marker in a text that ends an open string; ``""`` if there is none."""
    return next((m for m in string_ends(compile_plan(dialect, END)) if m in raw), "")


@pytest.mark.parametrize(
    **named([d for d in (*PYTHON, *QUOTED) if closing_word(d, write_calls(d, [("f", {"a": "x"})]))])
)
def test_under_end_a_closing_ends_an_open_string_of_any_literal(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "北!"})])
    at = raw.index("北!") + 2
    marker = closing_word(dialect, raw[at:])
    raw = raw[:at] + raw[raw.index(marker, at) :]
    message = every_way(dialect, raw, policy=END.over(MEND))
    assert [(c.arguments, c.status) for c in message.tool_calls] == [('{"a": "北!"}', "repaired")]
    message = every_way(dialect, raw, policy=END)
    assert [(c.arguments, c.status) for c in message.tool_calls] == [('{"a": "北!', "invalid")]
    message = every_way(dialect, raw, policy=Policy(markers_in_strings="data", bad_arguments="raw"))
    assert message.tool_calls[0].arguments.startswith('{"a": "北!' + marker)


@pytest.mark.parametrize("name", ["olmo3", "lfm2"])
def test_under_end_python_is_written_without_markers_in_strings(name: str) -> None:
    dialect = dialect_of(f'base = "{name}"\npolicy = {{ markers_in_strings = "end" }}')
    marker, *_ = string_ends(compile_plan(dialect))
    value = f"{marker} \\ '"
    function = {"name": "f", "arguments": json.dumps({"a": value})}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    raw = render(message, dialect, tools=TOOLS)
    assert values(every_way(dialect, raw)) == [("f", {"a": value})]
    assert raw.count(marker) == 1
    assert render(message, name, tools=TOOLS).count(marker) == 2


def test_under_end_a_closing_behind_an_object_around_the_calls_own_ends_an_open_string() -> None:
    call = r"""<run>{\"id\": \"{id}\", \"function\": {\"name\": \"{name}\", \"arguments\": {arguments}}}</run>"""
    dialect = dialect_of(f'call = "{call}"')
    for value in ("x</run> y", "x}}</run> y", "x</run>"):
        kept = every_way(dialect, write_calls(dialect, [("f", {"a": value})]), policy=END)
        assert values(kept) == [("f", {"a": value})]
    test_under_end_a_closing_before_something_legal_ends_an_open_string(dialect)


@pytest.mark.parametrize(**named(ENDING))
def test_a_closing_that_nothing_legal_follows_is_the_strings_text(dialect: Dialect) -> None:
    after = dialect.call[0].after or dialect.calls[0].after
    marker = "".join(p for p in after if isinstance(p, str)).strip()
    # If calls and blocks have the same closing, one may follow the other; several ends are ends.
    alike = dialect.call[0].after == dialect.calls[0].after or marker in [end.strip() for end in dialect.end]
    twice = marker if alike else marker * 2
    for value in (f"a{marker}b", f"{marker} ", f"x {twice} y", f"{marker}\n{marker[:-1]}"):
        raw = write_calls(dialect, [("f", {"a": value, "b": "x"}), ("g", {"a": value})])
        for policy in (END, Policy(markers_in_strings="data")):
            message = every_way(dialect, raw, policy=policy)
            assert values(message) == [("f", {"a": value, "b": "x"}), ("g", {"a": value})]
            assert {c.status for c in message.tool_calls} == {"ok"}


def test_a_quote_is_not_the_beginning_of_a_next_call_that_the_end_cuts() -> None:
    dialect = dialect_of("""calls = "<c>{call}</c>"\ncall = '"{name}"|{arguments}'""")
    raw = """<c>"f"|{"a": "</c> "}</c>"""
    message = every_way(dialect, raw, policy=END)
    assert [(c.arguments, c.status) for c in message.tool_calls] == [('{"a": "</c> "}', "ok")]
    assert message.content == ""


def test_an_open_string_ends_at_the_outputs_end_only_where_the_model_stopped() -> None:
    raw = '<tool_call>\n{"name": "f", "arguments": {"a": "北</tool_call>'
    for dialect, text in (("hermes", raw), ("hermes", raw + "<|im_end|>"), ("hermes", raw + "\n")):
        message = every_way(get_dialect(dialect), text, policy=END.over(MEND))
        assert [(c.arguments, c.status) for c in message.tool_calls] == [('{"a": "北"}', "repaired")]
    for message in readings("hermes", raw, finish_reason="length", tools=TOOLS, policy=END.over(MEND)):
        assert [c.status for c in message.tool_calls] == ["incomplete"]


def test_a_broken_string_ends_at_a_closing() -> None:
    raw = (
        '<tool_call>\n{"name": "f", "arguments": {"a": "\\q 北</tool_call>\n<tool_call>\n{"name": "now"}\n</tool_call>'
    )
    message = every_way(get_dialect("hermes"), raw, policy=END.over(Policy(bad_arguments="raw")))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]


@pytest.mark.parametrize("bad", ['{"a": @@}', '{"a" "b"}', '{"a": "x\n"}'])
def test_members_after_broken_arguments_are_none_of_them(bad: str) -> None:
    raw = write_calls(BEHIND, [("f", bad), ("g", {"a": "y"})])
    message = every_way(BEHIND, raw, policy=Policy(bad_arguments="raw"))
    assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [
        ("f", bad, "invalid"),
        ("g", '{"a": "y"}', "ok"),
    ]


@pytest.mark.parametrize(("opening", "closing"), [("<a>", "</a>"), ("[a]", "[/a]")])
def test_the_marker_behind_nested_objects_closes_a_call_that_lacks_their_braces(opening: str, closing: str) -> None:
    call = f'{opening}{{"function": {{"name": "{{name}}", "arguments": {{arguments}}}}}}{closing}'
    dialect = dialect_of(f"calls = '<run>{{calls}}</run>'\ncall = '{call}'")
    raw, value = left_open(dialect)
    message = every_way(dialect, raw, policy=END.over(MEND))
    assert (values(message), message.content) == ([("f", {"a": value}), ("g", {"a": "y"})], "")
    assert [c.status for c in message.tool_calls] == ["repaired", "ok"]
    assert "missing_close" not in notices(message)


def test_a_skipped_value_ends_at_a_closing() -> None:
    one = '{"name": "f", "arguments": {"a": "x"}, "why": "北'
    raw = f'<tool_call>\n{one}</tool_call>\n<tool_call>{{"name": "now"}}</tool_call>'
    message = every_way(get_dialect("hermes"), raw, policy=END)
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("f", '{"a": "x"}'), ("now", "{}")]


@pytest.mark.parametrize("name", RFC_NAMES)
def test_the_four_names_of_the_rfc_end_open_strings(name: str) -> None:
    raw, value = left_open(get_dialect(name))
    message = every_way(get_dialect(name), raw)
    assert values(message) == [("f", {"a": value}), ("g", {"a": "y"})]


@pytest.mark.parametrize(**named(ENDING))
def test_only_text_that_may_end_a_string_is_held(dialect: Dialect) -> None:
    text = "some <b> text </x> < " * 20
    raw = write_calls(dialect, [("f", {"a": text})])
    parser = Parser(dialect, tools=TOOLS, policy=END)
    at = raw.index("some") + 4
    parser.feed(raw[:at])
    for i in range(at, raw.rindex("< ") + 1, 3):
        parser.feed(raw[i : i + 3])
        assert len(parser.message.tool_calls[0].arguments) >= i - raw.index("some") - 8


# -- repairs -----------------------------------------------------------------------------------------------------------


REPAIRS: list[tuple[str, Any]] = [
    ("07", 7),
    ("-007.50", -7.5),
    ("00", 0),
    ("[0, 00, 1]", [0, 0, 1]),
    ("{1, 2}", [1, 2]),
    ("{'a', 'b', }", ["a", "b"]),
    ("{'a'}", ["a"]),
    ("{('a', 1), None}", [["a", 1], None]),
    ("{'k': {'a', 'b'}, 'l': {}}", {"k": ["a", "b"], "l": {}}),
    ("'sed -n '360,450p' f.py'", "sed -n '360,450p' f.py"),
    ('"say "hi" to"', 'say "hi" to'),
    ("['it's', 'don't']", ["it's", "don't"]),
    ("{'it's' : 'o'clock'}", {"it's": "o'clock"}),
]


@pytest.mark.parametrize(**named(PYTHON))
@pytest.mark.parametrize(("written", "value"), REPAIRS, ids=[w for w, _ in REPAIRS])
def test_python_literals_are_repaired(dialect: Dialect, written: str, value: Any) -> None:
    if any(c in written for c in closings(dialect) if worded(c)):
        pytest.skip("the text ends a broken call")
    raw = write_calls(dialect, [("f", f"x={written}, y={written} "), ("now", "")])
    message = every_way(dialect, raw, policy=MEND)
    assert values(message) == [("f", {"x": value, "y": value}), ("now", {})]
    assert [c.status for c in message.tool_calls] == ["repaired", "ok"]
    message = every_way(dialect, raw, policy=Policy(bad_arguments="raw"))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]


@pytest.mark.parametrize("call", ["{name}({arguments})", "{name} call({arguments})"])
def test_a_bracket_inside_broken_python_does_not_end_the_call(call: str) -> None:
    dialect = dialect_of(f'calls = "<run>{{calls}}"\ncall = "{call}"\narguments = "python"\nseparator.calls = "; "')
    raw = write_calls(dialect, [("f", "x={('a', 1), None}, y=2"), ("now", "")])
    message = every_way(dialect, raw, policy=Policy(bad_arguments="raw"))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]
    assert message.tool_calls[0].arguments == "{\"x\": {('a', 1), None}, y=2"
    assert message.content == ""


@pytest.mark.parametrize(**named([d for d in VERBATIM if d.call[0].after]))
def test_quotes_and_parentheses_that_nothing_opened_leave_no_part_of_broken_json_behind(dialect: Dialect) -> None:
    broken = '{"a": "g("K", "d")"}'
    raw = write_calls(dialect, [("f", broken), ("now", "{}")])
    for policy in (MEND, Policy(bad_arguments="raw")):
        message = every_way(dialect, raw, policy=policy)
        assert [(c.name, c.status) for c in message.tool_calls][:1] == [("f", "invalid")]
        assert message.content == ""


@pytest.mark.parametrize(**named(QUOTED))
@pytest.mark.parametrize("inside", ["(", "(ls -a)", "{a", "{a, b", "{<b>"])
def test_a_key_that_breaks_off_does_not_swallow_the_next_call(dialect: Dialect, inside: str) -> None:
    whole = write_calls(dialect, [("f", "{}"), ("now", "{}")])
    message = every_way(dialect, whole.replace("{}", inside, 1))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]
    assert message.content == ""


@pytest.mark.parametrize(**named(VERBATIM))
def test_python_literals_in_place_of_json_are_repaired(dialect: Dialect) -> None:
    for written, value in REPAIRS:
        if "(" in written or written.startswith('"'):  # there are no tuples in JSON, and its strings are strict
            continue
        raw = write_calls(dialect, [("f", f"{{'x': {written}, 'y': {written} }}"), ("now", {})])
        message = every_way(dialect, raw, policy=MEND)
        assert values(message) == [("f", {"x": value, "y": value}), ("now", {})], raw
        assert [c.status for c in message.tool_calls] == ["repaired", "ok"]


def test_a_quote_before_a_word_that_calls_begin_with_closes_its_string_only_if_a_call_follows() -> None:
    dialect = dialect_of('calls = "{calls}"\ncall = "f{name}.call>{arguments};/"\nseparator.calls = "\\n"')
    raw = write_calls(dialect, [("f", "{'x': 'sed -n '360p' f.py', 'y': 'f' }"), ("now", {})])
    message = every_way(dialect, raw, policy=MEND)
    assert values(message) == [("f", {"x": "sed -n '360p' f.py", "y": "f"}), ("now", {})]
    raw = "ff.call>{'x': 'sed -n '360p'\nfnow.call>{};/"
    message = every_way(dialect, raw, policy=MEND)
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]


@pytest.mark.parametrize(**named(JSON_LIKE))
def test_a_number_with_a_leading_zero_is_reported_alike_however_it_is_cut(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", write_argument_text(dialect, "x", "07")), ("now", {})])
    message = every_way(dialect, raw, policy=Policy(bad_arguments="raw"))
    if dialect in QUOTED:  # a string without its quotes
        assert values(message) == [("f", {"x": "07"}), ("now", {})]
        return
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]
    assert "07" in message.tool_calls[0].arguments
    message = every_way(dialect, raw, policy=MEND)
    assert values(message) == [("f", {"x": 7}), ("now", {})]


@pytest.mark.parametrize(**named([*PYTHON, *QUOTED]))
def test_a_key_given_twice_is_written_once(dialect: Dialect) -> None:
    q = dialect.codec.quote if dialect in QUOTED else "'"
    for written, meant in [
        ([("a", "1"), ("b", "2"), ("a", f"[{q}x{q}, 3]")], {"a": 1, "b": 2}),
        ([("a", f"{q}x{q}"), ("a", f"{q}y, {q}"), ("b", "2")], {"a": "x", "b": 2}),
    ]:
        if dialect in QUOTED:
            text = "{" + ",".join(f"{k}:{v}" for k, v in written) + "}"
        else:
            text = ", ".join(f"{k}={v}" for k, v in written)
        message = every_way(dialect, write_calls(dialect, [("f", text)]))
        assert (values(message), notices(message)) == ([("f", meant)], ["duplicate_arguments"])
        assert message.tool_calls[0].status == "ok"


def test_repairs_take_linear_time_and_bounded_memory() -> None:
    lfm2 = get_dialect("lfm2")
    for written, status in ((f"{{'{'a' * 60_000}', 'b'}}", "repaired"), (f"{{'{'a' * 70_000}', 'b'}}", "invalid")):
        raw = write_calls(lfm2, [("f", f"x={written}"), ("now", "")])
        for chunks in ([raw], random_split(raw, random.Random(3), 500)):
            message, _ = run(lfm2, chunks, tools=TOOLS, policy=MEND)
            assert [c.status for c in message.tool_calls] == [status, "ok"]
            assert ("hold_overflow" in notices(message)) == (status == "invalid")


# -- token ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deepseekv31", "deepseek", "kimi_k2", "hermes"])
def test_a_marker_token_closes_an_open_string_at_once(name: str) -> None:
    dialect = get_dialect(name)
    raw, value = left_open(dialect)
    for more in ("", "\\", "\\u00"):
        text = raw.replace(value, value + more)
        for policy in (Policy(markers_in_strings="data").over(MEND), END.over(MEND)):
            parser = Parser(dialect, tools=TOOLS, policy=policy, tokenizer=special(name))
            ids = special(name).encode(text, add_special_tokens=False).ids
            whole = Parser(dialect, tools=TOOLS, policy=policy, tokenizer=special(name))
            whole.feed_tokens(ids)
            for token in ids:
                parser.feed_tokens([token])
            for p in (whole, parser):
                p.close()
                assert values(p.message) == [("f", {"a": value}), ("g", {"a": "y"})]
                assert [c.status for c in p.message.tool_calls] == ["repaired", "ok"]


def test_a_comma_that_a_closing_cuts_off_is_no_part_of_the_value() -> None:
    for cut, repaired in (('{"a": 1,', '{"a": 1}'), ('{"a": [1, ', '{"a": [1 ]}'), ("{'a': '', ", '{"a": "" }')):
        raw = f'<tool_call>\n{{"name": "f", "arguments": {cut}</tool_call>'
        message = every_way(get_dialect("hermes"), raw, policy=MEND)
        assert [(c.arguments, c.status) for c in message.tool_calls] == [(repaired, "repaired")]


CUT = [*ENDING, *PYTHON, *QUOTED]


@pytest.mark.parametrize(**named([d for d in CUT if closing_word(d, write_calls(d, [("f", {"n": 1, "b": True})]))]))
def test_a_closing_cuts_a_key_a_value_or_its_first_letters(dialect: Dialect) -> None:
    """As a partial JSON parser reads it: a key without a value is left out, and the beginning of a word is the word."""
    raw = write_calls(dialect, [("f", {"n": 1, "b": True})])
    value = re.search("[Tt]rue", raw)
    assert value is not None
    key = raw.rindex("b", 0, value.start())
    marker = raw[raw.index(closing_word(dialect, raw[value.end() :]), value.end()) :]
    cuts: dict[int, dict[str, Any]] = {
        key + 1: {"n": 1},
        value.start(): {"n": 1},
        value.start() + 2: {"n": 1, "b": True},
    }
    if dialect in QUOTED:
        del cuts[key + 1]  # a key without quotes ends at a colon
        cuts[value.start() + 2] = {"n": 1, "b": "tr"}  # a string may lack its quotes
    for at, expected in cuts.items():
        message = every_way(dialect, raw[:at] + marker, policy=END.over(MEND))
        assert [(json.loads(c.arguments), c.status) for c in message.tool_calls] == [(expected, "repaired")]
        raw_call = every_way(dialect, raw[:at] + marker, policy=END.over(Policy(bad_arguments="raw"))).tool_calls[0]
        assert raw_call.status in ("invalid", "incomplete")
        assert "}" not in raw_call.arguments


def test_a_closing_cuts_nested_keys_escapes_and_numbers() -> None:
    for cut, repaired in (
        ('{"a": {"b', '{"a": {}}'),
        ('{"a": {"b":', '{"a": {}}'),
        ('{"a": [{"b": 1, "c": ', '{"a": [{"b": 1}]}'),
        ('{"a": "x\\', '{"a": "x"}'),
        ('{"a": "x\\u00', '{"a": "x"}'),
        ('{"a": 1e', '{"a": 1e0}'),
        ('{"a": nul', '{"a": null}'),
        ('{"a": [fal', '{"a": [false]}'),
        ("{'a': 1, 'b", '{"a": 1}'),
        ("{a: 1, b", '{"a": 1}'),
    ):
        raw = f'<tool_call>\n{{"name": "f", "arguments": {cut}</tool_call>'
        message = every_way(get_dialect("hermes"), raw, policy=END.over(MEND))
        assert [(c.arguments, c.status) for c in message.tool_calls] == [(repaired, "repaired")]


def test_a_string_that_holds_no_object_cannot_be_closed() -> None:
    raw = '<tool_call>\n{"name": "f", "arguments": "{:</tool_call>\n<tool_call>\n{"name": "now"}\n</tool_call>'
    message = every_way(get_dialect("hermes"), raw, policy=END.over(MEND))
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("now", "ok")]
