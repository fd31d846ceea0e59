"""Literals in, JSON text out: an incremental reader for JSON, Python literals and JSON with strings in other quotes.

One push-down machine without recursion. It validates while it reads, so that what it calls done is one JSON value, and
streams while it reads, so that a string's text is handed on as it arrives. JSON is handed on verbatim (order, spacing,
digits); other syntaxes are translated with `", "` and `": "` between their parts.

The reader consumes text up to the position it returns; what it leaves is the beginning of something (an escape, a word)
and comes back with more text behind it.
"""

import enum
import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Final

from ..regex import Regex
from .numbers import Magnitude
from .strings import (
    JSON_PARTIAL,
    JSON_RUN,
    LONG,
    PYTHON_RUNS,
    RAW_RUNS,
    STRETCH,
    escaped,
    marker_scan,
    python_stretch,
    translated,
)

MAX_DEPTH: Final = 512
MAX_WORD: Final = 64
MAX_KEY: Final = 1024
MAX_KEYS: Final = 1024
"""How many keys of one object are remembered, so that one given twice is found."""
MAX_HELD: Final = 65_536
"""How many characters are held back until it is certain what they are."""
MAX_SPACE: Final = 4096
"""How much white space behind a quote is looked at before it counts as text."""


class Syntax(enum.Enum):
    """How a literal is written."""

    JSON = "json"
    PYTHON = "python"
    QUOTE = "quote"
    """JSON whose strings stand, unescaped, between a marker of the dialect's own, and whose keys are bare."""


class Root(enum.Enum):
    """What the outermost value has to be."""

    OBJECT = "object"
    KEYWORDS = "keywords"
    """Python keyword arguments; ends before the closing parenthesis."""
    ANY = "any"


# Modes: what is expected, or what the reader is inside of.
VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, AFTER, STRING, NUMBER, WORD, DONE, ERROR = range(11)

# States of a number, named after what was read last.
SIGN, ZERO, INT, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS = range(8)

