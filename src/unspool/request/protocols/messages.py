"""The Messages protocol of Anthropic."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...validation import json_shown
from ...wire import MessagesWriter
from ...wire import messages as wire
from ..chat_request import ChatRequest
from ..client_tools import TYPES, client_tool
from ..common import bounded, call_of, check_messages, check_served, going_on, in_one, sampling, thinking, tool, toolset
from ..edits import ClearThinking, Edit, read_edits
from ..fields import REQUIRED, BadRequest, Fields
from ..parts.reading import MESSAGES as FORMS
from ..parts.reading import TEXT, read_part, read_parts
from ..reasoning import EFFORTS, Context, Reasoning, opened, read_budget
from ..sealed import Seal
from ..server_history import result_of, result_text, rounds
from ..server_tools import NOTHING, Named, Offer, OwnServer, ServerTools, names_of, read_bounds
from ..settings import Settings
from .base import WireProtocol

log = logging.getLogger("unspool.server")


class MessagesProtocol(WireProtocol):
    """Messages. An answer has one choice."""

    id_prefix = "msg_"
    error_body = staticmethod(wire.error_body)

    def servers(self, fields: Fields) -> Collection[str] | None:
        servers = fields.raw.get("mcp_servers")
        found = [s.get("name") for s in servers if isinstance(s, dict)] if isinstance(servers, list) else []
        return [name for name in found if isinstance(name, str)]

    def own_servers(self, fields: Fields) -> Sequence[OwnServer]:
        found = []
        for one in fields.objects("mcp_servers", ()):
            one.one_of("type", ("url",), "url")
            token = one.text("authorization_token", None)
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            found.append(OwnServer(one.text("name"), one.text("url", ""), headers, one.path("url")))
        return found

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        limits = self.settings.limits
        fields.text("model", None)
        check_served(fields, "mcp_servers", "context_management")
        if fields.has("thread") and fields.object("thread").one_of("type", ("create", "continue")) == "continue":
            raise BadRequest("thread", "is not stored; send the whole conversation", 404, wire.NO_THREAD)
        check_messages(fields, "messages", limits)
        tools = _tools(fields)
        choice, parallel = _choice(fields, tools)
        checked = mcp_tools(fields, offer, tools)
        server_tools = None if choice == "none" else checked
        found = toolset(fields, tools, choice, limits, server_tools=server_tools)
        updated = _updated(fields)
        think, template, places = thinking(_with_effort(updated))
        if not fields.has("reasoning_effort"):
            places = {name: at.replace("reasoning_effort", "output_config.effort") for name, at in places.items()}
        seal = self.seal_for(offer.caller)
        beside = offer.beside_client(names_of(tools))
        given = list(fields.objects("messages"))
        users = max((i for i, one in enumerate(given) if one.raw.get("role") == "user"), default=0)
        read = [m for i, one in enumerate(given) if not _cleared(one, i < users) for m in _messages(one, seal, beside)]
        messages = _system(fields) + bounded(read, fields, "messages", limits)
        if not read:
            raise fields.wrong("messages", "is empty; at least one message is needed")
        edits = read_edits(fields)
        begun = server_tools is None and _begins(given[-1].raw)
        return ChatRequest(
            messages=messages,
            begun="messages" if begun else going_on(fields),
            toolset=found,
            parallel=parallel,
            stop=fields.texts("stop_sequences", limits.stops),
            max_tokens=fields.integer("max_tokens", 1, default=REQUIRED),
            sampling=sampling(fields),
            response_format=_format(fields),
            schema_at="output_config.format.schema",
            thinking=think,
            template=template,
            template_at=places,
            reasoning=_reasoning(updated, self.settings, edits),
            edits=edits,
            stream=fields.flag("stream"),
            body=fields.raw,
            server_tools=server_tools,
        )

    def writer(self, request: ChatRequest, id: str, created: int) -> MessagesWriter:
        seal = self.seal_for(request.caller)
        return MessagesWriter(
            id=id,
            model=self.settings.model,
            seal=None if seal is None else seal.seal,
            omit=request.reasoning.omit,
            edits=request.applied,
        )


def _reasoning(fields: Fields, settings: Settings, edits: Sequence[Edit]) -> Reasoning:
    display = fields.lenient("thinking").one_of("display", ("summarized", "omitted"), None)
    keeps = [edit.keep for edit in edits if isinstance(edit, ClearThinking)]
    context: Context | None = None
    if keeps:  # the turns of a tool loop are always kept
        context = "loop" if keeps[0] == 1 else "all"
    return Reasoning(
        # Omitted reasoning must come back through its signature.
        omit=display == "omitted" and settings.seal is not None,
        budget=read_budget(fields, settings.efforts),
        context=context,
    )


def _updated(fields: Fields) -> Fields:
    """The request with the effort to which its system messages change it."""
    effort = None
    for message in fields.objects("messages"):
        if message.raw.get("role") == "system":
            effort = message.object("output_config").one_of("effort", EFFORTS, effort)
    if effort is None:
        return fields
    return fields.having({**fields.raw, "output_config": {**fields.object("output_config").raw, "effort": effort}})


def _with_effort(fields: Fields) -> Fields:
    """The request with the effort of ``output_config``, which says how much to think, in chat completions' field."""
    effort = fields.object("output_config").one_of("effort", EFFORTS, None)
    if effort is None or not fields.has("thinking"):
        return fields
    return Fields({"reasoning_effort": effort, **fields.raw})


