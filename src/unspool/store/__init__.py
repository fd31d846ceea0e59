"""Keeps records of earlier turns, in memory or in one SQLite file that the processes of a machine share.

A record belongs to an owner, has a kind and an id, and may have a parent. A turn is stored once, below the turn that it
continues, so that a conversation of n turns takes n records. Everything below one record without a parent is a tree,
which is kept or dropped as a whole.

::

    store = Store("turns.db")
    owner = owner_of(api_key)
    store.write(lambda w: w.put(owner, "response", id, data, parent=("response", previous))).result()
    store.read(lambda r: r.path(owner, "response", id))     # from the first turn to this one

The data are bytes; what they mean is the business of those who store them.
"""

from .claim import Claim
from .records import NoRecord, Record, RecordExists, StoreError, StoreFull, owner_of
from .store import Store
from .transactions import ReadTransaction, WriteTransaction

__all__ = [
    "Claim",
    "NoRecord",
    "ReadTransaction",
    "Record",
    "RecordExists",
    "Store",
    "StoreError",
    "StoreFull",
    "WriteTransaction",
    "owner_of",
]
