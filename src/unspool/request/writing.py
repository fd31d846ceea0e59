"""Writes a request's conversations as prompts, and what comes between two answers of one: in the shape that the chat
template writes whole, and without special tokens that come from values."""

import datetime
import hashlib
import json
import os.path
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, Final

import msgspec

from ..chat_templates.bridge import Bridge, behind, between
from ..chat_templates.pool import AwaitedRendering
from ..chat_templates.tojson import tojson
from ..chat_templates.worker import Late, Rendered
from ..errors import TemplateError
from ..validation import json_shown
from ..wire.encoding import clean
from .chat_request import ChatRequest
from .common import call_of
from .disguise import Change, Disguise, Neutral, broken_up
from .examined import SAME, TRUSTED, ExaminedTemplate, as_object, random_word
from .fields import BadRequest
from .shapes import Traits, described, missing, plainer, shape, with_words

_SENTINEL: Final = "\ue000unspool\ue001"
"""Appended to a message that the model should continue, to find its end in the prompt."""
_BUSY: Final = 503  # the status of a prompt that a busy machine could not render
_SHOWN: Final = 24  # characters of a text that an error shows
_MOST_APART: Final = 16  # calls of one answer whose results are rendered one by one


class NoBridge(TemplateError):
    """A template rewrites the earlier part of a conversation; the message says how."""


