"""Counts what a run's rows contain, for the final summary and for programs."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec


class Summary(msgspec.Struct):
    """Counts over the rows of a run.

    Attributes:
        rows: the number of rows that were read.
        errors: the number of rows that could not be read.
        characters, tokens: the length of the outputs; tokens only of those that came as ids.
        reasoning: the number of rows with reasoning.
        valid, invalid: the number of rows whose calls all match their schemas, and of those with other calls.
        calls: for each tool, the number of calls, of each status, and of ``unknown`` and ``known`` ones.
        notices: the number of notices of each kind.
        finish: the number of rows for each finish reason.
        detected: the dialects that the outputs of rows without one show, each with the reason.
    """

    rows: int = 0
    errors: int = 0
    characters: int = 0
    tokens: int = 0
    reasoning: int = 0
    valid: int = 0
    invalid: int = 0
    calls: dict[str, dict[str, int]] = {}
    notices: dict[str, int] = {}
    finish: dict[str, int] = {}
    detected: list[str] = []

    def add(self, record: Mapping[str, Any], text: Any) -> None:
        """Count a row by its written values, and its output."""
        self.rows += 1
        self.characters += len(text) if isinstance(text, str) else 0
        self.tokens += sum((record["tokens"] or {}).values())
        self.reasoning += bool(record["reasoning"])
        self.valid += record["valid"] is True
        self.invalid += record["valid"] is False
        _count(self.finish, record["finish_reason"])
        for notice in record["notices"]:
            _count(self.notices, notice["kind"])
        for call in record["tool_calls"]:
            name = _kept(self.calls, call["name"] if call["known"] is not False else UNDECLARED)
            counts = self.calls.setdefault(name, {})
            _count(counts, "calls")
            _count(counts, call["status"])
            if call["known"] is False:
                _count(counts, "unknown")

    def merge(self, other: "Summary") -> None:
        for field in ("rows", "errors", "characters", "tokens", "reasoning", "valid", "invalid"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        for name, counts in other.calls.items():
            kept = _kept(self.calls, name)
            self.calls[kept] = dict(Counter(self.calls.get(kept, {})) + Counter(counts))
        for mine, theirs in ((self.notices, other.notices), (self.finish, other.finish)):
            for name, count in theirs.items():
                _count(mine, name, count)

    def text(self, seconds: float) -> str:
        """The counts as a readable table."""
        rate = f", {self.rows / seconds:,.0f} rows/s" if seconds > 0 and self.rows else ""
        amount = f"{self.tokens:,} tokens" if self.tokens else f"{self.characters:,} characters"
        lines = [f"{self.rows:,} rows, {amount}, {self.errors:,} errors in {seconds:,.1f} s{rate}"]
        lines += [f"dialect, by the outputs: {reason}" for reason in self.detected]
        if self.valid or self.invalid:
            lines.append(
                f"arguments fit their schemas in {self.valid:,} of {self.valid + self.invalid:,} rows with calls"
            )
        if self.calls:
            width = max(len("tool"), *map(len, self.calls))
            lines.append(f"\n{'tool':{width}}  {'calls':>10}" + "".join(f"  {c:>10}" for c in STATUSES))
            for name, counts in sorted(self.calls.items(), key=lambda c: -c[1]["calls"]):
                cells = "".join(f"  {counts.get(c, 0):>10,}" for c in STATUSES)
                lines.append(f"{name:{width}}  {counts['calls']:>10,}{cells}")
        if self.notices:
            width = max(len("notice"), *map(len, self.notices))
            lines.append(f"\n{'notice':{width}}  {'count':>10}")
            for kind, count in sorted(self.notices.items(), key=lambda n: -n[1]):
                lines.append(f"{kind:{width}}  {count:>10,}")
        return "\n".join(lines) + "\n"


STATUSES = ("ok", "repaired", "invalid", "incomplete", "unknown")
UNDECLARED = "(undeclared)"
"""Calls of undeclared tools are counted together, since models may make up any number of names."""


OTHERS = "(others)"
_NAMES = 1_000  # the most names that are counted separately, since there may be any number of tools and finish reasons


def _kept(counted: Mapping[str, Any], name: str) -> str:
    """The name under which something is counted."""
    return name if name in counted or len(counted) < _NAMES else OTHERS


def _count(counts: dict[str, int], name: str, more: int = 1) -> None:
    kept = _kept(counts, name)
    counts[kept] = counts.get(kept, 0) + more
