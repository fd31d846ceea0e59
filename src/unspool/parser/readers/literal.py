"""Literals in, JSON text out: an incremental reader for JSON, Python literals and JSON with strings in other quotes.

The reader is a push-down automaton without recursion. It validates while it reads, so a value that it calls done is
one JSON value. It streams while it reads, so a string's text is passed on as it arrives. JSON is passed on verbatim
(order, spacing, digits); other syntaxes are translated, with `", "` and `": "` between their parts.

It consumes text up to the position that it returns. The rest is the beginning of something (an escape, a word), and
must come again with more text after it.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from math import isinf
from typing import Any, Final

from ...dialect.patterns import NO
from ...dialect.syntax import KEYWORD, KEYWORDS, Syntax
from ...regex import Prefix, Regex
from .emitting import PYTHON_WORDS as _PYTHON_WORDS
from .numbers import Magnitude
from .quoted import STRING_OPEN, Strings
from .strings import json_string, unescaped
from .syntax import (
    AFTER,
    COLON,
    DONE,
    DOT,
    ERROR,
    EXP,
    EXP_DIGITS,
    EXP_SIGN,
    FIRST_ITEM,
    FIRST_KEY,
    FRACTION,
    INT,
    KEY,
    MAX_DEPTH,
    MAX_HELD,
    MAX_KEY,
    MAX_KEYS,
    MAX_WORD,
    NUMBER,
    SIGN,
    STRING,
    VALUE,
    WORD,
    ZERO,
    Root,
)

__all__ = ["DONE", "ERROR", "MAX_DEPTH", "STRING", "VALUE", "LiteralReader", "Root", "Syntax"]

_DIGITS = Prefix(r"[0-9]*+")
_WORD = Regex(r"[A-Za-z_][A-Za-z_0-9]*+")
_EXPONENT = Regex(r"[eE][+-]?[0-9]++")
_JSON_SPACE = Regex(r"[ \t\n\r]*+")
_BARE_KEY = Prefix(r"[^:,{}\[\]]*+")

_INSIDE: Final = r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\uHHHH)*+'.replace("H", "[0-9a-fA-F]")
_TOKEN = Regex(
    rf"""[ \t\n\r]*+(?:"(?:({_INSIDE})"|([^"\\\x00-\x1f]*+)\Z)"""
    r"|(-?(?:0|[1-9][0-9]{0,200})(?:\.[0-9]{1,90})?|true|false|null)(?=[ \t\n\r,\]}:])|([{}\[\],:]))"
)
"""A token of JSON: a string, the beginning of one that the text ends in, a number or a word, a sign."""
_STRING_END = Regex(f'({_INSIDE})"')

_COMPLETE = frozenset((ZERO, INT, FRACTION, EXP_DIGITS))
"""The states in which a number may end."""
_STRING_TOKEN, _OPEN_TOKEN, _SIGN_TOKEN = 1, 2, 4
_AFTER_DIGITS = {SIGN: INT, DOT: FRACTION, EXP: EXP_DIGITS, EXP_SIGN: EXP_DIGITS}
"""The states that digits change."""
_PAIRS = frozenset(("{}", "[]", "t)", "s}"))


# -- literals that are complete in the text ---------------------------------------------------------------------------

LONGEST: Final = 4096
"""The longest object, in characters, that is read in one go."""


def whole_object(text: str, i: int) -> int:
    """The end of the object that begins at ``i``, if it is plain; else 0, which decides nothing.

    An object is plain if a `LiteralReader` would pass it on unchanged, without a notice: strict JSON, no repeated
    key, no number beyond a float, not too deep.
    """
    if not text.startswith("{", i) or text.find("}", i, i + LONGEST) < 0:
        return 0
    piece = text[i : i + LONGEST]
    if piece.count("{") + piece.count("[") > MAX_DEPTH:
        return 0
    try:
        value, end = _scan(piece, 0)
        if len(value) != piece.count(":", 0, end):  # else each member has a key of its own, and no string a colon
            end = _scan_members(piece, 0)[1]
    except (ValueError, RecursionError, StopIteration):
        return 0
    return i + end


def _members(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")


def _float(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise ValueError("a number too large for a float")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _scanner(**hooks: Any) -> Callable[[str, int], tuple[Any, int]]:
    decoder = json.JSONDecoder(parse_float=_float, parse_constant=_constant, **hooks)
    return decoder.scan_once  # type: ignore[attr-defined, no-any-return]  # it is no part of the stub


_scan: Final = _scanner()
_scan_members: Final = _scanner(object_pairs_hook=_members)
"""Reads one value, without the checks of `json.JSONDecoder.raw_decode`."""

_GAP: Final = r"\s{0,64}+"
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,200}+)(?:\.[0-9]{1,90})?"


@lru_cache(64)
def _member(python: bool, quote: str) -> re.Pattern[str]:
    """Matches a plain member and the comma or bracket after it: its key, a string, what JSON writes alike, a word."""
    if python:
        key, string, end = rf"({KEYWORDS}){_GAP}=", r"""(?:'([^'\\]*+)'|"([^"\\]*+)")""", r"[,)]"
        words = "True|False|None|true|false|null"
    else:
        q = re.escape(quote)
        key, end = rf"((?!{q})[^:,{{}}\[\]\s]{{1,256}}+){_GAP}:", r"[,}]"
        string = rf"{q}((?:(?!{q})[{re.escape(quote[0])}]|[^{re.escape(quote[0])}]++)*+)()?{q}"
        words = "true|false|null"
    return re.compile(rf"{_GAP}{key}{_GAP}(?:{string}|({_NUMBER})|({words})){_GAP}({end})")


def whole_members(text: str, i: int, *, python: bool, quote: str) -> tuple[str, int]:
    """The JSON of plain keyword arguments, or of a plain object with other quotes, and where its bracket closes.

    They begin after the opening bracket, at ``i``. The text is ``""`` if they are not plain, or not complete.
    """
    member = _member(python, quote)
    found: dict[str, str] = {}
    while True:
        m = member.match(text, i)
        if m is None:
            return "", NO
        key, string, other, number, word, after = m.groups()
        if key in found or len(key) > MAX_WORD:
            return "", NO
        string = other if string is None else string
        found[key] = json_string(string) if string is not None else number or _PYTHON_WORDS[word]
        i = m.end()
        if after != ",":
            inside = ", ".join([f"{encode_basestring(key)}: {value}" for key, value in found.items()])
            return f"{{{inside}}}", i - 1


class LiteralReader(Strings):
    """Reads one value; its base class `Emitter` emits it as JSON."""

    __slots__ = ()

    def read(self, text: str, i: int) -> int:
        """Consume ``text`` from ``i``, and return the position up to which it was consumed."""
        how = self._how
        verbatim = how.keep and not how.repair
        if verbatim and self.mode == VALUE and not self.stack:
            end = whole_object(text, i)
            if end:
                self.out.append(text[i:end])
                self.mode = DONE
                return end
        n = len(text)
        self._mark = i
        doubt = self._doubt
        doubt.reads(i)
        while i < n:
            mode = self.mode
            if verbatim and mode != NUMBER and mode < DONE:
                j = self._tokens(text, i)
                if j > i:
                    i = j
                    continue
                mode = self.mode
            if mode == STRING:
                j = self._string(text, i, n)
                if j == i:  # the beginning of an escape or of a delimiter
                    break
            elif mode >= DONE:
                break
            elif mode == NUMBER:
                j = self._digits(text, i, n)
            else:
                c = text[i]
                if c <= " " or c > "\x7f":
                    k = how.space.match(text, i).end()
                    if k > i:
                        if how.repair and not _JSON_SPACE.fullmatch(text, i, k):
                            self._mend_space(text, i, k)
                        elif self._pending:
                            self._append_space(text[i:k])
                            self._mark = k
                        elif not how.keep:
                            self._mark = k
                        i = k
                        continue
                if verbatim and c == "," and mode == AFTER:
                    self._comma = True
                    self.mode = KEY if self.stack[-1] == "{" else VALUE
                    i += 1
                    continue
                if verbatim and c == ":" and mode == COLON:
                    self._comma = False
                    self.mode = VALUE
                    i += 1
                    continue
                j = self._token(text, i, n, c)
            if j < 0:
                if self.mode == ERROR:
                    i = self._mark
                break
            i = j
        if how.keep and i > self._mark and not self._pending:
            self.out.append(text[self._mark : i])
        if doubt.since >= 0 and doubt.dropping < 0 and doubt.read(i):
            self._overflows()
        return i

    def _tokens(self, text: str, i: int) -> int:
        """Consume a run of complete tokens of JSON that is passed on unchanged, as far as they are right."""
        stack, given, mode = self.stack, self._given, self.mode
        if mode == STRING:
            m = _STRING_END.match(text, i)
            if m is None:
                return i
            if self._is_key:
                before = self._key_text
                if before is None or not self._give(before + m.group(1)):
                    return i
                mode = COLON
                self._is_key = False
            else:
                mode = AFTER if stack else DONE
            self.delimiter = ""
            i = m.end()
        while mode < DONE:
            m = _TOKEN.match(text, i)
            if m is None:
                break
            kind, end = m.lastindex, m.end()
            if kind == _SIGN_TOKEN:
                c = text[end - 1]
                if c == ",":
                    if mode != AFTER:
                        break
                    self._comma = True
                    mode = KEY if stack[-1] == "{" else VALUE
                elif c == ":":
                    if mode != COLON:
                        break
                    mode = VALUE
                elif c == "{" or c == "[":
                    if mode > FIRST_ITEM or len(stack) >= MAX_DEPTH or not (stack or c == "{" or not self._how.whole):
                        break
                    stack.append(c)
                    self._comma = False
                    if c == "{":
                        given.append(set())
                        mode = FIRST_KEY
                    else:
                        mode = FIRST_ITEM
                else:
                    opened = "{" if c == "}" else "["
                    first = FIRST_KEY if c == "}" else FIRST_ITEM
                    if (mode != AFTER and mode != first) or not stack or stack[-1] != opened:
                        break
                    stack.pop()
                    if c == "}":
                        given.pop()
                    mode = AFTER if stack else DONE
            elif mode == KEY or mode == FIRST_KEY:
                if kind == _STRING_TOKEN:
                    if not self._give(m.group(1)):
                        break
                    mode = COLON
                elif kind == _OPEN_TOKEN:
                    self._key_text = m.group(2) if end - i <= MAX_KEY else None
                    self._key_at = -1
                    self._is_key = True
                    mode = STRING
                else:
                    break
                self._comma = False
            elif mode <= FIRST_ITEM and stack:
                mode = STRING if kind == _OPEN_TOKEN else AFTER
                self._comma = False
            else:
                break
            i = end
            if mode == STRING:
                self.delimiter = '"'
                self._escape_free = False
                break
        self.mode = mode
        return i

    def _give(self, key: str) -> bool:
        """Record a key of the innermost object; false if the usual steps have something to report, or to forget."""
        if len(key) > MAX_KEY:
            return False
        keys = self._given[-1]
        code = hash(unescaped(key) if "\\" in key else key)
        if code in keys or len(keys) >= MAX_KEYS:
            return False
        keys.add(code)
        return True

    def _mend_space(self, text: str, i: int, k: int) -> None:
        """Turn white space at ``text[i:k]`` into spaces, if some of it is not JSON's."""
        mended = "".join(c if c in " \t\n\r" else " " for c in text[i:k])
        self._mended("white space")
        if self._pending:
            self._append_space(mended)
        else:
            self._flush(text, i)
            self.out.append(mended)
        self._mark = k

    def _append_space(self, space: str) -> None:
        """Hold white space after a comma. What exceeds the limit is dropped: the JSON means the same without it."""
        if len(self._pending) < MAX_HELD:
            self._pending = (self._pending + space)[:MAX_HELD]

    def close_all(self) -> str:
        """The JSON text that would close the open containers, which repairs a value that its call's closing cuts off.

        It is empty if closing would have to invent a value.
        """
        tail = ""
        stack = self.stack
        mode = self._broken if self.mode == ERROR else self.mode
        if self._doubt.dropping >= 0:
            stack = stack[: self._doubt.dropping]
        elif mode == STRING and not self._is_key:
            tail = '"'
        elif mode == NUMBER:
            if self._number not in _COMPLETE or self._endless():
                return ""
        elif mode not in (AFTER, FIRST_ITEM, FIRST_KEY) and not (self._comma and mode in (KEY, VALUE)):
            return ""
        self._pending = self._pending[1:]  # a trailing comma is dropped, its white space stays
        tail = self.rest() + tail
        for bracket in reversed(stack):
            tail += "]" if bracket in "[ts" else "}"
        return tail

    # -- between strings and numbers ----

    def _token(self, text: str, i: int, n: int, c: str) -> int:
        mode = self.mode
        if mode == AFTER:
            if c == ",":
                self._comma = True
                if self._how.repair:
                    self._flush(text, i)
                    self._pending = ","
                    self._mark = i + 1
                self.mode = VALUE if self.stack[-1] in "[ts" else KEY
                return i + 1
            if self.stack[-1] == "(" and c != ")":
                named = self._name_follows(text, i, n)
                if named < 0:
                    return -1
                if named:
                    self._comma = True
                    self.mode = KEY
                    return i
            return self._close(text, i, c)
        if mode == VALUE or mode == FIRST_ITEM:
            if c == "]" or c == ")" or (c == "}" and self.stack and self.stack[-1] == "s"):
                if mode == FIRST_ITEM or (self._comma and self._lenient("trailing comma")):
                    return self._close(text, i, c)
                return self._fail(text, i, f"{c!r} where a value is expected")
            return self._value(text, i, n, c)
        if mode == COLON:
            keyword = self.stack[-1] == "("
            if self._doubt.maybe_set:
                if c in ",}" and not self._too_much(i):
                    self._is_set()
                    self._ended()
                    return i
                self._doubt.decide()
            if c != ("=" if keyword else ":"):
                return self._fail(text, i, f"{c!r} after a key")
            if not self._how.keep:
                self.out.append(": ")
            self.mode = VALUE
            self._comma = False
            return i + 1
        if mode == WORD:
            return self._word(text, i, n)
        # FIRST_KEY or KEY
        if c == "}" or c == ")":
            if mode == FIRST_KEY or (self._comma and self._lenient("trailing comma")):
                return self._close(text, i, c)
            return self._fail(text, i, f"{c!r} where a key is expected")
        return self._key(text, i, n, c)

    def _lenient(self, what: str) -> bool:
        if self._how.keep and not self._how.repair:
            return False
        self._fix(what)
        return True

    def _key(self, text: str, i: int, n: int, c: str) -> int:
        if self.stack[-1] == "(":
            return self._keyword(text, i, n)
        if self._how.quoted:
            return self._quoted_key(text, i, n)
        if c == '"' or (c in "'rRuU" and self._how.python) or (c == "'" and self._how.repair):
            return self._open_string(text, i, n, True)
        if self._how.repair and (c.isalpha() or c == "_"):
            m = _WORD.match(text, i)
            if m is not None:
                if m.end() - i > MAX_KEY:
                    return self._fail(text, i, "an unterminated key")
                if m.end() == n:
                    return -1
                self._fix("bare key")
                self._flush(text, i)
                self._doubt.decide()
                self._mark = m.end()
                return self._bare_key(m.group(), m.end())
        if self._doubt.maybe_set:
            self._is_set()
            self.mode = VALUE
            return self._value(text, i, n, c)
        return self._fail(text, i, f"{c!r} where a key is expected")

    def _keyword(self, text: str, i: int, n: int) -> int:
        """Read the name of a keyword argument."""
        name = KEYWORD.match(text, i)
        end = self._how.space.match(text, name.end()).end()
        if end - i > MAX_KEY:
            return self._fail(text, i, "an unterminated name")
        if end == n:
            return -1
        if text[end] != "=":
            return self._fail(text, i, "a positional argument (allowed are keyword arguments)")
        return self._bare_key(name.group(), end)

    def _quoted_key(self, text: str, i: int, n: int) -> int:
        """Read a key in JSON with other quotes, where keys may be bare."""
        if text.startswith(self._how.quote, i):
            return self._open_string(text, i, n, True)
        if self._how.quote.startswith(text[i:n]):
            return -1
        bare = _BARE_KEY.match(text, i)
        if bare.end() - i > MAX_KEY:
            return self._fail(text, i, "an unterminated key")
        if bare.end() == n:
            return -1
        if bare.end() == i or text[bare.end()] != ":":
            return self._fail(text, i, "an object without a key")
        return self._bare_key(bare.group().rstrip(), bare.end())

    def _name_follows(self, text: str, i: int, n: int) -> int:
        """Whether a keyword argument begins where a comma was left out: 1, 0, or -1 if that is undecided."""
        if not self.stack or self.stack[-1] != "(":
            return 0
        m = KEYWORD.match(text, i)
        end = self._how.space.match(text, m.end()).end()
        if end - i > MAX_KEY:
            return 0
        if end == n:
            return -1
        exponent = _EXPONENT.match(text, i) if self.mode == NUMBER else None
        if exponent is not None and exponent.end() < m.end():
            return 0  # the name begins after the exponent
        return int(m.end() > i and text[end] == "=")

    def _bare_key(self, key: str, end: int) -> int:
        """Read a complete key without quotes, which ends at ``end``."""
        since = len(self.out)
        self._element()
        self.out.append(encode_basestring(key))
        if self._doubt.dropping < 0 and self._known(key) and not self._how.keep:
            self._doubt.wait(since, 0)
            self._drop()
        self.mode = COLON
        return end

    def _value(self, text: str, i: int, n: int, c: str) -> int:
        if self._how.whole and not self.stack and c != "{":
            return self._fail(text, i, "not an object")
        if self._how.quoted:
            if text.startswith(self._how.quote, i):
                return self._open_string(text, i, n, False)
            if n - i < len(self._how.quote) and self._how.quote.startswith(text[i:n]):
                return -1
        elif c == '"':
            return self._open_string(text, i, n, False)
        elif self._how.python:
            if c == "'" or STRING_OPEN.match(text, i):
                return self._open_string(text, i, n, False)
            if c in "rRuU" and i + 1 == n:
                return -1
        elif c == "'" and self._how.repair:
            return self._open_string(text, i, n, False)
        if c in "{[" or (c == "(" and self._how.python):
            if len(self.stack) >= MAX_DEPTH:
                return self._fail(text, i, f"nested deeper than {MAX_DEPTH}")
            return self._open_bracket(text, i, c)
        if c in "-0123456789" or (c in "+." and not self._how.quoted and (self._how.repair or not self._how.keep)):
            self._begin(text, i)
            self._number = SIGN
            self._size = Magnitude()
            self.mode = NUMBER
            if c == "+" or c == ".":
                self._fix("number")
                self._mark = i + 1
                if c == ".":
                    self.out.append("0.")
                    self._number = DOT
                    self._size.more(c)
                return i + 1
            if c == "-":
                if not self._how.keep:
                    self.out.append("-")
                return i + 1
            return i
        return self._word(text, i, n)

    def _open_bracket(self, text: str, i: int, c: str) -> int:
        self._begin(text, i)
        # If sets are repaired, what follows decides whether this is one.
        maybe_set = c == "{" and self._how.mend and not self._how.quoted and bool(self.stack)
        if maybe_set and self._doubt.dropping < 0:
            self._doubt.wait(len(self.out), i, maybe_set=True)
            self.out.append(c)
            self._mark = i + 1
        elif not self._how.keep:
            self.out.append("[" if c == "(" else c)
        self.stack.append("t" if c == "(" else c)
        if c == "{":
            self._given.append(set())
        self.mode = FIRST_KEY if c == "{" else FIRST_ITEM
        self._comma = False
        return i + 1

    def _word(self, text: str, i: int, n: int) -> int:
        m = _WORD.match(text, i)
        if m is None:
            return self._fail(text, i, f"{text[i]!r} where a value is expected")
        if m.end() - i > (MAX_KEY if self.stack[-1:] == ["("] else MAX_WORD):
            return self._fail(text, i, "an unknown word where a value is expected")
        if m.end() == n:
            # A word ends where another character begins.
            self.mode = WORD
            return -1
        written = m.group()
        word = self._how.words.get(written)
        if word is None:
            # A name may follow directly, if a comma was left out.
            written = next((w for w in self._how.words if written.startswith(w)), "")
            named = self._name_follows(text, i + len(written), n) if written else 0
            if named < 0:
                self.mode = WORD
                return -1
            if not named:
                return self._fail(text, i, f"{m.group()[:MAX_WORD]} is not a value")
            word = self._how.words[written]
        self._begin(text, i)
        end = i + len(written)
        if not self._how.keep or word != written:
            if word != written:
                self._fix("Python literal")
            self.out.append(word)
            self._mark = end
        self._ended()
        return end

    def _close(self, text: str, i: int, c: str) -> int:
        top = self.stack[-1]
        if c == ")" and top == "(":
            self.out.append("}")
            self.mode = DONE
            return -1
        if top + c not in _PAIRS:
            return self._fail(text, i, f"{c!r} where ',' or the end of a value is expected")
        if self._pending:  # a trailing comma is dropped, its white space stays
            self.out.append(self._pending[1:])
            self._pending = ""
            self._mark = i
        self._comma = False
        self.stack.pop()
        if top == "{":
            self._given.pop()
            if self._doubt.maybe_set:  # an empty object
                self._doubt.decide()
        if top == "s" and self._how.keep:
            self._flush(text, i)
            self._mark = i + 1
        if not self._how.keep or top == "s":
            self.out.append("}" if top == "{" else "]")
        self._ended()
        return i + 1

    # -- numbers --------------------------------------------------------------------------------------------------

    def _digits(self, text: str, i: int, n: int) -> int:
        """Read digits of a number, or the character after them."""
        j = _DIGITS.match(text, i).end()
        if j == i:
            return self._after_digits(text, i, n)
        state = self._number
        if state == SIGN and text[i] == "0":
            return self._zero(text, i, n)
        if state == ZERO:
            return self._fail(text, i, "a number with a leading zero")
        self._number = _AFTER_DIGITS.get(state, state)
        digits = text[i:j]
        self._size.more(digits)
        if not self._how.keep:
            self.out.append(digits)
        return j

    def _after_digits(self, text: str, i: int, n: int) -> int:
        """Read a character that is no digit: a point, a sign, an exponent, or what ends the number."""
        c = text[i]
        state = self._number
        complete = state in _COMPLETE
        lenient = self._how.repair or self._how.python
        named = self._name_follows(text, i, n) if c.isalpha() or c == "_" else 0
        if named < 0 and complete:
            return -1
        if c == "." and state in (ZERO, INT):
            return self._goes_on(i, c, DOT)
        if named and complete and not self._endless():
            self._ended()
            return i
        if c in "eE" and (state in (ZERO, INT, FRACTION) or (state == DOT and lenient)):
            self._add_fraction(text, i)
            return self._goes_on(i, c, EXP)
        if c in "+-" and state == EXP:
            return self._goes_on(i, c, EXP_SIGN)
        if c == "_" and state in (INT, FRACTION, EXP_DIGITS) and lenient:
            self._fix("number")
            self._flush(text, i)
            self._mark = i + 1
            return i + 1
        if c.isalnum() or c in "_." or not (complete or (state == DOT and lenient)):
            return self._fail(text, i, f"{c!r} in a number")
        if self._endless():
            return self._fail(text, i, "a number too large for a float")
        if self._add_fraction(text, i):
            self._fix("number")
        self._ended()
        return i

    def _goes_on(self, i: int, c: str, state: int) -> int:
        """The number goes on with the character at ``i``."""
        self._number = state
        self._size.more(c)
        if not self._how.keep:
            self.out.append(c)
        return i + 1

    def _add_fraction(self, text: str, i: int) -> bool:
        """If a point is the last thing before ``i``, add the zero that JSON wants after it."""
        if self._number != DOT:
            return False
        self._flush(text, i)
        self.out.append("0")
        return True

    def _zero(self, text: str, i: int, n: int) -> int:
        """Read a leading zero: it is all of the integer part, or one too many."""
        if self._how.mend:
            if i + 1 == n:
                return -1
            if text[i + 1] in "0123456789":
                self._flush(text, i)
                self._mark = i + 1
                self._mended("leading zero")
                return i + 1
        self._number = ZERO
        self._size.more("0")
        if not self._how.keep:
            self.out.append("0")
        return i + 1

    def _endless(self) -> bool:
        """Whether the number so far rounds to infinity, if it has a point or an exponent."""
        return self._number not in (ZERO, INT) and self._size.infinite()
