"""The command ``chat``: a conversation in the terminal, with an engine or with a server of chat completions."""

import argparse
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import msgspec

from ..events import ContentDelta, Event, Finish, ReasoningDelta, ToolCallDelta, ToolCallStart
from ..message import fold
from ..wire.encoding import CONTROLS
from .common import Misuse, needing, read_key, read_tool_choice, write, write_json
from .generate import EngineAnswer, request_arguments, request_body
from .local import is_local
from .model import OpenedModel, model_arguments, name_engine, open_model
from .parse import shower
from .tools import tools_of

_ROUNDS: Final = 32  # of calls, before the user must answer
_HELP: Final = """\
/undo forgets the last turn, /clear all turns; /messages shows the conversation as JSON, /save FILE writes it.
/quit ends, like Ctrl-D; Ctrl-C stops an answer. A line that ends with \\ continues on the next one.
"""


def chat_arguments(p: argparse.ArgumentParser) -> None:
    text = "a server of chat completions, such as http://127.0.0.1:8192; default: an engine, see --engine"
    p.add_argument("url", metavar="URL|MODEL.gguf", nargs="?", help=text)
    p.add_argument("--api-key", metavar="KEY|@FILE", help="the key of the server at URL")
    model_arguments(p.add_argument_group("model and engine"))
    request_arguments(p)
    text = 'MCP servers whose tools run here: {"mcpServers": {"NAME": {…}}}'
    p.add_argument("--mcp-config", metavar="FILE", help=text)
    p.add_argument("--yes", action="store_true", help="run the tools of MCP servers without asking")


def run_chat(options: argparse.Namespace) -> int:
    """Talk until the input ends. The exit code is 1 if the input is not a terminal and a turn failed."""
    if options.url is not None and is_local(options.url):
        name_engine(options, options.url)
        options.url = None
    if options.url is not None:
        if options.engine is not None:
            raise Misuse("--engine: cannot be combined with URL")
        if not options.url.startswith(("http://", "https://")):
            raise Misuse(f"{options.url!r} is not like http://host:port")
    options.api_key = read_key("--api-key", options.api_key)
    body = request_body(options)
    model = open_model(options) if options.url is None else None
    import asyncio  # slow to import

    with needing("server,mcp"), asyncio.Runner() as runner:
        chat = _Chat(options, runner, model, body)
        with contextlib.closing(chat):
            chat.open_tools()
            return chat.run()


class _Chat:
    """A conversation with an engine's model, or, without one, with the server at ``URL``."""

    def __init__(self, options: Any, runner: Any, model: OpenedModel | None, body: dict[str, Any]) -> None:
        self._options, self._runner, self._model, self._body = options, runner, model, body
        self._messages: list[dict[str, Any]] = list(body["messages"])
        self._tools: Any = None
        self._session: Any = None
        self._known: dict[str, Any] = {}
        self._failed = False

    def open_tools(self) -> None:
        """Connect to the MCP servers of ``--mcp-config``, and declare their tools."""
        if (config := self._options.mcp_config) is None:
            return
        self._tools = tools_of("--mcp-config", config, mcp_config=Path(config))
        listing = self._runner.run(self._tools.list_tools())
        for name, fault in listing.failures.items():
            raise Misuse(f"--mcp-config: {name}: {fault}")
        self._known = {tool.name: tool for tool in listing.tools}
        self._session = self._tools.session()
        self._body["tools"] = [*self._body.get("tools", ()), *(dict(tool.definition) for tool in listing.tools)]
        self._body["tool_choice"] = read_tool_choice(self._options.tool_choice, self._body["tools"])

    def close(self) -> None:
        """End the engine, and the connections and children of MCP servers."""
        for part in (self._session, self._tools):
            if part is not None:
                self._runner.run(part.aclose())
        if self._model is not None:
            self._runner.run(self._model.engine.close())

    def run(self) -> int:
        if terminal := sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  # gives `input` its editing and history
            settings = self._model and self._model.settings
            name = f"{settings.model} (dialect {settings.dialect.name})" if settings else self._options.url
            write(f"{name}; /help lists the commands, Ctrl-D ends\n")
        while (line := _line()) is not None and line != "/quit":
            if line.startswith("/"):
                self._command(*line.partition(" ")[::2])
            elif line.strip():
                self._turn(line)
        if terminal:
            write("\n")
        return 1 if self._failed and not terminal else 0

    def _command(self, command: str, rest: str) -> None:
        if command == "/messages":
            write_json(self._messages)
        elif command == "/undo":
            while len(self._messages) > len(self._body["messages"]) and self._messages.pop()["role"] != "user":
                pass
        elif command == "/clear":
            self._messages = list(self._body["messages"])
        elif command == "/save" and rest.strip():
            try:
                text = msgspec.json.format(msgspec.json.encode(self._messages), indent=2)
                Path(rest.strip()).write_bytes(text + b"\n")
            except OSError as error:
                self._tell(f"/save: {error}")
        elif command == "/help":
            write(_HELP)
        else:
            self._tell(f"there is no command {command}; /help lists them")

    def _turn(self, text: str) -> None:
        """One turn: the user's message, the calls, and the answer. A turn that fails is forgotten."""
        from ..engines import EngineError

        before = len(self._messages)
        self._messages.append({"role": "user", "content": text})
        try:
            for _ in range(_ROUNDS):
                said = self._runner.run(self._ask({**self._body, "messages": self._messages}))
                self._messages.append(said)
                calls = said.get("tool_calls") or ()
                if not calls:
                    return
                self._messages += [self._result(call["id"], **call["function"]) for call in calls]
            self._tell(f"{_ROUNDS} rounds of calls; say how to go on")
            return
        except (EngineError, Misuse) as error:
            self._tell(str(error))
        except (KeyboardInterrupt, EOFError):
            print("\nunspool chat: ended; this turn is forgotten", file=sys.stderr, flush=True)
        del self._messages[before:]

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat completions request, which is shown as it arrives, as a message."""
        show, found = shower("pretty"), list[Event]()
        stream = _from_server(self._options, body) if self._model is None else EngineAnswer(self._model, body).pieces()
        async with contextlib.aclosing(stream):
            async for _, events in stream:
                show(events)
                found += events
        return fold(found).to_openai()

    def _result(self, id: str, name: str, arguments: str) -> dict[str, Any]:
        """The message with a call's result, which comes from an MCP server's tool or from the user."""
        tool = self._known.get(name)
        if tool is None:
            text = _asked(f"result of {_plain(name)}: ")
        else:
            text, run = "The user did not allow this call.", _plain(f"run {name}({arguments})? [y/N] ")
            if self._options.yes or (sys.stdin.isatty() and _asked(run).strip().lower() in ("y", "yes")):
                text = str(self._runner.run(self._session.call(tool, arguments)).text)
            write(f"{'result':<11}{_plain(text)}\n")
        return {"role": "tool", "tool_call_id": id, "content": text}

    def _tell(self, text: str) -> None:
        self._failed = True
        print(f"unspool chat: {_plain(text)}", file=sys.stderr, flush=True)


def _line() -> str | None:
    """The user's next message; ``None`` at the end of the input."""
    text = None
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        text = _asked("> ")
        while text.endswith("\\"):
            text = text[:-1] + "\n" + _asked("  ")
    return text


