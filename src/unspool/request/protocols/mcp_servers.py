"""Anthropic's ``mcp_servers`` and their toolsets: which of the server's tools a Messages request may use."""

from typing import Any, Final

from ..fields import Fields
from ..server_tools import Named, Offer, OwnServer, ServerTools, names_of, read_bounds

BETA: Final = "mcp-client-"  # the prefix of the betas that Anthropic's clients need for MCP blocks


def mcp_labels(fields: Fields) -> list[str]:
    """The names of the servers that a request names. Other fields are not checked."""
    servers = fields.raw.get("mcp_servers")
    found = [s.get("name") for s in servers if isinstance(s, dict)] if isinstance(servers, list) else []
    return [name for name in found if isinstance(name, str)]


def mcp_servers(fields: Fields) -> list[OwnServer]:
    """The servers that a request names, with their addresses."""
    found = []
    for one in fields.objects("mcp_servers", ()):
        one.one_of("type", ("url",), "url")
        token = one.text("authorization_token", None)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        found.append(OwnServer(one.text("name"), one.text("url", ""), headers, one.path("url")))
    return found


def mcp_tools(fields: Fields, offer: Offer, tools: list[dict[str, Any]]) -> ServerTools | None:
    """The server's tools that a request may use beside the client's ``tools``, unless they need approval."""
    bounds = read_bounds(fields)
    servers = list(fields.objects("mcp_servers", ()))
    if not servers:
        return None
    if not any(beta.startswith(BETA) for beta in offer.betas):
        raise fields.wrong("mcp_servers", f"needs the header anthropic-beta with a beta of the name {BETA}…")
    named = Named(offer, names_of(tools))
    sets = [one for one in fields.objects("tools", ()) if one.raw.get("type") == "mcp_toolset"]
    for server in servers:
        label = server.text("name")
        config = server.object("tool_configuration")
        toolset = next((s for s in sets if s.text("mcp_server_name") == label), None)
        if not config.flag("enabled", True):
            continue
        allowed = config.texts("allowed_tools", 1024) if config.has("allowed_tools") else None
        if toolset is not None:
            allowed = _enabled(toolset, offer, label)
        if not named.server(label, allowed=allowed, approvals=False):
            raise named.unknown(server, "name", label)
    for one in sets:
        if one.text("mcp_server_name") not in mcp_labels(fields):
            raise one.wrong("mcp_server_name", "is not in mcp_servers")
    return named.all(bounds)


def _enabled(toolset: Fields, offer: Offer, label: str) -> tuple[str, ...]:
    """The own names of the enabled tools of a toolset."""
    default = toolset.object("default_config").flag("enabled", True)
    configs = toolset.object("configs")
    own = [tool.original for tool in offer.both.tools if tool.server == label]
    return tuple(name for name in own if configs.object(name).flag("enabled", default))
