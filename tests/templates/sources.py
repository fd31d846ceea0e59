"""Where the chat templates come from: distributions of packages, which contain dozens."""

import hashlib
import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple


class Source(NamedTuple):
    """Where a package has its templates.

    Attributes:
        version: the version of the package.
        folder: the folder of the templates in its distribution.
        kind: the kind of the distribution: ``sdist`` or ``wheel``.
    """

    version: str
    folder: str
    kind: str = "sdist"


PACKAGES = {
    "llama-cpp-python": Source("0.3.36", "vendor/llama.cpp/models/templates"),
    "vllm": Source("0.33.0", "examples"),
    "trl": Source("1.16.0", "trl/chat_templates"),
    "axolotl": Source("0.19.0", "axolotl/utils/chat_templates/templates", "wheel"),
    "xinference": Source("4.1.0", "xinference/model/llm/models", "wheel"),
}
TESTED = ("llama-cpp-python", "vllm", "trl")
"""The packages that tests of single templates name. The others are only tried by inference."""

MANIFEST = Path(__file__).with_name("manifest.json")
"""The version of each package, and the SHA-256 of each of its templates.

`python -m tests.templates.sources FOLDER` downloads them; `… FOLDER --write` rewrites the manifest from the folder.
"""

VARIABLE = "UNSPOOL_TEMPLATES"
"""The variable with a folder of unpacked source distributions, for machines without a network."""


def manifest() -> dict[str, dict[str, Any]]:
    """For each package its ``version`` and ``files``: the SHA-256 of each, by name."""
    found: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return found


def corpus(cache: Path) -> Iterator[tuple[str, Path]]:
    """The package and path of every template of the manifest; the same text only once.

    Raises:
        NoTemplates: they are not available, or a text differs from the manifest.
    """
    listed, seen = manifest(), set()
    for package, folder in folders(cache, PACKAGES).items():
        for name, digest in listed[package]["files"].items():
            path = folder / name
            if not path.is_file() or _digest(path) != digest:
                raise NoTemplates(f"{path}: is not the file of {package} {listed[package]['version']}")
            if digest not in seen:
                seen.add(digest)
                yield package, path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_manifest(root: Path) -> None:
    """Write the manifest of the folders, each text once, without templates for training, which are variants."""
    fields: dict[str, Any] = {}
    seen: set[str] = set()
    for package, source in PACKAGES.items():
        found = _find(root, source.folder)
        if found is None:
            raise SystemExit(f"{root}: holds no templates of {package}")
        names = sorted(p.name for p in found.glob("*.jinja") if not p.stem.endswith("_training"))
        files: dict[str, str] = {}
        for name in names:
            digest = _digest(found / name)
            if digest not in seen:
                files[name] = digest
                seen.add(digest)
        fields[package] = {"version": source.version, "files": files}
    MANIFEST.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")


class NoTemplates(Exception):
    """The templates are not available. The message says what to do."""


def folders(cache: Path, packages: Iterable[str] = TESTED) -> dict[str, Path]:
    """The folder of templates of each of these packages.

    Raises:
        NoTemplates: they are not where the variable says, and cannot be downloaded.
    """
    given = os.environ.get(VARIABLE)
    root = Path(given) if given else cache
    missing = [p for p in packages if _find(root, PACKAGES[p].folder) is None]
    if missing and not given:
        _download(cache, missing)
        missing = [p for p in missing if _find(root, PACKAGES[p].folder) is None]
    if missing:
        raise NoTemplates(f"{root}: holds no unpacked distribution of {', '.join(missing)}")
    found = {p: _find(root, PACKAGES[p].folder) for p in packages}
    return {package: folder for package, folder in found.items() if folder is not None}


def _find(root: Path, folder: str) -> Path | None:
    candidates = sorted({p.parent for p in root.glob("**/*.jinja") if p.parent.as_posix().endswith(f"/{folder}")})
    # The shallowest folder, because packages have copies in the tests of their parts.
    return min(candidates, key=lambda p: len(p.parts), default=None)


def _download(cache: Path, packages: Iterable[str]) -> None:
    """Fetch templates in another process: pip sets up logging and signal handlers of its own."""
    command = [sys.executable, "-m", __name__, str(cache), *packages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise NoTemplates(
            f"cannot download the distributions of {' and '.join(packages)} ({VARIABLE} may name a folder with "
            f"all unpacked):\n{done.stdout}{done.stderr}"
        )


def fetch(cache: Path, packages: Iterable[str]) -> None:
    """Download the manifest's distributions of these packages and unpack their templates."""
    logging.basicConfig(level=logging.WARNING)
    for package in packages:
        _fetch(cache / package, package, PACKAGES[package])


def _fetch(target: Path, package: str, source: Source) -> None:
    """Download with pip's finder and session: `pip download` would build an sdist's metadata, which needs compilers."""
    command: Any = importlib.import_module("pip._internal.commands.download").DownloadCommand("download", "")
    options, _ = command.parse_args(["."])
    command._in_main_context = True
    session = command._build_session(options)
    finder = command._build_package_finder(options=options, session=session)
    suffix = ".tar.gz" if source.kind == "sdist" else ".whl"
    found = [c for c in finder.find_all_candidates(package) if c.link.filename.endswith(suffix)]
    link = next((c.link for c in found if str(c.version) == source.version), None)
    if link is None:
        raise SystemExit(f"no {source.kind} of {package} {source.version} is to be found")
    with session.get(link.url_without_fragment, stream=True) as answer:
        answer.raise_for_status()
        answer.raw.decode_content = False
        if source.kind == "sdist":
            _unpack(answer.raw, target, source)
            return
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(answer.raw, file)
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    if _ours(name, source):
                        _keep(target, name, archive.read(name))


def _unpack(file: IO[bytes], target: Path, source: Source) -> None:
    with tarfile.open(fileobj=file, mode="r|gz") as archive:
        for member in archive:
            if member.isfile() and _ours(member.name, source):
                content = archive.extractfile(member)
                assert content is not None
                _keep(target, member.name, content.read())


def _ours(name: str, source: Source) -> bool:
    path = Path(name)
    return f"/{path.parent.as_posix()}".endswith(f"/{source.folder}") and ".." not in path.parts


def _keep(target: Path, name: str, content: bytes) -> None:
    """Write the templates of a file of a distribution, each as a file of its own."""
    path = Path(name)
    found: dict[str, str] = {}
    if path.suffix == ".jinja":
        found[path.stem] = content.decode()
    elif path.suffix == ".json":  # a model's description
        parsed = json.loads(content)
        models = parsed if isinstance(parsed, list) else [parsed]
        texts = [m["chat_template"] for m in models if m.get("chat_template")]
        found = dict(zip((path.stem, *(f"{path.stem}-{i}" for i in range(2, len(texts) + 1))), texts, strict=False))
    for stem, text in found.items():
        file = target / path.parent / f"{stem}.jinja"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        write_manifest(Path(sys.argv[1]))
    else:
        fetch(Path(sys.argv[1]), sys.argv[2:] or PACKAGES)
