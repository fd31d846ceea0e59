"""Writes a dialect as a ``response_template`` of transformers, and proves that both parsers agree; see `exchange`."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ..dialect.file import Dialect
from ..dialect.template import Template, unstarted
from ..errors import DialectError
from ..events import Stage
from ..message import Message
from ..parser import parse
from ..renderer import render
from . import theirs
from .histories import HistoryStyle, HistoryTurn
from .proof import Case

_ALWAYS: Final = (
    "white space around reasoning and content is taken off",
    "a closing marker inside a string ends the call",
)
_FIELDS: Final = {"key": r"(?P<key>[^<>\"\n]+?)", "value": r"(?P<value>.*?)", "type": r"\w+", "string": r"\w+"}
_PYTHON: Final = r"""(?P<key>\w+)=(?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\{[^}]*\}|[^,()]*)"""


class Described(msgspec.Struct, frozen=True):
    """A ``response_template`` of a dialect, and what is lost, one sentence per item."""

    template: dict[str, Any]
    lossy: tuple[str, ...]


def to_response_template(dialect: Dialect) -> Described:
    """Describe a dialect as a ``response_template``; a `DialectError` names a key that no such template can express."""
    if not dialect.start:
        raise DialectError("start: a response_template needs what opens a turn, and the dialect has none")
    lossy = list(_ALWAYS)
    fields: dict[str, Any] = {}
    if dialect.reasoning:
        first = dialect.reasoning[0]
        fields["reasoning_content"] = {
            "open": unstarted(first.opening, dialect.start).strip(),
            "close_pattern": _literal(first.closing) + r"\s*",
            "content": "text",
        }
    if dialect.call:
        fields["tool_calls"] = _calls(dialect, lossy)
    fields["content"] = _content(dialect)
    for key in ("reasoning", "content", "calls", "call", "argument"):
        others = len(getattr(dialect, key)) - 1
        if others > 0:
            lossy.append(f"{key}: {others} other {'spelling is' if others == 1 else 'spellings are'} not read")
    if dialect.preamble:
        lossy.append("preamble: content that calls follow is not read")
    if dialect.item:
        lossy.append("item: nested markup is kept as text")
    if any("{id}" in t.text for t in dialect.call):
        lossy.append("call: ids are not passed on")
    anchor: Any = dialect.start[0] if len(dialect.start) == 1 else list(dialect.start)
    return Described({"defaults": {"role": "assistant"}, "start_anchor": anchor, "fields": fields}, tuple(lossy))


def _literal(text: str) -> str:
    """A pattern for a text, in which white space may have any length."""
    words = [re.escape(word) for word in text.split()]
    return r"\s*".join(words)


def _content(dialect: Dialect) -> dict[str, Any]:
    if not dialect.framed:
        return {"close_pattern": _ending(dialect), "content": "text"}
    first = dialect.content[0]
    opening = unstarted(first.opening, dialect.start).strip()
    return {"open": opening, "close_pattern": _literal(first.closing) + r"\s*", "content": "text"}


# -- calls -------------------------------------------------------------------------------------------------------------


def _calls(dialect: Dialect, lossy: list[str]) -> dict[str, Any]:
    call, block = dialect.call[0], dialect.calls[0]
    if not call.body:
        raise DialectError(f"call: {call.text!r} has no arguments, which a response_template needs")
    before, after = unstarted(block.opening, dialect.start).strip(), block.closing.strip()
    if call.object is not None:
        return _object(dialect, call, before, after)
    opening, closing = unstarted(call.opening, dialect.start), call.closing
    if opening.count("{name}") != 1 or "{name}" in closing:
        raise DialectError("call: a response_template reads the name once, before the arguments")
    head, _, rest = opening.partition("{name}")
    for field in ("{id}", "{index}", "{number}"):
        head, rest = (t.replace(field, "\0") for t in (head, rest))
    stop = re.escape(rest.strip("\0")[:1].strip() or "<{(")
    name = (
        rf"(?P<name>[^\s{stop}]+{'?' if rest.strip() else ''})"
        if dialect.codec.name != "python"
        else r"(?P<name>[\w.-]+)"
    )
    pattern = _literal(head) + name + r"\s*" + _literal(rest)
    return {
        "open_pattern": _around(before, dialect.separator.calls)
        + pattern.replace("\\\0", "\0").replace("\0", r"[^\s<>]*?"),
        "close_pattern": _behind(dialect, closing, after, before or head),
        "repeats": True,
        **_arguments(dialect, lossy),
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
    }


def _around(block: str, separator: str) -> str:
    """The text that may precede a call: the block's opening, or the separator after the previous call."""
    choices = [rf"{_literal(t)}\s*" for t in (block, separator.strip()) if t]
    return f"(?:{'|'.join(choices)})?" if choices else ""


