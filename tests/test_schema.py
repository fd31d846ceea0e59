"""What a schema says about argument values, and how their text becomes JSON."""

import inspect
import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from unspool.schema import _NAMES, MAX_NESTING, Kinds, Schema, for_tool, tool_name
from unspool.schema import decode as schema_decode

from .support import present

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def types(node: object) -> set[str] | None:
    found = Schema(node).types
    return None if found is None else set(found)


def types_of(schema: Schema | None) -> set[str] | None:
    found = present(schema).types
    return None if found is None else set(found)


STATED: dict[str, list[tuple[object, set[str] | None]]] = {
    "a schema has the types that it states": [
        *(({"type": name}, {name}) for name in sorted(_NAMES)), ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": ["integer", "number"]}, {"number"}),  # it stands for integers too
        *(({kind: [STRING, {"type": "null"}]}, {"string", "null"}) for kind in ("anyOf", "oneOf")),
        # Requirements are an intersection, of which the unknown ones are ignored.
        ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, {"integer"}),
        ({"allOf": [STRING, {}, True, {"minLength": 3}]}, {"string"}),
        ({"allOf": [{"type": "number"}, {"type": ["integer", "string"]}]}, {"integer"}),
        ({"type": ["number", "string"], "anyOf": [{"type": "number"}, STRING]}, {"number", "string"}),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"object"}),
        ({"type": ["string", "null"], "anyOf": [STRING, INTEGER]}, {"string"}),
        # What contradicts itself is ignored.
        ({"type": "string", "enum": [1, 2]}, None),
        ({"anyOf": [{"type": "string", "enum": [1]}, INTEGER]}, {"integer"}),
    ],
    "nullable adds null to the type that it stands beside": [
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"type": ["string", "integer"], "nullable": True}, {"string", "integer", "null"}),
        ({"anyOf": [STRING, INTEGER], "nullable": True}, {"string", "integer"}),
        ({"enum": ["a"], "nullable": True}, {"string"}), ({"type": "string", "nullable": False}, {"string"}),
        ({"type": "string", "nullable": "yes"}, {"string"}), ({"nullable": True}, None),
    ],
    "enums and constants have the types of their values": [
        ({"enum": ["a", "b"]}, {"string"}), ({"enum": ["a", None, 1]}, {"string", "null", "integer"}),
        ({"enum": [1, 2.5]}, {"number"}), ({"enum": [True]}, {"boolean"}),
        ({"enum": [{}, []]}, {"object", "array"}), ({"const": 5}, {"integer"}), ({"const": None}, {"null"}),
        ({"enum": []}, None), ({"enum": "abc"}, None), ({"enum": ["a", object()]}, None),
        ({"type": "string", "enum": ["a", None]}, {"string"}), ({"type": "number", "enum": [1, 2]}, {"integer"}),
    ],
    "keywords of one type imply it where none is named": [
        ({"properties": {}}, {"object"}), ({"required": ["a"]}, {"object"}), ({"items": STRING}, {"array"}),
        ({"items": True}, {"array"}), ({"prefixItems": [STRING]}, {"array"}),
        ({"properties": {}, "items": {}}, {"object", "array"}), ({"items": [STRING, INTEGER]}, {"array"}),
        ({"properties": 3, "required": True, "items": None}, None),
        ({"type": "string", "properties": {}}, {"string"}),
    ],
}  # fmt: skip
"""Schemas, and their types, by what they show."""


class TestTypesOfASchema:
    @pytest.mark.parametrize("what", STATED)
    def test_a_schema_has_these_types(self, what: str) -> None:
        assert [(node, types(node)) for node, _ in STATED[what]] == STATED[what]

    @pytest.mark.parametrize("kind", ["anyOf", "oneOf"])
    @pytest.mark.parametrize("unknown", [{}, True, False, None, 3, "string", [], {"type": "any"}])
    def test_an_unknown_alternative_makes_the_union_unknown(self, kind: str, unknown: object) -> None:
        assert types({kind: [STRING, unknown]}) is None

    @pytest.mark.parametrize(
        "node",
        [
            *(None, True, False, 3, "string", [], [STRING], {}, {"type": None}, {"type": []}),
            *({"type": ["string", "date"]}, {"type": {}}, {"type": [[]]}, {"anyOf": []}, {"anyOf": STRING}),
            *({"allOf": 3}, {"$ref": 3}, {1: 2}),
        ],
    )
    def test_a_malformed_schema_is_ignored(self, node: object) -> None:
        schema = Schema(node)
        assert schema.types is None
        assert schema.property("a") is None
        assert schema.items() is None


