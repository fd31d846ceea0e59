"""The arguments of tools that the server runs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .common import Container, Misuse, blaming, needing

if TYPE_CHECKING:
    from ..tools import Tools


def tools_arguments(p: Container) -> None:
    from ..tools import ToolLimits

    limits = ToolLimits()
    text = "tools that the server runs: demo (browser, python), or MCP servers as host:port or [NAME=]URL, with commas"
    p.add_argument("--tool-server", metavar="demo|LIST", help=text)
    p.add_argument("--mcp-config", metavar="FILE", type=Path, help='MCP servers as {"mcpServers": {"NAME": {…}}}')
    text = "whether a person must allow a tool's calls: never (default), always, or the tools' names, with commas"
    p.add_argument("--tool-approval", metavar="RULE", default="never", help=text)
    text = "where demo runs Python: monty (default), or none"
    p.add_argument("--sandbox", metavar="NAME", choices=("monty", "none"), default="monty", help=text)
    text = "a host that demo's browser may read: HOST, HOST:PORT, *.HOST or * (repeatable); default: none"
    p.add_argument("--browser-host", metavar="HOST", action="append", default=[], help=text)
    p.add_argument(
        "--browser-private", action="store_true", help="allow these hosts to have addresses that are not public"
    )
    p.add_argument(
        "--search-provider", metavar="URL", help="where demo's browser searches: a URL with SearXNG's interface"
    )
    for field, text in (("time", "seconds for one call of a tool"), ("output", "characters of a tool's result")):
        default = getattr(limits, field)
        shown = f"{text}; default: {default:,.12g}"
        p.add_argument(f"--tool-{field}", metavar="N", type=type(default), default=default, help=shown)


def open_tools(options: argparse.Namespace) -> "Tools | None":
    """The tools that the arguments name; ``None`` if they name none. No server is connected to yet."""
    if options.tool_server is None and options.mcp_config is None:
        return None
    from ..tools import Approval, ToolLimits, Tools

    try:
        limits = ToolLimits(time=options.tool_time, output=options.tool_output)
    except ValueError as error:
        raise Misuse(f"--tool-{error}") from None
    rule = options.tool_approval
    named = frozenset(filter(None, map(str.strip, rule.split(","))))
    approval = Approval(rule == "always") if rule in ("never", "always") else Approval(always=named)
    if options.sandbox != "none" and "demo" in (options.tool_server or "").split(","):
        from ..tools.interpreter import InterpreterError, monty

        with blaming(f"--sandbox: {options.sandbox}", None, InterpreterError):
            monty(limits)
    given = {"tool_server": options.tool_server, "mcp_config": options.mcp_config}
    servers: list[Any] = []
    for name, value in given.items():
        if value is not None:
            opened = tools_of(
                f"--{name.replace('_', '-')}",
                value,
                **{name: value},
                limits=limits,
                approval=approval,
                python=options.sandbox != "none",
                hosts=options.browser_host,
                private=options.browser_private,
                search=options.search_provider,
            )
            servers += opened.servers.values()
    with blaming("--tool-server, --mcp-config", None, ValueError):
        return Tools(servers, approval)


def tools_of(argument: str, value: Any, **settings: Any) -> "Tools":
    """The tools that an argument names; ``settings`` are those of `Tools.from_flags`."""
    try:
        with needing("browser" if value == "demo" else "mcp"):
            from ..tools import Tools

            return Tools.from_flags(**settings)
    except (ValueError, OSError) as error:
        raise Misuse(f"{argument}: {value}: {getattr(error, 'strerror', None) or error}") from None
