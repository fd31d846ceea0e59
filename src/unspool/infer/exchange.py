"""Converts dialects from and to the ``response_template`` of transformers (5.15 and later, `python-call-list` 5.24).

Such a template is JSON in ``tokenizer_config.json``. It lists the fields of the message, each with its opening and its
closing (literals or regular expressions) and how its content is read. Format: `transformers.utils.chat_parsing`.
Patterns are converted to texts with fields (`expressions`) and never run.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ..dialect.file import Dialect
from ..dialect.loader import parse_dialect
from ..dialect.registry import find_base
from ..errors import DialectError
from .expressions import Ahead, Captured, Either, LiteralText, Part, read_pattern
from .toml import file_text

_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
_CALLS: Final = "tool_calls"
_OPENED: Final = re.compile(r"<([A-Za-z_][\w-]*)[ =>]")
_KEYS: Final = ("version", "defaults", "fields", "start_anchor", "start_anchor_pattern")


class Converted(msgspec.Struct, frozen=True):
    """A dialect from a ``response_template``, the text of its file, and what is lost, one sentence per item."""

    dialect: Dialect
    toml: str
    lossy: tuple[str, ...]


def from_response_template(template: Mapping[str, Any], name: str = "converted") -> Converted:
    """The dialect that a ``response_template`` describes; a `DialectError` names what none can express."""
    if not isinstance(template, Mapping) or not isinstance(template.get("fields"), Mapping):
        raise DialectError("response_template: must be an object with fields")
    for key in template:
        if key not in _KEYS:
            raise DialectError(f"response_template: unknown key {key!r}; allowed are {', '.join(_KEYS)}")
    keys, lossy = _TemplateReader(template).keys()
    text = file_text({"name": name, **keys}, "Converted from a response_template.")
    return Converted(parse_dialect(text, f"{name}.toml", find_base), text, tuple(lossy))


class _TemplateReader:
    def __init__(self, template: Mapping[str, Any]) -> None:
        self.template = template
        self.fields: dict[str, Mapping[str, Any]] = {}
        for name, field in template["fields"].items():
            if not isinstance(field, Mapping):
                raise DialectError(f"fields.{name}: must be an object")
            self.fields[name] = field
        self.lossy: list[str] = []

    def keys(self) -> tuple[dict[str, Any], list[str]]:
        """The keys of the dialect file, and what they do not keep."""
        starts, opened = self.anchors()
        keys: dict[str, Any] = {"start": starts} if starts else {}
        content = self.fields.get("content", {})
        ends = [text for sequence in self.delimiter("content", content, "close") for text in _each(sequence)]
        framed = bool(content.get("open") or content.get("open_pattern"))
        lead = starts[0] if framed and starts else ""
        calls = self.calls(lead) if _CALLS in self.fields else {}
        last = calls.pop("end", [])
        keys["end"] = list(dict.fromkeys(e.strip() for e in (*ends, *last) if e.strip()))
        if framed:
            opening = _plain(self.delimiter("content", content, "open")[0])
            keys["content"] = f"{lead}{opening}{{content}}{ends[0].strip()}"
        reasoning = self.reasoning(lead, opened)
        if reasoning:
            keys["reasoning"] = reasoning
        for field in self.fields:
            if field not in (*_REASONING, _CALLS, "content"):
                self.lossy.append(f"fields.{field}: a dialect has no such part")
        self.lossy.append("white space around reasoning and content, which it takes off, is kept")
        return {k: v for k, v in {**keys, **calls}.items() if v}, self.lossy

    def delimiter(self, name: str, field: Mapping[str, Any], side: str) -> tuple[tuple[Part, ...], ...]:
        """The alternative openings or closings of a field."""
        where = f"fields.{name}.{side}"
        literal, pattern = field.get(side), field.get(f"{side}_pattern")
        if literal is not None:
            texts = [literal] if isinstance(literal, str) else literal
            if not isinstance(texts, Sequence) or not texts or not all(isinstance(t, str) for t in texts):
                raise DialectError(f"{where}: must be a string or a list of strings")
            return tuple((LiteralText(t),) for t in texts)
        if pattern is None:
            return ((),)
        if not isinstance(pattern, str):
            raise DialectError(f"{where}_pattern: must be a string")
        return read_pattern(pattern, f"{where}_pattern")

    def anchors(self) -> tuple[list[str], str]:
        """The opening of a turn, and the part of it that opens the reasoning."""
        delimiters = {
            "start": self.template.get("start_anchor"),
            "start_pattern": self.template.get("start_anchor_pattern"),
        }
        texts: list[str] = []
        for sequence in self.delimiter("start_anchor", delimiters, "start"):
            texts += _each(sequence)
        texts = [t for t in texts if t.strip()]
        ahead = any(isinstance(p, Ahead) for n in _REASONING if n in self.fields for p in self.opening(n))
        tag = re.search(r"<[\w:-]+>\s*$", texts[0]) if texts and ahead else None
        if tag is not None:
            return [texts[0][: tag.start()]], tag[0]
        return texts, ""

    def opening(self, name: str) -> tuple[Part, ...]:
        return self.delimiter(name, self.fields[name], "open")[0]

    def reasoning(self, lead: str, opened: str) -> str:
        name = next((n for n in _REASONING if n in self.fields), None)
        if name is None:
            return ""
        opening = self.opening(name)
        closing = _plain(self.delimiter(name, self.fields[name], "close")[0]).strip()
        text = opened.strip() if any(isinstance(p, Ahead) for p in opening) else _plain(opening)
        if not text.strip():
            text = closing.replace("/", "", 1)
        return f"{lead}{text}{{reasoning}}{closing}"

    # -- calls ----------------------------------------------------------------------------------------------------

    def calls(self, lead: str) -> dict[str, Any]:
        field = self.fields[_CALLS]
        openings = self.delimiter(_CALLS, field, "open")
        closing = list(self.delimiter(_CALLS, field, "close")[0])
        opening = list(openings[0])
        keys: dict[str, Any] = {}
        block = ""
        if opening and isinstance(opening[0], Either):
            block, separator = _alternatives(opening[0])
            opening = opening[1:]
            if separator:
                keys["separator"] = {"calls": separator + " "}
        after = _plain(p for p in closing if isinstance(p, LiteralText))
        behind = "".join(_plain(c) for p in closing if isinstance(p, Either) and p.optional for c in p.choices)
        if block:
            keys["calls"] = f"{block}{{calls}}{behind}"
            after = after.removesuffix(behind)
        text = _plain(opening)
        if lead and text[:1].isalnum():
            text = " " + text
        content = field.get("content", "text")
        if content == "json":
            keys |= self.json_call(field, lead + text, after)
        elif content == "xml-inline":
            keys |= self.marked_call(field, lead + text, after)
        elif content == "python-call-list":
            keys |= self.python_calls(field, lead + text, after)
        else:
            raise DialectError(f"fields.{_CALLS}.content: {content!r} is not a way to write arguments in a dialect")
        if "{name}" in text and not keys.get("quote") and "\\w+" in str(field.get("open_pattern")):
            self.lossy.append(
                f"fields.{_CALLS}: names of more than letters and digits, which it refuses, are read as well"
            )
        self.ended(keys, lead)
        return keys

    def ended(self, keys: dict[str, Any], lead: str) -> None:
        """Separate the end of the turn after its calls from the closing of a call."""
        written = keys["call"]
        end = re.search(r"<\|[^<>]*\|>\s*$", written) if isinstance(written, str) else None
        if end is not None and written[: end.start()].endswith("}"):
            keys["end"] = [end[0].strip()]
            keys["call"] = written if lead else written[: end.start()]

    def json_call(self, field: Mapping[str, Any], opening: str, closing: str) -> dict[str, Any]:
        arguments = field.get("content_args") or {}
        keys: dict[str, Any] = {}
        delimiters = arguments.get("string_delims") or []
        if delimiters:
            if len(delimiters) != 1 or len(set(delimiters[0])) != 1:
                raise DialectError(f"fields.{_CALLS}.content_args.string_delims: a dialect has one for both sides")
            keys["quote"] = delimiters[0][0]
        function = _function(field.get("transform"))
        if "{name}" in opening:
            return {**keys, "call": f"{opening}{{arguments}}{closing}"}
        name, written = "name", "arguments"
        if isinstance(function, Mapping):
            name = _path(function.get("name"), "name")
            written = _path(function.get("arguments"), "arguments")
        call = f'{{"{name}": "{{name}}", "{written}": {{arguments}}}}'
        if field.get("transform_each"):
            return {**keys, "calls": f"{opening}[{{calls}}]{closing}", "call": call, "separator": {"calls": ", "}}
        return {**keys, "call": f"{opening}{call}{closing}"}

    def python_calls(self, field: Mapping[str, Any], opening: str, closing: str) -> dict[str, Any]:
        function = _function(field.get("transform"))
        keys = [function.get(key) for key in ("name", "arguments")] if isinstance(function, Mapping) else []
        if keys != ["{name}", "{arguments}"] or not field.get("transform_each") or "{name}" in opening:
            raise DialectError(
                f"fields.{_CALLS}.transform: must be a function of {{name}} and {{arguments}} for each call"
            )
        self.lossy.append(
            f"fields.{_CALLS}: lists that it refuses, such as one with a key given twice, are read as well"
        )
        return {
            "calls": f"{opening}[{{calls}}]{closing}",
            "call": "{name}({arguments})",
            "arguments": "python",
            "separator": {"calls": ", "},
        }

    def marked_call(self, field: Mapping[str, Any], opening: str, closing: str) -> dict[str, Any]:
        arguments = field.get("content_args") or {}
        pattern = arguments.get("tag_pattern")
        if not isinstance(pattern, str):
            raise DialectError(f"fields.{_CALLS}.content_args.tag_pattern: must be a string")
        tag = _plain(read_pattern(pattern, f"fields.{_CALLS}.content_args.tag_pattern")[0])
        if "{name}" not in opening:
            raise DialectError(f"fields.{_CALLS}.open_pattern: contains no name")
        if tag == "{key}={value}":
            self.lossy.append(f"fields.{_CALLS}: values are Python's, True and None included; it reads those as text")
            return {"arguments": "python", "call": f"{opening}{{arguments}}{closing}"}
        if (arguments.get("value_parser") or {}).get("name", "text") != "text":
            self.lossy.append(f"fields.{_CALLS}: without a schema, a value is JSON if it can be, else text")
        call = f"{opening}{{arguments}}{closing}"
        inner = [t for t in _OPENED.findall(opening) if f"</{t}>" not in closing]
        if not inner:
            return {"argument": tag, "call": call}
        # transformers ignores everything in a call but its arguments; other tags must only be closed.
        closed = "".join(f"</{t}>" for t in reversed(inner))
        return {"argument": tag, "call": [f"{opening}{{arguments}}{closed}{closing}", call]}


def _alternatives(opening: Either) -> tuple[str, str]:
    """The opening of a block, and what separates two calls, of which one stands before each call."""
    choices = [_plain(c) for c in opening.choices]
    separators = [c.strip() for c in choices if c.strip() in (",", ";")]
    blocks = [c for c in choices if c.strip() not in separators]
    if len(blocks) > 1 or len(separators) > 1:
        where = f"fields.{_CALLS}.open_pattern"
        raise DialectError(f"{where}: alternatives that are not a block's opening and separator")
    return "".join(blocks), "".join(separators)


def _each(sequence: Sequence[Part]) -> list[str]:
    """The texts of a sequence: one for each alternative of the group at its beginning."""
    if sequence and isinstance(sequence[0], Either) and not sequence[0].optional:
        return [_plain(choice) + _plain(sequence[1:]) for choice in sequence[0].choices]
    return [_plain(sequence)]


def _plain(sequence: "Sequence[Part] | Any") -> str:
    """A sequence as a template, without its optional parts."""
    out = []
    for part in sequence:
        if isinstance(part, LiteralText) and not part.optional:
            out.append(part.text)
        elif isinstance(part, Captured):
            out.append(f"{{{part.name}}}")
    return "".join(out)


def _function(transform: Any) -> Any:
    return transform.get("function") if isinstance(transform, Mapping) else None


def _path(placeholder: Any, default: str) -> str:
    """The key that a placeholder such as ``{content.args}`` names."""
    found = re.fullmatch(r"\{(?:content\.)?(\w+)\}", placeholder) if isinstance(placeholder, str) else None
    return found[1] if found is not None else default
