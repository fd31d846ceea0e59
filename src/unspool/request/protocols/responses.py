"""The Responses protocol of OpenAI. What continues a response is read after all earlier items; see `stored`."""

import logging
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from ...tools import Approval
from ...validation import json_shown
from ...wire import ResponsesWriter
from ...wire import responses as wire
from ...wire.freeform import ITEMS as OPENAIS
from ..chat_request import ChatRequest
from ..common import check_messages, check_served, going_on, joined, read_metadata, sampling, thinking, toolset
from ..declared import called_by, found_tools, history_call, read_choice, read_declared
from ..fields import Fields
from ..parts.reading import RESPONSES, read_parts
from ..reasoning import EFFORTS, Reasoning, opened, read_budget, read_context, read_summary
from ..sealed import Seal
from ..server_history import ITEMS, OUTPUTS, ServerItems, output_of
from ..server_tools import NOTHING, SERVED, WORDS, Named, Offer, OwnServer, ServerTools, names_of, read_bounds
from ..settings import Settings
from .base import WireProtocol
from .chat import FORMATS

log = logging.getLogger("unspool.server")
_ROLES = ("user", "assistant", "system", "developer")
_CALLS = ("function_call", "custom_tool_call", "tool_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_UPDATE = "configuration_update"
_SILENT = ("additional_tools", "ghost_snapshot", _UPDATE)
"""Items without a message for the model: tools and settings, which are read elsewhere, and a client's own record of its
files."""
_ITEMS = ("message", "reasoning", *_CALLS, *_OUTPUTS, "tool_search_output", *_SILENT, *ITEMS)
_SEALED = "reasoning.encrypted_content"
_INCLUDED = (
    *(_SEALED, "web_search_call.action.sources", "web_search_call.results", "file_search_call.results"),
    *("code_interpreter_call.outputs", "message.input_image.image_url", "computer_call_output.output.image_url"),
)
"""What ``include`` may name: the first only on demand; the others are in their items in any case, if there are any."""


class ResponsesProtocol(WireProtocol):
    """Responses. An answer has one choice."""

    id_prefix = "resp_"
    error_body = staticmethod(wire.error_body)

    def servers(self, fields: Fields) -> Collection[str] | None:
        tools = fields.raw.get("tools")
        named = [t for t in tools if isinstance(t, dict) and t.get("type") in SERVED] if isinstance(tools, list) else []
        if any(t["type"] != "mcp" for t in named):
            return None
        return [t["server_label"] for t in named if isinstance(t.get("server_label"), str)]

    def own_servers(self, fields: Fields) -> Sequence[OwnServer]:
        found = []
        for one in fields.objects("tools", ()):
            if one.raw.get("type") == "mcp" and one.has("server_url"):
                given = one.object("headers")
                headers = {name: given.text(name) for name in given.raw}
                if one.has("authorization"):
                    headers["Authorization"] = f"Bearer {one.text('authorization')}"
                url = one.text("server_url")
                found.append(OwnServer(one.text("server_label"), url, headers, one.path("server_url")))
        return found

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        if fields.has("prompt"):
            raise fields.wrong("prompt", "is not supported: no prompts are stored; send instructions and input")
        for text in ("model", "user"):
            fields.text(text, None)
        read_metadata(fields)
        check_served(fields)
        check_messages(fields, "input", self.settings.limits)
        if fields.integer("top_logprobs", 0, 20, 0):
            raise fields.wrong("top_logprobs", "is not supported; leave it out")
        fields.one_of("truncation", ("auto", "disabled"), None)
        for options, switch in (("prompt_cache_options", "prewarm"), ("multi_agent", "enabled")):
            if (given := fields.object(options)).flag(switch):
                raise given.wrong(switch, "is not supported; leave it out")
        if not fields.flag("generate", True):
            raise fields.wrong("generate", "false is not supported; leave it out")
        declared = read_declared(fields)
        server_tools = hosted_tools(fields, offer, declared.tools)
        kinds = {one.tool.kind for one in server_tools.tools.values()} if server_tools else ()
        dropped = declared.dropped - {"mcp", *(word for word, (kind, _) in WORDS.items() if kind in kinds)}
        if dropped:
            log.info("tools that the server does not run are left out: %s", ", ".join(sorted(dropped)))
            kept = [one.raw for one in fields.objects("tools", ()) if one.raw["type"] not in dropped]
            fields = fields.having({**fields.raw, "tools": kept})  # the response repeats what the model has
        choice = read_choice(fields, declared, server_tools)
        tools = toolset(fields, declared.tools, choice, self.settings.limits, server_tools=server_tools)
        beside = offer.beside_client(names_of(declared.tools))
        messages, history = _input(fields, beside, self.seal_for(offer.caller), own=declared.kinds)
        if server_tools is not None:
            listed = tuple(one for one in server_tools.listed if one.server not in history.listed)
            server_tools = msgspec.structs.replace(server_tools, listed=listed, pending=history.pending)
        else:
            history.give_up()
        updated, (response_format, schema_at) = _updated(fields)
        think, template, places = thinking(updated)
        reasoning = Reasoning(
            sealed=_SEALED in _included(fields),
            summary=read_summary(fields),
            budget=read_budget(updated, self.settings.efforts),
            context=read_context(fields),
        )
        return ChatRequest(
            messages=messages,
            messages_at="input",
            toolset=tools,
            kinds=declared.kinds,
            grammars=declared.grammars,
            parallel=fields.flag("parallel_tool_calls", True),
            max_tokens=fields.integer("max_output_tokens", 1),
            sampling=sampling(fields),
            response_format=response_format,
            schema_at=schema_at,
            thinking=think,
            template=template,
            template_at=places,
            reasoning=reasoning,
            stream=fields.flag("stream"),
            begun=going_on(fields),
            body=fields.raw,
            server_tools=server_tools,
        )

    def sent_back(self, rounds: Sequence[dict[str, Any]], tools: ServerTools) -> list[list[dict[str, Any]]]:
        """See `WireProtocol.sent_back`. Items of searches have no results, so they are not read."""
        found: list[dict[str, Any]] = []
        searches: set[str] = set()
        for message in rounds:
            calls = message.get("tool_calls", ())
            hidden = [c for c in calls if tools.form_of(c["function"]["name"]) == "web_search"]
            searches |= {call["id"] for call in hidden}
            if message.get("tool_call_id") not in searches:
                found.append({**message, "tool_calls": [c for c in calls if c not in hidden]})
        return [found] if searches else []

    def writer(self, request: ChatRequest, id: str, created: int) -> ResponsesWriter:
        seal = self.seal_for(request.caller) if request.reasoning.sealed else None
        body = {k: v for k, v in request.body.items() if v is not None}
        body["store"] = stores(Fields(body), self.settings)
        if isinstance(body.get("conversation"), str):
            body["conversation"] = {"id": body["conversation"]}
        if "tools" in body:  # the client's credentials for other servers are not repeated
            body["tools"] = [
                {k: v for k, v in t.items() if k not in ("authorization", "headers")} for t in body["tools"]
            ]
        return ResponsesWriter(
            id=id,
            model=self.settings.model,
            created=created,
            request=body,
            seal=None if seal is None else seal.seal,
            summary=request.reasoning.summary,
            kinds=request.kinds,
        )


def stores(fields: Fields, settings: Settings) -> bool:
    """Whether the response to a request is stored, as one in the background must be."""
    found: bool = fields.flag("store", settings.stores)
    if fields.flag("background") and not found:
        raise fields.wrong("background", "true needs store to be true")
    return found


def _included(fields: Fields) -> list[str]:
    included = fields.strings("include")
    for i, one in enumerate(included):
        if one not in _INCLUDED:
            raise fields.wrong(f"include[{i}]", f"{json_shown(one)} is not one of {', '.join(_INCLUDED)}")
    return included


def _updated(fields: Fields, items: str = "input") -> tuple[Fields, tuple[dict[str, Any] | None, str]]:
    """A request with the effort to which its items change it, and the format of its answer, which they may change."""
    effort, response_format = None, _format(fields)
    for item in fields.objects(items) if isinstance(fields.raw.get(items), list) else ():
        if item.raw.get("type") == _UPDATE:
            effort = item.object("reasoning").one_of("effort", EFFORTS, effort)
            response_format = _format(item) if item.object("text").has("format") else response_format
    if effort is not None:
        fields = fields.having({**fields.raw, "reasoning": {**fields.lenient("reasoning").raw, "effort": effort}})
    return fields, response_format


def _format(fields: Fields) -> tuple[dict[str, Any] | None, str]:
    """The format of the answer, and where its schema is."""
    found = fields.object("text").object("format")
    at = found.path("schema")
    kind = found.one_of("type", FORMATS, "text")
    if kind == "text":
        return None, at
    if kind == "json_object":
        return {"type": kind}, at
    if not found.has("schema"):
        raise found.wrong("schema", "is required")
    schema = {"name": found.text("name", ""), "schema": found.object("schema").raw, "strict": found.flag("strict")}
    return {"type": kind, "json_schema": schema}, at


# -- history -----------------------------------------------------------------------------------------------------------


def _input(
    fields: Fields, offer: Offer, seal: Seal | None, field: str = "input", own: Collection[str] = ()
) -> tuple[list[dict[str, Any]], ServerItems]:
    """The input, or another field's items, in the form of chat completions, each answer in one message; and its items
    about the server's tools. ``own``: the kinds of the client's tools, among which may be some that OpenAI defines."""
    messages: list[dict[str, Any]] = []
    theirs = [kind.type for name, kind in OPENAIS.items() if name in own]
    calls = [*_CALLS, *theirs]
    history = ServerItems(messages, offer, theirs)
    instructions = fields.text("instructions", None)
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = fields.raw.get(field)
    if field == "input" and isinstance(given, str):
        messages.append({"role": "user", "content": given})
        return messages, history
    called: dict[str, None] = {}  # calls of earlier answers that the client has to answer
    answered: list[str] = []  # the calls that the request's own items answer, where it continues earlier ones
    goes_on = False  # whether the text of the next message belongs to the same answer
    for i, item in enumerate(fields.objects(field)):
        kind = item.raw.get("type")
        taken = history.take(item, stored=i < fields.earlier)
        if not taken:
            _take(item, messages, seal, goes_on)
        goes_on = not taken and kind in ("reasoning", *calls)
        if i < fields.earlier and kind in calls and item.raw.get("status") != "incomplete":
            called[called_by(item)] = None
        elif not taken:
            called.pop(called_by(item), None)
        if 0 < fields.earlier <= i and not taken and kind in _OUTPUTS:
            answered.append(item.text("call_id"))
    if not given:
        raise fields.wrong(field, "is empty; at least one item is needed, or previous_response_id or conversation")
    if field == "input":
        _check_answered(fields, messages, answered)
    if called and len(given) == fields.earlier:
        raise fields.wrong(field, f"No tool output found for function call {next(iter(called))}.")
    return joined(messages), history


def _check_answered(fields: Fields, messages: list[dict[str, Any]], answered: Sequence[str]) -> None:
    """Refuse an input with outputs of calls, by their ids, that no message has."""
    known = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    unknown = next((id for id in answered if id not in known), None)
    if unknown is not None:
        raise fields.wrong("input", f"No tool call found for function call output with call_id {unknown}.")


def check_items(fields: Fields, offer: Offer, seal: Seal | None) -> None:
    """Check the ``items`` that are added to a conversation as they are read later, before any model reads them."""
    _input(fields, offer, seal, "items")
    read_declared(fields, "items")
    _updated(fields, "items")


def _take(item: Fields, messages: list[dict[str, Any]], seal: Seal | None, goes_on: bool) -> None:
    kind = item.one_of("type", _ITEMS, "message")
    if kind in _SILENT:
        return
    result = _result(item, kind)
    if result is not None:
        id, content = result
        messages.append({"role": "tool", "tool_call_id": id, "content": content})
        return
    if kind == "message" and item.one_of("role", _ROLES) != "assistant":
        messages.append({"role": item.raw["role"], "content": read_parts(item, "content", RESPONSES)})
        return
    last = messages[-1] if messages else {"role": ""}
    if last["role"] != "assistant" or (kind == "message" and any(last["content"] or ()) and not goes_on):
        messages.append({"role": "assistant", "content": None})
    turn = messages[-1]
    if kind == "message":  # a model may say something after a call or after more reasoning
        turn["content"] = turn["content"] or []
        text = read_parts(item, "content", RESPONSES)
        if not isinstance(text, str):
            raise item.wrong("content", "an answer has parts of text only")
        turn["content"].append(text)
    elif kind == "reasoning":
        parts = [p.text("text", "") for p in item.objects("content", ())]
        summary = [p.text("text", "") for p in item.objects("summary", ())]  # a summary of the text, if there is one
        text = opened(seal, item, "encrypted_content", "".join(parts or summary) or None)
        turn.setdefault("reasoning_content", []).append(text)
    else:
        turn.setdefault("tool_calls", []).append(history_call(item))


def _result(item: Fields, kind: str) -> tuple[str, Any] | None:
    if kind == "tool_search_output":
        return item.text("call_id", ""), found_tools(item)
    if kind in OUTPUTS:
        return called_by(item), output_of(item, shown=True)
    return (item.text("call_id"), read_parts(item, "output", RESPONSES)) if kind in _OUTPUTS else None


# -- tools that the server runs ----------------------------------------------------------------------------------------


def hosted_tools(fields: Fields, offer: Offer, tools: list[dict[str, Any]]) -> ServerTools | None:
    """The server's tools that a request names, beside the client's ``tools``."""
    bounds = read_bounds(fields)
    named = Named(offer, names_of(tools))
    for one in fields.objects("tools", ()):
        kind = one.raw.get("type")
        if kind != "mcp" and kind in SERVED:
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


def _approval(tool: Fields, offer: Offer) -> Approval | None:
    """A request's rule for approvals. Without one, tools of the request's own servers need approval, as at OpenAI."""
    if not tool.has("require_approval"):
        return Approval(True) if tool.raw["server_label"] in offer.own else None
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
