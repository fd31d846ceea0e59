"""The tools that Anthropic's and OpenAI's models know without a schema, and that clients run themselves: shell, editor,
screen and memory. Other models get a function with the same arguments."""

import re
from collections.abc import Collection
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
words that it may be, the number of its integers, a list of one, or an object, whose first field is required."""
_CLICKS: Final = {
    "type": ("click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"),
    "x": "integer", "y": "integer", "button": ("left", "right", "wheel", "back", "forward"), "keys": ["string"],
    "path": [{"x": "integer", "y": "integer"}], "scroll_x": "integer", "scroll_y": "integer", "text": "string",
}  # fmt: skip
_SCREEN: Final = (
    "Uses a screen{size}, mouse and keyboard, and returns a screenshot. x and y are pixels from the upper left; path "
    "is where a drag goes, text what is typed, keys what is pressed, or held during another action."
)
_OPENAIS: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {
    "shell": (
        "Runs commands in the user's shell, each on its own, and returns what they print. Output beyond "
        "max_output_length characters is cut.",
        {"commands": ["string"], "timeout_ms": "integer", "max_output_length": "integer"},
        ("commands",),
    ),
    "local_shell": (
        "Runs a program on the user's machine, without a shell; command is the program with its arguments.",
        {
            "command": ["string"], "env": "object", "working_directory": "string", "timeout_ms": "integer",
            "user": "string",
        },
        ("command",),
    ),
    "apply_patch": (
        "Changes one file. create_file writes a new one, whose lines follow a + each in diff. update_file makes the "
        "changes of diff: each begins with a line of @@, which may go on with the function or class it is in, then "
        "lines that begin with a space if they stay, - if they go, + if they come. delete_file has no diff.",
        {"type": ("create_file", "update_file", "delete_file"), "path": "string", "diff": "string"},
        ("type", "path"),
    ),
    "computer": (f"{_SCREEN} The actions follow one another.", {"actions": [_CLICKS]}, ("actions",)),
    "computer_use": (_SCREEN, _CLICKS, ("type",)),
}  # fmt: skip
"""The same of OpenAI's tools, by their kinds; see `unspool.wire.freeform.ITEMS`."""
TYPES: Final = ("bash_DATE", "text_editor_DATE", "memory_DATE", "computer_DATE")
"""Their types, for errors."""


def client_tool(one: Fields) -> dict[str, Any] | None:
    """The function that stands for a tool; ``None`` if it is none of these."""
    kind = one.text("type", "custom")
    found = next((row for pattern, row in _KNOWN.items() if re.fullmatch(pattern, kind)), None)
    if found is None:
        return None
    description, arguments, required = found
    size = _size(one, "display_width_px", "display_height_px")
    parameters = _object(arguments, required)
    return tool(one.text("name"), description.replace("{size}", size), parameters, one.flag("strict", None))


def openai_tool(one: Fields, kind: str) -> dict[str, Any]:
    """The function that stands for a tool of OpenAI's that clients run."""
    description, arguments, required = _OPENAIS[kind]
    description = description.replace("{size}", _size(one, "display_width", "display_height"))
    if kind == "shell":
        environment = one.object("environment")
        environment.one_of("type", ("local",), "local")  # no containers are run here
        for skill in environment.objects("skills", ()):
            name, path, about = (skill.text(field) for field in ("name", "path", "description"))
            description += f"\nThe folder {path} holds instructions, {name}: {about}"
    return tool(kind, description, _object(arguments, required))


def _size(one: Fields, width: str, height: str) -> str:
    across, down = one.integer(width, 1), one.integer(height, 1)
    return f" of {across} × {down} pixels" if across and down else ""


def _object(arguments: dict[str, Any], required: Collection[str]) -> dict[str, Any]:
    properties = {name: _schema(given) for name, given in arguments.items()}
    return {"type": "object", "properties": properties, "required": list(required)}


def _schema(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return _object(given, tuple(given)[:1])
    if isinstance(given, list):
        return {"type": "array", "items": _schema(given[0])}
    if isinstance(given, tuple):
        return {"type": "string", "enum": list(given)}
    if isinstance(given, int):
        return {"type": "array", "items": {"type": "integer"}, "minItems": given, "maxItems": given}
    return {"type": given}
