"""Random values by schema, for messages that follow their tools' schemas."""

import random
from typing import Any

# The text `null` is missing, because in markup it means null if the schema allows null.
TEXTS = (
    "", "a", "Zürich", "two words", 'say "hi"', "it's", "<b>&amp;</b>", "line\nbreak", "{[1]}", "12", "\\n",
)  # fmt: skip


def random_value(schema: Any, root: Any, rng: random.Random) -> Any:
    """A random value of a schema (keywords as in `tests.grammar.sampling`), with keys in the schema's order."""
    if schema is True or not schema:
        return rng.choice((*TEXTS, 3, True, None))
    if "$ref" in schema:
        return random_value(root["$defs"][schema["$ref"].rpartition("/")[2]], root, rng)
    if "allOf" in schema:
        whole: dict[str, Any] = {}
        for part in schema["allOf"]:
            whole |= part
        return random_value(whole, root, rng)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return random_value(rng.choice(schema[key]), root, rng)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if isinstance(kind, list):
        return random_value({**schema, "type": rng.choice(kind)}, root, rng)
    if kind == "object":
        required = schema.get("required", ())
        return {
            k: random_value(v, root, rng)
            for k, v in schema.get("properties", {}).items()
            if k in required or rng.random() < 0.6
        }
    if kind == "array":
        if "prefixItems" in schema:
            return [random_value(item, root, rng) for item in schema["prefixItems"]]
        low = schema.get("minItems", 0)
        count = rng.randint(low, min(schema.get("maxItems", 2), low + 2))
        return [random_value(schema["items"], root, rng) for _ in range(count)]
    if kind == "string":
        low, high = schema.get("minLength", 0), schema.get("maxLength", 100)
        return rng.choice([t for t in TEXTS if low <= len(t) <= high])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "integer":
        return rng.choice((0, -3, 41, 2**60))
    return rng.choice((0, 2.5, -17, 1e-07))
