"""Infers a dialect from every chat template of two packages, and puts the result into docs/en/infer.md.

    python -m tests.infer.corpus CACHE [PATTERN …]

Templates come from where `tests.templates.sources` has them. With patterns, only files whose names hold one are tried,
and the proofs are printed instead.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from unspool import Inference, TemplateError, infer_dialect
from unspool.infer import NO_CALL

from ..templates.sources import folders

PAGE = Path(__file__).parent.parent.parent / "docs" / "en" / "infer.md"
NO_CALLS = "no call"
PROVEN = "proven"


def outcome(found: Inference) -> tuple[str, str]:
    """What came of a template: the case that failed, and why."""
    if found.dialect is not None:
        return PROVEN, ""
    results = {c.case: c for c in found.proof}
    if results["one call"].reason in (NO_CALL, "the template leaves out: a call"):
        return NO_CALLS, ""
    failed = [c for c in found.proof if c.result == "fail"] or [c for c in found.proof if c.result == "not written"]
    return failed[0].case, failed[0].reason


def tried(cache: Path, patterns: list[str]) -> Iterator[tuple[str, str, str, Inference | None]]:
    """Each template's name, what came of it, and why."""
    for package, folder in folders(cache).items():
        for path in sorted(folder.glob("*.jinja")):
            if patterns and not any(p in path.name for p in patterns):
                continue
            try:
                found = infer_dialect(path.read_text(encoding="utf-8"))
            except TemplateError as error:
                yield f"{package}/{path.stem}", "refused", str(error), None
            else:
                yield f"{package}/{path.stem}", *outcome(found), found


def table(results: list[tuple[str, str, str]]) -> str:
    """The result as it stands in the page."""
    counts = Counter(case for _, case, _ in results)
    calling = sum(n for case, n in counts.items() if case != NO_CALLS)
    lines = [
        f"Of {len(results)} templates {calling} write a call; {counts[PROVEN]} of these are proven.\n",
        "| not proven | first case that fails | why |\n| --- | --- | --- |",
    ]
    for name, case, why in results:
        if case not in (PROVEN, NO_CALLS):
            short = re.sub(r"\s+", " ", why.partition("; the template writes")[0]).replace("|", "\\|")[:120]
            lines.append(f"| {name.partition('/')[2]} | {case} | {short.replace('<', '&lt;')} |")
    return "\n".join(lines) + "\n"


def main(cache: Path, patterns: list[str]) -> None:
    results = []
    for name, case, why, found in tried(cache, patterns):
        results.append((name, case, why))
        print(f"{case:24} {name:60} {why[:200]}", flush=True)
        if patterns and found is not None:
            print(found.toml)
            for c in found.proof:
                print(f"    {c.case:32} {c.result:12} {c.reason[:300]}")
    if not patterns:
        text = PAGE.read_text(encoding="utf-8")
        between = re.compile(r"(<!-- corpus -->\n).*?(<!-- /corpus -->)", re.S)
        PAGE.write_text(between.sub(lambda m: m[1] + table(results) + m[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
