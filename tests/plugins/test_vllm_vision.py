"""Images by every protocol to a small vision model in vLLM's engine on a CPU; run by ``make vllm-engine``.

The model has the shape of Qwen2.5-VL, with two layers and random weights. What vLLM reads is compared with what it
renders itself of the same messages, and what it writes with the answer of its own chat.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import unspool

from .. import loopback
from ..loopback import told
from ..media import png
from ..request.parts.test_places import ADDED, SEEING
from ..request.parts.test_reading import PROTOCOLS, image
from ..sessions.proxy import Proxy, Sampling
from ..wire.readers import PATHS, chunks, text_of
from .test_vllm_engine import END, ENGINE, unspool_serve
from .test_vllm_host import make_tokenizer
from .vllm_server import CONFIG, VISION, VISION_PATH, serving

pytestmark = [pytest.mark.vllm_engine, pytest.mark.filterwarnings("default")]

TOKENS: Final = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
TEXT: Final = {"type": "text", "text": "What is this?"}
PICTURES: Final = (png(60, 90, 30), png(120, 56, 220))
CHOSEN: Final = {"temperature": 0.0, "max_tokens": 12}
CUT: Final = "\ufffd"
PIXELS: Final = {"min_pixels": 28 * 28, "max_pixels": 1 << 18}
SHAPE: Final = {"hidden_size": 64, "intermediate_size": 64, "initializer_range": 0.3}


def write_vision_model(folder: Path) -> None:
    """Write a model of random weights, with all that its processor needs."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    words = make_tokenizer(list(ADDED))
    words.eos_token, words.chat_template = END, SEEING
    words.save_pretrained(folder)
    text = {
        **{name: CONFIG[name] for name in ("num_attention_heads", "num_key_value_heads", "max_position_embeddings")},
        "num_hidden_layers": 2,
        "vocab_size": len(words),
        "bos_token_id": None,
        "eos_token_id": words.eos_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
    }
    vision = {"depth": 2, "num_heads": 2, "out_hidden_size": 64, "fullatt_block_indexes": [1]}
    config = transformers.Qwen2_5_VLConfig(
        text_config=SHAPE | text,
        vision_config=SHAPE | vision,
        **{name: words.convert_tokens_to_ids(token) for name, token in TOKENS.items()},
    )
    torch.manual_seed(0)
    transformers.Qwen2_5_VLForConditionalGeneration(config).float().save_pretrained(folder)
    for name, kind in (("preprocessor", "ImageProcessor"), ("video_preprocessor", "VideoProcessor")):
        form = f"{kind[:5].lower()}_processor_type"
        described = {form: f"Qwen2VL{kind}", "processor_class": "Qwen2_5_VLProcessor", **PIXELS}
        (folder / f"{name}_config.json").write_text(json.dumps(described), encoding="utf-8")


class Served(NamedTuple):
    """The URLs of unspool and of vLLM, and the proxy between them; whether vLLM takes ids with images."""

    url: str
    engine: str
    proxy: Proxy
    scale_out: bool


