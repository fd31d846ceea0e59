"""Breaks up special tokens that a request's text spells, with a zero-width space, so that they stay text."""

import html
import os.path
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import Any, Final

BREAK: Final = "\u200b"  # inserted after the first character of what would be a special token

_MARKER: Final = re.compile(
    r"<[^\s<>]{1,64}>"  # <|im_start|>, <think>, </s>, <｜User｜>, <|"|>
    r"|\[/?\w*[A-Z]{2}\w*(?: [A-Z]{2,})*\]"  # [INST], [gMASK], [BEGIN FINAL RESPONSE]
    r"|\[\|[^\s\[\]]{1,64}\|\]"  # [|user|]
    r"|〈[^\s〈〉]{1,64}〉|◁[^\s◁▷]{1,64}▷|[｜‖]{1,2}\w{1,64}[｜‖]{1,2}"  # 〈|EOS|〉, ◁think▷, ｜DSML｜
    r"|[\[\]](?=[^\[\]\s]*[~!])[^\[\]\s]{1,8}[\[\]]"  # ]~b], [e~[, ]!p~[
)
_ESCAPE: Final = re.compile(
    r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([^\w\s]))"  # of JSON and Python, however often escaped
    r"|(&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31});?)"  # of HTML
)
_COMPATIBLE: Final = (
    *(range(0xA0, 0x300), range(0x1D00, 0x1DC0), range(0x2000, 0x2500), range(0x3000, 0x3400), range(0xFB00, 0xFB10)),
    *(range(0xFE10, 0x10000), range(0x1D400, 0x1D800), range(0x1F100, 0x1F200)),
    # Single ones, of which later versions of Unicode have more.
    *(range(0x37E, 0x37F), range(0x1FEF, 0x1FF0), range(0x2A74, 0x2A77), range(0x2C7C, 0x2C7E), range(0xA7F1, 0xA7F5)),
    *(range(0xFB29, 0xFB2A), range(0x107A5, 0x107A6), range(0x1CCD6, 0x1CCFA), range(0x1FBF0, 0x1FBFA)),
)
"""The blocks of Unicode with other forms of ASCII characters."""
_NORMAL: Final = (
    {"\u226e": "<", "\u226f": ">"}
    | {chr(c): "" for c in (*range(1, 9), 11, *range(14, 32), *range(127, 160))}
    | {chr(c): " " for c in (0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD)}
    | {
        c: normal
        for c in map(chr, chain.from_iterable(_COMPATIBLE))
        if (normal := unicodedata.normalize("NFKC", c)) != c and normal.isascii()
    }
)
"""What tokenizers that normalize, as SentencePiece's do, read in place of some characters: of control characters
nothing, a space in place of its sign (▁) and of what has no width, and ASCII in place of full-width and other forms of
it, and of signs that are taken apart (NFD)."""
_NORMALIZED: Final = re.compile(
    f"[{re.escape(''.join(c for c in _NORMAL if ord(c) < 0x10000))}]"
    "|[\U000107a5\U0001ccd6-\U0001ccf9\U0001d400-\U0001f1ff\U0001fbf0-\U0001fbf9]"
)
_READ: Final = re.compile(f"{_ESCAPE.pattern}|{_NORMALIZED.pattern}")


_ANY: Final = re.compile(r"\{(?:any)?\}")


def markers(texts: Iterable[str]) -> set[str]:
    """What looks like a special token in texts that a template or a dialect writes; of one with a part that is open,
    such as ``<think:{any}>`` or ``'<think{}>'.format(id)``, what stands before that."""
    found = {token for text in texts for token in _MARKER.findall(text)}
    heads = {token: _ANY.split(token)[0] for token in found}
    return {head if any(map(str.isalnum, head)) else token for token, head in heads.items()}


_PROBED: Final = re.compile(r"Zq[a-z]+")
_LONGEST_MARK: Final = 64
_MIRROR: Final = str.maketrans("[{<«\"'`(", "]}>»\n\n\n\n")  # nothing in quotes or parentheses is a token


