"""Chat templates of families that do not exist, by the names of their files. Each begins with a line about it."""

from pathlib import Path

_FILES = sorted(Path(__file__).with_name("invented").glob("*.jinja"))
TEMPLATES = {file.stem: file.read_text(encoding="utf-8").partition("\n")[2].rstrip("\n") for file in _FILES}
FAMILIES = [name for name in TEMPLATES if name not in ("ambiguous", "known", "silent")]
"""Those of which a new dialect is made."""