ROOT: dict[str, Any] = {
    "$defs": {"Size": {"enum": ["S", "M"]}, "a/b": INTEGER, "m~n": {"type": "boolean"}, "sp ace": {"type": "null"}},
    "definitions": {"Chain": {"$ref": "#/$defs/Size"}},
    "list": [STRING, INTEGER],
}


class TestReferences:
    @pytest.mark.parametrize(
        ("ref", "expected"), [
            ("#/$defs/Size", {"string"}), ("#/definitions/Chain", {"string"}), ("#/$defs/a~1b", {"integer"}),
            ("#/$defs/m~0n", {"boolean"}), ("#/$defs/sp%20ace", {"null"}), ("#/%24defs/Size", {"string"}),
            ("#/list/1", {"integer"}), ("#/list/2", None), ("#/list/x", None), ("#/list/" + "9" * 5_000, None),
            ("#/$defs/Missing", None), ("#/$defs/Size/enum/0/x", None), ("#anchor", None),
            ("https://example.org/schema", None), ("", None), ("#/" + "a/" * 1_000, None),
        ],
    )  # fmt: skip
    def test_local_pointers_are_followed_and_others_are_unknown(self, ref: str, expected: set[str] | None) -> None:
        assert types_of(Schema({"$ref": ref}, ROOT)) == expected

    def test_keywords_beside_a_reference_count(self) -> None:
        root = {"properties": {"a": {"$ref": "#/$defs/T", "type": ["string", "null"]}}, "$defs": {"T": STRING}}
        assert types_of(Schema(root).property("a")) == {"string"}
        assert types({"$ref": "#/missing", "type": "string"}) == {"string"}

    @pytest.mark.parametrize("node", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}, {"allOf": [{"$ref": "#"}] * 3}])
    def test_a_reference_to_nothing_but_itself_says_nothing(self, node: object) -> None:
        assert types(node) is None
        assert Schema(node).property("a") is None
        assert Schema(node).items() is None

    def test_a_circular_reference_adds_nothing_to_keywords_beside_it(self) -> None:
        assert types({"anyOf": [STRING, {"$ref": "#"}]}) == {"string"}
        assert types({"allOf": [STRING, {"$ref": "#"}]}) == {"string"}
        ring = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [INTEGER, {"$ref": "#/$defs/A"}]}}}
        assert types_of(Schema({"$ref": "#/$defs/A"}, ring)) == {"integer"}

    def test_a_python_object_that_holds_itself_is_a_circle_like_any_other(self) -> None:
        node: dict[str, Any] = {"anyOf": [STRING]}
        node["anyOf"].append(node)
        assert types(node) == {"string"}

    def test_a_recursive_schema_is_followed_to_any_requested_depth(self) -> None:
        kids = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
        node = {"type": "object", "properties": {"name": STRING, "kids": kids}}
        tree = Schema({"$ref": "#/$defs/Tree", "$defs": {"Tree": node}})
        for _ in range(500):
            assert types_of(tree.property("name")) == {"string"}
            assert types_of(tree.property("kids")) == {"array"}
            tree = present(present(tree.property("kids")).items())

    def test_the_schema_of_json_itself_does_not_grow_with_depth(self) -> None:
        """Each level has two ways to the next one; 60 levels would otherwise be 2**60 nodes."""
        member = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}
        branch = {"type": "object", "properties": {"x": member}}
        root = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": branch, "B": dict(branch)}}
        schema = Schema(root)
        started = time.process_time()
        for _ in range(60):
            assert types_of(schema) == {"object"}
            schema = present(schema.property("x"))
        assert time.process_time() - started < 1


class TestBounds:
    def test_combinations_that_double_at_each_level_are_given_up_as_unknown(self) -> None:
        defs: dict[str, Any] = {"d0": STRING}
        for n in range(1, 60):
            defs[f"d{n}"] = {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}, {"$ref": f"#/$defs/d{n - 1}"}]}
        schema = Schema({"$ref": "#/$defs/d59", "$defs": defs})
        started = time.process_time()
        assert schema.types is None
        assert schema.property("x") is None
        assert schema.items() is None
        assert time.process_time() - started < 1

    def test_nesting_beyond_the_bound_is_unknown(self) -> None:
        def nested(levels: int) -> object:
            node: object = STRING
            for _ in range(levels):
                node = {"allOf": [node]}
            return node

        assert types(nested(60)) == {"string"}
        assert types(nested(70)) is None
        assert types(nested(100_000)) is None
        assert Schema(nested(100_000)).property("x") is None

    def test_a_long_chain_of_references_is_unknown(self) -> None:
        defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(200)}
        defs["d200"] = STRING
        assert types({"$ref": "#/$defs/d0", "$defs": defs}) is None
        assert types({"$ref": "#/$defs/d180", "$defs": defs}) == {"string"}

    def test_a_huge_enum_is_unknown_unless_a_type_stands_beside_it(self) -> None:
        values = [str(n) for n in range(50_000)]
        assert types({"enum": values}) is None
        assert types({"enum": values, "type": "string"}) == {"string"}

    def test_a_huge_union_is_unknown(self) -> None:
        assert types({"anyOf": [dict(STRING) for _ in range(50_000)]}) is None


