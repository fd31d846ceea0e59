"""The configuration of MCP servers: a list of addresses, or a file in the format that most MCP clients share."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from ..validation import converted
from .base import Approval, ToolLimits, log
from .targets import Program, Target

if TYPE_CHECKING:
    from .mcp import MCPToolServer

_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TYPES: Final[dict[str, tuple[Literal["http", "sse"], ...]]] = {
    "": ("http", "sse"),
    "stdio": (),
    **dict.fromkeys(("http", "streamable-http", "streamable_http", "streamableHttp"), ("http",)),
    "sse": ("sse",),
}
"""The types of servers, with the transports by which an address is tried."""
_LARGEST: Final = 1_048_576  # the most bytes of a configuration file


class _Entry(msgspec.Struct):
    """A server in a configuration file."""

    type: str = ""
    command: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    require_approval: Any = "never"
    allowed_tools: frozenset[str] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


def _opened(
    label: str,
    target: Target | Program,
    limits: ToolLimits,
    approval: Approval | None = None,
    allowed: frozenset[str] | None = None,
) -> "MCPToolServer":
    from .mcp import MCPToolServer  # takes seconds to import, and needs an extra

    return MCPToolServer(label, target, limits=limits, approval=approval, allowed=allowed)


def read_list(value: str, limits: ToolLimits) -> "list[MCPToolServer]":
    """The servers of a list of ``host:port`` addresses or URLs, separated by commas, each maybe with a label before it,
    such as ``localhost:8001,docs=https://example.com/mcp``. A `ValueError` says which entry is wrong, and what is
    allowed."""
    found = []
    for entry in filter(None, map(str.strip, value.split(","))):
        label, equals, address = entry.partition("=")
        if not equals or not _LABEL.fullmatch(label):
            label, address = "", entry
        target = _listed(address)
        label = label or re.sub(r"[^A-Za-z0-9_-]+", "_", urlsplit(target.tries[0][1]).netloc)[:64]
        found.append(_opened(label, target, limits))
    if not found:
        raise ValueError("names no server; allowed are demo, host:port and URLs, separated by commas")
    return found


def _listed(address: str) -> Target:
    if "://" in address:
        _check_url(address)
        return Target((("http", address), ("sse", address)))
    _check_url(f"http://{address}/")
    if urlsplit(f"http://{address}/").port is None or urlsplit(f"http://{address}/").path != "/":
        raise ValueError(f"{address!r} is neither host:port nor a URL")
    return Target((("http", f"http://{address}/mcp"), ("sse", f"http://{address}/sse")))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{url!r} is not a URL of http or https")


def read_config(path: Path, limits: ToolLimits) -> "list[MCPToolServer]":
    """The servers of a file ``{"mcpServers": {"label": {"command": …} | {"url": …}}}``. In its strings, ``${NAME}`` and
    ``${NAME:-default}`` are environment variables. A `ValueError` says where the file is wrong, and what is allowed."""
    with path.open("rb") as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"has more than {_LARGEST:,} bytes")
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ValueError('must be {"mcpServers": {"label": {…}, …}}')
    found = []
    for label, entry in servers.items():
        try:
            server = _server(label, entry, limits)
        except ValueError as error:
            raise ValueError(f"mcpServers.{label}: {error}") from None
        if server is not None:
            found.append(server)
    return found


def _server(label: str, given: object, limits: ToolLimits) -> "MCPToolServer | None":
    """One server of a file; ``None`` if it is disabled."""
    if not _LABEL.fullmatch(label):
        raise ValueError(f"the label {label[:100]!r} must have 1 to 64 letters, digits, _ and -")
    allowed = _Entry.__struct_fields__
    for key in given.keys() - set(allowed) if isinstance(given, dict) else ():
        log.warning("mcpServers.%s.%s: is unknown and ignored; allowed are %s", label, key, ", ".join(allowed))
    entry = converted(_expanded(given), _Entry)
    if entry.disabled:
        return None
    if (entry.command is None) == (entry.url is None):
        raise ValueError("must have either command or url")
    kinds = _TYPES.get(entry.type)
    if kinds is None:
        raise ValueError(f"type: {entry.type!r} is not one of {', '.join(filter(None, _TYPES))}")
    if entry.type and bool(kinds) != (entry.url is not None):
        raise ValueError(f"type: {entry.type!r} does not fit {'command' if entry.url is None else 'url'}")
    target: Target | Program
    if entry.url is not None:
        _check_url(entry.url)
        target = Target(tuple((kind, entry.url) for kind in kinds), entry.headers)
    else:
        target = Program(entry.command or "", entry.args, entry.env, entry.cwd or None)
    try:
        approval = Approval.read(entry.require_approval)
    except ValueError as error:
        raise ValueError(f"require_approval: {error}") from None
    limits = msgspec.structs.replace(limits, time=entry.timeout or limits.time)
    return _opened(label, target, limits, approval, entry.allowed_tools)


def _expanded(value: Any) -> Any:
    """A value with the variables in its strings filled in."""
    if isinstance(value, dict):
        return {name: _expanded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner) for inner in value]
    return _VARIABLE.sub(_variable, value) if isinstance(value, str) else value


def _variable(found: re.Match[str]) -> str:
    text = os.environ.get(found[1], found[2])
    if text is None:
        raise ValueError(f"${{{found[1]}}}: the environment has no such variable")
    return text
