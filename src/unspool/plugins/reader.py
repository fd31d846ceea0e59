"""Reads one output for the plug-ins: text in, `ReadPiece` out. Pieces and the whole text give the same result."""

import enum
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from .. import (
    ContentDelta,
    Dialect,
    Event,
    Markup,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Stage,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..parser.parser import PairedParser
from .host import closings, environment_policy, foreign_tokens, ids_policy, tool_choice_of, tools_of
from .pairing import Pairing, special_of


class CallDelta(msgspec.Struct):
    """An update of one call: its index, its id and name at its beginning, and the next piece of its arguments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class ReadPiece(msgspec.Struct):
    """The result of one piece of output."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = []

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)


class Keep(enum.Enum):
    """What stays in the content as the model wrote it, because another parser of the host reads it."""

    NOTHING = enum.auto()
    CALLS = enum.auto()  # calls stay; only reasoning is taken out
    REASONING = enum.auto()  # reasoning stays; only calls are taken out


class Ids(msgspec.Struct, frozen=True):
    """How an output's token ids come with its text."""

    lag: bool = False  # whether text may come later than its ids, and end before them, because there are stop strings
    # Whether a grammar of text generates what follows the reasoning, so that text that spells a marker counts as one
    # there.
    constrained: bool = False


def reader_of(
    d: Dialect,
    tokenizer: Any,
    *,
    keep: Keep = Keep.NOTHING,
    ids: Ids | None = None,
    tools: Sequence[Any] | None = None,
    tool_choice: Any = None,
    **options: Any,
) -> "OutputReader":
    """Make a reader of one output, with the policies of the environment and further arguments of `Parser`. The tools
    and the choice may be the host's objects; ``None`` for tools means that any may be called.

    If ids come with the text, text that only spells a special token stays text, unless the policy ``text_markers`` says
    otherwise, or a grammar generated it. Without a tokenizer, special tokens are unknown.
    """
    options["tools"] = None if tools is None else tools_of(tools)
    options["tool_choice"] = tool_choice_of(tool_choice) if options["tools"] else "auto"
    policy = environment_policy()
    foreign = None if tokenizer is None else foreign_tokens(d, tokenizer)
    pairing = None
    if ids is not None:
        special = special_of(d, tokenizer)
        if special is not None:
            pairing = Pairing(special, tokenizer, lags=ids.lag, constrained=ids.constrained)
            policy = ids_policy()
    return OutputReader(PairedParser(d, policy=policy, **options), foreign=foreign, keep=keep, pairing=pairing)


