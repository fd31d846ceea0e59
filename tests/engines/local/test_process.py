"""llama.cpp's process: it is started again, ends with its parent, and what ends it is found out."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.checkpoints.gguf import read_gguf
from unspool.engines import Delta, EngineError, Request
from unspool.engines.local import Launch, LlamaProcess, Local
from unspool.engines.local.process import _remove_abandoned
from unspool.grammar import Constraint
from unspool.grammar.nodes import Alternatives, Const, Grammar

from ...small import need_small_model
from ...writing_gguf import gguf, of_bytes

WORDS = "word word word "
PROGRAM = Path(__file__).with_name("stand_in.py")
StandIn = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Local, LlamaProcess]]]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Makes a context with an engine whose llama.cpp is a stand-in, and its process, which is being started."""
    monkeypatch.setattr("unspool.engines.local.process._CHILD", PROGRAM)
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(of_bytes("<|im_end|>")))

    @contextlib.asynccontextmanager
    async def started(model: str = "m.gguf", **options: Any) -> AsyncIterator[tuple[Local, LlamaProcess]]:
        process = LlamaProcess(Launch(model=model), **options)
        process.start()
        engine = Local(process.address, read_gguf(file, vocabulary=True), process=process)
        try:
            yield engine, process
        finally:
            await engine.close()

    return started


def constraint(text: str) -> Constraint:
    """A grammar of one text."""
    return Constraint(Grammar(Const(text), {}), None, {})


async def output(engine: Local, prompt: str = "Hi", begun: asyncio.Event | None = None, **fields: Any) -> str:
    """A whole output, or the status and message of its error. The event is set as soon as it has begun."""
    found: list[Delta] = []
    try:
        async for delta in engine.generate(Request(prompt=prompt, **fields)):
            found.append(delta)
            if begun is not None:
                begun.set()
    except EngineError as error:
        return f"{error.status}: {error}"
    assert found[-1].finish_reason == "stop"
    return "".join(delta.text for delta in found)


def pid(found: LlamaProcess) -> int:
    assert found._process is not None
    return found._process.pid


async def test_outputs_wait_while_the_model_loads_and_health_says_so(stand_in: StandIn) -> None:
    async with stand_in("late.gguf") as (engine, _):
        with pytest.raises(EngineError, match="the model is loading"):
            await engine.health()
        assert await output(engine) == WORDS
        await engine.health()


async def test_running_outputs_end_with_a_clear_error_and_later_ones_wait(stand_in: StandIn) -> None:
    async with stand_in() as (engine, found):
        begun = [asyncio.Event() for _ in range(3)]
        running = [asyncio.ensure_future(output(engine, "slow", one)) for one in begun]
        await asyncio.gather(*(one.wait() for one in begun))
        url, before = found.address.url, pid(found)
        os.kill(before, signal.SIGKILL)
        later = asyncio.ensure_future(output(engine))
        assert await asyncio.gather(*running) == ["502: llama.cpp ended (SIGKILL) and is started again"] * 3
        assert await later == WORDS
        assert (found.address.url, found.address.status().deaths) == (url, 1)
        assert pid(found) != before
        await engine.health()


