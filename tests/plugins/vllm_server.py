"""vLLM's servers in their own processes: only the front end, and with the engine on a CPU."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool import Dialect

from ..loopback import free_port, process

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
    url = f"http://127.0.0.1:{port}"
    with process(line, f"{url}/health", folder / LOG, PATIENCE, **given):
        yield url
