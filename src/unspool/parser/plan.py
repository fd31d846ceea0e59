"""A dialect as the machine needs it, compiled once: the openings and closings of its parts, and how to find them."""

import re

import msgspec

from ..dialect import Dialect
from ..policy import DEFAULTS, Policy
from ..regex import Regex
from ..template import ObjectShape, Piece, Template
from .literals import Syntax
from .patterns import LITERAL, SPACE, Atom, Pattern, closing, finder, firsts, joined, spaced

REASONING, REASONING_END, FRAME, FRAME_END = "reasoning", "reasoning_end", "frame", "frame_end"
CALL, END, START = "call", "end", "start"

_FENCE = Regex(r"```\w*")


class Form(msgspec.Struct, eq=False):
    """One way a call is written."""

    opening: Pattern
    suffix: Pattern
    shape: ObjectShape | None
    syntax: Syntax | None
    """Of the arguments; ``None`` where each argument has a template."""
    arguments: bool
    """Whether the form holds arguments at all."""
    marked: bool
    forced: bool = False
    """A bare object accepted because the request demands a call."""


class Block(msgspec.Struct, eq=False):
    """One way a block of calls is written."""

    prefix: Pattern
    suffix: Pattern
    lead: str
    trail: str
    marked: bool
    margin: str = ""
    """White space that it takes from the text before it: its own, or the longest of all."""
    inner: "list[Opening]" = msgspec.field(default_factory=list)
    """The calls that may follow in it, where they are not the dialect's."""


class Opening(msgspec.Struct, eq=False):
    """Something that may begin here."""

    kind: str
    pattern: Pattern
    template: Template | None = None
    block: Block | None = None
    form: Form | None = None
    marked: bool = True
    """Whether letters or digits tell it from text; where not, it counts for declared tools, where content or a line
    begins."""
    spaced: bool = False
    """Not marked, it counts behind any space too."""


class Stray(msgspec.Struct, eq=False):
    """A marker that may stand in content and open or close nothing."""

    pattern: Pattern
    opens: bool
    closings: list[Pattern]
    """Of an opening: what would close it."""


class Parameter(msgspec.Struct, eq=False):
    """One way an argument is written."""

    opening: Pattern
    closing: Pattern
    lead: str
    trail: str
    find: re.Pattern[str]
    """Finds what may end its value: its own closing, its call's, its block's, the next argument's opening."""
    triggers: frozenset[str]
    firsts: str
    """The characters that those begin with."""
    gap: str
    """White space between a value and the next argument's opening, where that makes up for a missing closing."""


class Scan:
    """A set of openings or closings that may stand in running text, and how to find the first of them.

    Attributes:
        triggers: the literals that they begin with.
        openings: in the order in which they are tried, the most literal first.
        find: finds a trigger, or the beginning of one at the end of the text.
        plain: matches a piece from inside a JSON string that holds nothing with which a trigger, an escape or the
            string's end begins.
    """

    find: re.Pattern[str]
    plain: re.Pattern[str]

    def __init__(self, openings: list[Opening], strays: "list[Stray] | tuple[()]" = ()) -> None:
        # Those that begin with a field cannot be found in text.
        self.openings = sorted((o for o in openings if o.pattern.first), key=_rank)
        self.triggers = firsts(x.pattern for x in (*self.openings, *strays))

    def at(self, text: str, i: int) -> int:
        """Whether a trigger stands in a text at ``i``: 1, 0, or -1 where the text ends in it."""
        m = self.find.match(text, i)
        return 0 if m is None else 1 if m.group() in self.triggers else -1

    def __getattr__(self, name: str) -> re.Pattern[str]:
        # Compiled when it is first asked for: most of a dialect's sets never are.
        if name == "find":
            self.find = finder(self.triggers)
            return self.find
        if name == "plain":
            firsts = "".join(sorted({re.escape(t[0]) for t in self.triggers}))
            self.plain = re.compile(rf'[^"\\\x00-\x1f{firsts}]++')
            return self.plain
        raise AttributeError(name)


def _rank(o: Opening) -> tuple[int, int]:
    # The most literal reading wins; what ends a turn comes last among equals.
    return (-o.pattern.weight, o.kind in (END, START))


