"""The request sides of the protocols, each beside the writer of its answers."""

from .agui import AguiProtocol
from .base import Protocol, Result
from .chat import CandleProtocol, ChatProtocol, MindieProtocol
from .messages import MessagesProtocol
from .responses import ResponsesProtocol

__all__ = [
    "AguiProtocol",
    "CandleProtocol",
    "ChatProtocol",
    "MessagesProtocol",
    "MindieProtocol",
    "Protocol",
    "ResponsesProtocol",
    "Result",
]
