"""Rules about markers that could be taken for other ones. `unspool check` tries them."""

import itertools
from collections.abc import Iterator

from ..compiling import compile_plan, is_listed
from ..file import Dialect
from ..markers import literals_of
from ..patterns import pattern, plain_name, solid, worded
from ..template import BODIES, Template, literal, unstarted
from .rule import Found, Rules, found, parts

ALIKE = Rules()

_TEXTS = ("reasoning", "content", "preamble")


def _opening(d: Dialect, t: Template) -> str:
    """What opens a part after a prompt, without white space."""
    return solid(unstarted(t.opening, d.start))


def _end(t: Template) -> str:
    """The closing of a part; for a call that is an object, what follows the object."""
    return "".join(p if isinstance(p, str) else f"{{{p.name}}}" for p in t.after).strip()


def _starts_frames(d: Dialect) -> bool:
    return d.framed and any(t.text.startswith(d.start) for t in d.reasoning[:1] if d.start)


# -- openings ----------------------------------------------------------------------------------------------------------


@ALIKE.row(
    "start, reasoning, calls, call", "{start!r} ends with {opening!r}, the opening of {template!r} of `{key}`",
    "{more}", "leave it out of `start`{also}",
)  # fmt: skip
def a_start_that_opens_a_part(d: Dialect) -> Iterator[Found]:
    """Reasoning, or calls; parts may share what they all begin with, since content then begins with it too."""
    opened = [("reasoning", t, t.opening) for t in d.reasoning[:1]]
    if not any(unstarted(t.opening, d.start) != t.opening for t in d.content[:1]):
        opened += [("calls", t, t.opening) for t in d.calls[:1]]
        bare = d.call[:1] if not d.calls[:1] or not d.calls[0].opening else ()
        opened += [("call", t, str(first)) for t in bare for first in t.before[:1] if isinstance(first, str)]
    for key, t, opening in opened:
        for start in d.start if opening.strip() else ():
            if not unstarted(opening, (start,)).strip():
                more, also = _STARTED[key]
                yield found("start", start=start, opening=opening.strip(), template=t, key=key, more=more, also=also)


_IN_A_CALL = ", so that every turn would begin inside a call"
_STARTED = {
    "reasoning": ("", '; if prompts have it, write stage = "reasoning"'),
    "calls": (_IN_A_CALL, '; if prompts have it, write stage = "tool_call" in the example'),
    "call": (_IN_A_CALL, ""),
}


@ALIKE.row(
    "reasoning, content, preamble, calls",
    "{template!r} opens with {opening!r}, and {other!r} of `{key}` begins with it",
    ": text could complete the longer opening", "make neither begin with the other",
)  # fmt: skip
def an_opening_that_begins_another(d: Dialect) -> Iterator[Found]:
    """Reasoning, which a prompt may open, is also compared with openings that are only read."""
    openings = [(key, i, t, _opening(d, t)) for key in (*_TEXTS, "calls") for i, t in enumerate(getattr(d, key))]
    for (key, first, t, opening), (of, i, u, longer) in itertools.product(openings, openings):
        if key == "calls" or first or not opening or longer == opening:
            continue
        if longer.startswith(opening) and (i == 0 or key == "reasoning"):
            yield found(key, template=t, opening=t.opening.strip(), other=u, key=of)


@ALIKE.row(
    "call, reasoning, content, preamble", "{template!r} begins like {other!r} of `{key}`, with {opening!r}",
    ": in text, they look the same", "make them begin differently",
)  # fmt: skip
def a_call_that_begins_like_text(d: Dialect) -> Iterator[Found]:
    """Of two that are only read, the longer one counts."""
    for (of, t), u in itertools.product(parts(d, *_TEXTS), d.call):
        opening = _opening(d, t)
        written = t is getattr(d, of)[0] or u is d.call[0]
        if opening and written and solid(literal(u.head)).startswith(opening):
            yield found("call", template=u, other=t, key=of, opening=t.opening.strip())


@ALIKE.row(
    "reasoning, content, preamble, call",
    "{template!r} opens with {opening!r}, which {call!r} contains if a tool is named {name!r}",
    ": if that call is text, it would open the part", "make them differ",
)  # fmt: skip
def an_opening_that_a_name_completes(d: Dialect) -> Iterator[Found]:
    if d.framed or all(block.opening.strip() for block in d.calls):
        return  # calls are frames, or begin in a block, whatever their names
    for (key, t), u in itertools.product(parts(d, *_TEXTS), d.call):
        if name := _name_between(_opening(d, t), u):
            yield found(key, template=t, opening=_opening(d, t), call=u, name=name)


