"""What a transaction of the store can do: `ReadTransaction` and `WriteTransaction`."""

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from .records import Key, NoRecord, Record, RecordExists, StoreFull

OVERHEAD: Final = 320
"""About how many bytes a record takes besides its data and id: rows of two tables, and their indexes."""
_EXPIRED: Final = 64  # how many expired trees one transaction drops at most
_PINNED: Final = 0.75  # how much of a store pinned trees may take together: the rest is everybody's

# Ids are bytes, since clients may send strings that UTF-8 cannot encode. The place of a deleted parent stays in its
# children, and belongs to no other record ever after.
SCHEMA: Final = """
CREATE TABLE state (bytes INTEGER NOT NULL, secret BLOB NOT NULL);
INSERT INTO state VALUES (0, randomblob(32));
CREATE TABLE trees (
    id INTEGER PRIMARY KEY,
    used REAL NOT NULL,
    bytes INTEGER NOT NULL,
    pinned INTEGER NOT NULL
);
CREATE INDEX trees_by_use ON trees (pinned, used);
CREATE TABLE records (
    at INTEGER PRIMARY KEY AUTOINCREMENT,
    owner BLOB NOT NULL,
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    tree INTEGER NOT NULL REFERENCES trees ON DELETE CASCADE,
    parent INTEGER,
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (owner, kind, id)
);
CREATE INDEX records_by_tree ON records (tree);
CREATE INDEX records_by_parent ON records (parent, kind, at) WHERE parent IS NOT NULL;
CREATE INDEX records_without_parent ON records (owner, kind, at) WHERE parent IS NULL;
"""

_BELOW: Final = """
WITH RECURSIVE below(at) AS (SELECT ? UNION ALL SELECT r.at FROM records r JOIN below ON r.parent = below.at)
"""
_ABOVE: Final = """
WITH RECURSIVE above(at, parent, left) AS (
    SELECT at, parent, ? FROM records WHERE at = ?
    UNION ALL SELECT r.at, r.parent, left - 1 FROM above JOIN records r ON r.at = above.parent WHERE left > 1
)
SELECT r.at, r.kind, r.id, r.data, r.parent FROM above JOIN records r USING (at) ORDER BY r.at
"""


class ReadTransaction:
    """A transaction that reads. An owner sees only its own records, and nothing that has expired: trees that were last
    written to before ``oldest``, in seconds."""

    def __init__(self, db: sqlite3.Connection, oldest: float) -> None:
        self._db = db
        self._oldest = oldest

    def get(self, owner: bytes, kind: str, id: str) -> Record | None:
        found = self._one("r.at, r.data", owner, kind, id)
        return None if found is None else Record(found[0], kind, id, found[1])

    def children(
        self,
        owner: bytes,
        kind: str,
        parent: Key | None = None,
        *,
        after: int | None = None,
        limit: int = 1000,
        newest: bool = False,
    ) -> list[Record]:
        """The records of an owner and a kind directly below another one (``None``: below none), in the order in which
        they were first written, or the newest first, after the record at a place."""
        above = None
        if parent is not None:
            found = self._one("r.at", owner, *parent)
            if found is None:
                return []
            above = found[0]
        where, values = ("r.parent IS NULL", []) if above is None else ("r.parent = ?", [above])
        if after is not None:
            where += " AND r.at < ?" if newest else " AND r.at > ?"
            values.append(after)
        rows = self._db.execute(
            f"SELECT r.at, r.kind, r.id, r.data FROM records r JOIN trees t ON t.id = r.tree WHERE r.owner = ?"
            f" AND r.kind = ? AND {where} AND t.used >= ? ORDER BY r.at {'DESC' if newest else ''} LIMIT ?",
            (owner, kind, *values, self._oldest, limit),
        )
        return _records(rows)

    def path(self, owner: bytes, kind: str, id: str, most: int = 100_000) -> list[Record]:
        """The records from the one without a parent down to this one; empty if one of them is missing, or if there are
        more than ``most``."""
        found = self._one("r.at", owner, kind, id)
        if found is None:
            return []
        rows = self._db.execute(_ABOVE, (most, found[0])).fetchall()
        return [] if rows[0][-1] is not None else _records(row[:-1] for row in rows)

    def _one(self, what: str, owner: bytes, kind: str, id: str) -> Any:
        return self._db.execute(
            f"SELECT {what} FROM records r JOIN trees t ON t.id = r.tree"
            " WHERE r.owner = ? AND r.kind = ? AND r.id = ? AND t.used >= ?",
            (owner, kind, _key(id), self._oldest),
        ).fetchone()


