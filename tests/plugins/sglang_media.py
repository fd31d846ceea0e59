"""SGLang's own processors find our placeholders; prints, by family, what they split a prompt of two images into.

Run as a program of its own, with `VISION_PATH`.
"""

import asyncio
import base64
import importlib
import json
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from unspool.request.prompts import Prompts, Tokenizer

from ..media import png
from .test_vllm_host import make_tokenizer
from .vllm_server import CONFIG

_QWEN: Final = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
_KIMI: Final = ("<|media_start|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>")
_GLM: Final = ("<|begin_of_image|>", "<|image|>", "<|end_of_image|>")
FAMILIES: Final = {
    "qwen_vl.QwenVLImageProcessor": ("".join(_QWEN), "<|image_pad|>", _QWEN),
    "gemma3.Gemma3SGLangImageProcessor": ("<start_of_image>", "<start_of_image>", ("<end_of_image>",)),
    "gemma4.Gemma4SGLangProcessor": ("<|image|>", "<|image|>", ()),
    "glm4v.Glm4vImageProcessor": ("".join(_GLM), "<|image|>", _GLM),
    "kimi_vl.KimiVLImageProcessor": (f"{_KIMI[0]}image{''.join(_KIMI[1:])}", "<|media_pad|>", _KIMI),
    "mllama4.Mllama4ImageProcessor": ("<|image|>", "<|image|>", ()),
    "pixtral.PixtralProcessor": ("[IMG]", "[IMG]", ()),
    "lfm2_vl.Lfm2VlImageProcessor": ("<image>", "<image>", ()),
}
"""For each processor what templates of its family write for an image, the image's token in it, and all its tokens."""


class Config:
    """The configuration of a model, in which all numbers are 1, except those that are given."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Config() if name.endswith("_config") else 1


def split(name: str, arguments: Any) -> dict[str, Any]:
    """What a family's processor finds in a prompt with two images, as ids."""
    written, image, tokens = FAMILIES[name]
    part = f"{{% if p.type == 'image' %}}{written}{{% else %}}{{{{ p.text }}}}{{% endif %}}"
    template = "{% for m in messages %}{% for p in m.content %}" + part + "{% endfor %}{% endfor %}"
    (span,) = Prompts(Tokenizer(template, template, {}, ())).known.places.spans.values()
    module, _, kind = name.partition(".")
    words = make_tokenizer(sorted({image, *tokens}))
    processor = SimpleNamespace(tokenizer=words, image_token=image, image_processor=Config())
    id = words.convert_tokens_to_ids(image)
    config = Config(image_token_id=id, image_token_index=id, media_placeholder_token_id=id, pad_token="<pad>")
    made = getattr(importlib.import_module(f"sglang.srt.multimodal.processors.{module}"), kind)(
        config, arguments, processor, "default", skip_mm_pool=True
    )
    text = f"Compare {span} with {span}."
    pictures = [f"data:image/png;base64,{base64.b64encode(png(8, 8 * n)).decode()}" for n in (1, 2)]
    found = asyncio.run(made.load_mm_data(words.encode(text), made.mm_tokens, image_data=pictures))
    pieces = re.split(made.mm_tokens.get_combined_regex(), text)
    return {
        "span": span,
        "places": sum(made.mm_tokens.get_modality_of_token(piece) is not None for piece in pieces),
        "images": [one.size for one in found.images],
        "text": found.input_text == text,
    }


def main() -> None:
    from sglang.srt.runtime_context import get_context
    from sglang.srt.server_args import ServerArgs

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 300}), encoding="utf-8")
        arguments = ServerArgs(model_path=folder, device="cpu", mm_process_config={}, mm_preprocess_cache_size_mb=0)
        get_context().set_server_args(arguments)
        found = {name: split(name, arguments) for name in FAMILIES}
    print(json.dumps(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
