"""The state of the call that is being read."""

import enum
from typing import NamedTuple

from ..dialect.plan import Block, Form, Parameter
from ..events import Status
from ..schema import Kinds, Marked, Schema
from .literals import LiteralReader
from .wrapped import Unwrapping


class Sink(enum.Enum):
    """Where what is read of a call goes."""

    CALL = "call"
    TEXT = "text"
    DROP = "drop"


class ValueMode(enum.Enum):
    """How the text of an argument becomes JSON."""

    STRING = "string"
    """As it arrives."""
    NULLABLE = "nullable"
    """Held while it may be `null`, else a string."""
    GUESS = "guess"
    """Held while it may be JSON, else a string."""
    TYPED = "typed"
    """Held to its end, then decoded by what its schema and its markup admit."""
    QUOTED = "quoted"
    """Held while it may be a string in quotes that would be something else without them."""


# What an object-shaped call expects next.
FIRST, KEY, COLON, VALUE, AFTER = range(5)


class Held(NamedTuple):
    """A value that waits for its container's end.

    Attributes:
        json: its JSON text.
        text: what the model wrote; ``None`` for a container.
        fits: whether it fits its schema.
    """

    json: str
    text: str | None = None
    fits: bool = True


class Level:
    """An open container of nested arguments: the outermost one is the arguments object itself.

    Attributes:
        given: the keys that were given.
        held: while the container is held, the values that are not yet told, by key.
        children: its members have no schema: a key given twice makes a list.
        wrapper: the key of a first argument that may hold all arguments.
    """

    __slots__ = ("bracket", "children", "empty", "fields", "given", "held", "parameter", "schema", "wrapper")

    def __init__(
        self, bracket: str, parameter: Parameter | None, fields: dict[str, str], schema: Schema | None
    ) -> None:
        self.bracket = bracket
        self.parameter = parameter
        self.fields = fields
        self.schema = schema
        self.empty = True
        self.given: set[str] = set()
        self.held: dict[str, list[Held]] | None = None
        self.children = False
        self.wrapper = ""


class Call:
    """One call, from its opening to its end.

    Attributes:
        start: offset of its first character, with the block's opening where it opens one.
        complete: the arguments have closed themselves.
        quiet: what comes is no longer handed on as arguments.
        early: arguments that came before the name.
        thought: it stands in reasoning.
        track: brackets that are open in a call that went wrong, innermost last; ``None`` where only markers end it.
        hold: the outermost container that is held (-1: none); so are all in it. ``weight``: characters held in them.
        parts: pieces of the value that is being read in a container that is held.
        dropped: how many containers were open where the value began that is not told (-1: none).
        margin: white space before what ends a value, which is not the value's.
        limit: how much of a value is held at most.
    """

    __slots__ = (
        "begun",
        "block",
        "complete",
        "dropped",
        "early",
        "expects",
        "fields",
        "form",
        "held",
        "held_size",
        "hold",
        "id",
        "index",
        "key",
        "kinds",
        "known",
        "levels",
        "limit",
        "line_start",
        "looked",
        "margin",
        "marked",
        "mode",
        "name",
        "parameter",
        "parts",
        "quiet",
        "quote",
        "reader",
        "rest",
        "role",
        "schema",
        "sink",
        "start",
        "started",
        "status",
        "thought",
        "track",
        "unwrapping",
        "value_fields",
        "weight",
        "within",
    )

    @property
    def held_back(self) -> bool:
        """Whether values that are read are not told (yet)."""
        return self.hold >= 0 or self.dropped >= 0

    def __init__(self, form: Form, block: Block, start: int, fields: dict[str, str]) -> None:
        self.form = form
        self.block = block
        self.start = start
        self.fields = fields
        self.index = -1
        self.name = fields.get("name", "")
        self.id = ""
        self.known: bool | None = None
        self.status: Status = "ok"
        self.sink = Sink.CALL
        self.started = False
        self.complete = False
        self.quiet = False
        self.thought = False
        self.early: list[str] | None = None
        self.track: list[str] | None = None
        self.quote = ""
        self.within = ""  # the quote of a string that went wrong and goes on
        self.reader: LiteralReader | None = None
        self.unwrapping: Unwrapping | None = None
        self.looked = False  # whether arguments may lie in a wrapping
        # an object-shaped call
        self.expects = FIRST
        self.key = ""
        self.role = ""
        # arguments with templates
        self.schema: Schema | None = None
        self.levels: list[Level] = []
        self.parameter: Parameter | None = None
        self.value_fields: dict[str, str] = {}
        self.mode = ValueMode.STRING
        self.kinds: Kinds | None = None
        self.marked = Marked.NOT
        self.line_start = False  # the value's text, of which nothing is taken yet, begins at a line's start
        self.margin = ""
        self.limit = 0
        self.hold = -1
        self.weight = 0
        self.parts: list[str] = []
        self.dropped = -1
        self.begun = False
        self.held: list[str] = []
        self.held_size = 0
        self.rest = ""
