"""Reads a prompt: the tools with their parameters, and the turns of the conversation."""

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .words import CONCEPTS, GENERIC, KINDS, MEANT, SETS, SIDES, STOP, THINGS, concepts_of, kin, parts_of, stem

NUMERIC: Final = ("integer", "number")
"""The types of numbers."""

_PARAMETER: Final = re.compile(r'"([^"\n]*)":( optional)? ?([^\n]*)')
_CHOICE: Final = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)(?: or |(?=,)|$)')
_INNER: Final = re.compile(r'[{,] ?"([^"\n]*)":( optional)? ?([^,}\n]*)')
_MOST: Final = 8
"""The most parameters of an object that are read."""
_CONDITION: Final = re.compile(r"\b(?:conditions?|clause|filter|sql)\b")
_CODED: Final = re.compile(r"\b[A-Z]+[-_]?\d")
"""An example of a code: *warehouse code, e.g. AMS1*."""
_ARRAY: Final = "array of "
_NULL: Final = " or null"
_FORMED: Final = ("date", "email", "path", "phone", "time", "url")
"""The kinds of values with a form, after which a list may be named: *paths*, *times*."""
_LONGEST: Final = 300
"""The most characters of a description that are read."""
_TO: Final = ("to", "recipients")
_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "any", "null")


class Parameter(NamedTuple):
    """A parameter of a tool.

    Attributes:
        type: its JSON Schema type; ``any`` if there is none.
        choices: the values of an ``enum``.
        kinds: the kinds of its values, the likeliest first; see ``kinds`` in ``words.json``.
        inner: the parameters of an object, or of the objects of an array.
        members: the type of an array's members; the array's choices are theirs.
        nullable: whether it is required, but may be ``null``; ``optional`` then, for the reader.
    """

    name: str
    optional: bool
    type: str
    choices: tuple[Any, ...]
    description: str
    kinds: tuple[str, ...]
    inner: tuple["Parameter", ...] = ()
    members: str = ""
    nullable: bool = False


class Tool(NamedTuple):
    """A tool.

    Attributes:
        concepts: its purposes; see `words.concepts_of`.
        name_words: the words of its name, and their stems.
        described: the stems of its description, without common words.
        nouns: stems of the words that name it or its purpose.
        asking: the words that ask for it, which are not values.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    concepts: tuple[tuple[str, ...], tuple[str, ...]]
    name_words: frozenset[str]
    described: frozenset[str]
    nouns: frozenset[str]
    asking: frozenset[str]


class Turn(NamedTuple):
    """A message: ``user``, ``assistant``, ``result``, or a ``call`` with its arguments."""

    role: str
    text: str
    arguments: dict[str, Any]


class Prompt(NamedTuple):
    """A prompt after reading.

    Attributes:
        thinking: whether the answer begins with reasoning.
    """

    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    thinking: bool


class Reading:
    """Reads prompts of the builtin model's template.

    Args:
        tokenizer: the model's tokenizer.
        folder: contains ``parts.json``, which names the markers of the template.
    """

    def __init__(self, tokenizer: Any, folder: Path) -> None:
        marks = json.loads((folder / "parts.json").read_text(encoding="utf-8"))["marks"]
        self._tokenizer = tokenizer
        self._marks = {tokenizer.token_to_id(mark): name for name, mark in marks.items()}

    def read(self, tokens: Sequence[int]) -> Prompt:
        """Read a prompt's ids. Markers are recognized by their ids, not by their spelling."""
        parts: list[tuple[str, list[int]]] = [("head", [])]
        for token in tokens:
            if (name := self._marks.get(token)) is not None:
                parts.append((name, []))
            else:
                parts[-1][1].append(token)
        texts = [(name, self._tokenizer.decode(ids) if ids else "") for name, ids in parts]
        turns: list[Turn] = []
        called = ""
        for name, text in texts[1:]:
            if name == "user":
                turns.append(Turn("user", text.strip(), {}))
            elif name == "call":
                called = text
            elif name == "arguments":
                turns.append(Turn("call", called, _object(text)))
            elif name == "result":
                turns.append(Turn("result", text, {}))
            elif name in ("assistant", "thought", "resulted") and text.strip():
                turns.append(Turn("assistant", text.strip(), {}))
        return Prompt(_tools(texts[0][1]), tuple(turns), parts[-1][0] == "think")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a history may contain arguments that were cut, or anything else
        return {}
    return value if isinstance(value, dict) else {}


