"""The HTML report of a run."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .summary import STATUSES, Summary

_COLORS: Final = {
    "ok": "#3a7d44",
    "repaired": "#8ab17d",
    "invalid": "#c1121f",
    "incomplete": "#f4a261",
    "unknown": "#6d597a",
}
_WIDTH: Final = 480
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right}td:first-child,th:first-child"
    "{text-align:left}svg{display:block}h2{margin-top:2rem}"
)


def write_report(path: str, summary: Summary, seconds: float) -> None:
    rate = f", {summary.rows / seconds:,.0f} rows a second" if seconds > 0 and summary.rows else ""
    parts = [
        "<!doctype html><meta charset=utf-8><title>unspool batch</title>",
        f"<style>{_STYLE}</style><h1>{summary.rows:,} rows</h1>",
        f"<p>{summary.characters:,} characters, {summary.tokens:,} tokens; {summary.reasoning:,} rows with reasoning; "
        f"{summary.errors:,} rows could not be read; {seconds:,.1f} s{rate}.</p>",
    ]
    parts += [f"<p>Dialect, by the outputs: {html.escape(reason)}.</p>" for reason in summary.detected]
    if summary.valid or summary.invalid:
        parts += ["<h2>Arguments against schemas</h2>", _bars({"valid": summary.valid, "invalid": summary.invalid})]
    if summary.calls:
        parts += ["<h2>Calls by tool</h2>", _calls(summary.calls)]
    for title, counts in (("Notices", summary.notices), ("Finish reasons", summary.finish)):
        if counts:
            parts += [f"<h2>{title}</h2>", _bars(counts)]
    Path(path).write_text("\n".join(parts) + "\n", encoding="utf-8")


def _bars(counts: Mapping[str, int]) -> str:
    most = max(counts.values())
    rows = []
    for name, count in sorted(counts.items(), key=lambda c: -c[1]):
        rect = f'<rect width="{_share(count, most)}" height=14 fill="#33658a"/>'
        bar = f"<svg width={_WIDTH} height=14 role=img>{rect}</svg>"
        rows.append(f"<tr><td>{html.escape(name)}<td>{count:,}<td>{bar}")
    return f"<table>{''.join(rows)}</table>"


def _calls(calls: Mapping[str, Mapping[str, int]]) -> str:
    most = max(counts["calls"] for counts in calls.values())
    rows = [f"<tr><th>tool<th>calls{''.join(f'<th>{s}' for s in STATUSES)}<th>"]
    for name, counts in sorted(calls.items(), key=lambda c: -c[1]["calls"]):
        cells = "".join(f"<td>{counts.get(s, 0):,}" for s in STATUSES)
        at, drawn = 0.0, []
        for status in STATUSES[:-1]:
            width = _share(counts.get(status, 0), most)
            drawn.append(f'<rect x="{at}" width="{width}" height=14 fill="{_COLORS[status]}"/>')
            at += width
        bar = f"<svg width={_WIDTH} height=14 role=img>{''.join(drawn)}</svg>"
        rows.append(f"<tr><td>{html.escape(name)}<td>{counts['calls']:,}{cells}<td>{bar}")
    return f"<table>{''.join(rows)}</table>"


def _share(count: int, most: int) -> float:
    return round(_WIDTH * count / most, 2) if most else 0.0
