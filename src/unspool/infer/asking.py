"""Renders the turns that inference needs, in the styles of history that the template accepts."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ..chat_templates.worker import Rendered
from . import histories as h
from .cutting import Views, behind_user
from .marks import marks, prefix, suffix
from .rendering import Renderer

_MOST: Final = 3  # the most styles in which every turn is rendered
_PRINTED: Final = re.compile(r"""['"]type['"]\s*:""")  # parts of content that a template prints as they are
_STYLES: Final = tuple(
    h.HistoryStyle(arguments, nothing, "keys", ids)
    for ids in ("plain", "named")
    for arguments in ("object", "text")
    for nothing in ("", None)
)


def ask(renderer: Renderer) -> Iterator[Views]:
    """Render with the template, and yield the renderings of each style, the likeliest first."""
    styles = _styles(renderer)
    last: Views | None = None
    for style in styles:
        views = _views(renderer, style)
        last = last or views
        yield views
    if last is not None and _otherwise(last):
        followed = _views(renderer, last.style._replace(followed=True))
        if followed.behind:
            yield followed


def _otherwise(views: Views) -> bool:
    """Whether the last turn of a conversation is written differently from a turn before a user message."""
    whole = behind_user(views.whole["content"])
    return h.CONTENT in whole and h.CONTENT in views.followed and not behind_user(views.followed).startswith(whole)


def _styles(renderer: Renderer) -> list[h.HistoryStyle]:
    """The styles in which calls are written, the likeliest first; without any, one for reasoning and content."""
    one, thought = h.TURNS["one call"], h.TURNS["reasoning and content"]
    parts = h.HistoryStyle(thoughts="parts")
    requests = [h.request(h.answered(one, s), generate=False) for s in _STYLES]
    requests += [h.request(h.answered(thought, s), generate=False) for s in (_STYLES[0], parts)]
    plain = h.request(h.answered(h.TURNS["content"], _STYLES[0]), generate=False)
    said = (h.USER[0], h.CONTENT)
    *calls, keys, in_parts, answer = renderer.render([*requests, plain])
    if not all(text in answer.text for text in said) and renderer.settle(plain, said):
        *calls, keys, in_parts = renderer.render(requests)
    kept, parted = (behind_user(shown.text) for shown in (keys, in_parts))
    as_parts = h.THOUGHT not in kept and h.THOUGHT in parted and not _PRINTED.search(parted)
    thoughts = "parts" if as_parts else "keys"
    ranked = sorted(
        (_rank(shown, style), i) for i, (shown, style) in enumerate(zip(calls, _STYLES, strict=True)) if _called(shown)
    )
    # A template for objects may also accept text, and then write something else. So only the likeliest kind counts.
    ranked = [r for r in ranked if r[0][:3] == ranked[0][0][:3]]
    chosen = [_STYLES[i]._replace(thoughts=thoughts) for _, i in ranked]
    seen: dict[str, h.HistoryStyle] = {}
    for (_, i), style in zip(ranked, chosen, strict=True):
        seen.setdefault(calls[i].text, style)
    return list(seen.values())[:_MOST] or [h.HistoryStyle(thoughts=thoughts)]


def _called(shown: Rendered) -> bool:
    text = behind_user(shown.text)
    return h.KEYS[0] in text and h.VALUES[0] in text and h.NAMES[0] in text


def _rank(shown: Rendered, style: h.HistoryStyle) -> tuple[int, bool, bool, int]:
    """Rank arguments in JSON or markup before escaped or Python ones, then shorter texts first."""
    text = behind_user(shown.text)
    before = text[: text.index(h.KEYS[0])]
    wrong = 2 if before.endswith('\\"') else 1 if before.endswith(("{'", "'{\"")) else 0
    # A name that appears only in the id is not written by itself.
    return wrong, style.ids == "named", style.arguments == "text", len(text)


def _views(renderer: Renderer, style: h.HistoryStyle) -> Views:
    prompts = [h.request(h.ASKED, generate=g) for g in (False, True)]
    turns = [h.request(h.answered(turn, style), generate=False) for turn in h.TURNS.values()]
    followed = style._replace(followed=True)
    another = h.answered(h.TURNS["content"], followed)
    more = [h.request(another, generate=False)]
    more += [h.request(h.with_result(style), generate=g) for g in (False, True)]
    settings = [(name, on) for name in h.SWITCHES if name in renderer.asked for on in (True, False)]
    more += [h.request(h.ASKED, generate=True, **{name: on}) for name, on in settings]
    asked, prompted, *rest = renderer.render([*prompts, *turns, *more])
    whole = dict(zip(h.TURNS, rest, strict=False))
    next_turn, resulted, resumed, *switched = rest[len(turns) :]
    behind = _behind(asked.text, [next_turn.text, *(v.text for v in whole.values())]) if style.followed else ""
    trailing = "" if style.followed else _trailing(asked.text, whole["content"].text, next_turn.text)
    before, own = asked.text.removesuffix(trailing), prompted.text.removeprefix(asked.text)
    asks = prompted.text if own in ("", prompted.text) else before + own
    views = Views(
        style,
        behind_user(before),
        behind_user(asks),
        {name: shown.text for name, shown in whole.items()},
        next_turn.text,
        resulted.text.removesuffix(trailing),
        resumed.text,
        {f"{n}={on}": behind_user(shown.text) for (n, on), shown in zip(settings, switched, strict=True) if shown.text},
        {name: shown.error for name, shown in whole.items() if shown.error},
        behind,
        trailing,
        renderer.template,
    )
    return msgspec.structs.replace(views, whole={n: views.alone(text) for n, text in views.whole.items()})


def _trailing(asked: str, answered: str, followed: str) -> str:
    """What the template writes after every conversation: an opening that was not requested, or an instruction."""
    own = marks(behind_user(answered).partition(h.CONTENT)[2])
    behind = marks(behind_user(followed).partition(h.CONTENT)[2])
    always, shared = len(own) - suffix(marks(behind_user(asked)), own), prefix(own, behind)
    if not behind or not "".join(own[shared:]).strip():
        return ""
    # The user's turn may end like the assistant's; one such mark belongs to the turn.
    ended = next((i + 1 for i in range(always, shared) if not own[i].isspace()), always)
    text = "".join(own[ended:])
    return text if text.strip() else ""


def _behind(asked: str, followed: Iterable[str]) -> str:
    """The text that the template writes before a user message, whatever turn precedes it."""
    ours = marks(asked.partition(h.USER[0])[0])
    heads = [marks(text.rpartition(h.USER[1])[0]) for text in followed if h.USER[1] in text]
    shared = "".join(ours[len(ours) - min((suffix(ours, head) for head in heads), default=0) :])
    return shared if shared.strip() else ""
