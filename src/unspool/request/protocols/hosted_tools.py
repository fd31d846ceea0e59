"""The tools of Responses that the server runs (``mcp``, ``code_interpreter``, ``web_search``), and their choice."""

from collections.abc import Collection
from typing import Any

from ...tools import Approval, ServerTool
from ..fields import Fields
from ..server_tools import WORDS, Named, Offer, OwnServer, ServerTools, names_of, read_bounds

_TYPES = ("mcp", *WORDS)


def hosted_labels(fields: Fields) -> Collection[str] | None:
    """The labels of the servers whose tools a request may use; ``None`` means any. Other fields are not checked."""
    tools = fields.raw.get("tools")
    named = [t for t in tools if isinstance(t, dict) and t.get("type") in _TYPES] if isinstance(tools, list) else []
    if any(t["type"] != "mcp" for t in named):
        return None
    return [t["server_label"] for t in named if isinstance(t.get("server_label"), str)]


def mcp_addresses(fields: Fields) -> list[OwnServer]:
    """The servers that a request names, with their addresses."""
    found = []
    for one in fields.objects("tools", ()):
        if one.raw.get("type") == "mcp" and one.has("server_url"):
            given = one.object("headers")
            headers = {name: given.text(name) for name in given.raw}
            if one.has("authorization"):
                headers["Authorization"] = f"Bearer {one.text('authorization')}"
            found.append(OwnServer(one.text("server_label"), one.text("server_url"), headers, one.path("server_url")))
    return found


def hosted_tools(fields: Fields, offer: Offer, tools: list[dict[str, Any]]) -> ServerTools | None:
    """The server's tools that a request names, beside the client's ``tools``."""
    bounds = read_bounds(fields)
    named = Named(offer, names_of(tools))
    for one in fields.objects("tools", ()):
        kind = one.raw.get("type")
        if kind != "mcp" and kind in _TYPES:
            named.word(kind)
        if kind != "mcp":
            continue
        for field in ("connector_id", "tunnel_id"):
            if one.has(field):
                raise one.wrong(field, "is not supported; name one of the server's tool servers with server_label")
        label = one.text("server_label")
        if not named.server(label, _approval(one, offer), _allowed(one), show=True):
            raise named.unknown(one, "server_label", label)
    return named.all(bounds)


def run_here(tools: ServerTools | None) -> set[str]:
    """The types of tools that the server runs for a request. ``mcp`` is one, or else refused."""
    kinds = set() if tools is None else {served.tool.kind for served in tools.tools.values()}
    return {"mcp", *(word for word, (kind, _) in WORDS.items() if kind in kinds)}


def _approval(tool: Fields, offer: Offer) -> Approval | None:
    """A request's rule for approvals. Without one, tools of the request's own servers need approval, as at OpenAI."""
    if not tool.has("require_approval"):
        own = any(t.server == tool.raw["server_label"] for t in offer.own.tools)
        return Approval(True) if own else None
    try:
        return Approval.read(tool.raw["require_approval"])
    except ValueError as error:
        raise tool.wrong("require_approval", str(error)) from None


def _allowed(tool: Fields) -> tuple[str, ...] | None:
    """The tools' own names that a request allows; ``None`` means all."""
    if not tool.has("allowed_tools"):
        return None
    if not isinstance(tool.raw["allowed_tools"], dict):
        return tool.texts("allowed_tools", 1024)
    names = tool.object("allowed_tools")
    if names.has("read_only"):
        raise names.wrong("read_only", "is not supported; allowed is tool_names")
    return names.texts("tool_names", 1024)


def hosted_choice(fields: Fields, tools: ServerTools | None) -> Any:
    """``tool_choice`` in the form of chat completions. An entry for the server's tools becomes their names."""
    choice = fields.raw.get("tool_choice")
    if not isinstance(choice, dict) or tools is None:
        return choice
    if choice.get("type") in _TYPES:
        return {"type": "allowed_tools", "mode": "required", "tools": _names(choice, tools)}
    listed = choice.get("tools")
    if choice.get("type") != "allowed_tools" or not isinstance(listed, list):
        return choice
    ours = [isinstance(one, dict) and one.get("type") in _TYPES for one in listed]
    names = [_names(one, tools) if own else [one] for one, own in zip(listed, ours, strict=True)]
    return {**choice, "tools": [name for each in names for name in each]}


def _names(choice: dict[str, Any], tools: ServerTools) -> list[dict[str, Any]]:
    """The tools that an entry of the choice names."""

    def fits(tool: ServerTool) -> bool:
        if choice["type"] != "mcp":
            return tool.kind == WORDS[choice["type"]][0]
        return tool.server == choice.get("server_label") and choice.get("name") in (None, tool.original)

    return [{"type": "function", "name": name} for name, one in tools.tools.items() if fits(one.tool)]
