"""The protocols. Each reads its requests and makes the writers of its answers."""

from .agui import AguiProtocol
from .base import WireProtocol
from .chat import CandleProtocol, ChatProtocol, MindieProtocol
from .completions import CompletionsProtocol
from .messages import MessagesProtocol
from .responses import ResponsesProtocol
from .trace import TraceProtocol

__all__ = [
    "AguiProtocol", "CandleProtocol", "ChatProtocol", "CompletionsProtocol", "MessagesProtocol", "MindieProtocol",
    "ResponsesProtocol", "TraceProtocol", "WireProtocol",
]  # fmt: skip
