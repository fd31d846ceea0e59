"""Finds templates that could never be read back, whatever their fields contain, and proposes others."""

from collections.abc import Sequence

from ..regex import Regex
from .template import BODIES, Step, Template, literal


def impossible(key: str, t: Template, *, python: bool, arguments: Sequence[Template]) -> str:
    """Why a template cannot be read back, with a proposal; empty if it can.

    Args:
        key: the template's key in the file.
        t: the template.
        python: whether arguments are Python's.
        arguments: the templates of arguments.
    """
    body = BODIES[key][0]
    if body == "reasoning" and not t.before:
        why = f"has no opening: write a marker before {{reasoning}}, as in {opening_for(t.closing) + t.text!r}"
        return f'{why}; where the model never writes it, since the prompt does, set stage = "reasoning" as well'
    if key == "argument" and _ATTRIBUTE.fullmatch(t.text.strip()):
        why = "is an attribute of a tag: nothing marks where it begins, and JSON and texts may contain what ends it"
        return f"{why}. Write each argument as a tag of its own, as in {_AS_TAGS}"
    if body in ("reasoning", "value") and not t.after:
        return _unclosed(t, body)
    if body == "value" and t.closing.strip() in ('"', "'", "[", "]", "{", "}", "\\"):
        why = f"closes with {t.closing.strip()!r}, which JSON and texts contain too"
        return f"{why}: write a closing that they do not contain, as in {t.text.rstrip() + '/>' + t.trail!r}"
    if t.object is not None:
        roles = [role for _, role in t.object.keys]
        if "arguments" in roles and roles.index("arguments") < roles.index("name"):
            why = "has {arguments} before {name}, on which they depend"
            return f"{why}: write {{name}} first; what the model writes is read in any order"
        return ""
    names = [step.name for step in t.steps]
    first = {"call": "name", "argument": "key"}.get(key)
    if first and body in names and names.index(body) < names.index(first):
        return f"has {{{body}}} before {{{first}}}, on which it depends: write {{{first}}} first"
    if key == "call" and not python and not arguments and "{{arguments}}" in t.text:
        return f"doubles the braces that JSON has of its own: write {t.text.replace('{{arguments}}', '{arguments}')!r}"
    if key == "argument" and not literal(t.steps).strip():
        why = "begins with a field, so any text is a key"
        return f"{why}: write before it what begins an argument, as in {_begun(t)!r}"
    wordy = python or any(_NAMED.match(literal(a.head).lstrip()) for a in arguments)
    return _unseparated(t, wordy) if key in ("call", "argument") else ""


def late_id(t: Template) -> str:
    """Why the id of a call comes too late, if it follows the arguments; else empty."""
    if t.body != "arguments" or "{id}" not in t.closing or "{id}" in t.opening:
        return ""
    why = "has {id} after {arguments}, but a call starts with its id, before they come: leave {id} out"
    return f"{why}; members that the template lacks are skipped when read" if t.object else why


_NAMED = Regex(r"[\w.\-:/]")


_ATTRIBUTE = Regex(r"""\{key\}\s*=\s*(["']?)\{value\}\1""")
_AS_TAGS = """call = '<call name="{name}">{arguments}</call>' with argument = '<arg {key}="{value}"/>'"""


def _unclosed(t: Template, body: str) -> str:
    behind = t.closing + t.trail
    if behind:
        begun = t.text if body != "value" or literal(t.steps).strip() else _begun(t)
        proposal = begun.removesuffix(behind) + " <end>" + behind
        why = f"closes with white space only, which {'a value' if body == 'value' else body} may contain too"
        why = f"{why}: write after {{{body}}} a marker that it does not contain"
    else:
        proposal = t.text + closing_for(t.opening)
        why = f"has no closing: write after {{{body}}} what the model ends it with"
    rest = "such values cannot be expressed"
    if body == "reasoning":
        rest = "leave `reasoning` out: it is content then, in frames by a later template of `content`"
    return f"{why}, as in {proposal!r}; if the model writes none, {rest}"


def _begun(t: Template) -> str:
    """A template that begins with a field, with a marker before it."""
    return t.text.replace("{", "@{", 1)


def _unseparated(t: Template, wordy: bool) -> str:
    """Two fields with nothing that shows where the first ends; ``wordy``: arguments may begin like a name."""
    steps = t.steps
    for i, one in enumerate(steps):
        space = literal(steps[i + 1 :])
        two = _next(steps[i + 2 if space else i + 1 :])
        if not two or (space and not space.isspace()) or one.name not in ("name", "key", "id"):
            continue
        if one.name == "name" and (space or (two == "arguments" and not wordy)):
            continue
        found, written = f"{{{one.name}}}{space}{{{two}}}", f"{{{one.name}}}: {{{two}}}"
        why = f"nothing but white space is between {{{one.name}}} and {{{two}}}" if space else f"has {found} glued"
        why = f"{why}, so the end of the first cannot be found"
        why = f"{why}: write a marker between them, as in {t.text.replace(found, written)!r}"
        return f"{why}; if the model writes none, such calls cannot be expressed"
    return ""


def _next(steps: Sequence[Step]) -> str:
    """The name of the field that steps begin with; empty if they begin with text, or with what is never written."""
    return steps[0].name if steps and steps[0].name != "any" else ""


def closing_for(opening: str) -> str:
    """The usual closing for an opening: for a tag, its end tag."""
    tag = _TAG.search(opening)
    if tag is None:
        return "<end>"
    return f"{tag[1]}/{tag[2]}{tag[3]}"


def opening_for(closing: str) -> str:
    """The usual opening for a closing: for an end tag, its start tag."""
    tag = _END_TAG.search(closing)
    return "<begin>" if tag is None else f"{tag[1]}{tag[2]}"


def other_opening(opening: str, key: str, starts: Sequence[str]) -> str:
    """An opening for a part, where the present one is another part's. What began with a turn's start still does."""
    start = next((s for s in starts if opening.startswith(s)), "")
    rest = opening[len(start) :]
    word = _WORD.search(rest)
    if word is None:
        return f"{start.rstrip()}<{key}>{rest}"
    return f"{start}{rest[: word.start()]}{f'my-{key}' if key.startswith(word[0]) else key}{rest[word.end() :]}"


_WORD = Regex(r"\w++")
_END_TAG = Regex(r"([<\[]\|?)/([\w.:-]+\|?[>\]])")
_TAG = Regex(r"([<\[])([\w.:-]+)[^<>\[\]]*([>\]])[^<>\[\]]*$")
