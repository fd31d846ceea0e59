"""The pages of stored responses and of conversations: retrieve, list, change, cancel and delete them."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..generation.service import Service
from ..request.approvals import Approvals
from ..request.common import read_metadata
from ..request.fields import BadRequest, Fields, NotFound, read_object
from ..request.protocols.responses import check_items
from ..request.server_tools import Offer
from ..request.stored import (
    CONVERSATION,
    EVENTS,
    ITEM,
    RESPONSE,
    StoredConversation,
    add_items,
    cancel,
    conversation_of,
    current,
    end_run,
    input_items,
    item_key,
    item_of,
    items_before,
    shown,
    update,
)
from ..store import ReadTransaction, Record, WriteTransaction, owner_of
from ..wire.chat import error_body
from ..wire.encoding import encode
from .background import Background
from .endpoint import Endpoint, caller_of, integer_of, query_of
from .guards import unsupported
from .replies import Reply, failed

_MOST: Final = 100  # the most items of a page
_ITEMS: Final = 20
"""The most items that a request adds to a conversation, and the items of a page if the request does not say."""


class _Query(NamedTuple):
    """A request: who asks, by which API key, the ids in its path by their names, its query, its body, and the
    bytes of the body."""

    owner: bytes
    caller: bytes
    ids: Mapping[str, str]
    query: Mapping[str, str]
    fields: Fields
    size: int


class _LaterEvents(NamedTuple):
    """The events of a response, after one of them."""

    after: int


_Page = Callable[[_Query], Awaitable[bytes | _LaterEvents]]


def stored_routes(service: Service, background: Background) -> list[Route]:
    pages = _StoredPages(service, background)
    conversation = "/v1/conversations/{conversation}"
    found: Sequence[tuple[str, str, _Page]] = (
        ("GET", "/v1/responses/{response}", pages.response),
        ("DELETE", "/v1/responses/{response}", pages.delete_response),
        ("POST", "/v1/responses/{response}/cancel", pages.cancel),
        ("GET", "/v1/responses/{response}/input_items", pages.input_items),
        ("POST", "/v1/conversations", pages.create),
        ("GET", conversation, pages.conversation),
        ("POST", conversation, pages.change),
        ("DELETE", conversation, pages.delete),
        ("GET", f"{conversation}/items", pages.items),
        ("POST", f"{conversation}/items", pages.add),
        ("GET", f"{conversation}/items/{{item}}", pages.item),
        ("DELETE", f"{conversation}/items/{{item}}", pages.delete_item),
    )
    return [Route(path, _PageApp(service, background, path, page), methods=[method]) for method, path, page in found]


class _PageApp(Endpoint):
    """An ASGI application for one page, whose paths have this form."""

    def __init__(self, service: Service, background: Background, path: str, page: _Page) -> None:
        super().__init__(service, error_body)
        self._background = background
        self._path = path
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = unsupported(scope) if scope["method"] == "POST" else None
        if wrong is not None:
            await failed(error_body, wrong, close=True).send(send)
            return
        await super().__call__({**scope, "path": self._path}, receive, send)

    async def respond(self, scope: Scope, body: bytes, send: Send) -> None:
        service = self._service
        caller = caller_of(service, scope)
        owner = owner_of(caller)
        try:
            fields = await service.aside(len(body), lambda _: read_object(body or b"{}"))
            found = await self._page(_Query(owner, caller, scope["path_params"], query_of(scope), fields, len(body)))
        except Exception as error:
            await self._send(self._refused(error, scope), scope, send)
            return
        if isinstance(found, _LaterEvents):
            await self._background.stream(service, owner, scope["path_params"]["response"], found.after, send)
            service.answered(self._path, 200)
        else:
            await self._send(Reply(found), scope, send)


class _StoredPages:
    def __init__(self, service: Service, background: Background) -> None:
        self._service = service
        self._store = service.store
        self._background = background
        self._limits = service.settings.limits

    # -- responses -------------------------------------------------------------------------------------------------

    async def response(self, asked: _Query) -> bytes | _LaterEvents:
        id = asked.ids["response"]
        saved = await self._store.reading(lambda r: current(r, asked.owner, id))
        if asked.query.get("stream", "").lower() != "true":
            return saved.response
        if not saved.streams:
            raise BadRequest("stream", "only a response with background and stream set to true has events")
        return _LaterEvents(integer_of(asked.query, "starting_after", -1, 2**31, -1))

    async def delete_response(self, asked: _Query) -> bytes:
        id = asked.ids["response"]

        def delete(writing: WriteTransaction) -> None:
            for record in writing.children(asked.owner, EVENTS, (RESPONSE, id), limit=2**31):
                writing.delete(asked.owner, EVENTS, record.id)
            end_run(writing, asked.owner, id)
            if not writing.delete(asked.owner, RESPONSE, id):
                raise NotFound(f"Response with id {id[:200]!r}")

        await self._store.writing(delete)
        self._background.cancel(id)
        return encode({"id": id, "object": "response", "deleted": True})

    async def cancel(self, asked: _Query) -> bytes:
        id = asked.ids["response"]
        saved = await self._store.writing(lambda w: cancel(w, asked.owner, id))
        self._background.cancel(id)
        return saved.response

    async def input_items(self, asked: _Query) -> bytes:
        items = await self._store.reading(lambda r: items_before(r, asked.owner, asked.ids["response"]))
        newest, after, limit = _page(asked)
        if newest:
            items.reverse()
        if after is not None:
            at = next((i for i, item in enumerate(items) if item["id"] == after), None)
            if at is None:
                raise NotFound(f"Item with id {after[:200]!r}", "after")
            items = items[at + 1 :]
        return _listed(items, limit)

    # -- conversations ---------------------------------------------------------------------------------------------

    async def create(self, asked: _Query) -> bytes:
        made = StoredConversation(created=int(time.time()), metadata=encode(read_metadata(asked.fields) or {}))
        id = f"conv_{secrets.token_hex(24)}"
        items = await self._checked(asked, asked.fields.array("items", []), [])

        def create(writing: WriteTransaction) -> None:
            update(writing, asked.owner, id, made)
            add_items(writing, asked.owner, id, items, limits=self._limits)

        await self._store.writing(create)
        return made.shown(id)

    async def conversation(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]
        return (await self._store.reading(lambda r: conversation_of(r, asked.owner, id))).shown(id)

    async def change(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]
        metadata = read_metadata(asked.fields)

        def change(writing: WriteTransaction) -> StoredConversation:
            found = conversation_of(writing, asked.owner, id)
            if metadata is not None:
                found = msgspec.structs.replace(found, metadata=encode(metadata))
                update(writing, asked.owner, id, found)
            return found

        return (await self._store.writing(change)).shown(id)

    async def delete(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]

        def delete(writing: WriteTransaction) -> None:
            if not writing.delete(asked.owner, CONVERSATION, id, below=True):
                raise NotFound(f"Conversation with id {id[:200]!r}")

        await self._store.writing(delete)
        return encode({"id": id, "object": "conversation.deleted", "deleted": True})

    async def items(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]
        newest, after, limit = _page(asked)

        def read(reading: ReadTransaction) -> list[Any]:
            conversation_of(reading, asked.owner, id)
            at = None if after is None else _item(reading, asked.owner, id, after, "after").at
            parent = CONVERSATION, id
            found = reading.children(asked.owner, ITEM, parent, after=at, limit=limit + 1, newest=newest)
            return [item_of(record.data) for record in found]

        return _listed(await self._store.reading(read), limit)

    async def add(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]
        given = asked.fields.array("items")
        named = [one.get("approval_request_id") for one in given[:_ITEMS] if isinstance(one, dict)]

        def requests(reading: ReadTransaction) -> list[dict[str, Any]]:
            conversation_of(reading, asked.owner, id)
            keys = [item_key(id, one) for one in named if isinstance(one, str)]
            found = [reading.get(asked.owner, ITEM, key) for key in keys]
            return [item_of(record.data) for record in found if record is not None]

        items = await self._checked(asked, given, await self._store.reading(requests))

        def add(writing: WriteTransaction) -> list[dict[str, Any]]:
            return add_items(writing, asked.owner, id, items, limits=self._limits)

        return _listed(await self._store.writing(add), len(items))

    async def _checked(
        self, asked: _Query, given: list[Any], earlier: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Items that a request adds to a conversation, checked together with the earlier ones that they name."""
        if len(given) > _ITEMS:
            raise asked.fields.wrong("items", f"{len(given):,} items; allowed are {_ITEMS}")
        if given:
            service = self._service
            offer = Offer(approvals=Approvals(service.approval_key, asked.caller), caller=asked.caller)
            seal = service.settings.seal
            fields = Fields({"items": [*earlier, *given]}, earlier=len(earlier))
            bound = None if seal is None else seal.bound_to(asked.caller)
            await service.aside(asked.size, lambda _: check_items(fields, offer, bound))
        return input_items(given, secrets.token_hex(16))

    async def item(self, asked: _Query) -> bytes:
        ids, owner = asked.ids, asked.owner
        at = ids["conversation"], ids["item"]
        found = await self._store.reading(lambda r: item_of(_item(r, owner, *at).data))
        return encode(shown(found))

    async def delete_item(self, asked: _Query) -> bytes:
        id = asked.ids["conversation"]

        def delete(writing: WriteTransaction) -> StoredConversation:
            gone = _item(writing, asked.owner, id, asked.ids["item"])
            writing.delete(asked.owner, ITEM, gone.id)
            found = conversation_of(writing, asked.owner, id)
            found = msgspec.structs.replace(found, size=found.size - len(gone.data), count=found.count - 1)
            update(writing, asked.owner, id, found)
            return found

        return (await self._store.writing(delete)).shown(id)


def _item(reading: ReadTransaction, owner: bytes, conversation: str, id: str, param: str | None = None) -> Record:
    conversation_of(reading, owner, conversation)
    found = reading.get(owner, ITEM, item_key(conversation, id))
    if found is None:
        raise NotFound(f"Item with id {id[:200]!r}", param)
    return found


def _page(asked: _Query) -> tuple[bool, str | None, int]:
    """Whether a page lists the newest items first, the item before it, and how many items it has."""
    order = asked.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest("order", f"{order[:80]!r} is not one of asc, desc")
    return order == "desc", asked.query.get("after"), integer_of(asked.query, "limit", 1, _MOST, _ITEMS)


def _listed(items: Sequence[Mapping[str, Any]], limit: int) -> bytes:
    page = [shown(item) for item in items[:limit]]
    first, last = (page[0]["id"], page[-1]["id"]) if page else ("", "")
    more = len(items) > limit
    return encode({"object": "list", "data": page, "first_id": first, "last_id": last, "has_more": more})
