"""Chat templates run as transformers runs them."""

from datetime import datetime
from functools import partial
from pathlib import Path

import jinja2
import jinja2.sandbox

from unspool.chat_templates.environment import environment
from unspool.chat_templates.tojson import tojson


def compile_template(path: Path, *, sandboxed: bool = True) -> jinja2.Template:
    """Compile a template file. Templates that change lists must not be ``sandboxed``."""
    sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment if sandboxed else jinja2.sandbox.SandboxedEnvironment
    filled = partial(tojson, default=list)  # generators become lists, as in llama.cpp
    env = environment(sandbox, lambda form: datetime(2026, 1, 1).strftime(form), filled)
    return env.from_string(path.read_text(encoding="utf-8"))
