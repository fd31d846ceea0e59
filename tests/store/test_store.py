"""The store keeps what it acknowledged, shows it to its owner alone, and stays within its bounds."""

import asyncio
import contextlib
import itertools
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from unspool.store import (
    NoRecord,
    ReadTransaction,
    Record,
    RecordExists,
    Store,
    StoreError,
    StoreFull,
    WriteTransaction,
    owner_of,
)
from unspool.store.transactions import OVERHEAD

ME, OTHER = owner_of(b"me"), owner_of(b"other")


Opened = Callable[..., Store]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens stores, by default with one file, which are closed at the end."""
    with contextlib.ExitStack() as stores:

        def make(file: Path | None = tmp_path / "store.db", **options: Any) -> Store:
            return stores.enter_context(contextlib.closing(Store(file, **options)))

        yield make


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, opened: Opened) -> Store:
    return opened(None) if request.param == "memory" else opened()


def put(store: Store, id: str, data: bytes = b"x", **options: Any) -> int:
    return store.write(lambda w: w.put(ME, "turn", id, data, **options)).result()


def get(store: Store, id: str, owner: bytes = ME) -> bytes | None:
    found = store.read(lambda r: r.get(owner, "turn", id))
    return None if found is None else found.data


def test_a_claim_that_cannot_be_made_names_its_own_file(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "store.db-x").mkdir()
    with pytest.raises(StoreError, match="db-x: "):
        opened().claim("x")


def test_one_of_several_that_use_a_file_may_claim_it_for_something_until_it_ends(
    opened: Opened, tmp_path: Path
) -> None:
    file = tmp_path / "store.db"
    claims = f"from unspool.store import Store; Store({str(file)!r}).claim('x')"
    code = f"import time; {claims}; print(1, flush=True); time.sleep(60)"
    first = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline()
    store = opened()
    put(store, "a")
    store.claim("y")
    with pytest.raises(StoreError, match="another process keeps its x there; give each its own file"):
        store.claim("x")
    first.kill()
    first.communicate()
    store.claim("x")
    store.claim("x")


def turn(w: WriteTransaction, id: str, parent: tuple[str, str] | None = None) -> int:
    return w.put(ME, "turn", id, b"x", parent=parent)


def found(r: ReadTransaction, kind: str, id: str) -> bool:
    return r.get(b"o", kind, id) is not None


def stored_bytes(store: Store) -> int:
    """What the store counts; all its counts must agree."""

    def counted(reading: Any) -> int:
        (size,), (trees,), (records,) = (
            reading._db.execute(f"SELECT {what}").fetchone()
            for what in (
                "bytes FROM state",
                "coalesce(sum(bytes), 0) FROM trees",
                "coalesce(sum(size), 0) FROM records",
            )
        )
        assert size == trees == records
        return int(size)

    return store.read(counted)


class TestRecords:
    def test_what_was_written_is_read(self, store: Store) -> None:
        place = put(store, "a", b"\0data")
        assert store.read(lambda r: r.get(ME, "turn", "a")) == Record(place, "turn", "a", b"\0data")

    @pytest.mark.parametrize("id", ["", "\ud800", "a\0b", "'; DROP TABLE records", "é" * 10_000])
    def test_an_id_may_be_any_string(self, store: Store, id: str) -> None:
        assert get(store, id) is None
        put(store, id, b"1")
        assert get(store, id) == b"1"
        assert store.read(lambda r: r.path(ME, "turn", id))[0].id == id

    def test_another_owner_finds_nothing(self, store: Store) -> None:
        put(store, "a")
        put(store, "b", parent=("turn", "a"))
        assert get(store, "a", OTHER) is None
        assert store.read(lambda r: r.path(OTHER, "turn", "b")) == []
        assert store.read(lambda r: r.children(OTHER, "turn", ("turn", "a"))) == []
        assert store.read(lambda r: r.children(OTHER, "turn")) == []
        assert store.write(lambda w: w.delete(OTHER, "turn", "a", below=True)).result() is False
        with pytest.raises(NoRecord):
            store.write(lambda w: w.put(OTHER, "turn", "c", b"", parent=("turn", "a"))).result()
        store.write(lambda w: w.put(OTHER, "turn", "a", b"theirs")).result()
        assert (get(store, "a"), get(store, "a", OTHER)) == (b"x", b"theirs")

    def test_a_kind_has_its_own_ids(self, store: Store) -> None:
        put(store, "a")
        assert store.read(lambda r: r.get(ME, "session", "a")) is None

    def test_a_record_is_replaced_in_its_place(self, store: Store) -> None:
        first = put(store, "a")
        put(store, "b", parent=("turn", "a"))
        assert put(store, "a", b"longer") == first
        assert [r.data for r in store.read(lambda r: r.path(ME, "turn", "b"))] == [b"longer", b"x"]
        stored_bytes(store)

    def test_a_record_that_must_be_new_is_not_replaced(self, store: Store) -> None:
        put(store, "a", b"1", new=True)
        with pytest.raises(RecordExists, match="turn 'a'"):
            put(store, "a", b"2", new=True)
        assert get(store, "a") == b"1"

    def test_children_come_in_the_order_in_which_they_were_written(self, store: Store) -> None:
        put(store, "root")
        places = [put(store, f"{i}", parent=("turn", "root")) for i in range(5)]
        put(store, "below", parent=("turn", "3"))
        put(store, "other")

        def ids(**options: Any) -> list[str]:
            return [r.id for r in store.read(lambda r: r.children(ME, "turn", ("turn", "root"), **options))]

        assert ids() == ["0", "1", "2", "3", "4"]
        assert ids(after=places[1], limit=2) == ["2", "3"]
        assert ids(newest=True, limit=2) == ["4", "3"]
        assert ids(newest=True, after=places[1]) == ["0"]
        assert [r.id for r in store.read(lambda r: r.children(ME, "turn"))] == ["root", "other"]
        assert store.read(lambda r: r.children(ME, "turn", ("turn", "nobody"))) == []

    def test_a_parent_may_be_of_another_kind(self, store: Store) -> None:
        store.write(lambda w: w.put(ME, "session", "s", b"")).result()
        put(store, "a", parent=("session", "s"))
        assert [r.kind for r in store.read(lambda r: r.path(ME, "turn", "a"))] == ["session", "turn"]
        assert store.read(lambda r: r.children(ME, "session", ("session", "s"))) == []

    def test_a_path_with_a_gap_is_none(self, store: Store) -> None:
        put(store, "a")
        put(store, "b", parent=("turn", "a"))
        put(store, "c", parent=("turn", "b"))
        assert [r.id for r in store.read(lambda r: r.path(ME, "turn", "c"))] == ["a", "b", "c"]
        assert store.read(lambda r: r.path(ME, "turn", "c", most=2)) == []
        assert store.write(lambda w: w.delete(ME, "turn", "b")).result()
        put(store, "b")  # the same id later is not the same record
        assert store.read(lambda r: r.path(ME, "turn", "c")) == []
        assert get(store, "c") == b"x"

    def test_deleting_may_include_all_below(self, store: Store) -> None:
        for id, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a")):
            put(store, id, parent=None if parent is None else ("turn", parent))
        assert store.write(lambda w: w.delete(ME, "turn", "b", below=True)).result()
        assert [get(store, id) for id in "abcd"] == [b"x", None, None, b"x"]
        assert not store.write(lambda w: w.delete(ME, "turn", "b")).result()
        stored_bytes(store)
        store.write(lambda w: w.delete(ME, "turn", "a", below=True)).result()
        assert stored_bytes(store) == 0

    def test_all_that_one_owner_has_is_deleted(self, store: Store) -> None:
        for id, parent in (("a", None), ("b", "a"), ("c", None)):
            put(store, id, parent=None if parent is None else ("turn", parent))

        def delete(w: WriteTransaction) -> None:
            w.put(ME, "other", "d", b"x")
            w.delete_all(ME)
            w.put(OTHER, "turn", "e", b"y")

        store.write(delete).result()
        assert [get(store, id) for id in "abc"] == [None, None, None]
        assert store.read(lambda r: r.get(ME, "other", "d")) is None
        stored_bytes(store)
        store.write(lambda w: w.delete_all(OTHER)).result()
        assert stored_bytes(store) == 0

    def test_a_long_path_is_read_and_deleted(self, store: Store) -> None:
        def all_turns(w: WriteTransaction) -> None:
            for i in range(20_000):
                w.put(ME, "turn", f"{i}", b"x", parent=("turn", f"{i - 1}") if i else None)

        store.write(all_turns).result()
        assert len(store.read(lambda r: r.path(ME, "turn", "19999"))) == 20_000
        store.write(lambda w: w.delete(ME, "turn", "0", below=True)).result()
        assert stored_bytes(store) == 0


class TestWrites:
    def test_a_write_that_fails_leaves_nothing(self, store: Store) -> None:
        def half(w: WriteTransaction) -> None:
            w.put(ME, "turn", "a", b"x")
            raise KeyError("b")

        with pytest.raises(KeyError):
            store.write(half).result()
        assert get(store, "a") is None
        assert put(store, "a")

    def test_writes_that_wait_together_fail_alone(self, store: Store) -> None:
        held, begun = threading.Event(), threading.Event()

        def hold(w: WriteTransaction) -> None:
            begun.set()
            held.wait(20)

        first = store.write(hold)
        begun.wait(20)
        writes: list[Future[int]] = []
        for i in range(600):
            parent = ("turn", "nobody") if i % 100 == 50 else None
            writes.append(store.write(partial(turn, id=f"{i}", parent=parent)))
        held.set()
        first.result(20)
        failed = [i for i, one in enumerate(writes) if isinstance(one.exception(20), NoRecord)]
        assert failed == [50, 150, 250, 350, 450, 550]
        assert [i for i in range(600) if get(store, f"{i}") is None] == failed

    async def test_the_event_loop_goes_on_while_the_store_writes(self, store: Store) -> None:
        held = threading.Event()
        waiting = asyncio.ensure_future(store.writing(lambda w: held.wait(20)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        held.set()
        assert await waiting is True
        await store.writing(lambda w: w.put(ME, "turn", "a", b"x"))
        assert await store.reading(lambda r: r.get(ME, "turn", "a")) is not None

    def test_a_closed_store_has_written_everything_and_refuses_more(self, opened: Opened) -> None:
        store = opened()
        writes = [store.write(partial(turn, id=f"{i}")) for i in range(1000)]
        store.close()
        store.close()
        assert all(one.done() for one in writes)
        with pytest.raises(StoreError, match="closed"):
            put(store, "a")
        again = opened()
        assert get(again, "999") == b"x"


class TestBounds:
    def test_the_trees_written_to_longest_ago_go_first(self, opened: Opened) -> None:
        times = itertools.count()
        small = opened(None, size=3 * (OVERHEAD + 200), clock=lambda: float(next(times)))
        for id in "abc":
            put(small, id, b"x" * 100)
        put(small, "a2", b"x" * 100, parent=("turn", "a"))  # the tree of a is written to, so it is newer than b
        put(small, "d", b"x" * 300)
        assert [get(small, id) is not None for id in ("a", "a2", "b", "c", "d")] == [True, True, False, False, True]
        assert stored_bytes(small) <= 3 * (OVERHEAD + 200)

    def test_a_record_without_room_is_refused_and_nothing_goes(self, opened: Opened) -> None:
        store = opened(None, size=5000)
        put(store, "a", b"x" * 1000)
        with pytest.raises(StoreFull, match="5,000 bytes"):
            put(store, "b", b"x" * 5000)
        with pytest.raises(StoreFull):
            put(store, "a", b"x" * 5000)
        assert get(store, "a") == b"x" * 1000

    def test_pinned_trees_stay_until_they_are_released(self, opened: Opened) -> None:
        store = opened(None, size=5000)
        put(store, "open", b"x" * 3000, pinned=True)
        put(store, "a", b"x" * 1000)
        with pytest.raises(StoreFull):
            put(store, "b", b"x" * 2000)
        assert get(store, "a") is not None
        put(store, "b", b"x" * 1000)
        assert (get(store, "open") is not None, get(store, "a")) == (True, None)
        store.write(lambda w: w.pin(ME, "turn", "open", False)).result()
        put(store, "c", b"x" * 4000)
        assert [get(store, id) is not None for id in ("open", "b", "c")] == [False, False, True]

    def test_pinned_trees_leave_others_a_share_however_many_they_are(self, opened: Opened) -> None:
        store = opened(None, size=8000)
        put(store, "kept", b"x" * 1000)
        pinned = 6000 // (OVERHEAD + 505)
        for i in range(pinned):
            put(store, f"open{i}", b"x" * 500, pinned=True)
        with pytest.raises(StoreFull, match="6,000 of its 8,000 bytes"):
            put(store, "more", b"x" * 500, pinned=True)
        with pytest.raises(StoreFull):
            put(store, "more", b"x" * 500, parent=("turn", "open0"))
        for i in range(5):  # others write, and what is older of theirs goes
            put(store, f"other{i}", b"x" * 1000)
        assert [get(store, id) is not None for id in ("kept", "open0", "other4")] == [False, True, True]
        store.write(lambda w: w.delete(ME, "turn", "open1")).result()
        put(store, "more", b"x" * 500, parent=("turn", "open0"))

    def test_trees_expire_after_their_last_write(self, opened: Opened) -> None:
        now = [0.0]
        store = opened(days=100 / 86400, clock=lambda: now[0])
        put(store, "a", pinned=True)
        put(store, "b")
        now[0] = 90.0
        put(store, "a2", parent=("turn", "a"))
        now[0] = 150.0
        assert [get(store, id) for id in ("a", "a2", "b")] == [b"x", b"x", None]
        now[0] = 200.0
        with pytest.raises(NoRecord):
            put(store, "a3", parent=("turn", "a2"))
        put(store, "c")
        assert stored_bytes(store) == OVERHEAD + 2

    @pytest.mark.slow
    def test_very_many_small_records_stay_within_the_bound(self, opened: Opened, tmp_path: Path) -> None:
        size = 2 << 20
        store = opened(size=size)

        def many(w: WriteTransaction, begin: int) -> None:
            for i in range(begin, begin + 1000):
                w.put(ME, "turn", f"{i:07}", b"")

        for begin in range(0, 50_000, 1000):
            store.write(partial(many, begin=begin)).result()
        assert size * 0.9 < stored_bytes(store) <= size
        store.close()
        assert sum(f.stat().st_size for f in tmp_path.iterdir()) < 1.1 * size

    def test_the_cost_of_a_turn_does_not_grow_with_its_conversation(self, opened: Opened) -> None:
        store = opened(None)
        steps: list[int] = []
        for i in range(1200):
            before = store._db.total_changes
            put(store, f"{i}", b"x" * 100, parent=("turn", f"{i - 1}") if i else None)
            steps.append(store._db.total_changes - before)
        assert max(steps[1:]) == min(steps[1:])
        assert stored_bytes(store) == sum(OVERHEAD + 100 + len(f"{i}") for i in range(1200))


class TestFiles:
    def test_a_file_is_private(self, opened: Opened, tmp_path: Path) -> None:
        store = opened()
        put(store, "a")
        assert {stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir()} == {0o600}

    def test_a_file_is_read_again_with_its_secret(self, opened: Opened) -> None:
        secrets = []
        for i in range(2):
            store = opened()
            assert get(store, "a") == (b"x" if i else None)
            put(store, "a")
            secrets.append(store.secret)
            store.close()
        assert secrets[0] == secrets[1]
        other = opened(None)
        assert other.secret != secrets[0]

    def test_a_newer_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        Store(path).close()
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 2")
        db.close()
        with pytest.raises(StoreError, match=r"store\.db: was written by a newer unspool \(version 2"):
            Store(path)

    def test_a_file_of_something_else_is_refused_and_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE t (a)")
        db.close()
        with pytest.raises(StoreError, match="not a store of unspool"):
            Store(path)
        text = tmp_path / "text"
        text.write_text("No database at all, " * 100)
        with pytest.raises(StoreError, match="not a database"):
            Store(text)
        assert text.read_text().startswith("No database")
        with pytest.raises(StoreError, match="No such file"):
            Store(tmp_path / "nowhere" / "store.db")

    def test_full_disks_fail_the_write_and_nothing_else(self, opened: Opened) -> None:
        store = opened()
        put(store, "a")
        store._db.execute("PRAGMA max_page_count = 30")
        with pytest.raises(StoreFull, match="full"):
            put(store, "b", b"x" * 200_000)
        assert get(store, "b") is None
        put(store, "c")
        assert (get(store, "a"), get(store, "c")) == (b"x", b"x")
        stored_bytes(store)

    def test_a_file_that_may_not_grow_fails_the_write_and_nothing_else(self, tmp_path: Path) -> None:
        """The write-ahead log meets the limit in the middle of a transaction."""
        program = """if 1:
            import resource, sys
            from unspool.store import Store, StoreError
            store = Store(sys.argv[1])
            store.write(lambda w: w.put(b"o", "turn", "a", b"x")).result()
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            for id, size in ("b", 1_000_000), ("c", 10):
                try:
                    store.write(lambda w: w.put(b"o", "turn", id, b"x" * size)).result()
                    print(id, "written")
                except StoreError as error:
                    print(id, error)
            print([store.read(lambda r: r.get(b"o", "turn", id)) is not None for id in "abc"])
            """
        ran = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "store.db")], capture_output=True, text=True, check=True
        )
        first, second, found = ran.stdout.splitlines()
        assert first.startswith("b the store cannot be used")
        assert second == "c written"
        assert found == "[True, False, True]"

    def test_what_was_acknowledged_survives_a_kill(self, opened: Opened, tmp_path: Path) -> None:
        program = """if 1:
            import sys
            from unspool.store import Store
            store = Store(sys.argv[1])
            for i in range(1_000_000):
                store.write(lambda w: [w.put(b"o", k, f"{i}", b"x" * 5000) for k in ("one", "two")]).result()
                print(i, flush=True)
            """
        path = tmp_path / "store.db"
        with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            written = []
            for line in process.stdout:  # to the end of what it wrote before it was killed
                written.append(int(line))
                if written[-1] == 50:
                    process.kill()
        last = written[-1]
        store = opened()
        for i in range(last + 3):
            pair = [store.read(partial(found, kind=kind, id=f"{i}")) for kind in ("one", "two")]
            assert pair == [True, True] if i <= last else pair[0] == pair[1]

    def test_processes_share_a_file(self, opened: Opened, tmp_path: Path) -> None:
        program = """if 1:
            import sys
            from unspool.store import Store
            store = Store(sys.argv[1])
            for i in range(200):
                store.write(lambda w: w.put(b"o", "turn", f"{sys.argv[2]}-{i}", b"x" * 100)).result()
            print(store.secret.hex())
            store.close()
            """
        path = tmp_path / "store.db"
        processes = [
            subprocess.Popen([sys.executable, "-c", program, str(path), name], stdout=subprocess.PIPE, text=True)
            for name in "abc"
        ]
        secrets = {process.communicate(timeout=60)[0] for process in processes}
        assert [process.returncode for process in processes] == [0, 0, 0]
        store = opened()
        assert secrets == {store.secret.hex() + "\n"}
        assert len(store.read(lambda r: r.children(b"o", "turn"))) == 600
        assert stored_bytes(store) == 600 * (OVERHEAD + 100) + sum(len(f"a-{i}") for i in range(200)) * 3


def test_memory_leaves_no_file(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = opened(None)
    put(store, "a")
    assert os.listdir() == []
