"""The tools of Messages that Anthropic's models know without a schema, and that clients run themselves: shell, editor,
screen and memory. Other models get a function with the same name and arguments."""

import re
from typing import Any, Final

from .common import tool
from .fields import Fields

_FILES: Final = {"path": "string", "file_text": "string", "old_str": "string", "new_str": "string"}
_LINES: Final = {"insert_line": "integer", "insert_text": "string", "view_range": 2}
_EDITING: Final = (
    "view shows a file, from the first to the last line of view_range (-1: the end), or lists a folder; create writes "
    "file_text to a new file; str_replace puts new_str in the place of old_str, which must occur exactly once; insert "
    "puts a text behind the line insert_line (0: at the beginning)"
)
_COMMANDS: Final = ("view", "create", "str_replace", "insert")
_ACTIONS: Final = (
    "key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up", "left_click",
    "left_click_drag", "right_click", "middle_click", "double_click", "triple_click", "scroll", "wait", "screenshot",
    "zoom",
)  # fmt: skip
_KNOWN: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {
    r"bash_2\d{7}": (
        "Runs a command in a shell, which keeps its state between calls; restart begins a new one.",
        {"command": "string", "restart": "boolean"},
        (),
    ),
    r"text_editor_(?:2024\d{4}|20250124)": (
        f"Shows and edits files: {_EDITING}, as new_str; undo_edit takes the last change of a file back.",
        {"command": (*_COMMANDS, "undo_edit"), **_FILES, "insert_line": "integer", "view_range": 2},
        ("command", "path"),
    ),
    r"text_editor_2\d{7}": (
        f"Shows and edits files: {_EDITING}.",
        {"command": _COMMANDS, **_FILES, **_LINES},
        ("command", "path"),
    ),
    r"memory_2\d{7}": (
        f"Shows and edits the files under /memories, which last: {_EDITING}; delete removes a file or folder; rename "
        "moves old_path to new_path. Look there before a task for what earlier work has left.",
        {"command": (*_COMMANDS, "delete", "rename"), **_FILES, **_LINES, "old_path": "string", "new_path": "string"},
        ("command",),
    ),
    r"computer_2\d{7}": (
        "Uses a screen{size}, mouse and keyboard. screenshot shows the screen, zoom the part of it between two corners "
        "(region). coordinate is a place in pixels from the upper left, start_coordinate where left_click_drag begins. "
        "text is what is typed, or for key and hold_key the keys as xdotool names them (ctrl+s, Return); duration is "
        "in seconds.",
        {
            "action": _ACTIONS, "coordinate": 2, "start_coordinate": 2, "text": "string", "duration": "number",
            "scroll_direction": ("up", "down", "left", "right"), "scroll_amount": "integer", "region": 4,
        },
        ("action",),
    ),
}  # fmt: skip
"""By a pattern of their types: what they do, their arguments, and those that are required. An argument is a type, the
words that it may be, or the number of its integers."""
TYPES: Final = ("bash_DATE", "text_editor_DATE", "memory_DATE", "computer_DATE")
"""Their types, for errors."""


def client_tool(one: Fields) -> dict[str, Any] | None:
    """The function that stands for a tool; ``None`` if it is none of these."""
    kind = one.text("type", "custom")
    found = next((row for pattern, row in _KNOWN.items() if re.fullmatch(pattern, kind)), None)
    if found is None:
        return None
    told, arguments, required = found
    width, height = one.integer("display_width_px", 1), one.integer("display_height_px", 1)
    size = f" of {width} × {height} pixels" if width and height else ""
    properties = {name: _schema(given) for name, given in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return tool(one.text("name"), told.replace("{size}", size), parameters, one.flag("strict", None))


def _schema(given: Any) -> dict[str, Any]:
    if isinstance(given, tuple):
        return {"type": "string", "enum": list(given)}
    if isinstance(given, int):
        return {"type": "array", "items": {"type": "integer"}, "minItems": given, "maxItems": given}
    return {"type": given}
