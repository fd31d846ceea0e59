"""Prints a grammar as a structural tag, a JSON object for xgrammar, vLLM and SGLang.

Node types are those of xgrammar 0.2. Recursive rules are written as one ``grammar`` node (xgrammar's EBNF), all
others as nested formats. A structural tag is narrower than the grammar in two places: a marker that free text must
not *begin* with is excluded from all of it, and text that has a minimum length lacks one character of each marker.
"""

from collections.abc import Iterable
from typing import Any, Final

from ..errors import ConstraintError
from .flat import begun, count, expression, in_class, lacking
from .lower import Abilities, GrammarWriter, Printer, lowered
from .nodes import (
    MAX_JSON_SPACE,
    Alternatives,
    Chars,
    Const,
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
from .schemas import mapped, tables

Format = dict[str, Any]

_ABILITIES: Final = Abilities(excludes=True)
_MAX_PARTS: Final = 100_000


def structural_tag(grammar: Grammar) -> dict[str, Any]:
    """``{"type": "structural_tag", "format": …}``; `ConstraintError` if the format cannot express a schema."""
    plain = lowered(grammar, _ABILITIES)
    return {"type": "structural_tag", "format": _Printer(plain).node(plain.root)}


class _Printer(GrammarWriter[Format]):
    def __init__(self, grammar: Grammar) -> None:
        self.rules = grammar.rules
        self.recursive = _recursive(grammar)
        self.dense = grammar.dense
        self.made: dict[str, tuple[Format, int]] = {}
        self.size = 0

    def node(self, node: Node) -> Format:
        self.grow(1)
        return super().node(node)

    def grow(self, parts: int) -> None:
        self.size += parts
        if self.size > _MAX_PARTS:
            raise ConstraintError("tools: the structural tag would be too large")

    def const(self, text: str) -> Format:
        return {"type": "const_string", "value": text}

    def flat(self, node: Chars | Word) -> Format:
        return _regex(node)

    def seq(self, node: Seq) -> Format:
        return self.sequence(map(self.node, node.parts))

    def choice(self, node: Alternatives) -> Format:
        parts = [self.node(p) for p in node.parts if p != Const("")]
        either = parts[0] if len(parts) == 1 else {"type": "or", "elements": parts}
        return _repeated(either, 0, 1) if len(parts) < len(node.parts) else either

    def json(self, node: Json) -> Format:
        if any("allOf" in inner for inner in tables(node.schema)):
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

    def ref(self, name: str) -> Format:
        if name not in self.made:
            before = self.size
            self.made[name] = self.written(name), self.size - before
        else:
            self.grow(self.made[name][1])
        return self.made[name][0]

    def written(self, name: str) -> Format:
        recursive = name in self.recursive
        if recursive or name in self.dense:
            try:
                return {"type": "grammar", "grammar": _Ebnf(self.rules).grammar(name)}
            except ConstraintError:
                if recursive:
                    raise
        return self.node(self.rules[name])

    def sequence(self, parts: Iterable[Format]) -> Format:
        flat: list[Format] = []
        for part in parts:
            inner = part["elements"] if part["type"] == "sequence" else [part]
            for one in inner:
                if one["type"] == "const_string" and flat and flat[-1]["type"] == "const_string":
                    flat[-1] = self.const(flat[-1]["value"] + one["value"])
                else:
                    flat.append(one)
        return flat[0] if len(flat) == 1 else {"type": "sequence", "elements": flat}

    def repeat(self, node: Repeat) -> Format:
        part = self.node(node.part)
        low, high = node.min, node.max
        if not node.separator:
            return _repeated(part, low, high)
        if high == 0:
            return self.const("")
        more = self.sequence([self.const(node.separator), part])
        found = self.sequence([part, _repeated(more, max(0, low - 1), None if high is None else high - 1)])
        return found if low else _repeated(found, 0, 1)

    def text(self, node: Text) -> Format:
        if node.pattern:
            raise ConstraintError(f"pattern: {node.pattern!r} is not supported by structural tags in unquoted text")
        without = _excluded(node)
        body: Format
        if node.min:
            body = _regex(Chars(in_class(lacking(without, node.stop)), True, node.min, node.max))
        elif node.code and node.stop:
            body = self.quoting(without)
        else:
            body = {"type": "any_text"}
            if without:
                body["excludes"] = without
            if node.max is not None:
                body["max_chars"] = node.max
        head, stop = ([self.const(text)] if text else [] for text in (node.head, node.stop))
        return self.sequence([*head, body, *stop])

    def quoting(self, without: list[str]) -> Format:
        """Text that ends outside of code spans: every pair of backticks is closed, or its line ends. Directly after
        backticks, no text begins with the first character of a marker."""
        plain: Format = {"type": "any_text", "excludes": [*without, "`"]}
        inside: Format = {"type": "any_text", "excludes": [*without, "`", "\n"]}
        tick, line = self.const("`"), self.const("\n")
        begun = _regex(Chars(in_class(sorted({t[0] for t in [*without, "`"]})), True))
        several: Format = {"type": "regex", "pattern": "``+"}
        quote: Format = {"type": "or", "elements": [several, self.sequence([tick, inside, tick])]}
        cut = self.sequence([tick, inside, line, plain])
        whole: Format = {"type": "or", "elements": [self.sequence([quote, begun, plain]), cut]}
        return self.sequence([plain, _repeated(whole, 0, None), _repeated(quote, 0, 1)])


def _regex(node: Node) -> Format:
    return {"type": "regex", "pattern": expression(node)}


def _excluded(node: Text) -> list[str]:
    """The texts that a text must not contain: markers, and the beginnings of markers that its stop would complete."""
    completed = [n.text for n in begun(map(Const, node.without), node.stop) if isinstance(n, Const)]
    return list(dict.fromkeys(t for t in (node.stop, *node.without, *completed) if t))


def _possible(schema: "dict[str, Any] | bool") -> "dict[str, Any] | bool":
    """A schema without members that must not exist, which xgrammar refuses."""
    if not isinstance(schema, dict) or False not in schema.get("properties", {}).values():
        return schema
    return {**schema, "properties": {k: v for k, v in schema["properties"].items() if v is not False}}


def _bounded(schema: Any) -> Any:
    """Add a pattern to strings of bounded length. From the length alone, xgrammar makes a rule without escapes that
    admits control characters, and others that no JSON string may contain."""
    if not isinstance(schema, dict):
        return schema
    made = mapped(schema, _bounded)
    low, high = made.get("minLength"), made.get("maxLength")
    if "string" in made.get("type", ()) and {"pattern", "format"}.isdisjoint(made) and (low or high) is not None:
        made["pattern"] = f'^[^"\\\\\\x00-\\x1f]{{{low or 0},{"" if high is None else high}}}$'
    return made


def _repeated(part: Format, low: int, high: int | None) -> Format:
    if low == high == 1:
        return part
    if named := {(0, None): "star", (1, None): "plus", (0, 1): "optional"}.get((low, high)):
        return {"type": named, "content": part}
    return {"type": "repeat", "min": low, "max": -1 if high is None else high, "content": part}


def _recursive(grammar: Grammar) -> frozenset[str]:
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


_BOUNDED: Final = "$ref: structural tags do not support the bounds in this recursive schema"


class _Ebnf(Printer):
    def __init__(self, rules: dict[str, Node]) -> None:
        self.rules = rules
        self.lines: list[str] = []

    def grammar(self, root: str) -> str:
        waiting = [root]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                self.lines.append(f"{name} ::= {self.node(self.rules[name])}")
                waiting.extend(_references(self.rules[name]))
        return "\n".join([f"root ::= {root}", *self.lines])

    def const(self, text: str) -> str:
        return _quoted(text)

    def ref(self, name: str) -> str:
        return name

    def flat(self, node: Chars | Word) -> str:
        if isinstance(node, Word):
            return f"({self.node(node.part)})"
        return f"[{'^' if node.negated or not node.set else ''}{node.set}]" + count(node.min, node.max)

    def json(self, node: Json) -> str:
        raise ConstraintError(_BOUNDED)

    def text(self, node: Text) -> str:
        if node.pattern or node.min or node.max is not None or node.code:
            raise ConstraintError(_BOUNDED)
        name = f"text{len(self.lines)}"
        listed = ", ".join(map(_quoted, _excluded(node)))
        self.lines.append(f"{name} ::= TagDispatch(excludes=({listed},))")
        return " ".join((*([_quoted(node.head)] if node.head else []), name, _quoted(node.stop)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'.replace("\t", "\\t")
