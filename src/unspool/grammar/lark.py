"""Prints a grammar as Lark text for llguidance.

Its terminals may be complements (``~``) and intersections (``&``), so free text excludes exactly the markers that
would end it; JSON values are ``%json`` blocks. Markers that are special tokens of the tokenizer are written by id,
because llguidance never lets text spell a special token.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .flat import ANY, OPEN_SPAN, begun, count, expression, folded, searched, verbatim
from .freeform import Freeform
from .lower import Abilities, Printer, lowered
from .nodes import MAX_JSON_SPACE, Chars, Const, Free, Grammar, Json, Node, Text, Word
from .schemas import mapped

_ABILITIES: Final = Abilities(complements=True, mixed_case=True)
_OPTIONS: Final = {"whitespace_pattern": f"[\\x20\\x0A\\x0D\\x09]{{1,{MAX_JSON_SPACE}}}", "coerce_one_of": True}
_SPACED: Final = {
    "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "coerce_one_of": True
}  # fmt: skip


def lark(grammar: Grammar, special: Mapping[str, int], *, spaced: bool = False) -> str:
    """The text of a Lark grammar, from the rule ``start``.

    Args:
        grammar: the grammar.
        special: the tokenizer's special tokens.
        spaced: JSON has one space after each comma and colon, and no other white space.
    """
    grammar = lowered(grammar, _ABILITIES)
    printer = _Printer(special, _SPACED if spaced else _OPTIONS)
    rules = [f"start: {printer.node(grammar.root)}"]
    # Only rules that are referred to, in the order of references.
    for name in printer.wanted:
        rules.append(f"{name}: {printer.node(grammar.rules[name])}")
    return "\n".join(["%llguidance {}", *rules, *printer.definitions]) + "\n"


_URI: Final = r"^[A-Za-z][A-Za-z0-9+.\-]*:[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+$"


def _spelled_out(schema: Any) -> Any:
    """A schema for the llguidance in llama.cpp, which is built without the format ``uri``."""
    if not isinstance(schema, dict):
        return schema
    found = mapped(schema, _spelled_out)
    if found.get("format") == "uri":
        del found["format"]
        found.setdefault("pattern", _URI)
    return found


class _Printer(Printer):
    def __init__(self, special: Mapping[str, int], options: Mapping[str, Any]) -> None:
        self.special = special
        self.options = options
        longest = sorted((t for t in special if t), key=len, reverse=True)
        self.cut = re.compile(f"({'|'.join(map(re.escape, longest)) or '(?!)'})")
        self.definitions: list[str] = []
        self.wanted: list[str] = []
        self.names: dict[str, str] = {}

    def define(self, kind: str, body: str, options: str = "") -> str:
        """The name of a rule or terminal with this body, which is defined once."""
        key = f"{kind}{options}: {body}"
        if key not in self.names:
            self.names[key] = f"{kind}{len(self.names)}"
            self.definitions.append(f"{self.names[key]}{options}: {body}")
        return self.names[key]

    def ref(self, name: str) -> str:
        if name not in self.wanted:
            self.wanted.append(name)
        return name

    def flat(self, node: Chars | Word) -> str:
        without = node.without if isinstance(node, Word) else ()
        return self.define("T", f"/{expression(node)}/" + self.limits(Text("", without), without))

    def free(self, node: Free) -> str:
        return self.define("f", "%lark {\n" + Freeform(node.source).written(node.quote, node.without) + "}")

    def const(self, text: str) -> str:
        if not text:
            return '""'
        return " ".join(f"<[{self.special[p]}]>" if p in self.special else _quoted(p) for p in self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        return [piece for piece in self.cut.split(text) if piece]

    def text(self, node: Text) -> str:
        pieces = self.pieces(node.stop)
        if node.head and (not pieces or set(self.special) & {*self.pieces(node.head), pieces[0]}):
            return f"{self.const(node.head)} {self.text(msgspec.structs.replace(node, head=''))}"
        if pieces and pieces[0] not in self.special:
            return " ".join([self.lazy(node, pieces[0]), *(self.const(p) for p in pieces[1:])])
        # A lexeme is never empty, so one that may be empty is made optional.
        body = self.characters(node, max(1, node.min)) + self.limits(node, (node.stop, *node.without))
        name = self.define("T", body) + ("" if node.min or node.pattern else "?")
        return f"{name} {self.const(node.stop)}" if pieces else name

    def lazy(self, node: Text, stop: str) -> str:
        """Free text with its beginning and the text that ends it, as one lexeme."""
        bounded = bool(node.min or node.max is not None or node.pattern or node.code)
        markers = () if node.guard else (node.stop, *node.without) if bounded else node.without
        limits = self.limits(node, markers, node.guard)
        if not (bounded or limits or node.head):
            return self.define("t", f"/{ANY}*{verbatim(stop)}/", "[lazy]")
        inner = self.define("T", self.characters(node, node.min) + limits)
        head = f"{_quoted(node.head)} " if node.head else ""
        return self.define("t", self.define("T", f"{head}{inner} {_quoted(stop)}"), "[lazy]")

    def characters(self, node: Text, low: int) -> str:
        counted = f"/{ANY}{count(low, node.max)}/"
        if not node.pattern:
            return counted
        pattern = f"/{searched(node.pattern).replace(chr(92) + '/', '/').replace('/', chr(92) + '/')}/"
        return pattern if (low, node.max) == (0, None) else f"{pattern} & {counted}"

    def limits(self, node: Text, markers: tuple[str, ...], guard: tuple[Node, ...] = ()) -> str:
        """The texts that a terminal must not match, as one complement, since each one costs the lexer time."""
        held = "|".join((*(verbatim(m) for m in markers if m), *map(folded, node.folded), *map(expression, guard)))
        first = "|".join(map(expression, node.unlike))
        last = "|".join(
            (
                *(expression(n) for n in (*begun((*map(Const, markers), *guard), node.stop), *node.ends)),
                *(folded(n.text) for n in begun(map(Const, node.folded), node.stop.lower()) if isinstance(n, Const)),
            )
        )
        refused = [f"{ANY}*(?:{held}){ANY}*"] if held else []
        refused += [f"(?:{first}){ANY}*"] if first else []
        refused += [f"{ANY}*(?:{last})"] if last else []
        refused += [OPEN_SPAN] if node.code and node.stop else []
        return f" & ~/{'|'.join(refused)}/" if refused else ""

    def json(self, node: Json) -> str:
        schema = _spelled_out(node.schema) if self.options is _SPACED else node.schema
        whole: dict[str, Any] = {"x-guidance": self.options, **(schema if isinstance(schema, dict) else {})}
        return self.define("j", "%json " + json.dumps(whole, ensure_ascii=False))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
