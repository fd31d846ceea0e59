"""Reads requests of OpenAI's completions: prompts that the client wrote itself."""

from typing import Any

from ...validation import json_shown
from ...wire import CompletionWriter
from ...wire import chat as wire
from ...wire.encoding import clean
from ..common import check_served, sampling
from ..fields import Fields
from ..raw import Prompt, RawRequest
from ..server_tools import NOTHING, Offer
from .base import WireProtocol
from .chat import MAX_LOGPROBS

_DEFAULT_TOKENS = 16  # OpenAI's default of ``max_tokens``
_MAX_ID = 2**32 - 1


class CompletionsProtocol(WireProtocol):
    id_prefix = "cmpl-"
    raw = True
    error_body = staticmethod(wire.error_body)

    def read(self, fields: Fields, offer: Offer = NOTHING) -> RawRequest:
        limits = self.settings.limits
        fields.text("model", None)
        check_served(fields, "echo", "best_of")
        for name in ("messages", "tools", "response_format"):
            if fields.has(name):
                raise fields.wrong(name, "is not supported here; use /v1/chat/completions")
        if fields.flag("skip_special_tokens", None):
            raise fields.wrong("skip_special_tokens", "true is not supported: a raw completion has its special tokens")
        prompts = self._prompts(fields)
        each = fields.integer("n", 1, min(limits.choices, limits.generations), 1)
        if fields.integer("best_of", 1, limits.choices, each) != each:
            raise fields.wrong("best_of", "must be equal to n")
        if each * len(prompts) > limits.generations:
            outputs = f"{each * len(prompts):,} outputs of all prompts"
            raise fields.wrong("prompt", f"{outputs}; allowed are {limits.generations:,}")
        echo = fields.flag("echo")
        return RawRequest(
            prompts=prompts,
            n=each * len(prompts),
            echo=echo,
            add_special=fields.flag("add_special_tokens", True),
            stop=fields.texts("stop", limits.stops),
            max_tokens=fields.integer("max_tokens", 0 if echo else 1, default=_DEFAULT_TOKENS),
            sampling=sampling(fields, fields.integer("logprobs", 0, MAX_LOGPROBS)),
            stream=fields.flag("stream"),
            include_usage=fields.object("stream_options").flag("include_usage"),
            body=fields.raw,
        )

    def _prompts(self, fields: Fields) -> tuple[Prompt, ...]:
        """A text, the ids of its tokens, or a list of either."""
        given = fields.raw.get("prompt")
        if given is None:
            raise fields.wrong("prompt", "is required")
        if isinstance(given, list) and given and isinstance(given[0], str | list):
            found = tuple(self._prompt(fields, f"prompt[{i}]", one) for i, one in enumerate(given))
        else:
            found = (self._prompt(fields, "prompt", given),)
        size, most = sum(map(len, found)), self.settings.limits.text
        if size > most:
            raise fields.wrong("prompt", f"{size:,} characters or tokens; allowed are {most:,}")
        return found

    def _prompt(self, fields: Fields, name: str, given: Any) -> Prompt:
        if isinstance(given, str) and given:
            return clean(given)
        if isinstance(given, list) and given and all(type(i) is int and 0 <= i <= _MAX_ID for i in given):
            return tuple(given)
        odd = (
            (one for one in given if type(one) is not int or not 0 <= one <= _MAX_ID) if isinstance(given, list) else ()
        )
        wrong = next(iter(odd), given)
        kind = "an empty one" if wrong in ("", []) else json_shown(wrong)
        allowed = "a text or a list of token ids"
        if name == "prompt":
            allowed = "a text, a list of token ids, or a list of these"
        raise fields.wrong(name, f"must be {allowed}; it has {kind}")

    def writer(self, request: RawRequest, id: str, created: int) -> CompletionWriter:  # type: ignore[override]
        each = request.n // request.prompt_count
        return CompletionWriter(
            id=id,
            model=self.settings.model,
            created=created,
            n=request.n,
            echoed=[text for text in request.echoed for _ in range(each)],
            include_usage=request.include_usage,
        )
