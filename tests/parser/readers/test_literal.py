"""The literal reader on its own: what it accepts, translates, repairs and refuses, however the text is cut."""

import json
import math
import random
import time
from ast import literal_eval
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.dialect.syntax import Syntax
from unspool.parser.readers.literal import DONE, ERROR, LiteralReader
from unspool.parser.readers.spelling import Root
from unspool.parser.readers.strings import JSON_RUN, LONG, escaped, json_run, json_string
from unspool.parser.readers.wrapped import UnwrapReader

TEXTS = ["", "a", 'say "hi"', "it's", "a\\b\n\t", "é\U0001f600", "\x01", "</x>", "{["]
VALUES = [*TEXTS, 0, -1, 3.5, 1e-07, 2**70, True, False, None]


def read(reader: LiteralReader | UnwrapReader, text: str, rng: random.Random | None = None) -> tuple[str, str]:
    """The JSON text that is read and the rest of the text, which is cut at random places."""
    waiting = emitted = ""
    for piece in cuts(text, rng):
        waiting += piece
        waiting = waiting[reader.read(waiting, 0) :]
        emitted += reader.take()
        if reader.mode >= DONE:
            break
    return emitted, waiting


def cuts(text: str, rng: random.Random | None) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = len(text) if rng is None else rng.choice((1, 1, 2, 3, 5, 50))
        yield text[at : at + size]
        at += size


def some(rng: random.Random, depth: int = 0) -> Any:
    roll = rng.random()
    if roll < 0.6 or depth > 3:
        return rng.choice(VALUES)
    inner = [some(rng, depth + 1) for _ in range(rng.randrange(4))]
    return inner if roll < 0.8 else {f"k{i} \"'": v for i, v in enumerate(inner)}


AT_ONCE = [
    '{"a": [{"b": 1, "c": 2}, {"b": 1}], "d": {}, "e": []}',
    '[1, {"a": 1, "a": 2}]',
    '[{"a": 1, "a": 2}, {"b": 1}]',
    '{"a": {"b": 1, "b": 2}}',
    '{"a": 1, "a": {"b": ":"}}',
    '{"a:": [":", {"b": 1, "b": 2}]}',
    '[1, -2.5, 0, "a", true, null, 1e400, {"a": 1e309}]',
    '["a", "b\\n", "c", "\\q", 1]',
    "[1, 2, 03]",
    '[1, 2, "a" "b"]',
    "[1, 2,]",
    '{"a": [NaN]}',
    '{"a": ' + "[" * 600 + "]" * 600 + "}",
    '{"a": [' + '{"b": {"c": [1, 2]}, "d": "e"}, ' * 400 + '{"a": 1, "a": 2}]}',
]
"""JSON, some of it plain enough to be read at once, or from one comma to the next."""


@pytest.mark.parametrize("text", AT_ONCE)
def test_json_read_at_once_is_the_json_that_is_read_by_characters(text: str) -> None:
    read_by = []
    for size in (len(text), 1, 7):
        reader, emitted, waiting = LiteralReader(Syntax.JSON, Root.ANY), "", ""
        for at in range(0, len(text), size):
            waiting += text[at : at + size]
            waiting = waiting[reader.read(waiting, 0) :]
            emitted += reader.take()
        read_by.append((emitted, reader.mode, reader.error, reader.notes, waiting if reader.mode == DONE else ""))
    assert read_by[0] == read_by[1] == read_by[2]


KEYWORDS = {
    "Max-N='a', a.b=1, two words=2, 1st=3, größe=4, class=5, @x=6, =7)": {
        "Max-N": "a", "a.b": 1, "two words": 2, "1st": 3, "größe": 4, "class": 5, "@x": 6, "": 7,
    },
    """city="a"days=-3next=1.5e-7zq=TrueMax-N=Noneb=[1]e1='x'end=2e5c=1_0)""": {
        "city": "a", "days": -3, "next": 1.5e-7, "zq": True, "Max-N": None, "b": [1], "e1": "x", "end": 2e5, "c": 10,
    },
}  # fmt: skip
"""Keyword arguments with names that are not identifiers, and with commas left out."""