async def test_one_that_was_stopped_is_ended_and_started_again(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.engines.local.process._CHECK", 0.2)
    monkeypatch.setattr("unspool.engines.local.process._SILENT", 2.0)
    async with stand_in() as (engine, found):
        begun = asyncio.Event()
        running = asyncio.ensure_future(output(engine, "slow", begun))
        await begun.wait()
        before = pid(found)
        os.kill(before, signal.SIGSTOP)
        later = asyncio.ensure_future(output(engine))
        assert await running == "502: llama.cpp answered nothing for 2 s and is started again"
        assert await later == WORDS
        assert pid(found) != before


@pytest.mark.parametrize("proc", ["/proc", "/nowhere"])
@pytest.mark.skipif(sys.platform == "win32", reason="nothing says what a process does")
async def test_one_that_was_stopped_while_it_loads_ends_as_an_error_or_is_started_again(
    proc: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.engines.local.process._PROC", proc)
    monkeypatch.setattr("unspool.engines.local.process._CHECK", 0.2)
    monkeypatch.setattr("unspool.engines.local.process._IDLE", 2.0)
    async with stand_in("late.gguf") as (engine, found):
        while found._process is None:
            await asyncio.sleep(0.01)
        os.kill(pid(found), signal.SIGSTOP)
        told = await output(engine)
        assert "cannot be loaded: llama.cpp did nothing for 2 s" in told
        with pytest.raises(EngineError, match="did nothing for 2 s"):
            await engine.health()
    async with stand_in("late.gguf") as (engine, found):
        assert await output(engine) == WORDS
        before = pid(found)
        os.kill(before, signal.SIGKILL)
        while pid(found) == before:
            await asyncio.sleep(0.01)
        os.kill(pid(found), signal.SIGSTOP)
        assert await output(engine) == WORDS
        assert found.address.status().deaths == 2


async def test_a_grammar_that_crashes_it_is_refused_from_then_on_and_others_are_served(stand_in: StandIn) -> None:
    async with stand_in() as (engine, found):
        for _ in range(2):
            assert (await output(engine, constraint=constraint("crash"))).startswith(
                "400: response_format.json_schema.schema: the grammar"
            )
        assert found.address.status().deaths == 1
        assert await output(engine, constraint=constraint("fine")) == WORDS
        assert await output(engine) == WORDS


async def test_a_grammar_that_ran_beside_a_crashing_one_is_served_again(stand_in: StandIn) -> None:
    async with stand_in() as (engine, _):
        begun = asyncio.Event()
        slow = asyncio.ensure_future(output(engine, begun=begun, constraint=constraint("slow")))
        await begun.wait()
        crash = await output(engine, constraint=constraint("crash"))
        assert crash.startswith("400: response_format.json_schema.schema: the grammar")
        assert (await slow).startswith("502: llama.cpp ended (SIGSEGV)")
        assert await output(engine, constraint=constraint("slow")) == "word " * 40


@pytest.mark.parametrize("together", [1, 3])
async def test_a_grammar_is_not_blamed_for_one_kill_from_outside(together: int, stand_in: StandIn) -> None:
    async with stand_in() as (engine, found):
        begun = [asyncio.Event() for _ in range(together)]
        slow = [asyncio.ensure_future(output(engine, begun=one, constraint=constraint("slow"))) for one in begun]
        await asyncio.gather(*(one.wait() for one in begun))
        os.kill(pid(found), signal.SIGKILL)
        assert all(said.startswith("502: ") for said in await asyncio.gather(*slow))
        assert await output(engine, constraint=constraint("slow")) == "word " * 40


async def test_a_grammar_that_is_dropped_is_refused_from_then_on_and_what_follows_another_is_served(
    stand_in: StandIn,
) -> None:
    async with stand_in() as (engine, _):
        begun = asyncio.Event()
        both = Constraint(Grammar(Alternatives((Const("slow"), Const("word " * 40))), {}), None, {})
        beside = asyncio.ensure_future(output(engine, begun=begun, constraint=both))
        await begun.wait()
        assert (await output(engine, constraint=constraint("drop"))).startswith("500: llama.cpp dropped the grammar")
        refused = "400: response_format.json_schema.schema: llama.cpp cannot follow the grammar of these schemas"
        assert await output(engine, constraint=constraint("drop")) == refused
        for cut_short in (WORDS[:-1], WORDS + "drop"):
            assert (await output(engine, constraint=constraint(cut_short + "drop"))).startswith("500: ")
        assert await beside == "word " * 40
        if_it_can = constraint("drop it")
        if_it_can.looser = lambda: constraint("dropped all the same")
        assert (await output(engine, constraint=if_it_can)).startswith("500: ")
        for looser in (constraint(WORDS), None):
            if_it_can = constraint(f"drop it {looser}")
            if_it_can.looser = lambda looser=looser: looser
            for _ in range(2):
                assert await output(engine, constraint=if_it_can) == WORDS


@pytest.mark.parametrize("how", ["copied and truncated", "renamed", "removed", "flooded"])
async def test_a_dropped_grammar_is_noticed_though_the_log_is_rotated(stand_in: StandIn, how: str) -> None:
    async with stand_in() as (engine, found):
        begun, log = asyncio.Event(), Path(found.address.log)
        log.write_text("0.0 I earlier\n")
        dropped = asyncio.ensure_future(output(engine, begun=begun, constraint=constraint("drop slow")))
        await begun.wait()
        if how == "copied and truncated":
            os.truncate(log, 0)
        elif how == "flooded":
            with log.open("ab") as file:
                file.write(b"0.0 I more\n" * 10_000)
        else:
            log.rename(log.with_name("old.log"))
            if how == "renamed":
                log.touch()
        assert (await dropped).startswith("500: llama.cpp dropped the grammar")
        assert await output(engine, constraint=constraint(WORDS)) == WORDS


async def test_a_grammar_that_cannot_be_compiled_gives_way_to_a_less_strict_one_if_it_may(stand_in: StandIn) -> None:
    async with stand_in() as (engine, _):
        wrong, slow = constraint("x"), constraint("slow")
        wrong.lark_spaced = "%llguidance {}\nstart: nothing"
        wrong.ending = lambda tokens: wrong  # type: ignore[method-assign]
        assert (await output(engine, constraint=wrong)).startswith("400: ")
        wrong.looser = lambda: slow
        assert await output(engine, constraint=wrong) == "word " * 40
        wrong.looser = lambda: None
        assert await output(engine, constraint=wrong) == "word " * 3


async def test_a_model_that_cannot_be_loaded_is_one_sentence(stand_in: StandIn) -> None:
    found: list[str] = []
    sentence = "unknown.gguf: cannot be loaded: this llama.cpp does not know the architecture 'lxama'"
    async with stand_in("unknown.gguf", failed=found.append) as (engine, _):
        while not found:
            await asyncio.sleep(0.05)
        assert found == [sentence]
        assert await output(engine) == f"503: {sentence}"


def faults(launch: Launch) -> list[str]:
    """Why a model cannot be loaded."""
    found: list[str] = []
    process = LlamaProcess(launch, found.append)
    process.start()
    process._thread.join()
    process.close()
    return found


_NORM = b"output_norm.weight" + struct.pack("<IQ", 1, 576)  # behind a tensor's name and shape comes its type


@pytest.mark.parametrize(
    ("changed", "fields", "why"),
    [
        ({b"output_norm.weight": b"output_norm.weighs"}, {}, "tensor 'output_norm.weight' not found"),
        ({_NORM + b"\0": _NORM + b"\x63"}, {}, "this llama.cpp does not know the type 99 of a tensor"),
        ({}, {"n_parallel": 300}, "llama.cpp has at most 256 slots; --slots says less"),
    ],
    ids=["a tensor is missing", "a type is unknown", "too many slots"],
)
def test_the_cause_is_told_and_not_what_followed_from_it(
    changed: dict[bytes, bytes], fields: dict[str, int], why: str, tmp_path: Path
) -> None:
    file, content = tmp_path / "m.gguf", need_small_model().read_bytes()
    for old, new in changed.items():
        content = content.replace(old, new, 1)
    file.write_bytes(content)
    found = faults(Launch(model=str(file), fields=fields, log=str(tmp_path / "log")))
    assert [fault.endswith(why) for fault in found] == [True], found


def test_one_that_ends_without_a_word_is_told_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "child.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr("unspool.engines.local.process._CHILD", tmp_path / "child.py")
    assert faults(Launch(model="m.gguf")) == ["m.gguf: cannot be loaded: llama.cpp ended (exit code 3)"]


def test_an_empty_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_small_model()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert faults(Launch(model="m.gguf", given=[("n_batc", "1")])) == [
        "--llama: n_batc: is no field of llama.cpp's that can be set; did you mean n_batch?"
    ]
    assert list(tmp_path.iterdir()) == []


async def test_nobody_without_the_key_is_served(stand_in: StandIn) -> None:
    async with stand_in() as (engine, _):
        engine._upstream._client._key = "wrong"
        assert (await output(engine)).startswith("503: the engine rejected the API key")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere others may listen on the port between two starts")
async def test_the_port_stays_its_own_between_two_starts(stand_in: StandIn) -> None:
    async with stand_in() as (_, found):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(found.address.url.rpartition(":")[2])))


