"""Exact continuation: a turn of the model stands in the next prompt as the model wrote it, to the token.

A chat template writes an answer of the history in its own way, most often without its reasoning; from there on an
engine's prefix cache is of no use. So the server remembers recent turns with their prompts. Where a request's history
goes on from one of them, the prompt is the remembered one, the turn as it was written, and a bridge from the template:
see `unspool.bridge`.

A turn is found by a digest of all that its prompt was made of and of what the client was told of it, so that another
API key, another tool, or one changed word finds nothing. Then the template writes the prompt as ever, and reasoning
that the client left out is put back where a call's id names the turn.
"""

import hmac
import json
import logging
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ..bridge import Bridge
from ..engines.kept import Kept
from ..message import Message
from ..tokens import added_tokens, counted, encoded
from ..wire.encoding import clean
from .chat_request import ChatRequest
from .prompts import NoBridge, Prompts
from .settings import Settings

__all__ = ["Continued", "Turns", "Written"]

log = logging.getLogger("unspool.server")
_COUNT: Final = 100_000
_RANDOM: Final = 8
"""Random characters from which on an id of a call names one turn alone."""


class Written(msgspec.Struct, frozen=True):
    """What the model wrote in one turn.

    Attributes:
        text: raw.
        ids: its tokens; ``None`` where the engine does not tell them, or the answer was cut.
        message: what it was read as.
        tokens: how many were generated, as far as the engine tells.
        cut: whether the output was cut off before the engine was done.
    """

    text: str
    ids: Sequence[int] | None
    message: Message
    tokens: int = 0
    cut: bool = False


class _Turn(NamedTuple):
    """A remembered turn: its prompt and what was written behind it, the tokens where they are known."""

    prompt: str
    prompt_ids: "array[int] | None"
    text: str
    ids: "array[int] | None"
    reasoning: str


class Continued(NamedTuple):
    """A prompt, and under which digest the turn behind it will be remembered.

    Attributes:
        prompt: the text.
        ids: its tokens, where they go on from remembered ones; else ``None``.
        digest: of all that it was made of.
    """

    prompt: str
    ids: list[int] | None
    digest: bytes


