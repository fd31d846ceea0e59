"""A server with a completion endpoint, in a process that can be killed and restarted at the same port."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

_CODE = """
import asyncio, json, sys

async def serve(reader, writer):
    try:
        head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1")
        size = next((int(l.split(":")[1]) for l in head.split("\\r\\n") if l.lower().startswith("content-length")), 0)
        body = await reader.readexactly(size)
        path = head.split(" ")[1]
        if path == "/v1/completions":
            while b"interim" in body:
                writer.write(b"HTTP/1.1 100 Continue\\r\\n\\r\\n" * 1000)
                await writer.drain()
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nConnection: close\\r\\n\\r\\n")
            quick = b"the quick question" in body
            event = b"data: " + json.dumps({"choices": [{"text": "word ", "finish_reason": None}]}).encode() + b"\\n\\n"
            while b"without end" in body:
                more = {"text": "word " * 10_000, "finish_reason": None}
                if b"about tokens" in body:
                    more["logprobs"] = {"tokens": ["word "] * 5_000, "token_logprobs": [0.0] * 5_000}
                writer.write(b"data: " + json.dumps({"choices": [more]}).encode() + b"\\n\\n")
                await writer.drain()
            while b"keep alive" in body:
                writer.write(b": keep-alive\\n\\n")
                await writer.drain()
                await asyncio.sleep(0.05)
            for _ in range(600 if b"the flood" in body else 0):
                writer.write(event * 500)
                await writer.drain()
            if b"beyond all bounds" in body:
                told = {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {"prompt_tokens": 10**4000}}
                writer.write(b"data: " + json.dumps(told).encode() + b"\\n\\n")
                return
            if b"forged lines" in body:
                told = json.dumps({"error": {"message": "a\\nERROR unspool: forged\\x1b[2J", "code": 400}}).encode()
                writer.write(b"data: " + told + b"\\n\\n")
                return
            most = json.loads(body).get("max_tokens") or 1000
            for i in range(2 if quick else most):
                reason = "stop" if quick and i else "length" if i + 1 == most else None
                told = {"choices": [{"text": "word ", "finish_reason": reason}]}
                writer.write(b"data: " + json.dumps(told).encode() + b"\\n\\n")
                await writer.drain()
                await asyncio.sleep(0 if quick else 0.1)
            writer.write(b"data: [DONE]\\n\\n")
        else:
            card = {"id": "m", "owned_by": "vllm", "max_model_len": 4096}
            answer = json.dumps({"data": [card]}).encode()
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n")
            writer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


class Upstream:
    """The server, running or not."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the server."""
        command = [sys.executable, "-c", _CODE, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
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
