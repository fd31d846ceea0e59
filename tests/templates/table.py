"""The dialect of each template, and the known differences between template and renderer."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

LLAMA = "llama-cpp-python"
VLLM = "vllm"


@dataclass(frozen=True)
class Source:
    """A chat template, and the form of the messages that it takes.

    Attributes:
        dialect: the name of the dialect that it writes.
        package, file: where it is, without ``.jinja``.
        variables: its variables besides messages and tools.
        arguments: whether arguments reach it as an object or as JSON text.
        reasoning: the key of a message that contains its reasoning; ``parts`` for a list of content parts.
        sandboxed: false for templates that change lists.
        unmarked: whether it contains too little of the format to be recognized.
    """

    dialect: str
    package: str
    file: str
    variables: dict[str, Any] = field(default_factory=dict)
    arguments: Literal["object", "text"] = "object"
    reasoning: str = "reasoning_content"
    sandboxed: bool = True
    unmarked: bool = False


SOURCES = [
    Source("apertus", LLAMA, "Apertus-8B-Instruct"),
    Source("cohere_command3", LLAMA, "CohereForAI-c4ai-command-r7b-12-2024-tool_use"),
    Source("cohere_command4", LLAMA, "Cohere2MoE"),
    Source("deepseekv3", LLAMA, "llama-cpp-deepseek-r1"),
    Source("deepseekv3", VLLM, "tool_chat_template_deepseekr1"),
    Source("deepseekv31", LLAMA, "deepseek-ai-DeepSeek-V3.1", {"thinking": True}),
    Source("deepseekv32", LLAMA, "deepseek-ai-DeepSeek-V3.2", {"thinking": True}, arguments="text"),
    Source("deepseekv4", LLAMA, "deepseek-ai-DeepSeek-V4", {"thinking": True}),
    Source("functionary-v3.2", LLAMA, "meetkai-functionary-medium-v3.2", arguments="text"),
    Source("functiongemma", VLLM, "tool_chat_template_functiongemma"),
    Source("gemma4", LLAMA, "google-gemma-4-31B-it", {"enable_thinking": True}),
    Source("gemma4", VLLM, "tool_chat_template_gemma4"),
    Source("gigachat3", LLAMA, "GigaChat3.1-10B-A1.8B"),
    Source("glm45", LLAMA, "GLM-4.6"),
    Source("glm45", LLAMA, "inclusionai-ling-3.0-flash"),
    Source("glm45", LLAMA, "poolside-Laguna-XS.2"),
    Source("glm47", LLAMA, "GLM-4.7-Flash"),
    Source("glm47", LLAMA, "poolside-Laguna-S-2.1", unmarked=True),
    Source("granite", VLLM, "tool_chat_template_granite"),
    Source("granite-20b-fc", VLLM, "tool_chat_template_granite_20b_fc"),
    Source("harmony", LLAMA, "openai-gpt-oss-120b", reasoning="thinking"),
    Source("hermes", LLAMA, "MiMo-VL"),
    Source("hermes", LLAMA, "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"),
    Source("hermes", LLAMA, "Qwen-QwQ-32B"),
    Source("hermes", LLAMA, "Qwen-Qwen2.5-7B-Instruct"),
    Source("hermes", LLAMA, "Qwen-Qwen3-0.6B"),
    Source("hermes", LLAMA, "ibm-granite-granite-4.0"),
    Source("hermes", VLLM, "tool_chat_template_hermes"),
    Source("hunyuan", LLAMA, "tencent-Hy3", {"reasoning_effort": "high"}),
    Source("hunyuan_a13b", VLLM, "tool_chat_template_hunyuan_a13b"),
    Source("internlm", VLLM, "tool_chat_template_internlm2_tool"),
    Source("kimi_k2", LLAMA, "Kimi-K2-Instruct", sandboxed=False),
    Source("kimi_k2", LLAMA, "Kimi-K2-Thinking", sandboxed=False),
    Source("kimi_k2", LLAMA, "moonshotai-Kimi-K2", sandboxed=False),
    Source("kimi_k3", LLAMA, "Kimi-K3", {"thinking": True}),
    Source("lfm2", LLAMA, "LFM2.5-8B-A1B", reasoning="thinking"),
    Source("llama-function", LLAMA, "meetkai-functionary-medium-v3.1"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.1-8B-Instruct"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.2-3B-Instruct"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.3-70B-Instruct"),
    Source("llama3", VLLM, "tool_chat_template_llama3.1_json"),
    Source("minicpm5", LLAMA, "openbmb-MiniCPM5-1B"),
    Source("minimax-m1", LLAMA, "MiniMax-M1"),
    Source("minimax-m2", LLAMA, "MiniMax-M2"),
    Source("minimax-m3", LLAMA, "MiniMax-M3", {"thinking_mode": "enabled"}),
    Source("mistral", LLAMA, "mistralai-Mistral-Nemo-Instruct-2407"),
    Source("mistral", VLLM, "tool_chat_template_mistral3"),
    Source("mistral-compact", LLAMA, "mistralai-Ministral-3-14B-Reasoning-2512", reasoning="parts"),
    Source("mistral-compact", LLAMA, "unsloth-mistral-Devstral-Small-2507"),
    Source("muse", LLAMA, "muse-glimmer"),
    Source("nemotron", LLAMA, "NVIDIA-Nemotron-Nano-v2"),
    Source("phi4", VLLM, "tool_chat_template_phi4_mini"),
    Source("pythonic", VLLM, "tool_chat_template_llama3.2_pythonic", unmarked=True),
    Source("pythonic", VLLM, "tool_chat_template_llama4_pythonic", unmarked=True),
    Source("pythonic", VLLM, "tool_chat_template_toolace", unmarked=True),
    Source("qwen3-coder", LLAMA, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    Source("qwen3-coder", LLAMA, "Qwen3-Coder"),
    Source("qwen3-coder", LLAMA, "Qwen3.5-4B"),
    Source("qwen3-coder", LLAMA, "StepFun3.5-Flash"),
    Source("seed-oss", LLAMA, "ByteDance-Seed-OSS"),
    Source("solar-open", LLAMA, "upstage-Solar-Open-100B", reasoning="reasoning"),
    Source("spark25", LLAMA, "Spark2.5"),
    Source("xlam", VLLM, "tool_chat_template_xlam_llama"),
    Source("xlam", VLLM, "tool_chat_template_xlam_qwen"),
]


# -- known differences -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How templates differ from the renderer, in some of the cases (globs of their names).

    A difference turns the text of the renderer into that of the template. One that is no longer needed fails the test.

    Attributes:
        without: parts of the message that the template does not write.
        reasoning: whether it writes an ``empty`` reasoning, or ``closed`` one, by its closing alone.
        writes: which alternative of a dialect's key it writes, if not the first.
        swap: texts that it writes differently.
        before, behind: what it writes at the beginning and at the end.
        indented: whether it writes the list of calls as indented JSON.
        text: its whole text, if nothing simpler describes the difference.
        error: what it says when it refuses the message.
    """

    files: tuple[str, ...]
    cases: tuple[str, ...]
    reason: str
    without: tuple[str, ...] = ()
    reasoning: Literal["", "empty", "closed"] = ""
    writes: dict[str, int] = field(default_factory=dict)
    swap: tuple[tuple[str, str], ...] = ()
    before: str = ""
    behind: str = ""
    indented: bool = False
    text: str = ""
    error: str = ""

    def concerns(self, file: str, case: str) -> bool:
        return file in self.files and any(fnmatchcase(case, pattern) for pattern in self.cases)


