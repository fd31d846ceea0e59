"""The protocols. Each reads its requests and makes the writers of its answers."""

from .agui import AguiProtocol
from .base import WireProtocol
from .chat import CandleProtocol, ChatProtocol, MindieProtocol, TraceProtocol
from .completions import CompletionsProtocol
from .messages import MessagesProtocol
from .responses import ResponsesProtocol

__all__ = [
    "AguiProtocol", "CandleProtocol", "ChatProtocol", "CompletionsProtocol", "MessagesProtocol", "MindieProtocol",
    "ResponsesProtocol", "TraceProtocol", "WireProtocol",
]  # fmt: skip
