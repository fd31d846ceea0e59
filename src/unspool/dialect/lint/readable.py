"""Rules about templates that nothing could read back. They are tried when a file is loaded."""

from collections.abc import Iterator

from ...regex import Regex
from ..file import Dialect
from ..template import BODIES, Template, literal, single_braces
from .proposals import begun, closing_for, common, opening_for, other_opening
from .rule import Found, Rules, found, parts

READABLE = Rules()

# -- attributes of tags, and braces ------------------------------------------------------------------------------------

_ATTRIBUTE = Regex(r"""\{key\}\s*=\s*(["']?)\{value\}\1""")
_IN_A_TAG = Regex(r"<[^<>]*$")


@READABLE.row(
    "argument", "{template!r} is an attribute of a tag",
    ": nothing marks where it begins, and JSON and texts may contain what ends it",
    """write each argument as a tag of its own, as in call = '<call name="{{name}}">{{arguments}}</call>' """
    """with argument = '<arg {{key}}="{{value}}"/>'""",
)  # fmt: skip
def attributes(d: Dialect) -> Iterator[Found]:
    tag = any(_IN_A_TAG.search(t.opening) for t in d.call)
    for t in d.argument:
        if tag and _ATTRIBUTE.fullmatch(t.text.strip()):
            yield found("argument", template=t)


@READABLE.row("call", "{template!r} doubles the braces that JSON has of its own", instead="write {proposal!r}")
def doubled_braces(d: Dialect) -> Iterator[Found]:
    for t in d.call if d.codec.name != "python" and not d.argument else ():
        if t.object is None and "{{arguments}}" in t.text:
            yield found("call", template=t, proposal=single_braces(t.text))


# -- the order of fields -----------------------------------------------------------------------------------------------


@READABLE.row(
    "call, argument", "{template!r} has {late} before {first}, on which it depends", instead="write {first} first",
)  # fmt: skip
def a_body_before_its_name(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, "argument", "call"):
        names = [step.name for step in t.steps]
        first, late = ("name", "arguments") if key == "call" else ("key", "value")
        if t.object is None and late in names and names.index(late) < names.index(first):
            yield found(key, template=t, first=f"{{{first}}}", late=f"{{{late}}}")


@READABLE.row(
    "call", "{template!r} has {{arguments}} before {{name}}, on which they depend",
    instead="write {{name}} first; what the model writes is read in any order",
)  # fmt: skip
def members_before_the_name(d: Dialect) -> Iterator[Found]:
    for t in d.call:
        roles = [role for _, role in t.object.keys] if t.object else []
        if "arguments" in roles and roles.index("arguments") < roles.index("name"):
            yield found("call", template=t)


@READABLE.row(
    "call", "{template!r} has {{id}} after {{arguments}}", ", but a call starts with its id, before they come",
    "leave {{id}} out{more}",
)  # fmt: skip
def a_late_id(d: Dialect) -> Iterator[Found]:
    for t in d.call[:1]:  # templates that are only read may have it there
        if t.body == "arguments" and "{id}" in t.closing and "{id}" not in t.opening:
            more = "; members that the template lacks are skipped when read" if t.object else ""
            yield found("call", template=t, more=more)


# -- fields that something must mark -----------------------------------------------------------------------------------


@READABLE.row(
    "argument", "{template!r} begins with a field", ", so any text is a key",
    "write before it what begins an argument, as in {proposal!r}",
)  # fmt: skip
def keys_that_nothing_opens(d: Dialect) -> Iterator[Found]:
    for t in d.argument:
        if t.after and not literal(t.steps).strip():
            yield found("argument", template=t, proposal=begun(t.text))


@READABLE.row(
    "call", "{template!r} begins with {{id}}", ", so any text after a call is another one",
    "write a marker before it, as in call = {proposal!r}; or, if each call has a block of its own, {{call}} in `calls`",
)  # fmt: skip
def calls_that_begin_with_their_id(d: Dialect) -> Iterator[Found]:
    for t in d.call if d.argument and any(b.body == "calls" for b in d.calls) else ():
        if t.steps[0].name == "id":
            yield found("call", template=t, proposal=f"<call>{t.text}")


