"""`Parser` and `parse`: the machine with its public face."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..arguments import check, check_ids, check_prompt, described, wrong_type
from ..dialect import Dialect
from ..events import Event, Finish, ReasoningStart, Stage, ToolCallDelta, ToolCallStart
from ..message import Message
from ..policy import Policy
from ..registry import as_dialect
from ..toolset import ToolChoice, read_toolset
from .call import Sink
from .literals import STRING
from .output import ARGUMENTS, BAD_CALL, BLOCK, BLOCK_TEXT, CLOSE, HEADER, OBJECT, THOUGHT_CALL, UNDECIDED
from .plan import compile_plan
from .prompt import decode_ids, prompt_end, prompt_tail
from .stream import Stream, to_stage


class Parser(Stream):
    """Turns one output (one choice) into events.

    Args:
        dialect: a name, or a `Dialect`.
        tools: OpenAI tool dicts. ``None``: unknown, marked calls are parsed. ``[]``: call markup is content.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, a named function or allowed tools as OpenAI writes them.
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
        "_dialect",
        "_special",
        "_tokenizer",
        "_total",
    )

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: ToolChoice | None = "auto",
        stage: Stage | str | None = None,
        prompt: str | Sequence[int] | None = None,
        policy: Policy | None = None,
        tokenizer: Any = None,
        ids: Callable[[int, str], str] | None = None,
    ) -> None:
        d = as_dialect(dialect)
        request = read_toolset(tools, tool_choice)
        if policy is None:
            policy = _NO_POLICY
        elif not isinstance(policy, Policy):
            raise wrong_type("policy", policy, "a Policy, such as Policy(bad_arguments='drop'), or None")
        if ids is not None and not callable(ids):
            raise wrong_type("ids", ids, "a callable (index, name) -> str or None")
        if tokenizer is not None and not hasattr(tokenizer, "decode"):
            raise wrong_type("tokenizer", tokenizer, "a tokenizer, an object with a method `decode`, or None")
        names: dict[str, Any] | None = None
        if request.tools is not None:
            names = request.tools
        elif request.name:
            names = {request.name: None}
        plan = compile_plan(d, policy, request.kind)
        super().__init__(plan, names, request.name, ids or self._new_id)
        self._dialect = d
        self._plain = not plan.forms or request.kind == "none" or (tools is not None and not names)
        self._tokenizer = tokenizer
        self._special: frozenset[str] = frozenset()  # tokens that the tokenizer marks as special
        self._total = 0  # code points of the tokens fed
        if stage is not None:
            self._begin_at(to_stage(stage, "stage"))
        elif prompt is not None:
            self._read_prompt(self._prompt_text(prompt))
        else:
            self._begin_at(d.stage)

    def __repr__(self) -> str:
        told = self._told()
        read = (self._at if self._fast else self._base) + len(self._buf)
        parts = [f"{max(read, 0):,} characters read"]
        if read > max(self._at, 0):
            parts.append(f"{read - max(self._at, 0):,} held back")
        parts += [f"{len(text):,} of {kind}" for kind in ("reasoning", "content") if (text := getattr(told, kind))]
        if told.tool_calls:
            parts.append("calls of " + ", ".join(call.name for call in told.tool_calls))
        state = f"closed ({told.finish_reason})" if self._closed else f"in {self._stage().value}"
        return f"<Parser {self._dialect.name}: {state}; {', '.join(parts)}>"

    # -- the public face ------------------------------------------------------------------------------------------

    @property
    def message(self) -> Message:
        """The message so far."""
        return self._told()

    @property
    def stage(self) -> Stage:
        """Where the output stands."""
        return self._stage()

    @property
    def dialect(self) -> Dialect:
        """The dialect that is read."""
        return self._dialect

    def close(self, finish_reason: str | None = "stop") -> list[Event]:
        """The output is over.

        Args:
            finish_reason: the engine's; ``stop`` becomes ``tool_calls`` where a call ended, anything else stays.

        Raises:
            ValueError: the parser is closed already.
            TypeError: the reason is no string.
        """
        check("finish_reason", finish_reason, (str, type(None)), "a string or None")
        if self._closed:
            raise ValueError("close: the parser is closed already")
        self._sync()
        if self._tokenizer is not None and self._base == 0 and not self._buf:
            self.feed_tokens(())  # an output without a token is one of tokens all the same
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

    def _feed(self, text: str, stage: Stage | str | None) -> list[Event]:
        # What cannot be fed is refused before anything has changed.
        given: object = text
        if not isinstance(given, str):
            hint = "; decode bytes as they come, with codecs.getincrementaldecoder" if isinstance(given, bytes) else ""
            raise TypeError(f"text: must be a string, not {described(given)}{hint}")
        if stage is not None:
            stage = to_stage(stage, "stage")
        return super()._feed(text, stage)

    # -- beginnings -----------------------------------------------------------------------------------------------

    def _begin_at(self, stage: Stage) -> None:
        if stage is Stage.REASONING and self._plan.reasoning_ends:
            self._begin_reasoning(0, self._plan.reasoning_lead)
            self._seen_part = False
        elif stage is Stage.UNDECIDED and self._plan.reasoning_ends:
            self._state = UNDECIDED
        elif stage is Stage.TOOL_CALL and not self._plain:
            self._enter_block()
        else:
            self._margin = self._plan.content_lead

    def _read_prompt(self, prompt: str) -> None:
        """Replay what follows the last opening of an assistant's turn, silently."""
        tail = prompt_tail(self._dialect, prompt)
        if tail is None:
            self._begin_at(prompt_end(self._dialect, prompt))
            return
        self._replay = True
        self._margin = self._plan.content_lead
        self._base = self._at = -len(tail)
        self._buf = tail
        self._run()
        self._replay = False
        if self._holds and self._holds[-1].kind == THOUGHT_CALL:
            self._commit()  # who wrote the prompt meant a call
        said = [e for h in self._holds for e in h.events] + self._out
        for hold in self._holds:
            hold.events = []
            hold.index = 0
            hold.thinking = hold.thinking and hold.kind != BAD_CALL  # what the prompt's call ended stays ended
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
        check_prompt(prompt)
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
            ValueError: the parser is closed, or has no tokenizer; an id is negative.
            TypeError: these are no ids.
        """
        if self._closed:
            raise ValueError("feed_tokens: the parser is closed")
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise wrong_type("ids", ids, "token ids, an iterable of integers")
        ids = tuple(ids)
        check_ids("ids", ids)
        if stage is not None:
            to_stage(stage, "stage")
        decoder = self._decoder
        if decoder is None:
            if self._tokenizer is None:
                raise ValueError("feed_tokens: the parser was made without a tokenizer")
            from ..tokens import Detokenizer, added_tokens, marked_special  # not needed for text

            decoder = self._decoder = Detokenizer(self._tokenizer)
            self._added = added_tokens(self._tokenizer)
            self._special = marked_special(self._tokenizer)
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
                if goes_on and reader.mode == STRING:
                    if self._repairing():
                        self._i = len(self._buf)  # the beginning of an escape means nothing
                    self._string_cut(call, reader)
        if self._call is None and literal in self._special and not self._named_in(literal):
            self._foreign.append((self._total, self._total + len(literal)))
        return self._feed(literal, stage)

    def _named_in(self, literal: str) -> bool:
        """Whether a template names a token, or the token holds what a template names."""
        return any(literal in t or (t in literal and any(c.isalnum() for c in t)) for t in self._plan.literals)

    def _is_marker(self, literal: str) -> bool:
        return any(literal in text or text in literal for text in self._plan.literals)

    def _closes(self, literal: str) -> bool:
        plan = self._plan
        return (
            any(s.first.startswith(literal) for s in plan.suffixes)
            or any(b.suffix.first.startswith(literal) for b in plan.block_suffixes)
            or any(o.pattern.first.startswith(literal) for o in plan.ends)
        )


_NO_POLICY = Policy()


def parse(
    text: str,
    dialect: str | Dialect,
    *,
    tools: Sequence[Any] | None = None,
    tool_choice: ToolChoice | None = "auto",
    stage: Stage | str | None = None,
    prompt: str | Sequence[int] | None = None,
    policy: Policy | None = None,
    tokenizer: Any = None,
    ids: Callable[[int, str], str] | None = None,
    finish_reason: str = "stop",
) -> Message:
    """Parse a whole output: `Parser.feed` and `Parser.close` in one call, and nothing else.

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
