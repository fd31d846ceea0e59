"""FastDeploy: reasoning parsers and tool parsers, registered through its two groups of entry points.

FastDeploy passes only the tokenizer to its parsers. One reasoning parser serves all requests, and each request has its
own tool parser. Both get the whole output, and no call says that it has ended. Text that may still become a marker is
therefore sent with the end-of-sequence token, found by its id. Versions that remove that token send a piece without ids
instead.

Pieces come with ids, but whole outputs do not. To read both in the same way, the parsers read text.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from .. import Dialect, Policy, Stage, UnknownDialect, detect_stage, list_dialects, parse, structure_info
from .host import (
    AUTO,
    PREFIX,
    closings,
    content_ids,
    dialect_for,
    dialect_of,
    environment_policy,
    logger,
    names,
    reasoning_closed,
    registered,
)
from .reader import OutputReader, ReadPiece, note_calls, reader_of

__all__ = ["ReasoningHalf", "ToolHalf", "register_reasoning", "register_tools"]

WRITTEN_FOR: Final = "2"
STATUS: Final = {
    "think_start": Stage.REASONING,
    "think_end": Stage.CONTENT,
    "response_start": None,
    "response_end": Stage.CONTENT,
    "tool_call_start": Stage.TOOL_CALL,
    "tool_call_end": Stage.CONTENT,
    "REASONING_STAGE": Stage.REASONING,
    "CONTENT_STAGE": Stage.CONTENT,
    "TOOL_CALL_STAGE": Stage.TOOL_CALL,
}
"""FastDeploy's and the RFC's names of stages; ``None`` means the dialect's stage without a prompt."""
MAX_STREAMS: Final = 1024
"""How many unfinished streams a reasoning parser remembers; others are read again from their beginning."""


def stage_of(status: Any) -> Stage | None:
    """The stage of a status; `ValueError` if it is not in `STATUS`."""
    if status is None or isinstance(status, Stage):
        return status
    if status not in STATUS:
        raise ValueError(f"model_status: {status!r} is not one of {', '.join(STATUS)}")
    return STATUS[status]


class _Half:
    dialect_name: ClassVar[str] = AUTO
    make_delta: ClassVar[Callable[[ReadPiece], Any]]

    def __init__(self, tokenizer: Any, model_name: str | None = None) -> None:
        super().__init__(tokenizer)  # type: ignore[call-arg]  # the host's class comes after this one
        self.tokenizer = tokenizer
        self.dialect: Dialect = dialect_for(self.dialect_name, tokenizer, model_name)

    def get_model_status(self, prompt_token_ids: Sequence[int]) -> str:
        """FastDeploy's name for the stage after a prompt."""
        ids = list(prompt_token_ids)
        stage = detect_stage(self.dialect, ids, tokenizer=self.tokenizer)
        if stage is not Stage.CONTENT:
            return "tool_call_start" if stage is Stage.TOOL_CALL else "think_start"
        prompt = self.tokenizer.decode(ids, skip_special_tokens=False)
        return "think_end" if reasoning_closed(self.dialect, prompt) else "response_start"

    def detect_output_stage(self, prompt_token_ids: Sequence[int]) -> str:
        """The RFC's name for the stage after a prompt."""
        stage = STATUS[self.get_model_status(prompt_token_ids)] or Stage.CONTENT
        return f"{stage.name}_STAGE"

    def _stage(self, status: Any) -> Stage | None:
        """The stage of a status. Where a prompt leaves open how the output begins, it begins with content unless it
        opens reasoning: the host does not end streams, so text must not wait for a closing."""
        stage = stage_of(status)
        return Stage.CONTENT if stage is None and status and self.dialect.stage is Stage.UNDECIDED else stage

    def _reader(self, tools: Any, stage: Stage | None, choice: Any = None) -> OutputReader:
        return reader_of(self.dialect, self.tokenizer, tools=tools, tool_choice=choice, stage=stage)

    def _feed(self, reader: OutputReader, text: str, ids: Sequence[int], before: Sequence[int] = ()) -> ReadPiece:
        """Read the next piece.

        The end-of-sequence token closes the output, and so does a piece without ids; anything after that is ignored.
        ``before`` are the ids before the piece.
        """
        if reader.closed:
            return ReadPiece()
        delta = reader.feed(text)
        if getattr(self.tokenizer, "eos_token_id", None) in ids or (before and not ids):
            reader.join(delta, reader.close())
        return delta


