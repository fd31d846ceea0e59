"""SGLang: detectors for calls and for reasoning, and a `FunctionCallParser` that works without SGLang.

If unspool is installed next to SGLang, the entry point group ``sglang.srt.plugins`` calls `register`. The detectors are
then selected with ``--tool-call-parser unspool_<dialect>`` and ``--reasoning-parser unspool_<dialect>``.

SGLang reads an output twice: a reasoning detector removes the reasoning, and a tool detector reads the rest.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Final, Literal

import msgspec

from .. import (
    Dialect,
    Stage,
    StructureInfo,
    ToolCallDelta,
    ToolStrictLevel,
    constrain,
    structure_constraint,
    structure_info,
)
from ..dialect.ids import CallIds
from ..dialect.template import unstarted, written
from ..grammar.calls import strict_tools
from .host import (
    AUTO,
    PREFIX,
    abilities,
    closings,
    dialect_for,
    dialect_of,
    logger,
    openings,
    registered,
    tool_choice_of,
    tools_of,
)
from .reader import Keep, OutputReader, ReadPiece, note_calls, reader_of

__all__ = [
    "FunctionCallParser",
    "ReasoningDetector",
    "StreamingParseResult",
    "ToolCallItem",
    "ToolDetector",
    "register",
]

WRITTEN_FOR: Final = "0.5.23"
_PLAIN_NAME: Final = re.compile(r"[\w.-]+")


class ToolCallItem(msgspec.Struct, gc=False):
    """A call, or an update of one: its index in the answer, from 0; the tool's name, or ``None`` if only more of the
    arguments follows; and JSON text of the arguments: whole, or the next piece."""

    tool_index: int
    name: str | None = None
    parameters: str = ""


class StreamingParseResult(msgspec.Struct, gc=False):
    """The result of a text, or of the next piece of one."""

    normal_text: str = ""
    calls: list[ToolCallItem] = []


# --- calls ------------------------------------------------------------------------------------------------------------


class ToolDetector:
    """Detects the calls of one output. Reasoning in the text stays in the normal text, as it was written. The host's
    tokenizer is for `AUTO` and for its special tokens."""

    dialect_name: ClassVar[str] = AUTO
    item_type: ClassVar[Callable[..., Any]] = ToolCallItem
    result_type: ClassVar[Callable[..., Any]] = StreamingParseResult
    info_type: ClassVar[Callable[..., Any]] = StructureInfo
    gathered: ClassVar[int] = 0
    """How many characters of a call that is not JSON are read at a time. A character that may end the call is read at
    once.

    The host's own detectors wait for whole values.
    """

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self.dialect = dialect_for(self.dialect_name, tokenizer)
        self._tokenizer = tokenizer
        self._reader: OutputReader | None = None
        self._gathers = self.gathered > 0 and self.dialect.argument_format != "json"
        self._ends = _ends(self.dialect)
        self._in_call = False
        self._waiting = ""
        self.bot_token, self.eot_token = _sides(self.dialect)
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.streamed_args_for_tool: list[str] = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False

    def has_tool_call(self, text: str) -> bool:
        """Whether a text contains a call or other markup. If it does not, SGLang shows the text as it is."""
        if any(opening in text for opening in openings(self.dialect)):
            return True
        return self._read(None).whole(text).content != text

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> Any:
        delta = self._read(tools).whole(text)
        items = [self.item_type(tool_index=c.index, name=c.name, parameters=c.arguments) for c in delta.calls]
        return self.result_type(normal_text=delta.content, calls=items)

    def parse_streaming_increment(self, new_text: str, tools: Sequence[Any]) -> StreamingParseResult:
        """Take the next piece of a stream.

        Returns unspool's own classes: the host reads only attributes, and to make its classes would cost more than
        parsing.
        """
        reader = self._reader
        if reader is None:
            reader = self._reader = self._read(tools)
        if self._in_call:
            new_text = self._waiting + new_text
            if len(new_text) < self.gathered:
                for end in self._ends:
                    if end in new_text:
                        break
                else:
                    self._waiting = new_text
                    return StreamingParseResult()
            self._waiting = ""
        step = reader.take(new_text)
        if isinstance(step, ToolCallDelta):
            self._in_call = self._gathers
            return StreamingParseResult("", [ToolCallItem(step.index, None, step.arguments)])
        if self._gathers:
            self._in_call = reader.parser.stage is Stage.TOOL_CALL
        return self._streaming_result(reader, step)

    def finish(self, tools: Sequence[Any]) -> StreamingParseResult:
        """End the stream, and return the held text."""
        if self._reader is None:
            return StreamingParseResult()
        reader, rest, self._waiting = self._reader, self._waiting, ""
        delta = reader.feed(rest) if rest else ReadPiece()
        reader.join(delta, reader.close())
        return self._streaming_result(reader, delta)

    def supports_structural_tag(self) -> bool:
        """Whether a call consists of a beginning, one JSON object and an end, as `structure_info` requires."""
        return bool(self.dialect.call) and structure_info(self.dialect, "f") is not None

    def parses_required_natively(self) -> bool:
        """Whether the host must read required calls with this detector, because it cannot force them as JSON."""
        return not self.supports_structural_tag()

    def structure_info(self) -> Callable[[str], Any]:
        """Return a function from a tool's name to the begin, end and trigger of a call.

        If SGLang has a detector for the dialect, they are exactly that detector's; otherwise the dialect's.
        """

        def info(name: str) -> Any:
            found = _forced(self.dialect_name.removeprefix(PREFIX), self.dialect, name)
            found = found or structure_info(self.dialect, name) or _written(self.dialect, name)
            return self.info_type(begin=found.begin, end=found.end, trigger=found.trigger)

        return info

    def get_structural_tag(
        self,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> Any:
        """The structural tag of a request, or ``None`` if nothing is constrained. The tools and the choice may be
        SGLang's own objects. With ``thinking_mode``, reasoning may come first; otherwise the tag begins after it.
        `ConstraintError` if a schema cannot be enforced."""
        made = constrain(
            self.dialect,
            tools_of(tools),
            tool_choice_of(tool_choice),
            parallel_tool_calls,
            stage=None if thinking_mode else Stage.CONTENT,
            strict_level=ToolStrictLevel.FUNCTION,  # SGLang asks only if a level, a tool or the choice does
        )
        return None if made is None else self.tag_type(made.structural_tag)

    @staticmethod
    def tag_type(tag: dict[str, Any]) -> Any:
        """Convert a structural tag to the host's type; without a host, it stays a JSON object."""
        return tag

    def _read(self, tools: Sequence[Any] | None) -> OutputReader:
        return reader_of(self.dialect, self._tokenizer, keep=Keep.REASONING, tools=tools, stage=Stage.CONTENT)

    def _streaming_result(self, reader: OutputReader, delta: ReadPiece) -> StreamingParseResult:
        items = []
        for call in delta.calls:
            if call.name is not None:  # in an item of its own, as in SGLang's detectors
                items.append(ToolCallItem(call.index, call.name))
            if call.arguments:
                items.append(ToolCallItem(call.index, None, call.arguments))
        self.current_tool_id = note_calls(reader, delta, self.prev_tool_call_arr, self.streamed_args_for_tool)
        self.current_tool_name_sent = self.current_tool_id >= 0
        return StreamingParseResult(delta.content, items)


