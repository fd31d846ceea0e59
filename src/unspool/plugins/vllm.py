"""vLLM: parsers of calls and of reasoning that share one parser per request.

If unspool is installed next to vLLM, the entry point group ``vllm.general_plugins`` calls `register`. The parsers are
then selected with ``--tool-call-parser unspool_<dialect>`` and ``--reasoning-parser unspool_<dialect>``.

vLLM composes each request's parser from two halves, and passes text from the first to the second. If both are ours, the
reasoning half passes everything on and the tool half reads all of it, so that markup of both stays in one piece. The
halves find each other because vLLM makes one after the other, in one thread with one tokenizer.

The halves read text, whether in pieces or whole, and ids identify its special tokens; see `pairing`. vLLM's composed
parser does not pass on the ids of a whole output, so the class that vLLM composes from our halves is changed to do so.
Ids also decide where reasoning ends (`following`), and count tokens.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ClassVar, Final

from .. import ConstraintError, Parser, Stage, ToolCallDelta, ToolStrictLevel, constrain, get_dialect
from .following import Following, prompt_text
from .host import (
    AUTO,
    PREFIX,
    abilities,
    closings,
    content_ids,
    dialect_for,
    ids_policy,
    registered,
    tool_choice_of,
    tools_of,
)
from .reader import CallDelta, Ids, Keep, OutputReader, ReadPiece, note_calls, reader_of

__all__ = ["ReasoningHalf", "ToolHalf", "register"]

WRITTEN_FOR: Final = "0.33"

_made = threading.local()


class ReasoningHalf:
    """vLLM's reasoning parser. Of the host's further arguments, ``chat_template_kwargs`` say whether thinking is on if
    there is no prompt; ``model_config`` names the model, for `AUTO`."""

    dialect_name: ClassVar[str] = AUTO
    delta_type: ClassVar[Callable[..., Any]]
    engine_based_streaming = True
    output_ids: Sequence[int] = ()  # the ids of the whole output that is read next, if vLLM passes them

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)  # type: ignore[call-arg]  # the host's class comes after this one
        model = getattr(kwargs.get("model_config"), "model", None)
        self.dialect = dialect_for(self.dialect_name, tokenizer, model)
        self.tokenizer = tokenizer
        self.mate: ToolHalf | None = None
        self._thinking = _switch(kwargs.get("chat_template_kwargs"))
        self._prompt: list[int] | None = None
        self._reader: OutputReader | None = None
        self._ended = False
        self._following: Following | None = None
        _made.half = weakref.ref(self)

    @property
    def beginning(self) -> dict[str, Any]:
        """Where the output begins, as arguments of `Parser`. The prompt decides, or else whether thinking is off.

        If thinking is on or unknown, the prompt may or may not have opened the reasoning, so the output decides.
        """
        if self._prompt is not None:
            return {"prompt": prompt_text(self.dialect, self._prompt, self.tokenizer)}
        if self._thinking is False:
            return {"stage": Stage.CONTENT}
        if self.dialect.stage is Stage.CONTENT and self.dialect.reasoning:
            return {"stage": Stage.UNDECIDED}
        return {}

    # -- the prompt -----------------------------------------------------------------------------------------------

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Set where the output begins, from the end of the prompt. Without ids, the prompt is unknown."""
        self._prompt = list(prompt_token_ids) or None

    adjust_initial_state_from_prompt = set_prompt_token_ids

    @property
    def reasoning_start_str(self) -> str | None:
        return (*closings(self.dialect), ("", ""))[0][0] or None

    @property
    def reasoning_end_str(self) -> str | None:
        return (*closings(self.dialect), ("", ""))[0][1] or None

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning has ended after these ids of a prompt, or of a prompt and its output.

        If it neither began nor ended, it may still come, unless thinking is off.
        """
        return not self._may_reason or self._follow().over(input_ids)

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        return not self._may_reason or self._follow().ends(input_ids, len(list(delta_ids)))

    @property
    def _may_reason(self) -> bool:
        return bool(self.dialect.reasoning) and self._thinking is not False

    def _follow(self) -> Following:
        if self._following is None:
            self._following = Following(self.dialect, self.tokenizer, ids_policy())
        return self._following

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether further text goes to the tool half: at once if that half is ours, otherwise after the reasoning."""
        return self._ended

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        if self.mate is not None:
            return list(input_ids)
        return content_ids(self.dialect, input_ids, self.tokenizer, {**self.beginning, "policy": ids_policy()})

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """The number of an output's ids that are reasoning, without markers."""
        parser = Parser(self.dialect, **self.beginning, policy=ids_policy(), tokenizer=self.tokenizer)
        parser.feed_tokens(token_ids)
        parser.close()
        return parser.message.reasoning_tokens or 0

    def adjust_request(self, request: Any) -> Any:
        """Keep special tokens in the text, since markers may be special tokens."""
        request.skip_special_tokens = False
        return request

    # -- the output -----------------------------------------------------------------------------------------------

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Reasoning and content of a whole output."""
        ids, self.output_ids = self.output_ids, ()
        if self.mate is None:
            delta = self._read(_ids(request)).whole(model_output, ids)
        else:
            delta = self.mate.whole(model_output, request, ids)
        return delta.reasoning or None, delta.content or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """Reasoning and content of the next piece."""
        if self.mate is not None:
            self._ended = True
            return type(self).delta_type(content=delta_text)
        if self._reader is None:
            self._reader = self._read(Ids(lag=True))  # without a request, stop strings are unknown
        delta = self._reader.feed(delta_text, delta_token_ids)
        # Wait for content, since white space after the closing marker may belong to the marker.
        self._ended = bool(delta.content) and self._reader.parser.stage is not Stage.REASONING
        return self._delta(delta)

    def finish_streaming(self) -> Any:
        """Return the held text, at the end of the reasoning or of the output."""
        return None if self._reader is None else self._delta(self._reader.close())

    def _delta(self, delta: ReadPiece) -> Any:
        return (
            type(self).delta_type(reasoning=delta.reasoning or None, content=delta.content or None) if delta else None
        )

    def _read(self, ids: Ids) -> OutputReader:
        return reader_of(self.dialect, self.tokenizer, ids=ids, tools=[], **self.beginning)


class ToolHalf:
    """vLLM's tool parser. If the reasoning half is not ours, reasoning in the text stays in the content as the model
    wrote it.

    The tools of a method's own request take precedence over those given here. Without any, every tool may be called.
    """

    dialect_name: ClassVar[str] = AUTO
    make_delta: ClassVar[Callable[[ReadPiece], Any]]
    make_piece: ClassVar[Callable[[ToolCallDelta], Any]]
    make_calls: ClassVar[Callable[[ReadPiece], Any]]
    tag_type: ClassVar[Callable[[dict[str, Any]], Any]]
    supports_required_and_named = False
    structural_tag_model = "unspool"
    engine_based_streaming = True
    prev_tool_call_arr: list[dict[str, Any]]
    streamed_args_for_tool: list[str]
    current_tool_id: int
    output_ids: Sequence[int] = ()  # the ids of the whole output that is read next, if vLLM passes them

    def __init__(self, tokenizer: Any, tools: Any = None, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools)  # type: ignore[call-arg]
        half = getattr(_made, "half", lambda: None)()
        _made.half = lambda: None
        self.mate: ReasoningHalf | None = None
        self.tokenizer = tokenizer
        self._tools = tools
        if half is not None and half.tokenizer is tokenizer and half.mate is None:
            self.mate, half.mate = half, weakref.proxy(self)
        if self.mate is not None and self.dialect_name == AUTO:
            self.dialect = self.mate.dialect  # only the reasoning half got the model's name
        else:
            self.dialect = dialect_for(self.dialect_name, tokenizer)
        if not self.dialect.call:
            raise ValueError(f"dialect {self.dialect.name!r} has no calls")
        if self.mate is not None and self.mate.dialect is not self.dialect and self.mate.dialect.reasoning:
            self.dialect = get_dialect(self.dialect.name, reasoning=self.mate.dialect.name)
        self._reader: OutputReader | None = None
        self._whole: ReadPiece | None = None  # a whole output that the reasoning half passed on

    def adjust_request(self, request: Any) -> Any:
        """Refuse invalid tools with a `ToolsError` before anything is generated, and keep the markers of calls in the
        text."""
        if request.tools:
            self._read(request, stage=Stage.CONTENT)
            if request.tool_choice != "none":
                request.skip_special_tokens = False
        return request

    def get_structural_tag(self, request: Any, *, reasoning: bool = False, strict_level: int = 0) -> Any:
        """The structural tag of a request, or ``None`` if nothing is constrained. With ``reasoning``, that may come
        first; otherwise the tag begins after it. vLLM's strict level means the same as unspool's. `ConstraintError` if
        a schema cannot be enforced."""
        parallel = getattr(request, "parallel_tool_calls", None) is not False
        made = constrain(
            self.dialect,
            tools_of(request.tools),
            tool_choice_of(request.tool_choice),
            parallel,
            stage=None if reasoning else Stage.CONTENT,
            strict_level=ToolStrictLevel(max(int(strict_level), int(not parallel))),  # only a grammar limits calls
        )
        return None if made is None else type(self).tag_type(made.structural_tag)

    def whole(self, model_output: str, request: Any, ids: Sequence[int]) -> ReadPiece:
        """Read a whole output; `extract_tool_calls` then returns its calls."""
        self._whole = self._read(request).whole(model_output, ids)
        return self._whole

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Calls and content of a whole output."""
        ids, self.output_ids = self.output_ids, ()
        delta = self._whole or self._read(request).whole(model_output, ids)
        self._whole = None
        return type(self).make_calls(delta)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """Calls and content of the next piece, and reasoning if the reasoning half is ours."""
        reader = self._reader
        if reader is None:
            reader = self._reader = self._read(request)
        step = reader.take(delta_text, delta_token_ids)
        if isinstance(step, ToolCallDelta):
            return type(self).make_piece(step)
        return self._delta(reader, step)

    def finish_streaming(self) -> Any:
        """End the stream, and return the held text."""
        return None if self._reader is None else self._delta(self._reader, self._reader.close())

    def _delta(self, reader: OutputReader, delta: ReadPiece) -> Any:
        self.current_tool_id = note_calls(reader, delta, self.prev_tool_call_arr, self.streamed_args_for_tool)
        return type(self).make_delta(delta) if delta else None

    def _read(self, request: Any, *, stage: Stage | None = None) -> OutputReader:
        given: dict[str, Any] = {"stage": Stage.CONTENT}
        if stage is None and self.mate is not None:
            given = self.mate.beginning
        return reader_of(
            self.dialect,
            self.tokenizer,
            keep=Keep.REASONING if self.mate is None else Keep.NOTHING,
            ids=_ids(request),
            tools=getattr(request, "tools", None) or self._tools or (None if request is None else ()),
            tool_choice=getattr(request, "tool_choice", None),
            **given,
        )