DIFFERENCES = msgspec.toml.decode(
    Path(__file__).with_name("differences.toml").read_bytes(), type=dict[str, list[Difference]]
)["differences"]


# -- dialects without a template ---------------------------------------------------------------------------------------

_NOWHERE = """
beam deepseekv41 dots ernie45 gigachat35 hy_v4 hyperclovax-14b inkling interns1 iquest_coder_v2 iquest_q1 k2_horizon
kimi llm-jp-4 longcat mimo olmo3 openpangu_v2 plamo3 sarashina solar-open2 step3 telechat4 trinity
"""
_NONE = "no template of the corpus writes its format"

UNTEMPLATED: dict[str, str] = {
    "deepseek": "a reading of the family's formats; `deepseekv31` writes the same text",
    "apriel": "proven by `make infer`: the prompt opens every reasoning, which no history does",
    "apriel-1.5": "proven by `make infer`: the template writes a thought behind the answer",
    "exaone4": "proven by `make infer`, which has a package with its template",
    "jamba": "proven by `make infer`, which has a package with its template",
    "kat-v1": "proven by `make infer`, which has a package with its template",
    "command-r-plus": "proven by `make infer`: the template indents arguments",
    "reka-edge": "proven by `make infer`: a space stands between the prompt and what histories write",
    "deepseek-r1": "a reading of the family's formats; `deepseekv3` writes the same text",
    "json": "no family's format",
    "openai-generic": "a reading of several families' formats",
    "think": "no family's format",
    **dict.fromkeys(_NOWHERE.split(), _NONE),
}
"""Dialects without a template in `SOURCES`, and why."""
