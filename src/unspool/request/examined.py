"""What is known of a chat template from rendering it, and its rendering of the very messages that it is given."""

import datetime
import logging
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..chat_templates.forms import ASKED, IDS, TOOL, AcceptedForm, reads, shown
from ..chat_templates.pool import AwaitedRendering, Pool
from ..chat_templates.tojson import tojson
from ..chat_templates.worker import Limits, Rendered
from ..checkpoints.sources import SPECIAL
from ..dialect.file import Dialect
from ..dialect.registry import list_dialects
from ..dialect.template import text_of, unstarted
from ..engines.cache import Cache
from ..engines.media import is_medium
from ..errors import TemplateError
from ..schema import nests_deeper
from ..validation import json_object
from ..wire.encoding import INVALID_JSON
from .chat_request import ChatRequest
from .common import QUOTED, SWITCHES, UNTOLD, in_one
from .disguise import Change, Disguise
from .parts.places import FORGED, Places, find_places
from .shapes import OURS, Traits, described, examine, shape, switches_in
from .special_tokens import SpecialTokens, apart, markers, turn_marks
from .tokenizer import Tokenizer

log = logging.getLogger("unspool.server")
_LIMITS: Final = Limits(seconds=3.0, total=20.0, output=1 << 24)
"""The output is four times as long as the longest messages that the server takes."""
_FORMS: Final = (4096, 16 << 20)  # forms of conversations that are known to be written whole, and bytes of their orders
_OURS: Final = {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", *SPECIAL}
_BUILT_IN_TOOLS: Final = "builtin_tools"
"""The variable with the names of tools that the model was trained on; the template itself describes them."""
_BUILT_IN: Final = {*_OURS, "raise_exception", "strftime_now", "range", "namespace", "dict", "lipsum", "cycler"}

_TOOLS_AS_TEXT: Final = "functions"
_TIME: Final = "datetime"  # these two are variables of older templates: the tools as JSON, and the time


TRUSTED: Final = {"system", "developer"}  # roles whose text belongs to the application
_DEEPEST: Final = 128  # levels of arguments that a template is given as an object
SAME: Final = Change()


class ExaminedTemplate:
    """A model's chat template; thread-safe. `TemplateError` if it is not Jinja, or meets a limit."""

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
        self._form = AcceptedForm()
        self._no_tools: list[Any] | None = None
        """What the template is given as tools if there are none."""
        self.word = random_word()
        self._dialect: Dialect | None = None
        self._examined: _Facts | None = None

    def variables_of(self, request: ChatRequest) -> dict[str, Any]:
        """The template's variables besides messages and tools."""
        found = {name: value for name, value in request.template.items() if name in self._variables}
        if built_in := self._built_in(request):
            found[_BUILT_IN_TOOLS] = sorted({name.partition(".")[0] for name in built_in})
        return found

    def tools_of(self, request: ChatRequest) -> list[Any]:
        """The tools that the template gets."""
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
        waiting: AwaitedRendering | None = None,
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
        if made["role"] in TRUSTED and not quoted:
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
        known = as_object(given) if isinstance(given, str) or not given else given
        if self._form.objects:
            function["arguments"] = change(known, named=True)
        elif isinstance(given, str):
            function["arguments"] = change.json(given, None if INVALID_JSON in known else known)
        else:
            function["arguments"] = tojson(change(known, named=True))
        return {**change({k: v for k, v in call.items() if k != "function"}), "function": function}

    @property
    def known(self) -> "_Facts":
        """What is known of the template from rendering it once."""
        if self._examined is None:
            self._examined = self._examine()
        return self._examined

    def _examine(self) -> "_Facts":
        if self.rendered([ASKED], [], generate=False).error:  # some templates count them
            self._no_tools = []
            if self.rendered([ASKED], [], generate=False).error:
                self._no_tools = None

        def write(messages: list[dict[str, Any]], tools: Sequence[Any], generate: bool = False) -> str | None:
            for message in messages:
                if message.get("tool_calls"):
                    message["tool_calls"] = [self._call(call, SAME) for call in message["tool_calls"]]
            found = self.rendered(messages, tools, generate=generate)
            return None if found.error else found.text

        def result(parts: list[Any]) -> list[dict[str, Any]]:
            answer = AcceptedForm(nothing=self._form.nothing).answer()
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
        return _Facts(traits, guards, switches_in(texts), places, beginnings, tuple(self._thoughts()), Cache(*_FORMS))

    def _ends_answers(self, traits: Traits) -> bool:
        """Whether the template closes an answer at the end, or writes before it nothing that earlier answers lack, such
        as the opening of a thought."""
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
        """The special tokens with which the dialect's thoughts and answers begin, after what opens a turn."""
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


class _Facts(NamedTuple):
    """What is known of a template: its traits, what texts must not spell without and with media, switches in texts,
    what it writes for media, what the beginnings of answers must not spell, the markers of thoughts that it knows, and
    digests of the forms of conversations that it writes whole, with the order of their messages in prompts where that
    is another."""

    traits: Traits
    guards: "tuple[_Banned, _Banned]"
    switches: re.Pattern[str]
    places: Places
    others: SpecialTokens
    thoughts: tuple[tuple[str, str], ...]
    forms: Cache["array[int]"]


class _Banned(NamedTuple):
    """The special tokens that texts must not spell, disguises of these, and those that even trusted texts must not."""

    special: SpecialTokens
    disguises: tuple[Disguise, ...]
    trusted: SpecialTokens | None


def _guard(words: Iterable[str], alone: Iterable[str], trusted: SpecialTokens | None, texts: Sequence[str]) -> _Banned:
    special = SpecialTokens(words, alone)
    known = (text for text in texts if special.has_piece(text) or _SWITCH.fullmatch(text))
    acting = [text for text in known if not special.completed(text, texts)]
    disguises = Disguise(special, letters=True), Disguise(special, letters=False, acting=acting)
    return _Banned(special, disguises, trusted)


_SWITCH: Final = re.compile(r"/\w+")
_NOTHING: Final = {"type": "text", "text": ""}


def random_word() -> str:
    """A word that no text contains."""
    return f"Zq{os.urandom(8).hex()}"


def as_object(arguments: Any) -> Any:
    if not arguments:
        return {}
    value = json_object(arguments)
    return {INVALID_JSON: arguments} if value is None or nests_deeper(value, _DEEPEST) else value
