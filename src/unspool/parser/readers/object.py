"""Reads calls that are one object, which contains the name and the arguments."""

import json
import re
from json.encoder import encode_basestring
from typing import Final

from ...dialect.markers import ARGUMENT_KEYS, NAME_KEYS, Form
from ...dialect.patterns import MAX_SPACE, MORE, NO, skip_space
from ...dialect.syntax import Syntax
from ...dialect.template import ObjectShape
from ...regex import Regex
from ..call import OpenCall
from ..ledger import CAP
from ..openings import NULL, Openings
from .arguments import ArgumentsReader
from .literal import LiteralReader
from .reader import CallReader, Mode, Whole
from .spelling import Root
from .whole import whole_members, whole_object
from .wrapped import defines

MAX_TOKEN: Final = 1024  # the longest key, name or id, in characters, with its quotes

_DEFINITION: Final = "a tool's definition"

_MAX_DEPTH: Final = 4  # the number of objects that may be around a call's name

_UNQUOTED = Regex(r"([A-Za-z_]\w{0,63}+)[\"']?\s{0,64}+")

_EMPTY = Regex(r"(?:null|None|\{\s{0,64}+(?:\}|\Z))(?:\s{0,64}+(?:,\s{0,64}+(?:[\"']([\w.-]{0,64}+)([\"'])?)?)?)?")
"""Matches empty arguments, and the key of the next member as far as it is there; the second group is its end."""

_STRINGS = {q: Regex(rf"{q}[^{q}\\]*+(?:\\.[^{q}\\]*+)*+{q}", re.S) for q in ('"', "'")}


def whole_object_call(form: Form, text: str, i: int, *, bare: bool) -> Whole | None:
    """The call whose object begins at ``i``, after its bracket, if it is whole and plain; ``bare``: not marked."""
    plain = form.outside
    m = None if plain is None else plain.header.match(text, i)
    if plain is None or m is None:
        return None
    begin = m.end()
    if plain.quote == "'":
        arguments, inside = whole_members(text, begin + 1, python=True, quote="'")
        inside += 1
    else:
        inside = whole_object(text, begin)
        arguments = text[begin:inside]
    closed = plain.tail.match(text, inside) if arguments else None
    if closed is None:
        return None
    own = m["id"] if m.re.groups > 1 else ""
    return Whole(m["name"], arguments, begin if plain.late or bare else m.end("name") + 1, inside, closed.end(), own)


def _usual_role(key: str, shape: ObjectShape) -> str:
    """What a key means in a call of this shape, or usually; ``""`` if it means nothing."""
    return dict(shape.keys).get(key) or ("arguments" if key in ARGUMENT_KEYS else "")


class Expects:
    """The expected next part of the object."""

    FIRST: Final = "its first key"
    KEY: Final = "a key"
    COLON: Final = "a colon"
    VALUE: Final = "a value"
    AFTER: Final = "a comma, or its end"
    END: Final = "nothing: it is over"
    LOST: Final = "nothing: it is broken"


