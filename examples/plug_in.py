"""unspool with SGLang's own interface, for a host that already uses it. SGLang need not be installed.

    python examples/plug_in.py

Inside SGLang, vLLM and FastDeploy no code is needed: `pip install` unspool there, and pass
`--tool-call-parser unspool_hermes --reasoning-parser unspool_hermes`.
"""

from unspool.plugins.sglang import FunctionCallParser

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
CHUNKS = [
    "I look it up.\n<tool",
    '_call>\n{"name": "get_wea',
    'ther", "arguments": {"ci',
    'ty": "Paris"}}\n</tool_call>',
]


def main() -> None:
    parser = FunctionCallParser(TOOLS, "qwen25")
    text, arguments = "", ""
    for chunk in CHUNKS:
        piece, calls = parser.parse_stream_chunk(chunk)
        text += piece
        for call in calls:
            if call.name:
                print("call", call.tool_index, call.name)
            arguments += call.parameters
    piece, _ = parser.parse_stream_end()
    print("text", repr(text + piece))
    print("arguments", arguments)
    # The engine needs these to force a call: the begin, the end and the trigger of a structural tag.
    print(parser.detector.structure_info()("get_weather"))


if __name__ == "__main__":
    main()
