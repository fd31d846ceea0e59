"""The process of llama.cpp: its own HTTP server, in a process that ends with the one that started it.

It is run as a file and imports nothing of unspool, since llama.cpp is native code that may crash or use up memory. The
first line of standard input is a JSON object: ``model``, ``adapters`` (pairs of a path and a scale), ``port``, ``key``,
``fields`` (values by the names of xllamacpp's ``CommonParams``), and ``given``, pairs of such a name and a text. The
answer is one line of JSON when the model is loaded, or before: ``{}``, or an ``error`` with the wrong ``field``.
Afterwards nothing is read, and the end of the input ends the process.
"""

import contextlib
import difflib
import enum
import json
import os
import select
import sys
from typing import Any

OWN = {
    "api_keys", "api_prefix", "cors_origins", "hostnames", "lora_adapters", "model", "models_dir", "port",
    "reuse_port", "ssl_file_cert", "ssl_file_key", "ui",
}  # fmt: skip
"""Fields that are not the operator's: the model's, and those of an address that only unspool knows."""


def _typed(current: Any, text: str) -> Any:
    """A text as a value of the same type as the current one."""
    if isinstance(current, enum.Enum):
        names = {name.lower(): value for name, value in type(current).__members__.items()}
        found = [n for n in names if n == text.lower() or n.endswith("_" + text.lower())]
        if len(found) != 1:
            raise ValueError(f"one of {', '.join(names)}")
        return names[found[0]]
    if isinstance(current, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"
    if isinstance(current, str):
        return text
    kind = "an integer" if isinstance(current, int) else "a number" if isinstance(current, float) else "JSON"
    try:
        return int(text) if kind == "an integer" else float(text) if kind == "a number" else json.loads(text)
    except ValueError:
        raise ValueError(kind) from None


def _place(params: Any, name: str) -> tuple[Any, str]:
    """The object that has a field, and the field's own name; ``name`` has dots for inner fields."""
    *path, last = name.split(".")
    for part in path:
        params = getattr(params, part, None)
    return params, last


def _set(params: Any, name: str, text: str) -> None:
    """Set a field that the operator names to a text."""
    holder, last = _place(params, name)
    first, _, inner = name.partition(".")
    fields = [field for field in dir(holder) if not field.startswith("_")] if holder is not None else []
    if first in OWN or last not in fields or callable(getattr(holder, last)):
        known = [] if inner and first in OWN else [field for field in fields if field not in OWN]
        near = difflib.get_close_matches(last, known, 1)
        did = f"; did you mean {name.removesuffix(last)}{near[0]}?" if near else ""
        raise ValueError(f"{name}: is no field of llama.cpp's that can be set{did}")
    try:
        setattr(holder, last, _typed(getattr(holder, last), text))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: must be {error}, not {text!r}") from None


def _end_with_the_input() -> None:
    """Let the kernel end this process with its input, since loading a model holds the interpreter's lock."""
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)  # SIGIO ends a process
        ended = select.poll()
        ended.register(0, select.POLLIN)
        if ended.poll(0):  # it has ended before
            os._exit(0)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # llama.cpp may print there

    def answer(**fields: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(fields) + "\n")
            answers.flush()

    asked = json.loads(sys.stdin.buffer.readline())
    _end_with_the_input()
    import xllamacpp

    params = xllamacpp.CommonParams()
    for name, value in asked["fields"].items():
        holder, last = _place(params, name)
        setattr(holder, last, value)
    params.model.path = asked["model"]
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], asked["port"], [asked["key"]]
    params.reuse_port = asked["reuse"]
    params.cors_origins = "http://127.0.0.1"
    params.ui = False
    # It loads a model twice, to fit it into the memory of devices.
    params.fit_params = len(xllamacpp.get_device_info()) > 1
    adapters = []
    for path, scale in asked["adapters"]:
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path, adapter.scale = path, scale
        adapters.append(adapter)
    params.lora_adapters = adapters
    for name, text in asked["given"]:
        try:
            _set(params, name, text)
        except ValueError as error:
            answer(field=name, error=str(error))
            return
    params.verbosity = max(params.verbosity, 1)  # unspool reads errors in the log
    try:
        kept = xllamacpp.Server(params)
    except Exception as error:
        answer(error=str(error))
        sys.exit(1)  # and not at once: the log has the reason, which another thread of llama.cpp's writes
    assert kept is not None  # it serves for as long as it is referred to
    answer()
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
