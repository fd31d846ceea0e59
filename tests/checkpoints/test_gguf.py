"""`unspool.checkpoints.gguf`: metadata are read as written, and reading a file takes no more than its size allows."""

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from unspool.checkpoints.gguf import CONTROL, DEFINED, read_gguf
from unspool.errors import GgufError
from unspool.request.tokenizer import gguf_tokenizer

from ..small import need_small_model
from ..writing_gguf import MODEL, TENSORS, gguf, text, value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.gguf"


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_are_read_as_they_were_written(version: int, file: Path) -> None:
    file.write_bytes(gguf({**MODEL, "x.float": 0.5, "x.flag": True}, TENSORS, version=version))
    found = read_gguf(file, vocabulary=True)
    assert (found.architecture, found.context, found.parameters) == ("llama", 2048, 64 * 5)
    assert (found.values["x.float"], found.values["x.flag"]) == (0.5, True)
    assert found.needed == found.size == file.stat().st_size
    assert (found.token("eos"), found.token("bos"), found.token("unknown")) == ("<|im_end|>", "<|im_start|>", "")
    assert (found.of_type(*CONTROL), found.of_type(DEFINED)) == ((0, 1), (2,))
    assert found.templates == {"default": MODEL["tokenizer.chat_template"]}


def test_the_vocabulary_is_read_only_on_request(file: Path) -> None:
    file.write_bytes(gguf(MODEL))
    assert read_gguf(file).tokens == ()


def test_several_templates_are_named(file: Path) -> None:
    file.write_bytes(gguf({**MODEL, "tokenizer.chat_template.tool_use": "T"}))
    found = read_gguf(file, vocabulary=True)
    assert set(found.templates) == {"default", "tool_use"}
    assert gguf_tokenizer(found).tool_template == "T"


def test_a_tokenizer_has_the_special_tokens_and_the_added_ones_that_the_template_writes(file: Path) -> None:
    file.write_bytes(gguf(MODEL))
    tokenizer = gguf_tokenizer(read_gguf(file, vocabulary=True))
    assert tokenizer.added == ("<think>", "<|im_end|>", "<|im_start|>")
    assert tokenizer.special == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}


def test_a_number_of_each_layer_counts_as_the_largest(file: Path) -> None:
    file.write_bytes(gguf({**MODEL, "llama.attention.head_count_kv": [2, 0, 8]}))
    assert read_gguf(file).number("attention.head_count_kv") == 8


def test_a_file_that_is_cut_anywhere_says_so_or_lacks_tensors(file: Path) -> None:
    whole = gguf(MODEL, TENSORS)
    for size in range(0, len(whole), 7):
        file.write_bytes(whole[:size])
        try:
            found = read_gguf(file, vocabulary=True)
        except GgufError:
            continue
        assert found.needed > found.size


HEAD = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04" + bytes(100), "is not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "has version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 62, 0), "has more than"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 63), "has more than"),
        (HEAD + struct.pack("<Q", 1 << 62), "bytes in a text"),
        (HEAD + struct.pack("<Q", 1000), "ends in its metadata"),
        (HEAD + text("k") + struct.pack("<I", 77), "has a value of type 77"),
        (HEAD + text("k") + struct.pack("<IIQ", 9, 9, 1), "has an array of arrays"),
        (HEAD + text("k") + struct.pack("<IIQ", 9, 8, 1 << 60), "has more than"),
        (HEAD + text("k") + struct.pack("<IIQ", 9, 10, 7_000_000), "ends in its metadata"),
        (HEAD + text("general.alignment") + value(0), "general.alignment is malformed"),
        (HEAD + text("tokenizer.ggml.tokens") + value([1, 2]), "its vocabulary is malformed"),
        (HEAD + text("tokenizer.ggml.tokens") + value(1), "its vocabulary is malformed"),
        (gguf({"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.token_type": [1, 3]}), "its vocabulary is malformed"),
        (gguf({}, [("t", [1] * 9, 1)]), "has a tensor of 9 dimensions"),
    ],
)
def test_a_malformed_file_is_one_sentence(data: bytes, error: str, file: Path) -> None:
    file.write_bytes(data)
    with pytest.raises(GgufError) as caught:
        read_gguf(file, vocabulary=True)
    assert str(caught.value).startswith(f"{file}: ")
    assert error in str(caught.value)


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(GgufError, match="is not a GGUF file"):
        read_gguf(file)


def test_many_short_texts_are_read_in_linear_time(file: Path) -> None:
    def seconds(count: int) -> float:
        file.write_bytes(gguf({"k": ["x"] * count}))
        began = time.process_time()
        read_gguf(file)
        return time.process_time() - began

    seconds(1000)
    # Four times as many take four times as long, or sixteen times if each looks at all the others.
    assert min(seconds(400_000) for _ in range(3)) < 8 * max(min(seconds(100_000) for _ in range(3)), 0.01)


@pytest.mark.parametrize("given", [1, 0.5, True, "text", ["a"], [1, 2]])
def test_each_kind_of_value_is_read(given: Any, file: Path) -> None:
    file.write_bytes(gguf({"k": given}))
    assert read_gguf(file).values == {"k": given}


def test_the_small_models_file_is_whole() -> None:
    found = read_gguf(need_small_model(), vocabulary=True)
    assert (found.architecture, found.context, len(found.tokens)) == ("llama", 8192, 49_152)
    assert found.size == found.needed
    assert found.parameters == 134_515_008
