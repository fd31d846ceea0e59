"""The model in torch, for training; `unspool.engines.builtin.model` is the same in numpy, for inference."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

END: Final = 1
"""The token that ends an output, as in `vocabulary.SPECIAL`."""


@dataclass(frozen=True)
class Shape:
    """The model's sizes, as in its ``config.json``.

    Attributes:
        width: the width of the residual stream.
        hidden: the width of the feed-forward layers.
        kernel: how many tokens the convolution before attention sees.
        pointer: the width of the pointer's queries and keys.
        context: how many tokens a sequence may have.
    """

    vocabulary: int
    bare: int
    width: int = 160
    layers: int = 4
    heads: int = 5
    hidden: int = 512
    kernel: int = 4
    pointer: int = 64
    context: int = 2048

    def config(self) -> dict[str, Any]:
        """The contents of ``config.json``."""
        return asdict(self)


def forms(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """For each token, the same without and with a space before it; the token itself if there is no such token."""
    vocabulary = tokenizer.get_vocab()
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    bare = [vocabulary.get(n[1:], i) if n[0] == "Ġ" else i for i, n in enumerate(names)]
    spaced = [vocabulary.get("Ġ" + n, i) for i, n in enumerate(names)]
    return bare, spaced


def slopes(heads: int) -> list[float]:
    """How fast the attention of each head decays with distance (ALiBi); that of the first ones does not."""
    return [0.0, 0.0, *(2.0 ** -(2 + 2 * i) for i in range(heads - 2))]


def norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), eps=1e-6)


class Network(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A small transformer whose output mixes its own prediction with tokens that it points at.

    After the layers, each position points at others. The tokens that it points at are copied; or they decide what to
    write instead, such as the end of a name, because the last feed-forward layer sees them.

    Args:
        shape: the sizes.
        bare, spaced: the result of `forms`. A token with a space has the embedding of the token without one, plus a
            vector that all such tokens share.
    """

    def __init__(self, shape: Shape, bare: Sequence[int], spaced: Sequence[int], topics: int = 5) -> None:
        super().__init__()
        self.shape = shape
        self.kind = torch.bfloat16  # the type of products in the layers
        d, n = shape.width, shape.layers
        rows = sorted(set(bare))
        self.register_buffer("row", torch.tensor([rows.index(b) for b in bare]), persistent=False)
        self.register_buffer("has_space", torch.tensor([float(b != i) for i, b in enumerate(bare)]), persistent=False)
        self.register_buffer("maps", torch.tensor([list(range(len(bare))), list(bare), list(spaced)]), persistent=False)
        self.register_buffer("slopes", torch.tensor(slopes(shape.heads)), persistent=False)
        self.embedding = nn.Parameter(torch.randn(len(rows), d) * 0.05)
        self.space = nn.Parameter(torch.randn(d) * 0.05)
        self.conv = nn.Parameter(torch.randn(n, d, shape.kernel) * 0.3)
        self.qkv = nn.Parameter(torch.randn(n, 3, d, d) * d**-0.5)
        self.out = nn.Parameter(torch.zeros(n, d, d))
        self.up = nn.Parameter(torch.randn(n + 1, shape.hidden, d) * d**-0.5)
        self.down = nn.Parameter(torch.zeros(n + 1, d, shape.hidden))
        self.point_conv = nn.Parameter(torch.randn(d, shape.kernel) * 0.3)
        self.point = nn.Parameter(torch.randn(2, shape.pointer, d) * d**-0.5)
        self.pointed = nn.Parameter(torch.zeros(d, d))
        self.gate = nn.Parameter(torch.zeros(4, d))
        self.topic = nn.Parameter(torch.zeros(topics, d))
        self.scale = nn.Parameter(torch.tensor([8.0, 4.0]))  # the scale of the logits, and of the pointer's scores

    def table(self) -> Tensor:
        """The embedding of each token."""
        return self.embedding[self.row] + self.has_space[:, None] * self.space

    def forward(self, tokens: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the last hidden states of the wanted positions, ``[wanted, width]``, where they point,
        ``[wanted, time]``, and all hidden states after the second layer, ``[batch, time, width]``.

        Matrix products have half precision; sums have full precision.
        """
        b, t = tokens.shape
        heads = self.shape.heads
        x = said = norm(self.table()[tokens])
        places = torch.arange(t)
        distance = (places[None, :] - places[:, None]).float()
        future = torch.full((t, t), float("-inf")).triu(1)
        bias = (self.slopes[:, None, None] * distance + future).to(self.kind).repeat(b, 1, 1)
        up, down = self.up.to(self.kind).unbind(), self.down.to(self.kind).unbind()
        qkv, out = self.qkv.to(self.kind).flatten(1, 2).unbind(), self.out.to(self.kind).unbind()
        for layer, conv in enumerate(self.conv.unbind()):
            h = convolve(norm(x).to(self.kind), conv.to(self.kind)) @ qkv[layer].T
            q, k, v = h.view(b, t, 3, heads, -1).permute(2, 0, 3, 1, 4).reshape(3, b * heads, t, -1)
            mixed = attention(q, k, v, bias).view(b, heads, t, -1).transpose(1, 2).reshape(b, t, -1)
            x = x + mixed @ out[layer].T
            x = fed(x, up[layer], down[layer])
            if layer == 1:
                halfway = norm(x)
        h = convolve(norm(x), self.point_conv)
        query, key = (norm(h @ w.T) for w in self.point)
        where = (self.scale[1] * query @ key.transpose(1, 2) + future).softmax(-1)
        x = (x + where @ said @ self.pointed.T)[wanted]
        return norm(fed(x, up[-1], down[-1])), where[wanted], halfway

    def loss(self, tokens: Tensor, learnt: Tensor, topics: Tensor) -> Tensor:
        """The mean negative log-likelihood of the tokens that ``learnt`` marks (2: given that the output does not end).

        A tenth of the cross-entropy of the purposes of tools is added, where ``topics`` is not negative: to choose a
        tool, the model must know its purpose.
        """
        wanted = learnt[:, 1:] > 0
        target = tokens[:, 1:][wanted]
        h, pointed, halfway = self(tokens[:, :-1], wanted)
        gates = (h @ self.gate.T).softmax(-1)
        said = F.log_softmax(self.scale[0] * (h @ self.table().T) / self.shape.width**0.5, dim=-1)
        chance = gates[:, 0] * said.gather(1, target[:, None])[:, 0].exp()
        source = tokens[:, :-1][wanted.nonzero()[:, 0]]
        for form in range(3):
            same = self.maps[form][source] == target[:, None]
            chance = chance + gates[:, 1 + form] * (pointed * same).sum(1)
        ended = gates[:, 0] * said[:, END].exp() * (learnt[:, 1:][wanted] == 2)
        loss = ((1 - ended + 1e-6).log() - (chance + 1e-9).log()).mean()
        asked = topics[:, :-1] >= 0
        if asked.any():
            loss = loss + 0.1 * F.cross_entropy(halfway[asked] @ self.topic.T, topics[:, :-1][asked])
        return loss

    def tensors(self) -> Mapping[str, Tensor]:
        """The weights to be saved, in half precision."""
        return {name: p.detach().half().contiguous() for name, p in self.named_parameters() if name != "topic"}


def fed(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The output of a feed-forward layer."""
    return x + F.relu(norm(x).to(up.dtype) @ up.T).square() @ down.T


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, block: int = 128) -> Tensor:
    """Causal attention, ``[batch and heads, time, width]``.

    Each block of positions leaves out the later ones. With products in half precision, this takes half the time of
    torch's own attention on a CPU.
    """
    parts = []
    for at in range(0, q.shape[1], block):
        end = min(at + block, q.shape[1])
        scores = torch.baddbmm(
            bias[:, at:end, :end], q[:, at:end], k[:, :end].transpose(1, 2), alpha=q.shape[-1] ** -0.5
        )
        parts.append(scores.softmax(-1) @ v[:, :end])
    return torch.cat(parts, 1)


def convolve(x: Tensor, weights: Tensor) -> Tensor:
    """A causal convolution over each position and a few before it, channel by channel."""
    kernel = weights.shape[1]
    padded = F.pad(x, (0, 0, kernel - 1, 0)).transpose(1, 2).unsqueeze(2)  # a batch of images one pixel high
    return x + F.conv2d(padded, weights[:, None, None, :], groups=x.shape[-1])[:, :, 0].transpose(1, 2)
