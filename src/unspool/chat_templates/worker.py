"""A process that renders one chat template, and its limits."""

import contextlib
import datetime
import importlib.util
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import TemplateError

_CHILD: Final = Path(__file__).with_name("child.py")
_HEAD: Final = 1 << 20  # the largest first line of a child, in bytes, besides the template's own texts
_ESCAPED: Final = 12  # the largest size of a character in JSON, in bytes
_OUT_OF_TIME, _KILLED = (-getattr(signal, name, 0) for name in ("SIGXCPU", "SIGKILL"))
"""The exit statuses of a process that computed too long, and of one that somebody killed, such as for its memory."""
_ENDING: Final = 0.2  # seconds in which a process that closed its output has ended


class Limits(msgspec.Struct, frozen=True):
    """The limits of a template.

    Attributes:
        seconds: of processor time for one rendering.
        total: seconds of wall-clock time for all renderings of one call.
        memory: the most bytes of memory of the process.
        output: the most characters of one rendering.
    """

    seconds: float = 2.0
    total: float = 60.0
    memory: int = 1 << 30
    output: int = 1 << 18


class Late(TemplateError):
    """The wall-clock time ran out before the processor time did, or the process was killed: the machine is busy, and
    the template may be fine."""


class Rendered(msgspec.Struct, frozen=True):
    """One rendering, or the ``error`` if the template refused."""

    text: str = ""
    error: str = ""


class Worker:
    """A process that renders one template, with named special tokens; see `child`. `TemplateError` if the template
    cannot be compiled within the limits; `ImportError` if jinja2 is not installed."""

    def __init__(self, template: str, special: Mapping[str, str], limits: Limits) -> None:
        if importlib.util.find_spec("jinja2") is None:
            raise ImportError("jinja2 is missing; in a clone of unspool: pip install '.[server]'", name="jinja2")
        self._limits = limits
        self._killed = False
        # -P: nothing is imported from the folder of the script.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        job = {"template": template, "special": dict(special)}
        job |= {name: getattr(limits, name) for name in ("seconds", "memory", "output")}
        try:
            (head,) = self._exchange(job, 1, _HEAD + _ESCAPED * len(template), "cannot be compiled: it ")
        except BaseException:
            self.end()
            raise
        self.asked = frozenset(head["asked"])  # the variables that the template asks for
        self.texts: tuple[str, ...] = tuple(head["texts"])  # the texts that it contains, whether it writes them or not

    def render(self, requests: Sequence[Mapping[str, Any]], now: datetime.datetime | None = None) -> list[Rendered]:
        """Render with each of these variables, at this time, or at a constant one. `TemplateError` if the template met
        a limit, or tried what the sandbox refuses; `Late` if it got too little processor time."""
        asked = {"requests": list(requests), "now": None if now is None else now.isoformat()}
        answers = self._exchange(asked, len(requests), self._limits.output * _ESCAPED + 1000)
        return [Rendered(a.get("text", ""), a.get("error", "")) for a in answers]

    @property
    def alive(self) -> bool:
        return not self._killed and self._process.poll() is None

    def _exchange(self, message: Any, count: int, most: int, doing: str = "") -> list[dict[str, Any]]:
        """Send one line to the child and read ``count`` lines. The child reads our whole line before it answers."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(self._limits.total, end)
        timer.start()
        try:
            lines = self._lines(json.dumps(message).encode() + b"\n", count, most)
        finally:
            timer.cancel()
            timer.join()
        answers = [json.loads(line) for line in lines]
        for answer in answers:
            if answer.get("limit"):
                raise TemplateError(f"template: {answer['error']}")
        if late.is_set():
            raise Late(f"template: is not rendered within {self._limits.total} s")
        if len(answers) < count:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING)
            status = self._process.returncode
            self._process.kill()
            if status == _OUT_OF_TIME:
                raise TemplateError(f"template: the template {doing}takes longer than {self._limits.seconds} s")
            if status is not None and status == _KILLED:
                raise Late("template: its process was killed")
            raise TemplateError("template: its process ended early: it met a limit of memory or output")
        return answers

    def _lines(self, message: bytes, count: int, most: int) -> list[bytes]:
        lines: list[bytes] = []
        try:
            self._stdin.write(message)
            self._stdin.flush()
        except BrokenPipeError:  # it has ended; its output so far shows why
            pass
        while len(lines) < count and (line := self._stdout.readline(most)).endswith(b"\n"):
            lines.append(line)
        return lines

    def kill(self) -> None:
        """Kill the process, from any thread. A rendering that runs fails. The process may seem to live on a little."""
        self._killed = True
        self._process.kill()

    def end(self) -> None:
        """End the process. Further calls do nothing."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):  # some input may still be buffered
                pipe.close()
        self._process.wait()