def tags(pattern: Pattern) -> list[Pattern]:
    """The tags and special tokens that a pattern is made of, as far as they hold no field."""
    found: list[Pattern] = []
    group: list[Atom] = []
    for atom in (*pattern.atoms, None):
        if atom is not None and atom.kind == SPACE:
            continue
        text = "".join(a.text for a in group)
        whole = group and (text[-1] in "]>" or not any(c.isalnum() for c in text))
        if group and (atom is None or (whole and (atom.kind != LITERAL or atom.text[0] in "<[]"))):
            fixed = all(a.kind == LITERAL for a in group)
            if fixed and text[-1] in "]>" and text[0] in "<[]" and any(c.isalnum() for c in text):
                found.append(spaced(group))
            group = []
        if atom is not None:
            group.append(atom)
    return found


class Plan(msgspec.Struct, eq=False):
    """The compiled dialect. The lists of openings are ordered: the most literal reading first."""

    dialect: Dialect
    policy: Policy
    framed: bool
    forms: list[Form]
    blocks: list[Block]
    parameters: list[Parameter]
    items: list[Parameter]
    edge: list[Opening]
    """All that may begin at a boundary."""
    edge_plain: list[Opening]
    """The same without calls."""
    text: Scan
    """What may begin in content outside frames."""
    text_plain: Scan
    frame: Scan
    """What may begin or close in a frame."""
    frame_plain: Scan
    reasoning: Scan
    reasoning_calls: Scan
    """The same with calls, where a call may stand in reasoning."""
    undecided: Scan
    undecided_plain: Scan
    resuming: list[Opening]
    """What may follow a call in reasoning, other than more reasoning."""
    thought_ends: Scan
    """What closes reasoning."""
    strays: list[Stray]
    """Markers that open or close nothing where they stand in content."""
    strays_plain: list[Stray]
    reasoning_ends: list[Opening]
    reasoning_lead: str
    inner: list[Opening]
    """Calls as they stand in a block, by themselves."""
    inner_bare: list[Opening]
    """The same where the block is not marked."""
    block_text: Scan
    """What ends stray text in a block."""
    separator: Pattern
    comma: Pattern
    """What separates arguments."""
    breaks: bool
    """Whether arguments are written with line breaks."""
    quoted: bool
    """Whether a string that would read as something else is written in double quotes."""
    suffixes: list[Pattern]
    """Closings of calls."""
    block_suffixes: list[Block]
    ends: list[Opening]
    recover: Scan
    """Where a call whose arguments went wrong ends."""
    string_ends: Scan
    """What ends a call even inside an open string, where the policy says so."""
    margin: str
    """White space whose parts a block of calls, or reasoning, may take from the text before it."""
    margin_plain: str
    """The same of reasoning alone."""
    reasoning_trail: str
    reasoning_inner: str
    literals: frozenset[str]
    """All literals, for recognising special tokens by id."""
    frame_inner: str
    frame_trail: str
    content_lead: str
    """White space before a turn's first text, where content has no markers of its own."""
    content_trail: str
    """The same behind its last one."""


def _longest(texts: list[str]) -> str:
    return max(texts, key=len, default="")


def _margin(texts: list[str]) -> str:
    """A text that holds all of them."""
    whole = ""
    for text in sorted(texts, key=len, reverse=True):
        whole += "" if text in whole else text
    return whole


def _literals(parts: tuple[Piece, ...]) -> str:
    return "".join(p for p in parts if isinstance(p, str))


def _unstarted(parts: tuple[Piece, ...], starts: tuple[str, ...]) -> tuple[Piece, ...]:
    """A template's opening without the ``start`` that the prompt holds already."""
    if parts and isinstance(parts[0], str):
        for start in sorted(starts, key=len, reverse=True):
            if parts[0].startswith(start):
                rest = parts[0][len(start) :].lstrip()
                return (rest, *parts[1:]) if rest else parts[1:]
    return parts


def marked(parts: tuple[Piece, ...]) -> bool:
    """Whether a letter or digit tells an opening from plain text; the language of a code fence does not."""
    text = _literals(parts)
    if parts and isinstance(parts[0], str) and parts[0].startswith("```"):
        text = _FENCE.sub("", text, count=1)
    return any(c.isalnum() for c in text)


