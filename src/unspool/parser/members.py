"""Calls whose arguments are written one by one, as in XML: text up to a closing marker, typed by a schema."""

import json

from ..dialect.patterns import MAX_SPACE, MORE, NO, Pattern, skip_space
from ..dialect.plan import Parameter
from ..dialect.syntax import Syntax
from ..events import Status
from ..schema import Marked, Schema, decode_marked, is_json_value, repeated_key
from .call import Call, Held, Level, ValueMode
from .headers import NULL
from .levels import Levels, is_list
from .literals import DONE, ERROR, MAX_DEPTH, LiteralReader, Root
from .output import ARGUMENTS, CAP, CLOSE, MEMBERS, VALUE, VALUE_START, common_suffix, held_suffix
from .strings import escaped


class Members(Levels):
    """Reads arguments that have a template each."""

    __slots__ = ()

    # -- arguments that have a template each ----------------------------------------------------------------------

    def _members(self) -> bool:
        call = self._call
        assert call is not None
        buf = self._buf
        i = skip_space(buf, self._i)
        plan = self._plan
        level = call.levels[-1]
        if plan.comma and not level.empty:
            r = self._marker(plan.comma, i, {})
            if r >= 0:
                i = skip_space(buf, r)
        if i == len(buf):
            self._i = i
            return self._members_over(call)
        more = closes = False
        if level.parameter is not None:
            r = self._marker(level.parameter.closing, i, dict(level.fields))
            if r >= 0:
                self._close_level(call, r)
                self._i = r
                return True
            more = r == MORE
        else:
            for suffix in plan.suffixes:
                r = self._marker(suffix, i, {})
                if r >= 0:
                    self._i = i
                    return self._members_end(call)
                more = closes = closes or r == MORE
        for parameter in self._children(level):
            fields: dict[str, str] = {}
            r = self._opens(parameter, i, fields)
            if r == MORE:
                more = True
                break
            if r >= 0:
                self._i = r
                self._begin_value(call, parameter, fields)
                return True
        if more and not self._final:
            self._i = i
            return False
        if more:
            self._i = len(buf)
            return closes and self._members_over(call)
        self._i = i
        if buf[i] == "{" and len(call.levels) == 1 and not level.given:
            call.levels.clear()
            call.reader = self._reader(call, "{", Syntax.JSON)
            self._state = ARGUMENTS
            return True
        return self._members_fail(call, i)

    def _opens(self, parameter: Parameter, i: int, fields: dict[str, str]) -> int:
        """Where the opening of an argument that begins at ``i`` ends, `NO`, or `MORE`."""
        opening = parameter.opening
        r = self._marker(opening, i, fields)
        if r == NO or opening.first[-1:] != "<":
            return r
        # A key that is the tag's own name does not begin as a closing does, nor is a call's tag one.
        if self._buf.startswith("/", i + len(opening.first)):
            return NO
        call = 0 if r < 0 else self._opens_next(i, inside=True)
        return NO if call == 1 else MORE if call == MORE else r

    def _children(self, level: Level) -> list[Parameter]:
        """How what lies in a container is written; a list's elements at times have names of their own."""
        plan = self._plan
        if level.bracket == "{":
            return plan.parameters
        return plan.items if level.parameter is None or not level.children else [*plan.items, *plan.parameters]

    def _members_end(self, call: Call) -> bool:
        self._end_levels(call, self._i)
        call.complete = True
        self._state = CLOSE
        return True

    def _members_over(self, call: Call) -> bool:
        """No more comes. A call whose arguments are all closed lacks only its own closing if the model stopped."""
        if not (self._final and self._ended and self._all_closed(call)):
            return False
        self._members_end(call)
        return False

    def _all_closed(self, call: Call) -> bool:
        return len(call.levels) == 1 and bool(call.levels[0].given)

    def _members_fail(self, call: Call, i: int) -> bool:
        closing = self._closing(i)
        if closing == MORE:
            if self._final:
                self._i = len(self._buf)
                self._members_over(call)
            return False
        opens = self._opens_next(i, inside=True)
        if opens == MORE:
            return False
        if closing >= 0 and not call.form.suffix and len(call.levels) == 1:
            # Where a call has no closing of its own, its block's or the turn's is its closing.
            return self._members_end(call)
        if closing >= 0 or opens:
            # The block or the turn closes, or another call begins: this call lacks its own closing, or was cut.
            self._notice("missing_close", call.name)
            status: Status = "incomplete"
            if self._all_closed(call):
                self._members_end(call)
                status = call.status
            elif self._repairing() and len(call.levels) == 1:
                self._members_end(call)
                status = call.status = "repaired"
            self._end_call(status, self._base + i)
            return True
        return self._fails(call, "text between arguments")

    def _begin_value(self, call: Call, parameter: Parameter, fields: dict[str, str]) -> None:
        level = call.levels[-1]
        key = fields.get("key", "")
        above = level.schema
        if above is None:
            schema = None
        else:
            schema = above.items() if level.bracket == "[" else above.property(key)
        self._enter(call, key, schema)
        call.parameter = parameter
        call.value_fields = fields
        call.schema = schema
        call.begun = False
        call.held = []
        call.held_size = 0
        call.limit = CAP
        call.rest = ""
        call.reader = None
        call.margin = parameter.trail if above is None else parameter.gap
        self._choose_mode(call, schema, fields)
        self._state = VALUE_START

    def _choose_mode(self, call: Call, schema: Schema | None, fields: dict[str, str]) -> None:
        """What markup and schema say of the value decides how its text becomes JSON."""
        kinds = call.kinds = None if schema is None else schema.kinds
        markup = fields.get("string") or fields.get("type")
        call.marked = Marked.NOT
        if markup is not None:
            text = markup == "true" if "string" in fields else markup == "string"
            call.marked = Marked.STRING if text else Marked.OTHER
        any_string = kinds is not None and "string" in kinds.types and kinds.strings is None
        if call.marked is Marked.STRING and (kinds is None or any_string):
            call.mode = ValueMode.STRING
        elif call.marked is not Marked.NOT:
            call.mode = ValueMode.TYPED
        elif kinds is None:
            call.mode = ValueMode.GUESS
            call.reader = LiteralReader(Syntax.JSON, Root.ANY)
        elif any_string:
            call.mode = ValueMode.NULLABLE if "null" in kinds.types else ValueMode.STRING
        else:
            call.mode = ValueMode.TYPED
            if kinds.strings is not None and kinds.types <= {"string", "null"}:
                call.limit = max(map(len, (NULL, *kinds.strings)))

    def _value_start(self) -> bool:
        """White space that belongs to the marker is taken off; a nested value is told from text."""
        call = self._call
        assert call is not None
        assert call.parameter is not None
        buf = self._buf
        i = self._i
        n = len(buf)
        if self._plan.items and call.mode is not ValueMode.STRING:
            r = self._nested(call)
            if r != NO:
                return r == 1
        lead = call.parameter.lead
        k = 0
        while k < len(lead) and i + k < n and buf[i + k] == lead[k]:
            k += 1
        if k < len(lead) and i + k == n and not self._final:
            return False
        self._i = i + k
        call.line_start = k > 0 and buf[i + k - 1] == "\n"
        self._state = VALUE
        if self._plan.quoted:
            if self._i == n and not self._final:
                self._state = VALUE_START
                self._i = i
                return False
            self._in_quotes(call)
        return True

    def _in_quotes(self, call: Call) -> None:
        """A value that begins with a quote may be a string that has to be told from something else."""
        if self._buf.startswith('"', self._i) and call.mode is not ValueMode.TYPED:
            call.mode = ValueMode.QUOTED

    def _nested(self, call: Call) -> int:
        """Whether a container's element begins here: 1 opened, `MORE` (as 0: wait), or `NO`."""
        buf = self._buf
        j = skip_space(buf, self._i)
        if j == len(buf):
            return NO if self._final or j - self._i > MAX_SPACE else 0
        plan = self._plan
        parameter = call.parameter
        assert parameter is not None
        own = self._marker(parameter.closing, j, dict(call.value_fields))
        if own == MORE and not self._final:
            return 0
        if own >= 0:
            return NO
        for bracket, group in (("[", plan.items), ("{", plan.parameters)):
            for p in group:
                r = self._opens(p, j, {})
                if r == MORE and not self._final:
                    return 0
                if r >= 0:
                    return self._nest(call, bracket, j)
        return NO

    def _nest(self, call: Call, bracket: str, j: int) -> int:
        """A container begins, whose first element stands at ``j``."""
        if len(call.levels) >= MAX_DEPTH:
            self._fails(call, f"nested deeper than {MAX_DEPTH}")
            return 1
        schema = call.schema
        types = None if schema is None else schema.types
        named = bracket == "{" and types is not None and "array" in types and "object" not in types
        wrapped = call.levels[-1].wrapper and call.hold == 0
        level = Level(
            "[" if named else bracket,
            call.parameter,
            call.value_fields,
            call.levels[0].schema if wrapped else schema,
        )
        level.children = named
        call.reader = None
        self._open_level(call, level, j)
        self._i = j
        self._state = MEMBERS
        return 1

    def _value(self) -> bool:
        """The text of an argument, up to the closing that counts."""
        call = self._call
        assert call is not None
        parameter = call.parameter
        assert parameter is not None
        buf = self._buf
        i = self._i
        n = len(buf)
        find = parameter.find
        trail = call.margin
        pos = i
        while True:
            m = find.search(buf, pos)
            if m is None:
                if self._final:
                    break
                end = n - held_suffix(buf, i, n, trail)
                self._value_text(call, end)
                return False
            p = m.start()
            r = MORE if m.end() == n and m.group() not in parameter.triggers else self._value_ends(call, p)
            own = parameter.trail
            if r == NO:
                r, own = self._next_opens(call, p), parameter.gap
                if r >= 0:
                    self._notice("missing_close", call.value_fields.get("key", ""))
            if r == NO:
                pos = p + 1
                continue
            if r == MORE:
                end = p - held_suffix(buf, i, p, trail)
                self._value_text(call, end)
                return False
            end = p - common_suffix(buf, i, p, own)
            self._value_text(call, end)
            self._value_done(call, r)
            return True
        # Cut: what may be the beginning of a closing is not said.
        self._value_text(call, n - held_suffix(buf, i, n, trail))
        self._i = n
        return False

    def _value_ends(self, call: Call, p: int) -> int:
        """If the value ends at ``p``: where reading goes on (behind its own closing, or at another); `NO`; `MORE`."""
        buf = self._buf
        plan = self._plan
        own = call.parameter
        assert own is not None
        # Only its own closing: another alternative's may be text here (`</param>` in CDATA).
        r = self._marker(own.closing, p, dict(call.value_fields))
        if r >= 0:
            r = r if self._certain(p) else self._follows_value(call, r)
            if r >= 0:
                return r
        if r == MORE:
            return MORE
        more = False
        for suffix in plan.suffixes:
            r = self._marker(suffix, p, {})
            if r >= 0:
                f = r if self._certain(p) else self._follows_call(r)
                if f >= 0:
                    return p
                r = f
            more = more or r == MORE
        for block in plan.block_suffixes:
            r = self._marker(block.suffix, p, {})
            if r >= 0:
                j = skip_space(buf, r)
                f = (p if self._ended else MORE) if j == len(buf) else self._end_here(j)
                if f >= 0 or self._certain(p):
                    return p
                r = f
            more = more or r == MORE
        return MORE if more else NO

    def _next_opens(self, call: Call, p: int) -> int:
        """``p`` if another argument opens there in place of this one's closing; `NO`; `MORE`."""
        level = call.levels[-1]
        schema = level.schema
        i = self._i
        starts_line = self._buf[p - 1] == "\n" if p > i else call.line_start
        if schema is None or level.bracket == "[" or (self._plan.breaks and not starts_line):
            return NO
        more = False
        for parameter in self._plan.parameters:
            fields: dict[str, str] = {}
            r = self._opens(parameter, p, fields)
            if r >= 0 and fields["key"] not in level.given and schema.declares(fields["key"]):
                return p
            more = more or r == MORE
        return MORE if more and not self._final else NO

    def _follows_value(self, call: Call, i: int) -> int:
        """``i`` if what stands there may follow an argument: another one, what closes the call or the block, a call."""
        buf = self._buf
        plan = self._plan
        j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if plan.comma:
            r = self._marker(plan.comma, j, {})
            if r >= 0:
                j = skip_space(buf, r)
        if j == len(buf):
            return i if self._ended else MORE
        more = False
        candidates: list[tuple[Pattern, dict[str, str]]] = []
        if len(call.levels) > 1:
            level = call.levels[-1]
            assert level.parameter is not None
            candidates.append((level.parameter.closing, dict(level.fields)))
            candidates.extend((p.opening, {}) for p in self._children(level))
        else:
            candidates.extend((p.opening, {}) for p in plan.parameters)
            candidates.extend((s, {}) for s in plan.suffixes)
            candidates.extend((b.suffix, {}) for b in plan.block_suffixes)
        for pattern, fields in candidates:
            r = self._marker(pattern, j, fields)
            if r >= 0:
                return i
            more = more or r == MORE
        opens = self._opens_next(j, inside=True) if len(call.levels) == 1 else 0
        r = self._end_here(j)
        if opens == 1 or r >= 0 or (self._ended and more):
            return i
        return MORE if more or MORE in (opens, r) else NO

    def _value_text(self, call: Call, end: int) -> None:
        """Take text of a value up to ``end``."""
        i = self._i
        if end <= i:
            return
        text = self._buf[i:end]
        self._i = end
        call.line_start = False
        if call.mode is ValueMode.STRING:
            self._say(call, escaped(text), end)
            return
        call.held.append(text)
        call.held_size += len(text)
        if call.held_size > call.limit:
            self._notice("hold_overflow" if call.limit == CAP else "value_type", call.value_fields.get("key", ""))
            self._as_string(call, end)
        elif call.mode is ValueMode.NULLABLE:
            if call.held_size > 64 or not NULL.startswith("".join(call.held).strip()):
                self._as_string(call, end)
        elif call.mode is ValueMode.GUESS:
            reader = call.reader
            assert reader is not None
            rest = call.rest + text
            used = reader.read(rest, 0)
            reader.out = []
            call.rest = rest[used:]
            begins = call.held[0].lstrip()[:1] if not reader.stack else ""
            if reader.mode == ERROR or begins == '"' or (reader.mode == DONE and call.rest.strip()):
                self._as_string(call, end)

        elif call.mode is ValueMode.QUOTED:
            head = "".join(call.held[:2])[1:2]
            if head and head not in " \t\n\r{[-0123456789tfn":
                self._as_string(call, end)

    def _as_string(self, call: Call, end: int) -> None:
        """What was held is a string after all."""
        text = "".join(call.held)
        call.held = []
        call.mode = ValueMode.STRING
        self._say(call, escaped(text), end)

    def _say(self, call: Call, fragment: str, end: int) -> None:
        """A piece of a string value goes out."""
        if not call.begun:
            call.begun = True
            fragment = f'"{fragment}'
            if not call.held_back:
                fragment = self._key(call) + fragment
                call.levels[-1].empty = False
        self._tell(call, fragment, end)

    def _value_done(self, call: Call, i: int) -> None:
        """The value ends; reading goes on at ``i``."""
        if call.mode is ValueMode.STRING:
            self._say(call, '"', self._i)
            if call.hold >= 0 and call.dropped < 0:
                told = "".join(call.parts)
                self._tell_value(call, Held(told, json.loads(told)), self._i)
        else:
            held = self._decoded(call, "".join(call.held))
            level = call.levels[-1]
            if call.hold < 0 and call.dropped < 0 and level.bracket == "{" and is_list(call.schema):
                self._hold_level(call, level)  # another one may follow
            elif not held.fits and not call.held_back:
                self._notice("value_type", call.value_fields.get("key", ""))
            self._tell_value(call, held, self._i)
        self._drop_over(call)
        call.held = []
        call.reader = None
        self._i = i
        self._state = MEMBERS

    def _decoded(self, call: Call, text: str) -> Held:
        """The JSON of a value that was held to its end."""
        reader = call.reader
        mode = call.mode
        if mode is ValueMode.GUESS:
            assert reader is not None
            if reader.mode != DONE:
                reader.read(call.rest + " ", 0)  # what follows ends a number or a word
            if reader.mode != DONE:
                return Held(f'"{escaped(text)}"', text)
            told = text.strip()
        elif mode is ValueMode.NULLABLE:
            return Held(NULL if text.strip() == NULL else f'"{escaped(text)}"', text)
        elif mode is ValueMode.QUOTED:
            return Held(f'"{escaped(unquoted(text))}"', text)
        else:
            kinds = call.kinds
            told, fits = decode_marked(unquoted(text) if self._plan.quoted else text, kinds, call.marked)
            if not text and self._plan.items and kinds is not None:
                # An empty container and an empty text look alike; the schema tells.
                empty = "[]" if "array" in kinds.types else "{}" if "object" in kinds.types else ""
                told, fits = (empty, True) if empty else (told, fits)
            if not fits:
                return Held(told, text, False)
        if told[0] in "[{":
            key = repeated_key(told)
            if key is not None:
                self._notice("duplicate_arguments", key)
        return Held(told, text)


def unquoted(text: str) -> str:
    """A text without the quotes around it, if they tell it from JSON other than a string."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' and is_json_value(text[1:-1]) else text
