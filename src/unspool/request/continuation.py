"""Exact continuation: prompts repeat the model's turns exactly as it wrote them, token by token.

A chat template writes earlier answers in its own way, usually without their reasoning, so an engine's prefix cache
does not help from there on. The server therefore remembers recent turns with their prompts. If a request's history
continues one of them, its prompt consists of the remembered prompt, the turn as the model wrote it, and a bridge from
the template; see `unspool.chat_templates.bridge`.

The key of a turn is a digest of its whole prompt and of what the client received. With another API key, another tool or
one changed word, no turn is found. Then the template writes the prompt as usual, and reasoning that the client omitted
is restored if a call's id identifies the turn.

A stored answer brings its own turn, so that it continues exactly from any process that uses the same store.

If the server ran tools between the rounds of an answer, the client sends the answer back in the form of its protocol.
Such an answer is also remembered by these forms, and is split into its rounds again.
"""

import hmac
import logging
import os
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from ..chat_templates.bridge import Bridge
from ..chat_templates.pool import AwaitedRendering
from ..engines.cache import Cache
from ..engines.media import Medium, placed
from ..message import Message
from ..tokens import added_tokens, counted, encoded
from ..wire.encoding import clean
from .chain import Chain, called, json_bytes, thought
from .chat_request import ChatRequest
from .exact import RememberedTurn
from .fields import BadRequest
from .parts.places import FORGED
from .prompts import Prompts
from .settings import Settings
from .writing import NoBridge

log = logging.getLogger("unspool.server")
_COUNT: Final = 100_000
_OVERHEAD: Final = 512
_RANDOM: Final = 8  # the number of random characters from which a call's id identifies one turn


class Written(msgspec.Struct, frozen=True):
    """The model's output in one turn."""

    text: str
    ids: Sequence[int] | None  # its tokens; ``None`` if the engine does not report them, or if the answer was cut
    message: Message
    tokens: int = 0  # the number of generated tokens, as far as the engine reports it
    cut: bool = False  # whether the output was cut off before the engine was done
    call: str = ""  # the id of the call that a session recorded for it; empty without a session


class Rounds(NamedTuple):
    """A remembered answer of several rounds: the chain it answers, its messages, and the reasoning of each and all."""

    before: bytes
    messages: tuple[dict[str, Any], ...]
    thoughts: frozenset[bytes]
    whole: bytes


_Entry = RememberedTurn | str | Rounds
"""What is remembered; a string is the reasoning of a turn that the ids of its calls identify."""


class PromptHistory(NamedTuple):
    """The origin of a prompt: the chain of all messages, digests of each answer's reasoning as the prompt contains it,
    and the client's API key."""

    chain: Chain
    thoughts: tuple[bytes, ...]
    caller: bytes

    def take(self, message: Mapping[str, Any]) -> "PromptHistory":
        """Return the origin with one more message."""
        own = (thought(message),) if message["role"] == "assistant" else ()
        return PromptHistory(self.chain.take(message), self.thoughts + own, self.caller)


class Continued(NamedTuple):
    """A prompt, with the key of the turn that follows it."""

    prompt: str
    ids: list[int] | None  # its tokens, if they continue remembered ones; else ``None``
    past: PromptHistory | None  # the prompt's origin; ``None`` if nothing should be remembered
    parent: str = ""  # the id of the call of a session that it continues; empty if there is none
    # Why it does not begin with that call's very tokens, or what was changed after them; empty if nothing.
    fork: str = ""
    follows: bool = False  # whether it begins with the parent's prompt and output


