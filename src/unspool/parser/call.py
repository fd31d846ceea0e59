"""The state of the call that is being read."""

import enum
from typing import Any

from ..events import Status
from ..schema import Schema
from .literals import LiteralReader
from .plan import Block, Form, Parameter


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
    """Held to its end, then decoded by its types."""


# What an object-shaped call expects next.
FIRST, KEY, COLON, VALUE, AFTER = range(5)


class Level:
    """An open container of nested arguments: the outermost one is the arguments object itself."""

    __slots__ = ("bracket", "empty", "fields", "parameter", "schema")

    def __init__(
        self, bracket: str, parameter: Parameter | None, fields: dict[str, str], schema: Schema | None
    ) -> None:
        self.bracket = bracket
        self.parameter = parameter
        self.fields = fields
        self.schema = schema
        self.empty = True


class Call:
    """One call, from its opening to its end.

    Attributes:
        start: offset of its first character, with the block's opening where it opens one.
        complete: the arguments have closed themselves.
        quiet: what comes is no longer handed on as arguments.
        early: arguments that came before the name.
        thought: it stands in reasoning.
        track: brackets that are open in a call that went wrong, innermost last; ``None`` where only markers end it.
    """

    __slots__ = (
        "begun",
        "block",
        "complete",
        "early",
        "expects",
        "fields",
        "form",
        "held",
        "held_size",
        "id",
        "index",
        "key",
        "known",
        "levels",
        "mode",
        "name",
        "parameter",
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
        "types",
        "value_fields",
        "within",
    )

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
        self.types: Any = None
        self.begun = False
        self.held: list[str] = []
        self.held_size = 0
        self.rest = ""
