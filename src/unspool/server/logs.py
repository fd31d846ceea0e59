"""Logs: for people or as JSON lines, and the access log, a line for each answered request."""

import json
import logging
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..wire.encoding import CONTROLS

access: Final = logging.getLogger("unspool.access")
_LONGEST: Final = 2048  # the longest path in the access log, in characters
_MORE: Final = (9, 10, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SPELLED: Final = CONTROLS | {c: ascii(chr(c))[1:-1] for c in _MORE}
"""How logs spell controls: also tabs, line ends and changes of direction, with which a text could forge lines."""


def set_up_logs(form: str, level: str) -> None:
    """Write the logs of this process, from this level on, to standard error, as ``text`` or ``json``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else LineFormatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class LineFormatter(logging.Formatter):
    """A line for each record, whatever clients, models and engines have said; a traceback follows, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_SPELLED)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {line.translate(_SPELLED)}" for line in lines)


class JsonLines(logging.Formatter):
    """A JSON object on a line for each record: ``time`` (UTC), ``level``, ``logger``, ``message``, ``process``.

    Further fields are the record's ``fields``, such as those of the access log, and ``exception``, a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.process is not None:
            line["process"] = record.process
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class AccessLog:
    """An ASGI application that logs each request of another one, when its answer ends or its client disconnects."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status, size, id, whole = 0, 0, "", False

        async def sending(message: Message) -> None:
            nonlocal status, size, id, whole
            if message["type"] == "http.response.start":
                status = message["status"]
                id = next((v.decode("latin-1") for k, v in message["headers"] if k.lower() == b"x-request-id"), "")
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                whole = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            client = scope.get("client")
            fields = {
                "client": f"{client[0]}:{client[1]}" if client else "",
                "method": scope["method"],
                "path": scope["path"][:_LONGEST],
                "status": status,
                "complete": whole,
                "bytes": size,
                "seconds": round(time.monotonic() - began, 4),
                "request_id": id,
            }
            access.info("%s", _line(fields), extra={"fields": fields})


def _line(fields: dict[str, Any]) -> str:
    """The log line of a request; everything that the client chose is quoted."""
    path = json.dumps(fields["path"])
    cut = "" if fields["complete"] else " (cut)"
    access = f"{fields['client']} {fields['method']} {path} {fields['status']}{cut} {fields['bytes']} B"
    return f"{access} {fields['seconds']:.3f} s {fields['request_id'] or '-'}"