def _ids(request: Any) -> Ids:
    """How ids accompany the text of an answer."""
    stops = bool(getattr(request, "stop", None)) and not getattr(request, "include_stop_str_in_output", False)
    tag = getattr(getattr(request, "structured_outputs", None), "structural_tag", None)
    forced = getattr(request, "tool_choice", None) not in (None, "auto", "none")
    return Ids(lag=stops, constrained=forced or tag is not None)


def hand_on_ids(parser: Any) -> None:
    """Make a class of vLLM's parsers pass the ids of a whole output to its first half, which is ours."""
    parse = parser.parse

    @wraps(parse)
    def with_ids(
        self: Any, model_output: str, request: Any, enable_auto_tools: bool = False, model_output_token_ids: Any = ()
    ) -> Any:
        first = self.reasoning_parser or self.tool_parser
        if first is not None:
            first.output_ids = model_output_token_ids
        return parse(self, model_output, request, enable_auto_tools, model_output_token_ids)

    parser.parse = with_ids


class Composed(type):
    """The metaclass of our halves. Through it, Python reports the parser class that vLLM puts them into."""

    def __set_name__(cls, owner: Any, name: str) -> None:
        first = "tool_parser_cls" if getattr(owner, "reasoning_parser_cls", None) is None else "reasoning_parser_cls"
        if name == first:
            hand_on_ids(owner)


