"""An MCP server over standard streams, whose tools hang, flood, die, or wait for an approval."""

import json
import sys
import threading
import time
from typing import Any

TOOLS = ("add", "guarded", "hang", "flood", "die")
_LOCK = threading.Lock()


def result(name: str) -> dict[str, Any]:
    if name == "hang":
        time.sleep(600)
    if name == "die":
        sys.exit("it ends")
    text = "flood " * 500_000 if name == "flood" else "done"
    return {"content": [{"type": "text", "text": text}]}


def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params", {})
    fields: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        version, info = params["protocolVersion"], {"name": "attacked", "version": "1"}
        fields["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        listed = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in TOOLS]
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