def turn_marks(probes: Iterable[str], literals: Iterable[str], special: Iterable[str]) -> set[str]:
    """What opens and closes turns in renderings of plain messages (`shapes.examine`), such as ``User:``.

    Where a special token stands between two messages, nobody can forge the turn without it; then only words that look
    like tokens of another shape count (``@@user@@``). Elsewhere each line counts, and each literal of the template.
    """
    known = sorted({t for t in special if t.strip()}, key=len, reverse=True)
    divided = [parts for text in probes if len(parts := _PROBED.split(text)) > 1]  # by the messages
    plain = {gap: _without(gap, known) for _, *gaps in divided for gap in gaps}
    bare = {gap.strip() for gap, rest in plain.items() if gap == rest}
    found = {word for gap, rest in plain.items() if gap != rest for word in rest.split() if _is_token_like(word)}
    heads = {_without(parts[0], known).strip() for parts in divided}
    found |= _between(heads, bare, found)
    closings = {"", *(parts[-1].strip() for parts in divided)} & {"", *bare}
    written = [one.strip() for one in literals if "\n" not in one.strip()]
    for gap in bare:
        found |= _pieces(gap, closings, written)
    found |= {os.path.commonprefix(pair).strip() for pair in pairwise(sorted(found))}  # noqa: RUF071 - of strings
    return set(filter(_is_mark, found))


def _between(heads: set[str], bare: Iterable[str], found: set[str]) -> set[str]:
    """What stands before the first message and between others too; if some of it does, or was ``found`` there, all that
    stands before one."""
    shared = {head for head in heads if any(gap.endswith(head) for gap in bare)}
    return heads if any((found | shared) & heads) else shared


def _without(text: str, known: Iterable[str]) -> str:
    """A text with a new line in place of each special token."""
    for token in (*known, *sorted(markers([text]), key=len, reverse=True)):
        text = text.replace(token, "\n")
    return text


def _pieces(gap: str, closings: Iterable[str], literals: Iterable[str]) -> set[str]:
    """The lines of a text between two messages, also after what closes the first, and the literals in it."""
    lines = {line.strip() for closing in closings for line in gap.removeprefix(closing).split("\n")}
    return lines | {one for one in literals if one in gap}


def _is_token_like(word: str) -> bool:
    """Whether a word begins and ends with the same sign, or with a bracket and its counterpart."""
    return word[-1] == word[0].translate(_MIRROR) and not word[0].isalnum()


def _is_mark(text: str) -> bool:
    """Whether a text is short, a line, and has both letters and signs."""
    solid = [c.isalnum() for c in text if not c.isspace()]
    return 1 < len(text) <= _LONGEST_MARK and "\n" not in text and any(solid) and not all(solid)


_LETTERS: Final = "A-Za-zÀ-ÖØ-öø-ɏͰ-ϿЀ-ԯ"
"""Those of scripts that part words by spaces, and in which marks of turns are written."""


def apart(marks: Iterable[str], probes: Sequence[str]) -> set[str]:
    """Those marks that are marks only where a word begins: ``User:``, not in ``SuperUser:``, unless the template itself
    writes them right after a letter."""
    letter = f"[{_LETTERS}]"
    words = {m for m in marks if re.match(letter, m)}
    return {m for m in words if not any(re.search(letter + re.escape(m), text) for text in probes)}


_WORD_BEGINS: Final = rf"(?:(?<![{_LETTERS}])|(?<=\\[a-z]))"
"""Also after an escape, such as of a new line."""


