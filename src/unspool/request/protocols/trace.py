"""Traces for the explain page: chat completions whose answers explain how they were parsed."""

from collections.abc import Collection

from ...wire import trace as wire
from ..chat_request import ChatRequest
from ..fields import Fields
from ..server_tools import NOTHING, Offer
from .chat import ChatProtocol


class TraceProtocol(ChatProtocol):
    """Requests of chat completions with one choice. Answers are always streamed."""

    id_prefix = "trace-"
    error_body = staticmethod(wire.error_body)

    def servers(self, fields: Fields) -> Collection[str] | None:
        """No server: a trace shows a single output with its calls."""
        return ()

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        if fields.raw.get("n") not in (None, 1):
            raise fields.wrong("n", "must be 1: a trace shows one choice")
        fields.raw["stream"] = True
        return super().read(fields, offer)

    def writer(self, request: ChatRequest, id: str, created: int) -> wire.TraceWriter:  # type: ignore[override]
        return wire.TraceWriter()
