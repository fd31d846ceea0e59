"""The core under other Pythons: `make pythons`, for each installed interpreter of a promised version.

This is the only way to notice differences between versions of Python (`re`, `asyncio`, warnings). Each version gets an
environment of its own, beside the one of the other targets.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CORE = (
    "batch", "cli/test_commands.py", "dialect", "grammar", "parser", "request", "rl", "server", "wire", "check",
    "infer/test_detect.py", "renderer",
    "test_invariants.py", "test_limits.py", "test_message.py", "test_misuse.py", "test_policy.py",
    "test_regex.py", "test_schema.py", "test_tokens.py",
    "test_toolset.py", "test_traps.py",
)  # fmt: skip
"""The folders of the tests that run by default."""
SAMPLE = ("--cases", "10")
"""How many cases of each test run, since a difference shows in all of them. ``--cases 0`` runs all."""
_ASK = "import platform, sysconfig; print(platform.python_version(), sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"


class Interpreter(NamedTuple):
    """A Python on this machine."""

    version: tuple[int, ...]
    path: Path

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def promised() -> list[str]:
    """The versions that the package's metadata names, as ``3.11``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return re.findall(r":: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)


def candidates() -> Iterator[Path]:
    """Programs that may be such a Python: from ``PYTHONS``, from ``PATH``, and pyenv's."""
    yield from map(Path, os.environ.get("PYTHONS", "").split())
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *sorted(pyenv.glob("versions/*/bin"))]
    yield from (folder / f"python{version}" for folder in folders for version in promised())


def interpreters() -> list[Interpreter]:
    """The interpreters of promised versions with a global lock, the oldest first; each version once."""
    found: dict[tuple[int, ...], Path] = {}
    for path in candidates():
        if not path.is_file():
            continue
        told = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
        told_version = re.fullmatch(r"(3\.\d+)\.(\d+) 0\n", told.stdout)
        if (
            told.returncode == 0 and told_version and told_version[1] in promised()
        ):  # pyenv's shims may belong to no version
            found.setdefault(tuple(map(int, f"{told_version[1]}.{told_version[2]}".split("."))), path)
    return [Interpreter(version, path) for version, path in sorted(found.items())]


def environment(folder: Path, interpreter: Interpreter) -> Path:
    """The interpreter of an environment with the tests' packages, which is made if it is missing or out of date."""
    made = folder / f"python-{interpreter}"
    python, stamp, project = made / "bin" / "python", made / ".installed", ROOT / "pyproject.toml"
    if not stamp.is_file() or stamp.stat().st_mtime < project.stat().st_mtime:
        print(f"installing what tests need for Python {interpreter} into {made}: a minute", flush=True)
        subprocess.run([interpreter.path, "-m", "venv", made], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], cwd=ROOT, check=True)
        subprocess.run([*pip, "--group", "test", "--editable", ".[all]"], cwd=ROOT, check=True)
        stamp.touch()
    return python


def main() -> int:
    """Run the core's tests, or pytest's arguments, under each interpreter. The exit code is 2 if there is none."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", type=Path, help="the folder of the environments")
    p.add_argument("--list", action="store_true", help="list the interpreters, and run nothing")
    options, arguments = p.parse_known_args()
    found = interpreters()
    if options.list or not found:
        print("\n".join(f"{one}\t{one.path}" for one in found) or f"no Python {', '.join(promised())} is here")
        return 0 if found else 2
    named = any(argument.startswith("tests") for argument in arguments)
    given = [*SAMPLE, *arguments] if named else [*SAMPLE, *arguments, *(f"tests/{name}" for name in CORE)]
    results: list[tuple[Interpreter, int, float]] = []
    for one in found:
        python = environment(options.folder, one)
        began = time.monotonic()
        print(f"Python {one} ({one.path})", flush=True)
        code = subprocess.run([python, "-m", "pytest", "-n", "2", *given], cwd=ROOT, check=False).returncode
        results.append((one, code, time.monotonic() - began))
    for one, code, took in results:
        print(f"Python {one}: {'passed' if code == 0 else f'FAILED ({code})'} in {took:.0f} s")
    return int(any(code for _, code, _ in results))


if __name__ == "__main__":
    sys.exit(main())
