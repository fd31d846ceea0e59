"""The command ``sessions``: what a server's sessions have recorded, listed, shown, or exported for a trainer."""

import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from .common import Misuse, OneOf, blaming, colors, read_key, table, write, write_json

_FORMATS: Final = ("json", "trl", "verl", "prime-rl", "nemo-rl", "skyrl")
_ENCODINGS: Final = ("json", "jsonl", "arrow")
_STYLES: Final = {
    "prompt": "\x1b[2m",
    "results": "\x1b[36m",
    "reasoning": "\x1b[33m",
    "content": "\x1b[32m",
    "calls": "\x1b[35m",
    "markers": "\x1b[34m",
    "constrained": "\x1b[31m",
}
_RESET: Final = "\x1b[0m"
_SECONDS: Final = 600.0
_COLUMNS: Final = ("id", "status", "reward", "calls", "tokens")


def sessions_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("id", metavar="ID", nargs="?", help="a session to show; default: list all")
    text = "the server's base URL; default: http://127.0.0.1:8192"
    p.add_argument("--url", metavar="URL", default="http://127.0.0.1:8192", help=text)
    p.add_argument("--key", metavar="KEY|@FILE", help="the server's API key, or the session's")
    text = f"print the session's rows for a trainer instead: {', '.join(_FORMATS)}"
    p.add_argument("--format", type=OneOf(_FORMATS), metavar="FORMAT", help=text)
    p.add_argument("--model", metavar="NAME", help="of a run of several models, the rows of this one")
    text = f"the form of the rows: {', '.join(_ENCODINGS)}; default: json"
    p.add_argument("--encoding", type=OneOf(_ENCODINGS), metavar="ENCODING", help=text)
    p.add_argument("-o", "--output", metavar="FILE", help="write the rows to this file")
    p.add_argument("--json", action="store_true", help="print the list, or all that is known of the session, as JSON")


def run_sessions(options: argparse.Namespace) -> int:
    server = _RemoteServer(options.url, read_key("--key", options.key))
    given = [name for name in ("format", "encoding", "output", "model") if getattr(options, name) is not None]
    if options.id is None:
        if given:
            raise Misuse(f"--{given[0]}: needs the ID of a session")
        _list(server, as_json=options.json)
        return 0
    exporting = given and given[0] != "model"
    if exporting and options.json:
        raise Misuse(f"--json: has no effect beside --{given[0]}; leave one of them out")
    query = urllib.parse.urlencode({name: getattr(options, name) for name in given if name != "output"})
    data = server.ask(f"/sessions/{urllib.parse.quote(options.id, safe='')}/trajectory?{query}")
    if not exporting and not options.json:
        _show(server, json.loads(data))
        return 0
    if options.output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    with blaming("--output", options.output):
        Path(options.output).write_bytes(data)
    return 0


class _RemoteServer:
    """The server, asked over HTTP."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def ask(self, path: str, question: Any = None) -> bytes:
        data = None if question is None else json.dumps(question).encode()
        try:
            asked = urllib.request.Request(self._url + path, data, self._headers)
            with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            raise Misuse(f"--url: {self._url}: {_message(error)}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Misuse(f"--url: {self._url}: {getattr(reason, 'strerror', None) or reason}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        said = str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = f"HTTP {error.code}"
    unknown = error.code == 404 and (": Not Found;" in said or said.startswith("HTTP"))
    return "it records no sessions; start it with --sessions" if unknown else said


def _list(server: _RemoteServer, *, as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    query = ""
    while page := json.loads(server.ask(f"/sessions{query}"))["data"]:
        found += page
        query = f"?after={page[-1]['place']}"
    if as_json:
        write_json(found)
        return
    counted = [{**one, **_counts(server, one["id"])} for one in found]
    cells = [["" if one.get(column) is None else str(one[column]) for column in _COLUMNS] for one in counted]
    write(table([_COLUMNS, *cells]))


def _counts(server: _RemoteServer, id: str) -> dict[str, Any]:
    """What the server knows of a session: nothing more if it is damaged, or was deleted meanwhile."""
    with suppress(Misuse):
        return json.loads(server.ask(f"/sessions/{urllib.parse.quote(id)}"))  # type: ignore[no-any-return]
    return {}


def _show(server: _RemoteServer, found: Mapping[str, Any]) -> None:
    """The tree of a session, and its rows with each token in the colour of its kind."""
    exact = "exact" if found["exact"] else "not exact"
    write(f"{found['id']}: {found['status']}, reward {found['reward']}, {exact}\n")
    write("".join(f"  problem: {problem}\n" for problem in found["problems"]))
    depths: dict[str | None, int] = {None: 0}
    children = Counter(call["parent"] for call in found["calls"])
    for call in _in_order(found["calls"]):
        beside = call["parent"] is not None and children[call["parent"]] > 1  # only there, paths part
        depth = depths[call["id"]] = depths[call["parent"]] + beside
        fork = f", fork: {call['fork']}" if call["fork"] else ""
        tools = "".join(f", {name} ({status})" for name, status in call["tool_calls"])
        sizes = f"{len(call['prompt_ids'])} + {len(call['output_ids'])} tokens"
        write(f"{'  ' * depth}- {call['id']}: {sizes}, {call['finish_reason']}{tools}{fork}\n")
    color = colors()
    for row in found["rows"]:
        learnt = f"{sum(row['loss_mask'])} of {len(row['input_ids'])} tokens to learn"
        write(f"\n{row['role']}, {len(row['calls'])} calls, {learnt}\n")
        at = 0
        for kind, run in groupby(row["kinds"]):
            end = at + len(list(run))
            asked = {"model": row["model"], "tokens": row["input_ids"][at:end]}
            text = json.loads(server.ask("/detokenize", asked))["prompt"]
            write(f"{_STYLES[kind]}{text}{_RESET}" if color else f"[{kind}]{text}")
            at = end
        write("\n")


def _in_order(calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The calls, each before what continues it, and paths together."""
    below: dict[str | None, list[Mapping[str, Any]]] = {}
    for call in calls:
        below.setdefault(call["parent"], []).append(call)
    found: list[Mapping[str, Any]] = []
    waiting = below.get(None, [])[::-1]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1]["id"], [])[::-1]
    return found
