"""The built-in tools: a browser and Python, as one server."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from .base import ServerTool, ToolLimits, ToolResult, ToolServerError, ToolState, own_tool, refused
from .browser import Browser, browser_tools
from .fetch import Fetcher
from .interpreter import DESCRIPTION, Interpreter, InterpreterError, monty

_DESCRIPTION: Final = (
    f"Run code in {DESCRIPTION}. What it prints, and the value of its last expression, is the result. Names stay "
    "defined until the answer is complete. There are neither files nor network."
)


class DemoToolServer:
    """A browser and Python. Without a fetcher of pages, the browser is not offered; ``search`` is the URL of a search
    provider with SearXNG's API."""

    def __init__(
        self,
        fetcher: Fetcher | None,
        *,
        python: bool = False,
        search: str | None,
        limits: ToolLimits | None,
    ) -> None:
        self.label: Final = "demo"
        self.limits: Final = limits or ToolLimits()
        self.search: Final = search
        self.python: Final = python
        self.fetcher: Final = fetcher
        self.slots: Final = asyncio.Semaphore(self.limits.interpreters)
        """Limits how many interpreters run at once."""

    async def list_tools(self) -> Sequence[ServerTool]:
        tools: list[ServerTool] = []
        if self.fetcher is not None:
            tools += browser_tools(self.label)
        if self.python:
            try:
                monty(self.limits)
            except InterpreterError as error:
                raise ToolServerError(f"python cannot be run: {error}") from None
            tools.append(own_tool(self.label, "python", _DESCRIPTION, {"code": {"type": "string"}}, ["code"]))
        return tools

    def session(self) -> ToolState:
        return _DemoState(self)

    async def aclose(self) -> None:
        if self.fetcher is not None:
            await self.fetcher.aclose()


def _code(arguments: str) -> str | None:
    """The code of a call. Arguments that are not JSON are taken as the code: some models write it bare."""
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    code = read.get("code") if isinstance(read, dict) else read
    return code if isinstance(code, str) else None


class _DemoState:
    """See `ToolState`. Its interpreter and browser start when a call needs them."""

    def __init__(self, server: DemoToolServer) -> None:
        self._server = server
        self._browser: Browser | None = None
        self._interpreter: Interpreter | None = None
        self._opening = asyncio.Lock()

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        server = self._server
        if tool.kind == "browser" and server.fetcher is not None:
            if self._browser is None:
                self._browser = Browser(server.fetcher, server.search, server.limits)
            return await self._browser.call(tool, arguments)
        if tool.kind == "python" and server.python:
            code = _code(arguments)
            if code is None:
                return refused('The arguments must be {"code": …}, a text.')
            try:
                interpreter = await self._started()
            except TimeoutError:
                return refused("Too many interpreters run on this server at the moment.")
            except InterpreterError as error:
                return refused(f"Python cannot be run: {error}.")
            return await interpreter.run(code)
        return refused(f"There is no tool {tool.original!r}.")

    async def aclose(self) -> None:
        async with self._opening:
            interpreter, self._interpreter = self._interpreter, None
            if interpreter is not None:
                try:
                    await interpreter.aclose()
                finally:
                    self._server.slots.release()

    async def _started(self) -> Interpreter:
        async with self._opening:
            if self._interpreter is None:
                made = Interpreter(monty(self._server.limits), self._server.limits)
                async with asyncio.timeout(self._server.limits.time):
                    await self._server.slots.acquire()
                self._interpreter = made
            return self._interpreter
