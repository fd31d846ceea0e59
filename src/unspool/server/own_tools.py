"""Tool servers that a request itself names: only if the operator allows them, and only at public addresses."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from ..request.fields import BadRequest
from ..request.server_tools import OwnServer
from ..request.settings import Settings
from ..tools import Tools, ToolServer

MOST_SERVERS = 16  # how many servers a request may name by address


def own_tools(settings: Settings, asked: Sequence[OwnServer], operators: Tools) -> Tools:
    """The servers that a request adds to the operator's; no connection is made yet. A label of the operator's means the
    operator's server, whatever the address. `BadRequest` if the operator does not allow them, an address is not https,
    or two have the same label."""
    own = [one for one in asked if one.label not in operators.servers]
    if own and not settings.own_servers:
        known = ", ".join(operators.servers) or "none: the server has no tools"
        text = f"tool servers of requests are not allowed here; allowed are those of the server: {known}"
        raise BadRequest(own[0].field, text)
    if len(own) > MOST_SERVERS:
        raise BadRequest(own[-1].field, f"{len(own)} tool servers; allowed are {MOST_SERVERS}")
    made = [_server(one) for one in own]
    try:
        Tools([*operators.servers.values(), *made])  # an answer may use all of them
        return Tools(made)
    except ValueError as error:
        raise BadRequest(own[-1].field, str(error)) from None


def _server(asked: OwnServer) -> ToolServer:
    try:
        parts = urlsplit(asked.url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme != "https":
        raise BadRequest(asked.field, "must be the https address of a tool server")
    try:
        from ..tools.mcp import MCPToolServer
        from ..tools.targets import Endpoint
    except ImportError:
        raise BadRequest(asked.field, "this server has no client for tool servers; install the extra mcp") from None
    return MCPToolServer(asked.label, Endpoint((("http", asked.url), ("sse", asked.url)), asked.headers, public=True))
