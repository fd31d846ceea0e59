"""Literals in, JSON text out: an incremental reader for JSON, Python literals and JSON with strings in other quotes.

The reader is a push-down automaton without recursion. It validates while it reads, so a value that it calls done is
one JSON value. It streams while it reads, so a string's text is passed on as it arrives. JSON is passed on verbatim
(order, spacing, digits); other syntaxes are translated, with `", "` and `": "` between their parts.

It consumes text up to the position that it returns. The rest is the beginning of something (an escape, a word), and
must come again with more text after it. Strict JSON is read in runs of complete tokens, and a plain literal that is
complete in the text is read at once.
"""

import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final

import msgspec

from ...dialect.patterns import MAX_SPACE, MORE, NO, skip_space
from ...dialect.syntax import KEYWORD
from ...regex import Prefix, Regex
from .memory import Changes
from .numbers import Figures
from .pieces import JSON_STRINGS, StringKind, python_strings, quoted_strings
from .spelling import MAX_KEY, Root, spelling
from .strings import (
    JSON_PARTIAL,
    JSON_RUN,
    PYTHON_RUN,
    RAW_RUN,
    STRETCH,
    escape_at,
    escaped,
    json_run,
    quote_in,
    translated,
    unescaped,
)
from .whole import MAX_DEPTH, MAX_WORD, whole_value

MAX_KEYS: Final = 1024  # how many keys of one object are remembered, to find repeated ones
MAX_HELD: Final = 65_536  # how many characters may be held back until their meaning is certain
MAX_DIGITS: Final = 256  # how many characters of an integer of another base are read


# Modes: what is expected next, or what the reader is inside of.
VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, AFTER, STRING, NUMBER, WORD, DONE, ERROR = range(11)

# States of a number, named after its last part so far.
SIGN, ZERO, INT, POINT, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS = range(9)  # a point without or with digits before it

_DIGITS = Prefix(r"[0-9]*+")
_WORD = Regex(r"[A-Za-z_][A-Za-z_0-9]*+")
_BASED = Regex(r"0(?:[xX][0-9a-fA-F_]*+|[oO][0-7_]*+|[bB][01_]*+)")
_JSON_SPACE = Regex(r"[ \t\n\r]*+")
_BARE_KEY = Prefix(r"[^:,{}\[\]<]*+")  # no marker is part of a key
_EQUALS = Regex(r"([A-Za-z_][\w.-]{0,255}+)\s{0,64}+=\s{0,64}+")
"""Matches a key and what some models write in place of a colon."""

_ITEMS = Regex(
    r'(?:(?:"[^"\\\x00-\x1f]*+"|-?(?:0|[1-9][0-9]{0,200}+)(?:\.[0-9]{1,90}+)?|true|false|null)'
    r"[ \t\n\r]*+,[ \t\n\r]*+){1,256}"
)
"""Matches items of an array, each with the comma after it. Not possessive: see `unspool.regex`."""

_COMPLETE = frozenset((ZERO, INT, FRACTION, EXP_DIGITS))  # the states in which a number may end
_AFTER_DIGITS = {
    SIGN: INT,
    POINT: FRACTION,
    DOT: FRACTION,
    EXP: EXP_DIGITS,
    EXP_SIGN: EXP_DIGITS,
}  # the states that digits change
_GOES_ON = {
    **{(state, "."): DOT for state in (ZERO, INT)},
    **{(state, "e"): EXP for state in (ZERO, INT, FRACTION)},
    **{(EXP, sign): EXP_SIGN for sign in "+-"},
}
"""The states to which other characters lead."""
_AROUND = frozenset(("{}", "[]", "()"))
_PAIRS = frozenset(("{}", "[]", "p)", "t)", "s}", "d}"))

_STRING_MAYBE = Regex(r"[rRuUfF]?(?:''?|\"\"?)?\Z")
_SPREAD = Regex(r"\*(?:\*\s{0,64}+(\{?)|\Z)")
_BRACES = Regex(r"[{}]")


class Doubt(msgspec.Struct, eq=False):
    """The part of a reader's output that is held until it is certain."""

    # The index from which the output is undecided (-1: none is), because an object may be a set, a key may be
    # repeated, or (repair) a key may have no value.
    since: int = -1
    # How many brackets were open when the value that is being dropped began (-1: no value is dropped).
    dropping: int = -1
    maybe_set: bool = False  # whether the open object may be a set
    size: int = 0  # how many characters were held when the last reading ended
    start: int = 0  # where the last reading began

    def wait(self, since: int, i: int, *, maybe_set: bool = False) -> None:
        """Hold the output from ``since`` on, because it may still change. Its text begins at ``i``."""
        self.since = since
        self.maybe_set = maybe_set
        self.size = 0
        self.start = i

    def decide(self) -> None:
        """Accept the held output as it is."""
        self.since = -1
        self.maybe_set = False

    def holds_key(self) -> bool:
        """Whether what is held is a key, and the comma before it."""
        return self.since >= 0 and self.dropping < 0 and not self.maybe_set

    def read(self, i: int) -> bool:
        """Record reading up to ``i``, and return whether too much is held."""
        self.size += i - self.start
        self.start = i
        return self.size > MAX_HELD


_MOST_HELD: Final = 64  # how much text, or how many brackets, a remembered state may contain


