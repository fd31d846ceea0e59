"""The forms in which a chat template accepts a call in its history, found by rendering one."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..dialect.file import Dialect
from ..parser import parse
from .tojson import tojson

NAME: Final = "get_weather"
IDS: Final = ("call00001", f"functions.{NAME}:0")  # templates may demand nine letters and digits, or the tool's name
ASKED: Final = {"role": "user", "content": "?"}
_ARGUMENTS: Final = {"city": "Paris", "days": 3}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


class AcceptedForm(NamedTuple):
    objects: bool = True  # whether arguments are objects instead of JSON text
    nothing: str | None = ""  # the content of a message without text: many templates print ``None`` or fail on it
    id: str = IDS[0]

    def answer(self) -> dict[str, Any]:
        """A message with a call, whose arguments are as in all forms."""
        arguments = _ARGUMENTS if self.objects else tojson(_ARGUMENTS)
        call = {"id": self.id, "type": "function", "function": {"name": NAME, "arguments": arguments}}
        return {"role": "assistant", "content": self.nothing, "tool_calls": [call]}


FORMS: Final = [AcceptedForm(objects, nothing, id) for objects in (True, False) for nothing in ("", None) for id in IDS]


class Shown(NamedTuple):
    """A call that a template rendered: its form, the prompt before it, and the turn."""

    form: AcceptedForm
    prompt: str
    turn: str


def shown(render: Callable[[list[Mapping[str, Any]]], str | None]) -> Iterator[Shown]:
    """A call in each form that a template accepts; ``render`` returns ``None`` for what it refuses."""
    prompt = render([ASKED])
    if prompt is None:
        return
    for form in FORMS:
        whole = render([ASKED, form.answer()])
        if whole is None:  # it expects another form, or no calls
            continue
        same = next((i for i, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(prompt))
        if "Paris" in whole[same:]:
            yield Shown(form, whole[:same], whole[same:])


def reads(dialect: Dialect, written: Shown) -> bool:
    """Whether a dialect finds the call in the turn, which may begin with its own opening."""
    turn = written.turn
    openings = [turn.find(start) + len(start) for start in dialect.start if start in turn]
    return any(_reads_turn(dialect, written.prompt + turn[:at], turn[at:]) for at in sorted({0, *openings}))


def _reads_turn(dialect: Dialect, prompt: str, turn: str) -> bool:
    message = parse(turn, dialect, tools=[TOOL], prompt=prompt)
    if [c.name for c in message.tool_calls] != [NAME] or message.tool_calls[0].status != "ok":
        return False
    found: dict[str, Any] = json.loads(message.tool_calls[0].arguments)
    # The templates of some families write every value as a string, but their models do not.
    return {name: str(value) for name, value in found.items()} == {n: str(v) for n, v in _ARGUMENTS.items()}
