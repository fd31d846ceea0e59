"""Gives a conversation the shape that a chat template writes whole.

Templates refuse conversations that they were not made for, or leave out messages of them in silence. `examine` renders
a few short conversations to find out which, and `shape` rewrites what the template would lose:

* ``developer`` becomes ``system``, unless the template knows that role; ``function`` becomes ``tool``.
* Several system messages at the front become one. A later one becomes a user's message that begins with `LATE`, unless
  the template writes it in its place. So does one at the front of a template without system messages.
* Neighbouring messages of users, and of the assistant, become one. An answer at the very front, and a user's message
  after the results of tools, get the empty message before them that the template misses.
* Calls in one message become one message each, and text beside calls a message of its own. A template without calls
  gets them as JSON, and one without results of tools a user's message that names the tool.
* Media in the results of tools go to a user's message after them (`MOVED`), unless the template writes them there.
* Answers get an empty ``reasoning_content``, results the tool's name, calls an id of nine letters and digits, and tools
  a description and parameters, where the template demands them.
"""

import hashlib
import html
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from ..engines.media import is_medium
from ..wire.encoding import clean
from .common import call_of, in_one, tool

LATE: Final = "[The following is a message of the system, not of the user.]"
"""The first line of a system message in a user's turn. Users' own texts cannot contain it."""

MOVED: Final = "[The following is from the results of tools, not from the user.]"
"""The first line of a user's message with the media of such results."""

_RESULT: Final = "[The result{} follows.]"
OURS: Final = (LATE, MOVED, _RESULT.format(""), _RESULT.partition("{")[0] + " of ")
"""The first lines of users' messages that nobody wrote, which users' own texts cannot contain."""