class Turns:
    """Remembers turns of a model, within the settings' ``turn_memory``; thread-safe. The secret may be random;
    ``engine`` tells the engine's name."""

    def __init__(
        self,
        settings: Settings,
        prompts: Prompts,
        tokenizer: Any = None,
        engine: Callable[[], str] = str,
        secret: bytes | None = None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self.prompts = prompts
        self._tokenizer = tokenizer
        self._literals = {} if tokenizer is None else {id: text for text, id in added_tokens(tokenizer).items()}
        self._kept: Cache[_Entry] = Cache(_COUNT, settings.turn_memory)
        # Another model, template or tokenizer cannot continue a turn.
        of_model = [settings.model, settings.dialect.name, prompts.source, sorted(self._literals.items())]
        self._secret = hmac.digest(secret or os.urandom(32), json_bytes(of_model), "sha256")

    # -- prompts ---------------------------------------------------------------------------------------------------

    def prompt(self, request: ChatRequest, waiting: AwaitedRendering | None = None) -> Continued:
        """Return the prompt of a request, which continues a remembered turn if possible."""
        self._check(request)
        context, stored = request.reasoning.context or self._settings.context, request.stored
        if stored is not None and request.reasoning.context is None and context == "loop":
            context = "all"
        if context == "never" or request.begun:
            return Continued(self.prompts.render(request, waiting), None, None)
        request, chains = self._as_written(request, across=context == "all")
        thoughts = thoughts_of(request.messages)
        answers = list(accumulate(m["role"] == "assistant" for m in request.messages))  # before each message
        for at in reversed(repeatable(request.messages, across=context == "all")):
            key = chains[at + 1].digest(b"turn")
            if stored is not None and stored.key == key:  # with its own reasoning, in the form of the items
                turn = stored
            else:
                found = self._get(key)
                if not isinstance(found, RememberedTurn) or not same_thoughts(thoughts[: answers[at]], found.thoughts):
                    continue
                turn = found
            try:
                bridge = self.prompts.bridge(request, at, self._settings.dialect.end, waiting)
            except NoBridge as error:
                log.info("a turn is written by the template: %s", error)
                break
            past = PromptHistory(chains[-1], turn.thoughts + thoughts[answers[at] :], request.caller)
            prompt = Continued(turn.prompt, None if turn.prompt_ids is None else turn.prompt_ids.tolist(), None)
            joined = self._joined(prompt, turn.text, turn.ids, bridge, past)
            if not self._fits(joined.prompt, request):
                log.info("a turn is written by the template: it spells placeholders of media")
                break
            return joined
        request = self._restored(request)
        past = PromptHistory(chains[-1], thoughts_of(request.messages), request.caller)
        return Continued(self.prompts.render(request, waiting), None, past)

    def media(self, prompt: str, request: ChatRequest) -> tuple[Medium, ...]:
        """The media of a request with their places in its prompt; an error if there is not one placeholder for each."""
        found = self._placed(prompt, request)
        if found is None:
            raise BadRequest(request.messages_at, "the chat template does not write one placeholder for each medium")
        return found

    def _check(self, request: ChatRequest) -> None:
        if request.media:
            self.prompts.known.places.check(request.messages, request.media, self._engine())

    def _fits(self, prompt: str, request: ChatRequest) -> bool:
        """Whether a prompt that repeats turns has one placeholder for each medium, and nothing else like one."""
        if not request.media:
            return True
        found = self._placed(prompt, request)
        rest = "" if found is None else placed(prompt, found, lambda i: "")
        return found is not None and not any(word in rest for word in FORGED)

    def _placed(self, prompt: str, request: ChatRequest) -> tuple[Medium, ...] | None:
        return self.prompts.known.places.find(prompt, request.messages, request.media) if request.media else ()

    def count(self, request: ChatRequest, waiting: AwaitedRendering) -> int:
        """Count the tokens of a prompt as the template writes it. Without a tokenizer, four characters count as one."""
        self._check(request)
        prompt = self.prompts.render(request, waiting)
        waiting.check()
        return len(prompt) // 4 if self._tokenizer is None else counted(self._tokenizer, prompt, waiting.check)

    def next_round(
        self,
        request: ChatRequest,
        prompt: Continued,
        written: Written,
        answer: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]],
        waiting: AwaitedRendering | None = None,
    ) -> Continued:
        """Return the prompt of the next round, after the turn that was just written: its ``prompt``, what was
        ``written``, and the ``answer`` as a message. ``request`` is what that turn answers, with the media of the
        ``results`` of its calls. `NoBridge` if the prompt must be rendered again."""
        if written.cut:
            raise NoBridge("the output was cut off")
        if self._spells_tokens(written):
            raise NoBridge("the answer spells special tokens")
        whole = msgspec.structs.replace(request, messages=[*request.messages, answer, *results])
        bridge = self.prompts.bridge(whole, len(request.messages), self._settings.dialect.end, waiting)
        past = None if prompt.past is None else prompt.past._replace(chain=prompt.past.chain.apart())
        for message in (answer, *results):
            past = None if past is None else past.take(message)
        joined = self._joined(prompt, written.text, written.ids, bridge, past)
        if not self._fits(joined.prompt, whole):
            raise NoBridge("the answer spells placeholders of media")
        return joined

    def _joined(
        self, prompt: Continued, text: str, written: Sequence[int] | None, bridge: Bridge, past: PromptHistory | None
    ) -> Continued:
        """Join a prompt, the turn as the model wrote it, and the bridge: as text, and as tokens if known."""
        text = clean(text)
        if written:  # engines leave the token that ends an output out of its text
            ended = self._literals.get(written[-1], "")
            text = text if text.endswith(ended) else text + ended
        more = bridge.missing(text, self.prompts.ends(self._settings.dialect.end)) + bridge.text
        ids = None
        if written is not None and self._tokenizer is not None:
            ids = [*(self._encode(prompt.prompt, "") if prompt.ids is None else prompt.ids), *written]
            ids += self._encode(more, self._literals.get(ids[-1], "") if ids else "")
        return Continued(prompt.prompt + text + more, ids, past)

    def _spells_tokens(self, written: Written) -> bool:
        """Whether a turn must not be repeated as it is: its text alone is known, and spells a special token."""
        if written.ids is not None:
            return False
        message = written.message
        values = (message.reasoning, message.content, *(call.name + call.arguments for call in message.tool_calls))
        return any(map(self.prompts.known.guards[0].special.spelled, values))

    def _encode(self, text: str, behind: str) -> list[int]:
        """Encode text after a special token, since some tokenizers encode the beginning of a text differently."""
        if behind:
            found = encoded(self._tokenizer, behind + text)
            if found and self._literals.get(found[0]) == behind:
                return found[1:]
        return encoded(self._tokenizer, text)

    def _restored(self, request: ChatRequest) -> ChatRequest:
        """Restore the reasoning that the client left out of the current tool loop."""
        messages: list[dict[str, Any]] | None = None
        for at in repeatable(request.messages, across=False):
            message = request.messages[at]
            key = None if message.get("reasoning_content") else self._by_ids(request.caller, message)
            found = None if key is None else self._get(key)
            if isinstance(found, str) and found:
                messages = messages or list(request.messages)
                messages[at] = {**message, "reasoning_content": found}
        return request if messages is None else msgspec.structs.replace(request, messages=messages)

    # -- turns -----------------------------------------------------------------------------------------------------

    def exact(self, prompt: Continued, written: Written) -> RememberedTurn | None:
        """A complete turn as it is remembered; ``None`` if it must not be continued."""
        message = written.message
        unfinished = message.finish_reason not in ("stop", "tool_calls")
        if prompt.past is None or unfinished or self._spells_tokens(written):
            return None
        sent = message.to_openai()
        past = prompt.past.take(sent)
        ids = None if written.ids is None else array("q", written.ids)
        prompt_ids = None if prompt.ids is None else array("q", prompt.ids)
        key = past.chain.digest(b"turn")
        return RememberedTurn(key, prompt.prompt, prompt_ids, clean(written.text), ids, past.thoughts)

    def remember(self, prompt: Continued, written: Written) -> None:
        turn = self.exact(prompt, written)
        if turn is None or prompt.past is None:
            return
        sent = written.message.to_openai()
        size = sum(2 * len(t) for t in (turn.prompt, turn.text))
        size += 8 * (len(turn.ids or ()) + len(turn.prompt_ids or ())) + 80 * len(turn.thoughts)
        self._put({turn.key, prompt.past.chain.take(trimmed(sent)).digest(b"turn")}, turn, size)
        key = self._by_ids(prompt.past.caller, sent)
        if key is not None:
            reasoning = written.message.reasoning
            self._put({key}, reasoning, 2 * len(reasoning))

    def remember_rounds(
        self, prompt: Continued, messages: Sequence[dict[str, Any]], forms: Iterable[Sequence[Mapping[str, Any]]]
    ) -> None:
        """Remember an answer of several rounds to a prompt: its messages as written, and as clients send them back."""
        if prompt.past is None:
            return
        chain = prompt.past.chain.apart()
        thoughts = frozenset((b"", *map(thought, messages)))
        rounds = Rounds(chain.digest(b"before"), tuple(messages), thoughts, _all_thoughts(messages))
        sent = [form for each in (messages, *forms) for form in (each, map(trimmed, each))]
        digests = {reduce(Chain.take, form, chain).digest(b"rounds") for form in sent}
        self._put(digests, rounds, 2 * len(json_bytes(messages)))

    def _get(self, key: bytes) -> "_Entry | None":
        return self._kept.get(key)

    def _put(self, keys: Collection[bytes], thing: "_Entry", size: int) -> None:
        """Keep an entry under several keys. Its size counts for each, since any key may be the last one evicted."""
        for key in keys:
            if size + _OVERHEAD <= self._settings.turn_memory:
                self._kept.put(key, thing, size + _OVERHEAD, anew=True)

    def _as_written(self, request: ChatRequest, *, across: bool) -> tuple[ChatRequest, list[Chain]]:
        """The request with its answers split into rounds again, and the chains before and after each message."""
        messages: list[dict[str, Any]] = []
        chains = [Chain(self._secret, {}, self._begun(request))]
        region = repeatable(request.messages, across=across)
        begins = {chains[0].digest(b"before"): 0}  # positions where an answer may begin, since the last question
        renamed: dict[Any, Any] = {}
        for at, message in enumerate(request.messages):
            if message.get("tool_call_id") in renamed:
                message = {**message, "tool_call_id": renamed[message["tool_call_id"]]}
            messages.append(message)
            chains.append(chains[-1].take(message))
            if message["role"] not in ("assistant", "tool"):
                begins = {}
            elif region and at >= region[0]:
                found = self._get(chains[-1].digest(b"rounds"))
                begin = begins.get(found.before) if isinstance(found, Rounds) else None
                if isinstance(found, Rounds) and begin is not None and _same(found, messages[begin:]):
                    renamed |= _renamed(messages[begin:], found.messages)
                    messages[begin:] = found.messages
                    chains[begin:] = accumulate(found.messages, Chain.take, initial=chains[begin])
                    begins = {digest: place for digest, place in begins.items() if place <= begin}
            begins.setdefault(chains[-1].digest(b"before"), len(messages))
        return msgspec.structs.replace(request, messages=messages), chains

    def _begun(self, request: ChatRequest) -> bytes:
        """What a prompt depends on besides its messages."""
        tools = [] if request.toolset.kind == "none" else request.tools
        return json_bytes([request.caller.hex(), tools, request.template])

    def _by_ids(self, caller: bytes, message: Mapping[str, Any]) -> bytes | None:
        """A key from the ids and contents of calls; ``None`` if ids are not random."""
        calls = message.get("tool_calls") or ()
        if not calls or self._settings.dialect.id.count("?") < _RANDOM:
            return None
        begun = json_bytes([caller.hex(), [call.get("id") for call in calls]])
        seen = {key: message.get(key) for key in ("role", "content", "tool_calls")}
        return Chain(self._secret, {}, begun).take(seen).digest(b"ids")


