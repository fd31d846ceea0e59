"""Chat templates are found in all places where checkpoints have them."""

import json
from pathlib import Path

import pytest

from unspool import TemplateError
from unspool.checkpoints.sources import read_checkpoint

from ..writing_gguf import gguf


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


def test_templates_are_read_from_a_gguf_file_and_a_broken_one_gets_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf({"tokenizer.chat_template": "hello", "tokenizer.chat_template.tool_use": "use"}))
    assert read_checkpoint(path).templates == {"default": "hello", "tool_use": "use"}
    path.write_bytes(gguf({}))
    with pytest.raises(TemplateError, match="contains no chat template"):
        read_checkpoint(path)
    path.write_bytes(b"GGML")
    with pytest.raises(TemplateError, match="is not a GGUF"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"chat_template": 3}',
        *(f'{{"chat_template": [{{"name": {n}, "template": "x"}}]}}' for n in ("1", "[1]")),
    ],
)
def test_a_wrong_configuration_gets_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError):
        read_checkpoint(tmp_path)


def test_a_folder_without_a_template_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="contains no chat template"):
        read_checkpoint(tmp_path)
