"""The two trees of pages, English and Chinese, and their common parts."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENGLISH = ROOT / "docs" / "en"
CHINESE = ROOT / "docs" / "zh"
UNTRANSLATED: set[str] = set()
"""English pages without a Chinese one, by their paths below docs/en. A stale entry fails a test."""

PAIRS: dict[Path, Path] = {
    ROOT / "README.md": ROOT / "README.zh.md",
    **{
        page: CHINESE / page.relative_to(ENGLISH)
        for page in sorted(ENGLISH.rglob("*.md"))
        if (CHINESE / page.relative_to(ENGLISH)).exists()
    },
}
"""Each English page that has a Chinese one, with its Chinese page."""

_BLOCK = re.compile(r"(?:<!-- file: \S+ -->\n)?^(?P<fence>```+)[^`\n]*\n(?:.*?\n)??(?P=fence)$", re.M | re.S)
_REGION = re.compile(r"<!-- (?P<name>[a-z]+) -->\n.*?<!-- /(?P=name) -->", re.S)


def blocks(text: str) -> list[str]:
    """The blocks of code and output."""
    return [block[0] for block in _BLOCK.finditer(text)]


def regions(text: str) -> dict[str, str]:
    """The generated regions, by name."""
    return {region["name"]: region[0] for region in _REGION.finditer(text)}


def headings(text: str) -> list[int]:
    """The levels of the headings, in order."""
    prose = _BLOCK.sub("", _REGION.sub("", text))
    return [len(marks) for marks in re.findall(r"^(#+) ", prose, re.M)]


def anchors(text: str) -> set[str]:
    """The anchors of its headings, on the site and in the repository."""
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def tables(text: str) -> list[int]:
    """The number of columns of each row of a table, in order."""
    prose = _BLOCK.sub("", _REGION.sub("", text))
    return [len(re.findall(r"(?<!\\)\|", line)) for line in prose.splitlines() if line.startswith("|")]


def links(text: str) -> set[str]:
    """The targets of its links, without the anchors, which are in the page's language."""
    prose = _BLOCK.sub("", _REGION.sub("", text))
    return set(re.findall(r"\]\(([^)#\s]+)", prose))


def with_code_of(english: str, chinese: str) -> str:
    """A Chinese page with the code, the outputs and the generated tables of its English one.

    Raises:
        ValueError: the pages have different numbers of blocks.
    """
    made = regions(english)
    chinese = _REGION.sub(lambda region: made.get(region["name"], region[0]), chinese)
    theirs, ours = blocks(english), blocks(chinese)
    if len(theirs) != len(ours):
        raise ValueError(
            f"the English page has {len(theirs)} blocks of code, the Chinese one {len(ours)}:\n{chinese[:80]}"
        )
    following = iter(theirs)
    return _BLOCK.sub(lambda _: next(following), chinese)
