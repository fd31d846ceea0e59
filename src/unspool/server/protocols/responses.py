"""OpenAI's Responses: requests, and what writes their answers. Nothing is stored: each request tells all."""

from collections.abc import Sequence
from typing import Any

from ...wire import Failure, ResponsesWriter, Usage
from ...wire import responses as wire
from ..checks import Fields, shown
from ..job import (
    MAX_TOKENS,
    Job,
    check_messages,
    check_served,
    check_tools,
    not_text,
    read_choice,
    sampling,
    thinking,
    tool,
)
from .base import Protocol, Result
from .chat import FORMATS, read_parameters

_ROLES = ("user", "assistant", "system", "developer")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")


class ResponsesProtocol(Protocol):
    """Responses have one choice."""

    id_prefix = "resp_"

    def read(self, fields: Fields) -> Job:
        """See `Protocol.read`."""
        for stored in ("previous_response_id", "conversation", "prompt"):
            if fields.has(stored):
                raise fields.wrong(stored, "is not supported: nothing is stored; send the whole input")
        if fields.flag("background"):
            raise fields.wrong("background", "true is not supported; allowed is false")
        for text in ("model", "user"):
            fields.text(text, None)
        fields.object("metadata")
        check_served(fields)
        check_messages(fields, "input", self.settings.limits)
        if fields.integer("top_logprobs", 0, 20, 0):
            raise fields.wrong("top_logprobs", "is not supported; leave it out")
        fields.one_of("truncation", ("auto", "disabled"), None)
        tools = _tools(fields)
        check_tools("tools", tools, self.settings.limits)
        choice, callable_ = read_choice(fields, fields.raw.get("tool_choice"), tools)
        think, template = thinking(fields)
        return Job(
            messages=_input(fields),
            tools=tools,
            callable=callable_,
            tool_choice=choice,
            parallel=fields.flag("parallel_tool_calls", True),
            max_tokens=fields.integer("max_output_tokens", 1, MAX_TOKENS),
            sampling=sampling(fields),
            response_format=_format(fields),
            thinking=think,
            template=template,
            stream=fields.flag("stream"),
            given=fields.raw,
        )

    def writer(self, job: Job, id: str, created: int) -> ResponsesWriter:
        """See `Protocol.writer`."""
        given = {k: v for k, v in job.given.items() if v is not None and k != "store"}
        return ResponsesWriter(id=id, model=self.settings.model, created=created, request=given)

    def whole(self, job: Job, id: str, created: int, results: Sequence[Result], usage: Usage | None) -> bytes:
        """See `Protocol.whole`."""
        return self.writer(job, id, created).whole([r.message for r in results], usage)

    def error_body(self, failure: Failure) -> bytes:
        """See `Protocol.error_body`."""
        return wire.error_body(failure)


def _tools(fields: Fields) -> list[dict[str, Any]]:
    found = []
    for one in fields.objects("tools", ()):
        one.one_of("type", ("function",))
        strict = one.flag("strict", None)
        found.append(tool(one.text("name"), one.text("description", None), read_parameters(one), strict))
    return found


def _format(fields: Fields) -> dict[str, Any] | None:
    told = fields.object("text").object("format")
    kind = told.one_of("type", FORMATS, "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": kind}
    schema = {"name": told.text("name", ""), "schema": told.object("schema").raw, "strict": told.flag("strict")}
    return {"type": kind, "json_schema": schema}


# -- history -----------------------------------------------------------------------------------------------------------


def _input(fields: Fields) -> list[dict[str, Any]]:
    """The input as chat completions have it: what an assistant did at once stands in one message there."""
    messages: list[dict[str, Any]] = []
    instructions = fields.text("instructions", None)
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = fields.raw.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in fields.objects("input"):
        _take(item, messages)
    if not fields.array("input"):
        raise fields.wrong("input", "is empty")
    return messages


def _take(item: Fields, messages: list[dict[str, Any]]) -> None:
    kind = item.one_of("type", _ITEMS, "message")
    if kind == "function_call_output":
        output = _content(item, "output")
        messages.append({"role": "tool", "tool_call_id": item.text("call_id"), "content": output})
        return
    if kind == "message" and item.one_of("role", _ROLES) != "assistant":
        messages.append({"role": item.raw["role"], "content": _content(item, "content")})
        return
    if not messages or messages[-1]["role"] != "assistant" or (kind == "message" and messages[-1]["content"]):
        messages.append({"role": "assistant", "content": None})
    turn = messages[-1]
    if kind == "message":
        turn["content"] = _content(item, "content")
    elif kind == "reasoning":
        parts = [*item.objects("content", ()), *item.objects("summary", ())]
        turn["reasoning_content"] = turn.get("reasoning_content", "") + "".join(p.text("text", "") for p in parts)
    else:
        function = {"name": item.text("name"), "arguments": item.text("arguments")}
        call = {"id": item.text("call_id"), "type": "function", "function": function}
        turn.setdefault("tool_calls", []).append(call)


def _content(item: Fields, field: str) -> str:
    """A string, whatever the parts."""
    value = item.raw.get(field)
    if isinstance(value, str):
        return value
    if value is None:
        raise item.wrong(field, f"is required; {shown(value)} is not allowed")
    return "".join(_part(p)["text"] for p in item.objects(field))


def _part(part: Fields) -> dict[str, Any]:
    """A part as chat completions have it."""
    kind = part.text("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "text", "text": part.text("refusal")}
    raise not_text(part, "input_text", "output_text", "refusal")
