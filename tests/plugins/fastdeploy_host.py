"""FastDeploy's side of the contract with its parsers, written from its stored interface: it cannot be installed here.

The module has FastDeploy's abstract classes and managers, its loader of plug-ins, and the part of its serving code that
calls parsers. There is one reasoning parser for all requests, and a tool parser for each; both are made with only the
tokenizer. The status of a prompt is kept under the request's name, and text is decoded from ids as they arrive.
`Version` says how versions differ.
"""

import logging
import os
import runpy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import tokenizers

from ..test_tokens import make_deepseek
from .support import Gathered, Parts, Tokens

Ids = list[int]
logger = logging.getLogger("fastdeploy")


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass
class Function:
    name: str | None = None
    arguments: str | None = None


@dataclass
class Call:
    id: str | None = None
    type: str | None = None
    function: Any = None
    index: int | None = None


@dataclass
class Delta:
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None


@dataclass
class Extracted:
    tools_called: bool
    tool_calls: list[Call]
    content: str | None = None


# --- parsers ----------------------------------------------------------------------------------------------------------


class ReasoningParser(ABC):
    def __init__(self, tokenizer: Any) -> None:
        self.model_tokenizer = tokenizer

    @abstractmethod
    def is_reasoning_end(self, input_ids: Ids) -> bool: ...

    @abstractmethod
    def extract_content_ids(self, input_ids: Ids) -> Ids: ...

    @abstractmethod
    def extract_reasoning_content(self, model_output: str, request: Any, model_status: str) -> Any: ...

    @abstractmethod
    def extract_reasoning_content_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        model_status: str,
    ) -> Any: ...

    @abstractmethod
    def get_model_status(self, prompt_token_ids: Ids) -> str: ...


class ToolParser:
    def __init__(self, tokenizer: Any) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.streamed_args_for_tool: list[str] = []
        self.model_tokenizer = tokenizer

    def adjust_request(self, request: Any) -> Any:
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        raise NotImplementedError

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        raise NotImplementedError


class Manager:
    """Both managers: names are registered as they are, and looked up with ``-`` for ``_``."""

    def __init__(self, base: type[Any]) -> None:
        self.base = base
        self.parsers: dict[str, type[Any]] = {}

    def register_module(
        self, name: str | list[str] | None = None, force: bool = True, module: type[Any] | None = None
    ) -> Any:
        if module is None:  # a decorator
            return lambda decorated: self.register_module(name, force, decorated)
        if not issubclass(module, self.base):
            raise TypeError(f"module must be subclass of {self.base.__name__}, but got {module}")
        for known in [name or module.__name__] if not isinstance(name, list) else name:
            if not force and known in self.parsers:
                raise KeyError(f"{known} is already registered")
            self.parsers[known] = module
        return module

    def get(self, name: str) -> type[Any]:
        return self.parsers[name.replace("_", "-")]

    @staticmethod
    def import_tool_parser(path: str) -> None:
        """The effect of ``--tool-parser-plugin``: errors are logged."""
        try:
            runpy.run_path(path)
        except Exception:
            logger.exception("failed to load module from %s", path)


# --- plug-ins ---------------------------------------------------------------------------------------------------------


class Host(NamedTuple):
    """A running FastDeploy."""

    reasoning: Manager
    tools: Manager


def modules(host: Host) -> dict[str, dict[str, Any]]:
    """FastDeploy's modules, as far as plug-ins import them."""
    return {
        "fastdeploy": {},
        "fastdeploy.reasoning": {},
        "fastdeploy.reasoning.abs_reasoning_parsers": {
            "ReasoningParser": ReasoningParser,
            "ReasoningParserManager": host.reasoning,
        },
        "fastdeploy.entrypoints": {},
        "fastdeploy.entrypoints.openai": {},
        "fastdeploy.entrypoints.openai.protocol": {
            "DeltaMessage": Delta,
            "DeltaToolCall": Call,
            "DeltaFunctionCall": Function,
            "ToolCall": Call,
            "FunctionCall": Function,
            "ExtractedToolCallInformation": Extracted,
        },
        "fastdeploy.entrypoints.openai.tool_parsers": {},
        "fastdeploy.entrypoints.openai.tool_parsers.abstract_tool_parser": {
            "ToolParser": ToolParser,
            "ToolParserManager": host.tools,
        },
    }


