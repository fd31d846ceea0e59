"""The parts of README.md and docs that come from running unspool: tables, pictures, and the output of examples.

    python -m tests.readme

rewrites them in place, and copies the code, the outputs and the tables of the English pages into the Chinese ones.
`tests/test_readme.py` and `tests/test_languages.py` check the result.
"""

import contextlib
import io
import itertools
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
from unspool.check.hints import ENDS, HINTS, WRITING
from unspool.cli.configuration import keys
from unspool.cli.dialects import start_marker
from unspool.cli.model import model_arguments
from unspool.cli.serve import serve_arguments
from unspool.dialect.lint import CHECKING, LOADING, SIZES, SOFT, TEMPLATES, Rules
from unspool.policy import CHOICES

from .generated import commands, events, gallery, rules, table
from .languages import PAIRS, with_code_of
from .picture import PICTURE, picture
from .transitions import rows

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
_EN = ROOT / "docs" / "en"
_SERVED = ("tutorial.md", "features/reasoning_output.md", "features/tool_calling.md", "howto/vllm.md")
_ALONE = (
    "architecture.md", "library.md", "reference.md", "gallery.md", "why.md", "migration.md", "configuration.md",
    "rules.md",
)  # fmt: skip
GROUPS: list[list[Path]] = [[README, *(_EN / name for name in _SERVED)], *([_EN / name] for name in _ALONE)]
"""Pages whose code is run. The pages of a group share their servers."""
COMMANDS = [
    [_EN / name]
    for name in ("cli.md", "howto/constrain.md", "howto/evaluate.md", "howto/lost-call.md", "howto/train-an-agent.md")
]
"""Pages that run commands, each in a process with many imports; `make examples` tests them."""
PAGES = [page for group in (*GROUPS, *COMMANDS) for page in group]
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_OUTPUT = re.compile(r"\n\n```text\n(.*?)^```$", re.M | re.S)
_SERVE = re.compile(r"^unspool serve\b(?P<arguments>[^#\n]*)", re.M)
_PORT = re.compile(r"(?<=(?:127\.0\.0\.1|localhost):)\d+")


def rewritten(texts: Sequence[str]) -> list[str]:
    """The texts of a group's pages, with new tables and outputs."""
    with _workplace() as env, _Servers(env) as servers:
        return [_with_outputs(_with_tables(text), env, servers) for text in texts]


def _with_tables(text: str) -> str:
    for name, made in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        text = between.sub(lambda m, made=made: m[1] + made() + m[2], text)  # type: ignore[misc]
    return text


def dialects() -> str:
    rows = []
    for dialect in unspool.list_dialects():
        names = ", ".join(f"`{a}`" for a in dialect.aliases)
        marker = _code(start_marker(dialect).replace("\n", "\\n"))
        rows.append((f"`{dialect.name}`", names, marker, dialect.argument_format, "yes" if dialect.call else "-"))
    return table(("name", "aliases", "start marker", "arguments", "parallel"), rows)


def notices() -> str:
    return table(("kind", "meaning"), [(f"`{kind}`", text) for kind, text in sorted(unspool.NOTICES.items())])


def policies() -> str:
    return table(("field", "values"), [(f"`{f}`", ", ".join(f"`{v}`" for v in CHOICES[f])) for f in CHOICES])


def configuration() -> str:
    rows = []
    for name, key in sorted(keys(serve_arguments, model_arguments).items()):
        help = (key.action.help or "").replace("%%", "%")
        shown = f"`limits.{name.removeprefix('max-')}`" if name.startswith("max-") else f"`{name}`"
        rows.append((shown, key.takes, "yes" if key.model else "", help.replace("|", "\\|")))
    return table(("key", "value", "per model", "meaning"), rows)


