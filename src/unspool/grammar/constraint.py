"""`constrain`: restricts what an engine generates to what parses as the request demands."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ..dialect.file import Dialect
from ..dialect.registry import as_dialect
from ..dialect.template import Template
from ..errors import ConstraintError, DialectError, ToolsError
from ..events import Stage
from ..parser import detect_stage
from ..parser.prompt import decode_ids
from ..regex import Regex
from ..renderer import render
from ..schema import function_of, tool_name
from ..tokens import special_tokens
from ..toolset import ToolChoice, Toolset, read_toolset
from ..validation import check, check_prompt, check_tokenizer
from .arguments import Tool
from .bounds import Budget, derivation, parameters_of
from .build import Demand, build
from .calls import ToolStrictLevel, strict_tools, structure_info
from .freeform import Freeform
from .gbnf import gbnf
from .lark import lark
from .nodes import Alternatives, Const, Grammar, Seq
from .schemas import mapped, prepare, property_names
from .tag import structural_tag

MAX_NAME: Final = 256  # how many characters the name of a tool may have


class Constraint:
    """A constraint on the output, in several formats; each is derived on first use.

    Attributes:
        grammar: the intermediate grammar.
        json_schema: the calls as a JSON array of ``{"name": …, "parameters": …}``, for engines without structural
            tags. The parser reads it under the same ``tool_choice``. ``None`` if no call is required.
        looser: makes the next less strict constraint, or ``None``, for an engine that cannot enforce this one;
            ``None`` if this one must be enforced.
        answer: makes the constraint of the answer alone, for an engine that refuses this one and has to say whether
            the schema of the answer is why; ``None`` if there is no such schema, or nothing else.
    """

    looser: "Callable[[], Constraint | None] | None" = None
    answer: "Callable[[], Constraint | None] | None" = None

    def __init__(self, grammar: Grammar, json_schema: dict[str, Any] | None, special: Mapping[str, int]) -> None:
        self.grammar = grammar
        self.json_schema = json_schema
        self._special = special

    @cached_property
    @derivation()
    def structural_tag(self) -> dict[str, Any]:
        """The JSON object for xgrammar, vLLM and SGLang: ``{"type": "structural_tag", "format": …}``.

        Raises:
            ConstraintError: structural tags cannot express a schema.
        """
        return structural_tag(self.grammar)

    @cached_property
    @derivation()
    def lark(self) -> str:
        """A Lark grammar for llguidance, with special tokens of the tokenizer by id, and other markers as text."""
        return lark(self.grammar, self._special)

    @cached_property
    @derivation()
    def lark_spaced(self) -> str:
        """`lark` with one space after each comma and colon of JSON, and no other white space, of which the llguidance
        in llama.cpp has no limit."""
        return lark(self.grammar, self._special, spaced=True)

    def ending(self, tokens: Sequence[str]) -> "Constraint":
        """The same constraint, with one of these special tokens allowed at the end of `lark`.

        An engine may end outputs with several tokens, although its llguidance knows one of them as the end.
        """
        known = [Const(token) for token in tokens if token in self._special]
        root = Seq((self.grammar.root, Alternatives((*known, Const("")))))
        found = Constraint(msgspec.structs.replace(self.grammar, root=root), self.json_schema, self._special)
        found.looser = self.looser
        return found

    @cached_property
    @derivation()
    def gbnf(self) -> str:
        """A GBNF grammar for llama.cpp.

        Raises:
            ConstraintError: GBNF cannot express a schema.
        """
        return gbnf(self.grammar)


@derivation()
def constrain(
    dialect: str | Dialect,
    tools: Sequence[Mapping[str, Any]] | Toolset | None = None,
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    *,
    stage: Stage | str | None = None,
    prompt: "str | Sequence[int] | None" = None,
    response_format: Mapping[str, Any] | None = None,
    strict_level: ToolStrictLevel = ToolStrictLevel.OFF,
    closed: bool = False,
    tokenizer: Any = None,
    grammars: Mapping[str, Freeform] | None = None,
) -> Constraint | None:  # each argument is checked in turn
    """Return a constraint under which an output has the calls and the content that a request demands.

    Args:
        dialect: a name or a `Dialect`.
        tools: OpenAI tool dicts, or a `Toolset`, which has its own choice.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, a named function
            (``{"type": "function", "function": {"name": …}}``) or OpenAI's list of allowed tools.
        parallel_tool_calls: whether there may be several calls.
        stage: where the output begins. With ``content``, ``required`` and a named choice begin with the calls,
            without reasoning or text, and content of a schema begins without reasoning.
            Default: the stage from ``prompt``, else the dialect's own.
        prompt: text or token ids, whose end decides the stage.
        response_format: the schema of the content: OpenAI's ``response_format``, or a JSON Schema. It does not affect
            reasoning and calls.
        strict_level: constrains ``auto`` if no tool has ``strict``.
        closed: in arguments, objects that declare properties have no others, as with ``strict``, unless the schema has
            ``additionalProperties``.
        tokenizer: decides which markers are special tokens; see `Constraint.lark`.
        grammars: grammars for tools whose only argument is a text, by name. They are enforced whatever
            ``tool_choice`` and ``strict_level`` are; only `Constraint.lark` can express them.

    Returns:
        ``None`` if nothing is constrained: ``"none"``, or ``"auto"`` without a strict tool or level, and no schema
        for the content.

    Raises:
        ConstraintError: names the field that is wrong or cannot be enforced, and what is allowed.
        UnknownDialect: no dialect has this name.
        TypeError: an argument has the wrong type; the message names it.
    """
    d = as_dialect(dialect)
    request = _read(tools, tool_choice, parallel_tool_calls, strict_level)
    check_tokenizer(tokenizer)
    kind = request.kind
    answer = _answer(response_format)
    free = _grammars(grammars, request)
    forced = kind in ("required", "named")
    strict = strict_level > ToolStrictLevel.OFF or strict_tools(request.callable) or bool(free)
    left_out = kind == "auto" and request.callable and strict  # calls that the model may leave out are constrained
    if not forced and not left_out and answer is None:
        return None
    if forced:
        answer = None
    begin = _stage(d, stage, prompt, tokenizer)
    made = _tools(d, request, free, strict_level, closed=closed)
    low, high = int(forced), None if parallel_tool_calls and kind != "named" else 1
    silent = stage is not None and Stage(stage) is Stage.CONTENT
    demand = Demand(
        tools=made,
        names=tuple(request.tools or ()) if kind != "none" else (),
        low=low,
        high=high,
        stage=begin,
        bare=forced and silent,
        spoken=silent and answer is not None,
        forced=kind if forced else "",
        answer=answer,
    )
    schema = _array(made, low, high) if made else None
    return Constraint(build(d, demand), schema, {} if tokenizer is None else special_tokens(tokenizer))


def _grammars(grammars: Mapping[str, Freeform] | None, request: Toolset) -> dict[str, Freeform]:
    check("grammars", grammars, (Mapping, type(None)), "an object of grammars by the names of tools, or None")
    for name, one in (grammars or {}).items():
        check(f"grammars[{name!r}]", one, Freeform, "a Freeform")
    return {name: one for name, one in (grammars or {}).items() if name in (request.allowed or ())}


def _tools(
    dialect: Dialect, request: Toolset, free: Mapping[str, Freeform], strict_level: ToolStrictLevel, *, closed: bool
) -> tuple[Tool, ...]:
    """The callable tools for the grammar; ``free`` has the grammars of tools with a single text."""
    if request.kind == "none" or not request.callable:
        return ()
    for name in request.allowed or ():
        _check_name(dialect, name)
    loose = request.kind == "auto" and strict_level < ToolStrictLevel.PARAMETER
    budget = Budget()
    made = []
    for t in request.callable:
        name = tool_name(t) or ""
        with parameters_of(name):
            unread = loose and not strict_tools([t])
            own = free.get(name)
            made.append(_free(t, own) if own else _tool(t, loose=unread, closed=closed, budget=budget, dialect=dialect))
    return tuple(made)


def structure_constraint(
    dialect: str | Dialect,
    tools: Sequence[Mapping[str, Any]],
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    strict_level: ToolStrictLevel = ToolStrictLevel.OFF,
) -> tuple[str, dict[str, Any]] | None:
    """Return the constraint for a host that builds structural tags from begin, end and trigger.

    For ``auto`` with a strict tool or level, if the dialect has a `structure_info`: ``("structural_tag", …)``. For
    ``required`` or a named function: ``("json_schema", …)``. Otherwise: ``None``. `constrain` serves the same
    requests in the dialect's own format.

    Raises:
        ConstraintError, UnknownDialect, TypeError: see `constrain`.
    """
    d = as_dialect(dialect)
    request = _read(tools, tool_choice, parallel_tool_calls, strict_level)
    kind, listed = request.kind, request.callable
    if kind == "none" or not listed:
        return None
    if kind != "auto":
        most = None if parallel_tool_calls and kind != "named" else 1
        return "json_schema", _array(tuple(map(_tool, listed)), 1, most)
    if strict_level < ToolStrictLevel.FUNCTION and not strict_tools(listed):
        return None
    tags, triggers = [], []
    for tool in listed:
        info = structure_info(d, tool)
        if info is None:
            return None
        strict = strict_level >= ToolStrictLevel.PARAMETER or strict_tools([tool])
        content: dict[str, Any] = {"type": "json_schema", "json_schema": _tool(tool, loose=not strict).parameters}
        begin, counted = info.begin, structure_info(d, tool, index=1)
        if counted is not None and counted.begin != begin:
            # Calls are numbered: where these two differ, any number is allowed.
            at = next(i for i, (a, b) in enumerate(zip(begin, counted.begin, strict=False)) if a != b)
            rest = {"type": "const_string", "value": begin[at + 1 :]}
            content = {
                "type": "sequence",
                "elements": [{"type": "regex", "pattern": "0|[1-9][0-9]{0,2}"}, rest, content],
            }
            begin = begin[:at]
        tags.append({"type": "tag", "begin": begin, "content": content, "end": info.end})
        triggers.append(info.trigger)
    form = {
        "type": "triggered_tags",
        "triggers": list(dict.fromkeys(triggers)),
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": not parallel_tool_calls,
    }
    return "structural_tag", {"type": "structural_tag", "format": form}


# --- reading a request ------------------------------------------------------------------------------------------------


def _read(tools: object, tool_choice: object, parallel: object, level: object) -> Toolset:
    """Read the tools and the choice; a function that is named while the tools are unknown takes any arguments."""
    check("parallel_tool_calls", parallel, bool, "true or false")
    check("strict_level", level, ToolStrictLevel, "a ToolStrictLevel")
    found = read_toolset(tools, tool_choice)
    if found.tools is None:
        if found.kind == "required":
            raise ToolsError("tool_choice", "'required' needs tools")
        named = {name: {"type": "function", "function": {"name": name}} for name in found.allowed or ()}
        found = msgspec.structs.replace(found, tools=named, allowed=tuple(named))
    return found


_PLAIN_NAME: Final = Regex(r"[\w.:/-]{1,256}")
_ALLOWED: Final = "letters, digits and _ - . : /"


def _check_name(d: Dialect, name: str) -> None:
    """Refuse a name that the dialect cannot write so that it reads back."""
    if _PLAIN_NAME.fullmatch(name):
        return
    where = "tools: the name"
    if not name.isprintable() or len(name) > MAX_NAME:
        raise ConstraintError(f"{where} {name[:60]!r} must have at most {MAX_NAME} printable characters")
    if not _writes(d, name, {}):
        raise ConstraintError(f"{where} {name!r} cannot be written in dialect {d.name!r}; allowed are {_ALLOWED}")


def _check_keys(d: Dialect, parameters: Mapping[str, Any], where: str) -> None:
    """Refuse names of properties that the dialect cannot write so that they read back."""
    if d.codec.name == "python":
        return  # `keywords` in `unspool.grammar.arguments` checks the names of keyword arguments
    nested = d.item or not d.argument  # nested objects are written in the dialect's own way too
    keys = property_names(parameters) if nested else parameters.get("properties", {})
    odd = [key for key in keys if not _PLAIN_NAME.fullmatch(key)]
    if not odd or _writes_keys(d, odd):
        return
    while len(odd) > 1:
        half = odd[: len(odd) // 2]
        odd = odd[len(half) :] if _writes_keys(d, half) else half
    why = f"{odd[0][:60]!r} cannot be written in dialect {d.name!r}; allowed are {_ALLOWED}"
    raise ConstraintError(f"{where}.properties: the name {why}")


def _writes_keys(d: Dialect, keys: Sequence[str]) -> bool:
    values = dict.fromkeys(keys, "x")
    return _writes(d, "f", {"k": values} if d.item or not d.argument else values) and _writes(d, "f", values)


def _first(templates: tuple[Template, ...]) -> tuple[Template, ...]:
    return (*templates[:1], *(t for t in templates[1:] if t.spelled is not None))  # other spellings are only read


def _writes(d: Dialect, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call reads back as it is written by the first templates, which a grammar uses."""
    first = msgspec.structs.replace(d, call=_first(d.call), argument=_first(d.argument))
    try:
        render({"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}, first)
    except DialectError:
        return False
    return True


def _stage(d: Dialect, stage: Stage | str | None, prompt: Any, tokenizer: Any) -> Stage:
    if stage is not None:
        try:
            return Stage(stage)
        except ValueError:
            raise ConstraintError(f"stage: {stage!r} is not one of {', '.join(Stage)}") from None
    if prompt is None:
        return d.stage
    check_prompt(prompt)
    found = detect_stage(d, prompt, tokenizer=tokenizer)
    if found is Stage.TOOL_CALL:
        text = prompt if isinstance(prompt, str) else decode_ids(tokenizer, prompt)
        openings = [t.opening.strip() for t in d.calls]
        if not any(o and text.rstrip().endswith(o) for o in openings):
            raise ConstraintError(
                "prompt: ends inside a call; it may end right after the opening of a block, not later"
            )
    return found


def _tool(
    tool: Mapping[str, Any],
    *,
    loose: bool = False,
    closed: bool = False,
    budget: Budget | None = None,
    dialect: Dialect | None = None,
) -> Tool:
    name = tool_name(tool) or ""
    function = function_of(tool)
    closed = closed or function.get("strict") is True
    given = {"type": "object"} if loose else function.get("parameters")
    where = f"tools.{name}.parameters"
    prepared = prepare({"type": "object"} if given is None else given, where, closed=closed, budget=budget)
    if prepared is False:
        raise ConstraintError(f"{where}: admits no arguments")
    parameters = dict(prepared) if isinstance(prepared, dict) else {}
    if not {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"} & set(parameters):
        parameters["type"] = "object"
    if parameters.get("type") not in (None, "object"):
        if "object" not in parameters["type"]:
            raise ConstraintError(f"{where}.type: must be 'object', not {parameters['type']!r}")
        parameters["type"] = "object"
    if dialect is not None:
        _check_keys(dialect, parameters, where)
    return Tool(name, parameters, None if dialect is None else dialect.text_call(tool, name))


def _free(tool: Mapping[str, Any], grammar: Freeform) -> Tool:
    made = _tool(tool)
    if len(made.parameters.get("properties", {})) != 1:
        raise ConstraintError(f"tools.{made.name}.parameters: a tool with a grammar has one argument, a text")
    return msgspec.structs.replace(made, free=grammar)


def _answer(response_format: Mapping[str, Any] | None) -> dict[str, Any] | bool | None:
    if response_format is None:
        return None
    if not isinstance(response_format, Mapping):
        raise ConstraintError("response_format: must be an object")
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        inner = response_format.get("json_schema", response_format)
        schema = inner.get("schema") if isinstance(inner, Mapping) else None
        if not isinstance(schema, Mapping):
            raise ConstraintError("response_format.json_schema.schema: must be an object")
        where, closed = "response_format.json_schema.schema", inner.get("strict") is True
        return prepare(schema, where, closed=closed, strict=True)
    return prepare(response_format, "response_format", strict=True)


def _array(tools: tuple[Tool, ...], low: int, high: int | None) -> dict[str, Any]:
    """The schema of calls as a JSON array; the definitions of tools are kept apart."""
    definitions: dict[str, Any] = {}
    options = []
    for i, tool in enumerate(tools):
        own = {k: v for k, v in tool.parameters.items() if k != "$defs"}
        for name, node in tool.parameters.get("$defs", {}).items():
            definitions[f"t{i}_{name}"] = _moved(node, i)
        call = {"name": {"const": tool.name}, "parameters": _moved(own, i)}
        options.append(
            {"type": "object", "properties": call, "required": ["name", "parameters"], "additionalProperties": False}
        )
    schema: dict[str, Any] = {"type": "array", "minItems": low}
    if high is not None:
        schema["maxItems"] = high
    schema["items"] = options[0] if len(options) == 1 else {"anyOf": options}
    return {**schema, "$defs": definitions} if definitions else schema


def _moved(node: Any, i: int) -> Any:
    """A prepared schema, whose references now point to the definitions of the tool at ``i``."""
    if not isinstance(node, dict):
        return node
    found = mapped(node, lambda inner: _moved(inner, i))
    if "$ref" in found:
        found["$ref"] = found["$ref"].replace("#/$defs/", f"#/$defs/t{i}_", 1)
    return found
