"""`Parser` and `parse`: the machine with its public face."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Literal

import msgspec

from ..dialect import Dialect
from ..events import ContentDelta, Event, Finish, ReasoningDelta, ReasoningStart, Stage, ToolCallDelta, ToolCallStart
from ..message import Fold, Message
from ..message import OpenSegment as Segmenting
from ..policy import Policy
from ..registry import get_dialect
from ..schema import tool_name
from ..tokens import Detokenizer, added_tokens
from .call import Sink, ValueMode
from .headers import fill_id
from .literals import JSON_PARTIAL, JSON_RUN, STRING, Syntax, python_piece, quoted_piece
from .output import ARGUMENTS, BLOCK, BLOCK_TEXT, CLOSE, HEADER, OBJECT, REASONING, TEXT, UNDECIDED, VALUE, held_suffix
from .plan import compile_plan
from .prompt import decode_ids, prompt_end, prompt_tail
from .text import Text

_json_run = JSON_RUN.match
SHORT = 16
"""Pieces up to this length recur (they are tokens): what was found out about them is remembered."""


@lru_cache(4096)
def _is_json_run(text: str) -> bool:
    return bool(text) and JSON_RUN.fullmatch(text) is not None


@lru_cache(4096)
def _escaped(text: str) -> str:
    return encode_basestring(text)[1:-1]


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_JSON_STRING, _VALUE, _LITERAL, _CONTENT, _REASONING = 1, 2, 3, 4, 5


class Parser(Text):
    """Turns one output (one choice) into events.

    Args:
        dialect: a name, or a `Dialect`.
        tools: OpenAI tool dicts. ``None``: unknown, marked calls are parsed. ``[]``: call markup is content.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, or a named function as OpenAI writes it.
        stage: how the output begins; beats ``prompt``.
        prompt: the rendered prompt (text, or token ids with ``tokenizer``); its tail decides the stage.
        policy: a `Policy`; unset fields take the dialect's defaults.
        tokenizer: for `feed_tokens`: a `tokenizers.Tokenizer`, a transformers tokenizer, or anything with ``decode``.
        ids: ``(index, name) -> str`` makes ids of calls that carry none.

    Raises:
        UnknownDialect: no dialect has this name.
        ValueError, TypeError: an argument is wrong; the message names it.
    """

    __slots__ = (
        "_added",
        "_closed",
        "_current",
        "_decoder",
        "_dialect",
        "_escapes",
        "_fast",
        "_find",
        "_fold",
        "_hold_back",
        "_hold_back2",
        "_nonblank",
        "_pieces",
        "_segment",
        "_stop",
        "_synced",
        "_token",
        "_tokenizer",
        "_tokens",
        "_total",
    )

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        stage: Stage | str | None = None,
        prompt: str | Sequence[int] | None = None,
        policy: Policy | None = None,
        tokenizer: Any = None,
        ids: Callable[[int, str], str] | None = None,
    ) -> None:
        d = get_dialect(dialect) if isinstance(dialect, str) else dialect
        choice, named = _tool_choice(tool_choice)
        names = _names(tools)
        if named:
            names = {named: None} if names is None else names if named in names else {**names, named: None}
        plan = compile_plan(d, policy or _NO_POLICY, choice)
        super().__init__(plan, names, named, ids or self._new_id)
        self._dialect = d
        self._plain = not plan.forms or choice == "none" or (tools is not None and not names)
        self._closed = False
        self._fold = Fold()
        self._fast = 0
        self._stop = self._hold_back = self._hold_back2 = ""
        self._find = plan.text.find
        self._escapes = False
        self._current = 0
        self._synced = 0
        self._pieces: list[str] = []
        self._tokenizer = tokenizer
        self._decoder: Any = None
        self._added: dict[str, int] | None = None
        self._tokens: list[int] = []  # where the text of tokens begins that events have not claimed
        self._token = 0  # tokens that events have claimed
        self._total = 0  # code points of the tokens fed
        self._nonblank = False
        self._segment: Segmenting | None = None
        if stage is not None:
            self._begin_at(_stage(stage, "stage"))
        elif prompt is not None:
            self._read_prompt(self._prompt_text(prompt))
        else:
            self._begin_at(d.stage)

    # -- the public face ------------------------------------------------------------------------------------------

    @property
    def message(self) -> Message:
        """The message so far."""
        if self._fast == _JSON_STRING:
            self._kept.extend(self._pieces[self._synced :])  # type: ignore[union-attr]
            self._synced = 1  # the message joins the pieces
        return self._fold.message()

    @property
    def stage(self) -> Stage:
        """Where the output stands."""
        return self._stage()

    @property
    def dialect(self) -> Dialect:
        """The dialect that is read."""
        return self._dialect

    def feed(self, text: str, stage: Stage | str | None = None) -> list[Event]:
        """Take the next piece of the output; returns its events.

        Args:
            text: any piece; the cuts between pieces do not matter.
            stage: an engine's own word for where this piece belongs; it overrides what the markers said before.

        Raises:
            ValueError: the parser is closed.
        """
        fast = self._fast
        if not fast or stage is not None:
            return self._feed(text, stage)
        # Inside a string most pieces can only be more of it: these short ways skip the state machine. All along nothing
        # is consumed but not sent (``_i`` is 0, ``_base`` would be ``_at``); ``_buf`` holds what the next piece tells.
        fragment = text
        if fast == _JSON_STRING:
            if '"' in text or "\\" in text or self._buf or not text.isprintable() or not text:
                text = self._buf + text
                if len(text) > SHORT or not _is_json_run(text):
                    end = _json_run(text).end()  # type: ignore[union-attr]
                    if end < len(text) and (text[end] != "\\" or not JSON_PARTIAL.match(text, end)):
                        return self._feed(text[len(self._buf) :], None)
                    self._buf = text[end:]
                    text = text[:end]
                    if not text:
                        return []
                elif self._buf:
                    self._buf = ""
                fragment = text
            start = self._at
            self._at = stop = start + len(text)
            self._pieces.append(text)
            return [ToolCallDelta(self._current, text, start, stop)]
        if fast == _VALUE:
            if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
                whole = self._buf + text
                if not text or (self._stop in whole and self._find.search(whole)):
                    return self._feed(text, None)
                text = whole
                if whole[-1] in self._hold_back:
                    end = len(whole) - 1
                    if len(self._hold_back) > 1:
                        end = len(whole) - held_suffix(whole, 0, len(whole), self._hold_back)
                    self._buf = whole[end:]
                    if not end:
                        return []
                    text = whole[:end]
                elif self._buf:
                    self._buf = ""
                fragment = _escaped(text) if len(text) <= SHORT else encode_basestring(text)[1:-1]
        elif fast == _LITERAL:
            if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
                text = self._buf + text
                if not text:
                    return []
                if len(text) > SHORT:
                    return self._in_literal(text)
                piece = python_piece(text, self._stop) if self._escapes else quoted_piece(text, self._stop)
                if piece is None:
                    return self._in_literal(text)
                fragment = piece
                if self._buf:
                    self._buf = ""
        else:
            return self._in_text(text)
        start = self._at
        self._at = stop = start + len(text)
        self._kept.append(text)  # type: ignore[union-attr]
        self._pieces.append(fragment)
        return [ToolCallDelta(self._current, fragment, start, stop)]

    def _in_literal(self, whole: str) -> list[Event]:
        """More of a string that is translated, with escapes or its end in it."""
        call = self._call
        reader = call.reader  # type: ignore[union-attr]
        end = reader.read(whole, 0)  # type: ignore[union-attr]
        fragment = reader.take()  # type: ignore[union-attr]
        self._buf = whole[end:]
        events = self._argument(whole[:end], fragment) if fragment else []
        if reader.mode == STRING and (fragment or not end):  # type: ignore[union-attr]
            return events
        # The string ended, or nothing of it can be said yet: the machine goes on.
        if not fragment:
            self._buf = whole
            self._i = end
        self._sync()
        self._run()
        events += self._flush_events()
        self._choose_fast()
        return events

    def _argument(self, text: str, fragment: str) -> list[Event]:
        start = self._at
        self._at = end = start + len(text)
        self._kept.append(text)  # type: ignore[union-attr]
        self._pieces.append(fragment)
        return [ToolCallDelta(self._current, fragment, start, end)]

    def _in_text(self, text: str) -> list[Event]:
        """More of running text."""
        whole = self._buf + text
        if not text or self._find.search(whole):
            return self._feed(text, None)
        end = len(whole)
        if whole[-1] in self._hold_back:
            end -= max(held_suffix(whole, 0, end, self._hold_back), held_suffix(whole, 0, end, self._hold_back2))
        self._buf = whole[end:]
        if not end:
            return []
        piece = whole[:end]
        segment = self._segment
        segment.parts.append(piece)  # type: ignore[union-attr]
        start = self._at
        segment.end = self._at = stop = start + end  # type: ignore[union-attr]
        return [ContentDelta(piece, start, stop) if self._fast == _CONTENT else ReasoningDelta(piece, start, stop)]

    def _sync(self) -> None:
        """Leave the short ways: tell the machine what went there."""
        if self._fast:
            self._base = self._at
            if self._fast == _JSON_STRING:
                self._kept.extend(self._pieces[self._synced :])  # type: ignore[union-attr]
            self._fast = 0

    def _feed(self, text: str, stage: Stage | str | None) -> list[Event]:
        if self._closed:
            raise ValueError("feed: the parser is closed")
        if not text:
            return []
        self._sync()
        if not self._nonblank and not text.isspace():
            self._nonblank = True
        i = self._i
        buf = self._buf
        if i < len(buf):
            if self._kept is not None and i:
                self._kept.append(buf[:i])
            rest = buf[i:]
        else:
            if self._kept is not None and i:
                self._kept.append(buf)
            rest = ""
        self._base += i
        self._i = 0
        if stage is not None:
            self._buf = rest
            self._force(_stage(stage, "stage"))
            if self._i:
                if self._kept is not None:
                    self._kept.append(self._buf[: self._i])
                rest = self._buf[self._i :]
                self._base += self._i
                self._i = 0
        self._buf = rest + text if rest else text
        self._run()
        events = self._flush_events()
        self._choose_fast()
        return events

    def _flush_events(self) -> list[Event]:
        holds = self._holds
        if holds:
            out, holds[0].events = holds[0].events, []
        else:
            out, self._out = self._out, []
        add = self._fold.add
        if self._decoder is not None:
            out = self._with_tokens(out)
        for event in out:
            add(event)
        return out

    def _choose_fast(self) -> None:
        """Whether the next piece can go one of the short ways."""
        self._fast = 0
        at = self._base + self._i
        if self._holds or self._marks is not None or self._at != at or at < 0:
            return
        state = self._state
        if state == ARGUMENTS or state == OBJECT or state == VALUE:
            fast = self._fast_call()
        elif (state == TEXT and self._prose) or (state == REASONING and self._seen_text):
            fast = self._fast_text()
        else:
            return
        if fast:
            if self._kept is not None and self._i:
                self._kept.append(self._buf[: self._i])
            self._buf = self._buf[self._i :]
            self._base = at
            self._i = 0
            self._fast = fast
            self._current = self._index - 1
            self._synced = len(self._pieces)

    def _fast_call(self) -> int:
        call = self._call
        if call is None or call.sink is not Sink.CALL or not call.started:
            return 0
        self._pieces = self._fold.arguments
        if self._state == VALUE:
            parameter = call.parameter
            if parameter is None or not call.begun or call.mode is not ValueMode.STRING:
                return 0
            # Where several markers may end it the search alone tells (every text holds the empty string).
            self._stop = parameter.firsts if len(parameter.firsts) == 1 else ""
            self._find = parameter.find
            self._hold_back = parameter.trail
            return 0 if parameter.find.search(self._buf, self._i) else _VALUE
        reader = call.reader
        if (
            reader is None
            or reader.mode != STRING
            or (self._state == OBJECT and call.role == "skip")
            or not reader.simple()
        ):
            return 0
        if reader.verbatim():
            return _JSON_STRING
        self._stop = reader.delimiter[0]
        self._escapes = call.form.syntax is not Syntax.QUOTE
        return _LITERAL

    def _fast_text(self) -> int:
        plan = self._plan
        margin = "" if self._plain else plan.margin
        if self._state == REASONING:
            calls = not self._plain and plan.policy.call_in_reasoning != "text"
            scan = plan.reasoning_calls if calls else plan.reasoning
            inner = plan.reasoning_inner
            margin = margin if calls else ""
        elif self._framed:
            scan = plan.frame_plain if self._plain else plan.frame
            inner = plan.frame_inner
        else:
            scan = plan.text_plain if self._plain else plan.text
            inner = ""
        kind: Literal["reasoning", "content"] = "reasoning" if self._state == REASONING else "content"
        self._segment = self._fold.growing(kind)
        if self._segment is None or scan.find.search(self._buf, self._i):
            return 0
        self._find = scan.find
        self._hold_back = margin if len(margin) > len(inner) else inner
        self._hold_back2 = inner if len(margin) > len(inner) else margin
        if not set(self._hold_back2) <= set(self._hold_back):
            return 0
        return _REASONING if self._state == REASONING else _CONTENT

    def close(self, finish_reason: str | None = "stop") -> list[Event]:
        """The output is over.

        Args:
            finish_reason: the engine's; ``stop`` becomes ``tool_calls`` where a call ended, anything else stays.

        Raises:
            ValueError: the parser is closed already.
        """
        if self._closed:
            raise ValueError("close: the parser is closed already")
        self._sync()
        events: list[Event] = []
        if self._decoder is not None:
            text, cut = self._decoder.flush()
            if text:
                events = self._feed(text, None)
                self._total += len(text)
            if cut:
                self._notice("cut_character")
        self._closed = True
        self._fast = 0
        self._final = True
        self._ended = finish_reason != "length"
        self._run()
        self._cut()
        self._run()
        self._cut()
        end = self._base + len(self._buf)
        if self._thinking:
            if self._at < end:
                self._put_text(end)
            self._thinking = False
            self._notice("unclosed_reasoning")
        if self._at < end:
            self._put_markup(end)
        if self._within is not None and self._within.suffix and self._state in (BLOCK, BLOCK_TEXT, CLOSE):
            self._notice("missing_close", self._within.suffix.first)
        nothing = not self._seen_text and not self._index and self._nonblank
        if nothing:
            self._notice("empty")
        reason = finish_reason or "stop"
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        at = max(self._at, 0)
        self._out.append(Finish(reason, at, at))
        return events + self._flush_events()

    # -- beginnings -----------------------------------------------------------------------------------------------

    def _begin_at(self, stage: Stage) -> None:
        if stage is Stage.REASONING and self._plan.reasoning_ends:
            self._begin_reasoning(0, self._plan.reasoning_lead)
            self._seen_part = False
        elif stage is Stage.UNDECIDED and self._plan.reasoning_ends:
            self._state = UNDECIDED
        elif stage is Stage.TOOL_CALL and not self._plain:
            self._enter_block()

    def _read_prompt(self, prompt: str) -> None:
        """Replay what follows the last opening of an assistant's turn, silently."""
        tail = prompt_tail(self._dialect, prompt)
        if tail is None:
            self._begin_at(prompt_end(self._dialect, prompt))
            return
        self._replay = True
        self._base = self._at = -len(tail)
        self._buf = tail
        self._run()
        self._replay = False
        said = [e for h in self._holds for e in h.events] + self._out
        for hold in self._holds:
            hold.events = []
            hold.index = 0
        self._out = []
        self._seen_text = self._prose = False
        self._calls = self._index = 0
        call = self._call
        if call is not None and call.started and call.sink is Sink.CALL:
            # The call that the prompt opened starts anew, with the prompt's part of its arguments.
            begun = "".join(e.arguments for e in said if isinstance(e, ToolCallDelta) and e.index == call.index)
            call.index, self._index = 0, 1
            self._out.append(ToolCallStart(0, call.id, call.name, 0, 0, call.known))
            if begun:
                self._out.append(ToolCallDelta(0, begun, 0, 0))
        elif self._thinking:
            outer = self._holds[0].events if self._holds and self._holds[0].kind == HEADER else self._out
            outer.append(ReasoningStart(0, 0))
        if self._at > self._base + self._i:
            self._at = self._base + self._i

    def _prompt_text(self, prompt: str | Sequence[int]) -> str:
        if isinstance(prompt, str):
            return prompt
        if self._tokenizer is None:
            raise ValueError("prompt: token ids need a tokenizer")
        return decode_ids(self._tokenizer, prompt)

    # -- token ids ------------------------------------------------------------------------------------------------

    def feed_tokens(self, ids: Iterable[int], stage: Stage | str | None = None) -> list[Event]:
        """Take the next token ids; needs ``tokenizer``. Events carry token spans.

        Special tokens that are markers are known by their ids. Text is decoded as far as its characters are whole.

        Raises:
            ValueError: the parser is closed, or has no tokenizer.
        """
        if self._closed:
            raise ValueError("feed_tokens: the parser is closed")
        decoder = self._decoder
        if decoder is None:
            if self._tokenizer is None:
                raise ValueError("feed_tokens: the parser was made without a tokenizer")
            decoder = self._decoder = Detokenizer(self._tokenizer)
            self._added = added_tokens(self._tokenizer)
            self._marks = set()
            self._fold.reasoning_tokens = 0
            self._sync()
        events: list[Event] = []
        pending: list[str] = []
        for token in ids:
            text, literal = decoder.push(token)
            self._tokens.append(self._total)
            if text:
                pending.append(text)
                self._total += len(text)
            if literal:
                if pending:
                    events += self._feed("".join(pending), stage)
                    pending = []
                events += self._feed_special(literal, stage)
                self._total += len(literal)
        if pending:
            events += self._feed("".join(pending), stage)
        if self._marks and len(self._marks) > 64:
            self._marks = {m for m in self._marks if m >= self._base + self._i}
        return events

    def _feed_special(self, literal: str, stage: Stage | str | None) -> list[Event]:
        """A token whose id says what it is."""
        assert self._marks is not None
        if self._is_marker(literal):
            self._marks.add(self._total)
            call = self._call
            reader = None if call is None else call.reader
            if call is not None and reader is not None and self._closes(literal) and self._state in (ARGUMENTS, OBJECT):
                # A closing marker by its id ends the call even inside a string.
                self._run()
                goes_on = call is self._call and call.reader is reader and not call.complete and call.role != "skip"
                if goes_on and not (self._repairing() and self._shut(call, reader)):
                    call.track = None
                    self._fails(call, "a closing marker inside a value")
                    call.within = ""
        return self._feed(literal, stage)

    def _is_marker(self, literal: str) -> bool:
        return any(literal in text or text in literal for text in self._plan.literals)

    def _closes(self, literal: str) -> bool:
        plan = self._plan
        return (
            any(s.first.startswith(literal) for s in plan.suffixes)
            or any(b.suffix.first.startswith(literal) for b in plan.block_suffixes)
            or any(o.pattern.first.startswith(literal) for o in plan.ends)
        )

    def _spells(self, literal: str, i: int) -> bool:
        """Whether the text at ``i``, where a marker's literal stands, is that of a token of its own."""
        buf = self._buf
        return any(
            text and (literal.startswith(text) or (text.startswith(literal) and buf.startswith(text, i)))
            for text in self._added or ()
        )

    def _with_tokens(self, events: list[Event]) -> list[Event]:
        """The events with their token spans: a token belongs to the event that holds its first character."""
        told: list[Event] = []
        tokens = self._tokens
        used = 0
        for event in events:
            start = self._token + used
            while used < len(tokens) and tokens[used] < event.end:
                used += 1
            if isinstance(event, Finish):
                used = len(tokens)
            told.append(msgspec.structs.replace(event, token_start=start, token_end=self._token + used))
        self._token += used
        del tokens[:used]
        return told

    # -- ids of calls ---------------------------------------------------------------------------------------------

    def _new_id(self, index: int, name: str) -> str:
        template = fill_id(self._dialect.id, name, str(index))
        if "?" not in template:
            return template
        number = int.from_bytes(os.urandom(len(template)))
        made: list[str] = []
        for c in template:
            if c == "?":
                number, digit = divmod(number, len(_ALPHABET))
                c = _ALPHABET[digit]
            made.append(c)
        return "".join(made)