@cache
def _sides(d: Dialect) -> tuple[str, str]:
    """The text before and after calls."""
    if not d.calls:
        return "", ""
    block = d.calls[0]
    return (block.lead + block.opening).lstrip("\n"), block.closing + block.trail


@cache
def _ends(d: Dialect) -> str:
    """The last characters of calls and of blocks of calls."""
    return "".join({t.text.rstrip()[-1:] for t in (*d.call, *d.calls)} - {"}"})


@cache
def _forms() -> dict[str, StructureInfo]:
    """How SGLang writes the calls that it forces, by the name of its detector; ``{name}`` is the tool's name."""
    data = tomllib.loads(files(__package__).joinpath("sglang.toml").read_text("utf-8"))
    return {name: msgspec.convert(form, StructureInfo) for form in data["call"] for name in form["names"]}


def _forced(asked: str, d: Dialect, name: str) -> StructureInfo | None:
    """SGLang's own begin, end and trigger; ``None`` if it has none, or if the name would need escaping."""
    form = next((_forms()[n] for n in (asked, *d.names) if n in _forms()), None)
    if form is None or not _PLAIN_NAME.fullmatch(name):
        return None
    return StructureInfo(*(text.replace("{name}", name) for text in (form.begin, form.end, form.trigger)))


def _written(d: Dialect, name: str, call_id: str = "") -> StructureInfo:
    """The begin, end and trigger of a call as the dialect writes it, with an id, if `structure_info` has none."""
    block, call = d.calls[0], d.call_of(name)
    fields = {"name": name, "index": "0", "number": "1", "id": call_id or CallIds(d.id, None).of(0, name, {})}
    begin = unstarted(block.opening + written(call.head, fields), d.start).lstrip("\n")
    trigger = next((o for o in openings(d) if begin.startswith(o)), begin)
    return StructureInfo(begin, written(call.tail, fields) + block.closing, trigger)


# --- reasoning --------------------------------------------------------------------------------------------------------


class _SplitText(msgspec.Struct):
    normal_text: str = ""
    reasoning_text: str = ""


