"""What a prompt declares and says: the tools with their parameters, and the turns of the conversation."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .words import FROM, KINDS, MEANT, SIDES, TO, concepts_of, parts_of, stem

_PARAMETER: Final = re.compile(r'"([^"\n]*)":( optional)? ?([^\n]*)')
_CHOICE: Final = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)(?: or |(?=,)|$)')
_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "any", "null")


class Parameter(NamedTuple):
    """One of a tool's.

    Attributes:
        type: as JSON Schema names it; ``any`` where there is none.
        choices: the values of an ``enum``.
        kinds: what its values are, the likeliest first; see ``kinds`` in ``words.json``.
    """

    name: str
    optional: bool
    type: str
    choices: tuple[Any, ...]
    description: str
    kinds: tuple[str, ...]


class Tool(NamedTuple):
    """What can be called."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    concepts: tuple[tuple[str, ...], tuple[str, ...]]


class Turn(NamedTuple):
    """A message: ``user``, ``assistant``, ``result``, or a ``call`` with its arguments."""

    role: str
    text: str
    arguments: dict[str, Any]


class Prompt(NamedTuple):
    """A prompt, read.

    Attributes:
        thinking: whether the answer begins with thinking.
    """

    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    thinking: bool


class Reading:
    """Reads prompts of the builtin model's template.

    Args:
        tokenizer: the model's.
        folder: where ``parts.json`` names the marks of the template.
    """

    def __init__(self, tokenizer: Any, folder: Path) -> None:
        marks = json.loads((folder / "parts.json").read_text(encoding="utf-8"))["marks"]
        self._tokenizer = tokenizer
        self._marks = {tokenizer.token_to_id(mark): name for name, mark in marks.items()}

    def read(self, tokens: Sequence[int]) -> Prompt:
        """Read a prompt's ids: the marks are known by theirs, not by how they are spelled."""
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
            elif name in ("assistant", "thought") and text.strip():
                turns.append(Turn("assistant", text.strip(), {}))
        return Prompt(_tools(texts[0][1]), tuple(turns), parts[-1][0] == "think")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:  # a history may hold what was cut
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
    named, also = concepts_of(name, described)
    side = next((SIDES[c] for c in (*named, *also) if c in SIDES), None)
    for i, p in enumerate(parameters):
        if side is not None and p.type in ("string", "any") and not p.choices and {*parts_of(p.name)} & (FROM | TO) and side not in p.kinds[:1]:
            parameters[i] = p._replace(kinds=(side, *p.kinds))
    meant = next((MEANT[c] for c in (*named, *also) if c in MEANT), None)
    texts = [p for p in parameters if p.type in ("string", "any") and not p.choices]
    if meant is not None and not any(meant in p.kinds[:1] for p in texts):
        required = [p for p in texts if not p.optional] or texts[:1]
        vague = ("query", "subject", "body", "path", "place")
        plain = [p for p in required if not p.kinds or p.kinds[0] in vague and p.kinds[0] != meant]
        if meant == "place" and plain and plain[0].kinds[:1] in (("query",), ("subject",), ("body",), ()) or (plain and not plain[0].kinds) or (plain and meant == "expression" and len(texts) == 1):
            at = parameters.index(plain[0])
            parameters[at] = plain[0]._replace(kinds=(meant, *(k for k in plain[0].kinds if k != meant)))
    return Tool(name, described, tuple(parameters), (tuple(named), tuple(also)))


def _parameter(name: str, optional: bool, rest: str) -> Parameter:
    choices: list[Any] = []
    at = 0
    while found := _CHOICE.match(rest, at):
        choices.append(json.loads(found[1]))
        at = found.end()
        if rest[at - 4 : at] != " or ":
            break
    type_ = "string" if choices and isinstance(choices[0], str) else "any"
    if not choices:
        type_ = next((t for t in _TYPES if rest.startswith(t)), "any")
        at = len(type_) if rest.startswith(type_) else 0
    described = rest[at:].lstrip(", ")
    return Parameter(name, optional, type_, tuple(choices), described, _kinds(name, described))


def _kinds(name: str, described: str) -> tuple[str, ...]:
    """What a parameter's values are: by its name's words, the last first, then by the words that describe it."""
    found: list[str] = []
    whole = "_".join(parts_of(name))
    for word in (whole, *reversed(parts_of(name)), *(stem(w) for w in re.findall(r"[a-z-]+", described.lower()))):
        found += [kind for kind, words in KINDS.items() if word in words and kind not in found]
    return tuple(found)
