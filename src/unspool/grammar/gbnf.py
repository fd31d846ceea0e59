"""Prints a grammar as GBNF for llama.cpp; xgrammar reads it as EBNF.

GBNF has no complements, so text that must not contain markers is written as the automaton that searches for them.
Each state is a rule, and every rule is right-recursive. JSON is spelled out, with only the white space that the
renderer writes. Like a structural tag, it is narrower than the grammar if free text must not *begin* with something
or has a bounded length; see `unspool.grammar.tag`. In addition, raw strings that must not contain a marker lack one of
its characters (JSON strings may still contain it, escaped).
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ..errors import ConstraintError
from .flat import count, in_class, lacking
from .lower import Abilities, Printer, lowered
from .nodes import Alternatives, Chars, Const, Grammar, Json, Node, Repeat, Seq, Text, Word, choice, seq
from .schemas import BOUNDS
from .values import JSON_SPELLING, GrammarRules, Values

_ABILITIES: Final = Abilities(mixed_case=True)
_MAX_SIZE: Final = 1_000_000  # the longest grammar, in characters
_MAX_COUNT: Final = 2_000
_WHITE: Final = [
    *((c, c) for c in " \x85\xa0\u1680\u202f\u205f\u3000"),
    *(("\t", "\r"), ("\x1c", "\x1f"), ("\u2000", "\u200a"), ("\u2028", "\u2029")),
]
"""Python's white space, which is what ``\\s`` means in `Chars.set`."""
_NAMED: Final = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
_ITEM: Final = re.compile(r"\\x[0-9a-fA-F]{2}|\\.|-|[^\\]", re.S)


def gbnf(grammar: Grammar) -> str:
    """The text of a grammar, from the rule ``root``; `ConstraintError` if GBNF cannot express it, or it is too long."""
    return _Printer(lowered(grammar, _ABILITIES)).all()


