"""Arguments that are written one by one, and the containers around them.

A container is held if only its end shows what it contains: a repeated key may make a list, and an object may turn out
to be the arguments themselves. Held text is emitted as soon as it is certain, or too large.
"""

from typing import NamedTuple

import msgspec

from ...dialect.markers import Parameter, Siblings
from ...schema import WRAPPERS, Kinds, Schema, collected, declared_object
from ..call import OpenCall
from ..ledger import CAP
from .strings import escaped


class Held(NamedTuple):
    """A value that waits for its container's end."""

    json: str  # its JSON text
    text: str | None = None  # the text that the model wrote; ``None`` for a container
    fits: bool = True  # whether it fits its schema


class Level(msgspec.Struct, eq=False):
    """An open container: the outermost one is the arguments object itself."""

    bracket: str  # its opening in JSON
    # parameter, fields: the template of its own opening, and its fields.
    parameter: Parameter | None
    fields: dict[str, str]
    schema: Schema | None
    siblings: Siblings  # the templates of what is in it
    children: bool = False  # its members have no schema, so a repeated key makes a list
    empty: bool = True  # nothing in it was emitted yet
    begun: bool = False  # it has a member, emitted or held
    given: set[str] = msgspec.field(default_factory=set)  # the keys so far
    # While the container is held, the values that were not emitted yet, by key.
    held: dict[str, list[Held]] | None = None
    wrapper: str = ""  # the key of a first argument that may contain all arguments


