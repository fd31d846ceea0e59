"""A request in the one form that all protocols are read into, and what they have in common."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..dialect.file import Dialect
from ..engines import Sampling
from ..errors import ToolsError
from ..events import Stage
from ..toolset import read_tools, read_toolset
from .checks import BadRequest, Fields, depth_within, shown
from .settings import Limits

MAX_TOKENS = 2**31 - 1


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for.

    Attributes:
        messages: the conversation as chat completions have it.
        tools: all tools, as chat completions have them; empty where there are none or none may be called.
        callable: the tools that may be called: all, or those that ``allowed_tools`` lists.
        tool_choice: ``auto``, ``none``, ``required`` or a named function.
        parallel: whether there may be several calls.
        n: how many choices.
        stop: strings at which the content ends.
        max_tokens: of each choice.
        sampling: how tokens are chosen.
        response_format: as chat completions have it.
        thinking: whether the model is to think; ``None``: the request does not say.
        template: what the request tells the chat template, by name.
        stream: whether the answer is streamed.
        include_usage: whether a stream of chat completions tells the usage.
        given: the request itself, for answers that repeat some of it.
    """

    messages: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    callable: list[dict[str, Any]] = []
    tool_choice: Any = "auto"
    parallel: bool = True
    n: int = 1
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    response_format: Mapping[str, Any] | None = None
    thinking: bool | None = None
    template: dict[str, Any] = {}
    stream: bool = False
    include_usage: bool = False
    given: dict[str, Any] = {}

    @property
    def named(self) -> bool:
        """Whether the request names the function to call."""
        return isinstance(self.tool_choice, dict)


def stage_of(job: Job, dialect: Dialect) -> Stage | None:
    """Where the output begins as far as the request's thinking switch tells; only for outputs without a prompt.

    A framed dialect opens every part with a marker of its own, so that a switch tells nothing about it.
    """
    if job.thinking is None or dialect.framed or not dialect.reasoning:
        return None
    return Stage.REASONING if job.thinking else Stage.CONTENT


# -- sizes -------------------------------------------------------------------------------------------------------------


def check_text(job: Job, limits: Limits) -> None:
    """Return where the messages and tools of a request hold no more text than allowed.

    Raises:
        BadRequest: they hold more.
    """
    size = 0
    waiting: list[Any] = [job.messages, job.tools]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    if size > limits.text:
        raise BadRequest(None, f"messages and tools hold {size:,} characters; allowed are {limits.text:,}", 400)


# -- tools -------------------------------------------------------------------------------------------------------------


def tool(name: str, description: Any, parameters: Any, strict: Any = None) -> dict[str, Any]:
    """A tool as chat completions have it."""
    function = {"name": name, "description": description, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}}