def _behind(dialect: Dialect, closing: str, block: str, opening: str) -> str:
    """The closing of a call with white space, separator and block's closing, lest any of them be read as content."""
    rest = "".join(rf"(?:{_literal(t)}\s*)?" for t in (dialect.separator.calls.strip(), block) if t)
    if closing.strip():
        return rf"{_literal(closing)}\s*{rest}"
    if block:
        return rf"{_literal(block)}\s*"
    # A call without a closing ends at the next call, or at the turn's end.
    following = [rf"(?={_literal(opening)})"] if opening.strip() else []
    return "|".join((*following, _ending(dialect)))


def _ending(dialect: Dialect) -> str:
    return "|".join((*(rf"{re.escape(e)}\s*" for e in dialect.end), "$"))


def _arguments(dialect: Dialect, lossy: list[str]) -> dict[str, Any]:
    if dialect.argument:
        lossy.append("argument: without the tools' schemas every value is text")
        steps = re.split(r"\{(\w+)\}", dialect.argument[0].text.strip())
        seen: set[str] = set()
        pattern = ""
        for i, step in enumerate(steps):
            if i % 2 == 0:
                pattern += re.sub(r"(?:\\?\s)+", r"\\s*", re.escape(step))
            else:
                pattern += f"(?P={step})" if step in seen else _FIELDS[step]
                seen.add(step)
        return {
            "content": "xml-inline",
            "content_args": {"tag_pattern": pattern, "value_parser": {"name": "text"}},
        }
    if dialect.codec.name == "python":
        lossy.append("arguments: values of Python that are not JSON are text, and nesting is read one level deep")
        parser = {"name": "json", "args": {"string_delims": [["'", "'"]], "allow_non_json": True}}
        return {"content": "xml-inline", "content_args": {"tag_pattern": _PYTHON, "value_parser": parser}}
    if dialect.codec.quote != '"':
        delimiters = {"string_delims": [[dialect.codec.quote, dialect.codec.quote]], "unquoted_keys": True}
        return {"content": "json", "content_args": delimiters}
    return {"content": "json"}


def _object(dialect: Dialect, call: Template, before: str, after: str) -> dict[str, Any]:
    shape = call.object
    assert shape is not None
    if shape.name_is_key or shape.quote == "'":
        raise DialectError(f"call: {call.text!r} is not an object that a response_template can read")
    keys = {role: key for key, role in shape.keys}
    text = unstarted(call.text, dialect.start)
    head, tail = text[: text.index("{")].strip(), text[text.rindex("}") + 1 :].strip()
    if before.endswith("[") and after.startswith("]") and not head + tail:
        if not before[:-1]:
            raise DialectError("calls: a list that nothing opens but a bracket cannot be distinguished from content")
        function = {"name": f"{{{keys['name']}}}", "arguments": f"{{{keys['arguments']}}}"}
        each = {"transform": {"type": "function", "function": function}, "transform_each": True}
        closing = rf"{_literal(after[1:])}\s*" if after[1:].strip() else _ending(dialect)
        return {"open": before[:-1].strip(), "close_pattern": closing, "content": "json", **each}
    if not head + before:
        raise DialectError("call: an object that nothing opens cannot be distinguished from content")
    function = {"name": f"{{content.{keys['name']}}}", "arguments": f"{{content.{keys['arguments']}}}"}
    lead = _around(before, dialect.separator.calls) + _literal(head) if head else _literal(before)
    return {
        "open_pattern": rf"{lead}\s*",
        "close_pattern": _behind(dialect, tail, after, head or before),
        "repeats": True,
        "content": "json",
        "transform": {"type": "function", "function": function},
    }


# -- the proof ---------------------------------------------------------------------------------------------------------

_TEXT: Final = {"type": "string"}
_PROPERTIES: Final = {
    "city": _TEXT,
    "days": {"type": "integer"},
    "note": _TEXT,
    "tags": {"type": "array", "items": _TEXT},
}
_TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {"name": n, "description": "Does.", "parameters": {"type": "object", "properties": _PROPERTIES}},
    }
    for n in ("get_weather", "now")
]
_WEATHER: Final = ("get_weather", {"city": "Paris"})
_SECONDS: Final = 30  # seconds of processor time for transformers' parser, including its import
_MEMORY: Final = 8 << 30
_NEEDED: Final = ("content", "one call", "two arguments")  # the turns that both must read
_SAID: Final = {
    "content": HistoryTurn(content="Hello there.\nBye."),
    "reasoning and content": HistoryTurn("A plan.\nTwo lines.", "The answer."),
    "one call": HistoryTurn(calls=(_WEATHER,)),
    "two arguments": HistoryTurn(calls=(("get_weather", {"city": "Rome", "days": 3}),)),
    "no arguments": HistoryTurn(calls=(("now", {}),)),
    "two calls": HistoryTurn(calls=(_WEATHER, ("now", {}))),
    "text and call": HistoryTurn(content="Let me see.", calls=(_WEATHER,)),
    "reasoning and call": HistoryTurn("A plan.", calls=(_WEATHER,)),
    "a list": HistoryTurn(calls=(("get_weather", {"tags": ["a", "b"]}),)),
    "Unicode": HistoryTurn("", "Ünï 北京", (("get_weather", {"city": "北京 🌧️", "note": 'it is "so" & <b>'}),)),
}