class TestChildren:
    def test_a_declared_property_is_found_and_an_undeclared_one_is_none(self) -> None:
        schema = Schema({"type": "object", "properties": {"a": STRING}})
        assert types_of(schema.property("a")) == {"string"}
        assert schema.property("b") is None

    def test_a_property_declared_by_a_malformed_schema_is_declared_and_unknown(self) -> None:
        schema = Schema({"properties": {"a": 3, "b": True, "c": None}})
        assert [types_of(schema.property(name)) for name in "abc"] == [None, None, None]

    def test_additional_properties_declare_the_others_only_where_they_are_a_schema(self) -> None:
        schema = Schema({"properties": {"a": STRING}, "additionalProperties": INTEGER})
        assert types_of(schema.property("a")) == {"string"}
        assert types_of(schema.property("b")) == {"integer"}
        assert Schema({"additionalProperties": True}).property("b") is None
        assert Schema({"additionalProperties": False}).property("b") is None
        assert Schema({"patternProperties": {".*": STRING}}).property("b") is None

    def test_properties_are_united_over_alternatives_that_declare_them(self) -> None:
        declared = ({"x": STRING}, {"x": INTEGER}, {"y": STRING})
        branches = [{"type": "null"}, *({"properties": each} for each in declared)]
        for kind in ("anyOf", "oneOf"):
            assert types_of(Schema({kind: branches}).property("x")) == {"string", "integer"}

    def test_properties_are_intersected_over_requirements(self) -> None:
        required = [{"properties": {"x": {"type": ["integer", "string"]}}}, {"properties": {"x": INTEGER}}]
        schema = Schema({"properties": {"x": {"type": ["string", "integer", "null"]}}, "allOf": required})
        assert types_of(schema.property("x")) == {"integer"}

    def test_items_are_one_schema_or_the_union_of_a_tuple(self) -> None:
        assert types_of(Schema({"items": STRING}).items()) == {"string"}
        assert types_of(Schema({"prefixItems": [STRING, INTEGER]}).items()) == {"string", "integer"}
        assert types_of(Schema({"prefixItems": [STRING], "items": INTEGER}).items()) == {"string", "integer"}
        assert types_of(Schema({"prefixItems": [STRING], "items": False}).items()) == {"string"}
        assert types_of(Schema({"items": [STRING, INTEGER]}).items()) == {"string", "integer"}
        assert types_of(Schema({"items": [STRING], "additionalItems": INTEGER}).items()) == {"string", "integer"}
        assert types_of(Schema({"items": True}).items()) is None
        assert Schema({"type": "array"}).items() is None

    def test_items_of_nested_arrays_keep_the_root_of_their_references(self) -> None:
        schema = Schema({"items": {"items": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "boolean"}}})
        assert types_of(present(schema.items()).items()) == {"boolean"}


PARAMETERS = {"type": "object", "properties": {"city": STRING}}


