"""The partners of ``chat``: a model's engine in this process, or a server over HTTP."""

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from ..arguments import json_shown
from ..events import ContentDelta, Event, Finish, ReasoningDelta, Status, ToolCallDelta, ToolCallEnd, ToolCallStart
from .common import Misuse
from .generate import Answer
from .model import Model

Raw = list[tuple[str, tuple[int, ...]]]
_TIMEOUT = 600.0  # seconds between two pieces, since a large prompt takes long
_LONGEST = 16 * 1024 * 1024
"""The most bytes of a line, or of an error, that are read from a server."""


class PartnerError(Exception):
    """There is no answer; the message says why."""


class Partner(Protocol):
    """The other side of the conversation.

    Attributes:
        name: its display name.
        raw: the pieces of the last output, with their token ids if known.
    """

    name: str
    raw: Raw

    async def ask(self, body: dict[str, Any], show: Callable[[list[Event]], None]) -> dict[str, Any]:
        """The answer to a chat completions request, as a message.

        Args:
            body: the request.
            show: called with the events as they arrive.

        Raises:
            PartnerError: there is no answer.
        """

    def close(self, runner: asyncio.Runner) -> None:
        """Release its resources."""


class EnginePartner:
    """A model's engine."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = f"{model.name} (dialect {model.dialect.name})"
        self.raw: Raw = []

    async def ask(self, body: dict[str, Any], show: Callable[[list[Event]], None]) -> dict[str, Any]:
        """See `Partner`."""
        from ..engines import EngineError

        answer = Answer(self._model, body)
        self.raw = []
        try:
            async for delta, events in answer.pieces():
                if delta.text or delta.token_ids:
                    self.raw.append((delta.text, tuple(delta.token_ids)))
                show(events)
        except EngineError as error:
            raise PartnerError(f"the engine failed: {error}") from None
        return answer.message.to_openai()

    def close(self, runner: asyncio.Runner) -> None:
        """See `Partner`."""
        runner.run(self._model.engine.close())


class ServerPartner:
    """A server of chat completions. Its answer is shown as it arrives; `raw` contains its server-sent events.

    Args:
        url: its base URL, with or without ``/v1``.
        key: a bearer token.
        model: the model's name; by default the first one that the server lists.

    Raises:
        Misuse: the URL is malformed.
    """

    def __init__(self, url: str, key: str | None, model: str | None) -> None:
        try:
            parts = urlsplit(url)
            self._port = parts.port
        except ValueError as error:
            raise Misuse(f"URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise Misuse(f"URL: {url!r} is not like http://host:port")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._model = model
        self.name = url
        self.raw: Raw = []

    async def ask(self, body: dict[str, Any], show: Callable[[list[Event]], None]) -> dict[str, Any]:
        """See `Partner`. Cancelling it closes the connection, so that the server stops too."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_TIMEOUT)
        loop = asyncio.get_running_loop()

        def emit(events: list[Event]) -> None:
            loop.call_soon_threadsafe(show, events)

        reading = _Reading(emit)
        self.raw = reading.raw
        ended: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            fault: BaseException | None = None
            try:
                self._talk(connection, body, reading)
            except BaseException as error:
                fault = error
            loop.call_soon_threadsafe(_settle, ended, fault)

        # A daemon thread, since a server that hangs must not keep the command from ending.
        threading.Thread(target=work, daemon=True).start()
        try:
            await ended
        except (OSError, http.client.HTTPException) as error:
            fault = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise PartnerError(f"{self.name}: {fault}") from None
        finally:
            connection.close()
        return reading.message()

    def close(self, runner: asyncio.Runner) -> None:
        """See `Partner`."""

    def _talk(self, connection: http.client.HTTPConnection, body: dict[str, Any], reading: "_Reading") -> None:
        if self._model is None:
            listed = self._json(connection, "GET", "/v1/models").get("data")
            first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
            self._model = str(first.get("id", "default"))
        asked = {**body, "model": self._model, "stream": True}
        response = self._answer(connection, "POST", "/v1/chat/completions", msgspec.json.encode(asked))
        if response.headers.get_content_type() != "text/event-stream":
            raise PartnerError(f"{self.name}: answers {response.headers.get_content_type()} instead of a stream")
        for data in _frames(response):
            if data == b"[DONE]":
                break
            reading.add(data)
        reading.end()

    def _json(self, connection: http.client.HTTPConnection, method: str, path: str) -> dict[str, Any]:
        found = _decoded(self._answer(connection, method, path).read(_LONGEST))
        return found if isinstance(found, dict) else {}

    def _answer(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
    ) -> http.client.HTTPResponse:
        connection.request(method, self._path + path, body, self._headers)
        response = connection.getresponse()
        if response.status != 200:
            raise PartnerError(f"{self.name}: {response.status}: {_complaint(response.read(_LONGEST))}")
        return response


