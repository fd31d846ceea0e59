"""What README.md shows is what unspool does."""

import re

from tests.readme import BLOCK, README, ROOT, rewritten

TEXT = README.read_text(encoding="utf-8")


def test_tables_and_outputs_are_what_the_code_makes() -> None:
    assert rewritten(TEXT) == TEXT, "run `make readme`"


def test_the_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake ([a-z]+)", TEXT))
    assert {"serve", "test", "bench"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_files_it_links_to_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", TEXT) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_only_installation_and_targets_of_make_are_shown_without_output() -> None:
    silent = [m for m in BLOCK.finditer(TEXT) if m["language"] == "sh" and not TEXT.startswith("\n\n```text", m.end())]
    lines = [line for m in silent for line in m["text"].splitlines()]
    assert lines
    assert all(re.match(r"make [a-z]+$|pip install |unspool (serve|generate) ", line) for line in lines)
