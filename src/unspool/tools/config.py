"""The configuration of MCP servers: a list of addresses, or a file in the format that most MCP clients share."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from .base import Approval, ToolLimits, log
from .targets import Program, Target

if TYPE_CHECKING:
    from .mcp import MCPToolServer

_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TYPES: Final = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_KEYS: Final = (
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "disabled",
    "require_approval",
    "allowed_tools",
    "timeout",
)
_LARGEST: Final = 1_048_576  # the most bytes of a configuration file


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


def _server(label: str, entry: object, limits: ToolLimits) -> "MCPToolServer | None":
    """One server of a file; ``None`` if it is disabled."""
    if not _LABEL.fullmatch(label):
        raise ValueError(f"the label {label[:100]!r} must have 1 to 64 letters, digits, _ and -")
    if not isinstance(entry, dict):
        raise ValueError("must be an object")
    for key in entry.keys() - set(_KEYS):
        log.warning("mcpServers.%s.%s: is unknown and ignored; allowed are %s", label, key, ", ".join(_KEYS))
    if _typed(entry, "disabled", bool, False):
        return None
    if ("command" in entry) == ("url" in entry):
        raise ValueError("must have either command or url")
    kind = _typed(entry, "type", str, "stdio" if "command" in entry else "")
    if kind and kind not in _TYPES:
        raise ValueError(f"type: {kind!r} is not one of {', '.join(_TYPES)}")
    kind = _TYPES.get(kind, "")
    if (kind == "stdio") != ("command" in entry):
        raise ValueError(f"type: {entry['type']!r} does not fit {'command' if 'command' in entry else 'url'}")
    target = _program(entry) if kind == "stdio" else _endpoint(entry, kind)
    approval = None
    if "require_approval" in entry:
        try:
            approval = Approval.read(entry["require_approval"])
        except ValueError as error:
            raise ValueError(f"require_approval: {error}") from None
    allowed = frozenset(_strings(entry, "allowed_tools")) if "allowed_tools" in entry else None
    seconds = entry.get("timeout", limits.time)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ValueError("timeout: must be a number of seconds, more than 0")
    limits = msgspec.structs.replace(limits, time=float(seconds))
    return _opened(label, target, limits, approval, allowed)


def _program(entry: Mapping[str, Any]) -> Program:
    command = _expanded(_typed(entry, "command", str, ""))
    if not command:
        raise ValueError("command: is empty")
    cwd = _expanded(_typed(entry, "cwd", str, "")) or None
    return Program(command, tuple(_strings(entry, "args")), _table(entry, "env"), cwd)


def _endpoint(entry: Mapping[str, Any], kind: str) -> Target:
    url = _expanded(_typed(entry, "url", str, ""))
    _check_url(url)
    kinds: tuple[Literal["http", "sse"], ...] = ("http",) if kind == "http" else ("sse",) if kind else ("http", "sse")
    return Target(tuple((kind, url) for kind in kinds), _table(entry, "headers"))


def _typed(entry: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = entry.get(key, default)
    if not isinstance(value, kind):
        raise ValueError(f"{key}: must be a {'boolean' if kind is bool else 'string'}")
    return value


def _strings(entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key}: must be a list of strings")
    return [_expanded(item) for item in value]


def _table(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"{key}: must be an object of strings")
    return {name: _expanded(item) for name, item in value.items()}


def _expanded(text: str) -> str:
    """The text with its variables filled in."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in os.environ:
            return os.environ[name]
        if default is None:
            raise ValueError(f"${{{name}}}: the environment has no such variable")
        return default

    return _VARIABLE.sub(value, text)