def _tools(head: str) -> tuple[Tool, ...]:
    tools: list[tuple[str, str, list[Parameter]]] = []
    before = ""
    for line in head.split("\n"):
        if line.startswith("#"):
            name = line[1:]
            described = before.removeprefix(f"{name}:").strip() if before.startswith(f"{name}:") else ""
            tools.append((name, described, []))
        elif tools and (found := _PARAMETER.match(line)):
            tools[-1][2].append(_parameter(found[1], bool(found[2]), found[3]))
        before = line
    return tuple(_tool(name, described, parameters) for name, described, parameters in tools)


def _tool(name: str, described: str, parameters: list[Parameter]) -> Tool:
    described = described[:_LONGEST]
    concepts = concepts_of(name, described)
    if any({"until", "till"} & {*parts_of(p.name)} for p in parameters):
        parameters[:] = [p._replace(kinds=("date",)) if p.name == "from" and _is_text(p) else p for p in parameters]
    sent = not SETS["moves"].isdisjoint(parts_of(name))  # money, from an account to another
    _sides(tuple(c for c in concepts[0] + concepts[1] if not (sent and SIDES.get(c) == "currency")), parameters)
    _first_text(*concepts, parameters)
    if "mail" in concepts[0]:
        parameters[:] = [p._replace(kinds=("email", *p.kinds)) if p.name.lower() in _TO else p for p in parameters]
    if "math" not in concepts[0] + concepts[1]:
        parameters[:] = [_without_calculation(p) for p in parameters]
    parts = parts_of(name)
    if not SETS["brokers"].isdisjoint(parts):  # a topic is no subject there
        parameters[:] = [p._replace(kinds=p.kinds[1:]) if p.kinds[:1] == ("query",) else p for p in parameters]
    if not {"currency", "price", "stock", "crypto"} & {*concepts[0], *concepts[1]}:  # the base of a branch
        parameters[:] = [
            p if "currency" in f"{p.name} {p.description}".lower() else p._replace(kinds=_but(p.kinds, "currency"))
            for p in parameters
        ]
    words = {*parts, name.lower()} | {a + b for a, b in itertools.pairwise(parts) if not {a, b} <= STOP}
    names = frozenset(words | {stem(w) for w in words})
    about = {w for w in re.findall(r"[a-z\d-]*[a-z][a-z\d-]*", described.lower()) if w not in STOP}
    about = {w for w in about if stem(w) not in GENERIC}
    nouns = {stem(w) for c in concepts[0] for n in CONCEPTS[c][0] for w in n.split()} | names
    asks = {w for c in (*concepts[0], *concepts[1]) for some in CONCEPTS[c] for phrase in some for w in phrase.split()}
    asks |= {w for n in names - GENERIC for w in kin(n)}
    asking = names | asks | {f"{w}s" for w in names | asks}
    about = {stem(w) for w in about}
    return Tool(name, described, tuple(parameters), concepts, names, frozenset(about), frozenset(nouns), asking)


def _but(kinds: tuple[str, ...], *without: str) -> tuple[str, ...]:
    return tuple(k for k in kinds if k not in without)


def _without_calculation(p: Parameter) -> Parameter:
    """The parameter without the kind of calculations, although its description mentions an *expression*."""
    named = "expression" in _kinds(p.name, "") or "math" in p.description.lower()
    return p if named else p._replace(kinds=_but(p.kinds, "expression"))


def _sides(concepts: tuple[str, ...], parameters: list[Parameter]) -> None:
    """Give ``source``, ``to`` and the like the kind of the tool's two sides."""
    kinds = [SIDES[c] for c in concepts if c in SIDES]
    # Dates, then units, are the least specific.
    kind = min(kinds, key=lambda kind: (kind == "date", kind == "unit"), default=None)
    for i, p in enumerate(parameters):
        side = {*parts_of(p.name)} & (SETS["from"] | SETS["to"])
        moment = p.kinds[:1] in (("date",), ("time",))
        placed = kind == "currency" and not SETS["postal"].isdisjoint(re.findall(r"[a-z]+", p.description.lower()))
        if kind is not None and side and _is_text(p) and kind not in p.kinds[:1] and not (moment or placed):
            parameters[i] = p._replace(kinds=(kind, *p.kinds))


