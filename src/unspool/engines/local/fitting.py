"""Whether a GGUF can be run, and how many outputs fit into memory at once."""

import os
import re
from pathlib import Path
from typing import Final

from ...checkpoints.gguf import Gguf
from ...errors import GgufError

_ENCODERS: Final = ("bert", "t5encoder", "clip", "dream", "wavtokenizer", "gemma-embedding", "llama-embed")
_PART: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
MOST_SLOTS: Final = 4  # the most slots without a flag, as in llama.cpp's own server
_SPARE: Final = 0.9  # the share of the available memory that is used


def check_model(gguf: Gguf) -> None:
    """Check that a file is a whole model that generates text; the message of a `GgufError` begins with the path."""
    if reason := _why_not(gguf):
        raise GgufError(f"{gguf.path}: {reason}")


def _why_not(gguf: Gguf) -> str:
    kind, architecture = gguf.text("general.type"), gguf.architecture
    if kind in ("mmproj", "projector") or architecture == "clip":
        return "is a projector for images or audio; name the model that it belongs to"
    if kind == "adapter" or gguf.text("adapter.type"):
        return "is an adapter; name its model, and this file with --adapter"
    if part := _parts(gguf):
        return part  # all but the first have tensors alone
    if not architecture or not gguf.tokens:
        return "has no model, or no vocabulary"
    causal = gguf.values.get(f"{architecture}.attention.causal", True)
    if gguf.number("pooling_type") or causal is False or any(word in architecture for word in _ENCODERS):
        return "is an embedding model or another encoder, which generates no text"
    return f"is not complete: it has {gguf.size:,} of {gguf.needed:,} bytes" if gguf.size < gguf.needed else ""


def _parts(gguf: Gguf) -> str:
    """What is wrong with a model in several files; empty if nothing is."""
    count, number = gguf.values.get("split.count", 1), gguf.values.get("split.no", 0)
    if not isinstance(count, int) or count <= 1:
        return ""
    files = parts(gguf)
    if len(files) != count:
        return (
            f"is part {number + 1} of {count}, and its name does not say so: it must end in -00001-of-{count:05}.gguf"
        )
    if number != 0:
        return f"is part {number + 1} of {count}; name the first one, {files[0].name}"
    missing = [file.name for file in files if not file.is_file()]
    return f"is part 1 of {count}, and {missing[0]} is not beside it" if missing else ""


def parts(gguf: Gguf) -> list[Path]:
    """The files of a model; several if it and its name say so."""
    path = Path(gguf.path)
    found = _PART.fullmatch(path.name)
    if found is None or gguf.values.get("split.count", 1) == 1:
        return [path]
    return [path.with_name(f"{found[1]}-{i:05}-of-{found[3]}.gguf") for i in range(1, int(found[3]) + 1)]


def fitting_slots(gguf: Gguf, context: int, slots: int | None, *, available: int | None) -> int:
    """The number of outputs at once, each with this many tokens. If the number is given, or the bytes of available
    memory are not known, only the model's size is checked. A `GgufError` names the flag that helps."""
    if available is None:
        return slots or MOST_SLOTS
    size = sum(part.stat().st_size for part in parts(gguf))
    left = available * _SPARE - size
    if left < 0:
        raise GgufError(
            f"{gguf.path}: is too large: it takes {_shown(size)} of memory, and {_shown(available)} are available; "
            "take a smaller quantization, or --gpu-layers for a graphics processor"
        )
    each = _cache(gguf) * context
    if slots is not None or not each:
        return slots or MOST_SLOTS
    if each > left:
        fitting = int(left / _cache(gguf)) // 1024 * 1024
        raise GgufError(
            f"{gguf.path}: its context of {context:,} tokens takes {_shown(each)} beside the model, and "
            f"{_shown(int(left))} are available; --context {max(fitting, 512)} fits"
        )
    return max(1, min(MOST_SLOTS, int(left / each)))


def _cache(gguf: Gguf) -> int:
    """Bytes of the attention's cache for one token, in half precision; 0 if the file does not say."""
    heads, width = gguf.number("attention.head_count"), gguf.number("embedding_length")
    layers = gguf.number("block_count")
    if heads is None or width is None or layers is None:
        return 0
    per_head = width // heads
    keys = gguf.number("attention.key_length") or per_head
    values = gguf.number("attention.value_length") or per_head
    return layers * (gguf.number("attention.head_count_kv") or heads) * (keys + values) * 2


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def memory() -> int | None:
    """Bytes of memory that are available, within the limits of a container; ``None`` if the system does not say."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        found += [int(limit) - used] if limit.isdigit() else []
    except (OSError, ValueError, IndexError):
        pass  # another system, or no container
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)
