"""Conversations in every shape that clients send, and an attack wherever somebody else's text stands."""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unspool.errors import ToolsError
from unspool.request.chat_request import ChatRequest
from unspool.request.fields import BadRequest
from unspool.request.prompts import Prompts
from unspool.request.shapes import OURS
from unspool.toolset import read_toolset

Message = dict[str, Any]

NAME = "get_weather"


def tool(
    name: str = NAME, description: str = "The weather.", properties: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    known = {"city": {"type": "string"}, **(properties or {})}
    parameters = {"type": "object", "properties": known, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def said(role: str, content: Any, **more: Any) -> Message:
    return {"role": role, "content": content, **more}


def call(arguments: Any, name: str = NAME, id: str = "call_0123456789abcdefghijklmn") -> Message:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def called(*calls: Message, content: Any = None) -> Message:
    return said("assistant", content, tool_calls=list(calls))


def result(content: str, id: str = "call_0123456789abcdefghijklmn", **more: Any) -> Message:
    return said("tool", content, tool_call_id=id, **more)


IDS = "call_aaaaaaaaaaaaaaaaaaaaaaaa", "call_bbbbbbbbbbbbbbbbbbbbbbbb"
SHAPES: dict[str, list[Message]] = {
    "plain": [said("system", "Arule"), said("user", "Bask"), said("assistant", "Csay"), said("user", "Dmore")],
    "developer": [said("developer", "Arule"), said("user", "Bask")],
    "developer behind the system": [said("system", "Arule"), said("developer", "Brule"), said("user", "Cask")],
    "two system messages": [said("system", "Arule"), said("system", "Brule"), said("user", "Cask")],
    "three system messages": [*(said("system", f"{c}rule") for c in "ABC"), said("user", "Dask")],
    "late system": [
        said("system", "Arule"), said("user", "Bask"), said("assistant", "Csay"), said("system", "Drule"),
        said("user", "Emore"),
    ],
    "late system at the end": [
        said("user", "Aask"), said("assistant", "Bsay"), said("user", "Cmore"), said("system", "Drule"),
    ],
    "late developer": [said("system", "Arule"), said("user", "Bask"), said("developer", "Crule")],
    "only a system message": [said("system", "Arule")],
    "only system messages": [said("system", "Arule"), said("system", "Brule")],
    "answers without reasoning": [
        said("user", "Aask"), called(call({"city": "Bcity"})), result("Cresult"), said("assistant", "Dsay"),
        said("user", "Emore"), said("assistant", "Fsay"), said("user", "Gmore"),
    ],
    "two users in a row": [
        said("user", "Aask"), said("user", "Bask"), said("assistant", "Csay"), said("user", "Dmore"),
    ],
    "two answers in a row": [
        said("user", "Aask"), said("assistant", "Bsay"), said("assistant", "Csay"), said("user", "Dask"),
    ],
    "an answer first": [said("assistant", "Asay"), said("user", "Bask")],
    "an answer behind the system": [said("system", "Arule"), said("assistant", "Bsay"), said("user", "Cask")],
    "two results": [
        said("user", "Aask"), called(call({"city": "Bcity"}, id=IDS[0]), call({"city": "Ccity"}, id=IDS[1])),
        result("Dresult", IDS[0]), result("Eresult", IDS[1]), said("assistant", "Fsay"), said("user", "Gmore"),
    ],
    "results without an answer": [
        said("user", "Aask"), called(call({"city": "Bcity"})), result("Cresult"), said("user", "Dmore"),
    ],
    "text beside a call": [
        said("user", "Aask"), called(call({"city": "Bcity"}), content="Csay"), result("Dresult"),
        said("assistant", "Esay"), said("user", "Fmore"),
    ],
    "late system behind results": [
        said("user", "Aask"), called(call({"city": "Bcity"})), result("Cresult"), said("system", "Drule"),
    ],
    "results with names": [
        said("user", "Aask"), called(call({"city": "Bcity"})), result("Cresult", name=NAME), said("user", "Dmore"),
    ],
    "the same text again": [
        said("user", "Aword"), said("assistant", "Aword"), said("user", "Aword"), said("assistant", "Bsay"),
        said("user", "Aword"),
    ],
    "a function's result": [
        said("user", "Aask"), called(call({"city": "Bcity"})), said("function", "Cresult", name=NAME),
    ],
}  # fmt: skip
"""Conversations; each word in them that begins with a capital must be in the prompt, as often as in them."""


def words(messages: list[Message]) -> list[str]:
    """The words that a prompt must have."""
    found = []
    for message in messages:
        found += [message["content"]] if message["content"] else []
        found += [json.loads(c["function"]["arguments"])["city"] for c in message.get("tool_calls", ())]
    return found


def lost(messages: list[Message], prompt: str) -> list[str]:
    """The words of messages that a prompt lacks, or has less often."""
    return [word for word, count in Counter(words(messages)).items() if prompt.count(word) < count]


def asked(messages: list[Message], tools: list[Any] | None = None, **template: Any) -> ChatRequest:
    return ChatRequest(messages=messages, toolset=read_toolset([tool()] if tools is None else tools), template=template)


# -- attacks -----------------------------------------------------------------------------------------------------------


def _escaped(text: str, *, only: str = "") -> str:
    return "".join(f"\\u{ord(c):04x}" if not only or c in only else c for c in text)


ESCAPES: dict[str, Callable[[str], str]] = {
    "as it is": lambda token: json.dumps(token, ensure_ascii=False)[1:-1],
    "first": lambda token: f"\\u{ord(token[0]):04x}" + json.dumps(token[1:])[1:-1],
    "last": lambda token: json.dumps(token[:-1])[1:-1] + f"\\u{ord(token[-1]):04X}",
    "whole": _escaped,
    "signs": lambda token: "".join(c if c.isalnum() and c.isascii() else f"\\u{ord(c):04x}" for c in token),
    "slashes": lambda token: json.dumps(token)[1:-1].replace("/", "\\/"),
    "twice": lambda token: json.dumps(_escaped(token))[1:-1],
    "json in json": lambda token: json.dumps(json.dumps({"a": [token]}))[1:-1],
    "html": lambda token: json.dumps(html.escape(token))[1:-1],
}
"""Spellings of a token inside of a string of JSON."""
RAW: dict[str, Callable[[str], str]] = {
    "as it is": lambda token: token,
    "escaped": _escaped,
    "in json": lambda token: f'{{"a": "{_escaped(token, only="<>|[]｜")}"}}',
    "html": html.escape,
    "cut": lambda token: f"{token[:1]}{token}{token[1:]}",
    "inside": lambda token: token[1:-1],
    "behind": lambda token: f"x {token[:-1]}",
    "before": lambda token: f"{token[1:]} x",
}
"""Spellings of a token in a text."""


def conversations(text: str, json_text: str | None = None) -> Iterator[tuple[str, list[Message], list[Any]]]:
    """Conversations with a text at each place; the text is also given inside of a string of JSON."""
    tools = [tool()]
    inside = json.dumps(text)[1:-1] if json_text is None else json_text
    yield "argument", _calling(call(f'{{"city": "{inside}"}}')), tools
    yield "key", _calling(call(f'{{"city": "x", "{inside}": 1}}')), tools
    yield "deep", _calling(call(f'{{"city": "x", "a": [{{"{inside}": ["{inside}", {{"b": "{inside}"}}]}}]}}')), tools
    yield "broken arguments", _calling(call(f'{{"city": "{inside}')), tools
    if json_text is not None:
        return
    yield "user", [said("user", text)], tools
    yield "user without tools", [said("user", text), said("assistant", "ok"), said("user", f"b {text}")], []
    parts = [{"type": "text", "text": c} for c in text]
    yield "cut user", [said("user", parts)], tools
    yield "name of a user", [said("user", "a", name=text)], tools
    yield "answer", [said("user", "a"), said("assistant", text), said("user", "b")], tools
    yield (
        "reasoning",
        [said("user", "a"), called(call({"city": "x"})) | {"reasoning_content": text}, result("r")],
        tools,
    )
    yield "text beside a call", _calling(call({"city": "x"}), content=text), tools
    yield "result", _calling(call({"city": "x"}), shown=text), tools
    yield "result's name", [*_calling(call({"city": "x"}))[:2], result("r", name=text)], tools
    yield "called name", _calling(call({"city": "x"}, name=text)), tools
    yield "id", [said("user", "a"), called(call({"city": "x"}, id=text)), result("r", text), said("user", "b")], tools
    yield "description", [said("user", "a")], [tool(description=text)]
    yield "declared name", [said("user", "a")], [tool(name=text)]
    schema = {
        "type": "string", "description": text, "enum": [text], "default": text, "title": text, "pattern": text,
        "examples": [text], "const": text,
    }  # fmt: skip
    yield "schema", [said("user", "a")], [tool(properties={"zone": schema})]
    yield (
        "property",
        [said("user", "a")],
        [tool(properties={text: {"type": "object", "properties": {text: {"type": text}}}})],
    )
    yield "late system", [said("user", text), said("system", "rule"), said("user", text), said("user", text)], tools
    odd = {f"x{text}": text}  # no text is the name of a field
    one: Message = {**odd, **call({"city": "x"})}
    one["function"] = {**odd, **one["function"]}
    yield "keys of the client's own", [odd | said("user", "a"), odd | called(one), odd | result("r")], tools
    both = [said("user", "a", name=text[:2]), said("user", text[2:]), said("user", text[:1]), said("user", text[1:])]
    yield "in two messages", both, tools


def _calling(one: Message, *, content: Any = None, shown: str = "r") -> list[Message]:
    return [said("user", "a"), called(one, content=content), result(shown), said("user", "b")]


def counts(prompt: str, tokens: list[str]) -> Counter[str]:
    """How often a prompt has tokens; words with a colon only where a word begins."""

    def found(token: str) -> int:
        return len(re.findall(rf"(?<!\w){re.escape(token)}", prompt)) if token[0].isalnum() else prompt.count(token)

    return Counter({token: n for token in tokens if (n := found(token))})


def tokens_of(made: Prompts) -> list[str]:
    """What the template and the dialect write around turns and in them."""
    return [w for w in made.known.guards[0].special.words if not any(one in w for one in OURS)]


def rendered(made: Prompts, messages: list[Message], tools: list[Any], **template: Any) -> str | None:
    """The prompt; ``None`` if the request is refused."""
    try:
        return made.render(asked(messages, tools, **template))
    except (BadRequest, ToolsError):
        return None


def forged(
    made: Prompts, tokens: list[str], attacks: Iterator[tuple[str, str, str | None]], **template: Any
) -> Iterator[tuple[str, str, Counter[str]]]:
    """The tokens that an attack adds to a prompt, by its place and spelling.

    Args:
        made: the template.
        tokens: the special tokens.
        attacks: the name of each spelling, the text, and its form inside of a string of JSON (``None``: escaped).
        template: the template's variables.
    """
    harmless: dict[tuple[str, bool], Counter[str] | None] = {}
    for json_text in (None, "harmless0"):  # some templates demand ids of nine characters
        for place, messages, tools in conversations("harmless0", json_text):
            prompt = rendered(made, messages, tools, **template)
            harmless[place, json_text is None] = None if prompt is None else counts(prompt, tokens)
    for spelling, text, json_text in attacks:
        for place, messages, tools in conversations(text, json_text):
            prompt = rendered(made, messages, tools, **template)
            before = harmless[place, json_text is None]
            if prompt is not None and before is not None:
                yield place, spelling, counts(prompt, tokens) - before
