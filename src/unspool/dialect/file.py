"""Dialects, loaded strictly from TOML files: how a model family writes reasoning, content and tool calls."""

import math
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ..errors import DialectError
from ..events import Stage
from ..policy import CHOICES, Policy
from ..regex import Regex
from ..schema import takes_text
from .impossible import impossible, late_id, other_opening
from .template import FIELDS, Codec, Field, Separator, Template, TextCall, Trained, literal, parse_template, pieces

T = TypeVar("T")

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

_TEMPLATES = ("reasoning", "content", "preamble", "calls", "call", "argument", "item")
_EXAMPLE_KEYS = ("raw", "stage", "reasoning", "content", "tool_calls")
_STAGES = ("content", "reasoning", "undecided")
_CODECS = ("json", "python")
_PARTS = 200
"""The largest number of parts in a dotted key."""
_DOTTED = Regex(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_PARTS}}}""")


class ExampleCall(msgspec.Struct, frozen=True):
    """A call in an example; ``arguments`` are plain values."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


class Example(msgspec.Struct, frozen=True):
    """Raw texts that all mean the same message; the dialect writes the first."""

    raw: tuple[str, ...]
    stage: Stage | None
    reasoning: str
    content: str
    tool_calls: tuple[ExampleCall, ...]


class Dialect(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One model family's format.

    Use `load_dialect` or `get_dialect` to get one.
    """

    name: str
    aliases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    stage: Stage = Stage.CONTENT
    reasoning: tuple[Template, ...] = ()
    content: tuple[Template, ...] = ()
    preamble: tuple[Template, ...] = ()
    calls: tuple[Template, ...] = ()
    call: tuple[Template, ...] = ()
    argument: tuple[Template, ...] = ()
    item: tuple[Template, ...] = ()
    trained: Trained = Trained()
    anywhere: tuple[str, ...] = ()
    separator: Separator = Separator()
    codec: Codec = Codec()
    id: str = "call_" + "?" * 24
    policy: Policy = Policy()
    file: tuple[str, str] = ("", "")
    """The place that it was loaded from, and its text."""

    def __repr__(self) -> str:
        return f"<Dialect {self.name}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def description(self) -> str:
        """The comment in the first line of the file; empty if there is none."""
        comment = self.file[1].lstrip().partition("\n")[0]
        return comment.lstrip("# ").rstrip() if comment.startswith("#") else ""

    @cached_property
    def compiled(self) -> dict[Any, Any]:
        """A cache of what other modules derive from the dialect, the same one for all threads."""
        found: dict[Any, Any] = self.__dict__.setdefault("compiled", {})
        return found

    def derived(self, key: Any, derive: Callable[["Dialect"], T]) -> T:
        """What a function derives from the dialect, kept under a key after its first use."""
        found: T | None = self.compiled.get(key)
        return self.compiled.setdefault(key, derive(self)) if found is None else found

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The file's examples, read on first use.

        Raises:
            DialectError: an example is invalid.
        """
        where, text = self.file
        return _Loader(where, read_toml(text, where), None).examples()

    @property
    def framed(self) -> bool:
        """Whether content has markers of its own."""
        return any(t.before or t.after for t in self.content)

    @property
    def argument_format(self) -> str:
        """``json``, ``python``, ``quote`` or ``xml``: how arguments are written."""
        if not self.call:
            return "-"
        if self.argument:
            return "xml"
        if self.codec.quote != '"':
            return "quote"
        shape = self.call[0].object
        return self.codec.name if shape is None else "python" if shape.quote == "'" else "json"

    @property
    def parallel(self) -> bool:
        """Whether a message can contain several calls; false only for dialects without calls."""
        return bool(self.call)

    def text_call(self, tool: Mapping[str, Any] | None, name: str) -> TextCall | None:
        """How calls of a tool are written as bare text; ``None`` if they are not, or if the tool has other arguments.

        Args:
            tool: an OpenAI tool dict; ``None`` if the tool is not known.
            name: the tool's name.
        """
        found = next((t for t in self.trained.text if t.name == name), None)
        return found if found is not None and (tool is None or takes_text(tool, found.key)) else None

    def call_of(self, name: str) -> Template:
        """The template of a tool's calls, if the dialect has calls; calls as bare text are left aside."""
        found = (template for glob, template in self.trained.tools if _fits(name, glob))
        return next(found, self.call[0])

    def knows(self, name: str) -> bool:
        """Whether the model was trained on a tool of this name."""
        return any(one.name == name for one in self.trained.text) or any(
            _fits(name, glob) for glob, _ in self.trained.tools
        )

    def with_reasoning(self, other: "Dialect") -> "Dialect":
        """This dialect with the reasoning markers of another."""
        return msgspec.structs.replace(self, reasoning=other.reasoning)

    def matches(self, model: str) -> int:
        """How literally a model's name (without organization, in lower case) matches; 0 if it does not."""
        import fnmatch  # not needed for parsing

        best = 0
        for glob in self.models:
            if fnmatch.fnmatchcase(model, glob.lower()):
                best = max(best, 1 + len(glob.replace("*", "").replace("?", "")))
        return best


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
    loader = _Loader(where, data, bases)
    dialect = msgspec.structs.replace(loader.load(), file=(where, text))
    if not trusted:
        loader.check_possible(dialect)
        vars(dialect)["examples"] = loader.examples()  # already read, so `Dialect.examples` need not
    return dialect


def _meant(key: str) -> str:
    """A question that names the key most like a misspelt one."""
    import difflib  # only misspelt keys need it

    near = difflib.get_close_matches(key, KEYS, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def read_toml(text: str, where: str) -> dict[str, Any]:
    """Read the tables of a TOML text.

    Raises:
        DialectError: it is not TOML, or a key has too many parts (reading a key takes time quadratic in their
            number).
    """
    import tomllib  # slow to import; `import unspool` alone does not need it

    if long := _DOTTED.search(text):
        why = f"the key {long[0][:40]}… has more than {_PARTS} parts"
        raise DialectError(f"{where}: not TOML that can be read: {why}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DialectError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise DialectError(f"{where}: not TOML that can be read: it is nested too deeply") from None


class _Loader:
    """Turns the tables of one file into a `Dialect`."""

    def __init__(self, where: str, data: dict[str, Any], bases: Any) -> None:
        self.where = where
        self.data = data
        self.bases = bases

    def fail(self, key: str, why: str) -> DialectError:
        return DialectError(f"{self.where}: {key}: {why}")

    def load(self) -> Dialect:
        data = self.data
        for key in data:
            if key not in KEYS:
                raise self.fail(key, f"unknown key{_meant(key)}; allowed are {', '.join(KEYS)}")
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
            "trained": Trained(self.text_calls(base.trained.text), self.known_tools(base.trained.tools)),
        }
        for key in _TEMPLATES:
            values[key] = self.templates(key, getattr(base, key))
        self.check_id(values["id"])
        if values["call"] and not values["calls"]:
            values["calls"] = (parse_template("calls", "{calls}", self.where, first=True),)
        if not values["content"]:
            values["content"] = (parse_template("content", "{content}", self.where, first=True),)
        dialect = Dialect(**values)
        self.check(dialect)
        return dialect

    # -- values of keys -------------------------------------------------------------------------------------------

    def string(self, key: str, default: str) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, f"must be a string, not {_kind(value)}")
        return value

    def strings(self, key: str, default: tuple[str, ...], *, empty: bool = True) -> tuple[str, ...]:
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(key, f"must be a string or a list of strings, not {_kind(value)}")
        if not empty and any(not v.strip() for v in value):
            raise self.fail(key, "contains an empty string")
        return tuple(value)

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.string(key, default)
        if value not in allowed:
            raise self.fail(key, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def policy(self, base: Policy) -> Policy:
        table = self.data.get("policy", {})
        if not isinstance(table, dict):
            raise self.fail("policy", f"must be a table, not {_kind(table)}")
        for key in table:
            if key not in CHOICES:
                raise self.fail(f"policy.{key}", f"unknown field; allowed are {', '.join(CHOICES)}")
        try:
            return Policy(**table).over(base)
        except ValueError as error:
            raise self.fail("policy", str(error)) from None

    def templates(self, key: str, default: tuple[Template, ...]) -> tuple[Template, ...]:
        texts = self.strings(key, ())
        if key not in self.data:
            return default
        if not texts:
            raise self.fail(key, "is empty; at least one template is needed")
        return tuple(parse_template(key, t, f"{self.where}: {key}", first=i == 0) for i, t in enumerate(texts))

    def text_calls(self, default: tuple[TextCall, ...]) -> tuple[TextCall, ...]:
        table = self.data.get("text")
        if table is None:
            return default
        if not isinstance(table, dict):
            raise self.fail("text", f"must be a table from tools to templates, not {_kind(table)}")
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
            parse_template("item", text.replace(f"{{{key}}}", "{value}"), f"{self.where}: {where}", first=i == 0)
            for i, text in enumerate(listed)
        )
        return TextCall(name, key, templates)

    def known_tools(self, default: tuple[tuple[str, Template], ...]) -> tuple[tuple[str, Template], ...]:
        table = self.data.get("tools")
        if table is None:
            return default
        if not isinstance(table, dict):
            raise self.fail("tools", f"must be a table from tools to templates, not {_kind(table)}")
        for glob, text in table.items():
            if not isinstance(text, str):
                raise self.fail(f"tools.{glob}", f"must be a template, not {_kind(text)}")
        return tuple((g, parse_template("call", t, f"{self.where}: tools.{g}", first=True)) for g, t in table.items())

    def separator(self, base: Separator) -> Separator:
        table = self.data.get("separator", {})
        if not isinstance(table, dict):
            raise self.fail("separator", f"must be a table, not {_kind(table)}")
        for key, value in table.items():
            if key not in ("calls", "arguments"):
                raise self.fail(f"separator.{key}", "unknown key; allowed are calls, arguments")
            if not isinstance(value, str):
                raise self.fail(f"separator.{key}", f"must be a string, not {_kind(value)}")
        return Separator(table.get("calls", base.calls), table.get("arguments", base.arguments))

    def check_id(self, template: str) -> None:
        for piece in pieces(template):
            if isinstance(piece, Field) and piece.name not in FIELDS["id"]:
                raise self.fail("id", f"unknown field {{{piece.name}}}; allowed are {{name}}, {{index}}, {{number}}")

    # -- the file as a whole --------------------------------------------------------------------------------------

    def check(self, d: Dialect) -> None:
        if not d.call:
            for key in ("calls", "argument", "item", "anywhere"):
                if getattr(d, key):
                    raise self.fail(key, "needs `call`")
            if not d.reasoning and not d.framed:
                raise self.fail("call", "the file defines neither `call` nor `reasoning` nor a framed `content`")
        for key in ("text", "tools"):
            if getattr(d.trained, key) and (why := _not_alone(d, key)):
                raise self.fail(key, f"is allowed only where content is framed and each call is on its own: {why}")
        for glob, own in d.trained.tools:
            if own.body != d.call[0].body or own.object is not None or d.call[0].object is not None:
                raise self.fail(f"tools.{glob}", "must have the fields that `call` has")
        for one in d.trained.text:
            if not all(t.opening and t.closing and not t.inner_lead and not t.inner_trail for t in one.templates):
                raise self.fail(f"text.{one.name}", "must have markers on both sides of its field, without white space")
        if d.item and not d.argument:
            raise self.fail("item", "needs `argument`")
        if d.codec.quote != '"' and (d.argument or d.codec.name != "json"):
            raise self.fail("quote", 'needs JSON arguments (no `argument`, no arguments = "python")')
        if d.codec.quote != '"' and len(d.codec.quote.strip()) < 2:
            why = "is one character, which strings contain too, and nothing escapes it in them"
            raise self.fail("quote", f'{d.codec.quote!r} {why}: for the strings of Python write arguments = "python"')
        quote = d.codec.quote.strip()
        if any(quote.endswith(quote[:k]) for k in range(1, len(quote))):
            why = "ends as it begins, so that the end of a string may be part of it: let it differ"
            raise self.fail("quote", f"{d.codec.quote!r} {why}")
        if d.argument and d.codec.name != "json":
            raise self.fail("arguments", "cannot be combined with `argument`")

    def check_possible(self, d: Dialect) -> None:
        """Refuse templates that nothing could read back; shipped files are known to have none."""
        for key in ("argument", *_TEMPLATES):  # what is wrong with a call may be its arguments
            for t in getattr(d, key):
                why = impossible(key, t, python=d.codec.name == "python", arguments=d.argument)
                if why:
                    raise self.fail(key, f"{t.text!r} {why}")
        self._check_ids(d)
        self._check_ends(d)
        self._check_anywhere(d)
        self._check_margins(d)
        if d.stage is Stage.REASONING and not d.reasoning:
            raise self.fail("stage", "is 'reasoning', but the file has no `reasoning`: write it, or leave `stage` out")
        self._check_openings(d)

    def _check_ids(self, d: Dialect) -> None:
        """An id is between a marker and the arguments."""
        for t in d.call if d.argument and any(b.body == "calls" for b in d.calls) else ():
            if t.steps[0].name == "id":
                why = "begins with {id}, so any text after a call is another one: write a marker before it"
                own = f"call = {'<call>' + t.text!r}; or, if each call has a block of its own, {{call}} in `calls`"
                raise self.fail("call", f"{t.text!r} {why}, as in {own}")
        for t in d.call[:1]:  # templates that are only read may have it there
            if why := late_id(t):
                raise self.fail("call", f"{t.text!r} {why}")

    def _check_ends(self, d: Dialect) -> None:
        """No `end` is a single character."""
        for end in d.end:
            if len(end.strip()) == 1 and end.strip().isascii() and end.strip().isprintable():
                why = "is one character, which text may also end with: write what the model stops at"
                raise self.fail("end", f"{end!r} {why}")

    def _check_anywhere(self, d: Dialect) -> None:
        """What counts anywhere begins calls, and is not a single character that text contains."""
        openings = [t.opening.strip() for t in (*d.calls, *d.call)]
        for text in d.anywhere:
            if not any(o.startswith(text) for o in openings):
                raise self.fail("anywhere", f"{text!r} begins no template of `calls` or `call`")
            alone = len(text) == 1 and any(o.partition("{")[0].strip() == text for o in openings)
            if alone and text.isascii() and text not in '[{("':
                why = f"{text!r} is one character, which text contains too"
                raise self.fail("anywhere", f"{why}: leave it out, so that calls begin content or a line")

    def _check_margins(self, d: Dialect) -> None:
        """White space before a call is inside its block."""
        for t in d.call:
            if t.lead and not all(b.opening for b in d.calls):
                why = f"{t.text!r} begins with white space, and no marker of `calls` comes before it"
                moved = d.calls[0].text.replace("{", f"{t.lead}{{", 1)
                raise self.fail("call", f"{why}: write it into `calls`, as in {moved!r}, and into `separator.calls`")

    def _check_openings(self, d: Dialect) -> None:
        """No two parts have the same opening."""
        first = [(key, t, t.opening) for key in ("reasoning", "content", "calls") for t in getattr(d, key)[:1]]
        first += [("call", t, literal(t.head)) for t in d.call[:1] if not d.calls[0].opening]
        seen: dict[str, str] = {}
        for key, t, opening in first:
            written = " ".join(opening.split())
            if written and seen.setdefault(written, key) != key:
                why = f"{t.text!r} begins like `{seen[written]}`, with {opening.strip()!r}"
                proposal = t.text.replace(opening, other_opening(opening, key, d.start), 1)
                raise self.fail(key, f"{why}: let them begin differently, as in {proposal!r}")

    def examples(self) -> tuple[Example, ...]:
        tables = self.data.get("examples", [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise self.fail("examples", "must be an array of tables")
        if not tables:
            raise self.fail("examples", "at least one example is needed")
        return tuple(self.example(i, t) for i, t in enumerate(tables))

    def example(self, i: int, table: dict[str, Any]) -> Example:
        at = f"examples[{i}]"
        for key in table:
            if key not in _EXAMPLE_KEYS:
                raise self.fail(f"{at}.{key}", f"unknown key; allowed are {', '.join(_EXAMPLE_KEYS)}")
        raw = table.get("raw")
        raws = [raw] if isinstance(raw, str) else raw
        if not isinstance(raws, list) or not raws or not all(isinstance(r, str) for r in raws):
            raise self.fail(f"{at}.raw", "must be a string or a list of strings")
        stage = table.get("stage")
        if stage is not None and stage not in [s.value for s in Stage]:
            raise self.fail(f"{at}.stage", f"{stage!r} is not one of {', '.join(Stage)}")
        for key in ("reasoning", "content"):
            if not isinstance(table.get(key, ""), str):
                raise self.fail(f"{at}.{key}", f"must be a string, not {_kind(table[key])}")
        try:
            calls = msgspec.convert(
                [{"arguments": {}, **c} for c in table.get("tool_calls", [])], tuple[_StrictCall, ...], strict=True
            )
        except (msgspec.ValidationError, TypeError) as error:
            allowed = 'allowed are name, arguments, id, as in { name = "f", arguments = { city = "Paris" } }'
            what, _, place = str(error).partition(" - at `$")
            raise self.fail(f"{at}.tool_calls{place.rstrip('`')}", f"{what}; {allowed}") from None
        if not all(_is_json(c.arguments) for c in calls):
            raise self.fail(
                f"{at}.tool_calls", "arguments contain a date, a time, inf or nan, which JSON cannot express"
            )
        return Example(
            tuple(raws),
            None if stage is None else Stage(stage),
            table.get("reasoning", ""),
            table.get("content", ""),
            tuple(ExampleCall(c.name, c.arguments, c.id) for c in calls),
        )


class _StrictCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]
    id: str | None = None


def _not_alone(d: Dialect, key: str) -> str:
    """What to write so that calls may be written differently for some tools; empty if they may be."""
    if not d.call:
        return "write `call`, for all other tools"
    if not d.framed:
        own = "content = '<say>{content}</say>'"
        return f"if the model writes markers around content, write them, as in {own}; if not, leave `{key}` out"
    block = d.calls[0]
    if not block.opening and not block.closing:
        return ""
    moved = f"{block.opening}{d.call[0].text}{block.closing}"
    why = f"write calls = '{{calls}}', and its markers into the templates of calls, as in call = {moved!r}"
    return f"{why}; if several calls are between them, leave `{key}` out"


def _fits(name: str, glob: str) -> bool:
    """Whether a name matches a glob, in which only a ``*`` at the end is special."""
    return name.startswith(glob[:-1]) if glob.endswith("*") else name == glob


def _is_json(value: Any) -> bool:
    waiting = [value]
    while waiting:
        v = waiting.pop()
        if isinstance(v, dict):
            waiting.extend(v.values())
        elif isinstance(v, list):
            waiting.extend(v)
        elif not isinstance(v, str | int | float) or (isinstance(v, float) and not math.isfinite(v)):
            return False
    return True


def _kind(value: object) -> str:
    return type(value).__name__


def read_dialect(path: "str | os.PathLike[str]", bases: Any, *, trusted: bool = False) -> Dialect:
    """Load a file; see `parse_dialect`."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DialectError(f"{path}: {error}") from None
    return parse_dialect(text, os.path.basename(path), bases, trusted=trusted)
