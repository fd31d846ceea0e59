"""GGUF files in the local stores of Ollama, LM Studio and Hugging Face. Nothing is downloaded.

* Ollama: a manifest in ``manifests/HOST/NAMESPACE/MODEL/TAG`` names the digests of blobs; ``$OLLAMA_MODELS``, else in
  the home of the user, or of the service that its installer sets up on Linux.
* LM Studio: ``models/PUBLISHER/MODEL/FILE.gguf`` in its home, which a file in the user's home names, or the folder that
  its settings name.
* Hugging Face: ``hub/models--ORG--NAME/snapshots/COMMIT/FILE.gguf``; ``refs/main`` has the current commit, and files of
  earlier ones are still there.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ..errors import GgufError
from ..validation import json_object

_REGISTRY: Final = "registry.ollama.ai"
_LIBRARY: Final = "library"
_LATEST: Final = "latest"
_LAYER: Final = "application/vnd.ollama.image."
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_PART: Final = re.compile(r"(?!\.)[\w.-]{1,128}", re.ASCII)  # a part of a name, which is also a part of a path
_MOST: Final = 1 << 20  # the most bytes of a manifest
_SERVICE: Final = Path("/usr/share/ollama/.ollama/models")
_LATER: Final = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
"""The further parts of a model in several files."""


class StoredModel(NamedTuple):
    name: str  # what ``--engine`` names it, such as ``ollama:llama3.2:1b``
    path: Path  # its GGUF
    adapters: tuple[Path, ...] = ()  # the LoRA adapters that belong to it
    projector: Path | None = None  # the projector that belongs to it


def stored() -> Iterator[StoredModel]:
    for store in _STORES:
        yield from _listed(store)


def _listed(store: str) -> list[StoredModel]:
    """The models of a store; of those with one name in several folders, the first."""
    return list({one.name: one for one in reversed(list(_STORES[store].listed()))}.values())[::-1]


def find_stored(name: str) -> StoredModel:
    """The model of a name such as ``ollama:NAME[:TAG]``, ``lmstudio:[PUBLISHER/]MODEL[/FILE]`` or
    ``hf:ORG/NAME[:FILE]``. If there is none, or several, a `GgufError` lists what there is."""
    store, _, rest = name.partition(":")
    every = _listed(store)
    wanted = f"{rest}:{_LATEST}" if store == "ollama" and ":" not in rest.rpartition("/")[2] else rest
    found = [one for one in every if _matches(store, one.name.partition(":")[2], wanted)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in (found or every)[:20])
    if found:
        raise GgufError(f"{name}: there are several: {names}")
    roots = ", ".join(map(str, _STORES[store].roots()))
    raise GgufError(f"{name}: is not in {roots}; " + (f"there are {names}" if names else "there is no model"))


def _matches(store: str, listed: str, wanted: str) -> bool:
    """Whether a name means a listed model. Files may be left out, and in LM Studio also the publisher."""
    if store == "hf":
        return wanted in (listed, listed.partition(":")[0], listed[: -len(".gguf")])
    listed, wanted = listed.lower(), wanted.lower()  # as Ollama and LM Studio compare names
    if store == "ollama":
        return listed in (wanted, wanted.removeprefix(f"{_REGISTRY}/").removeprefix(f"{_LIBRARY}/"))
    publisher, _, rest = listed.partition("/")
    model, _, file = rest.partition("/")
    return wanted in (listed, rest, f"{publisher}/{model}", model, file, file.removesuffix(".gguf"))


# -- Ollama ------------------------------------------------------------------------------------------------------------


def _ollama_roots() -> list[Path]:
    own = _folder("OLLAMA_MODELS")
    return [Path.home() / ".ollama" / "models", _SERVICE] if own is None else [own]


def _ollama() -> Iterator[StoredModel]:
    for root in _ollama_roots():
        manifests = root / "manifests"
        for file in sorted(manifests.glob("*/*/*/*")):
            host, namespace, model, tag = file.relative_to(manifests).parts
            layers = _layers(root, file)
            if paths := layers.get("model"):
                shown = model if (host, namespace) == (_REGISTRY, _LIBRARY) else f"{namespace}/{model}"
                shown = shown if host == _REGISTRY else f"{host}/{namespace}/{model}"
                projector = next(iter(layers.get("projector", ())), None)
                yield StoredModel(f"ollama:{shown}:{tag}", paths[0], tuple(layers.get("adapter", ())), projector)


def _layers(root: Path, manifest: Path) -> dict[str, list[Path]]:
    """The blobs of a manifest that exist, by their kind; none if it is malformed."""
    layers = (json_object(_read(manifest)) or {}).get("layers")  # it may be half written, or of something else
    found: dict[str, list[Path]] = {}
    for layer in layers if isinstance(layers, list) else ():
        kind, digest = (layer.get("mediaType"), layer.get("digest")) if isinstance(layer, dict) else (None, None)
        named = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
        if isinstance(kind, str) and kind.startswith(_LAYER) and named is not None:
            blob = root / "blobs" / f"sha256-{named[1]}"
            if os.path.isfile(blob):  # and not `is_file`, which fails where nobody may look
                found.setdefault(kind[len(_LAYER) :], []).append(blob)
    return found


# -- LM Studio ---------------------------------------------------------------------------------------------------------


def _lmstudio_roots() -> list[Path]:
    user = Path.home()
    homes = [user / ".lmstudio", user / ".cache" / "lm-studio"]
    named = _read(user / ".lmstudio-home-pointer").partition("\n")[0].strip()
    homes[:0] = [Path(named)] if named else []
    found = [home / "models" for home in homes]
    for home in homes:
        folder = (json_object(_read(home / "settings.json")) or {}).get("downloadsFolder")
        found += [Path(folder)] if isinstance(folder, str) and folder else []
    return list({os.path.realpath(path): path for path in reversed(found)}.values())[::-1]


def _lmstudio() -> Iterator[StoredModel]:
    for root in _lmstudio_roots():
        for file in sorted(root.glob("*/*/*")):
            if _is_model(file.name):
                yield StoredModel(f"lmstudio:{'/'.join(file.relative_to(root).parts)}", file, (), _beside(file))


def _beside(file: Path) -> Path | None:
    """The projector in the folder of a model, if there is exactly one."""
    found = [path for path in file.parent.glob("*.gguf") if "mmproj" in path.name.lower()]
    return found[0] if len(found) == 1 else None


def _is_model(name: str) -> bool:
    name = name.lower()
    return name.endswith(".gguf") and "mmproj" not in name and not _LATER.search(name)


# -- Hugging Face ------------------------------------------------------------------------------------------------------


def _hub() -> Path:
    cache = _folder("HF_HUB_CACHE") or _folder("HUGGINGFACE_HUB_CACHE")
    if cache is None:
        caches = _folder("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = (_folder("HF_HOME") or caches / "huggingface") / "hub"
    return cache


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


def _hf() -> Iterator[StoredModel]:
    for folder in sorted(_hub().glob("models--*--*")):
        repository = folder.name.removeprefix("models--").replace("--", "/", 1)
        current, found = hf_snapshot(repository), dict[str, Path]()
        for snapshot in sorted(folder.glob("snapshots/*"), key=lambda one: one != current):
            for file in snapshot.rglob("*"):
                if _is_model(file.name) and os.path.isfile(file):
                    found.setdefault(file.relative_to(snapshot).as_posix(), file)
        for name, file in sorted(found.items()):
            yield StoredModel(f"hf:{repository}:{name}", file, (), _beside(file))


def _folder(variable: str) -> Path | None:
    """The folder that a variable of the environment names."""
    named = os.environ.get(variable, "").strip()
    return Path(named).expanduser() if named else None


def _read(path: Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode(errors="replace")
    except OSError:
        return ""


class _LocalStore(NamedTuple):
    listed: Callable[[], Iterator[StoredModel]]
    roots: Callable[[], list[Path]]


_STORES: Final = {
    "ollama": _LocalStore(_ollama, _ollama_roots),
    "lmstudio": _LocalStore(_lmstudio, _lmstudio_roots),
    "hf": _LocalStore(_hf, lambda: [_hub()]),
}
"""The stores by the name before the colon."""
