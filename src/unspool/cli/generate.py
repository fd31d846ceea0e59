"""The command ``generate``: one answer of any engine, shown as it is generated."""

import argparse
import sys
from typing import Any

from .common import Misuse, missing, one_of, read_json, read_text, read_tool_choice, read_tools, write, write_json
from .model import Model, model_arguments, open_model
from .parse import FORMATS, shower


def generate_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("prompt", metavar="PROMPT", nargs="?", help="the prompt; default: standard input")
    model_arguments(p)
    p.add_argument("--system", metavar="TEXT", help="the system message")
    p.add_argument("--messages", metavar="FILE", help="earlier messages, a JSON list in OpenAI's format")
    p.add_argument("--tools", metavar="FILE", help="the tools, a JSON list in OpenAI's format")
    p.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto, none, required, or a tool's name")
    p.add_argument("--no-parallel", action="store_true", help="at most one call")
    p.add_argument("--response-format", metavar="FILE", help="OpenAI's response_format")
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
    formats = (*FORMATS, "raw")
    text = f"{', '.join(formats)}; default: pretty"
    p.add_argument("--format", type=one_of(formats), metavar="FORMAT", default="pretty", help=text)


def run_generate(options: argparse.Namespace) -> int:
    """Generate; the exit code is 1 where the engine fails."""
    body = _body(options)
    model = open_model(options)
    import asyncio

    from ..engines import EngineError

    try:
        asyncio.run(_generate(model, body, options.format))
    except EngineError as error:
        print(f"unspool generate: the engine failed: {error}", file=sys.stderr)
        return 1
    return 0


def _body(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments as a request of chat completions, which is read and checked as by the server."""
    messages = [] if options.system is None else [{"role": "system", "content": options.system}]
    if options.messages is not None:
        before = read_json("--messages", options.messages)
        if not isinstance(before, list):
            raise Misuse(f"--messages: {options.messages}: must be a JSON list of messages")
        messages += before
    prompt = _prompt(options)
    messages.append({"role": "user", "content": prompt})
    tools = read_tools(options.tools)
    body = {
        "messages": messages,
        "tools": tools or None,
        "tool_choice": read_tool_choice(options.tool_choice, tools) if tools else None,
        "parallel_tool_calls": not options.no_parallel,
        "response_format": options.response_format and read_json("--response-format", options.response_format),
        "thinking": False if options.no_thinking else None,
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "seed": options.seed,
    }
    return {name: value for name, value in body.items() if value is not None}


def _prompt(options: argparse.Namespace) -> str:
    """The prompt. Recordings answer any prompt, so none is needed for them."""
    if options.prompt is None and all(engine.startswith("replay:") for engine in options.engine or ["builtin"]):
        return ""
    if options.prompt not in (None, "-"):
        return str(options.prompt)
    if sys.stdin.isatty():
        print("unspool generate: type the prompt, and end it with Ctrl-D on a line of its own", file=sys.stderr)
    return read_text("PROMPT", "-")


async def _generate(model: Model, body: dict[str, Any], form: str) -> None:
    try:
        from ..generation.choice import Choice
        from ..request.continuation import Turns
        from ..request.fields import BadRequest, Fields
        from ..request.prepared import prepare
        from ..request.protocols import ChatProtocol
    except ImportError as error:
        raise missing(error, "server") from None
    from ..request.settings import Settings

    settings = Settings(
        model=model.name,
        dialect=model.dialect,
        policy=model.policy,
        strict_level=model.strict_level,
        tools=model.tools,
        tool_choice=model.tool_choice,
    )
    tokenizer = model.engine.tokenizer
    try:
        turns = None if model.prompts is None else Turns(settings, model.prompts)
        prepared = prepare(ChatProtocol(settings).read(Fields(body)), settings, turns, tokenizer)
    except BadRequest as error:
        raise Misuse(str(error)) from None
    (parser,) = prepared.parsers
    choice = Choice(parser, (), None, keep=False, by_ids=tokenizer is not None)
    show = shower(form)
    stream = model.engine.generate(prepared.for_engine(settings, "generate", 0))
    try:
        async for delta in stream:
            if form == "raw":
                write(delta.text)
            show(choice.feed(delta))
    finally:
        await stream.aclose()
        await model.engine.close()
    show(choice.close())
    if form == "message":
        write_json(parser.message)
    elif form == "openai":
        write_json(parser.message.to_openai())
