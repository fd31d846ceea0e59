"""The engine of each test, in the same event loop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from .table import Made


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Made]:
    """An engine, closed at the end."""
    with request.param(tmp_path) as made:
        yield made
        runner.run(made.engine.close())