class ObjectReader(CallReader):
    """Reads a call that is an object."""

    def __init__(self, call: OpenCall, openings: Openings, quote: str) -> None:
        super().__init__(call, openings)
        # The meaning of the current member: ``name``, ``names`` (perhaps the name, under another key), ``id``,
        # ``arguments``, ``argument`` (one beside the name), or ``skip``.
        self.role = ""
        self.inner: ArgumentsReader | None = None  # reads the arguments, or another member
        self._quote = quote
        self._expects = Expects.FIRST
        self._depth = 0  # how many objects are open around the name
        self._skip = 0  # how much of the header comes after the name
        self._skipped = ""  # the key of the first member that was skipped
        self._loose: dict[str, str] | None = {}  # the JSON of arguments beside the name; ``None``: there is too much
        self._bare = not (call.form.marked or call.block.marked)  # a tool that is quoted looks like it
        self._described = False  # it has a description, as tools have

    def resume(self) -> None:
        """Go on after the broken part of a member."""
        self.mode = Mode.READING
        self.inner = None
        self._expects = Expects.AFTER

    def named(self) -> bool:
        """Whether the call can be announced if no more of it comes. In reasoning, a name alone makes no call."""
        call = self._call
        return bool(call.name) and not self._described and (call.complete or not call.thought)

    def in_value(self) -> bool:
        return self.inner is not None and self.inner.in_value()

    def take(self) -> str | None:
        return None if self.inner is None else self.inner.take()

    def read(self) -> bool:  # a branch for each thing that may come next
        if self.inner is not None:
            going = self.inner.read()
            if going:
                self.settle(self.inner)
            return going
        expects = self._expects
        if expects == Expects.FIRST and self._header():
            return True
        if expects == Expects.END:
            return self._end()
        if expects == Expects.LOST:
            return self._lose(self.why)
        tape = self._tape
        if self._skip:
            tape.i += self._skip
            self._skip = 0
        buf, i = tape.buf, tape.i
        if not " " < buf[i : i + 1] < "\x7f":
            i = tape.i = skip_space(buf, i)
            if i == len(buf):
                return False
        c = buf[i]
        if expects == Expects.FIRST or expects == Expects.KEY:
            if c == "}" and (expects == Expects.FIRST or self._quote == "'"):
                return self._over(i)
            return self._key(i)
        if expects == Expects.COLON:
            if c != ":":
                return self._lose(f"{c!r} after a key")
            self._expects = Expects.VALUE
            tape.i = i + 1
            return True
        if expects == Expects.VALUE:
            return self._value(i, c)
        if c == ",":
            self._expects = Expects.KEY
            tape.i = i + 1
            return True
        return self._over(i) if c == "}" else self._unclosed(i, f"{c!r} in a call")

    def _header(self) -> bool:
        """Read everything up to the arguments at once, if it is there and plain."""
        tape, call = self._tape, self._call
        plain = call.form.outside
        m = None if plain is None else plain.header.match(tape.buf, tape.i)
        if plain is None or m is None or call.thought or call.name or call.complete:
            return False
        if m["name"] != self._trimmed(m["name"]):
            return False
        call.name = m["name"]
        if m.re.groups > 1:
            call.id = m["id"]
        self.role = "arguments"
        self._expects = Expects.VALUE
        if plain.late or self._bare:
            tape.i = m.end()
        else:
            tape.i = m.end("name") + 1
            self._skip = m.end() - tape.i
            self.mode = Mode.NAMED
        return True

    def _string_at(self, i: int) -> tuple[str, int]:
        """A short string that begins at ``i``, and its end; else `NO` or `MORE`."""
        buf = self._tape.buf
        quote = buf[i]
        if quote != self._quote and not (quote in "'\"" and self._quote == "'"):
            return "", NO
        m = _STRINGS[quote].match(buf, i, i + MAX_TOKEN)
        if m is None:
            return "", MORE if len(buf) - i < MAX_TOKEN else NO
        if "\\" not in m.group():
            return m.group()[1:-1], m.end()
        reader = LiteralReader(self._syntax(), Root.ANY)
        reader.read(m.group() + " ", 0)
        try:
            return json.loads(reader.take()), m.end()
        except ValueError:
            return "", NO

    def _unquoted_at(self, i: int) -> tuple[str, int]:
        """A key at ``i`` whose opening quote is missing, or both, and its end; else `NO` or `MORE`."""
        buf = self._tape.buf
        m = _UNQUOTED.match(buf, i)
        if m is None or m.end() == len(buf):
            return "", MORE if m is not None and not self._tape.final else NO
        if buf[m.end()] != ":":
            return "", NO
        self._call.status = "repaired"
        return m.group(1), m.end()

    def _syntax(self) -> str:
        return Syntax.PYTHON if self._quote == "'" else Syntax.JSON

    def _key(self, i: int) -> bool:
        key, end = self._string_at(i)
        if end == NO and not self._bare:
            key, end = self._unquoted_at(i)
        if end == MORE:
            return False
        if end == NO:
            return self._unclosed(i, "no key")
        call = self._call
        shape = call.form.shape
        assert shape is not None
        if self._names(key, shape):
            self.role, call.name = "arguments", key
        else:
            self.role = self._role_of(key, shape)
        if self.role == "arguments" and call.complete:
            call.notice("duplicate_arguments", key)
            self.role = "skip"
        self._described = self._described or (self._bare and key == "description" and self.role == "skip")
        self._expects = Expects.COLON
        self._tape.i = end
        return True

    def _names(self, key: str, shape: ObjectShape) -> bool:
        """Whether a key is the call's name, in this format or in the other one, which a declared name decides."""
        if self._call.name or self._bare:
            return shape.name_is_key and not self._call.name
        usual = key == "type" or key in NAME_KEYS | ARGUMENT_KEYS or any(key == own for own, _ in shape.keys)
        declared = self._openings.declares(key)  # or a usual key, but not both: that is which format it is
        other = self._openings.names is not None and usual == shape.name_is_key and usual != declared
        if other:
            self._call.late.append(("other_syntax", key))
        return shape.name_is_key != other

    def _role_of(self, key: str, shape: ObjectShape) -> str:  # a branch for each role
        """What a member is to the call: as the shape says, else by the usual keys, or an argument beside them."""
        call, loose = self._call, self._loose
        role = _usual_role(key, shape)
        if role:
            return role
        self._skipped = self._skipped or key
        argument = self._gives_arguments(key)
        if call.complete and (argument or self._openings.declares(key)):  # or a second call in one object
            call.late.append(("skipped_member", key))
        if loose is not None and key not in loose and argument and not call.complete:
            loose[key] = ""
            return "argument"
        return "names" if key in NAME_KEYS and not call.complete else "skip"

    def _gives_arguments(self, key: str) -> bool:
        """Whether a member is all arguments of the call, or one that its tool declares."""
        call = self._call
        shape = call.form.shape
        assert shape is not None
        schema = call.context.tools.schema(call.name) if call.name else None
        role = _usual_role(key, shape)
        return role == "arguments" or (not role and schema is not None and schema.declares(key))

    def _value(self, i: int, c: str) -> bool:  # a branch for each role of a member
        call = self._call
        if self.role == "arguments":
            return self._arguments(i, c)
        if self.role == "names" and c == "{" and self._depth < _MAX_DEPTH:
            self._depth += 1
            self._expects = Expects.FIRST
            self._tape.i = i + 1
            return True
        if self.role == "names" and c in "'\"" and not call.name:
            value, end = self._string_at(i)
            if end == MORE:
                return False
            if end >= 0 and self._openings.declares(self._trimmed(value)):
                self.role = "name"
        if self.role in ("name", "id") and c in "'\"" and not call.started:
            return self._name_or_id(i)
        if self.role == "name" and not call.started:
            return self._lose("a name that is not a string")
        literal = LiteralReader(self._syntax(), Root.ANY)
        self.inner = ArgumentsReader(call, self._openings, literal, skip=True)
        self.inner.skipped = [] if self.role == "argument" else None
        return True

    def _name_or_id(self, i: int) -> bool:
        """Read the call's name, or its id, which is a string."""
        call = self._call
        value, end = self._string_at(i)
        if end == MORE:
            return False
        if end == NO:
            return self._lose(f"an invalid {self.role}")
        self._tape.i = end
        self._expects = Expects.AFTER
        if self.role == "id":
            call.id = value
            return True
        call.name = self._trimmed(value)
        if call.name != value:
            call.late.append(("mended_name", value))
        value = call.name
        # In reasoning, a name alone makes no call.
        waits = self._bare and self._openings.declares(value)  # any other name makes it text at once
        if value and not (self._id_may_come() or call.form.other or waits) and (call.complete or not call.thought):
            self.mode = Mode.NAMED
        return True

    def _trimmed(self, name: str) -> str:
        """A name without white space around it, unless a declared tool has it there."""
        return name if self._openings.declares(name) else name.strip()

    def _id_may_come(self) -> bool:
        shape = self._call.form.shape
        return shape is not None and not self._call.id and any(role == "id" for _, role in shape.keys)

    def _arguments(self, i: int, c: str) -> bool:  # `null` and an object, in JSON and in Python
        call = self._call
        none = "arguments that are not an object"
        shape = call.form.shape
        python = self._quote == "'" and shape is not None and shape.quote == "'"
        begins, null = ("{\"'", "None") if python and c != "n" else ('{"', NULL)
        if c not in begins + null[0] and call.thought:
            return self._lose(none)
        if call.name and not call.started:
            return self._name_due(i)
        declared = call.started and call.context.tools.schema(call.name) is not None
        key = self._after_empty(i) if declared and c in "{" + null[0] else NO
        if key == MORE:
            return False
        if key >= 0:
            self._tape.i = key
            self._expects = Expects.KEY
            return True
        word = self._tape.buf[i : i + len(null)]
        if word == null:
            self._tape.i = i + len(null)
            call.put("{}", self._tape.here)
            call.complete = True
            self._expects = Expects.AFTER
            return True
        if c not in begins:
            return False if null.startswith(word) and not self._tape.final else self._lose(none)
        self.inner = ArgumentsReader(call, self._openings)
        self.inner.begin(c, Syntax.PYTHON if python else Syntax.JSON)
        return True

    def _name_due(self, i: int) -> bool:
        tape, call = self._tape, self._call
        schema = call.context.tools.schema(call.name) if self._bare else None
        quoted = defines(tape.buf, i, schema, described=self._described, final=tape.final)
        if quoted != NO:
            return quoted != MORE and self._lose(_DEFINITION)
        self.mode = Mode.NAME_DUE
        return True

    def _after_empty(self, i: int) -> int:
        """Where the key of a member begins that gives the arguments after empty ones at ``i``; `NO` or `MORE`."""
        tape = self._tape
        m = _EMPTY.match(tape.buf, i)
        if m is None or (m.group(2) is None and (tape.final or m.end() < len(tape.buf))):
            return NO
        if m.group(2) is None:
            return MORE
        return m.start(1) - 1 if self._gives_arguments(m.group(1)) else NO

    def settle(self, inner: ArgumentsReader) -> None:
        """Act on the mode of the member's reader."""
        if inner.mode == Mode.DONE:
            if inner.skipped is not None:
                self._keep("".join(inner.skipped))
            self.inner = None
            self._expects = Expects.AFTER
            if inner.shut:
                self.mode = Mode.DONE
        elif inner.mode == Mode.LOST:
            self.inner = None
            self._lose(inner.why)
        elif inner.mode == Mode.FAILED:
            self._fail(inner.why)

    def _keep(self, value: str) -> None:
        """Keep an argument that stands beside the name, in case that all of them do."""
        loose = self._loose
        assert loose is not None
        key = next(reversed(loose))
        loose[key] = value
        if sum(map(len, loose.values())) > CAP:
            self._loose = None
            self._call.notice("hold_overflow", key)

    # -- its end ------------------------------------------------------------------------------------------------------

    def _over(self, i: int) -> bool:
        self._tape.i = i + 1
        if self._depth:
            self._depth -= 1
            self._expects = Expects.AFTER
            return True
        if self._call.started:
            return self._end()
        defined = self._described and not self._loose  # a tool without parameters
        if self._call.name and (self._call.complete or not (self._call.form.other or defined)):
            self._expects = Expects.END
            self.mode = Mode.NAME_DUE
        else:
            self.mode = Mode.NONE
        return True

    def _end(self) -> bool:
        if self._call.complete:
            self.mode = Mode.DONE
            return True
        loose = self._loose or {}
        if loose:
            self._call.notice("loose_arguments", next(iter(loose)))
        elif self._skipped:
            self._call.notice("skipped_member", self._skipped)
        return self._done("{" + ", ".join([f"{encode_basestring(key)}: {value}" for key, value in loose.items()]) + "}")

    def _unclosed(self, i: int, why: str) -> bool:
        """Neither a member nor the object's end is at ``i``: if the next call is there, only its bracket is missing."""
        call, tape = self._call, self._tape
        following = self._openings.separated(i) if call.started and call.complete else NO
        if following >= 0:
            marked = call.block.marked
            following = self._openings.goes_on(following, marked=marked) if following - i <= MAX_SPACE else NO
        if following == MORE:
            return False
        if following == NO:
            return self._lose(why)
        call.notice_at(tape.here, "missing_close", call.name)
        self.mode = Mode.DONE
        return True

    def _lose(self, why: str) -> bool:
        """The object is broken outside of its arguments."""
        call = self._call
        self.why = why
        if call.started:
            self.mode = Mode.LOST
        elif call.name and call.complete:
            self._expects = Expects.LOST
            self.mode = Mode.NAME_DUE
        else:
            self.mode = Mode.NONE
        return True
