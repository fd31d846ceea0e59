"""AG-UI: runs of an agent, always streamed."""

from typing import Any

from ...wire import AguiWriter, Failure
from ...wire import agui as wire
from ..checks import Fields
from ..job import (
    MAX_TOKENS,
    Job,
    check_messages,
    check_served,
    check_tools,
    read_choice,
    sampling,
    thinking,
    tool,
)
from .base import Protocol
from .chat import read_content, read_parameters

_ROLES = ("developer", "system", "user", "assistant", "tool", "activity", "reasoning")


class AguiProtocol(Protocol):
    """``forwardedProps`` may hold sampling, ``max_tokens``, ``tool_choice`` and thinking switches by the names that
    chat completions have for them."""

    id_prefix = "run_"

    def read(self, fields: Fields) -> Job:
        """See `Protocol.read`."""
        fields.text("threadId")
        fields.text("runId")
        fields.text("parentRunId", None)
        props = fields.raw.get("forwardedProps")
        options = Fields(props if isinstance(props, dict) else {}, "forwardedProps")
        check_served(options)
        check_messages(fields, "messages", self.settings.limits)
        tools = [
            tool(one.text("name"), one.text("description", None), read_parameters(one))
            for one in fields.objects("tools", ())
        ]
        check_tools("tools", tools, self.settings.limits)
        choice, callable_ = read_choice(options, options.raw.get("tool_choice"), tools)
        think, template = thinking(options)
        return Job(
            messages=_context(fields) + _messages(fields),
            tools=tools,
            callable=callable_,
            tool_choice=choice,
            max_tokens=options.integer("max_tokens", 1, MAX_TOKENS),
            sampling=sampling(options),
            thinking=think,
            template=template,
            stream=True,
            given=fields.raw,
        )

    def writer(self, job: Job, id: str, created: int) -> AguiWriter:
        """See `Protocol.writer`."""
        given = job.given
        return AguiWriter(
            thread_id=given["threadId"],
            run_id=given["runId"],
            message_id=id,
            call_ids=[call["id"] for m in job.messages for call in m.get("tool_calls", ())],
            parent_run_id=given.get("parentRunId"),
            model=self.settings.model,
        )

    def error_body(self, failure: Failure) -> bytes:
        """See `Protocol.error_body`."""
        return wire.error_body(failure)


def _context(fields: Fields) -> list[dict[str, Any]]:
    """What the application tells the agent of itself."""
    told = [f"{c.text('description')}: {c.text('value')}" for c in fields.objects("context", ())]
    return [{"role": "system", "content": "\n".join(told)}] if told else []


def _messages(fields: Fields) -> list[dict[str, Any]]:
    """The messages as chat completions have them.

    Reasoning belongs to the assistant's message that follows. What comes behind one, as clients keep the reasoning that
    went on between calls, belongs to that one; without any the model never answered, and it is let go.
    """
    messages: list[dict[str, Any]] = []
    reasoning = ""
    for one in fields.objects("messages"):
        role = one.one_of("role", _ROLES)
        if role == "activity":  # which is for people
            continue
        if role == "reasoning":
            reasoning += one.text("content")
            continue
        if role == "assistant":
            calls = [_call(call) for call in one.objects("toolCalls", ())]
            message = {"role": role, "content": one.text("content", None)} | ({"tool_calls": calls} if calls else {})
        else:
            _think(messages, reasoning)
            reasoning = ""
            call_id = {"tool_call_id": one.text("toolCallId")} if role == "tool" else {}
            message = {"role": role, **call_id, "content": read_content(one)}
        messages.append(message)
        if role == "assistant":
            _think(messages, reasoning)
            reasoning = ""
    _think(messages, reasoning)
    return messages


def _think(messages: list[dict[str, Any]], reasoning: str) -> None:
    """Add reasoning to the last message, if it is the assistant's."""
    if reasoning and messages and messages[-1]["role"] == "assistant":
        messages[-1]["reasoning_content"] = messages[-1].get("reasoning_content", "") + reasoning


def _call(fields: Fields) -> dict[str, Any]:
    function = fields.object("function")
    told = {"name": function.text("name"), "arguments": function.text("arguments")}
    return {"id": fields.text("id"), "type": "function", "function": told}
