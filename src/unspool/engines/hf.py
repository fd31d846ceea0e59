"""A model of transformers in this process (the extra ``transformers``), for `unspool.engines.batching`.

Sequences that are stepped together share one cache, padded on the left, like transformers' own batches. Whatever a
model can generate in a batch, it can generate here. The batch is rebuilt when a sequence joins or leaves it. Models
whose caches contain anything but keys, values and recurrent states are stepped one sequence after another.
"""

import copy
import inspect
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .base import Sampling

__all__ = ["TransformersModel"]

_JOINABLE: Final = frozenset(
    {
        "DummyLayer",
        "DynamicLayer",
        "DynamicSlidingWindowLayer",
        "LinearAttentionAndFullAttentionLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer",
        "LinearAttentionLayer",
    }
)
"""The kinds of cache layers that can be joined, because `_joined` handles their contents."""
_SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class TransformersModel:
    """A decoder of transformers from a local directory: configuration, safetensors, tokenizer. Its code is never run.

    Args:
        directory: as ``save_pretrained`` writes it.
        device: torch's name of the device; default: ``cuda`` if available, otherwise ``cpu``.
        context: the most tokens of a sequence, if that should be less than the model's maximum.

    Attributes:
        sampling: the recommendations of the model's generation configuration.

    Raises:
        ImportError: torch or transformers is missing.
        OSError: a file is missing.
        ValueError: the directory contains no such model, or the context is not in its range.
    """

    def __init__(self, directory: str | Path, *, device: str | None = None, context: int | None = None) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if not Path(directory).is_dir():
            raise ValueError(f"{directory}: is not a directory")
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        self._torch = torch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(directory), **local)
        model = AutoModelForCausalLM.from_pretrained(str(directory), dtype="auto", use_safetensors=True, **local)
        self._model = model.to(self._device).eval()
        takes = inspect.signature(model.forward).parameters
        if "past_key_values" not in takes:
            raise ValueError(f"{directory}: {type(model).__name__} does not support past_key_values")
        self._takes_positions = "position_ids" in takes
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        text = model.config.get_text_config()
        self.context = _context(directory, getattr(text, "max_position_embeddings", None), context)
        self.eos = _ends(model.generation_config.eos_token_id, text.eos_token_id, self.tokenizer.eos_token_id)
        defaults = model.generation_config.to_diff_dict()
        self.sampling = Sampling(**{f: defaults[f] for f in _SAMPLING if defaults.get(f) is not None})
        self._members: list[weakref.ref[_Sequence]] = []
        self._cache: Any = None
        self._mask: Any = None
        first, logits = self.prefill([min(self.eos, default=0)])  # the logits may be wider than the vocabulary
        self.vocab_size = len(logits)
        layers = getattr(first.cache, "layers", None) or ["unknown"]
        self._joins = all(type(layer).__name__ in _JOINABLE for layer in layers)

    def prefill(self, tokens: Sequence[int]) -> "tuple[_Sequence, NDArray[np.float32]]":
        """See `unspool.engines.batching.Model`."""
        torch = self._torch
        if not any(member() for member in self._members):
            self._let_go()
        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self._device)
            made = self._forward(ids, torch.ones_like(ids), [range(len(tokens))], None)
            return _Sequence(len(tokens), made.past_key_values), made.logits[0, -1].float().cpu().numpy()

    def step(self, states: "Sequence[_Sequence]", tokens: Sequence[int]) -> NDArray[np.float32]:
        """See `unspool.engines.batching.Model`. If it fails, these states cannot be used any more."""
        with self._torch.inference_mode():
            if not self._joins:
                return np.stack([self._alone(s, t) for s, t in zip(states, tokens, strict=True)])
            try:
                return self._together(states, tokens)
            except BaseException:
                self._let_go()
                raise

    def _together(self, states: "Sequence[_Sequence]", tokens: Sequence[int]) -> NDArray[np.float32]:
        torch = self._torch
        members = [member() for member in self._members]
        if len(members) != len(states) or any(m is not s for m, s in zip(members, states, strict=True)):
            self._regroup(members, states)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(states), 1)], dim=1)
        ids = torch.tensor(tokens, device=self._device)[:, None]
        made = self._forward(ids, self._mask, [[s.length] for s in states], self._cache)
        for state in states:
            state.length += 1
        logits: NDArray[np.float32] = made.logits[:, -1].float().cpu().numpy()
        return logits

    def _alone(self, state: "_Sequence", token: int) -> NDArray[np.float32]:
        torch = self._torch
        ids = torch.tensor([[token]], device=self._device)
        made = self._forward(ids, ids.new_ones(1, state.length + 1), [[state.length]], state.cache)
        state.length += 1
        logits: NDArray[np.float32] = made.logits[0, -1].float().cpu().numpy()
        return logits

    def _forward(self, ids: Any, mask: Any, positions: Sequence[Sequence[int]], cache: Any) -> Any:
        more: dict[str, Any] = dict(self._last_only)
        if self._takes_positions:
            more["position_ids"] = self._torch.tensor([list(row) for row in positions], device=self._device)
        return self._model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **more)

    # -- the batch -------------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        self._members, self._cache, self._mask = [], None, None

    def _regroup(self, members: "list[_Sequence | None]", states: "Sequence[_Sequence]") -> None:
        """Make the batch one of these states; those that leave it keep their part."""
        places = {id(member): row for row, member in enumerate(members) if member is not None}
        wanted = {id(state) for state in states}
        for row, member in enumerate(members):
            if member is not None and id(member) not in wanted:
                member.cache = _joined([(self._cache, row, member.length)], self._torch, free=False)
        parts = []
        for state in states:
            cache, row = (self._cache, places[id(state)]) if id(state) in places else (state.cache, 0)
            if cache is None:
                raise RuntimeError("the sequence was part of a step that failed")
            parts.append((cache, row, state.length))
        for state in states:
            state.cache = None
        self._cache = _joined(parts, self._torch, free=True)
        self._members = [weakref.ref(state) for state in states]
        width = max(state.length for state in states)
        rows = [[0] * (width - state.length) + [1] * state.length for state in states]
        self._mask = self._torch.tensor(rows, device=self._device)


