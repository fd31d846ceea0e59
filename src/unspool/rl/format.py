"""The formats of conversations: a template, a dialect and a tokenizer that belong together.

The text that a template writes between two answers is found by rendering: a placeholder takes the place of the last
answer, and ends in a unique word; see `unspool.chat_templates.bridge`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..chat_templates.bridge import Bridge, behind, between
from ..chat_templates.forms import ASKED, NAME, TOOL, AcceptedForm, reads, shown
from ..dialect.compiling import compile_plan
from ..dialect.file import Dialect
from ..engines.cache import Cache
from ..errors import TemplateError
from ..message import Message
from ..parser import detect_stage, parse
from ..policy import Policy
from ..renderer import render
from ..validation import json_object, wrong_type
from .encoding import Encoder, load_tokenizer
from .templates import ChatTemplate

_WORD: Final = "Zqlastword"
_OTHER: Final = "Zqresult"
_KEYS: Final = ("reasoning_content", "reasoning", "thinking")
_KEPT: Final = 16  # how many formats are kept


class Format:
    """A template, a dialect and a tokenizer that belong together, examined once for any number of conversations.
    Answers end with the texts of ``eos`` and those of the dialect. `TemplateError` if neither a user's nor a tool's
    message can follow an answer."""

    def __init__(self, dialect: Dialect, template: ChatTemplate, encoder: Encoder, eos: Sequence[str]) -> None:
        self.dialect = dialect
        self.template = template
        self.encoder = encoder
        ends = [e for e in (*eos, *dialect.end) if e.strip()]
        self.ends = tuple(sorted(set(ends), key=len, reverse=True))
        self._end = ends[0] if ends else ""
        self._form = AcceptedForm()
        self._parts = False  # whether reasoning is a part of the content instead of a key of the message
        self._find_form()
        refused: dict[str, str] = {}  # the roles whose messages cannot follow an answer, each with the reason
        for role in ("user", "tool"):
            try:
                self._probe(role)
            except TemplateError as error:
                refused[role] = str(error)
        if len(refused) > 1:
            raise TemplateError(f"template: nothing can follow an answer: {refused['user']}")

    # -- messages --------------------------------------------------------------------------------------------------

    def shaped(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message in the form that the template accepts. Only the arguments of calls are changed."""
        shaped = dict(message)
        if shaped.get("role") == "assistant" and shaped.get("tool_calls"):
            shaped["tool_calls"] = [self._call(call) for call in shaped["tool_calls"]]
        return shaped

    def answer(self, message: Message) -> dict[str, Any]:
        """An answer as a message of the history, in the form that the template accepts."""
        return self.shaped(self._answer(message.reasoning, message.content, message.to_openai().get("tool_calls", [])))

    def _answer(self, reasoning: str, content: str, calls: Sequence[Any]) -> dict[str, Any]:
        answer: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            answer["tool_calls"] = list(calls)
            answer["content"] = content or self._form.nothing
        if reasoning and self._parts:
            text = [{"type": "text", "text": content}] if content else []
            answer["content"] = [{"type": "thinking", "thinking": reasoning}, *text]
        elif reasoning:
            answer |= dict.fromkeys(_KEYS, reasoning)
        return answer

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call.get("function", call))
        given = function.get("arguments")
        if self._form.objects and isinstance(given, str):
            function["arguments"] = _as_object(given)
        elif not self._form.objects and not isinstance(given, str):
            function["arguments"] = json.dumps(given or {}, ensure_ascii=False)
        return {**call, "function": function} if "function" in call else function

    # -- bridges ---------------------------------------------------------------------------------------------------

    def bridge(
        self, history: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None
    ) -> Bridge:
        """The text between the history's last message, an answer, and the one after the new messages, all in the form
        that the template accepts. `TemplateError` if it refuses the messages, or changes the answer's last text."""
        word = _WORD
        while any(word in str(message.get("content")) for message in new):
            word += _WORD
        stand_in = [*history[:-1], self._stand_in(history[-1], word)]

        def after(*messages: Mapping[str, Any]) -> str:
            return behind(word, self.template.render([*stand_in, *messages], tools, generate=True))

        def closed() -> str:
            whole = self.closed(stand_in, tools)
            return "" if whole is None else behind(word, whole)

        tail = after(*new)
        return between(tail, self.ends, self._limit(tail, new, after), closed)

    def _limit(self, tail: str, new: Sequence[Mapping[str, Any]], after: Callable[..., str]) -> int:
        """The position in the tail, the text after the answer, at which the content of the first new message begins; -1
        if unknown. ``after`` renders the tail with other messages."""
        if not new:
            return -1
        first = str(new[0].get("content") or "")
        at = tail.find(first) if first else -1
        if at >= 0 and tail.find(first, at + 1) < 0:
            return at
        # A short content may also occur in the answer's closing, so a unique word takes its place.
        try:
            other = after({**new[0], "content": _OTHER}, *new[1:])
        except TemplateError:
            return at
        known = other.find(_OTHER)
        return known if known >= 0 and other[:known] == tail[:known] else at

    def _stand_in(self, answer: Mapping[str, Any], word: str) -> dict[str, Any]:
        """An answer with the same calls, and with the word as its last text."""
        calls = list(answer.get("tool_calls") or ())
        if not calls:
            return self._answer("", word, ())
        function = calls[-1].get("function", calls[-1])
        known = function.get("arguments")
        key = next(iter(known), "key") if isinstance(known, Mapping) else "key"
        last = {**function, "arguments": {key: word}}
        calls[-1] = {**calls[-1], "function": last} if "function" in calls[-1] else last
        return self.shaped(self._answer("", "", calls))

    def written(
        self, asked: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], tools: Sequence[Any] | None
    ) -> tuple[str, str]:
        """The prompt of an answer, and the answer as it would have been generated, including its end. `TemplateError`
        if the template refuses the messages, `DialectError` if nothing can write the answer after its prompt."""
        prompt = self.template.render(asked, tools, generate=True)
        whole = self.template.render([*asked, answer], tools, generate=False)
        if not whole.startswith(prompt):
            message = {key: answer.get(key) for key in ("content", "tool_calls")}
            message["reasoning_content"] = next((answer[key] for key in _KEYS if answer.get(key)), None)
            text = render(message, self.dialect, tools=tools, stage=detect_stage(self.dialect, prompt))
            return prompt, text + self._end
        return prompt, self.to_end(whole[len(prompt) :])

    def closed(self, history: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> str | None:
        """A conversation that ends with an answer; ``None`` if the template refuses it."""
        try:
            return self.template.render(history, tools, generate=False)
        except TemplateError:
            return None

    def to_end(self, text: str) -> str:
        """The text up to the end of its last turn."""
        return text[: max((at + len(end) for end in self.ends if (at := text.rfind(end)) >= 0), default=len(text))]

    # -- the template, examined --------------------------------------------------------------------------------------

    def _find_form(self) -> None:
        """Find the form in which the template writes a call that the dialect reads, and reasoning if it writes any."""
        every = shown(lambda messages: self.closed(messages, [TOOL]))
        # transformers passes objects. A template that does not expect missing content writes more.
        fitting = sorted((w for w in every if reads(self.dialect, w)), key=lambda w: (not w.form.objects, len(w.turn)))
        self._form = fitting[0].form if fitting else AcceptedForm()
        for self._parts in (False, True):
            text = self.closed([ASKED, self._answer(_OTHER, _WORD, ())], None) or ""
            if text.count(_OTHER) == 1 and "'thinking'" not in text:
                return
        self._parts = False

    def _probe(self, role: str) -> None:
        calls = AcceptedForm(id=self._form.id).answer()["tool_calls"] if role == "tool" else []
        answer = self.shaped(self._answer("", "" if calls else _WORD, calls))
        new = {"role": role, "content": _OTHER}
        if calls:
            new |= {"tool_call_id": self._form.id, "name": NAME}
        found = self.bridge([ASKED, answer], [new], [TOOL] if calls else None)
        if _OTHER not in found.text:
            raise TemplateError(f"template: does not write a message of {role} after an answer")


_formats: Final[Cache[tuple[Format, tuple[Any, ...]]]] = Cache(_KEPT, _KEPT)


def format_of(
    dialect: Dialect,
    tokenizer: Any,
    template: str | None,
    tools: bool,
    variables: Mapping[str, Any],
    special: Mapping[str, str],
) -> Format:
    """The format of a conversation, from the cache if possible. The cache keeps the objects of its key alive.
    `TemplateError` if there is no template, or it allows no messages after answers."""
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
    if (kept := _formats.get(key)) is not None:
        return kept[0]
    markers = compile_plan(dialect).literals
    encoder = Encoder(loaded.tokenizer, [template, *dialect.start, *dialect.end, *markers])
    eos = [named_tokens["eos_token"]] if named_tokens.get("eos_token") else []
    found = Format(dialect, ChatTemplate(template, {**named_tokens, **variables}), encoder, eos)
    _formats.put(key, (found, (dialect, loaded.tokenizer)), 1)
    return found


def _as_object(arguments: str) -> Any:
    """Arguments as an object. Anything else becomes text under a single key."""
    value = json_object(arguments or "{}")
    return {"arguments": arguments} if value is None else value


def reads_the_same(
    text: str, answer: Message, dialect: Dialect, prompt: str, by: str, tools: Any, policy: Policy | None
) -> bool:
    """Whether a text that a template wrote for an answer contains it whole, as the tools and the policy read it.

    Calls that are not ``ok`` cannot be compared. Schemas decide the type of a value that is written as text. ``by`` is
    the character that breaks up special tokens.
    """
    read = parse(text, dialect, tools=tools, prompt=prompt, policy=policy)
    texts = ((read.reasoning, answer.reasoning), (read.content, answer.content))
    if any(_bare(t, by) != _bare(a, by) for t, a in texts):
        return False
    if [c.name for c in read.tool_calls] != [c.name for c in answer.tool_calls]:
        return False
    pairs = zip(read.tool_calls, answer.tool_calls, strict=True)
    good = [(t.arguments, a.arguments) for t, a in pairs if a.status in ("ok", "repaired")]
    return all(_value(t, by) == _value(a, by) for t, a in good)


def _bare(text: str, by: str) -> str:
    return " ".join(text.replace(by, "").split())


def _value(arguments: str, by: str) -> Any:
    try:
        return json.loads(arguments.replace(by, ""))
    except (ValueError, RecursionError):
        return arguments
