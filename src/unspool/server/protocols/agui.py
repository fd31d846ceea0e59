"""AG-UI: runs of an agent, always streamed."""

from typing import Any

from ...wire import AguiWriter, Failure
from ...wire import agui as wire
from ..checks import Fields
from ..job import MAX_TOKENS, Job, check_tools, sampling, thinking, tool
from .base import Protocol
from .chat import read_choice

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
        tools = [
            tool(one.text("name"), one.text("description", None), one.raw.get("parameters"))
            for one in fields.objects("tools", ())
        ]
        choice, callable_ = read_choice(options, check_tools("tools", tools, self.settings.limits))
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
    """The messages as chat completions have them: reasoning belongs to the assistant's message that follows."""
    messages: list[dict[str, Any]] = []
    reasoning = ""
    for one in fields.objects("messages"):
        role = one.one_of("role", _ROLES)
        if role == "reasoning":
            reasoning += one.text("content")
        elif role == "tool":
            result = {"role": role, "tool_call_id": one.text("toolCallId"), "content": one.raw.get("content")}
            messages.append(result)
        elif role == "assistant":
            message: dict[str, Any] = {"role": role, "content": one.text("content", None)}
            calls = [_call(call) for call in one.objects("toolCalls", ())]
            messages.append(message | ({"tool_calls": calls} if calls else {}))
            if reasoning:
                messages[-1]["reasoning_content"] = reasoning
            reasoning = ""
        elif role != "activity":  # which is for people
            messages.append({"role": role, "content": one.raw.get("content")})
    return messages


def _call(fields: Fields) -> dict[str, Any]:
    function = fields.object("function")
    told = {"name": function.text("name"), "arguments": function.text("arguments")}
    return {"id": fields.text("id"), "type": "function", "function": told}