class LiteralReader:
    """Reads one value, and emits it as JSON."""

    def __init__(
        self,
        syntax: str,
        root: str,
        *,
        repair: bool = False,
        quote: str = '"',
        stops: Callable[[str, int], int] | None = None,
    ) -> None:
        """Start a value; the arguments are those of `Spelling`."""
        self._how = spelling(syntax, root, repair, quote, stops)
        self._doubt = Doubt()
        self._parentheses = Doubt()  # counts what is held because a ``p`` is undecided
        self.out: list[str] = []  # pieces of JSON text since the last `take`
        self.error = ""  # what was wrong, or ``""``
        self.repaired = ""  # the first repair that was made (only with ``repair``), or ``""``
        self.notes: list[tuple[str, str]] = []  # kinds and details of notices to emit
        # The open brackets, innermost last; ``t`` is a tuple, ``p`` a tuple or one value in parentheses, ``s`` a set,
        # ``d`` a dict in ``**{…}``, and ``(`` what is around all arguments.
        self.stack: list[str] = []
        self._undecided: list[int] = []  # where each ``p`` is in the output, which is held from the first on
        self._given: list[dict[int, None]] = []  # hashes of the keys of the open objects
        self._key_text: str | None = ""  # of a key that is passed on unchanged; ``None`` if it is too long
        self._key_at = 0  # where the text of a translated key begins in the held output
        self._figures = Figures()  # the open number, or the last one
        self.delimiter = ""  # inside a string, the quote that ends it
        self.mode = VALUE  # `DONE` when the value is complete, `ERROR` when it cannot be a value
        self._broken = VALUE  # the mode in which the error occurred
        self._mark = 0  # text from here to the cursor is passed on unchanged
        self._is_key = False
        self._prefix = ""  # of a string, such as ``r``
        self._nested = ""  # the brackets that are open in a string whose opening quote is missing
        self._number = SIGN
        self._comma = False
        self._pending = ""  # a comma and its white space that wait for an element (repair)
        if root == Root.KEYWORDS:
            self.stack.append("(")
            self._given.append({})
            self.out.append("{")
            self.mode = FIRST_KEY

    def take(self) -> str:
        """Take the JSON text since the last call, up to where it is certain."""
        out = self.out
        if not out:
            return ""
        doubt = self._doubt
        if self._undecided:
            first = self._undecided[0]
            if first:
                self._undecided = [at - first for at in self._undecided]
                doubt.since = max(doubt.since - first, -1)
                self.out = out[first:]
            return "".join(out[:first])
        if doubt.since >= 0:
            text = "".join(out[: doubt.since])
            if doubt.dropping >= 0:
                self.out = []
            elif doubt.since:
                self.out = out[doubt.since :]
            doubt.since = 0
            return text
        text = out[0] if len(out) == 1 else "".join(out)
        self.out = []
        return text

    def strict(self) -> bool:
        """Whether the reader passes JSON on unchanged."""
        return self._how.strict

    def strings(self) -> StringKind | None:
        """The kind of the string value that this is inside of; ``None`` if a piece of it cannot be read on its own."""
        how, quote = self._how, self.delimiter
        held = self._undecided or self._doubt.dropping >= 0
        if self.mode != STRING or self._is_key or self._prefix or held or not quote:
            return None
        if how.scan is not None and quote == how.quote:
            return quoted_strings(how.scan, quote)
        if how.keep:
            return JSON_STRINGS if quote == '"' and not self._pending else None
        return python_strings(quote)

    def _top(self) -> str:
        return self.stack[-1] if self.stack else ""

    # -- remembered states ----------------------------------------------------------------------------------------

    def state(self) -> tuple[Any, ...] | None:
        """What decides how the next text is read, except for the keys and the number so far; ``None`` if it is long."""
        if len(self.out) > _MOST_HELD:
            return None
        mode, doubt, out = self.mode, self._doubt, tuple(self.out)
        string: tuple[Any, ...] = (False, "", "", "", -1)
        if mode == STRING:
            key = (self._key_text, self._key_at) if self._is_key else ("", -1)
            string = self._is_key, self._prefix, self._nested, *key
        held = len(self._pending) + len(string[3] or "") + sum(map(len, out))
        if held > _MOST_HELD or len(self.stack) > _MOST_HELD or self._undecided or mode >= DONE:
            return None
        number = self._number if mode == NUMBER else 0
        doubted = doubt.since, doubt.dropping, doubt.maybe_set, doubt.size if doubt.since >= 0 else 0
        brackets = "".join(self.stack)
        read = self._how, mode, brackets, self._comma, self.delimiter, number, self._pending, self.repaired, out
        return *read, *string, *doubted

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go to a state, with the keys and the number as they are."""
        doubt = self._doubt
        _, self.mode, brackets, self._comma, self.delimiter, self._number, self._pending, self.repaired, *rest = state
        out, self._is_key, self._prefix, self._nested, self._key_text, self._key_at, *rest = rest
        doubt.since, doubt.dropping, doubt.maybe_set, doubt.size = rest
        self.stack = list(brackets)
        self.out = list(out)

    def marks(self) -> tuple[Any, ...]:
        """What `changes` compares the reader with."""
        given = self._given
        return [*given], [*map(len, given)], self._figures.mark(is_open=self.mode == NUMBER)

    def changes(self, marks: tuple[Any, ...]) -> Changes | None:  # compares every part of the state
        """What has changed since `marks`, apart from the state; ``None`` if it depends on more than the state."""
        before, counts, length = marks
        given = self._given
        same = 0
        while same < min(len(before), len(given)) and before[same] is given[same]:
            same += 1
        key = None
        if counts[same:] != [*map(len, before[same:])] or max(counts, default=0) >= MAX_KEYS:
            return None
        if same and len(given[same - 1]) > counts[same - 1]:
            if len(given[same - 1]) > counts[same - 1] + 1:
                return None
            key = next(reversed(given[same - 1]))
        number = self._figures.changes(length, is_open=self.mode == NUMBER)
        if number is None:
            return None
        objects = tuple([tuple(keys) for keys in given[same:]])
        return *number, len(before) - same, key, objects

    def follow(self, changes: Changes) -> bool:
        """Repeat what a piece of text changes apart from the state.

        Return false and do nothing if the text must be read after all, because a key is or may be repeated, or a
        number may be too large.
        """
        digits, ends, number, left, key, objects = changes
        if digits or ends:
            if not self._figures.goes_on(digits, ends=ends):
                return False
            if not ends:
                return True
        if key is not None:
            keys = self._given[-1 - left]
            if key in keys or len(keys) >= MAX_KEYS:
                return False
            keys[key] = None
        if left:
            del self._given[-left:]
        if objects:
            self._given += map(dict.fromkeys, objects)
        if number is not None:
            self._figures.begin(number)
        return True

    # -- what is undecided ----------------------------------------------------------------------------------------

    def rest(self) -> str:
        """Take the held text as it is, because no more text comes."""
        if self._doubt.dropping >= 0:
            if self._doubt.since >= 0:  # else it is deleted already
                del self.out[self._doubt.since :]
            self._pending = ""
        self._doubt.decide()
        self._tuples()
        comma, self._pending = self._pending, ""
        return self.take() + comma

    def _overflows(self) -> None:
        self.notes.append(("hold_overflow", "a key"))
        self._key_text = None
        self._doubt.decide()

    def _too_much(self, i: int) -> bool:
        """Whether too much is held at ``i``. If so, accept it, just as if the text had come in pieces."""
        too_much = self._doubt.size + i - self._doubt.start > MAX_HELD
        if too_much:
            self._overflows()
        return too_much

    def _is_set(self) -> None:
        """Change the open object into a set."""
        self.out[self._doubt.since] = "["
        self._doubt.decide()
        self.stack[-1] = "s"
        self._given.pop()
        self._mended("set")

    def _count_held(self, i: int) -> None:
        """Count what is held at the end of the text, and accept it if that is too much."""
        if self._doubt.since >= 0 and self._doubt.dropping < 0 and self._doubt.read(i):
            self._overflows()
        if self._undecided and self._parentheses.read(i):
            self._parenthesis(i)

    def _tuples(self) -> None:
        """Whatever is in parentheses is in a tuple, however many values there are."""
        if self._undecided:
            self._undecided = []
            self.stack = ["t" if bracket == "p" else bracket for bracket in self.stack]

    def _parenthesis(self, i: int) -> str:
        """What the innermost parentheses are around: a tuple (``t``), because a comma or nothing is in them, or too
        much, or one value (``p``)."""
        if self._parentheses.size + i - self._parentheses.start > MAX_HELD:
            self._tuples()
            self.notes.append(("hold_overflow", "a value in parentheses"))
            return "t"
        at = self._undecided.pop()
        if self._comma or self.mode == FIRST_ITEM:
            self.stack[-1] = "t"
            return "t"
        self.out[at] = ""
        return "p"

    def _known(self, key: str) -> bool:
        """Record a key of the innermost object, and return whether the object already has it."""
        given = self._given[-1]
        code = hash(key)
        if code in given:
            self.notes.append(("duplicate_arguments", key))
            return True
        if len(given) < MAX_KEYS:
            given[code] = None
        return False

    def _drop(self) -> None:
        """Drop what is held, and the value that follows."""
        del self.out[self._doubt.since :]
        self._doubt.dropping = len(self.stack)

    # -- output ---------------------------------------------------------------------------------------------------

    def _fail(self, text: str, i: int, why: str) -> int:
        if not self._pending:
            self._flush(text, i)
        if self._doubt.since >= 0 and not (self._how.mend and self._doubt.holds_key()):
            if self._doubt.dropping >= 0:
                del self.out[self._doubt.since :]
            self._doubt.decide()
        if not self._how.mend:
            self._tuples()
        self._mark = i
        self._broken = self.mode
        self.mode = ERROR
        self.error = why
        return NO

    def _flush(self, text: str, i: int) -> None:
        if self._how.keep and i > self._mark:
            self.out.append(text[self._mark : i])
        self._mark = i

    def _write(self, json_text: str) -> None:
        """Write JSON, unless the text is passed on as it is."""
        if not self._how.keep:
            self.out.append(json_text)

    def _replace(self, text: str, i: int, end: int, json_text: str = "") -> int:
        """Pass on other JSON instead of ``text[i:end]``."""
        self._flush(text, i)
        if json_text:
            self.out.append(json_text)
        self._mark = end
        return end

    def _fix(self, what: str) -> None:
        # Correct Python counts as a repair in JSON.
        if self._how.repair:
            self._mended(what)

    def _mended(self, what: str) -> None:
        if not self.repaired:
            self.repaired = what

    def _element(self) -> None:
        # An element begins, so the comma before it is written now.
        if self._pending:
            self.out.append(self._pending)
            self._pending = ""
        elif self._comma and not self._how.keep:
            self.out.append(", ")
        self._comma = False

    def _begin(self, text: str, i: int) -> int:
        """A key or a value begins at ``i``: return where in the output it begins, with the comma before it."""
        if self._doubt.since >= 0 and self._doubt.holds_key() and not self._too_much(i):
            self._doubt.decide()
        self._flush(text, i)
        since = len(self.out)
        if self._comma or self._pending:
            self._element()
        return since

    def _ended(self) -> None:
        self.mode = AFTER if self.stack else DONE
        doubt = self._doubt
        if doubt.dropping == len(self.stack):
            del self.out[doubt.since :]
            doubt.since = doubt.dropping = -1

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, text: str, i: int) -> int:  # hot: the loop around all steps
        """Consume ``text`` from ``i``, and return the position up to which it was consumed."""
        how = self._how
        strict = how.strict
        n = len(text)
        self._mark = i
        doubt = self._doubt
        doubt.start = self._parentheses.start = i
        while i < n:
            mode = self.mode
            if mode == STRING:
                j = self._string(text, i)
                if j == i and self.mode == STRING:  # the beginning of an escape or of a delimiter
                    break
            elif mode >= DONE:
                break
            elif mode == NUMBER:
                j = self._digits(text, i)
            else:
                c = text[i]
                if c <= " " or c > "\x7f":
                    j = how.space.match(text, i).end()
                    if j > i:
                        self._space(text, i, j)
                        i = j
                        continue
                j = (strict and mode <= FIRST_ITEM and self._plain(text, i, c)) or _STEPS[mode](self, text, i, c)
            if j < 0:
                if self.mode == ERROR:
                    i = self._mark
                break
            i = j
        if not self._pending:
            self._flush(text, i)
        if doubt.since >= 0 or self._undecided:
            self._count_held(i)
        return i

    def _plain(self, text: str, i: int, c: str) -> int:
        """Read plain JSON at once, if it is complete: an object, an array, the next items of an array; else 0."""
        stack = self.stack
        if c in "{[":
            end = 0 if self._how.whole and not stack and c == "[" else whole_value(text, i, len(stack))
            if end:
                self._comma = False
                self._ended()
            return end
        m = _ITEMS.match(text, i) if stack and stack[-1] == "[" else None
        if m is None:
            return 0
        self.mode = VALUE
        self._comma = True
        return m.end()

    def _space(self, text: str, i: int, end: int) -> None:
        """Pass on the white space up to ``end``, or hold it after a comma, or drop it."""
        how, space = self._how, text[i:end]
        if how.repair and not _JSON_SPACE.fullmatch(space):
            space = "".join(c if c in " \t\n\r" else " " for c in space)
            self._mended("white space")
            if not self._pending:
                self._flush(text, i)
                self.out.append(space)
        elif how.keep and not self._pending:
            return
        if self._pending and len(self._pending) < MAX_HELD:  # the JSON means the same without the rest
            self._pending = (self._pending + space)[:MAX_HELD]
        self._mark = end

    def close_all(self) -> str:  # a branch for each mode
        """The JSON text that would close the open containers, which repairs a value that its call's closing cuts off.

        A key without a value is left out. The text is empty if closing would have to invent a value.
        """
        tail = ""
        stack = self.stack
        mode = self._broken if self.mode == ERROR else self.mode
        if self._doubt.dropping >= 0:
            stack = stack[: self._doubt.dropping]
        elif mode == STRING and not self._is_key:
            tail = '"'
        elif mode == NUMBER:
            if self._number in (DOT, EXP, EXP_SIGN):
                tail = "0"
            elif self._number in (SIGN, POINT) or self._endless():
                return ""
        elif self._how.mend and self._doubt.since >= 0 and mode in (STRING, COLON, VALUE):
            del self.out[self._doubt.since + self._doubt.maybe_set :]
        elif mode not in (AFTER, FIRST_ITEM, FIRST_KEY) and not (self._comma and mode in (KEY, VALUE)):
            return ""
        self._pending = self._pending[1:]  # a trailing comma is dropped, its white space stays
        if self._undecided:
            self._close_parentheses(mode)
        tail = self.rest() + tail
        for bracket in reversed(stack):
            tail += "" if bracket in "dp" else "]" if bracket in "[ts" else "}"
        return tail

    def _close_parentheses(self, mode: int) -> None:
        """Accept what is held as one value, unless it is empty."""
        if mode == FIRST_ITEM and self.stack[-1] == "p":
            self.stack[-1] = "t"
            self._undecided.pop()
        for at in self._undecided:
            self.out[at] = ""
        self._undecided = []

    # -- between strings and numbers ----

    def _after(self, text: str, i: int, c: str) -> int:
        """After a value: a comma, which Python keywords may lack, or a bracket."""
        if c == ",":
            self._comma = True
            if self.stack[-1] == "p":
                self._parenthesis(i)
            if self._how.repair:
                self._pending = ","
                self._replace(text, i, i + 1)
            self.mode = VALUE if self.stack[-1] in "[ts" else KEY
            return i + 1
        how, follows = self._how, NO
        if how.quoted and c == how.quote[0]:
            end = how.closes_again(text, i)
            if end >= 0:
                self.notes.append(("doubled_marker", how.quote))
            if end != NO:
                return end
        if c != ")":
            follows = (how.key_follows if how.quoted else how.name_follows)(text, i, self._top())
        if follows >= 0:
            self._comma = True
            self.mode = KEY
            return i
        return MORE if follows == MORE else self._close(text, i, c)

    def _item(self, text: str, i: int, c: str) -> int:
        """A value, or the bracket that closes the container around it."""
        if c == "]" or c == ")" or (c == "}" and self.stack and self.stack[-1] == "s"):
            if self.mode == FIRST_ITEM or (self._comma and self._may_end()):
                return self._close(text, i, c)
            return self._fail(text, i, f"{c!r} where a value is expected")
        return self._value(text, i, c)

    def _member(self, text: str, i: int, c: str) -> int:
        """A key, or the bracket that closes the object around it."""
        if c == "}" or c == ")":
            empty = self.mode == FIRST_KEY and self.stack[-1] != "d"
            if empty or (self._comma and self._may_end()):
                return self._close(text, i, c)
            return self._fail(text, i, f"{c!r} where a key is expected")
        if c == "{" and self.mode == FIRST_KEY and self._how.whole and self.stack == ["{"] and not self.repaired:
            self._mended("doubled bracket")  # as in prompts that are made from templates; the closing one is surplus
            return self._replace(text, i, i + 1)
        return self._key(text, i, c)

    def _colon(self, text: str, i: int, c: str) -> int:
        if self._doubt.maybe_set:
            if c in ",}" and not self._too_much(i):
                self._is_set()
                self._ended()
                return i
            self._doubt.since += 1  # the bracket is certain now, not the first key
            self._doubt.maybe_set = False
        if c not in (":=" if self._how.quoted else "=" if self.stack[-1] == "(" else ":"):
            return self._fail(text, i, f"{c!r} after a key")
        self._write(": ")
        self.mode = VALUE
        self._comma = False
        return i + 1

    def _may_end(self) -> bool:
        """Whether a container may end after a comma."""
        if not self._how.strict:
            self._fix("trailing comma")
        return not self._how.strict

    def _key(self, text: str, i: int, c: str) -> int:
        if self._how.quoted:
            return self._quoted_key(text, i)
        if self.stack[-1] == "(":
            return self._keyword(text, i)
        if c == '"' or (c in "'rRuU" and self._how.python) or (c == "'" and self._how.repair):
            return self._open_string(text, i, True)
        if self._how.repair and (c.isalpha() or c == "_"):
            m = _WORD.match(text, i)
            if m is not None:
                if m.end() - i > MAX_KEY:
                    return self._fail(text, i, "an unterminated key")
                if m.end() == len(text):
                    return MORE
                self._fix("bare key")
                self._replace(text, i, m.end())
                self._doubt.decide()
                return self._bare_key(m.group(), i, m.end())
        if self._doubt.maybe_set:
            self._is_set()
            self.mode = VALUE
            return self._value(text, i, c)
        return self._fail(text, i, f"{c!r} where a key is expected")

    def _keyword(self, text: str, i: int) -> int:  # a branch for each thing that may stand there
        """Read the name of a keyword argument, or the opening of an object in place of all."""
        if text[i] == "{" and self.mode == FIRST_KEY:
            return self._inner_object(text, i)
        spread = _SPREAD.match(text, i) if self._how.mend and text[i] == "*" else None
        if spread is not None:
            if spread.end() == len(text) and not spread.group(1):
                return MORE
            if spread.group(1):
                self._mended("spread arguments")
                self.stack.append("d")
                self.mode = KEY if self._comma else FIRST_KEY
                return spread.end()
        name = KEYWORD.match(text, i)
        end = self._how.space.match(text, name.end()).end()
        if end - i > MAX_KEY:
            return self._fail(text, i, "an unterminated name")
        if end == len(text):
            return MORE
        if text[end] != "=":
            ends = self._how.ends_call(text, end) if self._how.mend and name.group() else NO
            if ends == MORE:
                return ends
            if ends == NO:
                return self._fail(text, i, "a positional argument (allowed are keyword arguments)")
        return self._bare_key(name.group(), i, end)

    def _inner_object(self, text: str, i: int) -> int:
        """Read the opening of an object in place of all keyword arguments; an empty one is as nothing."""
        j = skip_space(text, i + 1)
        if j - i <= MAX_SPACE and text[j : j + 1] in ("", "}"):
            return j + 1 if j < len(text) else MORE
        self.stack.append("d")
        return i + 1

    def _quoted_key(self, text: str, i: int) -> int:
        """Read a key in JSON with other quotes, where keys may be bare, or the object's opening in parentheses."""
        if text[i] == "{" and self.stack[-1] == "(" and self.mode == FIRST_KEY:  # parentheses around the object
            return self._inner_object(text, i)
        opens = self._how.string_opens(text, i, text[i])
        if opens != NO:
            return self._open_string(text, i, True) if opens >= 0 else opens
        bare = _BARE_KEY.match(text, i)
        equals = _EQUALS.match(text, i) if "=" in bare.group() else None
        begins = NO if equals is None else self._how.value_begins(text, equals.end())
        if begins == MORE:
            return begins
        if begins >= 0 and equals is not None:
            return self._bare_key(equals.group(1), i, equals.end(1))
        if bare.end() - i > MAX_KEY:
            return self._fail(text, i, "an unterminated key")
        if bare.end() == len(text):
            return MORE
        if bare.end() == i or text[bare.end()] != ":":
            return self._fail(text, i, "an object without a key")
        return self._bare_key(bare.group().rstrip(), i, bare.end())

    def _bare_key(self, key: str, i: int, end: int) -> int:
        """Read a complete key without quotes, from ``i`` to ``end``."""
        since = len(self.out)
        self._element()
        self.out.append(encode_basestring(key))
        if self._doubt.dropping < 0:
            twice = self._known(key) and not self._how.keep
            if twice or self._how.mend:
                self._doubt.wait(since, i)
            if twice:
                self._drop()
        self.mode = COLON
        return end

    def _value(self, text: str, i: int, c: str) -> int:  # a branch for each character that may begin a value
        how = self._how
        around = c == "(" and how.quoted and not self.stack
        if how.whole and not self.stack and c != "{" and not around:
            return self._fail(text, i, "not an object")
        opens = how.string_opens(text, i, c)
        if opens != NO:
            return self._open_string(text, i, False) if opens >= 0 else opens
        if c in "{[" or (c == "(" and how.python) or around:
            if len(self.stack) >= MAX_DEPTH:
                return self._fail(text, i, f"nested deeper than {MAX_DEPTH}")
            return self._open_bracket(text, i, c)
        if c in "-0123456789" or (c in "+." and how.lenient):
            return self._number_or_bare(text, i, c)
        return self._word(text, i, c)

    def _number_or_bare(self, text: str, i: int, c: str) -> int:
        """Open a number, or a string without its quotes that begins like one."""
        ends = self._how.number_ends(text, i, self._top()) if self._how.quoted and self.stack else i
        if ends == NO:
            return self._open_bare(text, i)
        return self._open_number(text, i, c) if ends >= 0 else ends

    def _open_number(self, text: str, i: int, c: str) -> int:
        self._begin(text, i)
        self._number = SIGN
        self._figures.begin()
        self.mode = NUMBER
        if c == "-":
            self._write("-")
        elif c == "+":
            self._fix("number")
            self._mark = i + 1
        return i + (c in "+-")

    def _open_bracket(self, text: str, i: int, c: str) -> int:
        self._begin(text, i)
        is_object = c == "{" or (c == "(" and self._how.quoted)
        # If sets are repaired, what follows decides whether this is one.
        maybe_set = c == "{" and self._how.mend and not self._how.quoted and bool(self.stack)
        if maybe_set and self._doubt.dropping < 0:
            self._doubt.wait(len(self.out), i, maybe_set=True)
            self.out.append(c)
            self._mark = i + 1
        elif not self._how.keep:
            self.out.append("{" if is_object else "[")
        self.stack.append(self._open_parenthesis(i) if c == "(" and not is_object else c)
        if is_object:
            self._given.append({})
        self.mode = FIRST_KEY if is_object else FIRST_ITEM
        self._comma = False
        return i + 1

    def _open_parenthesis(self, i: int) -> str:
        if self._doubt.dropping >= 0:
            return "t"
        if not self._undecided:
            self._parentheses.wait(0, i)
        self._undecided.append(len(self.out) - 1)
        return "p"

    def _sign(self, text: str, i: int, c: str, *, quoted: bool) -> int:
        marker = self._how.ends_call(text, i) if quoted and c == "<" else NO
        if marker == MORE:
            return MORE
        bare = quoted and c not in ":=,}])" and marker == NO
        return self._open_bare(text, i) if bare else self._fail(text, i, f"{c!r} where a value is expected")

    def _word(self, text: str, i: int, c: str) -> int:  # a word may be whole, cut, or joined to a name
        m = _WORD.match(text, i)
        quoted = self._how.quoted and bool(self.stack)
        if m is None:
            return self._sign(text, i, c, quoted=quoted)
        if quoted and (m.end() < len(text) or m.end() - i > MAX_WORD):
            ends = self._how.bare_ends(text, m.end(), self._top()) if m.group() in self._how.words else NO
            if ends == MORE:
                self.mode = WORD
                return ends
            if ends == NO:
                return self._open_bare(text, i)
        if m.end() - i > (MAX_KEY if self.stack[-1:] == ["("] else MAX_WORD):
            return self._fail(text, i, "an unknown word where a value is expected")
        if m.end() == len(text):
            # A word ends where another character begins.
            self.mode = WORD
            return MORE
        written, counts = self._how.word_in(text, m, self._top())
        if counts == MORE:
            self.mode = WORD
            return counts
        if counts == NO:
            return self._fail(text, i, f"{m.group()[:MAX_WORD]} is not a value")
        word = next(w for k, w in self._how.words.items() if k.startswith(written))
        self._begin(text, i)
        end = i + len(written)
        if not self._how.keep or word != written:
            if word != written:
                self._fix("Python literal")
            self.out.append(word)
            self._mark = end
        self._ended()
        return end

    def _close(self, text: str, i: int, c: str) -> int:  # a branch for each thing that a bracket may end
        top = self.stack[-1]
        if c == ")" and top == "(":
            self.out.append("}")
            self.mode = DONE
            return i + 1 if self._how.quoted else MORE
        if top + c not in _PAIRS and not self._misses_bracket(text, i, c):
            return self._fail(text, i, f"{c!r} where ',' or the end of a value is expected")
        top = self.stack[-1]
        if self._pending:  # a trailing comma is dropped, its white space stays
            self.out.append(self._pending[1:])
            self._pending = ""
            self._mark = i
        if top == "p":
            top = self._parenthesis(i)
        self._comma = False
        self.stack.pop()
        if top == "{":
            self._given.pop()
            if self._doubt.maybe_set:  # an empty object
                self._doubt.decide()
        if top == "s" and self._how.keep:
            self._replace(text, i, i + 1)
        if top not in "dp" and (not self._how.keep or top == "s"):
            self.out.append("}" if top == "{" else "]")
        self._ended()
        return i + 1

    def _misses_bracket(self, text: str, i: int, c: str) -> bool:
        """Repair: close the object or list before a bracket that closes the one around it."""
        inside = self.stack[-1]
        if not self._how.repair or len(self.stack) < 2 or inside not in ("{", "["):
            return False
        if self.stack[-2] + c not in ("{}", "[]"):
            return False
        self._replace(text, i, i, "}" if inside == "{" else "]")
        self._mended("brackets")
        self.stack.pop()
        if inside == "{":
            self._given.pop()
        self._ended()
        return True

    # -- numbers --------------------------------------------------------------------------------------------------

    def _digits(self, text: str, i: int) -> int:
        """Read digits of a number, or the character after them."""
        j = _DIGITS.match(text, i).end()
        if j == i:
            return self._after_digits(text, i)
        state = self._number
        if state == SIGN and text[i] == "0":
            return self._zero(text, i)
        if state == ZERO:
            return self._fail(text, i, "a number with a leading zero")
        self._number = _AFTER_DIGITS.get(state, state)
        digits = text[i:j]
        self._figures.add(digits)
        self._write(digits)
        return j

    def _after_digits(self, text: str, i: int) -> int:  # a branch for each character that may follow
        """Read a character that is no digit: a point, a sign, an exponent, or what ends the number."""
        c = text[i]
        state, lenient = self._number, self._how.lenient
        named = self._name_follows(text, i)
        if named == MORE:
            return named
        if named >= 0 and not self._endless():
            self._number_ended()
            return i
        if c == "." and state == SIGN and lenient:
            return self._leading_point(text, i)
        bare_point = state == DOT and lenient
        then = _GOES_ON.get((FRACTION if bare_point else state, c.lower()))
        if then is not None:
            if then == EXP:
                self._add_fraction(text, i)
            self._number = then
            self._figures.add(c)
            self._write(c)
            return i + 1
        if c == "_" and state in (INT, FRACTION, EXP_DIGITS) and lenient:
            self._fix("number")
            return self._replace(text, i, i + 1)
        if c.isalnum() or c in "_." or not (state in _COMPLETE or bare_point):
            return self._fail(text, i, f"{c!r} in a number")
        if self._endless():
            return self._fail(text, i, "a number too large for a float")
        if self._add_fraction(text, i):
            self._fix("number")
        self._number_ended()
        return i

    def _name_follows(self, text: str, i: int) -> int:
        """Whether a name begins at ``i``, after a number that may be over; by the rules of `Spelling.name_follows`."""
        begins = self._number in _COMPLETE and (text[i].isalpha() or text[i] == "_")
        return self._how.name_follows(text, i, self._top(), in_number=True) if begins else NO

    def _leading_point(self, text: str, i: int) -> int:
        """Read a point without digits before it, which JSON wants."""
        self._fix("number")
        self._figures.add(".")
        self._number = POINT
        return self._replace(text, i, i + 1, "0.")

    def _add_fraction(self, text: str, i: int) -> bool:
        """If a point is the last thing before ``i``, add the zero that JSON wants after it."""
        if self._number != DOT:
            return False
        self._flush(text, i)
        self.out.append("0")
        return True

    def _zero(self, text: str, i: int) -> int:
        """Read a leading zero: it is all of the integer part, one too many, or the beginning of another base."""
        if i + 1 == len(text) and (self._how.lenient or self._how.mend):
            return MORE
        based = _BASED.match(text, i) if self._how.lenient else None
        if based is not None:
            return self._based(text, based)
        if self._how.mend and text[i + 1] in "0123456789":
            self._mended("leading zero")
            return self._replace(text, i, i + 1)
        self._number = ZERO
        self._figures.add("0")
        self._write("0")
        return i + 1

    def _based(self, text: str, number: re.Match[str]) -> int:
        """Read an integer of another base, which JSON does not have."""
        begin, end = number.span()
        if end - begin <= MAX_DIGITS:
            if end == len(text):
                return MORE
            value = "" if text[end].isalnum() or text[end] == "." else _decimal(number.group())
            if value:
                self._fix("number")
                self._figures.add(value)
                self._number = INT
                return self._replace(text, begin, end, value)
        return self._fail(text, begin, "an invalid integer of another base")

    def _endless(self) -> bool:
        """Whether the number so far rounds to infinity, if it has a point or an exponent."""
        return self._number not in (ZERO, INT) and self._figures.infinite()

    def _number_ended(self) -> None:
        """The open number ends here."""
        self._figures.end()
        self._ended()

    # -- strings ------------------------------------------------------------------------------------------------------

    def _open_string(self, text: str, i: int, is_key: bool) -> int:  # each syntax opens strings in its way
        how = self._how
        self._prefix = ""
        own = how.quoted and text.startswith(how.quote, i)
        if own or how.keep:
            self.delimiter = how.quote if own else text[i]
            if how.keep and self.delimiter != '"':
                self._fix("single quotes")
            end = i + len(self.delimiter)
        else:
            # `''` may be an empty string or the beginning of a triple quote.
            if _STRING_MAYBE.match(text, i):
                return MORE
            m = self._how.opens_string(text, i)
            if m is None:
                return self._fail(text, i, f"{text[i]!r} where a key is expected")
            if m.group(1) in ("f", "F"):
                self._mended("formatted string")
            self._prefix = m.group(1).lower().strip("u")
            self.delimiter = m.group(2)
            end = m.end()
        since = self._begin(text, i)
        self._is_key = is_key
        self.mode = STRING
        translated_text = not (self._how.keep and self.delimiter == '"')
        if translated_text:
            self.out.append('"')
            self._mark = end
        if is_key and self._doubt.dropping < 0:
            self._key_text = ""
            if (translated_text or self._how.mend) and self._doubt.since < 0:
                self._doubt.wait(since, i)  # until it is certain that the key is not repeated, and (repair) has a value
            self._key_at = len(self.out) - self._doubt.since if translated_text else -1
        return end

    def _string(self, text: str, i: int) -> int:
        if self._how.keep and self.delimiter == '"':
            return self._json_string(text, i)
        if not self.delimiter:
            return self._bare_string(text, i)
        if self._how.quoted and self.delimiter == self._how.quote:
            return self._quote_string(text, i)
        return self._python_string(text, i)

    def _string_ended(self, end: int) -> None:
        """A string ends; the text up to ``end`` was read."""
        self.delimiter = ""
        if not self._is_key:
            self._ended()
            return
        self._is_key = False
        self.mode = COLON
        if self._doubt.dropping >= 0:
            return
        if self._doubt.maybe_set or self._key_at >= 0:
            self._too_much(end)
        if self._key_text is None:
            return
        text = self._key_text if self._key_at < 0 else "".join(self.out[self._doubt.since + self._key_at : -1])
        twice = self._known(unescaped(text))
        if self._key_at < 0 or self._doubt.maybe_set:
            return
        if twice and not self._how.keep:
            self._drop()
        elif not self._how.mend:
            self._doubt.decide()

    def _json_string(self, text: str, i: int) -> int:  # a branch for each thing that may end a run
        j = JSON_RUN.match(text, i).end() if self.repaired else json_run(text, i)
        if self._is_key and self._key_text is not None:
            self._key_text = self._key_text + text[i:j] if len(self._key_text) + j - i <= MAX_KEY else None
        if j == len(text):
            return j
        c = text[j]
        if c == '"':
            closes = self._how.closes(text, j + 1) if self._how.repair and self.stack and not self._is_key else j
            if closes == MORE:
                return j if j > i else MORE
            if closes >= 0 or self._how.ends_apart(text, j + 1):
                self._string_ended(j + 1)
                return j + 1
            self._fix("quotes in a string")
            return self._replace(text, j, j + 1, '\\"')
        if c == "\\" and JSON_PARTIAL.match(text, j):
            # Consume what is complete; the beginning of an escape waits.
            return j if j > i else MORE
        return self._mend_character(text, j, c)

    def _mend_character(self, text: str, j: int, c: str) -> int:
        """Read a character that a JSON string may not contain, or a wrong escape."""
        if not self._how.repair:
            return self._fail(text, j, "an invalid escape" if c == "\\" else "a control character in a string")
        if c != "\\":
            self._fix("control character")
            return self._replace(text, j, j + 1, escaped(c))
        self._fix("escape")
        # Other languages write an apostrophe as `\'`; any other backslash means itself.
        if text[j + 1] == "'":
            return self._replace(text, j, j + 2, "'")
        return self._replace(text, j, j + 1, "\\\\")

    def _open_bare(self, text: str, i: int) -> int:
        """Begin a string whose opening quote is missing."""
        self._begin(text, i)
        self.notes.append(("missing_open", self._how.quote))
        self.out.append('"')
        self._is_key = False
        self._prefix = self._nested = self.delimiter = ""
        self.mode = STRING
        return i

    def _bare_string(self, text: str, i: int) -> int:  # a line for each mark that may end it
        """Read a string whose opening quote is missing: it ends at its closing quote, where the call ends, or, outside
        of brackets of its own, at the bracket around it or where the next key or item follows a comma; a key whose
        value has a quote ends it everywhere."""
        assert self._how.bare is not None
        m = self._how.bare.search(text, i)
        assert m is not None
        p = m.start()
        top = self.stack[-1]
        if p > i:
            self.out.append(escaped(text[i:p]))
            self._nested = (self._nested + top * text.count(top, i, p))[:MAX_DEPTH]
            return p
        mark = m.group().lstrip()
        end = m.end()
        if mark != self._how.quote:
            if end == len(text) and (not mark or self._how.quote.startswith(mark)):
                return i
            at = end - 1
            if mark in "<[◁":
                follows = self._how.ends_call(text, at)
            elif mark == "," and top != "[":  # inside of its own brackets, a key may be part of it
                follows = self._how.key_follows(text, at, top, of_string=bool(self._nested))
            elif self._nested:  # its last bracket is the one around it all the same
                follows = self._how.ends_call(text, end) if top + mark in _AROUND else NO
            else:
                follows = at if mark == "," or top + mark in _AROUND else NO
            if follows == MORE:
                return i
            if follows == NO:
                self.out.append(escaped(m.group()))
                if mark == top:
                    self._nested = (self._nested + top)[:MAX_DEPTH]
                elif top + mark in _AROUND:
                    self._nested = self._nested[1:]
                return end
            end = at
        self.out.append('"')
        self._string_ended(end)
        return end

    def _quote_string(self, text: str, i: int) -> int:
        assert self._how.scan is not None
        m = self._how.scan.search(text, i)
        end = len(text) if m is None else m.start()
        if end > i:
            self.out.append(escaped(text[i:end]))
        if m is None:
            return end
        if m.group() == self._how.quote:
            self.out.append('"')
            self._string_ended(m.end())
            return m.end()
        return end if end > i else MORE

    def _python_string(self, text: str, i: int) -> int:  # a branch for each thing that may end a run
        delimiter = self.delimiter
        run, to_json = (RAW_RUN, escaped) if self._prefix == "r" else (PYTHON_RUN, translated)
        out, n = self.out, len(text)
        quote = -1  # where the next one may be
        while i < n:
            if i > quote:
                quote = quote_in(text, i, delimiter)
            j = run.match(text, i, min(quote, i + STRETCH)).end()
            if self._prefix == "f" and _BRACES.search(text, i, j):
                return self._fail(text, i, "a value in a formatted string")
            if j > i:
                out.append(to_json(text[i:j]))
                self._mark = i = j
                continue
            if text[i] == "\\":
                json, end = escape_at(text, i, raw=self._prefix == "r", slash=self._how.quoted)
                if end == MORE:
                    return i
                if json:
                    out.append(json)
                self._mark = i = end
                continue
            if not text.startswith(delimiter, i):  # its beginning, at the end of the text
                return i
            another = self._adjoins(text, i + len(delimiter))
            if another >= 0:
                self._mark = another
            if another != NO:
                return max(another, i)
            if self._how.mend and len(delimiter) == 1:
                closes = self._how.closes(text, i + 1)
                if closes == MORE:
                    return i
                if closes == NO:
                    self._mended("quotes in a string")
                    out.append(escaped(text[i]))
                    i += 1
                    self._mark = i
                    continue
            out.append('"')
            i += len(delimiter)
            self._mark = i
            self._string_ended(i)
            return i
        return i

    def _adjoins(self, text: str, i: int) -> int:
        """Go on with the string that follows one directly, as in ``'a' 'b'``: where it begins, `NO`, or `MORE`."""
        j = skip_space(text, i)
        if self._is_key or j - i > MAX_SPACE or not (self._how.mend or (self._how.python and self.stack)):
            return NO
        if _STRING_MAYBE.match(text, j):
            return MORE
        m = self._how.opens_string(text, j)
        if m is None or (self._how.keep and m.group() != "'"):
            return NO
        if not self._how.python:
            self._mended("adjacent strings")
        self._prefix = m.group(1).lower().strip("u")
        self.delimiter = m.group(2)
        return m.end()


def _decimal(number: str) -> str:
    """An integer of another base as JSON; ``""`` if it has no digits, or underscores at the wrong places."""
    try:
        return str(int(number, 0))
    except ValueError:
        return ""


_STEPS: Final = {
    VALUE: LiteralReader._item,
    FIRST_ITEM: LiteralReader._item,
    FIRST_KEY: LiteralReader._member,
    KEY: LiteralReader._member,
    COLON: LiteralReader._colon,
    AFTER: LiteralReader._after,
    WORD: LiteralReader._word,
}
"""What reads the next token, by mode, except in strings and numbers."""