TABLES = {
    "configuration": configuration,
    "dialects": dialects,
    "notices": notices,
    "policies": policies,
    "events": events,
    "commands": commands,
    "gallery": gallery,
    "states": rows,
    "loading": lambda: rules(Rules([*SIZES, *TEMPLATES, *LOADING])),
    "checking": lambda: rules(CHECKING),
    "hinting": lambda: rules(Rules([*ENDS, *HINTS, *WRITING, *SOFT])),
}


def _code(text: str) -> str:
    """Code in a cell of a table."""
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _with_outputs(text: str, env: dict[str, str], servers: "_Servers") -> str:
    """The text, with each ``text`` block replaced by the output of the block before it."""
    parts: list[str] = []
    at = 0
    namespace: dict[str, Any] = {}
    servers.forget()
    for block in BLOCK.finditer(text):
        output = _OUTPUT.match(text, block.end())
        if block["file"]:
            Path(block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["language"] == "python":
            printed = _run_python(servers.there(block["text"]), namespace)
            assert output or not printed, f"nothing shows what this prints: {block['text']}"
        elif block["language"] == "sh" and output:
            printed = _run_shell(servers.there(block["text"]), env)
        elif block["language"] == "sh":
            servers.read(block["text"])
        if output:
            parts.append(f"{text[at : output.start()]}\n\n```text\n{printed}```")
            at = output.end()
    if "client" in namespace:  # its connections
        namespace["client"].close()
    return "".join(parts) + text[at:]


@contextlib.contextmanager
def _workplace() -> Iterator[dict[str, str]]:
    """A folder with the files that the examples need. Yields the environment for a shell in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder, "bin")
        bin_.mkdir()
        command = bin_ / "unspool"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unspool "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        Path(folder, "examples").symlink_to(ROOT / "examples")
        source = os.pathsep.join(
            filter(None, (str(Path(unspool.__file__).parent.parent), os.environ.get("PYTHONPATH")))
        )
        os.chdir(folder)
        try:
            yield {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source}
        finally:
            os.chdir(before)


class _Servers:
    """The `unspool serve` processes of the pages. Each starts on a free port when the first example connects to it."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._named: dict[str, str] = {}
        self._running: dict[str, tuple[subprocess.Popen[bytes], str]] = {}

    def __enter__(self) -> "_Servers":
        return self

    def __exit__(self, *_: object) -> None:
        for server, _port in self._running.values():
            server.terminate()
            server.communicate()

    def forget(self) -> None:
        """Forget the servers, because another page begins, with its own ports."""
        self._named.clear()

    def read(self, commands: str) -> None:
        """Record the servers that a page starts, by port. Examples use the first server on a port."""
        for command in _SERVE.finditer(commands):
            words = command["arguments"].split()
            if "--tokenizer" in words:  # in front of an engine that does not run here
                continue
            port = words.index("--port") if "--port" in words else None
            name = "8192" if port is None else words[port + 1]
            self._named.setdefault(name, " ".join(words if port is None else words[:port] + words[port + 2 :]))

    def there(self, example: str) -> str:
        """The example, with the ports on which the servers listen."""
        return _PORT.sub(lambda port: self._port(self._named[port[0]]), example)

    def _port(self, arguments: str) -> str:
        if arguments not in self._running:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            command = [sys.executable, "-m", "unspool", "serve", *arguments.split(), "--port", port]
            server = subprocess.Popen(command, env=self._env, stderr=subprocess.PIPE)
            assert server.stderr is not None
            self._running[arguments] = server, port
            log = list(itertools.takewhile(lambda line: b"try: curl" not in line, server.stderr))
            assert b"listening" in log[-1], log
        return self._running[arguments][1]


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
    PICTURE.write_text(picture(), encoding="utf-8")
    for group in (*GROUPS, *COMMANDS):
        for page, text in zip(group, rewritten([page.read_text(encoding="utf-8") for page in group]), strict=True):
            page.write_text(text, encoding="utf-8")
    for english, chinese in PAIRS.items():
        text = with_code_of(english.read_text(encoding="utf-8"), chinese.read_text(encoding="utf-8"))
        chinese.write_text(text, encoding="utf-8")
