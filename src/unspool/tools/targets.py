"""The targets of MCP: an address where a server listens, or a program to start."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Target(msgspec.Struct, frozen=True):
    """The addresses of a server, tried in order until one answers: pairs of a transport (``http`` is streamable HTTP,
    ``sse`` that of old servers) and a URL. If a request named it (``public``), only https and public addresses are
    allowed."""

    tries: tuple[tuple[Literal["http", "sse"], str], ...]
    headers: Mapping[str, str] = {}
    public: bool = False


class Program(msgspec.Struct, frozen=True):
    """A server that is started as a child process, without a shell, with these environment variables besides those of
    `stdio.INHERITED`."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
