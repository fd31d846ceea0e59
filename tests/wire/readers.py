"""A client for each protocol. It assembles an answer, streamed or whole, and checks the protocol's rules."""

import json
from typing import Any, NamedTuple

from unspool import Message

Call = tuple[str, str, str]
"""Id, name, arguments."""


class Answer(NamedTuple):
    """The parts of a message that every protocol can express."""

    reasoning: str
    content: str
    calls: tuple[Call, ...]
    finish: str


def answer_of(message: Message) -> Answer:
    """The parts of a message that every protocol can express."""
    calls = tuple((c.id, c.name, c.arguments) for c in message.tool_calls)
    return Answer(message.reasoning, message.content, calls, message.finish_reason)


class Frame(NamedTuple):
    """A server-sent event."""

    event: str | None
    data: Any


def frames(stream: bytes, done: bool = False) -> list[Frame]:
    """The events of a stream, with the strictest framing: lines as any client splits them, two line feeds after each.

    ``done`` says that ``[DONE]`` must end it; it is not among the events.
    """
    text = stream.decode()
    assert len(text.splitlines()) == text.count("\n"), "a character ends a line for some clients"
    assert text.endswith("\n\n") or not text
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert list(fields) in (["data"], ["event", "data"]), block
        found.append((fields.get("event"), fields["data"]))
    if done:
        assert found.pop() == (None, "[DONE]")
    return [Frame(name, json.loads(data)) for name, data in found]


PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages", "ag-ui": "/ag-ui"}


