"""Derives the keys of a dialect file from the turns of a template."""

import re
from typing import Final

import msgspec

from ..dialect.compiling import marked
from ..dialect.patterns import solid
from . import marks as t
from .arguments import FIELDS, Keys, arguments, as_template
from .cutting import Cut, Views, behind_user, closing_for, first_tag, is_tag, paired, spelled
from .histories import EOS, RESULT

_FENCED: Final = re.compile(r"(\s*```\w*\n)(.*\S)(\s*```)", re.S)
_LATE_ID: Final = re.compile(r""",\s*"\w+"\s*:\s*"?\{id\}"?""")


class DraftReasoning(msgspec.Struct, frozen=True):
    """How a template writes reasoning; ``stage`` is the stage after the prompt."""

    opening: str = ""
    closing: str = ""

    @property
    def template(self) -> str:
        return f"{self.opening}{{reasoning}}{self.closing}"


def drafts(views: Views, found: Cut) -> list[Keys]:
    """Candidates for a dialect, the best first. The template's text is searched if it drops earlier reasoning."""
    return _Drafter(views, found).drafts()


class _Drafter:
    """Derives keys from the turns of one style."""

    def __init__(self, views: Views, found: Cut) -> None:
        self.views = views
        self.start = found.start.lstrip()
        self.given = found.given
        self.turns = found.turns
        self.framed = False
        self.ended: list[str] = []
        self.header = self.recurring()

    def drafts(self) -> list[Keys]:
        keys: Keys = {"start": self.starts()} if self.start.strip() else {}
        if self.header:
            self.start = self.header
        ends = self.ended = self.ends()
        if ends:
            keys["end"] = ends
        closing = self.closing_tag()
        bodies = {name: self.body(turn, closing, ends) for name, turn in self.turns.items()}
        content = self.content(bodies, keys)
        reasoning = self.reasoning(bodies, content)
        if reasoning is not None:
            keys["reasoning"] = reasoning.template
            if self.opens(reasoning):
                keys["stage"] = "reasoning"
        empty = "".join(content) or self.empty_preamble(bodies)
        calls = self.calls({n: b.removeprefix(empty) for n, b in bodies.items()})
        if not calls:
            return [keys] if "reasoning" in keys or "content" in keys else []
        found = []
        calls += [{k: v for k, v in c.items() if k != "item"} for c in calls if "item" in c]
        for variant in calls:
            more = self.preamble(bodies, content, variant)
            variant["call"] = _without_late_id(variant["call"])
            if variant.get("end"):
                more["end"] = [*keys.get("end", ()), *variant["end"]]
            found.append({**keys, **variant, **more})
        return found

    def recurring(self) -> str:
        """The end of the turn's opening, if each further part of the turn begins with it; else empty."""
        rest = self.turns.get("text and call", "").partition(t.CONTENT)[2].lstrip()
        call = self.turns.get("one call", "")
        own = t.marks(self.start)
        ends = ("".join(own[i:]) for i in range(1, len(own)))
        first = call[: call.find(t.NAME[0]) + 1]
        return next((end for end in ends if first and end.strip() and rest.startswith(end + first)), "")

    # -- the turn's beginning and end ----------------------------------------------------------------------------------

    def starts(self) -> str | list[str]:
        """The opening of a turn: before a prompt's answer, and after a tool's result if that is different."""
        _, found, tail = self.views.resumed.rpartition(RESULT)
        last = t.marks(tail.strip())[-1:]
        if not found or self.start.strip() in tail or not last or not is_tag(last[0]):
            return self.start
        return [self.start, last[0]]

    def ends(self) -> list[str]:
        """The end of a turn: after content, and after calls if that is different."""
        found: list[str] = []
        _, _, plain = self.turns.get("content", "").partition(t.CONTENT)
        call = self.turns.get("one call", "")
        shared = t.suffix(t.marks(plain), t.marks(call))
        own = "".join(t.marks(plain)[len(t.marks(plain)) - shared :]).strip()
        if not own and plain.strip() and not self.turns["content"].startswith(t.CONTENT):
            own = t.marks(plain.strip())[-1]
        tag = first_tag(own if own else plain)
        found.append(own if tag and tag in self.start else tag)  # its first word may also begin a turn
        if not found[-1]:
            _, _, after = spelled(behind_user(self.views.followed)).partition(t.CONTENT)
            found.append(first_tag(after))
            _, _, after = spelled(behind_user(self.views.resulted)).rpartition(call.rstrip() or "\0")
            if call.rstrip():
                found.append(first_tag(after))
        return [
            e
            for e in dict.fromkeys(found)
            if len(e) > 2 and not e.isalnum() and e not in self.start and not any(c in e for c in (*FIELDS, RESULT))
        ]

    # -- reasoning -------------------------------------------------------------------------------------------------

    def thinking(self) -> str:
        """A turn with reasoning."""
        for name in ("reasoning and content", "reasoning, text and call", "reasoning and call"):
            turn = self.turns.get(name, "")
            if turn.count(t.THOUGHT) == 1:
                return turn
        return ""

    def closing_tag(self) -> str:
        """The closing of reasoning, which also shows where reasoning is empty."""
        turn = self.thinking()
        if turn:
            return first_tag(turn.partition(t.THOUGHT)[2])
        prompted = self.prompted_reasoning()
        return first_tag(prompted.closing) if prompted is not None else ""

    def body(self, turn: str, closing: str, ends: list[str]) -> str:
        """A turn without empty reasoning at its beginning, and without its end."""
        ended = "x"
        while ended:
            stripped = turn.rstrip()
            ended = next((e for e in (EOS, *ends) if stripped.endswith(e)), "")
            turn = stripped[: -len(ended)] if ended else turn
        if closing and t.THOUGHT not in turn:
            head, found, rest = turn.partition(closing)
            marks = [m for m in t.marks(head) if not m.isspace()]
            if found and len(marks) <= 4 and not any(c in head for c in (*FIELDS, t.CONTENT)):
                turn = rest.lstrip()
        return turn

    def reasoning(self, bodies: dict[str, str], content: tuple[str, str]) -> DraftReasoning | None:
        turn = self.thinking()
        if not turn:
            return self.prompted_reasoning()
        with_content = bodies.get("reasoning and content", "")
        turn = with_content if t.THOUGHT in with_content and t.CONTENT in with_content else turn
        opening, _, rest = turn.partition(t.THOUGHT)
        if t.CONTENT in rest.partition(t.NAME[0])[0]:
            closing = rest.partition(t.CONTENT)[0]
        else:
            first = first_tag(bodies.get("one call", ""))
            closing = rest.partition(first)[0] if first else rest
        closing = closing.removesuffix(content[0])
        if self.start.strip() and self.start in closing:
            closing = closing.partition(self.start)[0]
            self.framed = True
        elif content[0] and not closing.strip():
            return None
        if not closing.strip():
            return None
        if not opening.strip():
            opening = self.given if closing.strip() not in self.given else ""
        if self.framed:
            opening = self.start + opening
        return DraftReasoning(opening, closing) if opening.strip() else None

    def prompted_reasoning(self) -> DraftReasoning | None:
        """Reasoning that prompts open, though histories drop it."""
        for given in (self.given, *self.switched()):
            opening = first_tag(given)
            closing = closing_for(opening, self.views.source) if is_tag(opening) else ""
            if closing:
                space = "\n" if given.endswith("\n") else ""
                return DraftReasoning(opening + space, space + closing + space * 2)
        return None

    def switched(self) -> list[str]:
        """The text that prompts write after a turn's opening under the settings of the thinking switches."""
        return [text.rpartition(self.start)[2] for text in self.views.switched.values() if self.start in text]

    def opens(self, reasoning: DraftReasoning) -> bool:
        """Whether the prompt ends after the opening."""
        opening = reasoning.opening.removeprefix(self.start).strip()
        return bool(opening) and self.given.strip() == opening

    # -- content ---------------------------------------------------------------------------------------------------

    def content(self, bodies: dict[str, str], keys: Keys) -> tuple[str, str]:
        body = bodies.get("content", "")
        if t.CONTENT not in body:
            return "", ""
        before, _, after = body.partition(t.CONTENT)
        if not before.strip():
            if not after.strip() and before + after:  # margins instead of a frame
                keys["content"] = f"{before}{{content}}{after}"
            return "", ""
        after, margin = after.rstrip(), after[len(after.rstrip()) :] if after.strip() else ""
        if not after and not self.header:
            after = next(iter(keys.get("end", ())), "")
        turn = self.thinking()
        _, _, rest = turn.partition(t.THOUGHT)
        self.framed = bool(self.start.strip()) and (
            self.start in rest or self.start in self.turns.get("text and call", "")
        )
        keys["content"] = f"{self.start if self.framed else ''}{before}{{content}}{after}{margin}"
        return before, after

    def empty_preamble(self, bodies: dict[str, str]) -> str:
        """The tags around empty content before calls; usually none."""
        before, _, rest = bodies.get("text and call", "").partition(t.CONTENT)
        closing = first_tag(rest)
        empty = before + closing
        written = is_tag(before.strip()) and paired(before.strip(), closing)
        return empty if written and bodies.get("one call", "").startswith(empty) else ""

    def preamble(self, bodies: dict[str, str], content: tuple[str, str], calls: Keys) -> Keys:
        """The margin of calls after content, and the frame of content that calls follow."""
        body = bodies.get("text and call", "")
        if body.replace(t.CONTENT, t.THOUGHT) == bodies.get("reasoning and call"):  # content is written as reasoning
            body = ""
        opening = _opening(calls)
        sign = opening.partition('"')[0].strip()
        unmarked = not marked((sign,))
        if not 0 <= body.find(t.CONTENT) < body.find(t.NAME[0]):
            # Only their own line distinguishes such calls from text.
            if unmarked and not content[0] and isinstance(calls.get("calls", ""), str):
                return {"calls": "\n" + calls.get("calls", "{calls}").lstrip()}
            return {}
        before, _, rest = body.partition(t.CONTENT)
        at = rest.find(opening.strip()) if opening.strip() else -1
        if at < 0:
            return {}
        between = rest[:at]
        glued: Keys = {"anywhere": [sign]} if unmarked and sign and (self.framed or not between) else {}
        if not content[0]:
            if before.strip() and between.strip():
                return {"preamble": f"{before}{{content}}{between}"}
            return glued or _margin_before(calls, between, opening)
        if self.framed:
            between = between.removesuffix(self.start)
        if (before, between.rstrip()) != (content[0], content[1]) and between.strip():
            return {"preamble": f"{self.start if self.framed else ''}{before}{{content}}{between}", **glued}
        return glued

    # -- calls -----------------------------------------------------------------------------------------------------

    def calls(self, bodies: dict[str, str]) -> list[Keys]:
        """Candidates for the keys of calls, in the order in which they are tried."""
        one = bodies.get("one call", "")
        if t.NAME[0] not in one:
            return []
        style = arguments(one, bodies.get("two arguments", ""), self.turns)
        if style is None:
            return []
        keys, hide = style
        if self.views.style.ids == "named":
            keys = {**keys, "id": "functions.{name}:{index}"}
        called = bodies.get("two calls", "")
        framed = self.framed or self.start in bodies.get("text and call", "") + called
        frame = self.start if self.start.strip() and framed else ""
        two, single = _counted(hide(frame + called), hide(frame + one))
        group = [t.NAME[i] + t.ID[i] + t.ARGUMENTS[i] for i in (0, 1)]
        found: list[Keys] = []
        rep = t.repeated(t.marks(two), *group) if t.NAME[1] in two else None
        if rep is not None and rep.unit.count(t.NAME[0]) <= 2:
            found += self._blocks(keys, rep, t.same(single))
        found += self._blocks(keys, _alone(single), "")
        return found

    def _blocks(self, keys: Keys, rep: t.Repeated, single: str) -> list[Keys]:
        """Try the repeated text as a call, with a block around all calls or around each."""
        call = as_template(rep.unit)
        before, after, separator = as_template(rep.before), as_template(rep.after), rep.separator
        ending = next((e for e in self.ended if separator.startswith(e)), "")
        if ending:  # each call has its own frame, which the end of the turn closes
            call, separator = call + ending, separator[len(ending) :]
        trail = call[len(call.rstrip()) :]  # between two calls and after the last one
        call, separator, after = call.rstrip(), trail + separator, trail + after
        found: list[Keys] = []
        base = dict(keys)
        if separator:
            base["separator"] = {**keys.get("separator", {}), "calls": separator}
        if not before.strip() and is_tag(after.strip()) and len(t.marks(after.strip())) == 1:
            # No block: the turn ends differently after calls and after content.
            base["end"] = [after.strip()]
            after = ""
        if before.strip() or after.strip():
            block: Keys = {**base, "calls": f"{before}{{calls}}{after.rstrip()}", "call": call}
            if single and rep.unit in single:
                lone = single.partition(rep.unit)
                other = f"{as_template(lone[0])}{{calls}}{as_template(lone[2]).rstrip()}"
                if solid(other) != solid(block["calls"]):
                    found.append({**block, "calls": [block["calls"], other]})
            found.append(block)
            return found
        split = _each(call)
        if split is not None:
            found.append({**base, "calls": before + split[0], "call": split[1]})
        return [*found, _unenclosed(base, before, call, after)]


