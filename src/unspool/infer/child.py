"""Renders a chat template in a child process. It runs as a script that loads two files instead of importing unspool.

The first line of standard input is a JSON object: ``template``, ``special``, and the limits ``seconds``, ``memory`` and
``output``. The answer is one JSON line with the variables that the template requires, or an ``error``. Each further
line is a list of requests, each the variables of one rendering, and gets one line per request. A line with ``error``
says why there is no text; it has ``limit`` if a limit or the sandbox stopped the template.
"""

import datetime
import functools
import json
import runpy
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.exceptions
import jinja2.meta
import jinja2.sandbox

DATE = datetime.datetime(2026, 1, 2, 3, 4, 5)
"""What ``strftime_now`` returns. It is constant, so that renderings differ only by their messages."""


class Limit(BaseException):
    """A limit was met. It is not an `Exception`, so that no ``except Exception`` on the way swallows it."""


def _environment() -> jinja2.Environment:
    shared = runpy.run_path(str(Path(__file__).parents[1] / "chat_templates.py"))
    # The immutable sandbox will not do: real templates append to lists. Each request is a fresh copy.
    env: jinja2.Environment = shared["environment"](jinja2.sandbox.SandboxedEnvironment, DATE.strftime)
    env.filters["tojson"] = functools.partial(shared["tojson"], default=list)
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
        return {"error": "the template recurses without end"}
    except jinja2.exceptions.SecurityError as error:
        return {"error": f"the sandbox refuses the template: {error}", "limit": True}
    except Exception as error:  # a template is an untrusted program and may fail in any way
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit(job: dict[str, Any]) -> None:
    def late(*_: object) -> NoReturn:
        raise Limit(f"takes longer than {job['seconds']} s")

    signal.signal(signal.SIGPROF, late)
    runpy.run_path(str(Path(__file__).with_name("limits.py")))["limit"](RLIMIT_AS=job["memory"], RLIMIT_FSIZE=0)


def main() -> None:
    """Answer the requests of one template, until there are no more."""
    job = json.loads(sys.stdin.readline())
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
    for line in sys.stdin:
        for request in json.loads(line):
            write(_answer(template, {**job["special"], **request}, job))


if __name__ == "__main__":
    main()
