"""What we send SGLang for images is what its own processors of eight families look for; run by ``make sglang``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .sglang_media import FAMILIES
from .vllm_server import VISION, VISION_PATH

pytestmark = pytest.mark.sglang


def test_processors_find_one_placeholder_for_each_image() -> None:
    if not VISION.is_dir():
        pytest.skip("torchvision is not installed; `make sglang` does so")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.plugins.sglang_media"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": VISION_PATH},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {
        name: {"span": span, "places": 2, "images": [[8, 8], [8, 16]], "text": True}
        for name, (span, _, _) in FAMILIES.items()
    }
