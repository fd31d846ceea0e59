"""Renders a chat template in a process of its own. Run as a script: it imports nothing of unspool.

Standard input holds one JSON object (``template``, ``special``, ``requests``, and the limits ``seconds``, ``memory``,
``output``); standard output gets one JSON line of what the template asks for and whether it is accepted, then one line
for each request. A line with ``error`` tells why there is no text; with ``limit`` a limit or the sandbox refused it.
"""

import contextlib
import datetime
import json
import signal
import sys
from typing import Any, NoReturn

try:
    import resource
except ImportError:  # Windows has none: the parent's limit of time is left
    resource = None  # type: ignore[assignment]

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

DATE = datetime.datetime(2026, 1, 2, 3, 4, 5)
"""What ``strftime_now`` tells: two renderings differ by nothing but their messages."""


class Generation(jinja2.ext.Extension):
    """``{% generation %}``: marks what the model wrote, for training. It stands for its body."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Limit(BaseException):
    """A limit was met. No `Exception`, so that nothing in between swallows it."""


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=list
    )


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _environment() -> jinja2.Environment:
    # Not the immutable one: real templates append to lists, and each request is a fresh copy.
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation]
    )
    env.filters["tojson"] = _tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _refuse
    env.globals["strftime_now"] = DATE.strftime
    return env


def _render(template: jinja2.Template, variables: dict[str, Any], most: int) -> str:
    parts: list[str] = []
    length = 0
    for part in template.generate(**variables):
        length += len(part)
        if length > most:
            raise Limit(f"writes more than {most:,} characters")
        parts.append(part)
    return "".join(parts)


def _answer(template: jinja2.Template, variables: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    signal.setitimer(signal.ITIMER_PROF, job["seconds"])
    try:
        return {"text": _render(template, variables, job["output"])}
    except Limit as error:
        return {"error": f"the template {error}", "limit": True}
    except MemoryError:
        return {"error": f"the template takes more than {job['memory']:,} bytes of memory", "limit": True}
    except RecursionError:
        return {"error": "the template recurs without end"}
    except jinja2.exceptions.SecurityError as error:
        return {"error": f"the sandbox refuses the template: {error}", "limit": True}
    except Exception as error:  # a template is a program of somebody else's: it may fail in any way
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit(job: dict[str, Any]) -> None:
    def late(*_: object) -> NoReturn:
        raise Limit(f"takes longer than {job['seconds']} s")

    signal.signal(signal.SIGPROF, late)
    if resource is not None:
        size = job["output"] * 8 * (len(job["requests"]) + 1)
        for what, most in ((resource.RLIMIT_AS, job["memory"]), (resource.RLIMIT_FSIZE, size)):
            # A stricter limit that is already there stays, as on systems that refuse one of them.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(what, (most, most))


def main() -> None:
    """Answer one job."""
    job = json.load(sys.stdin)
    _limit(job)
    env = _environment()

    def write(answer: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    try:
        signal.setitimer(signal.ITIMER_PROF, job["seconds"])
        asked = sorted(jinja2.meta.find_undeclared_variables(env.parse(job["template"])))
        template = env.from_string(job["template"])
        signal.setitimer(signal.ITIMER_PROF, 0)
    except jinja2.TemplateSyntaxError as error:
        write({"error": f"line {error.lineno}: {error.message}", "limit": True})
        return
    except (MemoryError, RecursionError, OverflowError, SyntaxError, Limit) as error:
        why = f"it {error}" if isinstance(error, Limit) else f"{type(error).__name__} {error}"
        write({"error": f"the template cannot be compiled: {why}", "limit": True})
        return
    write({"asked": asked})
    for text in job["requests"]:
        write(_answer(template, {**job["special"], **json.loads(text)}, job))


if __name__ == "__main__":
    main()
