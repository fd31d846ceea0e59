"""What a dialect is: how a model family writes reasoning, content and tool calls, with examples."""

import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ..errors import DialectError
from ..events import Stage
from ..policy import Policy
from ..regex import Regex
from ..schema import takes_text
from ..validation import described
from .template import BODIES, Codec, Separator, Template, TextCall, Trained

T = TypeVar("T")

_EXAMPLE_KEYS = ("raw", "stage", "reasoning", "content", "tool_calls")
_PARTS = 200  # the largest number of parts in a dotted key
_DOTTED = Regex(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_PARTS}}}""")

_HYPHENS = str.maketrans("_: ", "---")
_VERSION = re.compile(r"(?<=[a-z]{2})(?=\d)")  # where a hyphen may stand between a family's name and its version
_WILD = re.compile(r"\[[^\]]*\]|[*?]")


class ExampleCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    spellings: tuple[tuple[str, tuple[str, ...]], ...] = ()
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
        """The file's examples, read on first use; `DialectError` if one is invalid."""
        where, text = self.file
        return read_examples(read_toml(text, where), where)

    @cached_property
    def barriers(self) -> tuple[str, ...]:
        """What no field of a marker contains, since it ends or begins a turn."""
        return tuple(text.strip() for text in (*self.end, *self.start))

    @property
    def templates(self) -> tuple[Template, ...]:
        """The templates of all parts."""
        return tuple(t for key in BODIES for t in getattr(self, key))

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

    def text_call(self, tool: Mapping[str, Any] | None, name: str) -> TextCall | None:
        """How calls of a tool (an OpenAI tool dict, if known) are written as bare text; ``None`` if they are not."""
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

    def matching(self, model: str) -> str:
        """The most literal of the globs that match a model's name, as `model_key` spells it; empty if none does.

        Hosts write versions with a hyphen and without (``gemma-4-26b``, ``gemma4:26b``); globs are written in one way.
        """
        import fnmatch  # not needed for parsing

        names = {model, _VERSION.sub("-", model)}
        found = (g for g in self.models if any(fnmatch.fnmatchcase(name, comparable(g)) for name in names))
        return max(found, key=literal_length, default="")

    def matches(self, model: str) -> int:
        """How literally a model's name, as `model_key` spells it, matches; 0 if it does not."""
        glob = self.matching(model)
        return 1 + literal_length(glob) if glob else 0


def comparable(name: str) -> str:
    """A model's name or a glob as they are compared: in lower case, with hyphens alone between words."""
    return name.lower().translate(_HYPHENS)


def literal_length(glob: str) -> int:
    """The number of characters of a glob that stand for themselves; a set such as ``[0-9]`` has none."""
    return len(_WILD.sub("", glob))


def read_toml(text: str, where: str) -> dict[str, Any]:
    """Read a TOML text; `DialectError` if it is none, or a key has too many parts, which takes quadratic time."""
    import tomllib  # slow to import; `import unspool` alone does not need it

    if long := _DOTTED.search(text):
        why = f"the key {long[0][:40]}… has more than {_PARTS} parts"
        raise DialectError(f"{where}: not TOML that can be read: {why}")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # `TOMLDecodeError` is one; another is a number of more digits than Python reads
        raise DialectError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise DialectError(f"{where}: not TOML that can be read: it is nested too deeply") from None


def read_examples(data: Mapping[str, Any], where: str) -> tuple[Example, ...]:
    """Read the examples of a file's tables; `DialectError` if an example is invalid."""
    tables = data.get("examples", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise _fail(where, "examples", "must be an array of tables")
    if not tables:
        raise _fail(where, "examples", "at least one example is needed")
    return tuple(_example(t, where, f"examples[{i}]") for i, t in enumerate(tables))


def _example(table: dict[str, Any], where: str, at: str) -> Example:  # a check for each field
    for key in table:
        if key not in _EXAMPLE_KEYS:
            raise _fail(where, f"{at}.{key}", f"unknown key; allowed are {', '.join(_EXAMPLE_KEYS)}")
    raw = table.get("raw")
    raws = [raw] if isinstance(raw, str) else raw
    if not isinstance(raws, list) or not raws or not all(isinstance(r, str) for r in raws):
        raise _fail(where, f"{at}.raw", "must be a string or a list of strings")
    stage = table.get("stage")
    if stage is not None and stage not in [s.value for s in Stage]:
        raise _fail(where, f"{at}.stage", f"{stage!r} is not one of {', '.join(Stage)}")
    for key in ("reasoning", "content"):
        if not isinstance(table.get(key, ""), str):
            raise _fail(where, f"{at}.{key}", f"must be a string, not {described(table[key])}")
    try:
        calls = msgspec.convert(
            [{"arguments": {}, **c} for c in table.get("tool_calls", [])], tuple[ExampleCall, ...], strict=True
        )
    except (msgspec.ValidationError, TypeError) as error:
        allowed = 'allowed are name, arguments, id, as in { name = "f", arguments = { city = "Paris" } }'
        what, _, place = str(error).partition(" - at `$")
        raise _fail(where, f"{at}.tool_calls{place.rstrip('`')}", f"{what}; {allowed}") from None
    if not all(_is_json(c.arguments) for c in calls):
        raise _fail(
            where, f"{at}.tool_calls", "arguments contain a date, a time, inf or nan, which JSON cannot express"
        )
    return Example(
        tuple(raws),
        None if stage is None else Stage(stage),
        table.get("reasoning", ""),
        table.get("content", ""),
        calls,
    )


def _fail(where: str, key: str, why: str) -> DialectError:
    return DialectError(f"{where}: {key}: {why}")


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
