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


def page(cursor: str | None) -> dict[str, Any]:
    if FAULT == "pages":
        at = int(cursor or 0)
        rest = {"nextCursor": str(at + 1)} if at < 3 else {}
        return {"tools": [{**GOOD, "name": f"tool{at}"}], **rest}
    if FAULT == "endless-pages":
        return {"tools": [GOOD], "nextCursor": "again"}
    if FAULT == "many":
        return {"tools": [{**GOOD, "name": f"tool{i}"} for i in range(1000)]}
    if FAULT == "heavy":
        return {"tools": [{"name": 7}] * 40_000}
    if FAULT == "unreadable":
        return {"tools": [*({"name": i} for i in range(2000)), GOOD]}
    if FAULT == "lies":
        bad = [deep(60), {"type": "object", "description": "x" * 100_000}]
        named = [{**GOOD, "name": name} for name in ("", "sp ace", "a" * 200, "good")]
        return {"tools": [*map(schema, bad), *named, GOOD]}
    if FAULT == "odd":
        schemas: list[Any] = [{"type": "string"}, {}, None, 7, deep(150), {"type": "object", "properties": []}]
        fields: list[dict[str, Any]] = [{"name": 7}, {"description": {}}, {"title": 7}, {"name": None}]
        odd: list[Any] = [
            {**GOOD, "outputSchema": {"type": "object", "properties": {"a": {"pattern": "(a|a)*b"}}}},
            None,
            7,
            [],
        ]
        return {"tools": [*map(schema, schemas), *({**GOOD, **field} for field in fields), *odd]}
    if FAULT == "no-list":
        return {"tools": "none"}
    return {"tools": [GOOD]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bad", "version": "1"},
        }
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
    if FAULT == "parts":
        return {"content": [{"type": "text", "text": ""}] * 40_000}
    if FAULT == "brackets":
        return {"content": [{"type": "text", "text": "[{" * 100_000}]}
    if FAULT == "cut-texts":
        return {
            "content": [
                {"type": "text", "text": text} for text in ("\ud83d", "\ud83d\ude00", "\ude00\\ud83d", "\udcff")
            ]
        }
    if FAULT == "no-result":
        return {"content": 7}
    return {"content": [{"type": "text", "text": "done"}]}


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
