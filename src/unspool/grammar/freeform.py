"""Reads and checks the Lark grammars of custom tools, and rewrites them for llguidance inside a dialect's envelope.

A grammar becomes a nested grammar of the request's (``%lark``), for the bare text or for its spelling in a JSON
string. Every text and expression in it is parsed and written again (see `unspool.grammar.regular`), so that nothing
from a request reaches the engine unchanged. Token ids, options and other directives are not supported.
"""

import itertools
import json
import re
from typing import Final, NamedTuple

import msgspec

from ..errors import ConstraintError
from ..regex import Regex
from . import regular
from .bounds import step
from .flat import ANY, verbatim

NO_LARK: Final = "tools: the grammar of a custom tool is in Lark, which cannot be kept in this form"
"""The error of all formats other than Lark."""
MAX_GRAMMAR: Final = 64 * 1024  # the longest grammar, in characters

_COMMON: Final = {
    "DIGIT": '"0".."9"',
    "HEXDIGIT": '"a".."f"|"A".."F"|DIGIT',
    "INT": "DIGIT+",
    "SIGNED_INT": '["+"|"-"] INT',
    "DECIMAL": 'INT "." INT? | "." INT',
    "_EXP": '("e"|"E") SIGNED_INT',
    "FLOAT": "INT _EXP | DECIMAL _EXP?",
    "SIGNED_FLOAT": '["+"|"-"] FLOAT',
    "NUMBER": "FLOAT | INT",
    "SIGNED_NUMBER": '["+"|"-"] NUMBER',
    "ESCAPED_STRING": r'/"(?:[^"\\\n]|\\.)*"/',
    "LCASE_LETTER": '"a".."z"',
    "UCASE_LETTER": '"A".."Z"',
    "LETTER": "UCASE_LETTER | LCASE_LETTER",
    "WORD": "LETTER+",
    "CNAME": '("_"|LETTER) ("_"|LETTER|DIGIT)*',
    "WS_INLINE": r"/[ \t]+/",
    "WS": r"/[ \t\f\r\n]+/",
    "CR": r"/\r/",
    "LF": r"/\n/",
    "NEWLINE": r"/(?:\r?\n)+/",
    "SH_COMMENT": r"/#[^\n]*/",
    "CPP_COMMENT": r"/\/\/[^\n]*/",
    "C_COMMENT": r"/\/\*(?:[^*]|\*+[^*\/])*\*+\//",
    "SQL_COMMENT": r"/--[^\n]*/",
}
"""The terminals that grammars may import from ``common``."""

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*"i?'
_TEXTS: Final = Regex(_TEXT)
_GAP: Final = r"(?:[ \t\f\r]|\\\r?\n)*"
_TOKEN: Final = Regex(
    rf"""(?P<space>[ \t\f\r]+|//[^\n]*|\\\r?\n)
    |(?P<line>\n)
    |(?P<range>{_TEXT}{_GAP}\.\.(?:{_GAP}{_TEXT})?)
    |(?P<text>{_TEXT})
    |(?P<regex>/(?!/)(?:[^/\\\n]|\\.)+/[a-z]*)
    |(?P<repeat>~[ \t]*[0-9]+(?:[ \t]*\.\.[ \t]*[0-9]+)?)
    |(?P<alias>->[ \t]*[A-Za-z_]\w*)
    |(?P<directive>%[a-z]+)
    |(?P<define>[?!]{{0,2}}[A-Za-z_]\w*(?:\.-?[0-9]+)?[ \t]*:)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op>[|()\[\]*+?.,])""",
    re.VERBOSE,
)
_OPERATORS: Final = frozenset("|()[]*+?")
_ENDS: Final = (("op", "|"), ("op", ")"), ("op", "]"))  # what ends a branch


class _Token(NamedTuple):
    kind: str
    text: str


_Definitions = dict[str, list[_Token]]  # the bodies of rules and terminals, by name


def _is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