def _format(fields: Fields) -> dict[str, Any] | None:
    """The schema of the content, ``output_config.format``."""
    found = fields.object("output_config").object("format")
    if not found.has("type"):
        return None
    found.one_of("type", ("json_schema",))
    if not isinstance(found.raw.get("schema"), dict):
        raise found.wrong("schema", "must be an object")
    return {"type": "json_schema", "json_schema": {"name": "", "schema": found.raw["schema"], "strict": True}}


_HOSTED: Final = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_")
"""The prefixes of the types of tools that run at Anthropic."""


_CHANGES: Final = ("tool_addition", "tool_removal")
"""Blocks of system messages that change which tools there are."""
_OF_MCP: Final = ("mcp_tool_reference", "mcp_toolset_reference")
"""What these blocks name of an MCP server: one of its tools, or all."""


def _tools(fields: Fields) -> list[dict[str, Any]]:
    """The declared tools, as blocks of the history change them."""
    # A set of the server's own tools is none of the client's; see `mcp_tools`.
    declared = _declared(fields, [one for one in fields.objects("tools", ()) if one.raw.get("type") != "mcp_toolset"])
    made = {one["function"]["name"]: one for one in declared}
    if len(made) < len(declared):
        return declared  # which is refused later
    removed = set()
    for change in _tool_changes(fields):
        kind, reference = change.one_of("type", _CHANGES), change.object("tool")
        if reference.raw.get("type") in _OF_MCP and fields.raw.get("mcp_servers"):  # see `mcp_tools`
            continue
        if kind == "tool_addition" and reference.raw.get("type") == "tool_definition":
            for one in _declared(fields, [reference.object("definition")]):
                made[one["function"]["name"]] = one
                removed.discard(one["function"]["name"])
            continue
        reference.one_of("type", ("tool_reference",))
        (removed.discard if kind == "tool_addition" else removed.add)(reference.text("name"))
    return [one for name, one in made.items() if name not in removed]


def _tool_changes(fields: Fields) -> Iterator[Fields]:
    for message in fields.objects("messages"):
        role = message.raw.get("role")
        listed = role in ("system", "assistant") and isinstance(message.raw.get("content"), list)
        for block in message.objects("content") if listed else ():
            if role == "system" and block.raw.get("type") in _CHANGES:
                yield block
            elif role == "assistant" and block.raw.get("type") == "compaction" and block.has("content"):
                yield from block.objects("tool_changes", ())


