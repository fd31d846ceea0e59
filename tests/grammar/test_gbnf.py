"""GBNF means the same as the other forms: it is read exactly, and also with llguidance's own converter."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import unspool
from unspool import Constraint, ConstraintError, Dialect, DialectError, ToolStrictLevel
from unspool.check.promises import closings
from unspool.grammar.flat import lacking
from unspool.grammar.gbnf import gbnf
from unspool.grammar.lower import signs
from unspool.grammar.nodes import Chars, Const, Grammar, Node, Repeat, Seq, Text, Word, children, options

from ..support import closed_tool, dialect_of, tool
from ..writing import an_id
from .gbnf_reader import Reader
from .sampling import as_tools
from .support import WITH_CALLS, Grammars, constrained, eos, matcher, validate

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "unit": {"enum": ["celsius", 'quo"ted', "back\\slash", "a-b^c[d]", "中文\n"]},
        "days": {"type": "integer"},
        "at": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [*as_tools({"get_weather": SCHEMA}, strict=False), closed_tool("now")]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "Zürich 🌍", "unit": 'quo"ted', "days": -3, "at": [1.5, 2e9]}),
    ("get_weather", {"city": "", "unit": "back\\slash"}),
    ("now", {}),
]


def calls(d: Dialect) -> list[tuple[str, dict[str, Any]]]:
    """`CALLS`, without the characters that text of bounded length lacks, one of each marker."""
    if not d.argument:
        return CALLS
    (name, values), *others = CALLS
    lacked = lacking((*closings(d), *(t.opening.partition("{")[0] for t in d.argument)), *closings(d))
    return [(name, {**values, "city": "".join(c for c in values["city"] if c not in lacked)}), *others]


def takes(text: str, data: str) -> bool:
    """Whether a grammar accepts the data, for both readers. Only in grammars of parts, whose words differ."""
    exact = Reader(text).takes(data)
    reader = matcher(text)
    assert exact == (reader.try_consume_tokens(list(data.encode())) == len(data.encode()) and reader.is_accepting())
    return exact


def one(node: Node) -> str:
    return gbnf(Grammar(node, {}))


def in_hermes(schema: Any) -> str:
    """The grammar of a tool ``f`` with one argument ``x``, in Hermes' format."""
    return gbnf(constraint("hermes", tools=[tool("f", x=schema)]).grammar)


def constraint(d: Dialect | str, stage: str = "content", choice: str = "required", **more: Any) -> Constraint:
    return constrained(d, more.pop("tools", TOOLS), choice, stage=stage, **more)


def turn(d: Dialect, *calls: tuple[str, dict[str, Any]], **parts: Any) -> dict[str, Any]:
    made: list[Any] = [
        {"type": "function", "id": an_id(d, i, n), "function": {"name": n, "arguments": a}}
        for i, (n, a) in enumerate(calls)
    ]
    return {"role": "assistant", "content": "", "tool_calls": made, **parts}


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_rendered_calls_are_accepted(d: Dialect) -> None:
    reader = Reader(gbnf(constraint(d).grammar))
    for call in calls(d):
        message = turn(d, call)
        assert reader.takes(unspool.render(message, d, tools=TOOLS, stage="content")), call


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_reasoning_before_calls_is_accepted(d: Dialect) -> None:
    reader = Reader(gbnf(constraint(d, "reasoning").grammar))
    message = turn(d, calls(d)[0], reasoning_content="A plan: < <| [ { 1, 2")
    try:
        raw = unspool.render(message, d, tools=TOOLS, stage="reasoning")
    except DialectError:
        pytest.skip("the dialect has no reasoning")
    assert reader.takes(raw)


