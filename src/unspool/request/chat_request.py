"""`ChatRequest`: the common form of requests, into which every protocol is read."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ..dialect.file import Dialect
from ..engines import Medium, Sampling
from ..events import Stage
from ..grammar.freeform import Freeform
from ..toolset import Toolset
from ..wire.freeform import ClientTool
from .edits import Edit
from .exact import RememberedTurn
from .fields import BadRequest
from .reasoning import Reasoning
from .server_tools import ServerTools
from .settings import Limits


class Attempt(NamedTuple):
    """Which attempt of a client a request of a session is.

    Attributes:
        key: what it has in common with its retries; empty if the client does not count attempts.
        again: whether it may be a retry.
    """

    key: bytes = b""
    again: bool = False


_SCHEMA_AT: Final = "response_format.json_schema.schema"


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, in terms of chat completions."""

    messages: list[dict[str, Any]] = []
    messages_at: str = "messages"  # the field from which they were read
    begun: str = ""  # the field that asks the model to go on with the last message; empty if it writes a new one
    media: Mapping[str, Medium] = {}  # the media that the messages name, by their digests
    toolset: Toolset = Toolset({}, allowed=())
    parallel: bool = True  # whether there may be several calls
    n: int = 1
    stop: tuple[str, ...] = ()  # strings at which the content ends
    max_tokens: int | None = None  # the largest number of tokens of each choice
    sampling: Sampling = Sampling()
    response_format: Mapping[str, Any] | None = None  # the field in the form of chat completions
    schema_at: str = _SCHEMA_AT  # where the request has that format's schema
    thinking: bool | None = None  # whether the model should think; ``None`` if the request does not say
    template: dict[str, Any] = {}  # variables of the chat template, by name
    template_at: Mapping[str, str] = {}  # the fields that set them
    kinds: dict[str, ClientTool] = {}  # the kinds of tools other than functions, by name
    grammars: dict[str, Freeform] = {}  # the grammars of custom tools' only argument, by name
    reasoning: Reasoning = Reasoning()  # other settings of reasoning
    stream: bool = False
    include_usage: bool = False
    body: dict[str, Any] = {}  # the request's own JSON, for answers that repeat some of it
    server_tools: ServerTools | None = None  # the declared tools that the server runs; ``None`` if there are none
    edits: tuple[Edit, ...] = ()  # edits to make to the messages before the model reads them
    # The edits that were made, in the form for the answer; ``None`` if none were requested.
    applied: list[dict[str, Any]] | None = None
    stored: RememberedTurn | None = None  # the turn of the stored answer that the request continues, if there is one
    caller: bytes = b""  # the client's API key, to which remembered turns belong; empty if it sent none
    # How it is related to earlier calls of its session, as the agent declares: types and ids.
    edges: tuple[tuple[str, str], ...] = ()
    attempt: Attempt = Attempt()

    def spelled(self, text: str) -> str:
        """A text that begins with the name of a field, as its protocol names the field of the schema."""
        return text.replace(_SCHEMA_AT, self.schema_at, 1) if text.startswith(_SCHEMA_AT) else text

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
