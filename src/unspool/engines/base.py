"""The interface of engines: a request in, a stream of pieces of raw output out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..events import Stage
from ..grammar import Constraint
from ..wire.common import Usage


class EngineError(Exception):
    """An engine cannot generate, or cannot go on.

    Args:
        message: for the client: what went wrong, without what only the operator may know.
        status: the HTTP status to answer with: 400 where the request asks for what the engine cannot do, 503 where
            the engine is not there, 500 otherwise.
        retry_after: seconds after which it may be worth another try, where the engine gives them.
        detail: for the operator alone.
    """

    def __init__(self, message: str, status: int = 500, retry_after: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.status = status
        self.retry_after = retry_after


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen; ``None`` leaves it to the engine. The names are those of OpenAI and of most engines.

    Attributes:
        logprobs: how many alternatives to report for each token; 0 reports the chosen ones alone.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logprobs: int | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """A budget of reasoning.

    Attributes:
        budget: tokens of reasoning at most; then it is closed.
        opening, closing: the dialect's markers.
        inside: whether the output begins inside reasoning.
    """

    budget: int
    opening: str
    closing: str
    inside: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One output to generate.

    Stop strings are not part of it. Only a parser knows whether a text is content, so the server matches them and
    closes the generation.

    Attributes:
        id: the response's id, for logs.
        client_id: the client's own id of its request, which servers get passed on; empty where it has none.
        model: the served name.
        prompt: the rendered prompt, text or token ids; ``None`` where the server has no chat template. Engines that
            need a prompt then refuse.
        prompt_ids: the prompt's tokens, where they are known and may be others than a tokenizer would make of its text;
            engines that take tokens generate from these.
        messages, tools, tool_choice: what the prompt was rendered from, in OpenAI's form.
        stage: where the output begins, where that is known without a prompt.
        choice: which of the request's choices this is.
        sampling: how tokens are chosen.
        max_tokens: the output's length at most; ``None``: as long as the model's context.
        constraint: what may be generated; ``None``: anything.
        explain: report with each token what the constraint forbade, where the engine knows it; see `Forbidden`.
        thinking: the budget of reasoning; ``None``: there is none.
    """

    id: str = ""
    client_id: str = ""
    model: str = ""
    prompt: str | Sequence[int] | None = None
    prompt_ids: Sequence[int] | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Any = "auto"
    stage: Stage | None = None
    choice: int = 0
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    constraint: Constraint | None = None
    explain: bool = False
    thinking: Thinking | None = None

    def needed_prompt(self) -> str | Sequence[int]:
        """The prompt, for engines that need one.

        Raises:
            EngineError: 400; there is none.
        """
        if self.prompt is None:
            raise EngineError("prompt: the engine needs one, but the server has no chat template to render it", 400)
        return self.prompt


class Forbidden(msgspec.Struct, frozen=True, omit_defaults=True):
    """The effect of a constraint on the choice of one token.

    Attributes:
        allowed: how many tokens it allowed.
        of: how many there are.
        likeliest: the token that the model found likeliest, where that was forbidden; else empty.
        probability: of that token, by the model alone.
    """

    allowed: int
    of: int
    likeliest: str = ""
    probability: float = 0.0


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next piece of an output.

    Attributes:
        text: raw text, special tokens included. It may contain lone surrogates.
        token_ids: the tokens of the text, where the engine reports them: of all its text or of none. A token whose
            characters are not whole comes before its text.
        finish_reason: ``stop``, ``length``, ``content_filter``, …, in the last piece.
        usage: the engine's counts so far; the last ones count.
        logprobs: entries of the tokens in OpenAI's form.
        stage: where the text belongs, by the engine's own word.
        forbidden: what the constraint forbade, where the request asked for it, the engine knows it, and there is one.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    logprobs: tuple[dict[str, Any], ...] = ()
    stage: Stage | None = None
    forbidden: Forbidden | None = None


class Engine(Protocol):
    """The interface of engines."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of `Delta.token_ids`, as `unspool.Parser` takes it; ``None``: the ids are not to be fed."""

    def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output. Closing the iterator, or cancelling the task that awaits it, cancels the generation.

        Raises:
            EngineError: while iterating, before the first piece or after any.
        """

    async def health(self) -> None:
        """Return where the engine can generate.

        Raises:
            EngineError: it cannot, and why.
        """

    async def close(self) -> None:
        """Let go of what the engine holds; called once, after the last generation."""