class _Printer(Printer):
    def __init__(self, grammar: Grammar) -> None:
        self.lines: list[str] = []
        self.size = 0
        self.names: dict[tuple[str, object], str] = {}
        self.scopes = {"": grammar.rules}
        self.scope = ""  # whose rules a node refers to: the grammar's, or a JSON value's
        self.waiting: list[tuple[str, str, Node]] = [("root", "", grammar.root)]

    def all(self) -> str:
        while self.waiting:
            name, self.scope, node = self.waiting.pop()
            self.add(name, self.node(node))
        return "\n".join(self.lines) + "\n"

    def add(self, name: str, body: str) -> None:
        self.size += len(name) + len(body)
        if self.size > _MAX_SIZE:
            raise ConstraintError("tools: the grammar would be too large")
        self.lines.append(f"{name} ::= {body}")

    def name(self, prefix: str, key: object) -> tuple[str, bool]:
        """The name of the rule for this key, and whether it is new."""
        at = (prefix, key)
        new = at not in self.names
        if new:
            self.names[at] = f"{prefix}{len(self.names)}"
        return self.names[at], new

    def const(self, text: str) -> str:
        return _quoted(text)

    def ref(self, name: str) -> str:
        rule, new = self.name("r", (self.scope, name))
        if new:
            self.waiting.append((rule, self.scope, self.scopes[self.scope][name]))
        return rule

    def grouped(self, node: Node) -> str:
        text = self.node(node)
        return f"({text})" if isinstance(node, Alternatives | Word) else text

    def repeat(self, node: Repeat) -> str:
        if node.max == 0:
            return '""'
        part = self.symbol(node.part)
        if not node.separator:
            return part + _times(node.min, node.max)
        name, new = self.name("q", (part, node.separator))
        if new:
            self.add(name, f"{_quoted(node.separator)} {part}")
        high = None if node.max is None else node.max - 1
        found = part if high == 0 else f"{part} {name}{_times(max(0, node.min - 1), high)}"
        return found if node.min else f'({found} | "")'

    def symbol(self, node: Node) -> str:
        """A repeated node as one symbol: llama.cpp also counts the symbols inside it, and allows 2,000 in all."""
        name, new = self.name("p", (self.scope, node))
        if new:
            self.waiting.append((name, self.scope, node))
        return name

    def flat(self, node: Chars | Word) -> str:
        if isinstance(node, Chars):
            return _class(node)
        part = _avoiding(node.part, lacking(node.without, '"', "'")) if node.without else node.part
        return self.node(part)

    # -- JSON ------------------------------------------------------------------------------------------------------

    def json(self, node: Json) -> str:
        if node.without:
            raise ConstraintError(node.unspelled)
        if isinstance(node.schema, dict) and (bounds := sorted(set(node.schema) & set(BOUNDS))):
            if node.schema.get("type") != "integer" or "multipleOf" in bounds:
                raise ConstraintError(f"{bounds[0]}: GBNF supports bounds of whole numbers only, and no multipleOf")
            return f"({self.node(integers(node.schema))})"
        name, new = self.name("j", node)
        if new:
            rules = GrammarRules()
            self.waiting.append((name, name, Values(JSON_SPELLING, rules, node.schema).value(node.schema, "schema")))
            self.scopes[name] = rules.found
        return name

    # -- free text -------------------------------------------------------------------------------------------------

    def text(self, node: Text) -> str:
        if node.pattern:
            raise ConstraintError(f"pattern: {node.pattern!r} is not supported in unquoted text")
        without = tuple(dict.fromkeys(t for t in node.without if t and t != node.stop))
        if node.min or node.max is not None:
            body = _all_but(lacking((node.stop, *without), node.stop)) + _times(node.min, node.max)
            rest = node.stop
        else:
            # If the stop contains another marker, the text ends where that ends, and the rest of the stop must follow.
            whole, lower = node.stop, node.stop.lower()
            ends = [whole.find(w) + len(w) for w in without if w in whole]
            ends += [lower.find(f) + len(f) for f in node.folded if f in lower]
            end = min(ends, default=len(whole))
            stop, rest = whole[:end], whole[end:]
            key = (stop, without, node.folded, node.code and bool(stop))
            body, new = self.name("t", key)
            if new:
                self.automaton(body, *key)
        return (_quoted(node.head) + " " if node.head else "") + body + (" " + _quoted(rest) if rest else "")

    def automaton(self, name: str, stop: str, without: tuple[str, ...], folded: tuple[str, ...], code: bool) -> None:
        """Rules for text up to and including ``stop``, or up to the end if there is none. The text contains none of
        the other markers; with ``code``, the stop is not in a code span."""
        # Above 15, as the product of markers and code spans is built in one loop.
        markers = [list(marker) for marker in (stop, *without) if marker]
        markers += [[c.lower() + c.upper() if c.isalpha() else c for c in f] for f in folded]
        letters = sorted({c for marker in markers for each in marker for c in each}.union("`\n" if code else ""))
        begin = _Begun(frozenset(), False, 0)
        rules = {begin: name}
        waiting = [begin]

        def rule(state: _Begun) -> str:
            if state not in rules:
                rules[state] = f"{name}x{len(rules)}"
                waiting.append(state)
            return rules[state]

        for state in waiting:
            moves: dict[str, str] = {}  # by the rule of the next state, or the end: the characters that lead there
            for c in letters:
                after = state.after(c, markers, code=code)
                done = after.complete(markers)
                if not done or (stop and 0 in done and not after.odd):
                    target = "" if done else rule(after)
                    moves[target] = moves.get(target, "") + c
            parts = [f"{_all_but(letters)} {rule(state.after('', markers, code=code))}"]
            parts += [f"[{_single(cs)}] {to}".rstrip() for to, cs in moves.items()]
            self.add(rules[state], " | ".join(parts if stop else [*parts, '""']))


class _Begun(msgspec.Struct, frozen=True):
    """The markers that the end of the text so far may begin: for each marker, how many of its characters match; whether
    the last line has an odd number of single backticks; and the backticks at its very end, at most 2."""

    places: frozenset[tuple[int, int]]
    odd: bool
    run: int

    def after(self, c: str, markers: list[list[str]], *, code: bool) -> "_Begun":
        """The state after one more character; ``""`` is a character that no marker contains."""
        here = [*self.places, *((m, 0) for m in range(len(markers)))]
        # A complete marker is not continued.
        places = frozenset((m, i + 1) for m, i in here if c and i < len(markers[m]) and c in markers[m][i])
        if not code:
            return _Begun(places, False, 0)
        if c == "`":
            return _Begun(places, self.odd, min(2, self.run + 1))
        return _Begun(places, c != "\n" and self.odd != (self.run == 1), 0)

    def complete(self, markers: list[list[str]]) -> set[int]:
        """The markers that the text so far ends with."""
        return {m for m, i in self.places if i == len(markers[m])}


def _avoiding(node: Node, firsts: str) -> Node:
    """A flat node without the characters ``firsts``; `ConstraintError` if a fixed text contains one."""
    if isinstance(node, Chars):
        if node.negated or not node.set:
            return Chars(node.set + in_class(firsts), True, node.min, node.max)
        if any(re.match(f"[{node.set}]", c) for c in firsts):
            raise ConstraintError(f"tools: a value must not contain {firsts!r}, but may consist of it")
        return node
    if isinstance(node, Seq):
        return Seq(tuple(_avoiding(p, firsts) for p in node.parts))
    if isinstance(node, Alternatives):
        return Alternatives(tuple(_avoiding(p, firsts) for p in node.parts))
    if isinstance(node, Repeat):
        return Repeat(_avoiding(node.part, firsts), node.min, node.max, node.separator)
    return node


