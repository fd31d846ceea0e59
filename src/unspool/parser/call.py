"""One call, from its opening to its end: its id, and the events that it emits."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ..dialect.markers import Block, Form
from ..dialect.patterns import MAX_SPACE
from ..dialect.plan import Plan
from ..events import Status
from ..toolset import Toolset
from .ledger import Ledger, Why

MakeId = Callable[[int, str], str]  # ``(index, name) -> str``: makes the id of a call without one

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LETTERS: Final = bytes(ord(_ALPHABET[i % len(_ALPHABET)]) for i in range(256))


class CallIds(msgspec.Struct, eq=False):
    """Gives the calls of one output their ids, each of them once.

    Args:
        template: the dialect's template for ids; each ``?`` is a random letter or digit.
        make: makes ids instead of the template.
    """

    _template: str
    _make: MakeId | None
    _given: dict[str, int] = {}  # the ids given so far, with the index of the call that has each

    def of(self, index: int, name: str, fields: Mapping[str, str]) -> str:
        """The id of a call: its own, from its template's fields, or a generated one."""
        template = self._template
        own = fields.get("id", "")
        if self._make is None and "{" not in template and not own:  # as in most calls
            head = template.rstrip("?")
            if "?" not in head and head is not template:
                return head + random_letters(len(template) - len(head))
        if own and own.isprintable():
            return own
        number = fields.get("index")
        if "number" in fields:
            number = str(max(int(fields["number"]) - 1, 0))
        if number is not None and "{index}" in template:
            return fill_id(template, name, number)
        return self._new(index, name) if self._make is None else self._make(index, name)

    def give(self, call_id: str, index: int, name: str) -> str:
        """An id that no earlier call has: this one if it is free."""
        given = self._given
        if given.get(call_id, index) < index:
            number = index
            made = self._new(number, name, call_id)
            while given.get(made, index) < index:
                number += 1
                another = self._new(number, name, call_id)
                made = another if another != made else f"{call_id}-{number}"
            call_id = made
        given[call_id] = index
        return call_id

    def _new(self, index: int, name: str, instead: str = "") -> str:
        """An id in the dialect's form: random, or determined by the id that it replaces (``instead``)."""
        template = fill_id(self._template, name, str(index))
        if "?" not in template:
            return template
        size = template.count("?")
        if not instead:
            return fill_letters(template, random_letters(size))
        from hashlib import shake_128  # rarely needed

        digest = shake_128(f"{index}:{instead}".encode("utf-8", "surrogatepass")).digest(len(template))
        number = int.from_bytes(digest)
        letters = ""
        for _ in range(size):
            number, digit = divmod(number, len(_ALPHABET))
            letters += _ALPHABET[digit]
        return fill_letters(template, letters)


_pools: Final[dict[int, list[str]]] = {}
"""Random letters for the next ids, by their number: one call of the system makes many."""
_POOL: Final = 64
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def random_letters(size: int) -> str:
    """So many random letters and digits."""
    pool = _pools.setdefault(size, [])
    try:
        return pool.pop()  # of a list, which threads may share
    except IndexError:
        letters = os.urandom(size * _POOL).translate(_LETTERS).decode()
        pool += map("".join, zip(*[iter(letters)] * size, strict=True))
        return pool.pop()


def fill_id(template: str, name: str, index: str) -> str:
    """Fill in the template of an id; `fill_letters` replaces its ``?``."""
    if "{" not in template:
        return template
    number = str(int(index) + 1) if "{number}" in template else ""
    return template.replace("{name}", name).replace("{index}", index).replace("{number}", number)


def fill_letters(template: str, letters: str) -> str:
    """Replace each ``?`` of a template with the next letter; there are at least as many letters."""
    head, *rest = template.split("?")
    return head + "".join(letter + part for letter, part in zip(letters, rest, strict=False))


def _written_around(own: str, name: str, prefixes: tuple[str, ...], suffixes: tuple[str, ...], numbered: bool) -> bool:
    """Whether a name is a declared one with a prefix before it, or a number or a header's word after it, and a sign
    between them. Tools have no colon or dot in their names: where a prefix ends with it, so does any namespace."""
    if any(sign in prefixes and name.endswith(sign + own) for sign in ":."):
        return True
    for prefix in ("", *prefixes):
        rest = name.removeprefix(prefix) if name.startswith(prefix) else ""
        for sign in ("", *_SIGNS) if prefix else ("",):
            tail = rest.removeprefix(sign)
            if rest.startswith(sign) and tail.startswith(own):
                tail = tail[len(own) :]
                number = tail[1:] if tail[:1] in _SIGNS else tail
                if not tail or tail in suffixes or (numbered and number.isdecimal()):
                    return True
    return False


_SIGNS: Final = (".", ":", "_", "-", "/")


class CallSink:
    """Where the text of a call goes."""

    CALL: Final = "call"
    TEXT: Final = "text"
    DROP: Final = "drop"


