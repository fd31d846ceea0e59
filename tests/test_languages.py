"""The English and the Chinese pages correspond: none is missing, and code, outputs and structure are equal."""

import re
from pathlib import Path

import pytest

from .languages import CHINESE, ENGLISH, PAIRS, ROOT, UNTRANSLATED, anchors, blocks, headings, links, regions, tables
from .readme import PAGES

pairs = pytest.mark.parametrize(
    ("english", "chinese"), PAIRS.items(), ids=[str(page.relative_to(ROOT)) for page in PAIRS]
)
_HAN = re.compile(r"[\u4e00-\u9fff]")


def paths(folder: Path) -> set[str]:
    return {page.relative_to(folder).as_posix() for page in folder.rglob("*.md")}


def test_every_page_is_in_both_languages() -> None:
    assert paths(CHINESE) - paths(ENGLISH) == set()
    assert paths(ENGLISH) - paths(CHINESE) == UNTRANSLATED, "a page without a translation, or a stale entry"


def test_the_pages_of_features_are_where_fastdeploys_proposal_has_them() -> None:
    """``docs/features`` is a link to the English pages, not a copy."""
    for name in ("reasoning_output.md", "tool_calling.md"):
        assert (ROOT / "docs/features" / name).resolve() == ENGLISH / "features" / name
        assert (CHINESE / "features" / name).exists()


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    assert sorted(re.findall(r"- (\S+\.md)$", navigation, re.M)) == sorted(paths(ENGLISH))


@pairs
def test_code_outputs_and_tables_made_from_the_code_are_the_same(english: Path, chinese: Path) -> None:
    ours, theirs = (page.read_text(encoding="utf-8") for page in (chinese, english))
    assert regions(ours) == regions(theirs), "run `make readme`"
    assert blocks(ours) == blocks(theirs), "run `make readme`"


@pairs
def test_headings_tables_and_links_are_of_the_same_structure(english: Path, chinese: Path) -> None:
    ours, theirs = (page.read_text(encoding="utf-8") for page in (chinese, english))
    assert headings(ours) == headings(theirs)
    assert tables(ours) == tables(theirs)
    assert {_neutral(link) for link in links(ours)} == {_neutral(link) for link in links(theirs)}


def _neutral(link: str) -> str:
    """A link, without the language of its target."""
    return "README" if link in ("README.md", "README.zh.md") else link.replace("docs/zh/", "docs/en/")


@pytest.mark.parametrize("page", [*PAIRS, *PAIRS.values()], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_headings_that_it_links_to_exist(page: Path) -> None:
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in path:
            target = page.parent / path if path else page
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{path}#{anchor}"


@pairs
def test_the_chinese_page_is_in_chinese(english: Path, chinese: Path) -> None:
    prose = chinese.read_text(encoding="utf-8")
    for code in [*regions(prose).values(), *blocks(prose)]:
        prose = prose.replace(code, "")
    assert len(_HAN.findall(prose)) > 60


def test_every_page_has_an_english_version() -> None:
    assert [page for page in PAGES if page not in PAIRS] == []
