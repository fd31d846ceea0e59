"""What is told of arguments that are written one by one: containers in each other, and what of them is held.

A container is held where what it holds is only known at its end: a key that may come again and make a list, an object
that may turn out to be the arguments themselves. What is held is told as soon as that is certain, or too much.
"""

from ..schema import Schema, collected, declared_object
from .call import Call, Held, Level
from .objects import Objects
from .output import CAP
from .strings import escaped
from .wrapped import WRAPPERS


class Levels(Objects):
    """Tells values of arguments in the containers that are open."""

    __slots__ = ()

    def _tell(self, call: Call, fragment: str, end: int) -> None:
        """A piece of a value, which ends at ``buf[end]``."""
        if call.dropped >= 0:
            self._put_arguments(call, "", self._base + end)
        elif call.hold < 0:
            self._put_arguments(call, fragment, self._base + end)
        else:
            call.parts.append(fragment)
            self._weigh(call, len(fragment), end)

    def _tell_value(self, call: Call, held: Held, end: int) -> None:
        """A whole value."""
        level = call.levels[-1]
        if call.dropped >= 0:
            self._put_arguments(call, "", self._base + end)
        elif call.hold < 0:
            self._tell(call, self._key(call) + held.json, end)
            level.empty = False
        else:
            call.parts.clear()
            self._store(call, held, end)

    def _store(self, call: Call, held: Held, end: int) -> None:
        level = call.levels[-1]
        assert level.held is not None
        key = "" if level.bracket == "[" else call.value_fields.get("key", "")
        level.held.setdefault(key, []).append(held)
        self._weigh(call, len(held.json), end)

    def _weigh(self, call: Call, more: int, end: int) -> None:
        call.weight += more
        if call.weight > CAP:
            self._notice("hold_overflow", call.value_fields.get("key", ""))
            self._let_out(call, end)

    def _hold_level(self, call: Call, level: Level) -> None:
        """From here on, what the container holds waits for its end."""
        level.held = {}
        if call.hold < 0:
            call.hold = call.levels.index(level)
            call.weight = 0
            call.parts = []

    # -- containers -----------------------------------------------------------------------------------------------

    def _open_level(self, call: Call, level: Level, end: int) -> None:
        """A container begins as the value of the argument that was opened."""
        if call.dropped < 0 and call.hold < 0:
            self._tell(call, self._key(call) + level.bracket, end)
            call.levels[-1].empty = False
        call.levels.append(level)
        if call.hold >= 0:
            level.held = {}

    def _close_level(self, call: Call, end: int) -> None:
        """The innermost container is over."""
        level = call.levels[-1]
        if call.dropped >= 0:
            call.levels.pop()
            self._put_arguments(call, "", self._base + end)
        elif level.held is None:
            call.levels.pop()
            self._put_arguments(call, "]" if level.bracket == "[" else "}", self._base + end)
        else:
            json = self._composed(level)
            call.levels.pop()
            if call.hold == len(call.levels):  # its own opening was told
                call.hold = -1
                self._put_arguments(call, self._after(level, json), self._base + end)
            else:
                call.value_fields = level.fields
                self._store(call, Held(json), end)
        self._drop_over(call)

    def _after(self, level: Level, json: str) -> str:
        """What is still to be told of a container whose opening, and perhaps first members, were told already."""
        return json[1:] if level.empty or json in ("{}", "[]") else f", {json[1:]}"

    def _composed(self, level: Level) -> str:
        """The JSON text of a container that was held."""
        told = self._members_text(level)
        return f"[{told}]" if level.bracket == "[" else f"{{{told}}}"

    def _members_text(self, level: Level) -> str:
        held = level.held or {}
        if level.bracket == "[":
            return ", ".join(value.json for values in held.values() for value in values)
        return ", ".join(f'"{escaped(key)}": {self._value_of(level, key, values)}' for key, values in held.items())

    def _value_of(self, level: Level, key: str, values: list[Held]) -> str:
        """The JSON text of what was given under one key, once or several times."""
        schema = None if level.schema is None else level.schema.property(key)
        if len(values) == 1:
            if not values[0].fits:
                self._notice("value_type", key)
            return values[0].json
        items = None if schema is None else schema.items()
        if schema is None:
            return f"[{', '.join(value.json for value in values)}]"
        return collected([value.json if value.text is None else value.text for value in values], items)

    def _end_levels(self, call: Call, end: int) -> None:
        """The arguments are over."""
        level = call.levels[0]
        if call.hold == 0:
            inner = self._unwrapped(level)
            call.hold = -1
            text = (
                inner if inner else self._composed(level) if level.empty else self._after(level, self._composed(level))
            )
        else:
            text = "{}" if level.empty else "]" if call.levels[-1].bracket == "[" else "}"
        self._put_arguments(call, text, self._base + end)

    def _unwrapped(self, level: Level) -> str:
        """The arguments that a lone argument holds, or ``""``."""
        held = level.held or {}
        if not level.wrapper or list(held) != [level.wrapper] or level.schema is None:
            return ""
        value = held[level.wrapper][0]
        return declared_object(value.json if value.text is None else value.text, level.schema)

    # -- keys given twice -----------------------------------------------------------------------------------------

    def _enter(self, call: Call, key: str, schema: Schema | None) -> None:
        """An argument begins: what was held for another one may be certain now, and this one may be there already."""
        level = call.levels[-1]
        if call.dropped >= 0 or level.bracket == "[":
            return
        if call.hold == len(call.levels) - 1 and self._settled(level, key):
            self._let_out(call, self._i)
        if key not in level.given:
            if not level.given:
                self._first(call, level, key, schema)
            level.given.add(key)
        elif not self._collects(level, key, schema):
            self._notice("duplicate_arguments", key)
            call.dropped = len(call.levels)

    def _settled(self, level: Level, key: str) -> bool:
        """Whether what is held is certain now that an argument of another name begins."""
        held = level.held or {}
        if level.children or key in held:
            return False
        return bool(level.wrapper) or all(len(values) > 1 or values[0].fits for values in held.values())

    def _first(self, call: Call, level: Level, key: str, schema: Schema | None) -> None:
        """The first argument of a container: does it have to be held?"""
        root = len(call.levels) == 1
        if root:
            if key in WRAPPERS and level.schema is not None and not level.schema.declares(key):
                level.wrapper = key
                self._hold_level(call, level)
        elif schema is None:
            level.children = True
            if level.held is None:
                self._hold_level(call, level)

    def _collects(self, level: Level, key: str, schema: Schema | None) -> bool:
        """Whether a key that is given again makes a list."""
        if level.held is None or key not in level.held:
            return False
        return level.children if schema is None else is_list(schema)

    def _drop_over(self, call: Call) -> None:
        if call.dropped == len(call.levels):
            call.dropped = -1

    # -- what was held is told ------------------------------------------------------------------------------------

    def _let_out(self, call: Call, end: int) -> None:
        """What is held is told, as far as it is there."""
        super()._let_out(call, end)
        if call.hold < 0:
            return
        text = ""
        levels = call.levels
        for i in range(call.hold, len(levels)):
            level = levels[i]
            if i > call.hold:
                text += self._prefix(levels, i - 1, level.fields.get("key", "")) + level.bracket
                levels[i - 1].empty = False
            members = self._members_text(level)
            if members:
                text += ("{" if i == 0 and level.empty else "" if level.empty else ", ") + members
                level.empty = False
            level.held = None
            level.wrapper = ""
        if call.parts:
            text += self._prefix(levels, len(levels) - 1, call.value_fields.get("key", "")) + "".join(call.parts)
            levels[-1].empty = False
        call.hold = -1
        call.parts = []
        self._put_arguments(call, text, self._base + end)

    def _key(self, call: Call) -> str:
        """What stands before a value in the JSON text."""
        return self._prefix(call.levels, len(call.levels) - 1, call.value_fields.get("key", ""))

    def _prefix(self, levels: list[Level], i: int, key: str) -> str:
        level = levels[i]
        text = "{" if i == 0 and level.empty else "" if level.empty else ", "
        return text if level.bracket == "[" else f'{text}"{escaped(key)}": '


def is_list(schema: Schema | None) -> bool:
    """Whether a schema admits an array and no string, which would be told otherwise."""
    types = None if schema is None else schema.types
    return types is not None and "array" in types and "string" not in types
