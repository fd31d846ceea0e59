"""`Parser`, `parse` and `detect_stage`: the public interface of the machine."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Final

from ..dialect.compiling import compile_plan
from ..dialect.file import Dialect
from ..dialect.ids import MakeId
from ..dialect.registry import as_dialect
from ..events import Event, Stage, ToolCallDelta
from ..message import Fold, Message
from ..policy import Policy
from ..toolset import ToolChoice, Toolset, read_toolset
from ..validation import check, check_ids, check_prompt, check_tokenizer, described, wrong_type
from .call import CallContext
from .flows import Flow, Stretch, flow_of
from .ledger import Ledger, Tape
from .lookout import Lookout
from .machine import Machine
from .openings import Openings
from .prompt import decode_ids, prompt_end, prompt_tail
from .token_feed import TokenFeed, closes, ends_turn, is_marker


class Parser:
    """Turns one output (one choice) into events.

    Args:
        dialect: a name, or a `Dialect`.
        tools: OpenAI tool dicts, or a `Toolset`, which is read once for many outputs and has its own choice.
            ``None``: the tools are unknown, and marked calls are parsed. ``[]``: markup of calls is content.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, a named function or allowed tools as OpenAI writes them.
        stage: how the output begins; overrides ``prompt``.
        prompt: the rendered prompt (text, or token ids with ``tokenizer``); its end decides the stage.
        policy: a `Policy`; unset fields take the dialect's defaults.
        tokenizer: for `feed_tokens`: a `tokenizers.Tokenizer`, a transformers tokenizer, or anything with ``decode``.
        ids: ``(index, name) -> str``, makes the ids of calls that have none.

    Raises:
        UnknownDialect: no dialect has this name.
        ValueError, TypeError: an argument is wrong; the message names it.
    """

    __slots__ = (
        "_at",
        "_closed",
        "_dialect",
        "_flow",
        "_fold",
        "_machine",
        "_nonblank",
        "_stretch",
        "_tape",
        "_tokenizer",
        "_tokens",
    )

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: Sequence[Any] | Toolset | None = None,
        tool_choice: ToolChoice | None = "auto",
        stage: Stage | str | None = None,
        prompt: str | Sequence[int] | None = None,
        policy: Policy | None = None,
        tokenizer: Any = None,
        ids: MakeId | None = None,
    ) -> None:
        if tokenizer is not None:
            check_tokenizer(tokenizer)
        known = as_dialect(dialect)
        request = read_toolset(tools, tool_choice)
        if policy is not None and not isinstance(policy, Policy):
            raise wrong_type("policy", policy, "a Policy, such as Policy(bad_arguments='drop'), or None")
        if ids is not None and not callable(ids):
            raise wrong_type("ids", ids, "a callable (index, name) -> str or None")
        plan = compile_plan(known, policy, request.kind)
        calls = bool(plan.calls.forms) and request.kind != "none" and (request.tools is None or bool(request.tools))
        tape = self._tape = Tape()
        ledger = Ledger(tape)
        look = Lookout(plan, plan.reading if calls else plan.plain, tape, ledger)
        names = request.names
        openings = Openings(look, tape, names, request.name)
        machine = self._machine = Machine(tape, CallContext(ledger, plan, request, names, ids), openings)
        self._fold = Fold()
        self._dialect = plan.dialect
        self._tokenizer = tokenizer
        self._tokens: TokenFeed | None = None
        self._flow: Flow | None = None  # what is open, if it may be read without the machine
        self._at = 0  # the offset up to which events cover the output then
        self._stretch: Stretch | None = None  # how to emit the next piece, if it is in a string
        self._closed = False
        self._nonblank = False
        if stage is not None:
            machine.begin(to_stage(stage))
        elif prompt is not None:
            self._read_prompt(self._prompt_text(prompt))
        else:
            machine.begin(plan.dialect.stage)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle or copy the parser in a state without references into it."""
        self._stop_flow()
        return super().__reduce_ex__(protocol)

    def __copy__(self) -> "Parser":
        return deepcopy(self)  # no two parsers share anything that changes

    def __repr__(self) -> str:
        message = self.message
        emitted, read = self._machine.ledger.at, self._tape.end
        if self._flow is not None:
            emitted = self._at
            read = emitted + self._flow.waiting(self._stretch)
        parts = [f"{max(read, 0):,} characters read"]
        if read > max(emitted, 0):
            parts.append(f"{read - max(emitted, 0):,} held back")
        parts += [f"{len(text):,} of {kind}" for kind in ("reasoning", "content") if (text := getattr(message, kind))]
        if message.tool_calls:
            parts.append("calls of " + ", ".join(call.name for call in message.tool_calls))
        state = f"closed ({message.finish_reason})" if self._closed else f"in {self.stage.value}"
        return f"<Parser {self._dialect.name}: {state}; {', '.join(parts)}>"

    # -- the public interface -----------------------------------------------------------------------------------------

    @property
    def message(self) -> Message:
        """The message so far."""
        if self._flow is not None:
            self._flow.joins(self._at)
            if self._tokens is not None:
                self._add_spans(self._tokens)
        return self._fold.message()

    @property
    def stage(self) -> Stage:
        """The stage that the output has reached."""
        self._catch_up()
        return self._machine.stage()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the output."""
        return self._dialect

    def feed(self, text: str, stage: Stage | str | None = None) -> list[Event]:  # hot: most pieces go no further
        """Take the next piece of the output, and return its events.

        Args:
            text: a piece of any length; the cuts between pieces do not matter.
            stage: where an engine says that this piece belongs; it overrides what earlier markers said.

        Raises:
            ValueError: the parser is closed, or there is no such stage.
            TypeError: the text is not a string.
        """
        if stage is not None or text.__class__ is not str or not text:
            return self._feed_checked(text, stage)
        # Most pieces of text and of an answer's strings are plain or known: those go no further.
        stretch = self._stretch
        if stretch is not None:
            known, stop, stop2, call, put, keep = stretch
            if (
                '"' not in text
                and "\\" not in text
                and (stop is None or (stop not in text and (stop2 is None or stop2 not in text)))
                and text.isprintable()
            ):
                at = self._at
                self._at = end = at + len(text)
                put(text)
                if keep is not None:
                    keep(text)
                return [ToolCallDelta(call, text, at, end)]
            turn = known[text]
            if turn is not None:
                if keep is not None:
                    keep(text)
                at = self._at
                if isinstance(turn, str):
                    self._at = end = at + len(text)
                    put(turn)
                    return [ToolCallDelta(call, turn, at, end)]
                fragment, written, then = turn
                self._stretch = then, then.stop, then.stop2, call, put, keep
                if not written:
                    return []
                self._at = end = at + len(written)
                put(fragment)
                return [ToolCallDelta(call, fragment, at, end)]
            self._stop_stretch()
        flow = self._flow
        if flow is not None:
            events = flow.feed(text, self._at)
            if events is not None:
                self._at = flow.at
                self._stretch = flow.stretch
                return events
            if flow.taken:
                self._stop_flow()
                return self._run()
        return self._feed(text, None)

    def close(self, finish_reason: str | None = "stop") -> list[Event]:  # the steps of an end, in their order
        """End the output, and return the last events.

        Args:
            finish_reason: the engine's finish reason. ``stop`` becomes ``tool_calls`` if a call ended; others stay.

        Raises:
            ValueError: the parser is closed already.
            TypeError: the reason is not a string.
        """
        if finish_reason is not None and type(finish_reason) is not str:
            check("finish_reason", finish_reason, (str, type(None)), _REASON)
        if self._closed:
            raise ValueError("close: the parser is already closed")
        self._stop_flow()
        if self._tokenizer is not None and self._tokens is None and not self._tape.end:
            self.feed_tokens(())  # an output without tokens still counts as one of tokens
        machine = self._machine
        ledger = machine.ledger
        events: list[Event] = []
        if self._tokens is not None:
            text, cut = self._tokens.flush()
            if text:
                events = self._feed(text, None)
                self._stop_flow()
            if cut:
                ledger.notice("cut_character")
        self._closed = True
        machine.close(ended=finish_reason != "length")
        if not ledger.spoken and not ledger.index and self._nonblank:
            ledger.notice("empty")
        reason = finish_reason or "stop"
        ledger.finish("tool_calls" if reason == "stop" and ledger.calls else reason)
        return events + self._due()

    # -- feeding ------------------------------------------------------------------------------------------------------

    def _feed_checked(self, text: object, stage: Stage | str | None) -> list[Event]:
        """Feed unchecked input, which is refused before anything changes if it is wrong."""
        if not isinstance(text, str):
            hint = "; decode bytes as they come, with codecs.getincrementaldecoder" if isinstance(text, bytes) else ""
            raise TypeError(f"text: must be a string, not {described(text)}{hint}")
        return self._feed(text, None if stage is None else to_stage(stage))

    def _stop_flow(self) -> None:
        """Let the machine go on from here."""
        if self._stretch is not None:
            self._stop_stretch()
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.stop(self._at)
            if self._tokens is not None:
                self._add_spans(self._tokens)

    def _catch_up(self) -> None:
        """Let the machine read what waits, which may be the opening of a call."""
        if self._flow is not None and self._flow.holds:
            self._stop_flow()
            self._machine.run()

    def _add_spans(self, tokens: TokenFeed) -> None:
        """Add the token spans of what flowed to the message."""
        self._fold.claim(tokens.folded, tokens.claimed)
        tokens.folded = tokens.claimed

    def _stop_stretch(self) -> None:
        """Let what is open go on from where its stretch has come."""
        stretch, self._stretch = self._stretch, None
        if stretch is not None and self._flow is not None:
            self._flow.waits = stretch[0].waits

    def _feed(self, text: str, stage: Stage | None) -> list[Event]:
        if self._closed:
            raise ValueError("feed: the parser is closed")
        if not text:
            return []
        if stage is not None:
            self._catch_up()
        if self._flow is not None:
            self._stop_flow()
        if not self._nonblank and not text.isspace():
            self._nonblank = True
        tape = self._tape
        if stage is not None:
            tape.drop()
            self._machine.force(stage)
        self._machine.take(text)
        return self._run()

    def _run(self) -> list[Event]:
        """Let the machine go on, and look whether what is open then may be read without it."""
        self._machine.run()
        events = self._due()
        # What flows is not looked at, so blank text alone does not: whether an output is empty must show.
        flow = self._flow = flow_of(self._machine, self._fold) if self._nonblank else None
        if flow is not None:
            self._at = flow.at
            self._stretch = flow.stretch
        return events

    def _due(self) -> list[Event]:
        """Take the events that go out, and add them to the message."""
        events = self._machine.ledger.take()
        if self._tokens is not None:
            self._tokens.span(events)
            self._tokens.folded = self._tokens.claimed
        self._fold.extend(events)
        return events

    # -- beginnings ---------------------------------------------------------------------------------------------------

    def _read_prompt(self, prompt: str) -> None:
        """Replay what follows the last opening of an assistant's turn, without events."""
        tail = prompt_tail(self._dialect, prompt)
        if tail is None:
            self._machine.begin(prompt_end(self._dialect, prompt))
        else:
            self._machine.replay(tail)

    def _prompt_text(self, prompt: str | Sequence[int]) -> str:
        check_prompt(prompt)
        if isinstance(prompt, str):
            return prompt
        if self._tokenizer is None:
            raise ValueError("prompt: token ids need a tokenizer")
        return decode_ids(self._tokenizer, prompt)

    # -- token ids ----------------------------------------------------------------------------------------------------

    def feed_tokens(self, ids: Iterable[int], stage: Stage | str | None = None) -> list[Event]:
        """Take the next token ids, which needs ``tokenizer``. The events have token spans.

        Special tokens that are markers are recognized by their ids. Text is decoded up to the last complete
        character.

        Raises:
            ValueError: the parser is closed, or has no tokenizer; an id is negative.
            TypeError: these are not token ids.
        """
        tokens = self._tokens
        # Most pieces are one token that came before, after the same: it needs no decoding.
        if tokens is not None and stage is None and isinstance(ids, _LISTS) and len(ids) == 1 and not self._closed:
            stream = tokens.stream
            step = stream.after.get(ids[0]) if ids[0].__class__ is int else None
            if step is not None:
                text, stream.after = step
                starts = tokens.starts
                at = tokens.total
                starts.append(at)
                if not text:
                    return []
                tokens.total = at + len(text)
                events = self.feed(text)
                if events and events[0].token_start < 0:
                    if len(starts) == 1 and events[0].end > at:
                        tokens.claim(events[0])
                    else:
                        tokens.span(events)
                return events
        return self._feed_ids(ids, stage)

    def _feed_ids(self, ids: Iterable[int], stage: Stage | str | None) -> list[Event]:
        """Feed unchecked token ids, which are refused before anything changes if they are wrong."""
        if self._closed:
            raise ValueError("feed_tokens: the parser is closed")
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise wrong_type("ids", ids, "token ids, an iterable of integers")
        ids = tuple(ids)
        check_ids("ids", ids)
        forced = None if stage is None else to_stage(stage)
        tokens = self._tokens
        if tokens is None:
            if self._tokenizer is None:
                raise ValueError("feed_tokens: the parser has no tokenizer; pass tokenizer= when you create it")
            tokens = self._tokens = TokenFeed(self._tokenizer)
            self._machine.look.know_tokens(tokens.added, counted=True)
            self._fold.reasoning_tokens = 0
            self._stop_flow()
        found: list[Event] = []
        for text, literal in tokens.read(ids):
            if text:
                events = self._feed(text, forced) if forced is not None else self.feed(text)
                if events and events[0].token_start < 0:
                    tokens.span(events)
                found += events
            if literal:
                found += self._feed_special(literal, tokens.foreign(literal, self._machine.look.plan), forced)
        self._machine.look.forget_marks()
        return found

    def _feed_special(self, literal: str, foreign: bool, stage: Stage | None) -> list[Event]:
        """Take a special token; ``foreign``: no template names it."""
        self._stop_flow()
        machine = self._machine
        plan = machine.look.plan
        at = self._tape.end
        if is_marker(literal, plan):
            machine.look.mark(at)
            if machine.look.counted and machine.calls.call is not None and closes(literal, plan):
                machine.end_string(turn=ends_turn(literal, plan))
        if foreign and machine.calls.call is None:
            machine.ledger.foreign_spans.append((at, at + len(literal)))
        return self._feed(literal, stage)