def _declared(fields: Fields, tools: Iterable[Fields]) -> list[dict[str, Any]]:
    found = []
    hosted = []
    for one in tools:
        kind = one.text("type", "custom")
        if kind.startswith(_HOSTED):
            hosted.append(kind)
            continue
        if (known := client_tool(one)) is not None:
            found.append(known)
            continue
        if kind != "custom":
            raise one.wrong("type", f"{json_shown(kind)} is not one of custom, {', '.join(TYPES)}")
        schema = one.object("input_schema").raw
        found.append(tool(one.text("name"), one.text("description", None), schema, one.flag("strict", None)))
    if hosted:
        log.info("tools that the server does not run are left out: %s", ", ".join(hosted))
    return found


def _choice(fields: Fields, tools: list[dict[str, Any]]) -> tuple[Any, bool]:
    """The choice in the form of chat completions, and whether several calls are allowed."""
    if not fields.has("tool_choice"):
        return "auto", True
    choice = fields.object("tool_choice")
    kind = choice.one_of("type", ("auto", "any", "tool", "none"))
    parallel = not choice.flag("disable_parallel_tool_use")
    if kind == "tool":
        return {"type": "function", "name": choice.text("name")}, parallel
    if kind == "any" and not tools and not fields.has("mcp_servers"):  # the error uses the protocol's own word
        raise choice.wrong("type", "'any' needs tools")
    return {"any": "required"}.get(kind, kind), parallel