@READABLE.row(
    "reasoning", "{template!r} has no opening",
    instead="write a marker before {{reasoning}}, as in {proposal!r}; where the model never writes it, since the "
    'prompt does, set stage = "reasoning" as well',
)  # fmt: skip
def reasoning_that_nothing_opens(d: Dialect) -> Iterator[Found]:
    for t in d.reasoning:
        if not t.before:
            yield found("reasoning", template=t, proposal=opening_for(t.closing) + t.text)


@READABLE.row(
    "reasoning, argument, item", "{template!r} has no closing",
    instead="write after {{{body}}} what the model ends it with, as in {proposal!r}; "
    "if the model writes none, {otherwise}",
)  # fmt: skip
def texts_that_nothing_closes(d: Dialect) -> Iterator[Found]:
    for key, t in _unclosed(d):
        if not t.inner_trail:
            proposal = _opened(key, t) + closing_for(t.opening, _end(d, key))
            yield found(key, template=t, body=t.body, proposal=proposal, otherwise=_NO_CLOSING[t.body])


@READABLE.row(
    "reasoning, argument, item", "{template!r} closes with white space only",
    ", which {reasoning_or_a_value} may contain too",
    "write after {{{body}}} a marker that it does not contain, as in {proposal!r}; "
    "if the model writes none, {otherwise}",
)  # fmt: skip
def texts_that_white_space_closes(d: Dialect) -> Iterator[Found]:
    for key, t in _unclosed(d):
        if space := t.inner_trail:
            contains = "a value" if t.body == "value" else t.body
            proposal = f"{_opened(key, t).removesuffix(space)} {_end(d, key)}{space}"
            fields = {"body": t.body, "reasoning_or_a_value": contains, "otherwise": _NO_CLOSING[t.body]}
            yield found(key, template=t, proposal=proposal, **fields)


_NO_CLOSING = {
    "value": "such values cannot be expressed",
    "reasoning": "leave `reasoning` out: it is content then, in frames by a later template of `content`",
}


def _unclosed(d: Dialect) -> Iterator[tuple[str, Template]]:
    return ((key, t) for key, t in parts(d, "argument", "item", "reasoning") if not t.after)


def _end(d: Dialect, key: str) -> str:
    """A closing that no other part has."""
    return f"<end-{key}>" if any("<end>" in t.text for _, t in parts(d, *BODIES)) else "<end>"


def _opened(key: str, t: Template) -> str:
    """The text of a template, with a marker before the key of an argument that begins with it."""
    return t.text if key != "argument" or literal(t.steps).strip() else begun(t.text)


@READABLE.row(
    "call, argument", "{template!r} has {between}", ", so the end of the first cannot be found",
    "write a marker between them, as in {proposal!r}; if the model writes none, such calls cannot be expressed",
)  # fmt: skip
def fields_that_nothing_separates(d: Dialect) -> Iterator[Found]:
    # Arguments that may begin like a name.
    wordy = d.codec.name == "python" or any(_NAMED.match(literal(a.head).lstrip()) for a in d.argument)
    for key, t in parts(d, "argument", "call"):
        for one, space, two in _adjacent(t) if t.object is None else ():
            marked = one == "name" and (space or (two == "arguments" and not wordy))
            if one in ("name", "key", "id") and not marked:
                pair = f"{{{one}}}{space}{{{two}}}"
                between = f"nothing but white space between {{{one}}} and {{{two}}}" if space else f"{pair} glued"
                yield found(key, template=t, between=between, proposal=t.text.replace(pair, f"{{{one}}}: {{{two}}}"))


