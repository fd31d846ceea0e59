"""Renders prompts with the model's own chat template, with Hugging Face's semantics, in a sandbox.

A request may set the variables that the template uses, and the thinking switches. A zero-width space breaks up
special tokens in the text of users and tools, in the declarations of tools and in the arguments of calls, so that
they stay text. System prompts and the assistant's answers belong to the application and are not changed.
"""

import datetime
import json
import os.path
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import jinja2
import jinja2.meta
import jinja2.sandbox
import msgspec

from ..bridge import Bridge, behind, between
from ..chat_templates import environment, tojson
from ..dialect.file import Dialect
from ..dialect.patterns import solid
from ..dialect.registry import list_dialects
from ..errors import TemplateError
from ..parser import parse
from ..wire.encoding import INVALID_JSON, clean
from .chat_request import ChatRequest
from .common import SWITCHES, tool
from .fields import BadRequest
from .special_tokens import SpecialTokens

_SENTINEL: Final = "\ue000unspool\ue001"
"""Appended to a message that the model should continue, to find its end in the prompt."""
_TRUSTED: Final = {"system", "developer", "assistant"}
"""Roles whose text belongs to the application."""
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_OURS: Final = {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", *_SPECIAL}
_BUILT_IN_TOOLS: Final = "builtin_tools"
"""The variable with the names of tools that the model was trained on; the template itself describes them."""
_BUILT_IN: Final = {*_OURS, "raise_exception", "strftime_now", "range", "namespace", "dict", "lipsum", "cycler"}

_TOOLS_AS_TEXT: Final = "functions"
_TIME: Final = "datetime"
"""The variables of older templates: the tools as JSON, and the time."""

Form = Literal["object", "text"]


class NoBridge(TemplateError):
    """A template rewrites the earlier part of a conversation; the message says how."""


class Tokenizer(msgspec.Struct, frozen=True):
    """The prompt settings in a model's files.

    Attributes:
        template: its chat template, and the one for requests with tools if that is different.
        special: named special tokens, such as ``bos_token``.
        added: every special token, and every other added token that the template writes. Only these can be mistaken
            for the structure of a prompt.
        response_template: its description of how to read answers; see `unspool.infer.choosing`.
    """

    template: str
    tool_template: str
    special: dict[str, str]
    added: tuple[str, ...]
    response_template: dict[str, Any] | None = None


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read a model's folder: ``tokenizer_config.json``, ``tokenizer.json`` and ``chat_template.jinja``.

    Raises:
        OSError: a file cannot be read.
        TemplateError: there is no template, or a file is malformed.
    """
    folder = Path(path)
    config = _json(folder / "tokenizer_config.json")
    templates = config.get("chat_template")
    if isinstance(templates, list):  # several, by name
        named = {t["name"]: t["template"] for t in templates}
        template, tool_template = named.get("default", ""), named.get("tool_use", "")
    else:
        template, tool_template = templates or "", ""
    if (folder / "chat_template.jinja").is_file():
        template, tool_template = (folder / "chat_template.jinja").read_text(encoding="utf-8"), ""
    if not template:
        raise TemplateError(f"{folder}: contains no chat template (tokenizer_config.json or chat_template.jinja)")
    special = {name: _token(config[name]) for name in _SPECIAL if config.get(name)}
    added = list(config.get("added_tokens_decoder", {}).values())
    added += _json(folder / "tokenizer.json").get("added_tokens", ())
    written = template + tool_template
    marks = {_token(t) for t in added if _is_special(t) or _token(t) in written} | set(special.values())
    marks = {t for t in marks if len(t) > 2 and not t.isspace() and not t.isalnum()}
    answers = config.get("response_template")
    response_template = answers if isinstance(answers, dict) else None
    return Tokenizer(template, tool_template or template, special, tuple(sorted(marks)), response_template)


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TemplateError(f"{file}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{file}: must be a JSON object")
    return value


def _token(value: Any) -> str:
    return str(value["content"] if isinstance(value, dict) else value)


def _is_special(token: Any) -> bool:
    return bool(token.get("special", True)) if isinstance(token, dict) else True


class Prompts:
    """Renders prompts.

    Args:
        tokenizer: the model's prompt settings.

    Raises:
        TemplateError: a template is not valid Jinja.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        sandbox = environment(
            jinja2.sandbox.ImmutableSandboxedEnvironment, lambda form: datetime.datetime.now().strftime(form)
        )
        self._variables: set[str] = set()
        self._takes_tools = False
        self._templates = []
        try:
            for text in (tokenizer.template, tokenizer.tool_template):
                asked = jinja2.meta.find_undeclared_variables(sandbox.parse(text))
                self._variables |= asked - _BUILT_IN
                self._takes_tools |= "tools" in asked
                self._templates.append(sandbox.from_string(text))
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"the chat template, line {error.lineno}: {error.message}") from None
        self._special = SpecialTokens(tokenizer.added)
        self._arguments_as: Form = "object"
        self._no_content: str | None = ""
        self._dialect: Dialect | None = None

    @property
    def special(self) -> tuple[str, ...]:
        """The texts of the special tokens, which requests cannot spell."""
        return self._tokenizer.added

    def render(self, request: ChatRequest) -> str:
        """Render the prompt of a request, without lone surrogates, which tokenizers refuse.

        Raises:
            BadRequest: the request sets a variable that the template does not use, or the template refuses.
        """
        for name in request.template:
            if name not in self._variables and name not in SWITCHES:
                allowed = ", ".join(sorted(self._variables)) or "none"
                raise BadRequest(f"chat_template_kwargs.{name}", f"is unknown to the template; allowed are {allowed}")
        variables = self._variables_of(request)
        continuing = request.body.get("continue_final_message") is True
        try:
            messages = [self._message(m) for m in request.messages]
            if continuing:
                _append_sentinel(messages)
            prompt = self._render(messages, self._tools(request), generate=not continuing, variables=variables)
        except BadRequest:
            raise
        except Exception as error:  # a template is a foreign program and may fail in any way
            raise BadRequest("messages", f"the chat template rejected the request: {error}") from None
        return clean(_before_sentinel(prompt) if continuing else prompt)

    def next_turn(
        self,
        request: ChatRequest,
        answer: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]],
        ends: Sequence[str],
    ) -> Bridge:
        """Return the text between an answer that was just written and the next answer, with the results of its calls.

        Args:
            request: the request that was answered.
            answer: a message with calls, all of which have results.
            results: the tools' messages.
            ends: strings that end an answer.

        Raises:
            NoBridge: the template would write earlier text differently, or changes calls.
        """
        going_on = msgspec.structs.replace(request, messages=[*request.messages, answer, *results])
        found = self._found(going_on, len(request.messages), ends)
        before = solid(os.path.commonprefix(found.asked))  # noqa: RUF071 - of strings
        if not all(solid(text).startswith(before) for text in found.wholes):  # white space may differ
            raise NoBridge("the chat template writes earlier turns differently")
        return found.bridge

    def bridge(self, request: ChatRequest, at: int, ends: Sequence[str]) -> Bridge:
        """Return the text between an answer of the history and the next answer.

        Args:
            request: the request.
            at: the index of that answer among the messages; it is not the last message.
            ends: strings that end answers.

        Raises:
            NoBridge: the template changes the answer's last text, or what follows it.
            BadRequest: the template refuses the request.
        """
        found = self._found(request, at, ends).bridge
        if not self.render(request).endswith(found.text):
            raise NoBridge("the chat template writes what follows an answer differently after another answer")
        return found

    def _found(self, request: ChatRequest, at: int, ends: Sequence[str]) -> "_Found":
        """Find the bridge after an answer among the messages, with a word in place of the answer's text.

        A second rendering with another word checks the result, since the template is not trusted.
        """
        variables, tools = self._variables_of(request), self._tools(request)
        word, other = (f"Zq{os.urandom(8).hex()}" for _ in range(2))  # random, so that no text contains them

        def written(*messages: Mapping[str, Any], generate: bool = True) -> str:
            return self._render([*history, *messages], tools, generate=generate, variables=variables)

        try:
            history = [self._message(m) for m in request.messages[:at]]
            stand_in = self._message(_stand_in(request.messages[at], word))
            new = request.messages[at + 1 :]
            others = (m if m["role"] == "assistant" else {**m, "content": other} for m in new)
            probe = written(stand_in, *map(self._message, others))
            whole = written(stand_in, *map(self._message, new))
            tail, after = behind(word, probe), behind(word, whole)
            found = between(
                tail, self.ends(ends), tail.find(other), lambda: behind(word, written(stand_in, generate=False))
            )
            asked = written(), written(generate=False)
        except Exception as error:  # a template is a foreign program and may fail in any way
            raise NoBridge(f"the chat template: {error}"[:500]) from None
        if other not in found.text:
            raise NoBridge("the chat template does not write what follows an answer as it is")
        start = len(tail) - len(found.text)
        if not after.startswith(tail[:start]):
            raise NoBridge("the chat template writes the answer differently")
        return _Found(Bridge(tuple(map(clean, found.closings)), clean(after[start:])), (probe, whole), asked)

    def ends(self, ends: Sequence[str]) -> tuple[str, ...]:
        """The strings that end an answer: these and the template's own, the longest first."""
        eos = self._tokenizer.special.get("eos_token", "")
        return tuple(sorted({e for e in (*ends, eos) if e.strip()}, key=len, reverse=True))

    def _variables_of(self, request: ChatRequest) -> dict[str, Any]:
        found = {name: value for name, value in request.template.items() if name in self._variables}
        if built_in := self._built_in(request):
            found[_BUILT_IN_TOOLS] = sorted({name.partition(".")[0] for name in built_in})
        return found

    def _tools(self, request: ChatRequest) -> list[Any]:
        if request.toolset.kind == "none":
            return []
        built_in = self._built_in(request)
        found: list[Any] = self._special.break_up([t for t in request.tools if t["function"]["name"] not in built_in])
        return found

    def _built_in(self, request: ChatRequest) -> set[str]:
        """The server's tools that the template describes itself. The model was trained on them, and the template has
        a variable for them, which the request does not set."""
        served, dialect = request.server_tools, self._dialect
        unset = _BUILT_IN_TOOLS in self._variables and _BUILT_IN_TOOLS not in request.template
        if served is None or dialect is None or not unset or request.toolset.kind == "none":
            return set()
        return {name for name, one in served.tools.items() if one.tool.kind != "mcp" and dialect.knows(name)}

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
        *,
        generate: bool,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        return self._templates[bool(tools)].render(
            messages=messages,
            tools=list(tools) or None,
            documents=None,
            add_generation_prompt=generate,
            **self._tokenizer.special,
            **{**self._older(tools), **(variables or {})},
        )

    def _older(self, tools: Sequence[Any]) -> dict[str, Any]:
        """The variables of templates that are older than transformers' support for tools."""
        if self._takes_tools or _TOOLS_AS_TEXT not in self._variables:
            return {}
        return {_TOOLS_AS_TEXT: tojson(list(tools), indent=2), _TIME: f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}"}

    # -- messages --------------------------------------------------------------------------------------------------

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message in the form that templates expect: the content as one string, since few templates handle parts or
        missing content, and the reasoning under both names that templates use."""
        made = {**message, "content": _in_one_piece(message.get("content")) or ""}
        if made["role"] not in _TRUSTED:
            return {key: value if key == "role" else self._special.break_up(value) for key, value in made.items()}
        if made.get("reasoning_content"):
            made.setdefault("thinking", made["reasoning_content"])
        if made.get("tool_calls"):
            made["tool_calls"] = [self._call(call) for call in made["tool_calls"]]
            made["content"] = made["content"] or self._no_content
        return made

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call with its arguments in the form that the template expects. Invalid arguments are passed on, not
        refused."""
        function = {**self._special.break_up(call["function"])}
        arguments = function.get("arguments")
        if self._arguments_as == "object" and not isinstance(arguments, dict):
            function["arguments"] = _as_object(arguments)
        elif self._arguments_as == "text" and not isinstance(arguments, str):
            function["arguments"] = tojson(arguments or {})
        return {**call, "function": function}

    # -- the check at the start ------------------------------------------------------------------------------------

    def check(self, dialect: Dialect) -> bool:
        """Check that the dialect reads the calls that the template writes.

        It also records the tools that the dialect knows. And it finds out whether the template expects arguments as
        objects or as text, and what it expects for missing content next to calls: many templates print ``None`` or
        fail on it, and some depend on it.

        Returns:
            ``False`` if the template writes no calls at all.

        Raises:
            TemplateError: the dialect does not read them; the message names the dialects that do.
        """
        self._dialect = dialect
        written = [w for form in _FORMS for nothing in ("", None) for w in self._written(form, nothing)]
        if not written:
            return False
        fitting = [w for w in written if _reads(dialect, w)]
        if fitting:  # a template writes more if it gets an unexpected form
            self._arguments_as, self._no_content, _, _ = min(fitting, key=lambda w: len(w.turn))
            return True
        others = [d.name for d in list_dialects() if any(_reads(d, w) for w in written)]
        instead = f"these would: {', '.join(others)}" if others else "no other does"
        raise TemplateError(
            f"dialect {dialect.name} cannot read the calls that the chat template writes; {instead}; the template "
            f"writes {written[0].turn[:200]!r}"
        )

    def _written(self, form: Form, nothing: str | None) -> "Iterator[_Written]":
        """Render a call in each form that the template accepts."""
        arguments: Any = _ARGUMENTS if form == "object" else tojson(_ARGUMENTS)
        asked = [{"role": "user", "content": "?"}]
        for id in _IDS:
            call = {"id": id, "type": "function", "function": {"name": _NAME, "arguments": arguments}}
            answer = {"role": "assistant", "content": nothing, "tool_calls": [call]}
            try:
                prompt = self._render(asked, [_TOOL], generate=False)
                whole = self._render([*asked, answer], [_TOOL], generate=False)
            except Exception:  # it expects the other form, or no calls
                continue
            same = next((i for i, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(prompt))
            if "Paris" in whole[same:]:
                yield _Written(form, nothing, whole[:same], whole[same:])


class _Found(NamedTuple):
    """A bridge with the renderings in which it was found: whole ones, and those up to the answer with and without its
    opening."""

    bridge: Bridge
    wholes: tuple[str, str]
    asked: tuple[str, str]


class _Written(NamedTuple):
    """A call that a template rendered: its form, the prompt before it, and the turn."""

    form: Form
    nothing: str | None
    prompt: str
    turn: str


_FORMS: Final[tuple[Form, ...]] = ("object", "text")
_NAME: Final = "get_weather"
_IDS: Final = ("call00001", f"functions.{_NAME}:0")
_ARGUMENTS: Final = {"city": "Paris", "days": 3}
_TOOL: Final = tool(
    _NAME,
    "The weather.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
)


def _reads(dialect: Dialect, written: _Written) -> bool:
    """Whether a dialect finds the call in the turn, which may begin with its own opening."""
    turn = written.turn
    openings = [turn.find(start) + len(start) for start in dialect.start if start in turn]
    return any(_reads_turn(dialect, written.prompt + turn[:at], turn[at:]) for at in sorted({0, *openings}))


def _reads_turn(dialect: Dialect, prompt: str, turn: str) -> bool:
    message = parse(turn, dialect, tools=[_TOOL], prompt=prompt)
    if [c.name for c in message.tool_calls] != [_NAME] or message.tool_calls[0].status != "ok":
        return False
    found: dict[str, Any] = json.loads(message.tool_calls[0].arguments)
    # The templates of some families write every value as a string, but their models do not.
    return {name: str(value) for name, value in found.items()} == {n: str(v) for n, v in _ARGUMENTS.items()}


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


def _in_one_piece(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    texts = [p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)]
    return "".join(texts) if len(texts) == len(content) else content


def _append_sentinel(messages: Sequence[dict[str, Any]]) -> None:
    """Append the sentinel to the last message's text.

    Raises:
        BadRequest: the message is not the assistant's, or contains more than text.
    """
    last = messages[-1] if messages else {"role": "", "content": None}
    if last["role"] != "assistant" or not isinstance(last["content"], str):
        raise BadRequest("continue_final_message", "needs an assistant message with text at the end")
    last["content"] += _SENTINEL + " "  # the space shows whether the template strips text


def _before_sentinel(prompt: str) -> str:
    """Cut a prompt where the model continues the last message.

    Raises:
        BadRequest: the prompt does not contain the sentinel.
    """
    before, found, after = prompt.rpartition(_SENTINEL)
    if not found:
        raise BadRequest(
            "continue_final_message", "the chat template changes the last message, so it cannot be continued"
        )
    return before if after.startswith(" ") else before.rstrip()


def _as_object(arguments: Any) -> Any:
    if not arguments:
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: arguments}
