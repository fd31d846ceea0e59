"""HTTP servers on the loopback interface, its free ports, and plain requests."""

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]
"""Answers a request."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A server in a thread; its URL is yielded."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has had enough
                answer(self)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _serving(Handler) as url:
        yield url


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server of a folder's files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _serving(partial(Quiet, directory=str(folder))) as url:
        yield url


@contextlib.contextmanager
def _serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def sends(data: bytes, status: int = 200, /, **headers: str) -> Answer:
    """Answers with these bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@contextlib.contextmanager
def process(command: Sequence[str], url: str, log: Path, patience: float = 180.0, **environment: str) -> Iterator[None]:
    """A server in its own process, as soon as it answers at ``url``."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=variables, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url, timeout=5).close()
                break
            assert server.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-5000:]
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8", errors="replace")[-5000:]
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def ask(url: str, body: Any = None, timeout: float = 120.0, key: str = "") -> tuple[int, str]:
    """The status and the text of the answer to a request, which has a body of JSON unless that is ``None``."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def told(url: str, body: Any = None, key: str = "") -> Any:
    """The JSON of the answer to a request that must succeed."""
    status, text = ask(url, body, key=key)
    assert status < 300, text
    return json.loads(text)
