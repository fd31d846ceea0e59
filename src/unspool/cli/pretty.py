"""Shows events to people: reasoning, content and calls, as they arrive."""

from collections.abc import Callable

from ..events import ContentDelta, Event, Finish, Notice, ReasoningDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from ..wire.encoding import CONTROLS

_RESET, _BOLD, _DIM, _RED, _GREEN, _YELLOW, _CYAN = (f"\x1b[{n}m" for n in (0, 1, 2, 31, 32, 33, 36))
_STATUS = {"ok": _GREEN, "repaired": _YELLOW, "incomplete": _YELLOW, "invalid": _RED}
_WIDTH = 11  # the column in which text begins


class Pretty:
    """Writes events as labelled, optionally coloured lines (in ANSI), each text as soon as it comes."""

    def __init__(self, write: Callable[[str], None], *, color: bool) -> None:
        self._write = write
        self._color = color
        self._open = ""  # the current part
        self._breaks = 0  # line breaks to write once more text comes
        self._calling = False
        self._waiting: list[Notice] = []  # notices that came inside a call

    def add(self, event: Event) -> None:
        """Show one event; `Markup` is not shown."""
        if isinstance(event, ReasoningDelta):
            self._part("reasoning", _DIM)
            self._text(event.text, _DIM)
        elif isinstance(event, ContentDelta):
            self._part("content", _BOLD)
            self._text(event.text)
        elif isinstance(event, ToolCallStart):
            self._part(f"call {event.index}", _BOLD + _CYAN)
            self._text(event.name, _BOLD + _CYAN)
            self._text(f"  {event.id}", _DIM)
            self._breaks = 1
            self._calling = True
        elif isinstance(event, ToolCallDelta):
            self._text(event.arguments, _CYAN)
        elif isinstance(event, ToolCallEnd):
            self._breaks = 1
            self._text(event.status, _STATUS[event.status])
            self._line_end()
            self._calling = False
            while self._waiting:
                self._notice(self._waiting.pop(0))
        elif isinstance(event, Notice):
            if self._calling:
                self._waiting.append(event)
            else:
                self._notice(event)
        elif isinstance(event, Finish):
            self._part("finish", _DIM)
            self._text(event.reason, _DIM)
            self._line_end()

    def _notice(self, notice: Notice) -> None:
        self._part("notice", _YELLOW)
        self._text(f"{notice.kind}: {notice.detail}" if notice.detail else notice.kind, _YELLOW)
        self._line_end()

    def _part(self, label: str, style: str) -> None:
        """Begin a labelled part, unless it is the current one."""
        if self._open == label:
            return
        self._line_end()
        self._open = label
        self._styled(label.ljust(_WIDTH), style)

    def _text(self, text: str, style: str = "") -> None:
        """Write text in the text column. Line breaks wait for more text, so that none ends a part."""
        first, *rest = text.translate(CONTROLS).split("\n")
        self._piece(first, style)
        for line in rest:
            self._breaks += 1
            self._piece(line, style)

    def _piece(self, line: str, style: str) -> None:
        if line:
            if self._breaks:
                self._write("\n" * self._breaks + " " * _WIDTH)
                self._breaks = 0
            self._styled(line, style)

    def _styled(self, text: str, style: str) -> None:
        self._write(f"{style}{text}{_RESET}" if self._color and style else text)

    def _line_end(self) -> None:
        if self._open:
            self._write("\n")
        self._open = ""
        self._breaks = 0
