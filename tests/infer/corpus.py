"""Proves dialects by every chat template of the corpus, and puts the result into docs/en/infer.md.

    python -m tests.infer.corpus CACHE [PATTERN …]

Templates come from where `tests.templates.sources` has them. Each is tried twice: by inference alone, as if no dialect
were shipped, and by `unspool.infer.choosing.choose_dialect`. With patterns, only files whose names hold one are tried,
and the proofs are printed instead.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool import Inference, TemplateError, UnknownDialect, infer_dialect
from unspool.infer import NO_CALL
from unspool.infer.choosing import choose_dialect, first_failure

from ..templates.sources import corpus

PAGE = Path(__file__).parent.parent.parent / "docs" / "en" / "infer.md"


class Row(NamedTuple):
    """What came of a template.

    Attributes:
        package, name: where it is.
        calls: whether it writes any.
        inferred: whether inference alone proves a dialect; ``why`` not.
        chosen: the dialect that proves, and its origin; empty where none does.
    """

    package: str
    name: str
    calls: bool
    inferred: bool
    why: str
    chosen: str
    origin: str


def tried(cache: Path, patterns: list[str]) -> Iterator[tuple[Row, Inference | None]]:
    """Each template's row, and what was inferred."""
    for package, path in corpus(cache):
        if patterns and not any(p in path.name for p in patterns):
            continue
        template = path.read_text(encoding="utf-8")
        try:
            found = infer_dialect(template)
        except TemplateError as error:
            yield Row(package, path.stem, True, False, str(error), "", ""), None
            continue
        told = {c.case: c for c in found.proof}["one call"]
        calls = found.dialect is not None or told.reason not in (NO_CALL, "the template leaves out: a call")
        chosen = origin = ""
        if calls:
            try:
                choice = choose_dialect(template)
                chosen, origin = choice.dialect.name, choice.origin
            except UnknownDialect as error:
                print(f"{path.stem}: {error}", file=sys.stderr)
        inferred = found.dialect is not None
        yield (
            Row(package, path.stem, calls, inferred, "" if inferred else first_failure(found.proof), chosen, origin),
            found,
        )


def table(rows: list[Row]) -> str:
    """The result as it stands in the page."""
    calling = [r for r in rows if r.calls]
    alone = sum(r.inferred for r in calling)
    proven = sum(bool(r.chosen) for r in calling)
    packages = Counter(r.package for r in rows)
    lines = [
        f"Of {len(rows)} templates ({', '.join(f'{n} of {p}' for p, n in packages.items())}) {len(calling)} write a "
        f"call. Inference alone proves {alone} of these ({alone / len(calling):.0%}); with the shipped dialects "
        f"{proven} are proven ({proven / len(calling):.0%}).\n",
        "| template | shipped | inferred | why inference alone does not prove it |",
        "| --- | --- | --- | --- |",
    ]
    for r in calling:
        shipped = r.chosen if r.origin == "shipped" else "none"
        why = re.sub(r"\s+", " ", r.why).replace("|", "\\|").replace("<", "&lt;")[:140]
        lines.append(f"| {r.name} | {shipped} | {'proven' if r.inferred else 'no'} | {why} |")
    return "\n".join(lines) + "\n"


def main(cache: Path, patterns: list[str]) -> None:
    rows = []
    for row, found in tried(cache, patterns):
        rows.append(row)
        said = "no call" if not row.calls else "proven" if row.inferred else "NOT"
        print(f"{said:8} {row.origin:12} {row.chosen:20} {row.package}/{row.name} {row.why[:200]}", flush=True)
        if patterns and found is not None:
            print(found.toml)
            for c in found.proof:
                print(f"    {c.case:32} {c.result:12} {c.reason[:300]}")
    if not patterns:
        text = PAGE.read_text(encoding="utf-8")
        between = re.compile(r"(<!-- corpus -->\n).*?(<!-- /corpus -->)", re.S)
        PAGE.write_text(between.sub(lambda m: m[1] + table(rows) + m[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
