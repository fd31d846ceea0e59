"""Chat templates are programs of somebody else's: they run in a child process, within limits."""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import TemplateError

_CHILD: Final = Path(__file__).with_name("child.py")
_MISSING: Final = re.compile(r"^UndefinedError: '(\w+)' is undefined")


class Limits(msgspec.Struct, frozen=True):
    """What a template may take.

    Attributes:
        seconds: of processor time for one rendering.
        total: of time for all renderings of one call together, whatever else the machine does.
        memory: bytes of the process.
        output: characters of one rendering.
    """

    seconds: float = 2.0
    total: float = 60.0
    memory: int = 1 << 30
    output: int = 1 << 18


class Rendered(msgspec.Struct, frozen=True):
    """One rendering; ``error`` where the template refused."""

    text: str = ""
    error: str = ""


class Renderer:
    """Renders one chat template.

    Args:
        template: its text.
        special: named special tokens, such as ``bos_token``.
        limits: what it may take.

    Attributes:
        asked: the variables that the template asks for; known after the first call.
        given: variables that it does not do without, and that every rendering gets; see `settle`.
        parts: whether contents are lists of parts, as templates of models that see want them.
    """

    def __init__(self, template: str, special: Mapping[str, str], limits: Limits) -> None:
        self.template = template
        self.special = dict(special)
        self.limits = limits
        self.asked: frozenset[str] = frozenset()
        self.given: dict[str, Any] = {}
        self.parts = False

    def settle(self, request: Mapping[str, Any], told: Sequence[str]) -> bool:
        """Find out how a template takes a request that it does not take as it is.

        A template may ask for variables of its own, such as the tools as a text. Those that it refuses to do without
        are given as a text, or else as the list of the tools. It may also want contents as parts.

        Args:
            request: the variables of a rendering.
            told: what has to stand in it.

        Returns:
            Whether there is a way; without one, nothing is changed.

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
                if not shown.error and all(text in shown.text for text in told):
                    return True
                if not self.given:
                    break
        self.parts, self.given = False, {}
        return False

    def _missing(self, error: str) -> str:
        """The variable that a template refuses to do without; empty where that is not why it refuses."""
        found = _MISSING.match(error)
        return found[1] if found is not None and found[1] in self.asked else ""

    def render(self, requests: Sequence[Mapping[str, Any]]) -> list[Rendered]:
        """Render with each of these variables.

        Raises:
            TemplateError: it is no template, met a limit, or tried what the sandbox refuses.
        """
        lines = self._run([json.dumps({**self.given, **r, "messages": self._messages(r)}) for r in requests])
        head, *answers = [json.loads(line) for line in lines if line.endswith("\n")] or [{}]
        for answer in (head, *answers):
            if answer.get("limit"):
                raise TemplateError(f"template: {answer['error']}")
        if len(answers) < len(requests):
            raise TemplateError("template: its process ended early: it met a limit of memory or output")
        self.asked = frozenset(head["asked"])
        return [Rendered(_clean(a.get("text", "")), a.get("error", "")) for a in answers]

    def _messages(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = request["messages"]
        if not self.parts:
            return messages
        return [
            {**m, "content": [{"type": "text", "text": m["content"]}]} if isinstance(m["content"], str) else m
            for m in messages
        ]

    def _run(self, requests: list[str]) -> list[str]:
        if importlib.util.find_spec("jinja2") is None:
            raise ImportError("jinja2 is missing: pip install 'unspool[server]'", name="jinja2")
        limits = self.limits
        job = {
            "template": self.template,
            "special": self.special,
            "requests": requests,
            **{name: getattr(limits, name) for name in ("seconds", "memory", "output")},
        }
        # A file, as the system limits its size for the child; -P: the folder of the script is none to import from.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            command = [sys.executable, "-P", str(_CHILD)]
            try:
                subprocess.run(
                    command,
                    input=json.dumps(job).encode(),
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    timeout=limits.total,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise TemplateError(f"template: takes longer than {limits.total} s") from None
            out.seek(0)
            return list(out)


def _clean(text: str) -> str:
    """Without lone surrogates, which no tokenizer takes."""
    return text.encode(errors="replace").decode()
