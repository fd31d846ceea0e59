"""The site of the documentation is built by MkDocs, which refuses a link that leads nowhere."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
MKDOCS = ROOT / ".venv" / "docs" / "bin" / "mkdocs"
PLANTED = {
    "a page": ("no-such-page.md", "no-such-page.md"),
    "a heading": ("server.md#no-such-heading", "no-such-heading"),
    "a page in a folder": ("howto/no-such-page.md", "howto/no-such-page.md"),
    "a file of the repository": ("../../no-such-file.py", "leads to nothing in the repository"),
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("link", "message"), PLANTED.values(), ids=PLANTED)
def test_a_broken_link_fails_the_build(tmp_path: Path, language: str, link: str, message: str) -> None:
    for path in ROOT.iterdir():
        if path.name != "docs" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", symlinks=True)
    page = tmp_path / "docs" / language / "index.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\n[broken]({link})\n", encoding="utf-8")
    (tmp_path / "build").unlink(missing_ok=True)  # the real site stays as it is
    ran = subprocess.run([MKDOCS, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode != 0
    assert message in ran.stderr


def test_the_search_finds_the_words_of_chinese_pages(tmp_path: Path) -> None:
    subprocess.run([MKDOCS, "build", "--strict", "--site-dir", tmp_path], cwd=ROOT, capture_output=True, check=True)
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    texts = [one["text"] for one in index["docs"] if one["location"].startswith("zh/")]
    words = {word for text in texts for word in re.split(index["config"]["separator"], text)}
    assert {"思维", "方言", "模型"} <= words, "each by itself"
