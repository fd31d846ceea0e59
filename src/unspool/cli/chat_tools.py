"""Tools of MCP servers, which ``chat`` runs itself."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .common import Misuse, missing


class Toolbox:
    """The tools of MCP servers. Without a configuration there are none.

    Args:
        runner: runs coroutines.
        config: the file that lists the servers.
        ask: decides from a call's tool and arguments whether it may run; with ``None``, every call may.

    Attributes:
        definitions: the tools, in the form of chat completions.

    Raises:
        Misuse: the configuration cannot be used, or a server cannot be reached.
    """

    def __init__(
        self, runner: asyncio.Runner, config: str | None, ask: Callable[[str, str], bool] | None = None
    ) -> None:
        self._runner = runner
        self._ask = ask
        self._tools: Any = None
        self._session: Any = None
        self._known: dict[str, Any] = {}
        self.definitions: list[Any] = []
        if config is None:
            return
        if find_spec("unspool.tools") is None:
            raise Misuse("--mcp-config: this unspool has no client for MCP servers")
        try:
            self._tools = import_module("unspool.tools").Tools.from_flags(mcp_config=Path(config))
            listing = runner.run(self._tools.list_tools())
        except ImportError as error:
            raise missing(error, "mcp") from None
        except (ValueError, OSError) as error:
            raise Misuse(f"--mcp-config: {config}: {getattr(error, 'strerror', None) or error}") from None
        if listing.failures:
            self.close()
            raise Misuse(f"--mcp-config: {'; '.join(f'{k}: {v}' for k, v in listing.failures.items())}")
        self._known = {tool.name: tool for tool in listing.tools}
        self.definitions = [dict(tool.definition) for tool in listing.tools]
        self._session = self._tools.session()

    def call(self, name: str, arguments: str) -> str | None:
        """The result of a call; ``None`` if the tool is not one of these."""
        tool = self._known.get(name)
        if tool is None:
            return None
        if self._ask is not None and not self._ask(name, arguments):
            return "The user did not allow this call."
        result = self._runner.run(self._session.call(tool, arguments))
        return str(result.text)

    def close(self) -> None:
        """End the servers' connections and children."""
        if self._session is not None:
            self._runner.run(self._session.aclose())
        if self._tools is not None:
            self._runner.run(self._tools.aclose())
        self._session = self._tools = None
