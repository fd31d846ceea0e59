"""`Conversation`: token in, token out."""

import copy
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..arguments import check_ids, wrong_type
from ..dialect.file import Dialect
from ..dialect.registry import as_dialect
from ..errors import TemplateError
from ..events import Event, Status
from ..kinds import PROMPT, RESULTS, SAMPLED, Codes, codes_of, mask_of, names_of
from ..message import Message
from ..parser import Parser
from ..policy import Policy
from .bridge import Format, reads_the_same
from .encoding import Encoder, Ids, load_tokenizer
from .templates import ChatTemplate

__all__ = ["CallSpan", "Conversation", "Rewrite", "Sample", "Transcript"]

_log: Final = logging.getLogger(__name__)
_ASKING: Final = ("user", "system", "developer")
_ROLES: Final = (*_ASKING, "tool", "function", "ipython")
_WHAT: Final = {"earlier": "earlier turns", "answer": "the answer", "behind": "what follows the answer"}
_ENDING: Final = 64  # tokens after which an answer's end is looked for
_KEPT_FORMATS: Final = 16


class CallSpan(msgspec.Struct, frozen=True):
    """One call, and where it is.

    Attributes:
        turn: which answer of the conversation it is in, from 0.
        index: its place among the answer's calls, from 0.
        name: of the tool.
        status: as `unspool.ToolCall` has it.
        known: whether the tool is declared; ``None`` where tools are unknown.
        attempt: 1; one more than that of the call of the same tool before it, where that one failed (its status was
            neither ``ok`` nor ``repaired``).
        start, end: its tokens, a half-open range of the sample's ids.
    """

    turn: int
    index: int
    name: str
    status: Status
    known: bool | None
    attempt: int
    start: int
    end: int


class Rewrite(NamedTuple):
    """The template would write the conversation in another way.

    Attributes:
        turn: the answer after which that was found out.
        what: ``earlier`` text, that of the ``answer``, or what is ``behind`` it.
        forked: whether a new sample began.
    """

    turn: int
    what: Literal["earlier", "answer", "behind"]
    forked: bool


