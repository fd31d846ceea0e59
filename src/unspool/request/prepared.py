"""Prepares requests for an engine: renders the prompt, derives the grammar, makes the parsers of outputs."""

import logging
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from typing import Any, Final

import msgspec

from .. import engines
from ..dialect.file import Dialect
from ..dialect.template import unstarted, writable
from ..engines.cache import Cache
from ..engines.threads import Awaited
from ..errors import ConstraintError
from ..events import ContentDelta, Event, Finish, Stage
from ..grammar import Constraint, ToolStrictLevel, constrain
from ..grammar.calls import strict_tools
from ..message import Message
from ..parser import Parser, detect_stage
from ..parser.prompt import last_turn
from ..schema import tool_name
from ..tools import ServerTool
from ..toolset import Toolset
from ..wire.encoding import encode
from .chat_request import ChatRequest, stage_of
from .common import OWN
from .continuation import Continued, Turns
from .edits import edited
from .fields import BadRequest
from .settings import Settings

log = logging.getLogger("unspool.server")
_KEPT: Final = 64  # how many grammars are kept
_KEPT_BYTES: Final = 64 * 1024 * 1024
_LOOSE: Final = 16  # of how many tools the arguments may be any object, before they are for all
_TOOLS: Final = 4096  # of how many of the server's tools is known whether a grammar can be made for them


class RawParser:
    """Reads an output as `Parser` does, but all of it is content; none if ``silent``: nothing was asked for."""

    stage = Stage.CONTENT

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._pieces: list[str] = []
        self._at = 0
        self._reason = ""

    @property
    def message(self) -> Message:
        return Message(content="".join(self._pieces), finish_reason=self._reason)

    def feed(self, text: str, stage: Stage | None = None) -> list[Event]:
        if not text or self._silent:
            return []
        start, self._at = self._at, self._at + len(text)
        self._pieces.append(text)
        return [ContentDelta(text, start, self._at)]

    def feed_tokens(self, ids: Sequence[int], stage: Stage | None = None) -> list[Event]:
        """Not used: engines send the text, too."""
        raise NotImplementedError

    def close(self, finish_reason: str | None = None) -> list[Event]:
        self._reason = "length" if self._silent else finish_reason or "stop"
        return [Finish(self._reason, self._at, self._at)]


Reader = Parser | RawParser  # reads one output


class Prepared(msgspec.Struct, frozen=True):
    """A request ready for an engine."""

    request: ChatRequest
    prompt: str | None  # the rendered prompt, if there is a chat template
    # The prompt, with the key for remembering the turn after it; ``None`` without a chat template.
    continued: Continued | None
    media: tuple[engines.Medium, ...]  # the media of the messages, in the order of their placeholders in the prompt
    stage: Stage | None  # where the output begins, if that is known without a prompt
    constraint: Constraint | None  # what may be generated; ``None`` means anything
    thinking: engines.Thinking | None  # the budget of reasoning; ``None`` if there is none
    parsers: tuple[Reader, ...]  # a new reader for each choice
    turns: Turns | None = None  # the turns that prompts may continue; ``None`` without a chat template
    spoken: dict[str, Any] | None = None  # what the template is given, if there are media; see `Prompts.spoken`

    def for_engine(
        self, settings: Settings, id: str, choice: int, client_id: str = "", *, capture: bool = False
    ) -> engines.Request:
        """The engine's request for one choice. ``client_id`` is the client's own id for its request."""
        request = self.request
        sampling = request.sampling
        if choice and sampling.seed is not None:  # choices with the same seed would be equal
            sampling = msgspec.structs.replace(sampling, seed=sampling.seed + choice)
        return engines.Request(
            id=id,
            client_id=client_id,
            model=settings.model,
            prompt=self.prompt,
            prompt_ids=None if self.continued is None else self.continued.ids,
            messages=[{k: v for k, v in m.items() if k not in OWN} if OWN & m.keys() else m for m in request.messages],
            tools=request.tools,
            tool_choice=request.toolset.choice,
            variables=request.template,
            spoken=self.spoken,
            media=self.media,
            stage=self.stage,
            choice=choice,
            sampling=sampling,
            max_tokens=request.max_tokens,
            constraint=self.constraint,
            thinking=self.thinking,
            capture=capture,
        )


