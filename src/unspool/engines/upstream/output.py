"""`Output`: what the events of a stream mean, from the prompt that a server was sent to the end of its output."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ...wire.common import Usage
from ..base import Delta, EngineError, Request, Sampled
from .client import Unavailable
from .kinds import Kind
from .media import ranges

log = logging.getLogger("unspool.engines")

_DONE = b"[DONE]"


class ServerRequest(NamedTuple):
    """A request in the form of a server: the JSON to send, the prompt's tokens and those of its placeholders if these
    are sent."""

    kind: Kind
    data: bytes
    ids: list[int] | None
    spans: Sequence[Sequence[int]] = ()


class Output:
    """Reads one output from the events of its stream. ``ended``: the server has said that no event comes any more.
    ``finished``: it has sent the finish reason, after which only the counts of tokens may be missing."""

    def __init__(self, request: Request, asked: ServerRequest, read: Callable[[bytes], Delta], url: str) -> None:
        self.ended = False
        self._request = request
        self._asked = asked
        self._read = read
        self._url = url
        self._echoes = request.echo
        self._begun = False
        self._sampled = False
        self._usage: Usage | None = None
        self._reason: str | None = None
        self._rest: Sampled | None = None

    def take(self, data: bytes) -> Delta | None:
        """The piece of an event, without its finish reason; ``None`` if it has nothing of the output."""
        self.ended = self.ended or data == _DONE
        if self.ended:
            return None
        delta = self._of_output(self._read(data))
        self._usage = delta.usage or self._usage
        self._reason = delta.finish_reason or self._reason
        sampled = () if delta.sampled is None else delta.sampled.ids
        if not sampled:
            self._rest = delta.sampled or self._rest
        if not (delta.text or delta.token_ids or delta.logprobs or delta.prompt_ids or sampled):
            return None
        usage = delta.usage
        if usage is None and not self._begun and self._asked.ids is not None:
            # A consumer that stops early should still know the prompt's length.
            usage = Usage(prompt_tokens=len(self._asked.ids), completion_tokens=len(delta.token_ids) or 1)
        self._begun = True
        if delta.finish_reason is None and usage is delta.usage:
            return delta
        return msgspec.structs.replace(delta, finish_reason=None, usage=usage)

    @property
    def finished(self) -> bool:
        return self._reason is not None

    def end(self) -> Delta:
        """The last piece; `Unavailable` if the output is not complete."""
        if self._reason is None:
            raise Unavailable("the engine ended its stream early", 502)
        return Delta(finish_reason=self._reason, usage=self._usage, sampled=self._rest)

    def _of_output(self, delta: Delta) -> Delta:
        """A piece with what belongs to the output, and the prompt where that is due."""
        if self._echoes and delta.logprobs:
            self._echoes = False
            delta = _without_prompt(delta, self._asked.ids, self._request.max_tokens)
        if delta.prompt_ids and self._request.media:
            delta = self._placed(delta)
        if delta.sampled is not None and delta.sampled.ids and not self._sampled:
            self._sampled = True
            if delta.sampled.prompt_ids is None and not delta.prompt_ids and self._asked.ids is not None:
                sampled = msgspec.structs.replace(delta.sampled, prompt_ids=tuple(self._asked.ids))
                delta = msgspec.structs.replace(delta, sampled=sampled)
        return delta

    def _placed(self, delta: Delta) -> Delta:
        """A piece with the ranges of the media in the engine's own prompt, which must be ours outside them."""
        if self._asked.ids is None:
            return delta
        found = ranges(self._asked.ids, delta.prompt_ids, self._asked.spans)
        if found is None:
            log.warning("%s: engine %s: has encoded the text around the media anew", self._request.id, self._url)
        elif not delta.media:
            media = tuple((m.kind, *one) for m, one in zip(self._request.media, found, strict=True))
            delta = msgspec.structs.replace(delta, media=media)
        return delta


def _without_prompt(delta: Delta, prompt: Sequence[int] | None, most: int | None) -> Delta:
    """The first piece of an output that begins with its prompt, without the prompt's text, which servers may decode
    differently, but with the entries of the prompt's tokens."""
    count = len(prompt) if prompt is not None else delta.usage.prompt_tokens if delta.usage else 0
    if not 0 < count <= len(delta.logprobs):
        raise EngineError("the engine does not report the tokens of the prompt", 502)
    if not most:
        return msgspec.structs.replace(delta, text="", token_ids=(), logprobs=delta.logprobs[:count])
    tokens = [entry["token"] for entry in delta.logprobs[count:]]
    while not delta.text.endswith("".join(tokens)):  # a character may be incomplete, and an end token has no text
        tokens.pop()
    return msgspec.structs.replace(delta, text="".join(tokens))