def _class(node: Chars) -> str:
    inside = f"{'^' if node.negated else ''}{_inside(_members(node.set))}" if node.set else "^\\x00"
    return f"[{inside}]{_times(node.min, node.max)}"


def _times(low: int, high: int | None) -> str:
    """A quantifier. llama.cpp refuses or ignores larger numbers, and they crash llama-cpp-python's server."""
    if max(low, high or 0) > _MAX_COUNT:
        raise ConstraintError(f"a length of {max(low, high or 0):,}: GBNF supports up to {_MAX_COUNT:,}")
    return count(low, high)


def _members(set: str) -> list[tuple[str, str]]:
    """The ranges of a character class of a regular expression: first and last characters."""
    characters: list[str] = []
    ranges: list[tuple[str, str]] = []
    for item in _ITEM.findall(set):
        if item == "\\s":
            ranges += _WHITE
        elif item == "-":
            characters.append("")  # joins the range before it with the one after it
        else:
            characters.append(_character(item))
    i = 0
    while i < len(characters):
        whole = i + 2 < len(characters) and not characters[i + 1]
        ranges.append((characters[i], characters[i + 2] if whole else characters[i]))
        i += 3 if whole else 1
    return ranges


def _character(item: str) -> str:
    if item.startswith("\\x") and len(item) == 4:
        return chr(int(item[2:], 16))
    return _NAMED.get(item, item[-1])


def _inside(ranges: Iterable[tuple[str, str]]) -> str:
    """The inside of a character class. Hexadecimal codes come last, since some engines read more than two digits."""
    items = [_in_class(a) + ("-" + _in_class(b) if a != b else "") for a, b in dict.fromkeys(ranges)]
    return "".join(sorted(items, key=lambda t: "\\x" in t))


def _in_class(character: str) -> str:
    if character < " " or character in "-^\x7f\x85\xa0":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or f"\\x{ord(character):02X}"
    return "\\" + character if character in '[]"\\' else character


def _single(characters: Iterable[str]) -> str:
    return _inside((c, c) for c in characters)


def _all_but(characters: Iterable[str]) -> str:
    excluded = _single(characters)
    return f"[^{excluded}]" if excluded else "[^\\x00]"


def _quoted(text: str) -> str:
    return '"' + "".join(c if c in "-^[]" else _in_class(c) for c in text) + '"'


# --- whole numbers between two bounds ---------------------------------------------------------------------------------


def integers(schema: Mapping[str, Any]) -> Node:
    """The whole numbers between a schema's bounds; `ConstraintError` if there is none."""
    low = [math.ceil(schema["minimum"])] if "minimum" in schema else []
    low += [math.floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    high = [math.floor(schema["maximum"])] if "maximum" in schema else []
    high += [math.ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    return _between(max(low, default=None), min(high, default=None))


def _between(low: int | None, high: int | None) -> Node:
    if low is not None and high is not None and low > high:
        raise ConstraintError(f"minimum: no whole number is between {low} and {high}")
    parts = []
    if low is None or low < 0:
        most = None if low is None else -low
        least = 1 if high is None or high >= 0 else -high
        parts.append(seq(Const("-"), _natural(least, most)))
    if high is None or high >= 0:
        parts.append(_natural(max(low or 0, 0), high))
    return choice(parts)


def _natural(low: int, high: int | None) -> Node:
    if high is not None:
        return choice(_spans(low, high))
    width = len(str(low))
    return choice((*_spans(low, 10**width - 1), seq(Chars("1-9"), Chars("0-9", min=width, max=None))))


def _spans(low: int, high: int) -> list[Node]:
    """Split a range into blocks of numbers: fixed digits, then one digit of several, then any digits."""
    found: list[Node] = []
    while low <= high:
        free = 0  # how many digits at the end are free
        while low and low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        size = 10**free
        first, last = divmod(low // size, 10)
        most = min(10 - last, (high - low + 1) // size) if low else 1
        digits = Chars(f"{last}-{last + most - 1}") if most > 1 else Const(str(last))
        parts = [Const(str(first) if first else ""), digits]
        found.append(seq(*parts, Chars("0-9", min=free, max=free)) if free else seq(*parts))
        low += most * size
    return found
