"""Reads the parts of a history about the server's tools: calls with results, and approvals with their answers.

Each protocol has its own form for these. The model sees its own form: calls, and messages with their results.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from ..tools import ServerTool
from ..wire.agui import INTERRUPTS
from .approvals import Approvals
from .common import UNTOLD, call_of
from .declared import called_by, history_call, own_kind
from .fields import Fields
from .parts.reading import SCREENSHOT, read_part
from .server_tools import Offer, Pending, ServedTool, ServerTools

OUTPUTS: Final = (
    "local_shell_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output", "program_output",
)  # fmt: skip
_HOSTED: Final = ("web_search_call", "file_search_call", "image_generation_call", *(o[:-7] for o in OUTPUTS))
ITEMS: Final = (
    "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response", "code_interpreter_call",
    *_HOSTED, *OUTPUTS,
)  # fmt: skip
"""Items of Responses' input about the server's tools, and about others at OpenAI or of its models."""
HIDDEN: Final = "unspool"
"""The field of a stored item with what clients do not get: the call and the results of a search."""
RESULTS: Final = "_tool_result"
"""How the types of those blocks of an answer in Messages end that are results of tools that ran on a server."""
REFUSED: Final = "The call was not allowed"
_UNKNOWN: Final = "What came of it is not known."
_LOST: Final = "The call was allowed, but its result is not known."


def result_of(id: str, name: str, content: Any) -> dict[str, Any]:
    """A result in the form of chat completions."""
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


def refused(reason: str) -> str:
    """The result of a call that was not allowed."""
    return f"{REFUSED}: {reason}" if reason else f"{REFUSED}."


# -- chat completions --------------------------------------------------------------------------------------------------


def with_results(fields: Fields, message: dict[str, Any], offer: Offer) -> list[dict[str, Any]]:
    """A message, which was read from ``fields``, with the calls and results before it if it has ``tool_results``."""
    given = message.pop("tool_results", None)
    if message["role"] != "assistant" or given is None:
        return [message]
    calls, results = [], []
    for one in fields.objects("tool_results", ()):
        name = offer.name_of(one.text("server", ""), one.text("name"))
        calls.append(call_of(one.text("id"), name, one.text("arguments")))
        results.append(result_of(one.text("id"), name, one.text("content")))
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results, message] if calls else [message]


# -- Responses ---------------------------------------------------------------------------------------------------------


def output_of(item: Fields, *, shown: bool) -> Any:
    """What a call of a tool that OpenAI defines gave: text, or a screenshot, if that is ``shown`` to the model."""
    output = item.raw.get("output") or item.raw.get("result")
    if shown and isinstance(output, dict) and output.get("type") in SCREENSHOT:
        return [read_part(item.object("output"), SCREENSHOT)]
    status = item.raw.get("status")
    ended = status if item.raw["type"] == "apply_patch_call_output" and isinstance(status, str) else ""
    said = result_text(output)
    empty = shown and item.raw.get("output") == ""  # all that it gave
    return f"{ended}: {said}" if said and ended == "failed" else said or ended or ("" if empty else _UNKNOWN)


class ServerItems:
    """Reads the items of an input about the server's tools, and appends their messages to those so far. ``listed``:
    labels of servers whose lists the client already has. ``clients``: types of calls that the client runs itself."""

    def __init__(self, messages: list[dict[str, Any]], offer: Offer, clients: Collection[str] = ()) -> None:
        self._messages = messages
        self._offer = offer
        self._clients = [*clients, *(f"{call}_output" for call in clients)]
        self._asked: dict[str, tuple[str, str, str, dict[str, Any]]] = {}
        """Server, tool, arguments and result of calls for which approval was requested, by the requests' ids."""
        self._answers: dict[str, tuple[Pending | None, dict[str, Any]]] = {}
        """Approved calls with their results, empty if they are to be run."""
        self._elsewhere: dict[Any, dict[str, Any]] = {}  # results of calls that ran elsewhere, by the calls' ids
        self.listed: set[str] = set()

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls to run before anything else."""
        return tuple(pending for pending, _ in self._answers.values() if pending is not None)

    def take(self, item: Fields, *, stored: bool) -> bool:
        """Take one item, which was stored or is the request's own, and return whether it is about the server's
        tools."""
        kind = item.raw.get("type")
        if kind in self._clients:
            self.give_up()
            return False
        if kind in OUTPUTS or (kind == "function_call_output" and item.text("call_id") in self._elsewhere):
            id = called_by(item)
            if id not in self._elsewhere:
                self._messages.append(result_of(id, "", ""))
            self._elsewhere.get(id, self._messages[-1])["content"] = output_of(item, shown=False)
            return True
        if kind not in ITEMS:
            if kind in ("reasoning", "function_call") or item.raw.get("role") == "assistant":
                self.give_up()
            return False
        if kind == "mcp_list_tools":
            if not item.text("error", None):
                self.listed.add(item.text("server_label"))
        elif kind == "mcp_approval_request":
            self._ask(item)
        elif kind == "mcp_approval_response":
            self._answer(item, stored)
        elif kind == "mcp_call":
            self._call(item)
        elif kind == "code_interpreter_call":
            self._code(item)
        elif not item.has(HIDDEN):
            self._hosted(item)
        else:
            call = item.object(HIDDEN)
            self._append(call.text("id"), call.text("name"), call.text("arguments"), call.text("result"))
        return True

    def give_up(self) -> None:
        """Drop pending calls, since the model went on, or has no such tools: they were run, or never will be."""
        for _, result in self._answers.values():
            result["content"] = _LOST
        self._answers = {}

    def _ask(self, item: Fields) -> None:
        id, server, tool = item.text("id"), item.text("server_label"), item.text("name")
        arguments = item.text("arguments")
        result = self._append(id, self._offer.name_of(server, tool), arguments, refused("nobody answered"))
        self._asked[id] = server, tool, arguments, result

    def _answer(self, item: Fields, stored: bool) -> None:
        id = item.text("approval_request_id")
        if id not in self._asked:
            if stored:  # the request was deleted from its conversation, or answered twice
                return
            reason = f"{id[:80]!r} is not an mcp_approval_request of the input, or its call has been run"
            raise item.wrong("approval_request_id", reason)
        server, tool, arguments, result = self._asked[id]
        allowed = item.flag("approve")
        if allowed and not self._offer.approvals.answers(id, server, tool, arguments):
            if not stored:
                reason = "was not requested by this server for this call and this API key"
                raise item.wrong("approval_request_id", reason)
            result["content"] = _LOST  # the server got another key since
            self._answers[id] = None, result
            return
        result["content"] = "" if allowed else refused(item.text("reason", ""))
        self._answers.pop(id, None)  # the last word counts
        if allowed:
            self._answers[id] = Pending(id, self._offer.name_of(server, tool), arguments, id), result

    def _call(self, item: Fields) -> None:
        approval = item.text("approval_request_id", None)
        output = item.text("output", None)
        if output is None:
            output = result_text(item.raw.get("error")) or "The call failed."
        if approval in self._asked:
            self._answers.pop(approval, None)
            self._asked.pop(approval)[3]["content"] = output
            return
        name = self._offer.name_of(item.text("server_label"), item.text("name"))
        self._append(item.text("id"), name, item.text("arguments"), output)

    def _code(self, item: Fields) -> None:
        tools = [t for t in self._offer.listing.tools if t.kind == "python"]
        properties = tools[0].definition["function"].get("parameters", {}).get("properties", {}) if tools else {}
        arguments = json.dumps({next(iter(properties), "code"): item.text("code", "")}, ensure_ascii=False)
        logs = "".join(o.text("logs", "") for o in item.objects("outputs", ()))
        self._append(item.text("id"), tools[0].name if tools else "python", arguments, logs)

    def _hosted(self, item: Fields) -> None:
        """A call that ran elsewhere, or a search of this server, whose results the client does not have. Where this
        server remembers these, they replace it."""
        if own_kind(item) is not None:
            function = history_call(item)["function"]
            id = called_by(item)
            self._elsewhere[id] = self._append(id, function["name"], function["arguments"], _UNKNOWN)
            return
        kind, raw = item.raw["type"], item.raw
        asked = raw["action"] if isinstance(raw.get("action"), dict) else raw
        given = {
            k: v
            for k, v in asked.items()
            if v and (k in ("queries", "revised_prompt", "code") if asked is raw else k != "sources")
        }
        id, arguments = called_by(item), json.dumps(given, ensure_ascii=False)
        found = result_text(raw.get("results") or asked.get("sources")) or _UNKNOWN
        result = self._elsewhere[id] = self._append(id, kind.removesuffix("_call"), arguments, found)
        if kind == "web_search_call":
            self._messages[-2].setdefault(UNTOLD, []).append(id)
            result[UNTOLD] = True

    def _append(self, id: str, name: str, arguments: str, text: str) -> dict[str, Any]:
        messages, call = self._messages, call_of(id, name, arguments)
        last: dict[str, Any] = messages[-1] if messages else {"role": ""}
        if last["role"] == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(result_of(id, name, text))
        return messages[-1]


_TOLD: Final = ("title", "filename", "url", "source", "text", "message", "error_code", "error_message", "tool_name")
_TOLD_NEXT: Final = ("stdout", "stderr", "tool_references", "content")
_DEEPEST: Final = 8


def result_text(value: Any, deepest: int = _DEEPEST) -> str:
    """What a result or an error of a tool at another server says: its texts, without what is encrypted or binary."""
    if isinstance(value, str):
        return value
    if deepest and isinstance(value, list):
        return "\n\n".join(filter(None, (result_text(one, deepest - 1) for one in value)))
    if not deepest or not isinstance(value, dict):
        return ""
    names = (*_TOLD, *(["data"] if value.get("type") == "text" else []), *_TOLD_NEXT)
    if value.get("file_type", "text") != "text":  # the content of a file that is an image, say
        names = _TOLD
    texts = [result_text(value[name], deepest - 1) for name in names if name in value]
    outcome = value.get("outcome")
    ended = outcome if isinstance(outcome, dict) else {"exit_code": value.get("return_code")}
    if ended.get("type") == "timeout":
        texts.append("timeout")
    elif isinstance(code := ended.get("exit_code"), int) and (code or (ended is outcome and not any(texts))):
        texts.append(f"exit code {code}")
    if isinstance(lines := value.get("lines"), list):
        texts.append("\n".join(line for line in lines if isinstance(line, str)))
    return "\n".join(filter(None, texts))


# -- Messages ----------------------------------------------------------------------------------------------------------


def rounds(blocks: Sequence[Fields]) -> Iterator[tuple[list[Fields], list[Fields]]]:
    """Divide the blocks of an answer into rounds: text and calls, then the results of the server's tools."""
    said: list[Fields] = []
    results: list[Fields] = []
    for block in blocks:
        if block.text("type").endswith(RESULTS):
            results.append(block)
            continue
        if results:
            yield said, results
            said, results = [], []
        said.append(block)
    if said or results:
        yield said, results


