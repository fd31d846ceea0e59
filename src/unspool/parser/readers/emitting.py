"""The state of a reader of literals, and the JSON text that it emits, which is held until it is certain."""

from collections.abc import Callable
from functools import lru_cache

from ...dialect.syntax import Syntax
from ...regex import Prefix
from .numbers import Magnitude
from .pieces import JSON_STRINGS, StringKind, python_strings, quoted_strings
from .recall import MOST_WAITING, Deeds, ReaderState, Spot, memory
from .strings import marker_scan
from .syntax import AFTER, DONE, ERROR, FIRST_KEY, KEY, MAX_HELD, MAX_KEYS, NUMBER, SIGN, STRING, VALUE, Root

_SPACE = Prefix(r"[ \t\n\r]*+")
PYTHON_SPACE = Prefix(r"\s*+")
_WORDS = {"true": "true", "false": "false", "null": "null"}
PYTHON_WORDS = _WORDS | {"True": "true", "False": "false", "None": "null"}


class Spelling:
    """How a literal is written, and what kind of value it must be.

    Attributes:
        python: whether it is a Python literal.
        quoted: whether its strings have a quote of their own, which is ``quote``; ``scan`` finds it.
        whole: whether it must be an object.
        mend: whether to repair errors that can be repaired from left to right; ``repair``: the same, but only in JSON.
        keep: whether the literal is passed on unchanged, which is so for JSON.
        space: matches white space.
        words: the words that are values, with their JSON text.
        stops: returns whether the text at an index ends the call (1: yes, 0: no, -1: perhaps). A quote directly before
            such a text closes its string.
    """

    __slots__ = ("keep", "mend", "python", "quote", "quoted", "repair", "scan", "space", "stops", "whole", "words")

    def __init__(
        self, syntax: str, root: str, repair: bool, quote: str, stops: Callable[[str, int], int] | None
    ) -> None:
        self.python = syntax == Syntax.PYTHON
        self.quoted = syntax == Syntax.QUOTE
        self.whole = root == Root.OBJECT
        self.mend = repair
        self.repair = repair and syntax == Syntax.JSON  # also read JSON as other languages write it
        self.stops = stops
        self.keep = syntax == Syntax.JSON
        self.space = _SPACE if syntax == Syntax.JSON and not repair else PYTHON_SPACE
        self.words = PYTHON_WORDS if self.python or repair else _WORDS
        self.quote = quote
        self.scan = marker_scan(quote) if self.quoted else None


spelling = lru_cache(256)(Spelling)
"""Make a `Spelling`, or return a cached one."""


class Doubt:
    """The part of a reader's output that is held until it is certain.

    Attributes:
        since: the index from which the output is undecided (-1: none is), because an object may be a set, or a key may
            be repeated.
        dropping: how many brackets were open when the value that is being dropped began (-1: no value is dropped).
        maybe_set: whether the open object may be a set.
        size: how many characters were held when the last reading ended.
    """

    __slots__ = ("_from", "dropping", "maybe_set", "since", "size")

    def __init__(self) -> None:
        self.since = -1
        self.dropping = -1
        self.maybe_set = False
        self.size = 0
        self._from = 0

    def wait(self, since: int, i: int, *, maybe_set: bool = False) -> None:
        """Hold the output from ``since`` on, because it may still change. Its text begins at ``i``."""
        self.since = since
        self.maybe_set = maybe_set
        self.size = 0
        self._from = i

    def decide(self) -> None:
        """Accept the held output as it is."""
        self.since = -1
        self.maybe_set = False

    def taken(self) -> None:
        """Record that the output before the held part was taken."""
        self.since = 0

    def drop(self, depth: int, since: int = -1) -> None:
        """Drop the output from ``since`` on, up to the end of the next value."""
        if since >= 0:
            self.since = since
        self.dropping = depth

    def over(self) -> None:
        """Record that the dropped value has ended."""
        self.since = self.dropping = -1

    def reads(self, i: int) -> None:
        """Record that reading begins at ``i``."""
        self._from = i

    def read(self, i: int) -> bool:
        """Record reading up to ``i``, and return whether too much is held."""
        self.size += i - self._from
        self._from = i
        return self.size > MAX_HELD

    def too_much(self, i: int) -> bool:
        """Whether too much is held when reading is at ``i``."""
        return self.size + i - self._from > MAX_HELD


