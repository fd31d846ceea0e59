"""Tool servers that a request itself names: refused unless the operator allows them, and kept to public addresses."""

from collections.abc import Sequence

from ..request.fields import BadRequest
from ..request.server_tools import OwnServer
from ..request.settings import Settings
from ..tools import Tools, ToolServer


def own_tools(settings: Settings, asked: Sequence[OwnServer], operators: Tools) -> Tools:
    """The servers of a request, besides the operator's; nothing is connected to yet.

    Raises:
        BadRequest: the operator does not allow them, or an address is not https.
    """
    servers: list[ToolServer] = []
    for one in asked:
        if one.label in operators.servers:
            continue
        if not settings.own_servers:
            known = ", ".join(operators.servers) or "none: the server has no tools"
            text = f"tool servers of requests are not allowed here; allowed are those of the server: {known}"
            raise BadRequest(one.field, text)
        servers.append(_connected(one))
    return Tools(servers)


def _connected(asked: OwnServer) -> ToolServer:
    raise NotImplementedError
