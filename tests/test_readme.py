"""README.md and the pages in docs show what unspool does."""

import re
from pathlib import Path

import pytest

from tests.picture import PICTURE, picture
from tests.readme import BLOCK, COMMANDS, GROUPS, PAGES, README, ROOT, TABLES, rewritten
from tests.transitions import PICTURE as STATES
from tests.transitions import described, drawing

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
LINKING = [
    README,
    ROOT / "README.zh.md",
    ROOT / "examples" / "README.md",
    CONTRIBUTING,
    ROOT / "SECURITY.md",
    ROOT / "CODE_OF_CONDUCT.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
OTHERS = "vllm serve|pip install |python3 -m venv|\\. \\.venv"
"""Commands of other programs that a page may show."""
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.mark.parametrize(
    "group",
    [*GROUPS, *(pytest.param(group, marks=pytest.mark.examples) for group in COMMANDS)],
    ids=lambda group: group[0].name,
)
def test_tables_and_outputs_are_what_the_code_makes(group: list[Path]) -> None:
    for page, made in zip(group, rewritten([TEXTS[page] for page in group]), strict=True):
        assert made == TEXTS[page], "run `make readme`"


def test_the_picture_of_the_states_is_drawn_from_their_table() -> None:
    assert described(STATES.read_text(encoding="utf-8")) == drawing(), "run `make states`"


def test_the_picture_shows_what_the_parser_reads() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make readme`"


def test_every_generated_table_has_a_place() -> None:
    for name in TABLES:
        assert sum(f"<!-- {name} -->" in text for text in TEXTS.values()) == 1, name


@pytest.mark.parametrize("readme", [README, ROOT / "README.zh.md"], ids=lambda page: page.name)
@pytest.mark.parametrize(
    ("target", "page", "pattern"),
    [
        ("bfcl", "batch", r"the ([\d,]+) ground truths[^.]*in each of (\d+) dialects"),
        ("infer", "infer", r"\| all \| \d+ \| (\d+) \| \d+ \(\d+%\) \| (\d+) "),
        ("bench", "benchmarks", r"source code, median of \d+ dialects \| ([\d.]+)"),
        ("bench", "benchmarks", r"bare starlette and uvicorn \| (\d+) %"),
        ("bench-plugins", "plugins", r"(\d+) times and more beside their parsers of Hermes and DeepSeek-V3.1"),
    ],
)
def test_the_measured_table_has_the_figures_of_the_pages(readme: Path, target: str, page: str, pattern: str) -> None:
    """Each figure comes from the page that explains it."""
    rows = [line for line in readme.read_text(encoding="utf-8").splitlines() if f"`make {target}`" in line]
    found = re.search(pattern, " ".join((ROOT / f"docs/en/{page}.md").read_text(encoding="utf-8").split()))
    assert found is not None
    assert set(found.groups()) <= set(re.findall(r"\d[\d,.]*\d|\d", "".join(rows)))


def test_the_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    texts = [*TEXTS.values(), CONTRIBUTING.read_text(encoding="utf-8")]
    targets = {target for text in texts for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M)}
    assert {"serve", "test", "bench", "readme"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_paths_that_contributing_names_exist() -> None:
    paths = re.findall(r"`((?:src|tests|docs|\.ci)/[^`\s]*)`", CONTRIBUTING.read_text(encoding="utf-8"))
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_the_files_it_links_to_exist(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")) if "://" not in link]
    for link in links:
        assert (page.parent / link).exists(), link


@pages
def test_only_installation_and_servers_are_shown_without_output(page: Path) -> None:
    text = TEXTS[page]
    silent = [m for m in BLOCK.finditer(text) if m["language"] == "sh" and not text.startswith("\n\n```text", m.end())]
    lines = [line for m in silent for line in m["text"].splitlines()]
    assert [line for line in lines if not re.match(rf"make [a-z]+$|{OTHERS}|unspool serve", line)] == []


def test_installation_comes_before_any_command() -> None:
    text = TEXTS[README]
    assert text.index("pip install") < text.index("```sh\ncat") < text.index("\nunspool serve\n")
    assert "unspool[" not in text, "it is on no index"
