"""Engines at a URL are asked for what they serve, so that no flag has to say it."""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from unspool import parse
from unspool.cli import main
from unspool.cli.common import Misuse
from unspool.engines import Request, read_recordings
from unspool.infer.choosing import Choice, choose_dialect

from ..loopback import answering, sends
from ..writing_gguf import MODEL, gguf
from .test_model import opened

TEMPLATE = (Path(__file__).parents[2] / "src/unspool/models/small/chat_template.jinja").read_text(encoding="utf-8")
FILE = gguf({**MODEL, "tokenizer.chat_template": TEMPLATE})


@cache
def proven(template: str, model: str | None, special: str) -> Choice:
    return choose_dialect(template, model=model, special_tokens=json.loads(special))


@pytest.fixture(autouse=True)
def proven_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prove a template once for all tests."""

    def choose(template: str, *, model: str | None, special_tokens: dict[str, str], **_: Any) -> Choice:
        return proven(template, model, json.dumps(special_tokens))

    monkeypatch.setattr("unspool.cli.prove.choose_dialect", choose)


@contextlib.contextmanager
def engine(answers: Mapping[str, Any], key: str | None = None) -> Iterator[str]:
    """A server with these answers by path, bytes for a stream; the URL is yielded."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        size = handler.headers["Content-Length"]
        found = answers.get(handler.path)
        found = found(json.loads(handler.rfile.read(int(size))) if size else None) if callable(found) else found
        allowed = key is None or handler.headers["Authorization"] == f"Bearer {key}"
        if isinstance(found, bytes):
            sends(found, Content_Type="text/event-stream")(handler)
            return
        sends(json.dumps(found).encode(), 401 if not allowed else 404 if found is None else 200)(handler)

    with answering(answer) as url:
        yield url


def models(owner: str, id: str = "the-model", **fields: Any) -> dict[str, Any]:
    return {"data": [{"id": id, "owned_by": owner, **fields}]}


def tokenize(asked: Any) -> Any:
    return {"tokens": [1] if asked["content"].startswith("<|im_") else [1, 2, 3]}


def files(folder: Path) -> Path:
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}', encoding="utf-8")
    return folder


