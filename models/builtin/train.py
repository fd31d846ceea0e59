"""Trains the model: ``python -m models.builtin.train`` (torch on a processor; see the model card for how long)."""

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from tokenizers import Tokenizer
from torch import Tensor

from . import examples as ex
from . import vocabulary
from .network import Network, Shape, forms

Row = tuple[list[int], list[int], list[int]]

Batch = tuple[Tensor, Tensor, Tensor]

LONGEST = 700
"""Examples with more tokens are left out."""


def encoded(tokenizer: Tokenizer, example: Iterable[ex.Piece]) -> Row:
    """An example's tokens, which of them the model learns (2: where no end is allowed), and the topics of tools."""
    ids: list[int] = []
    learnt: list[int] = []
    topics: list[int] = []
    for piece in example:
        some = tokenizer.encode(piece.text).ids
        ids += some
        learnt += [piece.learnt + piece.forced] * len(some)
        topics += [piece.topic] * len(some)
    return ids, learnt, topics


def batches(rows: Iterator[Row], tokens: int, pool: int = 512) -> Iterator[Batch]:
    """Batches of about this many tokens. The rows of a batch have about the same length."""
    rng = random.Random(0)
    while True:
        some = sorted((r for r in itertools.islice(rows, pool) if len(r[0]) <= LONGEST), key=lambda r: len(r[0]))
        groups: list[list[Row]] = [[]]
        for row in some:
            if groups[-1] and len(row[0]) * (len(groups[-1]) + 1) > tokens:
                groups.append([])
            groups[-1].append(row)
        rng.shuffle(groups)
        for group in groups:
            yield padded(group)


def padded(rows: list[Row]) -> Batch:
    """Rows as tensors of one length."""
    width = max(len(ids) for ids, *_ in rows)
    ids = torch.tensor([i + [2] * (width - len(i)) for i, _, _ in rows])
    learnt = torch.tensor([m + [0] * (width - len(m)) for _, m, _ in rows])
    topics = torch.tensor([t + [-1] * (width - len(t)) for *_, t in rows])
    return ids, learnt, topics


def repetitions(shape: Shape, seed: int, tokens: int) -> Iterator[Batch]:
    """Random tokens, repeated once: to predict the repetition, the model must copy."""
    made = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(12, 64, (), generator=made))
        count = tokens // (2 * length)
        some = int(torch.randint(20, shape.vocabulary - 20, (), generator=made))
        once = torch.randint(20, 20 + some, (count, length), generator=made)
        ids = torch.cat([once, once], 1)
        learnt = torch.zeros_like(ids)
        learnt[:, length + 2 :] = 1
        yield ids, learnt, torch.full_like(ids, -1)


def orthogonal(g: Tensor, kind: torch.dtype = torch.bfloat16) -> Tensor:
    """Approximate the nearest orthogonal matrices with a quintic Newton-Schulz iteration."""
    x = (g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(kind)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return (x.mT if tall else x).float()


class Muon:
    """The optimiser of the matrices: momentum, made orthogonal.

    Args:
        matrices: parameters whose last two dimensions are a matrix each.
        kind: the type of products.
    """

    def __init__(self, matrices: list[Tensor], kind: torch.dtype, momentum: float = 0.95, decay: float = 0.01) -> None:
        self.kind = kind
        self.matrices = matrices
        self.momentum = momentum
        self.decay = decay
        self.moved = [torch.zeros_like(m) for m in matrices]

    def step(self, rate: float) -> None:
        """Move the matrices along their gradients."""
        with torch.no_grad():
            for matrix, moved in zip(self.matrices, self.moved, strict=True):
                moved.lerp_(matrix.grad, 1 - self.momentum)
                update = orthogonal(matrix.grad.lerp(moved, self.momentum), self.kind)
                grown = max(1.0, matrix.shape[-2] / matrix.shape[-1]) ** 0.5
                matrix.mul_(1 - rate * self.decay).add_(update, alpha=-rate * grown)


def train(network: Network, data: Iterator[Batch], args: Any, save: Any) -> None:
    """Train for ``args.steps`` steps, after ``args.copying`` steps of only copying."""
    matrices = [network.qkv, network.out, network.up, network.down, network.point, network.pointed]
    chosen = {id(p) for p in matrices}
    muon = Muon(matrices, network.kind)
    adam = torch.optim.AdamW(
        [p for p in network.parameters() if id(p) not in chosen], betas=(0.9, 0.98), weight_decay=0.0
    )
    copies = repetitions(network.shape, args.seed, args.tokens)
    began = time.monotonic()
    mean = 0.0
    for step in range(1, args.steps + 1):
        batch = next(copies) if step <= args.copying else next(data)
        loss = network.loss(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        warm = min(1.0, step / 40)
        rate = warm * min(1.0, (1 - step / args.steps) / args.cooling + 0.01)
        muon.step(args.rate * rate)
        for group in adam.param_groups:
            group["lr"] = args.rate * 0.15 * rate
        adam.step()
        network.zero_grad(set_to_none=True)
        mean = loss.item() if step == 1 or math.isnan(mean) else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 0:
            print(f"step {step:5d}  loss {mean:.4f}  {time.monotonic() - began:6.0f} s", flush=True)
        if step % args.every == 0 or step in (args.steps, args.until):
            save(step)
        if step == args.until:
            break


def main() -> None:
    """Build the tokenizer, train, and write the model's files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ex.FOLDER)
    parser.add_argument("--begin", type=Path, help="a folder with weights and a tokenizer to continue from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--copying", type=int, default=120, help="steps of copying random tokens, at the beginning")
    parser.add_argument(
        "--ramp", type=int, default=9000, help="the number of examples after which they stop getting harder"
    )
    for name, usual in ex.USUAL._asdict().items():
        parser.add_argument(f"--{name}", type=float, default=usual, help="a share; see `examples.Shares`")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens in a batch")
    parser.add_argument("--threads", type=int, default=2)
    text = "the type of matrix products; float32 is faster on CPUs without AVX512-BF16 or AMX"
    parser.add_argument("--products", choices=("bfloat16", "float32"), default="bfloat16", help=text)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--cooling", type=float, default=0.6, help="the share of the steps in which the rate falls")
    parser.add_argument("--until", type=int, help="end after this step instead")
    parser.add_argument("--every", type=int, default=200, help="save after this many steps")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # denormal numbers would slow the first steps down by half
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(args.begin / "tokenizer.json")) if args.begin else vocabulary.build(args.seed)
    bare, spaced = forms(tokenizer)
    shape = Shape(vocabulary=len(bare), bare=len(set(bare)))
    tokenizer.save(str(args.out / "tokenizer.json"), pretty=False)
    (args.out / "tokenizer_config.json").write_text(
        json.dumps(vocabulary.config(), ensure_ascii=False, indent=1) + "\n"
    )
    (args.out / "config.json").write_text(json.dumps(shape.config(), indent=1) + "\n")
    network = Network(shape, bare, spaced)
    network.kind = getattr(torch, args.products)
    if args.begin:
        weights = safetensors.torch.load_file(args.begin / "model.safetensors")
        network.load_state_dict({name: w.float() for name, w in weights.items()}, strict=False)
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters", flush=True)

    def save(step: int) -> None:
        safetensors.torch.save_file(
            dict(network.tensors()), args.out / "model.safetensors", metadata={"step": str(step)}
        )

    shares = ex.Shares(**{name: getattr(args, name) for name in ex.Shares._fields})
    rows = (encoded(tokenizer, e) for e in ex.examples(args.seed + 1, args.ramp, shares))
    train(network, batches(rows, args.tokens), args, save)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
