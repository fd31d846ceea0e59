"""Your own format: describe it in TOML, check it, then parse, render and constrain with it.

python examples/own_dialect.py
"""

import tempfile
from pathlib import Path

import unspool
from unspool.check import check_dialect

WREN = r'''
name = "wren"
start = "<wren>\n"
end = ["</wren>"]
reasoning = "<plan>\n{reasoning}\n</plan>\n"
calls = "\n{calls}"
call = "<do tool=\"{name}\">\n{arguments}</do>"
argument = "<with name=\"{key}\">{value}</with>\n"
separator.calls = "\n"

[[examples]]
raw = """
<plan>
One city.
</plan>
I look it up.
<do tool="get_weather">
<with name="city">Paris</with>
<with name="days">3</with>
</do>"""
reasoning = "One city."
content = "I look it up."
tool_calls = [{ name = "get_weather", arguments = { city = "Paris", days = 3 } }]
'''
DAYS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": DAYS}}]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wren.toml")
        path.write_text(WREN, encoding="utf-8")
        wren = unspool.load_dialect(path)
    print("failures:", check_dialect(wren))

    raw = '<do tool="get_weather">\n<with name="city">Oslo</with>\n<with name="days">2</with>\n</do>'
    message = unspool.parse(raw, wren, tools=TOOLS)
    print(message.tool_calls[0].name, message.tool_calls[0].arguments)
    assert unspool.render(message, wren, tools=TOOLS) == raw
    constraint = unspool.constrain(wren, TOOLS, tool_choice="required")
    assert constraint is not None
    print(len(constraint.lark.splitlines()), "rules of grammar")


if __name__ == "__main__":
    main()
