"""Ground truths of the Berkeley Function Calling Leaderboard, written and read back in every dialect.

    python -m tests.batch.bfcl FOLDER

FOLDER contains the wheel of PyPI's ``bfcl-eval``, which is only read as an archive. Each case whose truth consists of
calls of declared functions is written by `unspool.render` and read by `unspool.parse`; the calls must be the same. A
case that a dialect cannot express is refused by `render`, and counted. The exit code is 1 if a case comes back changed.
"""

import argparse
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import unspool
from unspool import Dialect, DialectError, Stage
from unspool.rl.rewards import calls_match

_DATA: Final = "bfcl_eval/data/"
_KINDS: Final = (
    *("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
)
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "int": "integer", "bool": "boolean"}
_JSON: Final = {"object", "number", "array", "integer", "boolean", "string", "null"}


class Case(NamedTuple):
    """One case: its tools, and the calls that are right."""

    id: str
    tools: list[dict[str, Any]]
    calls: list[dict[str, Any]]


def cases(wheel: Path) -> Iterator[Case]:
    """The cases whose truth is given as calls."""
    with zipfile.ZipFile(wheel) as archive:
        for kind in _KINDS:
            asked = {row["id"]: row for row in _rows(archive, f"{_DATA}BFCL_v4_{kind}.json")}
            for truth in _rows(archive, f"{_DATA}possible_answer/BFCL_v4_{kind}.json"):
                tools = [_tool(f) for f in asked[truth["id"]]["function"]]
                yield Case(truth["id"], tools, [_call(i, c) for i, c in enumerate(truth["ground_truth"])])


def _rows(archive: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in archive.read(name).decode().splitlines() if line.strip()]


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {**function, "parameters": _schema(function["parameters"])}}


def _schema(node: Any) -> Any:
    """A schema in the types of JSON; a type of another language allows anything."""
    if not isinstance(node, Mapping):
        return node
    fields = {k: v for k, v in node.items() if k in ("enum", "required", "description", "default")}
    kind = _TYPES.get(node.get("type", ""), node.get("type"))
    if kind in _JSON:
        fields["type"] = kind
    if "properties" in node:
        fields["properties"] = {k: _schema(v) for k, v in node["properties"].items()}
    if "items" in node:
        fields["items"] = _schema(node["items"])
    return fields


def _call(index: int, truth: Mapping[str, Any]) -> dict[str, Any]:
    ((name, given),) = truth.items()
    arguments = {key: _value(options[0]) for key, options in given.items() if options and options[0] != ""}
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call{index:05}", "type": "function", "function": function}


def _value(value: Any) -> Any:
    """The first of the right values, at every depth: inside objects, each value is a list of right ones."""
    if isinstance(value, Mapping):
        return {k: _value(v[0]) if isinstance(v, list) and v else v for k, v in value.items() if v != [""]}
    return [_value(v) for v in value] if isinstance(value, list) else value


class Result(NamedTuple):
    """The results of the cases in one dialect."""

    dialect: str
    equal: int
    refused: Counter[str]
    wrong: list[str]


def attempt(dialect: Dialect, sample: Sequence[Case]) -> Result:
    """Write the cases, and read them back."""
    refused: Counter[str] = Counter()
    equal, wrong = 0, []
    for case in sample:
        message = {"role": "assistant", "content": None, "tool_calls": _identified(case.calls, dialect)}
        try:
            raw = unspool.render(message, dialect, tools=case.tools, stage=Stage.CONTENT)
        except DialectError as error:
            refused[str(error).partition(": ")[2].partition(":")[0] or str(error)] += 1
            continue
        found = unspool.parse(raw, dialect, tools=case.tools, stage=Stage.CONTENT)
        if calls_match(found, case.calls) == 1.0:
            equal += 1
        else:
            wrong.append(case.id)
    return Result(dialect.name, equal, refused, wrong)


def _identified(calls: list[dict[str, Any]], dialect: Dialect) -> list[dict[str, Any]]:
    if "{index}" not in dialect.id and "{number}" not in dialect.id:
        return calls
    identified = []
    for i, call in enumerate(calls):
        id = dialect.id.replace("{index}", str(i)).replace("{number}", str(i + 1))
        identified.append({**call, "id": id.replace("{name}", call["function"]["name"])})
    return identified


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="BFCL's ground truths in every dialect")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth case")
    options = parser.parse_args()
    every = list(cases(next(options.folder.glob("bfcl_eval-*.whl"))))[:: options.every]
    print(f"{len(every):,} cases\n\n| dialect | read back | refused | otherwise |\n|---|---|---|---|")
    failed = False
    for dialect in unspool.list_dialects():
        if not dialect.call:
            continue
        result = attempt(dialect, every)
        failed = failed or bool(result.wrong)
        why = "; ".join(f"{n} {reason}" for reason, n in result.refused.most_common(3))
        cells = result.dialect, f"{result.equal:,}", why, ", ".join(result.wrong[:5]) or str(len(result.wrong))
        print(f"| {' | '.join(cells)} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