class Turns:
    """Remembers turns, bounded by the settings' ``turn_memory``; for any thread.

    Args:
        settings: the server's.
        prompts: the model's chat template.
        tokenizer: the engine's, if its ids are known.
    """

    def __init__(self, settings: Settings, prompts: Prompts, tokenizer: Any = None) -> None:
        self._settings = settings
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._literals = {} if tokenizer is None else {id: text for text, id in added_tokens(tokenizer).items()}
        self._kept: Kept[_Turn] = Kept(_COUNT, settings.turn_memory)
        self._secret = os.urandom(32)
        self._on = settings.turn_memory > 0

    # -- prompts ---------------------------------------------------------------------------------------------------

    def prompt(self, request: ChatRequest) -> Continued:
        """The prompt of a request, which goes on from a remembered turn where it can.

        Raises:
            BadRequest: the template refuses the request.
        """
        context = request.reasoning.context or self._settings.context
        if not self._on or context == "never" or request.body.get("continue_final_message") is True:
            return Continued(self._prompts.render(request), None, b"")
        digests = self._digests(request)
        for at in reversed(_region(request.messages, across=context == "all")):
            turn = self._kept.get(self._key(digests[at], _told(request.messages[at])))
            if turn is None or not _same_reasoning(request.messages[at], turn):
                continue
            try:
                bridge = self._prompts.bridge(request, at, self._settings.dialect.end)
            except NoBridge as error:
                log.info("a turn is written by the template: %s", error)
                break
            prompt = Continued(turn.prompt, None if turn.prompt_ids is None else turn.prompt_ids.tolist(), b"")
            return self._joined(prompt, turn.text, turn.ids, bridge, digests[-1])
        return Continued(self._prompts.render(self._restored(request)), None, digests[-1])

    def count(self, request: ChatRequest, check: Callable[[], None]) -> int:
        """The tokens of a prompt as the template writes it; without a tokenizer four characters are one.

        Args:
            request: whose prompt.
            check: called from time to time; may raise.

        Raises:
            BadRequest: the template refuses the request.
        """
        prompt = self._prompts.render(request)
        check()
        return len(prompt) // 4 if self._tokenizer is None else counted(self._tokenizer, prompt, check)

    def next_round(
        self,
        request: ChatRequest,
        prompt: Continued,
        written: Written,
        answer: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]],
    ) -> Continued:
        """The prompt that goes on behind a turn that was just written, with the results of its calls.

        Args:
            request: what the turn answers.
            prompt: what it was written behind.
            written: the turn.
            answer: the same as a message.
            results: messages of tools.

        Raises:
            NoBridge: it has to be rendered anew; says why.
        """
        if written.cut:
            raise NoBridge("the output was cut off")
        bridge = self._prompts.next_turn(request, answer, results, self._settings.dialect.end)
        return self._joined(prompt, written.text, written.ids, bridge, b"")  # a loop remembers its own turns

    def _joined(
        self, prompt: Continued, text: str, written: Sequence[int] | None, bridge: Bridge, digest: bytes
    ) -> Continued:
        """A prompt, the turn behind it as it was written, and the bridge; as tokens too where those are known."""
        text = clean(text)
        more = bridge.missing(text, self._prompts.ends(self._settings.dialect.end)) + bridge.text
        ids = None
        if written is not None and self._tokenizer is not None:
            ids = [*(self._encode(prompt.prompt, "") if prompt.ids is None else prompt.ids), *written]
            ids += self._encode(more, self._literals.get(ids[-1], "") if ids else "")
        return Continued(prompt.prompt + text + more, ids, digest)

    def _encode(self, text: str, behind: str) -> list[int]:
        """The ids of a text behind a special token: some tokenizers write the beginning of a text otherwise."""
        if behind:
            found = encoded(self._tokenizer, behind + text)
            if found and self._literals.get(found[0]) == behind:
                return found[1:]
        return encoded(self._tokenizer, text)

    def _restored(self, request: ChatRequest) -> ChatRequest:
        """The request with the reasoning that the client left out of the tool loop that is under way."""
        messages: list[dict[str, Any]] | None = None
        for at in _region(request.messages, across=False):
            message = request.messages[at]
            key = None if message.get("reasoning_content") else self._by_ids(message)
            turn = None if key is None else self._kept.get(key)
            if turn is not None and turn.reasoning:
                messages = messages or list(request.messages)
                messages[at] = {**message, "reasoning_content": turn.reasoning}
        return request if messages is None else msgspec.structs.replace(request, messages=messages)

    # -- turns -----------------------------------------------------------------------------------------------------

    def remember(self, prompt: Continued, written: Written) -> None:
        """Remember a turn that is complete."""
        message = written.message
        if not self._on or not prompt.digest or message.finish_reason not in ("stop", "tool_calls"):
            return
        ids = None if written.ids is None else array("q", written.ids)
        prompt_ids = None if prompt.ids is None else array("q", prompt.ids)
        turn = _Turn(prompt.prompt, prompt_ids, written.text, ids, message.reasoning)
        size = sum(2 * len(t) for t in (turn.prompt, turn.text)) + 8 * (len(ids or ()) + len(prompt_ids or ())) + 512
        if size > self._settings.turn_memory:
            return
        told = message.to_openai()
        self._kept.put(self._key(prompt.digest, _told(told)), turn, size, anew=True)
        key = self._by_ids(told)
        if key is not None:
            self._kept.put(key, _Turn("", None, "", None, message.reasoning), 512 + 2 * len(message.reasoning))

    # -- digests ---------------------------------------------------------------------------------------------------

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._secret, b"\0".join([b"%d" % len(p) + p for p in parts]), "sha256")

    def _digests(self, request: ChatRequest) -> list[bytes]:
        """For each message the digest of all before it; at last that of all together."""
        tools = [] if request.toolset.kind == "none" else request.tools
        begun = [self._settings.api_key, tools, request.template]
        found = [self._digest(_json(begun))]
        for message in request.messages:
            rest = {k: v for k, v in message.items() if k not in ("content", "tool_calls", "reasoning_content")}
            found.append(self._digest(found[-1], _json(rest), _told(message)))
        return found

    def _key(self, before: bytes, told: bytes) -> bytes:
        return self._digest(b"turn", before, told)

    def _by_ids(self, message: Mapping[str, Any]) -> bytes | None:
        """A key by the ids of calls and what they say; ``None`` where ids are not random."""
        calls = message.get("tool_calls") or ()
        if not calls or self._settings.dialect.id.count("?") < _RANDOM:
            return None
        ids = [call.get("id") for call in calls]
        return self._digest(b"ids", _json([self._settings.api_key, ids]), _told(message))


def _region(messages: Sequence[Mapping[str, Any]], *, across: bool) -> list[int]:
    """The places of the assistant's turns that may stand as they were written: those of the tool loop that is under
    way, or ``across`` user turns all."""
    found: list[int] = []
    for at in reversed(range(len(messages))):
        message = messages[at]
        if message["role"] != "assistant":
            continue
        if not across and (not message.get("tool_calls") or at + 1 == len(messages)):
            break
        if at + 1 < len(messages):
            found.append(at)
    return found[::-1]


def _told(message: Mapping[str, Any]) -> bytes:
    """What a client was told of a turn, its reasoning aside, in a form that survives a client's own reading."""
    content = message.get("content")
    if isinstance(content, list):  # of its parts the text alone: clients mark others for a cache from time to time
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        calls.append([function.get("name"), _value(function.get("arguments"))])
    return _json([(content or "").strip(), calls])


def _value(arguments: Any) -> Any:
    """Arguments as values: clients write them anew, with other spaces and other forms of whole numbers."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}", parse_float=_number)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _same_reasoning(message: Mapping[str, Any], turn: _Turn) -> bool:
    """Whether a client left the reasoning out or as it was."""
    told = message.get("reasoning_content")
    return not told or str(told).strip() == turn.reasoning.strip()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
