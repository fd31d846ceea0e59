"""OpenAI's Responses, without a store: each request carries the whole conversation."""

from typing import Any

from ...sealed import Seal
from ...wire import ResponsesWriter
from ...wire import responses as wire
from ..chat_request import ChatRequest
from ..common import (
    MAX_TOKENS,
    check_messages,
    check_served,
    not_text,
    sampling,
    thinking,
    toolset,
)
from ..declared import found_tools, history_call, read_choice, read_declared
from ..fields import Fields
from ..reasoning import Reasoning, opened, read_budget, read_context, read_include, read_summary
from .base import WireProtocol
from .chat import FORMATS

_ROLES = ("user", "assistant", "system", "developer")
_CALLS = ("function_call", "custom_tool_call", "tool_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SILENT = ("additional_tools", "web_search_call")
"""Items that say nothing to the model: tools are read elsewhere, and what OpenAI ran it told in its answer."""
_ITEMS = ("message", "reasoning", *_CALLS, *_OUTPUTS, "tool_search_output", *_SILENT)


class ResponsesProtocol(WireProtocol):
    """Responses have one choice."""

    id_prefix = "resp_"
    error_body = staticmethod(wire.error_body)

    def read(self, fields: Fields) -> ChatRequest:
        """See `WireProtocol.read`."""
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
        declared = read_declared(fields)
        tools = toolset(fields, declared.tools, read_choice(fields, declared), self.settings.limits)
        think, template = thinking(fields)
        reasoning = Reasoning(
            sealed=read_include(fields),
            summary=read_summary(fields),
            budget=read_budget(fields, self.settings.efforts),
            context=read_context(fields),
        )
        return ChatRequest(
            messages=_input(fields, self.settings.seal),
            toolset=tools,
            kinds=declared.kinds,
            grammars=declared.grammars,
            parallel=fields.flag("parallel_tool_calls", True),
            max_tokens=fields.integer("max_output_tokens", 1, MAX_TOKENS),
            sampling=sampling(fields),
            response_format=_format(fields),
            thinking=think,
            template=template,
            reasoning=reasoning,
            stream=fields.flag("stream"),
            body=fields.raw,
        )

    def writer(self, request: ChatRequest, id: str, created: int) -> ResponsesWriter:
        """See `WireProtocol.writer`."""
        body = {k: v for k, v in request.body.items() if v is not None and k != "store"}
        return ResponsesWriter(
            id=id,
            model=self.settings.model,
            created=created,
            request=body,
            seal=None if self.settings.seal is None or not request.reasoning.sealed else self.settings.seal.seal,
            summary=request.reasoning.summary,
            kinds=request.kinds,
        )


def _format(fields: Fields) -> dict[str, Any] | None:
    found = fields.object("text").object("format")
    kind = found.one_of("type", FORMATS, "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": kind}
    schema = {"name": found.text("name", ""), "schema": found.object("schema").raw, "strict": found.flag("strict")}
    return {"type": kind, "json_schema": schema}


# -- history -----------------------------------------------------------------------------------------------------------


def _input(fields: Fields, seal: Seal | None) -> list[dict[str, Any]]:
    """The input as chat completions have it, where one message has all that an assistant did at once."""
    messages: list[dict[str, Any]] = []
    instructions = fields.text("instructions", None)
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = fields.raw.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in fields.objects("input"):
        _take(item, messages, seal)
    if not fields.array("input"):
        raise fields.wrong("input", "is empty")
    return messages


def _take(item: Fields, messages: list[dict[str, Any]], seal: Seal | None) -> None:
    kind = item.one_of("type", _ITEMS, "message")
    if kind in _SILENT:
        return
    if kind == "tool_search_output":
        messages.append({"role": "tool", "tool_call_id": item.text("call_id", ""), "content": found_tools(item)})
        return
    if kind in _OUTPUTS:
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
        parts = [p.text("text", "") for p in item.objects("content", ())]
        summary = [p.text("text", "") for p in item.objects("summary", ())]  # of the text, where there is one
        text = opened(seal, item, "encrypted_content", "".join(parts or summary) or None)
        turn["reasoning_content"] = turn.get("reasoning_content", "") + text
    else:
        turn.setdefault("tool_calls", []).append(history_call(item))


def _content(item: Fields, field: str) -> str:
    """A string, whatever the parts."""
    value = item.raw.get(field)
    if isinstance(value, str):
        return value
    if value is None:
        raise item.wrong(field, "is required; null is not allowed")
    return "".join(_part(p)["text"] for p in item.objects(field))


def _part(part: Fields) -> dict[str, Any]:
    """A part as chat completions have it."""
    kind = part.text("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "text", "text": part.text("refusal")}
    raise not_text(part, "input_text", "output_text", "refusal")
