"""The command ``generate``: one answer from any engine, shown as it is generated."""

import argparse
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..events import Event
from ..message import Message
from .common import Misuse, OneOf, load_json, load_tools, needing, read_text, read_tool_choice, say, write, write_json
from .local import is_local
from .model import OpenedModel, model_arguments, name_engine, open_model
from .parse import FORMATS, shower

if TYPE_CHECKING:
    from ..engines import Delta


def generate_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("texts", metavar="[MODEL.gguf] [PROMPT]", nargs="*", help="the prompt; default: standard input")
    model_arguments(p.add_argument_group("model and engine"))
    request_arguments(p)
    p.add_argument("--response-format", metavar="FILE", help="OpenAI's response_format")
    formats = (*FORMATS, "raw")
    text = f"{', '.join(formats)}; default: pretty"
    p.add_argument("--format", type=OneOf(formats), metavar="FORMAT", default="pretty", help=text)


def request_arguments(p: argparse.ArgumentParser) -> None:
    """Add the arguments of a request, except its prompt."""
    p.add_argument("--system", metavar="TEXT", help="the system message")
    p.add_argument("--messages", metavar="FILE", help="earlier messages, a JSON list in OpenAI's format")
    p.add_argument("--tools", metavar="FILE", help="the tools, a JSON list in OpenAI's format")
    p.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto, none, required, or a tool's name")
    p.add_argument("--no-parallel", action="store_true", help="at most one call")
    p.add_argument("--no-thinking", action="store_true", help="switch thinking off in the chat template")
    p.add_argument(
        "--max-tokens", type=int, metavar="N", help="maximum length of the output; default: the engine's limit"
    )
    p.add_argument(
        "--temperature", type=float, metavar="T", help="sampling temperature; 0 always takes the most likely token"
    )
    p.add_argument(
        "--top-p", type=float, metavar="P", help="nucleus sampling: probability mass of the tokens to choose from"
    )
    p.add_argument("--seed", type=int, metavar="N", help="seed for sampling, if the engine supports it")


def run_generate(options: argparse.Namespace) -> int:
    """Generate. The exit code is 1 if the engine fails."""
    if options.texts and is_local(options.texts[0]):
        name_engine(options, options.texts.pop(0))
    if len(options.texts) > 1:
        hint = "a model comes first" if is_local(options.texts[1]) else "put quotes around the prompt"
        raise Misuse(f"PROMPT: {options.texts[1]!r} is one too many; {hint}")
    options.prompt = options.texts[0] if options.texts else None
    body = request_body(options)
    body["messages"].append({"role": "user", "content": _prompt(options)})
    if options.response_format is not None:
        body["response_format"] = load_json("--response-format", options.response_format)
    model = open_model(options)
    import asyncio

    from ..engines import EngineError

    try:
        asyncio.run(_generate(model, body, options.format))
    except EngineError as error:
        say(f"unspool generate: the engine failed: {error}")
        return 1
    return 0


def request_body(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `request_arguments` as a chat completions request; its messages may be empty."""
    messages = [] if options.system is None else [{"role": "system", "content": options.system}]
    if options.messages is not None:
        before = load_json("--messages", options.messages)
        if not isinstance(before, list):
            raise Misuse(f"--messages: {options.messages}: must be a JSON list of messages")
        messages += before
    tools = load_tools(options.tools)
    body = {
        "messages": messages,
        "tools": tools or None,
        "tool_choice": read_tool_choice(options.tool_choice, tools) if tools else None,
        "parallel_tool_calls": not options.no_parallel,
        "thinking": False if options.no_thinking else None,
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "seed": options.seed,
    }
    return {name: value for name, value in body.items() if value is not None}


def _prompt(options: argparse.Namespace) -> str:
    """The prompt. Recordings answer any prompt, so none is needed for them."""
    if options.prompt is None and options.engine and all(engine.startswith("replay:") for engine in options.engine):
        return ""
    if options.prompt not in (None, "-"):
        return str(options.prompt)
    if sys.stdin.isatty():
        say("unspool generate: type the prompt, then press Ctrl-D on an empty line")
    return read_text("PROMPT", "-")


async def _generate(model: OpenedModel, body: dict[str, Any], form: str) -> None:
    show = shower(form)
    try:
        answer = EngineAnswer(model, body)
        async for delta, events in answer.pieces():
            if form == "raw":
                write(delta.text)
            show(events)
    finally:
        await model.engine.close()
    if form == "message":
        write_json(answer.message)
    elif form == "openai":
        write_json(answer.message.to_openai())


class EngineAnswer:
    """One answer of a model's engine to a chat completions request, without a server."""

    def __init__(self, model: OpenedModel, body: dict[str, Any]) -> None:
        with needing("server"):
            from ..generation.choice import ChoiceReader
            from ..request.continuation import Turns
            from ..request.fields import BadRequest, Fields
            from ..request.parts.reading import settled
            from ..request.prepared import prepare
            from ..request.protocols import ChatProtocol
        settings, tokenizer = model.settings, model.engine.tokenizer
        try:
            turns = None if model.prompts is None else Turns(settings, model.prompts)
            request = settled(ChatProtocol(settings).read(Fields(body)), {}, settings.limits)
            prepared = prepare(request, settings, turns, tokenizer)
        except BadRequest as error:
            raise Misuse(str(error)) from None
        (self._parser,) = prepared.parsers
        self._choice = ChoiceReader(self._parser, (), None, keep=False, by_ids=tokenizer is not None)
        self._engine = model.engine
        self._request = prepared.for_engine(settings, "generate", 0)

    async def pieces(self) -> "AsyncGenerator[tuple[Delta, list[Event]], None]":
        """The engine's pieces, each with its events, and at the end an empty piece with the last events."""
        from ..engines import Delta, check_media

        check_media(self._engine, self._request)
        stream = self._engine.generate(self._request)
        try:
            async for delta in stream:
                yield delta, self._choice.feed(delta)
        finally:
            await stream.aclose()
        yield Delta(), self._choice.close()

    @property
    def message(self) -> Message:
        return self._parser.message
