"""Reads strings inside literals, and emits JSON strings."""

import re

from ...regex import Regex
from .emitting import PYTHON_SPACE, Emitter
from .strings import (
    JSON_PARTIAL,
    JSON_RUN,
    PYTHON_RUN,
    RAW_RUN,
    STRETCH,
    escaped,
    json_run,
    quote_in,
    translated,
    unescaped,
)
from .syntax import COLON, MAX_KEY, MAX_SPACE, STRING

STRING_OPEN = Regex(r"([rRuU]?)('''|\"\"\"|'|\")")
_STRING_MAYBE = Regex(r"[rRuU]?(?:''?|\"\"?)?\Z")
_ESCAPE = Regex(r"\\(?:\r\n|\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(.))", re.S)
_ESCAPE_MAYBE = Regex(r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?\Z")
_SIMPLE = {"n": "\\n", "t": "\\t", "r": "\\r", "b": "\\b", "f": "\\f", "a": "\\u0007", "v": "\\u000b"}


class Strings(Emitter):
    """Reads strings."""

    __slots__ = ()

    def _open_string(self, text: str, i: int, n: int, is_key: bool) -> int:
        self._escape_free = False
        if self._how.quoted:
            self.delimiter = self._how.quote
            end = i + len(self._how.quote)
        elif self._how.keep and (text[i] == '"'):
            self.delimiter = '"'
            end = i + 1
        elif self._how.keep:
            self._fix("single quotes")
            self.delimiter = "'"
            end = i + 1
        else:
            # `''` may be an empty string or the beginning of a triple quote.
            if _STRING_MAYBE.match(text, i):
                return -1
            m = STRING_OPEN.match(text, i)
            if m is None:
                return self._fail(text, i, f"{text[i]!r} where a key is expected")
            self._escape_free = m.group(1) in ("r", "R") and m.group(1) != ""
            self.delimiter = m.group(2)
            end = m.end()
        since = len(self.out)
        self._begin(text, i)
        self._is_key = is_key
        self.mode = STRING
        translated_text = not (self._how.keep and self.delimiter == '"')
        if translated_text:
            self.out.append('"')
            self._mark = end
        if is_key and self._doubt.dropping < 0:
            self._key_text = ""
            if translated_text and self._doubt.since < 0:
                self._doubt.wait(since, i)  # until it is certain that the key is not repeated
            self._key_at = len(self.out) - self._doubt.since if translated_text else -1
        return end

    def _string(self, text: str, i: int, n: int) -> int:
        if self._how.keep and self.delimiter == '"':
            return self._json_string(text, i, n)
        if self._how.quoted:
            return self._quote_string(text, i, n)
        return self._python_string(text, i, n)

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
        else:
            self._doubt.decide()

    def _json_string(self, text: str, i: int, n: int) -> int:
        j = JSON_RUN.match(text, i).end() if self.repaired else json_run(text, i)
        if self._is_key and self._key_text is not None:
            self._key_text = self._key_text + text[i:j] if len(self._key_text) + j - i <= MAX_KEY else None
        if j == n:
            return j
        c = text[j]
        if c == '"':
            self._string_ended(j + 1)
            return j + 1
        if c == "\\" and JSON_PARTIAL.match(text, j):
            # Consume what is complete; the beginning of an escape waits.
            return j if j > i else -1
        if not self._how.repair:
            return self._fail(text, j, "an invalid escape" if c == "\\" else "a control character in a string")
        self._flush(text, j)
        if c == "\\":
            self._fix("escape")
            # Other languages write an apostrophe as `\'`; any other backslash means itself.
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
        assert self._how.scan is not None
        m = self._how.scan.search(text, i)
        end = n if m is None else m.start()
        if end > i:
            self.out.append(escaped(text[i:end]))
        if m is None:
            return n
        if m.group() == self._how.quote:
            self.out.append('"')
            self._string_ended(m.end())
            return m.end()
        return end if end > i else -1

    def _python_string(self, text: str, i: int, n: int) -> int:
        delimiter = self.delimiter
        run, to_json = (RAW_RUN, escaped) if self._escape_free else (PYTHON_RUN, translated)
        out = self.out
        quote = -1  # where the next one may be
        while i < n:
            if i > quote:
                quote = quote_in(text, i, delimiter)
            j = run.match(text, i, min(quote, i + STRETCH)).end()
            if j > i:
                out.append(to_json(text[i:j]))
                self._mark = i = j
                continue
            if text[i] == "\\":
                k = self._escape(text, i, n)
                if k < 0:
                    return i
                self._mark = i = k
                continue
            if not text.startswith(delimiter, i):  # its beginning, at the end of the text
                return i
            if self._how.mend and len(delimiter) == 1:
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
            i += len(delimiter)
            self._mark = i
            self._string_ended(i)
            return i
        return i

    def _closes(self, text: str, i: int, n: int) -> int:
        """Whether a quote just before ``i`` closes its string, judged by what follows: 1, 0, or -1 if undecided."""
        j = PYTHON_SPACE.match(text, i).end()
        if j - i > MAX_SPACE:
            return 0
        if j == n:
            return -1
        if text[j] in ",)]}:":
            return 1
        return 0 if self._how.stops is None else self._how.stops(text, j)

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
