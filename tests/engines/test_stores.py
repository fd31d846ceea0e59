"""Models in the stores of Ollama, LM Studio and Hugging Face are found by their names, without a network."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from unspool.cli import main
from unspool.cli.local import find_local
from unspool.engines.stores import find_stored, hf_snapshot, stored
from unspool.errors import GgufError

from ..infer.test_wrapped import CHATML, STRICT
from ..small import need_small_model
from ..writing_gguf import MODEL, TENSORS, gguf

DATA = gguf(MODEL, TENSORS)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OLLAMA_MODELS", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("unspool.engines.stores._SERVICE", tmp_path / "service")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def blob(root: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (root / "blobs").mkdir(parents=True, exist_ok=True)
    (root / "blobs" / f"sha256-{digest}").write_bytes(data)
    return f"sha256:{digest}"


def ollama(home: Path, name: str, layers: Any = None, root: str = ".ollama/models") -> None:
    store = home / root
    if layers is None:
        layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": blob(store, DATA)}]
        layers.append({"mediaType": "application/vnd.ollama.image.template", "digest": blob(store, b"{{ .Prompt }}")})
    file = store / "manifests" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schemaVersion": 2, "layers": layers}), encoding="utf-8")


def lmstudio(home: Path, name: str, root: str = ".lmstudio/models") -> None:
    file = home / root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(DATA)


def hf(home: Path, repository: str, *files: str, root: str = ".cache/huggingface/hub", commit: str = "0123abc") -> None:
    folder = home / root / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit, encoding="utf-8")
    for name in files:
        (folder / "blobs").mkdir(exist_ok=True)
        (folder / "blobs" / name).write_bytes(DATA)
        file = folder / "snapshots" / commit / name
        file.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(folder / "blobs" / name, file)


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        ("registry.ollama.ai/library/qwen3/latest", ["ollama:qwen3", "ollama:qwen3:latest", "ollama:library/qwen3"]),
        ("registry.ollama.ai/library/qwen3/0.6b", ["ollama:qwen3:0.6b"]),
        ("registry.ollama.ai/me/mine/q4", ["ollama:me/mine:q4", "ollama:registry.ollama.ai/me/mine:q4"]),
        ("hf.co/org/name/latest", ["ollama:hf.co/org/name"]),
    ],
)
def test_a_model_of_ollama_is_found_by_each_of_its_names(manifest: str, names: list[str], home: Path) -> None:
    ollama(home, manifest)
    for name in names:
        assert find_stored(name).path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("variables", "store", "root"),
    [
        ({"OLLAMA_MODELS": "elsewhere"}, ollama, "elsewhere"),
        ({}, ollama, "service"),
        ({".lmstudio-home-pointer": "moved\n"}, lmstudio, "moved/models"),
        ({".lmstudio/settings.json": '{"downloadsFolder": "HOME/disk"}'}, lmstudio, "disk"),
        ({"HF_HUB_CACHE": "elsewhere", "HF_HOME": "x"}, hf, "elsewhere"),
        ({"HUGGINGFACE_HUB_CACHE": "old"}, hf, "old"),
        ({"HF_HOME": "~/mine"}, hf, "mine/hub"),
        ({"XDG_CACHE_HOME": "caches"}, hf, "caches/huggingface/hub"),
    ],
)
def test_a_stores_folder_may_be_elsewhere(
    variables: dict[str, str], store: Any, root: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        if name.startswith("."):
            (home / name).parent.mkdir(exist_ok=True)
            value = value.replace("HOME", str(home)) if "HOME" in value else str(home / value)
            (home / name).write_text(value, encoding="utf-8")
        else:
            monkeypatch.setenv(name, value if value.startswith("~") else str(home / value))
    name = {ollama: "registry.ollama.ai/library/m/latest", lmstudio: "a/b/m.gguf", hf: "a/b"}[store]
    store(home, name, *(["m.gguf"] if store is hf else []), root=root)
    (found,) = stored()
    assert found.path.is_relative_to(home / root)


def test_what_two_folders_have_is_listed_once(home: Path) -> None:
    ollama(home, "registry.ollama.ai/library/m/latest")
    ollama(home, "registry.ollama.ai/library/m/latest", root="service")
    lmstudio(home, "a/b/m.gguf")
    (home / ".cache").mkdir()
    os.symlink(home / ".lmstudio", home / ".cache/lm-studio")
    assert [one.name for one in stored()] == ["ollama:m:latest", "lmstudio:a/b/m.gguf"]
    assert find_stored("ollama:M").path.is_relative_to(home / ".ollama")


def test_a_file_of_an_earlier_commit_is_found_and_the_current_one_comes_first(home: Path) -> None:
    hf(home, "a/b", "q4.gguf", "q8.gguf", commit="fff")
    hf(home, "a/b", "q8.gguf", "Q2.GGUF", commit="0aa")
    assert [one.name for one in stored()] == ["hf:a/b:Q2.GGUF", "hf:a/b:q4.gguf", "hf:a/b:q8.gguf"]
    assert find_stored("hf:a/b:q8.gguf").path.parent.name == "0aa"
    assert find_stored("hf:a/b:q4.gguf").path.parent.name == "fff"


def test_adapters_of_ollama_belong_to_the_model(home: Path) -> None:
    store = home / ".ollama/models"
    kinds = {"model": DATA, "adapter": b"GGUF adapter"}
    layers = [{"mediaType": f"application/vnd.ollama.image.{k}", "digest": blob(store, d)} for k, d in kinds.items()]
    ollama(home, "registry.ollama.ai/library/tuned/latest", layers)
    assert [path.read_bytes() for path in find_stored("ollama:tuned").adapters] == [b"GGUF adapter"]


@pytest.mark.parametrize(
    "layers",
    [
        None,
        {},
        ["x"],
        [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../etc/passwd"}],
        [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "0" * 64}],
        [{"mediaType": 1, "digest": 2}],
    ],
)
def test_a_malformed_manifest_is_passed_over(layers: Any, home: Path) -> None:
    ollama(home, "registry.ollama.ai/library/broken/latest", [] if layers is None else layers)
    (home / ".ollama/models/manifests/registry.ollama.ai/library/broken/text").write_text("{", encoding="utf-8")
    assert list(stored()) == []


def test_a_model_of_lm_studio_is_found_by_publisher_model_and_file(home: Path) -> None:
    lmstudio(home, "qwen/Qwen3-GGUF/Qwen3-Q4.gguf")
    lmstudio(home, "qwen/Qwen3-GGUF/mmproj-Qwen3.gguf")
    for name in ("qwen/Qwen3-GGUF/Qwen3-Q4.gguf", "qwen/Qwen3-GGUF", "qwen3-gguf", "Qwen3-Q4.gguf", "Qwen3-Q4"):
        assert find_stored(f"lmstudio:{name}").name == "lmstudio:qwen/Qwen3-GGUF/Qwen3-Q4.gguf"


def test_a_model_of_hugging_face_is_found_by_repository_and_file(home: Path) -> None:
    hf(home, "Qwen/Qwen3-0.6B-GGUF", "q4.gguf", "q8.gguf")
    for name in ("hf:Qwen/Qwen3-0.6B-GGUF:q8.gguf", "hf:Qwen/Qwen3-0.6B-GGUF:q8"):
        assert find_stored(name).path.name == "q8.gguf"
    with pytest.raises(GgufError, match="there are several: hf:Qwen/Qwen3-0"):
        find_stored("hf:Qwen/Qwen3-0.6B-GGUF")


def test_of_a_model_in_parts_the_first_is_listed(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "DATA", gguf({**MODEL, "split.count": 2}, TENSORS))
    hf(home, "a/b", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    assert [one.name for one in stored()] == ["hf:a/b:m-00001-of-00002.gguf"]
    capsys.readouterr()
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["size"] == "640", "that of both"


@pytest.mark.parametrize("name", ["../..", "a/..", "a", "a/b/c", "a/b\0", "/etc"])
def test_a_repository_is_never_a_path(name: str, home: Path) -> None:
    (home / ".cache/huggingface/hub").mkdir(parents=True)
    assert hf_snapshot(name) is None


def test_what_is_not_there_is_one_sentence_with_what_there_is(home: Path) -> None:
    with pytest.raises(GgufError, match=r"ollama:no: is not in .*; there is no model"):
        find_stored("ollama:no")
    ollama(home, "registry.ollama.ai/library/qwen3/latest")
    with pytest.raises(GgufError, match=r"ollama:no: is not in .*; there are ollama:qwen3:latest"):
        find_stored("ollama:no")


def test_the_command_lists_all_with_their_dialects(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "DATA", gguf({**MODEL, "tokenizer.chat_template": CHATML}, TENSORS))
    ollama(home, "registry.ollama.ai/library/tiny/latest")
    lmstudio(home, "a/b/broken.gguf")
    (home / ".lmstudio/models/a/b/broken.gguf").write_bytes(DATA[:200])
    assert main(["models"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "family", "size", "context", "dialect", "proven"]
    assert first.split()[:5] == ["ollama:tiny:latest", "llama", "320", "2048", "hermes"]
    assert second.endswith("no: ends in its metadata: the file is not complete")
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["proven"] == "its template writes no tools"


def test_the_command_names_the_dialect_that_serve_would_read_without_tools_in_the_template(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_small_model()
    monkeypatch.setitem(globals(), "DATA", gguf({**MODEL, "tokenizer.chat_template": STRICT}, TENSORS))
    ollama(home, "registry.ollama.ai/library/tiny/latest")
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[0]["dialect"]
    assert main(["generate", "ollama:tiny", "hi"]) == 1, "it is no model that llama.cpp can load"
    assert f"unspool: dialect {listed} (shipped): proven" in capsys.readouterr().err
    assert listed != "hermes", "in whose form the tools are told"


def test_a_model_of_a_store_is_served_under_its_own_name(home: Path) -> None:
    need_small_model()
    ollama(home, "registry.ollama.ai/library/tiny/latest")
    assert find_local("ollama:tiny").name == "tiny"