def _switch(options: Any) -> bool | None:
    """Whether ``chat_template_kwargs`` switch thinking on or off; ``None`` if they do neither."""
    for name in ("enable_thinking", "thinking"):
        value = (options or {}).get(name)
        if value is not None:
            return bool(value)
    return None


def unchecked(kind: Any, **example: Any) -> Callable[..., Any]:
    """A function that makes objects of a pydantic class without validation, which costs more than parsing. It is the
    class itself if its object of the example, which has the fields of all objects, differs from the one made this
    way."""
    model = kind(**example)
    blank = {name: getattr(model, name) for name in kind.model_fields}
    extra = model.__pydantic_extra__ is not None
    new, put = kind.__new__, object.__setattr__

    def make(**fields: Any) -> Any:
        made = new(kind)
        put(made, "__dict__", {**blank, **fields})
        put(made, "__pydantic_fields_set__", set(fields))
        put(made, "__pydantic_extra__", {} if extra else None)
        put(made, "__pydantic_private__", None)
        return made

    try:
        same = make(**example) == model and make(**example).model_dump_json(exclude_unset=True) == (
            model.model_dump_json(exclude_unset=True)
        )
    except AttributeError:
        same = False
    return make if same else kind


def register() -> None:
    """Register every dialect with vLLM. vLLM's plug-in loader calls this, possibly several times."""
    registered("vllm", WRITTEN_FOR, _register)


