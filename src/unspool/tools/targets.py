"""The targets of MCP: an address where a server listens, or a program to start."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """The addresses of a server, tried in order until one answers.

    Attributes:
        tries: pairs of a transport (``http`` is streamable HTTP, ``sse`` that of old servers) and a URL.
        headers: sent with each request.
        public: whether a request named it: then only https and public addresses are allowed.
    """

    tries: tuple[tuple[Literal["http", "sse"], str], ...]
    headers: Mapping[str, str] = {}
    public: bool = False


class Program(msgspec.Struct, frozen=True):
    """A server that is started as a child process.

    Attributes:
        command, args: the command to run, without a shell.
        env: its environment, besides `stdio.INHERITED`.
        cwd: the folder in which it runs; ``None`` means the server's.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