def test_llama_cpp_sends_its_template_and_tells_special_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    props = {"chat_template": TEMPLATE, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    with engine({"/v1/models": models("llamacpp"), "/props": props, "/tokenize": tokenize}) as url:
        model = opened("--engine", url)
    assert (model.settings.model, model.settings.dialect.name) == ("the-model", "hermes")
    assert model.prompts.tokenizer.added == ("<|im_end|>", "<|im_start|>")
    assert "dialect hermes (shipped): proven by the chat template" in capsys.readouterr().err


def test_vllm_sends_the_settings_of_its_tokenizer() -> None:
    info: dict[str, Any] = {"chat_template": TEMPLATE, "eos_token": {"content": "<|im_end|>"}}
    info["added_tokens_decoder"] = {"1": {"content": "<|im_start|>", "special": True}}
    with engine({"/v1/models": models("vllm", root="/nowhere"), "/tokenizer_info": info}) as url:
        model = opened("--engine", url)
    assert (model.settings.model, model.settings.dialect.name) == ("the-model", "hermes")
    assert model.prompts.tokenizer.added == ("<|im_end|>", "<|im_start|>")


def test_vllm_names_a_folder_on_this_machine(tmp_path: Path) -> None:
    with engine({"/v1/models": models("vllm", root=str(files(tmp_path)))}) as url:
        assert opened("--engine", url).settings.dialect.name == "hermes"


def test_sglang_names_its_tokenizers_folder(tmp_path: Path) -> None:
    info = {"tokenizer_path": str(files(tmp_path)), "model_path": "/nowhere"}
    for path in ("/model_info", "/get_model_info"):
        with engine({"/v1/models": models("sglang"), path: info}) as url:
            assert opened("--engine", url).settings.dialect.name == "hermes"


@pytest.mark.parametrize("owner", ["library", "me"])
def test_ollama_names_the_blob_of_its_model(owner: str, tmp_path: Path) -> None:
    blob = tmp_path / "sha256-0123"
    blob.write_bytes(FILE)
    answers = {
        "/v1/models": models(owner, "qwen3:0.6b"),
        "/api/version": {"version": "0.20.0"},
        "/api/show": lambda asked: {"modelfile": f"# for {asked['model']}\nFROM {blob}\nTEMPLATE x\n"},
    }
    with engine(answers) as url:
        model = opened("--engine", url)
    assert (model.settings.model, model.settings.dialect.name) == ("qwen3:0.6b", "hermes")


@pytest.mark.parametrize("known", [True, False], ids=["tokens", "no tokens"])
def test_ollama_on_another_machine_sends_the_template_of_its_file(known: bool) -> None:
    info = {"tokenizer.ggml.tokens": ["a", "<|im_start|>", "<|im_end|>"], "tokenizer.ggml.eos_token_id": 2}
    shown = {"modelfile": "FROM /elsewhere/sha256-0123", "template": TEMPLATE}
    answers = {
        "/v1/models": models("library", "qwen3:0.6b"),
        "/api/show": lambda asked: {**shown, "model_info": info if known and asked.get("verbose") else {}},
    }
    with engine(answers) as url:
        model = opened("--engine", url)
    assert (model.settings.model, model.settings.dialect.name) == ("qwen3:0.6b", "hermes")
    assert model.prompts.tokenizer.special == ({"eos_token": "<|im_end|>"} if known else {})
    assert model.prompts.tokenizer.added == (("<|im_end|>", "<|im_start|>") if known else ())


def test_a_template_in_gos_language_is_none() -> None:
    answers = {"/v1/models": models("library"), "/api/show": {"template": "{{ .System }}{{ .Prompt }}"}}
    with engine(answers) as url, pytest.raises(Misuse, match=r"^--tokenizer: is required for this engine"):
        opened("--engine", url)


def test_a_repository_is_looked_up_in_hugging_faces_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    files(folder / "snapshots" / "abc")
    with engine({"/v1/models": models("vllm", "served", root="org/name")}) as url:
        model = opened("--engine", url)
    assert (model.settings.model, model.settings.dialect.name) == ("served", "hermes")


def test_an_engine_without_a_template_names_the_flag() -> None:
    with engine({"/v1/models": models("vllm", root="/nowhere")}) as url, pytest.raises(Misuse) as caught:
        opened("--engine", url)
    why = f"--tokenizer: is required for this engine: {url} (vllm) sends no chat template"
    assert str(caught.value).startswith(why)


def test_an_engine_that_is_down_is_said_at_once_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine({}) as url:
        pass
    assert opened("--engine", url, "--tokenizer", str(files(tmp_path))).settings.model == "hermes"
    assert f"--engine: {url}: it cannot be reached (Connection refused); it is tried again" in capsys.readouterr().err


def test_an_engine_of_an_unknown_kind_names_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine({"/v1/models": models("somebody")}) as url:
        model = opened("--engine", url, "--tokenizer", str(files(tmp_path)))
    assert model.settings.model == "the-model"
    assert f"{url}: its kind cannot be detected; name it with --engine-kind" in capsys.readouterr().err


def test_an_engine_of_another_kind_than_was_named_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for owner, kind, said in (("vllm", "sglang", True), ("llamacpp", "llama.cpp-llguidance", False)):
        with engine({"/v1/models": models(owner)}) as url:
            opened("--engine", url, "--tokenizer", str(files(tmp_path)), "--engine-kind", kind)
        expected = f"unspool: --engine-kind: {url} looks like {owner}, not {kind}\n"
        assert (expected in capsys.readouterr().err) is said


def test_what_is_no_engine_at_all_is_said_with_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[tuple[dict[str, Any], str]] = [({}, "it answers 404")]
    answers.append(({"/v1/models": {"data": []}}, "it lists no model"))
    for given, why in answers:
        with engine(given) as url:
            opened("--engine", url, "--tokenizer", str(files(tmp_path)), "--mmproj", "m.gguf", "--threads", "2")
        said = capsys.readouterr().err
        assert f"{url}: its kind cannot be detected (/v1/models: {why}); name it with --engine-kind" in said
        assert "unspool: --threads, --mmproj: has no effect on this engine, only on FILE.gguf" in said


def test_what_stops_the_start_names_the_flag_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    with engine({"/v1/models": models("vllm")}, key="right") as url:
        assert main(["serve", "--port", "0", "--engine", url, "--engine-key", "wrong"]) == 2
    assert capsys.readouterr().err.endswith("it refuses the API key; see --engine-key\n")
    assert main(["serve", "--port", "0", "--engine", url]) == 2
    assert capsys.readouterr().err.endswith("; with --tokenizer, the server starts without it\n")


@pytest.mark.parametrize("answer", [[], "x", {"data": 1}, {"data": [1]}, {"data": [{"id": 1, "root": "\0"}]}, None])
def test_odd_answers_are_no_answers(answer: Any) -> None:
    with engine({"/v1/models": answer}) as url, pytest.raises(Misuse, match="--tokenizer: is required"):
        opened("--engine", url)


@pytest.mark.parametrize("sent", [b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200])
def test_an_answer_that_is_no_http_is_said(sent: bytes) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(sent)

    with answering(answer) as url, pytest.raises(Misuse, match="no HTTP"):
        opened("--engine", url)


@pytest.mark.parametrize("name", ["m.gguf", "m.jinja"])
def test_the_tokenizer_may_be_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(FILE if name.endswith(".gguf") else TEMPLATE.encode())
    with engine({"/v1/models": models("llamacpp")}) as url:
        model = opened("--engine", url, "--tokenizer", str(file))
    assert model.settings.dialect.name == "hermes"
    assert {"<|im_end|>", "<|im_start|>"} <= set(model.prompts.tokenizer.added)


def test_outputs_of_an_inferred_dialect_are_recorded_with_its_file(tmp_path: Path) -> None:
    template = TEMPLATE.replace("tool_call>", "my_call>").replace("<|im_end|>", "<|over|>")
    props = {"chat_template": template, "eos_token": "<|over|>"}
    called = '<my_call>\n{"name": "f", "arguments": {"a": 1}}\n</my_call>'
    answer = {"content": called, "stop": True, "stop_type": "eos"}

    async def generated(engine: Any) -> None:
        async with contextlib.aclosing(engine.generate(Request(prompt="x"))) as stream:
            assert [delta.text async for delta in stream]
        await engine.close()

    told = {"/v1/models": models("llamacpp"), "/props": props, "/tokenize": tokenize}
    with engine({**told, "/completion": b"data: " + json.dumps(answer).encode() + b"\n\n"}) as url:
        model = opened("--engine", url, "--capture", str(tmp_path / "c"))
        assert model.settings.dialect.name == "inferred"
        asyncio.run(generated(model.engine))
    (recording,) = read_recordings(tmp_path / "c")
    assert recording.dialect is not None
    (call,) = parse(recording.text, recording.dialect).tool_calls
    assert (call.name, call.arguments) == ("f", '{"a": 1}')


PLAIN = """{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PROPS = {"chat_template": "{{ messages }}", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}


@pytest.mark.parametrize(
    "answers",
    [
        {"/v1/models": models("llamacpp"), "/props": PROPS, "/tokenize": tokenize},
        {"/v1/models": models("llamacpp"), "/props": {"model_path": "FILE"}},
        {"/v1/models": models("vllm", root="FOLDER")},
        {"/v1/models": models("sglang"), "/model_info": {"tokenizer_path": "FOLDER"}},
        {"/v1/models": models("library"), "/api/show": {"modelfile": "FROM FILE\n"}},
    ],
)
def test_a_template_alone_gets_the_special_tokens_of_the_engine(
    answers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.jinja").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "m.gguf").write_bytes(gguf({k: v for k, v in MODEL.items() if k != "tokenizer.chat_template"}))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}')
    here = json.dumps(answers, default=lambda f: None).replace("FILE", str(tmp_path / "m.gguf"))
    told = {**json.loads(here.replace("FOLDER", str(tmp_path)))}
    told |= {path: answer for path, answer in answers.items() if callable(answer)}
    with engine(told) as url:
        model = opened("--engine", url, "--tokenizer", str(tmp_path / "m.jinja"))
    assert model.prompts.tokenizer.special == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert model.prompts.tokenizer.added == ("<|im_end|>", "<|im_start|>")
    assert "does not say" not in capsys.readouterr().err


def test_special_tokens_that_nobody_says_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.jinja"
    file.write_text(PLAIN, encoding="utf-8")
    with engine({"/v1/models": models("vllm")}) as url:
        opened("--engine", url, "--tokenizer", str(file))
    assert f"--tokenizer: {file}: writes bos_token and eos_token, which the engine does not" in capsys.readouterr().err


def test_a_later_redirect_is_not_followed() -> None:
    def away(handler: BaseHTTPRequestHandler) -> None:
        sends(b"", 302, Location=target + handler.path)(handler)

    refused = pytest.raises(Misuse, match="of an unknown kind")
    with engine({"/v1/models": models("vllm")}) as target, answering(away) as url, refused:
        opened("--engine", url)
