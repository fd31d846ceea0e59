"""Proves dialects against every chat template of the corpus, and writes the result into docs/en/infer.md.

    python -m tests.infer.corpus CACHE [PATTERN …]

The templates come from `tests.templates.sources`. Each is tried twice: by inference alone, as if no dialect were
shipped, and with the shipped ones, as `unspool.choose_dialect` tries them. With patterns, only files whose names
contain one are tried, and the proofs are printed instead.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool import Inference, TemplateError, detect_dialect, get_dialect
from unspool.infer.asking import ask
from unspool.infer.choosing import MOST, first_failure, holds, prove_views
from unspool.infer.inference import NO_CALL, infer_views
from unspool.infer.rendering import Renderer

from ..templates.sources import corpus

PAGE = Path(__file__).parent.parent.parent / "docs" / "en" / "infer.md"


class Row(NamedTuple):
    """The result for a template.

    Attributes:
        package, name: where it is.
        calls: whether it writes calls.
        inferred: whether inference alone proves a dialect; if not, ``why`` says the reason.
        shipped: the first shipped dialect that is proven; empty if none is.
    """

    package: str
    name: str
    calls: bool
    inferred: bool
    why: str
    shipped: str


def tried(cache: Path, patterns: list[str]) -> Iterator[tuple[Row, Inference | None]]:
    """The row of each template, with what was inferred."""
    for package, path in corpus(cache):
        if patterns and not any(p in path.name for p in patterns):
            continue
        template = path.read_text(encoding="utf-8")
        with Renderer(template) as renderer:
            try:
                views = list(ask(renderer))  # once, for both
                found = infer_views(views, renderer, None, "inferred")
            except TemplateError as error:
                yield Row(package, path.stem, True, False, str(error), ""), None
                continue
            fields = {c.case: c for c in found.proof}["one call"]
            calls = found.dialect is not None or fields.reason not in (NO_CALL, "the template leaves out: a call")
            ranked = detect_dialect(chat_template=template)[:MOST] if calls else []
            proving = (c.dialect for c in ranked if holds(prove_views(get_dialect(c.dialect), views, renderer), views))
            shipped = next(proving, "")
        inferred = found.dialect is not None
        yield Row(package, path.stem, calls, inferred, "" if inferred else first_failure(found.proof), shipped), found


def table(rows: list[Row]) -> str:
    """The result as it is in the page."""
    groups = {package: [r for r in rows if r.package == package] for package in Counter(r.package for r in rows)}
    groups = {"all": rows, **groups} if len(groups) > 1 else groups
    lines = [
        "| package | templates | write a call | proven by inference alone | with shipped dialects |",
        "| --- | --- | --- | --- | --- |",
    ]
    for package, those in groups.items():
        calling = [r for r in those if r.calls]
        alone = sum(r.inferred for r in calling)
        proven = sum(r.inferred or bool(r.shipped) for r in calling)
        share = len(calling) or 1
        lines.append(
            f"| {package} | {len(those)} | {len(calling)} | {alone} ({alone / share:.0%}) | "
            f"{proven} ({proven / share:.0%}) |"
        )
    lines += [
        "",
        "| package | template | shipped | inferred | why inference alone does not prove it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for r in (r for r in rows if r.calls):
        why = re.sub(r"\s+", " ", r.why).replace("|", "\\|").replace("<", "&lt;")[:140]
        inferred = "proven" if r.inferred else "no"
        lines.append(f"| {r.package} | {r.name} | {r.shipped or 'none'} | {inferred} | {why} |")
    return "\n".join(lines) + "\n"


def main(cache: Path, patterns: list[str]) -> None:
    rows = []
    for row, found in tried(cache, patterns):
        rows.append(row)
        said = "no call" if not row.calls else "proven" if row.inferred else "NOT"
        print(f"{said:8} {row.shipped:20} {row.package}/{row.name} {row.why[:200]}", flush=True)
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
