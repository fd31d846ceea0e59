"""GGUF files in the local stores of Ollama, LM Studio and Hugging Face. Nothing is downloaded.

* Ollama: a manifest in ``manifests/HOST/NAMESPACE/MODEL/TAG`` names the digests of blobs.
* LM Studio: ``models/PUBLISHER/MODEL/FILE.gguf``.
* Hugging Face: ``hub/models--ORG--NAME/snapshots/COMMIT/FILE.gguf``; ``refs/main`` has the commit.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..errors import GgufError

_REGISTRY: Final = "registry.ollama.ai"
_LIBRARY: Final = "library"
_LATEST: Final = "latest"
_LAYER: Final = "application/vnd.ollama.image."
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_PART: Final = re.compile(r"(?!\.)[\w.-]{1,128}", re.ASCII)  # a part of a name, which is also a part of a path
_MOST: Final = 1 << 20  # the most bytes of a manifest
_LATER: Final = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
"""The further parts of a model in several files."""


class Stored(NamedTuple):
    """A model in a store."""

    name: str  # what ``--engine`` names it, such as ``ollama:llama3.2:1b``
    path: Path  # its GGUF
    adapters: tuple[Path, ...] = ()  # the LoRA adapters that belong to it
    projector: Path | None = None  # the projector that belongs to it


def stored() -> Iterator[Stored]:
    for store in _STORES.values():
        yield from store.listed()


def find_stored(name: str) -> Stored:
    """The model of a name such as ``ollama:NAME[:TAG]``, ``lmstudio:[PUBLISHER/]MODEL[/FILE]`` or
    ``hf:ORG/NAME[:FILE]``.

    Raises:
        GgufError: there is none, or there are several; the message lists what there is.
    """
    store, _, rest = name.partition(":")
    every = list(_STORES[store].listed())
    wanted = f"{rest}:{_LATEST}" if store == "ollama" and ":" not in rest.rpartition("/")[2] else rest
    found = [one for one in every if _matches(store, one.name.partition(":")[2], wanted)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in (found or every)[:20])
    if found:
        raise GgufError(f"{name}: there are several: {names}")
    raise GgufError(
        f"{name}: is not in {_STORES[store].root()}; " + (f"there are {names}" if names else "there is no model")
    )


def _matches(store: str, listed: str, wanted: str) -> bool:
    """Whether a name means a listed model. Files may be left out, and in LM Studio also the publisher."""
    if store == "ollama":
        return listed == wanted or listed == wanted.removeprefix(f"{_REGISTRY}/").removeprefix(f"{_LIBRARY}/")
    if store == "hf":
        return wanted in (listed, listed.partition(":")[0])
    listed, wanted = listed.lower(), wanted.lower()
    publisher, _, rest = listed.partition("/")
    model, _, file = rest.partition("/")
    return wanted in (listed, rest, f"{publisher}/{model}", model, file, file.removesuffix(".gguf"))


# -- Ollama ------------------------------------------------------------------------------------------------------------


def _ollama_root() -> Path:
    return Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")


def _ollama() -> Iterator[Stored]:
    root = _ollama_root()
    manifests = root / "manifests"
    for file in sorted(manifests.glob("*/*/*/*")):
        host, namespace, model, tag = file.relative_to(manifests).parts
        layers = _layers(root, file)
        if paths := layers.get("model"):
            shown = model if (host, namespace) == (_REGISTRY, _LIBRARY) else f"{namespace}/{model}"
            shown = shown if host == _REGISTRY else f"{host}/{namespace}/{model}"
            projector = next(iter(layers.get("projector", ())), None)
            yield Stored(f"ollama:{shown}:{tag}", paths[0], tuple(layers.get("adapter", ())), projector)


def _layers(root: Path, manifest: Path) -> dict[str, list[Path]]:
    """The blobs of a manifest that exist, by their kind; none if it is malformed."""
    try:
        with manifest.open("rb") as file:
            described: Any = json.loads(file.read(_MOST))
    except (OSError, ValueError, RecursionError):
        return {}  # it is being written, or belongs to something else
    layers = described.get("layers") if isinstance(described, dict) else None
    found: dict[str, list[Path]] = {}
    for layer in layers if isinstance(layers, list) else ():
        kind, digest = (layer.get("mediaType"), layer.get("digest")) if isinstance(layer, dict) else (None, None)
        named = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
        if isinstance(kind, str) and kind.startswith(_LAYER) and named is not None:
            blob = root / "blobs" / f"sha256-{named[1]}"
            if blob.is_file():
                found.setdefault(kind[len(_LAYER) :], []).append(blob)
    return found


# -- LM Studio ---------------------------------------------------------------------------------------------------------


def _lmstudio_roots() -> tuple[Path, ...]:
    return Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"


def _lmstudio() -> Iterator[Stored]:
    for root in _lmstudio_roots():
        for file in sorted(root.glob("*/*/*.gguf")):
            if _is_model(file.name):
                yield Stored(f"lmstudio:{'/'.join(file.relative_to(root).parts)}", file, (), _beside(file))


def _beside(file: Path) -> Path | None:
    """The projector in the folder of a model, if there is exactly one."""
    found = [path for path in file.parent.glob("*.gguf") if "mmproj" in path.name.lower()]
    return found[0] if len(found) == 1 else None


def _is_model(name: str) -> bool:
    return "mmproj" not in name.lower() and not _LATER.search(name)


# -- Hugging Face ------------------------------------------------------------------------------------------------------


def _hub() -> Path:
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache)
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cached / "huggingface") / "hub"


def hf_snapshot(repository: str) -> Path | None:
    """The folder of a repository's current files in Hugging Face's cache; ``None`` if there is none."""
    parts = repository.split("/")
    if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        return None
    folder = _hub() / f"models--{'--'.join(parts)}"
    try:
        commit = (folder / "refs" / "main").read_text(encoding="utf-8")[:200].strip()
    except (OSError, UnicodeDecodeError):
        return None
    found = folder / "snapshots" / commit
    return found if _PART.fullmatch(commit) and found.is_dir() else None


def _hf() -> Iterator[Stored]:
    for folder in sorted(_hub().glob("models--*--*")):
        repository = folder.name.removeprefix("models--").replace("--", "/", 1)
        snapshot = hf_snapshot(repository)
        for file in sorted(snapshot.rglob("*.gguf")) if snapshot is not None else ():
            if snapshot is not None and _is_model(file.name) and file.is_file():
                yield Stored(f"hf:{repository}:{file.relative_to(snapshot).as_posix()}", file, (), _beside(file))


class _Store(NamedTuple):
    listed: Callable[[], Iterator[Stored]]
    root: Callable[[], Path]


_STORES: Final = {
    "ollama": _Store(_ollama, _ollama_root),
    "lmstudio": _Store(_lmstudio, lambda: _lmstudio_roots()[0]),
    "hf": _Store(_hf, _hub),
}
"""The stores by the name before the colon."""