class TestTools:
    @pytest.mark.parametrize(
        "tool",
        [
            {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
            {"type": "function", "name": "f", "parameters": PARAMETERS},
            {"name": "f", "parameters": PARAMETERS},
        ],
    )
    def test_nested_and_flat_tools_are_read(self, tool: dict[str, Any]) -> None:
        assert tool_name(tool) == "f"
        assert types_of(for_tool(tool).property("city")) == {"string"}

    @pytest.mark.parametrize(
        "tool", [{}, {"function": None}, {"function": 3}, {"function": {"name": 3}}, {"name": ""}, None, 3, []]
    )
    def test_malformed_tools_have_no_name_and_an_unknown_schema(self, tool: Any) -> None:
        assert tool_name(tool) is None
        assert for_tool(tool).types is None


def decode(text: str, types: Any) -> tuple[str, bool]:
    return schema_decode(text, None if types is None else Kinds(types))


U = None
S = frozenset({"string"})
SN = frozenset({"string", "null"})
I = frozenset({"integer"})  # noqa: E741
N = frozenset({"number"})
B = frozenset({"boolean"})
Z = frozenset({"null"})
O = frozenset({"object"})  # noqa: E741
A = frozenset({"array"})


class TestDecode:
    @pytest.mark.parametrize(
        ("text", "expected"), [
            ("3", "3"), (" 3\n", "3"), ("1e-07", "1e-07"), ("true", "true"), ("null", "null"),
            ('{"b": 1,  "a": [2]}', '{"b": 1,  "a": [2]}'), ("[1, 2]\n", "[1, 2]"), ("True", '"True"'),
            ("None", '"None"'), ('"quoted"', '"\\"quoted\\""'), (" plain ", '" plain "'), ("", '""'), ("  ", '"  "'),
            ("NaN", '"NaN"'), ("-Infinity", '"-Infinity"'), ('{"a": NaN}', '"{\\"a\\": NaN}"'), ("[1, 2", '"[1, 2"'),
            ("01", '"01"'), ("1 2", '"1 2"'), ("{'a': 1}", "\"{'a': 1}\""), ("\u00a03", '"\u00a03"'),
            ("\ufeff3", '"\ufeff3"'),
        ],
    )  # fmt: skip
    def test_without_a_type_json_other_than_a_string_is_that_json(self, text: str, expected: str) -> None:
        assert decode(text, U) == (expected, True)

    @pytest.mark.parametrize("text", ["true", "null", "123", '"quoted"', "  spaced ", "{}", "", "\n", "北京", "a\\b\t"])
    def test_a_string_is_exactly_its_text(self, text: str) -> None:
        found, fits = decode(text, S)
        assert fits
        assert json.loads(found) == text

    def test_a_string_that_may_be_null_is_null_only_when_bare(self) -> None:
        assert decode("null", SN) == ("null", True)
        assert decode(" null", SN) == ('" null"', True)
        assert decode("None", SN) == ('"None"', True)
        assert decode("3", frozenset({"string", "integer"})) == ('"3"', True)

    @pytest.mark.parametrize(
        ("text", "types", "expected"), [
            ("true", B, "true"), ("True", B, "true"), (" FALSE\n", B, "false"), ("null", Z, "null"),
            ("None", Z, "null"), ("none", Z, "null"), ("3", I, "3"), ("-3", I, "-3"), ("-0", I, "-0"), (" 3 ", I, "3"),
            ("3", N, "3"), ("3.50", N, "3.50"), ("1e-07", N, "1e-07"), ("1E+5", N, "1E+5"),
            ("3.0", I, "3"), ("-20.00", I, "-20"),
            ("3.0", frozenset({"integer", "number"}), "3.0"), ("9007199254740993", I, "9007199254740993"),
            ("{}", O, "{}"), (' {"a": 1e308}\n', O, '{"a": 1e308}'), ("[]", A, "[]"),
            ('["\\ud800", 1.10]', A, '["\\ud800", 1.10]'), ("null", frozenset({"object", "null"}), "null"),
            ("[1]", frozenset({"object", "array"}), "[1]"),
        ],
    )  # fmt: skip
    def test_other_types_keep_the_models_own_text(self, text: str, types: frozenset[str], expected: str) -> None:
        assert decode(text, types) == (expected, True)

    @pytest.mark.parametrize(
        ("text", "types"), [
            ("yes", B), ("1", B), ("truer", B), ("nil", Z), ("NULL", Z), ("3.5", I), ("1e3", I), ("03", I), ("+3", I),
            ("3.", N), (".5", N), ("1_000", N), ("٣", N), ("NaN", N), ("Infinity", N), ("three", N), ("", N),
            ("null", N), ("[]", O), ("{}", A), ("{'a': 1}", O), ('{"a": NaN}', O), ('{"a": 1} x', O),
            ('{"a": "\n"}', O), ("[1,]", A), ("[", A), ('"{}"', O), ("3", frozenset()), ("\u00a03", I),
        ],
    )  # fmt: skip
    def test_a_value_that_does_not_fit_becomes_a_string_with_a_mark(self, text: str, types: frozenset[str]) -> None:
        assert decode(text, types) == (json.dumps(text, ensure_ascii=False), False)

    @pytest.mark.parametrize("types", [U, I, N])
    def test_no_digit_of_a_huge_number_is_lost(self, types: frozenset[str] | None) -> None:
        digits = "1234567890" * 1_000  # beyond the 4,300 digits that int() takes
        assert decode(digits, types) == (digits, True)

    def test_nesting_is_allowed_up_to_the_bound(self) -> None:
        fits, beyond = ("[" * n + "]" * n for n in (MAX_NESTING, MAX_NESTING + 1))
        assert decode(fits, A) == (fits, True)
        assert decode(beyond, A) == (json.dumps(beyond), False)
        assert decode(beyond, U) == (json.dumps(beyond), True)

    def test_wide_values_and_brackets_in_strings_are_not_deep(self) -> None:
        wide = "[" + ", ".join(["[]"] * 5_000) + "]"
        assert decode(wide, A) == (wide, True)
        quoted = json.dumps(["[" * 2_000 + '"\\'] * 2)
        assert decode(quoted, A) == (quoted, True)

    @pytest.mark.parametrize("opener", ["[", '{"a":', "[{", '"[', "\\"])
    def test_hostile_nesting_never_raises(self, opener: str) -> None:
        text = opener * 200_000
        for types in (U, S, O, A, N):
            assert json.loads(decode(text, types)[0]) == text

    def test_a_callers_nearly_exhausted_stack_does_not_raise(self) -> None:
        text = "[" * 500 + "]" * 500

        def deep(levels: int) -> tuple[str, bool]:
            return deep(levels - 1) if levels else decode(text, A)

        used = len(inspect.stack(0))
        assert deep(sys.getrecursionlimit() - used - 100)[0] in (text, json.dumps(text))

    @pytest.mark.parametrize("body", ["9" * 400_000 + "x", "[" * 400_000, '["' + '\\"' * 200_000, "1." + "0" * 400_000])
    def test_decoding_is_linear_in_the_text(self, body: str) -> None:
        started = time.process_time()
        for types in (U, N, A):
            decode(body, types)
        assert time.process_time() - started < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
TYPES = st.none() | st.frozensets(
    st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
)
KEYWORDS = st.sampled_from(
    [
        *("type", "anyOf", "oneOf", "allOf", "$ref", "$defs", "properties", "items", "prefixItems", "enum", "const"),
        *("nullable", "required", "additionalProperties", "additionalItems", "a"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "integer", "null", "#", "#/$defs/a", "#/properties/a", "#/anyOf/0", "#/x~1y"])
)
NODES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner, max_size=5), max_leaves=30
)