class ConversationWriter:
    """Writes conversations of one request, in the shape that is written whole, without others' special tokens."""

    def __init__(self, template: ExaminedTemplate, request: ChatRequest, waiting: AwaitedRendering | None) -> None:
        self._template = template
        self._begun = request.begun
        self._field = request.messages_at
        self._waiting = waiting
        self._now = datetime.datetime.now()  # for all renderings, which are compared
        try:
            self._known = template.known
        except TemplateError as error:
            raise _refused(error, request.messages_at) from None
        self._guard = self._known.guards[bool(request.media)]
        self._neutral = Neutral(self._guard.special)
        self._kwargs = self._guard.special.break_up(dict(request.template))
        self._places = request.template_at
        self._variables = template.variables_of(msgspec.structs.replace(request, template=self._kwargs))
        self._declared = described(template.tools_of(request), self._known.traits)
        self._given: tuple[list[dict[str, Any]], str]
        self._last: list[dict[str, Any]] = []  # the message that the model goes on with, after those to be written
        self._tools: dict[Change, list[Any]] = {}
        self._messages: dict[tuple[Change, int], tuple[Mapping[str, Any], dict[str, Any]]] = {}

    def spoken(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        prompt = self.write(messages)
        shaped, text = self._given
        if text != prompt:
            return None
        given = {"messages": list(map(_in_openai_form, shaped)), "tools": self._tools[self._neutral]}
        return {**given, "chat_template_kwargs": self._kwargs}

    def begun(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt of a conversation whose last message the model goes on with. That message's text is the beginning
        of an answer, which may have the dialect's markers, but no others: it is written as it is, or refused."""
        self._last = last = [self._template.message(m, Neutral(self._known.others)) for m in messages[-1:]]
        if not last or last[0]["role"] != "assistant" or not isinstance(last[0]["content"], str):
            raise self._not_begun("needs an assistant message with text at the end of messages")
        if last[0].get("tool_calls"):
            raise self._not_begun(
                "an answer with calls cannot be continued; leave out its tool_calls, or send their results instead"
            )
        self._check_spelled(self._template.message(messages[-1], SAME), last[0])
        said = last[0]["content"]
        goes_on = len(messages) < 2 or messages[-2]["role"] == "assistant"  # no turn opens after what comes before
        openings = () if goes_on else self._template.openings()
        if opening := next((one for one in openings if said.lstrip().startswith(one)), None):
            if last[0].get("reasoning_content"):
                reason = "the last message has reasoning, and its text opens another part"
                raise self._not_begun(f"{reason}; leave out {opening}")
            self._last = []  # the model itself writes it after what opens its turn
            return self._without_part(self.write(messages[:-1])) + said.lstrip()
        if last[0].get("reasoning_content"):
            self._check_thought(messages, last[0])
        last[0]["content"] += _SENTINEL + " "  # the space shows whether the template strips text
        before, found, after = self.write(messages[:-1], generate=False).rpartition(_SENTINEL)
        # What a template cuts out is lost, and what it leaves may join to a special token.
        if not found or not "".join(before.split()).endswith("".join(said.split())):
            marks = [mark for pair in self._template.markers_of_thoughts() for mark in pair if mark in said]
            parts = f"leave out what it changes: {', '.join(marks)}" if marks else "leave out what it changes"
            raise self._not_begun(f"the chat template changes the last message, so it cannot be continued; {parts}")
        return before if after.startswith(" ") else before.rstrip()

    def _check_thought(self, messages: Sequence[Mapping[str, Any]], last: dict[str, Any]) -> None:
        """Refuse a message to go on with whose reasoning the template does not write."""
        word = random_word()
        self._last = [last | dict.fromkeys(("reasoning_content", "thinking"), word)]
        if word not in self.write(messages[:-1], generate=False):
            given = "its reasoning" if messages[-1].get("reasoning_content") else "the thought in its content"
            reason = f"the chat template does not write the reasoning of the last message; leave out {given}"
            raise self._not_begun(f"{reason}, and send what follows it as content")
        self._last = [last]

    def _check_spelled(self, message: Mapping[str, Any], broken: Mapping[str, Any]) -> None:
        """Refuse a message to go on with if its special tokens had to be broken up."""
        for field in ("content", "reasoning_content"):
            text = message.get(field) or ""
            if text != (changed := broken.get(field) or ""):
                at = len(os.path.commonprefix([text, changed])) - 1  # noqa: RUF071 - of strings
                words = [w for w in self._known.others.words if text.startswith(w, at)]
                escaped = text[max(0, at - _SHOWN // 4) : at + _SHOWN]
                shown = json_shown(max(words, key=len, default=escaped))
                raise self._not_begun(f"the last message spells what only the chat template writes; leave out {shown}")

    def _without_part(self, prompt: str) -> str:
        """A prompt without the parts of an answer that it opens at its end, such as an empty thought."""
        pairs = list(self._template.markers_of_thoughts())
        known = {*self._template.openings(), *(before for before, _ in pairs if before)}
        opens = _any(sorted(known, key=len, reverse=True))
        ends = _any(after for _, after in pairs if after)
        part = re.search(rf"(?:(?:{opens})[^\s<]*\s*|(?:{ends})\s*)+\Z", prompt)
        return prompt[: part.start() if part else None]

    def _not_begun(self, why: str) -> BadRequest:
        """An answer's beginning that cannot be continued."""
        return BadRequest(self._begun, why)

    def bridge(
        self,
        messages: Sequence[Mapping[str, Any]],
        at: int,
        ends: Sequence[str],
        *,
        generate: bool = True,
        written: Callable[[], str] | None = None,
        checked: bool = True,
    ) -> Bridge:
        """Find the bridge after an answer, which ``ends`` may end, with a word in place of the answer's text.

        The prompt of these very messages, which ``written`` may give, checks the result, since the template is not
        trusted. If it does not end as expected, another rendering has the new messages after that word.
        """
        word, other = random_word(), random_word()
        history, new = messages[:at], messages[at + 1 :]
        stand_in = _stand_in(messages[at], word)

        def behind_word(*messages: Mapping[str, Any], generate: bool = generate) -> str:
            return behind(word, self.write([*history, stand_in, *messages], generate=generate))

        with refusals():
            others = [m if m["role"] == "assistant" else {**m, "content": f"{other}x{i}x"} for i, m in enumerate(new)]
            tail = behind_word(*others)
            found = between(tail, ends, tail.find(other), lambda: behind_word(generate=False))
        if any(m["content"] not in found.text for m in others if m["role"] != "assistant"):
            results = _one_by_one(messages, at)
            if not results:
                raise NoBridge("the chat template does not write what follows an answer as it is, and in one piece")
            # A template that has a message for each call writes the results of all but the last before that.
            last = len(results) - 1
            each = [self.bridge(m, at, ends, generate=generate and i == last) for i, m in enumerate(results)]
            gap = self.bridge(results[0][: at + 1], at, ends, generate=False, checked=False).text  # ends the answer
            text = each[0].text + "".join(one.text.removeprefix(gap) for one in each[1:])
            return Bridge(each[-1].closings, text)
        if written is not None:
            head = tail.removesuffix(found.whole)
            shown = self._shown(written(), messages[at:], head, found, others)
            if shown is not None:
                return shown
        with refusals():
            after = behind_word(*new)
        start = len(tail) - len(found.text)
        if not after.startswith(tail[:start]):
            raise NoBridge("the chat template writes the answer differently")
        bridge = Bridge(tuple(map(clean, found.closings)), clean(after[start:]))
        if checked:
            whole = clean(self.write(messages, generate=generate)) if written is None else written()
            if not whole.endswith(bridge.text):
                raise NoBridge("the chat template writes what follows an answer differently after another answer")
        return bridge

    def _shown(
        self,
        prompt: str,
        messages: Sequence[Mapping[str, Any]],
        head: str,
        bridge: Bridge,
        stand_ins: Sequence[Mapping[str, Any]],
    ) -> Bridge | None:
        """A bridge with the texts of the messages after an answer, in place of those that stand in for them; ``None``
        if a prompt does not end with the answer, the ``head`` with which the template ends it, and that."""
        answer, *new = self._changed(messages, self._neutral)
        text, said = bridge.text, answer["content"]
        for stand_in, message in zip(stand_ins, new, strict=True):
            if message["role"] != "assistant":
                if not isinstance(message["content"], str):
                    return None
                text = text.replace(stand_in["content"], message["content"])
        shown = Bridge(tuple(map(clean, bridge.closings)), clean(text))
        end = clean(head.removeprefix('"')) + shown.whole  # the last argument may be no string
        before = prompt[: len(prompt) - len(end)].rstrip()
        if not answer.get("tool_calls"):
            said = clean(said).rstrip() if isinstance(said, str) else ""
            if not said or not before.endswith(said):
                return None
        return shown if prompt.endswith(end) else None

    def write(self, messages: Sequence[Mapping[str, Any]], *, generate: bool = True) -> str:
        """The prompt of a conversation; an error if the template refuses it, meets a limit, or leaves out a message."""
        plain = self._changed(messages, self._neutral)
        problem: BadRequest | None = None
        tried: list[dict[str, Any]] | None = None
        known = self._known.traits
        known = known.but(**dict.fromkeys(known.untold, False)) if self._declared else known
        for traits in (known if known.alone or self._declared else known.but(calls=False)).cautious():
            shaped = shape([*plain, *self._last], traits, generate=generate)
            if shaped == tried:
                continue
            tried = shaped
            found = self._rendered(shaped, self._neutral, generate)
            if found.error:
                problem = problem or _refused(found.error, self._field)
                continue
            at = self._missing(plain, traits, found.text, generate) if traits.whole else None
            if at is None:
                self._given = shaped, found.text
                return self._proven(found.text, messages, traits, generate)
            why = f"the chat template leaves out the text of message {at + 1}, of role {messages[at]['role']!r}"
            problem = problem or BadRequest(self._field, why)
        assert problem is not None, "at least one shape is tried"
        if found.error:
            self._check_variables(shaped, generate, found.error)
        given, fewer = self._declared, described(plainer(self._declared), known)
        ask = shape([{"role": "user", "content": self._template.word}], known)
        if given == fewer or not self._rendered(ask, self._neutral, generate).error:
            raise problem
        self._declare(fewer)  # it is the tools: the template may not know the form of a schema
        try:
            return self.write(messages, generate=generate)
        except BadRequest:
            self._declare(given)
            raise problem from None

    def _check_variables(self, messages: list[dict[str, Any]], generate: bool, error: str) -> None:
        """An error of the field whose variables make the template refuse a conversation, if there is one."""
        given = self._variables
        for field in dict.fromkeys(self._places.values()):
            self._variables = {name: value for name, value in given.items() if self._places.get(name) != field}
            if self._variables != given and self._rendered(messages, self._neutral, generate).error != error:
                raise _refused(error, field)
        self._variables = given

    def _declare(self, tools: list[Any]) -> None:
        """Declare other tools than so far."""
        self._declared = tools
        self._tools.clear()
        self.__dict__.pop("_digest", None)

    def _missing(
        self, messages: Sequence[Mapping[str, Any]], traits: Traits, prompt: str, generate: bool
    ) -> int | None:
        """The index of the first message whose text is not in a prompt; ``None`` if all are.

        A text that is lost may be elsewhere in the prompt, as all short ones are. So the template must also write a
        word of its own for each text. The order of the words is that in which the texts are looked for.
        """
        stand_ins, words = with_words(messages, self._template.word)
        form = _sha256([stand_ins, self._last, hash(traits), generate, self._digest])
        order = self._known.forms.get(form)
        if order is None:
            shaped = shape([*stand_ins, *self._last], traits, generate=generate)
            written = self._rendered(shaped, self._neutral, generate)
            places: dict[str, int] = {}
            if not written.error:  # else it reads what the texts say
                for found in re.finditer(f"{self._template.word}(?:x[0-9]+){{2}}x", written.text):
                    places.setdefault(found[0], found.start())
                for i, mine in enumerate(words):
                    if not places.keys() >= set(mine):
                        return i
            own = list(range(len(words)))
            written_in = sorted(own, key=lambda i: places.get(words[i][0], 0) if words[i] else 0)
            order = array("I", [] if written_in == own else written_in)
            self._known.forms.put(form, order, order.itemsize * len(order))
        return missing(messages, clean(prompt), self._known.switches, order)

    @cached_property
    def _digest(self) -> str:
        """A digest of all that the template is given besides messages."""
        return _sha256([self._declared, self._variables])

    def _proven(self, prompt: str, messages: Sequence[Mapping[str, Any]], traits: Traits, generate: bool) -> str:
        """The prompt without special tokens that the template made of values."""
        if not self._neutral.risky:
            return prompt

        def disguised(change: Disguise) -> str | None:
            shaped = shape([*self._changed(messages, change), *self._last], traits, generate=generate)
            found = self._rendered(shaped, change, generate)
            return None if found.error else found.text

        others = (partial(disguised, change) for change in self._guard.disguises)
        found = broken_up(prompt, others, self._guard.special)
        if found is None:
            raise BadRequest(self._field, "the chat template writes special tokens that come from their texts")
        return found

    def _rendered(self, messages: list[dict[str, Any]], change: Change, generate: bool) -> Rendered:
        try:
            if change not in self._tools:
                self._tools[change] = change(self._declared)
            written, tools = self._known.places.written(messages), self._tools[change]
            return self._template.rendered(
                written,
                tools,
                generate=generate,
                variables=self._variables,
                waiting=self._waiting,
                now=self._now,
            )
        except (TemplateError, ValueError, RecursionError) as error:  # the values are not JSON, or too deep
            raise _refused(error, self._field) from None

    def _changed(self, messages: Sequence[Mapping[str, Any]], change: Change) -> list[dict[str, Any]]:
        made = []
        for message in messages:
            key = change, id(message)
            if key not in self._messages:
                changed = self._template.message(message, change)
                if self._guard.trusted is not None and message["role"] in TRUSTED:
                    changed["content"] = self._guard.trusted.break_up(changed["content"])
                self._messages[key] = message, changed
            made.append(self._messages[key][1])
        return made


@contextmanager
def refusals() -> Iterator[None]:
    """A context in which there is no bridge if the template refuses a conversation, but not if the machine is busy."""
    try:
        yield
    except (BadRequest, TemplateError) as error:
        if isinstance(error, BadRequest) and error.status == _BUSY:
            raise
        raise NoBridge(f"the chat template: {error}"[:500]) from None


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()


def _in_openai_form(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its calls' arguments as text."""
    calls = [
        call_of(c.get("id"), c["function"]["name"], arguments if isinstance(arguments, str) else tojson(arguments))
        for c in message.get("tool_calls") or ()
        for arguments in [c["function"].get("arguments")]
    ]
    return {**message, "tool_calls": calls} if calls else message


def _refused(error: Exception | str, field: str) -> BadRequest:
    if isinstance(error, Late):
        return BadRequest(None, "the server is overloaded: the prompt could not be rendered in time; try again", _BUSY)
    text = str(error).removeprefix("template: ")
    return BadRequest(field, f"the chat template rejected the request: {text}")


def _any(texts: Iterable[str]) -> str:
    """A pattern for any of some texts."""
    return "|".join(map(re.escape, texts)) or "(?!)"


def _stand_in(answer: Mapping[str, Any], word: str) -> dict[str, Any]:
    """An answer with the same calls, and with the word as its last text."""
    calls = list(answer.get("tool_calls") or ())
    if not calls:
        return {"role": "assistant", "content": word}
    known = calls[-1]["function"].get("arguments")
    known = as_object(known) if isinstance(known, str) else known
    key = next(iter(known or ()), "key")
    calls[-1] = {**calls[-1], "function": {**calls[-1]["function"], "arguments": tojson({key: word})}}
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _one_by_one(messages: Sequence[Mapping[str, Any]], at: int) -> list[list[Mapping[str, Any]]]:
    """A conversation for each result of an answer's several calls, with the result's call alone, the last one with all
    that follows; none if there is one call, or it is not clear which result is whose."""
    calls = {call.get("id"): call for call in messages[at].get("tool_calls") or ()}
    results = list(takewhile(lambda m: m["role"] == "tool", messages[at + 1 :]))
    known = all(r.get("tool_call_id") in calls and isinstance(r.get("content"), str) for r in results)
    if not 2 <= len(calls) <= _MOST_APART or not known:
        return []
    made = [[*messages[:at], {**messages[at], "tool_calls": [calls[r["tool_call_id"]]]}, r] for r in results]
    return [*made[:-1], [*made[-1], *messages[at + 1 + len(results) :]]] if made else []
