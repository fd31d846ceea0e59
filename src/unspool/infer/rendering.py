"""Renders chat templates, which are untrusted programs, in a child process with limits."""

import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec

from ..errors import TemplateError

_CHILD: Final = Path(__file__).with_name("child.py")
_ASKED: Final = 1 << 20
"""The largest first line of a child, in bytes."""
_ESCAPED: Final = 12
"""The largest size of a character in JSON, in bytes."""
_MISSING: Final = re.compile(r"^UndefinedError: '(\w+)' is undefined")


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


class Rendered(msgspec.Struct, frozen=True):
    """One rendering, or the ``error`` if the template refused."""

    text: str = ""
    error: str = ""


class Renderer:
    """Renders one chat template, in a child process.

    As a context manager it keeps one process until the end; otherwise each call of `render` starts a new one.

    Args:
        template: the template's text.
        special: named special tokens, such as ``bos_token``.
        limits: the template's limits.

    Attributes:
        asked: the variables that the template requires, known after the first call.
        given: further variables that it requires, which every rendering gets; see `settle`.
        parts: whether contents are lists of parts, as templates of vision models want them.
    """

    def __init__(self, template: str, special: Mapping[str, str], limits: Limits) -> None:
        self.template = template
        self.special = dict(special)
        self.limits = limits
        self.asked: frozenset[str] = frozenset()
        self.given: dict[str, Any] = {}
        self.parts = False
        self._child: _Child | None = None
        self._kept = False

    def __enter__(self) -> Self:
        self._kept = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._kept = False
        self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def settle(self, request: Mapping[str, Any], needed: Sequence[str]) -> bool:
        """Find out in which form the template accepts a request that it refuses as it is.

        A template may require variables of its own, such as the tools as a text. Each of them is given as a text, or
        else as the list of the tools. A template may also want contents as parts.

        Args:
            request: the variables of a rendering.
            needed: texts that must appear in it.

        Returns:
            Whether such a form was found; if not, nothing is changed.

        Raises:
            TemplateError: see `render`.
        """
        texts: tuple[Any, ...] = (json.dumps(request["tools"]), request["tools"])
        for self.parts in (False, True):
            for kind in texts:
                self.given = {}
                shown = self.render([request])[0]
                while (name := self._missing(shown.error)) and name not in (*self.given, *request):
                    self.given[name] = kind
                    shown = self.render([request])[0]
                if not shown.error and all(text in shown.text for text in needed):
                    return True
                if not self.given:
                    break
        self.parts, self.given = False, {}
        return False

    def _missing(self, error: str) -> str:
        """The variable that a template requires; empty if it refuses for another reason."""
        found = _MISSING.match(error)
        return found[1] if found is not None and found[1] in self.asked else ""

    def render(self, requests: Sequence[Mapping[str, Any]]) -> list[Rendered]:
        """Render with each of these variables.

        Raises:
            TemplateError: the text is not a template, met a limit, or tried what the sandbox refuses.
        """
        try:
            if self._child is None:
                self._child = _Child(self.template, self.special, self.limits)
                self.asked = self._child.asked
            answers = self._child.answers([{**self.given, **self._shaped(r)} for r in requests])
        except TemplateError:
            self._end()
            raise
        finally:
            if not self._kept:
                self._end()
        return [Rendered(_clean(a.get("text", "")), a.get("error", "")) for a in answers]

    def _shaped(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request, with contents as parts if the template wants them."""
        if not self.parts:
            return request
        messages = [
            {**m, "content": [{"type": "text", "text": m["content"]}]} if isinstance(m["content"], str) else m
            for m in request["messages"]
        ]
        return {**request, "messages": messages}


class _Child:
    """A process that renders one template; see `child`.

    Attributes:
        asked: the variables that the template asks for.

    Raises:
        TemplateError: the template cannot be compiled within the limits.
        ImportError: jinja2 is not installed.
    """

    def __init__(self, template: str, special: Mapping[str, str], limits: Limits) -> None:
        if importlib.util.find_spec("jinja2") is None:
            raise ImportError("jinja2 is missing: pip install 'unspool[server]'", name="jinja2")
        self._limits = limits
        # -P: nothing is imported from the folder of the script.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        shares = {name: getattr(limits, name) for name in ("seconds", "memory", "output")}
        try:
            (head,) = self._exchange({"template": template, "special": dict(special), **shares}, 1, _ASKED)
        except BaseException:
            self.end()
            raise
        self.asked = frozenset(head["asked"])

    def answers(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Render with each of these variables.

        Raises:
            TemplateError: the template met a limit, or tried what the sandbox refuses.
        """
        return self._exchange(requests, len(requests), self._limits.output * _ESCAPED + 1000)

    def _exchange(self, message: Any, count: int, most: int) -> list[dict[str, Any]]:
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
            raise TemplateError(f"template: takes longer than {self._limits.total} s")
        if len(answers) < count:
            raise TemplateError("template: its process ended early: it met a limit of memory or output")
        return answers

    def _lines(self, message: bytes, count: int, most: int) -> list[bytes]:
        stdin, stdout = self._pipes()
        lines: list[bytes] = []
        try:
            stdin.write(message)
            stdin.flush()
        except BrokenPipeError:  # it has ended; its output so far shows why
            pass
        while len(lines) < count and (line := stdout.readline(most)).endswith(b"\n"):
            lines.append(line)
        return lines

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout

    def end(self) -> None:
        """End the process. Further calls do nothing."""
        self._process.kill()
        for pipe in self._pipes():
            with contextlib.suppress(BrokenPipeError):  # some input may still be buffered
                pipe.close()
        self._process.wait()


def _clean(text: str) -> str:
    """The text without lone surrogates, which no tokenizer accepts."""
    return text.encode(errors="replace").decode()