WELL_FORMED = st.recursive(
    st.lists(st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"]), min_size=1).map(
        lambda names: {"type": sorted(set(names))}
    )
    | st.lists(JSON, min_size=1, max_size=3).map(lambda values: {"enum": values})
    | st.just({"$ref": "#/$defs/T"})
    | st.just({}),
    lambda inner: st.dictionaries(
        st.sampled_from(["anyOf", "allOf"]), st.lists(inner, min_size=1, max_size=3), min_size=1, max_size=2
    ),
    max_leaves=8,
)
SAMPLES: dict[str, Any] = {"string": "", "number": 0.5, "integer": 3, "boolean": True, "null": None}
SAMPLES |= {"object": {}, "array": []}


class TestProperties:
    @given(WELL_FORMED, WELL_FORMED)
    def test_no_type_is_ruled_out_that_a_validator_accepts(self, node: dict[str, Any], shared: dict[str, Any]) -> None:
        root = {**node, "$defs": {"T": shared}} if "#/$defs/T" not in json.dumps(shared) else {"type": "null"}
        found = types(root)
        validator = Draft202012Validator(root)
        for name, value in SAMPLES.items():
            if found is not None and validator.is_valid(value):
                assert name in found or (name == "integer" and "number" in found)

    @given(NODES)
    def test_no_schema_raises_whatever_it_holds(self, node: object) -> None:
        schema = Schema(node)
        for child in (schema, schema.property("a"), schema.items(), for_tool({"parameters": node})):
            if child is not None:
                assert child.types is None or child.types
                child.property("a")
                child.items()

    @given(st.text(), TYPES)
    def test_decoding_always_gives_json_and_never_raises(self, text: str, types: frozenset[str] | None) -> None:
        found, fits = decode(text, types)
        value = json.loads(found)
        if not fits or (types is not None and "string" in types and text != "null"):
            assert value == text

    @given(JSON.filter(lambda value: not isinstance(value, str)))
    def test_json_that_is_no_string_survives_without_a_type(self, value: object) -> None:
        text = json.dumps(value, ensure_ascii=False)
        assert decode(f"\n{text} ", None) == (text, True)
