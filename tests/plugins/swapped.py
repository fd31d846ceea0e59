"""Plug-in of pytest: vLLM's own tests, as they are or with our parsers in the place of vLLM's.

    python -m pytest -p tests.plugins.swapped --outcomes FILE [--swapped] …

``FILE`` gets the outcome of every test; with ``--swapped``, only of those that used a parser of ours.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import NonCallableMock

import pytest

PREFIX = "unspool_"


class Used:
    """Whether the test that runs has used a parser of ours."""

    def __init__(self) -> None:
        self.now = False


USED = Used()


def watched(kind: type[Any]) -> type[Any]:
    """A class that tells of its use."""

    def get(self: Any, name: str) -> Any:
        USED.now = True
        return super(made, self).__getattribute__(name)

    def read(self: Any, request: Any, **more: Any) -> Any:
        return super(made, self)._read(served(request), **more)

    own = {"__getattribute__": get, **({"_read": read} if hasattr(kind, "extract_tool_calls") else {})}
    made: type[Any] = type(kind.__name__, (kind,), own)
    return made


def served(request: Any) -> Any:
    """A request as servers make them: these tests ask for calls without tools, or with mocks."""
    tools, choice = getattr(request, "tools", None), getattr(request, "tool_choice", None)
    if not isinstance(tools, list) or not tools:
        return None
    return SimpleNamespace(tools=tools, tool_choice="auto" if isinstance(choice, NonCallableMock) else choice)


def swap(manager: Any, ours: dict[str, Any], theirs: dict[str, tuple[str, str]], get: Callable[[str], Any]) -> None:
    """Put our parsers in the place of vLLM's, in its registry and wherever its modules name them."""
    for name in sorted(theirs):
        mine = ours.get(PREFIX + name) or ours.get(PREFIX + name.replace("_", "-"))
        if mine is None:
            continue
        old, new = get(name), watched(mine)
        new.__name__ = new.__qualname__ = old.__name__
        ours[name] = new
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("vllm."):
                for attribute in [a for a, value in list(vars(module).items()) if value is old]:
                    setattr(module, attribute, new)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True)
    parser.addoption("--swapped", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("swapped"):
        return
    importlib.import_module("vllm.plugins").load_general_plugins()
    calls = importlib.import_module("vllm.tool_parsers").ToolParserManager
    thoughts = importlib.import_module("vllm.reasoning").ReasoningParserManager
    swap(calls, calls.tool_parsers, calls.lazy_parsers, calls.get_tool_parser)
    swap(thoughts, thoughts.reasoning_parsers, thoughts.lazy_parsers, thoughts.get_reasoning_parser)


OUTCOMES: dict[str, str] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    USED.now = False
    result = yield
    if item.config.getoption("swapped") and not USED.now:
        OUTCOMES.pop(item.nodeid, None)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or (report.when == "setup" and not report.passed):
        OUTCOMES[report.nodeid] = report.outcome if not report.failed else "failed"


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.getoption("outcomes").write_text(json.dumps(OUTCOMES, indent=0, sort_keys=True), encoding="utf-8")
