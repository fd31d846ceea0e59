"""Targets: an MCP server is at an address, or is a program to start."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """Where a server listens: tried in turn until one answers.

    Attributes:
        tries: transports (``http``: streamable HTTP, ``sse``: that of old servers) and URLs.
        headers: sent with each request.
        public: a request named it: https and public addresses alone.
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