@pytest.mark.parametrize("text", KEYWORDS)
def test_names_of_keyword_arguments_are_found_however_the_text_is_cut(text: str) -> None:
    for seed in range(20):
        output, left = read(LiteralReader(Syntax.PYTHON, Root.KEYWORDS), text, random.Random(seed))
        assert (json.loads(output), left) == (KEYWORDS[text], ")")
    for wrong in ("'a')", "3)", "a b)", "a=1 b)", "a=1b)", "a='x'b, c=1)", "a=1<b=2)", "a=Truthy)"):
        reader = LiteralReader(Syntax.PYTHON, Root.KEYWORDS)
        read(reader, wrong)
        assert reader.mode == ERROR


@pytest.mark.sampled(60)
@pytest.mark.parametrize("seed", range(300))
def test_values_of_every_syntax_read_back_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    value = {f"a{i}": some(rng) for i in range(rng.randrange(4))}
    for repair in (False, True):
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
        reader = LiteralReader(Syntax.JSON, Root.OBJECT, repair=repair)
        assert read(reader, text, rng) == (text, "")
        assert (reader.mode, reader.repaired) == (DONE, "")
    for reader in (LiteralReader(Syntax.PYTHON, Root.OBJECT), LiteralReader(Syntax.JSON, Root.OBJECT, repair=True)):
        assert json.loads(read(reader, repr(value), rng)[0]) == value
    keywords = ", ".join(f"{k}={v!r}" for k, v in value.items()) + ")"
    output, left = read(LiteralReader(Syntax.PYTHON, Root.KEYWORDS), keywords, rng)
    assert json.loads(output) == value
    assert left.startswith(")")
    wrapped = json.dumps(json.dumps(value, ensure_ascii=rng.random() < 0.5), ensure_ascii=rng.random() < 0.5)
    assert json.loads(read(UnwrapReader(Syntax.JSON), wrapped, rng)[0]) == value


SCALARS = [
    *("1", "-2.5", "0x1f", "-0b1_0", "0", "1.", "-.5", "+.5e3", "True", "None"),
    *("'a'", "'a' \"b\"", "('a'\n r'\\d')", "'it\\'s'"),
]


def written(rng: random.Random, depth: int = 0) -> str:
    """A literal as Python may write it."""
    if rng.random() < 0.5 or depth > 3:
        return rng.choice(SCALARS)
    items = [written(rng, depth + 1) for _ in range(rng.randrange(4))]
    if rng.random() < 0.3:
        return "{" + ", ".join(f"'k{i}': {item}" for i, item in enumerate(items)) + "}"
    comma = rng.choice(("", " ,")) if items else ""
    return rng.choice(("({})", "[{}]")).format(", ".join(items) + comma)


@pytest.mark.parametrize("number", [".", "-.", ".e5", "+.e1", "-.x", ".j"])
def test_a_point_without_digits_is_no_number(number: str) -> None:
    for text in (f"a={number}, b=1)", f"a={number})", f"a=[{number}]"):
        for repair in (False, True):
            reader = LiteralReader(Syntax.PYTHON, Root.KEYWORDS, repair=repair)
            output, _ = read(reader, text, random.Random(1))
            assert (reader.mode, output[:5]) == (ERROR, '{"a":')


@pytest.mark.sampled(60)
@pytest.mark.parametrize("seed", range(300))
def test_python_literals_mean_what_python_says_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    texts = [written(rng) for _ in range(3)]
    for repair in (False, True):
        reader = LiteralReader(Syntax.PYTHON, Root.KEYWORDS, repair=repair)
        output, _ = read(reader, f"a={texts[0]}, b = {texts[1]} , c={texts[2]})", rng)
        meant = {key: literal_eval(text) for key, text in zip("abc", texts, strict=True)}
        assert (json.loads(output), reader.repaired) == (json.loads(json.dumps(meant)), "")


@pytest.mark.parametrize("white", ["\u2028", "\x0b", "\xa0", " \u3000\n"])
@pytest.mark.parametrize("seed", [None, 1])
def test_white_space_that_is_not_jsons_becomes_spaces(white: str, seed: int | None) -> None:
    text = '{_"a"_:_[_1_,_"x_"_,_{_}_,_]_,_"b"_:_true_}'.replace("_", white)
    reader = LiteralReader(Syntax.JSON, Root.OBJECT, repair=True)
    output, left = read(reader, text, None if seed is None else random.Random(seed))
    assert (json.loads(output), left, reader.repaired) == ({"a": [1, f"x{white}", {}], "b": True}, "", "white space")
    verbatim = LiteralReader(Syntax.JSON, Root.OBJECT)
    read(verbatim, text)
    assert verbatim.mode == ERROR