class Desk(msgspec.Struct, eq=False):
    """What all calls of one output share: the ledger, the tools, and the ids given so far."""

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
        if not self.names or name in self.names:
            return ""
        around = self.plan.naming
        found = [own for own in self.names if len(own) < len(name) and _written_around(own, name, *around)]
        found.sort(key=len, reverse=True)
        return found[0] if found and len(found[0]) > len(found[-1] if found[1:] else "") else ""

    def id_of(self, index: int, name: str, fields: Mapping[str, str], own: str) -> str:
        """The id of a call: its own (``own``, or from its fields) unless an earlier call has it, else a new one."""
        ids = self._ids
        if ids is None:
            ids = self._ids = CallIds(self.plan.dialect.id, self._make_id)
        call_id = own if own and own.isprintable() else ids.of(index, name, fields)
        given = ids.give(call_id, index, name)
        if given != call_id:
            self.ledger.notice("duplicate_id", call_id)
        return given


class OpenCall:
    """One call.

    Attributes:
        desk: what all calls share.
        form, block: the templates by which it is written.
        start: the offset of its first character, including the block's opening if it has one.
        index: its number; -1 until it is announced.
        sink: where its text goes.
        started: its name is known, and was emitted or is being dropped.
        complete: its arguments have closed themselves.
        fenced: they are in a fence, which is still open.
        early: arguments that came before the name.
        inside: the offset up to which a literal was read; what became no JSON at its end belongs to it all the same.
        late: the notices of its literals, which wait for its end: their place in a literal depends on how it is cut.
        thought: it is inside reasoning.
        place: where the machine returns if it turns out not to be a call.
        margin: the offset of the white space before it, which is text then.
    """

    def __init__(
        self, desk: Desk, form: Form, block: Block, start: int, fields: dict[str, str], place: object, margin: int
    ) -> None:
        self.desk = desk
        self.early: list[str] = []
        self.inside = 0
        self.late: list[tuple[str, str]] = []
        self.form = form
        self.block = block
        self.start = start
        self.fields = fields
        self.index = -1
        self.name = fields.get("name", "")
        self.id = ""
        self.known: bool | None = None
        self.status: Status = "ok"
        self.sink = CallSink.CALL
        self.started = False
        self.complete = False
        self.fenced = False
        self.thought = desk.ledger.thinking or desk.ledger.paused
        self.place = place
        self.margin = margin

    def announce(self, end: int) -> None:  # the steps of a header, in their order
        """The name is known and its header ends at an offset: send the call, or do what the policy says."""
        desk = self.desk
        ledger = desk.ledger
        policy = desk.plan.policy
        self.known = known = None if desk.names is None else self.name in desk.names
        self.started = True
        holds = ledger.holds
        header = ledger.held_for(Why.HEADER)
        refused = self._refused()
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
        self.id = desk.id_of(self.index, self.name, self.fields, self.id)
        if ledger.thinking:
            ledger.end_reasoning(ledger.at, pause=policy.call_in_reasoning == "resume")
        ledger.start_call(self.id, self.name, end, known)

    def _refused(self) -> str:
        """The notice of a call that is not sent because of its name; empty if it is sent."""
        # A control character, or one that cannot be seen, may steer the terminals and the logs of clients.
        if not self.known and not self.name.isprintable():
            return "call_without_name"
        return "undeclared_tool" if self.known is False and self.desk.plan.policy.unknown_tool != "forward" else ""

    def put(self, fragment: str, end: int) -> None:
        """Emit arguments that were read up to an offset."""
        if self.sink != CallSink.CALL:
            self.pass_by(end)
        elif not self.started:
            self.early.append(fragment)
        elif fragment:
            self.desk.ledger.arguments(self.index, fragment, end)
        elif end - self.desk.ledger.at > MAX_SPACE:
            self.desk.ledger.markup(end)  # a long stretch of dropped white space

    def put_early(self) -> None:
        """Emit the arguments that came before the name, which has just been announced."""
        fragment, self.early = "".join(self.early), []
        if fragment and self.sink == CallSink.CALL:
            self.desk.ledger.arguments(self.index, fragment, self.desk.ledger.at)

    def pass_by(self, end: int) -> None:
        """Emit a call that is not sent as text or as markup, up to an offset."""
        if self.sink == CallSink.TEXT:
            self.desk.ledger.text(end)
        else:
            self.desk.ledger.markup(end)

    def cover(self) -> None:
        """Cover what a literal read last with a piece of arguments, which is empty: how much of it came with the piece
        before depends on how it was cut."""
        if self.inside > max(self.desk.ledger.at, 0) and self.sink == CallSink.CALL and self.index >= 0:
            self.desk.ledger.arguments(self.index, "", self.inside)

    def notice(self, kind: str, detail: str) -> None:
        """Emit a notice: the call deviates from the format."""
        self.cover()
        self.desk.ledger.notice(kind, detail)

    def notice_at(self, end: int, kind: str, detail: str) -> None:
        """Emit a notice after all that was read, up to an offset, however it was cut."""
        self.cover()
        if self.sink != CallSink.CALL:
            self.pass_by(end)
        elif self.started:
            self.desk.ledger.markup(end)
        self.notice(kind, detail)

    def notice_late(self) -> None:
        """Emit the notices that wait for the call's end."""
        for kind, detail in self.late:
            self.notice(kind, detail)

    def notice_surplus(self, brackets: str) -> None:
        """Emit a notice if there are brackets before its closing that are too many."""
        too_many = self.form.surplus(brackets)
        if too_many:
            self.notice("stray_close", too_many)

    def replayed(self) -> None:
        """Start over as the first call of the output, which the prompt opened, and emit its beginning."""
        begun = self.desk.ledger.replayed(self.index)
        self.index = 0
        self.desk.ledger.reopen_call(self.id, self.name, self.known, begun)
