"""Arguments that come as a JSON string holding the object."""

import re

from ..regex import Regex
from .literals import DONE, ERROR, STRING, VALUE, LiteralReader, Root, Syntax


class UnwrapReader(LiteralReader):
    """Reads arguments that come as a JSON string holding an object: decodes the string and reads what it holds."""

    __slots__ = ("_decoded", "_inner", "_inner_error", "_raw", "_started")

    def __init__(self, *, repair: bool = False) -> None:
        super().__init__(Syntax.JSON, Root.ANY, repair=repair)
        self._inner = LiteralReader(Syntax.JSON, Root.OBJECT, repair=repair)
        self._inner_error = ""
        self._decoded = ""
        self._raw = ""
        self._started = False

    def simple(self) -> bool:
        """What is inside is read by another reader."""
        return False

    def close_all(self) -> str:
        """What would close the object inside."""
        return self._inner.close_all() if self.mode == STRING else ""

    def read(self, text: str, i: int) -> int:
        """Consume ``text`` from ``i`` on; see `LiteralReader.read`."""
        i = super().read(text, i)
        self._raw += "".join(self.out)
        self.out = []
        # Whole escapes only; half a surrogate pair waits for the other half.
        raw = self._raw
        if not self._started:
            if not raw:
                return i
            raw = raw.lstrip()[1:]
            self._started = True
        ended = self.mode == DONE
        if ended:
            raw = raw[:-1]
        m = None if ended else _HIGH_SURROGATE.search(raw)
        keep = 6 if m is not None and len(m.group(1)) % 2 else 0
        self._raw = raw[len(raw) - keep :]
        self._decoded += _decode(raw[: len(raw) - keep])
        if self._inner.mode == VALUE and not self._inner.stack:
            self._decoded = self._decoded.lstrip()
        out = []
        if not self._inner_error:
            used = self._inner.read(self._decoded, 0)
            self._decoded = self._decoded[used:]
            out.append(self._inner.take())
            self.repaired = self.repaired or self._inner.repaired
            self.notes += self._inner.notes
            self._inner.notes = []
            if self._inner.mode == ERROR:
                self._inner_error = self._inner.error
            elif self._inner.mode == DONE and self._decoded.strip():
                self._inner_error = "text behind the arguments"
            elif ended and self._inner.mode != DONE:
                if not self._inner.stack and not self._decoded.strip():
                    out = ["{}"]
                else:
                    self._inner_error = "a string that holds no object"
        if self._inner_error:
            # What is left of the string goes out as it is; the call ends as invalid with the string.
            out.append(self._decoded)
            self._decoded = ""
            if ended:
                self.mode = ERROR
                self.error = self._inner_error
        self.out = out
        return i


_HIGH_SURROGATE = Regex(r"(\\++)u[dD][89abAB][0-9a-fA-F]{2}\Z")
_JSON_ESCAPE = Regex(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.S)
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _decode(raw: str) -> str:
    """The text that the inside of a JSON string stands for."""
    return _JSON_ESCAPE.sub(_unescape, raw) if "\\" in raw else raw


def _unescape(m: re.Match[str]) -> str:
    high, low, code, simple = m.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code is not None:
        return chr(int(code, 16))
    return _UNESCAPED.get(simple, simple)
