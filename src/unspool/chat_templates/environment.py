"""Jinja with the tag, the filters and the functions that transformers adds for chat templates.

It imports nothing from unspool, because a process that renders untrusted templates loads it by its path.
"""

import json
from collections.abc import Callable
from typing import NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox


class _Generation(jinja2.ext.Extension):
    """``{% generation %}``, which marks what the model wrote, for training: rendered as its body, in its own scope."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment(
    kind: type[jinja2.sandbox.SandboxedEnvironment], strftime_now: Callable[[str], str], tojson: Callable[..., str]
) -> jinja2.Environment:
    """A sandbox that renders chat templates, with the time and the filter of `tojson`. The immutable kind refuses to
    append to lists."""
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = strftime_now
    return env


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
