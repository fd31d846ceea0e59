"""Which GGUFs are refused before llama.cpp loads them, and how many outputs fit."""

from pathlib import Path
from typing import Any

import pytest

from unspool.checkpoints.gguf import Gguf, read_gguf
from unspool.engines.local.fitting import check_model, fitting_slots, memory
from unspool.errors import GgufError

from ...writing_gguf import MODEL, TENSORS, gguf


def made(folder: Path, name: str = "m.gguf", data: int | None = None, **values: Any) -> Gguf:
    file = folder / name
    file.write_bytes(gguf({**MODEL, **{k.replace("__", "."): v for k, v in values.items()}}, TENSORS, data=data))
    return read_gguf(file, vocabulary=True)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"general__type": "mmproj"}, "is a projector"),
        ({"general__architecture": "clip"}, "is a projector"),
        ({"general__type": "adapter"}, "is an adapter"),
        *(({"general__architecture": n}, "is an embedding model") for n in ("nomic-bert", "gemma-embedding")),
        ({"llama__pooling_type": 3}, "is an embedding model"),
        ({"llama__attention__causal": False}, "is an embedding model"),
        ({"tokenizer__ggml__tokens": []}, "has no model, or no vocabulary"),
        ({"data": 100}, "is not complete: it has"),
        ({"split__count": 3, "split__no": 0}, "is part 1 of 3, and its name does not say so"),
    ],
)
def test_a_file_that_generates_no_text_is_one_sentence(values: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(GgufError) as caught:
        check_model(made(tmp_path, **values))
    assert str(caught.value).startswith(f"{tmp_path}/m.gguf: {error}")


def test_a_whole_model_is_accepted(tmp_path: Path) -> None:
    check_model(made(tmp_path))


def test_of_a_model_in_parts_the_first_is_named_and_all_must_be_there(tmp_path: Path) -> None:
    # llama.cpp writes all but the first without what describes the model.
    bare: dict[str, Any] = {"general__architecture": "", "tokenizer__ggml__tokens": []}
    second = made(tmp_path, "m-00002-of-00002.gguf", split__count=2, split__no=1, **bare)
    with pytest.raises(GgufError, match=r"is part 2 of 2; name the first one, m-00001-of-00002\.gguf"):
        check_model(second)
    first = made(tmp_path, "m-00001-of-00002.gguf", split__count=2, split__no=0)
    check_model(first)
    Path(second.path).unlink()
    with pytest.raises(GgufError, match=r"is part 1 of 2, and m-00002-of-00002\.gguf is not beside it"):
        check_model(first)


def test_a_whole_model_may_be_named_like_a_part(tmp_path: Path) -> None:
    whole = made(tmp_path, "m-00002-of-00003.gguf")
    check_model(whole)
    assert fitting_slots(whole, 4096, 1, available=1 << 30) == 1


CACHE = 2 * 2 * (16 + 16) * 2
"""Bytes of a token in the cache of the model: layers, heads, keys and values, and halves."""


def test_as_many_slots_are_used_as_fit(tmp_path: Path) -> None:
    found = made(tmp_path)
    for slots in (1, 2, 3, 4, 4, 4):
        available = int((found.size + slots * 2048 * CACHE) / 0.9) + 1
        assert fitting_slots(found, 2048, None, available=available) == slots
    assert fitting_slots(found, 2048, None, available=1 << 40) == 4
    assert fitting_slots(found, 2048, 16, available=available) == 16
    assert fitting_slots(found, 2048, None, available=None) == 4


def test_what_does_not_fit_names_the_flag_that_helps(tmp_path: Path) -> None:
    found = made(tmp_path)
    with pytest.raises(GgufError, match=r"its context of 2,048 tokens takes .* --context 1024 fits"):
        fitting_slots(found, 2048, None, available=int((found.size + 1500 * CACHE) / 0.9))
    with pytest.raises(GgufError, match=r"is too large: .*--gpu-layers"):
        fitting_slots(found, 2048, 1, available=found.size // 2)


def test_this_machine_says_how_much_memory_it_has() -> None:
    found = memory()
    assert found is not None
    assert found > 1 << 20
