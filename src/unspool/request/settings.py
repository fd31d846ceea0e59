"""`Settings`, the configuration of a server, and `Limits`, the limits on what it accepts."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec

from ..dialect.file import Dialect
from ..grammar import ToolStrictLevel
from ..policy import CHOICES, DEFAULTS, Policy
from ..wire.chat import ReasoningField
from ..wire.coalesce import Coalescer
from .reasoning import Context
from .sealed import Seal

Profile = Literal["openai", "mindie", "candle"]
PROFILES: tuple[Profile, ...] = ("openai", "mindie", "candle")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server accepts; `LIMITS` describes each field.

    Raises:
        ValueError: a limit is not positive, or not finite.
    """

    generations: Annotated[int, "outputs generated at once; each choice of a request is one"] = 100
    waiting: Annotated[int, "outputs that may wait for their turn; beyond, 429"] = 1000
    queue: Annotated[int, "events of a response that may wait for a slow client; beyond, its engine waits"] = 1000
    body: Annotated[int, "bytes of a request"] = 16 << 20
    text: Annotated[int, "characters of a request's messages and tools together, or of a text to parse"] = 4 << 20
    held: Annotated[int, "bytes of all requests that are being read and answered; beyond, 429"] = 256 << 20
    headers: Annotated[int, "bytes of a request's line and headers"] = 64 << 10
    messages: Annotated[int, "messages of a request, results of tools included; also its calls"] = 4096
    parts: Annotated[int, "images and other parts of a request that are not text"] = 100
    media: Annotated[int, "bytes of all images and other parts of a request together"] = 64 << 20
    pixels: Annotated[int, "pixels of an image, all its frames together"] = 50_000_000
    fetch: Annotated[float, "seconds for fetching the parts of a request from their URLs"] = 10.0
    tools: Annotated[int, "tools of a request"] = 1024
    choices: Annotated[int, "choices of a request"] = 16
    stops: Annotated[int, "stop strings of a request"] = 16
    depth: Annotated[int, "levels of nesting in a tool's schema"] = 128
    output: Annotated[
        int, "characters that the engine may generate for one answer, all its choices and rounds together"
    ] = 16 << 20
    rounds: Annotated[int, "times that a model is asked again with results of the server's tools, in one answer"] = 32
    calls: Annotated[int, "calls of the server's tools in one answer; a request may allow fewer"] = 128
    results: Annotated[int, "characters of results of the server's tools in one answer"] = 1 << 20
    tooltime: Annotated[float, "seconds that the server's tools may take in one answer"] = 600.0
    stored: Annotated[
        int, "bytes of all that is stored; what was continued longest ago goes first, open sessions never"
    ] = 512 << 20
    days: Annotated[float, "days after which what is stored goes, counted from its last turn"] = 30.0
    head: Annotated[float, "seconds to receive a request's line and headers"] = 10.0
    receive: Annotated[float, "seconds to receive a request's body"] = 60.0
    idle: Annotated[float, "seconds that an idle connection is kept open"] = 15.0
    stall: Annotated[float, "seconds after which a client that reads nothing is disconnected"] = 60.0
    silence: Annotated[float, "seconds without output, after which a stream sends a keep-alive"] = 15.0
    drain: Annotated[float, "seconds for running responses to end after SIGTERM"] = 30.0

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            least = 0 if field in ("waiting", "drain") else 1
            if not least <= (value := getattr(self, field)) < math.inf:
                finite = "" if math.isfinite(value) else " and finite"
                raise ValueError(f"{field}: must be at least {least}{finite}, not {value:g}")


