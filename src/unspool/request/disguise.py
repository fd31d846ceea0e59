"""Proves that the special tokens of a prompt are the template's own.

Values of a request contain no special token, but a template may make one of them: it may write ``<`` before a key and
``>`` after it, join two values, or change them. So a conversation whose values could take part in that is rendered a
second time, in disguise: other letters and signs stand in for those of which special tokens consist, one for one. What
the template writes itself is in both prompts, at the same place; a special token that is in the first one only comes
from values, and is broken up there.
"""

import re
import string
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

from ..chat_templates.tojson import tojson
from .special_tokens import BREAK, SpecialTokens

_SCHEMA: Final = frozenset(
    """
    type description properties required enum const items prefixItems additionalProperties anyOf oneOf allOf not
    default examples format pattern title nullable minimum maximum minItems maxItems minLength maxLength $ref $defs
    definitions
    """.split()  # noqa: SIM905 - longer as a list
)
"""Keys of schemas that templates look up, which keep their names."""
_FUNCTION: Final = frozenset(("name", "description", "parameters", "strict", "return", "response"))
_KEPT: Final = _SCHEMA | frozenset(
    """
    role content name text function tool_calls tool_call_id id arguments reasoning_content thinking parameters strict
    return response
    """.split()  # noqa: SIM905 - longer as a list
)
"""The same for keys of messages and tools."""
_WITHIN: Final = {"function": _FUNCTION, **dict.fromkeys(("parameters", "return", "response"), _SCHEMA)}
"""The same for what is within a key."""
_TYPES: Final = frozenset(("string", "object", "array", "integer", "number", "boolean", "null", "function", "text"))
_SYNTAX: Final = frozenset("\"'\\{}:,._-=\n\t\r " + string.digits)
"""Characters that keep their meaning: those of JSON, and those of ids."""
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPED: Final = re.compile(r"(\\u[0-9a-fA-F]{4}|\\.)|[^\\]+", re.DOTALL)
_IDLE: Final = "^;`"  # signs that may stand in for others, if no special token contains them
_CYRILLIC: Final = {ord(c): chr(ord(c) - ord("A") + ord("\u0410")) for c in string.ascii_letters}
"""Letters that stand in for others. They are in the same order and cases, and no text can make a token of them."""


class Change:
    """Changes values of a request; this one changes nothing. In those that are ``named``, such as the arguments of a
    call, no key has a meaning."""

    def __call__(self, value: Any, *, named: bool = False) -> Any:
        return value

    def json(self, text: str, value: Any) -> str:
        """The same for the arguments of a call, given as JSON text and as the value in it (``None``: it is no JSON)."""
        return text


class Neutral(Change):
    """Breaks up special tokens in the values of one request. ``risky``: whether one may become a token."""

    def __init__(self, special: SpecialTokens) -> None:
        self._special = special
        signs = {c for c in "".join(special.words) if not c.isalnum() and c not in _SYNTAX}
        self._signs = re.compile(f"[{re.escape(''.join(sorted(signs | set('&' + chr(92)))))}]")
        self.risky = False

    def json(self, text: str, value: Any) -> str:
        if value is not None and (made := self(value, named=True)) != value:
            return tojson(made)
        broken: str = self(text)
        return broken

    def __call__(self, value: Any, *, named: bool = False) -> Any:
        made = self._special.break_up(value)
        if not self.risky:
            _changed(made, self._look, named=named)
        return made

    def _look(self, text: str) -> str:
        self.risky = self.risky or self._special.has_piece(text) or self._signs.search(text) is not None
        return text


class Disguise(Change):
    """Changes values as `Neutral` does, and then their signs and letters. Without ``letters``, for templates that act
    upon words, it changes letters only in texts that are a piece of a special token, and keeps those that a template is
    ``acting`` upon: a switch (``/no_think``) anywhere, and others as a whole, such as the name of a tool (``python``)
    for which it writes ``<|python_tag|>`` itself."""

    def __init__(self, special: SpecialTokens, *, letters: bool, acting: Iterable[str] = ()) -> None:
        self._special = special
        self._kept = frozenset(acting)  # those that are kept as a whole
        switches = sorted((one for one in self._kept if one.startswith("/")), key=len, reverse=True)
        self._switches = re.compile(f"({'|'.join(map(re.escape, switches))})") if switches else None
        used = set("".join(special.words))
        idle = next((c for c in _IDLE if c not in used), _IDLE[0])
        changed: dict[str, str] = {}
        for c in used - _SYNTAX - {BREAK}:
            if not c.isascii():
                changed[c] = ("ˑ" if c != "ˑ" else "ʹ") if c.isalnum() else ("·" if c != "·" else "‧")
            elif not c.isalnum():
                changed[c] = idle
        signs = str.maketrans(changed)
        self._all = signs | _CYRILLIC
        self._table = self._all if letters else signs

    def __call__(self, value: Any, *, named: bool = False) -> Any:
        return _changed(self._special.break_up(value), self._text, named=named)

    def _text(self, text: str) -> str:
        if text in self._kept:
            return text
        table = self._all if self._special.has_piece(text) else self._table
        parts = [text] if self._switches is None else self._switches.split(text)
        parts[::2] = (part.translate(table) for part in parts[::2])
        return "".join(parts)

    def json(self, text: str, value: Any) -> str:
        if (made := self._special.break_up(value)) != value:  # it has the form of the neutral value
            text = tojson(made)
        broken: str = self._special.break_up(text)
        return _STRING.sub(lambda found: _ESCAPED.sub(self._outside, found[0]), broken)

    def _outside(self, piece: re.Match[str]) -> str:
        return piece[0] if piece[1] else piece[0].translate(self._table)


def _changed(
    value: Any, change: Callable[[str], str], key: str = "", *, named: bool, kept: frozenset[str] = _KEPT
) -> Any:
    """The value, whose own key is given, with its strings and keys changed, except words of schemas and messages; all
    keys in it may be names."""
    if isinstance(value, str):
        return value if key == "type" and value in _TYPES else change(value)
    if isinstance(value, dict):
        names = named or key == "properties"
        kept = _WITHIN.get(key, kept)
        made: dict[str, Any] = {}
        for k, v in value.items():
            name = k if k in kept and not names else change(k)
            if name in made:
                name = _another(name, len(made))
            made[name] = _changed(v, change, "" if names else k, named=named, kept=kept)
        return made
    if isinstance(value, list):
        return [_changed(v, change, key, named=named, kept=kept) for v in value]
    return value


def _another(name: str, at: int) -> str:
    """Another name of the same length for a key, because disguised keys may become equal."""
    tail = "".join(chr(ord("\u0430") + digit % 32) for digit in (at >> 10, at >> 5, at))[-len(name) :]
    return name[: -len(tail)] + tail


def broken_up(prompt: str, disguised: Iterable[Callable[[], str | None]], special: SpecialTokens) -> str | None:
    """A prompt, in which special tokens that come from values are broken up; ``None`` if it is unknown which these are.
    Each of ``disguised`` writes it in one disguise; ``None`` if the template refused."""
    places = special.places(prompt)
    if not places:
        return prompt
    for write in disguised:
        other = write()
        if other is None:
            continue
        own = special.places(other)
        forged = sorted(set(places) - set(own))
        if len(other) == len(prompt) and len(forged) == len(places) - len(own):
            cuts = [0, *(at + 1 for at in forged), len(prompt)]
            return BREAK.join(prompt[a:b] for a, b in pairwise(cuts))
        # The template has moved something, such as by another order of keys: then there must be as many of each token.
        if special.counts(prompt) <= special.counts(other):
            return prompt
    return None
