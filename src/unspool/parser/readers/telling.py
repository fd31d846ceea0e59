"""What a reader of a literal tells, and what of it waits until it is certain."""

import json
import re
from collections.abc import Callable

from ...dialect.syntax import Syntax
from .numbers import Magnitude
from .strings import marker_scan
from .syntax import AFTER, DONE, ERROR, FIRST_KEY, MAX_HELD, MAX_KEYS, SIGN, STRING, VALUE, Root

_SPACE = re.compile(r"[ \t\n\r]*+")
PYTHON_SPACE = re.compile(r"\s*+")
_WORDS = {"true": "true", "false": "false", "null": "null"}
_PYTHON_WORDS = _WORDS | {"True": "true", "False": "false", "None": "null"}


class Telling:
    """The state of a reader.

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
        self._space = _SPACE if syntax is Syntax.JSON and not repair else PYTHON_SPACE
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

    # -- what is undecided ----------------------------------------------------------------------------------------

    def rest(self) -> str:
        """What is still held, as it looks, when nothing more comes."""
        if self._dropping >= 0:
            return ""
        self._decide()
        comma, self._pending = self._pending, ""
        return self.take() + comma

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

    # -- telling ----

    def _fail(self, text: str, i: int, why: str) -> int:
        if not self._pending:
            self._flush(text, i)
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

    def _begin(self, text: str, i: int) -> None:
        self._flush(text, i)
        self._element()

    def _ended(self) -> None:
        self.mode = AFTER if self.stack else DONE
        if self._dropping == len(self.stack):
            del self.out[self._hold :]
            self._hold = self._dropping = -1


def unescaped(key: str) -> str:
    """What the inside of a JSON string stands for."""
    if "\\" not in key:
        return key
    try:
        text: str = json.loads(f'"{key}"', strict=False)
    except ValueError:  # a repaired escape
        return key
    return text
