"""Stored responses and conversations of the Responses API, and requests that continue them.

A response is stored with what its request added, below the response that it continues; a conversation has its items and
its responses below it. A request that continues one reads as if its ``input`` had all items before it.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ..store import ReadTransaction, Record, WriteTransaction
from ..store.records import Key
from ..wire.encoding import encode
from .exact import Packed, RememberedTurn, pack, unpack
from .fields import BadRequest, Fields, NotFound
from .server_history import HIDDEN
from .settings import Limits

RESPONSE: Final = "response"
CONVERSATION: Final = "conversation"
ITEM: Final = "item"
OPEN: Final = ("queued", "in_progress")  # the statuses of responses that are not complete
EVENTS: Final = "events"
_json: Final = msgspec.json.decode
_RUN: Final = "run"
LOST: Final = 30.0  # seconds after its last beat after which a process is taken to be gone
_clock: Final = time.monotonic  # one for all processes of a machine, which nobody sets


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A stored response: its JSON, the items of its request as JSON, and its status."""

    response: bytes
    input: bytes
    status: str
    hidden: bytes = b"{}"  # what clients do not get of its items, by their ids, as JSON
    turn: Packed | None = None  # its last turn, to be continued exactly
    conversation: str | None = None  # the id of the conversation that it belongs to
    # background, streams: whether it was generated in the background, and whether its events are stored.
    background: bool = False
    streams: bool = False

    def items(self) -> list[dict[str, Any]]:
        """The items of the request and of the answer, as a later request has them in its ``input``."""
        hidden, items = _object(self.hidden), items_of(self.input)
        for item in items_of(_response(self.response).output):
            if item["id"] in hidden:
                item[HIDDEN] = hidden[item["id"]]
            if item.get("content"):  # sealed reasoning is there as it is, and keys may change
                item.pop("encrypted_content", None)
            items.append(item)
        return items


_decode: Final = msgspec.msgpack.Decoder(Saved).decode
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _Response(msgspec.Struct):
    output: msgspec.Raw
    tools: list[Any] | None = None


_response: Final = msgspec.json.Decoder(_Response).decode


class _Identified(msgspec.Struct):
    id: str


_item: Final = msgspec.json.Decoder(_Identified).decode
_items: Final = msgspec.json.Decoder(list[_Identified]).decode


def item_of(data: bytes) -> dict[str, Any]:
    """A stored item."""
    _item(data)
    return _object(data)


def items_of(data: bytes) -> list[dict[str, Any]]:
    """Stored items."""
    _items(data)
    return _json(data)  # type: ignore[no-any-return]


class StoredConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conversation: its creation in seconds, the client's JSON, its items' bytes and number, the last
    response's id."""

    created: int
    metadata: bytes = b"{}"
    size: int = 0
    count: int = 0
    last: str | None = None

    def shown(self, id: str) -> bytes:
        """The conversation as clients get it."""
        return encode(
            {"id": id, "object": "conversation", "created_at": self.created, "metadata": msgspec.Raw(self.metadata)}
        )


class Earlier(msgspec.Struct, frozen=True):
    """What a request continues."""

    # items, size: the items before those of its input, and their bytes.
    items: list[dict[str, Any]] = []
    tools: list[Any] | None = None  # the tools of the response that it continues
    parent: Key | None = None  # the record below which its response is stored
    conversation: str | None = None  # the id of its conversation
    # turn, packed: the last turn, and how many characters the packed turns have.
    turn: RememberedTurn | None = None
    packed: int = 0
    size: int = 0

    def continued(self, fields: Fields) -> Fields:
        """The request with all items in its ``input``, and with the earlier tools if it has none of its own."""
        raw = dict(fields.raw)
        if self.tools and "tools" not in raw:
            raw["tools"] = self.tools
        given = raw.get("input")
        if self.items and isinstance(given, str | list | None):
            raw["input"] = [*self.items, *_messages(given)]
            return Fields(raw, earlier=len(self.items))
        return Fields(raw)

    def packed_turn(self, turn: RememberedTurn | None) -> Packed | None:
        """The next turn, to be stored."""
        return None if turn is None else pack(turn, self.turn, self.packed)


# -- reading -----------------------------------------------------------------------------------------------------------


