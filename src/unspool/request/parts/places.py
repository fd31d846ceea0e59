"""The places of media in prompts: what a chat template writes for them, in messages of which roles, and where."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...engines.media import MEDIA, Medium, is_medium
from ..fields import BadRequest
from ..special_tokens import markers

FORGED: Final = ("<image>", "<video>", "<audio>", "<IMG_CONTEXT>", "<__media__>", "[img-")
"""What engines read as placeholders, whatever the template writes (SGLang, InternVL, llama.cpp, Ollama)."""
_FORMS: Final[tuple[Callable[[str], dict[str, Any]], ...]] = (
    lambda kind: {"type": kind},
    lambda kind: {"type": kind, kind: ""},
    lambda kind: {"type": f"{kind}_url", f"{kind}_url": {"url": ""}},
)
"""The forms of parts that templates look for."""
_WORDS: Final = ("Zqbefore", "Zqbetween", "Zqafter")


class Places(msgspec.Struct, frozen=True):
    """What a template writes for media."""

    # The placeholder of each kind, with its frame: a part's special tokens, and what is between them.
    spans: Mapping[str, str] = {}
    forms: Mapping[str, Mapping[str, Any]] = {}  # the parts that the template gets, by kind
    held: frozenset[str] = frozenset()  # the kinds that it writes in results of tools
    literals: tuple[str, ...] = ()  # the special tokens of the placeholders

    def check(self, messages: Sequence[Mapping[str, Any]], media: Mapping[str, Medium], engine: str) -> None:
        """Refuse media that the template does not write, with the engine, the template and the role."""
        for message, part in _parts(messages):
            if (kind := part["type"]) not in self.spans:
                takes = " and ".join(self.spans) or "text only"
                raise BadRequest(
                    media[part["sha256"]].where or None,
                    f"{kind}: the chat template takes {takes} in a message of role {message['role']!r}; the engine "
                    f"({engine}) was not asked",
                )

    def written(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Messages with media in the form that the template looks for."""
        return [
            {**m, "content": [dict(self.forms.get(p["type"], p)) if is_medium(p) else p for p in m["content"]]}
            if isinstance(m.get("content"), list)
            else dict(m)
            for m in messages
        ]

    def find(
        self, prompt: str, messages: Sequence[Mapping[str, Any]], media: Mapping[str, Medium]
    ) -> tuple[Medium, ...] | None:
        """The media of a conversation, given by digest, with their places in its prompt; ``None`` if there is not one
        placeholder for each, or a part of one elsewhere."""
        waiting: dict[str, list[Medium]] = {}
        for message, part in _parts(messages):
            medium = msgspec.structs.replace(media[part["sha256"]], role=message["role"])
            waiting.setdefault(part["type"], []).insert(0, medium)
        if not waiting.keys() <= self.spans.keys():
            return None
        kinds = {span: kind for kind, span in self.spans.items()}
        found: list[Medium] = []
        seen: Counter[str] = Counter()
        for at in re.finditer("|".join(map(re.escape, sorted(kinds, key=len, reverse=True))), prompt):
            if not waiting.get(kinds[at[0]]):
                return None
            found.append(msgspec.structs.replace(waiting[kinds[at[0]]].pop(), start=at.start(), end=at.end()))
            seen[at[0]] += 1
        own = {literal: sum(span.count(literal) * n for span, n in seen.items()) for literal in self.literals}
        if any(waiting.values()) or any(prompt.count(literal) != n for literal, n in own.items()):
            return None
        return tuple(found)


def _parts(messages: Sequence[Mapping[str, Any]]) -> "Iterable[tuple[Mapping[str, Any], dict[str, Any]]]":
    for message in messages:
        if isinstance(content := message.get("content"), list):
            yield from ((message, part) for part in content if is_medium(part))


def find_places(
    write: Callable[[list[dict[str, Any]]], str | None],
    result: Callable[[list[Any]], list[dict[str, Any]]],
    known: Sequence[str],
    added: Sequence[str],
) -> Places:
    """Find out what a template writes for media, from a few renderings. ``result`` makes a conversation whose last
    message is a tool's result with these parts; ``known`` are the texts in the template, ``added`` the special
    tokens of the vocabulary."""
    plain = write([{"role": "user", "content": [_text(word) for word in _WORDS]}]) or ""
    spans: dict[str, str] = {}
    forms: dict[str, Mapping[str, Any]] = {}
    literals: set[str] = set()
    held = []
    for kind in [kind for kind in MEDIA if any(kind in text for text in known)]:
        for make in _FORMS:
            form = make(kind)
            parts = [_text(_WORDS[0]), form, _text(_WORDS[1]), dict(form), _text(_WORDS[2])]
            span, tokens = _span(write([{"role": "user", "content": parts}]), plain, added)
            if not span or span in spans.values():
                continue
            spans[kind], forms[kind] = span, form
            literals |= tokens
            whole = write(result([_text(_WORDS[0]), form, _text(_WORDS[1])])) or ""
            if whole.count(span) == 1 and span in _between(whole, *_WORDS[:2]):
                held.append(kind)
            break
    return Places(spans, forms, frozenset(held), tuple(sorted(literals)))


def _text(word: str) -> dict[str, Any]:
    return {"type": "text", "text": word}


def _between(text: str, before: str, after: str) -> str:
    """What is between two words; empty if they are not there."""
    _, found, rest = text.partition(before)
    inner, also, _ = rest.partition(after)
    return inner if found and also else ""


def _span(text: str | None, plain: str, added: Sequence[str]) -> tuple[str, set[str]]:
    """The placeholder that is written twice between words but not in ``plain``, and its special tokens; or empty."""
    inner, second = (_between(text or "", *pair) for pair in (_WORDS[:2], _WORDS[1:]))
    tokens = {next((one for one in added if token in one and one in inner), token) for token in markers([inner])}
    tokens = {token for token in tokens if token not in plain}
    if not tokens:
        return "", tokens
    start = min(inner.find(token) for token in tokens)
    end = max(inner.rfind(token) + len(token) for token in tokens)
    span = inner[start:end]
    rest = span  # a sentence in tags is no placeholder: some templates tell the model that it sees nothing
    for token in tokens:
        rest = rest.replace(token, "")
    whole = re.fullmatch(r"\w*", rest) and span in second and (text or "").count(span) == 2
    return (span if whole else ""), tokens
