"""An MCP server over standard streams, whose tools hang, flood, die, wait for an approval, or have odd schemas."""

import json
import sys
import threading
import time
from typing import Any

TOOLS = ("add", "guarded", "hang", "flood", "die", "split")
ODD: dict[str, Any] = {
    "odd_number": {"type": "object", "properties": {"a": {"multipleOf": 47567917}}},
    "odd_type": {"type": "string"},
    "odd_itself": {"$ref": "#"},
}
for _ in range(150):
    ODD["odd_depth"] = {"type": "object", "properties": {"a": ODD.get("odd_depth", {})}}
OUTPUT = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|a)*$"}}}
"""A schema that takes forever to check `STRUCTURED`."""
STRUCTURED = {"a": "a" * 64 + "b"}
_LOCK = threading.Lock()


def result(name: str) -> dict[str, Any]:
    if name == "hang":
        time.sleep(600)
    if name == "die":
        sys.exit("it ends")
    if name == "split":
        return {"content": [{"type": "text", "text": ""}] * 80_000}
    text = "flood " * 500_000 if name == "flood" else "done"
    return {"content": [{"type": "text", "text": text}], "structuredContent": STRUCTURED}


def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params", {})
    fields: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        version, info = params["protocolVersion"], {"name": "attacked", "version": "1"}
        fields["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        listed = [
            {"name": n, "description": n, "inputSchema": {"type": "object"}, "outputSchema": OUTPUT} for n in TOOLS
        ]
        listed += [{"name": n, "inputSchema": s} for n, s in ODD.items()]
        fields["result"] = {"tools": listed}
    elif method == "tools/call":
        fields["result"] = result(params["name"])
    else:
        fields["error"] = {"code": -32601, "message": "there is no such method"}
    with _LOCK:
        print(json.dumps(fields), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked.get("params", {}).get("name") == "hang":
        threading.Thread(target=answer, args=(asked,), daemon=True).start()
    else:
        answer(asked)
