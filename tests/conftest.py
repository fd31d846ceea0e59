"""Settings for all tests: hypothesis; coroutines; `--cases`, a sample of each test's cases and examples; `--styles`."""

import asyncio
import inspect
import os
import socket
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from unspool.chat_templates import pool
from unspool.chat_templates.worker import Worker
from unspool.check import trials

from .styles import commit, of_styles, representatives, sample
from .transitions import recorded

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds that a coroutine may take."""

# Set before numpy is loaded, here and in processes that tests start: idle threads of small products take both cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Test machines are sometimes slow, and what must be fast has its own test.
settings.register_profile("unspool", deadline=None, print_blob=True)
settings.register_profile("styles", settings.get_profile("unspool"), max_examples=40)
settings.register_profile("sample", settings.get_profile("unspool"), max_examples=20)
settings.load_profile("unspool")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "a sample: at most N cases of each parametrized test, spread over all of them, and no test marked slow"
    parser.addoption("--cases", type=int, metavar="N", default=0, help=text)
    text = "try properties of all dialects on one of each style and those that differ from main's; sample others"
    parser.addoption("--styles", action="store_true", help=text)
    text = "what draws dialects under --styles; default: the commit"
    parser.addoption("--styles-seed", metavar="SEED", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cases") > 0:
        settings.load_profile("sample")
    elif config.getoption("--styles"):
        settings.load_profile("styles")
    else:
        return
    pytest.MonkeyPatch().setattr(trials, "MAX_PLACES", 80)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--styles"):
        _keep(config, items, set(of_styles(items, _seed(config))))
    most: int = config.getoption("--cases")
    if most <= 0:
        return
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            tests[item.nodeid.partition("[")[0]].append(item)
    kept = {item for test, cases in tests.items() for item in sample(cases, most, test)}
    _keep(config, items, kept)


def _seed(config: pytest.Config) -> str:
    seed: str | None = config.getoption("--styles-seed")
    return commit() if seed is None else seed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which dialects were drawn, and how to draw them again."""
    if config.getoption("--styles"):
        seed = _seed(config)
        terminalreporter.write_line(f"--styles-seed '{seed}': {', '.join(representatives(seed))}")


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(scope="session", autouse=True)
def table_of_states() -> Iterator[None]:
    """Check that the machine changes its state only as its table says, whatever a test does."""
    with recorded():
        yield


@pytest.fixture(scope="module", autouse=True)
def warm_templates(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the processes that render chat templates for the other tests of a file, because starting one takes long."""
    if "chat_templates" in request.module.__name__:
        yield
        return
    kept: defaultdict[str, list[Worker]] = defaultdict(list)
    keys: dict[Worker, str] = {}
    running = True

    def start(template: str, special: Any, limits: Any) -> Worker:
        key = repr((template, special, limits))
        worker = kept[key].pop() if kept[key] else Worker(template, special, limits)
        keys[worker] = key
        return worker

    def end(workers: list[Worker]) -> None:
        while workers:
            worker = workers.pop()
            if running and worker.alive:
                kept[keys[worker]].append(worker)
            else:
                worker.end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "Worker", start)
        patch.setattr(pool, "_end", end)
        yield
        running = False
        for workers in kept.values():
            end(workers)


@pytest.fixture(scope="session")
def templates(request: pytest.FixtureRequest) -> dict[str, Path]:
    """The folders of chat templates."""
    from .templates.sources import folders  # it may install packages

    assert request.config.cache is not None
    return folders(Path(request.config.cache.mkdir("templates")))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments with which servers would have been started, by commands that start one.

    They listen on any free port, because other tests, or a server of yours, may have theirs.
    """
    calls: list[tuple[Any, ...]] = []

    def serve(*arguments: Any, **_: Any) -> bool:
        calls.append(arguments)
        return True

    monkeypatch.setattr("unspool.server.serve", serve, raising=False)
    monkeypatch.setattr("unspool.cli.serve.listen", lambda options: socket.create_server(("127.0.0.1", 0)))
    return calls


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutines, in the event loop of the fixture ``runner`` if the test has one; pytest itself does not.

    Each must end in time, and leave no tasks behind.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    runner = pyfuncitem.funcargs.get("runner")
    (runner.run if isinstance(runner, asyncio.Runner) else run)(test)
    return True


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, which must end in time and leave no tasks behind."""

    async def whole() -> T:
        async with asyncio.timeout(PATIENCE):
            found = await test
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others
        return found

    return asyncio.run(whole())
