"""The endpoints of the Responses protocol, whose requests may continue and store responses."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from starlette.types import Scope, Send

from ..generation.run import Deposit, Run
from ..generation.service import Service
from ..request.continuation import Continued, Written
from ..request.fields import Fields
from ..request.protocols.responses import ResponsesProtocol, stores
from ..request.stored import OPEN, Earlier, Saved, add_items, beat, end_run, input_items, recall, referenced, save
from ..store import ReadTransaction, WriteTransaction, owner_of
from ..wire import ResponsesWriter
from ..wire.common import Writer
from ..wire.encoding import encode
from .background import Background
from .endpoint import caller_of
from .protocol_endpoint import CountEndpoint, ProtocolEndpoint
from .replies import Reply, failed


class ResponsesEndpoint(ProtocolEndpoint):
    def __init__(self, service: Service, protocol: ResponsesProtocol, background: Background) -> None:
        super().__init__(service, protocol)
        self._background = background

    async def _recalled(self, scope: Scope, fields: Fields) -> tuple[Fields, Deposit]:
        fields, earlier, owner = await _recalled(self._service, scope, fields)
        keeps = stores(fields, self._service.settings)
        deposit = _Stored(self._service, self._background, owner, fields, earlier, keeps)
        return earlier.continued(fields), deposit

    async def _carry_out(self, run: Run, closing: AsyncExitStack, scope: Scope, send: Send) -> bool:
        stored = run.deposit
        assert isinstance(stored, _Stored)
        if not stored.background:
            return await super()._carry_out(run, closing, scope, send)
        assert isinstance(run.writer, ResponsesWriter)
        run.writer.empty("in_progress")
        failure = await run.keep()
        if failure is not None:
            await self._send(failed(self._error_body, failure, run.id), scope, send)
            return False
        self._background.start(self._service, run, stored.owner, closing.pop_all())
        if run.streamed:
            await self._background.stream(self._service, stored.owner, run.id, -1, send)
            self._service.answered(scope["path"], 200)
        else:
            await self._send(Reply(run.writer.empty("queued"), request_id=run.id), scope, send)
        return True


class InputTokensEndpoint(CountEndpoint):
    """An ASGI application for ``/v1/responses/input_tokens``."""

    assumed: Mapping[str, Any] = {}
    named: Mapping[str, Any] = {"object": "response.input_tokens"}

    async def _recalled(self, scope: Scope, fields: Fields) -> tuple[Fields, Deposit]:
        fields, earlier, _ = await _recalled(self._service, scope, fields)
        deposit = Deposit()
        deposit.turn, deposit.size = earlier.turn, earlier.size
        return earlier.continued(fields), deposit


async def _recalled(service: Service, scope: Scope, fields: Fields) -> tuple[Fields, Earlier, bytes]:
    """A request with the items that it refers to, what it continues, and its owner."""
    owner, limits = owner_of(caller_of(service, scope)), service.settings.limits

    def read(reading: ReadTransaction) -> tuple[Fields, Earlier]:
        return referenced(reading, owner, fields), recall(reading, owner, fields, limits)

    earlier = Earlier()
    if isinstance(fields.raw.get("input"), list) or any(map(fields.has, ("previous_response_id", "conversation"))):
        fields, earlier = await service.store.reading(read)
    return fields, earlier, owner


class _Stored(Deposit):
    """Stores a response, if ``keeps``, and adds it to its conversation."""

    def __init__(
        self, service: Service, background: Background, owner: bytes, fields: Fields, earlier: Earlier, keeps: bool
    ) -> None:
        self._service = service
        self._background = background
        self._earlier = earlier
        self._keeps = keeps
        self._input = fields.raw.get("input") if keeps or earlier.conversation else None
        self.owner = owner
        self.turn = earlier.turn
        self.size = earlier.size
        self.background = fields.flag("background")
        self._streams = self.background and fields.flag("stream")

    async def keep(self, id: str, writer: Writer, last: tuple[Continued, Written] | None) -> None:
        """See `Deposit.keep`. A cancelled response stays cancelled."""
        assert isinstance(writer, ResponsesWriter)
        saved = await asyncio.to_thread(self._saved, id, writer, last)

        def write(writing: WriteTransaction) -> None:
            begins = saved.status in OPEN
            if self.background and not begins and not end_run(writing, self.owner, id):
                return
            if self._keeps:
                save(writing, self.owner, id, saved, self._earlier.parent)
            if begins:
                beat(writing, self.owner, id)
            elif saved.conversation is not None:
                add_items(writing, self.owner, saved.conversation, saved.items(), id if self._keeps else None)

        store = self._service.store
        if self.background and saved.status not in OPEN:
            await self._background.write(store, write)
        elif self._keeps or saved.conversation is not None:
            await store.writing(write)

    def _saved(self, id: str, writer: ResponsesWriter, last: tuple[Continued, Written] | None) -> Saved:
        turns = self._service.turns
        exact = None if turns is None or last is None else turns.exact(*last)
        return Saved(
            response=writer.response,
            input=encode(input_items(self._input, id.removeprefix("resp_"))),
            status=writer.status,
            hidden=encode(writer.hidden),
            turn=self._earlier.packed_turn(exact),
            conversation=self._earlier.conversation,
            background=self.background,
            streams=self._streams,
        )