_SPACE = re.compile(r"[ \t\n\r]*+")
_PYTHON_SPACE = re.compile(r"\s*+")
_DIGITS = re.compile(r"[0-9]*+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*+")
_KEYWORD = re.compile(r"\w++")
_BARE_KEY = Regex(r"[^:,{}\[\]]*+")
_STRING_OPEN = Regex(r"([rRuU]?)('''|\"\"\"|'|\")")
_STRING_MAYBE = Regex(r"[rRuU]?(?:''?|\"\"?)?\Z")
_ESCAPE = Regex(r"\\(?:\r\n|\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(.))", re.S)
_ESCAPE_MAYBE = Regex(r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?\Z")

_PAIRS = frozenset(("{}", "[]", "t)", "s}"))

_WORDS = {"true": "true", "false": "false", "null": "null"}
_PYTHON_WORDS = _WORDS | {"True": "true", "False": "false", "None": "null"}
_SIMPLE = {"n": "\\n", "t": "\\t", "r": "\\r", "b": "\\b", "f": "\\f", "a": "\\u0007", "v": "\\u000b"}


class LiteralReader:
    """Reads one value.

    Attributes:
        out: pieces of JSON text since the last `take`.
        mode: `DONE` when the value is complete, `ERROR` when it cannot be one.
        error: what was wrong, or ``""``.
        repaired: the first repair that was made (only with ``repair``), or ``""``.
        notes: kinds and details of notices that are due.
        stack: the brackets that are open, innermost last; ``t`` is a tuple, ``s`` a set.
        delimiter: inside a string, what ends it.
    """

    __slots__ = (
        "_broken",
        "_comma",
        "_dropping",
        "_escape_free",
        "_given",
        "_held",
        "_hold",
        "_is_key",
        "_keep",
        "_key_at",
        "_key_text",
        "_mark",
        "_maybe_set",
        "_mend",
        "_number",
        "_pending",
        "_quote_scan",
        "_read_from",
        "_repair",
        "_root",
        "_size",
        "_space",
        "_stops",
        "_syntax",
        "_words",
        "delimiter",
        "error",
        "mode",
        "notes",
        "out",
        "quote",
        "repaired",
        "stack",
    )

    def __init__(
        self,
        syntax: Syntax,
        root: Root,
        *,
        repair: bool = False,
        quote: str = '"',
        stops: Callable[[str, int], int] | None = None,
    ) -> None:
        """Start a value.

        Args:
            syntax: how it is written.
            root: what it has to be.
            repair: mend what can be mended from left to right.
            quote: what strings stand between (`Syntax.QUOTE`).
            stops: whether something that ends the call stands in a text at an index (1, 0; -1: perhaps): a quote in
                front of it closes its string.
        """
        self._syntax = syntax
        self._root = root
        self._mend = repair
        self._repair = repair and syntax is Syntax.JSON  # JSON is also read as other languages write it
        self._stops = stops
        self._keep = syntax is Syntax.JSON
        self._space = _SPACE if syntax is Syntax.JSON and not repair else _PYTHON_SPACE
        self._words = _PYTHON_WORDS if syntax is Syntax.PYTHON or repair else _WORDS
        self.quote = quote
        self._quote_scan = marker_scan(quote) if syntax is Syntax.QUOTE else None
        self.out: list[str] = []
        self.error = ""
        self.repaired = ""
        self.notes: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self._given: list[set[int]] = []  # hashes of the keys of the objects that are open
        self._hold = -1  # what stands in `out` from here on is undecided: a set or an object, a key given twice
        self._held = 0  # characters read for it, up to where the last reading began
        self._read_from = 0
        self._dropping = -1  # how many brackets were open where the value began that is dropped
        self._maybe_set = False
        self._key_text: str | None = ""  # of a key that is handed on as it is; ``None`` where it is too long
        self._key_at = 0  # where, behind the hold, the text of a key begins that is translated
        self._size = Magnitude()
        self.delimiter = ""
        self.mode = VALUE
        self._broken = VALUE  # the mode in which it went wrong
        self._mark = 0  # text from here to the cursor is handed on as it is
        self._is_key = False
        self._escape_free = False
        self._number = SIGN
        self._comma = False
        self._pending = ""  # a comma and its white space that wait for an element (repair)
        if root is Root.KEYWORDS:
            self.stack.append("(")
            self._given.append(set())
            self.out.append("{")
            self.mode = FIRST_KEY

    def take(self) -> str:
        """The JSON text read since the last call, as far as it is certain."""
        out = self.out
        if not out:
            return ""
        if self._hold >= 0:
            text = "".join(out[: self._hold])
            self.out = [] if self._dropping >= 0 else out[self._hold :]
            self._hold = 0
            return text
        text = out[0] if len(out) == 1 else "".join(out)
        self.out = []
        return text

    def simple(self) -> bool:
        """Inside the string of a value, where a piece of text can be read by itself."""
        return self.mode == STRING and not self._is_key and not self._escape_free and self._dropping < 0

    @property
    def python(self) -> bool:
        """Whether it reads Python."""
        return self._syntax is Syntax.PYTHON

    def verbatim(self) -> bool:
        """Inside a string that is handed on as it is."""
        return self._keep and self.delimiter == '"' and not self._pending

    def read(self, text: str, i: int) -> int:
        """Consume ``text`` from ``i``; returns the position up to which it is consumed."""
        n = len(text)
        self._mark = self._read_from = i
        while i < n:
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
                k = self._space.match(text, i).end()  # type: ignore[union-attr]
                if k > i:
                    if self._pending:
                        self._pending += text[i:k]
                        self._mark = k
                    elif not self._keep:
                        self._mark = k
                    i = k
                    continue
                j = self._token(text, i, n, text[i])
            if j < 0:
                if self.mode == ERROR:
                    i = self._mark
                break
            i = j
        if self._keep and i > self._mark and not self._pending:
            self.out.append(text[self._mark : i])
        if self._hold >= 0 and self._dropping < 0:
            self._held += i - self._read_from
            self._read_from = i
            if self._held > MAX_HELD:
                self._overflows()
        return i

    def close_all(self) -> str:
        """The JSON text that would close what is open: the repair of a value that its call's end marker cuts.

        Empty where closing would have to invent a value.
        """
        tail = ""
        stack = self.stack
        mode = self._broken if self.mode == ERROR else self.mode
        if self._dropping >= 0:
            stack = stack[: self._dropping]
        elif mode == STRING and not self._is_key:
            tail = '"'
        elif mode == NUMBER:
            if self._number not in (ZERO, INT, FRACTION, EXP_DIGITS) or self._endless():
                return ""
        elif mode not in (AFTER, FIRST_ITEM, FIRST_KEY) and not (self._comma and mode in (KEY, VALUE)):
            return ""
        tail = self.rest() + tail
        for bracket in reversed(stack):
            tail += "]" if bracket in "[ts" else "}"
        return tail

    # -- what is undecided ----------------------------------------------------------------------------------------

    def rest(self) -> str:
        """What is still held, as it looks, when nothing more comes."""
        if self._hold < 0 or self._dropping >= 0:
            return ""
        self._decide()
        return self.take()

    def _wait(self, told: int, i: int) -> None:
        """What is told from ``out[told]``, read from ``i``, on may have to be told otherwise."""
        self._hold = told
        self._held = 0
        self._read_from = i

    def _decide(self) -> None:
        """What was held is what it looked like."""
        self._hold = -1
        self._maybe_set = False

    def _overflows(self) -> None:
        self.notes.append(("hold_overflow", "a key"))
        self._key_text = None
        self._decide()

    def _too_much(self, i: int) -> bool:
        """Whether more is held than may be, here, at ``i``: then it is decided, as it would have been in pieces."""
        if self._held + i - self._read_from <= MAX_HELD:
            return False
        self._overflows()
        return True

    def _is_set(self) -> None:
        """The object that was begun is a set."""
        self.out[self._hold] = "["
        self._decide()
        self.stack[-1] = "s"
        self._given.pop()
        self._mended("set")

    def _known(self, key: str) -> bool:
        """Note a key of the innermost object, and tell whether it is given twice."""
        given = self._given[-1]
        code = hash(key)
        if code in given:
            self.notes.append(("duplicate_arguments", key))
            return True
        if len(given) < MAX_KEYS:
            given.add(code)
        return False

    def _drop(self) -> None:
        """What is told from ``_hold`` on to the end of the value that comes is not."""
        del self.out[self._hold :]
        self._dropping = len(self.stack)

    # -- what stands between strings and numbers ------------------------------------------------------------------

    def _fail(self, text: str, i: int, why: str) -> int:
        self._flush(text, i)
        if self._pending:
            self.out.append(self._pending)
            self._pending = ""
        if self._hold >= 0:
            if self._dropping >= 0:
                del self.out[self._hold :]
            self._decide()
        self._mark = i
        self._broken = self.mode
        self.mode = ERROR
        self.error = why
        return -1

    def _flush(self, text: str, i: int) -> None:
        if self._keep and i > self._mark:
            self.out.append(text[self._mark : i])
        self._mark = i

    def _fix(self, what: str) -> None:
        # What is right in Python is a repair in JSON.
        if self._repair:
            self._mended(what)

    def _mended(self, what: str) -> None:
        if not self.repaired:
            self.repaired = what

    def _element(self) -> None:
        # An element begins: the comma before it is due.
        if self._pending:
            self.out.append(self._pending)
            self._pending = ""
        elif self._comma and not self._keep:
            self.out.append(", ")
        self._comma = False

    def _token(self, text: str, i: int, n: int, c: str) -> int:
        mode = self.mode
        if mode == AFTER:
            if c == ",":
                self._comma = True
                if self._repair:
                    self._flush(text, i)
                    self._pending = ","
                    self._mark = i + 1
                self.mode = VALUE if self.stack[-1] in "[ts" else KEY
                return i + 1
            return self._close(text, i, c)
        if mode == VALUE or mode == FIRST_ITEM:
            if c == "]" or c == ")" or (c == "}" and self.stack and self.stack[-1] == "s"):
                if mode == FIRST_ITEM or (self._comma and self._lenient("trailing comma")):
                    return self._close(text, i, c)
                return self._fail(text, i, f"{c!r} where a value is expected")
            return self._value(text, i, n, c)
        if mode == COLON:
            keyword = self.stack[-1] == "("
            if self._maybe_set:
                if c in ",}" and not self._too_much(i):
                    self._is_set()
                    self._ended()
                    return i
                self._decide()
            if c != ("=" if keyword else ":"):
                return self._fail(text, i, f"{c!r} after a key")
            if not self._keep:
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
        if self._syntax is Syntax.JSON and not self._repair:
            return False
        self._fix(what)
        return True

    def _key(self, text: str, i: int, n: int, c: str) -> int:
        if self.stack[-1] == "(":
            m = _KEYWORD.match(text, i)
            if m is None or c.isdigit():
                return self._fail(text, i, "a positional argument")
            if m.end() == n:
                return -1 if n - i <= MAX_KEY else self._fail(text, i, "a name that never ends")
            return self._bare_key(m.group(), m.end())
        if self._syntax is Syntax.QUOTE:
            if not text.startswith(self.quote, i):
                if self.quote.startswith(text[i:n]):
                    return -1
                m = _BARE_KEY.match(text, i)
                assert m is not None
                if m.end() == n:
                    return -1 if n - i <= MAX_KEY else self._fail(text, i, "a key that never ends")
                if m.end() == i or text[m.end()] != ":":
                    return self._fail(text, i, "an object without a key")
                return self._bare_key(m.group().rstrip(), m.end())
            return self._open_string(text, i, n, True)
        if c == '"' or (c in "'rRuU" and self._syntax is Syntax.PYTHON) or (c == "'" and self._repair):
            return self._open_string(text, i, n, True)
        if self._repair and (c.isalpha() or c == "_"):
            m = _WORD.match(text, i)
            if m is not None:
                if m.end() == n:
                    return -1 if n - i <= MAX_KEY else self._fail(text, i, "a key that never ends")
                self._fix("bare key")
                self._flush(text, i)
                self._decide()
                self._mark = m.end()
                return self._bare_key(m.group(), m.end())
        if self._maybe_set:
            self._is_set()
            self.mode = VALUE
            return self._value(text, i, n, c)
        return self._fail(text, i, f"{c!r} where a key is expected")

    def _bare_key(self, key: str, end: int) -> int:
        """A key that stands without quotes, whole, up to ``end``."""
        told = len(self.out)
        self._element()
        self.out.append(encode_basestring(key))
        if self._dropping < 0 and self._known(key) and not self._keep:
            self._hold = told
            self._drop()
        self.mode = COLON
        return end

    def _value(self, text: str, i: int, n: int, c: str) -> int:
        if self._root is Root.OBJECT and not self.stack and c != "{":
            return self._fail(text, i, "not an object")
        if self._syntax is Syntax.QUOTE:
            if text.startswith(self.quote, i):
                return self._open_string(text, i, n, False)
            if n - i < len(self.quote) and self.quote.startswith(text[i:n]):
                return -1
        elif c == '"':
            return self._open_string(text, i, n, False)
        elif self._syntax is Syntax.PYTHON:
            if c == "'" or _STRING_OPEN.match(text, i):
                return self._open_string(text, i, n, False)
            if c in "rRuU" and i + 1 == n:
                return -1
        elif c == "'" and self._repair:
            return self._open_string(text, i, n, False)
        if c in "{[" or (c == "(" and self._syntax is Syntax.PYTHON):
            if len(self.stack) >= MAX_DEPTH:
                return self._fail(text, i, f"nested deeper than {MAX_DEPTH}")
            return self._open_bracket(text, i, c)
        if c in "-0123456789" or (c in "+." and self._syntax is not Syntax.QUOTE and (self._repair or not self._keep)):
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
                return i + 1
            if c == "-":
                if not self._keep:
                    self.out.append("-")
                return i + 1
            return i
        return self._word(text, i, n)

    def _open_bracket(self, text: str, i: int, c: str) -> int:
        self._begin(text, i)
        # Where sets are mended, what follows tells whether this is one.
        maybe_set = c == "{" and self._mend and self._syntax is not Syntax.QUOTE and bool(self.stack)
        if maybe_set and self._dropping < 0:
            self._wait(len(self.out), i)
            self._maybe_set = True
            self.out.append(c)
            self._mark = i + 1
        elif not self._keep:
            self.out.append("[" if c == "(" else c)
        self.stack.append("t" if c == "(" else c)
        if c == "{":
            self._given.append(set())
        self.mode = FIRST_KEY if c == "{" else FIRST_ITEM
        self._comma = False
        return i + 1

    def _begin(self, text: str, i: int) -> None:
        self._flush(text, i)
        self._element()

    def _word(self, text: str, i: int, n: int) -> int:
        m = _WORD.match(text, i)
        if m is None:
            return self._fail(text, i, f"{text[i]!r} where a value is expected")
        if m.end() - i > MAX_WORD:
            return self._fail(text, i, "a word that is no value")
        if m.end() == n:
            # A word ends where another character begins.
            self.mode = WORD
            return -1
        word = self._words.get(m.group())
        if word is None:
            return self._fail(text, i, f"{m.group()} is no value")
        self._begin(text, i)
        if not self._keep or word != m.group():
            if word != m.group():
                self._fix("Python literal")
            self.out.append(word)
            self._mark = m.end()
        self._ended()
        return m.end()

    def _ended(self) -> None:
        self.mode = AFTER if self.stack else DONE
        if self._dropping == len(self.stack):
            del self.out[self._hold :]
            self._hold = self._dropping = -1

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
            if self._maybe_set:  # an empty object
                self._decide()
        if top == "s" and self._keep:
            self._flush(text, i)
            self._mark = i + 1
        if not self._keep or top == "s":
            self.out.append("}" if top == "{" else "]")
        self._ended()
        return i + 1

    # -- numbers --------------------------------------------------------------------------------------------------

    def _digits(self, text: str, i: int, n: int) -> int:
        state = self._number
        lenient = self._repair or self._syntax is Syntax.PYTHON
        j = _DIGITS.match(text, i).end()  # type: ignore[union-attr]
        if j > i:
            if state == SIGN and text[i] == "0":
                return self._zero(text, i, n)
            if state == ZERO:
                return self._fail(text, i, "a number with a leading zero")
            if state == SIGN:
                state = INT
            elif state == DOT:
                state = FRACTION
            elif state == EXP or state == EXP_SIGN:
                state = EXP_DIGITS
            self._number = state
            digits = text[i:j]
            if state == INT:
                self._size.integer(digits)
            elif state == FRACTION:
                self._size.fraction(digits)
            else:
                self._size.exponent(digits)
            if not self._keep:
                self.out.append(digits)
            return j
        c = text[i]
        if c == "." and state in (ZERO, INT):
            state = DOT
        elif (c in "eE" and state in (ZERO, INT, FRACTION)) or (c in "eE" and state == DOT and lenient):
            if state == DOT:
                self._flush(text, i)
                self.out.append("0")
            state = EXP
        elif c in "+-" and state == EXP:
            state = EXP_SIGN
            self._size.negative = c == "-"
        elif c == "_" and state in (INT, FRACTION, EXP_DIGITS) and lenient:
            self._fix("number")
            self._flush(text, i)
            self._mark = i + 1
            return i + 1
        elif state in (ZERO, INT, FRACTION, EXP_DIGITS) or (state == DOT and lenient):
            if c.isalnum() or c == "_" or c == ".":
                return self._fail(text, i, f"{c!r} in a number")
            if self._endless():
                return self._fail(text, i, "a number beyond every float")
            if state == DOT:
                self._flush(text, i)
                self.out.append("0")
                self._fix("number")
            self._ended()
            return i
        else:
            return self._fail(text, i, f"{c!r} in a number")
        self._number = state
        if not self._keep:
            self.out.append(c)
        return i + 1

    def _zero(self, text: str, i: int, n: int) -> int:
        """A zero that a number begins with: all of its integer part, or too many."""
        if self._mend:
            if i + 1 == n:
                return -1
            if text[i + 1] in "0123456789":
                self._flush(text, i)
                self._mark = i + 1
                self._mended("leading zero")
                return i + 1
        self._number = ZERO
        if not self._keep:
            self.out.append("0")
        return i + 1

    def _endless(self) -> bool:
        """Whether the number so far, if written with a point or an exponent, rounds to infinity."""
        return self._number not in (ZERO, INT) and self._size.infinite()

    # -- strings --------------------------------------------------------------------------------------------------

    def _open_string(self, text: str, i: int, n: int, is_key: bool) -> int:
        self._escape_free = False
        if self._syntax is Syntax.QUOTE:
            self.delimiter = self.quote
            end = i + len(self.quote)
        elif self._syntax is Syntax.JSON and (text[i] == '"'):
            self.delimiter = '"'
            end = i + 1
        elif self._syntax is Syntax.JSON:
            self._fix("single quotes")
            self.delimiter = "'"
            end = i + 1
        else:
            # `''` may be an empty string or the beginning of a triple quote.
            if _STRING_MAYBE.match(text, i):
                return -1
            m = _STRING_OPEN.match(text, i)
            if m is None:
                return self._fail(text, i, f"{text[i]!r} where a key is expected")
            self._escape_free = m.group(1) in ("r", "R") and m.group(1) != ""
            self.delimiter = m.group(2)
            end = m.end()
        told = len(self.out)
        self._begin(text, i)
        self._is_key = is_key
        self.mode = STRING
        translated_text = not (self._keep and self.delimiter == '"')
        if translated_text:
            self.out.append('"')
            self._mark = end
        if is_key and self._dropping < 0:
            self._key_text = ""
            if translated_text and self._hold < 0:
                self._wait(told, i)  # until it is known that it is not given twice
            self._key_at = len(self.out) - self._hold if translated_text else -1
        return end

    def _string(self, text: str, i: int, n: int) -> int:
        if self._syntax is Syntax.JSON and self.delimiter == '"':
            return self._json_string(text, i, n)
        if self._syntax is Syntax.QUOTE:
            return self._quote_string(text, i, n)
        return self._python_string(text, i, n)

    def _string_ended(self, end: int) -> None:
        """A string is over, in the text up to ``end``."""
        self.delimiter = ""
        if not self._is_key:
            self._ended()
            return
        self._is_key = False
        self.mode = COLON
        if self._dropping >= 0:
            return
        if self._maybe_set or self._key_at >= 0:
            self._too_much(end)
        if self._key_text is None:
            return
        text = self._key_text if self._key_at < 0 else "".join(self.out[self._hold + self._key_at : -1])
        twice = self._known(_unescaped(text))
        if self._key_at < 0 or self._maybe_set:
            return
        if twice and not self._keep:
            self._drop()
        else:
            self._decide()

    def _json_string(self, text: str, i: int, n: int) -> int:
        j = JSON_RUN.match(text, i).end()  # type: ignore[union-attr]
        if self._is_key and self._key_text is not None:
            self._key_text = self._key_text + text[i:j] if len(self._key_text) + j - i <= MAX_KEY else None
        if j == n:
            return j
        c = text[j]
        if c == '"':
            self._string_ended(j + 1)
            return j + 1
        if c == "\\" and JSON_PARTIAL.match(text, j):
            # Consume what is whole; the beginning of an escape waits.
            return j if j > i else -1
        if not self._repair:
            return self._fail(text, j, "a bad escape" if c == "\\" else "a control character in a string")
        self._flush(text, j)
        if c == "\\":
            self._fix("escape")
            # `\'` is how other languages write an apostrophe; any other backslash meant itself.
            if text[j + 1] == "'":
                self.out.append("'")
                self._mark = j + 2
            else:
                self.out.append("\\\\")
                self._mark = j + 1
        else:
            self._fix("control character")
            self.out.append(escaped(c))
            self._mark = j + 1
        return self._mark

    def _quote_string(self, text: str, i: int, n: int) -> int:
        assert self._quote_scan is not None
        m = self._quote_scan.search(text, i)
        end = n if m is None else m.start()
        if end > i:
            self.out.append(escaped(text[i:end]))
        if m is None:
            return n
        if m.group() == self.quote:
            self.out.append('"')
            self._string_ended(m.end())
            return m.end()
        return end if end > i else -1

    def _python_string(self, text: str, i: int, n: int) -> int:
        quote = self.delimiter[0]
        run = (RAW_RUNS if self._escape_free else PYTHON_RUNS)[quote]
        out = self.out
        careful = n if self._escape_free or n - i < LONG else i  # up to here, escapes are looked at one by one
        while i < n:
            if i >= careful:
                stretch = python_stretch(text, i, self.delimiter)
                if stretch is not None:
                    out.append(stretch[0])
                    self._mark = i = stretch[1]
                    continue
                careful = i + STRETCH
            m = run.match(text, i)
            j = i if m is None else m.end()
            if j > i:
                out.append(escaped(text[i:j]) if self._escape_free else translated(text[i:j]))
                self._mark = i = j
                continue
            if text[i] == "\\":
                k = self._escape(text, i, n)
                if k < 0:
                    return i
                self._mark = i = k
                continue
            if text[i] < " ":  # a control character that runs do not hold
                out.append(escaped(text[i]))
                i += 1
                self._mark = i
                continue
            if len(self.delimiter) == 3 and not text.startswith(self.delimiter, i):
                if self.delimiter.startswith(text[i:n]):
                    return i
                out.append(escaped(text[i]))
                i += 1
                self._mark = i
                continue
            if self._mend and len(self.delimiter) == 1:
                closes = self._closes(text, i + 1, n)
                if closes < 0:
                    return i
                if not closes:
                    self._mended("quotes in a string")
                    out.append(escaped(text[i]))
                    i += 1
                    self._mark = i
                    continue
            out.append('"')
            i += len(self.delimiter)
            self._mark = i
            self._string_ended(i)
            return i
        return i

    def _closes(self, text: str, i: int, n: int) -> int:
        """Whether a quote in front of ``i`` closes its string, by what follows: 1, 0, or -1 while that is open."""
        j = _PYTHON_SPACE.match(text, i).end()  # type: ignore[union-attr]
        if j - i > MAX_SPACE:
            return 0
        if j == n:
            return -1
        if text[j] in ",)]}:":
            return 1
        return 0 if self._stops is None else self._stops(text, j)

    def _escape(self, text: str, i: int, n: int) -> int:
        out = self.out
        if self._escape_free:
            if i + 1 == n:
                return -1
            out.append("\\\\" + escaped(text[i + 1]))
            return i + 2
        if _ESCAPE_MAYBE.match(text, i):
            return -1
        m = _ESCAPE.match(text, i)
        if m is None:  # `\x` or `\u` without its digits means itself
            out.append("\\\\")
            return i + 1
        c = m.group(1)
        if c is None:
            body = m.group()[1:]
            if body in ("\n", "\r\n"):
                return m.end()
            code = int(body, 8) if body[0] in "01234567" else int(body[1:], 16)
            if code > 0x10FFFF:
                out.append("\\\\")
                return i + 1
            # A surrogate stays an escape: two of them make one character in JSON.
            out.append(f"\\u{code:04x}" if 0xD800 <= code < 0xE000 else escaped(chr(code)))
            return m.end()
        if c in _SIMPLE:
            out.append(_SIMPLE[c])
        elif c in "\\'\"":
            out.append(escaped(c))
        else:
            out.append("\\\\" + escaped(c))
        return m.end()


def _unescaped(key: str) -> str:
    """What the inside of a JSON string stands for."""
    if "\\" not in key:
        return key
    try:
        text: str = json.loads(f'"{key}"', strict=False)
    except ValueError:  # a repaired escape
        return key
    return text
