"""What Codex and Claude Code sent in a session, recorded by `make clients`, and the tree that it should give."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.engines import Request

from ..server.support import PATIENCE, Live, live
from ..server.writing import template
from .support import Model, check, made, trajectory, tree

FOLDER: Final = Path(__file__).parent / "recorded"
_LONG: Final = 100
_KEPT: Final = (
    "context_management", "include", "input", "instructions", "max_tokens", "messages", "model", "output_config",
    "parallel_tool_calls", "reasoning", "store", "stream", "system", "thinking", "tool_choice", "tools",
)  # fmt: skip
"""The fields of requests that are kept. Others name the machine and the user."""


class Shape(NamedTuple):
    """The calls of a rollout, each with the place of its parent and the reason of its fork; and its rows, each with its
    label and the places of its calls."""

    calls: list[tuple[int | None, str | None]]
    rows: list[tuple[str, list[int]]]


SHAPES: Final = {
    # 0 a title; 1 the task, which calls 2 and 3, a sub-agent, and goes on with 4; 5 the user's next turn;
    # 6 a summary of it all, with which 7 begins anew; 8 goes on from there, with another system prompt.
    "claude-code": Shape(
        [(None, None), (None, None), (None, None), (2, None), (1, None), (4, None), (4, None), (None, None),
         (7, "system")],
        [("agent", [2, 3]), ("agent", [1, 4, 5]), ("agent", [1, 4, 6]), ("agent", [7]), ("agent", [8]),
         ("auxiliary", [0])],
    ),
    # 0 the task, which starts 2 and 3, a sub-agent, waits for it in 1, and goes on with 4; 5 the user's next turn;
    # 6 a summary of it all, without tools, with which 7 begins anew; 8 goes on from there.
    "codex": Shape(
        [(None, None), (0, None), (None, None), (2, None), (1, None), (4, None), (5, "tools"), (None, None), (7, None)],
        [("agent", [2, 3]), ("agent", [0, 1, 4, 5]), ("agent", [7, 8]), ("auxiliary", [6])],
    ),
}  # fmt: skip


def shape(found: Any) -> Shape:
    """The shape of a rollout."""
    places = {call["id"]: at for at, call in enumerate(found["calls"])}
    return Shape(tree(found), [(row["role"], [places[id] for id in row["calls"]]) for row in found["rows"]])


def replayed(turns: list[dict[str, Any]]) -> Any:
    """The rollout of a session in which these requests are sent again, and the model writes the same outputs."""
    waiting = [turn["output"] for turn in turns]

    def write(request: Request) -> str:
        return str(waiting.pop(0))

    model = Model(write)
    with live(model, "hermes", prompts=template(), sessions=True, context=200_000) as server:
        session = made(server)
        for turn in turns:
            _send(server, session["key"], turn)
        found = trajectory(server, session)
    check(found, model.record)
    return found


def _send(server: Live, key: str, turn: Mapping[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    answer = server.http.post(turn["path"], json=turn["body"], headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text


def write(name: str, turns: list[dict[str, Any]], places: Mapping[str, str]) -> None:
    """Keep a recording without what names the machine, and with short texts, which stay equal where they were.

    Args:
        name: its name.
        turns: the requests, each with its path and the output.
        places: what replaces the paths of this machine.
    """
    spelled = json.dumps([{**turn, "body": {k: v for k, v in turn["body"].items() if k in _KEPT}} for turn in turns])
    for path, instead in places.items():
        spelled = spelled.replace(path, instead)
    shorter = json.loads(spelled)
    used = {name for turn in shorter for name in _called(turn["output"])}
    for turn in shorter:
        body = turn["body"]
        turn["body"] = {k: _tools(v, used) if k == "tools" else _short(v) for k, v in body.items()}
    FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(turn) for turn in shorter)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _called(output: str) -> list[str]:
    """The names of the tools that an output calls."""
    found = output.partition("<tool_call>")[2].partition("</tool_call>")[0]
    return [json.loads(found)["name"].rpartition(".")[2]] if found else []


def _tools(tools: list[Any], used: set[str]) -> list[Any]:
    """The tools that are called, without their parameters, and one that stands for all others."""
    kept: list[Any] = []
    for tool in tools:
        below = tool.get("tools")
        if below is not None:
            kept.append({**tool, "description": _digest(tool), "tools": _tools(below, used)})
        elif tool.get("name") in used:
            form = "input_schema" if "input_schema" in tool else "parameters"
            kept.append({**tool, "description": _digest(tool), form: {"type": "object"}})
    others = [tool for tool in tools if tool.get("name") not in used and "tools" not in tool]
    if others:
        form = "input_schema" if "input_schema" in others[0] else "parameters"
        kind = {"type": "function"} if form == "parameters" else {}
        kept.append({**kind, "name": "others", "description": _digest(others), form: {"type": "object"}})
    return kept


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONG else f"{value[:_LONG]}… {_digest(value)}"
    if isinstance(value, list):
        return [_short(one) for one in value]
    return {name: _short(one) for name, one in value.items()} if isinstance(value, dict) else value


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