@pytest.mark.parametrize("text", ['"abc"', '"{\\"a\\": x}"', '"{} more"', '"[1]"'])
def test_a_string_that_holds_no_object_is_not_unwrapped(text: str) -> None:
    reader = UnwrapReader(Syntax.JSON)
    read(reader, text)
    assert reader.mode == ERROR


def test_arguments_are_closed_only_if_no_value_must_be_invented() -> None:
    for text, tail in [
        ('{"a": "x', '"}'),
        ('{"a": [1, {"b": 2', "}]}"),
        ('{"a": 1', "}"),
        ('{"a":', "}"),
        ('{"a', "}"),
        ('{"a": {"b": 1, "c', "}}"),
        ('{"a": 1.', "0}"),
        ('{"a": 1e', "0}"),
        ('{"a": -', ""),
    ]:
        reader = LiteralReader(Syntax.JSON, Root.OBJECT, repair=True)
        read(reader, text)
        assert reader.close_all() == tail


ESCAPES = ["\\\\", "\\'", '\\"', "\\n", "#" * 70]
PIECES = [*ESCAPES, "\\t", "\n", "\t", "\x00", "\x01", "é", "\\\n", "\\x41", "\\u00e9", "\\q"]


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(200))
def test_long_python_strings_with_every_kind_of_escape_mean_what_python_says(seed: int) -> None:
    rng = random.Random(seed)
    known = rng.choice((ESCAPES, PIECES))
    body = "".join(rng.choice(known) for _ in range(rng.choice((5, 40, 400))))
    # `eval` refuses zero bytes, and warns about unknown escapes.
    want = json.loads(read(LiteralReader(Syntax.PYTHON, Root.ANY), f"'{body}' ", None)[0])
    assert want == meaning(body)
    for quote in ("'", '"', "'''"):
        output, left = read(LiteralReader(Syntax.PYTHON, Root.ANY), f"{quote}{body}{quote} ", rng)
        assert (json.loads(output), left.strip()) == (want, "")


def meaning(body: str) -> str:
    """Decode the inside of a Python string, one escape at a time."""
    simple = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "\n": "", "q": "\\q"}
    text = ""
    at = 0
    while at < len(body):
        if body[at] != "\\":
            text += body[at]
            at += 1
        elif body[at + 1] in "xu":
            digits = 2 if body[at + 1] == "x" else 4
            text += chr(int(body[at + 2 : at + 2 + digits], 16))
            at += 2 + digits
        else:
            text += simple[body[at + 1]]
            at += 2
    return text


def test_a_text_of_any_length_and_character_becomes_the_same_json_string() -> None:
    """Long texts take another way, which refuses halves of surrogate pairs."""
    for first in range(0, 0x110000, LONG):
        text = "".join(map(chr, range(first, first + LONG)))
        assert json_string(text) == "".join(['"', *(escaped(c) for c in text), '"'])


@pytest.mark.parametrize("piece", ["a", "é", "価", "\\n", "\\\\", '\\"', "\\u00e9", "\\ud83d", "/"])
@pytest.mark.parametrize("end", ['"', '\\\\"', '\\\\\\"x"', "\n", "\\x", "\\u12", "\\", ""])
def test_a_long_json_string_is_read_as_far_as_a_short_one(piece: str, end: str) -> None:
    for rest in ("", "}", '", "b": "c"}'):
        text = piece * LONG + end + rest
        assert json_run(text, 0) == JSON_RUN.match(text, 0).end()


@pytest.mark.parametrize("piece", ["\\x41 b ", "' b ", "\\\\\\' b ", "\\u00e9"])
def test_escapes_and_quotes_in_python_strings_cost_linear_time(piece: str) -> None:
    def cost(times: int) -> float:
        text = "'''" + piece * times
        fastest = math.inf
        for _ in range(3):
            reader = LiteralReader(Syntax.PYTHON, Root.ANY)
            start = time.process_time()
            reader.read(text, 0)
            fastest = min(fastest, time.process_time() - start)
        return fastest

    assert cost(16_000) < 40 * cost(1_000)
