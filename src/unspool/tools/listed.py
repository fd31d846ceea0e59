"""Reads messages of MCP servers before the SDK does: it refuses a whole listing if it cannot read one of its tools, and
lets a call wait for an answer that it cannot read."""

import json
import re
from typing import Any, Final

import mcp_types
from mcp_types.methods import SERVER_RESULTS, validate_server_result
from pydantic import ValidationError

from .base import log

_LIST: Final = "tools/list"
_KEPT: Final = ("name", "title", "description", "inputSchema")
"""The fields of a tool that are used. With ``outputSchema``, the SDK would validate results, whose patterns may take
forever and whose references may lead anywhere."""
_MOST_TOOLS: Final = 1024
"""How many tools of a listing are read, each of which takes time. The server's own limit is lower."""
_MOST_VALUES: Final = 32_768
"""How many objects and lists a message may have: the SDK checks each, while nobody else is answered."""
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ID: Final = re.compile(r'"id"\s*:\s*(\d{1,18}|"[^"\\]{0,200}")')
_NEAR: Final = 500
"""At most so many characters from an answer's beginning or end is its id, before or after its result."""
_HALF: Final = re.compile(r"(\\[^u]|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")
_VERSIONS: Final = tuple(version for method, version in SERVER_RESULTS if method == _LIST)


class TooMany(ValueError):
    """A message of a server has too many values; the error says how many are allowed."""


def sifted(message: bytes, server: str) -> bytes:
    """The JSON of a server's message, whose faulty Unicode is replaced, as the SDK drops a message that has any; if it
    lists tools, without those that cannot be read, which are logged. An answer that the SDK cannot read becomes an
    error. `TooMany` if it has too many values."""
    return _readable(_listed(message, server))


def _readable(message: bytes) -> bytes:
    try:
        if message.startswith(b"{"):
            mcp_types.jsonrpc_message_adapter.validate_json(message, by_name=False)
    except ValidationError as error:
        begin, result, _ = (text := message.decode()).partition('"result"')
        id = _ID.search(begin[:_NEAR]) or _ID.search(text[-_NEAR:])
        if result and id and '"jsonrpc"' in text:
            fault = {
                "code": mcp_types.PARSE_ERROR,
                "message": f"its answer cannot be read: {error.errors()[0]['msg']}",
            }
            return _encoded({"jsonrpc": "2.0", "id": json.loads(id[1]), "error": fault})
    return message


def _listed(message: bytes, server: str) -> bytes:
    text = message.decode(errors="replace")
    many = text.count("{") + text.count("[") > _MOST_VALUES
    if not many and '"tools"' not in text and not _SURROGATE.search(text):
        return text.encode()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text.encode()  # the SDK says what is wrong
    if many and _has_many(found):
        raise TooMany(f"sent a message of more than {_MOST_VALUES:,} objects and lists")
    result = found.get("result") if isinstance(found, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(tools, list):
        return _encoded(found)
    kept = []
    if len(tools) > _MOST_TOOLS:
        log.warning("server %s lists %s tools; only %s are read", server, len(tools), _MOST_TOOLS)
    for tool in tools[:_MOST_TOOLS]:
        used = {key: tool[key] for key in _KEPT if key in tool} if isinstance(tool, dict) else tool
        fault = _fault(used)
        if fault:
            name = str(used.get("name") if isinstance(used, dict) else used)[:200]
            log.warning("tool %r of server %s is left out: %s", name, server, fault)
        else:
            kept.append(used)
    result["tools"] = kept
    return _encoded(found)


def _encoded(found: Any) -> bytes:
    """The JSON of a value, without halves of pairs of surrogates, with which a text ends that JavaScript has cut."""
    return _HALF.sub(lambda escape: escape[1] or r"\ufffd", json.dumps(found)).encode()


def _has_many(value: Any) -> bool:
    """Whether a value has too many objects and lists; texts may have as many brackets as they like."""
    waiting, count = [value], 0
    while waiting and count <= _MOST_VALUES:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += isinstance(one, dict | list)
        waiting += [each for each in inner if isinstance(each, dict | list)]
    return count > _MOST_VALUES


def _fault(tool: Any) -> str:
    """Why the SDK cannot read a tool; empty if it can."""
    try:
        # What it makes of a message is nested as deeply as JSON may be that it reads.
        mcp_types.jsonrpc_message_adapter.validate_json(
            json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"tools": [tool]}}), by_name=False
        )
        mcp_types.ListToolsResult.model_validate({"tools": [tool]}, by_name=False)
        for version in _VERSIONS:
            extra = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            validate_server_result(_LIST, version, {"tools": [tool], **extra})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}".removeprefix(": ")[:500]
    except (ValueError, RecursionError) as error:
        return str(error)[:500]
    return ""
