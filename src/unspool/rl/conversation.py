"""`Conversation`: keeps the exact tokens of a conversation with tools, and the kind of each."""

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..dialect.file import Dialect
from ..dialect.registry import as_dialect
from ..engines.token_kinds import PROMPT, RESULTS, SAMPLED, Codes, codes_of, mask_of
from ..events import Event
from ..message import Message
from ..parser import Parser
from ..policy import Policy
from .encoding import Ids
from .format import format_of, reads_the_same
from .given import as_ids, as_logprobs, as_messages
from .sample import CallSpan, Rewrite, Sample, Transcript

_log: Final = logging.getLogger(__name__)
_ASKING: Final = ("user", "system", "developer")
_ROLES: Final = (*_ASKING, "tool", "function", "ipython")
_WHAT: Final = {"earlier": "earlier turns", "answer": "the answer", "behind": "what follows the answer"}
_ENDING: Final = 64  # the number of last tokens that are searched for an answer's end


class Conversation:
    """A conversation with exactly the tokens that the model read and wrote, even if its template would change them.

    ::

        conversation = Conversation("hermes", tokenizer, template=None, messages=messages, tools=tools)
        ids = generate(conversation.prompt())
        message = conversation.extend(ids)
        conversation.add([{"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "20 °C"}])
        ids = generate(conversation.prompt())

    Args:
        dialect: a name, or a `Dialect`.
        tokenizer: a ``tokenizers.Tokenizer``, a fast tokenizer of transformers, or a folder with ``tokenizer.json``.
        template: a Jinja template; ``None`` means the tokenizer's own.
        messages: the messages before the first answer. Text that spells special tokens stays text, here and later.
        tools: OpenAI tool dicts; ``None`` if there are none.
        on_rewrite: what to do if the template would write earlier turns differently once more messages follow:
            ``keep`` continues after the existing tokens, ``fork`` begins a new sample as the template writes it.
        variables: further variables of the template, such as ``{"enable_thinking": True}``.
        special: named special tokens, such as ``eos_token``, if the tokenizer does not have them.
        policy: the policy for parsing answers.

    Attributes:
        samples: the finished samples, if the conversation was forked.
        rewrites: what the template would have written differently.
        turns: the answers.

    Raises:
        UnknownDialect: no dialect has this name.
        TemplateError: there is no template, it allows no messages after answers, or it refuses the messages.
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
        self._format = format_of(as_dialect(dialect), tokenizer, template, bool(tools), variables or {}, special or {})
        self._fork = on_rewrite == "fork"
        self._tools = list(tools) if tools is not None else None
        self._policy = policy
        Parser(self._format.dialect, tools=tools, policy=policy)  # raises if they are wrong
        self._reset(as_messages(messages))

    def _reset(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Start again with these messages."""
        self._messages: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []  # the same messages in the template's form
        self._by = ""
        self._written = ""  # what the template wrote for the last prompt, with special tokens in messages broken up
        self._opening = ""  # the end of that text, which shows how the answer begins
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
        arrays = self._ids[0], self._codes[0], self._logprobs[0]
        for array in arrays:
            array.setflags(write=False)  # copies of the conversation share them
        return Sample(*arrays, tuple(self._calls))

    @property
    def ids(self) -> Ids:
        """The tokens so far. Turns only append to them."""
        return self.sample.ids

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each token: one of `unspool.rl.KINDS`."""
        return self.sample.kinds

    @property
    def logprobs(self) -> NDArray[np.float64]:
        """The log-probability of each token; NaN if it was not sampled, or none was given."""
        return self.sample.logprobs

    def mask(self, kinds: Iterable[str] = SAMPLED) -> NDArray[np.bool_]:
        """A mask of the tokens that the model wrote and that have one of these kinds, never prompts or results.

        Raises:
            ValueError: a kind is not one of `unspool.rl.SAMPLED`.
        """
        return self.sample.mask(kinds)

    @property
    def calls(self) -> tuple[CallSpan, ...]:
        """The calls of the answers in the sequence."""
        return tuple(self._calls)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in OpenAI's form, including answers."""
        return copy.deepcopy(self._messages)

    # -- turns -----------------------------------------------------------------------------------------------------

    def prompt(self) -> list[int]:
        """The ids to generate from.

        Raises:
            ValueError: there is no message since the last answer.
        """
        if not self._asked:
            raise ValueError("prompt: there is nothing to answer; add messages first")
        return _listed(self.ids)

    def extend(
        self, ids: Sequence[int] | Ids, logprobs: Sequence[float] | None = None, finish_reason: str = "stop"
    ) -> Message:
        """Append the answer that the model wrote.

        Args:
            ids: its tokens, including the one that ended it if returned; of several parts, all.
            logprobs: the log-probability of each token.
            finish_reason: the engine's finish reason.

        Raises:
            ValueError: there is nothing to answer, an id is negative or has more than 63 bits, or the numbers of
                log-probabilities and ids differ.
            TypeError: these are not ids, or not log-probabilities.
        """
        if not self._asked:
            raise ValueError("extend: there is nothing to answer; add messages first")
        tokens = as_ids(ids)
        known = as_logprobs(logprobs, len(tokens))
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
        """Add messages, such as results of tools, or a user's next message.

        Returns:
            The ids that were added, including the opening of the next answer. After a fork, the whole new sample's.

        Raises:
            ValueError: the last answer is still missing, or a message has a role that is not allowed.
            TypeError: these are not messages.
            TemplateError: the template refuses them. The conversation is unchanged.
        """
        new = [dict(m) for m in as_messages(messages)]
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
        encoder = self._format.encoder
        tail: list[int] = next((ids[-_ENDING:].tolist() for ids in reversed(self._ids) if len(ids)), [])
        close = bridge.missing(encoder.tokenizer.decode(tail, skip_special_tokens=False), self._format.ends)
        last = encoder.literal(tail[-1]) if tail else ""
        ids, starts = encoder.encode_spans(close + bridge.text, by, last)
        self._messages, self._history = [*self._messages, *new], history
        self._by, self._written, self._opening = by, written, bridge.text
        self._put(ids, _codes(close + bridge.text, starts, shaped[count:]))
        self._asked = True
        return _listed(ids)

    def copy(self) -> "Conversation":
        """Copy the conversation, to continue both separately, for example for several answers to one prompt."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(other, name, value.copy())
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
        """Messages and tools with special tokens broken up, and the character that does it."""
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

    def _rewritten(
        self, answered: str | None, written: str, bridge: str, by: str
    ) -> Literal["earlier", "answer", "behind"] | None:
        """The place where the template now writes the conversation differently; ``None`` if there is none. ``answered``
        is the rendering up to the last answer, if the template accepts it; ``by`` breaks up special tokens in both."""
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
        """Return the ids of a written conversation, and which of them to learn.

        The ids are those of the template's rendering. If the template writes an earlier answer differently from how
        the model would have generated it, ``keep`` returns the ids of a conversation in which each answer was
        generated; with ``fork``, such an answer is not learnt.

        Args:
            messages: the whole conversation, including answers. The messages of this object are not used.
            kinds: the kinds of tokens to learn.

        Raises:
            ValueError: no message is an answer, or a kind is not allowed.
            TypeError: these are not messages.
            TemplateError: the template refuses them.
        """
        ids, codes = transcribe(self, [dict(m) for m in as_messages(messages)])
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
    """The sequence in which each answer follows the text after which it was generated."""
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
    """The kinds of added tokens: the text of tools' messages is ``results``, if the template writes it unchanged."""
    codes = np.full(len(starts), PROMPT, np.uint8)
    at = 0
    for message in new:
        for content in _texts(message.get("content")):
            found = text.find(content, at)
            if found >= 0:
                at = found + len(content)
                if message["role"] not in _ASKING:
                    codes[(starts >= found) & (starts < at)] = RESULTS
    return codes


def _texts(content: Any) -> list[str]:
    """The texts of a message's content, which may have parts."""
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return [text for text in texts if isinstance(text, str) and text]


def _listed(ids: Ids) -> list[int]:
    found: list[int] = ids.tolist()
    return found


def _place(text: str, length: int, by: str) -> int:
    """The offset after ``length`` characters of a text, not counting those that break up special tokens."""
    if not by or by not in text:
        return length
    at = 0
    for piece in text.split(by):
        if length <= len(piece):
            return at + length
        length -= len(piece)
        at += len(piece) + len(by)
    return len(text)