# -- AG-UI -------------------------------------------------------------------------------------------------------------


def resumed(
    fields: Fields, messages: list[dict[str, Any]], tools: ServerTools | None
) -> tuple[list[dict[str, Any]], tuple[Pending, ...]]:
    """The messages with the answers to interrupts, and their calls, for which the client has no results."""
    answered = {m.get("tool_call_id") for m in messages if m["role"] == "tool"}
    open_calls = {c["id"]: c for m in messages for c in m.get("tool_calls", ()) if c["id"] not in answered}
    named = _by_any_name(tools)
    results: dict[str, dict[str, Any]] = {}
    pending: list[Pending] = []
    for entry in fields.objects("resume", ()):
        approval, _, id = entry.text("interruptId").partition(INTERRUPTS)
        tool = None
        if tools is not None and id in open_calls and id not in results:
            function = open_calls[id]["function"]
            tool = _approved(approval, function, [one.tool for one in named.get(function["name"], ())], tools.approvals)
        if tool is None:
            raise entry.wrong("interruptId", "is not an approval that this server asked for, of a call without result")
        payload = entry.object("payload")
        allowed = entry.one_of("status", ("resolved", "cancelled")) == "resolved" and payload.flag("approved")
        refusal = "" if allowed else refused(payload.text("reason", ""))
        pending.append(Pending(id, tool.name, function["arguments"], approval, refusal))
        results[id] = result_of(id, tool.name, refusal)
    for id, call in open_calls.items():  # templates expect a result for each call, which nobody will provide
        name = call["function"]["name"]
        if id not in results and any(served.asks for served in named.get(name, ())):
            results[id] = result_of(id, name, refused("nobody answered"))
    return _with(messages, results), tuple(pending)


def _by_any_name(tools: ServerTools | None) -> dict[str, list[ServedTool]]:
    """Tools by their names: the client knows them by their own, which several may have."""
    named: dict[str, list[ServedTool]] = {}
    for served in () if tools is None else tools.tools.values():
        for name in {served.tool.name, served.tool.original}:
            named.setdefault(name, []).append(served)
    return named


def _approved(
    id: str, function: dict[str, Any], tools: Sequence[ServerTool], approvals: Approvals
) -> ServerTool | None:
    """That of the tools for whose call an approval with this id was asked, if there is one."""
    given = function["arguments"]
    return next((one for one in tools if approvals.answers(id, one.server, one.original, given)), None)


def _with(messages: list[dict[str, Any]], results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Insert results after the other results of the same answer."""
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "tool":
            found += waiting
            waiting = []
        found.append(message)
        waiting += [results[c["id"]] for c in message.get("tool_calls", ()) if c["id"] in results]
    return found + waiting
