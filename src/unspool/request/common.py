"""Reads fields that several protocols share: tools and tool choice, thinking switches, sampling.

It also refuses fields of other servers that would change the answer; see `UNSERVED`.
"""

from typing import Any

from ..engines import Sampling
from ..errors import ToolsError
from ..schema import nests_deeper
from ..toolset import Toolset, read_toolset
from ..validation import json_shown
from .fields import Fields
from .reasoning import EFFORTS
from .server_tools import ServerTools
from .settings import Limits

QUOTED = "quoted"  # a key of system messages whose texts are data, in which special tokens are broken up as in a user's
UNTOLD = "untold"
"""A key of what the server did and the client knows less of, so that no turn depends on it: in an answer the ids of
such calls, in a result ``True``."""
OWN = {QUOTED, UNTOLD}


def tool(name: str, description: Any, parameters: Any, strict: Any = None) -> dict[str, Any]:
    """Make a tool in the form of chat completions."""
    function = {"name": name, "description": description, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}}


def call_of(id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A call in the form of chat completions."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read_parameters(fields: Fields) -> dict[str, Any] | None:
    """Read the schema of a tool's arguments, if it has one."""
    return fields.object("parameters").raw if fields.has("parameters") else None


def toolset(
    fields: Fields,
    tools: list[dict[str, Any]],
    choice: Any,
    limits: Limits,
    *,
    options: Fields | None = None,
    server_tools: ServerTools | None = None,
) -> Toolset:
    """Check the declared tools, in the form that `tool` makes, and the tool choice, of chat completions or Responses.

    The choice is in ``options`` if they are not the object with the tools. The server's tools are offered as well.
    """
    if len(tools) > limits.tools:
        raise fields.wrong("tools", f"{len(tools):,} tools; allowed are {limits.tools:,}")
    try:
        found = read_toolset([*tools, *(server_tools.definitions if server_tools else ())], choice)
    except ToolsError as error:
        holder = fields if options is None or not error.field.startswith("tool_choice") else options
        raise holder.wrong(error.field, error.message) from None
    for i, one in enumerate(tools):
        if nests_deeper(one["function"].get("parameters", {}), limits.depth + 1):
            raise fields.wrong(f"tools[{i}]", f"the schema is nested deeper than {limits.depth}")
    return found


UNSERVED: dict[str, str] = {
    **dict.fromkeys(("guided_json", "structured_outputs", "json_schema"), "use response_format"),
    **dict.fromkeys(("guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend"), ""),
    **dict.fromkeys(("grammar", "regex", "ebnf", "structural_tag"), ""),
    **dict.fromkeys(("chat_template", "add_generation_prompt", "documents"), ""),
    **dict.fromkeys(("logit_bias", "bad_words", "allowed_token_ids", "stop_token_ids"), ""),
    **dict.fromkeys(("min_tokens", "ignore_eos", "echo", "suffix", "best_of", "use_beam_search", "length_penalty"), ""),
    **dict.fromkeys(("prompt_logprobs", "include_stop_str_in_output", "no_stop_trim", "truncate_prompt_tokens"), ""),
    **dict.fromkeys(("typical_p", "mirostat", "repeat_penalty", "top_a", "logits_processors"), ""),
    **dict.fromkeys(("prediction", "audio", "web_search_options"), ""),
    **dict.fromkeys(("mcp_servers", "container", "context_management", "output_format"), ""),
    **dict.fromkeys(("moderation", "compaction"), ""),
}
"""Fields of other servers that would change the answer, and so are refused, with what to use instead."""
_IDLE: tuple[Any, ...] = (None, False, 0, "", [], {})  # values of these fields that have no effect
_IDLE_TRUE = ("add_generation_prompt",)
_IDLE_ONE = ("best_of", "length_penalty", "repeat_penalty", "typical_p")


def going_on(fields: Fields) -> str:
    """The field by which a request asks the model to go on with the last message; empty if it does not."""
    return fields.path("continue_final_message") if fields.flag("continue_final_message") else ""


def check_served(fields: Fields, *own: str) -> None:
    """Refuse fields that would change the answer and are not supported, besides the protocol's own."""
    for name in (fields.raw.keys() & UNSERVED.keys()).difference(own):
        value = fields.raw[name]
        idle = value in _IDLE or (value == 1 and name in _IDLE_ONE) or (value is True and name in _IDLE_TRUE)
        if not idle:
            raise fields.wrong(name, f"is not supported; {UNSERVED[name] or 'leave it out'}")
    for name in ("skip_special_tokens", "spaces_between_special_tokens", "add_special_tokens"):
        fields.flag(name, None)
    if "modalities" in fields.raw and fields.raw["modalities"] not in (None, ["text"]):
        got = json_shown(fields.raw["modalities"])
        raise fields.wrong("modalities", f"{got} is not supported; allowed is ['text']")


def in_one(parts: list[dict[str, Any]]) -> Any:
    """Parts as one string, where all of them are text."""
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def with_text(content: Any, text: str | None) -> Any:
    """A content with a further text at its end, unless one of its parts ends with it."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    if not text or any((part.get("text") or "").rstrip().endswith(text.strip()) for part in parts):
        return content or text
    if not content:
        return text
    return [*content, {"type": "text", "text": f"\n\n{text}"}] if isinstance(content, list) else f"{content}\n\n{text}"


def check_messages(fields: Fields, field: str, limits: Limits) -> None:
    messages = fields.raw.get(field)
    if isinstance(messages, list) and len(messages) > limits.messages:
        raise fields.wrong(field, f"{len(messages):,} messages; allowed are {limits.messages:,}")


def bounded(messages: list[dict[str, Any]], fields: Fields, field: str, limits: Limits) -> list[dict[str, Any]]:
    """The messages that were read from a field, where each result of a tool is one; an error if these, or their calls,
    are more than the messages of a request may be."""
    calls = sum(len(message.get("tool_calls") or ()) for message in messages)
    for count, what in (len(messages), "messages, each result of a tool as one"), (calls, "calls of tools"):
        if count > limits.messages:
            raise fields.wrong(field, f"{count:,} {what}; allowed are {limits.messages:,}")
    return messages


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the pieces of each assistant text; joining them one by one would take quadratic time."""
    for message in messages:
        for field in ("content", "reasoning_content"):
            if message["role"] == "assistant" and isinstance(message.get(field), list):
                message[field] = "".join(message[field])
    return messages


_PAIRS, _NAME, _VALUE = 16, 64, 512  # the most pairs of metadata, and characters of a name and of a value


def read_metadata(fields: Fields) -> dict[str, Any] | None:
    """The ``metadata`` of a request; ``None`` if it has none."""
    if not fields.has("metadata"):
        return None
    metadata = fields.object("metadata")
    if len(metadata.raw) > _PAIRS:
        raise fields.wrong("metadata", f"{len(metadata.raw):,} pairs; allowed are {_PAIRS}")
    for name in metadata.raw:
        if metadata.raw[name] is None:
            raise metadata.wrong(name, "must be a string, not null")
        if len(name) > _NAME or len(metadata.text(name)) > _VALUE:
            raise fields.wrong("metadata", f"a key has at most {_NAME} characters, a value {_VALUE}")
    return metadata.raw


SWITCHES = ("thinking", "enable_thinking", "reasoning", "enable_reasoning", "reasoning_effort")
"""The spellings of the thinking switch; the last one also gives the effort."""


def thinking(fields: Fields) -> tuple[bool | None, dict[str, Any], dict[str, str]]:
    """Read whether the model should think, the variables of the chat template, and the fields that set these.

    The switch may be at the top level or in ``chat_template_kwargs``, which has precedence, in any spelling.
    Templates use different names for it, so the variables include all of them.
    """
    extra = fields.object("chat_template_kwargs")
    found: bool | None = None
    effort: str | None = None
    switched = weighed = ""  # the fields of the switch and of the effort
    for source in (fields, extra):
        if source.has("reasoning_effort"):
            effort = source.one_of("reasoning_effort", EFFORTS)
            found = effort != "none"
            switched = weighed = source.path("reasoning_effort")
        for name in SWITCHES[:-1]:
            value = source.raw.get(name)
            if isinstance(value, bool):
                found, switched = value, source.path(name)
            elif isinstance(value, dict):
                switch = Fields(value, source.path(name))
                if switch.has("type"):
                    found = switch.one_of("type", ("enabled", "adaptive", "disabled")) != "disabled"
                    switched = switch.path("type")
                elif switch.has("enabled"):
                    found, switched = switch.flag("enabled"), switch.path("enabled")
                elif switch.has("effort"):
                    effort = switch.one_of("effort", EFFORTS)
                    found = effort != "none"
                    switched = weighed = switch.path("effort")
            elif value is not None:
                raise source.wrong(name, f"{json_shown(value)} is not one of true, false")
    template = {**extra.raw}
    places = {name: extra.path(name) for name in template}
    if found is not None:
        template = {**dict.fromkeys(SWITCHES[:-1], found), **template}
        places = {**dict.fromkeys(SWITCHES[:-1], switched), **places}
    if effort is not None:
        template["reasoning_effort"], places["reasoning_effort"] = effort, weighed
    return found, template, places


def sampling(fields: Fields, logprobs: int | None = None) -> Sampling:
    return Sampling(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", -1),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, 10),
        seed=fields.integer("seed", -(2**63), 2**64 - 1),
        logprobs=logprobs,
    )