def _first_text(named: tuple[str, ...], also: tuple[str, ...], parameters: list[Parameter]) -> None:
    """Give a text with an unspecific name the kind that fits its tool: *q* of a weather tool is a place."""
    kind = next((MEANT[c] for c in (*named, *also) if c in MEANT), None)
    texts = [p for p in parameters if _is_text(p)]
    if kind is None or any(kind in p.kinds[:1] for p in texts):
        return
    required = [p for p in texts if not p.optional] or texts[:1]
    required = [p for p in required if SETS["codes"].isdisjoint(parts_of(p.name)) and not _CODED.search(p.description)]
    other = THINGS | SETS["machines"] if kind == "place" else SETS["somebody"] | SETS["records"] | SETS["artifacts"]
    if kind == "symbol":
        required = [p for p in required if (SETS["from"] | SETS["to"]).isdisjoint(parts_of(p.name))]
    if kind == "expression":  # nor the country of a tax, nor one of several texts
        required = [p for p in required if len(texts) == 1 and p.kinds[:1] != ("place",)]
    required = [p for p in required if other.isdisjoint(parts_of(p.name)) or "name" in parts_of(p.name)]
    plain = next((p for p in required if not p.kinds or p.kinds[0] in SETS["vague"]), None)
    if plain is None or (
        plain.kinds and kind == "place" and kind not in plain.kinds and kind not in map(MEANT.get, named)
    ):
        return
    open_ = kind == "place" and plain.kinds[:1] in (("query",), ("subject",), ("body",))
    if open_ or not plain.kinds or (kind == "expression" and len(texts) == 1):
        kinds = (kind, *_but(plain.kinds, kind))
        parameters[parameters.index(plain)] = plain._replace(kinds=kinds)


def _is_text(p: Parameter) -> bool:
    return p.type in ("string", "any") and not p.choices


def _parameter(name: str, optional: bool, rest: str) -> Parameter:
    listed = rest.startswith(_ARRAY)
    rest = rest.removeprefix(_ARRAY)
    choices: list[Any] = []
    at = 0
    while found := _CHOICE.match(rest, at):
        try:
            choices.append(json.loads(found[1], strict=False))
        except ValueError:  # it only looks like an enumeration
            break
        at = found.end()
        if rest[at - 4 : at] != " or ":
            break
    type_ = "string" if choices and isinstance(choices[0], str) else "any"
    if not choices:
        type_ = next((t for t in _TYPES if rest.startswith(t)), "any")
        at = len(type_) if rest.startswith(type_) else 0
    nullable = None in choices or rest[at:].startswith(_NULL)
    at += len(_NULL) if rest[at:].startswith(_NULL) else 0
    choices = [c for c in choices if c is not None]
    optional = optional or nullable
    described = rest[at : at + _LONGEST].lstrip(", ")
    inner: list[Parameter] = []
    if type_ == "object" and rest[at : at + 2] == " {":
        members = itertools.islice(_INNER.finditer(rest, at), _MOST)
        inner = [_parameter(one[1], bool(one[2]), one[3]) for one in members]
        described = ""
    kinds = _kinds(name, described)
    if listed or type_ == "array":
        each = _kinds(name.removesuffix("s"), "")[:1]
        kinds = (*each, *_but(kinds, *each)) if each and each[0] in _FORMED else kinds
    one = Parameter(name, optional, type_, tuple(choices), described, kinds, tuple(inner), nullable=nullable)
    return one._replace(type="array", members=type_) if listed else one


def parameter(name: str) -> Parameter:
    """A text parameter that is known only by its name."""
    return Parameter(name, False, "string", (), "", _kinds(name, ""))


def _kinds(name: str, described: str) -> tuple[str, ...]:
    """The kinds of a parameter's values: from its name's words, the last first, then from its description."""
    found: list[str] = []
    whole = "_".join(parts_of(name))
    parts = parts_of(name)[::-1]
    parts.sort(key=lambda part: part == "name")
    for word in (whole, *parts, *(stem(w) for w in re.findall(r"[a-z-]+", described.lower()))):
        found += [kind for kind, words in KINDS.items() if word in words and kind not in found]
    if "hh:mm" in described.lower():
        found = ["time", *(kind for kind in found if kind != "time")]
    if parts == ["where"] and _CONDITION.search(described.lower()):
        return ()
    if parts[:1] and parts[0] in SETS["codes"]:
        found = [kind for kind in found if kind not in SETS["no codes"]]
    if not SETS["somebody"].isdisjoint(parts) and "name" not in parts:
        found = [kind for kind in found if kind not in ("subject", "query", "body")]
    if parts[:1] and parts[0] in SETS["artifacts"]:  # a *base* model name is neither a currency nor a subject
        found = [kind for kind in found if kind in ("path", "url")]
    return tuple(found)
