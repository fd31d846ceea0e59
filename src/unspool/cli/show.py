"""The command ``show``: opens recordings in the explain page, without an engine."""

import argparse
import base64
import json
import re
import sys
import webbrowser
from pathlib import Path
from typing import Any

from ..dialect.file import Dialect
from .common import Misuse, named_dialect, needing, write
from .recordings import open_recordings, recorded_dialect
from .serve import listen


def show_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", help="a recording, or a folder of recordings; see `unspool serve --capture`")
    p.add_argument("-d", "--dialect", metavar="NAME|FILE.toml", help="for recordings that name none")
    p.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: 127.0.0.1")
    p.add_argument("--port", type=int, default=0, help="default: a free one")
    p.add_argument("--no-browser", action="store_true", help="only print the address")


def run_show(options: argparse.Namespace) -> int:
    recordings = open_recordings("FILE", options.file)
    dialect = None if options.dialect is None else named_dialect("--dialect", options.dialect)
    for recording in recordings:
        dialect = dialect or recorded_dialect("FILE", recording)
    if dialect is None:
        raise Misuse("--dialect: is missing; the recording names none")
    with needing("server"):
        from ..engines import Replay
        from ..request.settings import Settings
        from ..server import serve
    with listen(options) as listener:
        port = listener.getsockname()[1]
        address = f"http://{'[::1]' if ':' in options.host else options.host}:{port}/#look"
        write(f"{address}\nCtrl+C ends it\n")
        if not options.no_browser and sys.stdout.isatty():
            webbrowser.open(address)
        settings = Settings(
            model=recordings[0].asked.model or dialect.name,
            dialect=dialect,
            policy=recordings[0].asked.policy,
            tools=recordings[0].asked.tools,
            tool_choice=recordings[0].asked.tool_choice,
            engine=f"replay:{options.file}",
            hosts=(options.host.lower(),),
            shown=_lines(options.file, dialect if options.dialect is not None else None),
        )
        served = serve(settings, Replay([r.staged(dialect) for r in recordings]), options.host, port, listener=listener)
    return 0 if served else 1


def _lines(path: str, dialect: Dialect | None) -> str:
    """The recordings, with the path of a dialect file replaced by its text, since the page cannot read files."""
    root = Path(path)
    folder = root if root.is_dir() else root.parent
    files = sorted(root.glob("*.jsonl")) if root.is_dir() else [root]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    return "".join(_line(line, dialect, folder) + "\n" for line in lines)


def _line(line: str, dialect: Dialect | None, folder: Path) -> str:
    record: dict[str, Any] = json.loads(line)
    if record.get("type") != "request":
        return line
    for one in record.get("media", ()):
        one.setdefault("url", _bytes(one, folder))
    name = record.get("dialect", "")
    if dialect is not None:
        record["dialect"], record["toml"] = dialect.name, dialect.file[1]
        record.pop("reasoning", None)
    elif name.endswith(".toml") and not record.get("toml"):
        record["toml"] = named_dialect("", name).file[1]
    return json.dumps(record)


def _bytes(medium: dict[str, Any], folder: Path) -> str:
    """The bytes of a recorded medium as a ``data:`` URL; empty if they are not beside the recording."""
    import msgspec

    from ..engines.media import PlacedMedium

    placed = msgspec.convert(medium, PlacedMedium)
    if re.fullmatch(r"media/[0-9a-f]{64}\.[a-z0-9]{2,9}", placed.path) is None:  # a recording may be somebody else's
        return ""
    try:
        data = (folder / placed.path).read_bytes()
    except OSError:
        return ""
    return f"data:{placed.type};base64,{base64.b64encode(data).decode()}"