def installed(put: Callable[[dict[str, Any], str, ModuleType], None]) -> Host:
    """FastDeploy as an importable package, before its plug-ins are loaded.

    Args:
        put: sets a key of a dict for as long as the test runs.
    """
    host = Host(Manager(ReasoningParser), Manager(ToolParser))
    for name, values in modules(host).items():
        module = ModuleType(name)
        vars(module).update({**values, "__path__": []})
        put(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return host


def load_plugins() -> list[str]:
    """FastDeploy's loader: load and call the entry points that ``FD_PLUGINS`` names; return their names."""
    allowed = os.environ.get("FD_PLUGINS")
    found = []
    for group in ("fastdeploy.reasoning_parser_plugins", "fastdeploy.tool_parser_plugins"):
        for point in entry_points(group=group):
            if allowed is None or point.name in allowed.split(","):
                point.load()()
                found.append(point.value)
    return found


# --- serving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """How stored versions of the serving code differ.

    Attributes:
        takes_end_away: whether the id that ends the output is removed before parsers are called.
        asks_with: what the tool parser gets: the request, the request as a dict, or the dict of the response, which has
            no tools.
        replaces: whether a message of the tool parser replaces that of the reasoning parser; if not, only its text and
            calls do.
    """

    takes_end_away: bool
    asks_with: str
    replaces: bool


VERSIONS = {
    "a message for a message": Version(takes_end_away=False, asks_with="request", replaces=True),
    "fields, with the request": Version(takes_end_away=True, asks_with="dict", replaces=False),
    "fields, with the response": Version(takes_end_away=True, asks_with="response", replaces=False),
}


class Serving:
    """A server: the processor of all its requests.

    Args:
        host: the host with which the parsers are registered.
        name: the name for both flags.
        tokenizer: the model's tokenizer.
        version: the version of the serving code.
    """

    def __init__(self, host: Host, name: str, tokenizer: Any, version: Version) -> None:
        self.tokenizer = tokenizer
        self.version = version
        self.thoughts = host.reasoning.get(name)(tokenizer)
        self.tool_parser = host.tools.get(name)
        self.status: dict[str, str] = {}
        self.asked: dict[str, dict[str, Any]] = {}

    def take(self, request_id: str, prompt: Ids, tools: list[Any], n: int = 1) -> None:
        """Take a request, and keep the status of its prompt for each of its choices."""
        status = self.thoughts.get_model_status(prompt)
        request = {"request_id": request_id, "prompt_token_ids": prompt, "enable_thinking": status == "think_start"}
        for choice in [request_id, *(f"{request_id}_{i}" for i in range(n))]:
            self.status[choice] = status
            self.asked[choice] = {**request, "tool_choice": "auto", **({"tools": tools} if tools else {})}

    def whole(self, request_id: str, ids: Ids) -> Parts:
        """A whole answer."""
        text = self.tokenizer.decode(self._kept(ids, over=True), skip_special_tokens=False)
        request = self._request(request_id)
        reasoning, content = self.thoughts.extract_reasoning_content(text, request, self.status[request_id])
        self.tokenizer.tokenize(reasoning)
        found = self.tool_parser(self.tokenizer).extract_tool_calls(text, request)
        calls = [(c.function.name, c.function.arguments) for c in found.tool_calls]
        assert found.tools_called == bool(calls)
        if found.tools_called:
            content = found.content or ""
        return reasoning, content, calls

    def streamed(self, request_id: str, ids: Ids, size: int) -> Parts:
        """A streamed answer, ``size`` tokens at a time."""
        found = Gathered()
        for delta in self.deltas(request_id, ids, size):
            found.say(delta.reasoning_content, delta.content)
            for call in delta.tool_calls or []:
                assert call.index is not None
                assert call.function.name is None or (bool(call.id), call.type) == (True, "function")
                found.call(call.index, call.function.name, call.function.arguments)
        return found.parts

    def deltas(self, request_id: str, ids: Ids, size: int) -> Iterator[Delta]:
        """The deltas that are sent, without those that are skipped."""
        tool_parser = self.tool_parser(self.tokenizer)
        request = self._request(request_id)
        before: Ids = []
        text = ""
        for at in range(0, len(ids), size):
            over = at + size >= len(ids)
            new = self._kept(ids[at : at + size], over=over)
            now = [*before, *new]
            decoded = self.tokenizer.decode(now, skip_special_tokens=False)
            complete = decoded if over else decoded.rstrip("\ufffd")
            given = (text, complete, complete[len(text) :], before, now, new)
            before, text = now, complete
            delta = self.thoughts.extract_reasoning_content_streaming(*given, self.status[request_id])
            called = tool_parser.extract_tool_calls_streaming(*given, request)
            sent = self._replaced(delta, called) if self.version.replaces else self._filled(delta, called, over=over)
            if sent is not None:
                yield sent

    def _replaced(self, delta: Any, called: Any) -> Any:
        return called if called is None or called.tool_calls else delta

    def _filled(self, delta: Any, called: Any, *, over: bool) -> Any:
        if (delta is None or called is None) and not over:
            return None  # the chunk is skipped
        sent = Delta(reasoning_content="", content="")
        if delta is not None:
            self.tokenizer.tokenize(delta.reasoning_content)
            sent = Delta(reasoning_content=delta.reasoning_content, content=delta.content)
        if called is not None and called.tool_calls:
            sent.content, sent.tool_calls = called.content, called.tool_calls
        return sent

    def _kept(self, ids: Ids, *, over: bool) -> Ids:
        end = self.tokenizer.eos_token_id
        return ids[:-1] if over and self.version.takes_end_away and ids[-1:] == [end] else list(ids)

    def _request(self, request_id: str) -> Any:
        asked = self.asked[request_id]
        if self.version.asks_with == "response":
            return {"request_id": request_id, "finished": True, "outputs": {}}
        return asked if self.version.asks_with == "dict" else SimpleNamespace(**{"tools": None, **asked})


# --- DeepSeek ---------------------------------------------------------------------------------------------------------

OTHERS = ("<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>")
"""Special tokens of DeepSeek besides those whose ids are its own."""


@cache
def _tokens() -> tokenizers.Tokenizer:
    made = make_deepseek()
    made.add_special_tokens([tokenizers.AddedToken(text, normalized=False) for text in OTHERS])
    return made


class Tokenizer(Tokens):
    """DeepSeek's special tokens with their ids; every byte of other text is a token."""

    def __init__(self) -> None:
        super().__init__(_tokens())
        self.get_vocab = _tokens().get_vocab
        self.eos_token_id = _tokens().token_to_id(OTHERS[0])

    def tokenize(self, text: str) -> list[str]:
        return list(text)
