"""The server's level for calls is enforced as far as grammars can, tool by tool; a request's own demands always are."""

from typing import Any

import pytest

from unspool import Constraint, ConstraintError, ToolStrictLevel, constrain, get_dialect
from unspool.request.chat_request import ChatRequest
from unspool.request.prepared import Constraints
from unspool.request.settings import Settings
from unspool.toolset import read_toolset

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def as_tools(schemas: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": one}} for name, one in schemas.items()]


def property_(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


NO_GRAMMAR = {
    "an enum against its type": property_(type="integer", enum=["x"]),
    "a negation": property_(**{"not": {"type": "string"}}),
    "a pattern that looks ahead": property_(type="string", pattern="^(?!0)[0-9]{5}$"),
    "a pattern that looks behind": property_(type="string", pattern=r"a(?<=[(]?)b"),
    "a pattern that refers back": property_(type="string", pattern=r"(a|b)\1"),
    "names that look ahead": {"type": "object", "patternProperties": {"^(?=x)": {}}},
    "a foreign reference": property_(**{"$ref": "http://example.com/x"}),
    "no finite value": {"$ref": "#/$defs/n", "$defs": {"n": {**property_(**{"$ref": "#/$defs/n"}), "required": ["a"]}}},
    "a list": {"type": "array"},
}


def derived(dialect: str, tools: list[Any], choice: str = "auto") -> Constraint | None:
    settings = Settings(model="m", dialect=get_dialect(dialect), strict_level=ToolStrictLevel.PARAMETER)
    request = ChatRequest(toolset=read_toolset(tools, choice))
    return Constraints(settings).derive(request, None, None, None, None)


@pytest.mark.parametrize("schema", NO_GRAMMAR.values(), ids=NO_GRAMMAR)
@pytest.mark.parametrize("dialect", ["hermes", "qwen3-coder", "llama4_pythonic", "harmony"])
def test_a_tool_whose_schema_has_no_grammar_takes_any_object_and_the_others_keep_theirs(
    dialect: str, schema: Any
) -> None:
    tools = as_tools({"f.g": CITY, "f": schema})
    found = derived(dialect, tools)
    alike = constrain(dialect, as_tools({"f.g": CITY, "f": {"type": "object"}}), strict_level=ToolStrictLevel.PARAMETER)
    assert found is not None
    assert alike is not None
    assert found.lark == alike.lark
    for wrong, choice in (([{**tools[1]["function"], "strict": True}], "auto"), (tools, "required")):
        with pytest.raises(ConstraintError) as refused:
            derived(dialect, wrong, choice)
        assert refused.value.tool == "f"


def test_the_tool_whose_schema_has_no_grammar_is_not_told_by_its_name() -> None:
    tools = as_tools({"f": CITY, "f.parameters": {"type": "array"}})
    alike = constrain(
        "hermes",
        as_tools({"f": CITY, "f.parameters": {"type": "object"}}),
        strict_level=ToolStrictLevel.PARAMETER,
    )
    found = derived("hermes", tools)
    assert found is not None
    assert alike is not None
    assert found.lark == alike.lark


@pytest.mark.parametrize("pattern", [r"^\(\?=x$", "[(?=]", r"(?:a)\\1", "(?P<a>x)", "[]"])
def test_a_pattern_that_only_looks_like_an_assertion_has_a_grammar(pattern: str) -> None:
    assert derived("hermes", as_tools({"f": property_(type="string", pattern=pattern)}), "required") is not None


def test_an_engine_that_refuses_a_level_gets_the_next_one_and_never_less_than_the_request_demands() -> None:
    found = derived("hermes", as_tools({"f": CITY}))
    assert found is not None
    assert found.looser is not None
    names = found.looser()
    alike = constrain("hermes", as_tools({"f": CITY}), strict_level=ToolStrictLevel.FUNCTION)
    assert names is not None
    assert names.looser is not None
    assert alike is not None
    assert names.lark == alike.lark
    assert names.looser() is None
    strict = derived("hermes", [{"type": "function", "function": {"name": "f", "parameters": CITY, "strict": True}}])
    assert strict is not None
    least = strict.looser() if strict.looser is not None else None
    own = least.looser() if least is not None and least.looser is not None else None
    assert own is not None
    assert own.looser is None
    assert "city" in own.lark
    required = derived("hermes", as_tools({"f": CITY}), "required")
    assert required is not None
    assert required.looser is None
