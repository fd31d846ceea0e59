"""Compiles a dialect into a plan: which of its markers count, where, and in which order."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from ..policy import DEFAULTS, Policy
from ..regex import Regex
from .file import Dialect
from .loose import Loose, value_tags
from .markers import (
    BLOCK_END,
    CALL,
    CALL_END,
    END,
    FRAME,
    FRAME_END,
    REASONING,
    REASONING_END,
    START,
    Block,
    CallOpening,
    Candidates,
    Closing,
    Form,
    Marker,
    Opening,
    Outline,
    Parameter,
    Region,
    Scan,
    Siblings,
    Stray,
    literals_of,
    ranked,
    tag_of,
    tags,
)
from .patterns import (
    ANY,
    DIGITS,
    LITERAL,
    NAME,
    SPACE,
    TAG_ENDS,
    Atom,
    Pattern,
    closing,
    joined,
    pattern,
    solid,
    worded,
)
from .plan import ArgumentPlan, CallPlan, Plan, ReasoningPlan
from .syntax import Syntax
from .template import ObjectShape, Piece, Template, parse_template, text_of, unstarted

_M = TypeVar("_M", bound=Marker)
_Firm = TypeVar("_Firm", CallOpening, Stray)
_FENCE = Regex(r"```\w*")
_TAG_OF_CALL = Regex(r"""(<[^<>]+\{name\}["']?)>\s*\{arguments\}.*?</[^<>]*>""", re.DOTALL)
"""A call from its tag, which ends with its name, to the tag's closing."""


def _longest(texts: list[str]) -> str:
    return max(texts, key=len, default="")


def _margin(texts: list[str]) -> str:
    """A margin that contains all of these."""
    whole = ""
    for each in sorted(texts, key=len, reverse=True):
        whole += "" if each in whole else each
    return whole


def _unstarted(parts: tuple[Piece, ...], starts: tuple[str, ...]) -> tuple[Piece, ...]:
    """A template's opening without the ``start`` that the prompt already contains."""
    if parts and isinstance(parts[0], str) and (rest := unstarted(parts[0], starts)) != parts[0]:
        return (rest.lstrip(), *parts[1:]) if rest.strip() else parts[1:]
    return parts


def _openings(t: Template, d: Dialect) -> list[tuple[Piece, ...]]:
    """The openings of a template: without the ``start`` that the prompt contains; also in full, if that is only the
    end of a ``start`` with which other parts begin too."""
    rest = _unstarted(t.before, d.start)
    if rest is t.before:
        return [rest]
    if not rest and t.body == "reasoning":
        return [t.before]  # nothing opens no reasoning; where the prompt does, the stage says so
    shared = text_of(t.before).removesuffix(text_of(rest)).strip()
    return [rest, t.before] if shared and shared not in map(str.strip, d.start) else [rest]


def marked(parts: tuple[Piece, ...], anywhere: tuple[str, ...] = ()) -> bool:
    """Whether an opening counts anywhere in text: a letter or digit distinguishes it (the language of a code fence
    does not), or the file says so."""
    text = text_of(parts)
    if parts and isinstance(parts[0], str) and parts[0].startswith(tuple(a for a in anywhere if a.strip(_BRACKETS))):
        return True
    if parts and isinstance(parts[0], str) and parts[0].startswith("```"):
        text = _FENCE.sub("", text, count=1)
    if parts and not isinstance(parts[0], str) and text.lstrip(" .")[:1].isalnum():
        return False  # a name and a word, as in code and prose
    return worded(text)


def is_listed(text: str, anywhere: tuple[str, ...]) -> bool:
    """Whether a text begins with an opening that counts anywhere because the file lists it."""
    return any(solid(text).startswith(solid(a)) for a in anywhere)


_BRACKETS: Final = "[{("


def loose(block: Template, call: Template, anywhere: tuple[str, ...]) -> bool:
    """Whether calls may begin anywhere in text, but only of declared tools: the file lists mere brackets."""
    return any((block.opening + call.opening).startswith(a) for a in anywhere if not a.strip(_BRACKETS))


def _form(t: Template, before: tuple[Piece, ...], d: Dialect, discount: int = 0) -> Form:
    opening = pattern(before if t.object is None else (*before, " {"), d.barriers)
    syntax: str | None
    if t.object is not None:
        syntax = Syntax.PYTHON if t.object.quote == "'" else Syntax.JSON
    elif d.argument:
        syntax = None
    elif d.codec.quote != '"':
        syntax = Syntax.QUOTE
    else:
        keywords = t is not d.call[0] and t.opening.endswith("(") and t.closing.startswith(")")
        syntax = Syntax.PYTHON if keywords or d.codec.name == "python" else Syntax.JSON
    known = marked(before, d.anywhere) or (before != t.before and marked(t.before, d.anywhere))
    return Form(opening, closing(t.after), t.object, syntax, bool(t.body), known, discount=discount, template=t)


def _text_forms(d: Dialect) -> list[Form]:
    """The forms of calls whose only argument is bare text."""
    return [
        Form(
            pattern(_unstarted(t.before, d.start), d.barriers),
            end := closing(t.after),
            None,
            Syntax.TEXT,
            True,
            marked(t.before, d.anywhere),
            name=one.name,
            key=one.key,
            triggers=frozenset((end.first, *filter(None, d.barriers))),
            template=t,
        )
        for one in d.trained.text
        for t in one.templates
    ]


_FORCED = ObjectShape((("name", "name"), ("arguments", "arguments")), False, '"')
_LISTS = ((pattern(()), pattern(())), (pattern(("[",)), pattern(("]",))))  # around one object, and around several
_OBJECT = Form(pattern(("{",)), pattern(()), _FORCED, Syntax.JSON, True, False, other=True)
"""A call in the syntax of other dialects."""


_MOST = 32  # how much of what is derived from a dialect is kept: a server's clients may ask for thousands of policies


def compile_plan(d: Dialect, policy: Policy | None = None, choice: str = "auto") -> Plan:
    """Compile a dialect under a policy (``None``: its own). If ``choice`` demands a call, a bare object is one."""
    asked = (policy, choice)
    plan: Plan | None = d.compiled.get(asked)
    if plan is None:
        filled = (policy or Policy()).over(d.policy).over(DEFAULTS)
        forced = choice if choice in ("required", "named") else ""
        if len(d.compiled) >= _MOST:
            d.compiled.clear()  # anything in it is derived again
        made = d.derived((filled, forced), lambda d: _compile(d, filled, forced))
        plan = d.derived(asked, lambda d: made)
    return plan


def _has_token(pattern: Pattern) -> bool:
    """Whether a pattern begins with a special token, which no prose contains."""
    return tag_of(pattern).startswith(("<|", "<｜"))


def _firm(d: Dialect, markers: list[_Firm]) -> list[_Firm]:
    """Markers without the tags that are no special tokens, where a call is a message of its own: in a message with a
    header, which may be prose, these open and close none."""
    own = any(_unstarted(t.before, d.start) != t.before for t in d.call[:1])
    return [o for o in markers if not own or o.pattern.first[:1] != "<" or _has_token(o.pattern)]


class _Markers(msgspec.Struct, frozen=True, dict=True):
    """A dialect's markers, grouped by what they open or close."""

    policy: Policy
    forms: list[Form]
    inside: list[Form]  # the calls that may come after another call
    blocks: list[Block]
    calls: list[CallOpening]  # calls with their block's opening
    forced: list[CallOpening]  # bare objects, if the request demands a call
    reasoning: list[Opening]
    frames: list[Opening]
    ends: list[Closing]
    starts: list[Opening]
    frame_ends: list[Closing]
    reasoning_ends: list[Closing]
    words: frozenset[str]
    """What begins a message only where none has begun: openings without their ``start``, and starts without a tag."""

    def within(self, markers: Iterable[_M]) -> list[_M]:
        """The markers that count in a message that has begun."""
        return [m for m in markers if m.pattern.first not in self.words]

    @cached_property
    def headers(self) -> list[Opening]:
        """The openings of frames in full (those that begin with a ``start`` are found by it), or from a token to a
        token, unless they end other openings too."""
        texts = {literals_of(o.pattern) for o in (*self.frames, *self.reasoning)}
        ends = {t for t in texts if any(other != t and other.endswith(t) for other in texts)}
        return [
            o
            for o in self.frames
            if (o.template and o.pattern.weight == pattern(o.template.before).weight)
            or (_has_token(o.pattern) and not worded((written := literals_of(o.pattern))[-1:]) and written not in ends)
        ]

    @property
    def thought_calls(self) -> list[CallOpening]:
        """The calls that may be in reasoning: with the opening of their block, or the token with which they begin."""
        blocks = self.blocks
        marked = [c for c in self.calls if c.marked and c.block]
        return [c for c in marked if c.block and (c.block.marked or not blocks[0].marked or _has_token(c.pattern))]

    @cached_property
    def others(self) -> list[Marker]:
        """Everything that may begin at a boundary, except calls."""
        return ranked([*self.reasoning, *self.frames, *self.ends, *self.starts])


def _compile(d: Dialect, policy: Policy, forced: str) -> Plan:
    parts = _parts(d, policy, forced)
    parameters = Siblings(sorted(_parameters(d, parts, argument_templates(d)), key=lambda p: -p.opening.weight))
    strays, strays_in_text = _strays(parts, parameters)
    reading = _outline(d, parts, strays, calls=True, named=forced == "named")
    plain = _outline(d, parts, strays_in_text, calls=False, named=False)
    calls = _calls(d, parts, reading)
    ends: Candidates[Marker] = Candidates([*parts.ends, *parts.starts])
    return Plan(
        dialect=d,
        policy=policy,
        framed=bool(parts.frames),
        headed=any(_unstarted(t.before, d.start) != t.before for t in _framed(d)),
        reading=reading,
        plain=plain,
        reasoning=ReasoningPlan(
            closings=[o.pattern for o in parts.reasoning_ends],
            ends_in_text=Scan(parts.reasoning_ends),
            resuming=ranked([*parts.reasoning_ends, *parts.thought_calls, *parts.others]),
            lead=_longest([t.inner_lead for t in d.reasoning]),
            trail=_longest([t.trail for t in d.reasoning]),
        ),
        calls=calls,
        arguments=ArgumentPlan(
            parameters=parameters,
            items=Siblings(_parameters(d, parts, d.item)),
            token=next((p.token for p in parameters if p.token), ""),
            comma=pattern((d.separator.arguments.strip(),)) if d.separator.arguments.strip() else pattern(()),
            breaks=_breaks(d),
            quoted=len(argument_templates(d)) < len(d.argument),
            closings=calls.closings,
            stray_closings=_stray_closings(parameters),
            others=[m.pattern for m in (*ends, *calls.following_inside) if m.pattern.first],
        ),
        ends=ends,
        content_lead="" if parts.frames else _longest([t.inner_lead for t in d.content]),
        frame_trail=_longest([t.trail for t in _framed(d)]),
        literals=frozenset(_all_literals(d)),
    )


def _stray_closings(parameters: list[Parameter]) -> list[Pattern]:
    tags = (tag for p in parameters for tag in (p.closing, *value_tags(p.opening)))
    closings = {tag.first: tag for tag in tags if tag.alone and tag.first.startswith(("</", "[/")) and tag_of(tag)}
    return [*closings.values()]


def _calls(d: Dialect, parts: _Markers, reading: Outline) -> CallPlan:
    forms, blocks = parts.forms, parts.blocks
    inner = ranked(CallOpening(CALL, f.opening, form=f) for f in parts.inside)
    readable = any(c.form is _OBJECT for c in parts.calls)
    objects = [CallOpening(CALL, _OBJECT.opening, False, form=_OBJECT)] if readable else []
    named = _named(d, parts) if d.argument else []
    ordered = sorted(forms, key=lambda f: -f.opening.weight)
    call_closings = sorted((f.closing for f in forms if f.closing), key=lambda p: -p.weight)
    block_closings = sorted((b.closing for b in blocks if b.closing), key=lambda p: -p.weight)
    return CallPlan(
        forms=ordered,
        blocks=blocks,
        inner=Candidates([*inner, *objects]),
        begun=_begun(parts),
        unopened=_unopened(parts),
        inner_bare=Candidates(CallOpening(CALL, o.pattern, o.form.marked, form=o.form) for o in inner),
        following=Candidates(_next_calls(reading.edge)),
        following_inside=Candidates([*parts.within(_next_calls([*reading.edge, *inner])), *named]),
        separator=pattern((d.separator.calls.strip(),)) if d.separator.calls.strip(" \t\r\n,;") else pattern(()),
        block_text=_block_text(parts, inner),
        block_trail=_longest([b.trail for b in blocks]),
        call_openings=[f.opening for f in ordered if f.marked],
        call_closings=call_closings,
        argument_followers=[*call_closings, *_behind_brackets(forms)],
        block_closings=block_closings,
        bare_closings=_bare(block_closings),
        closings=[*call_closings, *block_closings],
        recover=_recover(parts),
        string_ends=_string_ends(parts),
    )


def _behind_brackets(forms: list[Form]) -> list[Pattern]:
    """The closings of calls that open with a bracket, with its closing bracket before them, also with one too many."""
    brackets = [[pattern((bracket,)) for bracket in written] for written in (")", "))", ")]", ")}")]
    return [joined(*each, f.closing) for f in forms if f.closing and f.bracketed for each in brackets]


def _named(d: Dialect, parts: _Markers) -> list[CallOpening]:
    """In markup, calls that no word marks, or that begin with their name or number: they count if the tool is declared
    and no argument begins alike."""
    alike = tuple(first for t in d.argument if (first := _argument(d, t).first))
    others = [f for f in parts.inside if f.opening and not (f.marked and f.opening.first)]
    begun = [f for f in others if f.opening.atoms[0].kind in (LITERAL, NAME, DIGITS)]
    return [CallOpening(CALL, f.opening, False, form=f) for f in begun if not f.opening.first.startswith(alike)]


def _begun(parts: _Markers) -> list[CallOpening]:
    """Calls without their first marker, or without all text before their first field."""
    forms = [f for f in parts.inside if f.shape is None and f.marked and f.opening.first]
    begun = [(f, f.opening.behind(n)) for f in forms for n in sorted({1, len(f.opening.head().atoms)})]
    return [CallOpening(CALL, p, form=f) for f, p in begun if p.last_name >= 0 and p.atoms[0].kind in (LITERAL, NAME)]


def _bare(closings: list[Pattern]) -> list[Pattern]:
    bare = ((closing, closing.unbracketed()) for closing in closings)
    return [rest for whole, rest in bare if rest is not whole and worded(rest.first)]


def _framed(d: Dialect) -> list[Template]:
    return [t for t in (*d.content, *d.preamble) if t.before or t.after]


def _breaks(d: Dialect) -> tuple[str, ...]:
    """A line break, and one with what comes before an argument; empty if arguments are written without line breaks."""
    if "\n" not in "".join([*(t.text for t in d.argument), d.separator.arguments]):
        return ()
    indents = [_between(d, t).rpartition("\n")[2] for t in d.argument]
    return tuple(dict.fromkeys(("\n", *(f"\n{indent}" for indent in indents))))


def _between(d: Dialect, t: Template) -> str:
    return t.trail + d.separator.arguments + t.lead


def _gap(d: Dialect, t: Template) -> str:
    """What is between a value and the next argument, if the marker that closes the value is missing."""
    trail, between = t.inner_trail, _between(d, t)
    broken = "\n" in trail + between or not _breaks(d)
    shared = next(k for k in range(len(between), -1, -1) if trail.endswith(between[:k]))
    return trail + ("" if broken else "\n") + between[shared:]


def _parts(d: Dialect, policy: Policy, forced: str) -> _Markers:  # a line for each kind
    def openings(kind: str, t: Template, *, any_case: bool = False) -> list[Opening]:
        return [Opening(kind, pattern(b, d.barriers, any_case=any_case), template=t) for b in _openings(t, d)]

    forms, blocks = _forms(d), _blocks(d, policy)
    framed = _framed(d)
    return _Markers(
        policy=policy,
        forms=forms,
        inside=list({f.template and f.template.text: f for f in forms}.values()),  # the last, whose opening is in full
        blocks=blocks,
        calls=[*(_call(d, b, f) for b in blocks for f in forms if _alike(d, b, f)), *_objects(blocks, forms, framed)],
        forced=_forced_calls() if forced and forms else [],
        # Tags of reasoning are matched in any case: models write `<Think>` too.
        reasoning=[o for t in d.reasoning for o in openings(REASONING, t, any_case=True)],
        frames=[o for t in framed if t.before for o in openings(FRAME, t)],
        ends=[Closing(END, pattern((e.strip(),))) for e in d.end if e.strip()],
        starts=[Opening(START, pattern((s,))) for s in _starts(d)],
        words=_words(d),
        frame_ends=[Closing(FRAME_END, closing(t.after)) for t in framed if t.after],
        reasoning_ends=[Closing(REASONING_END, closing(t.after, any_case=True)) for t in d.reasoning],
    )


def _forms(d: Dialect) -> list[Form]:  # a line for each field that depends on the others
    forms = [_form(t, before, d) for t in d.call for before in _openings(t, d)]
    for t in _self_closing(d):  # most calls do not close themselves
        discount = len(solid(t.text.rpartition("{name}")[2]))
        forms += [_form(t, before, d, discount) for before in _openings(t, d)]
    forms += _text_forms(d)
    named = {literals_of(f.opening) for f in forms if ANY not in [a.kind for a in f.opening.atoms]}
    with_word = {f.opening.first for f in forms if _has_word(f.opening)}
    for form in forms:
        kinds = [a.kind for a in form.opening.atoms if a.kind != SPACE]
        form.demands = [k for k in kinds if k in (ANY, NAME)][:1] == [ANY] and literals_of(form.opening) in named
        form.wordless = kinds == [LITERAL, NAME] and form.opening.first in with_word
    return forms


def _has_word(opening: Pattern) -> bool:
    """Whether an opening has a word after its first literal; others are that literal and a name."""
    return any(map(worded, [a.text for a in opening.atoms if a.kind == LITERAL][1:]))


def _self_closing(d: Dialect) -> list[Template]:
    """Calls whose tag ends with their name and closes itself, which are read and never written."""
    texts = {_TAG_OF_CALL.sub(r"\1 />", t.text): t for t in d.call if t.object is None}
    known = {solid(t.text) for t in d.call}
    return [
        msgspec.structs.replace(parse_template("call", text, d.name), spelled=t.spelled)
        for text, t in texts.items()
        if solid(text) not in known
    ]


def _starts(d: Dialect) -> list[str]:
    """What begins a turn; also with its token twice, if headers begin so."""
    starts = [s.strip() for s in d.start if s.strip()]
    if not any(_unstarted(t.before, d.start) != t.before for t in _framed(d)):
        return starts
    tags = [(tag_of(pattern((s,))), s) for s in starts]
    return [*starts, *(tag + s for tag, s in tags if tag not in ("", s))]


def _words(d: Dialect) -> frozenset[str]:
    texts = (t for one in d.trained.text for t in one.templates)
    parts = [t for t in (*d.reasoning, *_framed(d), *d.calls, *d.call, *texts) if t.before]
    unstarted = [before for t in parts for before in _openings(t, d) if before != t.before]
    begun = [pattern(before) for before in (*unstarted, *((s.strip(),) for s in d.start if s.strip()))]
    return frozenset(p.first for p in begun if p.first and not tag_of(p) and not is_listed(p.first, d.anywhere))


def _blocks(d: Dialect, policy: Policy) -> list[Block]:
    blocks = [
        Block(pattern(before, d.barriers), closing(t.after), t.lead, t.trail, marked(before, d.anywhere), template=t)
        for t in d.calls
        for before in _openings(t, d)
    ]
    if d.call and policy.bare_calls and all(b.opening for b in blocks):
        blocks.append(Block(pattern(()), pattern(()), "", "", False))
    longest = _longest([b.lead for b in blocks] + [t.lead for t in d.reasoning])
    for block in blocks:
        block.margin = block.lead or longest
    return blocks


def _alike(d: Dialect, b: Block, f: Form) -> bool:
    """Whether a block and the first call in it are spelled alike."""
    inside = None if f.template is None else f.template.spelled
    around = None if b.template is None else b.template.spelled
    if not b.opening or around == inside:
        return True
    if around is None:
        return inside not in [t.spelled for t in d.calls]
    return inside is None and around not in [t.spelled for t in d.call]


def _call(d: Dialect, b: Block, f: Form) -> CallOpening:
    marked = b.marked or (f.marked and not b.opening)
    anywhere = b.template is not None and f.template is not None and loose(b.template, f.template, d.anywhere)
    spaced = " " in b.lead
    return CallOpening(CALL, joined(b.opening, f.opening), marked, block=b, form=f, spaced=spaced, anywhere=anywhere)


def _objects(blocks: list[Block], forms: list[Form], framed: list[Template]) -> list[CallOpening]:
    """Objects, and lists of them, in the blocks of a dialect that writes none."""
    if any(f.shape is not None and f.shape.quote == '"' for f in forms):
        return []
    pairs = [(b.opening, b.closing) for b in blocks if b.opening and b.marked]
    if not pairs and not framed:  # each call may be its own block
        pairs = [(pattern((tag,)), f.closing) for f in forms if (tag := tag_of(f.opening)) and f.closing]
    found = []
    for before, after in {(literals_of(a), literals_of(b)): (a, b) for a, b in pairs}.values():
        for begin, end in _LISTS:
            block = Block(joined(before, begin), joined(end, after), blocks[0].lead, "", True, blocks[0].margin)
            found.append(CallOpening(CALL, joined(block.opening, _OBJECT.opening), block=block, form=_OBJECT))
    return found


def _untagged(parts: _Markers) -> list[CallOpening]:
    """Calls without the tag with which they begin: where content begins, a word and a declared name open a call."""
    block = next((b for b in parts.blocks if not b.opening), None)
    if block is None or parts.frames:
        return []
    forms = [(f, rest) for f in parts.forms if f.shape is None and (rest := f.opening.untagged()) is not None]
    bare = [Form(rest, f.closing, None, f.syntax, f.arguments, False) for f, rest in forms]
    return [CallOpening(CALL, f.opening, False, block=block, form=f) for f in bare]


def _unopened(parts: _Markers) -> list[Form]:  # each condition leaves it text
    """Calls that are objects, without their opening; their own closing, or their block's, marks them."""
    if parts.frames or any(o.pattern.first == "{" for o in parts.calls):  # such an object is a call by itself
        return []
    found: dict[tuple[ObjectShape, str], Form] = {}
    ends = {literals_of(e.pattern) for e in parts.ends}
    for o in parts.calls:
        form, block = o.form, o.block
        if not o.marked or form.shape is None or form.shape.quote == "'" or form.shape.name_is_key or form.other:
            continue
        end = form.closing if form.closing or block is None else block.closing  # of one call, not of a list
        bare = Form(pattern(("{",)), end, form.shape, form.syntax, True, False)
        if bare.outside is not None and tag_of(end) and end.first[0] != "]" and literals_of(end) not in ends:
            found[form.shape, literals_of(end)] = bare
    return [*found.values()]


def _untagged_thoughts(parts: _Markers) -> list[Opening]:
    """Reasoning without the tag with which it begins: where the output begins, a word alone on a line opens it, if it
    is closed."""
    found = []
    for o in parts.reasoning:
        tag = tag_of(o.pattern)
        word = literals_of(o.pattern)[len(tag) :]
        lead = o.template.inner_lead if o.template else ""
        if tag and word.isalpha() and lead.startswith("\n"):
            found.append(Opening(REASONING, Pattern([Atom(LITERAL, word + "\n")]), False))
    return found


def _forced_calls() -> list[CallOpening]:
    bare = Form(pattern(("{",)), pattern(()), _FORCED, Syntax.JSON, True, False, True)
    found: list[CallOpening] = []
    for before, after in _LISTS:
        inner = [CallOpening(CALL, bare.opening, False, form=bare)]
        block = Block(before, after, "", "", False, inner=Candidates(inner))
        found.append(CallOpening(CALL, joined(before, bare.opening), False, block=block, form=bare))
    return found


def _outline(d: Dialect, parts: _Markers, strays: list[Stray], *, calls: bool, named: bool) -> Outline:
    """The markers that count when calls are read, or those that count when calls are text."""
    # A line for each field.
    ends, reasoning = parts.ends, parts.within(parts.reasoning)
    called = parts.within(parts.calls)
    openings = [*parts.within(parts.headers), *ends, *(parts.within(parts.starts) if parts.frames else [])]
    others: list[Marker] = [*reasoning, *openings]

    def content(called: list[CallOpening]) -> list[Marker]:
        return [*called, *others] if calls else [*others, *_shared(called, [*parts.frame_ends, *ends])]

    undecided = reasoning if parts.policy.reasoning_in_content != "text" else []
    marked = [c for c in called if c.marked] if calls else []
    margin = _margin([*(b.lead for b in parts.blocks if calls), *(t.lead for t in d.reasoning), *_leads(d)])
    trail = "" if parts.frames else _longest([t.inner_trail for t in d.content])
    begins = [*_untagged_thoughts(parts), *parts.others]
    edge = _edge([*parts.calls, *_untagged(parts), *begins], parts.forced, named=named) if calls else begins
    return Outline(
        calls=calls,
        edge=Candidates(edge),
        text=Region(Scan(content(called), strays), trail, margin),
        frame=Region(
            Scan([*parts.frame_ends, *content(_firm(d, called))], _firm(d, strays)),
            _longest([t.inner_trail for t in _framed(d)]),
            margin,
        ),
        reasoning=_thoughts(d, parts, openings, margin, calls=calls),
        undecided=Scan([*parts.reasoning_ends, *undecided, *marked, *ends]),
        strays=Candidates(strays),
    )


def _leads(d: Dialect) -> list[str]:
    return [t.lead for t in _framed(d) if t.before]


def _thoughts(d: Dialect, parts: _Markers, openings: list[Marker], margin: str, *, calls: bool) -> Region:
    interrupted = calls and parts.policy.call_in_reasoning != "text"
    called = _firm(d, parts.within(parts.thought_calls)) if interrupted else []
    margins = [margin] if interrupted else _leads(d)
    return Region(
        Scan([*parts.reasoning_ends, *_answers_ends(parts), *openings, *called]),
        _longest([t.inner_trail for t in d.reasoning]),
        _margin([*margins, *(t.inner_trail for t in _framed(d))]),  # an answer's closing may end reasoning
    )


def _shared(calls: list[CallOpening], ends: list[Closing]) -> list[CallOpening]:
    """Calls whose closings end a frame or the turn too, or contain what does: when calls are text, these are."""
    closers = {o.pattern.first for o in ends}
    own = [(c, c.form.closing, c.block.closing) for c in calls if c.block]
    return [c for c, *closings in own if any(t.first in closers for p in closings for t in (p, *tags(p)))]


def _answers_ends(parts: _Markers) -> list[Closing]:
    """The closings of answers that end open reasoning."""
    known = {literals_of(o.pattern) for o in (*parts.reasoning_ends, *parts.ends)}
    return [o for o in parts.frame_ends if tag_of(o.pattern) and literals_of(o.pattern) not in known]


def _argument(d: Dialect, t: Template) -> Pattern:
    """The opening of an argument. Its key also ends at what other spellings that begin alike write after it."""
    at = next((n for n, piece in enumerate(t.before, 1) if not isinstance(piece, str)), len(t.before))
    others = [u.before for u in d.argument if u.spelled and u.before != t.before and u.before[:at] == t.before[:at]]
    ends = tuple(end for before in others for end in before[at : at + 1] if isinstance(end, str))
    return pattern(t.before, d.barriers, ends=ends)


def argument_closings(t: Template, d: Dialect) -> list[Pattern]:
    """The closings of an argument: its own first, then those of its other spellings; the spelling without a token does
    not count."""
    others = [u for u in d.argument if u.spelled or (u.spelled is None and t.spelled is not None)]
    found: dict[str, Pattern] = {}
    for p in (closing(u.after) for u in (t, *others)):
        found.setdefault(literals_of(p), p)
    return [*found.values()]


def _parameters(d: Dialect, parts: _Markers, templates: Sequence[Template]) -> list[Parameter]:
    around: tuple[Form | Block, ...] = (*parts.forms, *parts.inside, *parts.blocks)
    outer = {a.closing.first for a in around if a.closing}
    rivals = [p for a in around for p in (a.closing, a.opening) if p]
    rivals += [m.pattern for m in (*parts.ends, *parts.starts)]
    opened = {id(t): _argument(d, t) for t in (*d.argument, *d.item)}
    openings = {first for t in d.argument if (first := opened[id(t)].first)}
    return [_parameter(d, t, opened[id(t)], {*outer, *openings}, rivals) for t in templates]


def _parameter(d: Dialect, t: Template, opening: Pattern, enders: set[str], rivals: list[Pattern]) -> Parameter:
    # A line for each field.
    closings = argument_closings(t, d)
    own = closings[0]
    triggers = frozenset((*(p.first for p in closings), *enders))
    gap = _gap(d, t)
    tags = value_tags(opening)
    token = opening.first.removesuffix("<")
    return Parameter(
        opening=opening,
        closing=own,
        closings=sorted(closings, key=lambda p: -p.weight),  # one may begin another: the longest counts
        lead=t.inner_lead,
        trail=t.inner_trail,
        triggers=triggers,
        heads="".join(sorted({x[0] for x in triggers})),
        gap=gap,
        held=_margin([t.inner_trail, gap]),
        vague=any(rival.first.startswith(opening.first) for rival in rivals),
        rivals=rivals,
        loose=Loose(opening, tags, own) if len(tags) > 1 else None,
        head=opening.first if _solid(opening)[1:2] == ["key"] else "",
        last=tags[-1].first if tags else "",
        token=token if own.first == f"{token}</" and _solid(own)[1:] == ["key", ">"] else "",
        repeats=opening.atoms[-1].kind == LITERAL and opening.atoms[-1].text[-1] in TAG_ENDS,
    )


def _solid(pattern: Pattern) -> list[str]:
    """The literals and fields of a pattern."""
    return [a.text for a in pattern.atoms if a.kind != SPACE]


def _next_calls(markers: Iterable[Marker]) -> list[CallOpening]:
    calls = (o for o in markers if isinstance(o, CallOpening) and o.marked and o.pattern.first)
    return [o for o in calls if o.block or o.form.marked]


def _block_text(parts: _Markers, inner: list[CallOpening]) -> Scan:
    return Scan(
        [
            *(Closing(BLOCK_END, b.closing, block=b) for b in parts.blocks if b.closing),
            *(Closing(CALL_END, f.closing) for f in parts.forms if f.closing.worded),
            *parts.within(parts.calls),
            *parts.within(o for o in inner if o.form.marked),
            *parts.ends,
            *parts.within(parts.starts),
        ],
        cuts=True,
    )


def _recover(parts: _Markers) -> Scan:  # a line for each kind of marker
    """What ends a broken call."""
    marked = (c for c in parts.calls if (c.marked and c.form.marked) or (c.block and c.block.marked))
    # In a block, the next call ends one that nothing closes.
    inside = [] if any(f.closing for f in parts.forms) else [f for f in parts.inside if f.marked]
    others = [*parts.starts, *marked, *(CallOpening(CALL, f.opening, form=f) for f in inside)]
    blocks = [(b, b.closing) for b in parts.blocks if literals_of(b.closing).strip("]}) ")]  # not brackets alone
    return Scan(
        [
            *_broken_ends(parts.forms, sure=all(b.marked for b in parts.blocks)),
            *(Closing(BLOCK_END, closing, block=b) for b, closing in blocks),
            *(Closing(BLOCK_END, rest) for rest in _bare([b.closing for b in parts.blocks])),
            *parts.ends,
            *parts.within(others),
        ]
    )


def _broken_ends(forms: list[Form], *, sure: bool) -> list[Closing]:  # a line for each kind of closing
    """The closings that end a broken call; ``sure``: a fence in a marked block also belongs to its call."""
    # Brackets after an object, or after Python arguments, close in turn, like their own.
    brackets = [f for f in forms if set(literals_of(f.closing)) <= set("]}) ")]
    nested = [f for f in brackets if f.shape is not None or f.syntax == Syntax.PYTHON]
    closed = [f for f in forms if f.closing and f not in nested and (f.marked or (sure and f.closing.weight > 1))]
    return [
        *(Closing(CALL_END, _outer(f)) for f in forms if f in closed or worded(_outer(f).first)),
        *(Closing(CALL_END, f.closing) for f in forms if f.closing.first and f.closing.last_name >= 0),
    ]


def _outer(form: Form) -> Pattern:
    """What closes a call whose objects are left open, as is an object around the call's own."""
    return form.closing if form.shape is None else form.closing.unbracketed()


def _strays(  # the groups of markers, and which of them belong to calls
    parts: _Markers, parameters: list[Parameter]
) -> tuple[list[Stray], list[Stray]]:
    """The markers that are dropped if they open or close nothing, and those of them that do not belong to calls."""
    if parts.policy.stray_markers != "drop":
        return [], []
    # What ends a turn counts by its own rule, unless it ends a part too.
    ends = {literals_of(o.pattern) for o in (*parts.ends, *parts.starts)}
    known = ends - {literals_of(o.pattern) for o in (*parts.reasoning_ends, *parts.frame_ends)}

    def closings(*patterns: Pattern) -> list[Stray]:
        return [Stray(t, False, []) for p in patterns for t in tags(p) if literals_of(t) not in known]

    pairs = [
        *((b.opening, b.closing) for b in parts.blocks),
        *((f.opening.head(), f.closing) for f in parts.forms),
    ]
    called = {literals_of(t) for _, end in pairs for t in tags(end)}
    thoughts = closings(*(o.pattern for o in parts.reasoning_ends))
    others = [*thoughts, *closings(*(o.pattern for o in parts.frame_ends))]
    # Where calls are text, so is what closes reasoning, or the turn, and may close one of them.
    called &= ends | {literals_of(s.pattern) for s in thoughts}
    plain = _distinct([s for s in others if literals_of(s.pattern) not in called])
    found = [*_stray_openings(parts, pairs), *others, *closings(*(end for _, end in pairs))]
    inner = closings(*(p.closing for p in parameters))
    return _distinct([*found, *(Stray(s.pattern, False, [], inner=True) for s in inner)]), plain


def _stray_openings(parts: _Markers, pairs: list[tuple[Pattern, Pattern]]) -> list[Stray]:
    """The openings of calls and blocks, by their pairs, that are dropped with nothing after them."""
    openings: list[Stray] = []
    for head, end in pairs:
        first = tags(head)[:1]
        if first and literals_of(head).startswith(literals_of(first[0])):
            openings += [Stray(p, True, [end, *tags(end)]) for p in (head, *first)]
    if all(b.marked and b.opening for b in parts.blocks):
        inner = (f for f in parts.forms if f.marked and f.shape is None and not tags(f.opening.head()))
        openings += [Stray(f.opening, True, [*tags(f.closing)], text=True) for f in inner if f.opening.first]
    return openings


def _distinct(strays: list[Stray]) -> list[Stray]:
    """Each marker once, an opening with all its closings; the longest first."""
    found: dict[tuple[str, bool], Stray] = {}
    for s in strays:
        known = found.setdefault((literals_of(s.pattern), s.opens), Stray(s.pattern, s.opens, [], s.text, s.inner))
        closing_texts = {literals_of(c) for c in known.closings}
        known.closings += [c for c in s.closings if c and literals_of(c) not in closing_texts]
    return sorted(found.values(), key=lambda s: -s.pattern.weight)


def argument_templates(d: Dialect) -> list[Template]:
    """The templates of arguments, without the one for strings that need quotes to be read as strings."""
    quoted = '"{value}"'  # around the value of the first template
    return [t for t in d.argument if quoted not in t.text or t.text.replace(quoted, "{value}") != d.argument[0].text]


def _string_ends(parts: _Markers) -> Scan | None:
    """The ends, and the closings of calls, or of blocks if calls have none of their own; only those with a word."""
    if parts.policy.markers_in_strings != "end":
        return None
    forms = [f for f in parts.forms if f.arguments]
    found: list[Marker] = [Closing(CALL_END, _outer(f)) for f in forms if f.closing.worded]
    if len(found) < len(forms):
        found += [Closing(BLOCK_END, b.closing, block=b) for b in parts.blocks if b.closing.worded]
    found += parts.ends
    return Scan(found) if found else None


def _edge(markers: list[Marker], forced: list[CallOpening], *, named: bool) -> list[Marker]:
    best = ranked(markers)
    blank = [m for m in best if m.kind != CALL and not m.pattern.first]  # matches anything: a message without a header
    best = [m for m in best if m not in blank]
    # A named choice reads a bare object in its own way.
    unmarked = [m for m in best if not m.marked] if named else []
    return [*(m for m in best if m not in unmarked), *forced, *unmarked, *blank]


def _all_literals(d: Dialect) -> list[str]:
    own = (t for one in d.trained.text for t in one.templates)
    found = [p.strip() for t in (*d.templates, *own) for p in (*t.before, *t.after) if isinstance(p, str)]
    return [t for t in (*found, *d.end, *d.start, d.codec.quote) if t.strip() and t != '"']
