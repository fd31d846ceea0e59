"""A stand-in for the process of llama.cpp, with its protocol and endpoints; texts choose faults.

``crash`` ends it by a signal of its own before any output, ``slow`` writes a word every 50 ms, ``drop`` logs that the
grammar was dropped. The model's path may be ``unknown``, which it cannot load, or ``late``, which takes a second.
"""

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    loaded = False
    key = ""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _usable(self) -> bool:
        if not Handler.loaded:
            self._json({"error": {"message": "Loading model", "code": 503}}, 503)
        elif self.headers["Authorization"] != f"Bearer {Handler.key}":
            self._json({"error": {"message": "Invalid API Key", "code": 401}}, 401)
        else:
            return True
        return False

    def do_GET(self) -> None:
        if self._usable():
            self._json({"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 2048}}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._usable():
            return
        if self.path == "/tokenize":
            self._json({"tokens": [7 if "slow" in asked["content"] else 3] * len(asked["content"].split())})
            return
        grammar = asked.get("grammar", "")
        if "crash" in grammar:
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(10)
        if "drop" in grammar:
            print("0.0 E llg error: it is dropped", file=sys.stderr, flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        words = 40 if 7 in asked["prompt"] or "slow" in grammar else 3
        for _ in range(words):
            self._event({"content": "word "})
            time.sleep(0.05 if words > 3 else 0)
        self._event({"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": words, "tokens_evaluated": 1})

    def _event(self, value: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    if "unknown" in asked["model"]:
        print("0.00.1 E llama_model_load: unknown model architecture: 'lxama'", file=sys.stderr)
        print(json.dumps({"error": "failed"}), flush=True)
        sys.exit(1)
    Handler.key = asked["key"]
    server = ThreadingHTTPServer(("127.0.0.1", asked["port"]), Handler, bind_and_activate=False)
    server.allow_reuse_port = asked["reuse"]
    server.server_bind()
    server.server_activate()
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    if "late" in asked["model"]:
        time.sleep(1)
    Handler.loaded = True
    print("{}", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
