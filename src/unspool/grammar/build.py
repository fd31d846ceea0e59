"""Builds the grammar of an output from a dialect's templates and a request's tools.

It generates the first alternative of each template, as `unspool.render` does. Free text contains none of the markers
by which the parser, compiled from the same file, would read it as something else.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ..dialect.compiling import compile_plan, loose, marked
from ..dialect.file import Dialect
from ..dialect.markers import ARGUMENT_KEYS, CALL, NAME_KEYS, REASONING, CallOpening, Scan, literals_of
from ..dialect.patterns import LITERAL, NAME, SPACE, Pattern, joined, pattern
from ..dialect.plan import Plan
from ..dialect.syntax import Syntax
from ..dialect.template import ObjectShape, Step, Template, literal, steps_of, unstarted, without, writable, written
from ..errors import ConstraintError
from ..events import Stage
from ..renderer.values import JSON
from .arguments import Arguments, Tool, others, spelled
from .bounds import parameters_of
from .flat import cases
from .nodes import (
    EMPTY,
    SEPARATORS,
    SPACES,
    WHITE,
    Chars,
    Const,
    Grammar,
    Json,
    Node,
    Repeat,
    Text,
    Word,
    choice,
    optional,
    seq,
    series,
)
from .values import JSON_SPELLING, GrammarRules, Values

_ANYTHING: Final = Chars("", min=0, max=None)
_BRACES: Final = seq(Const("{"), Chars("{}", negated=True, min=0, max=None), Const("}"))
_NAME: Final = Chars("A-Za-z0-9_.\\-:/", max=None)
_PLAIN: Final = Chars("{}", negated=True)
_MEMBERS: Final = Repeat(choice((_PLAIN, seq(Const("{"), Repeat(choice((_PLAIN, _BRACES))), Const("}")))))
_QUOTE: Final = Chars("\"'")
_INDEX: Final = choice((Const("0"), seq(Chars("1-9"), Chars("0-9", min=0, max=2))))
_LETTER: Final = Chars("A-Za-z0-9")
_BEGINS: Final[dict[str | None, tuple[str, ...]]] = {Syntax.JSON: ("{", '"', "null"), Syntax.QUOTE: ("{",)}
"""The beginnings of arguments that are one literal."""
_TAG: Final = re.compile(r"</?[A-Za-z]+>")


class Demand(msgspec.Struct, frozen=True):
    """What the request demands, in the terms of the grammar."""

    tools: tuple[Tool, ...]  # the tools that may be called
    names: tuple[str, ...]  # the names of all declared tools; text must not call any of them
    # low, high: the number of calls; ``None``: no bound.
    low: int
    high: int | None
    stage: Stage  # where the output begins
    bare: bool = False  # no reasoning before demanded calls
    spoken: bool = False  # no reasoning before an answer of this schema
    forced: str = ""  # the parser reads bare objects as calls (``"required"`` or ``"named"``), else ``""``
    answer: dict[str, Any] | bool | None = None  # the prepared schema of the content; ``None``: any text


def build(d: Dialect, demand: Demand) -> Grammar:
    """Build the grammar of an output; `ConstraintError` if the dialect or a schema does not permit such a grammar."""
    builder = _Builder(d, demand)
    root = builder.output()
    return Grammar(root, builder.rules.found, frozenset(builder.rules.dense))


class _Builder:
    def __init__(self, d: Dialect, demand: Demand) -> None:
        self.d = d
        self.demand = demand
        self.rules = GrammarRules()
        self.plan: Plan = compile_plan(d, None, demand.forced or "auto")
        self.policy = self.plan.policy
        self.content_first = self.policy.text_before_tools == "content"
        # Calls are written by the first template; after text, by the first that cannot be confused with text.
        self.block = d.calls[0] if d.calls else None
        self.block_after_text = next((t for t in writable(d.calls) if self.distinct(t)), self.block)
        self.undecided = demand.stage is Stage.UNDECIDED and bool(d.reasoning)
        if demand.tools and not d.call:
            raise ConstraintError(f"tools: dialect {d.name!r} has no template for calls")
        self.arguments = Arguments(d, self.plan, self.rules)

    # -- the output as a whole ------------------------------------------------------------------------------------

    def output(self) -> Node:
        d, demand = self.d, self.demand
        if demand.bare:
            return self.section(first=True)
        if demand.stage is Stage.TOOL_CALL and d.call and demand.tools:
            return seq(self.opened(), EMPTY if demand.low else self.after_calls(called=True))
        if not d.reasoning or demand.spoken:
            return self.body(first=True)
        if demand.stage is Stage.REASONING:
            return seq(self.reasoning(first=True, opened=True), self.body(first=False))
        begins = [seq(self.reasoning(first=True), self.body(first=False)), self.body(first=True)]
        return choice([*begins, seq(self.guessed(), self.body(first=False))] if self.undecided else begins)

    def opened(self) -> Node:
        """Calls after the opening of their block. Where a block has none, a turn may begin here."""
        calls = self.section(first=False, opened=True)
        return calls if self.block is None or self.block.opening else choice((self.section(first=True), calls))

    def reasoning(self, *, first: bool, opened: bool = False) -> Node:
        template = writable(self.d.reasoning)[0]
        opening, closed = template.opening, template.closing
        scan = self.plan.reading.reasoning.scan
        head = "" if opened else self.started(opening) if first else opening
        return self.free(head, closed, scan.triggers)

    def guessed(self) -> Node:
        """Reasoning without an opening, recognized by its closing; a call would show that it is content."""
        closed = writable(self.d.reasoning)[0].closing.lstrip()
        without = self.plan.reading.undecided.triggers | self.plan.plain.reasoning.scan.triggers
        begins = [o for o in self.plan.reading.edge if o.kind in (REASONING, CALL) and o.marked and o.pattern.first]
        firsts = [o.pattern.first for o in begins if o.kind == REASONING or o.pattern.first not in without]
        unlike: list[Node] = [seq(SPACES, Const(first)) for first in firsts]
        if self.demand.names and self.block is not None and not self.distinct(self.block):
            # What the dialect itself writes without a marker; elsewhere a bare call is so rare that tags stay wide.
            names = choice(map(Const, self.demand.names))
            unlike += [seq(SPACES, call) for call in self.bare_calls(self.bare(list(without)), names)]
        return self.kept(closed, without, unlike)

    def free(self, head: str, closed: str, without: Iterable[str], unlike: Iterable[Node] = ()) -> Node:
        """Free text between two markers; white space before the second belongs to it or to the text."""
        return seq(Const(head.rstrip()), self.kept(closed.lstrip(), without, unlike))

    def kept(self, stop: str, without: Iterable[str], unlike: Iterable[Node] = (), *, code: bool = False) -> Text:
        """Text up to a marker that contains none of the others; tags of reasoning are read in any case."""
        texts = tuple(dict.fromkeys(without))
        tags = self.tags.intersection((stop, *texts))
        exact = others([t for t in texts if t not in tags], stop)
        return Text(stop, exact, tuple(dict.fromkeys(unlike)), folded=tuple(sorted(tags)), code=code)

    def body(self, *, first: bool) -> Node:
        if self.demand.low:
            return self.calls(first=first)
        if self.demand.answer is not None:
            return choice((self.answer(first=first), *([self.calls(first=first)] if self.demand.tools else [])))
        if self.plan.framed:
            return self.frames(first=first)
        if not self.demand.tools:
            return self.text("")
        return self.mixed()

    # -- what text must not contain ----------------------------------------------------------------------------------

    @cached_property
    def tags(self) -> frozenset[str]:
        """The markers of reasoning that are matched in any mixture of upper and lower case."""
        patterns = [o.pattern for o in self.plan.reading.edge if o.kind == REASONING]
        patterns += self.plan.reasoning.closings
        return frozenset(p.first for p in patterns if _TAG.fullmatch(p.first))

    def cases(self, marker: str) -> list[str]:
        """Texts of which every spelling of a marker contains one."""
        return cases(marker) if marker in self.tags else [marker]

    def markers(self, scan: Scan) -> list[str]:
        """The texts that content must not contain, because they would be read as markers."""
        # If everything after prose is content, a call's opening is a marker only before prose.
        counts = {CALL: not self.content_first, REASONING: self.policy.reasoning_in_content != "text"}
        found = [o.pattern.first for o in scan.markers if o.marked and counts.get(o.kind, True)]
        return found + [s.pattern.first for s in self.plan.reading.strays]

    # -- content --------------------------------------------------------------------------------------------------

    def text(self, stop: str, *more: str, called: bool = False) -> Text:
        """Content outside of frames, without ``more``, up to a marker or to the end.

        ``called``: after a call whose block may go on.
        """
        plan = self.plan
        scan = (plan.reading if self.d.call else plan.plain).text.scan
        without = [*self.markers(scan), *more]
        unlike = self.begins(without)
        # After a call, another may begin with its name.
        unlike += [_call_by_name(o.pattern) for o in plan.calls.inner if o.form.marked and not o.pattern.first]
        if self.undecided:
            without += [closing.first for closing in plan.reasoning.closings]
        unlike += self.unlike_calls(without)
        if called and self.endless:
            unlike += self.next_calls()
        # The end of a line also ends a code span.
        return self.kept(stop, without, unlike, code=not stop.startswith("\n"))

    def begins(self, without: list[str]) -> list[Node]:
        """The markers that text must avoid only where it begins."""
        marked = [o.pattern.first for o in self.plan.reading.edge if o.marked and o.pattern.first]
        marked += [closing.first for closing in self.plan.reasoning.closings]  # reasoning before it is empty
        apart = [t for t in dict.fromkeys(marked) if not any(w in t for w in without)]
        found = [Const(c) for t in apart for c in self.cases(t)]
        return [seq(SPACES, choice(found))] if found else []

    def unlike_calls(self, without: list[str]) -> list[Node]:
        """The beginnings and continuations that text must avoid: they would be read as unmarked calls."""
        if not self.demand.names:
            return []
        names = choice(map(Const, self.demand.names))
        bare = self.bare(without)
        spaced = [o for o in bare if o.spaced]
        # Engines limit the size of patterns: if calls may come after any space, one rule serves all places.
        if spaced and set(self.bare_calls(spaced, names)) == set(self.bare_calls(bare, names)):
            calls = choice(self.bare_calls(bare, names, whole=False))
            return [seq(choice((seq(_ANYTHING, Chars(WHITE)), EMPTY)), calls)]
        unlike = [seq(SEPARATORS, call) for call in self.bare_calls(bare, names)]
        bare = [o for o in bare if o in self.plan.reading.text.scan.markers]  # others count only at the start
        anywhere = [o for o in bare if o.anywhere]
        for before, openings in ((seq(Const("\n"), SPACES), bare), (Const(" "), spaced), (EMPTY, anywhere)):
            if openings:
                calls = choice(self.bare_calls(openings, names, whole=False))
                unlike.append(seq(_ANYTHING, before, calls))
        return unlike

    def next_calls(self) -> list[Node]:
        """The beginnings that text must avoid after a call, because without a closing the block would go on."""
        unmarked = [o for o in self.plan.calls.inner if not o.form.marked]
        names = choice(map(Const, self.demand.names))
        calls = self.bare_calls([o for o in unmarked if o.pattern.first], names)
        if any(not o.pattern.first for o in unmarked):
            calls = (*calls, *(seq(_NAME, SPACES, Const(begin)) for begin in _BEGINS[Syntax.JSON]))
        return [seq(SEPARATORS, call) for call in calls]

    def bare(self, without: list[str]) -> list[CallOpening]:
        """The openings of calls that no marker distinguishes from text, and no text excludes."""
        edge = self.plan.reading.edge
        found = [o for o in edge if isinstance(o, CallOpening) and not o.marked]
        return [o for o in found if not any(w in literals_of(o.pattern) for w in without)]

    def bare_calls(self, openings: list[CallOpening], names: Node, *, whole: bool = True) -> tuple[Node, ...]:
        """The texts that would be read as calls without markers at the beginning of content.

        Inside a text they may begin anywhere, so only their beginnings can be excluded (not ``whole``): an object
        whose first key is the one for a tool's name or arguments.
        """
        heads: dict[Node, list[Node]] = {}  # by what follows them, since engines limit the size of patterns
        for o in openings:
            head: list[Node] = []
            for atom in o.pattern.atoms:
                kind = atom.kind
                head.append(Const(atom.text) if kind == LITERAL else SPACES if kind == SPACE else names)
                if kind not in (LITERAL, SPACE, NAME):
                    break
            tail: Node = EMPTY
            form = o.form
            if form and form.shape and not (form.forced and self.demand.forced == "named"):
                # An object is a call if one of its own members says so.
                first = _first_member(form.shape, names)
                tail = seq(_MEMBERS, _QUOTE, names, _QUOTE) if whole else seq(SPACES, _QUOTE, first)
            elif form and form.syntax in _BEGINS:
                tail = seq(SPACES, choice(map(Const, _BEGINS[form.syntax])))
            heads.setdefault(tail, []).append(seq(*head))
        return tuple(seq(choice(dict.fromkeys(those)), tail) for tail, those in heads.items())

    def frames(self, *, first: bool) -> Node:
        template = writable(self.d.content)[0]
        content = seq(self.frame(template, first=first), optional(Const(template.trail)))
        nothing = EMPTY if first else self.margin(template)
        if not self.demand.tools:
            return choice((content, nothing))
        return choice((content, nothing, self.calls(first=first), *self.announced(first=first)))

    def frame(self, template: Template, *, first: bool) -> Node:
        margin, head = self.headed(template, first=first)
        closed = template.closing
        if not closed.strip():
            return seq(margin, Const(head), self.text(""))
        scan = (self.plan.reading if self.d.call else self.plan.plain).frame.scan
        without = self.markers(scan)
        heads = ("",) if first else tuple(map(str.strip, self.d.start))  # those of other parts go on from these
        unlike = [*(self.begins(without) if head.strip() in heads else ()), *self.unlike_calls(without)]
        return seq(margin, self.free(head, closed, without, unlike))

    def headed(self, template: Template, *, first: bool) -> tuple[Node, str]:
        opening = template.opening
        if first:
            return EMPTY, self.started(opening)
        return self.margin(template) if opening else EMPTY, opening  # without an opening, text may begin with it

    def answer(self, *, first: bool) -> Node:
        schema = self.demand.answer
        assert schema is not None
        template = writable(self.d.content)[0]
        opening, closed = template.opening, template.closing
        head = self.started(opening) if first else opening
        region = self.plan.reading.frame if closed.strip() else self.plan.reading.text
        without = dict.fromkeys(c for t in self.markers(region.scan) for c in self.cases(t))
        value: Node = Json(schema)
        if isinstance(schema, dict):
            value = spelled(Values(JSON_SPELLING, self.rules, schema, tuple(without)), schema, "response_format")
        return seq(self.margin(), Const(head), value, Const(closed))

    def margin(self, template: Template | None = None) -> Node:
        """White space that may come between a part and the next, which by default is a block of calls."""
        before = {t.trail for t in (*self.d.reasoning[:1], *self.d.preamble[:1], *self.d.content[:1])}
        behind = {t.lead for t in ([template] if template else self.d.calls[:1])}
        return choice(Const(m) for m in sorted({"", *before, *behind}, key=len, reverse=True))

    # -- calls ----------------------------------------------------------------------------------------------------

    def calls(self, *, first: bool) -> Node:
        return self.section(first=first, margin=self.margin())

    def announced(self, *, first: bool) -> list[Node]:
        preamble = writable(self.d.preamble or self.d.content)[0]
        if self.content_first:
            return []
        if not preamble.after and self.trigger:
            margin, head = self.headed(preamble, first=first)
            return [seq(margin, Const(head), self.preceded())]
        if preamble.before or preamble.after:
            frame = self.frame(preamble, first=first)
            return [seq(frame, self.calls(first=False))]
        return [self.preceded()] if self.lined or self.trigger else []

    def mixed(self) -> Node:
        if self.content_first:
            return choice((self.text(""), seq(self.calls(first=True), self.text("", called=True))))
        if self.block is not None and not self.distinct(self.block):
            found = [self.text(""), self.calls(first=True)]
            return choice([*found, self.preceded()] if self.lined or self.trigger else found)
        return self.after_calls()

    def after_calls(self, *, called: bool = False) -> Node:
        """Text, and more calls if several are allowed; ``called``: after a call."""
        if self.lined or not self.trigger or self.plan.framed:
            return EMPTY
        single = self.demand.high == 1
        if self.content_first or (single and self.demand.stage is Stage.TOOL_CALL):
            return self.text("", called=called)
        if single:
            return choice((self.text(""), seq(self.preceded(), self.text("", called=True))))
        if called or not self.endless:
            return seq(Repeat(self.preceded(called=called)), self.text("", called=called))
        return choice((self.text(""), seq(self.preceded(), self.after_calls(called=True))))

    def preceded(self, *, called: bool = False) -> Node:
        """Calls after text; ``called``: after a call and text."""
        if self.lined:
            # In a fence that prose opened, they would not be calls.
            return choice(
                seq(self.text(self.begun(tool)[0], "```"), self.section(first=False, opened=True, begun=tool))
                for tool in self.demand.tools
            )
        return seq(self.text(self.trigger, called=called), self.section(first=False, triggered=True))

    @property
    def endless(self) -> bool:
        """Whether nothing closes a block of calls, so that another call may follow without a marker."""
        return bool(self.demand.names) and self.block is not None and not self.block.closing.strip()

    def distinct(self, block: Template) -> bool:
        """Whether a letter or digit distinguishes a block of calls from text. What begins with a name is not found."""
        found = any(marked(t.before, self.d.anywhere) for t in (block, self.d.call[0]))
        return found and bool(joined(pattern(block.before), pattern(self.d.call[0].before)).first)

    @property
    def lined(self) -> bool:
        """Whether unmarked calls may come after text: where a line begins, or after a space."""
        block, d = self.block, self.d
        if block is None or self.distinct(block) or not (block.opening or literal(d.call[0].head).strip()):
            return False  # what begins with a name is not found after text
        return not {"\n", " "}.isdisjoint(block.lead) or loose(block, d.call[0], d.anywhere)

    @cached_property
    def trigger(self) -> str:
        """The marker with which calls after text begin; ``""`` if no letter distinguishes them from text."""
        block, call = self.block_after_text, self.d.call[0]
        if block is None or not self.distinct(block):
            return ""
        opening = block.opening + literal(call.head)
        first = joined(pattern(block.before), pattern(call.before)).first
        end = opening.index(first) + len(first)
        # Lexers take the shortest text: what also begins reasoning would hide it.
        thoughts = [self.started(t.opening) for t in writable(self.d.reasoning)[:1]]
        while end < len(opening) and any(t.startswith(opening[:end]) for t in thoughts):
            end += 1
        return opening[:end]

    @cached_property
    def whole(self) -> bool:
        """Whether the beginning of a call, up to its arguments, is one word: text may begin alike and, since engines
        read words greedily, go on where the id or the index begins."""
        numbered = any(step.name not in ("", "name") for step in self.d.call[0].head)
        return numbered and self.block is not None and not self.distinct(self.block)

    def begun(self, tool: Tool) -> tuple[str, tuple[Step, ...]]:
        """The beginning of a tool's call, including the margin of its block, up to its id, its index or its
        arguments; and the remaining steps up to the arguments."""
        block, head = self.block, self.d.call_of(tool.name).head
        assert block is not None
        known = next((i for i, step in enumerate(head) if step.name not in ("", "name")), len(head))
        return block.lead + block.opening + written(head[:known], {"name": tool.name}), head[known:]

    def section(
        self,
        *,
        first: bool,
        opened: bool = False,
        triggered: bool = False,
        begun: Tool | None = None,
        margin: Node = EMPTY,
    ) -> Node:
        """A block of calls.

        Args:
            first: the output begins with it, so what the prompt contains of it is not written.
            opened: the block's opening was already written.
            triggered: the text before it ended with the `trigger`, which begins it.
            begun: the tool whose call has begun; see the method of this name.
            margin: the white space before it.
        """
        d, demand = self.d, self.demand
        template = self.block_after_text if triggered else self.block
        assert template is not None
        opening, closed = template.opening, template.closing
        text = "" if opened else self.started(opening) if first else opening

        def begin(head: Sequence[Step]) -> Sequence[Step]:
            steps = (Step("", text), *head) if text else tuple(head)
            if first and not opening:
                steps = without(steps, len(literal(steps)) - len(self.started(literal(steps))))
            return without(steps, len(self.trigger)) if triggered else steps

        if begun:
            one = seq(*self.written(self.begun(begun)[1], begun), self.arguments_and_end(begun))
        else:
            one = self.each(begin, margin) if self.whole else seq(margin, self.each(begin))
        separator = d.separator.calls
        if template.body == "call":
            separator = closed + template.trail + separator + opening
        many: Node = EMPTY
        if demand.high != 1:
            more = self.each(lambda head: (Step("", separator), *head))
            many = Repeat(more, 0, None if demand.high is None else demand.high - 1)
        ends = choice((Const(closed + template.trail), Const(closed))) if template.trail else Const(closed)
        return seq(one, many, ends)

    def each(self, begin: Callable[[Sequence[Step]], Sequence[Step]], margin: Node = EMPTY) -> Node:
        """A call of any of the tools; ``begin`` builds what comes before the steps of its head, after ``margin``."""
        found: list[Node] = []

        def head(steps: Sequence[Step], tool: Tool) -> Node:
            header = seq(margin, *self.written(begin(steps), tool))
            return Word(header) if self.whole else header

        for tool in self.demand.tools:
            own = tool.text
            if own is not None:
                # Bare text, without anything that might end it.
                ends = (t for f in self.plan.calls.forms if f.name == own.name for t in f.triggers)
                found.append(seq(head(own.templates[0].head, tool), self.kept(own.templates[0].closing, ends)))
            if own is None or own.key not in tool.parameters.get("required", ()):
                found.append(seq(head(self.d.call_of(tool.name).head, tool), self.arguments_and_end(tool)))
        return choice(found)

    def written(self, steps: Sequence[Step], tool: Tool) -> list[Node]:
        """The steps of a call's head or tail."""
        name = tool.name if self.d.call[0].object is None else JSON.string(tool.name)[1:-1]

        def node(step: Step) -> Node:
            if step.name == "id":
                return self.id(tool)
            return _INDEX if step.name in ("index", "number") else Const(step.write({"name": name}))

        return [node(step) for step in steps]

    def id(self, tool: Tool) -> Node:
        parts: list[Node] = []
        for step in steps_of(self.d.id):
            if step.name == "name":
                parts.append(Const(tool.name))
            elif step.name:
                parts.append(_INDEX)
            else:
                parts += [_LETTER if c == "?" else Const(c) for c in step.text]
        return seq(*parts)

    def arguments_and_end(self, tool: Tool) -> Node:

        def make() -> Node:
            tail = series(seq(*self.written(self.d.call_of(tool.name).tail, tool)))
            # A name, an index or a number may be written after the arguments.
            end, rest = (tail[0].text, tail[1:]) if isinstance(tail[0], Const) else ("", tail)
            with parameters_of(tool.name):
                return seq(self.arguments.of(tool, end), *rest)

        return self.rules.once(("call", tool.name), make)

    # -- texts ----------------------------------------------------------------------------------------------------

    def started(self, opening: str) -> str:
        """An opening without the ``start`` that the prompt contains."""
        return unstarted(opening, self.d.start)


def _first_member(shape: ObjectShape, names: Node) -> Node:
    """How the first member of a call's object continues after its first quote."""
    if shape.name_is_key:
        return seq(names, _QUOTE)
    name_keys = [key for key, role in shape.keys if role == "name"]
    further = sorted({*ARGUMENT_KEYS, *NAME_KEYS, "type", *(key for key, _ in shape.keys)} - set(name_keys))
    name = seq(choice(map(Const, name_keys)), _QUOTE, SPACES, Const(":"), SPACES, _QUOTE, names, _QUOTE)
    return choice((name, seq(choice(map(Const, further)), _QUOTE)))


def _call_by_name(pattern: Pattern) -> Node:
    later = next(a.text for a in pattern.atoms if a.kind == LITERAL)
    return seq(SEPARATORS, _NAME, SPACES, Const(later))
