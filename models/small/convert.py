"""Writes trained matrices as an adapter for llama.cpp: ``python -m models.small.convert OUT.gguf IN.safetensors…``.

Several runs are averaged: the mean of their products, cut to rank 32, generalizes better than each of them. Numbers
have eight bits (Q8_0). Rows of queries and keys are in the order of GGUF, as llama.cpp's own converter writes them.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from . import RANK, SCALE

Matrix = NDArray[np.float32]

HEADS: Final = {"attn_q": 9, "attn_k": 3}
"""The heads of SmolLM2-135M, of queries and of keys."""


def permuted(rows: Matrix, heads: int) -> Matrix:
    """Rows as GGUF orders them; the inverse of what training does."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def mean(pairs: Sequence[tuple[Matrix, Matrix]]) -> tuple[Matrix, Matrix]:
    """Matrices ``a`` and ``b`` whose product ``b @ a`` is about the mean of the given pairs' products."""
    wide = np.concatenate([b / len(pairs) for _, b in pairs], axis=1)
    tall = np.concatenate([a for a, _ in pairs], axis=0)
    left, inner = np.linalg.qr(wide)
    right, outer = np.linalg.qr(tall.T)
    u, values, v = np.linalg.svd(inner @ outer.T)
    root = np.sqrt(values[:RANK])
    return (root[:, None] * (v[:RANK] @ right.T)).astype(np.float32), ((left @ u[:, :RANK]) * root).astype(np.float32)


def convert(runs: Sequence[dict[str, Matrix]], out: Path) -> None:
    """Write the mean of runs as an adapter; only layers that the last run adapts are written."""
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, SCALE * RANK)
    writer.add_name("unspool small")
    writer.add_license("apache-2.0")
    q8 = gguf.GGMLQuantizationType.Q8_0
    for name in sorted({name.rpartition(".lora_")[0] for name in runs[-1]}):
        pairs = [(run[f"{name}.lora_a"].astype(np.float32), run[f"{name}.lora_b"].astype(np.float32)) for run in runs]
        a, b = mean(pairs)
        layer = name.split(".")[2]
        if layer in HEADS:
            b = permuted(b, HEADS[layer])
        writer.add_tensor(f"{name}.lora_a", gguf.quantize(a, q8), raw_dtype=q8)
        writer.add_tensor(f"{name}.lora_b", gguf.quantize(b, q8), raw_dtype=q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Convert files."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("out", type=Path)
    options.add_argument("runs", type=Path, nargs="+")
    given = options.parse_args()
    convert([load_file(run) for run in given.runs], given.out)


if __name__ == "__main__":
    main()
