"""The tokenizer over HTTP, in vLLM's forms: ``/tokenize``, ``/detokenize``, and ``/tokenizer_info``."""

from typing import Any, Final

from ..engines.threads import Awaited
from ..generation.service import Service
from ..request.chat_request import check_text
from ..request.fields import REQUIRED, BadRequest, Fields
from ..request.parts.reading import settled
from ..request.protocols import ChatProtocol
from ..tokens import backend_of, encoded
from ..wire.encoding import clean, encode

_LONGEST: Final = 1 << 20  # how many characters are encoded at once, which takes a hundred times their memory


def tokenize(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Return the tokens of a text (``prompt``), or of the prompt of a conversation (``messages``)."""
    backend = _backend(service)
    strings = fields.flag("return_token_strs")
    if fields.has("messages"):
        prompt, special = _rendered(service, fields, awaited), False
    else:
        prompt, special = fields.text("prompt"), fields.flag("add_special_tokens", True)
    if len(prompt) > _LONGEST:
        raise fields.wrong("prompt", f"{len(prompt):,} characters; allowed are {_LONGEST:,}")
    awaited.check()
    tokens = encoded(backend, clean(prompt), special=special)
    answer: dict[str, Any] = {
        "count": len(tokens),
        "max_model_len": getattr(service.engine, "context", None),
        "tokens": tokens,
        "token_strs": [str(_written(backend, token)) for token in tokens] if strings else None,
    }
    return encode(answer)


def _rendered(service: Service, fields: Fields, awaited: Awaited) -> str:
    """The prompt of a conversation, as the chat template writes it."""
    if service.prompts is None:
        raise fields.wrong("messages", "the server has no chat template; send prompt")
    generate = fields.flag("add_generation_prompt", True)
    kept = {name: value for name, value in fields.raw.items() if name != "add_generation_prompt"}
    request = settled(ChatProtocol(service.settings).read(Fields(kept)), {}, service.settings.limits)
    check_text(request, service.settings.limits)
    return service.prompts.render(request, awaited, generate=generate)


def detokenize(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    backend = _backend(service)
    tokens = fields.array("tokens", REQUIRED)
    if len(tokens) > _LONGEST:
        raise fields.wrong("tokens", f"{len(tokens):,} tokens; allowed are {_LONGEST:,}")
    if not all(type(token) is int and 0 <= token < 1 << 32 for token in tokens):
        raise fields.wrong("tokens", "must be a list of token ids")
    unknown = next((token for token in dict.fromkeys(tokens) if _written(backend, token) is None), None)
    if unknown is not None:  # decoding would drop it
        raise fields.wrong("tokens", f"{unknown} is no token of the vocabulary")
    return encode({"prompt": backend.decode(tokens, skip_special_tokens=False)})


def tokenizer_info(service: Service) -> dict[str, Any]:
    """The named special tokens of the model, such as ``eos_token``; empty if they are not known."""
    return {} if service.prompts is None else dict(service.prompts.tokenizer.special)


def _backend(service: Service) -> Any:
    tokenizer = service.engine.tokenizer
    if tokenizer is None:
        raise BadRequest(None, "the server has no tokenizer for the model; --tokenizer names one", 501)
    return backend_of(tokenizer)


def _written(backend: Any, token: int) -> Any:
    """A token as its vocabulary writes it, or else its text; ``None`` if there is no such token."""
    named = getattr(backend, "id_to_token", None) or getattr(backend, "convert_ids_to_tokens", None)
    return backend.decode([token], skip_special_tokens=False) if named is None else named(token)