@pytest.fixture(scope="module", params=[True, False], ids=["scale out", "chat alone"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if not VISION.is_dir():
        pytest.skip("torchvision is not installed; `make vllm-engine` does so")
    folder = tmp_path_factory.mktemp("model")
    write_vision_model(folder)
    flags = ["serve", "--enforce-eager", "--max-num-seqs", "2", "--skip-mm-profiling"]
    flags += ["--chat-template-content-format", "openai"]
    flags += ["--enable-scale-out"] if request.param else []
    environment = {**ENGINE, "PYTHONPATH": VISION_PATH, "VLLM_PLUGINS": ""}
    with (
        serving(folder, flags, environment, None) as engine,
        Proxy(engine).running() as proxy,
        unspool_serve(folder, proxy.url, unspool.get_dialect("hermes"), "--sessions") as front,
    ):
        yield Served(front, engine, proxy, request.param)


def body(protocol: str, parts: list[Any], role: str, **more: Any) -> dict[str, Any]:
    """A request of a protocol, whose answer is the likeliest."""
    forms: dict[str, dict[str, Any]] = {
        "responses": {"temperature": 0.0, "max_output_tokens": CHOSEN["max_tokens"]},
        "ag-ui": {"forwardedProps": CHOSEN},
    }
    return {**PROTOCOLS[protocol][1](parts, role), "model": "tiny", **forms.get(protocol, CHOSEN), **more}


def ask(served: Served, protocol: str, asked: dict[str, Any]) -> str:
    """The text of an answer, whole or streamed."""
    status, answer = loopback.ask(served.url + PATHS[protocol], asked)
    assert status == 200, answer
    return text_of(protocol, answer)


def generated(served: Served) -> tuple[Any, Sampling]:
    """The first event of the last answer to images, and what was sampled; unspool examines its engine meanwhile."""
    at = max(i for i, asked in enumerate(served.proxy.bodies) if "prompt" not in asked)
    return chunks(served.proxy.answers[at].decode())[0], served.proxy.record[at]


SHOWN: Final = {
    "an image": (1, "user"),
    "two images": (2, "user"),
    "in a result": (1, "tool"),
    "two in a result": (2, "tool"),
}


def parts(protocol: str, count: int) -> list[Any]:
    """Texts and images, in turns."""
    return [part for data in PICTURES[:count] for part in (TEXT, image(protocol, data))]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("count", "role"), SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_vllm_reads_what_it_renders_itself(served: Served, protocol: str, count: int, role: str, stream: bool) -> None:
    asked = body(protocol, parts(protocol, count), role, stream=stream)
    if role == "tool" and not served.scale_out:
        status, refused = loopback.ask(served.url + PATHS[protocol], asked)
        assert status == 400
        assert "--enable-scale-out" in refused
        return
    said = ask(served, protocol, asked)
    first, sampled = generated(served)
    own = body("chat", parts("chat", count), role)
    wanted = told(f"{served.engine}{PATHS['chat']}", {**own, "skip_special_tokens": True, "return_token_ids": True})
    (choice,) = wanted["choices"]
    assert first["prompt_token_ids"] == wanted["prompt_token_ids"]
    assert sampled.ids == choice["token_ids"]
    # At an end by length, vLLM withholds the bytes of a character that is not complete.
    assert said.rstrip(CUT) == choice["message"]["content"].rstrip(CUT)
    if served.scale_out:
        # vLLM moves images in results of Messages, and knows no AG-UI.
        like = "chat" if role == "tool" or protocol == "ag-ui" else protocol
        rendered = told(f"{served.engine}{PATHS[like]}/render", body(like, parts(like, count), role))
        assert first["prompt_token_ids"] == rendered["token_ids"]
        assert first["mm_placeholders"] == rendered["features"]["mm_placeholders"]
        assert len(first["mm_placeholders"]["image"]) == count


def test_another_image_is_answered_otherwise(served: Served) -> None:
    said = [ask(served, "chat", body("chat", [TEXT, image("chat", data)], "user")) for data in PICTURES]
    assert said[0] != said[1]


def test_a_session_keeps_what_was_sampled_after_images_and_does_not_call_it_exact(served: Served) -> None:
    session = told(f"{served.url}/sessions", {})
    asked = body("chat", parts("chat", 2), "user", temperature=1.0, seed=3)
    told(f"{served.url}/sessions/{session['id']}/v1/chat/completions", asked)
    (call,) = told(f"{served.url}/sessions/{session['id']}/trajectory")["calls"]
    _, sampled = generated(served)
    assert session["exact"]
    assert not call["exact"]
    assert len(sampled.ids) == CHOSEN["max_tokens"]
    assert call["output_ids"] == sampled.ids
    if served.scale_out:
        assert call["logprobs"] == sampled.logprobs
        assert call["prompt_ids"] == sampled.prompt
        assert "media have one placeholder each" in str(call["problems"])
    else:  # parts of messages are sent, and the log-probabilities of chat are not asked for
        assert set(call["logprobs"]) == {None}
        assert "12 of 12 tokens have no log-probability" in call["problems"]
