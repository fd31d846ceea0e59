"""Prints a grammar as a structural tag, a JSON object for xgrammar, vLLM and SGLang.

Node types are those of xgrammar 0.2. Recursive rules are written as one ``grammar`` node (xgrammar's EBNF), all
others as nested formats. A structural tag is narrower than the grammar in two places: a marker that free text must
not *begin* with is excluded from all of it, and text that has a minimum length lacks one character of each marker.
"""

from collections.abc import Iterable
from typing import Any, Final, assert_never

from ..errors import ConstraintError
from .flat import begun, count, expression, lacking
from .freeform import NO_LARK
from .lower import Abilities, lowered
from .nodes import (
    MAX_JSON_SPACE,
    Chars,
    Choice,
    Const,
    Finer,
    Free,
    Grammar,
    Json,
    Node,
    Ref,
    Repeat,
    Seq,
    Text,
    Word,
    children,
)

__all__ = ["structural_tag"]

Format = dict[str, Any]

_ABILITIES: Final = Abilities(excludes=True)
_MAX_PARTS: Final = 100_000
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords of a schema whose values map names to schemas."""
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
"""Keywords that contain values, not schemas."""


def structural_tag(grammar: Grammar) -> dict[str, Any]:
    """``{"type": "structural_tag", "format": …}``.

    Raises:
        ConstraintError: the format cannot express a schema.
    """
    plain = lowered(grammar, _ABILITIES)
    return {"type": "structural_tag", "format": _Printer(plain).format(plain.root)}


class _Printer:
    def __init__(self, grammar: Grammar) -> None:
        self.rules = grammar.rules
        self.recursive = _recursive(grammar)
        self.dense = grammar.dense
        self.made: dict[str, tuple[Format, int]] = {}
        self.size = 0

    def format(self, node: Node) -> Format:
        self.size += 1
        if self.size > _MAX_PARTS:
            raise ConstraintError("tools: the structural tag would be too large")
        match node:
            case Ref():
                return self.rule(node)
            case Const():
                return {"type": "const_string", "value": node.text}
            case Chars() | Word():
                return {"type": "regex", "pattern": expression(node)}
            case Seq():
                return self.sequence([self.format(p) for p in node.parts])
            case Choice():
                parts = [self.format(p) for p in node.parts if p != Const("")]
                either = parts[0] if len(parts) == 1 else {"type": "or", "elements": parts}
                return {"type": "optional", "content": either} if len(parts) < len(node.parts) else either
            case Repeat():
                return self.repeat(node)
            case Text():
                return self.text(node)
            case Json():
                return self.json(node)
            case Free():
                raise ConstraintError(NO_LARK)
            case Finer():
                raise TypeError("the grammar is not lowered")
            case _:
                assert_never(node)

    def json(self, node: Json) -> Format:
        if _holds(node.schema, "allOf"):
            raise ConstraintError(
                "allOf: its parts cannot be merged into one schema, and structural tags do not support allOf"
            )
        found: Format = {
            "type": "json_schema",
            # Where markers are excluded, xgrammar excludes control characters too, and a pattern would admit markers.
            "json_schema": _possible(node.schema) if node.without else _bounded(_possible(node.schema)),
            "max_whitespace_cnt": MAX_JSON_SPACE,
        }
        if node.without:
            found["excludes"] = list(node.without)
        return found

    def rule(self, ref: Ref) -> Format:
        """A rule, expanded in place."""
        name = ref.name
        if name not in self.made:
            before = self.size
            self.made[name] = self.written(ref), self.size - before
        else:
            self.size += self.made[name][1]
            if self.size > _MAX_PARTS:
                raise ConstraintError("tools: the structural tag would be too large")
        return self.made[name][0]

    def written(self, ref: Ref) -> Format:
        recursive = ref.name in self.recursive
        if recursive or ref.name in self.dense:
            try:
                return {"type": "grammar", "grammar": _Ebnf(self.rules).grammar(ref)}
            except ConstraintError:
                if recursive:
                    raise
        return self.format(self.rules[ref.name])

    def sequence(self, parts: list[Format]) -> Format:
        flat: list[Format] = []
        for part in parts:
            inner = part["elements"] if part["type"] == "sequence" else [part]
            for one in inner:
                if one["type"] == "const_string" and flat and flat[-1]["type"] == "const_string":
                    flat[-1] = {"type": "const_string", "value": flat[-1]["value"] + one["value"]}
                else:
                    flat.append(one)
        return flat[0] if len(flat) == 1 else {"type": "sequence", "elements": flat}

    def repeat(self, node: Repeat) -> Format:
        part = self.format(node.part)
        low, high = node.min, node.max
        if not node.separator:
            return _repeated(part, low, high)
        if high == 0:
            return {"type": "const_string", "value": ""}
        more = self.sequence([{"type": "const_string", "value": node.separator}, part])
        found = self.sequence([part, _repeated(more, max(0, low - 1), None if high is None else high - 1)])
        return found if low else {"type": "optional", "content": found}

    def text(self, node: Text) -> Format:
        if node.pattern:
            raise ConstraintError(f"pattern: {node.pattern!r} is not supported by structural tags in unquoted text")
        without = _excluded(node)
        body: Format
        if node.min:
            lacked = _members(lacking(without, node.stop))
            body = {"type": "regex", "pattern": expression(Chars(lacked, True, node.min, node.max))}
        elif node.code and node.stop:
            body = self.quoting(without)
        else:
            body = {"type": "any_text"}
            if without:
                body["excludes"] = without
            if node.max is not None:
                body["max_chars"] = node.max
        parts = [body]
        if node.head:
            parts.insert(0, {"type": "const_string", "value": node.head})
        if node.stop:
            parts.append({"type": "const_string", "value": node.stop})
        return self.sequence(parts)

    def quoting(self, without: list[str]) -> Format:
        """Text that ends outside of code spans: every pair of backticks is closed, or its line ends. Directly after
        backticks, no text begins with the first character of a marker."""
        plain: Format = {"type": "any_text", "excludes": [*without, "`"]}
        inside: Format = {"type": "any_text", "excludes": [*without, "`", "\n"]}
        tick: Format = {"type": "const_string", "value": "`"}
        line: Format = {"type": "const_string", "value": "\n"}
        begun: Format = {"type": "regex", "pattern": expression(Chars(_members({t[0] for t in [*without, "`"]}), True))}
        several: Format = {"type": "regex", "pattern": "``+"}
        quote: Format = {"type": "or", "elements": [several, self.sequence([tick, inside, tick])]}
        cut: Format = self.sequence([tick, inside, line, plain])
        whole: Format = {"type": "or", "elements": [self.sequence([quote, begun, plain]), cut]}
        last: Format = {"type": "optional", "content": quote}
        return self.sequence([plain, {"type": "star", "content": whole}, last])


def _excluded(node: Text) -> list[str]:
    """The texts that a text must not contain: markers, and the beginnings of markers that its stop would complete."""
    completed = [n.text for n in begun(map(Const, node.without), node.stop) if isinstance(n, Const)]
    return list(dict.fromkeys(t for t in (node.stop, *node.without, *completed) if t))


def _members(characters: Iterable[str]) -> str:
    """Characters as the inside of a character class."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join("\\" + c if c in "\\]^-[" else named.get(c, c) for c in sorted(characters))


def _possible(schema: "dict[str, Any] | bool") -> "dict[str, Any] | bool":
    """A schema without members that must not exist, which xgrammar refuses."""
    if not isinstance(schema, dict) or False not in schema.get("properties", {}).values():
        return schema
    return {**schema, "properties": {k: v for k, v in schema["properties"].items() if v is not False}}


def _bounded(schema: Any) -> Any:
    """Add a pattern to strings of bounded length. From the length alone, xgrammar makes a rule without escapes that
    admits control characters, and others that no JSON string may contain."""
    if isinstance(schema, list):
        return [_bounded(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            made[key] = {name: _bounded(one) for name, one in value.items()}
        else:
            made[key] = value if key in _VALUES else _bounded(value)
    low, high = made.get("minLength"), made.get("maxLength")
    if "string" in made.get("type", ()) and {"pattern", "format"}.isdisjoint(made) and (low or high) is not None:
        made["pattern"] = f'^[^"\\\\\\x00-\\x1f]{{{low or 0},{"" if high is None else high}}}$'
    return made


def _holds(schema: object, keyword: str) -> bool:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if keyword in node:
                return True
            waiting.extend(v for k, v in node.items() if k not in ("enum", "const"))
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _repeated(part: Format, low: int, high: int | None) -> Format:
    if (low, high) == (0, None):
        return {"type": "star", "content": part}
    if (low, high) == (1, None):
        return {"type": "plus", "content": part}
    if (low, high) == (0, 1):
        return {"type": "optional", "content": part}
    return (
        part
        if low == high == 1
        else {"type": "repeat", "min": low, "max": -1 if high is None else high, "content": part}
    )


def _recursive(grammar: Grammar) -> frozenset[str]:
    """The recursive rules."""
    uses = {name: _references(node) for name, node in grammar.rules.items()}
    found = set()
    for name in uses:
        seen: set[str] = set()
        waiting = list(uses[name])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting.extend(uses[one])
        if name in seen:
            found.add(name)
    return frozenset(found)


def _references(node: Node) -> list[str]:
    """The rules that a node refers to, each once, always in the same order."""
    found: dict[str, None] = {}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Ref):
            found[one.name] = None
        else:
            waiting.extend(children(one))
    return list(found)


class _Ebnf:
    """Writes recursive rules in xgrammar's EBNF."""

    def __init__(self, rules: dict[str, Node]) -> None:
        self.rules = rules
        self.lines: list[str] = []

    def grammar(self, root: Ref) -> str:
        waiting = [root.name]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                self.lines.append(f"{name} ::= {self.node(self.rules[name])}")
                waiting.extend(_references(self.rules[name]))
        return "\n".join([f"root ::= {root.name}", *self.lines])

    def node(self, node: Node) -> str:
        match node:
            case Ref():
                return node.name
            case Const():
                return _quoted(node.text)
            case Chars():
                return f"[{'^' if node.negated or not node.set else ''}{node.set}]" + count(node.min, node.max)
            case Word():
                return f"({self.node(node.part)})"
            case Seq():
                return " ".join(f"({self.node(p)})" if isinstance(p, Choice) else self.node(p) for p in node.parts)
            case Choice():
                return " | ".join(self.node(p) for p in node.parts)
            case Repeat():
                return self.repeat(node)
            case Text() if not (node.pattern or node.min or node.max is not None or node.code):
                return self.text(node)
            case Text() | Json():
                raise ConstraintError("$ref: structural tags do not support the bounds in this recursive schema")
            case Free():
                raise ConstraintError(NO_LARK)
            case Finer():
                raise TypeError("the grammar is not lowered")
            case _:
                assert_never(node)

    def repeat(self, node: Repeat) -> str:
        part = f"({self.node(node.part)})"
        if not node.separator:
            return part + count(node.min, node.max)
        high = None if node.max is None else max(0, node.max - 1)
        more = f"({_quoted(node.separator)} {part})" + count(max(0, node.min - 1), high)
        return f"({part} {more})" + ("" if node.min else "?")

    def text(self, node: Text) -> str:
        name = f"text{len(self.lines)}"
        listed = ", ".join(map(_quoted, _excluded(node)))
        self.lines.append(f"{name} ::= TagDispatch(excludes=({listed},))")
        return " ".join((*([_quoted(node.head)] if node.head else []), name, _quoted(node.stop)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'.replace("\t", "\\t")
