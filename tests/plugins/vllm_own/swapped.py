"""A pytest plug-in: runs vLLM's own tests as they are, or with our parsers instead of vLLM's.

    PYTHONPATH=tests/plugins/vllm_own python -P -m pytest -p swapped --outcomes FILE [--swapped BEFORE] …

``FILE`` gets an `Outcome` for each test as JSON; with ``--swapped``, only for the tests that used a parser of ours.
``BEFORE`` is the file of a run with vLLM's parsers. Only this folder is on the path, because vLLM's tests are also a
package named ``tests``.

The plug-in supplies two things that these tests lack. Tokenizers of a hub are made here: of bytes, with the markers of
the dialect of the model's name. A request that declares no tool, which no server would pass to a tool parser, declares
the functions that vLLM's parser found in the same test.
"""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict
from unittest.mock import NonCallableMock

import pytest

import unspool

PREFIX = "unspool_"
_MARKER = re.compile(r"</?[\w:|｜▁.-]+>|\[/?[A-Z_]+\]")


class Outcome(TypedDict):
    """How a test ended, what a failure said, and the functions whose calls vLLM made in it."""

    outcome: str
    said: str
    names: list[str]


class Running:
    """The running test: whether it has used a parser of ours, and the functions of the calls that were made."""

    def __init__(self) -> None:
        self.used = False
        self.names: dict[str, None] = {}
        self.declared: list[dict[str, Any]] = []


NOW = Running()
OUTCOMES: dict[str, Outcome] = {}


def watched(kind: type[Any]) -> type[Any]:
    """A class that records its use, and takes requests as tests make them."""

    def get(self: Any, name: str) -> Any:
        NOW.used = True
        return super(made, self).__getattribute__(name)

    def read(self: Any, request: Any, **more: Any) -> Any:
        return super(made, self)._read(served(request, self._tools), **more)

    own = {"__getattribute__": get, **({"_read": read} if hasattr(kind, "extract_tool_calls") else {})}
    made: type[Any] = type(kind.__name__, (kind,), own)
    return made


def served(request: Any, given: Any) -> Any:
    """A request as servers pass it on. The tests ask for calls without tools, or with mocks.

    Args:
        request: the request of a test.
        given: the tools that the parser was made with, which count if the request has none.
    """
    tools, choice = getattr(request, "tools", None), getattr(request, "tool_choice", None)
    if not isinstance(tools, list) or not tools:
        return SimpleNamespace(tools=NOW.declared, tool_choice="auto") if NOW.declared and not given else None
    return SimpleNamespace(tools=tools, tool_choice="auto" if isinstance(choice, NonCallableMock) else choice)


def swap(manager: Any, ours: dict[str, Any], theirs: dict[str, tuple[str, str]], get: Callable[[str], Any]) -> None:
    """Replace vLLM's parsers with ours, in its registry and wherever its modules name them."""
    for name in sorted(theirs):
        mine = ours.get(PREFIX + name) or ours.get(PREFIX + name.replace("_", "-"))
        if mine is None:
            continue
        try:
            old = get(name)
        except ImportError:  # it needs a package that is not installed
            continue
        new = watched(mine)
        new.__name__ = new.__qualname__ = old.__name__
        ours[name] = new
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("vllm."):
                for attribute in [a for a, value in list(vars(module).items()) if value is old]:
                    setattr(module, attribute, new)


# --- tokenizers -------------------------------------------------------------------------------------------------------


@cache
def markers(model: str) -> tuple[str, ...]:
    """The tags in the templates of the dialect of a model's name."""
    found = unspool.detect_dialect(model)
    if not found:
        return ()
    d = unspool.get_dialect(found[0].dialect)
    texts = [t.text for t in (*d.reasoning, *d.calls, *d.call)] + [*d.start, *d.end]
    return tuple(dict.fromkeys(tag for text in texts for tag in _MARKER.findall(text)))


def tokenizer(model: Any, *args: Any, **options: Any) -> Any:
    """A tokenizer of bytes instead of a hub's. Tags of letters are ordinary tokens, and other tags are special ones."""
    given = str(model if model is not None else options["tokenizer_name"])
    library = importlib.import_module("tokenizers")
    alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
    inner = library.Tokenizer(library.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = library.decoders.ByteLevel()
    for tag in markers(given):
        special = not tag.strip("</>").replace("_", "").isalnum()
        inner.add_tokens([library.AddedToken(tag, special=special, normalized=False)])
    made = importlib.import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=inner)
    made.name_or_path = given
    listed = made.get_vocab  # in a random order; tests add tokens
    made.get_vocab = lambda: dict(sorted(listed().items(), key=lambda entry: entry[1]))
    return made


def stand_in() -> None:
    """Make tokenizers here instead of loading them from a hub."""

    def get(tokenizer_name: Any = None, *args: Any, **options: Any) -> Any:
        return tokenizer(tokenizer_name, *args, **options)

    importlib.import_module("transformers").AutoTokenizer.from_pretrained = staticmethod(tokenizer)
    vars(importlib.import_module("vllm.tokenizers"))["get_tokenizer"] = get


# --- pytest -----------------------------------------------------------------------------------------------------------


def note_names() -> None:
    """Record the names of vLLM's calls as they are made."""
    protocol = importlib.import_module("vllm.entrypoints.generate.base.protocol")
    for kind in (protocol.FunctionCall, protocol.DeltaFunctionCall):

        def begin(self: Any, made: Any = kind.__init__, /, **fields: Any) -> None:
            if fields.get("name"):
                NOW.names[str(fields["name"])] = None
            made(self, **fields)

        kind.__init__ = begin


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True)
    parser.addoption("--swapped", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    stand_in()
    if config.getoption("swapped") is None:
        note_names()
        return
    importlib.import_module("vllm.plugins").load_general_plugins()
    calls = importlib.import_module("vllm.tool_parsers").ToolParserManager
    thoughts = importlib.import_module("vllm.reasoning").ReasoningParserManager
    swap(calls, calls.tool_parsers, calls.lazy_parsers, calls.get_tool_parser)
    swap(thoughts, thoughts.reasoning_parsers, thoughts.lazy_parsers, thoughts.get_reasoning_parser)


@cache
def before(path: Path) -> dict[str, Outcome]:
    """The outcomes with vLLM's own parsers."""
    outcomes: dict[str, Outcome] = json.loads(path.read_text(encoding="utf-8"))
    return outcomes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    swapped = item.config.getoption("swapped")
    NOW.__init__()  # type: ignore[misc]  # reset it
    if swapped is not None and item.nodeid in before(swapped):
        NOW.declared = [{"type": "function", "function": {"name": n}} for n in before(swapped)[item.nodeid]["names"]]
    result = yield
    if swapped is not None and not NOW.used:
        OUTCOMES.pop(item.nodeid, None)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or (report.when == "setup" and not report.passed):
        said = str(getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or "")
        OUTCOMES[report.nodeid] = {
            "outcome": report.outcome,
            "said": said[:400] if report.failed else "",
            "names": list(NOW.names),
        }


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.getoption("outcomes").write_text(json.dumps(OUTCOMES, indent=0, sort_keys=True), encoding="utf-8")