def prepare(
    request: ChatRequest,
    settings: Settings,
    turns: Turns | None,
    tokenizer: Any = None,
    constraints: "Constraints | None" = None,
    awaited: Awaited | None = None,
    *,
    prompt: Continued | None = None,
) -> Prepared:
    """Render the prompt, unless it continues the model's own output and is given; derive the grammar, make the parsers.
    `BadRequest` if the template refuses the request, or no output can satisfy it; `Abandoned` if nobody waits."""
    awaited = awaited or Awaited()
    constraints = constraints or Constraints(settings)
    request = with_edits(request, turns, awaited)
    continued = prompt or (None if turns is None else turns.prompt(request, awaited))
    if continued is None:
        text = tail = None
        media = tuple(request.media.values())
        stage = forced = stage_of(request, settings.dialect)
    else:
        text = continued.prompt
        media = tuple(request.media.values()) if turns is None else turns.media(text, request)
        awaited.check()
        tail = last_turn(settings.dialect, text)  # found once, for all choices
        stage = forced = None
    begins = stage
    silent = request.thinking is False or not settings.thinks
    limited = silent or request.reasoning.budget is not None
    if tail is not None and (limited or constraints.needed(request)):
        begins = detect_stage(settings.dialect, tail)
        # After a prompt that ends in content, the model may still think, if it ever does and the request allows it.
        if begins is Stage.CONTENT and silent and not settings.dialect.framed:
            forced = Stage.CONTENT
    try:
        constraint = constraints.derive(request, forced, tail, begins, tokenizer)
    except ConstraintError as error:
        field, _, message = request.spelled(str(error)).partition(": ")
        raise BadRequest(field, message) from None
    parsers = []
    for _ in range(request.n):
        awaited.check()
        parsers.append(_parser(request, settings, stage, tail, tokenizer))
    thinking = _thinking(request, settings.dialect, begins or settings.dialect.stage)
    spoken = turns.prompts.spoken(request, awaited) if media and turns is not None else None
    return Prepared(request, text, continued, media, stage, constraint, thinking, tuple(parsers), turns, spoken)


def with_edits(request: ChatRequest, turns: Turns | None, awaited: Awaited) -> ChatRequest:
    """Make the request's edits. Tokens are counted in the prompt; without a tokenizer, four characters count as one."""
    if not request.edits:
        return request

    def tokens(messages: Sequence[dict[str, Any]]) -> int:
        asked = msgspec.structs.replace(request, messages=list(messages))
        if turns is None:
            return len(encode(asked.messages)) // 4
        return turns.count(asked, awaited)

    messages, applied = edited(request.messages, request.edits, tokens)
    reasoning = request.reasoning
    if any("cleared_thinking_turns" in edit for edit in applied):  # cleared thinking must not be restored
        reasoning = msgspec.structs.replace(reasoning, context="loop")
    return msgspec.structs.replace(request, messages=messages, reasoning=reasoning, edits=(), applied=applied)


def _thinking(request: ChatRequest, dialect: Dialect, begins: Stage) -> engines.Thinking | None:
    """The budget of reasoning, if the dialect has reasoning."""
    budget = request.reasoning.budget
    if budget is None or not dialect.reasoning or request.thinking is False:
        return None
    template = writable(dialect.reasoning)[0]
    opening = unstarted(template.opening, dialect.start).strip()
    return engines.Thinking(
        budget=budget, opening=opening, closing=template.closing.strip(), inside=begins is Stage.REASONING
    )


def _parser(
    request: ChatRequest, settings: Settings, stage: Stage | None, prompt: str | None, tokenizer: Any
) -> Parser:
    """Make the parser of one output. A request without tools uses the tools of the settings."""
    own = bool(request.tools) or request.toolset.kind == "none"
    return Parser(
        settings.dialect,
        tools=request.toolset if own else settings.tools,
        tool_choice="auto" if own else settings.tool_choice,
        stage=stage,
        prompt=prompt,
        policy=settings.policy,
        tokenizer=tokenizer,
    )


