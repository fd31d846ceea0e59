"""A server that writes scripted outputs at vLLM's endpoint, over real sockets, for the engine `Upstream`."""

import codecs
import socket
import zlib
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from ..generation import EOS
from ..upstream.support import STREAM, Asked, Connection, Fake, chunk, event

CONTEXT: Final = 20_000
_PADDING: Final = b":" + b" " * 4000 + b"\n"
"""A comment in every event, so that a few events fill the client's buffers, whose size is not set here."""
_WORDS: Final = ("stone", "größe", "river", "œuvre", "lamp", "日本", "leaf", "north")


def written(prompt: str) -> Iterator[int]:
    """The bytes of the output after a prompt: words that depend on all of it. It ends after thirty words, unless the
    prompt begins with an exclamation mark."""
    for i in count() if prompt.startswith("!") else range(30):
        yield from f"{_WORDS[zlib.crc32(f'{prompt}{i}'.encode()) % len(_WORDS)]}{i} ".encode()


class Completions(Fake):
    """The server. Each byte is a token.

    Attributes:
        tokens: the number of tokens so far.
        answering: how many answers are being written.
        fail_after: after how many more tokens it fails, once.
    """

    def __init__(self) -> None:
        super().__init__("vllm", self._complete)
        self.context = CONTEXT
        self.tokens = self.answering = 0
        self.fail_after: int | None = None

    async def _complete(self, connection: Connection, asked: Asked) -> None:
        prompt, limit = asked.body["prompt"], asked.body["max_tokens"]
        if not 0 < len(prompt) < CONTEXT:
            message = f"The prompt (length {len(prompt)}) is empty, or leaves no room."
            await connection.json({"error": {"message": message, "code": 400}}, 400)
            return
        # What the server's side of a socket holds is small, and it stops writing as soon as that is full.
        connection.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        connection.writer.transport.set_write_buffer_limits(0)
        self.answering += 1
        try:
            await self._write(connection, prompt, limit)
        finally:
            self.answering -= 1

    async def _write(self, connection: Connection, prompt: str, limit: int) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        told, ended = 0, True
        for token in written(prompt):
            if self.fail_after == 0:
                self.fail_after = None
                failure = {"error": {"message": "the device is lost", "code": 500}}
                await (connection.send(chunk(event(failure))) if told else connection.json(failure, 500))
                return
            self.fail_after = self.fail_after and self.fail_after - 1
            self.tokens += 1
            told += 1
            ended = told < limit
            text = decoder.decode(bytes([token]), final=not ended)
            if told == 1:
                await connection.send(STREAM)
            await connection.send(chunk(_told(text, token, None if ended else "length")))
            if not ended:
                break
        if ended:
            await connection.send(chunk(_told("", EOS, "stop")))
        counts = {"prompt_tokens": len(prompt.encode()), "completion_tokens": told + ended}
        await connection.send(chunk(event({"choices": [], "usage": counts})), chunk(event(b"[DONE]")), b"0\r\n\r\n")


def _told(text: str, token: int, reason: str | None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": reason, "token_ids": [token]}
    return _PADDING + event({"choices": [choice]})