LIMITS: Final = {name: hint.__metadata__[0] for name, hint in get_type_hints(Limits, include_extras=True).items()}
"""The fields of `Limits`, each with what it limits."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a server, which is the same for every request.

    Attributes:
        model: the served name. Requests may use any name.
        dialect: the format of the model's output; its policy is the default.
        policy: fields that override the dialect's.
        thinks: whether the model may think where its prompt does not begin a thought.
        profile: the form of chat completions: OpenAI's, or another server's.
        reasoning_field: the field of chat completions for the reasoning.
        full_text, timing: see `unspool.wire.MindieWriter`.
        content_chunks: see `unspool.wire.CandleWriter`.
        coalesce_reasoning, coalesce_arguments: streams join reasoning by sentence, arguments at boundaries of JSON.
        coalesce_delay: the longest hold of a delta, in seconds; on its own, it joins all deltas of that time.
        named_reason: the finish reason of an answer to a named ``tool_choice``: OpenAI's ``stop``, or ``tool_calls``.
        strict_level: constrains calls under ``auto`` if no tool is strict, as far as a grammar can express them.
        closed: constrained calls have declared arguments alone, also of tools that are not strict; see `constrain`.
        tools, tool_choice: the tools for requests that declare none, such as those of recordings. With ``None`` the
            tools are unknown, and marked calls are parsed.
        api_key: the key that clients must send; ``None`` if none is needed.
        approval_key: the secret for approvals of calls; if empty, a random one for this process.
        own_servers: whether requests may name tool servers of their own.
        seal: seals and opens reasoning; ``None`` if reasoning is not sealed.
        context: which of the model's turns prompts repeat exactly, if the request does not say.
        turn_memory: bytes of memory for turns; with 0, none are remembered.
        stores: whether responses are stored, if a request does not say.
        efforts: budgets of reasoning in tokens, by effort, for requests that set none.
        engine: a description of the engine, for the log.
        cors: origins of websites that may use the server, besides those on the loopback; ``*`` means any.
        media_hosts: hosts from which parts of requests are fetched; see `unspool.tools.fetch.Fetcher`.
        hosts: names under which clients may reach the server, besides the loopback's and addresses; ``*``: any.
        sessions: whether agents' runs can be recorded for training; see `unspool.sessions`.
        ui: whether there is a page at ``/``.
        shown: recordings that the page opens with, as JSON lines.
        limits: the limits on what the server accepts.
    """

    model: str
    dialect: Dialect
    policy: Policy = Policy()
    thinks: bool = True
    profile: Profile = "openai"
    reasoning_field: ReasoningField = "reasoning_content"
    full_text: bool = False
    timing: Literal["usage", "top"] = "usage"
    content_chunks: bool = False
    coalesce_reasoning: bool = False
    coalesce_arguments: bool = False
    coalesce_delay: float | None = None
    named_reason: Literal["stop", "tool_calls"] = "stop"
    strict_level: ToolStrictLevel = ToolStrictLevel.OFF
    closed: bool = False
    tools: Sequence[Any] | None = ()
    tool_choice: Any = "auto"
    api_key: str | None = None
    approval_key: bytes = b""
    own_servers: bool = False
    seal: Seal | None = None
    context: Context = "loop"
    turn_memory: int = 128 * 1024 * 1024
    stores: bool = True
    efforts: dict[str, int] = {}
    engine: str = ""
    cors: tuple[str, ...] = ()
    media_hosts: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sessions: bool = False
    ui: bool = True
    shown: str = ""
    limits: Limits = Limits()

    def coalescer(self) -> Coalescer | None:
        """Make a coalescer for one choice of a stream; ``None`` if deltas are not joined."""
        if not (self.coalesce_reasoning or self.coalesce_arguments or self.coalesce_delay):
            return None
        return Coalescer(
            sentences=self.coalesce_reasoning, boundaries=self.coalesce_arguments, max_delay=self.coalesce_delay
        )

    def summary(self) -> str:
        """The settings in one line for the log: dialect, stage, and every policy that is not the library's default."""
        policy = self.policy.over(self.dialect.policy).over(DEFAULTS)
        changed = [f"{f}={getattr(policy, f)}" for f in CHOICES if getattr(policy, f) != getattr(DEFAULTS, f)]
        parts = [
            f"model={self.model}",
            f"dialect={self.dialect.name}",
            f"stage={self.dialect.stage.value}",
            f"policy: {', '.join(changed) or 'the defaults'}",
            f"profile={self.profile}",
            *([f"engine={self.engine}"] if self.engine else []),
        ]
        return "; ".join(parts)

    def example(self, url: str) -> str:
        """A shell command that sends a request to a server at this URL."""
        body = '{"messages": [{"role": "user", "content": "Hello!"}]}'
        key = "" if self.api_key is None else " -H 'Authorization: Bearer KEY'"
        return f"curl {url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'"