class PairedParser(Parser):
    """A parser that is fed text, with special tokens marked.

    Text is as fast as with `Parser`. Events have no token spans, because ids are not counted.

    The arguments are those of `Parser`.
    """

    __slots__ = ()

    def know_tokens(self, special: Iterable[str], *, constrained: bool = False) -> None:
        """From now on `feed_special` marks special tokens, and text that only spells one is text (`text_markers`).

        Args:
            special: the literals of special tokens that may be markers.
            constrained: a grammar of text generates everything but reasoning; there, text that spells a token counts.
        """
        self._stop_flow()
        self._machine.look.know_tokens(special, constrained=constrained)

    def feed_special(self, literal: str, *, foreign: bool = False) -> list[Event]:
        """Take the next special token, after `know_tokens`; returns its events.

        In a call's arguments it is treated like its text: models quote their own markers, and do so with special
        tokens, because tokenizers encoded their training data that way.

        Args:
            literal: the token's text.
            foreign: no template names it; it is markup, except inside a call.

        Raises:
            ValueError: the parser is closed.
        """
        events = self._feed_special(literal, foreign, None)
        self._machine.look.forget_marks()
        return events


def to_stage(value: Stage | str) -> Stage:
    """Return the stage of a name.

    Raises:
        ValueError: there is no such stage.
    """
    try:
        return Stage(value)
    except ValueError:
        raise ValueError(f"stage: {value!r} is not one of {', '.join(Stage)}") from None


