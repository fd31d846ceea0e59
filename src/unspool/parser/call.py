"""One call, from its opening to its end, and the events that it emits."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..dialect.ids import CallIds, MakeId
from ..dialect.markers import Block, Form
from ..dialect.patterns import MAX_SPACE
from ..dialect.plan import Plan, written_around
from ..events import Status
from ..toolset import Toolset
from .ledger import Ledger, Why


class CallSink:
    """Where the text of a call goes."""

    CALL: Final = "call"
    TEXT: Final = "text"
    DROP: Final = "drop"


class CallContext(msgspec.Struct, eq=False):
    """State shared by all calls in one output: the ledger, the tools, and the ids given so far."""

    ledger: Ledger  # where events go
    plan: Plan  # the plan of the dialect
    # tools, names: the tools that may be called; ``names`` is `Toolset.names`.
    tools: Toolset
    names: Mapping[str, Any] | None
    _make_id: MakeId | None
    _ids: CallIds | None = None  # made for the first call: most outputs have none

    def mended(self, name: str) -> str:
        """The declared tool whose name, with the dialect's id or prefix written wrongly around it, is an undeclared
        one; ``""`` if there is none, or more than one."""
        around = self.plan.naming
        found = [own for own in self.names or () if len(own) < len(name) and written_around(own, name, *around)]
        found.sort(key=len, reverse=True)
        return found[0] if found and len(found[0]) > len(found[-1] if found[1:] else "") else ""

    def id_of(self, index: int, name: str, fields: Mapping[str, str], own: str) -> str:
        """The id of a call: its own (``own``, or from its fields) unless an earlier call has it, else a new one."""
        ids = self._ids
        if ids is None:
            ids = self._ids = CallIds(self.plan.dialect.id, self._make_id)
        call_id = own if own and own.isprintable() else ids.of(index, name, fields)
        if ids.given.get(call_id, index) < index:
            self.ledger.notice("duplicate_id", call_id)
            call_id = ids.instead(call_id, index, name)
        ids.given[call_id] = index
        return call_id


class OpenCall(msgspec.Struct, eq=False):
    """One call."""

    context: CallContext  # what all calls share
    # form, block: the templates by which it is written.
    form: Form
    block: Block
    start: int  # the offset of its first character, including the block's opening if it has one
    fields: dict[str, str]
    place: object  # where the machine returns if it turns out not to be a call
    margin: int  # the offset of the white space before it, which is text then
    thought: bool  # it is inside reasoning
    name: str = ""
    id: str = ""
    index: int = -1  # its number; -1 until it is announced
    known: bool | None = None  # whether it is of a declared tool; ``None``: the tools are unknown
    status: Status = "ok"
    sink: str = CallSink.CALL  # where its text goes
    started: bool = False  # its name is known, and was emitted or is being dropped
    complete: bool = False  # its arguments have closed themselves
    fenced: bool = False  # they are in a fence, which is still open
    early: list[str] = []  # arguments that came before the name
    # The offset up to which a literal was read; what became no JSON at its end belongs to it all the same.
    inside: int = 0
    # The notices of its literals, which wait for its end: their place in a literal depends on how it is cut.
    late: list[tuple[str, str]] = []

    def announce(self, end: int) -> None:  # the steps of a header, in their order
        """The name is known and its header ends at an offset: send the call, or do what the policy says."""
        context = self.context
        ledger = context.ledger
        policy = context.plan.policy
        self.known = known = None if context.names is None else self.name in context.names
        self.started = True
        holds = ledger.holds
        header = bool(holds) and holds[-1].why == Why.HEADER
        refused = "" if known else self._refused()
        if refused:
            self.sink = CallSink.DROP if policy.unknown_tool == "drop" and known is False else CallSink.TEXT
            if not header:
                ledger.hold(Why.HEADER, self.place, self.margin)
            hold = ledger.discard()
            ledger.notice(refused, self.name)
            if self.sink == CallSink.TEXT:
                ledger.edge(hold.place.margin, end)
            self.pass_by(end)
            return
        # In reasoning, a call of an unknown tool does not count before its arguments are complete.
        unsure = self.thought and not known
        if unsure or policy.bad_arguments in ("drop", "text"):
            why = Why.THOUGHT_CALL if unsure else Why.BAD_CALL
            if header:
                holds[-1].why = why
            else:
                ledger.hold(why, self.place, self.margin)
        else:
            if header:
                holds.pop()
            if holds:
                ledger.commit_thought()
        if known is False:
            ledger.notice("undeclared_tool", self.name)
        if self.form.other:
            ledger.notice("other_syntax", self.name)
        self.index = ledger.index
        self.id = context.id_of(self.index, self.name, self.fields, self.id)
        if ledger.thinking:
            ledger.end_reasoning(ledger.at, pause=policy.call_in_reasoning == "resume")
        ledger.start_call(self.id, self.name, end, known)

    def _refused(self) -> str:
        """The notice of a call that is not sent because its name is not a declared tool's; empty if it is sent."""
        # A control character, or one that cannot be seen, may steer the terminals and the logs of clients.
        if not self.name.isprintable():
            return "call_without_name"
        return "undeclared_tool" if self.known is False and self.context.plan.policy.unknown_tool != "forward" else ""

    def put(self, fragment: str, end: int) -> None:
        """Emit arguments that were read up to an offset."""
        if self.sink != CallSink.CALL:
            self.pass_by(end)
        elif not self.started:
            self.early.append(fragment)
        elif fragment:
            self.context.ledger.arguments(self.index, fragment, end)
        elif end - self.context.ledger.at > MAX_SPACE:
            self.context.ledger.markup(end)  # a long stretch of dropped white space

    def put_early(self) -> None:
        """Emit the arguments that came before the name, which has just been announced."""
        fragment, self.early = "".join(self.early), []
        if fragment and self.sink == CallSink.CALL:
            self.context.ledger.arguments(self.index, fragment, self.context.ledger.at)

    def pass_by(self, end: int) -> None:
        """Emit a call that is not sent as text or as markup, up to an offset."""
        if self.sink == CallSink.TEXT:
            self.context.ledger.text(end)
        else:
            self.context.ledger.markup(end)

    def cover(self) -> None:
        """Cover what a literal read last with a piece of arguments, which is empty: how much of it came with the piece
        before depends on how it was cut."""
        if self.inside > max(self.context.ledger.at, 0) and self.sink == CallSink.CALL and self.index >= 0:
            self.context.ledger.arguments(self.index, "", self.inside)

    def notice(self, kind: str, detail: str) -> None:
        """Emit a notice: the call deviates from the format."""
        self.cover()
        self.context.ledger.notice(kind, detail)

    def notice_at(self, end: int, kind: str, detail: str) -> None:
        """Emit a notice after all that was read, up to an offset, however it was cut."""
        self.cover()
        if self.sink != CallSink.CALL:
            self.pass_by(end)
        elif self.started:
            self.context.ledger.markup(end)
        self.notice(kind, detail)

    def notice_surplus(self, brackets: str) -> None:
        """Emit a notice if there are brackets before its closing that are too many."""
        too_many = self.form.surplus(brackets)
        if too_many:
            self.notice("stray_close", too_many)

    def replayed(self) -> None:
        """Start over as the first call of the output, which the prompt opened, and emit its beginning."""
        begun = self.context.ledger.replayed(self.index)
        self.index = 0
        self.context.ledger.reopen_call(self.id, self.name, self.known, begun)
