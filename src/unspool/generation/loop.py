"""`Loop`: an output in rounds, between which the server runs calls of its own tools and asks the model again.

A round is one generation. Its calls of the server's tools run concurrently, and their results follow the output. The
next prompt begins with the last prompt and the output, token by token if the engine sends tokens, so that the engine's
prefix cache applies. A call of a client's tool ends the answer, once the server's calls of the same round are run.

The events of all rounds form one list, which the wires write; see `unspool.wire.server_tools`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ..engines import EngineError
from ..engines.media import MEDIA, Medium, is_medium
from ..engines.threads import Awaited
from ..events import Event, Finish, ToolCallDelta, ToolCallEnd, ToolCallStart
from ..message import Message, ToolCall, fold
from ..request.chat_request import ChatRequest
from ..request.common import in_one
from ..request.continuation import Continued, Written
from ..request.fields import BadRequest
from ..request.parts.reading import result_content
from ..request.prepared import Prepared, prepare
from ..request.protocols.base import WireProtocol
from ..request.server_history import result_of
from ..request.server_tools import Pending, ServedTool, ServerTools
from ..request.writing import NoBridge
from ..tools import ToolResult, ToolState
from ..tools.base import shortened
from ..wire.server_tools import TOOL_LIMIT, AnyEvent, ApprovalAsked, Clients, ServerCallResult, ServerCallStart
from .service import Service, log

_N = TypeVar("_N", int, float)
_Round = tuple[Prepared, Written, dict[int, ToolResult], int | None]  # what `_next` takes
_AT_ONCE: Final = 16  # how many calls of an answer run at once


class Loop:
    """The rounds of one choice. ``session`` opens the session of the tools; `kept`: the events, if ``keep``."""

    def __init__(
        self,
        name: str,
        service: Service,
        prepared: Prepared,
        session: Callable[[], ToolState],
        protocol: WireProtocol,
        *,
        keep: bool,
    ) -> None:
        assert prepared.request.server_tools is not None
        self._name = name
        self._service = service
        self._first = prepared
        self._tools: ServerTools = prepared.request.server_tools
        self._open = session
        self._protocol = protocol
        self.kept: list[AnyEvent] | None = [] if keep else None
        limits, bounds = service.settings.limits, self._tools.bounds
        self._rounds = _lower(limits.rounds, bounds.rounds)
        self._calls_left = _lower(limits.calls, bounds.calls)
        self._characters_left = _lower(limits.results, bounds.results)
        self._seconds_left = _lower(limits.tooltime, bounds.tooltime)
        self._deadline = 0.0  # of the running calls, by the loop's clock
        self._tokens = 0
        self._count = 0  # the calls of all rounds so far
        self._indexes: dict[int, int] = {}  # the indexes of this round's calls among those of all rounds
        self._ids: dict[int, str] = {}  # the client's ids of calls, by these indexes
        self._known: set[str] = set()
        self._written: list[dict[str, Any]] = []  # the messages of all rounds so far, with these ids
        self._taken: frozenset[str] | None = None  # the kinds of media that results may have

    # -- events ------------------------------------------------------------------------------------------------------

    def translate(self, events: Sequence[Event]) -> list[AnyEvent]:
        """Turn a round's events into events of the whole answer. Only `run` knows whether the round is the last."""
        found: list[AnyEvent] = []
        for event in events:
            if isinstance(event, ToolCallStart):
                found.append(self._start(event))
            elif isinstance(event, ToolCallDelta | ToolCallEnd):
                found.append(msgspec.structs.replace(event, index=self._indexes[event.index]))
            elif not isinstance(event, Finish):
                found.append(event)
        return found

    def _start(self, event: ToolCallStart) -> AnyEvent:
        index = self._indexes[event.index] = self._count
        self._count += 1
        id = self._unique(event.id, index)
        if not self._tools.answers(event.name):
            return msgspec.structs.replace(event, index=index, id=id)
        served = self._tools.tools.get(event.name)
        if served is None:
            return ServerCallStart(index, id, event.name, "")
        asks = served.asks and self._calls_left > 0
        called = "" if served.tool.original == event.name else event.name
        return ServerCallStart(index, id, served.tool.original, served.tool.server, served.form, asks, called=called)

    def _unique(self, id: str, index: int) -> str:
        """Make the id of a call unique, since models that number their calls start again in each round."""
        id = self._ids[index] = id if id not in self._known else f"{id}-{index}"
        self._known.add(id)
        return id

    def message(self) -> Message:
        """The answer for a client that knows nothing of the server's tools; needs `kept`."""
        return fold(Clients().take(self.kept or ()))

    # -- rounds ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        generate: Callable[[Prepared], Awaitable[Written]],
        send: Callable[[Sequence[AnyEvent]], Awaitable[None]],
    ) -> None:
        """Run all rounds: ``generate`` generates the output of a round, whose events go through `translate`, and
        ``send`` passes them on. `EngineError` if the engine fails, `BadRequest` if the template refuses results."""
        self._generate, self._send = generate, send
        session = self._open()
        try:
            await self._run(session)
        finally:
            del self._generate, self._send  # which hold the run, and that this
            await session.aclose()

    async def _run(self, session: ToolState) -> None:
        await self._send(self._tools.listed)
        prepared = self._first
        if self._tools.pending:
            prepared = await self._decided(session, prepared)
        begun = prepared.continued
        last: _Round | None = None
        for left in range(self._rounds, -1, -1):
            self._indexes = {}
            try:
                written = await self._generate(prepared)
            except EngineError as error:
                blind = await self._without_media(prepared, last) if error.status == 400 else None
                if blind is None:
                    raise
                log.info("%s: the media of results are left out: %s", self._name, error)
                prepared = blind
                written = await self._generate(prepared)
            self._tokens += written.tokens
            reason = await self._answer(session, written.message, left)
            if isinstance(reason, str):
                self._remember(begun, prepared.continued, written)
                await self._send([Finish(reason, 0, 0)])
                return
            most = prepared.request.max_tokens
            if self._first.request.max_tokens is not None:
                most = self._first.request.max_tokens - self._tokens
                if most < 1:
                    self._remember(begun, prepared.continued, written)
                    await self._send([Finish("length", 0, 0)])
                    return
            last = prepared, written, reason, most
            prepared = await self._next(*last)

    async def _answer(self, session: ToolState, message: Message, left: int) -> "str | dict[int, ToolResult]":
        """Run the calls of a round; return the finish reason if that ends the answer, else the results by index."""
        ours = [call for call in message.tool_calls if self._tools.answers(call.name)]
        whole = message.finish_reason not in ("length", "content_filter")
        asked = [c for c in ours if self._asks(c) and whole]
        results = await self._results(session, [c for c in ours if c not in asked], whole)
        self._note(message, results)
        if not ours:
            return message.finish_reason
        asking = self._tools.approvals.ask
        for call in asked:
            tool = self._tools.tools[call.name].tool
            id = asking(tool.server, tool.original, call.arguments)
            await self._send([ApprovalAsked(self._indexes[call.index], id)])
        if len(ours) < len(message.tool_calls):
            return message.finish_reason
        if asked or not whole:
            return "stop" if whole else message.finish_reason
        if not left:
            log.info("%s: the answer ends after %d rounds of tools", self._name, self._rounds)
            return TOOL_LIMIT
        return results

    def _note(self, message: Message, results: dict[int, ToolResult]) -> None:
        """Record a round as messages."""
        answer = message.to_openai()
        self._written.append(answer)
        for call, sent in zip(message.tool_calls, answer.get("tool_calls", ()), strict=True):
            sent["id"] = self._ids[self._indexes[call.index]]
            if call.index in results:
                self._written.append(result_of(sent["id"], call.name, self._shown(results[call.index], {})))

    def _remember(self, begun: Continued | None, last: Continued | None, written: Written) -> None:
        """Remember the last round, and the whole answer if it has several rounds or a result."""
        turns = self._first.turns
        if turns is None or begun is None or last is None:
            return
        turns.remember(last, written)
        if len(self._written) > 1:
            turns.remember_rounds(begun, self._written, self._protocol.sent_back(self._written, self._tools))

    def _asks(self, call: ToolCall) -> bool:
        served = self._tools.tools.get(call.name)
        return served is not None and served.asks and call.status in ("ok", "repaired") and self._calls_left > 0

    async def _results(self, session: ToolState, calls: Sequence[ToolCall], whole: bool) -> dict[int, ToolResult]:
        """The results of calls, which run concurrently. Each is sent as soon as it is known."""
        found: dict[int, ToolResult] = {}

        async def answer(call: ToolCall) -> None:
            index = self._indexes[call.index]
            refusal = self._refusal(call, whole)
            found[call.index] = await self._answered(session, call, index, self._ids[index], refusal)

        await self._side_by_side([answer(call) for call in calls])
        return found

    async def _answered(
        self, session: ToolState, call: ToolCall, index: int, id: str, refusal: str | None
    ) -> ToolResult:
        """Run a call, unless it is refused, and send its result."""
        if refusal is None:
            result = await self._call(session, self._tools.tools[call.name], id, call.arguments)
        else:
            result = ToolResult(text=refusal, error=True)
        urls = tuple(source.url for source in result.sources)
        media: dict[str, Medium] = {}
        content = self._shown(result, media)
        parts = [] if isinstance(content, str) else [_part_of(part, media) for part in content]
        await self._send([ServerCallResult(index, result.text, result.error, urls, tuple(parts))])
        return result

    def _shown(self, result: ToolResult, media: dict[str, Medium]) -> Any:
        """A result as the client gets it and sends it back; its media are added to the others."""
        return self._content(result, media) if self._protocol.result_media and result.media else result.text

    def _refusal(self, call: ToolCall, whole: bool) -> str | None:
        """Why a call is not run; ``None`` if it may run, which counts it."""
        if not whole:
            return "The answer ended before the call could be run."
        if call.name not in self._tools.tools:
            return f"There is no tool {call.name[:128]!r}. There are: {', '.join(self._tools.tools) or 'none'}."
        if call.status not in ("ok", "repaired"):
            return f"The arguments are not one JSON object: {call.arguments[:200]}"
        if self._calls_left < 1:
            return "No more tools may be called in this answer. Answer with what is known."
        self._calls_left -= 1
        return None

    async def _call(self, session: ToolState, served: ServedTool, id: str, arguments: str) -> ToolResult:
        """Run one call. Any failure becomes its result."""
        telemetry = self._service.telemetry
        if telemetry is None:
            return await self._run_call(session, served, arguments)
        with telemetry.call(served.tool, id, arguments) as end:
            result = await self._run_call(session, served, arguments)
            end(result)
        return result

    async def _run_call(self, session: ToolState, served: ServedTool, arguments: str) -> ToolResult:
        if asyncio.get_running_loop().time() >= self._deadline:
            return ToolResult(text="The time for tools in this answer is used up.", error=True)
        try:
            async with asyncio.timeout_at(self._deadline):
                result = await session.call(served.tool, arguments)
        except TimeoutError:
            text = f"The tool did not answer within {self._seconds_left:.3g} s, the time that was left for tools."
            result = ToolResult(text=text, error=True)
        except Exception:  # an external tool server may fail in any way
            log.exception("%s: the tool %s of %s failed", self._name, served.tool.original, served.tool.server)
            result = ToolResult(text="The tool failed.", error=True)
        if len(result.text) > self._characters_left:
            text = shortened(result.text, self._characters_left) if self._characters_left > 0 else ""
            result = msgspec.structs.replace(
                result, text=text or "The limit for results in this answer is reached.", error=not text
            )
        self._characters_left -= len(result.text)
        return result

    async def _side_by_side(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run calls concurrently, a few at once, and count their time. An error of one ends the others."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self._deadline = began + self._seconds_left
        left = list(reversed(work))

        async def one_by_one() -> None:
            while left:
                await left.pop()

        tasks = [asyncio.ensure_future(one_by_one()) for _ in left[:_AT_ONCE]]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in left:
                one.close()
            self._seconds_left -= clock() - began

    # -- calls that were approved or refused -------------------------------------------------------------------------

    async def _decided(self, session: ToolState, prepared: Prepared) -> Prepared:
        """Run approved calls, send the refusals of the others, and ask the model with the results."""
        found: dict[str, Any] = {}
        media = dict(prepared.request.media)

        async def answer(pending: Pending) -> None:
            index = self._count
            self._count += 1
            self._known.add(pending.id)
            served = self._tools.tools.get(pending.name)
            origin = (pending.name, "") if served is None else (served.tool.original, served.tool.server)
            start = ServerCallStart(index, pending.id, *origin, approval=pending.approval)
            arguments = ToolCallDelta(index, pending.arguments, 0, 0)
            await self._send([start, arguments, ToolCallEnd(index, "ok", 0, 0)])
            call = ToolCall(index, pending.id, pending.name, pending.arguments)
            refusal = pending.refusal or self._refusal(call, True)
            result = await self._answered(session, call, index, pending.id, refusal)
            found[pending.id] = self._content(result, media)

        await self._side_by_side([answer(pending) for pending in self._tools.pending])
        messages = [_filled(message, found) for message in prepared.request.messages]
        return await self._prepare(msgspec.structs.replace(prepared.request, messages=messages, media=media, n=1))

    def _content(self, result: ToolResult, media: dict[str, Medium]) -> Any:
        """A result for the model; its media are added to those of the request."""
        if self._taken is None:
            turns = self._first.turns
            taken = frozenset(getattr(self._service.engine, "media", ()))
            self._taken = taken & (frozenset(MEDIA) if turns is None else turns.prompts.known.places.spans.keys())
        return result_content(result, self._taken, self._service.settings.limits, media)

    async def _without_media(self, prepared: Prepared, last: "_Round | None") -> Prepared | None:
        """A round without the media of results of the server's tools; ``None`` if it has none."""
        self._taken = frozenset()
        if last is not None and len(prepared.media) > len(last[0].media):
            return await self._next(*last)
        before = prepared.request.messages
        calls = [call for message in before for call in message.get("tool_calls") or ()]
        ours = {call["id"] for call in calls if call["function"]["name"] in self._tools.tools}
        messages = [_noted(one) if one.get("tool_call_id") in ours else one for one in before]
        if messages == before:
            return None
        return await self._prepare(msgspec.structs.replace(prepared.request, messages=messages))

    # -- the next prompt ---------------------------------------------------------------------------------------------

    async def _next(
        self, prepared: Prepared, written: Written, results: dict[int, ToolResult], most: int | None
    ) -> Prepared:
        """Prepare the next round: its prompt consists of the last prompt, the output, and the results."""
        request, message = prepared.request, written.message
        answer = {k: v for k, v in message.to_openai().items() if v is not None or k == "content"}
        media = dict(request.media)
        round_results = [
            result_of(call.id, call.name, self._content(results[call.index], media)) for call in message.tool_calls
        ]
        toolset = request.toolset
        if toolset.kind in ("required", "named"):  # a call has been made
            toolset = msgspec.structs.replace(toolset, kind="auto", name="", allowed=tuple(toolset.tools or ()))
        following = msgspec.structs.replace(
            request,
            messages=[*request.messages, answer, *round_results],
            media=media,
            toolset=toolset,
            max_tokens=most,
            n=1,
        )

        def extended(awaited: Awaited) -> Continued | None:
            turns = prepared.turns
            if turns is None or prepared.continued is None:
                return None
            try:
                seen = msgspec.structs.replace(request, media=media)
                return turns.next_round(seen, prepared.continued, written, answer, round_results, awaited)
            except (NoBridge, BadRequest) as why:  # what is refused, is so again
                log.info("%s: the prompt of the next round is rendered again: %s", self._name, why)
                return None

        return await self._prepare(following, extended)

    async def _prepare(
        self, request: ChatRequest, extended: Callable[[Awaited], Continued | None] = lambda _: None
    ) -> Prepared:
        """A round ready for the engine. Its prompt is rendered if `extended` returns none."""
        service = self._service

        def make(awaited: Awaited) -> Prepared:
            tokenizer, prompt = service.engine.tokenizer, extended(awaited)
            return prepare(
                request, service.settings, self._first.turns, tokenizer, service.constraints, awaited, prompt=prompt
            )

        size = sum(len(str(m.get("content"))) for m in request.messages)
        return await service.in_thread(size, make)


def _lower(limit: _N, bound: _N | None) -> _N:
    """The server's limit, or the request's if it is lower."""
    return limit if bound is None else min(limit, bound)


def _noted(message: dict[str, Any]) -> dict[str, Any]:
    """A result with notes in place of its media."""
    if not isinstance(content := message["content"], list):
        return message
    notes = [{"type": "text", "text": f"[{p['type']} left out]"} if is_medium(p) else p for p in content]
    return {**message, "content": in_one(notes)}


def _part_of(part: dict[str, Any], media: Mapping[str, Medium]) -> str | tuple[str, str, str]:
    if not is_medium(part):
        return str(part["text"])
    medium = media[part["sha256"]]
    return medium.kind, medium.type, medium.base64


def _filled(message: dict[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's message, with its result if it waited for one."""
    id = message.get("tool_call_id", "")
    return {**message, "content": results[id]} if message["role"] == "tool" and id in results else message
