"""Markers to propose where a template lacks one, or has another template's."""

from collections.abc import Sequence

from ...regex import Regex
from ..patterns import worded
from ..template import Template

_WORD = Regex(r"\w++")
_END_TAG = Regex(r"([<\[]\|?)/([\w.:-]+\|?[>\]])")
_TAG = Regex(r"([<\[])([\w.:-]+)[^<>\[\]]*([>\]])[^<>\[\]]*$")


def closing_for(opening: str, other: str = "<end>") -> str:
    """The usual closing for an opening: for a tag, its end tag, else another one."""
    tag = _TAG.search(opening)
    return other if tag is None else f"{tag[1]}/{tag[2]}{tag[3]}"


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


def common(opening: str) -> bool:
    """Whether an opening is one character that any text contains, so that it cannot count anywhere."""
    return len(opening) == 1 and opening.isascii() and opening not in '[{("'


def begun(text: str) -> str:
    """A template that begins with a field, with a marker before it."""
    return text.replace("{", "@{", 1)


def with_arguments(t: Template, *, markup: bool) -> str:
    """A template of calls without arguments, with a place for them: in its object, or before its closing."""
    if '"{name}"}' in t.text:
        return t.text.replace('"{name}"}', '"{name}", "arguments": {arguments}}')
    text = t.text.rstrip()
    closing = t.steps[-1].text.strip()
    if worded(closing):
        return f"{text.removesuffix(closing)}{'' if markup else ' '}{{arguments}}{closing}{t.trail}"
    return f"{text}{{arguments}}{closing_for(text)}{t.trail}"