def _unenclosed(keys: Keys, before: str, call: str, after: str) -> Keys:
    """The keys of calls that no block encloses."""
    fence = _FENCED.fullmatch(call)
    if fence is None:
        bare = not (before or after or call[:1].isspace())
        return {**keys, "call": call, **({} if bare else {"calls": f"{before}{{calls}}{after}"})}
    # A fence is a block of its own, which the parser distinguishes from quoted code.
    return {**keys, "calls": f"{before}{fence[1]}{{call}}{fence[3]}", "call": fence[2]}


def _without_late_id(call: str) -> str | list[str]:
    """Handle a call whose id follows the arguments, too late for a stream: write it without, read it either way."""
    head, found, rest = call.partition("{arguments}")
    bare = _LATE_ID.sub("", rest, count=1)
    return [head + found + bare, call] if found and bare != rest else call


def _margin_before(calls: Keys, between: str, opening: str) -> Keys:
    """Write white space between content and calls into the keys of calls, or return the key that says it."""
    if not between or not between.isspace():
        return {}
    if "calls" not in calls:
        calls["call"] = _first_call(calls).lstrip()
        return {"calls": between + "{calls}"}
    if not opening.startswith(between):
        first, given = between + _first_call(calls).lstrip(), calls["calls"]
        calls["calls"] = [first, *given[1:]] if isinstance(given, list) and given[1:] else first
    return {}


