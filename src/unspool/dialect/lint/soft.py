"""Rules by which templates may not mean what they seem to mean. They refuse nothing: they explain a failed example."""

from collections.abc import Iterator

from ..file import Dialect
from ..patterns import pattern, worded
from ..template import BODIES, literal
from .rule import Found, Rules, found, parts

SOFT = Rules()


@SOFT.row(
    "reasoning, content, preamble, calls, call, argument, item",
    "`{key}` begins with {opening!r}, in which white space is soft",
    ": only {searched!r} is searched for, and text may contain it for another reason",
    "let it begin with a word that is rare in text",
)
def soft_white_space_in_an_opening(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, *BODIES):
        opening = literal(t.head).strip()
        searched = pattern((opening,)).first if opening else ""
        common = not worded(searched) or searched.isalnum()
        if " " in opening and searched != opening and common:
            yield found(key, key=key, opening=opening, searched=searched)


def _firsts(d: Dialect) -> dict[str, list[str]]:
    """What parts are found by, with the keys of these parts."""
    begins: dict[str, list[str]] = {}
    for key, t in parts(d, *BODIES):
        first = pattern(t.before).first
        if first and key not in begins.setdefault(first, []):
            begins[first].append(key)
    return begins


@SOFT.row(
    "reasoning, content, preamble, calls, call, argument, item", "{keys} begin with {opening!r}",
    ": the most literal template that fits is read, and text in them cannot contain it",
)  # fmt: skip
def parts_that_begin_alike(d: Dialect) -> Iterator[Found]:
    for opening, keys in _firsts(d).items():
        if len(keys) > 1:
            yield found(keys[0], keys=", ".join(f"`{key}`" for key in keys), opening=opening)


@SOFT.row(
    "reasoning, content, preamble, calls, call, argument, item",
    "{opening!r} of `{key}` is the beginning of {other!r} of `{other_key}`",
)
def parts_of_which_one_begins_the_other(d: Dialect) -> Iterator[Found]:
    begins = _firsts(d)
    for opening, keys in begins.items():
        for other in begins:
            if other != opening and other.startswith(opening):
                yield found(keys[0], opening=opening, key=keys[0], other=other, other_key=begins[other][0])


@SOFT.row(
    "end, reasoning, calls, call, argument, item", "the `end` string {end!r} occurs in `{key}` too",
    ", where it ends only that part",
)  # fmt: skip
def ends_inside_a_part(d: Dialect) -> Iterator[Found]:
    for end in d.end:
        inside = [key for key, t in parts(d, "reasoning", "calls", "call", "argument", "item") if end in t.text]
        if inside and not end.isspace():
            yield found(inside[0], end=end, key=inside[0])
