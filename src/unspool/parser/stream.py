"""Feeding text: the events of each piece, and the short ways for pieces that can only be more of the same."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..dialect.plan import Plan
from ..dialect.syntax import Syntax
from ..events import ContentDelta, Event, Finish, ReasoningDelta, Stage, ToolCallDelta
from ..message import Fold, Message, OpenSegment
from .call import Sink, ValueMode
from .headers import Ids
from .literals import STRING
from .output import ARGUMENTS, OBJECT, REASONING, TEXT, VALUE, held_suffix
from .strings import JSON_PARTIAL, JSON_RUN, SHORT, escaped, escaped_piece, json_piece, python_piece, quoted_piece
from .text import Text

_json_run = JSON_RUN.match
_JSON_STRING, _VALUE, _LITERAL, _CONTENT, _REASONING, _GUARDED = 1, 2, 3, 4, 5, 6


class Stream(Text):
    """A machine that is fed."""

    __slots__ = (
        "_clean",
        "_closed",
        "_current",
        "_decoder",
        "_escapes",
        "_fast",
        "_find",
        "_fold",
        "_hold_back",
        "_hold_back2",
        "_nonblank",
        "_pieces",
        "_said",
        "_segment",
        "_stop",
        "_synced",
        "_token",
        "_tokens",
    )

    def __init__(self, plan: Plan, names: dict[str, Any] | None, named: str, ids: Ids) -> None:
        super().__init__(plan, names, named, ids)
        self._closed = False
        self._fold = Fold()
        self._nonblank = False
        self._decoder: Any = None  # of token ids
        self._tokens: list[int] = []  # where the text of tokens begins that events have not claimed
        self._token = 0  # tokens that events have claimed
        # The short way that the next piece may go, and what it needs.
        self._fast = 0
        self._stop = self._hold_back = self._hold_back2 = ""
        self._find = plan.text.find
        self._clean: Callable[[str], object] = json_piece
        self._escapes = False
        self._current = 0
        self._synced = 0
        self._pieces: list[str] = []
        self._segment: OpenSegment | None = None
        self._said = 0  # pieces of it that the machine knows

    def feed(self, text: str, stage: Stage | str | None = None) -> list[Event]:
        """Take the next piece of the output; returns its events.

        Args:
            text: any piece; the cuts between pieces do not matter.
            stage: an engine's own word for where this piece belongs; it overrides what the markers said before.

        Raises:
            ValueError: the parser is closed.
        """
        try:
            fast = self._fast
            if not fast or stage is not None:
                return self._feed(text, stage)
            # Inside a string most pieces can only be more of it: these short ways skip the state machine. All along
            # nothing is consumed but not sent (``_i`` is 0, ``_base`` would be ``_at``); ``_buf`` holds what the next
            # piece tells.
            fragment = text
            if fast == _JSON_STRING:
                if '"' in text or "\\" in text or self._buf or not text.isprintable() or not text:
                    text = self._buf + text
                    if len(text) > SHORT or not json_piece(text):
                        end = _json_run(text).end()  # type: ignore[union-attr]
                        if end < len(text) and (text[end] != "\\" or not JSON_PARTIAL.match(text, end)):
                            return self._feed(text[len(self._buf) :], None)
                        self._buf = text[end:]
                        text = text[:end]
                        if not text:
                            return []
                    elif self._buf:
                        self._buf = ""
                    fragment = text
                start = self._at
                self._at = stop = start + len(text)
                self._pieces.append(text)
                return [ToolCallDelta(self._current, text, start, stop)]
            if fast == _VALUE:
                if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
                    whole = self._buf + text
                    if not text or (self._stop in whole and self._find.search(whole)):
                        return self._feed(text, None)
                    text = whole
                    if whole[-1] in self._hold_back:
                        end = len(whole) - 1
                        if len(self._hold_back) > 1:
                            end = len(whole) - held_suffix(whole, 0, len(whole), self._hold_back)
                        self._buf = whole[end:]
                        if not end:
                            return []
                        text = whole[:end]
                    elif self._buf:
                        self._buf = ""
                    fragment = escaped_piece(text) if len(text) <= SHORT else escaped(text)
            elif fast == _LITERAL:
                if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
                    text = self._buf + text
                    if not text:
                        return []
                    if len(text) > SHORT:
                        return self._in_literal(text)
                    piece = python_piece(text, self._stop) if self._escapes else quoted_piece(text, self._stop)
                    if piece is None:
                        return self._in_literal(text)
                    fragment = piece
                    if self._buf:
                        self._buf = ""
            elif fast == _GUARDED:
                if self._buf or not self._clean(text):
                    return self._in_json(text)
            else:
                return self._in_text(text)
            start = self._at
            self._at = stop = start + len(text)
            self._kept.append(text)  # type: ignore[union-attr]
            self._pieces.append(fragment)
            return [ToolCallDelta(self._current, fragment, start, stop)]
        except (TypeError, AttributeError):
            if type(text) is str:
                raise
            return self._feed(text, stage)  # which tells what is wrong with it

    def _in_json(self, text: str) -> list[Event]:
        """More of a JSON string that a marker would end."""
        buf = self._buf
        whole = buf + text
        m = self._find.search(whole)
        if not text or (m is not None and m.end() < len(whole)):
            return self._feed(text, None)
        piece = whole if m is None else whole[: m.start()]
        end = _json_run(piece).end()  # type: ignore[union-attr]
        if end < len(piece) and (m is not None or piece[end] != "\\" or not JSON_PARTIAL.match(piece, end)):
            return self._feed(text, None)
        self._buf = whole[end:]
        return self._argument(piece[:end], piece[:end]) if end else []

    def _in_literal(self, whole: str) -> list[Event]:
        """More of a string that is translated, with escapes or its end in it."""
        call = self._call
        reader = call.reader  # type: ignore[union-attr]
        end = reader.read(whole, 0)  # type: ignore[union-attr]
        fragment = reader.take()  # type: ignore[union-attr]
        self._buf = whole[end:]
        events = self._argument(whole[:end], fragment) if fragment else []
        same = reader.simple() and reader.delimiter[0] == self._stop  # type: ignore[union-attr]
        if same and (fragment or not end):
            return events
        # The string ended (another may have begun), or nothing of it can be said yet: the machine goes on.
        if not fragment:
            self._buf = whole
            self._i = end
        self._sync()
        self._run()
        events += self._flush_events()
        self._choose_fast()
        return events

    def _argument(self, text: str, fragment: str) -> list[Event]:
        start = self._at
        self._at = end = start + len(text)
        self._kept.append(text)  # type: ignore[union-attr]
        self._pieces.append(fragment)
        return [ToolCallDelta(self._current, fragment, start, end)]

    def _in_text(self, text: str) -> list[Event]:
        """More of running text."""
        whole = self._buf + text
        if not text or self._find.search(whole):
            return self._feed(text, None)
        end = len(whole)
        if whole[-1] in self._hold_back:
            end -= max(held_suffix(whole, 0, end, self._hold_back), held_suffix(whole, 0, end, self._hold_back2))
        self._buf = whole[end:]
        if not end:
            return []
        piece = whole[:end]
        segment = self._segment
        segment.parts.append(piece)  # type: ignore[union-attr]
        start = self._at
        segment.end = self._at = stop = start + end  # type: ignore[union-attr]
        return [ContentDelta(piece, start, stop) if self._fast == _CONTENT else ReasoningDelta(piece, start, stop)]

    def _told(self) -> Message:
        """The message so far."""
        if self._fast == _JSON_STRING:
            self._kept.extend(self._pieces[self._synced :])  # type: ignore[union-attr]
            self._synced = 1  # the message joins the pieces
        return self._fold.message()

    def _sync(self) -> None:
        """Leave the short ways: tell the machine what went there."""
        if self._fast:
            self._base = self._at
            if self._fast == _JSON_STRING:
                self._kept.extend(self._pieces[self._synced :])  # type: ignore[union-attr]
            elif self._fast == _CONTENT:
                said = "".join(self._segment.parts[self._said :])  # type: ignore[union-attr]
                self._quoting.put(said, self._at - len(said))
            self._fast = 0

    def _feed(self, text: str, stage: Stage | str | None) -> list[Event]:
        if self._closed:
            raise ValueError("feed: the parser is closed")
        if not text:
            return []
        self._sync()
        if not self._nonblank and not text.isspace():
            self._nonblank = True
        i = self._i
        buf = self._buf
        if i < len(buf):
            if self._kept is not None and i:
                self._kept.append(buf[:i])
            rest = buf[i:]
        else:
            if self._kept is not None and i:
                self._kept.append(buf)
            rest = ""
        self._base += i
        self._i = 0
        if stage is not None:
            self._buf = rest
            self._force(to_stage(stage, "stage"))
            if self._i:
                if self._kept is not None:
                    self._kept.append(self._buf[: self._i])
                rest = self._buf[self._i :]
                self._base += self._i
                self._i = 0
        self._buf = rest + text if rest else text
        self._run()
        events = self._flush_events()
        self._choose_fast()
        return events

    def _flush_events(self) -> list[Event]:
        holds = self._holds
        if holds:
            out, holds[0].events = holds[0].events, []
        else:
            out, self._out = self._out, []
        add = self._fold.add
        if self._decoder is not None:
            out = self._with_tokens(out)
        for event in out:
            add(event)
        return out

    def _choose_fast(self) -> None:
        """Whether the next piece can go one of the short ways."""
        self._fast = 0
        at = self._base + self._i
        if self._holds or self._marks is not None or self._at != at or at < 0:
            return
        state = self._state
        if state == ARGUMENTS or state == OBJECT or state == VALUE:
            fast = self._fast_call()
        elif (state == TEXT and self._prose) or (state == REASONING and self._seen_text):
            fast = self._fast_text()
        else:
            return
        if fast:
            if self._kept is not None and self._i:
                self._kept.append(self._buf[: self._i])
            self._buf = self._buf[self._i :]
            self._base = at
            self._i = 0
            self._fast = fast
            self._current = self._index - 1
            self._synced = len(self._pieces)

    def _fast_call(self) -> int:
        call = self._call
        if call is None or call.sink is not Sink.CALL or not call.started or (call.thought and self._state == VALUE):
            return 0
        self._pieces = self._fold.arguments
        if self._state == VALUE:
            parameter = call.parameter
            if parameter is None or not call.begun or call.mode is not ValueMode.STRING or call.held_back:
                return 0
            # Where several markers may end it the search alone tells (every text holds the empty string).
            self._stop = parameter.firsts if len(parameter.firsts) == 1 else ""
            self._find = parameter.find
            self._hold_back = call.margin
            return 0 if parameter.find.search(self._buf, self._i) else _VALUE
        reader = call.reader
        if (
            reader is None
            or reader.mode != STRING
            or call.unwrapping is not None
            or (self._state == OBJECT and call.role == "skip")
            or not reader.simple()
        ):
            return 0
        scan = self._string_ends(reader)
        if scan is not None:
            self._find, self._clean = scan.find, scan.plain.fullmatch
            return _GUARDED if reader.verbatim() and not scan.find.search(self._buf, self._i) else 0
        if reader.verbatim():
            return _JSON_STRING
        self._stop = reader.delimiter[0]
        self._escapes = call.form.syntax is not Syntax.QUOTE
        return _LITERAL

    def _fast_text(self) -> int:
        scan, inner, margin = self._outline()
        thinking = self._state == REASONING
        self._segment = self._fold.growing("reasoning" if thinking else "content")
        if self._segment is None or scan.find.search(self._buf, self._i):
            return 0
        self._said = len(self._segment.parts)
        self._find = scan.find
        self._hold_back = margin if len(margin) > len(inner) else inner
        self._hold_back2 = inner if len(margin) > len(inner) else margin
        if not set(self._hold_back2) <= set(self._hold_back):
            return 0
        return _REASONING if thinking else _CONTENT

    def _with_tokens(self, events: list[Event]) -> list[Event]:
        """The events with their token spans: a token belongs to the event that holds its first character."""
        told: list[Event] = []
        tokens = self._tokens
        used = 0
        for event in events:
            start = self._token + used
            while used < len(tokens) and tokens[used] < event.end:
                used += 1
            if isinstance(event, Finish):
                used = len(tokens)
            told.append(msgspec.structs.replace(event, token_start=start, token_end=self._token + used))
        self._token += used
        del tokens[:used]
        return told


def to_stage(value: Stage | str, where: str) -> Stage:
    """A stage by name.

    Raises:
        ValueError: there is none of this name.
    """
    try:
        return Stage(value)
    except ValueError:
        raise ValueError(f"{where}: {value!r} is not one of {', '.join(Stage)}") from None
