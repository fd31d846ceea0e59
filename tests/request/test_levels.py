"""The server's level for calls is enforced as far as grammars can, tool by tool; a request's own demands always are."""

from typing import Any

import pytest

from unspool import Constraint, ConstraintError, ToolStrictLevel, get_dialect
from unspool.request.chat_request import ChatRequest
from unspool.request.prepared import Constraints
from unspool.request.settings import Settings
from unspool.toolset import read_toolset

from ..grammar.support import constrained
from ..support import present

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


PARAMETER, FUNCTION = ToolStrictLevel.PARAMETER, ToolStrictLevel.FUNCTION


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


def derived(dialect: str, tools: list[Any], choice: str = "auto") -> Constraint:
    settings = Settings(model="m", dialect=get_dialect(dialect), strict_level=PARAMETER)
    request = ChatRequest(toolset=read_toolset(tools, choice))
    return present(Constraints(settings).derive(request, None, None, None, None))


@pytest.mark.parametrize("schema", NO_GRAMMAR.values(), ids=NO_GRAMMAR)
@pytest.mark.parametrize("dialect", ["hermes", "qwen3-coder", "llama4_pythonic", "harmony"])
def test_a_tool_whose_schema_has_no_grammar_takes_any_object_and_the_others_keep_theirs(
    dialect: str, schema: Any
) -> None:
    tools = as_tools({"f.g": CITY, "f": schema})
    alike = constrained(dialect, as_tools({"f.g": CITY, "f": {"type": "object"}}), strict_level=PARAMETER)
    assert derived(dialect, tools).lark == alike.lark
    for wrong, choice in (([{**tools[1]["function"], "strict": True}], "auto"), (tools, "required")):
        with pytest.raises(ConstraintError) as refused:
            derived(dialect, wrong, choice)
        assert refused.value.tool == "f"


def test_the_tool_whose_schema_has_no_grammar_is_not_told_by_its_name() -> None:
    found, alike = (as_tools({"f": CITY, "f.parameters": {"type": kind}}) for kind in ("array", "object"))
    assert derived("hermes", found).lark == constrained("hermes", alike, strict_level=PARAMETER).lark


@pytest.mark.parametrize("pattern", [r"^\(\?=x$", "[(?=]", r"(?:a)\\1", "(?P<a>x)", "[]"])
def test_a_pattern_that_only_looks_like_an_assertion_has_a_grammar(pattern: str) -> None:
    assert derived("hermes", as_tools({"f": property_(type="string", pattern=pattern)}), "required")


def test_an_engine_that_refuses_a_level_gets_the_next_one_and_never_less_than_the_request_demands() -> None:
    def looser(found: Constraint | None) -> Constraint | None:
        return present(present(found).looser)()

    names = looser(derived("hermes", as_tools({"f": CITY})))
    assert present(names).lark == constrained("hermes", as_tools({"f": CITY}), strict_level=FUNCTION).lark
    assert looser(names) is None
    strict = [{"type": "function", "function": {"name": "f", "parameters": CITY, "strict": True}}]
    own = present(looser(looser(derived("hermes", strict))))
    assert (own.looser, "city" in own.lark) == (None, True)
    assert derived("hermes", as_tools({"f": CITY}), "required").looser is None
