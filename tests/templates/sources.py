"""Where the chat templates come from: source distributions of two packages, which carry dozens."""

import importlib
import logging
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

PACKAGES = {
    "llama-cpp-python": "vendor/llama.cpp/models/templates",
    "vllm": "examples",
}
"""Package, and the folder in its source distribution that holds templates."""

VARIABLE = "UNSPOOL_TEMPLATES"
"""Names a folder with the two source distributions unpacked, for machines without network."""


class NoTemplates(Exception):
    """The templates cannot be had; the message says what to do."""


def folders(cache: Path) -> dict[str, Path]:
    """The folder of templates of each package.

    Raises:
        NoTemplates: they are neither where the variable says nor to be downloaded.
    """
    given = os.environ.get(VARIABLE)
    root = Path(given) if given else cache
    if not given and not all(_find(root, folder) for folder in PACKAGES.values()):
        _download(cache)
    found = {package: _find(root, folder) for package, folder in PACKAGES.items()}
    missing = [package for package, folder in found.items() if folder is None]
    if missing:
        raise NoTemplates(f"{root}: holds no unpacked source distribution of {', '.join(missing)}")
    return {package: folder for package, folder in found.items() if folder is not None}


def _find(root: Path, folder: str) -> Path | None:
    candidates = sorted({p.parent for p in root.glob("**/*.jinja") if p.parent.as_posix().endswith(f"/{folder}")})
    # The shallowest: packages carry copies in the tests of their parts.
    return min(candidates, key=lambda p: len(p.parts), default=None)


def _download(cache: Path) -> None:
    """Fetch the templates in another process: pip sets up logging and signal handlers of its own."""
    command = [sys.executable, "-m", __name__, str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise NoTemplates(
            f"cannot download the source distributions of {' and '.join(PACKAGES)} ({VARIABLE} may name a folder with "
            f"both unpacked):\n{done.stdout}{done.stderr}"
        )


def fetch(cache: Path) -> None:
    """Download the newest source distributions and unpack their templates.

    `pip download` would build an sdist's metadata, which needs compilers; its own finder and session do not.
    """
    logging.basicConfig(level=logging.WARNING)
    command: Any = importlib.import_module("pip._internal.commands.download").DownloadCommand("download", "")
    options, _ = command.parse_args(["."])
    command._in_main_context = True
    session = command._build_session(options)
    finder = command._build_package_finder(options=options, session=session)
    for package, folder in PACKAGES.items():
        found = [c for c in finder.find_all_candidates(package) if c.link.filename.endswith(".tar.gz")]
        if not found:
            raise SystemExit(f"no source distribution of {package} is to be found")
        link = max(found, key=lambda c: c.version).link
        with session.get(link.url_without_fragment, stream=True) as answer:
            answer.raise_for_status()
            answer.raw.decode_content = False
            with tarfile.open(fileobj=answer.raw, mode="r|gz") as archive:
                for member in archive:
                    if member.isfile() and member.name.endswith(".jinja") and f"/{folder}/" in member.name:
                        archive.extract(member, cache / package, filter="data")


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
