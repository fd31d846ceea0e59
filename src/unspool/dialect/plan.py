"""The plan of a dialect, for the machine: its markers, in the order and the sets in which they count."""

import re
from functools import cached_property
from typing import Final

import msgspec

from ..policy import Policy
from ..regex import Regex
from .file import Dialect
from .markers import (
    Block,
    CallOpening,
    Candidates,
    Form,
    Marker,
    Outline,
    Parameter,
    Scan,
    Siblings,
    Stray,
    is_spelled,
)
from .patterns import LITERAL, Pattern, worded
from .undecided import Undecided, undecided_opening


class ReasoningPlan(msgspec.Struct, eq=False):
    """How reasoning ends, and the white space around it."""

    closings: list[Pattern]
    ends_in_text: Scan  # the same, for searching in text
    resuming: list[Marker]  # the parts that may follow a call in reasoning, other than more reasoning
    lead: str  # white space after the opening
    trail: str  # white space after the closing


class CallPlan(msgspec.Struct, eq=False):
    """Calls and their blocks."""

    forms: list[Form]
    blocks: list[Block]
    inner: Candidates[CallOpening]  # calls inside a block, without its opening
    inner_bare: Candidates[CallOpening]  # the same, if the block is not marked
    begun: list[CallOpening]  # calls without the marker they begin with, which a prompt may contain
    unopened: list[Form]  # calls that are objects, without the marker they begin with: their closing is a tag
    following: Candidates[CallOpening]  # marked calls that may follow one whose block is closed
    following_inside: Candidates[CallOpening]
    """The same, if the block may be open; also calls without a marker, if their name is declared."""
    separator: Pattern
    block_text: Scan  # the ends of stray text in a block
    block_trail: str  # white space after a block
    call_openings: list[Pattern]  # openings of calls that a word marks
    call_closings: list[Pattern]  # closings of calls
    # What may end the last argument: those, and those of calls that open with a bracket after its closing.
    argument_followers: list[Pattern]
    block_closings: list[Pattern]  # closings of blocks
    bare_closings: list[Pattern]  # the closings of blocks that begin with a bracket, without it
    closings: list[Pattern]  # closings of calls and of blocks
    recover: Scan  # the markers that end a call with broken arguments
    string_ends: Scan | None  # the markers that end a call even inside an open string; ``None``: none does


class ArgumentPlan(msgspec.Struct, eq=False, dict=True):
    """Arguments in markup."""

    parameters: Siblings
    items: Siblings  # the elements of lists
    token: str  # the token before each tag of an argument, if its closing names it; else ``""``
    comma: Pattern  # the separator of arguments
    breaks: tuple[str, ...]
    """If arguments are written with line breaks: what begins a line, without and with indentation."""
    quoted: bool  # whether a string that would read as something else is written in double quotes
    closings: list[Pattern]  # the markers that may follow the last argument of a call: closings of calls and of blocks
    stray_closings: list[Pattern]
    """Closings of arguments that are one tag: where no argument is open, they close nothing."""
    others: list[Pattern]  # other markers that end a call: the next call, or the end of the turn

    @cached_property
    def any_items(self) -> Siblings:
        """The elements of a list that may have names of their own."""
        return Siblings([*self.items, *self.parameters])

    @cached_property
    def begins(self) -> re.Pattern[str]:
        """Matches what begins an argument, up to its first field, and white space before that; the group that matches
        has the number of its template, from 1."""
        heads = [f"({p.opening.head().whole() or ''})" for p in self.parameters]
        return re.compile(rf"\s*+(?:{'|'.join(heads)})")

    def undecided(self, within: Parameter | None, children: Siblings) -> Undecided | None:
        """What may come next among arguments in markup; ``None`` if a separator must come between them.

        Args:
            within: the template of the container around them; ``None`` if they are directly in the call.
            children: their own templates.
        """
        found = children.undecided.get(within)
        if found is None and not self.comma.atoms:
            closings = self.closings if within is None else [within.closing]
            found = children.undecided[within] = Undecided(children, closings, self.others)
        return found


class Plan(msgspec.Struct, eq=False, dict=True):
    """The compiled dialect. In lists of markers, the most literal one comes first."""

    dialect: Dialect
    policy: Policy
    framed: bool
    headed: bool  # whether the header of a frame begins as the turn does
    reading: Outline  # the markers that count while calls are read
    plain: Outline  # the markers that count while calls are text
    reasoning: ReasoningPlan
    calls: CallPlan
    arguments: ArgumentPlan
    ends: Candidates[Marker]  # the markers that end a turn, or begin another
    content_lead: str  # white space before a turn's first text, if content has no markers of its own
    frame_trail: str  # white space after a frame of content
    literals: frozenset[str]  # all literals, for recognizing special tokens by their ids

    @cached_property
    def undecided_opening(self) -> re.Pattern[str] | None:
        """Matches text in which a call with arguments in markup may open as the dialect writes it."""
        begins = (*self.reading.edge, *self.calls.following_inside)
        own = [o for o in begins if isinstance(o, CallOpening) and o.marked and not is_spelled(o)]
        calls = [o.pattern for o in own if o.form.arguments and o.form.syntax is None]
        return undecided_opening(dict.fromkeys(calls), self.arguments.undecided(None, self.arguments.parameters))

    @cached_property
    def stray_closings(self) -> Candidates[Stray]:
        """The closings of calls and of arguments, for where none is open."""
        closings = dict.fromkeys((*self.calls.call_closings, *self.arguments.stray_closings))
        return Candidates(Stray(closing, False, []) for closing in closings)

    @cached_property
    def others(self) -> Candidates[Marker]:
        """What may begin at a boundary, other than a call, with a literal."""
        return Candidates(m for m in self.plain.edge if m.pattern.first)

    @property
    def naming(self) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """The words before a tool's name in ids and calls (``functions``; ``:`` or ``.`` for any that end so), those
        after it (``json``), and whether a number follows it in calls."""
        return self.dialect.derived("naming", _naming)

    @cached_property
    def repairs(self) -> bool:
        """Whether arguments that are not quite JSON are repaired."""
        return self.policy.bad_arguments == "repair"


def _naming(d: Dialect) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    before = [text.partition("{name}")[0] for text in (d.id, *(t.text for t in d.call)) if "{name}" in text]
    words = [m.group(1) for text in before if (m := _PREFIX.search(text))]
    words += [":"] * any(text.endswith(":") for text in before) + ["."] * any("{name}.{name}" in t.text for t in d.call)
    behind = [m.group(1) for t in d.call if (m := _SUFFIX.search(t.text))]
    return tuple(dict.fromkeys(words)), tuple(dict.fromkeys(behind)), any(_NUMBERED.search(t.text) for t in d.call)


_PREFIX = Regex(r"([A-Za-z]\w*)[.:/]\Z")
_SUFFIX = Regex(r"\{name\} (?:<\|\w+\|>)?([A-Za-z]\w*)<")
_NUMBERED = Regex(r"\{name\}[.:]\{(?:index|number)\}")


def written_around(own: str, name: str, prefixes: tuple[str, ...], suffixes: tuple[str, ...], numbered: bool) -> bool:
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


def string_ends(plan: Plan) -> tuple[str, ...]:
    """The markers that a JSON string must not contain, because they would end it under the plan's policy."""
    if plan.calls.string_ends is None:
        return ()
    atoms = [a for o in plan.calls.string_ends.markers for a in o.pattern.atoms if a.kind == LITERAL]
    return tuple(dict.fromkeys(a.text for a in atoms if worded(a.text)))
