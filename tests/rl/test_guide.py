"""The guide's code runs, and what it asserts holds."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "en" / "rl.md"


def test_the_guides_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 6
    exec("\n".join(blocks), {})