class ReasoningHalf(_Half):
    """FastDeploy's reasoning parser. The content that it returns does not include calls. The host passes no model's
    name."""

    def __init__(self, tokenizer: Any, model_name: str | None = None) -> None:
        super().__init__(tokenizer, model_name)
        vocabulary = tokenizer.get_vocab()
        start, end = (*closings(self.dialect), ("", ""))[0]
        self.think_start_token_id: int | None = vocabulary.get(start)
        self.think_end_token_id: int | None = vocabulary.get(end)
        self._streams: OrderedDict[tuple[Stage | None, str], OutputReader] = OrderedDict()

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning has ended after these ids: the last of the two think tokens decides."""
        if self.think_start_token_id is None or self.think_end_token_id is None:
            return detect_stage(self.dialect, list(input_ids), tokenizer=self.tokenizer) is not Stage.REASONING
        for token in reversed(input_ids):
            if token in (self.think_start_token_id, self.think_end_token_id):
                return token == self.think_end_token_id
        return False

    def extract_content_ids(self, input_ids: Sequence[int]) -> list[int]:
        """The ids after the first closing of reasoning; none if it is not closed."""
        ids = list(input_ids)
        if self.think_end_token_id is None:
            return content_ids(self.dialect, ids, self.tokenizer, {})
        return ids[ids.index(self.think_end_token_id) + 1 :] if self.think_end_token_id in ids else []

    def extract_reasoning_content(
        self, model_output: str, request: Any, model_status: Any = None, *, output_stage: Any = None
    ) -> tuple[str, str]:
        """Reasoning and content of a whole output; ``""`` if there is none.

        If the request's list of tools is empty, markup of calls is content; if it has no such list, any tool may be
        called. ``output_stage`` is the status by the RFC's name.
        """
        stage = self._stage(output_stage or model_status)
        delta = self._reader(_tools(request), stage).whole(model_output)
        return delta.reasoning, delta.content

    def extract_reasoning_content_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        model_status: Any = None,
        *,
        output_stage: Any = None,
    ) -> Any:
        """Reasoning and content of the next piece, as a message that may be empty.

        The host does not say to which request a piece belongs, so streams are distinguished by their text so far. Two
        requests with the same text are read alike; the second to continue is read again from its beginning.
        """
        stage = self._stage(output_stage or model_status or "response_start")
        reader = self._streams.pop((stage, previous_text), None) if previous_text else None
        if reader is None:
            reader = self._reader(None, stage)
            if previous_text:
                self._feed(reader, previous_text, previous_token_ids)
        delta = self._feed(reader, delta_text, delta_token_ids, previous_token_ids)
        if not reader.closed:
            self._streams[stage, current_text] = reader
            if len(self._streams) > MAX_STREAMS:
                self._streams.popitem(last=False)
        return type(self).make_delta(ReadPiece(delta.reasoning, delta.content, []))


class ToolHalf(_Half):
    """FastDeploy's tool parser.

    It gets the output with its reasoning. Only ``enable_thinking``, which the host writes into the request, says where
    the output begins; without it, the output itself decides. Some versions of the host pass the response instead of the
    request; then any tool may be called.
    """

    make_calls: ClassVar[Callable[[ReadPiece], Any]]
    prev_tool_call_arr: list[dict[str, Any]]
    streamed_args_for_tool: list[str]
    current_tool_id: int
    current_tool_name_sent: bool

    def __init__(self, tokenizer: Any, model_name: str | None = None) -> None:
        super().__init__(tokenizer, model_name)
        self._stream: OutputReader | None = None

    def extract_tool_calls(
        self, model_output: str, request: Any, model_status: Any = None, *, output_stage: Any = None
    ) -> Any:
        """Calls and content of a whole output; `ValueError` if the status is unknown, or the tools cannot be read."""
        return type(self).make_calls(self._read(request, output_stage or model_status).whole(model_output))

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
        model_status: Any = None,
        *,
        output_stage: Any = None,
    ) -> Any:
        """Calls of the next piece and the text around them; an empty message if there is no call. Errors are as
        above."""
        if self._stream is None:
            self._stream = self._read(request, output_stage or model_status)
        delta = self._feed(self._stream, delta_text, delta_token_ids, previous_token_ids)
        self.current_tool_id = note_calls(self._stream, delta, self.prev_tool_call_arr, self.streamed_args_for_tool)
        self.current_tool_name_sent = self.current_tool_id >= 0
        return type(self).make_delta(delta if delta.calls else ReadPiece())

    # -- helpers that the RFC specifies; neither the host nor this module calls them

    def _detect_model_version(self, tokenizer: Any) -> str:
        """The name of the dialect of a tokenizer's model; by default, that of this parser."""
        try:
            return dialect_for(AUTO, tokenizer).name
        except UnknownDialect:
            return self.dialect.name

    def _parse_tool_call(self, text: str) -> tuple[str, str] | None:
        """Name and arguments of the first call in a text, with its markers; ``None`` if there is no call.

        It serves as two functions of the RFC, because the dialect's templates distinguish the forms of a call.
        """
        calls = parse(text, self.dialect, stage=Stage.CONTENT, policy=environment_policy()).tool_calls
        return (calls[0].name, calls[0].arguments) if calls else None

    _parse_v31_tool_call = _parse_v30324_r1_tool_call = _parse_tool_call

    def _parse_tool_json(self, tool_json: str) -> dict[str, Any] | None:
        """The arguments of a call, completed if they are cut off; ``None`` if that makes no object."""
        info = structure_info(self.dialect, "f")
        if info is None:
            return None
        text = info.begin + tool_json + info.end
        policy = Policy(bad_arguments="repair", markers_in_strings="end")
        calls = parse(text, self.dialect, stage=Stage.CONTENT, policy=policy).tool_calls
        if not calls or calls[0].name != "f" or calls[0].status not in ("ok", "repaired"):
            return None
        arguments: dict[str, Any] = json.loads(calls[0].arguments)
        return arguments

    @staticmethod
    def _extract_json_from_codeblock(text: str) -> str:
        """The contents of a code block; a text without one stays as it is."""
        _, fence, inside = text.partition("```")
        if not fence:
            return text.strip()
        return inside.removeprefix("json").partition("```")[0].strip()

    def _read(self, request: Any, status: Any) -> OutputReader:
        stage = stage_of(status)
        if stage is None and self.dialect.reasoning:
            thinks = _field(request, "enable_thinking")
            stage = Stage.UNDECIDED if thinks is None else Stage.REASONING if thinks else Stage.CONTENT
        return self._reader(_tools(request), stage, _field(request, "tool_choice"))