def _same(found: Rounds, sent_back: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a client left out the reasoning of a remembered answer, or kept it unchanged."""
    return all(thought(m) in found.thoughts for m in sent_back) or _all_thoughts(sent_back) == found.whole


def _all_thoughts(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """A digest of the reasoning of some messages, without white space, since protocols join it differently."""
    text = "".join(str(m.get("reasoning_content") or "") for m in messages)
    return thought({"reasoning_content": "".join(text.split())})


def _renamed(sent_back: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> dict[Any, Any]:
    """The original ids of calls by the client's ids, if they differ."""
    ids: dict[bytes, list[Any]] = {}
    for message in written:
        for call in message.get("tool_calls") or ():
            ids.setdefault(called(call), []).append(call.get("id"))
    known = {id for same in ids.values() for id in same}
    found = {}
    for message in sent_back:
        for call in message.get("tool_calls") or ():
            same = ids.get(called(call))
            if same and call.get("id") not in known:
                found[call.get("id")] = same.pop()
    return found


def trimmed(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of an answer in the form of clients that strip its text."""
    content = message.get("content")
    return {**message, "content": content.strip()} if isinstance(content, str) else message


def thoughts_of(messages: Sequence[Mapping[str, Any]]) -> tuple[bytes, ...]:
    """Digests of the reasoning of each answer."""
    return tuple(thought(m) for m in messages if m["role"] == "assistant")


def same_thoughts(sent_back: Sequence[bytes], thoughts: Sequence[bytes]) -> bool:
    """Whether a client left out the reasoning of the answers up to a turn, or kept it unchanged."""
    return len(sent_back) == len(thoughts) and all(not a or a == b for a, b in zip(sent_back, thoughts, strict=True))


def repeatable(messages: Sequence[Mapping[str, Any]], *, across: bool) -> list[int]:
    """Which of the assistant's turns may be repeated exactly: those of the tool loop, or all (``across``)."""
    found: list[int] = []
    for at in reversed(range(len(messages))):
        message = messages[at]
        if message["role"] != "assistant":
            continue
        if not across and (not message.get("tool_calls") or at + 1 == len(messages)):
            break
        found.append(at)
    return found[::-1]
