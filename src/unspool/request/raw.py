"""Raw completions: prompts that a client wrote itself."""

from typing import Any

import msgspec

from .. import engines
from ..engines.threads import Awaited
from ..tokens import backend_of, encoded
from .chat_request import ChatRequest
from .fields import BadRequest
from .prepared import Prepared, RawParser
from .settings import Settings

Prompt = str | tuple[int, ...]


class RawRequest(ChatRequest, frozen=True, kw_only=True):
    """A request for completions of prompts, as text or token ids. `ChatRequest.n` counts the outputs of all prompts."""

    prompts: tuple[Prompt, ...]
    ids: tuple[tuple[int, ...], ...] = ()  # the tokens of the prompts, where a session has chosen them
    add_special: bool = True  # whether the tokenizer adds its own special tokens to texts, such as the first one
    echo: bool = False  # whether answers begin with their prompt, and with its log-probabilities if any are requested
    echoed: tuple[str, ...] = ()  # the texts of the prompts, if answers begin with them

    @property
    def prompt_count(self) -> int:
        return len(self.prompts)


class RawPrepared(Prepared, frozen=True):
    def for_engine(
        self, settings: Settings, id: str, choice: int, client_id: str = "", *, capture: bool = False
    ) -> engines.Request:
        request = self.request
        assert isinstance(request, RawRequest)
        prompt, index = divmod(choice, request.n // request.prompt_count)
        return msgspec.structs.replace(
            super().for_engine(settings, id, index, client_id, capture=capture),
            choice=choice,
            prompt=request.prompts[prompt],
            prompt_ids=request.ids[prompt] if request.ids else None,
            add_special=request.add_special,
            echo=request.echo and request.sampling.logprobs is not None,
        )


def with_ids(request: RawRequest, tokenizer: Any, awaited: Awaited) -> RawRequest:
    """The request with the tokens of its prompts."""

    def ids(prompt: Prompt) -> tuple[int, ...]:
        awaited.check()
        return prompt if isinstance(prompt, tuple) else tuple(encoded(tokenizer, prompt, special=request.add_special))

    return msgspec.structs.replace(request, ids=tuple(map(ids, request.prompts)))


def prepare_raw(request: RawRequest, engine: engines.Engine, eos: str) -> RawPrepared:
    """Prepare a request for an engine; ``eos`` is the special token with which outputs end, which some engines show."""
    if request.echo:
        if request.sampling.logprobs is not None and not getattr(engine, "echoes", False):
            raise BadRequest("echo", "cannot be combined with logprobs: the engine does not report those of prompts")
        echoed = tuple(_text(prompt, engine.tokenizer) for prompt in request.prompts)
        request = msgspec.structs.replace(request, echoed=echoed)
    if eos:
        request = msgspec.structs.replace(request, stop=(*request.stop, eos))
    readers = tuple(RawParser(silent=request.max_tokens == 0) for _ in range(request.n))
    return RawPrepared(request, None, None, (), None, None, None, readers)


def _text(prompt: Prompt, tokenizer: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    if tokenizer is None:
        raise BadRequest("echo", "needs a prompt of text: the server has no tokenizer for the model")
    return str(backend_of(tokenizer).decode(list(prompt), skip_special_tokens=False))