def _settle(ended: "asyncio.Future[None]", fault: BaseException | None) -> None:
    if ended.done():
        return
    if fault is None:
        ended.set_result(None)
    else:
        ended.set_exception(fault)


def _frames(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The data of server-sent events; chat completions have one line of data each."""
    while line := response.readline(_LONGEST):
        if not line.endswith(b"\n"):
            raise PartnerError(f"the server sent a line of more than {_LONGEST:,} bytes, or ended within one")
        if line.startswith(b"data:"):
            yield line[5:].strip()


class _Reading:
    """Reads the chunks of a stream into events and a message. Offsets are unknown, and 0."""

    def __init__(self, show: Callable[[list[Event]], None]) -> None:
        self._show = show
        self.raw: Raw = []
        self._texts: dict[str, list[str]] = {"reasoning_content": [], "content": []}
        self._calls: dict[int, dict[str, str]] = {}
        self._open: int | None = None
        self._reason = ""

    def add(self, data: bytes) -> None:
        """Read the next chunk.

        Raises:
            PartnerError: the data is not a chunk, or is an error.
        """
        self.raw.append((data.decode("utf-8", "replace"), ()))
        chunk = _decoded(data)
        if not isinstance(chunk, dict):
            raise PartnerError(f"the server sent {json_shown(self.raw[-1][0][:200])}, which is not a chunk")
        if chunk.get("error"):
            raise PartnerError(f"the server failed: {_complaint(data)}")
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta)
        self._reason = str(choice.get("finish_reason") or self._reason)

    def _delta(self, delta: dict[str, Any]) -> None:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        for field, text, kind in (
            ("reasoning_content", reasoning, ReasoningDelta),
            ("content", delta.get("content"), ContentDelta),
        ):
            if isinstance(text, str) and text:
                self._texts[field].append(text)
                self._close_call()
                self._show([kind(text, 0, 0)])
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._call(call)

    def _call(self, call: dict[str, Any]) -> None:
        index = call.get("index")
        index = index if isinstance(index, int) else len(self._calls)
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        if index not in self._calls:
            self._close_call()
            found = {
                "id": str(call.get("id") or f"call_{index}"),
                "name": str(function.get("name") or ""),
                "arguments": "",
            }
            self._calls[index] = found
            self._open = index
            self._show([ToolCallStart(index, found["id"], found["name"], 0, 0)])
        more = function.get("arguments")
        if isinstance(more, str) and more:
            self._calls[index]["arguments"] += more
            self._show([ToolCallDelta(index, more, 0, 0)])

    def _close_call(self) -> None:
        if self._open is not None:
            status: Status = (
                "ok" if isinstance(_decoded(self._calls[self._open]["arguments"].encode()), dict) else "invalid"
            )
            self._show([ToolCallEnd(self._open, status, 0, 0)])
            self._open = None

    def end(self) -> None:
        """Read the end of the stream.

        Raises:
            PartnerError: the stream ended early.
        """
        self._close_call()
        if not self._reason:
            raise PartnerError("the server ended its stream early")
        self._show([Finish(self._reason, 0, 0)])

    def message(self) -> dict[str, Any]:
        """The answer so far, as a message of the assistant."""
        texts = {field: "".join(parts) or None for field, parts in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", **texts}
        if self._calls:
            message["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in self._calls.values()
            ]
        return message


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _complaint(data: bytes) -> str:
    """The message of an error."""
    answer = _decoded(data)
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    message = error.get("message") if isinstance(error, dict) else error
    return str(message) if message else data[:500].decode("utf-8", "replace").strip()
