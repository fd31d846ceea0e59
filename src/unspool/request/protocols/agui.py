"""AG-UI: runs of an agent, which are always streamed."""

from collections.abc import Collection
from typing import Any

import msgspec

from ...wire import AguiWriter
from ...wire import agui as wire
from ..chat_request import ChatRequest
from ..common import (
    QUOTED,
    bounded,
    call_of,
    check_messages,
    check_served,
    going_on,
    joined,
    read_parameters,
    sampling,
    thinking,
    tool,
    toolset,
    with_text,
)
from ..fields import Fields
from ..parts.reading import AGUI
from ..reasoning import Reasoning, opened, read_budget
from ..sealed import Seal
from ..server_history import resumed
from ..server_tools import NOTHING, Offer, names_of, offered
from .base import WireProtocol
from .chat import all_servers, read_content, read_format, read_length

_ROLES = ("developer", "system", "user", "assistant", "tool", "activity", "reasoning")


class AguiProtocol(WireProtocol):
    """AG-UI. ``forwardedProps`` may contain sampling parameters, ``max_tokens``, ``stop``, ``response_format``,
    ``tool_choice``, ``parallel_tool_calls``, ``continue_final_message``, ``server_tools``, ``max_tool_calls``,
    ``tool_limits`` and thinking switches, with the names from chat completions."""

    id_prefix = "run_"
    result_media = True
    error_body = staticmethod(wire.error_body)

    def servers(self, fields: Fields) -> Collection[str] | None:
        return all_servers(fields.lenient("forwardedProps"))

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        fields.text("threadId")
        fields.text("runId")
        fields.text("parentRunId", None)
        options = fields.lenient("forwardedProps")
        check_served(options)
        check_messages(fields, "messages", self.settings.limits)
        tools = [
            tool(one.text("name"), one.text("description", None), read_parameters(one))
            for one in fields.objects("tools", ())
        ]
        choice = options.raw.get("tool_choice")
        think, template, places = thinking(options)
        served = None if choice == "none" else offered(options, offer, names_of(tools), approvals=True)
        read = bounded(_messages(fields, self.seal_for(offer.caller)), fields, "messages", self.settings.limits)
        messages, pending = resumed(fields, _context(fields) + read, served)
        if served is not None:
            served = msgspec.structs.replace(served, pending=pending)
        return ChatRequest(
            messages=messages,
            toolset=toolset(fields, tools, choice, self.settings.limits, options=options, server_tools=served),
            parallel=options.flag("parallel_tool_calls", True),
            stop=options.texts("stop", self.settings.limits.stops),
            max_tokens=read_length(options),
            response_format=read_format(options),
            schema_at="forwardedProps.response_format.json_schema.schema",
            sampling=sampling(options),
            thinking=think,
            template=template,
            template_at=places,
            reasoning=Reasoning(budget=read_budget(options, self.settings.efforts)),
            stream=True,
            begun=going_on(options) or going_on(fields),
            body=fields.raw,
            server_tools=served,
        )

    def writer(self, request: ChatRequest, id: str, created: int) -> AguiWriter:
        seal = self.seal_for(request.caller)
        return AguiWriter(
            thread_id=request.body["threadId"],
            run_id=request.body["runId"],
            message_id=id,
            call_ids=[call["id"] for m in request.messages for call in m.get("tool_calls", ())],
            parent_run_id=request.body.get("parentRunId"),
            model=self.settings.model,
            seal=None if seal is None else seal.seal,
        )


def _context(fields: Fields) -> list[dict[str, Any]]:
    """The state of the application, as a system message. It is data, which people may have written."""
    lines = [f"{c.text('description')}: {c.text('value')}" for c in fields.objects("context", ())]
    return [{"role": "system", "content": "\n".join(lines), QUOTED: True}] if lines else []


def _messages(fields: Fields, seal: Seal | None) -> list[dict[str, Any]]:
    """The messages in the form of chat completions.

    Reasoning belongs to the assistant's message that its id names, since clients put reasoning between calls after
    their results. Without such an id, it belongs to the next assistant's message, or else to the previous one. Without
    either, the model never answered, and the reasoning is left out.
    """
    messages: list[dict[str, Any]] = []
    answers: dict[str, dict[str, Any]] = {}  # the assistant's, by id
    last: dict[str, Any] | None = None  # the last answer, while only results follow it
    reasoning: list[str] = []
    for one in fields.objects("messages"):
        role = one.one_of("role", _ROLES)
        if role == "activity":  # shown only to people
            continue
        if role == "reasoning":
            text = opened(seal, one, "encryptedValue", one.text("content", "") or None)
            named = answers.get(one.text("id", "").removeprefix(wire.REASONING).rpartition("-")[0])
            if named is None:
                reasoning.append(text)
            else:
                _think(named, [text])
            continue
        if role == "assistant":
            calls = [_call(call) for call in one.objects("toolCalls", ())]
            message = {"role": role, "content": one.text("content", None)} | ({"tool_calls": calls} if calls else {})
        else:
            _think(last, reasoning)
            reasoning = []
            last = last if role == "tool" else None
            call_id = {"tool_call_id": one.text("toolCallId")} if role == "tool" else {}
            content = read_content(one, AGUI)
            if role == "tool":
                content = with_text(content, one.text("error", None))
            message = {"role": role, **call_id, "content": content}
        messages.append(message)
        if role == "assistant":
            last = answers[one.text("id", "")] = message
            _think(last, reasoning)
            reasoning = []
    _think(last, reasoning)
    return joined(messages)


def _think(answer: dict[str, Any] | None, reasoning: list[str]) -> None:
    """Add reasoning to a message of the assistant, if there is one."""
    if answer is not None and any(reasoning):
        answer.setdefault("reasoning_content", []).extend(reasoning)


def _call(fields: Fields) -> dict[str, Any]:
    function = fields.object("function")
    name, arguments = function.text("name"), function.text("arguments")
    return call_of(fields.text("id"), name, arguments)