class ReasoningDetector:
    """Removes the reasoning from an output. Calls stay as they were written, for the tool detector.

    SGLang does not pass the prompt, so ``force_reasoning`` says where the output begins.

    Args:
        stream_reasoning: whether reasoning is returned as it arrives; otherwise in one piece when it has ended.
        force_reasoning: whether the output begins with reasoning; ``None``: as the dialect says.
        continue_final_message: whether the prompt ends with the beginning of the answer, ``previous_content``.
        force_nonempty_content: whether the reasoning of an output without content becomes its content.
        tool_call_parser_active: whether a tool detector reads the rest.
    """

    dialect_name: ClassVar[str] = AUTO
    parts_type: ClassVar[Callable[..., Any]] = _SplitText

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool | None = None,
        continue_final_message: bool = False,
        previous_content: Any = "",
        force_nonempty_content: bool = False,
        tokenizer: Any = None,
        tool_call_parser_active: bool = False,
    ) -> None:
        self.dialect = dialect_for(self.dialect_name, tokenizer)
        start, end = (*closings(self.dialect), ("", ""))[0]
        self._begin(start, end, stream_reasoning=stream_reasoning, force_reasoning=bool(force_reasoning))
        self._given: dict[str, Any] = {}
        if continue_final_message and isinstance(previous_content, str) and previous_content:
            self._given["prompt"] = "".join(self.dialect.start[:1]) + previous_content
        elif force_reasoning is not None:
            self._given["stage"] = Stage.REASONING if force_reasoning else Stage.CONTENT
        if not tool_call_parser_active:
            self._given["tools"] = []
        self._keep = Keep.CALLS if tool_call_parser_active else Keep.NOTHING
        self._tokenizer = tokenizer
        self._stream_reasoning = stream_reasoning
        self._force_content = force_nonempty_content
        self._reader: OutputReader | None = None
        self._waiting: list[str] = []  # reasoning that has not been returned yet
        self._thoughts: list[str] = []  # all reasoning, if it may become the content
        self._answered = False

    def _begin(self, start: str, end: str, **options: Any) -> None:
        """Initialize the host's base class."""
        super().__init__()

    def detect_and_parse(self, text: str) -> Any:
        delta = self._read().whole(text)
        if self._force_content and not delta.content:
            delta.content, delta.reasoning = delta.reasoning, ""
        return self.parts_type(normal_text=delta.content, reasoning_text=delta.reasoning)

    def parse_streaming_increment(self, new_text: str) -> Any:
        """Take the next piece of a stream."""
        if self._reader is None:
            self._reader = self._read()
        delta = self._reader.feed(new_text)
        return self._split_parts(delta, over=self._reader.parser.stage is not Stage.REASONING)

    def finish(self) -> Any:
        """End the stream, and return the held text."""
        if self._reader is None:
            return self.parts_type()
        delta = self._reader.close()
        if self._force_content and not self._answered and not delta.content:
            delta = ReadPiece(content="".join([*self._thoughts, delta.reasoning]), calls=[])
            self._waiting = []
        return self._split_parts(delta, over=True)

    def _split_parts(self, delta: ReadPiece, *, over: bool) -> Any:
        self._answered = self._answered or bool(delta.content)
        if self._force_content and delta.reasoning:
            self._thoughts.append(delta.reasoning)
        reasoning = delta.reasoning
        if not self._stream_reasoning:
            self._waiting.append(reasoning)
            reasoning = ""
            if over or delta.content:
                reasoning = "".join(self._waiting)
                self._waiting = []
        return self.parts_type(normal_text=delta.content, reasoning_text=reasoning)

    def _read(self) -> OutputReader:
        return reader_of(self.dialect, self._tokenizer, keep=self._keep, **self._given)


# --- without SGLang ---------------------------------------------------------------------------------------------------


@cache
def _detector(name: str) -> type[ToolDetector]:
    found = dialect_of(name)
    if not found.call:
        raise ValueError(f"tool_call_parser: dialect {found.name!r} has no calls")
    return type("ToolDetector", (ToolDetector,), {"dialect_name": name})


