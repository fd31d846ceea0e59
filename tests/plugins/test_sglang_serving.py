"""SGLang's own chat completions with our detectors, and with a scripted engine.

SGLang has no engine for a CPU alone, so the engine is replaced. Everything that SGLang's server does with a request and
with the output of its engine is its own code.
"""

import asyncio
import importlib
import importlib.machinery
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import unspool
from unspool import Stage

from ..infer import invented
from ..support import present
from .support import CALL, WEATHER, Gathered, Parts, mode_of, parts
from .test_vllm_host import make_tokenizer
from .vllm_server import write_model

pytestmark = [pytest.mark.sglang, pytest.mark.filterwarnings("default")]
PICTURES = ["", ".transforms", ".transforms.functional", ".transforms.v2", ".transforms.v2.functional", ".io", ".ops"]
"""The modules of torchvision that SGLang's server imports; no build of it fits a torch without CUDA."""
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""A template, which SGLang searches for the beginning of an answer."""
CALLS = [{"city": "Zürich", "days": 3}, {"city": "<b>Oslo</b>"}]


class Pictures(ModuleType):
    """A module that has every attribute, and does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Engine:
    """A replacement for SGLang's engine, behind its server.

    Attributes:
        says: the output of the next request.
        names: the names of the parsers on the command line.
    """

    def __init__(self, folder: Path, tokenizer: Any, arguments: Any) -> None:
        self.says = ""
        self.names: dict[str, str] = {}
        self.tokenizer = tokenizer
        self.server_args = arguments
        self.served_model_name = "tiny"
        self.model_path = str(folder)
        self.processor = None
        self.model_config = SimpleNamespace(
            is_multimodal=False,
            hf_config=SimpleNamespace(model_type="qwen3", architectures=["Qwen3ForCausalLM"]),
            get_default_sampling_params=dict,
        )

    def config_value(self, name: str) -> Any:
        context = importlib.import_module("sglang.srt.runtime_context").get_context()
        return self.names.get(name) or context.config_leaf(name)

    async def generate_request(self, request: Any, raw: Any) -> AsyncIterator[dict[str, Any]]:
        size = len(self.says)
        for end in range(5, size + 5, 5) if request.stream else [size]:
            text = self.says[:end]
            reason = {"type": "stop"} if end >= size else None
            counts = {"prompt_tokens": 3, "completion_tokens": len(text), "cached_tokens": 0}
            about = {"id": "r", "weight_version": "0", "finish_reason": reason, **counts}
            yield {"index": 0, "text": text, "output_ids": self.tokenizer.encode(text), "meta_info": about}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    importlib.import_module(
        "transformers.models.auto.processing_auto"
    )  # imported first, because it looks for the real torchvision
    importlib.import_module("transformers.models.auto.video_processing_auto")
    stubs = {f"torchvision{name}": Pictures(f"torchvision{name}") for name in PICTURES}
    with pytest.MonkeyPatch.context() as patch:
        for name, stub in stubs.items():
            patch.setitem(sys.modules, name, stub)
        importlib.import_module("sglang.srt.entrypoints.openai.serving_chat")
    importlib.import_module("sglang.srt.plugins").load_plugins()
    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(["<|im_start|>", "<|im_end|>"])
    write_model(folder, tokenizer, TEMPLATE)
    library = importlib.import_module("sglang.srt.server_args")
    arguments = library.ServerArgs(model_path=str(folder), device="cpu", served_model_name="tiny")
    library.set_global_server_args_for_tokenizer(arguments)
    return Engine(folder, tokenizer, arguments)


def serving(engine: Engine, dialect: str) -> Any:
    """SGLang's handler of chat completions, with parsers for a dialect."""
    engine.names = dict.fromkeys(("tool_call_parser", "reasoning_parser"), f"unspool_{dialect}")
    templates = importlib.import_module("sglang.srt.parser.template_manager").TemplateManager()
    templates.initialize_templates(tokenizer_manager=engine, model_path=engine.model_path)
    handler = importlib.import_module("sglang.srt.entrypoints.openai.serving_chat").OpenAIServingChat
    return handler(engine, templates)


