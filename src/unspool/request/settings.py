"""`Settings`, the configuration of a server, and `Limits`, the limits on what it accepts."""

from collections.abc import Sequence
from typing import Any, Literal

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

LIMITS = {
    "generations": "outputs generated at once; each choice of a request is one",
    "waiting": "outputs that may wait for their turn; beyond, 429",
    "queue": "events of a response that may wait for a slow client; beyond, its engine waits",
    "body": "bytes of a request",
    "text": "characters of a request's messages and tools together, or of a text to parse",
    "held": "bytes of all requests that are being read and answered; beyond, 429",
    "headers": "bytes of a request's line and headers",
    "messages": "messages of a request",
    "parts": "images and other parts of a request that are not text",
    "media": "bytes of all these parts together",
    "pixels": "pixels of an image, all its frames together",
    "fetch": "seconds for fetching the parts of a request from their URLs",
    "tools": "tools of a request",
    "choices": "choices of a request",
    "stops": "stop strings of a request",
    "depth": "levels of nesting in a tool's schema",
    "output": "characters that the engine may generate for one answer, all its choices and rounds together",
    "rounds": "times that a model is asked again with results of the server's tools, in one answer",
    "calls": "calls of the server's tools in one answer; a request may allow fewer",
    "results": "characters of results of the server's tools in one answer",
    "tooltime": "seconds that the server's tools may take in one answer",
    "stored": "bytes of stored responses and conversations; those that were continued longest ago go first",
    "days": "days after which a stored response or conversation goes, counted from its last turn",
    "head": "seconds to receive a request's line and headers",
    "receive": "seconds to receive a request's body",
    "idle": "seconds that an idle connection is kept open",
    "stall": "seconds after which a client that reads nothing is disconnected",
    "silence": "seconds without output, after which a stream sends a keep-alive",
    "drain": "seconds for running responses to end after SIGTERM",
}
"""The fields of `Limits`, each with what it limits."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server accepts; `LIMITS` describes each field.

    Raises:
        ValueError: a limit is not positive.
    """

    generations: int = 100
    waiting: int = 1000
    queue: int = 1000
    body: int = 16 * 1024 * 1024
    text: int = 4 * 1024 * 1024
    held: int = 256 * 1024 * 1024
    headers: int = 64 * 1024
    messages: int = 4096
    parts: int = 100
    media: int = 64 * 1024 * 1024
    pixels: int = 50_000_000
    fetch: float = 10.0
    tools: int = 1024
    choices: int = 16
    stops: int = 16
    depth: int = 128
    output: int = 16 * 1024 * 1024
    rounds: int = 32
    calls: int = 128
    results: int = 1024 * 1024
    tooltime: float = 600.0
    stored: int = 512 * 1024 * 1024
    days: float = 30.0
    head: float = 10.0
    receive: float = 60.0
    idle: float = 15.0
    stall: float = 60.0
    silence: float = 15.0
    drain: float = 30.0

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            least = 0 if field in ("waiting", "drain") else 1
            if getattr(self, field) < least:
                raise ValueError(f"{field}: must be at least {least}, not {getattr(self, field):g}")


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
