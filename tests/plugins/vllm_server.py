"""vLLM's servers in their own processes: only the front end, and with the engine on a CPU."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool import Dialect

MODULE = "unspool.plugins.vllm_plugin"
WAYS: dict[str, tuple[dict[str, str], list[str]]] = {
    "entry point": ({}, []),
    "flag": ({"VLLM_PLUGINS": ""}, ["--tool-parser-plugin", MODULE, "--reasoning-parser-plugin", MODULE]),
}
"""How the plug-in is loaded into the server: environment and flags."""
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
}
"""The configuration of the smallest model that vLLM accepts."""
VISION = Path(sys.prefix) / "vision"
"""Where `make` installs torchvision, apart from the other packages."""
VISION_PATH = os.pathsep.join(map(str, (VISION, Path(__file__).parent / "vision", Path(__file__).parents[2])))
"""The ``PYTHONPATH`` with which it can be imported."""
_MARKER = re.compile(r"<[^\s<>={}]{1,40}>|\[[A-Z_]{3,}\]")
LOG = "log"
PATIENCE = 600.0


def markers(dialect: Dialect) -> list[str]:
    """The texts that would be special tokens of a dialect's model."""
    templates = [*dialect.calls, *dialect.call, *dialect.reasoning]
    texts = [t.text for t in templates] + list(dialect.start) + list(dialect.end)
    found = {m for text in texts for m in _MARKER.findall(text)}
    return sorted(found - {"<b>"})


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def write_model(folder: Path, tokenizer: Any, template: str, **fields: Any) -> None:
    """Write what the front end needs of a model: its tokenizer and its configuration."""
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    config = {**CONFIG, "vocab_size": len(tokenizer), **fields}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@contextlib.contextmanager
def serving(
    folder: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    dialect: Dialect | None,
    run: Sequence[str] = (sys.executable, "-m", "vllm.entrypoints.cli.main"),
) -> Iterator[str]:
    """The URL of a running server.

    Args:
        folder: the folder of the model, and for the log.
        command: vLLM's command, with its flags.
        environment: variables that are added to this process's.
        dialect: the dialect that our plug-in reads; ``None``: vLLM does not parse.
        run: how vLLM's program is run.
    """
    port = free_port()
    line = [*run, *command]
    line += ["--model", str(folder), "--served-model-name", "tiny", "--max-model-len", "8192", "--dtype", "float32"]
    line += ["--host", "127.0.0.1", "--port", str(port)]
    if dialect is not None:
        line += ["--enable-auto-tool-choice", "--tool-call-parser", f"unspool_{dialect.name}"]
        line += ["--reasoning-parser", f"unspool_{dialect.name}"] if dialect.reasoning else []
    given = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", **environment}
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(line, env={**os.environ, **given}, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait(process, url, folder / LOG)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-5000:]
        assert time.monotonic() < until, "the server did not start"
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)


def post(url: str, body: dict[str, Any]) -> Any:
    """Send a request that must succeed, and return the answer."""
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from None
