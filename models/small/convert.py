"""Writes the trained matrices as an adapter for llama.cpp: ``python -m models.small.convert IN.safetensors OUT.gguf``.

Numbers have eight bits (Q8_0). Rows of queries and keys are in the order of GGUF, as llama.cpp's own converter writes them.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from . import SCALE

HEADS = {"attn_q": 9, "attn_k": 3}
"""The heads of SmolLM2-135M, of queries and of keys."""


def permuted(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows as GGUF orders them; the inverse of what training does."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def convert(matrices: dict[str, NDArray[np.float32]], out: Path) -> None:
    """Write an adapter."""
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, SCALE * next(m.shape[0] for name, m in matrices.items() if name.endswith("lora_a")))
    writer.add_name("unspool small")
    writer.add_license("apache-2.0")
    q8 = gguf.GGMLQuantizationType.Q8_0
    for name, matrix in matrices.items():
        layer = name.split(".")[2]
        if name.endswith("lora_b") and layer in HEADS:
            matrix = permuted(matrix, HEADS[layer])
        writer.add_tensor(name, gguf.quantize(matrix.astype(np.float32), q8), raw_dtype=q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Convert a file."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("matrices", type=Path)
    options.add_argument("out", type=Path)
    given = options.parse_args()
    convert(load_file(given.matrices), given.out)


if __name__ == "__main__":
    main()
