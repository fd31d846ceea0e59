"""Renders prompts with the model's own chat template, with Hugging Face's semantics, in processes with limits.

A request may set the variables that the template uses, and the thinking switches. A zero-width space breaks up
special tokens in the text of users, tools and earlier answers, in the declarations of tools and in the arguments of
calls, so that they stay text; see `special_tokens` and `disguise`. System prompts belong to the application and are not
changed, nor are the dialect's own markers in the beginning of an answer that the model should continue. No message is
left out; see `shapes`.
"""

import datetime
import hashlib
import json
import logging
import os.path
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec

from ..arguments import json_object, json_shown
from ..chat_templates.bridge import Bridge, behind, between
from ..chat_templates.forms import ASKED, IDS, TOOL, Form, reads, shown
from ..chat_templates.pool import Pool, Waiting
from ..chat_templates.tojson import tojson
from ..chat_templates.worker import Late, Limits, Rendered
from ..dialect.file import Dialect
from ..dialect.registry import list_dialects
from ..dialect.template import text_of, unstarted
from ..engines.kept import Kept
from ..engines.media import is_medium
from ..errors import TemplateError
from ..infer.sources import SPECIAL
from ..schema import nests_deeper
from ..wire.encoding import INVALID_JSON, clean
from .chat_request import ChatRequest
from .common import QUOTED, SWITCHES, UNTOLD, call_of, in_one
from .disguise import Change, Disguise, Neutral, broken_up
from .fields import BadRequest
from .parts.places import FORGED, Places, find_places
from .shapes import OURS, Traits, described, examine, missing, plainer, shape, switches_in, with_words
from .special_tokens import SpecialTokens, apart, markers, turn_marks
from .tokenizer import Tokenizer, read_tokenizer

__all__ = ["NoBridge", "Prompts", "Tokenizer", "read_tokenizer", "refusals"]