class Constraints:
    """Derives the grammars of requests, and caches them for requests with the same tools."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: Cache[Constraint] = Cache(_KEPT, _KEPT_BYTES)
        self._writable: Cache[bool] = Cache(_TOOLS, 0)

    def writable(self, tool: ServerTool) -> bool:
        """Whether a grammar can be made for the calls of a tool; if not, the log says why, once."""
        key = _key([tool.server, tool.definition])
        found = None if key is None else self._writable.get(key[0])
        if found is None:
            found = True
            try:
                constrain(self._settings.dialect, [tool.definition], "required")
            except ConstraintError as error:
                found = not str(error).startswith("tools.")  # otherwise it is the dialect that has no calls
                if not found:
                    log.warning("tool %r of server %s is left out: %s", tool.name, tool.server, error)
            if key is not None:
                self._writable.put(key[0], found, 0)
        return found

    def needed(self, request: ChatRequest) -> bool:
        """Whether a request may need a grammar."""
        tools = request.toolset
        return bool(tools.callable) or request.response_format is not None or tools.kind not in ("auto", "none")

    def derive(
        self,
        request: ChatRequest,
        stage: Stage | None,
        prompt: str | None,
        begins: Stage | None,
        tokenizer: Any,
    ) -> Constraint | None:
        """Derive the grammar of a request, if it needs one; `ConstraintError` if no output can satisfy the request.
        ``stage`` is where the output must begin (``None``: the prompt decides), ``begins`` where it does begin."""
        tools = request.toolset
        if not self.needed(request):
            return None
        key = None
        if begins is not Stage.TOOL_CALL:  # inside a call, the grammar depends on the prompt itself
            grammars = sorted((name, one.source) for name, one in request.grammars.items())
            parts = [tools.callable, tools.choice, request.parallel, stage, begins, request.response_format, grammars]
            key = _key(parts)
        found = None if key is None else self._kept.get(key[0])
        if found is None:
            found = self._derive(request, stage, prompt, tokenizer, self._settings.strict_level)
            if found is not None and key is not None:
                self._kept.put(key[0], found, 16 * key[1])
        return found

    def _derive(
        self, request: ChatRequest, stage: Stage | None, prompt: str | None, tokenizer: Any, level: int
    ) -> Constraint | None:
        """The grammar at the server's level as far as it is possible; the request's own constraints are enforced.

        Of a tool whose schema has no grammar, the arguments are any object.
        """
        toolset = request.toolset
        reasons: list[ConstraintError] = []
        while True:
            try:
                found = constrain(
                    self._settings.dialect,
                    toolset,
                    parallel_tool_calls=request.parallel,
                    stage=stage,
                    prompt=prompt,
                    response_format=request.response_format,
                    strict_level=ToolStrictLevel(level),
                    closed=self._settings.closed,
                    tokenizer=tokenizer,
                    grammars=request.grammars,
                )
                break
            except ConstraintError as error:
                if not level or toolset.kind != "auto":
                    raise
                strict = {tool_name(tool) for tool in toolset.callable if strict_tools([tool])}
                name = None if error.tool in strict or len(reasons) >= _LOOSE else error.tool
                toolset, level = (toolset, level - 1) if name is None else (_loosened(toolset, name), level)
                reasons.append(error)
        for why in reasons:
            log.warning("calls are less constrained than by the server's level: %s", why)
        if found is not None and level and toolset.kind == "auto":
            asked = msgspec.structs.replace(request, messages=[], media={}, toolset=toolset)
            found.looser = cache(partial(self._derive, asked, stage, prompt, tokenizer, level - 1))
        if found is not None and request.response_format is not None and toolset.callable and toolset.kind == "auto":
            form = {"response_format": request.response_format, "tokenizer": tokenizer}
            found.answer = cache(partial(constrain, self._settings.dialect, stage=Stage.CONTENT, **form))
        return found


def _loosened(toolset: Toolset, name: str) -> Toolset:
    """The tools, one of which takes any object."""
    loose = {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    return msgspec.structs.replace(toolset, tools={**(toolset.tools or {}), name: loose})


def _key(parts: list[Any]) -> tuple[bytes, int] | None:
    """The key of everything that a grammar depends on, and its bytes; ``None`` if a schema has lone surrogates."""
    try:
        text = msgspec.json.encode(parts)
    except UnicodeEncodeError:
        return None
    return sha256(text).digest(), len(text)
