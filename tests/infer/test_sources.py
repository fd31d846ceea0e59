"""Chat templates are found in all places where checkpoints have them."""

import json
import struct
from pathlib import Path

import pytest

from unspool import TemplateError
from unspool.infer.sources import read_checkpoint


def test_templates_and_special_tokens_are_read_from_a_folder(tmp_path: Path) -> None:
    config = {
        "chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}],
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    found = read_checkpoint(tmp_path)
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    assert (found.template(), found.template("default")) == ("b", "a")
    with pytest.raises(TemplateError, match="no template 'other'; allowed are default, tool_use"):
        found.template("other")


def test_a_template_file_replaces_the_one_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "old"}', encoding="utf-8")
    (tmp_path / "chat_template.jinja").write_text("new", encoding="utf-8")
    assert read_checkpoint(tmp_path).template() == "new"
    assert read_checkpoint(tmp_path / "tokenizer_config.json").template() == "old"
    assert read_checkpoint(tmp_path / "chat_template.jinja").template() == "new"


def gguf(pairs: list[tuple[str, int, bytes]]) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    body = b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


def test_the_template_is_read_from_a_gguf_file(tmp_path: Path) -> None:
    words = struct.pack("<IQ", 8, 2) + b"".join(struct.pack("<Q", 1) + c for c in (b"a", b"b"))
    path = tmp_path / "m.gguf"
    pairs = [
        ("general.size", 4, struct.pack("<I", 7)),
        ("tokenizer.tokens", 9, words),
        ("tokenizer.scores", 9, struct.pack("<IQff", 6, 2, 1.0, 2.0)),
        ("tokenizer.chat_template", 8, struct.pack("<Q", 5) + b"hello"),
        ("tokenizer.chat_template.tool_use", 8, struct.pack("<Q", 3) + b"use"),
    ]
    path.write_bytes(gguf(pairs))
    assert read_checkpoint(path).templates == {"default": "hello", "tool_use": "use"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GGML", "is not a GGUF"),
        (b"GGUF\x03", "ends in its metadata"),
        (gguf([("k", 8, struct.pack("<Q", 1 << 60))]), "contains no chat template"),
        (gguf([("tokenizer.chat_template", 8, struct.pack("<Q", 1 << 60))]), "a text of"),
        (gguf([("k", 9, struct.pack("<IQ", 8, 1 << 60))]), "an array of"),
        (gguf([("k", 77, b"")]), "of type 77"),
    ],
)
def test_a_broken_gguf_gets_a_clear_error(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(TemplateError, match=why):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"chat_template": 3}', '{"chat_template": [{"name": 1, "template": "x"}]}']
)
def test_a_wrong_configuration_gets_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError):
        read_checkpoint(tmp_path)


def test_a_folder_without_a_template_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="contains no chat template"):
        read_checkpoint(tmp_path)
