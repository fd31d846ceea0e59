"""Renders prompts with the model's own chat template, with Hugging Face's semantics, in processes with limits.

A request may set the variables that the template uses, and the thinking switches. A zero-width space breaks up
special tokens in the text of users, tools and earlier answers, in the declarations of tools and in the arguments of
calls, so that they stay text; see `special_tokens` and `disguise`. System prompts belong to the application and are not
changed, nor are the dialect's own markers in the beginning of an answer that the model should continue. No message is
left out; see `shapes`.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..chat_templates.bridge import Bridge
from ..chat_templates.pool import AwaitedRendering
from ..wire.encoding import clean
from .chat_request import ChatRequest
from .common import SWITCHES
from .examined import ExaminedTemplate
from .fields import BadRequest
from .tokenizer import Tokenizer, read_tokenizer
from .writing import ConversationWriter

__all__ = ["Prompts", "Tokenizer", "read_tokenizer"]


class Prompts(ExaminedTemplate):
    """Renders a model's prompts. It is thread-safe."""

    @property
    def source(self) -> list[Any]:
        """What the prompts depend on besides requests."""
        tokenizer = self.tokenizer
        return [tokenizer.template, tokenizer.tool_template, dict(tokenizer.special)]

    def render(self, request: ChatRequest, waiting: AwaitedRendering | None = None, *, generate: bool = True) -> str:
        """Render the prompt of a request, without lone surrogates, which tokenizers refuse. The model's turn begins at
        its end if it is to generate. `BadRequest` if the request sets a variable that the template does not use, or the
        template refuses it, meets a limit, or leaves out the text of a message."""
        for name in request.template:
            if name not in self._variables and name not in SWITCHES:
                allowed = ", ".join(sorted(self._variables)) or "none"
                at = request.template_at.get(name, f"chat_template_kwargs.{name}")
                raise BadRequest(at, f"is unknown to the template; allowed are {allowed}")
        writing = ConversationWriter(self, request, waiting)
        if request.begun:
            return clean(writing.begun(request.messages))
        return clean(writing.write(request.messages, generate=generate))

    def spoken(self, request: ChatRequest, waiting: AwaitedRendering | None = None) -> dict[str, Any] | None:
        """What the template is given for a request, in OpenAI's form, for an engine that renders it itself; ``None`` if
        the prompt is something else than the template makes of that."""
        if request.begun:
            return None
        return ConversationWriter(self, request, waiting).spoken(request.messages)

    def bridge(
        self, request: ChatRequest, at: int, ends: Sequence[str], waiting: AwaitedRendering | None = None
    ) -> Bridge:
        """Return the text between an answer of the history and the next answer. `NoBridge` if the template changes the
        answer's last text, or what follows it; `BadRequest` if it refuses the request."""
        writing = ConversationWriter(self, request, waiting)
        written = cache(lambda: clean(writing.write(request.messages)))
        return writing.bridge(request.messages, at, self.ends(ends), written=written)

    def ends(self, ends: Sequence[str]) -> tuple[str, ...]:
        """The strings that end an answer: these and the template's own, the longest first."""
        eos = self.tokenizer.special.get("eos_token", "")
        return tuple(sorted({e for e in (*ends, eos) if e.strip()}, key=len, reverse=True))
