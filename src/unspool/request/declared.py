"""Reads the tools that requests declare. Chat completions have functions and custom tools; Responses also have
namespaces, the search for tools, and tools that OpenAI defines.

A model knows only functions, so every tool becomes a function with a flat name; `Declared.kinds` records what it is
for the client. Tools that only their provider can run are left out and logged; the response does not repeat them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from ..errors import ConstraintError
from ..grammar import regular
from ..grammar.bounds import derivation
from ..grammar.flat import anchored
from ..grammar.freeform import Freeform, read_lark
from ..tools import ServerTool
from ..validation import json_shown
from ..wire.freeform import INPUT, ITEMS, ClientTool, OpenAIs
from .client_tools import openai_tool
from .common import call_of, read_parameters, tool
from .fields import Fields
from .server_tools import SERVED, WORDS, ServerTools

SEARCH: Final = "tool_search"
_HOSTED: Final = (
    "web_search", "web_search_preview", "web_search_2025_08_26", "web_search_preview_2025_03_11", "file_search",
    "code_interpreter", "image_generation", "mcp", "programmatic_tool_calling",
)  # fmt: skip
"""Tools that OpenAI runs."""
_CLIENTS: Final[dict[str, OpenAIs]] = {**{kind: kind for kind in ITEMS}, "computer_use_preview": "computer_use"}
"""Tools that OpenAI defines and clients run, with their kinds."""
_KINDS: Final = ("function", "custom", "namespace", SEARCH, *_CLIENTS)


class Declared(msgspec.Struct):
    """The declarations of a request, by the tools' flat names."""

    tools: list[dict[str, Any]] = []
    kinds: dict[str, ClientTool] = {}  # the kinds of tools other than functions
    grammars: dict[str, Freeform] = {}  # the grammars of custom tools' texts
    dropped: set[str] = set()  # the types of tools that are left out
    names: set[str] = set()
    search: bool = False  # whether the client searches for tools, so that some are declared only once they are found


def flat(namespace: str | None, name: str) -> str:
    """The flat name of a tool in a namespace."""
    if not namespace:
        return name
    return namespace + name if namespace.endswith(("_", ".", "-", "/")) else f"{namespace}.{name}"


def read_nested(fields: Fields, *, custom: bool = True) -> Declared:
    """Read the tools of chat completions, each in a field with the name of its type; custom tools only if allowed."""
    found = Declared()
    kinds = ("function", "custom") if custom else ("function",)
    with _grammars(fields):
        for one in fields.objects("tools", ()):
            kind = one.one_of("type", kinds, "function")
            _declare(Fields(one.raw.get(kind), one.path(kind)), kind, found, nested=True)
    return found


@contextmanager
def _grammars(fields: Fields) -> Iterator[None]:
    text = "their grammars are too large together; allowed are fewer and shorter ones"
    try:
        with derivation(text):
            yield
    except ConstraintError as error:
        raise fields.wrong("tools", str(error)) from None


def _declare(one: Fields, kind: Any, found: Declared, namespace: str = "", *, nested: bool = False) -> None:
    """Record a function or a custom tool. In chat completions, the grammar is nested in the format."""
    own = one.text("name")
    name = flat(namespace, own)
    found.names.add(name)
    if kind == "custom":
        form = one.object("format")
        found.tools.append(_custom(one, name, form, form.object("grammar") if nested else form, found))
    else:
        strict = one.flag("strict", None)
        found.tools.append(tool(name, one.text("description", None), read_parameters(one), strict))
    if kind == "custom" or namespace:
        found.kinds[name] = ClientTool(kind, own, namespace)


def read_declared(fields: Fields, items: str = "input") -> Declared:
    """Read the tools of Responses: those that a request declares, and those that items of its input add or found."""
    found = Declared()
    listed = list(fields.objects("tools", ()))
    found.search = any(
        one.raw.get("type") == SEARCH and one.one_of("execution", ("server", "client"), "server") == "client"
        for one in listed
    )
    with _grammars(fields):
        for one in sorted(listed, key=lambda one: one.raw.get("type") in [*_CLIENTS]):
            _take(one, found, "", loaded=False)
        if isinstance(fields.raw.get(items), list):
            for item in fields.objects(items):
                if item.raw.get("type") in ("additional_tools", "tool_search_output"):
                    for one in item.objects("tools", ()):
                        _take(one, found, "", loaded=True)
    return found