class FunctionCallParser:
    """SGLang's interface to its detectors, without SGLang.

    Args:
        tools: dicts, or SGLang's own objects.
        tool_call_parser: the name of a dialect, with or without ``unspool_`` before it; SGLang's own names are aliases.
        strict_level: constrains ``auto`` if no tool has ``strict``.

    Raises:
        ValueError: no dialect has this name.
    """

    def __init__(
        self, tools: Sequence[Any], tool_call_parser: str, *, strict_level: ToolStrictLevel = ToolStrictLevel.OFF
    ) -> None:
        self.tools = tools_of(tools)
        self.detector = _detector(tool_call_parser)()
        self.tool_strict_level = strict_level

    def has_tool_call(self, text: str) -> bool:
        """Whether a text contains the beginning of a call; always false without tools."""
        return bool(self.tools) and self.detector.has_tool_call(text)

    def parse_non_stream(self, full_text: str) -> tuple[str, list[ToolCallItem]]:
        """Return the text around the calls, and the calls; a text without calls stays as it is."""
        if not self.tools:
            return full_text, []
        result: StreamingParseResult = self.detector.detect_and_parse(full_text, self.tools)
        return (result.normal_text, result.calls) if result.calls else (full_text, [])

    def parse_stream_chunk(self, chunk_text: str) -> tuple[str, list[ToolCallItem]]:
        """Return the text and the calls of the next piece of a stream."""
        if not self.tools:
            return chunk_text, []
        result = self.detector.parse_streaming_increment(chunk_text, self.tools)
        return result.normal_text, result.calls

    def parse_stream_end(self) -> tuple[str, list[ToolCallItem]]:
        """End the stream, and return the held text and calls."""
        result = self.detector.finish(self.tools)
        return result.normal_text, result.calls

    def get_structure_tag(self) -> dict[str, Any] | None:
        """The structural tag that keeps calls well-formed; ``None`` if the dialect's calls have none.

        Raises:
            ConstraintError: a schema cannot be enforced.
        """
        level = max(self.tool_strict_level, ToolStrictLevel.FUNCTION)
        made = structure_constraint(self.detector.dialect, self.tools, "auto", True, level)
        return None if made is None else made[1]

    def get_structure_constraint(
        self, tool_choice: Any, parallel_tool_calls: bool = True
    ) -> tuple[Literal["structural_tag", "json_schema"], dict[str, Any]] | None:
        """The constraint of a request; see `unspool.structure_constraint`. Where arguments are marked up, a strict tool
        gets the dialect's own structural tag. If it has none, the log says why.

        Raises:
            ConstraintError: the tools or the choice are wrong, or a schema cannot be enforced.
        """
        choice, d = tool_choice_of(tool_choice), self.detector.dialect
        made = structure_constraint(d, self.tools, choice, parallel_tool_calls, self.tool_strict_level)
        strict = self.tool_strict_level >= ToolStrictLevel.FUNCTION or strict_tools(self.tools)
        if made is None and strict and choice == "auto" and self.tools and d.call:
            if d.argument:
                own = constrain(d, self.tools, choice, parallel_tool_calls, strict_level=ToolStrictLevel.FUNCTION)
                return None if own is None else ("structural_tag", own.structural_tag)
            logger.warning(
                "unspool: strict tools are not enforced: calls of %s are no JSON between fixed texts", d.name
            )
        if made is None:
            return None
        return ("structural_tag" if made[0] == "structural_tag" else "json_schema"), made[1]


# --- with SGLang ------------------------------------------------------------------------------------------------------


def register() -> None:
    """Register every dialect with SGLang. SGLang's plug-in loader calls this."""
    registered("sglang", WRITTEN_FOR, _register)


def _register() -> None:
    from sglang.srt.function_call import core_types
    from sglang.srt.function_call.base_format_detector import BaseFormatDetector, StructuralTag
    from sglang.srt.function_call.function_call_parser import FunctionCallParser as Front
    from sglang.srt.parser import reasoning_parser

    base_reasoning = reasoning_parser.BaseReasoningFormatDetector

    class HostToolDetector(ToolDetector, BaseFormatDetector):  # type: ignore[misc,unused-ignore]
        item_type = core_types.ToolCallItem
        result_type = core_types.StreamingParseResult
        info_type = core_types.StructureInfo
        gathered = 16

        @staticmethod
        def tag_type(tag: dict[str, Any]) -> Any:
            return StructuralTag.model_validate(tag)

    class HostReasoningDetector(ReasoningDetector, base_reasoning):  # type: ignore[misc,valid-type,unused-ignore]
        parts_type = reasoning_parser.StreamingParseResult

        def _begin(self, start: str, end: str, **options: Any) -> None:
            always = self.dialect.stage is Stage.REASONING
            options["reasoning_default"] = "always" if always else "explicit_enable_thinking"
            base_reasoning.__init__(self, start, end, **options)

    for name, calls, reasoning in abilities():
        made = {"dialect_name": name}
        if calls:
            Front.ToolCallParserEnum[PREFIX + name] = type("UnspoolDetector", (HostToolDetector,), made)
        if reasoning:
            kind = type("UnspoolReasoningDetector", (HostReasoningDetector,), made)
            reasoning_parser.ReasoningParser.DetectorMap[(PREFIX + name).lower()] = kind