class Emitter:
    """The state of a reader, and the JSON text that it emits.

    Attributes:
        out: pieces of JSON text since the last `take`.
        mode: `DONE` when the value is complete, `ERROR` when it cannot be a value.
        error: what was wrong, or ``""``.
        repaired: the first repair that was made (only with ``repair``), or ``""``.
        notes: kinds and details of notices to emit.
        stack: the open brackets, innermost last; ``t`` is a tuple, ``s`` a set.
        delimiter: inside a string, the quote that ends it.
    """

    __slots__ = (
        "_broken",
        "_comma",
        "_doubt",
        "_escape_free",
        "_given",
        "_how",
        "_is_key",
        "_key_at",
        "_key_text",
        "_mark",
        "_number",
        "_pending",
        "_size",
        "delimiter",
        "error",
        "mode",
        "notes",
        "out",
        "repaired",
        "stack",
    )

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
        self.out: list[str] = []
        self.error = ""
        self.repaired = ""
        self.notes: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self._given: list[set[int]] = []  # hashes of the keys of the open objects
        self._key_text: str | None = ""  # of a key that is passed on unchanged; ``None`` if it is too long
        self._key_at = 0  # where the text of a translated key begins in the held output
        self._size = Magnitude()
        self.delimiter = ""
        self.mode = VALUE
        self._broken = VALUE  # the mode in which the error occurred
        self._mark = 0  # text from here to the cursor is passed on unchanged
        self._is_key = False
        self._escape_free = False
        self._number = SIGN
        self._comma = False
        self._pending = ""  # a comma and its white space that wait for an element (repair)
        if root == Root.KEYWORDS:
            self.stack.append("(")
            self._given.append(set())
            self.out.append("{")
            self.mode = FIRST_KEY

    def take_notes(self) -> list[tuple[str, str]]:
        """Take the notices since the last call."""
        notes, self.notes = self.notes, []
        return notes

    def take(self) -> str:
        """Take the JSON text since the last call, up to where it is certain."""
        out = self.out
        if not out:
            return ""
        doubt = self._doubt
        if doubt.since >= 0:
            text = "".join(out[: doubt.since])
            self.out = [] if doubt.dropping >= 0 else out[doubt.since :]
            doubt.taken()
            return text
        text = out[0] if len(out) == 1 else "".join(out)
        self.out = []
        return text

    def simple(self) -> bool:
        """Whether the reader is in a string value in which a piece of text can be read on its own."""
        return self.mode == STRING and not self._is_key and not self._escape_free and self._doubt.dropping < 0

    def strict(self) -> bool:
        """Whether the reader passes JSON on unchanged and repairs nothing, so that its steps can be remembered."""
        return self._how.keep and not self._how.repair

    def strings(self) -> StringKind | None:
        """The kind of the string value that this is inside of; ``None`` if a piece of it cannot be read on its own."""
        if not self.simple():
            return None
        if self.verbatim():
            return JSON_STRINGS
        scan = self._how.scan
        return python_strings(self.delimiter) if scan is None else quoted_strings(scan, self.delimiter)

    def spot(self) -> Spot:
        """Return the state, in which nothing waits."""
        return self._spot(self.mode, "".join(self.stack), self._comma, "", 0)

    def settle(self, text: str, unread: int) -> Spot | None:
        """Go back to before what is held, and return the state there; ``None`` if it cannot be remembered.

        Args:
            text: the text that was read last. All that waits must be at its end.
            unread: the length of the part that was not read.
        """
        doubt = self._doubt
        held = doubt.size if doubt.since >= 0 else len(self._pending)
        start = len(text) - held - unread
        if start < 0 or held + unread > MOST_WAITING or doubt.dropping >= 0:
            return None
        if self.mode == STRING and (self._escape_free or (self._how.keep and self.delimiter != '"')):
            return None
        mode, brackets, comma = self.mode, "".join(self.stack), self._comma
        if doubt.maybe_set:
            mode, brackets, comma = VALUE, brackets[:-1], False
            self._given.pop()
        elif doubt.since >= 0:
            mode, comma = KEY, self.out[0] == ", "
        elif self._pending:
            mode, comma = AFTER, False
            self._pending = ""
        if held:
            doubt.decide()
            self.out = []
        return self._spot(mode, brackets, comma, text[start:], unread)

    def _spot(self, mode: int, brackets: str, comma: bool, waits: str, unread: int) -> Spot:
        is_key = mode == STRING and self._is_key
        number = self._number if mode == NUMBER else 0
        delimiter = self.delimiter if mode == STRING else ""
        key = self._key_text if is_key else ""
        if key is not None and (len(key) > MOST_WAITING or "\\" in key):
            key = None
        place = ReaderState(self._how, mode, brackets, comma, is_key, number, delimiter, waits, unread, key)
        return memory.spot(place, None if waits else self.strings())

    def stand(self, spot: Spot) -> None:
        """Restore a state, except for what waits, which must be read."""
        _, self.mode, brackets, self._comma, self._is_key, self._number, self.delimiter, _, _, key = spot.place
        if key is not None:
            self._key_text = key
        self.stack = list(brackets)
        self._escape_free = False
        self._key_at = -1

    def follow(self, deeds: Deeds) -> bool:
        """Repeat the effects of a piece of text, except for the change of state.

        Return false and do nothing if the text must be read after all, because a key is or may be repeated, or a
        number may be too large.
        """
        digits, number_ends, number, known, left, objects = deeds
        if number_ends:
            if not self._size.finite_with(digits):
                return False
        elif digits:
            self._size.more(digits)
            return True
        if known is not None:
            keys = self._given[-1 - left]
            if known in keys or len(keys) >= MAX_KEYS:
                return False
            keys.add(known)
        if left:
            del self._given[-left:]
        if objects:
            self._given += map(set, objects)
        if number:
            self._size = Magnitude(number)
        return True

    @property
    def python(self) -> bool:
        """Whether the reader reads Python."""
        return self._how.python

    def verbatim(self) -> bool:
        """Whether the reader is in a string that is passed on unchanged."""
        return self._how.keep and self.delimiter == '"' and not self._pending

    # -- what is undecided ----------------------------------------------------------------------------------------

    def rest(self) -> str:
        """Take the held text as it is, because no more text comes."""
        if self._doubt.dropping >= 0:
            return ""
        self._doubt.decide()
        comma, self._pending = self._pending, ""
        return self.take() + comma

    def _overflows(self) -> None:
        self.notes.append(("hold_overflow", "a key"))
        self._key_text = None
        self._doubt.decide()

    def _too_much(self, i: int) -> bool:
        """Whether too much is held at ``i``. If so, accept it, just as if the text had come in pieces."""
        if not self._doubt.too_much(i):
            return False
        self._overflows()
        return True

    def _is_set(self) -> None:
        """Change the open object into a set."""
        self.out[self._doubt.since] = "["
        self._doubt.decide()
        self.stack[-1] = "s"
        self._given.pop()
        self._mended("set")

    def _known(self, key: str) -> bool:
        """Record a key of the innermost object, and return whether the object already has it."""
        given = self._given[-1]
        code = hash(key)
        if code in given:
            self.notes.append(("duplicate_arguments", key))
            return True
        if len(given) < MAX_KEYS:
            given.add(code)
        return False

    def _drop(self) -> None:
        """Drop what is held, and the value that follows."""
        del self.out[self._doubt.since :]
        self._doubt.drop(len(self.stack))

    # -- output ---------------------------------------------------------------------------------------------------

    def _fail(self, text: str, i: int, why: str) -> int:
        if not self._pending:
            self._flush(text, i)
        if self._doubt.since >= 0:
            if self._doubt.dropping >= 0:
                del self.out[self._doubt.since :]
            self._doubt.decide()
        self._mark = i
        self._broken = self.mode
        self.mode = ERROR
        self.error = why
        return -1

    def _flush(self, text: str, i: int) -> None:
        if self._how.keep and i > self._mark:
            self.out.append(text[self._mark : i])
        self._mark = i

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

    def _begin(self, text: str, i: int) -> None:
        self._flush(text, i)
        self._element()

    def _ended(self) -> None:
        self.mode = AFTER if self.stack else DONE
        doubt = self._doubt
        if doubt.dropping == len(self.stack):
            del self.out[doubt.since :]
            doubt.over()