def agree(dialect: Dialect, template: Mapping[str, Any]) -> list[Case]:
    """Read the same texts with the dialect, and with the ``response_template`` through transformers' own parser.

    Returns:
        A case for each text: ``pass`` if both read what was written, ``limit`` if only transformers does not, ``not
        written`` if the dialect has no such text, and else ``fail``.

    Raises:
        ImportError: transformers 5.15 or later is not installed.
    """
    cases: dict[str, Case] = {}
    texts: dict[str, tuple[str, str]] = {}
    for name, said in _SAID.items():
        try:
            prompt, raw = _written(dialect, template, said)
        except DialectError as error:
            cases[name] = Case(name, "not written", str(error)[:300])
            continue
        ours = _read(parse(raw, dialect, tools=_TOOLS, prompt=prompt))
        if ours != _plain(*said):
            cases[name] = Case(name, "fail", f"unspool reads {raw!r} as {ours}"[:500])
            continue
        texts[name] = prompt, raw
    for name, answer in zip(texts, _answers(template, list(texts.values())), strict=True):
        why = answer.get("error", "")
        if not why:
            found = _given(answer["message"])
            why = "" if found == _plain(*_SAID[name]) else f"reads {texts[name][1]!r} as {found}"
        result = "pass" if not why else "fail" if name in _NEEDED else "limit"
        cases[name] = Case(name, result, why and f"transformers: {why}"[:500])
    return [cases[name] for name in _SAID]


def _answers(template: Mapping[str, Any], texts: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The messages that transformers reads, in a separate process."""
    job = {"template": dict(template), "tools": _TOOLS, "texts": texts, "seconds": _SECONDS, "memory": _MEMORY}
    command = [sys.executable, str(Path(theirs.__file__))]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, timeout=4 * _SECONDS, check=False
        )
        lines = done.stdout.splitlines()
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").splitlines()
    else:
        if done.returncode == theirs.MISSING:
            raise ImportError("transformers 5.15 or later is missing", name="transformers")
    answers: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return answers + [{"error": f"takes longer than {_SECONDS} s, or too much memory"}] * (len(texts) - len(answers))


def agreed(cases: list[Case], dialect: Dialect) -> bool:
    """Whether no case fails, and both parsers read content and calls."""
    results = {c.case: c.result for c in cases}
    needed = _NEEDED if dialect.call else _NEEDED[:1]
    return "fail" not in results.values() and all(results[n] == "pass" for n in needed)


def _written(dialect: Dialect, template: Mapping[str, Any], said: HistoryTurn) -> tuple[str, str]:
    """A prompt and what the dialect writes after it."""
    raw = render(said.message(HistoryStyle()), dialect, tools=_TOOLS, stage=Stage.CONTENT)
    prompt = dialect.start[0] if dialect.start else ""
    anchor = template.get("start_anchor") or template.get("start_anchor_pattern")
    if dialect.reasoning:
        first = dialect.reasoning[0]
        opening = unstarted(first.lead + first.opening, dialect.start)
        if opening.strip() and isinstance(anchor, str) and opening.strip() in anchor:  # the prompt opens it
            prompt = anchor if "start_anchor" in template else prompt + opening
            raw = raw.removeprefix(opening) if said.reasoning else (first.closing + first.trail).lstrip() + raw
    return prompt, raw if dialect.framed or not dialect.end else raw + dialect.end[0]


def _plain(reasoning: str, content: str, calls: Any) -> tuple[str, str, list[tuple[str, str]]]:
    return reasoning.strip(), content.strip(), [(name, json.dumps(a, sort_keys=True)) for name, a in calls]


def _read(message: Message) -> tuple[str, str, list[tuple[str, str]]]:
    calls = [(c.name, json.loads(c.arguments)) for c in message.tool_calls if c.status in ("ok", "repaired")]
    return _plain(message.reasoning, message.content, calls)


def _given(message: Mapping[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    reasoning = next((message[k] for k in ("reasoning_content", "thinking", "reasoning") if message.get(k)), "")
    calls = []
    listed = message.get("tool_calls") or ()
    if not all(isinstance(call, Mapping) for call in listed):  # lists of calls in a list
        return reasoning, "", [("", json.dumps(listed))]
    for call in listed:
        arguments = call["function"].get("arguments")
        calls.append(
            (call["function"]["name"], json.loads(arguments) if isinstance(arguments, str) else arguments or {})
        )
    return _plain(reasoning, message.get("content") or "", calls)