_Message = dict[str, Any]
_BETWEEN: Final = "\n\n"
_ID_SIZE: Final = 9
_THOUGHTS: Final = ("reasoning_content", "thinking")


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a template writes whole."""

    whole: bool = True  # a single message of a user; if not, nothing is known of the template
    developer: bool = False  # the role ``developer``
    system: bool = True  # a system message at the front
    systems: bool = True  # several system messages at the front
    later: bool = True  # a system message further back, in its place
    asked: bool = True  # a conversation without a user's message
    # users, answers: two messages of the user or the assistant in a row.
    users: bool = True
    answers: bool = True
    first: bool = True  # an answer at the very front
    untold: frozenset[str] = frozenset()  # which of `first` and `asked` are false where tools are declared
    reasoning: bool = False  # whether answers need the field ``reasoning_content``
    # calls, results: calls, and the results of tools.
    calls: bool = True
    results: bool = True
    alone: bool = True  # calls where no tools are declared
    parallel: bool = True  # several calls in one message
    beside: bool = True  # text beside calls
    after: bool = True  # a user's message after results
    again: bool = True  # an answer after results, after text beside the call
    last: bool = True  # an answer before the one to generate; if not, the model goes on with it
    empty: bool = True  # messages without text; if not, they are left out, and one that is missing says that it is none
    parts: bool = False  # whether contents must be lists of parts
    described: bool = False  # whether tools and parameters need a description
    bare: bool = True  # tools without a description, parameters or properties
    # names, ids: whether results need the tool's name, and calls an id of nine letters and digits.
    names: bool = False
    ids: bool = False
    held: frozenset[str] = frozenset()  # the kinds of media that results may have
    nothing: str | None = ""  # the content of a message with calls and without text

    def but(self, **changed: Any) -> "Traits":
        """The same, except for these."""
        return msgspec.structs.replace(self, **changed)

    def cautious(self) -> "Iterator[Traits]":
        """These traits, and then such as trust the template with less."""
        yield self
        if not self.whole:
            return
        yield self.but(names=True, ids=True)
        less = self.but(systems=False, later=False, users=False, answers=False)
        yield less
        least = less.but(first=False, after=False, again=False, asked=False, parallel=False, names=True, ids=True)
        yield least
        yield least.but(beside=False)
        if self.system:  # some write it in front of the last message alone, and only if that is a user's
            yield self.but(system=False, later=False)
            yield least.but(beside=False, system=False)
        bare = least.but(beside=False, empty=False)
        yield bare
        yield bare.but(calls=False)  # some write calls only if there are tools, or an answer after them
        yield bare.but(calls=False, results=False)
        if self.system:
            yield bare.but(calls=False, results=False, system=False)


def shape(messages: Sequence[Mapping[str, Any]], traits: Traits, *, generate: bool = False) -> list[_Message]:
    """The same conversation in the shape that a template with these traits writes whole, for an answer to generate."""
    made = [_renamed(m, traits) for m in messages]
    _identify_results(made)
    made = list(_in_order(made))
    if traits.names:
        _name_results(made)
    if traits.ids:
        made = [_with_short_ids(m) for m in made]
    if not traits.empty:
        made = [m for m in made if m["role"] == "tool" or m.get("tool_calls") or m.get("content")]
    made = _systems(made, traits)
    if traits.results:
        made = list(_moved(made, traits.held))
    made = [piece for m in made for piece in _answer(m, traits)]
    if not traits.parallel:
        made = _one_by_one(made, traits.nothing)
    made = list(_alternating(made, traits))
    if generate and made and made[-1]["role"] == "assistant" and not traits.last:
        made.append(_filler("user", traits))
    return [_in_parts(m) for m in made] if traits.parts else made


def _renamed(message: Mapping[str, Any], traits: Traits) -> _Message:
    role = message["role"]
    if role == "developer" and not traits.developer:
        role = "system"
    return {**message, "role": "tool" if role == "function" else role}


def _identify_results(messages: Sequence[_Message]) -> None:
    """Give results without an id that of the first unanswered call, of the same tool if they name one."""
    every: OrderedDict[Any, set[Any]] = OrderedDict()  # the ids of unanswered calls, with their names
    of_tool: dict[Any, OrderedDict[Any, None]] = {}  # the same ids by name
    for message in messages:
        if message.get("tool_calls"):
            every, of_tool = OrderedDict(), {}
            for call in message["tool_calls"]:
                id, name = call.get("id"), call["function"].get("name")
                if id:
                    every.setdefault(id, set()).add(name)
                    of_tool.setdefault(name, OrderedDict())[id] = None
        elif message["role"] == "tool":
            name = message.get("name")
            id = message.get("tool_call_id") or next(iter(of_tool.get(name, ()) if name else every), None)
            if id:
                message["tool_call_id"] = id
            for name in every.pop(id, ()):
                del of_tool[name][id]


def _in_order(messages: Sequence[_Message]) -> Iterator[_Message]:
    """The messages, with the results after calls in the order of these: many templates pair them by their places."""
    order: dict[Any, int] = {}
    for called, run in groupby(messages, lambda m: m["role"] != "tool"):
        found = list(run)
        if called:
            order = {call.get("id"): i for i, call in enumerate(found[-1].get("tool_calls") or ())}
        elif order:
            found.sort(key=lambda m: order.get(m.get("tool_call_id"), len(order)))
        yield from found


def _name_results(messages: Sequence[_Message]) -> None:
    """Give results the name of the tool that was called with their id."""
    names: dict[Any, Any] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call.get("id")] = call["function"].get("name")
        if message["role"] == "tool" and not message.get("name"):
            message["name"] = names.get(message.get("tool_call_id")) or "tool"


def _with_short_ids(message: _Message) -> _Message:
    if message.get("tool_calls"):
        message = {**message, "tool_calls": [{**c, "id": _short(c.get("id"))} for c in message["tool_calls"]]}
    if message["role"] == "tool":
        message = {**message, "tool_call_id": _short(message.get("tool_call_id"))}
    return message


def _short(id: Any) -> str:
    """An id of nine letters and digits: the same for the same id."""
    text = str(id or "")
    if len(text) == _ID_SIZE and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_ID_SIZE]


def _in_parts(message: _Message) -> _Message:
    """The message with its content as a list of parts."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [_text(content)] if content else []}