def test_reasoning_that_two_tags_close_is_accepted_and_ends_at_the_first() -> None:
    d = dialect_of('reasoning = "<pad><think>{reasoning}</think></pad>"\ncall = "<f>{name}: {arguments}</f>"')
    reader = Reader(gbnf(constraint(d, "reasoning").grammar))
    assert reader.takes("A plan</think></pad><f>now: {}</f>")
    assert not reader.takes("A plan</THINK> b</think></pad><f>now: {}</f>")
    assert not reader.takes("A plan<f>now: {}</f>")


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_calls_that_break_their_schema_are_rejected(d: Dialect) -> None:
    made = constraint(d)
    reader, lark = Reader(gbnf(made.grammar)), Grammars(made)
    wrong = [
        turn(d, ("other", {})),
        turn(d, ("get_weather", {"unit": "celsius"})),  # a city is required
        turn(d, ("get_weather", {"city": "Paris", "days": True})),
        turn(d, ("get_weather", {"city": "Paris", "days": "soon"})),
        turn(d, ("get_weather", {"city": "Paris", "more": 1})),
        turn(d, ("get_weather", {"city": "a" * 13})),
    ]
    others = [tool("other"), tool("get_weather")]
    raws = (unspool.render(message, d, tools=others, stage="content") for message in wrong)
    assert [raw for raw in (*raws, "Just text.", "") if reader.takes(raw) or not lark.refuses(raw)] == []


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_where_a_text_may_stand_no_call_that_breaks_its_schema_can(d: Dialect) -> None:
    for stage, thought in (("content", ""), ("reasoning", "A plan."))[: 1 + bool(d.reasoning)]:
        made = constraint(d, stage, "auto", strict_level=ToolStrictLevel.PARAMETER)
        reader, lark = Reader(gbnf(made.grammar)), Grammars(made)
        for more, tools in (({}, TOOLS), ({"days": True}, [tool("get_weather")])):
            message = turn(d, ("get_weather", {"city": "Paris", **more}), reasoning_content=thought)
            raw = unspool.render(message, d, tools=tools, stage=stage)
            assert (reader.takes(raw), not lark.refuses(raw)) == (not more, not more), raw


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_whatever_text_must_not_begin_with_has_a_sign(d: Dialect) -> None:
    made = constraint(d, choice="auto", strict_level=ToolStrictLevel.PARAMETER).grammar
    texts = [node for rule in (made.root, *made.rules.values()) for node in below(rule) if isinstance(node, Text)]
    for unlike in dict.fromkeys(node for text in texts for node in text.unlike):
        found = signs(unlike)
        for text in (*shortest(unlike, '"'), *shortest(unlike, "'")):
            assert any(sign in text for sign in found), (found, text)


def below(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from below(child)


def shortest(node: Node, quote: str) -> Iterator[str]:
    """The shortest text of each way through a flat node, with this quote where any may stand."""
    if isinstance(node, Const):
        yield node.text
    elif isinstance(node, Chars):
        yield node.min * (quote if node.set == "\"'" else " ")
    elif isinstance(node, Repeat):
        yield node.min * next(shortest(node.part, quote))
    elif isinstance(node, Seq):
        yield from map("".join, itertools.product(*(list(shortest(part, quote)) for part in node.parts)))
    else:
        for option in options(node):
            yield from shortest(option, quote)


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_generated_texts_parse_into_valid_calls(d: Dialect) -> None:
    rng = random.Random(d.name)
    reader = matcher(gbnf(constraint(d, parallel_tool_calls=False).grammar))
    data = bytearray()
    likely = b' "}{],:</>\n|' + "｜▁".encode()
    while len(data) < 4000:
        mask = np.frombuffer(reader.compute_bitmask(), np.uint8)
        allowed = np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist()
        choices = [t for t in allowed if t != eos()]
        if not choices or (eos() in allowed and rng.random() < 0.5):
            break
        ends = [t for t in choices if t in likely]
        token = rng.choice(ends if ends and rng.random() < 0.4 else choices)
        assert reader.consume_token(token)
        data.append(token)
    assert reader.is_accepting()
    message = unspool.parse(data.decode(), d, tools=TOOLS, tool_choice="required", stage="content")
    assert [c.status for c in message.tool_calls] == ["ok"], data.decode()
    (call,) = message.tool_calls
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}
    validate(json.loads(call.arguments), schemas[call.name])


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
@pytest.mark.parametrize("stage", ["content", "reasoning"])
def test_only_syntax_that_llama_cpp_reads_is_written(d: Dialect, stage: str) -> None:
    text = gbnf(constraint(d, stage).grammar)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]', "", text)
    assert re.fullmatch(r"[A-Za-z0-9 ():=|*+?{},\n]*", outside), outside
    escapes = set(re.findall(r"\\(x[0-9A-F]{2}|.)", text))
    assert all(e in '"\\[]nrt' or e[0] == "x" for e in escapes), escapes
    names = re.findall(r"^(\w+) ::=", text, re.M)
    assert "root" in names
    assert len(names) == len(set(names))
    used = set(re.findall(r"\b[jpqrt]\d+(?:x\d+)?\b", outside)) - set(names)
    assert used == set(), "every rule that is referred to is there"


