"""Renders a chat template in a child process. It runs as a script that loads three files instead of importing unspool.

The first line of standard input is a JSON object: ``template``, ``special``, and the limits ``seconds``, ``memory`` and
``output``. The answer is one JSON line with the variables that the template requires and the texts that it contains,
or an ``error``. Each further line is a JSON object: ``requests``, each the variables of one rendering, and ``now``: the
time that the template gets, or null. It gets one line per request. A line with ``error`` says why there is no text;
it has ``limit`` if a limit or the sandbox stopped the template.
"""

import datetime
import functools
import json
import math
import re
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.exceptions
import jinja2.meta
import jinja2.nodes
import jinja2.sandbox

DATE = datetime.datetime(2026, 1, 2, 3, 4, 5)
"""What ``strftime_now`` returns where no time is given. Renderings then differ only by their messages."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""What no tokenizer accepts. Two of them side by side would become one character in JSON."""


class Limit(BaseException):
    """A limit was met. It is not an `Exception`, so that no ``except Exception`` on the way swallows it."""


class _Clock:
    """The time that templates get: the same for all requests of a line."""

    now = DATE

    def strftime(self, form: str) -> str:
        return self.now.strftime(form)


def _loaded(name: str) -> Any:
    """What a file of this name defines under the same name."""
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))[name]


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
    _start(job["seconds"])
    try:
        return {"text": _SURROGATE.sub("\ufffd", _render(template, variables, job["output"]))}
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when this process ends
    _loaded("limit")(RLIMIT_AS=job["memory"], RLIMIT_FSIZE=0, RLIMIT_CORE=0)


def _start(seconds: float) -> None:
    """Allow this much processor time from now on. Python handles no signal within one operation, such as a power of
    large numbers, so the kernel ends the process a little later."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform != "win32":
        import resource

        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = math.ceil(time.process_time() + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft if most == resource.RLIM_INFINITY else min(soft, most), most))


def _head(env: jinja2.Environment, text: str) -> dict[str, Any]:
    """What is known of a template without rendering it."""
    parsed = env.parse(text)
    texts = {node.data for node in parsed.find_all(jinja2.nodes.TemplateData)}
    texts |= {node.value for node in parsed.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
    return {"texts": sorted(texts), "asked": sorted(jinja2.meta.find_undeclared_variables(parsed))}


def main() -> None:
    """Answer the requests of one template, until there are no more."""
    job = json.loads(sys.stdin.readline())
    _limit(job)
    clock = _Clock()
    tojson = functools.partial(_loaded("tojson"), default=list)
    # The immutable sandbox will not do: real templates append to lists. Each request is a fresh copy.
    env: jinja2.Environment = _loaded("environment")(jinja2.sandbox.SandboxedEnvironment, clock.strftime, tojson)

    def write(answer: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    try:
        _start(job["seconds"])
        head = _head(env, job["template"])
        template = env.from_string(job["template"])
        signal.setitimer(signal.ITIMER_PROF, 0)
    except jinja2.TemplateSyntaxError as error:
        write({"error": f"line {error.lineno}: {error.message}", "limit": True})
        return
    except (MemoryError, RecursionError, OverflowError, SyntaxError, Limit) as error:
        why = f"it {error}" if isinstance(error, Limit) else f"{type(error).__name__} {error}"
        write({"error": f"the template cannot be compiled: {why}", "limit": True})
        return
    write(head)
    for line in sys.stdin:
        asked = json.loads(line)
        clock.now = DATE if asked["now"] is None else datetime.datetime.fromisoformat(asked["now"])
        for request in asked["requests"]:
            write(_answer(template, {**job["special"], **request}, job))


if __name__ == "__main__":
    main()
