"""`Replay`: an engine that plays recorded outputs, with their cuts and their timing."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from .base import Delta, EngineError, Request
from .capture import Recording
from .media import MEDIA


class Replay:
    """Plays recordings.

    The first recording whose ``match`` occurs in a request's last message or prompt answers it. If there is none, the
    recordings without a ``match`` answer in turn. Each choice is a separate request.

    Args:
        recordings: at least one.
        speed: how much faster than recorded; 0 means as fast as possible.

    Raises:
        ValueError: there are no recordings, or the speed is negative.
    """

    tokenizer: Any = None
    media = MEDIA

    def __init__(self, recordings: Sequence[Recording], speed: float = 1.0) -> None:
        if not recordings:
            raise ValueError("recordings: at least one is needed")
        if speed < 0:
            raise ValueError(f"speed: must be at least 0, not {speed}")
        self._matching = [(r.asked.match, r) for r in recordings if r.asked.match is not None]
        self._in_order = [r for r in recordings if r.asked.match is None]
        self._next = 0
        self._speed = speed

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Play the recording that answers a request.

        Raises:
            EngineError: no recording answers it, or the recorded engine failed here.
        """
        recording = self._choose(request)
        clock = asyncio.get_running_loop().time
        began = clock()

        async def until(at: float) -> None:
            # Even without a wait, other tasks get their turn, as with any other engine.
            await asyncio.sleep(began + at / self._speed - clock() if self._speed and at else 0)

        for at, delta in recording.pieces:
            await until(at)
            yield delta
        if recording.error is not None:
            at, message, status = recording.error
            await until(at)
            raise EngineError(message, status)

    def _choose(self, request: Request) -> Recording:
        asked = _last_words(request) if self._matching else ""
        for match, recording in self._matching:
            if match in asked:
                return recording
        if not self._in_order:
            raise EngineError("no recording matches the request", 404)
        recording = self._in_order[self._next % len(self._in_order)]
        self._next += 1
        return recording

    async def health(self) -> None:
        """Recordings are always available."""

    async def close(self) -> None:
        """There is nothing to close."""


def _last_words(request: Request) -> str:
    """The text of the last message, and the prompt."""
    content: Any = request.messages[-1].get("content") if request.messages else ""
    if isinstance(content, list):
        content = "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    prompt = request.prompt if isinstance(request.prompt, str) else ""
    return f"{content or ''}\n{prompt}"
