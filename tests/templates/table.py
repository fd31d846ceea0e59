"""Which template speaks which dialect, and how they are known to differ."""

from dataclasses import dataclass, field
from typing import Any, Literal

LLAMA = "llama-cpp-python"
VLLM = "vllm"


@dataclass(frozen=True)
class Source:
    """A chat template, and how it wants its messages.

    Attributes:
        dialect: the name of the dialect that it writes.
        package, file: where it is, without ``.jinja``.
        variables: what a request gives it besides messages and tools.
        arguments: whether arguments reach it as an object or as JSON text.
        reasoning: the key of a message that holds its reasoning; ``parts`` for a list of content parts.
        sandboxed: false for templates that change lists.
    """

    dialect: str
    package: str
    file: str
    variables: dict[str, Any] = field(default_factory=dict)
    arguments: Literal["object", "text"] = "object"
    reasoning: str = "reasoning_content"
    sandboxed: bool = True


SOURCES = [
    Source("apertus", LLAMA, "Apertus-8B-Instruct"),
    Source("cohere_command3", LLAMA, "CohereForAI-c4ai-command-r7b-12-2024-tool_use"),
    Source("cohere_command4", LLAMA, "Cohere2MoE"),
    Source("deepseekv3", VLLM, "tool_chat_template_deepseekr1"),
    Source("deepseekv3", VLLM, "tool_chat_template_deepseekv3"),
    Source("deepseekv3", LLAMA, "llama-cpp-deepseek-r1"),
    Source("deepseekv31", LLAMA, "deepseek-ai-DeepSeek-V3.1", {"thinking": True}),
    Source("deepseekv32", LLAMA, "deepseek-ai-DeepSeek-V3.2", arguments="text"),
    Source("deepseekv4", LLAMA, "deepseek-ai-DeepSeek-V4"),
    Source("functiongemma", VLLM, "tool_chat_template_functiongemma"),
    Source("gemma4", VLLM, "tool_chat_template_gemma4"),
    Source("gemma4", LLAMA, "google-gemma-4-31B-it", {"enable_thinking": True}),
    Source("gigachat3", LLAMA, "GigaChat3.1-10B-A1.8B"),
    Source("glm45", LLAMA, "GLM-4.6"),
    Source("glm47", LLAMA, "GLM-4.7-Flash"),
    Source("granite", VLLM, "tool_chat_template_granite"),
    Source("granite-20b-fc", VLLM, "tool_chat_template_granite_20b_fc"),
    Source("harmony", LLAMA, "openai-gpt-oss-120b", reasoning="thinking"),
    Source("hermes", LLAMA, "Qwen-Qwen3-0.6B"),
    Source("hermes", LLAMA, "Qwen-Qwen2.5-7B-Instruct"),
    Source("hermes", LLAMA, "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"),
    Source("hermes", LLAMA, "ibm-granite-granite-4.0"),
    Source("hermes", VLLM, "tool_chat_template_hermes"),
    Source("hunyuan", LLAMA, "tencent-Hy3", {"reasoning_effort": "high"}),
    Source("hunyuan_a13b", VLLM, "tool_chat_template_hunyuan_a13b"),
    Source("internlm", VLLM, "tool_chat_template_internlm2_tool"),
    Source("kimi_k2", LLAMA, "Kimi-K2-Thinking", sandboxed=False),
    Source("kimi_k2", LLAMA, "Kimi-K2-Instruct", sandboxed=False),
    Source("kimi_k2", LLAMA, "moonshotai-Kimi-K2", sandboxed=False),
    Source("kimi_k3", LLAMA, "Kimi-K3", {"thinking": True}),
    Source("lfm2", LLAMA, "LFM2.5-8B-A1B", reasoning="thinking"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.1-8B-Instruct"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.2-3B-Instruct"),
    Source("llama3", LLAMA, "meta-llama-Llama-3.3-70B-Instruct"),
    Source("llama3", VLLM, "tool_chat_template_llama3.1_json"),
    Source("llama-function", LLAMA, "meetkai-functionary-medium-v3.1"),
    Source("minicpm5", LLAMA, "openbmb-MiniCPM5-1B"),
    Source("minimax-m2", LLAMA, "MiniMax-M2"),
    Source("minimax-m3", LLAMA, "MiniMax-M3", {"thinking_mode": "enabled"}),
    Source("mistral", VLLM, "tool_chat_template_mistral3"),
    Source("mistral", LLAMA, "mistralai-Mistral-Nemo-Instruct-2407"),
    Source("mistral-compact", LLAMA, "unsloth-mistral-Devstral-Small-2507"),
    Source("mistral-compact", LLAMA, "mistralai-Ministral-3-14B-Reasoning-2512", reasoning="parts"),
    Source("muse", LLAMA, "muse-glimmer"),
    Source("nemotron", LLAMA, "NVIDIA-Nemotron-Nano-v2"),
    Source("phi4", VLLM, "tool_chat_template_phi4_mini"),
    Source("pythonic", VLLM, "tool_chat_template_llama3.2_pythonic"),
    Source("pythonic", VLLM, "tool_chat_template_llama4_pythonic"),
    Source("pythonic", VLLM, "tool_chat_template_toolace"),
    Source("qwen3-coder", LLAMA, "Qwen3-Coder"),
    Source("qwen3-coder", LLAMA, "Qwen3.5-4B"),
    Source("qwen3-coder", LLAMA, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    Source("qwen3-coder", LLAMA, "StepFun3.5-Flash"),
    Source("seed-oss", LLAMA, "ByteDance-Seed-OSS"),
    Source("spark25", LLAMA, "Spark2.5"),
    Source("xlam", VLLM, "tool_chat_template_xlam_llama"),
    Source("xlam", VLLM, "tool_chat_template_xlam_qwen"),
    Source("glm45", LLAMA, "inclusionai-ling-3.0-flash"),
    Source("glm45", LLAMA, "poolside-Laguna-XS.2"),
    Source("glm47", LLAMA, "poolside-Laguna-S-2.1"),
    Source("hermes", LLAMA, "MiMo-VL"),
    Source("hermes", LLAMA, "Qwen-QwQ-32B"),
]
