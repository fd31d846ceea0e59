"""lmdeploy: a response parser for both reasoning and calls.

lmdeploy loads no plug-ins. This module is its command line with unspool's parsers registered before it runs::

    python -m unspool.plugins.lmdeploy serve api_server MODEL --tool-call-parser unspool_<dialect>
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from .. import Stage, constrain, get_dialect
from .host import AUTO, PREFIX, abilities, dialect_for, registered, tools_of
from .reader import Keep, OutputReader, ReadPiece, reader_of

__all__ = ["ResponseHalf", "main", "register"]

WRITTEN_FOR: Final = "0.18"


class ResponseHalf:
    """lmdeploy's response parser. If no parser of ours is selected, lmdeploy's own works as usual. Requests have no
    prompt, so the output itself decides where it begins, unless thinking is off."""

    make_message: ClassVar[Any]
    tool_parser_cls: ClassVar[Any]
    reasoning_parser_cls: ClassVar[Any]
    tokenizer: ClassVar[Any]
    request: Any
    enable_thinking: bool | None

    def __init__(self, request: Any) -> None:
        super().__init__(request)  # type: ignore[call-arg]  # the host's class comes after this one
        calls, thoughts = self._ours()
        self._reader: OutputReader | None = None
        if calls or thoughts:
            self.request = self.request.model_copy(update={"skip_special_tokens": False})
            self._reader = self._read(request, calls, thoughts)

    def _ours(self) -> tuple[str | None, str | None]:
        """The names of the dialects for calls and for reasoning; ``None`` for a parser that is not ours."""
        kinds = (type(self).tool_parser_cls, type(self).reasoning_parser_cls)
        calls, thoughts = (getattr(kind, "dialect_name", None) for kind in kinds)
        return calls, thoughts

    def _initialize_reasoning_token_counter(self) -> None:
        """Count nothing if a parser is ours: the host counts between two tokens, but our markers need not be tokens."""
        if any(self._ours()):
            self.reasoning_tokens: int | None = None
        else:
            super()._initialize_reasoning_token_counter()  # type: ignore[misc]

    def _read(self, request: Any, calls: str | None, thoughts: str | None) -> OutputReader:
        d = dialect_for(calls or thoughts or AUTO, type(self).tokenizer)
        if calls and thoughts and thoughts != calls:
            d = get_dialect(d.name, reasoning=dialect_for(thoughts, type(self).tokenizer).name)
        undecided = thoughts and self.enable_thinking is not False and d.reasoning
        return reader_of(
            d,
            type(self).tokenizer,
            keep=Keep.NOTHING if thoughts else Keep.REASONING,
            tools=(request.tools if calls else None) or (),
            tool_choice=request.tool_choice,
            stage=Stage.UNDECIDED if undecided else Stage.CONTENT,
        )

    def stream_chunk(self, delta_text: str, delta_token_ids: Sequence[int], **kwargs: Any) -> Any:
        """The messages of the next piece, each with a flag that says whether it has calls."""
        if self._reader is None:
            return super().stream_chunk(delta_text, delta_token_ids, **kwargs)  # type: ignore[misc]
        delta = self._reader.feed(delta_text)
        if kwargs.get("final"):
            self._reader.join(delta, self._reader.close())
        return [(type(self).make_message(delta), bool(delta.calls))] if delta else []


def register() -> None:
    """Register every dialect with lmdeploy, in addition to its own parsers."""
    registered("lmdeploy", WRITTEN_FOR, _register)


def _register() -> None:
    from lmdeploy.serve.openai import protocol
    from lmdeploy.serve.parsers.reasoning_parser import ReasoningParserManager
    from lmdeploy.serve.parsers.reasoning_parser.reasoning_parser import ReasoningParser
    from lmdeploy.serve.parsers.response_parser import BaseResponseParser, ResponseParserManager
    from lmdeploy.serve.parsers.tool_parser import ToolParser, ToolParserManager

    def make_message(delta: ReadPiece) -> Any:
        calls = [
            protocol.DeltaToolCall(
                index=c.index,
                id=c.id,
                type=None if c.name is None else "function",
                function=protocol.DeltaFunctionCall(name=c.name, arguments=c.arguments),
            )
            for c in delta.calls
        ]
        return protocol.DeltaMessage(
            role="assistant",
            content=delta.content or None,
            reasoning_content=delta.reasoning or None,
            tool_calls=calls or None,
        )

    class Host(ResponseHalf, BaseResponseParser):  # type: ignore[misc,unused-ignore]
        pass

    class HostToolParser(ToolParser):  # type: ignore[misc,unused-ignore]
        dialect_name: ClassVar[str] = AUTO

        @classmethod
        def get_tool_open_tag(cls) -> str:
            return PREFIX  # the host requires a tag, but does not search for it

        get_tool_close_tag = get_tool_open_tag

        @classmethod
        def build_required_response_format(cls, tools: Any, *, reasoning: bool) -> Any:
            d = dialect_for(cls.dialect_name, Host.tokenizer)
            made = constrain(d, tools_of(tools), "required", stage=None if reasoning else Stage.CONTENT)
            return None if made is None else made.structural_tag

    class HostReasoningParser(ReasoningParser):  # type: ignore[misc,unused-ignore]
        dialect_name: ClassVar[str] = AUTO

        @classmethod
        def validate_tokenizer(cls, tokenizer: Any) -> None:
            """Markers need not be tokens."""

    Host.make_message = staticmethod(make_message)
    ResponseParserManager.register_module("default", force=True, module=Host)
    for name, calls, reasoning in abilities():
        made = {"dialect_name": name}
        known = PREFIX + name.replace(".", "_")  # to the host, the text before a dot is the name of another registry
        if calls:
            ToolParserManager.register_module(known, module=type("UnspoolToolParser", (HostToolParser,), made))
        if reasoning:
            kind = type("UnspoolReasoningParser", (HostReasoningParser,), made)
            ReasoningParserManager.register_module(known, module=kind)


def main() -> None:
    """lmdeploy's command line, with unspool's parsers."""
    from lmdeploy.cli.entrypoint import run

    register()
    run()


if __name__ == "__main__":
    main()