def recall(reading: ReadTransaction, owner: bytes, fields: Fields, limits: Limits) -> Earlier:
    previous = fields.text("previous_response_id", None)
    named = isinstance(fields.raw.get("conversation"), dict)
    conversation = fields.object("conversation").text("id") if named else fields.text("conversation", None)
    if conversation is not None:
        if previous is not None:
            raise fields.wrong("conversation", "cannot be combined with previous_response_id")
        return _conversation(reading, owner, conversation, limits)
    if previous is None:
        return Earlier()
    path = _saved(reading.path(owner, RESPONSE, previous))
    if not path:
        what = f"Previous response with id {_quoted(previous)}"
        if reading.get(owner, RESPONSE, previous) is not None:
            what += " continues a response that was deleted, which was"
        raise NotFound(what, "previous_response_id", "previous_response_not_found")
    last = current(reading, owner, previous)
    if last.status in OPEN:
        raise fields.wrong("previous_response_id", f"{previous} is {last.status}; wait until it is complete")
    if any(one.conversation for one in path):
        raise fields.wrong("previous_response_id", f"{previous} belongs to a conversation; use conversation instead")
    # Every response repeats the tools and the instructions, of which a later request has the last ones.
    size = sum(len(one.input) + len(_response(one.response).output) for one in path) + len(last.response)
    if size > limits.body:
        text = f"the turns up to it have {size:,} bytes; allowed are {limits.body:,}"
        raise fields.wrong("previous_response_id", text)
    turn, packed = unpack(one.turn for one in path if one.turn is not None)
    items = [item for one in path for item in one.items()]
    return Earlier(items, _response(last.response).tools, (RESPONSE, previous), None, turn, packed, size)


def _conversation(reading: ReadTransaction, owner: bytes, id: str, limits: Limits) -> Earlier:
    found = conversation_of(reading, owner, id, "conversation")
    if found.size > limits.body:
        raise BadRequest("conversation", f"its items have {found.size:,} bytes; allowed are {limits.body:,}")
    items = [item_of(r.data) for r in reading.children(owner, ITEM, (CONVERSATION, id), limit=limits.messages + 1)]
    parent, turn, packed = (CONVERSATION, id), None, 0
    path = reading.path(owner, RESPONSE, found.last) if found.last is not None else []
    if path:
        parent = path[-1].kind, path[-1].id
        turn, packed = unpack(one.turn for one in _saved(path) if one.turn is not None)
    return Earlier(items, None, parent, id, turn, packed, found.size)


def _saved(path: Iterable[Record]) -> list[Saved]:
    return [_decode(record.data) for record in path if record.kind == RESPONSE]


def response_of(reading: ReadTransaction, owner: bytes, id: str) -> Saved:
    """A stored response, or the error that there is none."""
    record = reading.get(owner, RESPONSE, id)
    if record is None:
        raise NotFound(f"Response with id {_quoted(id)}")
    saved = _decode(record.data)
    _response(saved.response)
    return saved


def conversation_of(reading: ReadTransaction, owner: bytes, id: str, param: str | None = None) -> StoredConversation:
    """A stored conversation, or the error that there is none."""
    record = reading.get(owner, CONVERSATION, id)
    if record is None:
        raise NotFound(f"Conversation with id {_quoted(id)}", param)
    found = msgspec.msgpack.decode(record.data, type=StoredConversation)
    _object(found.metadata)
    return found


def items_before(reading: ReadTransaction, owner: bytes, id: str) -> list[dict[str, Any]]:
    """The items from which a response was generated."""
    saved = response_of(reading, owner, id)
    before = _saved(reading.path(owner, RESPONSE, id))[:-1]
    return [*(item for one in before for item in one.items()), *items_of(saved.input)]


def referenced(reading: ReadTransaction, owner: bytes, fields: Fields) -> Fields:
    """The request, with the items of stored responses in place of references to them."""
    given = fields.raw.get("input")
    if not isinstance(given, list) or not any(map(_is_reference, given)):
        return fields
    known: dict[str, dict[str, Any]] = {}
    found = []
    for i, item in enumerate(given):
        if _is_reference(item):
            id = Fields(item, fields.path(f"input[{i}]")).text("id")
            if id not in known:
                record = reading.get(owner, RESPONSE, f"resp_{id.split('_')[1]}") if id.count("_") == 2 else None
                known |= {} if record is None else {one["id"]: one for one in _decode(record.data).items()}
            if id not in known:
                raise NotFound(f"Item with id {_quoted(id)}", f"input[{i}]")
            item = known[id]
        found.append(item)
    return Fields({**fields.raw, "input": found})


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and (item.get("type") == "item_reference" or item.keys() == {"id"})


# -- in the background -------------------------------------------------------------------------------------------------


def beat(writing: WriteTransaction, owner: bytes, id: str) -> None:
    """Record that a response is being generated."""
    writing.put(owner, _RUN, id, repr(_clock()).encode(), parent=(RESPONSE, id))


def beat_again(writing: WriteTransaction, owner: bytes, id: str) -> bool:
    """Record that again, unless the response was cancelled or deleted; return whether it is still generated."""
    if writing.get(owner, _RUN, id) is None:
        return False
    beat(writing, owner, id)
    return True