def _form(t: Template, d: Dialect, barriers: tuple[str, ...]) -> Form:
    before = _unstarted(t.before, d.start)
    syntax: Syntax | None
    if t.object is not None:
        quote = t.object.quote
        syntax = Syntax.PYTHON if quote == "'" else Syntax.JSON
        opening = Pattern((*before, "{"), barriers)
    else:
        opening = Pattern(before, barriers)
        if d.argument:
            syntax = None
        elif d.quote != '"':
            syntax = Syntax.QUOTE
        else:
            syntax = Syntax.PYTHON if d.codec == "python" else Syntax.JSON
    return Form(opening, closing(t.after), t.object, syntax, bool(t.body), marked(before))


_FORCED = ObjectShape((("name", "name"), ("arguments", "arguments")), False, '"')


def compile_plan(d: Dialect, policy: Policy, choice: str = "auto") -> Plan:
    """Compile a dialect under a policy; where the ``choice`` demands a call, bare objects are calls."""
    policy = policy.over(d.policy).over(DEFAULTS)
    forced = choice if choice in ("required", "named") else ""
    key = (policy, forced)
    if key not in d.compiled:
        d.compiled[key] = _compile(d, policy, forced)
    plan: Plan = d.compiled[key]
    return plan


def _compile(d: Dialect, policy: Policy, forced: str) -> Plan:
    barriers = (*(e.strip() for e in d.end), *(s.strip() for s in d.start))
    forms = [_form(t, d, barriers) for t in d.call]
    blocks = [
        Block(
            Pattern(_unstarted(t.before, d.start), barriers),
            closing(t.after),
            t.lead,
            t.trail,
            marked(t.before),
        )
        for t in d.calls
    ]
    if forms and policy.bare_calls and all(b.prefix for b in blocks):
        blocks.append(Block(Pattern(()), Pattern(()), "", "", False))
    calls = [
        Opening(
            CALL,
            joined(b.prefix, f.opening),
            block=b,
            form=f,
            marked=b.marked or (f.marked and not b.prefix),
            spaced=" " in b.lead,
        )
        for b in blocks
        for f in forms
    ]
    extra: list[Opening] = []
    if forced and forms:
        bare = Form(Pattern(("{",)), Pattern(()), _FORCED, Syntax.JSON, True, False, True)
        for prefix, suffix in (((), ()), (("[",), ("]",))):
            inner_call = Opening(CALL, bare.opening, form=bare, marked=False)
            block = Block(Pattern(prefix), Pattern(suffix), "", "", False, inner=[inner_call])
            extra.append(Opening(CALL, joined(block.prefix, bare.opening), block=block, form=bare, marked=False))
    # Tags of reasoning are read in any case: models write `<Think>` too.
    reasoning = [
        Opening(REASONING, Pattern(_unstarted(t.before, d.start), barriers, any_case=True), template=t)
        for t in d.reasoning
    ]
    framed_parts = [t for t in (*d.content, *d.preamble) if t.before or t.after]
    frames = [
        Opening(FRAME, Pattern(_unstarted(t.before, d.start), barriers), template=t) for t in framed_parts if t.before
    ]
    ends = [Opening(END, Pattern((e.strip(),))) for e in d.end if e.strip()]
    starts = [Opening(START, Pattern((s.strip(),))) for s in d.start if s.strip()]
    framed = bool(frames)
    edge_plain = sorted([*reasoning, *frames, *ends, *starts], key=_rank)
    longest = _longest([b.lead for b in blocks] + [t.lead for t in d.reasoning])
    for block in blocks:
        block.margin = block.lead or longest
    frame_ends = [Opening(FRAME_END, closing(t.after), template=t) for t in framed_parts if t.after]
    reasoning_ends = [Opening(REASONING_END, closing(t.after, any_case=True), template=t) for t in d.reasoning]
    part_starts = starts if framed else []
    # A header that begins with a ``start`` is found by it.
    headers = [o for o in frames if o.template and o.pattern.weight == Pattern(o.template.before).weight]
    told_in_thoughts = [c for c in calls if c.marked and c.block and (c.block.marked or not blocks[0].marked)]
    strays, strays_plain = _strays(policy, blocks, forms, reasoning_ends, frame_ends, [*ends, *starts])
    content = [*reasoning, *headers, *ends, *part_starts]
    undecided = reasoning if policy.reasoning_in_content != "text" else []
    # Calls that are text: their closings are text too, even where they would end a frame or the turn.
    closers = {o.pattern.first for o in (*frame_ends, *ends)}
    shared = [c for c in calls if c.form and c.block and {c.form.suffix.first, c.block.suffix.first} & closers]
    call_ends = [
        *(Opening(CALL, f.suffix, form=f) for f in forms if f.suffix and f.marked),
        *(Opening(CALL, f.suffix, form=f) for f in forms if f.suffix and any(c.isalnum() for c in f.suffix.first)),
        *(Opening(CALL, b.suffix, block=b) for b in blocks if any(c.isalnum() for c in b.suffix.first)),
        *(Opening(CALL, b.suffix, block=b) for b in blocks if b.suffix.weight > 1),
    ]
    outer = [*(f.suffix.first for f in forms if f.suffix), *(b.suffix.first for b in blocks if b.suffix)]

    openings = [Pattern(t.before, barriers) for t in d.argument]
    breaks = "\n" in "".join([*(t.text for t in d.argument), d.argument_separator])

    def parameter(t: Template) -> Parameter:
        own = closing(t.after)
        triggers = frozenset((own.first, *outer, *(o.first for o in openings if o.first)))
        firsts = "".join(sorted({x[0] for x in triggers}))
        trail = t.inner_trail
        gap = "\n" if breaks and "\n" not in trail else trail
        return Parameter(Pattern(t.before, barriers), own, t.inner_lead, trail, finder(triggers), triggers, firsts, gap)

    inner = sorted((Opening(CALL, f.opening, form=f) for f in forms), key=_rank)
    return Plan(
        dialect=d,
        policy=policy,
        framed=framed,
        forms=sorted(forms, key=lambda f: -f.opening.weight),
        blocks=blocks,
        parameters=sorted(map(parameter, plain_arguments(d)), key=lambda p: -p.opening.weight),
        items=list(map(parameter, d.item)),
        edge=_edge([*calls, *edge_plain], extra, named=forced == "named"),
        edge_plain=edge_plain,
        text=Scan([*calls, *content], strays),
        text_plain=Scan([*content, *shared], strays_plain),
        frame=Scan([*frame_ends, *calls, *content], strays),
        frame_plain=Scan([*frame_ends, *content, *shared], strays_plain),
        reasoning=Scan([*reasoning_ends, *headers, *ends, *part_starts]),
        reasoning_calls=Scan([*reasoning_ends, *headers, *ends, *part_starts, *told_in_thoughts]),
        undecided=Scan([*reasoning_ends, *undecided, *(c for c in calls if c.marked), *ends]),
        undecided_plain=Scan([*reasoning_ends, *undecided, *ends]),
        resuming=sorted([*reasoning_ends, *told_in_thoughts, *edge_plain], key=_rank),
        thought_ends=Scan(reasoning_ends),
        strays=strays,
        strays_plain=strays_plain,
        reasoning_ends=reasoning_ends,
        reasoning_lead=_longest([t.inner_lead for t in d.reasoning]),
        inner=inner,
        inner_bare=[Opening(CALL, o.pattern, form=o.form, marked=o.form is not None and o.form.marked) for o in inner],
        block_text=Scan(
            [
                *(Opening(CALL, b.suffix, block=b) for b in blocks if b.suffix),
                *calls,
                *(o for o in inner if o.form and o.form.marked),
                *ends,
                *starts,
            ]
        ),
        separator=Pattern((d.call_separator.strip(),)) if d.call_separator.strip(" \t\r\n,;") else Pattern(()),
        comma=Pattern((d.argument_separator.strip(),)) if d.argument_separator.strip() else Pattern(()),
        breaks=breaks,
        quoted=len(plain_arguments(d)) < len(d.argument),
        suffixes=sorted((f.suffix for f in forms if f.suffix), key=lambda p: -p.weight),
        block_suffixes=sorted((b for b in blocks if b.suffix), key=lambda b: -b.suffix.weight),
        ends=[*ends, *starts],
        recover=Scan(
            [
                *call_ends,
                *ends,
                *starts,
                *(c for c in calls if (c.marked and c.form and c.form.marked) or (c.block and c.block.marked)),
            ]
        ),
        string_ends=Scan(_string_ends(forms, blocks)),
        margin=_margin([*(b.lead for b in blocks), *(t.lead for t in d.reasoning)]),
        margin_plain=_longest([t.lead for t in d.reasoning]),
        reasoning_trail=_longest([t.trail for t in d.reasoning]),
        reasoning_inner=_longest([t.inner_trail for t in d.reasoning]),
        literals=frozenset(_all_literals(d)),
        frame_inner=_longest([t.inner_trail for t in framed_parts]),
        frame_trail=_longest([t.trail for t in framed_parts]),
        content_lead="" if d.framed else _longest([t.inner_lead for t in d.content]),
        content_trail="" if d.framed else _longest([t.inner_trail for t in d.content]),
    )