def request_of(**fields: Any) -> Any:
    kind = importlib.import_module("sglang.srt.entrypoints.openai.protocol").ChatCompletionRequest
    return kind(model="tiny", messages=[{"role": "user", "content": "Hi"}], tools=[WEATHER], **fields)


async def whole(handler: Any, **fields: Any) -> tuple[Parts, str, dict[str, Any]]:
    """A whole answer, its finish reason, and the sampling parameters of the request."""
    internal, request = handler._convert_to_internal_request(request_of(**fields))
    (choice,) = (await handler._handle_non_streaming_request(internal, request, None)).choices
    message = choice.message
    calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or []]
    answer = (message.reasoning_content or "", message.content or "", calls)
    return answer, choice.finish_reason, internal.sampling_params


async def streamed(handler: Any, **fields: Any) -> tuple[Parts, str]:
    """The same for a stream."""
    internal, request = handler._convert_to_internal_request(request_of(stream=True, **fields))
    found, reason = Gathered(), ""
    async for line in handler._generate_chat_stream(internal, request, None):
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                delta, reason = choice["delta"], choice["finish_reason"] or reason
                found.say(delta.get("reasoning_content"), delta.get("content"))
                for call in delta.get("tool_calls") or []:
                    found.call(call["index"], call["function"]["name"] or None, call["function"]["arguments"])
    return found.parts, reason


@pytest.mark.parametrize("choice", ["auto", "none", "required", "named"])
@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "glm45", "deepseekv31", "kimi_k2"])
def test_sglangs_server_says_what_the_parser_says(engine: Engine, name: str, choice: str) -> None:
    dialect = unspool.get_dialect(name)
    mode = mode_of(choice)
    calls = [{"function": {"name": "get_weather", "arguments": json.dumps(c)}} for c in CALLS]
    free = choice in ("auto", "none")
    message = {"role": "assistant", "content": "Gern:" if free else "", "tool_calls": calls if free else calls[:1]}
    body = unspool.render(message, dialect, tools=[WEATHER], stage=Stage.CONTENT)
    for end in dialect.end:
        body = body.removesuffix(end)
    engine.says = f"Two cities,\nthen this. 🌍</think>\n\n{body}"
    handler = serving(engine, name)
    want = parts(unspool.parse(engine.says, dialect, tools=[WEATHER], tool_choice=mode, stage=Stage.REASONING))
    assert len(want[2]) == {"auto": 2, "none": 0}.get(choice, 1), "the case is what it says"
    answer, reason, sampling = asyncio.run(whole(handler, tool_choice=mode))
    again, streamed_reason = asyncio.run(streamed(handler, tool_choice=mode))
    assert answer == again == want
    assert reason == streamed_reason == ("tool_calls" if want[2] else "stop")
    assert sampling["skip_special_tokens"] is False or choice == "none"
    if choice in ("required", "named"):
        own = present(unspool.constrain(dialect, [WEATHER], mode, stage=Stage.CONTENT))
        kind = importlib.import_module("sglang.srt.function_call.base_format_detector").StructuralTag
        carried = kind.model_validate(json.loads(sampling["structural_tag"]))
        assert carried.model_dump() == kind.model_validate(own.structural_tag).model_dump()


def test_sglangs_server_finds_the_dialect_by_the_template(engine: Engine, tmp_path: Path) -> None:
    write_model(tmp_path, engine.tokenizer, invented.TEMPLATES["known"])
    other = Engine(tmp_path, engine.tokenizer, engine.server_args)
    other.says = f"Sure.\n{CALL}"
    handler = serving(other, "auto")
    answer, reason, _ = asyncio.run(whole(handler, tool_choice="auto"))
    assert answer == asyncio.run(streamed(handler, tool_choice="auto"))[0]
    assert answer == ("", "Sure.", [("get_weather", '{"city": "Paris"}')])
    assert reason == "tool_calls"
    engine.tokenizer.chat_template = TEMPLATE