def _name_between(opening: str, call: Template) -> str:
    """The name of a tool with which the header of a call contains an opening; empty if there is none."""
    steps = [s for s in call.steps if s.name or s.text]
    at = next((i for i, s in enumerate(steps) if s.name == "name"), -1)
    if at < 0:
        return ""
    before = solid(steps[at - 1].text) if at and not steps[at - 1].name else ""
    after = solid(steps[at + 1].text) if at + 1 < len(steps) and not steps[at + 1].name else ""
    for begin, end in itertools.combinations(range(len(opening)), 2):
        around = before.endswith(opening[:begin]) and after.startswith(opening[end:])
        if around and plain_name(opening[begin:end]):
            return opening[begin:end]
    return ""


@ALIKE.row(
    "reasoning, content, preamble", "{template!r} opens with {opening!r}, as JSON does",
    ", which a call may be if a request demands one", "write an opening with which JSON does not begin",
)  # fmt: skip
def an_opening_that_begins_json(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, *_TEXTS) if d.call else ():
        opening = _opening(d, t)
        if opening and any(bare.startswith(opening) for bare in ('[{"', '{"')):
            yield found(key, template=t, opening=opening)


_JSON = """{"a": {"a": [{"a": "a"}, ["a", null]], "a": "a"}}"""


@ALIKE.row(
    "anywhere", "{listed!r} makes {opening!r} open a call anywhere", ", and JSON contains it",
    "leave it out, or open calls with a marker that JSON does not contain",
)  # fmt: skip
def an_opening_that_json_contains(d: Dialect) -> Iterator[Found]:
    """The opening, or what of it counts by itself."""
    texts = [t.translate({34: quote}) for t in (_JSON, solid(_JSON)) for quote in (34, 39)]
    for o in compile_plan(d).calls.following if d.anywhere else ():
        if o.marked and any(
            o.pattern.match(t, i, {}) >= 0 or is_listed(t[i : o.pattern.progress(t, i, whole=True)], d.anywhere)
            for t in texts
            for i in range(len(t))
        ):
            yield found("anywhere", listed=d.anywhere[0], opening=literals_of(o.pattern))
            return


# -- closings ----------------------------------------------------------------------------------------------------------


@ALIKE.row(
    "reasoning, content, preamble, argument, item",
    "{template!r} closes with {closing!r}, and {other!r} of `{key}` begins with it", ": after text, they look the same",
    "make them begin with different characters",
)  # fmt: skip
def a_closing_that_begins_an_opening(d: Dialect) -> Iterator[Found]:
    for (key, t), (of, u) in itertools.product(parts(d, *_TEXTS, "argument", "item"), parts(d, *BODIES)):
        closing = solid(t.closing)
        if closing and u is not t and _opening(d, u).startswith(closing):
            yield found(key, template=t, closing=t.closing.strip(), other=u, key=of)


@ALIKE.row(
    "reasoning, content, preamble", "{template!r} closes with {closing!r}, and its opening begins with it",
    ": if the part opens again, they look the same", "make them differ",
)  # fmt: skip
def a_closing_that_begins_its_own_opening(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, *_TEXTS):
        if t.closing.strip() and solid(t.opening).startswith(solid(t.closing)):
            yield found(key, template=t, closing=t.closing.strip())


@ALIKE.row(
    "reasoning, content, preamble",
    "{template!r} opens with {opening!r} and closes with {closing!r}, so that {both!r} contains both",
    ": if a prompt leaves open how the output begins, it may be either",
    "begin the closing with what the opening does not end with{more}",
)
def a_closing_that_ends_its_own_opening(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, *_TEXTS):
        opening, closing = solid(t.opening), solid(t.closing)
        shared = next((k for k in range(len(closing) - 1, 0, -1) if opening.endswith(closing[:k])), 0)
        if shared and not opening.startswith(closing):
            more = ", or leave `reasoning` out" if key == "reasoning" else ""
            both = opening + closing[shared:]
            yield found(key, template=t, opening=opening, closing=closing, both=both, more=more)


@ALIKE.row(
    "argument, item, call, calls",
    "{template!r} closes with {closing!r}, which the opening of {other!r} reads as a {field}",
    instead="write a closing that {begins_otherwise}",
)
def a_closing_that_is_a_name(d: Dialect) -> Iterator[Found]:
    """An opening may match it with its field, as ``[{key}]`` matches ``[/]``."""
    for field, keys in (("key", ("argument", "item")), ("name", ("call", "calls"))):
        openings = [u for _, u in parts(d, *keys) if u.before and not literal(u.head).endswith("<")]
        for (key, t), u in itertools.product(parts(d, *keys), openings):
            closing = _end(t)
            if not closing or not all(isinstance(p, str) for p in t.after):
                continue
            if pattern(u.before).match(f"{closing}\n", 0, {}) in (len(closing), len(closing) + 1):
                head = literal(u.head).strip()
                begins = f"does not begin with {head!r}" if head else "begins with what no name contains, as <end>"
                yield found(key, template=t, closing=closing, other=u, field=field, begins_otherwise=begins)


