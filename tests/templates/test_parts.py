"""What the families' own templates write for an image, a sound and a video, and whether results of tools hold them."""

from pathlib import Path

import pytest

from unspool.request.prompts import Prompts, Tokenizer

pytestmark = pytest.mark.templates

_QWEN = "<|vision_start|><|image_pad|><|vision_end|>"
_KIMI = "<|media_start|>image<|media_content|><|media_pad|><|media_end|>"
FOUND = {
    ("llama-cpp-python", "Qwen3.5-4B"): ({"image": _QWEN, "video": _QWEN.replace("image", "video")}, "image video"),
    ("llama-cpp-python", "Kimi-K2-Instruct"): ({"image": _KIMI}, "image"),
    ("llama-cpp-python", "Mistral-Small-3.2-24B-Instruct-2506"): ({"image": "[IMG]"}, ""),
    ("llama-cpp-python", "google-gemma-4-31B-it"): (
        {"image": "<|image|>", "audio": "<|audio|>", "video": "<|video|>"},
        "",
    ),
    ("llama-cpp-python", "google-gemma-4-31B-it-interleaved"): (
        {"image": "<|image|>", "audio": "<|audio|>", "video": "<|video|>"},
        "audio image video",
    ),
    ("llama-cpp-python", "LFM2.5-8B-A1B"): ({"image": "<image>"}, "image"),
    ("llama-cpp-python", "GLM-4.6"): ({}, ""),
    ("vllm", "tool_chat_template_gemma3_pythonic"): ({"image": "<start_of_image>"}, "image"),
    ("vllm", "tool_chat_template_llama4_json"): ({"image": "<|image|>"}, "image"),
    ("vllm", "tool_chat_template_llama4_pythonic"): ({"image": "<|image|>"}, ""),
    ("vllm", "tool_chat_template_hermes"): ({}, ""),
    ("trl", "qwen2_5_vl"): ({"image": _QWEN, "video": _QWEN.replace("image", "video")}, "image video"),
}


@pytest.mark.parametrize("file", FOUND, ids="-".join)
def test_the_placeholders_of_a_template(file: tuple[str, str], templates: dict[str, Path]) -> None:
    package, name = file
    text = (templates[package] / f"{name}.jinja").read_text(encoding="utf-8")
    found = Prompts(Tokenizer(text, text, {"bos_token": "<s>", "eos_token": "</s>"}, ())).known.places
    spans, held = FOUND[file]
    assert (found.spans, found.held) == (spans, frozenset(held.split()))