class WriteTransaction(ReadTransaction):
    """A transaction that also writes, as long as there are at most this many bytes."""

    def __init__(self, db: sqlite3.Connection, oldest: float, now: float, most: int) -> None:
        super().__init__(db, oldest)
        self._now = now
        self._most = most
        self._grown: dict[int, int] = {}  # the bytes by which trees grew, by their ids
        expired = db.execute("SELECT id, bytes FROM trees WHERE used < ? LIMIT ?", (oldest, _EXPIRED)).fetchall()
        self._drop(expired)

    def put(
        self,
        owner: bytes,
        kind: str,
        id: str,
        data: bytes,
        *,
        parent: Key | None = None,
        new: bool = False,
        pinned: bool = False,
    ) -> int:
        """Write a record, and return its place. One that has the same key gets these data, and keeps its place and
        parent, which may be of any kind. A pinned record without a parent is kept with its tree, until it expires,
        however full the store is; all of these together have a share of it.

        Raises:
            NoRecord: there is no such parent.
            RecordExists: it exists, but is ``new``.
        """
        found = self._one("r.at, r.tree, r.size", owner, kind, id)
        if found is not None and new:
            raise RecordExists(f"there is a {kind} {id!r} already")
        size = len(data) + len(_key(id)) + OVERHEAD
        if found is not None:
            at, tree, before = found
            self._db.execute("UPDATE records SET data = ?, size = ? WHERE at = ?", (data, size, at))
        else:
            before = 0
            above, tree = self._place(owner, parent, pinned)
            at = self._db.execute(
                "INSERT INTO records (owner, kind, id, tree, parent, size, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (owner, kind, _key(id), tree, above, size, data),
            ).lastrowid
        self._grow(tree, size - before)
        return int(at)

    def pin(self, owner: bytes, kind: str, id: str, pinned: bool) -> None:
        """Keep the tree of a record however full the store is, or no longer."""
        found = self._one("r.tree", owner, kind, id)
        if found is not None:
            self._db.execute("UPDATE trees SET pinned = ? WHERE id = ?", (pinned, found[0]))

    def delete(self, owner: bytes, kind: str, id: str, *, below: bool = False) -> bool:
        """Delete a record, and with ``below`` all below it; return whether it existed. Otherwise the records below it
        stay, but have no path."""
        found = self._one("r.at, r.tree", owner, kind, id)
        if found is None:
            return False
        at, tree = found
        gone = _BELOW if below else "WITH below(at) AS (SELECT ?)"
        which = "WHERE at IN (SELECT at FROM below)"
        (size,) = self._db.execute(f"{gone} SELECT sum(size) FROM records {which}", (at,)).fetchone()
        self._db.execute(f"{gone} DELETE FROM records {which}", (at,))
        self._grow(tree, -size)
        return True

    def delete_all(self, owner: bytes) -> None:
        """Delete all that an owner has."""
        sizes = self._db.execute("SELECT tree, sum(size) FROM records WHERE owner = ? GROUP BY tree", (owner,))
        for tree, size in sizes.fetchall():
            self._grow(tree, -size)
        self._db.execute("DELETE FROM records WHERE owner = ?", (owner,))

    def finish(self) -> None:
        """Count the bytes. If there are too many, the trees that were written to longest ago go, but none of those that
        this transaction wrote to. `StoreFull` if there is no room beside what must stay, or none for what stays."""
        for tree, more in self._grown.items():
            changed = (more, self._now, tree)
            self._db.execute("UPDATE trees SET bytes = bytes + ?, used = ? WHERE id = ?", changed)
            self._db.execute("DELETE FROM trees WHERE id = ? AND bytes = 0", (tree,))
        self._db.execute("UPDATE state SET bytes = bytes + ?", (sum(self._grown.values()),))
        (size,) = self._db.execute("SELECT bytes FROM state").fetchone()
        if size > self._most * _PINNED:
            self._check_pinned()
        if size > self._most:
            oldest = self._db.execute("SELECT id, bytes FROM trees WHERE pinned = 0 ORDER BY used")
            going = []
            for tree, freed in oldest:
                if tree not in self._grown:
                    going.append((tree, freed))
                    size -= freed
                if size <= self._most:
                    break
            else:
                raise StoreFull(f"the store is full: it may have {self._most:,} bytes")
            oldest.close()
            self._drop(going)

    def _place(self, owner: bytes, parent: Key | None, pinned: bool) -> tuple[int | None, int]:
        """The parent's place, and the tree."""
        if parent is None:
            made = self._db.execute("INSERT INTO trees (used, bytes, pinned) VALUES (?, 0, ?)", (self._now, pinned))
            assert made.lastrowid is not None
            return None, made.lastrowid
        found = self._one("r.at, r.tree", owner, *parent)
        if found is None:
            raise NoRecord(f"there is no {parent[0]} {parent[1]!r}")
        return found[0], found[1]

    def _check_pinned(self) -> None:
        """Refuse what makes pinned trees larger than their share: whoever pins cannot keep others from writing."""
        (size,) = self._db.execute("SELECT total(bytes) FROM trees WHERE pinned = 1").fetchone()
        share = int(self._most * _PINNED)
        if size > share and any(
            more > 0 and self._db.execute("SELECT 1 FROM trees WHERE id = ? AND pinned = 1", (tree,)).fetchone()
            for tree, more in self._grown.items()
        ):
            raise StoreFull(
                f"the store is full: what is open may have {share:,} of its {self._most:,} bytes; "
                "finish or delete some of it"
            )

    def _grow(self, tree: int, more: int) -> None:
        self._grown[tree] = self._grown.get(tree, 0) + more

    def _drop(self, trees: Iterable[tuple[int, int]]) -> None:
        for id, size in trees:
            self._db.execute("DELETE FROM trees WHERE id = ?", (id,))
            self._db.execute("UPDATE state SET bytes = bytes - ?", (size,))


def _key(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")


def _records(rows: Iterable[Any]) -> list[Record]:
    return [Record(at, kind, id.decode("utf-8", "surrogatepass"), data) for at, kind, id, data in rows]
