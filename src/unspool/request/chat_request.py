"""`ChatRequest`: a request in the one form that every protocol is read into."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..dialect.file import Dialect
from ..engines import Sampling
from ..events import Stage
from ..grammar.freeform import Freeform
from ..toolset import Toolset
from ..wire.freeform import Kind
from .edits import Edit
from .fields import BadRequest
from .reasoning import Reasoning
from .server_tools import ServerTools
from .settings import Limits


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, in the terms of chat completions.

    Attributes:
        messages: the conversation.
        toolset: the declared tools, none where there are none, and the choice among them.
        parallel: whether there may be several calls.
        n: how many choices.
        stop: strings at which the content ends.
        max_tokens: of each choice.
        sampling: how tokens are chosen.
        response_format: as chat completions have it.
        thinking: whether the model is to think; ``None``: the request does not say.
        template: variables of the chat template, by name.
        kinds: what tools are for the client that are more than functions, by name.
        grammars: of the one argument of custom tools, by name.
        reasoning: what the request says of reasoning besides.
        stream: whether the answer is streamed.
        include_usage: whether a stream of chat completions ends with the usage.
        body: the request's own JSON, for answers that repeat some of it.
        server_tools: the tools among the declared ones that the server runs; ``None``: there are none.
        edits: of the messages, which are to be made before the model reads them.
        applied: those that were made, as the answer lists them; ``None``: none were asked for.
        caller: the API key that the client sent; empty where it sent none. What is remembered belongs to it.
    """

    messages: list[dict[str, Any]] = []
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
    caller: bytes = b""

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The declared tools, as chat completions have them."""
        return list((self.toolset.tools or {}).values())


def stage_of(request: ChatRequest, dialect: Dialect) -> Stage | None:
    """Where the output begins by the request's thinking switch alone; used only where there is no prompt.

    A framed dialect opens every part with a marker of its own, so a switch says nothing about it.
    """
    if request.thinking is None or dialect.framed or not dialect.reasoning:
        return None
    return Stage.REASONING if request.thinking else Stage.CONTENT


def check_text(request: ChatRequest, limits: Limits) -> None:
    """Check the length of the messages and tools together.

    Raises:
        BadRequest: they are longer than allowed.
    """
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
