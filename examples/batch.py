"""Summarize a file of outputs: calls by tool and status, and the faults of the other rows.

    pip install '.[batch]'
    python examples/batch.py rollouts.jsonl hermes

Each line has an `output`, and `tools` if the request had any. `unspool batch` handles files larger than memory,
clusters, and runs that are interrupted.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from unspool.batch import BadRow, parse_many


def main(path: str, dialect: str) -> None:
    with Path(path).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    calls: Counter[tuple[str, str]] = Counter()
    notices: Counter[str] = Counter()
    bad: list[BadRow] = []
    for row in parse_many(rows, dialect, errors=bad):
        calls.update((call["name"], call["status"]) for call in row["tool_calls"])
        notices.update(notice["kind"] for notice in row["notices"])
    print(f"{len(rows) - len(bad)} outputs, {len(bad)} rows that cannot be read")
    for (name, status), count in calls.most_common():
        print(f"{count:6} calls of {name}: {status}")
    for kind, count in notices.most_common():
        print(f"{count:6} x {kind}: see the notices in the reference")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:3])