def _asked(prompt: str) -> str:
    return input(prompt if sys.stdin.isatty() else "")


def _plain(text: str) -> str:
    return text.translate(CONTROLS).encode("utf-8", "replace").decode()


async def _from_server(options: Any, body: dict[str, Any]) -> AsyncGenerator[tuple[Any, list[Event]], None]:
    """The chunks of an answer from the server at ``URL``, each with its events. Offsets are unknown, and 0."""
    import aiohttp

    from ..engines import EngineError
    from ..engines.upstream.answers import complaint
    from ..engines.upstream.client import why_unconnected
    from ..engines.upstream.sse import Events

    url = options.url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=600)  # seconds, since a large prompt takes long
    try:
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as http:
            if options.model is None:
                async with http.get(url + "/v1/models") as listing:
                    options.model = (await listing.json())["data"][0]["id"] if listing.status == 200 else "default"
            asked = {**body, "model": options.model, "stream": True}
            async with http.post(url + "/v1/chat/completions", json=asked) as response:
                if response.status != 200:
                    raise EngineError(f"{response.status}: {complaint(await response.json(content_type=None))[0]}")
                frames, begun, finished = Events(), dict[Any, int](), False
                async for data in response.content.iter_any():
                    for frame in filter(lambda f: f != b"[DONE]", frames.feed(data)):
                        chunk = msgspec.json.decode(frame)
                        if chunk.get("error"):
                            raise EngineError(f"the server failed: {complaint(chunk)[0]}")
                        yield chunk, (events := _events(chunk, begun))
                        finished = finished or any(isinstance(event, Finish) for event in events)
                if not finished:
                    raise EngineError("the server ended its stream early")
    except aiohttp.ClientConnectorError as error:
        raise EngineError(f"{options.url}: {why_unconnected(error)}") from None
    except (aiohttp.ClientError, OSError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise EngineError(f"{options.url}: {str(error) or type(error).__name__}") from None


def _events(chunk: dict[str, Any], begun: dict[Any, int]) -> list[Event]:
    """The events of a chunk. ``begun``: the calls so far, by the server's index."""
    choice = (chunk.get("choices") or [{}])[0]
    delta, events = choice.get("delta") or {}, list[Event]()
    if text := delta.get("reasoning_content") or delta.get("reasoning"):
        events.append(ReasoningDelta(str(text), 0, 0))
    if text := delta.get("content"):
        events.append(ContentDelta(str(text), 0, 0))
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        if (key := call.get("index")) not in begun:
            at = begun[key] = len(begun)
            events.append(ToolCallStart(at, str(call.get("id") or f"call_{at}"), str(function.get("name") or ""), 0, 0))
        if text := function.get("arguments"):
            events.append(ToolCallDelta(begun[key], str(text), 0, 0))
    if reason := choice.get("finish_reason"):
        events.append(Finish(str(reason), 0, 0))
    return events