def _register() -> None:
    import vllm.envs as envs
    from vllm.entrypoints.generate.base import protocol
    from vllm.exceptions import VLLMValidationError
    from vllm.reasoning import ReasoningParserManager
    from vllm.reasoning.abs_reasoning_parsers import ReasoningParser
    from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager
    from xgrammar import StructuralTag

    def make_delta(delta: ReadPiece) -> Any:
        # Set only existing fields, since the host omits fields that were not set. Validation costs more than parsing.
        fields: dict[str, Any] = {}
        if delta.reasoning:
            fields["reasoning"] = delta.reasoning
        if delta.content:
            fields["content"] = delta.content
        if delta.calls:
            fields["tool_calls"] = [make_call(call) for call in delta.calls]
        return protocol.DeltaMessage(**fields)

    make_function = unchecked(protocol.DeltaFunctionCall, arguments="{}")
    make_tool = unchecked(protocol.DeltaToolCall, index=0, function=make_function(arguments="{}"))
    make_message = unchecked(protocol.DeltaMessage, tool_calls=[])

    def make_piece(event: ToolCallDelta) -> Any:
        tool = make_tool(index=event.index, function=make_function(arguments=event.arguments))
        return make_message(tool_calls=[tool])

    def make_call(call: CallDelta) -> Any:
        if call.name is None:
            function = protocol.DeltaFunctionCall(arguments=call.arguments)
            return protocol.DeltaToolCall(index=call.index, function=function)
        function = protocol.DeltaFunctionCall(name=call.name, arguments=call.arguments)
        return protocol.DeltaToolCall(index=call.index, id=call.id, type="function", function=function)

    def make_calls(delta: ReadPiece) -> Any:
        calls = [
            protocol.ToolCall(id=c.id, function=protocol.FunctionCall(name=c.name, arguments=c.arguments))
            for c in delta.calls
        ]
        return protocol.ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=delta.content or None
        )

    class HostReasoningHalf(ReasoningHalf, ReasoningParser, metaclass=Composed):  # type: ignore[misc,unused-ignore]
        delta_type = protocol.DeltaMessage

    class HostToolHalf(ToolHalf, ToolParser, metaclass=Composed):  # type: ignore[misc,unused-ignore]
        tag_type = StructuralTag.model_validate

        def get_structural_tag(self, request: Any, *, reasoning: bool = False, strict_level: int = 0) -> Any:
            if not envs.VLLM_ENFORCE_STRICT_TOOL_CALLING:
                return None
            try:
                return super().get_structural_tag(request, reasoning=reasoning, strict_level=strict_level)
            except ConstraintError as error:
                raise VLLMValidationError(str(error)) from None

    HostToolHalf.make_delta = staticmethod(make_delta)
    HostToolHalf.make_piece = staticmethod(make_piece)
    HostToolHalf.make_calls = staticmethod(make_calls)
    for name, calls, reasoning in abilities():
        made = {"dialect_name": name}
        if calls:
            kind = Composed("UnspoolToolParser", (HostToolHalf,), made)
            ToolParserManager.register_module(name=PREFIX + name, module=kind)
        if reasoning:
            kind = Composed("UnspoolReasoningParser", (HostReasoningHalf,), made)
            ReasoningParserManager.register_module(name=PREFIX + name, module=kind)