def _take(one: Fields, found: Declared, namespace: str, *, loaded: bool) -> None:
    kind = one.text("type")
    if kind in _HOSTED:
        found.dropped.add(kind)
        return
    one.one_of("type", ("function", "custom") if namespace else (*_KINDS, *_HOSTED))
    if kind in _CLIENTS:
        name = _CLIENTS[kind]
        if name not in found.names:
            found.tools.append(openai_tool(one, name))
            found.kinds[name] = ClientTool(name, name)
            found.names.add(name)
        elif name not in found.kinds or found.kinds[name].kind != name:  # a function has its name
            found.dropped.add(kind)
        return
    if kind == "namespace":
        inner = one.text("name")
        about, at = one.text("description", None), len(found.tools)
        for each in one.objects("tools"):
            _take(each, found, inner, loaded=loaded)
        if about and len(found.tools) > at:  # a template has no place for it, so the first tool says it
            first = found.tools[at]["function"]
            first["description"] = "\n\n".join(filter(None, (f"{inner}: {about}", first.get("description"))))
        return
    if kind == SEARCH and not found.search:  # the server has no search, so it declares all tools
        found.dropped.add(SEARCH)
    elif kind == SEARCH:
        found.tools.append(tool(SEARCH, one.text("description", None), read_parameters(one)))
        found.kinds[SEARCH] = ClientTool("tool_search", SEARCH)
    elif one.flag("defer_loading") and found.search and not loaded:
        return
    elif not loaded or flat(namespace, one.text("name")) not in found.names:  # else it was found earlier
        _declare(one, kind, found, namespace)


def _custom(one: Fields, name: str, form: Fields, grammar: Fields, found: Declared) -> dict[str, Any]:
    """Turn a custom tool into a function with one argument, a text, and record its grammar."""
    described = one.text("description", "")
    text: dict[str, Any] = {"type": "string"}
    strict: bool | None = None
    if form.one_of("type", ("text", "grammar"), "text") == "grammar":
        syntax, definition = grammar.one_of("syntax", ("lark", "regex")), grammar.text("definition")
        what = "Lark grammar" if syntax == "lark" else "regular expression"
        described = f"{described}\n\nThe {INPUT} is a text that this {what} admits:\n{definition}".strip()
        if syntax == "lark":
            try:
                found.grammars[name] = read_lark(definition)
            except ConstraintError as error:
                raise grammar.wrong("definition", str(error).removeprefix("definition: ")) from None
        else:
            text["pattern"], strict = _pattern(grammar, definition), True
    parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT], "additionalProperties": False}
    return tool(name, described or None, parameters, strict)


def _pattern(form: Fields, definition: str) -> str:
    """The definition as a JSON Schema pattern that must match the whole text."""
    try:
        regular.parse(definition)
    except ValueError as error:
        raise form.wrong("definition", str(error)) from None
    begins, ends = anchored(definition)
    return f"^(?:{definition[begins : len(definition) - ends]})$"


def read_choice(fields: Fields, found: Declared, served: ServerTools | None) -> Any:
    """Read ``tool_choice`` of Responses. Names are flat, the types of the server's tools become their names, and tools
    that are left out are left out here too."""
    choice = fields.raw.get("tool_choice")
    if not isinstance(choice, Mapping):
        return choice
    kind = choice.get("type")
    if kind == "allowed_tools" and isinstance(choice.get("tools"), list):
        listed = [each for tool in choice["tools"] for each in _chosen(tool, found, served)]
        return {**choice, "tools": listed if listed or served is not None else choice["tools"]}
    if kind in SERVED and served is not None:
        chosen = _chosen(choice, found, served)
        if not chosen:
            raise fields.wrong("tool_choice.type", f"{json_shown(kind)} names no tool of the request")
        return {"type": "allowed_tools", "mode": "required", "tools": chosen}
    if kind in _HOSTED:
        raise fields.wrong("tool_choice.type", f"{json_shown(kind)} names tools that the server does not run")
    if kind in ("custom", SEARCH, *_CLIENTS) or (kind == "function" and choice.get("namespace")):
        return _chosen(choice, found, served)[0]
    return choice


