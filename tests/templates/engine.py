"""Chat templates run as transformers runs them."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """The tag ``{% generation %}``, which marks what the model wrote. It renders as its body."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, default=list, **options
    )  # generators become lists, as in llama.cpp


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def compile_template(path: Path, *, sandboxed: bool = True) -> jinja2.Template:
    """Compile a template file. Templates that change lists must not be ``sandboxed``."""
    kind = jinja2.sandbox.ImmutableSandboxedEnvironment if sandboxed else jinja2.Environment
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    env.filters["tojson"] = _tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = lambda form: datetime(2026, 1, 1).strftime(form)
    return env.from_string(path.read_text(encoding="utf-8"))