class Freeform(msgspec.Struct, frozen=True):
    """A parsed grammar, which its original text identifies."""

    source: str

    def written(self, quote: str = "", without: tuple[str, ...] = ()) -> str:
        """Return the grammar for llguidance. It describes a bare text, or the inside of a JSON or Python string between
        quotes.

        No terminal may match one of the markers that the text must be ``without``, or end with the beginning of one;
        texts that the grammar itself spells are not changed. For errors, see `read_lark`.
        """
        step(len(self.source))
        try:
            definitions, ignored = _read(self.source)
            return _LarkWriter(definitions, ignored, quote, without).text()
        except RecursionError:
            raise _wrong("is nested too deeply") from None


def read_lark(source: str) -> Freeform:
    """Check a grammar; `ConstraintError` if it is wrong, or uses what is not supported."""
    found = Freeform(source)
    found.written('"')
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


def _wrong(message: str) -> ConstraintError:
    return ConstraintError(f"definition: {message}")


def _tokens(source: str) -> list[_Token]:
    if len(source) > MAX_GRAMMAR:
        raise _wrong(f"has {len(source):,} characters; allowed are {MAX_GRAMMAR:,}")
    found: list[_Token] = []
    at, depth, line = 0, 0, 1
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or match.end() == at:
            raise _wrong(f"line {line}: {source[at : at + 20]!r} is not understood")
        kind, text, at = str(match.lastgroup), match[0], match.end()
        line += text.count("\n")
        if kind == "op":
            depth += (text in "([") - (text in ")]")
            if depth < 0 or depth > regular.MAX_DEPTH:
                raise _wrong(f"line {line}: parentheses do not match, or nest deeper than {regular.MAX_DEPTH}")
        if kind != "space" and not (kind == "line" and depth):
            found.append(_Token(kind, text))
    if depth:
        raise _wrong("a parenthesis is not closed")
    return found


def _read(source: str) -> tuple[_Definitions, list[str]]:  # a branch for each kind of line
    """The definitions by name, imported ones included, and the names of ignored terminals."""
    definitions: _Definitions = {}
    ignored: list[str] = []
    current: list[_Token] | None = None
    lines = itertools.groupby(_tokens(source), lambda token: token.kind == "line")
    for first, *rest in (line for ends, line in lines if not ends):
        if first.kind == "directive":
            _direct(first.text, rest, definitions, ignored)
            current = None
        elif first.kind == "define":
            name = first.text.rstrip(":").strip().lstrip("?!").partition(".")[0]
            if name in definitions:
                raise _wrong(f"{name} is defined twice")
            current = definitions[name] = rest
        elif current is not None and first == ("op", "|"):
            current += [first, *rest]
        else:
            raise _wrong(f"{first.text!r} is not understood where a line begins")
    if "start" not in definitions:
        raise _wrong("has no rule named start")
    for name, body in definitions.items():
        for token in body:
            if token.kind == "name" and token.text not in definitions:
                raise _wrong(f"{name}: {token.text} is not defined")
            if token.kind == "name" and _is_terminal(name) and not _is_terminal(token.text):
                raise _wrong(f"{name}: a terminal refers to the rule {token.text}")
    return definitions, ignored


def _direct(word: str, rest: list[_Token], definitions: _Definitions, ignored: list[str]) -> None:
    names = [t.text for t in rest if t.kind == "name"]
    if word == "%import" and names[:1] == ["common"] and len(names) > 1:
        aliases = [t.text[2:].strip() for t in rest if t.kind == "alias"]
        for name in names[1:]:
            if name not in _COMMON:
                raise _wrong(f"common.{name} is unknown; allowed are {', '.join(_COMMON)}")
            _imported(name, definitions)
        if aliases:
            if len(names) > 2:
                raise _wrong("%import: an alias is for one name")
            definitions[aliases[0]] = [_Token("name", names[1])]
    elif word == "%ignore" and rest:
        ignored.append(f"IGNORED_{len(ignored)}")
        definitions[ignored[-1]] = rest
    else:
        allowed = "%import common.NAME, %ignore"
        raise _wrong(f"{word} {' '.join(t.text for t in rest)[:60]} is not supported; allowed are {allowed}")