# -- system messages ---------------------------------------------------------------------------------------------------


def _systems(messages: Sequence[_Message], traits: Traits) -> list[_Message]:
    front = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
    made = list(messages[:front])
    if not traits.system:
        made = [_late(m) for m in made]
    elif not traits.systems and len(made) > 1:
        made = [_merged(made)]
    waiting: list[_Message] = []  # for the end of a run of results, which belong after their calls
    for message in messages[front:]:
        if message["role"] != "tool":
            made += waiting
            waiting = []
        if message["role"] in ("system", "developer") and not traits.later:
            if made and (made[-1]["role"] == "tool" or made[-1].get("tool_calls")):
                waiting.append(_late(message))
            else:
                made.append(_late(message))
        else:
            made.append(message)
    return made + waiting


def _late(message: _Message) -> _Message:
    """A system message as a user's."""
    content = message.get("content") or ""
    return _users(f"{LATE}\n", content) if content else {"role": "user", "content": ""}


def _users(head: str, content: Any) -> _Message:
    """A user's message, whose first line says what it is."""
    return {"role": "user", "content": [_text(head), *content] if isinstance(content, list) else head + content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _without(message: _Message, *keys: str) -> _Message:
    return {key: value for key, value in message.items() if key not in keys}


def _moved(messages: Sequence[_Message], held: frozenset[str]) -> Iterator[_Message]:
    """The messages, with the media of results that the template does not write there after each run of results."""
    moved: list[Any] = []
    for message in (*messages, None):
        if moved and (message is None or message["role"] != "tool"):
            yield _users(f"{MOVED}\n", moved)
            moved = []
        if message is None:
            return
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, list):
            content = list(content)
            for i, part in enumerate(content):
                if is_medium(part) and part["type"] not in held:
                    content[i] = _text(f"[{part['type']} {len(moved) // 2 + 1}]")
                    moved += [content[i], part]
            message = {**message, "content": in_one(content)}
        yield message


def _merged(messages: Sequence[_Message]) -> _Message:
    """Several messages of one role as one, with a blank line between their texts."""
    contents = [m["content"] for m in messages if m.get("content")]
    content: Any
    if all(isinstance(c, str) for c in contents):
        content = _BETWEEN.join(contents)
    else:
        content = []
        for one in contents:
            content += [_text(_BETWEEN)] if content else []
            content += [_text(one)] if isinstance(one, str) else one
    merged: _Message = {}
    for message in messages:
        merged |= message
    thoughts = [m["reasoning_content"] for m in messages if m.get("reasoning_content")]
    if thoughts:
        merged["reasoning_content"] = _BETWEEN.join(thoughts)
        merged["thinking"] = merged["reasoning_content"]
    return {**merged, "content": content}


# -- answers, calls and results ----------------------------------------------------------------------------------------


def _answer(message: _Message, traits: Traits) -> Iterator[_Message]:
    """An answer or a result, in one message or two."""
    if message["role"] == "tool" and not traits.results:
        named = f" of {message['name']}" if message.get("name") else ""
        yield _users(f"{_RESULT.format(named)}\n", message.get("content") or "")
        return
    if message["role"] != "assistant":
        yield message
        return
    if traits.reasoning:
        message = {"reasoning_content": "", **message}
    calls = message.get("tool_calls")
    if not calls:
        yield message
    elif not traits.calls:
        written = "\n".join(_as_json(call) for call in calls)
        yield _merged([_without(message, "tool_calls"), {"role": "assistant", "content": written}])
    elif traits.beside or not message.get("content"):
        yield message
    else:
        yield _without(message, "tool_calls")
        kept = {**_without(message, *_THOUGHTS), "content": traits.nothing}
        yield {"reasoning_content": "", **kept} if traits.reasoning else kept


def _as_json(call: Mapping[str, Any]) -> str:
    name, arguments = (call["function"].get(key) for key in ("name", "arguments"))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'


