"""A server with a completion endpoint, in a process that can be killed and restarted at the same port."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engines.upstream.support import DONE, ENDLESS, Asked, Connection, Fake, event, said
from tests.loopback import free_port

FLOOD = event({"choices": [{"text": "word " * 10_000, "finish_reason": None}]})
TOKENS = said("word " * 10_000, logprobs={"tokens": ["word "] * 5_000, "token_logprobs": [0.0] * 5_000})
FORGED = event({"error": {"message": "a\nERROR unspool: forged\x1b[2J", "code": 400}})


async def answer(connection: Connection, asked: Asked) -> None:
    """Behave as the words of the prompt say."""
    words = str(asked.body)
    await connection.send(ENDLESS)
    while "without end" in words:
        await connection.send(TOKENS if "about tokens" in words else FLOOD)
    for _ in range(600 if "the flood" in words else 0):
        await connection.send(said("word ") * 500)
    if "beyond all bounds" in words:
        choice = {"text": "a", "finish_reason": "stop"}
        await connection.send(event({"choices": [choice], "usage": {"prompt_tokens": 10**4000}}))
    elif "forged lines" in words:
        await connection.send(FORGED)
    elif "the quick question" in words:
        await connection.send(said("word "), said("word ", "stop"), DONE)
    else:
        most = asked.body.get("max_tokens") or 1000
        for i in range(most):
            await connection.send(said("word ", "length" if i + 1 == most else None))
            await asyncio.sleep(0.1)
        await connection.send(DONE)


class Upstream:
    """The server, running or not."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the server."""
        command = [sys.executable, "-m", "tests.attacks.upstream", str(self.port)]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """A server that is not running yet."""
    made = Upstream()
    try:
        yield made
    finally:
        made.kill()


async def main(port: int) -> None:
    server = Fake("vllm", answer)
    server.port = port
    async with server.running():
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
