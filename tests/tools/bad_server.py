"""An MCP server over standard streams, without the SDK. Its argument says how it misbehaves."""

import json
import sys
import time
from typing import Any

FAULT = sys.argv[1]
GOOD = {"name": "good", "description": "Good.", "inputSchema": {"type": "object"}}


def schema(value: Any) -> dict[str, Any]:
    return {"name": f"bad{abs(hash(str(value)))}", "inputSchema": value}


def deep(levels: int) -> Any:
    found: Any = {"type": "string"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}}
    return found


BAD = [deep(60), {"type": "object", "description": "x" * 100_000}]
NAMED = [{**GOOD, "name": name} for name in ("", "sp ace", "a" * 200, "good")]
SCHEMAS: list[Any] = [{"type": "string"}, {}, None, 7, deep(150), {"type": "object", "properties": []}]
FIELDS: list[dict[str, Any]] = [{"name": 7}, {"description": {}}, {"title": 7}, {"name": None}]
SLOW = {**GOOD, "outputSchema": {"type": "object", "properties": {"a": {"pattern": "(a|a)*b"}}}}
PAGES: dict[str, dict[str, Any]] = {
    "endless-pages": {"tools": [GOOD], "nextCursor": "again"},
    "many": {"tools": [{**GOOD, "name": f"tool{i}"} for i in range(1000)]},
    "heavy": {"tools": [{"name": 7}] * 40_000},
    "unreadable": {"tools": [*({"name": i} for i in range(2000)), GOOD]},
    "lies": {"tools": [*map(schema, BAD), *NAMED, GOOD]},
    "odd": {"tools": [*map(schema, SCHEMAS), *({**GOOD, **field} for field in FIELDS), SLOW, None, 7, []]},
    "no-list": {"tools": "none"},
}


def page(cursor: str | None) -> dict[str, Any]:
    if FAULT == "pages":
        at = int(cursor or 0)
        rest = {"nextCursor": str(at + 1)} if at < 3 else {}
        return {"tools": [{**GOOD, "name": f"tool{at}"}], **rest}
    return PAGES.get(FAULT, {"tools": [GOOD]})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        told = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "bad", "version": "1"}}
        return {**told, "capabilities": {"tools": {}}}
    if method == "tools/list":
        return page(params.get("cursor"))
    if method == "tools/call":
        return call()
    raise KeyError(method)


def call() -> dict[str, Any]:
    if FAULT == "hang":
        time.sleep(600)
    if FAULT == "line":
        sys.stdout.write("x" * 20_000_000)
        sys.stdout.flush()
    if FAULT == "flood":
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        while True:
            print(note)
    if FAULT == "nonsense":
        print("this is no JSON", flush=True)
        print('{"jsonrpc": "2.0", "id": 99999, "result": {}}', flush=True)
    if FAULT == "no-result":
        return {"content": 7}
    texts: dict[str, list[str]] = {"parts": [""] * 40_000, "brackets": ["[{" * 100_000]}
    texts["cut-texts"] = ["\ud83d", "\ud83d\ude00", "\ude00\\ud83d", "\udcff"]
    return {"content": [{"type": "text", "text": text} for text in texts.get(FAULT, ["done"])]}


if FAULT == "silent":
    time.sleep(600)
if FAULT == "complains":
    sys.exit("the file of settings is missing")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params", {}))
    except KeyError:
        reply["error"] = {"code": -32601, "message": "there is no such method"}
    if message["method"] == "tools/call" and FAULT in ("deep", "late-id"):
        result = '{"content": [], "structuredContent": {"id": 7, "a": ' + "[" * 10_000 + "]" * 10_000 + "}}"
        first, last = f'"id": {json.dumps(reply["id"])}, ', ""
        if FAULT == "late-id":
            first, last = "", f', "id": {json.dumps(reply["id"])}'
        print(f'{{"jsonrpc": "2.0", {first}"result": {result}{last}}}', flush=True)
        continue
    if message["method"] == "tools/call" and FAULT == "result":
        reply["result"] = "text"
    written = json.dumps(reply).replace('"\\udcff"', '"\udcff"')  # a byte that is no UTF-8
    sys.stdout.buffer.write(written.encode(errors="surrogateescape") + b"\n")
    sys.stdout.buffer.flush()
