"""The builtin model in numpy: a small transformer with a pointer mechanism.

Before attention, each position is mixed with the few before it (a causal convolution). Attention has no positional
encoding; some heads have a penalty on distance (ALiBi). At the end, each position points at others, whose tokens are
fed to the last layer. The output is a mix of four distributions: the model's own, and the tokens that it points at
unchanged, without the space before them, and with one. So the model can copy names that it never saw from the request
into JSON. `models/builtin/` in the repository trains it; the README there describes its purpose.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parent
"""The folder of the model that comes with the package."""

Array = NDArray[np.float32]

_CHUNK: Final = 256  # tokens of a prompt that are read at once, which bounds the memory of attention
_SPACE: Final = "Ġ"  # a space, as byte-level BPE writes it


class State:
    """The model's state of one sequence: its tokens, and the activations that later tokens need.

    Attributes:
        size: the number of tokens.
    """

    __slots__ = ("keys", "pointers", "size", "tails", "tokens", "values")

    def __init__(self, layers: int, width: int, pointer: int, kernel: int) -> None:
        self.size = 0
        self.tokens = np.zeros(0, np.intp)
        self.keys = np.zeros((layers, 0, width), np.float32)
        self.values = np.zeros((layers, 0, width), np.float32)
        self.pointers = np.zeros((0, pointer), np.float32)
        self.tails = np.zeros((layers + 1, kernel - 1, width), np.float32)

    def extend(self, tokens: NDArray[np.intp]) -> slice:
        """Make room for more tokens. Returns their positions."""
        new = slice(self.size, self.size + len(tokens))
        if new.stop > len(self.tokens):
            more = max(new.stop + 64, 2 * self.size) - self.size
            self.tokens = np.pad(self.tokens[: self.size], (0, more))
            self.keys = np.pad(self.keys[:, : self.size], ((0, 0), (0, more), (0, 0)))
            self.values = np.pad(self.values[:, : self.size], ((0, 0), (0, more), (0, 0)))
            self.pointers = np.pad(self.pointers[: self.size], ((0, more), (0, 0)))
        self.tokens[new] = tokens
        self.size = new.stop
        return new


class Model:
    """Computes logits. It is not thread-safe.

    Args:
        folder: contains ``config.json``, ``model.safetensors``, ``tokenizer.json`` and ``tokenizer_config.json``.

    Attributes:
        tokenizer: a `tokenizers.Tokenizer`.
        vocab_size: the width of the logits.
        context: the most tokens of a sequence, including the prompt.
        eos: the tokens that end an output.

    Raises:
        OSError: a file cannot be read.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        shape = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        named = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        weights = {name: np.asarray(w, np.float32) for name, w in load_file(folder / "model.safetensors").items()}
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.vocab_size: int = shape["vocabulary"]
        self.context: int = shape["context"]
        self.eos: frozenset[int] = frozenset(self.tokenizer.encode(named["eos_token"]).ids)
        self._heads: int = shape["heads"]
        self._sizes = (shape["layers"], shape["width"], shape["pointer"], shape["kernel"])
        slopes = [0.0, 0.0, *(2.0 ** -(2 + 2 * i) for i in range(self._heads - 2))]
        self._slopes = np.array(slopes, np.float32)[:, None, None]
        self._forms = _forms(self.tokenizer.get_vocab())
        table = _table(self._forms[1], weights["embedding"], weights["space"])
        _, width, pointer, _ = self._sizes
        # Transposed once, since rows of activations are multiplied from the left.
        self._qkv = [w.reshape(3 * width, width).T.copy() for w in weights["qkv"]]
        self._out = [w.T.copy() for w in weights["out"]]
        self._up = [w.T.copy() for w in weights["up"]]
        self._down = [w.T.copy() for w in weights["down"]]
        self._conv = [*(w.T.copy() for w in weights["conv"]), weights["point_conv"].T.copy()]
        self._point = weights["point"].reshape(2 * pointer, width).T.copy()
        self._pointed = weights["pointed"].T.copy()
        self._gate = weights["gate"].T.copy()
        self._say = table.T * (weights["scale"][0] / width**0.5)
        self._table = _norm(table)
        self._sharp: float = weights["scale"][1].item()

    def prefill(self, tokens: Sequence[int]) -> tuple[State, Array]:
        """A sequence's state after these tokens, and the logits of the next one, of shape ``(vocab_size,)``.

        Raises:
            ValueError: there is no token.
        """
        *_, filled = self.prefill_parts(tokens)
        assert filled is not None
        return filled

    def prefill_parts(self, tokens: Sequence[int]) -> Iterator[tuple[State, Array] | None]:
        """The same in parts; see `unspool.engines.model.Model`.

        Raises:
            ValueError: there is no token.
        """
        if not tokens:
            raise ValueError("tokens: must not be empty")
        state = State(*self._sizes)
        ids = np.asarray(tokens, np.intp)
        for at in range(0, len(ids), _CHUNK):
            logits = self._read([state], [ids[at : at + _CHUNK]])
            yield None if at + _CHUNK < len(ids) else (state, logits[0])

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> Array:
        """Read one more token for each of several sequences, and change their states.

        Returns:
            The logits of the token after it, of shape ``(len(states), vocab_size)``.
        """
        return self._read(states, [np.array([t], np.intp) for t in tokens])

    def _read(self, states: Sequence[State], tokens: Sequence[NDArray[np.intp]]) -> Array:
        """Read more tokens of each sequence. Products with weights process the rows of all sequences at once."""
        places = [s.extend(t) for s, t in zip(states, tokens, strict=True)]
        ends = list(itertools.accumulate(len(t) for t in tokens))
        rows = [slice(end - len(t), end) for end, t in zip(ends, tokens, strict=True)]
        x = self._table[np.concatenate(tokens)]
        layers, width, pointer, _ = self._sizes
        for layer in range(layers):
            qkv = self._convolved(_norm(x), states, rows, layer) @ self._qkv[layer]
            mixed = np.empty_like(x)
            for state, place, row in zip(states, places, rows, strict=True):
                state.keys[layer, place] = qkv[row, width : 2 * width]
                state.values[layer, place] = qkv[row, 2 * width :]
                mixed[row] = self._attended(state, layer, place, qkv[row, :width])
            x += mixed @ self._out[layer]
            x += self._fed(x, layer)
        points = self._convolved(_norm(x), states, rows, layers) @ self._point
        queries, keys = _norm(points[:, :pointer]), _norm(points[:, pointer:])
        for state, place, row in zip(states, places, rows, strict=True):
            state.pointers[place] = keys[row]
        last = [end - 1 for end in ends]
        return self._said(states, x[last], queries[last])

    def _said(self, states: Sequence[State], x: Array, queries: Array) -> Array:
        """The logits of the next token of each sequence."""
        seen = [s.tokens[: s.size] for s in states]
        where = [_softmax(self._sharp * (s.pointers[: s.size] @ q)) for s, q in zip(states, queries, strict=True)]
        x += np.array([w @ self._table[t] for w, t in zip(where, seen, strict=True)], np.float32) @ self._pointed
        h = _norm(x + self._fed(x, -1))
        gates = _softmax(h @ self._gate)
        chances = _softmax(h @ self._say) * gates[:, :1]
        for i, tokens in enumerate(seen):
            for form, gate in zip(self._forms, gates[i, 1:], strict=True):
                np.add.at(chances[i], form[tokens], where[i] * gate)
        logits: Array = np.log(chances + np.float32(1e-9))
        return logits

    def _fed(self, x: Array, layer: int) -> Array:
        """The output of a feed-forward layer."""
        added: Array = np.maximum(_norm(x) @ self._up[layer], 0) ** 2 @ self._down[layer]
        return added

    def _convolved(self, x: Array, states: Sequence[State], rows: Sequence[slice], layer: int) -> Array:
        """Add to each position a mix of itself and the few before it, channel by channel."""
        weights = self._conv[layer]
        kernel = len(weights)
        made = x.copy()
        for state, row in zip(states, rows, strict=True):
            padded = np.concatenate([state.tails[layer], x[row]])
            size = len(padded) - kernel + 1
            for lag in range(kernel):
                made[row] += padded[lag : lag + size] * weights[lag]
            state.tails[layer] = padded[size:]
        return made

    def _attended(self, state: State, layer: int, place: slice, queries: Array) -> Array:
        """The attention output for the tokens at ``place``, over all tokens up to them."""
        count, heads, end = len(queries), self._heads, place.stop
        q = queries.reshape(count, heads, -1).swapaxes(0, 1)
        k = state.keys[layer, :end].reshape(end, heads, -1).transpose(1, 2, 0)
        v = state.values[layer, :end].reshape(end, heads, -1).swapaxes(0, 1)
        distance = np.arange(end, dtype=np.float32) - np.arange(place.start, end, dtype=np.float32)[:, None]
        scores = q @ k * np.float32(q.shape[-1] ** -0.5) + self._slopes * distance
        if count > 1:
            scores[:, distance > 0] = -np.inf
        mixed: Array = (_softmax(scores) @ v).swapaxes(0, 1).reshape(count, -1)
        return mixed


def _forms(vocabulary: dict[str, int]) -> tuple[NDArray[np.intp], ...]:
    """For each token: itself, its form without a space before it, and its form with one; itself if there is none."""
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    bare = [vocabulary.get(n[1:], i) if n[0] == _SPACE else i for i, n in enumerate(names)]
    spaced = [vocabulary.get(_SPACE + n, i) for i, n in enumerate(names)]
    return np.arange(len(names)), np.array(bare), np.array(spaced)


def _table(bare: NDArray[np.intp], embedding: Array, space: Array) -> Array:
    """The embedding of each token. A token with a space has the embedding of its bare form plus that of the space."""
    _, row = np.unique(bare, return_inverse=True)
    has_space = bare != np.arange(len(bare))
    table: Array = embedding[row] + has_space[:, None].astype(np.float32) * space
    return table


def _norm(x: Array) -> Array:
    squares = np.einsum("ij,ij->i", x, x)
    normed: Array = x / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-6))[:, None]
    return normed


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    chances: Array = powers / powers.sum(axis=-1, keepdims=True)
    return chances