def _imported(name: str, definitions: _Definitions) -> None:
    if name in definitions:
        return
    definitions[name] = _tokens(_COMMON[name])
    for token in definitions[name]:
        if token.kind == "name":
            _imported(token.text, definitions)


# --- terminals --------------------------------------------------------------------------------------------------------


class _Terminals:
    def __init__(self, definitions: _Definitions) -> None:
        self.definitions = definitions
        self.found: dict[str, regular.Part | None] = {}
        self.size = 0

    def part(self, name: str) -> regular.Part:
        if name in self.found:
            known = self.found[name]
            if known is None:
                raise _wrong(f"the terminal {name} refers to itself")
            return known
        self.found[name] = None
        tokens = self.definitions[name]
        part, at = self.branches(name, tokens, 0)
        if at < len(tokens):
            raise _wrong(f"{name}: {tokens[at].text!r} is not understood")
        self.found[name] = part
        return part

    def branches(self, name: str, tokens: list[_Token], at: int) -> tuple[regular.Part, int]:
        rows: list[regular.Part] = []
        while True:
            parts: list[regular.Part] = []
            while at < len(tokens) and tokens[at] not in _ENDS:
                part, at = self.counted(name, tokens, at)
                parts.append(part)
            rows.append(regular.Series(tuple(parts)))
            if at == len(tokens) or tokens[at].text != "|":
                return (rows[0] if len(rows) == 1 else regular.Branches(tuple(rows))), at
            at += 1

    def counted(self, name: str, tokens: list[_Token], at: int) -> tuple[regular.Part, int]:
        token = tokens[at]
        if token.text in ("(", "[") and token.kind == "op":
            part, at = self.branches(name, tokens, at + 1)  # brackets match, see `_tokens`
            part = regular.Several(part, 0, 1) if token.text == "[" else part
        elif token.kind == "name":
            part = self.part(token.text)
        else:
            part = _atom(name, token)
        at += 1
        size = regular.size(part)
        step(size)
        self.size += size
        if self.size > MAX_GRAMMAR:
            raise _wrong(f"{name}: the terminals written out have more than {MAX_GRAMMAR:,} parts")
        while at < len(tokens) and (tokens[at].kind == "repeat" or tokens[at].text in ("*", "+", "?")):
            low, high = _count(name, tokens[at])
            part, at = regular.Several(part, low, high), at + 1
        return part, at


def _atom(name: str, token: _Token) -> regular.Part:
    if token.kind == "range":
        return _range(token.text)
    if token.kind == "text":
        text = _unquoted(token.text.removesuffix("i"))
        return regular.any_case(text) if token.text.endswith("i") else regular.literal_of(text)
    if token.kind != "regex":
        raise _wrong(f"{name}: {token.text!r} is not understood")
    pattern, _, flags = token.text[1:].rpartition("/")
    try:
        return regular.parse(pattern.replace("\\/", "/"), flags)
    except ValueError as error:
        raise _wrong(f"{name}: {error}") from None


def _count(name: str, token: _Token) -> tuple[int, int | None]:
    if token.kind == "op":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token.text]
    low, _, high = token.text[1:].replace(" ", "").replace("\t", "").partition("..")
    if max(len(low), len(high)) > 4 or (high and int(high) < int(low)):
        raise _wrong(f"{name}: the count {token.text} is not between 0 and 9,999, the smaller number first")
    return int(low), int(high or low)


# --- writing ----------------------------------------------------------------------------------------------------------