_SAID = (
    *("text", "compaction", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
    *("mcp_tool_listing", "fallback"),
)
"""Blocks of the assistant besides results. Redacted thinking is left out, since without a key only Anthropic can read
it; so are the last two, which say nothing to the model."""


def _system(fields: Fields) -> list[dict[str, Any]]:
    if isinstance(fields.raw.get("system"), list):
        return [{"role": "system", "content": read_parts(fields, "system", TEXT)}]
    system = fields.text("system", None)
    return [] if system is None else [{"role": "system", "content": system}]


def _cleared(message: Fields, followed: bool) -> bool:
    """Whether a system message is no longer shown, as a user's message has followed."""
    clears = message.raw.get("role") == "system" and message.one_of("clear_at", ("next_user_message", "never"), "never")
    return followed and clears == "next_user_message"


def _begins(message: Mapping[str, Any]) -> bool:
    """Whether the model goes on with a last message: with an answer of text alone."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [one.get("text") for one in content if isinstance(one, dict) and one.get("type") == "text"]
        content = len(texts) == len(content) and any(texts)
    return message.get("role") == "assistant" and bool(content)


def _messages(fields: Fields, seal: Seal | None, offer: Offer) -> list[dict[str, Any]]:
    """A message in the form of chat completions, in which each result of a tool is a separate message."""
    role = fields.one_of("role", ("user", "assistant", "system"))
    content = fields.raw.get("content")
    if role == "system" and content in (None, "", []) and fields.object("output_config").has("effort"):
        return []  # it only changes the effort
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    blocks = list(fields.objects("content"))
    if role == "assistant":
        messages = []
        for said, results in rounds(blocks):
            messages.append(_assistant(said, seal, offer))
            for one in results:
                ours = one.raw["type"] == "mcp_tool_result"
                content = _returned(one) if ours else result_text(one.raw.get("content"))
                messages.append(result_of(one.text("tool_use_id", *([] if ours else [""])), "", content))
        return messages
    if not blocks:
        raise fields.wrong("content", "is empty; at least one block is needed")
    if role == "system":
        blocks = [block for block in blocks if block.raw.get("type") not in _CHANGES]  # see `_tools`
    return _user(role, blocks)


def _user(role: str, blocks: Sequence[Fields]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block.text("type") == "tool_result":
            id = block.text("tool_use_id")
            results.append({"role": "tool", "tool_call_id": id, "content": _returned(block)})
        else:
            parts.append(read_part(block, FORMS))
    return [*results, {"role": role, "content": in_one(parts)}] if parts else results


def _returned(block: Fields) -> Any:
    """What a tool returned; a failure that says nothing is one all the same."""
    content = read_parts(block, "content", FORMS, ())
    return "Error" if block.flag("is_error") and not content else content


def _assistant(blocks: Sequence[Fields], seal: Seal | None, offer: Offer) -> dict[str, Any]:
    summaries: list[str] = []
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        kind = block.one_of("type", _SAID)
        if kind == "text":
            texts.append(block.text("text"))
        elif kind == "compaction":
            summaries.append(block.text("content", ""))
        elif kind == "thinking":
            reasoning.append(opened(seal, block, "signature", block.text("thinking") or None))
        elif kind == "redacted_thinking" and seal is not None:
            reasoning.append(opened(seal, block, "data", None))
        elif kind in ("tool_use", "mcp_tool_use", "server_tool_use"):
            theirs = kind == "server_tool_use"  # of a tool at Anthropic, of which there may be less
            name = block.text("name", kind) if theirs else block.text("name")
            if kind == "mcp_tool_use":
                name = offer.name_of(block.text("server_name", ""), name)
            calls.append(call_of(block.text("id", "") if theirs else block.text("id"), name, _arguments(block)))
    said = "\n\n".join(filter(None, (*summaries, "".join(texts))))
    message: dict[str, Any] = {"role": "assistant", "content": said or None}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def _arguments(block: Fields) -> str:
    """The arguments of a call: an object, or, as some clients gather it from a stream, its JSON or nothing."""
    given = block.raw.get("input")
    if isinstance(given, str) and (not given or given.lstrip().startswith("{")):
        return given or "{}"
    return wire.tool_arguments(block.object("input").raw)


BETA: Final = "mcp-client-"  # the prefix of the betas that Anthropic's clients need for MCP blocks


def mcp_tools(fields: Fields, offer: Offer, tools: list[dict[str, Any]]) -> ServerTools | None:
    """The server's tools that a request may use beside the client's ``tools``, unless they need approval."""
    bounds = read_bounds(fields)
    servers = list(fields.objects("mcp_servers", ()))
    sets = [one for one in fields.objects("tools", ()) if one.raw.get("type") == "mcp_toolset"]
    if not servers:
        _check_servers(sets, "mcp_server_name", ())
        return None
    if not any(beta.startswith(BETA) for beta in offer.betas):
        raise fields.wrong("mcp_servers", f"needs the header anthropic-beta with a beta of the name {BETA}…")
    named = Named(offer, names_of(tools))
    toolsets = {s.text("mcp_server_name"): s for s in reversed(sets)}  # the first of each counts
    known: set[str] = set()
    changes = [(one, r) for one in _tool_changes(fields) if (r := one.object("tool")).raw.get("type") in _OF_MCP]
    for server in servers:
        label = server.text("name")
        if label in known:
            raise server.wrong("name", "is another server's, too")
        known.add(label)
        if not server.object("tool_configuration").flag("enabled", True):
            continue
        own = [tool.original for tool in offer.listing.tools if tool.server == label]
        allowed = _allowed(server, toolsets.get(label), own)
        for one, reference in changes:
            _change(allowed, label, own, one, reference)
        if not named.server(label, allowed=allowed, approvals=False):
            raise named.unknown(server, "name", label)
    _check_servers(sets, "mcp_server_name", known)
    _check_servers((reference for _, reference in changes), "server_name", known)
    return named.all(bounds)


def _check_servers(objects: Iterable[Fields], field: str, known: Collection[str]) -> None:
    for one in objects:
        if one.text(field) not in known:
            raise one.wrong(field, "is not in mcp_servers")


def _change(allowed: set[str], label: str, own: Sequence[str], change: Fields, reference: Fields) -> None:
    """Add tools of a server to those that are allowed, or take them away, if a change is about its ``own`` tools."""
    if reference.text("server_name") != label:
        return
    names = own if reference.raw["type"] == "mcp_toolset_reference" else [reference.text("name")]
    (allowed.update if change.one_of("type", _CHANGES) == "tool_addition" else allowed.difference_update)(names)


def _allowed(server: Fields, toolset: Fields | None, own: Sequence[str]) -> set[str]:
    """Those of the server's tools that its configuration allows, or that are enabled in a toolset."""
    config = server.object("tool_configuration")
    allowed = set(config.texts("allowed_tools", 1024) if config.has("allowed_tools") else own)
    if toolset is None:
        return allowed
    default = toolset.object("default_config").flag("enabled", True)
    configs = toolset.object("configs")
    return {name for name in own if configs.object(name).flag("enabled", default)}
