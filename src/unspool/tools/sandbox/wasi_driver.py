"""Runs `notebook` in a CPython for WebAssembly (WASI), inside wasmtime, with neither files nor network.

``wasi_driver.py FILE.cwasm NOTEBOOK MEMORY OUTPUT``: the compiled interpreter with its standard library, the path of
`notebook`, the bytes of memory and the characters of output.
``wasi_driver.py --compile FILE.wasm FILE.cwasm`` prepares it, which takes a minute.
"""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

wasmtime: Any = importlib.import_module("wasmtime")
_ERRORS = 65_536
"""The most bytes that may be written to standard error, which is a file."""


def engine() -> Any:
    """The engine, with the same settings for compiling and for running."""
    return wasmtime.Engine(wasmtime.Config())


def compiled(source: Path, target: Path) -> None:
    """Compile a module; the target appears only once it is complete."""
    module = wasmtime.Module(engine(), source.read_bytes())
    part = target.with_suffix(f".{os.getpid()}")
    part.write_bytes(module.serialize())
    part.replace(target)


def main() -> None:
    file, notebook, memory, output = sys.argv[1:]
    with suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (_ERRORS, _ERRORS))
    found = engine()
    module = wasmtime.Module.deserialize_file(found, file)
    store = wasmtime.Store(found)
    store.set_limits(memory_size=int(memory), instances=8, memories=2, tables=8)
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["python", "-I", "-S", "-c", Path(notebook).read_text(encoding="utf-8"), memory, output]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    store.set_wasi(wasi)
    linker = wasmtime.Linker(found)
    linker.define_wasi()
    linker.instantiate(store, module).exports(store)["_start"](store)


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        compiled(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