def check_tools(field: str, tools: list[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """The tools, where their number, names and schemas are as they should be.

    Raises:
        BadRequest: they are not.
    """
    if len(tools) > limits.tools:
        raise BadRequest(field, f"{len(tools):,} tools; allowed are {limits.tools:,}")
    try:
        read_tools(tools)
    except ToolsError as error:
        raise BadRequest(field + error.field.removeprefix("tools"), error.message) from None
    for i, one in enumerate(tools):
        if not depth_within(one["function"].get("parameters", {}), limits.depth):
            raise BadRequest(f"{field}[{i}]", f"the schema nests deeper than {limits.depth}")
    return tools


def read_choice(fields: Fields, choice: Any, tools: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """The choice as parsers take it, and the tools that may be called.

    Args:
        fields: what holds ``tool_choice``.
        choice: its value, as chat completions or Responses have it.
        tools: those that the request declares.

    Raises:
        BadRequest: the choice is none, or its tool is not declared.
    """
    try:
        found = read_toolset(tools, choice)
    except ToolsError as error:
        raise fields.wrong(error.field, error.message) from None
    return found.choice, [t for t in tools if t["function"]["name"] in (found.allowed or ())]


# -- what is not done --------------------------------------------------------------------------------------------------

UNSERVED: dict[str, str] = {
    **dict.fromkeys(("guided_json", "structured_outputs", "json_schema"), "use response_format"),
    **dict.fromkeys(("guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend"), ""),
    **dict.fromkeys(("grammar", "regex", "ebnf", "structural_tag"), ""),
    **dict.fromkeys(("chat_template", "add_generation_prompt", "documents"), ""),
    **dict.fromkeys(("logit_bias", "bad_words", "allowed_token_ids", "stop_token_ids"), ""),
    **dict.fromkeys(("min_tokens", "ignore_eos", "echo", "suffix", "best_of", "use_beam_search", "length_penalty"), ""),
    **dict.fromkeys(("prompt_logprobs", "include_stop_str_in_output", "no_stop_trim", "truncate_prompt_tokens"), ""),
    **dict.fromkeys(("typical_p", "mirostat", "repeat_penalty", "top_a", "logits_processors"), ""),
    **dict.fromkeys(("prediction", "audio", "web_search_options", "max_tool_calls"), ""),
    **dict.fromkeys(("mcp_servers", "container", "context_management", "output_format", "output_config"), ""),
}
"""Fields of other servers that would change the answer, and what to use instead. They are not let pass in silence."""
_IDLE: tuple[Any, ...] = (None, False, 0, "", [], {})
"""Values of theirs that ask for nothing."""
_IDLE_TRUE = ("add_generation_prompt",)
_IDLE_ONE = ("best_of", "length_penalty", "repeat_penalty", "typical_p")


def check_served(fields: Fields) -> None:
    """Return where a request asks for nothing that is not done.

    Raises:
        BadRequest: the field, and what to use instead.
    """
    for name in fields.raw.keys() & UNSERVED.keys():
        value = fields.raw[name]
        idle = value in _IDLE or (value == 1 and name in _IDLE_ONE) or (value is True and name in _IDLE_TRUE)
        if not idle:
            raise fields.wrong(name, f"is not supported; {UNSERVED[name] or 'leave it out'}")
    for name in ("skip_special_tokens", "spaces_between_special_tokens", "add_special_tokens"):
        fields.flag(name, None)
    if "modalities" in fields.raw and fields.raw["modalities"] not in (None, ["text"]):
        raise fields.wrong("modalities", f"{shown(fields.raw['modalities'])} is not supported; allowed is ['text']")


def not_text(part: Fields, *allowed: str) -> BadRequest:
    """The error of a part that is no text: no engine takes any other."""
    return part.wrong("type", f"{shown(part.raw.get('type'))} is not supported; allowed are {', '.join(allowed)}")


def check_messages(fields: Fields, field: str, limits: Limits) -> None:
    """Return where there are no more messages than allowed.

    Raises:
        BadRequest: there are.
    """
    told = fields.raw.get(field)
    if isinstance(told, list) and len(told) > limits.messages:
        raise fields.wrong(field, f"{len(told):,} messages; allowed are {limits.messages:,}")


# -- thinking ----------------------------------------------------------------------------------------------------------

SWITCHES = ("thinking", "enable_thinking", "reasoning", "enable_reasoning", "reasoning_effort")
"""How people tell whether the model is to think; the last one also tells how much."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def thinking(fields: Fields) -> tuple[bool | None, dict[str, Any]]:
    """Whether the model is to think, in any of the spellings that people use, and what the template is told of it.

    At top level or in ``chat_template_kwargs``, which wins. Templates ask by different names: all are told.

    Raises:
        BadRequest: a switch has a value that is none.
    """
    extra = fields.object("chat_template_kwargs")
    found: bool | None = None
    effort: str | None = None
    for source in (fields, extra):
        if source.has("reasoning_effort"):
            effort = source.one_of("reasoning_effort", EFFORTS)
            found = effort != "none"
        for name in SWITCHES[:-1]:
            value = source.raw.get(name)
            if isinstance(value, bool):
                found = value
            elif isinstance(value, dict):
                told, effort = _switch(Fields(value, source.path(name)), effort)
                found = found if told is None else told
            elif value is not None:
                raise source.wrong(name, f"{shown(value)} is not one of true, false")
    template = {**extra.raw}
    if found is not None:
        template = {**dict.fromkeys(SWITCHES[:-1], found), **template}
    if effort is not None:
        template["reasoning_effort"] = effort
    return found, template


def _switch(value: Fields, effort: str | None) -> tuple[bool | None, str | None]:
    """A switch that is an object, ``{"type": "enabled"}``, ``{"effort": "high"}`` or ``{"enabled": true}``; the effort
    stays where it says nothing of it."""
    if value.has("type"):
        return value.one_of("type", ("enabled", "adaptive", "disabled")) != "disabled", effort
    if value.has("enabled"):
        return value.flag("enabled"), effort
    if value.has("effort"):
        effort = value.one_of("effort", EFFORTS)
        return effort != "none", effort
    return None, effort


# -- sampling ----------------------------------------------------------------------------------------------------------


def sampling(fields: Fields, logprobs: int | None = None) -> Sampling:
    """How tokens are chosen.

    Raises:
        BadRequest: a field is out of its bounds.
    """
    return Sampling(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", -1, MAX_TOKENS),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, 10),
        seed=fields.integer("seed", -(2**63), 2**64 - 1),
        logprobs=logprobs,
    )


# -- history -----------------------------------------------------------------------------------------------------------


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning of a message of the history, in any of the spellings."""
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str):
            return str(message[field])
    details = message.get("reasoning_details")
    if not isinstance(details, list):
        return ""
    texts = [d.get("text") or d.get("summary") for d in details if isinstance(d, dict)]
    return "".join(t for t in texts if isinstance(t, str))