class SpecialTokens:
    """Breaks up special tokens in the values of a request. The ``alone`` ones count only where a word begins."""

    def __init__(self, tokens: Iterable[str], alone: Iterable[str] = ()) -> None:
        self.words = tuple(sorted({*tokens, *alone}))
        bound = set(alone)
        patterns = [
            start + _beginnings(sorted(read))
            for start, words in (("", set(self.words) - bound), (_WORD_BEGINS, bound))
            if (read := {*words, *map(_normalized, words)})
        ]
        self._begins = re.compile("|".join(patterns)) if patterns else None
        self._joined = "\n".join(self.words)
        self._longest = max(map(len, self.words), default=0)

    def break_up(self, value: Any) -> Any:
        """Return a value without special tokens in its strings, its keys, and the texts of adjacent parts: neither as
        they are, nor in escapes of JSON or HTML, which a template may decode, nor as a tokenizer may normalize."""
        if self._begins is None:
            return value
        if isinstance(value, str):
            return self._break_up_hidden(self._begins.sub(rf"\g<0>{BREAK}", value))
        if isinstance(value, dict):
            made: dict[Any, Any] = {}
            for key, one in value.items():
                name = self.break_up(key)
                while name in made:  # of keys that differ only by what breaks up tokens, none is lost
                    name += f"{BREAK}{len(made)}"
                made[name] = self.break_up(one)
            return made
        if not isinstance(value, list):
            return value
        values = [self.break_up(v) for v in value]
        texts = [v for v in values if isinstance(v, dict) and isinstance(v.get("text"), str)]
        if self.spelled("".join(v["text"] for v in texts)):
            for v in texts[1:]:
                v["text"] = BREAK + v["text"]
        return values

    def spelled(self, text: str) -> bool:
        """Whether a text spells a special token, as it is, in escapes, or once it is normalized."""
        return self._begins is not None and bool(self._begins.search(text) or self._begins.search(_read(text)))

    def has_piece(self, text: str) -> bool:
        """Whether a whole text is a piece of a special token, from which a template may make one."""
        piece = text.strip() if len(text) <= 2 * self._longest else text
        return 0 < len(piece) <= self._longest and piece in self._joined

    def completed(self, piece: str, texts: Sequence[str]) -> bool:
        """Whether a piece of special tokens becomes one after, before or between some of these texts."""
        return any(
            (not head or any(text.endswith(head) for text in texts))
            and (not tail or any(text.startswith(tail) for text in texts))
            for word in self.words
            for found in re.finditer(f"(?={re.escape(piece)})", word)
            for head, tail in [(word[: found.start()], word[found.start() + len(piece) :])]
        )

    @cached_property
    def _by_first(self) -> dict[str, list[str]]:
        """The words by their first characters, the longest first."""
        found: dict[str, list[str]] = {}
        for word in sorted(self.words, key=len, reverse=True):
            found.setdefault(word[:1], []).append(word)
        return found

    def counts(self, text: str) -> Counter[str]:
        """How often each special token occurs in a text."""
        return Counter(
            next((w for w in self._by_first.get(text[at], ()) if text.startswith(w, at)), "")
            for at in self.places(text)
        )

    def places(self, text: str) -> list[int]:
        """The positions in a text at which special tokens begin."""
        return [] if self._begins is None else [found.start() for found in self._begins.finditer(text)]

    def _break_up_hidden(self, text: str) -> str:
        """Break up what becomes a special token if a text is read otherwise."""
        if not self.spelled(text):
            return text
        plain: list[str] = []
        ends: list[int] = []  # of each decoded character in the text
        at = 0
        for found in _READ.finditer(text):
            decoded = _normalized(_decoded(found))
            plain += (text[at : found.start()], decoded)
            ends += range(at + 1, found.start() + 1)
            ends += [found.end()] * len(decoded)
            at = found.end()
        plain.append(text[at:])
        ends += range(at + 1, len(text) + 1)
        pieces: list[str] = []
        at = 0
        for place in self.places("".join(plain)):
            pieces.append(text[at : ends[place]])
            at = ends[place]
        return BREAK.join([*pieces, text[at:]])


def _read(text: str) -> str:
    """A text as it may be read: without escapes, and normalized."""
    return _normalized(_ESCAPE.sub(_decoded, text) if "\\" in text or "&" in text else text)


def _decoded(found: re.Match[str]) -> str:
    if found[4]:
        return html.unescape(found[4])
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else found[3] or found[0]


def _normalized(text: str) -> str:
    # Not `unicodedata.normalize`, whose time is quadratic in the number of combining characters.
    return _NORMALIZED.sub(lambda found: _NORMAL.get(found[0], found[0]), text)


def _beginnings(words: Iterable[str]) -> str:
    """A pattern that matches the first character of each occurrence of a sorted word, even if they overlap.

    The pattern is a prefix tree of the words, so that even a text made of their beginnings takes linear time.
    """
    heads = groupby(words, lambda word: word[0])
    return f"(?:{'|'.join(f'{re.escape(c)}(?={_tree([w[1:] for w in group])})' for c, group in heads)})"


def _tree(words: Iterable[str]) -> str:
    """A pattern that matches any of the sorted words."""
    parts = []
    for _, group in groupby(words, lambda word: word[:1]):
        alike = list(group)
        common = os.path.commonprefix(alike)  # noqa: RUF071 - of strings, not of paths
        rest = _tree([w[len(common) :] for w in alike]) if common not in alike else ""
        parts.append(re.escape(common) + rest)
    return f"(?:{'|'.join(parts)})"
