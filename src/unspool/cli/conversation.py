"""The conversation of ``chat``: reads the user's lines, shows answers, and runs commands."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .chat_partners import Partner, PartnerError
from .chat_tools import Toolbox
from .common import Misuse, colors, write
from .parse import shower

_ROUNDS: Final = 32
"""How many rounds of calls the model may make before the user must answer."""
_PROMPT: Final = "> "
_SHOWING: Final = frozenset({"/raw", "/tools", "/messages", "/help"})
"""Commands that change nothing; they may also be entered instead of a result."""
_CONTROLS: Final = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}
_HELP: Final = """\
/raw       the last output as its tokens, special ones included
/tools     the tools
/messages  the conversation as JSON
/undo      forget the last turn
/clear     start over
/save FILE write the conversation as JSON
/help      show this list
/quit      quit, like Ctrl-D. Ctrl-C stops an answer
A line that ends with \\ continues on the next one.
"""


class Conversation:
    """A conversation.

    Attributes:
        messages: the messages so far, in the form of chat completions.
    """

    def __init__(self, runner: asyncio.Runner, partner: Partner, toolbox: Toolbox, body: dict[str, Any]) -> None:
        self._runner = runner
        self._partner = partner
        self._toolbox = toolbox
        self._body = body
        self._first: list[dict[str, Any]] = body["messages"]
        self.messages = list(self._first)
        self._failed = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/raw": lambda _: write(shown_raw(self._partner.raw, color=colors())),
            "/tools": lambda _: write("".join(map(_tool_line, self._body.get("tools", ()))) or "no tools\n"),
            "/messages": lambda _: write(_indented(self.messages)),
            "/undo": self._undo,
            "/clear": self._clear,
            "/save": self._save,
            "/help": lambda _: write(_HELP),
        }

    def run(self) -> int:
        """Talk until the input ends."""
        terminal = sys.stdin.isatty()
        if terminal:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  # gives `input` its editing and history
            write(f"{self._partner.name}; /help lists the commands, Ctrl-D ends\n")
        while (line := _line()) is not None:
            if line == "/quit":
                break
            command, _, rest = line.partition(" ")
            if command.startswith("/"):
                if command in self._commands:
                    self._commands[command](rest.strip())
                else:
                    self._tell(f"there is no command {command}; /help lists them")
            elif line.strip():
                self._turn(line)
        if terminal:
            write("\n")
        return 1 if self._failed and not terminal else 0

    def _turn(self, text: str) -> None:
        """One turn: the user's message, the calls, and the answer. A turn that fails is forgotten."""
        before = len(self.messages)
        self.messages.append({"role": "user", "content": text})
        try:
            for _ in range(_ROUNDS):
                body = {**self._body, "messages": self.messages}
                said = self._runner.run(self._partner.ask(body, shower("pretty")))
                self.messages.append(said)
                calls = said.get("tool_calls") or ()
                if not calls:
                    return
                for call in calls:
                    self.messages.append(self._result(call))
            self._tell(f"{_ROUNDS} rounds of calls; say how to go on")
        except PartnerError as error:
            self._tell(str(error))
        except Misuse as error:
            self._tell(str(error))
        except (KeyboardInterrupt, EOFError):
            write("\n")
            self._tell("ended; this turn is forgotten", failed=False)
        else:
            return
        del self.messages[before:]

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        """The message with a call's result, which comes from an MCP server's tool or from the user."""
        name = call["function"]["name"]
        result = self._toolbox.call(name, call["function"]["arguments"])
        if result is None:
            while (result := _asked(f"result of {name}: ")) in _SHOWING:
                self._commands[result]("")
        else:
            write(f"{'result':<11}{_plain(result)}\n")
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    def _undo(self, rest: str) -> None:
        while len(self.messages) > len(self._first) and self.messages.pop()["role"] != "user":
            pass

    def _clear(self, rest: str) -> None:
        self.messages = list(self._first)

    def _save(self, rest: str) -> None:
        if not rest:
            self._tell("/save: name the file")
            return
        try:
            Path(rest).write_text(_indented(self.messages), encoding="utf-8")
        except OSError as error:
            self._tell(f"/save: {rest}: {error.strerror}")

    def _tell(self, text: str, failed: bool = True) -> None:
        self._failed = self._failed or failed
        print(f"unspool chat: {_plain(text)}", file=sys.stderr, flush=True)


def _line() -> str | None:
    """The user's next message; ``None`` at the end of the input."""
    lines = []
    try:
        lines.append(_asked(_PROMPT))
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(_asked("  "))
    except (EOFError, KeyboardInterrupt):
        return "\n".join(lines) if lines else None
    return "\n".join(lines)


def _asked(prompt: str) -> str:
    """A line of input. The prompt is shown only on a terminal."""
    return input(prompt if sys.stdin.isatty() else "")


def allowed(name: str, arguments: str) -> bool:
    """Whether the user allows a call. Without a terminal, the answer is no."""
    return sys.stdin.isatty() and _asked(f"run {name}({_plain(arguments)})? [y/N] ").strip().lower() in ("y", "yes")


def shown_raw(pieces: list[tuple[str, tuple[int, ...]]], *, color: bool) -> str:
    """Raw output with visible pieces, separated by background colour or by a bar. Line breaks are spelled and kept.

    Args:
        pieces: the text of each piece, and its token ids if known.
        color: whether to write ANSI colours.
    """
    if not pieces:
        return "nothing yet\n"
    shown = []
    for number, (text, _) in enumerate(pieces):
        spelled = _plain(text).replace("\n", "\\n\n")
        shown.append(f"\x1b[{(44, 45)[number % 2]};97m{spelled}\x1b[0m" if color else spelled + "|")
    ids = [id for _, found in pieces for id in found]
    counts = f"{len(pieces)} pieces" + (f", {len(ids)} tokens: {' '.join(map(str, ids))}" if ids else "")
    return "".join(shown) + f"\n{counts}\n"


def _plain(text: str) -> str:
    """The text without characters that control the terminal."""
    return text.translate(_CONTROLS).encode("utf-8", "replace").decode()


def _tool_line(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, dict) else {}
    name, text = str(function.get("name", "?")), str(function.get("description") or "").partition("\n")[0]
    return _plain(f"{name}  {text}".rstrip()) + os.linesep


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n"
