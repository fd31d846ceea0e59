"""Mixes the weights of a model and of one trained further from it: ``python -m models.builtin.mix 5 10``.

This weakens a little what was learnt last, and restores what was learnt first.
"""

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from . import examples as ex


def main() -> None:
    """Writes the mixed weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path, help="a folder with weights")
    parser.add_argument("last", type=Path, help="a folder with weights that were trained further from these")
    parser.add_argument("--out", type=Path, default=ex.FOLDER)
    parser.add_argument("--share", type=float, default=0.75, help="the share of the last weights")
    args = parser.parse_args()
    first, last = (load_file(folder / "model.safetensors") for folder in (args.first, args.last))
    mixed = {k: args.share * w.astype(np.float32) + (1 - args.share) * first[k] for k, w in last.items()}
    save_file({k: w.astype(np.float16) for k, w in mixed.items()}, args.out / "model.safetensors")


if __name__ == "__main__":
    main()
