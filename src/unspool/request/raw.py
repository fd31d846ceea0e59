"""Raw completions: prompts that a client wrote itself."""

from typing import Any

import msgspec

from .. import engines
from ..tokens import backend_of
from .chat_request import ChatRequest
from .fields import BadRequest
from .prepared import Prepared, Raw
from .settings import Settings

Prompt = str | tuple[int, ...]


class RawRequest(ChatRequest, frozen=True, kw_only=True):
    """A request for completions of prompts, as text or token ids. `ChatRequest.n` counts the outputs of all prompts."""

    prompts: tuple[Prompt, ...]
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
            add_special=request.add_special,
            echo=request.echo and request.sampling.logprobs is not None,
        )


def prepare_raw(request: RawRequest, engine: engines.Engine, eos: str = "") -> RawPrepared:
    """Prepare a request for an engine; ``eos`` is the special token with which outputs end, which some engines show."""
    if request.echo:
        if request.sampling.logprobs is not None and not getattr(engine, "echoes", False):
            raise BadRequest("echo", "cannot be combined with logprobs: the engine does not report those of prompts")
        echoed = tuple(_text(prompt, engine.tokenizer) for prompt in request.prompts)
        request = msgspec.structs.replace(request, echoed=echoed)
    if eos:
        request = msgspec.structs.replace(request, stop=(*request.stop, eos))
    readers = tuple(Raw(silent=request.max_tokens == 0) for _ in range(request.n))
    return RawPrepared(request, None, None, (), None, None, None, readers)


def _text(prompt: Prompt, tokenizer: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    if tokenizer is None:
        raise BadRequest("echo", "needs a prompt of text: the server has no tokenizer for the model")
    return str(backend_of(tokenizer).decode(list(prompt), skip_special_tokens=False))