@ALIKE.row(
    "argument, item, call, calls, reasoning", "{template!r} and {other!r} of `{key}` both close with {closing!r}",
    ": if one closing is missing, nothing shows which one it is", "make them differ",
)  # fmt: skip
def nested_parts_that_close_alike(d: Dialect) -> Iterator[Found]:
    """Reasoning does not contain calls. Its closing may equal theirs, if it has a letter or digit, but must not be
    only the end of theirs. If frames open with a `start`, calls are frames too, and all closings may be equal."""
    nested = (("argument", "item"), ("call",), ("calls",), () if _starts_frames(d) else ("reasoning",))
    seen: list[tuple[str, Template, str]] = []
    for keys in nested:
        closed = [(key, t, solid(_end(t))) for key, t in parts(d, *keys) if _end(t)]
        for (key, t, closing), (of, u, known) in itertools.product(closed, seen):
            shared = key == "reasoning" and of in ("call", "calls") and closing == known and worded(closing)
            if _alike(closing, known) and not shared:
                yield found(key, template=t, other=u, key=of, closing=min(closing, known, key=len))
        seen += closed


def _alike(a: str, b: str) -> bool:
    """Whether two closings are equal, or one ends with the other, and that other has a letter or digit."""
    return a == b or any(x.endswith(y) and worded(y) for x, y in ((a, b), (b, a)))


@ALIKE.row(
    "call, calls, item", "{template!r} closes with {closing!r}", ", which may also separate two parts",
    "write a closing that is more than commas and semicolons",
)  # fmt: skip
def a_closing_of_commas(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, "item", "call", "calls"):
        if _end(t) and not solid(_end(t)).strip(",;"):
            yield found(key, template=t, closing=_end(t))


@ALIKE.row(
    "calls", "{template!r} closes with {closing!r}, which begins like a separator of calls",
    instead="write a closing that begins with neither a comma nor a semicolon",
)  # fmt: skip
def a_closing_that_begins_like_a_separator(d: Dialect) -> Iterator[Found]:
    for t in d.calls:
        if _end(t).startswith((",", ";")) and solid(_end(t)).strip(",;"):
            yield found("calls", template=t, closing=_end(t))


@ALIKE.row(
    "reasoning, calls, call, argument, item",
    "{template!r} closes with {closing!r}, which {other!r} of `{key}` contains",
    ": reasoning that mentions a call would end there", "make them differ",
)  # fmt: skip
def a_closing_of_reasoning_in_a_call(d: Dialect) -> Iterator[Found]:
    for t in () if _starts_frames(d) else d.reasoning:
        closing = solid(t.closing)
        for of, u in parts(d, "calls", "call", "argument", "item"):
            markers = [solid(p) for p in (*u.before, *u.after) if isinstance(p, str)]
            if any(closing in m for m in markers) and not _alike(closing, solid(_end(u))):
                yield found("reasoning", template=t, closing=t.closing.strip(), other=u, key=of)


# -- ends of the turn --------------------------------------------------------------------------------------------------


@ALIKE.row(
    "end, reasoning, content, preamble, calls, call, argument, item",
    "{template!r} opens with {end!r}, one of `end`, at which the model stops",
    instead="leave it out of `end`, or open the part with something else",
)
def an_end_that_opens_a_part(d: Dialect) -> Iterator[Found]:
    ends = [solid(e) for e in d.end]
    for key, t in parts(d, *BODIES):
        end = next((e for e in ends for p in t.before if isinstance(p, str) and e in solid(p)), "")
        if end:
            yield found(key, template=t, end=end)


@ALIKE.row(
    "end, reasoning, call, argument, item",
    "{template!r} closes with {closing!r}, one of `end`, at which the model stops",
    instead="leave it out of `end`, or close the part with something else",
)
def an_end_that_closes_a_part(d: Dialect) -> Iterator[Found]:
    ends = tuple(solid(e) for e in d.end)
    blocks = any(b.opening.strip() or b.closing.strip() for b in d.calls)
    keys = ["argument", "item", *(["call"] if blocks else []), *([] if _starts_frames(d) else ["reasoning"])]
    for key, t in parts(d, *keys):
        if solid(_end(t)).endswith(ends):
            yield found(key, template=t, closing=_end(t))
