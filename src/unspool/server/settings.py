"""What a server is told when it starts."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ..dialect.file import Dialect
from ..grammar import ToolStrictLevel
from ..policy import CHOICES, DEFAULTS, Policy
from ..wire.chat import ReasoningField
from ..wire.coalesce import Coalescer

Profile = Literal["openai", "mindie", "candle"]
PROFILES: tuple[Profile, ...] = ("openai", "mindie", "candle")


LIMITS = {
    "generations": "outputs generated at once; each choice of a request is one",
    "waiting": "outputs that may wait for their turn; more are refused with 429",
    "queue": "events of a response that wait for a slow client; then its engine waits too",
    "body": "bytes of a request",
    "text": "characters of a request's messages and tools together, or of a text to parse",
    "held": "bytes of all requests that are being read and answered; beyond them 429",
    "headers": "bytes of a request's line and headers",
    "messages": "messages of a request",
    "tools": "tools of a request",
    "choices": "choices of a request",
    "stops": "stop strings of a request",
    "depth": "how deep a tool's schema may nest",
    "head": "seconds that a request's line and headers may take",
    "receive": "seconds that a request's body may take",
    "idle": "seconds that a connection is kept for the next request",
    "stall": "seconds after which a client that reads nothing is given up",
    "silence": "seconds without a byte, after which a stream says something to keep the connection",
    "drain": "seconds that running responses have left after SIGTERM",
}
"""The fields of `Limits` and what they limit."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes at most; `LIMITS` tells each.

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
    tools: int = 1024
    choices: int = 16
    stops: int = 16
    depth: int = 128
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
                raise ValueError(f"{field}: {getattr(self, field):g} is less than {least}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every request.

    Attributes:
        model: the served name. Requests may name any.
        dialect: how the model writes; its policy is the default.
        policy: fields that override the dialect's.
        profile: which server's chat completions are written.
        reasoning_field: where chat completions tell the reasoning.
        full_text, timing: see `unspool.wire.MindieWriter`.
        content_chunks: see `unspool.wire.CandleWriter`.
        coalesce_reasoning, coalesce_arguments: streams tell the reasoning by sentence, arguments at boundaries of JSON.
        coalesce_delay: seconds that a delta is held back at most; alone, every delta is held back that long.
        named_reason: the finish reason of an answer to a named ``tool_choice``: OpenAI's ``stop``, or ``tool_calls``.
        strict_level: constrains calls under ``auto`` also where no tool is strict, as far as their schemas can be kept.
        tools, tool_choice: how outputs are read whose requests declare no tools. Recordings bring theirs; ``None``: the
            tools are unknown, and marked calls are read.
        api_key: what clients have to present; ``None``: nothing.
        engine: what generates, for people.
        cors: origins of websites whose pages may use the server, besides those on the loopback; ``*``: any.
        limits: what is taken at most.
    """

    model: str
    dialect: Dialect
    policy: Policy = Policy()
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
    engine: str = ""
    cors: tuple[str, ...] = ()
    limits: Limits = Limits()

    def coalescer(self) -> Coalescer | None:
        """What joins the deltas of one choice of a stream; ``None`` where they go on as they are."""
        if not (self.coalesce_reasoning or self.coalesce_arguments or self.coalesce_delay):
            return None
        return Coalescer(
            sentences=self.coalesce_reasoning, boundaries=self.coalesce_arguments, max_delay=self.coalesce_delay
        )

    def holds(self) -> str:
        """What holds, in one line for the log: dialect, stage, and every policy that is not the library's default."""
        policy = self.policy.over(self.dialect.policy).over(DEFAULTS)
        told = [f"{f}={getattr(policy, f)}" for f in CHOICES if getattr(policy, f) != getattr(DEFAULTS, f)]
        parts = [
            f"model={self.model}",
            f"dialect={self.dialect.name}",
            f"stage={self.dialect.stage.value}",
            f"policy: {', '.join(told) or 'the defaults'}",
            f"profile={self.profile}",
            *([f"engine={self.engine}"] if self.engine else []),
        ]
        return "; ".join(parts)

    def example(self, url: str) -> str:
        """A command that asks a server at this URL something, to be pasted into a shell."""
        body = '{"messages": [{"role": "user", "content": "Hello!"}]}'
        key = "" if self.api_key is None else " -H 'Authorization: Bearer KEY'"
        return f"curl {url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'"