_LISTS: Final = (list, tuple)
_REASON = "a string or None"


def parse(
    text: str,
    dialect: str | Dialect,
    *,
    tools: Sequence[Any] | Toolset | None = None,
    tool_choice: ToolChoice | None = "auto",
    stage: Stage | str | None = None,
    prompt: str | Sequence[int] | None = None,
    policy: Policy | None = None,
    tokenizer: Any = None,
    ids: MakeId | None = None,
    finish_reason: str = "stop",
) -> Message:
    """Parse a whole output, and return its message: `Parser.feed` and `Parser.close` in one call.

    The arguments are those of `Parser`, and ``finish_reason`` is the engine's.

    Raises:
        UnknownDialect: no dialect has this name.
        ValueError, TypeError: an argument is wrong; the message names it.
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


def detect_stage(dialect: str | Dialect, prompt: str | Sequence[int], *, tokenizer: Any = None) -> Stage:
    """Return the stage in which the output after a prompt begins.

    The parser itself replays what follows the last opening of an assistant's turn, so prefills, closed reasoning and
    calls are read as in an output.

    Args:
        dialect: a name, or a `Dialect`.
        prompt: the rendered prompt, or its token ids.
        tokenizer: needed for token ids; see `Parser`.

    Raises:
        UnknownDialect: no dialect has this name.
        ValueError: token ids without a tokenizer.
        TypeError: an argument is of another type; the message names it.
    """
    check_prompt(prompt)
    return Parser(dialect, prompt=prompt, tokenizer=tokenizer).stage
