"""Cuts the assistant's turns out of renderings."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from . import histories as h
from . import marks as t

_LONGEST: Final = 20_000  # the most characters of a turn that are examined
_WORDS: Final = {
    h.CONTENT: t.CONTENT,
    h.THOUGHT: t.THOUGHT,
    **dict(zip(h.NAMES, t.NAME, strict=True)),
    **dict(zip(h.KEYS, t.KEY, strict=True)),
    **dict(zip(h.VALUES, t.VALUE, strict=True)),
    **dict(zip(h.IDS, t.ID, strict=True)),
}
_ANY_WORD: Final = re.compile("|".join(map(re.escape, sorted(_WORDS, key=len, reverse=True))))
_QUOTED: Final = re.compile(r"""(['"])((?:(?!\1)[^\\\n]){0,60})\1""")
_TELLING_ID: Final = re.compile(r"functions\.(\w+):\d+")


class Views(msgspec.Struct, frozen=True):
    """The renderings of a template in one style of histories."""

    style: h.HistoryStyle
    asked: str  # the prompt after the user's words, without the text that asks for an answer
    prompted: str  # the same prompt with that text
    whole: dict[str, str]  # the whole rendering of each turn
    followed: str = ""  # the rendering of content with another user message after it
    # resulted, resumed: the rendering of a call with a tool's result after it, and the same as a prompt.
    resulted: str = ""
    resumed: str = ""
    switched: dict[str, str] = {}  # the prompts after the user's words, for each setting of a thinking switch
    errors: dict[str, str] = {}  # why turns were refused
    behind: str = ""  # the text between a turn and another user message; empty if the style has none
    trailing: str = ""  # the text after every conversation, which belongs to no turn; usually empty
    source: str = ""  # the template's text. It is searched only for the closing of reasoning that appears in no turn.

    def alone(self, text: str) -> str:
        """A rendering without the text after the turn."""
        if self.behind and self.behind + h.USER[1] in text:
            return text[: text.rindex(self.behind + h.USER[1])]
        return text.removesuffix(self.trailing)


class Cut(msgspec.Struct, frozen=True):
    """The turns of a template."""

    start: str  # the opening of a turn
    given: str  # what the prompt writes after it, usually the opening of reasoning
    turns: dict[str, str]  # each turn after its opening, with sentinels as characters
    at: int = -1  # where turns without an opening begin after the user's words; else -1

    def split(self, whole: str) -> tuple[str, str]:
        """Split a whole rendering into the prompt, up to the turn's opening, and the turn."""
        tail = behind_user(whole)
        at = tail.index(self.start) + len(self.start) if self.at < 0 else self.at
        at += len(whole) - len(tail)
        return whole[:at], whole[at:].replace(h.EOS, "")


def behind_user(text: str) -> str:
    """The text after the last words of the first user message."""
    return text[text.rfind(h.USER[0]) + len(h.USER[0]) :] if h.USER[0] in text else text


def spelled(text: str) -> str:
    """A text with its sentinels as characters."""
    text = _TELLING_ID.sub(lambda m: f"functions.{m[1]}:\0", text[:_LONGEST])
    return _ANY_WORD.sub(lambda m: _WORDS[m.group()], text)


def paired(opening: str, closing: str) -> bool:
    names = [re.sub(r"[^a-z]|start|begin|end", "", tag.lower()) for tag in (opening, closing)]
    return bool(names[0]) and names[0] == names[1] and opening != closing


def closing_for(opening: str, source: str) -> str:
    """The closing of the tag ``opening`` as the template's own text spells it; empty if there is none.

    A template that drops the reasoning of histories still names its closing, to split the reasoning from an answer.
    """
    slashed = f"{opening[:1]}/{opening[1:]}"
    if slashed in source:
        return slashed
    if "end" in opening.lower() or opening[1:2] == "/":
        return ""  # it is itself a closing, such as a header's
    quoted = (m[2].strip() for m in _QUOTED.finditer(source))
    return next((text for text in quoted if "end" in text.lower() and is_tag(text) and paired(opening, text)), "")


def first_tag(text: str) -> str:
    """The first tag of a text, ignoring white space; without one, everything up to the next tag or white space."""
    text = text.lstrip()
    first = t.marks(text[:300])[:1]
    if first and is_tag(first[0]):
        return first[0]
    word = re.match(r"[^\s<]+|<?", text)
    return word[0] if word is not None else ""


def is_tag(mark: str) -> bool:
    return len(mark) > 2 and mark[0] in "<[" and mark[-1] in ">]"


def cut(views: Views) -> Cut | None:
    """Cut the renderings of a style; ``None`` if the turns cannot be found."""
    tails = {name: spelled(behind_user(text)) for name, text in views.whole.items()}
    tails = {name: tail for name, tail in tails.items() if tail}
    if not tails:
        return None
    asked, prompted = views.asked, views.prompted
    common = t.prefix(t.marks(asked), t.marks(prompted))
    own = t.marks(prompted)[common:]
    own = own[: len(own) - _thought(own, tails, views.source)]
    written = (*tails.values(), *views.switched.values())
    for length in range(len(own), 0, -1):
        whole = "".join(own[:length])
        for start in (whole, whole.lstrip()):
            if start.strip() and all(start in text for text in written):
                turns = {name: tail[tail.index(start) + len(start) :] for name, tail in tails.items()}
                return Cut(start, prompted[len("".join(t.marks(prompted)[:common])) + len(whole) :], turns)
    # The user's turn ends with what opens the assistant's.
    lists = [t.marks(asked), *map(t.marks, tails.values())]
    shared = min(t.prefix(lists[0], other) for other in lists[1:])
    at = len("".join(lists[0][:shared]))
    start, alone = asked[:at].strip(), asked.strip()
    # White space before it may depend on its place.
    if not start and alone and all(alone in text for text in written):
        turns = {name: tail[tail.index(alone) + len(alone) :] for name, tail in tails.items()}
        return Cut(alone, "", turns)
    turns = {name: tail[at:] for name, tail in tails.items()}
    return Cut(start, "".join(t.marks(prompted)[shared:]), turns, at)


def _thought(own: list[str], tails: Mapping[str, str], source: str) -> int:
    """The number of marks at the end of the generation prompt that open reasoning, if all turns have it."""
    tail = tails.get("reasoning and content") or tails.get("reasoning and call") or ""
    if t.THOUGHT in tail:
        closings = [first_tag(tail[tail.rindex(t.THOUGHT) + 1 :])]
    else:  # no history keeps reasoning, but its closing may remain
        closings = [m for text in tails.values() for m in t.marks(text) if m[1:2] == "/"]
        closings += [c for c in (closing_for(m, source) for m in own[1:] if is_tag(m)) if c]
    # The first one opens the turn.
    found = (i for i in range(len(own) - 1, 0, -1) if any(paired(own[i], c) for c in closings))
    return len(own) - next(found, len(own))