class Containers:
    """The open containers, outermost first, and the text that is held in them."""

    def __init__(self, call: OpenCall, schema: Schema | None) -> None:
        # The open containers.
        self.levels = [Level("{", None, {}, schema, call.context.plan.arguments.parameters)]
        self.key = ""  # the key of the last argument that was opened, in the innermost container
        self.dropped = -1  # how many containers were open when the value that is being dropped began (-1: none)
        self.call = call
        self._hold = -1  # the outermost held container (-1: none); all inside it are held too
        self._weight = 0  # how many characters are held
        self._parts: list[str] = []  # pieces of the value that is being read

    @property
    def held_back(self) -> bool:
        """Whether values are not emitted as they are read."""
        return self._hold >= 0 or self.dropped >= 0

    @property
    def holding(self) -> bool:
        """Whether a container is held."""
        return self._hold >= 0

    @property
    def quiet(self) -> bool:
        """Whether a container is held, and far from the cap: whatever is read next, nothing is emitted."""
        return self._hold >= 0 and self.dropped < 0 and self._weight < CAP // 2

    @property
    def all_closed(self) -> bool:
        """Whether there are arguments, and all of them are closed."""
        return len(self.levels) == 1 and bool(self.levels[0].given)

    def wrapped_schema(self, schema: Schema | None) -> Schema | None:
        """The schema of a container that begins; if it may contain all arguments, theirs."""
        return self.levels[0].schema if self.levels[-1].wrapper and self._hold == 0 else schema

    def enter(self, key: str, schema: Schema | None, end: int) -> None:
        """An argument begins: what was held may be certain now, and this key may have been given before."""
        level = self.levels[-1]
        self.key = key
        if self.dropped >= 0:
            return
        level.begun = True
        if level.bracket == "[":
            return
        if self._hold == len(self.levels) - 1 and self._settled(level, key):
            self.let_out(end)
        if key not in level.given:
            if not level.given:
                self._first(level, key, schema)
            level.given.add(key)
        elif not self._collects(level, key, schema):
            self.call.notice("duplicate_arguments", key)
            self.dropped = len(self.levels)

    def piece(self, fragment: str, end: int, *, first: bool) -> None:
        """Add a piece of a value that ends at an offset."""
        if first and not self.held_back:
            fragment = self._prefix(len(self.levels) - 1, self.key) + fragment
            self.levels[-1].empty = False
        self._emit(fragment, end)

    def value(self, held: Held, end: int) -> None:
        if self.dropped >= 0:
            self.call.put("", end)
        elif self._hold < 0:
            self.call.put(self._prefix(len(self.levels) - 1, self.key) + held.json, end)
            self.levels[-1].empty = False
        else:
            self._parts.clear()
            self._store(self.key, held, end)

    def pieces(self) -> str | None:
        """All pieces of the value that ended, if they are held."""
        return "".join(self._parts) if self._hold >= 0 and self.dropped < 0 else None

    def leave(self) -> None:
        """End the value of the open argument."""
        if self.dropped == len(self.levels):
            self.dropped = -1

    def _emit(self, fragment: str, end: int) -> None:
        if self.dropped >= 0:
            self.call.put("", end)
        elif self._hold < 0:
            self.call.put(fragment, end)
        else:
            self._parts.append(fragment)
            self._weigh(len(fragment), end)

    def _store(self, key: str, held: Held, end: int) -> None:
        level = self.levels[-1]
        assert level.held is not None
        level.held.setdefault("" if level.bracket == "[" else key, []).append(held)
        self._weigh(len(held.json), end)

    def _weigh(self, more: int, end: int) -> None:
        self._weight += more
        if self._weight > CAP:
            self.call.notice("hold_overflow", self.key)
            self.let_out(end)

    def hold(self, level: Level) -> None:
        """Hold the values of a container until its end: others of the same key may follow, or it may be unwrapped."""
        level.held = {}
        if self._hold < 0:
            self._hold = self.levels.index(level)
            self._weight = 0
            self._parts = []

    def open(self, level: Level, end: int) -> None:
        """A container begins, as the value of the last argument that was opened."""
        if not self.held_back:
            self._emit(self._prefix(len(self.levels) - 1, self.key) + level.bracket, end)
            self.levels[-1].empty = False
        self.levels.append(level)
        if self._hold >= 0:
            level.held = {}

    def close(self, end: int) -> None:
        """The innermost container ends."""
        level = self.levels[-1]
        if self.dropped >= 0:
            self.levels.pop()
            self.call.put("", end)
        elif level.held is None:
            self.levels.pop()
            self.call.put("]" if level.bracket == "[" else "}", end)
        else:
            json = self._composed(level)
            self.levels.pop()
            if self._hold == len(self.levels):  # its own opening was emitted
                self._hold = -1
                self.call.put(_after(level, json), end)
            else:
                self.key = level.fields.get("key", "")
                self._store(self.key, Held(json), end)
        self.leave()

    def end(self) -> str:
        """The arguments end: the rest of their JSON."""
        level = self.levels[0]
        if self._hold == 0:
            self._hold = -1
            text = self._unwrapped(level) or self._composed(level)
            return text if level.empty else _after(level, text)
        return "{}" if level.empty else "]" if self.levels[-1].bracket == "[" else "}"

    def take(self) -> str | None:
        """Take the held text so far; ``None`` if there is none."""
        if self._hold < 0:
            return None
        text = ""
        levels = self.levels
        for i in range(self._hold, len(levels)):
            level = levels[i]
            if i > self._hold:
                text += self._prefix(i - 1, level.fields.get("key", "")) + level.bracket
                levels[i - 1].empty = False
            members = self._members(level)
            if members:
                text += ("{" if i == 0 and level.empty else "" if level.empty else ", ") + members
                level.empty = False
            level.held, level.wrapper = None, ""  # the hold ends
        if self._parts:
            text += self._prefix(len(levels) - 1, self.key) + "".join(self._parts)
            levels[-1].empty = False
        self._hold = -1
        self._parts = []
        return text

    def let_out(self, end: int) -> None:
        text = self.take()
        if text is not None:
            self.call.put(text, end)

    def _prefix(self, i: int, key: str) -> str:
        """The text before a value of a container."""
        level = self.levels[i]
        text = "{" if i == 0 and level.empty else "" if level.empty else ", "
        return text if level.bracket == "[" else f'{text}"{escaped(key)}": '

    def _composed(self, level: Level) -> str:
        """The JSON text of a held container."""
        members = self._members(level)
        return f"[{members}]" if level.bracket == "[" else f"{{{members}}}"

    def _members(self, level: Level) -> str:
        held = level.held or {}
        if level.bracket == "[":
            return ", ".join(value.json for values in held.values() for value in values)
        return ", ".join(f'"{escaped(key)}": {self._value_of(level, key, values)}' for key, values in held.items())

    def _value_of(self, level: Level, key: str, values: list[Held]) -> str:
        """The JSON text of all values of one key."""
        if len(values) == 1:
            if not values[0].fits:
                self.call.notice("value_type", key)
            return values[0].json
        schema = None if level.schema is None else level.schema.property(key)
        if schema is None:
            return f"[{', '.join(value.json for value in values)}]"
        text, fits = collected([value.json if value.text is None else value.text for value in values], schema.items())
        if not fits:
            self.call.notice("value_type", key)
        return text

    def _unwrapped(self, level: Level) -> str:
        """The arguments that are wrapped in a single argument, or ``""``."""
        held = level.held or {}
        if not level.wrapper or list(held) != [level.wrapper] or level.schema is None:
            return ""
        value = held[level.wrapper][0]
        return declared_object(value.json if value.text is None else value.text, level.schema)

    def _settled(self, level: Level, key: str) -> bool:
        """Whether an argument of another name makes the held text certain."""
        held = level.held or {}
        if level.children or key in held:
            return False
        return bool(level.wrapper) or all(len(values) > 1 or values[0].fits for values in held.values())

    def _first(self, level: Level, key: str, schema: Schema | None) -> None:
        """Decide whether the first argument of a container must be held."""
        if len(self.levels) == 1:
            if key in WRAPPERS and level.schema is not None and not level.schema.declares(key):
                level.wrapper = key
                self.hold(level)
        elif schema is None:
            level.children = True
            if level.held is None:
                self.hold(level)

    def _collects(self, level: Level, key: str, schema: Schema | None) -> bool:
        """Whether a repeated key makes a list."""
        if level.held is None or key not in level.held:
            return False
        return level.children if schema is None else is_list(schema.kinds())


def _after(level: Level, json: str) -> str:
    """The rest of a container whose opening, and perhaps first members, were already emitted."""
    return json[1:] if level.empty or json in ("{}", "[]") else f", {json[1:]}"


def is_list(kinds: Kinds | None) -> bool:
    """Whether a schema admits an array, but no string, which would be written differently."""
    return kinds is not None and "array" in kinds.types and "string" not in kinds.types