def chunks(stream: str) -> list[Any]:
    """The JSON of a stream's frames."""
    data = [line.removeprefix("data: ") for line in stream.split("\n") if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def text_of(protocol: str, answer: str) -> str:
    """The text of an answer, whole or streamed."""
    if not answer.startswith("{"):
        return "".join(_piece(protocol, event) for event in chunks(answer))
    whole = json.loads(answer)
    if protocol == "chat":
        return whole["choices"][0]["message"]["content"] or ""
    parts = whole["content"] if protocol == "messages" else [p for o in whole["output"] for p in o["content"]]
    return "".join(part["text"] for part in parts)


def _piece(protocol: str, event: Any) -> str:
    if protocol == "chat":
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    if protocol == "messages":
        return event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""
    kind = "response.output_text.delta" if protocol == "responses" else "TEXT_MESSAGE_CONTENT"
    return event["delta"] if event["type"] == kind else ""


def joined(parts: list[str]) -> str:
    assert all(isinstance(p, str) for p in parts)
    return "".join(parts)


# -- chat completions --------------------------------------------------------------------------------------------------


def chat_stream(stream: bytes, field: str = "reasoning_content") -> tuple[list[Answer], dict[str, Any] | None]:
    """The choices of a stream of chunks, and its usage. In a choice, the role may come only once, like a call's id."""
    chunks = [f.data for f in frames(stream, done=True)]
    ((_, kind, _, _),) = {(c["id"], c["object"], c["created"], c["model"]) for c in chunks}
    assert kind == "chat.completion.chunk"
    choices: list[dict[str, Any]] = []
    usage = None
    for chunk in chunks:
        assert usage is None, "something follows the usage"
        usage = chunk.get("usage")
        for sent in chunk["choices"]:
            if sent["index"] == len(choices):  # choices open in order
                choices.append({"tool_calls": [], "finish": None})
            _chat_delta(choices[sent["index"]], sent)
    return [_chat_answer(c, field) for c in choices], usage


def _chat_delta(choice: dict[str, Any], sent: dict[str, Any]) -> None:
    assert choice["finish"] is None, "something follows the finish reason"
    choice["finish"] = sent["finish_reason"]
    for key, value in sent["delta"].items():
        if key == "tool_calls":
            for call in value:
                _chat_call(choice["tool_calls"], call)
        elif value is not None:
            assert key != "role" or key not in choice, "the role is sent twice"
            choice[key] = choice.get(key, "") + value


def _chat_call(calls: list[dict[str, str]], call: dict[str, Any]) -> None:
    if call["index"] == len(calls):
        assert call["type"] == "function"
        calls.append({"id": call["id"], **call["function"]})
        return
    assert call["index"] == len(calls) - 1, "one call after another"
    assert set(call) == {"index", "function"}
    assert set(call["function"]) == {"arguments"}
    calls[-1]["arguments"] += call["function"]["arguments"]


def _chat_answer(choice: dict[str, Any], field: str) -> Answer:
    assert choice["role"] == "assistant"
    calls = tuple((c["id"], c["name"], c["arguments"]) for c in choice["tool_calls"])
    return Answer(choice.get(field, ""), choice.get("content", ""), calls, choice["finish"] or "")


def chat_whole(data: bytes, field: str = "reasoning_content") -> list[Answer]:
    """The choices of a whole answer."""
    answer = json.loads(data)
    assert answer["object"] == "chat.completion"
    found = []
    for i, choice in enumerate(answer["choices"]):
        assert choice["index"] == i
        message = choice["message"]
        assert message["role"] == "assistant"
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
        reasoning = message.get(field) or ""
        found.append(Answer(reasoning, message["content"] or "", tuple(calls), choice["finish_reason"]))
    return found


# -- Responses ---------------------------------------------------------------------------------------------------------

_UNFINISHED = {"max_output_tokens": "length", "content_filter": "content_filter"}
_DELTAS = {"reasoning": "response.reasoning_text", "message": "response.output_text"}


def responses_stream(stream: bytes) -> dict[str, Any]:
    """The response in the last event. Every item is also rebuilt from its own events, and must be the same."""
    events = []
    for i, frame in enumerate(frames(stream)):
        assert frame.event == frame.data["type"]
        assert frame.data["sequence_number"] == i
        events.append(frame.data)
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"]
    *items, last = events[2:]
    rebuilt: list[dict[str, Any]] = []
    at = 0
    while at < len(items):
        size = next(n for n, e in enumerate(items[at:], 1) if e["type"] == "response.output_item.done")
        rebuilt.append(_responses_item(items[at : at + size], len(rebuilt)))
        at += size
    response: dict[str, Any] = last["response"]
    assert response["output"] == rebuilt
    assert last["type"] == f"response.{response['status']}"
    return response


def _responses_item(events: list[dict[str, Any]], index: int) -> dict[str, Any]:
    added, *inner, done = events
    assert added["type"] == "response.output_item.added"
    assert {e["output_index"] for e in events} == {index}
    item: dict[str, Any] = done["item"]
    kind = item["type"]
    assert {e["item_id"] for e in inner} == {added["item"]["id"]} == {item["id"]}
    if kind == "function_call":
        *deltas, end = inner
        assert {e["type"] for e in deltas} <= {"response.function_call_arguments.delta"}
        assert end["type"] == "response.function_call_arguments.done"
        assert joined([e["delta"] for e in deltas]) == end["arguments"] == item["arguments"]
        assert {**added["item"], "arguments": item["arguments"], "status": item["status"]} == item
        return item
    opened, *deltas, end, closed = inner
    name = _DELTAS[kind]
    assert (opened["type"], closed["type"]) == ("response.content_part.added", "response.content_part.done")
    assert {e["type"] for e in deltas} == {f"{name}.delta"}
    assert end["type"] == f"{name}.done"
    text = joined([e["delta"] for e in deltas])
    assert text == end["text"] == closed["part"]["text"]
    assert {e["content_index"] for e in inner} == {0}
    assert item["content"] == [closed["part"]]
    assert added["item"]["content"] == []
    return item


def responses_answer(response: dict[str, Any]) -> Answer:
    """The contents of a response."""
    items = response["output"]
    text = {
        kind: "".join(p["text"] for i in items if i["type"] == kind for p in i["content"])
        for kind in ("reasoning", "message")
    }
    calls = tuple((i["call_id"], i["name"], i["arguments"]) for i in items if i["type"] == "function_call")
    details = response["incomplete_details"]
    finish = _UNFINISHED[details["reason"]] if details else "tool_calls" if calls else "stop"
    return Answer(text["reasoning"], text["message"], calls, finish)


# -- Messages ----------------------------------------------------------------------------------------------------------

_FINISHES = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
_BLOCK_DELTAS = {
    "thinking": ("thinking_delta", "thinking"),
    "text": ("text_delta", "text"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def messages_stream(stream: bytes) -> dict[str, Any]:
    """The message in a stream. The input of a call is its JSON text."""
    events = []
    for frame in frames(stream):
        assert frame.event == frame.data["type"]
        events.append(frame.data)
    first, *inner, delta, last = events
    assert (first["type"], delta["type"], last["type"]) == ("message_start", "message_delta", "message_stop")
    message: dict[str, Any] = first["message"]
    assert message["content"] == []
    open_block: dict[str, Any] | None = None
    for event in inner:
        if event["type"] == "content_block_start":
            assert open_block is None, "one block after another"
            assert event["index"] == len(message["content"])
            open_block = event["content_block"]
            message["content"].append(open_block)
            if open_block["type"] == "tool_use":
                assert open_block["input"] == {}
                open_block["input"] = ""
        elif event["type"] == "content_block_delta":
            assert open_block is not None
            assert event["index"] == len(message["content"]) - 1
            kind, field = _BLOCK_DELTAS[open_block["type"]]
            assert event["delta"]["type"] == kind
            open_block["input" if kind == "input_json_delta" else field] += event["delta"][field]
        else:
            assert event == {"type": "content_block_stop", "index": len(message["content"]) - 1}
            open_block = None
    assert open_block is None
    return {**message, **delta["delta"], "usage": {**message["usage"], **delta["usage"]}}


def messages_whole(data: bytes) -> dict[str, Any]:
    """A whole message. The input of a call is its exact JSON text."""
    message: dict[str, Any] = json.loads(data)
    text, at = data.decode(), 0
    for block in message["content"]:
        if block["type"] == "tool_use":
            at = text.index('"input":', at) + len('"input":')
            _, end = json.JSONDecoder().raw_decode(text, at)
            block["input"], at = text[at:end], end
    return message


def messages_answer(message: dict[str, Any]) -> Answer:
    """The contents of a message."""
    blocks = message["content"]
    reasoning = "".join(b["thinking"] for b in blocks if b["type"] == "thinking")
    content = "".join(b["text"] for b in blocks if b["type"] == "text")
    calls = tuple((b["id"], b["name"], _unwrapped(b["input"])) for b in blocks if b["type"] == "tool_use")
    return Answer(reasoning, content, calls, _FINISHES[message["stop_reason"]])


def _unwrapped(text: str) -> str:
    value = json.loads(text)
    assert isinstance(value, dict), "clients need an object"
    return str(value["INVALID_JSON"]) if list(value) == ["INVALID_JSON"] else text


# -- AG-UI -------------------------------------------------------------------------------------------------------------

_AGUI_STARTS = {"TEXT_MESSAGE": "messageId", "REASONING_MESSAGE": "messageId", "TOOL_CALL": "toolCallId"}


def agui_stream(stream: bytes) -> tuple[Answer, dict[str, Any]]:
    """The contents of a run, and its last event. Starts and ends are verified as in the official client."""
    events = []
    for frame in frames(stream):
        assert frame.event is None
        assert None not in frame.data.values(), "optional fields are left out"
        events.append(frame.data)
    first, *inner, last = events
    assert first["type"] == "RUN_STARTED"
    assert last["type"] == "RUN_FINISHED"
    opened: set[tuple[str, str]] = set()
    reasoning, content, calls, parents = "", "", {}, set()
    for event in inner:
        name, _, step = event["type"].rpartition("_")
        id = event[_AGUI_STARTS.get(name, "messageId")]
        if step == "START":
            assert (name, id) not in opened
            opened.add((name, id))
        else:
            assert (name, id) in opened, "not open"
        if step == "END":
            opened.remove((name, id))
        match event["type"]:
            case "REASONING_MESSAGE_START":
                assert event["role"] == "reasoning"
                assert ("REASONING", id) in opened
            case "REASONING_MESSAGE_CONTENT":
                reasoning += event["delta"]
            case "TEXT_MESSAGE_START":
                assert event["role"] == "assistant"
                parents.add(id)
            case "TEXT_MESSAGE_CONTENT":
                content += event["delta"]
            case "TOOL_CALL_START":
                parents.add(event["parentMessageId"])
                calls[id] = [event["toolCallName"], ""]
            case "TOOL_CALL_ARGS":
                calls[id][1] += event["delta"]
    assert not opened, "something is open at the end of the run"
    assert len(parents) <= 1, "all belong to one assistant message"
    assert last["outcome"].get("pendingToolCallIds", []) == list(calls)
    in_order = tuple((id, name, arguments) for id, (name, arguments) in calls.items())
    return Answer(reasoning, content, in_order, last["result"]["finishReason"]), last