def _strays(
    policy: Policy,
    blocks: list[Block],
    forms: list[Form],
    reasoning_ends: list[Opening],
    frame_ends: list[Opening],
    ends: list[Opening],
) -> tuple[list[Stray], list[Stray]]:
    """The markers that are dropped where they open or close nothing, and those of them that are no calls'."""
    if policy.stray_markers != "drop":
        return [], []
    known = {text(o.pattern) for o in ends}

    def closings(*patterns: Pattern) -> list[Stray]:
        return [Stray(t, False, []) for p in patterns for t in tags(p) if text(t) not in known]

    plain = _distinct(closings(*(o.pattern for o in (*reasoning_ends, *frame_ends))))
    pairs = [*((b.prefix, b.suffix) for b in blocks), *((f.opening.head(), f.suffix) for f in forms)]
    openings: list[Stray] = []
    for head, suffix in pairs:
        first = tags(head)[:1]
        if first and text(head).startswith(text(first[0])):
            openings += [Stray(p, True, [suffix, *tags(suffix)]) for p in (head, *first)]
    return _distinct([*openings, *plain, *closings(*(suffix for _, suffix in pairs))]), plain


def _distinct(strays: list[Stray]) -> list[Stray]:
    """Each marker once, an opening with all its closings; the longest first."""
    found: dict[tuple[str, bool], Stray] = {}
    for s in strays:
        known = found.setdefault((text(s.pattern), s.opens), Stray(s.pattern, s.opens, []))
        told = {text(c) for c in known.closings}
        known.closings += [c for c in s.closings if c and text(c) not in told]
    return sorted(found.values(), key=lambda s: -s.pattern.weight)


