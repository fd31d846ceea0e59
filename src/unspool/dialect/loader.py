"""Loads dialects strictly from TOML files."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import DialectError
from ..events import Stage
from ..policy import CHOICES, Policy
from ..validation import described, near
from .file import Dialect, read_examples, read_toml
from .template import BODIES, Codec, Field, Separator, Template, TextCall, Trained, parse_template, pieces

if TYPE_CHECKING:
    from .lint import Finding, Rules

KEYS: dict[str, str] = {
    "name": "what the dialect answers to",
    "aliases": "other names it answers to",
    "models": "globs of model names, for detection",
    "base": "dialect whose keys this one starts from (not its names, models, examples)",
    "start": "what begins the assistant's turn in a prompt",
    "end": "strings that end a message or the turn",
    "stage": "where the output begins if neither caller nor prompt says",
    "reasoning": "template of a reasoning part",
    "content": "template of a content part; anything but `{content}` makes the dialect framed",
    "preamble": "content that calls follow, where it is written otherwise",
    "calls": "template of a block of calls",
    "call": "template of one call",
    "anywhere": "openings of calls that count anywhere, even inside text",
    "argument": "template of one argument; without it the arguments are one object",
    "item": "template of a list element; makes values nest",
    "spellings": "other spellings of a literal of these templates, which are read too",
    "separator": "what is written between two `calls` or `arguments`",
    "text": "templates of calls whose only argument is bare text, by the tool's name",
    "tools": "how calls of tools that the model was trained on are written, by a glob of the tool's name",
    "arguments": "codec of the arguments without `argument`",
    "quote": "what is around JSON strings",
    "id": "ids of calls that carry none",
    "policy": "this dialect's defaults for the fields of `Policy`",
    "examples": "raw text and what it means",
}
"""The keys of a dialect file."""

_STAGES = ("content", "reasoning", "undecided")
_CODECS = ("json", "python")


def parse_dialect(text: str, where: str, bases: Any, *, trusted: bool = False) -> Dialect:
    """Load a dialect from TOML text.

    Args:
        text: the file.
        where: its name, for errors.
        bases: callable from a dialect's name to the `Dialect` (for ``base``).
        trusted: it is a shipped file, whose examples, which come last, are not read.

    Raises:
        DialectError: naming the file, the key, and what is allowed.
    """
    data = read_toml(text.split("\n[[examples]]", 1)[0] if trusted else text, where)
    if trusted:
        return msgspec.structs.replace(_Loader(where, data, bases).load(), file=(where, text))
    from .lint import LOADING, SIZES, TEMPLATES  # shipped files are known to keep the rules

    loader = _Loader(where, data, bases, TEMPLATES)
    loader.refuse(SIZES.findings(data))
    dialect = msgspec.structs.replace(loader.load(), file=(where, text))
    loader.refuse(LOADING.findings(dialect))
    vars(dialect)["examples"] = read_examples(data, where)  # already read, so `Dialect.examples` need not
    return dialect


class _Loader:
    """Turns the tables of one file into a `Dialect`."""

    def __init__(self, where: str, data: dict[str, Any], bases: Any, rules: "Rules | None" = None) -> None:
        self.where = where
        self.data = data
        self.bases = bases
        self.rules = rules  # those about templates; ``None``: they are kept

    def fail(self, key: str, why: str) -> DialectError:
        return DialectError(f"{self.where}: {key}: {why}")

    def refuse(self, findings: Iterator["Finding"]) -> None:
        for finding in findings:
            raise self.fail(finding.key, str(finding))

    def load(self) -> Dialect:
        data = self.data
        for key in data:
            if key not in KEYS:
                raise self.fail(key[:100], f"unknown key{near(key, KEYS)}; allowed are {', '.join(KEYS)}")
        name = self.string("name", "")
        if not name:
            raise self.fail("name", "is required")
        base = Dialect("")
        if "base" in data:
            try:
                base = self.bases(self.string("base", ""))
            except DialectError as error:
                raise self.fail("base", str(error).removeprefix("base: ")) from None
        values: dict[str, Any] = {
            "name": name,
            "aliases": self.strings("aliases", ()),
            "models": self.strings("models", ()),
            "start": self.strings("start", base.start, empty=False),
            "end": self.strings("end", base.end, empty=False),
            "anywhere": self.strings("anywhere", base.anywhere, empty=False),
            "stage": Stage(self.choice("stage", base.stage.value, _STAGES)),
            "codec": Codec(
                self.choice("arguments", base.codec.name, _CODECS), self.string("quote", base.codec.quote) or '"'
            ),
            "id": self.string("id", base.id),
            "policy": self.policy(base.policy),
            "separator": self.separator(base.separator),
            "spellings": self.spellings(base.spellings),
            "trained": Trained(self.text_calls(base.trained.text), self.known_tools(base.trained.tools)),
        }
        for key in BODIES:
            inherited = key not in data and "spellings" not in data
            own = self.templates(key, getattr(base, key))
            values[key] = own if inherited else self.spelled(key, own, values["spellings"])
        self.ruled("id", "id", values["id"])
        if values["call"] and not values["calls"]:
            values["calls"] = (parse_template("calls", "{calls}", self.where),)
        if not values["content"]:
            values["content"] = (parse_template("content", "{content}", self.where),)
        return Dialect(**values)

    # -- values of keys -------------------------------------------------------------------------------------------

    def typed(self, key: str, value: Any, kind: type, what: str) -> Any:
        if not isinstance(value, kind):
            raise self.fail(key, f"must be {what}, not {described(value)}")
        return value

    def string(self, key: str, default: str) -> str:
        return str(self.typed(key, self.data.get(key, default), str, "a string"))

    def strings(self, key: str, default: tuple[str, ...], *, empty: bool = True) -> tuple[str, ...]:
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(key, f"must be a string or a list of strings, not {described(value)}")
        if not empty and any(not v.strip() for v in value):
            raise self.fail(key, "contains an empty string")
        return tuple(value)

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.string(key, default)
        if value not in allowed:
            raise self.fail(key, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def policy(self, base: Policy) -> Policy:
        table = self.typed("policy", self.data.get("policy", {}), dict, "a table")
        for key in table:
            if key not in CHOICES:
                raise self.fail(f"policy.{key}", f"unknown field; allowed are {', '.join(CHOICES)}")
        try:
            return Policy(**table).over(base)
        except ValueError as error:
            raise DialectError(f"{self.where}: {error}") from None

    def templates(self, key: str, default: tuple[Template, ...]) -> tuple[Template, ...]:
        texts = self.strings(key, ())
        if key not in self.data:
            return default
        if not texts:
            raise self.fail(key, "is empty; at least one template is needed")
        return tuple(self.template(key, key, t, first=i == 0) for i, t in enumerate(texts))

    def template(self, key: str, kind: str, text: str, *, first: bool = True) -> Template:
        self.ruled(key, kind, text, first=first)
        return parse_template(kind, text, f"{self.where}: {key}")

    def ruled(self, key: str, kind: str, text: str, *, first: bool = True) -> None:
        """Refuse a template that breaks a rule about its fields."""
        if self.rules is not None:
            from .lint.fields import TemplateText

            self.refuse(self.rules.findings(TemplateText(key, kind, text, first)))

    def spellings(self, default: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if "spellings" not in self.data:
            return default
        table = self.typed("spellings", self.data["spellings"], dict, "a table from literals to lists of spellings")
        for literal, others in table.items():
            where = f"spellings.{literal}"
            if (
                not literal.strip()
                or not others
                or not all(isinstance(o, str) for o in self.typed(where, others, list, "a list"))
            ):
                raise self.fail(where, "must be a list of other spellings of a literal")
        return tuple((literal, tuple(others)) for literal, others in table.items())

    def spelled(
        self, key: str, found: tuple[Template, ...], spellings: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> tuple[Template, ...]:
        """The templates, and copies with the other spellings of their literals."""
        own = [t for t in found if t.spelled is None]
        texts = {
            t.text.replace(literal, other): other
            for literal, others in spellings
            for other in others
            for t in own
            if literal in t.text
        }
        known = {t.text for t in own}
        copies = (
            msgspec.structs.replace(self.template(key, key, text, first=False), spelled=other)
            for text, other in texts.items()
            if text not in known
        )
        return (*own, *copies)

    def text_calls(self, default: tuple[TextCall, ...]) -> tuple[TextCall, ...]:
        if "text" not in self.data:
            return default
        table = self.typed("text", self.data["text"], dict, "a table from tools to templates")
        return tuple(self.text_call(name, texts) for name, texts in table.items())

    def text_call(self, name: str, texts: object) -> TextCall:
        """One tool's templates; their only field has the argument's name."""
        where = f"text.{name}"
        listed = [texts] if isinstance(texts, str) else texts
        if not isinstance(listed, list) or not listed or not all(isinstance(text, str) for text in listed):
            raise self.fail(where, "must be a template or a list of templates")
        keys = {piece.name for text in listed for piece in pieces(text) if isinstance(piece, Field)} - {"any"}
        if len(keys) != 1:
            raise self.fail(where, "must have one field besides {any}: the name of the tool's argument")
        key = keys.pop()
        templates = tuple(
            self.template(where, "item", text.replace(f"{{{key}}}", "{value}"), first=i == 0)
            for i, text in enumerate(listed)
        )
        return TextCall(name, key, templates)

    def known_tools(self, default: tuple[tuple[str, Template], ...]) -> tuple[tuple[str, Template], ...]:
        if "tools" not in self.data:
            return default
        table = self.typed("tools", self.data["tools"], dict, "a table from tools to templates")
        for glob, text in table.items():
            self.typed(f"tools.{glob}", text, str, "a template")
        return tuple((g, self.template(f"tools.{g}", "call", t)) for g, t in table.items())

    def separator(self, base: Separator) -> Separator:
        table = self.typed("separator", self.data.get("separator", {}), dict, "a table")
        for key, value in table.items():
            if key not in ("calls", "arguments"):
                raise self.fail(f"separator.{key}", "unknown key; allowed are calls, arguments")
            self.typed(f"separator.{key}", value, str, "a string")
        return Separator(table.get("calls", base.calls), table.get("arguments", base.arguments))


def read_dialect(path: "str | os.PathLike[str]", bases: Any, *, trusted: bool = False) -> Dialect:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise DialectError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DialectError(f"{path}: not UTF-8: {error.reason}") from None
    return parse_dialect(text, os.path.basename(path), bases, trusted=trusted)