def _one_by_one(messages: Sequence[_Message], nothing: str | None) -> list[_Message]:
    """Each of several calls in a message of its own, with its result after it."""
    made: list[_Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        calls = message.get("tool_calls") or ()
        at += 1
        if len(calls) < 2:
            made.append(message)
            continue
        results: list[_Message] = []
        while at < len(messages) and messages[at]["role"] == "tool":
            results.append(messages[at])
            at += 1
        of_call: dict[Any, list[_Message]] = {}
        for result in results:
            of_call.setdefault(result.get("tool_call_id"), []).append(result)
        for i, call in enumerate(calls):
            one = {**message, "tool_calls": [call]}
            if i:  # the text and the reasoning stand before the first one
                one = {**_without(one, *_THOUGHTS), "content": nothing}
            made.append(one)
            made += of_call.pop(call.get("id"), ())
        made += [r for r in results if r.get("tool_call_id") in of_call]
    return made


def _alternating(messages: Sequence[_Message], traits: Traits) -> Iterator[_Message]:
    """Merge neighbours, and put in the messages that the template misses."""
    joined = _joined(messages, traits)
    taken = {"user": traits.after, "assistant": traits.again}
    first = traits.first and (traits.asked or any(m["role"] == "user" for m in joined))
    before = last = ""  # the role of the message before, and of the last one of a user or the assistant, calls aside
    for message in joined:
        role, calls = message["role"], message.get("tool_calls")
        if role in ("assistant", "tool") and not last and not first:
            yield _filler("user", traits)
        elif before == "tool" and role == last and not calls and not taken[role]:
            yield _filler("assistant" if role == "user" else "user", traits)
        if role == "tool" or calls:
            last = last or "user"
        elif role in ("user", "assistant"):
            last = role
        before = role
        yield message
    if not last and not traits.asked:
        yield _filler("user", traits)


def _joined(messages: Iterable[_Message], traits: Traits) -> list[_Message]:
    """The messages, with neighbours merged."""
    joined: list[_Message] = []
    for message in messages:
        if joined and _joins(joined[-1], message, traits):
            joined[-1] = _merged([joined[-1], message])
        else:
            joined.append(message)
    return joined


def _joins(before: _Message, message: _Message, traits: Traits) -> bool:
    """Whether two neighbours must become one message."""
    if before["role"] != message["role"] or before.get("tool_calls") or message.get("tool_calls"):
        return False
    return (message["role"] == "user" and not traits.users) or (message["role"] == "assistant" and not traits.answers)


def _filler(role: str, traits: Traits) -> _Message:
    """A message that nobody wrote, between others."""
    made: _Message = {"role": role, "content": "" if traits.empty else f"(No message of the {role}.)"}
    return {**made, "reasoning_content": ""} if role == "assistant" and traits.reasoning else made


def described(tools: Sequence[Mapping[str, Any]], traits: Traits) -> list[Any]:
    """Tools with the descriptions and parameters that the template demands."""
    if traits.bare and not traits.described:
        return list(tools)
    made = []
    for one in tools:
        function = _filled(one["function"], description="", parameters={})
        if isinstance(function["parameters"], dict):
            function["parameters"] = parameters = _filled(function["parameters"], type="object", properties={})
            if traits.described and isinstance(parameters["properties"], dict):
                parameters["properties"] = {
                    k: _filled(v, description="") if isinstance(v, dict) else v
                    for k, v in parameters["properties"].items()
                }
        made.append({**one, "function": function})
    return made


_OF_SCHEMAS: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def plainer(tools: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The tools with plain schemas, which most templates know: one type instead of several, nothing where there is
    ``null``, and ``{}`` for ``true``."""
    return [{**one, "function": _plain(one["function"], "parameters")} for one in tools]


def _plain(schema: Any, *inner: str) -> Any:
    if not isinstance(schema, dict):
        return {} if schema is True else schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if value is None and key not in ("default", "const"):
            continue
        if key == "type" and isinstance(value, list):
            value = next((one for one in value if one != "null"), "null")
        elif key in _OF_SCHEMAS and isinstance(value, dict):
            value = {name: _plain(one) for name, one in value.items()}
        elif key in _LISTS and isinstance(value, list):
            value = [_plain(one) for one in value]
        elif key in (*inner, "items", "additionalProperties"):
            value = _plain(value)
        made[key] = value
    return _filled(made, additionalProperties={}) if made.get("type") == "object" else made


def _filled(given: Mapping[str, Any], **missing: Any) -> dict[str, Any]:
    """An object with further members where it has none of their names."""
    return {**given, **{key: value for key, value in missing.items() if key not in given}}


# -- prompts -----------------------------------------------------------------------------------------------------------

_SWITCH: Final = 40  # the largest size of a switch in a text
_OTHER: Final = re.compile(r"[\W_]+")


def missing(
    messages: Sequence[Mapping[str, Any]], prompt: str, switches: re.Pattern[str], order: Sequence[int] = ()
) -> int | None:
    """The index of the first message whose text is not in a prompt, in which they stand in an ``order``, their own if
    it is empty; ``None`` if all are.

    Each message has a place of its own. Templates trim texts, escape them, write JSON in another way, and take their
    own switches out (``/no_think``). So the other letters and digits decide in the end.
    """
    at = 0
    texts = [(i, text) for i in order or range(len(messages)) for text in _contents(messages[i].get("content"))]
    for _, text in texts:
        found = prompt.find(text, at)
        if found < 0:
            return _missing_letters(texts, prompt, switches)
        at = found + len(text)
    return None


def _missing_letters(texts: Iterable[tuple[int, str]], prompt: str, switches: re.Pattern[str]) -> int | None:
    """The index of the first message whose letters and digits are not in a prompt, or whose text without any is not.

    Texts are looked for after the one before, since each search in the whole prompt takes as long as that is."""

    def letters(text: str) -> str:
        return _OTHER.sub("", switches.sub("", text))

    bare = letters(prompt)
    at = behind = 0  # of letters, and of the prompt
    seen: Counter[str] = Counter()
    for i, text in texts:
        seen[text] += 1
        forms = [letters(form) for form in _forms(text)]
        if not all(forms):  # signs, such as an emoji, or nothing but a switch
            left = switches.sub("", text).strip()
            shown = (*_forms(text), left or text)
            places = [found for form in shown if (found := prompt.find(form, behind)) >= 0]
            if places:
                behind = min(places)
            elif left and not any(form in prompt for form in shown):
                return i
            continue
        ends = [found + len(form) for form in forms if (found := bare.find(form, at)) >= 0]
        if ends:
            at = min(ends)
        elif not any(bare.count(form) >= seen[text] for form in forms):
            return i
    return None


def with_words(messages: Iterable[Mapping[str, Any]], head: str) -> tuple[list[_Message], list[list[str]]]:
    """The same messages with words that begin so in place of their texts and of the arguments of calls, and the words
    of each."""
    made: list[_Message] = []
    words: list[list[str]] = []

    def word(text: str) -> str:
        if not text.strip():
            return text
        words[-1].append(f"{head}x{len(words)}x{len(words[-1])}x")
        return words[-1][-1]

    def call(given: Mapping[str, Any]) -> dict[str, Any]:
        arguments = given["function"]["arguments"]
        if not isinstance(arguments, dict):
            arguments = f'{{"key": "{word("value")}"}}'
        elif all(v is None for v in arguments.values()):  # some templates leave out those that are null
            arguments = {"key": word("value")}
        else:
            arguments = {k: v if v is None else word("value") for k, v in arguments.items()}
        return {**given, "function": {**given["function"], "arguments": arguments}}

    for message in messages:
        content = message.get("content")
        words.append([])
        if isinstance(content, str):
            content = word(content)
        elif content:
            content = [{**p, "text": word(p["text"])} if isinstance(p.get("text"), str) else p for p in content]
        made.append({**message, "content": content})
        if message.get("tool_calls"):
            made[-1]["tool_calls"] = [call(one) for one in message["tool_calls"]]
    return made, words


def switches_in(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern for the words of a template that may be switches in users' texts."""
    words = sorted(
        {t for t in texts if 2 < len(t) <= _SWITCH and t[0] in "/<[" and " " not in t}, key=len, reverse=True
    )
    return re.compile("|".join(map(re.escape, words)) or "(?!)")


def _contents(content: Any) -> Iterator[str]:
    """The texts of a message, without white space at their ends."""
    for part in [content] if isinstance(content, str) else content or ():
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text.strip():
            yield clean(text.strip())


def _forms(text: str) -> tuple[str, ...]:
    """A text as it is and as templates escape it."""
    escaped = html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")  # as Jinja does
    return text, json.dumps(text, ensure_ascii=False), json.dumps(text), escaped


# -- templates ---------------------------------------------------------------------------------------------------------

_NAME: Final = "zqlookup"
_PROBED_TOOL: Final = tool(
    _NAME, "Looks up.", {"type": "object", "properties": {"zqkey": {"type": "string"}}, "required": ["zqkey"]}
)
_BARE_TOOLS: Final = (
    {"type": "function", "function": {"name": _NAME}},
    {"type": "function", "function": {"name": _NAME, "description": "Looks up.", "parameters": {"type": "object"}}},
)
_LONG_ID: Final = "call_Zq0123456789abcdefghij"

Write = Callable[[list[_Message], Sequence[Any], bool], str | None]
"""Renders messages with tools, and with the opening of the next answer or without; ``None`` if the template refuses."""


def _said(role: str, word: str) -> _Message:
    return {"role": role, "content": word}


def _called(*words: str, content: str | None) -> _Message:
    """A message with a call for each word, which is its argument."""
    calls = [call_of(f"{_LONG_ID}{i or ''}", _NAME, {"zqkey": word}) for i, word in enumerate(words)]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _result(word: str, at: int = 0) -> _Message:
    return {"role": "tool", "tool_call_id": f"{_LONG_ID}{at or ''}", "content": word}


def _words(messages: Iterable[_Message]) -> Iterator[str]:
    """The words of probes, in their order."""
    for message in messages:
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        for text in (message.get("content"), *calls):
            yield from re.findall(r"Zq[a-z]+", str(text))


class _Probe:
    """Finds traits with which a template writes conversations whole."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self.tools: Sequence[Any] = ()
        self.texts: list[str] = []

    def holds(self, messages: Sequence[_Message], traits: Traits, *, moved: bool = True, alone: bool = False) -> bool:
        """Whether all words of the messages are written, in their own order unless they may be ``moved``, where calls
        have a tool, or are ``alone``."""
        calling = not alone and any(m.get("tool_calls") for m in messages)
        shaped = shape(messages, traits)
        text = self._write(shaped, described([_PROBED_TOOL] if calling else self.tools, traits), False)
        if text is None:
            return False
        self.texts.append(text)
        at = 0
        for word in _words(shaped if moved else messages):
            at = text.find(word, at) + 1
            if not at:
                return False
        return True

    def opens(self, messages: Sequence[_Message], traits: Traits) -> bool:
        """Whether anything stands between the last word of the messages, which are whole, and the next answer: else
        the model would go on with the last message's text."""
        calling = any(m.get("tool_calls") for m in messages)
        tools = described([_PROBED_TOOL] if calling else self.tools, traits)
        text = self._write(shape(messages, traits, generate=True), tools, True) or ""
        return bool(text.rpartition(list(_words(messages))[-1])[2].strip())

    def declares(self, messages: Sequence[_Message], traits: Traits) -> bool:
        """Whether a tool is written before, between or after the messages."""
        text = self._write(shape(messages, traits, generate=True), described([_PROBED_TOOL], traits), True)
        return _NAME in (text or "")

    def settled(self, messages: Sequence[_Message], *options: Traits) -> Traits:
        """The first of the traits with which the conversation is whole; if there is none, the first of all."""
        return next((traits for traits in options if self.holds(messages, traits)), options[0])


def _calls_written(probe: _Probe, messages: Sequence[_Message], t: Traits) -> Traits:
    """The traits with which a call and its result are written whole."""
    options = [
        t.but(reasoning=r, names=n, ids=i, described=d)
        for d in {t.described, True}
        for r in {t.reasoning, True}
        for n in (False, True)
        for i in (False, True)
    ]
    t = probe.settled(messages, t, *options, t.but(results=False), t.but(calls=False, results=False))
    if t.calls and not probe.holds(messages, t, alone=True):
        t = t.but(alone=not probe.holds(messages, t.but(calls=False), alone=True))
    return t


def examine(write: Write, known: Iterable[str], nothing: str | None) -> tuple[Traits, list[str]]:
    """Find out what a template writes whole: its traits, and what was rendered on the way.

    Args:
        known: the texts in the template.
        nothing: see `Traits`.
    """
    probe = _Probe(write)
    settled = probe.settled
    ask, more, last = (_said("user", word) for word in ("Zqask", "Zqmore", "Zqlast"))
    rule, rules = _said("system", "Zqrule"), _said("system", "Zqrules")
    say, says = _said("assistant", "Zqsay"), _said("assistant", "Zqsays")
    t = Traits(nothing=nothing)
    t = settled([ask], t, t.but(parts=True))
    if not probe.holds([ask], t):
        probe.tools = [_PROBED_TOOL]
        t = settled([ask], t, t.but(described=True), t.but(parts=True))
        if not probe.holds([ask], t):
            return t.but(whole=False), probe.texts
    t = settled([ask, say, more], t, t.but(reasoning=True))
    t = settled([ask, more], t, t.but(users=False))
    t = settled([ask, say, more, last], t, t.but(users=False))
    t = settled([ask, say, says, more], t, t.but(answers=False))
    t = settled([say, ask], t, t.but(first=False), t.but(first=False, empty=False))
    t = settled([rule, ask], t, t.but(system=False))
    if any("developer" in text for text in known) and probe.holds(
        [_said("developer", "Zqrule"), ask], t.but(developer=True)
    ):
        t = t.but(developer=True)
    opens = probe.opens if probe.opens([ask], t) else lambda messages, traits: True  # else no message's end shows it
    t = settled([rule], t, t.but(asked=False), t.but(asked=False, empty=False))
    if t.asked and not opens([rule], t):
        t = settled([rule], t.but(asked=False), t.but(asked=False, empty=False))
    if probe.declares([ask], t):  # else they have no place anywhere
        probed = (("first", [say, ask]), ("asked", [rule]))
        t = t.but(untold=frozenset(name for name, messages in probed if not probe.declares(messages, t)))
    t = settled([rule, rules, ask], t, t.but(systems=False))
    if t.systems and not opens([rule, rules], t):
        t = t.but(systems=False)
    call, result = _called("Zqvalue", content=nothing), _result("Zqresult")
    t = _calls_written(probe, [ask, call, result, say, more], t)
    late = [
        [rule, ask, say, rules, more],
        [ask, say, rules, more],
        [rule, ask, say, more, rules],
        [rule, ask, call, result, rules],
        [ask, rules],
    ]
    whole = all(probe.holds(messages, t, moved=False) for messages in late)
    if not whole or not all(opens(messages, t) for messages in late):
        t = t.but(later=False)
    two = [ask, _called("Zqvalue", "Zqother", content=nothing), result, _result("Zqsecond", 1), say, more]
    t = settled(two, t, t.but(parallel=False))
    t = settled([ask, call, result, more], t, t.but(after=False), t.but(after=False, empty=False))
    beside = [ask, _called("Zqvalue", content="Zqsay"), result, says, more]
    apart = t.but(beside=False)
    t = settled(beside, t, apart, apart.but(again=False), apart.but(again=False, empty=False))
    for bare in _BARE_TOOLS:
        probe.tools = [bare]
        t = settled([ask], t, t.but(bare=False))
    return t, probe.texts
