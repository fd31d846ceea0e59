"""Runs the generic tests of dialects with further dialect files among the shipped ones.

    python -m tests.dialect.among FILE.toml… [-- PYTEST_ARGUMENT…]

Each file becomes a dialect by an entry point, like those of any package, and takes two to four seconds of processor
time. The exit code is pytest's.
"""

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from unspool.check import read_file

SUITES = (
    "tests/test_invariants.py", "tests/test_limits.py", "tests/test_message.py", "tests/test_policy.py",
    "tests/renderer", "tests/test_toolset.py", "tests/test_traps.py", "tests/dialect",
    "tests/grammar", "tests/parser", "tests/server/test_streams.py", "tests/wire/test_every_wire.py",
)  # fmt: skip
"""The tests that are parametrized by dialects."""


def package(files: Sequence[Path], folder: Path) -> None:
    """Make a package of dialect files: a module with their paths, and the metadata that names its entry points."""
    names = [read_file(f).name for f in files]
    paths = "".join(f"d{i} = {str(f.resolve())!r}\n" for i, f in enumerate(files))
    (folder / "dialects_among.py").write_text(paths, encoding="utf-8")
    info = folder / "dialects_among-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dialects-among\nVersion: 1.0\n", encoding="utf-8")
    points = "".join(f"{name} = dialects_among:d{i}\n" for i, name in enumerate(names))
    (info / "entry_points.txt").write_text(f"[unspool.dialects]\n{points}", encoding="utf-8")


def run(files: Sequence[Path], *arguments: str) -> int:
    """Run the generic tests of only these files, and return pytest's exit code."""
    names = [read_file(f).name for f in files]
    with tempfile.TemporaryDirectory() as folder:
        package(files, Path(folder))
        paths = os.pathsep.join(p for p in (folder, os.environ.get("PYTHONPATH", "")) if p)
        command = [sys.executable, "-m", "pytest", *SUITES, "-p", "tests.dialect.narrowed", "-k", " or ".join(names)]
        env = {**os.environ, "PYTHONPATH": paths, "AMONG": " ".join(names)}
        return subprocess.run([*command, *arguments], env=env, check=False).returncode


def failures(files: Sequence[Path], *arguments: str) -> dict[str, list[str]]:
    """Run the generic tests of these files, and return the tests that failed, by the name of the dialect.

    Raises:
        RuntimeError: pytest could not run the tests at all.
    """
    names = [read_file(f).name for f in files]
    found: defaultdict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = run(files, *arguments, f"--junitxml={report}")
        if code not in (0, 1):
            raise RuntimeError(f"pytest ended with {code}")
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
                found[max((n for n in names if n in test), key=len, default="")].append(test)
    return dict(found)


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    sys.exit(run([Path(w) for w in words[:at]], *words[at + 1 :]))