class OutputReader:
    """Reads one output: text in, `ReadPiece` out. Pieces of text and the whole text give the same result.

    Args:
        foreign: see `foreign_tokens`. They are dropped outside of calls.
        keep: what stays in the content as it was written.
        pairing: distinguishes special tokens from text that spells them, if text comes with its ids.
    """

    def __init__(
        self,
        parser: PairedParser,
        *,
        foreign: "re.Pattern[str] | None" = None,
        keep: Keep = Keep.NOTHING,
        pairing: Pairing | None = None,
    ) -> None:
        self.parser = parser
        self._foreign = foreign
        self._pairing = pairing
        self._paired = False  # whether text and ids are known to belong together
        self._early: list[int] = []  # ids that came before any text other than white space
        self._blank_start = ""  # the white space that came with them
        self._keep = keep
        self._feed = parser.feed
        self._flows = keep is not Keep.CALLS  # a piece that is only more of a call's arguments is passed on as it is
        self._counts = keep is Keep.REASONING  # its length in the text is still counted
        self._raw = ""  # text that was fed but not returned yet; empty if nothing is kept
        self._thinking = parser.stage is Stage.REASONING
        self._behind = False  # whether the output is directly after reasoning
        self._paused = False  # whether the latest reasoning ended without its closing, as where a call stands in it
        self._ends = {end.lower() for _, end in closings(parser.dialect) if end}
        self._blank = ""  # markup that is returned with what follows it
        self._pieces: list[str] = []
        self.arguments: list[str] = []
        """The arguments of each call; ``""`` until it has ended."""
        self.calls: list[str] = []
        """The name of each call."""
        self.ended = 0
        """How many calls have ended; they end in order."""
        self.closed = False

    def feed(self, text: str, ids: Sequence[int] = ()) -> ReadPiece:
        """Take the next piece of the output, with its ids if they are known."""
        step = self.take(text, ids)
        if isinstance(step, ToolCallDelta):
            return ReadPiece(calls=[CallDelta(step.index, arguments=step.arguments)])
        return step

    def take(self, text: str, ids: Sequence[int] = ()) -> ReadPiece | ToolCallDelta:
        """Like `feed`, but return the event itself if there is only more of a call's arguments, as is most common."""
        if self._pairing is not None:
            if not self._paired or not self._pairing.plain(ids):
                return self._take_paired(self._pairing, text, ids)
        elif self._foreign is not None and self._foreign.search(text):
            return self._without_foreign(text, self._foreign)
        events = self._feed(text)
        if len(events) == 1 and self._flows:
            event = events[0]
            if isinstance(event, ToolCallDelta):
                if self._counts and (self._raw or event.end - event.start != len(text)):
                    self._raw = (self._raw + text)[event.end - event.start :]
                self._pieces.append(event.arguments)
                return event
        return self._delta(text, events)

    def _take_paired(self, pairing: Pairing, text: str, ids: Sequence[int]) -> ReadPiece | ToolCallDelta:
        """Take text whose special tokens are identified by ids. Without ids, only the text counts."""
        if not self._paired:
            self._early += ids
            self._blank_start += text
            if not self._blank_start.strip() and (self._early or not text) and not self.closed:
                return ReadPiece()
            text, self._blank_start = self._blank_start, ""
            ids, self._early = self._early, []
            if not ids or not pairing.agree(text, ids):
                self._pairing = None
                return self.take(text)
            self._paired = True
            self.parser.know_tokens(pairing.markers, constrained=pairing.constrained)
            if pairing.plain(ids):
                return self.take(text, ids)
        delta = ReadPiece()
        for part, special in pairing.take(text, ids):
            if not special:
                self._add(delta, part)
                continue
            foreign = part not in pairing.markers
            if not foreign or self.parser.stage is Stage.TOOL_CALL:
                self.join(delta, self._delta(part, self.parser.feed_special(part, foreign=foreign)))
        return delta

    def _without_foreign(self, text: str, foreign: "re.Pattern[str]") -> ReadPiece:
        delta, at = ReadPiece(), 0
        for match in foreign.finditer(text):
            self._add(delta, text[at : match.start()])
            at = match.end() if self.parser.stage is not Stage.TOOL_CALL else match.start()
        self._add(delta, text[at:])
        return delta

    def close(self, finish_reason: str = "stop") -> ReadPiece:
        """End the output; a second call does nothing."""
        if self.closed:
            return ReadPiece()
        self.closed = True
        delta = ReadPiece()
        if self._pairing is not None:
            delta = self.feed("") if self._early or self._blank_start else delta
            self._add(delta, self._pairing.rest())
        self.join(delta, self._delta("", self.parser.close(finish_reason)))
        return delta

    def whole(self, text: str, ids: Sequence[int] = (), finish_reason: str = "stop") -> ReadPiece:
        """Take a whole output: `feed` and `close`, with all arguments of each call in one piece."""
        delta = self.feed(text, ids)
        self.join(delta, self.close(finish_reason))
        calls: dict[int, CallDelta] = {}
        for call in delta.calls:
            if call.name is not None:
                calls[call.index] = call
            else:
                calls[call.index].arguments += call.arguments
        delta.calls = list(calls.values())
        return delta

    def _add(self, delta: ReadPiece, text: str) -> None:
        self.join(delta, self._delta(text, self.parser.feed(text)))

    @staticmethod
    def join(delta: ReadPiece, more: ReadPiece) -> None:
        """Append a later delta to an earlier one."""
        delta.reasoning += more.reasoning
        delta.content += more.content
        delta.calls += more.calls

    def _delta(self, text: str, events: list[Event]) -> ReadPiece:
        keep = self._keep
        reasoning: list[str] = []
        content: list[str] = []
        calls: list[CallDelta] = []
        if keep is not Keep.NOTHING:
            self._raw += text
        used = 0
        for i, event in enumerate(events):
            size = event.end - event.start
            raw = self._raw[used : used + size]
            used += size
            if isinstance(event, ReasoningStart | ReasoningDelta | ReasoningEnd):
                if keep is Keep.REASONING:
                    content.append(raw)
                elif isinstance(event, ReasoningDelta):
                    reasoning.append(event.text)
                self._behind = isinstance(event, ReasoningEnd)
                self._paused = self._behind and not size
                self._thinking = not self._behind
                self._blank = ""
                continue
            if keep is Keep.CALLS:
                if not isinstance(event, Markup) or self._stays(events, i, raw):
                    content += (self._blank, raw)
                    self._blank = ""
            elif isinstance(event, ContentDelta):
                content.append(event.text)
            elif isinstance(event, ToolCallStart):
                self.calls.append(event.name)
                self.arguments.append("")
                calls.append(CallDelta(event.index, event.id, event.name))
            elif isinstance(event, ToolCallDelta):
                self._pieces.append(event.arguments)
                if calls and calls[-1].index == event.index:
                    calls[-1].arguments += event.arguments
                else:
                    calls.append(CallDelta(event.index, arguments=event.arguments))
            elif isinstance(event, ToolCallEnd):
                self.arguments[event.index] = "".join(self._pieces)
                self.ended = event.index + 1
                self._pieces = []
            elif isinstance(event, Markup) and self._goes_on(events, i, raw):
                content.append(raw)
            self._behind = self._behind and isinstance(event, Markup | Notice)
        self._raw = self._raw[used:]
        return ReadPiece("".join(reasoning), "".join(content), calls)

    def _closes(self, markup: str, events: list[Event], i: int) -> bool:
        """Whether markup is a closing of reasoning that a call interrupted, or that the prompt may have opened."""
        if markup.strip().lower() not in self._ends:
            return False
        notice = events[i + 1] if i + 1 < len(events) else None
        return self._paused or (isinstance(notice, Notice) and notice.kind == "stray_close")

    def _goes_on(self, events: list[Event], i: int, markup: str) -> bool:
        """Whether markup is returned where reasoning stays: what is directly after it, and a closing of its own."""
        return self._keep is Keep.REASONING and (self._behind or self._closes(markup, events, i))

    def _stays(self, events: list[Event], i: int, markup: str) -> bool:
        """Whether markup is returned where calls stay: that of reasoning is not, and a blank waits for what follows."""
        if self._thinking or (self._behind and markup.isspace()) or self._closes(markup, events, i):
            return False
        if markup.isspace():
            self._blank += markup
            return False
        return True


def note_calls(reader: OutputReader, delta: ReadPiece, calls: list[dict[str, Any]], streamed: list[str]) -> int:
    """Update the lists that vLLM-like engines read: each call, and the arguments that were sent. Return the index of
    the latest call, or ``-1``.

    Arguments are recorded when their call has ended; the lists always agree, so the host has nothing to add.
    """
    for call in delta.calls:
        if call.name is not None:
            calls.append({"name": call.name, "arguments": ""})
            streamed.append("")
    i = reader.ended
    while i and not streamed[i - 1]:
        i -= 1
        streamed[i] = calls[i]["arguments"] = reader.arguments[i]
    return len(calls) - 1