# -- nodes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", 'a"b', "a\\b", "\n\r\t", "\x00\x1f\x7f", "[x]^-", "中文｜▁🌍", "\x85\xa0"])
def test_a_constant_accepts_only_its_own_text(text: str) -> None:
    assert takes(one(Seq((Const("<"), Const(text), Const(">")))), f"<{text}>")
    assert not takes(one(Seq((Const("<"), Const(text), Const(">")))), f"<{text}x>")


@pytest.mark.parametrize(
    ("chars", "inside", "outside"),
    [
        (Chars("a-c"), "abc", "d-A"),
        (Chars("+\\-"), "+-", ",\\a"),
        (Chars("\\\\\\]\\^\\["), "\\]^[", "a-"),
        (Chars('"\\\\\\x00-\\x1f', negated=True), "a /é🌍'", '"\\\n\x00'),
        (Chars("\\s\\x1c-\\x1f"), " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2003\u3000", "a_\x00"),
        (Chars("^a", negated=True), "b-", "a^"),
        (Chars(""), "a\n\\🌍", ""),
    ],
)
def test_a_set_accepts_exactly_its_characters(chars: Chars, inside: str, outside: str) -> None:
    text = one(Seq((Const("<"), chars)))
    assert [c for c in inside if not takes(text, f"<{c}")] == []
    assert [c for c in outside if takes(text, f"<{c}")] == []


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize(("low", "high"), [(0, None), (1, None), (0, 0), (0, 1), (1, 1), (2, 4), (3, None), (0, 2)])
@pytest.mark.parametrize("separator", ["", ", "])
def test_repetitions_are_counted(low: int, high: int | None, separator: str, count: int) -> None:
    text = one(Seq((Const("<"), Repeat(Const("ab"), low, high, separator), Const(">"))))
    assert takes(text, f"<{separator.join(['ab'] * count)}>") == (low <= count and (high is None or count <= high))


@pytest.mark.parametrize("seed", range(12))
def test_free_text_ends_at_the_first_occurrence_of_its_marker(seed: int) -> None:
    # With only two letters, markers overlap with themselves and each other in every way.
    rng = random.Random(seed)

    def word(low: int, high: int) -> str:
        return "".join(rng.choice("ab") for _ in range(rng.randint(low, high)))

    stop, without = word(1, 4), tuple(word(2, 4) for _ in range(rng.randint(0, 2)))
    reader = matcher(one(Seq((Text(stop, without), Const("!")))))
    # If the stop contains another marker, that marker ends the text, and the rest of the stop must follow.
    cut = min((stop.find(w) + len(w) for w in without if w in stop), default=len(stop))
    end, rest = stop[:cut], stop[cut:]
    taken = 0
    for length in range(9):
        for letters in itertools.product("ab", repeat=length):
            whole = "".join(letters)
            body = whole.removesuffix(rest)
            fits = whole.endswith(rest) and body.find(end) + len(end) == len(body) and end in body
            fits = fits and not any(w in body[:-1] for w in without)
            fresh = reader.deep_copy()
            data = list(f"{whole}!".encode())
            got = fresh.try_consume_tokens(data) == len(data) and fresh.is_accepting()
            assert got == fits, (stop, without, whole)
            taken += fits
    assert taken or any(w in end[:-1] for w in without)