log = logging.getLogger("unspool.server")
_LIMITS: Final = Limits(seconds=3.0, total=20.0, output=1 << 24)
"""The output is four times as long as the longest messages that the server takes."""
_SENTINEL: Final = "\ue000unspool\ue001"
"""Appended to a message that the model should continue, to find its end in the prompt."""
_BUSY: Final = 503  # the status of a prompt that a busy machine could not render
_FORMS: Final = (4096, 16 << 20)  # forms of conversations that are known to be written whole, and bytes of their orders
_SHOWN: Final = 24  # characters of a text that an error shows
_MOST_APART: Final = 16  # calls of one answer whose results are rendered one by one
_DEEPEST: Final = 128  # levels of arguments that a template is given as an object
_TRUSTED: Final = {"system", "developer"}  # roles whose text belongs to the application
_OURS: Final = {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", *SPECIAL}
_BUILT_IN_TOOLS: Final = "builtin_tools"
"""The variable with the names of tools that the model was trained on; the template itself describes them."""
_BUILT_IN: Final = {*_OURS, "raise_exception", "strftime_now", "range", "namespace", "dict", "lipsum", "cycler"}

_TOOLS_AS_TEXT: Final = "functions"
_TIME: Final = "datetime"  # these two are variables of older templates: the tools as JSON, and the time


class NoBridge(TemplateError):
    """A template rewrites the earlier part of a conversation; the message says how."""


class Prompts:
    """Renders a model's prompts; thread-safe. `TemplateError` if a template is not Jinja, or meets a limit."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        try:
            plain = Pool(tokenizer.template, tokenizer.special, _LIMITS)
            same = tokenizer.tool_template == tokenizer.template
            self._pools = (plain, plain if same else Pool(tokenizer.tool_template, tokenizer.special, _LIMITS))
        except TemplateError as error:
            raise TemplateError(f"the chat template, {str(error).removeprefix('template: ')}") from None
        asked = plain.asked | self._pools[1].asked
        self._variables = asked - _BUILT_IN
        self._takes_tools = "tools" in asked
        self._form = Form()
        self._no_tools: list[Any] | None = None
        """What the template is given as tools if there are none."""
        self.word = _random_word()
        self._dialect: Dialect | None = None
        self._examined: _Examined | None = None

    @property
    def source(self) -> list[Any]:
        """What the prompts depend on besides requests."""
        tokenizer = self.tokenizer
        return [tokenizer.template, tokenizer.tool_template, dict(tokenizer.special)]

    def render(self, request: ChatRequest, waiting: Waiting | None = None, *, generate: bool = True) -> str:
        """Render the prompt of a request, without lone surrogates, which tokenizers refuse. The model's turn begins at
        its end if it is to generate. `BadRequest` if the request sets a variable that the template does not use, or the
        template refuses it, meets a limit, or leaves out the text of a message."""
        for name in request.template:
            if name not in self._variables and name not in SWITCHES:
                allowed = ", ".join(sorted(self._variables)) or "none"
                at = request.template_at.get(name, f"chat_template_kwargs.{name}")
                raise BadRequest(at, f"is unknown to the template; allowed are {allowed}")
        writing = _Writing(self, request, waiting)
        if request.begun:
            return clean(writing.begun(request.messages))
        return clean(writing.write(request.messages, generate=generate))

    def spoken(self, request: ChatRequest, waiting: Waiting | None = None) -> dict[str, Any] | None:
        """What the template is given for a request, in OpenAI's form, for an engine that renders it itself; ``None`` if
        the prompt is something else than the template makes of that."""
        if request.begun:
            return None
        return _Writing(self, request, waiting).spoken(request.messages)

    def bridge(self, request: ChatRequest, at: int, ends: Sequence[str], waiting: Waiting | None = None) -> Bridge:
        """Return the text between an answer of the history and the next answer. `NoBridge` if the template changes the
        answer's last text, or what follows it; `BadRequest` if it refuses the request."""
        writing = _Writing(self, request, waiting)
        written = cache(lambda: clean(writing.write(request.messages)))
        found = writing.found(request.messages, at, self.ends(ends), written=written)
        for piece in found.pieces:
            same = piece.messages is request.messages
            whole = written() if same else clean(writing.write(piece.messages, generate=piece.opens))
            if not whole.endswith(piece.text):
                raise NoBridge("the chat template writes what follows an answer differently after another answer")
        return found.bridge

    def ends(self, ends: Sequence[str]) -> tuple[str, ...]:
        """The strings that end an answer: these and the template's own, the longest first."""
        eos = self.tokenizer.special.get("eos_token", "")
        return tuple(sorted({e for e in (*ends, eos) if e.strip()}, key=len, reverse=True))

    def variables_of(self, request: ChatRequest) -> dict[str, Any]:
        """The template's variables besides messages and tools."""
        found = {name: value for name, value in request.template.items() if name in self._variables}
        if built_in := self._built_in(request):
            found[_BUILT_IN_TOOLS] = sorted({name.partition(".")[0] for name in built_in})
        return found

    def tools_of(self, request: ChatRequest) -> list[Any]:
        """The tools that the template is told."""
        if request.toolset.kind == "none":
            return []
        built_in = self._built_in(request)
        return [t for t in request.tools if t["function"]["name"] not in built_in]

    def _built_in(self, request: ChatRequest) -> set[str]:
        """The server's tools that the template describes itself. The model was trained on them."""
        served, dialect = request.server_tools, self._dialect
        unset = _BUILT_IN_TOOLS in self._variables and _BUILT_IN_TOOLS not in request.template
        if served is None or dialect is None or not unset or request.toolset.kind == "none":
            return set()
        return {name for name, one in served.tools.items() if one.tool.kind != "mcp" and dialect.knows(name)}

    def rendered(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
        *,
        generate: bool,
        variables: Mapping[str, Any] | None = None,
        waiting: Waiting | None = None,
        now: datetime.datetime | None = None,
    ) -> Rendered:
        """What the template writes for these very messages, now if no time is given."""
        now = now or datetime.datetime.now()
        asked = {
            "messages": messages,
            "tools": list(tools) or self._no_tools,
            "documents": None,
            "add_generation_prompt": generate,
            **self._older(tools, now),
            **(variables or {}),
        }
        return self._pools[bool(tools)].render([asked], waiting, now)[0]

    def _older(self, tools: Sequence[Any], now: datetime.datetime) -> dict[str, Any]:
        """The variables of templates that are older than transformers' support for tools."""
        if self._takes_tools or _TOOLS_AS_TEXT not in self._variables:
            return {}
        return {_TOOLS_AS_TEXT: tojson(list(tools), indent=2), _TIME: f"{now:%Y-%m-%d %H:%M:%S}"}

    # -- messages --------------------------------------------------------------------------------------------------

    def message(self, message: Mapping[str, Any], change: Change) -> dict[str, Any]:
        """A message in the form that templates expect, with what does not belong to the application changed.

        The content is one string, since few templates handle parts or missing content, and reasoning has both names.
        """
        content = message.get("content")
        made = {**message, "content": in_one(content) if isinstance(content, list) else content or ""}
        media = made["content"] if isinstance(made["content"], list) else ()
        if media:  # their parts stay as they are
            made["content"] = [_NOTHING if is_medium(part) else part for part in media]
        quoted = made.pop(QUOTED, False)
        made.pop(UNTOLD, None)
        if made["role"] in _TRUSTED and not quoted:
            return made
        calls = made.pop("tool_calls", None)
        if made["role"] == "assistant":
            self._take_thought_apart(made)
        made = {**change({**made, "role": ""}), "role": made["role"]}  # also the keys that only the client knows
        if media:
            made["content"] = [a if is_medium(a) else b for a, b in zip(media, made["content"], strict=True)]
        if made.get("reasoning_content"):
            made.setdefault("thinking", made["reasoning_content"])
        if calls:
            made["tool_calls"] = [self._call(call, change) for call in calls]
            made["content"] = made["content"] or self._form.nothing
        return made

    def _take_thought_apart(self, made: dict[str, Any]) -> None:
        """Move a thought at the beginning of an answer's text into its own field, as templates do that find one: its
        markers would be broken up."""
        content = made["content"]
        if not isinstance(content, str) or made.get("reasoning_content"):
            return
        for opening, closing in self.known.thoughts:
            head, found, rest = content.partition(closing)
            if found and head.lstrip().startswith(opening):
                made["reasoning_content"] = head.lstrip()[len(opening) :].strip()
                made["content"] = rest.lstrip("\n")
                return

    def _call(self, call: Mapping[str, Any], change: Change) -> dict[str, Any]:
        """A call with its arguments in the form that the template expects. Invalid ones are passed on.

        Templates write decoded arguments, so it is those that are changed. Text stays as it is if that changes nothing.
        """
        function = change({k: v for k, v in call["function"].items() if k != "arguments"})
        given = call["function"].get("arguments")
        known = _as_object(given) if isinstance(given, str) or not given else given
        if self._form.objects:
            function["arguments"] = change(known, named=True)
        elif isinstance(given, str):
            function["arguments"] = change.json(given, None if INVALID_JSON in known else known)
        else:
            function["arguments"] = tojson(change(known, named=True))
        return {**change({k: v for k, v in call.items() if k != "function"}), "function": function}

    @property
    def known(self) -> "_Examined":
        """What is known of the template from rendering it once."""
        if self._examined is None:
            self._examined = self._examine()
        return self._examined

    def _examine(self) -> "_Examined":
        if self.rendered([ASKED], [], generate=False).error:  # some templates count them
            self._no_tools = []
            if self.rendered([ASKED], [], generate=False).error:
                self._no_tools = None

        def write(messages: list[dict[str, Any]], tools: Sequence[Any], generate: bool = False) -> str | None:
            for message in messages:
                if message.get("tool_calls"):
                    message["tool_calls"] = [self._call(call, _SAME) for call in message["tool_calls"]]
            found = self.rendered(messages, tools, generate=generate)
            return None if found.error else found.text

        def result(parts: list[Any]) -> list[dict[str, Any]]:
            answer = Form(nothing=self._form.nothing).answer()
            return [ASKED, answer, {"role": "tool", "tool_call_id": IDS[0], "content": parts}]

        texts = [*self._pools[0].texts, *self._pools[1].texts]
        traits, written = examine(write, texts, self._form.nothing)
        if self._dialect is None and not traits.calls:  # arguments as text may be what it wants
            self._form = self._form._replace(objects=False)
            traits, written = examine(write, texts, self._form.nothing)
            self._form = self._form._replace(objects=not traits.calls)
        if not traits.whole:
            log.warning("the chat template does not write a user's message as it is, so prompts are not checked")
        tools = described([TOOL], traits)
        added = self.tokenizer.added
        places = find_places(
            lambda messages: write(shape(messages, traits), tools if len(messages) > 1 else []), result, texts, added
        )
        traits = traits.but(held=places.held, last=not traits.whole or self._ends_answers(traits))
        made_up = {w for w in markers(written) if "zq" in w.lower()}
        named = [*self.tokenizer.special.values()]
        if self._dialect is not None:
            named += [*self._dialect.start, *self._dialect.end, *(t.text for t in self._dialect.templates)]
        words = {*added, *markers([*texts, *written, *named]), *OURS} - made_up
        special = {*self.tokenizer.special.values(), *added}
        plain = [one for one in written if not any(other in one for other in ("zq", *OURS))]  # no tools, no calls
        marks = turn_marks(plain, texts, special)
        alone = apart(marks, plain) - words
        words |= (marks - alone) | set(places.literals)
        own = SpecialTokens({*places.literals, *FORGED})
        said = self._said()
        guards = _guard(words, alone, None, texts), _guard({*words, *FORGED}, alone, own, texts)
        # A token with an open part is known by its beginning, which a template and a dialect may write differently.
        others = {w for w in {*words, *FORGED} if not any(w.startswith(s) or s.startswith(w) for s in said)}
        beginnings = SpecialTokens(others, alone - said)
        return _Examined(traits, guards, switches_in(texts), places, beginnings, tuple(self._thoughts()), Kept(*_FORMS))

    def _ends_answers(self, traits: Traits) -> bool:
        """Whether the template does not go on with an answer at the end behind something that it writes there alone,
        such as the opening of a thought."""
        say = {"role": "assistant", "content": "Zqsay"}
        at_end, inside = (
            self.rendered(shape(messages, traits), [], generate=True).text.partition(say["content"])
            for messages in ([ASKED, say], [ASKED, say, ASKED])
        )
        return bool(at_end[2].strip()) or at_end[0] == inside[0]

    def _thoughts(self) -> Iterator[tuple[str, str]]:
        """The markers of those thoughts that the template takes from a field, or cuts out of texts. Others stay in the
        text, where nothing is lost."""
        variables = {name: True for name in SWITCHES[:-1] if name in self._variables}
        say, field = {"role": "assistant", "content": "Zqsay"}, dict.fromkeys(("reasoning_content", "thinking"), "Zqth")
        result = {"role": "tool", "tool_call_id": self._form.id, "content": "Zqresult"}

        def writes(*messages: dict[str, Any], tools: Sequence[Any] = ()) -> bool:
            found = self.rendered([ASKED, *messages], tools, generate=True, variables=variables)
            return "Zqth" in found.text

        takes = writes(say | field) or writes(self._form.answer() | field, result, tools=[TOOL])
        for opening, closing in self.markers_of_thoughts():
            if opening and closing and (takes or not writes(say | {"content": f"{opening}Zqth{closing}Zqsay"}, ASKED)):
                yield opening, closing

    def markers_of_thoughts(self) -> Iterator[tuple[str, str]]:
        """What the dialect writes before and after thoughts."""
        for template in () if self._dialect is None else self._dialect.reasoning:
            yield text_of(template.before).strip(), text_of(template.after).strip()

    def openings(self) -> set[str]:
        """The special tokens with which the dialect's thoughts and answers begin, behind what opens a turn."""
        dialect = self._dialect
        frames = () if dialect is None else (*dialect.reasoning, *dialect.content)
        texts = [unstarted(t.opening, dialect.start).strip() for t in frames if dialect is not None]
        return {token for text in texts for token in markers([text]) if text.startswith(token)}

    def _said(self) -> set[str]:
        """The special tokens inside of answers."""
        if self._dialect is None:
            return set()
        inside = markers([*(template.text for template in self._dialect.templates), self._dialect.codec.quote])
        return inside - markers((*self._dialect.start, *self._dialect.end))

    def check(self, dialect: Dialect) -> bool:
        """Check that the dialect reads the calls that the template writes. Returns false if it writes none;
        `TemplateError`, with the dialects that read them, if this one does not.

        It also finds out whether the template expects arguments as objects or as text, and what it expects for missing
        content next to calls: many print ``None`` or fail.
        """
        self._dialect = dialect
        self._examined = None

        def render(messages: Sequence[Mapping[str, Any]]) -> str | None:
            found = self.rendered(messages, [TOOL], generate=False)
            return None if found.error else found.text

        written = list(shown(render))
        fitting = [w for w in written if reads(dialect, w)]
        if fitting:  # a template writes more if it gets an unexpected form
            self._form = min(fitting, key=lambda w: len(w.turn)).form
        if fitting or not written:
            self._examined = self._examine()
            return bool(fitting)
        others = [d.name for d in list_dialects() if any(reads(d, w) for w in written)]
        instead = f"these would: {', '.join(others)}" if others else "no other does"
        raise TemplateError(
            f"dialect {dialect.name} cannot read the calls that the chat template writes; {instead}; the template "
            f"writes {written[0].turn[:200]!r}"
        )


class _Writing:
    """Writes conversations of one request, in the shape that is written whole, without others' special tokens."""

    def __init__(self, prompts: Prompts, request: ChatRequest, waiting: Waiting | None) -> None:
        self._prompts = prompts
        self._begun = request.begun
        self._field = request.messages_at
        self._waiting = waiting
        self._now = datetime.datetime.now()  # for all renderings, which are compared
        try:
            self._known = prompts.known
        except TemplateError as error:
            raise _refused(error, request.messages_at) from None
        self._guard = self._known.guards[bool(request.media)]
        self._neutral = Neutral(self._guard.special)
        self._template = self._guard.special.break_up(dict(request.template))
        self._places = request.template_at
        self._variables = prompts.variables_of(msgspec.structs.replace(request, template=self._template))
        self._declared = described(prompts.tools_of(request), self._known.traits)
        self._given: tuple[list[dict[str, Any]], str]
        self._last: list[dict[str, Any]] = []  # the message that the model goes on with, behind those to be written
        self._tools: dict[Change, list[Any]] = {}
        self._messages: dict[tuple[Change, int], tuple[Mapping[str, Any], dict[str, Any]]] = {}

    def spoken(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        prompt = self.write(messages)
        shaped, text = self._given
        if text != prompt:
            return None
        given = {"messages": list(map(_in_openai_form, shaped)), "tools": self._tools[self._neutral]}
        return {**given, "chat_template_kwargs": self._template}

    def begun(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt of a conversation whose last message the model goes on with. That message's text is the beginning
        of an answer, which may have the dialect's markers, but no others: it is written as it is, or refused."""
        self._last = last = [self._prompts.message(m, Neutral(self._known.others)) for m in messages[-1:]]
        if not last or last[0]["role"] != "assistant" or not isinstance(last[0]["content"], str):
            raise self._not_begun("needs an assistant message with text at the end of messages")
        if last[0].get("tool_calls"):
            raise self._not_begun(
                "an answer with calls cannot be continued; leave out its tool_calls, or send their results instead"
            )
        self._check_spelled(self._prompts.message(messages[-1], _SAME), last[0])
        said = last[0]["content"]
        goes_on = len(messages) < 2 or messages[-2]["role"] == "assistant"  # no turn opens behind what comes before
        openings = () if goes_on else self._prompts.openings()
        if opening := next((one for one in openings if said.lstrip().startswith(one)), None):
            if last[0].get("reasoning_content"):
                told = "the last message has reasoning, and its text opens another part"
                raise self._not_begun(f"{told}; leave out {opening}")
            self._last = []  # the model itself writes it behind what opens its turn
            return self._without_part(self.write(messages[:-1])) + said.lstrip()
        if last[0].get("reasoning_content"):
            self._check_thought(messages, last[0])
        last[0]["content"] += _SENTINEL + " "  # the space shows whether the template strips text
        before, found, after = self.write(messages[:-1], generate=False).rpartition(_SENTINEL)
        # What a template cuts out is lost, and what it leaves may join to a special token.
        if not found or not "".join(before.split()).endswith("".join(said.split())):
            marks = [mark for pair in self._prompts.markers_of_thoughts() for mark in pair if mark in said]
            parts = f"leave out what it changes: {', '.join(marks)}" if marks else "leave out what it changes"
            raise self._not_begun(f"the chat template changes the last message, so it cannot be continued; {parts}")
        return before if after.startswith(" ") else before.rstrip()

    def _check_thought(self, messages: Sequence[Mapping[str, Any]], last: dict[str, Any]) -> None:
        """Refuse a message to go on with whose reasoning the template does not write."""
        word = _random_word()
        self._last = [last | dict.fromkeys(("reasoning_content", "thinking"), word)]
        if word not in self.write(messages[:-1], generate=False):
            given = "its reasoning" if messages[-1].get("reasoning_content") else "the thought in its content"
            told = f"the chat template does not write the reasoning of the last message; leave out {given}"
            raise self._not_begun(f"{told}, and send what follows it as content")
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
        pairs = list(self._prompts.markers_of_thoughts())
        known = {*self._prompts.openings(), *(before for before, _ in pairs if before)}
        opens = _any(sorted(known, key=len, reverse=True))
        ends = _any(after for _, after in pairs if after)
        part = re.search(rf"(?:(?:{opens})[^\s<]*\s*|(?:{ends})\s*)+\Z", prompt)
        return prompt[: part.start() if part else None]

    def _not_begun(self, why: str) -> BadRequest:
        """An answer's beginning that cannot be continued."""
        return BadRequest(self._begun, why)

    def found(
        self,
        messages: Sequence[Mapping[str, Any]],
        at: int,
        ends: Sequence[str],
        *,
        generate: bool = True,
        written: Callable[[], str] | None = None,
    ) -> "_Found":
        """Find the bridge after an answer, which ``ends`` may end, with a word in place of the answer's text.

        Another rendering checks the result, since the template is not trusted: the prompt of these very messages, if
        ``written`` gives it and it ends as expected; else one with the new messages behind that word.
        """
        word, other = _random_word(), _random_word()
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
            each = [self.found(m, at, ends, generate=generate and i == last) for i, m in enumerate(results)]
            gap = self.found(results[0][: at + 1], at, ends, generate=False).bridge.text  # ends the answer
            text = each[0].bridge.text + "".join(one.bridge.text.removeprefix(gap) for one in each[1:])
            bridge = Bridge(each[-1].bridge.closings, text)
            return _Found(bridge, [piece for one in each for piece in one.pieces])
        if written is not None:
            head = tail.removesuffix(found.whole)
            shown = self._shown(written(), messages[at:], head, found, others)
            if shown is not None:
                return _Found(shown, ())
        with refusals():
            after = behind_word(*new)
        start = len(tail) - len(found.text)
        if not after.startswith(tail[:start]):
            raise NoBridge("the chat template writes the answer differently")
        bridge = Bridge(tuple(map(clean, found.closings)), clean(after[start:]))
        return _Found(bridge, [_Piece(messages, generate, bridge.text)])

    def _shown(
        self,
        prompt: str,
        messages: Sequence[Mapping[str, Any]],
        head: str,
        bridge: Bridge,
        stand_ins: Sequence[Mapping[str, Any]],
    ) -> Bridge | None:
        """A bridge with the texts of the messages behind an answer, in place of those that stand in for them; ``None``
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
        ask = shape([{"role": "user", "content": self._prompts.word}], known)
        if given == fewer or not self._rendered(ask, self._neutral, generate).error:
            raise problem
        self._tell(fewer)  # it is the tools: the template may not know the form of a schema
        try:
            return self.write(messages, generate=generate)
        except BadRequest:
            self._tell(given)
            raise problem from None

    def _check_variables(self, messages: list[dict[str, Any]], generate: bool, error: str) -> None:
        """An error of the field whose variables make the template refuse a conversation, if there is one."""
        given = self._variables
        for field in dict.fromkeys(self._places.values()):
            self._variables = {name: value for name, value in given.items() if self._places.get(name) != field}
            if self._variables != given and self._rendered(messages, self._neutral, generate).error != error:
                raise _refused(error, field)
        self._variables = given

    def _tell(self, tools: list[Any]) -> None:
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
        stand_ins, words = with_words(messages, self._prompts.word)
        form = _sha256([stand_ins, self._last, hash(traits), generate, self._digest])
        order = self._known.forms.get(form)
        if order is None:
            shaped = shape([*stand_ins, *self._last], traits, generate=generate)
            written = self._rendered(shaped, self._neutral, generate)
            places: dict[str, int] = {}
            if not written.error:  # else it reads what the texts say
                for found in re.finditer(f"{self._prompts.word}(?:x[0-9]+){{2}}x", written.text):
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
            return self._prompts.rendered(
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
                changed = self._prompts.message(message, change)
                if self._guard.trusted is not None and message["role"] in _TRUSTED:
                    changed["content"] = self._guard.trusted.break_up(changed["content"])
                self._messages[key] = message, changed
            made.append(self._messages[key][1])
        return made


def _random_word() -> str:
    """A word that no text contains."""
    return f"Zq{os.urandom(8).hex()}"


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


class _Examined(NamedTuple):
    """What is known of a template: its traits, what texts must not spell without and with media, switches in texts,
    what it writes for media, what the beginnings of answers must not spell, the markers of thoughts that it knows, and
    digests of the forms of conversations that it writes whole, with the order of their messages in prompts where that
    is another."""

    traits: Traits
    guards: "tuple[_Guard, _Guard]"
    switches: re.Pattern[str]
    places: Places
    others: SpecialTokens
    thoughts: tuple[tuple[str, str], ...]
    forms: Kept["array[int]"]


class _Guard(NamedTuple):
    """The special tokens that texts must not spell, disguises of these, and those that even trusted texts must not."""

    special: SpecialTokens
    disguises: tuple[Disguise, ...]
    trusted: SpecialTokens | None


def _guard(words: Iterable[str], alone: Iterable[str], trusted: SpecialTokens | None, texts: Sequence[str]) -> _Guard:
    special = SpecialTokens(words, alone)
    known = (text for text in texts if special.has_piece(text) or _SWITCH.fullmatch(text))
    acting = [text for text in known if not special.completed(text, texts)]
    disguises = Disguise(special, letters=True), Disguise(special, letters=False, acting=acting)
    return _Guard(special, disguises, trusted)


_SAME: Final = Change()
_SWITCH: Final = re.compile(r"/\w+")
_NOTHING: Final = {"type": "text", "text": ""}


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


class _Piece(NamedTuple):
    """A conversation, whether the next answer opens behind it, and the text with which its prompt ends."""

    messages: Sequence[Mapping[str, Any]]
    opens: bool
    text: str


class _Found(NamedTuple):
    """A bridge, and its pieces."""

    bridge: Bridge
    pieces: Sequence[_Piece]


def _stand_in(answer: Mapping[str, Any], word: str) -> dict[str, Any]:
    """An answer with the same calls, and with the word as its last text."""
    calls = list(answer.get("tool_calls") or ())
    if not calls:
        return {"role": "assistant", "content": word}
    known = calls[-1]["function"].get("arguments")
    known = _as_object(known) if isinstance(known, str) else known
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


def _as_object(arguments: Any) -> Any:
    if not arguments:
        return {}
    value = json_object(arguments)
    return {INVALID_JSON: arguments} if value is None or nests_deeper(value, _DEEPEST) else value