def _first_call(calls: Keys) -> str:
    """The first template of calls, in a block or without one."""
    given: str | list[str] = calls["calls" if "calls" in calls else "call"]
    return given if isinstance(given, str) else given[0]


def _opening(calls: Keys) -> str:
    """What is written up to the first field in the first call, and up to the next if that is only white space."""
    opening = re.split(r"\{[a-z]+\}", _first_call(calls))[0]
    return opening if opening.strip() else opening + re.split(r"\{[a-z]+\}", calls["call"])[0]


def _counted(two: str, one: str) -> tuple[str, str]:
    """Texts with two calls and with one, in which sentinels replace the numbers that count the calls."""
    for first, second, sentinel in (("0", "1", t.INDEX), ("1", "2", t.NUMBER)):
        plain, single = t.same(two), t.same(one)
        for m in re.finditer(rf"(?<!\d){first}(?!\d)", plain):
            left, right = plain[max(m.start() - 3, 0) : m.start()], plain[m.end() : m.end() + 3]
            again = plain.find(left + second + right, m.end())
            alone = single.find(left + first + right)
            if again >= 0 and alone >= 0:
                at, behind = again + len(left), alone + len(left)
                two = two[: m.start()] + sentinel + two[m.end() : at] + sentinel + two[at + 1 :]
                return two, one[:behind] + sentinel + one[behind + 1 :]
    return two, one


def _alone(text: str) -> t.Repeated:
    """A single call, taken as the whole text."""
    plain = t.same(text)
    body = plain.strip()
    return t.Repeated(plain[: len(plain) - len(plain.lstrip())], body, "", "")


def _each(call: str) -> tuple[str, str] | None:
    """Split a call whose outermost tags form a block: the block, and the call inside."""
    marks = t.marks(call)
    first, last = marks[0], marks[-1]
    inner = marks[1:-1]
    if len(marks) < 3 or "{" in first or not (is_tag(first) and is_tag(last)):
        return None
    body = "".join(inner)
    core = body.strip()
    if not core or (
        not (core.startswith("{") and core.endswith("}") and '"' in core[:3])
        and not (is_tag(t.marks(core)[0]) and is_tag(t.marks(core)[-1]))
    ):
        return None
    if core.startswith("{name}"):
        return None
    at = body.index(core)
    return f"{first}{body[:at]}{{call}}{body[at + len(core) :]}{last}", core
