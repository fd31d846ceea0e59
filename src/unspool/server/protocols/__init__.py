"""The request sides of the protocols, each beside the writer of its answers."""

from .base import Protocol, Result
from .chat import CandleProtocol, ChatProtocol, MindieProtocol

__all__ = ["CandleProtocol", "ChatProtocol", "MindieProtocol", "Protocol", "Result"]
