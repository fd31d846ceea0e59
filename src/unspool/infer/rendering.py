"""Renders chat templates, which are untrusted programs; see `unspool.chat_templates`."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from ..chat_templates.worker import Limits, Rendered, Worker
from ..errors import TemplateError
from ..validation import check
from .histories import EOS

_MISSING: Final = re.compile(r"^UndefinedError: '(\w+)' is undefined")


class Renderer:
    """Renders one chat template, in a child process that ends with the context. By default, ``bos_token`` is empty and
    ``eos_token`` is `EOS`."""

    def __init__(
        self, template: str, special_tokens: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> None:
        check("template", template, str, "the text of a chat template")
        allowed = "an object of texts by the tokens' names, or None"
        check("special_tokens", special_tokens, (Mapping, type(None)), allowed)
        for name, text in (special_tokens or {}).items():
            check(f"special_tokens[{name!r}]", text, str, "a string")
        check("limits", limits, (Limits, type(None)), "Limits or None")
        self.template = template
        self.special = {"bos_token": "", "eos_token": EOS, **(special_tokens or {})}
        self.limits = limits or Limits()
        self.asked: frozenset[str] = frozenset()  # the variables that the template requires, known after the first call
        self.given: dict[str, Any] = {}  # further variables that it requires, which every rendering gets; see `settle`
        self.parts = False  # whether contents are lists of parts, as templates of vision models want them
        self._child: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def settle(self, request: Mapping[str, Any], needed: Sequence[str]) -> bool:
        """Find out in which form the template accepts a request that it refuses as it is, if there is one.

        A template may require variables of its own, such as the tools as a text. Each of them is given as a text, or
        else as the list of the tools. A template may also want contents as parts. ``needed`` are texts that must
        appear.
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
        """Render with each of these variables; `TemplateError` as for `unspool.infer_dialect`."""
        try:
            if self._child is None:
                self._child = Worker(self.template, self.special, self.limits)
                self.asked = self._child.asked
            return self._child.render([{**self.given, **self._shaped(r)} for r in requests])
        except TemplateError:
            self._end()
            raise

    def _shaped(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request, with contents as parts if the template wants them."""
        if not self.parts:
            return request
        messages = [
            {**m, "content": [{"type": "text", "text": m["content"]}]} if isinstance(m["content"], str) else m
            for m in request["messages"]
        ]
        return {**request, "messages": messages}