_NO_POLICY = Policy()


def parse(
    text: str,
    dialect: str | Dialect,
    *,
    tools: Sequence[Any] | None = None,
    tool_choice: Any = "auto",
    stage: Stage | str | None = None,
    prompt: str | Sequence[int] | None = None,
    policy: Policy | None = None,
    tokenizer: Any = None,
    ids: Callable[[int, str], str] | None = None,
    finish_reason: str = "stop",
) -> Message:
    """Parse a whole output: `Parser.feed` and `Parser.close` in one call, and nothing else.

    The arguments are those of `Parser`, and ``finish_reason`` is the engine's.
    """
    parser = Parser(
        dialect,
        tools=tools,
        tool_choice=tool_choice,
        stage=stage,
        prompt=prompt,
        policy=policy,
        tokenizer=tokenizer,
        ids=ids,
    )
    parser.feed(text)
    parser.close(finish_reason)
    return parser.message


def _stage(value: Stage | str, where: str) -> Stage:
    try:
        return Stage(value)
    except ValueError:
        raise ValueError(f"{where}: {value!r} is not one of {', '.join(Stage)}") from None


def _tool_choice(choice: Any) -> tuple[str, str]:
    """The kind of choice, and the function it names."""
    if choice is None:
        return "auto", ""
    if isinstance(choice, str):
        if choice in ("auto", "none", "required"):
            return choice, ""
        raise ValueError(f"tool_choice: {choice!r} is not one of auto, none, required or a named function")
    if isinstance(choice, dict):
        function = choice.get("function", choice)
        name = function.get("name") if isinstance(function, dict) else None
        if choice.get("type", "function") == "function" and isinstance(name, str) and name:
            return "named", name
    raise ValueError('tool_choice: a named function is {"type": "function", "function": {"name": …}}')


def _names(tools: Sequence[Any] | None) -> dict[str, Any] | None:
    if tools is None:
        return None
    names: dict[str, Any] = {}
    for i, tool in enumerate(tools):
        name = tool_name(tool)
        if name is None:
            raise ValueError(f"tools[{i}]: misses function.name")
        names[name] = tool
    return names
