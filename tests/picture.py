"""The picture of the README: an output, coloured by the events that cover it, and the message that they make."""

from html import escape
from pathlib import Path

import unspool

from .support import tool

PICTURE = Path(__file__).parent.parent / "docs" / "picture.svg"

OUTPUT = """<think>They want a forecast.</think>I will look it up.
<tool_call>
<function=get_weather>
<parameter=city>Paris</parameter>
<parameter=days>3</parameter>
</function>
</tool_call>"""
_TOOLS = [tool("get_weather", city="string", days="integer")]
_WIDTH, _LINE, _CHARACTER = 860, 22, 7.8
_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre; }
.label { font: 600 12px system-ui, sans-serif; fill: #59636e; }
.panel { fill: none; stroke: #d1d9e0; }
.reasoning { fill: #e4d8fb; } .content { fill: #cfe5fd; } .call { fill: #fde3b8; } .markup { fill: #e9ecef; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .label { fill: #9198a1; } .panel { stroke: #3d444d; }
  .reasoning { fill: #4b3a78; } .content { fill: #1c4a7a; } .call { fill: #6b4b12; } .markup { fill: #30363d; }
}
"""


def picture() -> str:
    """The picture as SVG, made from the events of `OUTPUT`."""
    parser = unspool.Parser("qwen3-coder", tools=_TOOLS)
    events = [*parser.feed(OUTPUT), *parser.close("stop")]
    shapes = [_label(24, 30, "what the model writes"), _label(540, 30, "what you get")]
    left, bottom = _runs(events)
    shapes += left + _message(parser.message)
    height = bottom + 24
    shapes.insert(0, _panel(12, 40, 500, bottom - 30) + _panel(528, 40, 320, bottom - 30))
    title = "An output of a model, coloured by what unspool reads in it, beside the message that it makes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{title}">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(shapes) + "\n</svg>\n"
    )


def _runs(events: list[unspool.Event]) -> tuple[list[str], int]:
    """The output, with the span of each event in its colour, and where the drawing ends."""
    shapes: list[str] = []
    line, column = 0, 0
    for event in events:
        for i, text in enumerate(OUTPUT[event.start : event.end].split("\n")):
            if i:
                line, column = line + 1, 0
            if text:
                shapes.append(_run(24 + column * _CHARACTER, 66 + line * _LINE, text, _kind(event)))
            column += len(text)
    return shapes, 66 + line * _LINE + 20


def _kind(event: unspool.Event) -> str:
    match event:
        case unspool.ReasoningDelta():
            return "reasoning"
        case unspool.ContentDelta():
            return "content"
        case unspool.ToolCallStart() | unspool.ToolCallDelta() | unspool.ToolCallEnd():
            return "call"
        case _:
            return "markup"


def _message(message: unspool.Message) -> list[str]:
    call = message.tool_calls[0]
    rows = [
        ("reasoning", "reasoning", message.reasoning),
        ("content", "content", message.content),
        ("tool call", "call", call.name),
        ("arguments", "call", call.arguments),
        ("status", "markup", call.status),
    ]
    shapes = []
    for i, (name, kind, text) in enumerate(rows):
        at = 66 + i * _LINE * 1.4
        shapes += [_label(540, at, name), _run(616, at, text, kind)]
    return shapes


def _run(x: float, y: float, text: str, kind: str) -> str:
    width = len(text) * _CHARACTER
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y - 14:.1f}" width="{width:.1f}" height="19" rx="2"/>'
        f'<text x="{x:.1f}" y="{y:.1f}" textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
    )


def _label(x: float, y: float, text: str) -> str:
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}">{text}</text>'


def _panel(x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="panel" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
