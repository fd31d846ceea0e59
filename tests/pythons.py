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


def interpreters() -> dict[str, Path]:
    """The interpreters of promised versions with a global lock, by version; pyenv's shims may belong to none."""
    found: dict[str, Path] = {}
    for path in filter(Path.is_file, candidates()):
        told = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
        version = re.fullmatch(r"((3\.\d+)\.\d+) 0\n", told.stdout)
        if told.returncode == 0 and version and version[2] in promised():
            found.setdefault(version[1], path)
    return found


def environment(made: Path, interpreter: Path) -> Path:
    """The interpreter of an environment with the tests' packages, which is made if it is missing or out of date."""
    python, stamp, project = made / "bin" / "python", made / ".installed", ROOT / "pyproject.toml"
    if not stamp.is_file() or stamp.stat().st_mtime < project.stat().st_mtime:
        print(f"installing what tests need into {made}: a minute", flush=True)
        subprocess.run([interpreter, "-m", "venv", made], check=True)
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
        print(
            "\n".join(f"{one}\t{path}" for one, path in found.items()) or f"no Python {', '.join(promised())} is here"
        )
        return 0 if found else 2
    named = any(argument.startswith("tests") for argument in arguments)
    given = [*SAMPLE, *arguments, *(() if named else (f"tests/{name}" for name in CORE))]
    results: list[str] = []
    for one, path in found.items():
        python = environment(options.folder / f"python-{one}", path)
        began = time.monotonic()
        print(f"Python {one} ({path})", flush=True)
        code = subprocess.run([python, "-m", "pytest", "-n", "2", *given], cwd=ROOT, check=False).returncode
        state = f"FAILED ({code})" if code else "passed"
        results.append(f"Python {one}: {state} in {time.monotonic() - began:.0f} s")
    print("\n".join(results))
    return int(any("FAILED" in line for line in results))


if __name__ == "__main__":
    sys.exit(main())
