"""Counts for Prometheus, in its text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ..message import Message
from ..wire.common import Usage

Labels = tuple[tuple[str, str], ...]

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS: Final = {
    "requests": "Answered requests.",
    "tokens": "Tokens by the engine's count.",
    "tool_calls": "Calls that ended.",
    "notices": "Deviations of outputs from their format.",
}
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counts since the server started, labelled with the dialect and the model, if that is not empty."""

    def __init__(self, dialect: str, model: str = "") -> None:
        self.labels: Labels = (("dialect", dialect), *([("model", model)] if model else []))
        self._counts: Counter[tuple[str, Labels]] = Counter()  # by the names of `_COUNTERS`, and labels
        self._first = [0] * (len(_BUCKETS) + 1)
        self._first_sum = 0.0

    def response(self, path: str, status: int | str) -> None:
        """Count an answered request, by its HTTP status, or ``cancelled``, or ``failed`` after the first byte."""
        self._count("requests", path=path, status=str(status))

    def first_event(self, seconds: float) -> None:
        """Count a response whose first events came this many seconds after its request."""
        self._first[bisect_left(_BUCKETS, seconds)] += 1
        self._first_sum += seconds

    def output(self, message: Message) -> None:
        """Count the calls and notices of a finished output."""
        for call in message.tool_calls:
            self._count("tool_calls", status=call.status)
        for notice in message.notices:
            self._count("notices", kind=notice.kind)

    def usage(self, usage: Usage) -> None:
        self._count("tokens", usage.prompt_tokens, kind="prompt")
        self._count("tokens", usage.completion_tokens, kind="completion")
        if usage.reasoning_tokens is not None:  # unknown is not zero
            self._count("tokens", usage.reasoning_tokens, kind="reasoning")

    def _count(self, name: str, number: int = 1, **labels: str) -> None:
        self._counts[name, tuple(labels.items())] += number

    def text(self, gauges: Mapping[str, tuple[str, int]]) -> str:
        """All counts, and gauges: the help and the current value of each, by name."""
        lines: list[str] = []
        d = self.labels
        for name, text in _COUNTERS.items():
            lines += [f"# HELP unspool_{name}_total {text}", f"# TYPE unspool_{name}_total counter"]
            rows = sorted((labels, number) for (of, labels), number in self._counts.items() if of == name)
            lines += [f"unspool_{name}_total{_labels((*d, *labels))} {number}" for labels, number in rows]
        for name, (text, value) in gauges.items():
            lines += [f"# HELP unspool_{name} {text}", f"# TYPE unspool_{name} gauge", f"unspool_{name} {value}"]
        name = "unspool_first_event_seconds"
        lines += [f"# HELP {name} From the request to its first event.", f"# TYPE {name} histogram"]
        total = 0
        for bound, count in zip((*map(str, _BUCKETS), "+Inf"), self._first, strict=True):
            total += count
            lines.append(f"{name}_bucket{_labels((*d, ('le', bound)))} {total}")
        lines += [f"{name}_sum{_labels(d)} {self._first_sum:g}", f"{name}_count{_labels(d)} {total}"]
        return "\n".join(lines) + "\n"


def added(texts: Iterable[str]) -> str:
    """Merge several texts into one by adding up values with the same name and labels, as is right for all metrics."""
    values: dict[str, dict[str, float]] = {}  # by metric, then by its name with labels
    heads: dict[str, list[str]] = {}
    for text in texts:
        metric = ""
        for line in text.splitlines():
            if line.startswith("# "):
                metric = line.split(" ", 3)[2]
                lines = heads.setdefault(metric, [])
                if line not in lines:
                    lines.append(line)
            else:
                name, _, value = line.rpartition(" ")
                found = values.setdefault(metric, {})
                found[name] = found.get(name, 0) + float(value)
    lines = []
    for metric, head in heads.items():
        lines += [*head, *(f"{name} {value:.15g}" for name, value in values.get(metric, {}).items())]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + pairs + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