PARENT = """
import os, sys
from pathlib import Path
from unspool.engines.local import Launch, LlamaProcess, process
if sys.argv[2]:
    process._CHILD = Path(sys.argv[2])
found = LlamaProcess(Launch(model=sys.argv[1], fields={"n_ctx": 512}))
found.start()
while found._process is None or (sys.argv[3] and found.address.status().state != "ready"):
    pass
print(found._process.pid, flush=True)
sys.stdin.read()
"""


def orphaned(*arguments: Any) -> bool:
    """Whether llama.cpp's process goes on after its parent was killed."""
    command = [sys.executable, "-c", PARENT, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(child, 0)
            if Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] == "Z":
                return False  # it has ended, and nobody has asked for its exit code
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_it_ends_with_its_parent_whose_folder_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert not orphaned("m.gguf", PROGRAM, "ready")
    (left,) = tmp_path.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    running, another = LlamaProcess(Launch(model="m.gguf")), LlamaProcess(Launch(model="m.gguf"))
    assert not left.exists()
    assert {Path(one.address.folder) for one in (running, another)} == set(tmp_path.iterdir())
    running.close()
    another.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("when", ["", "ready"])
def test_the_real_one_ends_with_its_parent_even_while_it_loads(when: str) -> None:
    assert not orphaned(need_small_model(), "", when)


def test_a_command_that_is_ended_while_it_starts_leaves_no_folder(tmp_path: Path) -> None:
    need_small_model()
    command = [sys.executable, "-m", "unspool", "serve", "--port", "0"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL) as serve:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("unspool-llama-*/*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(60) == -signal.SIGTERM
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in folders")
def test_a_pipe_in_place_of_a_lock_stops_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: -1)  # as if it were another user's
    folder = tmp_path / "unspool-llama-x"
    folder.mkdir()
    os.mkfifo(folder / "owned")
    _remove_abandoned()
    assert folder.exists()
