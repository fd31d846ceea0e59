"""The command ``chat``: a conversation in the terminal, with an engine or with a server of chat completions."""

import argparse

from .common import Misuse, read_key, read_tool_choice
from .generate import request_arguments, request_body
from .local import is_local
from .model import model_arguments, name_engine, open_model


def chat_arguments(p: argparse.ArgumentParser) -> None:
    text = "a server of chat completions, such as http://127.0.0.1:8192; default: an engine, see --engine"
    p.add_argument("url", metavar="URL|MODEL.gguf", nargs="?", help=text)
    p.add_argument("--api-key", metavar="KEY|@FILE", help="the key of the server at URL")
    model_arguments(p)
    request_arguments(p)
    p.add_argument(
        "--mcp-config", metavar="FILE", help='MCP servers whose tools run here: {"mcpServers": {"NAME": {…}}}'
    )
    p.add_argument("--yes", action="store_true", help="run the tools of MCP servers without asking")


def run_chat(options: argparse.Namespace) -> int:
    """Talk until the input ends. The exit code is 1 if the input is not a terminal and a turn failed."""
    if options.url is not None and is_local(options.url):
        name_engine(options, options.url)
        options.url = None
    if options.url is not None and options.engine is not None:
        raise Misuse("--engine: cannot be combined with URL")
    import asyncio  # slow to import, as are the modules that use it

    from .chat_partners import EnginePartner, Partner, ServerPartner
    from .chat_tools import Toolbox
    from .conversation import Conversation, allowed

    body = request_body(options)
    partner: Partner
    if options.url is not None:
        partner = ServerPartner(options.url, read_key("--api-key", options.api_key), options.model)
    else:
        partner = EnginePartner(open_model(options))
    with asyncio.Runner() as runner:
        try:
            toolbox = Toolbox(runner, options.mcp_config, ask=None if options.yes else allowed)
            body["tools"] = [*body.get("tools", ()), *toolbox.definitions]
            if not body["tools"]:
                del body["tools"]
            elif "tool_choice" not in body:
                body["tool_choice"] = read_tool_choice(options.tool_choice, body["tools"])
            try:
                return Conversation(runner, partner, toolbox, body).run()
            finally:
                toolbox.close()
        finally:
            partner.close(runner)
