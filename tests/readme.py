"""What in README.md and docs is made by running unspool: tables, and the output of examples.

    python -m tests.readme

rewrites them in place; `tests/test_readme.py` compares them.
"""

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import unspool
from unspool.cli.configuration import keys
from unspool.cli.model import model_arguments
from unspool.cli.serve import serve_arguments
from unspool.cli.show import dialect_row
from unspool.policy import CHOICES

from .transitions import drawing, rows

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    *(ROOT / "docs" / "en" / name for name in ("architecture.md", "library.md", "operating.md", "reference.md")),
]
_PORT = "8192"
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_OUTPUT = re.compile(r"\n\n```text\n(.*?)^```$", re.M | re.S)


def rewritten(text: str) -> str:
    """The text with its tables and outputs made anew."""
    for name, table in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        text = between.sub(lambda m, table=table: m[1] + table() + m[2], text)  # type: ignore[misc]
    return _with_outputs(text)


def dialects() -> str:
    rows = []
    for dialect in unspool.list_dialects():
        name, aliases, marker, arguments, parallel = dialect_row(dialect)
        names = ", ".join(f"`{a}`" for a in aliases.split(", ") if a)
        rows.append((f"`{name}`", names, _code(marker), arguments, parallel))
    return _table(("name", "aliases", "start marker", "arguments", "parallel"), rows)


def notices() -> str:
    return _table(("kind", "meaning"), [(f"`{kind}`", text) for kind, text in sorted(unspool.NOTICES.items())])


def policies() -> str:
    return _table(("field", "values"), [(f"`{f}`", ", ".join(f"`{v}`" for v in CHOICES[f])) for f in CHOICES])


def configuration() -> str:
    rows = []
    for name, key in sorted(keys(serve_arguments, model_arguments).items()):
        help = (key.action.help or "").replace("%%", "%")
        shown = f"`limits.{name.removeprefix('max-')}`" if name.startswith("max-") else f"`{name}`"
        rows.append((shown, key.takes, "yes" if key.model else "", help.replace("|", "\\|")))
    return _table(("key", "value", "per model", "meaning"), rows)


TABLES = {
    "configuration": configuration,
    "dialects": dialects,
    "notices": notices,
    "policies": policies,
    "picture": drawing,
    "states": rows,
}


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _code(text: str) -> str:
    """Code in a cell of a table."""
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _with_outputs(text: str) -> str:
    """The text with each ``text`` block replaced by what the block before it prints."""
    parts: list[str] = []
    at = 0
    with _workplace() as env, _Served(env) as served:
        namespace: dict[str, Any] = {}
        for block in BLOCK.finditer(text):
            output = _OUTPUT.match(text, block.end())
            if block["file"]:
                Path(block["file"]).write_text(block["text"], encoding="utf-8")
            elif block["language"] == "python":
                printed = _run_python(served.there(block["text"]), namespace)
                assert output or not printed, f"nothing shows what this prints: {block['text']}"
            elif block["language"] == "sh" and output:
                printed = _run_shell(served.there(block["text"]), env)
            if output:
                parts.append(f"{text[at : output.start()]}\n\n```text\n{printed}```")
                at = output.end()
    return "".join(parts) + text[at:]


@contextlib.contextmanager
def _workplace() -> Iterator[dict[str, str]]:
    """An empty folder with what the examples need; yields the environment for a shell in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder, "bin")
        bin_.mkdir()
        command = bin_ / "unspool"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unspool "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        source = os.pathsep.join(
            filter(None, (str(Path(unspool.__file__).parent.parent), os.environ.get("PYTHONPATH")))
        )
        os.chdir(folder)
        try:
            yield {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source}
        finally:
            os.chdir(before)


class _Served:
    """`unspool serve` for the examples that speak to it; it starts with the first of them, on a free port."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._server: subprocess.Popen[bytes] | None = None
        self._port = ""

    def __enter__(self) -> "_Served":
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.communicate()

    def there(self, example: str) -> str:
        """The example, with the port where the server listens."""
        if _PORT not in example:
            return example
        if self._server is None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._port = str(free.getsockname()[1])
            command = [sys.executable, "-m", "unspool", "serve", "--port", self._port]
            self._server = subprocess.Popen(command, env=self._env, stderr=subprocess.PIPE)
            assert self._server.stderr is not None
            started = self._server.stderr.readline()
            assert b"listening" in started, started
            assert b"try: curl" in self._server.stderr.readline()
        return example.replace(_PORT, self._port)


def _run_python(code: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), namespace)
    return printed.getvalue()


def _run_shell(code: str, env: dict[str, str]) -> str:
    done = subprocess.run(["sh", "-ec", code], env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
