"""Renders a chat template in this process, as transformers does: in Jinja's sandbox, with its filters."""

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.sandbox

from ..chat_templates.environment import environment
from ..chat_templates.tojson import tojson
from ..errors import TemplateError


class ChatTemplate:
    """Renders conversations with these variables besides messages and tools. Renderings differ only by their messages,
    because the date is fixed at construction. `TemplateError` if the text is not valid Jinja."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        self.text = text
        self._variables = dict(variables)
        now = datetime.datetime.now()
        try:
            # Some real templates append to lists, which the stricter sandbox refuses. They get copies to change.
            self._template, self._changing = (
                environment(kind, now.strftime, tojson).from_string(text)
                for kind in (jinja2.sandbox.ImmutableSandboxedEnvironment, jinja2.sandbox.SandboxedEnvironment)
            )
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"template: line {error.lineno}: {error.message}") from None
        self._changes = False

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, generate: bool) -> str:
        """The text of a conversation; ``generate`` asks for the opening of the assistant's turn."""
        try:
            if not self._changes:
                try:
                    return self._render(self._template, messages, tools, generate)
                except jinja2.exceptions.SecurityError:
                    self._changes = True
            return self._render(self._changing, copy.deepcopy(list(messages)), copy.deepcopy(tools), generate)
        except Exception as error:  # a template is a foreign program and may fail in any way
            raise TemplateError(f"template: {type(error).__name__}: {error}"[:500]) from None

    def _render(self, template: jinja2.Template, messages: Any, tools: Any, generate: bool) -> str:
        return template.render(
            messages=messages,
            tools=list(tools) if tools else None,
            documents=None,
            add_generation_prompt=generate,
            **self._variables,
        )
