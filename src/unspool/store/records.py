"""`Record`, the owners of records, and the errors of a store."""

from hashlib import sha256
from typing import NamedTuple

Key = tuple[str, str]  # the kind and the id of a record


class StoreError(Exception):
    """The store cannot be opened, read or written; the message says why. ``status`` is the HTTP status for it."""

    status = 503


class StoreFull(StoreError):
    """There is no room for a record: the disk is full, or nothing more may be dropped to keep the store's bounds."""

    status = 507


class NoRecord(StoreError):
    """The parent of a new record does not exist (any more)."""

    status = 404


class RecordExists(StoreError):
    """A record that must be new exists."""


class Record(NamedTuple):
    """A stored record: its place in the order in which records were first written (never used twice), its kind, its id
    (unique among those of its owner and kind), and its bytes."""

    at: int
    kind: str
    id: str
    data: bytes


def owner_of(api_key: bytes) -> bytes:
    """The owner of what a client with this API key stores. All clients without a key are one owner."""
    return sha256(b"unspool owner\0" + api_key).digest()[:16]