class _Sequence:
    """A sequence's state.

    Attributes:
        length: how many tokens it has.
        cache: its own; ``None`` while it is part of a batch.
    """

    __slots__ = ("__weakref__", "cache", "length")

    def __init__(self, length: int, cache: Any) -> None:
        self.length = length
        self.cache = cache


def _joined(parts: Sequence[tuple[Any, int, int]], torch: Any, *, free: bool) -> Any:
    """One cache of several parts, aligned on the right.

    Args:
        parts: each a cache, a row of it, and the number of tokens in that row.
        free: whether the caches are no longer needed. Each layer is then dropped once it is copied, so that the layers
            do not all exist twice.
    """
    width = max(length for _, _, length in parts)
    joined = copy.copy(parts[0][0])
    joined.layers = []
    for n in range(len(parts[0][0].layers)):
        layers = [(cache.layers[n], row, length) for cache, row, length in parts]
        layer = copy.copy(layers[0][0])
        for name in ("keys", "values"):
            if isinstance(getattr(layer, name, None), torch.Tensor):
                setattr(layer, name, _aligned([_latest(getattr(one, name), row, size) for one, row, size in layers]))
        for name in ("conv_states", "recurrent_states"):
            states = getattr(layer, name, None)
            if states:
                rows = {i: [getattr(one, name)[i] for one, _, _ in layers] for i in states}
                picked = {i: _picked(tensors, [row for _, row, _ in layers], torch) for i, tensors in rows.items()}
                setattr(layer, name, picked)
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = width
        joined.layers.append(layer)
        if free:
            for cache, _, _ in parts:
                cache.layers[n] = None
    return joined


def _picked(tensors: Sequence[Any], rows: Sequence[int], torch: Any) -> Any:
    """One row of each tensor, together; ``None`` if the layer keeps no such state."""
    if tensors[0] is None:
        return None
    return torch.cat([tensor[row : row + 1] for tensor, row in zip(tensors, rows, strict=True)])


def _latest(tensor: Any, row: int, length: int) -> Any:
    """A row's own keys or values, without the padding. A sliding window keeps the latest ones."""
    width = tensor.shape[-2]
    return tensor[row, :, width - min(length, width) :]


def _aligned(rows: Sequence[Any]) -> Any:
    """Rows of shape (heads, tokens, size) as one tensor, zeros before the shorter ones."""
    heads, _, size = rows[0].shape
    made = rows[0].new_zeros(len(rows), heads, max(row.shape[1] for row in rows), size)
    for into, row in zip(made, rows, strict=True):
        into[:, into.shape[1] - row.shape[1] :] = row
    return made


def _ends(*declared: int | Sequence[int] | None) -> frozenset[int]:
    """The tokens that end an output, from the model's settings and the tokenizer."""
    return frozenset(t for ids in declared if ids is not None for t in ([ids] if isinstance(ids, int) else ids))


def _context(directory: str | Path, own: int | None, wanted: int | None) -> int:
    if wanted is None and own is None:
        raise ValueError(f"{directory}: its configuration has no max_position_embeddings; set context (--context)")
    if wanted is not None and not 2 <= wanted <= (own or wanted):
        raise ValueError(f"context: {wanted:,} is not between 2 and the model's {own or wanted:,}")
    return wanted or own or 0
