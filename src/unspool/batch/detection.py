"""Finds the dialect of rows that name none, from a sample of their outputs before a run begins."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from ..dialect.registry import get_dialect
from ..errors import UnknownDialect
from ..infer.detect import LONGEST, MARKERS, OUTPUTS, Candidate, detect_dialect, read_output
from .blocks import RowBlock, blocks
from .reading import AUTO, RECORDED, Columns, Detected, Reading, RowError, RowReader
from .work import line_values, values_of

SAMPLE: Final = 64  # the rows of a stream that are read before its dialect is decided
_FILES: Final = 8  # the most files that are sampled; of more, a sample is spread evenly
_MODELS: Final = 8  # the most models without a known dialect whose outputs are sampled
_RIVAL: Final = 0.9  # the share of the best score from which another dialect counts as equally good
_NAMED: Final = 5  # the most dialects that a message names
_TELLS: Final = re.compile(r"[<\[{(]")  # the parts of an output that can show a dialect


def files_detected(reading: Reading, files: Iterable[str]) -> Reading:
    """Complete the reading of files with the dialects of rows that name none, from the first rows of some files;
    `UnknownDialect` if none of these names a dialect, and their outputs do not show one."""
    if reading.dialect != AUTO:
        return reading
    some = _spread(list(files), _FILES)
    return _detected(reading, (block for file in some for block in islice(blocks([file]), 1)))


def _spread(items: list[str], most: int) -> list[str]:
    """At most so many items, spread evenly over all of them."""
    return items[:: max(1, -(-len(items) // most))]


def first_detected(reading: Reading, blocks: Iterable[RowBlock]) -> tuple[Reading, Iterator[RowBlock]]:
    """Complete the reading of a stream from its first rows, and return it with all blocks; errors as above."""
    stream = iter(blocks)
    if reading.dialect != AUTO:
        return reading, stream
    first: list[RowBlock] = []
    while sum(len(block.rows) for block in first) < SAMPLE and (block := next(stream, None)) is not None:
        first.append(block)
    return _detected(reading, first), chain(first, stream)


def _detected(reading: Reading, beginning: Iterable[RowBlock]) -> Reading:
    reader = RowReader(reading)
    outputs: dict[str, list[str]] = {}
    named = False
    for block in beginning:
        columns = RECORDED if block.recorded else reading.columns
        for row in _rows(block, columns):
            try:
                model = reader.model(row, columns) or ""
                if reader.named(row, columns) is not None:
                    named = True
                    continue
            except (ValueError, TypeError):
                continue  # it is reported as a bad row when it is read
            output = reader.output(row, columns)
            if output is not None and (model in outputs or len(outputs) < _MODELS):
                outputs.setdefault(model, []).append(output[:LONGEST])
    detected = {model: _decide(model, found) for model, found in outputs.items()}
    first = next(iter(detected.values()), None)
    if first is not None and not named and all(one.dialect is None for one in detected.values()):
        raise UnknownDialect(f"auto: {first.reason}")
    return msgspec.structs.replace(reading, detected=detected)


def _rows(block: RowBlock, columns: Columns) -> Iterator[Mapping[str, Any]]:
    """The values of a block's rows that detection needs."""
    used = [c for c in dict.fromkeys(columns) if c and c != columns.tools]
    if isinstance(block.rows, pa.RecordBatch):
        names = [c for c in used if c in block.rows.schema.names]
        for row in zip(*(values_of(block.rows, name) for name in names), strict=True):
            yield dict(zip(names, row, strict=True))
        return
    for line in block.rows:
        try:
            yield line_values(line, block.recorded, used)[1]
        except RowError:
            continue  # it is reported as a bad row when it is read


class _Read(NamedTuple):
    """What a dialect reads in an output."""

    thought: str
    content: str
    calls: list[tuple[str, ...]]

    @property
    def finds(self) -> bool:
        return bool(self.thought or self.calls)

    @property
    def leaves_markers(self) -> bool:
        """Whether reasoning or content contains markers, which a better dialect would have read as such."""
        return any(map(MARKERS.search, (self.thought, self.content)))


def _decide(model: str, outputs: list[str]) -> Detected:
    texts = _spread([text for text in dict.fromkeys(outputs) if _TELLS.search(text)], OUTPUTS)
    whose = f"the outputs of {model!r}" if model else "the outputs"
    rivals = _rivals(texts)
    if not rivals:
        return Detected(
            None, f"{whose} show no dialect: the first ones contain no calls that a dialect reads; name one"
        )
    (first, own), *others = rivals
    marked = sum(one.leaves_markers and not one.finds for one in own)
    if marked > sum(one.finds for one in own):
        details = f"{first.dialect}, the best, finds nothing in {marked} of {len(texts)} that contain markers"
        return Detected(None, f"{whose} show no dialect: {details}; name one")
    alike = [other.dialect for other, reads in others if reads == own]
    if len(alike) < len(others) or (alike and not any(one.calls for one in own)):
        reasons = _by_reason(rival for rival, _ in rivals)
        return Detected(None, f"{whose} do not decide between dialects: {reasons}. Name one, or the model")
    details = f"{first.dialect} {first.reason}" + (f"; {_listed(alike)} read them in the same way" if alike else "")
    return Detected(first.dialect, f"{details} ({whose})" if model else details)


def _rivals(outputs: list[str]) -> list[tuple[Candidate, list[_Read]]]:
    """The dialects that fit about equally well, and what each reads. If the first leaves no markers, none does."""
    candidates = detect_dialect(output=outputs) if outputs else []
    least = max((c.score for c in candidates), default=0) * _RIVAL
    rivals = [(c, _reads(c, outputs)) for c in candidates if c.score >= least]
    clean = [(c, reads) for c, reads in rivals if not any(one.leaves_markers for one in reads)]
    return clean if clean[:1] == rivals[:1] else rivals


def _reads(candidate: Candidate, outputs: list[str]) -> list[_Read]:
    messages = [read_output(get_dialect(candidate.dialect), text)[1] for text in outputs]
    return [_Read(m.reasoning, m.content, [(c.name, c.arguments, c.status) for c in m.tool_calls]) for m in messages]


def _by_reason(candidates: Iterable[Candidate]) -> str:
    names_by_reason: dict[str, list[str]] = {}
    for candidate in candidates:
        names_by_reason.setdefault(candidate.reason, []).append(candidate.dialect)
    return "; ".join(f"{_listed(names)} ({reason})" for reason, names in list(names_by_reason.items())[:_NAMED])


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