def _chosen(one: Any, found: Declared, served: ServerTools | None) -> list[Any]:
    if not isinstance(one, Mapping):
        return [one]
    kind, name = one.get("type"), one.get("name")
    names: list[Any]
    if kind in SERVED and served is not None:
        names = [name for name, each in served.tools.items() if _fits(each.tool, one)]
    elif kind in _HOSTED:
        names = []
    elif kind == SEARCH:
        names = [SEARCH]
    elif kind in _CLIENTS:  # the protocol's names of the computer mean one another
        own = _CLIENTS[kind]
        names = [each for each in ITEMS if each in found.kinds and ITEMS[each].type == ITEMS[own].type] or [own]
    elif kind == "namespace":
        names = [own for own, each in found.kinds.items() if each.namespace == str(name)] or [name]
    elif kind in ("function", "custom") and isinstance(name, str):
        names = [flat(one.get("namespace"), name)]
    else:
        return [one]
    return [{"type": "function", "name": name} for name in names]


def _fits(tool: ServerTool, choice: Mapping[str, Any]) -> bool:
    if choice["type"] != "mcp":
        return tool.kind == WORDS[choice["type"]][0]
    return tool.server == choice.get("server_label") and choice.get("name") in (None, tool.original)


def read_nested_choice(fields: Fields, found: Declared) -> Any:
    """Read ``tool_choice`` of chat completions, with custom tools as functions."""
    choice = fields.raw.get("tool_choice")
    if not isinstance(choice, Mapping):
        return choice
    given = Fields(dict(choice), fields.path("tool_choice"))
    inner = choice.get("allowed_tools")
    if not isinstance(inner, Mapping) or not isinstance(inner.get("tools"), list):
        return _as_function(given, found)
    listed = [_as_function(one, found) for one in given.object("allowed_tools").objects("tools")]
    return {**choice, "allowed_tools": {**inner, "tools": listed}}


def _as_function(one: Fields, found: Declared) -> dict[str, Any]:
    if one.raw.get("type") != "custom":
        return one.raw
    custom = one.object("custom")
    name = custom.text("name")
    if name not in found.kinds:
        allowed = ", ".join(found.kinds) or "none: no custom tools"
        raise custom.wrong("name", f"{json_shown(name)} is not declared; allowed are {allowed}")
    return {"type": "function", "function": {"name": name}}


def custom_call(id: str | None, name: str, text: str) -> dict[str, Any]:
    """Turn the call of a custom tool, by its flat name, into that of a function; ``None``: without an id."""
    function = {"name": name, "arguments": json.dumps({INPUT: text}, ensure_ascii=False)}
    return {**({} if id is None else {"id": id}), "type": "function", "function": function}


def history_call(item: Fields) -> dict[str, Any]:
    """A call of the history in the form of chat completions."""
    kind = item.raw["type"]
    if kind == "custom_tool_call":
        name = flat(item.text("namespace", None), item.text("name"))
        return custom_call(item.text("call_id"), name, item.text("input"))
    own = own_kind(item)
    if own is not None:
        field, fixed = ITEMS[own].field, ITEMS[own].fixed
        listed = isinstance(item.raw.get(field), list)
        wrote = {field: item.raw[field]} if listed else item.lenient(field).raw
        arguments = json.dumps({k: v for k, v in wrote.items() if v != fixed.get(k)}, ensure_ascii=False)
        return call_of(called_by(item), own, arguments)
    if kind == "tool_search_call":
        given = item.raw.get("arguments")
        name, arguments = SEARCH, given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    else:
        name, arguments = item.text("name"), item.text("arguments")
    return call_of(item.text("call_id"), flat(item.text("namespace", None), name), arguments)


def called_by(item: Fields) -> str:
    """The id of the call to which an item about a tool that OpenAI defines belongs."""
    found: str = item.text("call_id", "") or item.text("id", "")
    return found


def own_kind(item: Fields) -> OpenAIs | None:
    """The kind of the tool of OpenAI's that an item calls, and that clients run; ``None`` if it calls none."""
    fitting = [name for name, own in ITEMS.items() if own.type == item.raw.get("type")]
    return next((name for name in fitting if item.has(ITEMS[name].field)), next(iter(fitting), None))


def found_tools(item: Fields) -> str:
    """The result of a search for tools, as text for the model."""
    names = []
    for one in item.objects("tools", ()):
        inner = list(one.objects("tools", ())) if one.raw.get("type") == "namespace" else [one]
        space = one.raw.get("name") if one.raw.get("type") == "namespace" else None
        names += [flat(space, each.text("name")) for each in inner if each.has("name")]
    return json.dumps({"tools": names}, ensure_ascii=False)
