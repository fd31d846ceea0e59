"""The dialect of each template, and the known differences between template and renderer."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

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

ANY = ("*",)
PLAIN = ("[!r]*",)
"""Cases without reasoning."""
THINKING = ("reasoning-*",)
CALLS = ("*call*", "values")
CONTENT_AND_CALLS = ("*content-call",)
LLAMAS = (
    *("meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct"),
    "tool_chat_template_llama3.1_json",
)


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


DIFFERENCES = [
    # Reasoning that is not part of a conversation's history.
    Difference(
        (
            "Apertus-8B-Instruct",
            "tool_chat_template_deepseekr1",
            "llama-cpp-deepseek-r1",
            "tool_chat_template_granite",
            "Qwen-Qwen2.5-7B-Instruct",
            "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
            "ibm-granite-granite-4.0",
            "tool_chat_template_hermes",
            "MiMo-VL",
            "Qwen-QwQ-32B",
            "tool_chat_template_hunyuan_a13b",
            "tool_chat_template_internlm2_tool",
            "Kimi-K2-Instruct",
            "moonshotai-Kimi-K2",
            "tool_chat_template_mistral3",
            "mistralai-Mistral-Nemo-Instruct-2407",
            "unsloth-mistral-Devstral-Small-2507",
            "MiniMax-M1",
            "NVIDIA-Nemotron-Nano-v2",
            "Qwen3-Coder",
            "tool_chat_template_xlam_llama",
            "tool_chat_template_xlam_qwen",
        ),
        THINKING,
        "the template has no place for reasoning",
        without=("reasoning",),
    ),
    Difference(
        ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "google-gemma-4-31B-it"),
        ("reasoning-content",),
        "reasoning is kept only where calls follow",
        without=("reasoning",),
    ),
    # Prompts in which the template closes a reasoning that the turn does not have: a prefill, not the model's text.
    Difference(
        (
            "deepseek-ai-DeepSeek-V3.2",
            "deepseek-ai-DeepSeek-V4",
            "poolside-Laguna-S-2.1",
            "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            "Kimi-K2-Thinking",
            "Qwen-Qwen3-0.6B",
            "Qwen3.5-4B",
            "StepFun3.5-Flash",
            "tencent-Hy3",
            "Kimi-K3",
            "tool_chat_template_gemma4",
            "GLM-4.6",
            "inclusionai-ling-3.0-flash",
        ),
        PLAIN,
        "a turn without reasoning holds an empty one",
        reasoning="empty",
    ),
    Difference(
        ("CohereForAI-c4ai-command-r7b-12-2024-tool_use",),
        ("call", "two-calls", "empty-call", "values", "content-call"),
        "a turn without reasoning holds an empty one",
        reasoning="empty",
    ),
    Difference(("deepseek-ai-DeepSeek-V3.1",), ANY, "every turn holds an empty reasoning", reasoning="empty"),
    Difference(
        ("Kimi-K2-Thinking",), ("reasoning-content",), "reasoning is kept only where calls follow", reasoning="empty"
    ),
    Difference(
        ("GLM-4.7-Flash", "Spark2.5", "MiniMax-M3", "poolside-Laguna-XS.2"),
        PLAIN,
        "a turn without reasoning closes it first",
        reasoning="closed",
    ),
    # Margins: there is none before the first part, and the longer of two separates parts.
    Difference(
        ("GLM-4.6", "inclusionai-ling-3.0-flash", "poolside-Laguna-XS.2"),
        ANY,
        "the margin of the first part is written",
        before="\n",
    ),
    Difference(
        ("tool_chat_template_granite_20b_fc",),
        CALLS,
        "the margin of the first part is written",
        before="\n",
    ),
    Difference(
        ("MiniMax-M2",),
        ("call", "two-calls", "empty-call", "values"),
        "the margin of the first part is written",
        before="\n",
    ),
    Difference(("MiniMax-M2",), ("reasoning-call",), "margins add up", swap=(("</think>\n\n", "</think>\n\n\n"),)),
    Difference(
        ("ByteDance-Seed-OSS",),
        ("reasoning-call",),
        "the margin of calls is dropped behind reasoning",
        swap=(("</seed:think>\n\n", "</seed:think>\n"),),
    ),
    # Content that is lost or moved if calls follow.
    Difference(
        (
            "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
            "Cohere2MoE",
            "tool_chat_template_functiongemma",
            "tool_chat_template_granite",
            "tool_chat_template_granite_20b_fc",
            "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
            "tool_chat_template_hermes",
            *LLAMAS,
            "tool_chat_template_mistral3",
            "mistralai-Mistral-Nemo-Instruct-2407",
            "muse-glimmer",
            "tool_chat_template_llama3.2_pythonic",
            "tool_chat_template_toolace",
            "tool_chat_template_xlam_llama",
            "tool_chat_template_xlam_qwen",
            "MiniMax-M1",
            "upstage-Solar-Open-100B",
        ),
        CONTENT_AND_CALLS,
        "a message with calls has no content",
        without=("content",),
    ),
    Difference(
        ("llama-cpp-deepseek-r1", "tool_chat_template_phi4_mini"),
        CONTENT_AND_CALLS,
        "a message with content has no calls",
        without=("tool_calls",),
    ),
    Difference(
        ("tool_chat_template_gemma4", "google-gemma-4-31B-it"),
        CONTENT_AND_CALLS,
        "content is written behind the calls",
        swap=(("Let me see.", ""), ("<tool_call|>", "<tool_call|>Let me see.")),
    ),
    # Alternatives.
    Difference(
        LLAMAS,
        ("call", "empty-call", "values", "content-call"),
        "the marker is written only for built-in tools; without it a call is recognized only by its declared name",
        writes={"calls": 1},
    ),
    Difference(
        LLAMAS,
        ("two-calls",),
        "the template takes one call",
        error="single tool-calls",
    ),
    Difference(
        ("tool_chat_template_mistral3", "mistralai-Mistral-Nemo-Instruct-2407"),
        CALLS,
        "the history holds the ids that the server made; the model writes none",
        writes={"call": 1},
    ),
    Difference(
        ("mistralai-Mistral-Nemo-Instruct-2407",),
        CALLS,
        "the tokenizer of the time put a space behind the marker",
        swap=(("[TOOL_CALLS] ", "[TOOL_CALLS]"),),
    ),
    # Harmony's history puts the recipient into the role, and one call into a message.
    Difference(
        ("openai-gpt-oss-120b",),
        ("call", "empty-call", "values", "content-call", "reasoning-call"),
        "the history puts the recipient into the role; the model puts it behind the channel",
        swap=(
            (
                "<|channel|>commentary to=functions.get_weather <|constrain|>json",
                " to=functions.get_weather<|channel|>commentary json",
            ),
            ("<|channel|>commentary to=functions.now <|constrain|>json", " to=functions.now<|channel|>commentary json"),
        ),
    ),
    Difference(
        ("openai-gpt-oss-120b",),
        ("content-call",),
        "content before a call is written as analysis",
        swap=(("<|channel|>commentary<|message|>Let", "<|channel|>analysis<|message|>Let"),),
    ),
    Difference(
        ("openai-gpt-oss-120b",),
        ("two-calls",),
        "the first call alone is written",
        text=' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>',
    ),
    Difference(
        ("openai-gpt-oss-120b",),
        ("reasoning-content-call",),
        "the template takes reasoning or content",
        error="Cannot pass both content and thinking",
    ),
    # Values as Jinja prints them, if it does not write JSON.
    Difference(
        ("Qwen3-Coder", "Qwen3.5-4B", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "StepFun3.5-Flash"),
        ("values",),
        "booleans are written as Python writes them",
        swap=((">\ntrue\n<", ">\nTrue\n<"),),
    ),
    Difference(
        ("ByteDance-Seed-OSS", "openbmb-MiniCPM5-1B"),
        ("values",),
        "values other than strings are written as Python writes them",
        swap=(
            (">true<", ">True<"),
            ('[1.5, "a", null]', "[1.5, 'a', None]"),
            ('{"from": -1, "to": "b"}', "{'from': -1, 'to': 'b'}"),
        ),
    ),
    Difference(
        ("openbmb-MiniCPM5-1B",),
        ("values",),
        "text with markup is always put into CDATA; here only what would not read back",
        swap=(('"city">', '"city"><![CDATA['), ("\\ y<", "\\ y]]><")),
    ),
    Difference(
        ("google-gemma-4-31B-it",), ("values",), "null is written as Python writes it", swap=(("null", "None"),)
    ),
    Difference(
        ("tool_chat_template_functiongemma",),
        ("two-calls",),
        "every value is written as a string",
        swap=(("days:3", "days:<escape>3<escape>"),),
    ),
    Difference(
        ("tool_chat_template_functiongemma",),
        ("values",),
        "every value is written as a string",
        swap=(
            (",days:3,exact:true,", ",days:<escape>3<escape>,exact:<escape>True<escape>,"),
            ("[1.5,<escape>a<escape>,null]", "<escape>[1.5, 'a', None]<escape>"),
            ("{from:-1,to:<escape>b<escape>}", "<escape>{'from': -1, 'to': 'b'}<escape>"),
        ),
    ),
    Difference(
        ("LFM2.5-8B-A1B",),
        ("values",),
        "strings are not escaped, and objects are JSON",
        swap=(("\\n\\'x\\' \\\\ y", "\n'x' \\ y"), ("{'from': -1, 'to': 'b'}", '{"from": -1, "to": "b"}')),
    ),
    # Single cases.
    Difference(
        ("tool_chat_template_gemma4",),
        PLAIN,
        "an empty reasoning has one line break",
        swap=(("thought\n\n<channel|>", "thought\n<channel|>"),),
    ),
    Difference(
        ("deepseek-ai-DeepSeek-V3.2",),
        ("empty-call",),
        "a call without arguments has one line break; the family's own encoder writes two",
        swap=(('"now">\n\n<', '"now">\n<'),),
    ),
    Difference(
        ("GigaChat3.1-10B-A1.8B",),
        ("two-calls",),
        "the first call alone is written",
        text='<|function_call|>{"name": "get_weather", "arguments": {"city": "Paris"}}',
    ),
    Difference(
        ("Kimi-K3",),
        ("call", "two-calls", "empty-call", "values", "reasoning-call"),
        "an empty response is written",
        swap=(("<|open|>tools<|sep|>", "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"),),
    ),
    Difference(
        ("tool_chat_template_hunyuan_a13b",),
        ("content", "reasoning-content"),
        "the history holds answers without their markers",
        swap=(("<answer>\n", ""), ("\n</answer>", "")),
    ),
    Difference(
        ("tool_chat_template_internlm2_tool",),
        CALLS,
        "the engine's template names the arguments otherwise than the model",
        swap=(('"parameters"', '"arguments"'),),
    ),
    Difference(
        ("tool_chat_template_granite_20b_fc",),
        ("content",),
        "content stands between spaces",
        before=" ",
        behind=" ",
    ),
    Difference(("tool_chat_template_granite_20b_fc",), CALLS, "a line break stands behind the calls", behind="\n"),
    Difference(("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",), CALLS, "a line break stands behind the calls", behind="\n"),
    Difference(("poolside-Laguna-XS.2",), ANY, "a line break stands behind the turn", behind="\n"),
    Difference(
        ("poolside-Laguna-XS.2",),
        THINKING,
        "reasoning has lines of its own",
        swap=(("<think>", "<think>\n"), ("</think>", "\n</think>")),
    ),
    Difference(
        ("inclusionai-ling-3.0-flash",),
        ANY,
        "no line break stands behind reasoning and values",
        swap=(("</think>\n", "</think>"), ("</arg_value>\n<arg_key>", "</arg_value><arg_key>")),
    ),
    Difference(
        ("inclusionai-ling-3.0-flash",),
        ("empty-call",),
        "a call without arguments has a line more",
        swap=(("now\n<", "now\n\n<"),),
    ),
    Difference(
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",),
        PLAIN,
        "an empty reasoning has no line breaks",
        swap=(("<think>\n\n</think>\n\n", "<think></think>"), ("</think><tool_call>", "</think>\n<tool_call>")),
    ),
    Difference(
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",),
        (*THINKING, "content-call"),
        "one line break stands between parts where others have two",
        swap=(("</think>\n\n", "</think>\n"), ("\n\n<tool_call>", "\n<tool_call>")),
    ),
    Difference(
        ("StepFun3.5-Flash",),
        ANY,
        "one line break stands behind reasoning where others have two",
        swap=(("</think>\n\n", "</think>\n"),),
    ),
    Difference(
        ("StepFun3.5-Flash",),
        ("two-calls", "content-call", "reasoning-content-call"),
        "no line break stands before calls",
        swap=(("</tool_call>\n", "</tool_call>"), (".\n\n<tool_call>", ".<tool_call>")),
    ),
    Difference(
        ("MiniMax-M3",),
        ("values",),
        "null is written as nothing, which reads back as an empty string",
        swap=(("<item>null", "<item>"),),
    ),
    Difference(
        ("NVIDIA-Nemotron-Nano-v2",),
        ("content", "reasoning-content"),
        "the history opens a reasoning in front of all content, and never closes it",
        before="<think>\n",
        behind="\n",
    ),
    Difference(
        ("NVIDIA-Nemotron-Nano-v2",),
        CONTENT_AND_CALLS,
        "content and calls become two turns, the first with a reasoning that never closes",
        text="<think>\nLet me see.\n<SPECIAL_12>\n<SPECIAL_11>Assistant\n"
        '<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</TOOLCALL>',
    ),
    Difference(("tool_chat_template_granite",), CALLS, "JSON is indented", indented=True),
    # The engine's templates for Phi-4-mini and for Python calls differ from what the models write.
    Difference(
        ("tool_chat_template_phi4_mini",),
        ("call", "two-calls", "empty-call"),
        "no marker, and arguments as Python prints them",
        swap=(
            ("functools[", ""),
            ("]", ""),
            ("}, {", "},{"),
            ('"city": "Paris"', "'city': 'Paris'"),
            ('"city": "Rome", "days"', "'city': 'Rome', 'days'"),
        ),
    ),
    Difference(
        ("tool_chat_template_phi4_mini",),
        ("values",),
        "no marker, and arguments as Python prints them",
        text="""{"name": "get_weather", "arguments": {'city': 'São Paulo & "Nova" <b>\\n\\'x\\' \\\\ y', 'days': 3, """
        """'exact': True, 'near': [1.5, 'a', None], 'range': {'from': -1, 'to': 'b'}}}""",
    ),
    Difference(
        ("tool_chat_template_llama3.2_pythonic", "tool_chat_template_toolace"),
        ("call", "two-calls", "content-call"),
        "strings have no quotes",
        swap=(("'", ""),),
    ),
    Difference(
        ("tool_chat_template_llama3.2_pythonic", "tool_chat_template_toolace"),
        ("values",),
        "strings have no quotes, and are not escaped",
        swap=(("'São", "São"), ("\\n\\'x\\' \\\\ y'", "\n'x' \\ y")),
    ),
    Difference(
        ("tool_chat_template_llama4_pythonic",),
        ("call", "two-calls", "content-call"),
        "every value is a string in double quotes",
        swap=(("'", '"'), ("=3", '="3"'), (".\n[", ".[")),
    ),
    Difference(
        ("tool_chat_template_llama4_pythonic",),
        ("values",),
        "every value is a string in double quotes, and is not escaped",
        swap=(
            ("'São", '"São'),
            ("\\n\\'x\\' \\\\ y'", "\n'x' \\ y\""),
            ("=3", '="3"'),
            ("True", '"True"'),
            ("[1.5, 'a', None]", "\"[1.5, 'a', None]\""),
            ("{'from': -1, 'to': 'b'}", "\"{'from': -1, 'to': 'b'}\""),
        ),
    ),
]


# -- dialects without a template ---------------------------------------------------------------------------------------

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
    **dict.fromkeys(
        [
            "beam",
            "deepseekv41",
            "dots",
            "ernie45",
            "gigachat35",
            "hy_v4",
            "hyperclovax-14b",
            "inkling",
            "interns1",
            "iquest_coder_v2",
            "iquest_q1",
            "k2_horizon",
            "kimi",
            "llm-jp-4",
            "longcat",
            "mimo",
            "olmo3",
            "openpangu_v2",
            "plamo3",
            "sarashina",
            "solar-open2",
            "step3",
            "telechat4",
            "trinity",
        ],
        _NONE,
    ),
}
"""Dialects without a template in `SOURCES`, and why."""