def end_run(writing: WriteTransaction, owner: bytes, id: str) -> bool:
    """Record that a response is not being generated any more; return whether it was."""
    return writing.delete(owner, _RUN, id)


def current(reading: ReadTransaction, owner: bytes, id: str) -> Saved:
    """A response as it is now: one that was being generated by a process that is gone has failed."""
    saved = response_of(reading, owner, id)
    if saved.status not in OPEN:
        return saved
    run = reading.get(owner, _RUN, id)
    # Less than 0: the machine was started again.
    if run is not None and 0 <= _clock() - msgspec.json.decode(run.data, type=float) < LOST:
        return saved
    error = {
        "code": "server_error",
        "message": "the server ended before the response was complete, or could not store it",
    }
    return _with_status(saved, "failed", error)


def cancel(writing: WriteTransaction, owner: bytes, id: str) -> Saved:
    """Cancel a response that is generated in the background; one that is complete stays as it is."""
    saved = current(writing, owner, id)
    if not saved.background:
        raise BadRequest(None, "only a response with background set to true can be cancelled", 400)
    if saved.status in OPEN:
        saved = _with_status(saved, "cancelled")
        end_run(writing, owner, id)
        save(writing, owner, id, saved)
    return saved


def _with_status(saved: Saved, status: str, error: dict[str, str] | None = None) -> Saved:
    response = {**_object(saved.response), "status": status, "error": error}
    return msgspec.structs.replace(saved, response=encode(response), status=status)


# -- writing -----------------------------------------------------------------------------------------------------------


def save(writing: WriteTransaction, owner: bytes, id: str, saved: Saved, parent: Key | None = None) -> None:
    """Store a response below what it continues (a `StoreError` if that does not exist any more), or again."""
    writing.put(owner, RESPONSE, id, msgspec.msgpack.encode(saved), parent=parent)


def add_items(
    writing: WriteTransaction,
    owner: bytes,
    conversation: str,
    items: Iterable[dict[str, Any]],
    last: str | None = None,
    limits: Limits | None = None,
) -> list[dict[str, Any]]:
    """Append items of the response ``last`` to a conversation; return them, each with an id of its own. `BadRequest`
    if the conversation would be larger than requests may be."""
    found = conversation_of(writing, owner, conversation)
    parent, size, added = (CONVERSATION, conversation), found.size, []
    for item in items:
        if writing.get(owner, ITEM, item_key(conversation, item["id"])) is not None:
            item = {**item, "id": f"{_prefix(item.get('type') or 'message')}_{secrets.token_hex(16)}"}
        data = encode(item)
        size += len(data)
        writing.put(owner, ITEM, item_key(conversation, item["id"]), data, parent=parent, new=True)
        added.append(item)
    count = found.count + len(added)
    if limits is not None and (size > limits.body or count > limits.messages):
        text = f"the conversation would have {count:,} items of {size:,} bytes in all"
        raise BadRequest("items", f"{text}; allowed are {limits.messages:,} of {limits.body:,}")
    found = msgspec.structs.replace(found, size=size, count=count, last=last or found.last)
    update(writing, owner, conversation, found)
    return added


def update(writing: WriteTransaction, owner: bytes, id: str, conversation: StoredConversation) -> None:
    writing.put(owner, CONVERSATION, id, msgspec.msgpack.encode(conversation))


def input_items(given: Any, stem: str) -> list[dict[str, Any]]:
    """The items of an input, in the form in which they are listed, each with an id."""
    return [_listed(item, f"{stem}_i{i}") for i, item in enumerate(_messages(given))]


def _messages(given: Any) -> list[Any]:
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else list(given or ())


def _listed(item: dict[str, Any], stem: str) -> dict[str, Any]:
    kind, id = item.get("type") or "message", item.get("id")
    if not isinstance(id, str) or not 0 < len(id) <= _ID:
        id = f"{_prefix(kind)}_{stem}"
    item = {"type": kind, "id": id, **{k: v for k, v in item.items() if v is not None and k not in ("type", "id")}}
    if kind == "message" and isinstance(item.get("content"), str):
        part = {"type": "input_text", "text": item["content"]}
        if item.get("role") == "assistant":
            part = {"type": "output_text", "text": item["content"], "annotations": []}
        item["content"] = [part]
    if kind != "reasoning":
        item.setdefault("status", "completed")
    return item


_ID: Final = 256  # the longest id of an item
_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


def _prefix(kind: str) -> str:
    return _PREFIXES.get(kind, kind.split("_")[0])


def shown(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without what clients do not get."""
    return {k: v for k, v in item.items() if k != HIDDEN}


def item_key(conversation: str, id: str) -> str:
    """The id of the record of an item, which is the item's own only within its conversation."""
    return f"{conversation}/{id}"


def _quoted(id: str) -> str:
    return f"'{id[:200]}'"
