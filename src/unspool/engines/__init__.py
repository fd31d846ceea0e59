"""Engines with a small common interface, and recordings of their outputs.

An engine takes a prompt and yields raw output, piece by piece. It knows nothing about dialects, protocols or parsers.
"""

from .base import Delta, Engine, EngineError, Request, Sampled, Sampling, Thinking, check_media
from .capture import Capture, Recording, read_recordings
from .media import Medium
from .replay import Replay

__all__ = [
    "Capture", "Delta", "Engine", "EngineError", "Medium", "Recording", "Replay", "Request", "Sampled", "Sampling",
    "Thinking", "check_media", "read_recordings",
]  # fmt: skip