def _field(request: Any, name: str, default: Any = None) -> Any:
    """A field of a request, which may be a dict."""
    return request.get(name, default) if isinstance(request, Mapping) else getattr(request, name, default)


def _tools(request: Any) -> Sequence[Any] | None:
    """A request's tools; ``None`` if it has no such field."""
    tools = _field(request, "tools", ...)
    return None if tools is ... else tools or ()


# --- registration -----------------------------------------------------------------------------------------------------


def _hyphened() -> dict[str, str]:
    """The names to register, with the names of their dialects. FastDeploy looks names up with ``-`` for ``_``.

    Dialects that leave open where an output begins were written for FastDeploy, so they are also registered by their
    own names.
    """
    found = {(PREFIX + name).replace("_", "-"): name for name in names()}
    own = {name: name for d in list_dialects() if d.stage is Stage.UNDECIDED and d.call for name in d.names}
    return found | own


def register_reasoning() -> None:
    """Register reasoning parsers. FastDeploy's loader calls this."""
    registered("fastdeploy", WRITTEN_FOR, _register_reasoning)


def register_tools() -> None:
    """Register tool parsers. FastDeploy's loader calls this."""
    registered("fastdeploy", WRITTEN_FOR, _register_tools)


def _register_reasoning() -> None:
    from fastdeploy.entrypoints.openai import protocol
    from fastdeploy.reasoning.abs_reasoning_parsers import ReasoningParser, ReasoningParserManager

    made = {"make_delta": partial(_delta, protocol)}
    _register(ReasoningParserManager, (ReasoningHalf, ReasoningParser), "reasoning", made)


def _register_tools() -> None:
    from fastdeploy.entrypoints.openai import protocol
    from fastdeploy.entrypoints.openai.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

    made = {"make_delta": partial(_delta, protocol), "make_calls": partial(_calls, protocol)}
    _register(ToolParserManager, (ToolHalf, ToolParser), "call", made)


def _register(manager: Any, bases: tuple[type, type], ability: str, made: dict[str, Any]) -> None:
    """Register a parser for each dialect with an ability, and say in the log which of the host's own are replaced."""
    for name, dialect in _hyphened().items():
        if dialect == AUTO or getattr(dialect_of(dialect), ability):
            kind = type(f"Unspool{bases[1].__name__}", bases, {"dialect_name": dialect, **made})
            try:
                manager.register_module(name=name, force=False, module=kind)
            except KeyError:
                logger.warning("unspool: the parser that FastDeploy has as %r is replaced", name)
                manager.register_module(name=name, module=kind)


def _delta(protocol: Any, delta: ReadPiece) -> Any:
    calls = [
        protocol.DeltaToolCall(
            index=c.index,
            id=c.id,
            type="function",
            function=protocol.DeltaFunctionCall(name=c.name, arguments=c.arguments),
        )
        for c in delta.calls
    ]
    given = {"tool_calls": calls} if calls else {}
    return protocol.DeltaMessage(reasoning_content=delta.reasoning, content=delta.content, **given)


def _calls(protocol: Any, delta: ReadPiece) -> Any:
    calls = [
        protocol.ToolCall(id=c.id, type="function", function=protocol.FunctionCall(name=c.name, arguments=c.arguments))
        for c in delta.calls
    ]
    return protocol.ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=delta.content)