class Sample(NamedTuple):
    """Aligned arrays of one sequence of tokens.

    Attributes:
        ids: the tokens.
        codes: the kind of each, a place in `unspool.rl.KINDS`.
        logprobs: as given; NaN where nothing was sampled or nothing given.
        calls: the calls of the answers that are in it.
    """

    ids: Ids
    codes: Codes
    logprobs: NDArray[np.float64]
    calls: tuple[CallSpan, ...]

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each token by name."""
        return names_of(self.codes)

    def mask(self, kinds: Iterable[str] = SAMPLED) -> NDArray[np.bool_]:
        """Which tokens the model wrote, and are of one of these kinds.

        Raises:
            ValueError: a kind is not one of `unspool.rl.SAMPLED`.
        """
        return mask_of(self.codes, kinds)


class Transcript(NamedTuple):
    """A written conversation to train on: the ids, and which of them to learn."""

    ids: Ids
    mask: NDArray[np.bool_]


class Conversation:
    """A conversation whose tokens are those that the model read and wrote, whatever its template thinks of them.

    ::

        conversation = Conversation("hermes", tokenizer, template=None, messages=messages, tools=tools)
        ids = generate(conversation.prompt())
        message = conversation.extend(ids)
        conversation.add([{"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "20 °C"}])
        ids = generate(conversation.prompt())

    Args:
        dialect: a name, or a `Dialect`.
        tokenizer: a ``tokenizers.Tokenizer``, a fast tokenizer of transformers, or a folder with ``tokenizer.json``.
        template: a Jinja text; ``None`` takes the tokenizer's own.
        messages: what the first answer answers. Text that spells special tokens stays text, here and later.
        tools: OpenAI tool dicts; ``None`` where there are none.
        on_rewrite: where the template would write earlier turns otherwise once more messages follow, ``keep`` goes on
            after the tokens as they are; ``fork`` begins a new sample as the template writes it.
        variables: what the template is given besides, such as ``{"enable_thinking": True}``.
        special: named special tokens such as ``eos_token``, where the tokenizer does not have them.
        policy: how answers are read.

    Attributes:
        samples: the finished samples, where the conversation was forked.
        rewrites: what the template would have written otherwise.
        turns: the answers.

    Raises:
        UnknownDialect: no dialect has this name.
        TemplateError: there is no template, or none that answers can be followed in; it refuses the messages.
        TypeError, ValueError: an argument is wrong; the message names it.
    """

    _ids: list[Ids]
    _codes: list[Codes]
    _logprobs: list[NDArray[np.float64]]
    _calls: list[CallSpan]

    def __init__(
        self,
        dialect: str | Dialect,
        tokenizer: Any,
        *,
        template: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        tools: Sequence[Any] | None = None,
        on_rewrite: Literal["keep", "fork"] = "keep",
        variables: Mapping[str, Any] | None = None,
        special: Mapping[str, str] | None = None,
        policy: Policy | None = None,
    ) -> None:
        if on_rewrite not in ("keep", "fork"):
            raise ValueError(f"on_rewrite: {on_rewrite!r} is not one of 'keep', 'fork'")
        self._format = _format(as_dialect(dialect), tokenizer, template, bool(tools), variables or {}, special or {})
        self._fork = on_rewrite == "fork"
        self._tools = list(tools) if tools is not None else None
        self._policy = policy
        Parser(self._format.dialect, tools=tools, policy=policy)  # refuses what is wrong with them
        self._reset(_checked(messages, "messages"))

    def _reset(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Begin with these messages."""
        self._messages: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []  # the same as the template takes them
        self._by = ""
        self._written = ""  # what the template wrote for the latest prompt, special tokens in messages broken up
        self._opening = ""  # the end of it, which shows how the answer begins
        self._asked = False
        self.samples: list[Sample] = []
        self.rewrites: list[Rewrite] = []
        self.turns: list[Message] = []
        self._failed: dict[str, int] = {}
        self._begin()
        if messages:
            self._first([dict(m) for m in messages])

    # -- arrays ----------------------------------------------------------------------------------------------------

    @property
    def sample(self) -> Sample:
        """The sequence so far."""
        if len(self._ids) > 1:
            self._ids = [np.concatenate(self._ids)]
            self._codes = [np.concatenate(self._codes)]
            self._logprobs = [np.concatenate(self._logprobs)]
        return Sample(self._ids[0], self._codes[0], self._logprobs[0], tuple(self._calls))

    @property
    def ids(self) -> Ids:
        """The tokens so far; they only ever grow."""
        return self.sample.ids

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each token: one of `unspool.rl.KINDS`."""
        return self.sample.kinds

    @property
    def logprobs(self) -> NDArray[np.float64]:
        """The log-probability of each token; NaN where it was not sampled, or none was given."""
        return self.sample.logprobs

    def mask(self, kinds: Iterable[str] = SAMPLED) -> NDArray[np.bool_]:
        """Which tokens the model wrote, and are of one of these kinds; never those of prompts and results.

        Raises:
            ValueError: a kind is not one of `unspool.rl.SAMPLED`.
        """
        return self.sample.mask(kinds)

    @property
    def calls(self) -> tuple[CallSpan, ...]:
        """The calls of the answers that are in the sequence."""
        return tuple(self._calls)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in OpenAI's form, answers included."""
        return copy.deepcopy(self._messages)

    # -- turns -----------------------------------------------------------------------------------------------------

    def prompt(self) -> list[int]:
        """The ids to generate from.

        Raises:
            ValueError: nothing has been asked since the last answer.
        """
        if not self._asked:
            raise ValueError("prompt: there is nothing to answer; add messages first")
        found: list[int] = self.ids.tolist()
        return found

    def extend(
        self, ids: Sequence[int] | Ids, logprobs: Sequence[float] | None = None, finish_reason: str = "stop"
    ) -> Message:
        """Take the answer that the model wrote.

        Args:
            ids: its tokens, the one that ended it included where the engine gives it. An answer that was generated in
                several parts is given as a whole.
            logprobs: one for each.
            finish_reason: the engine's.

        Raises:
            ValueError: nothing was asked, an id is negative, or there are not as many log-probabilities as ids.
            TypeError: these are not ids.
        """
        if not self._asked:
            raise ValueError("extend: there is nothing to answer; add messages first")
        tokens = _as_ids(ids)
        known = np.full(len(tokens), np.nan) if logprobs is None else np.array(logprobs, np.float64)
        if known.shape != tokens.shape:
            raise ValueError(f"logprobs: {known.size:,} of {len(tokens):,} ids")
        message, events = self._read(tokens, self._opening, finish_reason)
        start = sum(map(len, self._ids))
        self._put(tokens, codes_of(events, len(tokens)), known)
        for segment in message.segments:
            if segment.kind == "tool_call":
                first, last = start + segment.token_start, start + segment.token_end
                self._calls.append(self._span(message, segment.call, first, last))
        self.turns.append(message)
        self._messages.append(message.to_openai())
        self._history.append(self._format.answer(message))
        self._asked = False
        return message

    def add(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Go on: with results of tools, with what a user says.

        Returns:
            The ids that were added, the opening of the next answer included. Where the conversation was forked, those
            of the whole new sample.

        Raises:
            ValueError: the last answer is still missing, or a message is not of one of the allowed roles.
            TypeError: these are not messages.
            TemplateError: the template refuses them. The conversation is as it was.
        """
        new = [dict(m) for m in _checked(messages, "messages")]
        if not new:
            raise ValueError("messages: at least one is needed")
        for i, message in enumerate(new):
            if self.turns and message["role"] not in _ROLES:
                raise ValueError(f"messages[{i}].role: {message.get('role')!r} is not one of {', '.join(_ROLES)}")
        if self._asked:
            raise ValueError("add: the answer to the last messages is missing; give it to extend first")
        if not self.turns:
            return self._first(new)
        history = [*self._history, *map(self._format.shaped, new)]
        shaped, tools, by = self._broken(history)
        count = len(self._history)
        bridge = self._format.bridge(shaped[:count], shaped[count:], tools)
        written = self._format.template.render(shaped, tools, generate=True)
        answered = self._format.closed(shaped[:count], tools)
        what = self._rewritten(answered, written, bridge.whole, by)
        if what is not None:
            self._report(Rewrite(len(self.turns) - 1, what, self._fork))
        if what is not None and self._fork:
            self.samples.append(self.sample)
            self._begin()
            return self._ask(new, history, by, written)
        close = bridge.missing(self._ending(), self._format.ends)
        ids, starts = self._format.encoder.encode_spans(close + bridge.text, by, self._last_literal())
        self._messages, self._history = [*self._messages, *new], history
        self._by, self._written, self._opening = by, written, bridge.text
        self._put(ids, _codes(close + bridge.text, starts, shaped[count:]))
        self._asked = True
        return _listed(ids)

    def copy(self) -> "Conversation":
        """The same conversation, to go on with apart from this one: as for several answers to one prompt."""
        other = copy.copy(self)
        other._ids, other._codes, other._logprobs = list(self._ids), list(self._codes), list(self._logprobs)
        other._calls, other._failed, other.turns = list(self._calls), dict(self._failed), list(self.turns)
        other._messages, other._history = list(self._messages), list(self._history)
        other.samples, other.rewrites = list(self.samples), list(self.rewrites)
        return other

    # -- inside ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._ids = [np.empty(0, np.int64)]
        self._codes = [np.empty(0, np.uint8)]
        self._logprobs = [np.empty(0, np.float64)]
        self._calls = []

    def _put(self, ids: Ids, codes: int | Codes, logprobs: NDArray[np.float64] | None = None) -> None:
        self._ids.append(ids)
        self._codes.append(np.full(len(ids), codes, np.uint8) if isinstance(codes, int) else codes)
        self._logprobs.append(np.full(len(ids), np.nan) if logprobs is None else logprobs)

    def _first(self, messages: list[dict[str, Any]]) -> list[int]:
        history = [self._format.shaped(m) for m in messages]
        shaped, tools, by = self._broken(history)
        return self._ask(messages, history, by, self._format.template.render(shaped, tools, generate=True))

    def _ask(self, new: list[dict[str, Any]], history: list[dict[str, Any]], by: str, written: str) -> list[int]:
        """Begin a sequence with a whole prompt."""
        ids = self._format.encoder.encode(written, by)
        self._messages, self._history = [*self._messages, *new], history
        self._by, self._written, self._opening = by, written, written
        self._put(ids, PROMPT)
        self._asked = True
        return _listed(ids)

    def _broken(self, history: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Any, str]:
        """Messages and tools with special tokens broken up, and by what."""
        encoder = self._format.encoder
        by = encoder.unused([history, self._tools])
        return encoder.broken(list(history), by), encoder.broken(self._tools, by), by

    def _read(self, ids: Ids, opening: str, finish_reason: str) -> tuple[Message, list[Event]]:
        parser = Parser(
            self._format.dialect,
            tools=self._tools,
            prompt=opening,
            policy=self._policy,
            tokenizer=self._format.encoder.tokenizer,
        )
        events = parser.feed_tokens(ids.tolist())
        events += parser.close(finish_reason)
        return parser.message, events

    def _span(self, message: Message, index: int, start: int, end: int) -> CallSpan:
        call = message.tool_calls[index]
        attempt = self._failed.get(call.name, 0) + 1
        self._failed[call.name] = 0 if call.status in ("ok", "repaired") else attempt
        return CallSpan(len(self.turns), index, call.name, call.status, call.known, attempt, start, end)

    def _last_literal(self) -> str:
        last = next((ids[-1] for ids in reversed(self._ids) if len(ids)), -1)
        return self._format.encoder.literal(int(last))

    def _ending(self) -> str:
        """The end of the text that the model wrote."""
        tail = next((ids[-_ENDING:] for ids in reversed(self._ids) if len(ids)), np.empty(0, np.int64))
        text: str = self._format.encoder.tokenizer.decode(tail.tolist(), skip_special_tokens=False)
        return text

    def _rewritten(
        self, answered: str | None, written: str, bridge: str, by: str
    ) -> Literal["earlier", "answer", "behind"] | None:
        """What of the conversation the template writes otherwise now than it was; ``None``: nothing.

        Args:
            answered: what the template writes for the conversation up to the last answer, where it takes that.
            written: what it writes now.
            bridge: what is to go after the answer.
            by: what breaks special tokens up in both.
        """
        old, now = self._written.replace(self._by, "") if self._by else self._written, written.replace(by, "")
        if not now.startswith(old):
            return "earlier"
        if not written.endswith(bridge):
            return "behind"
        asked = _place(written, len(old), by)
        if answered is not None and not written[asked:].startswith(self._format.to_end(answered[asked:])):
            return "answer"
        middle = written[asked : len(written) - len(bridge)]
        last, dialect = self.turns[-1], self._format.dialect
        same = reads_the_same(middle, last, dialect, self._opening, by, self._tools, self._policy)
        return None if same else "answer"

    def _report(self, rewrite: Rewrite) -> None:
        if not self.rewrites:
            how = "a new sample begins" if rewrite.forked else "the tokens stay as they are"
            _log.warning("turn %d: the chat template would rewrite %s; %s", rewrite.turn, _WHAT[rewrite.what], how)
        self.rewrites.append(rewrite)

    # -- transcripts -----------------------------------------------------------------------------------------------

    def sft(self, messages: Sequence[Mapping[str, Any]], kinds: Iterable[str] = SAMPLED) -> Transcript:
        """The ids of a written conversation, and which of them are answers.

        The ids are those of the template's rendering. Where it writes an earlier answer otherwise than it would have
        been generated, they are, with ``keep``, those of a conversation in which each answer was generated; with
        ``fork``, such an answer is not learnt.

        Args:
            messages: the whole conversation, answers included. Nothing of this conversation counts.
            kinds: what to learn of the answers.

        Raises:
            ValueError: no message is an answer, or a kind is not allowed.
            TypeError: these are not messages.
            TemplateError: the template refuses them.
        """
        ids, codes = transcribe(self, [dict(m) for m in _checked(messages, "messages")])
        return Transcript(ids, mask_of(codes, kinds))


def transcribe(conversation: Conversation, messages: Sequence[Mapping[str, Any]]) -> tuple[Ids, Codes]:
    """The ids of a written conversation up to its last answer, and their kinds; see `Conversation.sft`."""
    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if not answers:
        raise ValueError("messages: contains no answer (a message of the assistant)")
    form = conversation._format
    history = [form.shaped(m) for m in messages[: answers[-1] + 1]]
    shaped, tools, by = conversation._broken(history)
    whole = form.template.render(shaped, tools, generate=False)
    parts = [form.written(shaped[:i], shaped[i], tools) for i in answers]
    kept = [whole.startswith(prompt + answer) for prompt, answer in parts]
    if not all(kept) and not conversation._fork:
        return _regenerated(conversation, messages, answers, [form.encoder.encode(a, by) for _, a in parts])
    ids, starts = form.encoder.encode_spans(whole, by)
    codes = np.full(len(ids), PROMPT, np.uint8)
    for (prompt, answer), as_written in zip(parts, kept, strict=True):
        if as_written:
            first, last = np.searchsorted(starts, (len(prompt), len(prompt) + len(answer)))
            _, events = conversation._read(ids[first:last], prompt, "stop")
            codes[first:last] = codes_of(events, int(last - first))
    return ids, codes


def _regenerated(
    conversation: Conversation, messages: Sequence[Mapping[str, Any]], answers: Sequence[int], written: Sequence[Ids]
) -> tuple[Ids, Codes]:
    """The sequence in which each answer was generated after what was there before."""
    again = copy.copy(conversation)
    again._reset(messages[: answers[0]])
    for k, (at, ids) in enumerate(zip(answers, written, strict=True)):
        again.extend(ids)
        if k + 1 < len(answers):
            if answers[k + 1] == at + 1:
                raise ValueError(f"messages[{at + 1}]: follows another answer, which the template rewrites")
            again.add(messages[at + 1 : answers[k + 1]])
    return again.sample.ids, again.sample.codes


def _codes(text: str, starts: NDArray[np.int64], new: Sequence[Mapping[str, Any]]) -> Codes:
    """The kinds of what was added: results are the text of tools' messages, where the template writes it as it is."""
    codes = np.full(len(starts), PROMPT, np.uint8)
    at = 0
    for message in new:
        content = message.get("content")
        found = text.find(content, at) if isinstance(content, str) and content else -1
        if found >= 0:
            at = found + len(content or "")
            if message["role"] not in _ASKING:
                codes[(starts >= found) & (starts < at)] = RESULTS
    return codes


def _listed(ids: Ids) -> list[int]:
    found: list[int] = ids.tolist()
    return found


def _place(text: str, length: int, by: str) -> int:
    """Where so many characters of a text end, those that break special tokens up not counted."""
    if not by or by not in text:
        return length
    at = 0
    for piece in text.split(by):
        if length <= len(piece):
            return at + length
        length -= len(piece)
        at += len(piece) + len(by)
    return len(text)


def _as_ids(ids: Any) -> Ids:
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(f"ids: must be integers in one dimension, not {ids.dtype} of shape {ids.shape}")
        if len(ids) and ids.min() < 0:
            raise ValueError("ids: must not be negative")
        return ids.astype(np.int64)
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise wrong_type("ids", ids, "token ids, a list or array of integers")
    known = tuple(ids)
    check_ids("ids", known)
    return np.array(known, np.int64)


def _checked(messages: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise wrong_type(where, messages, "a list of messages")
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise wrong_type(f"{where}[{i}]", message, "a message, an object with a role")
        if not isinstance(message.get("role"), str):
            raise wrong_type(f"{where}[{i}].role", message.get("role"), "a string")
    return messages


# --- formats are examined once ----------------------------------------------------------------------------------------

_formats: OrderedDict[tuple[Any, ...], tuple[Format, tuple[Any, ...]]] = OrderedDict()
_formats_lock: Final = threading.Lock()


def _format(
    dialect: Dialect,
    tokenizer: Any,
    template: str | None,
    tools: bool,
    variables: Mapping[str, Any],
    special: Mapping[str, str],
) -> Format:
    """The format of a conversation, from memory where possible; what its key is made of is kept alive."""
    loaded = load_tokenizer(tokenizer)
    if template is None:
        named = ("tool_use", "default") if tools else ("default",)
        template = next((loaded.templates[n] for n in named if n in loaded.templates), None)
        if template is None:
            raise TemplateError("template: the tokenizer has none; give its text")
    elif not isinstance(template, str):
        raise wrong_type("template", template, "a Jinja text or None")
    named_tokens = {**loaded.special, **special}
    settings = json.dumps([named_tokens, dict(variables)], sort_keys=True, default=repr)
    key = (id(dialect), id(loaded.tokenizer), template, settings)
    with _formats_lock:
        kept = _formats.get(key)
        if kept is not None:
            _formats.move_to_end(key)
            return kept[0]
    encoder = Encoder(loaded.tokenizer, [template, *dialect.start, *dialect.end])
    eos = [named_tokens["eos_token"]] if named_tokens.get("eos_token") else []
    found = Format(dialect, ChatTemplate(template, {**named_tokens, **variables}), encoder, eos)
    with _formats_lock:
        _formats[key] = found, (dialect, loaded.tokenizer)
        while len(_formats) > _KEPT_FORMATS:
            _formats.popitem(last=False)
    return found
