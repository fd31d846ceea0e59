"""Calls whose arguments are written one by one, as in XML: text up to a closing marker, typed by a schema."""

from ..schema import decode
from .call import Call, Level, ValueMode
from .headers import NULL
from .literals import DONE, ERROR, MAX_DEPTH, LiteralReader, Root, Syntax
from .objects import Objects
from .output import ARGUMENTS, CAP, CLOSE, MEMBERS, VALUE, VALUE_START, common_suffix, held_suffix
from .patterns import MAX_SPACE, MORE, NO, Pattern, skip_space
from .plan import Parameter
from .strings import escaped


class Members(Objects):
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
            return False
        more = False
        if level.parameter is not None:
            r = self._marker(level.parameter.closing, i, dict(level.fields))
            if r >= 0:
                call.levels.pop()
                self._put_arguments(call, "]" if level.bracket == "[" else "}", self._base + r)
                self._i = r
                return True
            more = r == MORE
        else:
            for suffix in plan.suffixes:
                r = self._marker(suffix, i, {})
                if r >= 0:
                    self._i = i
                    return self._members_end(call)
                more = more or r == MORE
        for parameter in plan.items if level.bracket == "[" else plan.parameters:
            fields: dict[str, str] = {}
            r = self._marker(parameter.opening, i, fields)
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
            return False
        self._i = i
        if buf[i] == "{" and len(call.levels) == 1 and level.empty:
            call.levels.clear()
            call.reader = self._reader(call, "{", Syntax.JSON)
            self._state = ARGUMENTS
            return True
        return self._members_fail(call, i)

    def _members_end(self, call: Call) -> bool:
        empty = call.levels[0].empty
        tail = "{}" if empty else "]" if call.levels[-1].bracket == "[" else "}"
        self._put_arguments(call, tail, self._base + self._i)
        call.complete = True
        self._state = CLOSE
        return True

    def _members_fail(self, call: Call, i: int) -> bool:
        closing = self._closing(i)
        if closing == MORE:
            if self._final:
                self._i = len(self._buf)
            return False
        opens = self._opens_next(i)
        if opens == MORE:
            return False
        if closing >= 0 and not call.form.suffix:
            # Where a call has no closing of its own, its block's or the turn's is its closing.
            return self._members_end(call)
        if closing >= 0 or opens:
            # The block or the turn closes, or another call begins: this call was cut.
            self._notice("missing_close", call.name)
            if self._repairing() and len(call.levels) == 1:
                self._members_end(call)
                call.status = "repaired"
                self._end_call("repaired", self._base + i)
            else:
                self._end_call("incomplete", self._base + i)
            return True
        return self._fails(call, "text between arguments")

    def _begin_value(self, call: Call, parameter: Parameter, fields: dict[str, str]) -> None:
        level = call.levels[-1]
        call.parameter = parameter
        call.value_fields = fields
        key = fields.get("key", "")
        above = level.schema
        if level.bracket == "[":
            schema = None if above is None else above.items()
        else:
            schema = None if above is None else above.property(key)
        call.schema = schema
        call.begun = False
        call.held = []
        call.held_size = 0
        call.rest = ""
        call.reader = None
        types = None if schema is None else schema.types
        markup = fields.get("string") or fields.get("type")
        if markup is not None:
            text = markup == "true" if "string" in fields else markup == "string"
            call.mode = ValueMode.STRING if text else ValueMode.TYPED
            call.types = frozenset(("number", "integer", "boolean", "null", "object", "array"))
        elif types is None:
            call.mode = ValueMode.GUESS
            call.reader = LiteralReader(Syntax.JSON, Root.ANY)
        elif "string" in types:
            call.mode = ValueMode.NULLABLE if "null" in types else ValueMode.STRING
        else:
            call.mode = ValueMode.TYPED
        if types is not None and markup is None:
            call.types = types
        self._state = VALUE_START

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
        self._state = VALUE
        return True

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
                r = self._marker(p.opening, j, {})
                if r == MORE and not self._final:
                    return 0
                if r >= 0:
                    if len(call.levels) >= MAX_DEPTH:
                        self._fails(call, f"nested deeper than {MAX_DEPTH}")
                        return 1
                    self._put_arguments(call, self._key(call) + bracket, self._base + j)
                    call.levels[-1].empty = False
                    call.levels.append(Level(bracket, parameter, call.value_fields, call.schema))
                    self._i = j
                    self._state = MEMBERS
                    return 1
        return NO

    def _key(self, call: Call) -> str:
        """What stands before a value in the JSON text."""
        level = call.levels[-1]
        first = len(call.levels) == 1 and level.empty
        text = "{" if first else "" if level.empty else ", "
        if level.bracket == "[":
            return text
        return f'{text}"{escaped(call.value_fields.get("key", ""))}": '

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
        trail = parameter.trail
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
            if r == NO:
                pos = p + 1
                continue
            if r == MORE:
                end = p - held_suffix(buf, i, p, trail)
                self._value_text(call, end)
                return False
            end = p - common_suffix(buf, i, p, trail)
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

    def _follows_value(self, call: Call, i: int) -> int:
        """``i`` if what stands there may follow an argument: another one, or what closes the call or the block."""
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
            group = plan.items if level.bracket == "[" else plan.parameters
            candidates.extend((p.opening, {}) for p in group)
        else:
            candidates.extend((p.opening, {}) for p in plan.parameters)
            candidates.extend((s, {}) for s in plan.suffixes)
            candidates.extend((b.suffix, {}) for b in plan.block_suffixes)
        for pattern, fields in candidates:
            r = self._marker(pattern, j, fields)
            if r >= 0:
                return i
            more = more or r == MORE
        r = self._end_here(j)
        if r >= 0 or (self._ended and more):
            return i
        return MORE if more or r == MORE else NO

    def _value_text(self, call: Call, end: int) -> None:
        """Take text of a value up to ``end``."""
        i = self._i
        if end <= i:
            return
        text = self._buf[i:end]
        self._i = end
        if call.mode is ValueMode.STRING:
            self._say(call, escaped(text), end)
            return
        call.held.append(text)
        call.held_size += len(text)
        if call.held_size > CAP:
            self._notice("hold_overflow", call.value_fields.get("key", ""))
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
            fragment = f'{self._key(call)}"{fragment}'
            call.levels[-1].empty = False
        self._put_arguments(call, fragment, self._base + end)

    def _value_done(self, call: Call, i: int) -> None:
        """The value ends; reading goes on at ``i``."""
        if call.mode is ValueMode.GUESS:
            reader = call.reader
            assert reader is not None
            if reader.mode != DONE:
                reader.read(call.rest + " ", 0)  # what follows ends a number or a word
        if call.mode is not ValueMode.STRING:
            text = "".join(call.held)
            if call.mode is ValueMode.GUESS:
                assert call.reader is not None
                json, fits = (text.strip(), True) if call.reader.mode == DONE else (f'"{escaped(text)}"', True)
            elif call.mode is ValueMode.NULLABLE:
                json, fits = (NULL if text.strip() == NULL else f'"{escaped(text)}"'), True
            else:
                json, fits = decode(text, call.types)
                if not text and self._plan.items:
                    # An empty container and an empty text look alike; the schema tells.
                    empty = "[]" if "array" in call.types else "{}" if "object" in call.types else ""
                    json, fits = (empty, True) if empty else (json, fits)
            if not fits:
                self._notice("value_type", call.value_fields.get("key", ""))
            self._put_arguments(call, self._key(call) + json, self._base + self._i)
            call.levels[-1].empty = False
        else:
            self._say(call, '"', self._i)
        call.held = []
        call.reader = None
        self._i = i
        self._state = MEMBERS