class _LarkWriter:
    def __init__(self, definitions: _Definitions, ignored: list[str], quote: str, without: tuple[str, ...]) -> None:
        self.definitions = definitions
        self.ignored = ignored
        self.quote = quote
        self.terminals = _Terminals(definitions)
        self.lines: list[str] = []
        self.named: dict[str, str] = {}  # by what is written
        self.words: dict[str, str] = {}  # the same of terminals, by their own names
        begun = dict.fromkeys(m[:n] for m in without for n in range(1, len(m)))
        held = [f"{verbatim(m)}{ANY}*" for m in without if m]
        self.guard = f" & ~/{ANY}*(?:{'|'.join([*held, *map(verbatim, begun)])})/" if held else ""

    def text(self) -> str:
        """The whole text, in which every name has a prefix, so that none has a meaning to the engine."""
        for name in self.ignored:
            part = self.terminals.part(name)
            while isinstance(part, regular.Series) and len(part.parts) == 1:
                part = part.parts[0]
            if isinstance(part, regular.Several) and part.high is None:
                part = part.part  # ignored text may be repeated
            self.lines.append(f"%ignore /{regular.write(part, self.quote)}/")
        for name, body in self.definitions.items():
            if _is_terminal(name):
                self.terminals.part(name)
            else:
                self.lines.append(f"{_rule(name)}: {self.body(name, body)}")
        return "\n".join(self.lines) + "\n"

    def body(self, name: str, tokens: list[_Token]) -> str:
        return " ".join(filter(None, (self.token(name, token) for token in tokens))) or '""'

    def token(self, name: str, token: _Token) -> str:
        if token.kind == "text" and not token.text.endswith("i"):
            return json.dumps(_spelled(_unquoted(token.text), self.quote), ensure_ascii=False)
        if token.kind == "name":
            if _is_terminal(token.text):
                if token.text not in self.words:
                    self.words[token.text] = self.word(self.terminals.part(token.text))
                return self.words[token.text]
            return _rule(token.text)
        if token.kind == "repeat":
            low, high = _count(name, token)
            return f"{{{low},{high}}}"
        if token.kind == "alias":
            return ""
        if token.kind == "op" and token.text in _OPERATORS:
            return token.text
        return self.word(_atom(name, token))

    def word(self, part: regular.Part) -> str:
        """A terminal, or an expression within a rule, by the name of what writes it."""
        rule = regular.wavers(part, self.quote)
        body = regular.rule(part, self.quote) if rule else f"/{regular.write(part, self.quote)}/{self.guard}"
        if body not in self.named:
            self.named[body] = f"{'w' if rule else 'W'}{len(self.named)}"
            self.lines.append(f"{self.named[body]}: {body}")
        return self.named[body]


def _rule(name: str) -> str:
    return "start" if name == "start" else f"u_{name}"


def _spelled(text: str, quote: str) -> str:
    if not quote:
        return text
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return escaped if quote == '"' else escaped.replace('\\"', '"').replace(quote, "\\" + quote)


def _unquoted(text: str) -> str:
    """The text of a Lark string, which has Python's escapes."""
    found: list[str] = []
    at = 1
    while at < len(text) - 1:
        c = text[at]
        at += 1
        if c == "\\":
            c, at = text[at], at + 1
            if c in "xuU":
                size = {"x": 2, "u": 4, "U": 8}[c]
                digits = text[at : at + size]
                try:
                    c, at = chr(int(digits, 16)), at + size
                except (ValueError, OverflowError):
                    raise _wrong(f"{text[:40]} contains an escape that is not a character") from None
                if "\ud800" <= c <= "\udfff":
                    raise _wrong(f"{text[:40]} contains an escape that is not a character")
            else:
                c = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "v": "\v", "0": "\0"}.get(c, c)
        found.append(c)
    if not found:
        raise _wrong("an empty string is not allowed")
    return "".join(found)


def _range(text: str) -> regular.Part:
    ends = [_unquoted(end) for end in _TEXTS.findall(text)]
    if [*map(len, ends)] != [1, 1] or ends[1] < ends[0]:
        raise _wrong(f"{text} is not a range of characters")
    return regular.Set(((ord(ends[0]), ord(ends[1])),))
