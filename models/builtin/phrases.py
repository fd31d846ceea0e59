"""What the training examples are said with; see ``phrases.toml``."""

import tomllib
from pathlib import Path
from typing import Any, Final

PHRASES: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))