def _adjacent(t: Template) -> Iterator[tuple[str, str, str]]:
    """Fields with at most white space between them, save one that is never written."""
    for i, one in enumerate(t.steps):
        space = literal(t.steps[i + 1 :])
        for two in t.steps[i + 2 if space else i + 1 :][:1]:
            if one.name and two.name not in ("", "any") and not space.strip():
                yield one.name, space, two.name


_NAMED = Regex(r"[\w.\-:/]")

# -- markers of one character ------------------------------------------------------------------------------------------


@READABLE.row(
    "argument, item", "{template!r} closes with {closing!r}", ", which JSON and texts contain too",
    "write a closing that they do not contain, as in {proposal!r}",
)  # fmt: skip
def a_closing_of_one_character(d: Dialect) -> Iterator[Found]:
    for key, t in parts(d, "argument", "item"):
        closing = t.closing.strip()
        if len(closing) == 1 and closing in "\"'[]{}\\,;":
            yield found(key, template=t, closing=closing, proposal=f"{t.text.rstrip()}/>{t.trail}")


@READABLE.row(
    "quote", "{quote!r} is one character", ", which strings contain too, and nothing escapes it in them",
    'for the strings of Python write arguments = "python"',
)  # fmt: skip
def a_quote_of_one_character(d: Dialect) -> Iterator[Found]:
    if d.codec.quote != '"' and len(d.codec.quote.strip()) < 2:
        yield found("quote", quote=d.codec.quote)


@READABLE.row(
    "quote", "{quote!r} ends as it begins", ", so that the end of a string may be part of it", "let it differ"
)
def a_quote_that_ends_as_it_begins(d: Dialect) -> Iterator[Found]:
    quote = d.codec.quote.strip()
    if any(quote.endswith(quote[:k]) for k in range(1, len(quote))):
        yield found("quote", quote=d.codec.quote)


@READABLE.row("end", "{end!r} is one character", ", which text may also end with", "write what the model stops at")
def an_end_of_one_character(d: Dialect) -> Iterator[Found]:
    for end in d.end:
        if len(end.strip()) == 1 and end.strip().isascii() and end.strip().isprintable():
            yield found("end", end=end)


@READABLE.row(
    "anywhere", "{text!r} is one character", ", which text contains too",
    "leave it out, so that calls begin content or a line",
)  # fmt: skip
def an_opening_of_one_character(d: Dialect) -> Iterator[Found]:
    openings = [t.opening.partition("{")[0].strip() for t in (*d.calls, *d.call)]
    for text in d.anywhere:
        if common(text) and text in openings:
            yield found("anywhere", text=text)


# -- beginnings --------------------------------------------------------------------------------------------------------


@READABLE.row(
    "call, calls", "{template!r} begins with white space", ", and no marker of `calls` comes before it",
    "write it into `calls`, as in {proposal!r}, and into `separator.calls`",
)  # fmt: skip
def white_space_before_calls(d: Dialect) -> Iterator[Found]:
    for t in d.call:
        if t.lead and not all(b.opening for b in d.calls):
            yield found("call", template=t, proposal=d.calls[0].text.replace("{", f"{t.lead}{{", 1))


@READABLE.row(
    "reasoning, content, calls, call", "{template!r} begins like `{other}`, with {opening!r}",
    instead="let them begin differently, as in {proposal!r}",
)  # fmt: skip
def the_same_opening_twice(d: Dialect) -> Iterator[Found]:
    first = [(key, t, t.opening) for key in ("reasoning", "content", "calls") for t in getattr(d, key)[:1]]
    first += [("call", t, literal(t.head)) for t in d.call[:1] if not d.calls[0].opening]
    seen: dict[str, str] = {}
    for key, t, opening in first:
        written = " ".join(opening.split())
        if written and (other := seen.setdefault(written, key)) != key:
            proposal = t.text.replace(opening, other_opening(opening, key, d.start), 1)
            yield found(key, template=t, other=other, opening=opening.strip(), proposal=proposal)