def text(pattern: Pattern) -> str:
    """The literals of a pattern."""
    return "".join(a.text for a in pattern.atoms if a.kind == LITERAL)


def plain_arguments(d: Dialect) -> list[Template]:
    """The templates of arguments without the one for strings that would read as something else without quotes."""
    return [t for t in d.argument if not quotes_value(t, d)]


def quotes_value(t: Template, d: Dialect) -> bool:
    """Whether a template is the dialect's first for arguments, but for double quotes around the value."""
    return '"{value}"' in t.text and t.text.replace('"{value}"', "{value}") == d.argument[0].text


def _string_ends(forms: list[Form], blocks: list[Block]) -> list[Opening]:
    """The closings of calls, and of blocks where calls have none of their own; only those with a word in them."""
    found = [Opening(CALL, f.suffix, form=f) for f in forms if f.suffix.worded]
    if len(found) < len(forms):
        found += [Opening(CALL, b.suffix, block=b) for b in blocks if b.suffix.worded]
    return found


def string_ends(plan: Plan) -> tuple[str, ...]:
    """The markers that a JSON string must not spell, since they would end it under the plan's policy."""
    if plan.policy.markers_in_strings != "end":
        return ()
    atoms = [a for o in plan.string_ends.openings for a in o.pattern.atoms if a.kind == LITERAL]
    return tuple(dict.fromkeys(a.text for a in atoms if any(c.isalnum() for c in a.text)))


def _edge(openings: list[Opening], extra: list[Opening], *, named: bool) -> list[Opening]:
    ranked = sorted(openings, key=_rank)
    if not named:
        return [*ranked, *extra]
    # A named choice reads a bare object in its own way.
    return [*(o for o in ranked if o.marked), *extra, *(o for o in ranked if not o.marked)]


def _all_literals(d: Dialect) -> list[str]:
    templates = (*d.reasoning, *d.content, *d.preamble, *d.calls, *d.call, *d.argument, *d.item)
    found = [p.strip() for t in templates for p in (*t.before, *t.after) if isinstance(p, str)]
    return [t for t in (*found, *d.end, *d.start, d.quote) if t.strip() and t != '"']
