"""The guide to dialect files describes every key and every field, and its examples are valid."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import unspool
from unspool.check import check_dialect
from unspool.cli import main
from unspool.dialect.loader import KEYS
from unspool.dialect.template import FIELDS
from unspool.policy import CHOICES

GUIDE = (Path(__file__).parent.parent / "docs" / "en" / "dialects.md").read_text(encoding="utf-8")
ALL_FIELDS = sorted({(kind, field) for kind, fields in FIELDS.items() for field in fields})


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by the code in their first cell."""
    section = GUIDE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in section.splitlines() if "|" in line]
    return {name: row[1:] for row in cells[2:] for name in re.findall(r"`([^`]+)`", row[0])}


def test_the_guide_describes_every_key_and_no_other() -> None:
    table = rows("Keys")
    assert sorted(table) == sorted(KEYS)
    assert all(all(row[:2]) for row in table.values())


@pytest.mark.parametrize(("kind", "field"), ALL_FIELDS)
def test_the_guide_describes_every_field_and_where_it_stands(kind: str, field: str) -> None:
    where, meaning = rows("Fields")[f"{{{field}}}"]
    assert f"`{kind}`" in where or field == "any"
    assert meaning


def test_the_guide_describes_no_field_that_does_not_exist() -> None:
    assert set(rows("Fields")) == {f"{{{field}}}" for _, field in ALL_FIELDS}


def test_the_guides_first_example_is_a_complete_valid_file(tmp_path: Path) -> None:
    path = tmp_path / "my-model.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", GUIDE, re.S)[0], encoding="utf-8")
    assert check_dialect(unspool.load_dialect(path)) == []


def test_the_guides_frames_make_a_dialect(tmp_path: Path) -> None:
    frames = re.findall(r"```toml\n(.*?)```", GUIDE.split("\n## Frames\n", 1)[1], re.S)[0]
    path = tmp_path / "framed.toml"
    raw = "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|end|>"
    example = f'[[examples]]\nraw = "{raw}"\nreasoning = "plan"\ncontent = "Hi."\n'
    path.write_text(f'name = "framed"\n{frames}{example}', encoding="utf-8")
    assert check_dialect(unspool.load_dialect(path)) == []


def test_the_guides_family_is_valid_and_a_mistake_in_it_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = GUIDE.split("\n## A family, from its first output", 1)[1]
    path = tmp_path / "wren.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", section, re.S)[0], encoding="utf-8")
    dialect = unspool.load_dialect(path)
    assert check_dialect(dialect) == []
    output, complaint = re.findall(r"```text\n(.*?)```", section, re.S)[:2]
    assert dialect.examples[0].raw[0] + "\n" == output
    margin = 'calls = "\\n{calls}"'
    assert margin in path.read_text(encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace(margin, 'calls = "{calls}"'), encoding="utf-8")
    assert main(["check", str(path)]) == 2
    said = "".join(capsys.readouterr())
    assert all(line in said for line in complaint.splitlines())


def test_the_guide_lists_every_policy_and_its_values() -> None:
    table = {field: re.findall(r"`(\w+)`", row[0]) for field, row in rows("Policies").items()}
    declared = {f: [str(v).lower() if isinstance(v, bool) else v for v in values] for f, values in CHOICES.items()}
    assert table == declared


def test_a_fence_opens_calls_where_the_guide_says(tmp_path: Path) -> None:
    guide = re.findall(r'``("\\n```json.*?```")``', GUIDE)
    assert len(guide) == 1
    tools = [{"type": "function", "function": {"name": "now"}}]
    call = '```json\n{"name": "now", "arguments": {}}\n```'
    for calls in (guide[0], guide[0].replace(r"\n", "", 1)):
        path = tmp_path / "fenced.toml"
        example = f"[[examples]]\nraw = '''\n{call}'''\ntool_calls = [{{ name = 'now' }}]\n"
        template = '{"name": "{name}", "arguments": {arguments}}'
        path.write_text(f"name = 'fenced'\ncalls = {calls}\ncall = '{template}'\n{example}", encoding="utf-8")
        dialect = unspool.load_dialect(path)
        found = {
            before: len(unspool.parse(before + call, dialect, tools=tools).tool_calls)
            for before in ("", "So:\n", "So: ")
        }
        assert found == {"": 1, "So:\n": 1, "So: ": 0}


API = (Path(__file__).parent.parent / "docs" / "en" / "api.md").read_text(encoding="utf-8")
DESCRIBED = re.findall(r"^::: (\S+)$", API, re.M)
MODULES = ["unspool", *(f"unspool.{name}" for name in ("wire", "grammar", "engines", "engines.upstream", "server"))]
MODULES += ["unspool.batch", "unspool.rl", "unspool.rl.rewards"]


@pytest.mark.parametrize("module", MODULES)
def test_the_api_page_has_every_public_name(module: str) -> None:
    public = import_module(module)
    names = [
        name for name in public.__all__ if not isinstance(getattr(public, name), ModuleType) and name != "__version__"
    ]
    described = {name.rpartition(".")[2] for name in DESCRIBED if name.startswith("unspool.")}
    assert [name for name in names if name not in described] == []


def test_the_api_page_names_nothing_that_does_not_exist() -> None:
    assert len(DESCRIBED) == len(set(DESCRIBED))
    for name in DESCRIBED:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_every_page_of_the_sites_menu_exists_and_is_built() -> None:
    site = (Path(__file__).parent.parent / "mkdocs.yml").read_text(encoding="utf-8")
    excluded = site.partition("exclude_docs: |\n")[2].partition("\nvalidation:")[0].split()
    pages = re.findall(r"^ +- ([\w/-]+\.md)$", site.partition("\nnav:")[2], re.M)
    assert "features/tool_calling.md" in pages
    for page in pages:
        assert (Path(__file__).parent.parent / "docs" / "en" / page).is_file()
        # The English pages are at the site's root, so a folder that is excluded there takes theirs along.
        assert not any(f"/{page}".startswith(folder) for folder in excluded)
