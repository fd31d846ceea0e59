"""`ChatRequest`: the common form of requests, into which every protocol is read."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..dialect.file import Dialect
from ..engines import Medium, Sampling
from ..events import Stage
from ..grammar.freeform import Freeform
from ..toolset import Toolset
from ..wire.freeform import Kind
from .edits import Edit
from .exact import Exact
from .fields import BadRequest
from .reasoning import Reasoning
from .server_tools import ServerTools
from .settings import Limits


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, in terms of chat completions.

    Attributes:
        media: the media that the messages name, by their digests.
        parallel: whether there may be several calls.
        stop: strings at which the content ends.
        max_tokens: the largest number of tokens of each choice.
        response_format: the field in the form of chat completions.
        thinking: whether the model should think; ``None`` if the request does not say.
        template: variables of the chat template, by name.
        kinds: the kinds of tools other than functions, by name.
        grammars: the grammars of custom tools' only argument, by name.
        reasoning: other settings of reasoning.
        body: the request's own JSON, for answers that repeat some of it.
        server_tools: the declared tools that the server runs; ``None`` if there are none.
        edits: edits to make to the messages before the model reads them.
        applied: the edits that were made, in the form for the answer; ``None`` if none were requested.
        stored: the turn of the stored answer that the request continues, if there is one.
        caller: the client's API key, to which remembered turns belong; empty if it sent none.
        edges: how it is related to earlier calls of its session, as the agent declares: types and ids.
    """

    messages: list[dict[str, Any]] = []
    media: Mapping[str, Medium] = {}
    toolset: Toolset = Toolset({}, allowed=())
    parallel: bool = True
    n: int = 1
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    response_format: Mapping[str, Any] | None = None
    thinking: bool | None = None
    template: dict[str, Any] = {}
    kinds: dict[str, Kind] = {}
    grammars: dict[str, Freeform] = {}
    reasoning: Reasoning = Reasoning()
    stream: bool = False
    include_usage: bool = False
    body: dict[str, Any] = {}
    server_tools: ServerTools | None = None
    edits: tuple[Edit, ...] = ()
    applied: list[dict[str, Any]] | None = None
    stored: Exact | None = None
    caller: bytes = b""
    edges: tuple[tuple[str, str], ...] = ()

    @property
    def prompt_count(self) -> int:
        """How many prompts the choices have; all of them have the same number."""
        return 1

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The declared tools, in the form of chat completions."""
        return list((self.toolset.tools or {}).values())


def stage_of(request: ChatRequest, dialect: Dialect) -> Stage | None:
    """The stage according to the request's thinking switch, used only without a prompt.

    A framed dialect opens every part with its own marker, so a switch decides nothing.
    """
    if request.thinking is None or dialect.framed or not dialect.reasoning:
        return None
    return Stage.REASONING if request.thinking else Stage.CONTENT


def check_text(request: ChatRequest, limits: Limits) -> None:
    """Refuse messages and tools that together are longer than allowed."""
    size = 0
    waiting: list[Any] = [request.messages, request.tools]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    if size > limits.text:
        raise BadRequest(None, f"messages and tools have {size:,} characters; allowed are {limits.text:,}", 400)
