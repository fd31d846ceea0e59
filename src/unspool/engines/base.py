"""The interface of engines: a request in, a stream of pieces of raw output out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..events import Stage
from ..grammar import Constraint
from ..wire.common import Usage
from .media import Medium


class EngineError(Exception):
    """An engine cannot generate, or cannot go on.

    Args:
        message: the message for the client, without anything that only the operator may know.
        status: the HTTP status of the answer: 400 for what the engine cannot do, 503 if it is unavailable, else 500.
        retry_after: seconds after which a retry may succeed, if the engine reports them.
        detail: details for the operator only.
        code: the kind of fault as OpenAI calls it, where clients act on it, such as ``context_length_exceeded``.
        param: the field of the request that is at fault.
    """

    def __init__(
        self,
        message: str,
        status: int = 500,
        retry_after: int | None = None,
        detail: str = "",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.detail = detail
        self.code = code
        self.param = param
        self.status = status
        self.retry_after = retry_after

    @property
    def refused(self) -> bool:
        """Whether the request is at fault, not the engine."""
        return 400 <= self.status < 500 and self.status != 429


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen; ``None`` leaves it to the engine. The names are those of OpenAI and of most engines.

    Attributes:
        logprobs: how many alternatives to report for each token; 0 reports only the chosen tokens.
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
        budget: the largest number of tokens of reasoning, which is then closed.
        opening, closing: the dialect's markers.
        inside: whether the output begins inside reasoning.
    """

    budget: int
    opening: str
    closing: str
    inside: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One output to generate.

    Stop strings are not part of it. Only a parser knows what is content, so the server matches them.

    Attributes:
        id: the response's id, for logs.
        client_id: the client's own id of its request, which is passed on to servers; empty if it has none.
        model: the served name.
        trace: headers with which a server continues the trace, such as ``traceparent``.
        prompt: the rendered prompt, as text or token ids; ``None`` if the server has no chat template. Engines that
            need a prompt then refuse the request.
        prompt_ids: the prompt's tokens, if they are known and may differ from those that a tokenizer makes of its
            text. Engines that take tokens generate from these.
        add_special: whether the tokenizer adds its own special tokens to the prompt; a rendered one has them.
        echo: whether the first entries of `Delta.logprobs` are those of the prompt's tokens; needs
            ``sampling.logprobs``. Only engines whose attribute ``echoes`` is true are asked that.
        messages, tools, tool_choice, variables: what the prompt was rendered from, in OpenAI's form.
        spoken: the messages, tools and variables as the chat template was given them, without special tokens in their
            texts, for engines that render prompts with media themselves; ``None`` if that would not be the prompt.
        media: the media of the messages, in the order of their placeholders in the prompt. An engine whose attribute
            ``media`` does not name their kinds gets no such request.
        stage: where the output begins, if that is known without a prompt.
        choice: the index of the choice.
        sampling: how tokens are chosen.
        max_tokens: the largest length of the output; ``None``: as long as the model's context allows. 0 means that
            the prompt is only read; the engine may generate a token.
        constraint: what may be generated; ``None`` means anything.
        thinking: the budget of reasoning; ``None`` if there is none.
        capture: whether pieces must have `Delta.sampled`, as far as the engine can.
    """

    id: str = ""
    client_id: str = ""
    model: str = ""
    trace: Mapping[str, str] = {}
    prompt: str | Sequence[int] | None = None
    prompt_ids: Sequence[int] | None = None
    add_special: bool = False
    echo: bool = False
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Any = "auto"
    variables: Mapping[str, Any] = {}
    spoken: Mapping[str, Any] | None = None
    media: Sequence[Medium] = ()
    stage: Stage | None = None
    choice: int = 0
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    constraint: Constraint | None = None
    thinking: Thinking | None = None
    capture: bool = False

    def needed_prompt(self) -> str | Sequence[int]:
        """The prompt, for engines that need one.

        Raises:
            EngineError: 400 if there is none.
        """
        if self.prompt is None:
            raise EngineError("prompt: the engine needs one, but the server has no chat template to render it", 400)
        return self.prompt


class Sampled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The tokens of a piece as the model sampled them, for training.

    Attributes:
        ids: the tokens, including one that ends the output.
        logprobs: the log-probability of each; ``None`` if the engine reports none.
        count: the number of tokens of the output so far by the engine's count, if it may leave some out of ``ids``.
        prompt_ids: the tokens of the prompt as the engine read it, if it reports them.
        versions: the versions of the weights, each with the half-open range of the output's tokens that it sampled.
        experts: the experts of each token and layer, in the engine's own encoding; empty if it reports none.
    """

    ids: tuple[int, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    count: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    versions: tuple[tuple[str, int, int], ...] = ()
    experts: str = ""


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The next piece of an output.

    Attributes:
        text: raw text, special tokens included. It may contain lone surrogates.
        token_ids: the tokens of the text, if the engine reports them: for all of its text or for none. A token with
            an incomplete character comes before its text.
        finish_reason: ``stop``, ``length``, ``content_filter``, …, in the last piece.
        usage: the engine's counts so far; the last ones are final.
        logprobs: the entries of the tokens, in OpenAI's form.
        stage: the stage of the text, if the engine itself reports it.
        sampled: the tokens as they were sampled, if the request asks for them; ``token_ids`` are those to parse.
        prompt_ids: in the first piece, the prompt as the engine read it, if it reports that for a prompt with media.
        media: the kinds, beginnings and lengths of the ranges that the media have in it.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    logprobs: tuple[dict[str, Any], ...] = ()
    stage: Stage | None = None
    sampled: Sampled | None = None
    prompt_ids: tuple[int, ...] = ()
    media: tuple[tuple[str, int, int], ...] = ()


class Engine(Protocol):
    """The interface of engines."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of `Delta.token_ids`, as for `unspool.Parser`; ``None`` if the ids must not be parsed."""

    def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output. Closing the iterator, or cancelling the task that awaits it, cancels the generation.

        Raises:
            EngineError: while iterating, before the first piece or after any.
        """

    async def health(self) -> None:
        """Return if the engine can generate.

        Raises:
            EngineError: it cannot; the message says why.
        """

    async def close(self) -> None:
        """Release the engine's resources; called once, after the last generation."""


def engine_name(engine: Any) -> str:
    """The name of an engine: its attribute ``provider``, or else that of its class."""
    return getattr(engine, "provider", None) or type(engine).__name__.lower()


def check_media(engine: Any, request: Request) -> None:
    """Refuse media that an engine does not take; it takes those of its attribute ``media``, if it has one.

    Raises:
        EngineError: 400, with the engine, the template and the role.
    """
    taken = getattr(engine, "media", ())
    for medium in request.media:
        if medium.kind not in taken:
            raise not_taken(medium, engine_name(engine), taken)


def not_taken(medium: Medium, engine: str, taken: Sequence[str]) -> EngineError:
    """The error for a medium that an engine does not take."""
    takes = " and ".join(taken) or "text only"
    return EngineError(
        f"{medium.kind}: the engine ({engine}) takes {takes}; the chat template would take it in this message of role "
        f"{medium.role!r}",
        400,
        param=medium.where,
    )