def test_free_text_without_a_marker_goes_on_to_the_end() -> None:
    text = one(Seq((Const("<"), Text("", ("</x>", "<y>")))))
    for good in ("", "abc", "</x", "<<y", "< /x>"):
        assert takes(text, "<" + good), good
    for bad in ("</x>", "a<y>b", "</</x>"):
        assert not takes(text, "<" + bad), bad


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "^(?i:a)"}, "pattern"),
        ({"type": "number", "minimum": 3}, "minimum"),
        ({"type": "integer", "minimum": 3, "multipleOf": 2}, "minimum|multipleOf"),
        ({"type": "object", "patternProperties": {"^a": True}}, "patternProperties"),
        ({"type": "object", "maxProperties": 3}, "maxProperties"),
        ({"type": "string", "maxLength": 2001}, "2,001"),
        ({"type": "string", "minLength": 5000}, "5,000"),
        ({"type": "array", "maxItems": 9999}, "9,998"),
    ],
)
def test_schemas_beyond_gbnf_are_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        in_hermes(schema)


def test_bounds_of_whole_numbers_are_kept() -> None:
    text = in_hermes({"type": "integer", "minimum": 1, "maximum": 14})
    for number, fits in ((0, False), (1, True), (14, True), (15, False)):
        call = f'<tool_call>\n{{"name": "f", "arguments": {{"x": {number}}}}}\n</tool_call>'
        assert takes(text, call) == fits, number


def test_a_schema_may_refer_to_itself() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    text = gbnf(constraint("hermes", tools=as_tools({"f": tree}, strict=False)).grammar)
    assert takes(text, '<tool_call>\n{"name": "f", "arguments": {"kids": [{}, {"kids": [{}]}]}}\n</tool_call>')
    assert not takes(text, '<tool_call>\n{"name": "f", "arguments": {"kids": [{"x": 1}]}}\n</tool_call>')


def test_a_grammar_that_grows_without_bound_is_refused() -> None:
    with pytest.raises(ConstraintError, match=r"too large|more than 500,000 characters"):
        in_hermes({"enum": [f"{i:01000d}" for i in range(1_100)]})


@pytest.mark.parametrize(
    ("marker", "lacked"), [("</x>", "<"), ("call:", ":"), ("end", "e"), ('say"', "s"), ('~"', "~")]
)
def test_raw_strings_lack_one_character_of_each_marker(marker: str, lacked: str) -> None:
    text = one(Word(Seq((Const('"'), Repeat(Chars('"', negated=True)), Const('"'))), (marker,)))
    for c in {*marker, *"abc"} - {'"'}:
        assert takes(text, f'"{c}bc"') == (c != lacked), c


@pytest.mark.parametrize(
    ("marker", "stop", "held", "kept_out"),
    [
        ("call:", ";/", ("call", "c", "/"), (":",)),
        ("call:", "\n: x", ("xyz",), ("c",)),  # the stop would complete the marker
        ("call:", ";", ("call",), (":", ";")),
        ("/%%", "%%", ("x",), ("/", "%")),
        ("end", "</v>", ("nd",), ("e", "<")),
        ("\n- x", "<", ("a",), ("-",)),
    ],
)
@pytest.mark.parametrize("low", [0, 1])
def test_text_of_bounded_length_lacks_a_sign_of_each_marker(
    marker: str, stop: str, held: tuple[str, ...], kept_out: tuple[str, ...], low: int
) -> None:
    text = one(Text(stop, (marker,), min=low, max=9))
    assert [t for t in held if len(t) >= low and not takes(text, t + stop)] == []
    assert [t for t in kept_out if takes(text, t + stop)] == []
