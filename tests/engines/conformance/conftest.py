"""Tests that are coroutines, and the engine of each in the same event loop."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from .table import Entry, Made


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Made]:
    """An engine of the table, closed at the end."""
    entry: Entry = request.param

    async def make() -> Made:
        return entry.make(tmp_path)

    made = runner.run(make())
    try:
        yield made
        runner.run(made.engine.close())
    finally:
        made.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutines; pytest itself does not."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner.run(pyfuncitem.obj(**arguments))
    return True
