"""llama.cpp's process: it is started again, ends with its parent, and what ends it is found out."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from unspool.engines import EngineError
from unspool.engines.local import LlamaProcess

from ...small import need_small_model
from .support import STAND_IN, constraint, local, output, process

WORDS = "word word word "


def pid(found: LlamaProcess) -> int:
    assert found._process is not None
    return found._process.pid


def test_outputs_wait_while_the_model_loads_and_health_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            with pytest.raises(EngineError, match="the model is loading"):
                await engine.health()
            assert await output(engine) == WORDS
            await engine.health()

    with process(monkeypatch, "late.gguf") as found:
        asyncio.run(main(found))


def test_running_outputs_end_with_a_clear_error_and_later_ones_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
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

    with process(monkeypatch) as found:
        asyncio.run(main(found))


def test_a_grammar_that_crashes_it_is_refused_from_then_on_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            for _ in range(2):
                assert (await output(engine, constraint=constraint("crash"))).startswith("400: tools: the grammar")
            assert found.address.status().deaths == 1
            assert await output(engine, constraint=constraint("fine")) == WORDS
            assert await output(engine) == WORDS

    with process(monkeypatch) as found:
        asyncio.run(main(found))


def test_a_grammar_that_ran_beside_a_crashing_one_is_served_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            begun = asyncio.Event()
            slow = asyncio.ensure_future(output(engine, begun=begun, constraint=constraint("slow")))
            await begun.wait()
            crash = await output(engine, constraint=constraint("crash"))
            assert crash.startswith("400: tools: the grammar")
            assert (await slow).startswith("502: llama.cpp ended (SIGSEGV)")
            assert await output(engine, constraint=constraint("slow")) == "word " * 40

    with process(monkeypatch) as found:
        asyncio.run(main(found))


def test_a_grammar_is_not_blamed_for_one_kill_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            begun = asyncio.Event()
            slow = asyncio.ensure_future(output(engine, begun=begun, constraint=constraint("slow")))
            await begun.wait()
            os.kill(pid(found), signal.SIGKILL)
            assert (await slow).startswith("502: ")
            assert await output(engine, constraint=constraint("slow")) == "word " * 40

    with process(monkeypatch) as found:
        asyncio.run(main(found))


def test_a_grammar_that_is_dropped_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            assert (await output(engine, constraint=constraint("drop"))).startswith(
                "500: llama.cpp dropped the grammar"
            )

    with process(monkeypatch) as found:
        asyncio.run(main(found))


def test_a_model_that_cannot_be_loaded_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    told = threading.Event()

    def failed(fault: str) -> None:
        faults.append(fault)
        told.set()

    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            assert await output(engine) == f"503: {sentence}"

    sentence = "unknown.gguf: cannot be loaded: this llama.cpp does not know the architecture 'lxama'"
    with process(monkeypatch, "unknown.gguf", failed=failed) as found:
        assert told.wait(20)
        assert faults == [sentence]
        asyncio.run(main(found))


def test_nobody_without_the_key_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(found: LlamaProcess) -> None:
        async with local(found, tmp_path) as engine:
            engine._upstream._client._key = "wrong"
            assert (await output(engine)).startswith("503: the engine rejected the API key")

    with process(monkeypatch) as found:
        asyncio.run(main(found))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere others may listen on the port between two starts")
def test_the_port_stays_its_own_between_two_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with process(monkeypatch) as found, socket.socket() as other:
        port = int(found.address.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


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
def test_it_ends_with_its_parent() -> None:
    assert not orphaned("m.gguf", STAND_IN, "ready")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("when", ["", "ready"])
def test_the_real_one_ends_with_its_parent_even_while_it_loads(when: str) -> None:
    assert not orphaned(need_small_model(), "", when)
