"""Rollouts in bulk: tables, streams of rows, files. Needs the extra ``batch``."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa

from ..dialect.file import Dialect
from ..validation import wrong_type
from ..wire.encoding import encode
from .blocks import ROWS, InputError, RowBlock, check_names, numbered, table_blocks
from .detection import SAMPLE, first_detected
from .reading import AUTO, WRITTEN, Columns, Reading, RowError, RowReader
from .run import Job, Progress
from .summary import Summary
from .work import BadRow, Done, arrow_columns, read_block, schema_of
from .workers import pool

__all__ = [
    "WRITTEN", "BadRow", "Columns", "InputError", "Job", "Progress", "Reading", "RowError", "Summary", "parse_many",
    "parse_table",
]  # fmt: skip

_FIRST: Final = 16  # the number of rows in a stream's first block: few, so that the first results come soon


def parse_table(
    table: Any,
    dialect: str | Dialect,
    *,
    column: str = "output",
    workers: int = 1,
    errors: list[BadRow] | None = None,
    summary: Summary | None = None,
    **options: Any,
) -> pa.Table:
    """Parse the outputs of a table.

    Args:
        table: a ``Table``, ``RecordBatch``, ``RecordBatchReader`` or ``Dataset`` of pyarrow, read batch by batch.
        dialect: a name, the path of a file, a `Dialect`, or ``auto``. With ``auto`` each row's model or templates
            decide; for rows with neither, the first outputs do.
        column: the column of the text.
        workers: the number of processes; with 1, this process does all the work.
        errors: a list for the rows that cannot be read. With a list, they are left out instead of raising.
        summary: gets the counts, and the dialect that the outputs show.
        options: other fields of `Reading`, such as ``tools``, ``tokenizer``, ``policy`` or ``columns``.

    Returns:
        The columns of `WRITTEN`, then those of the input; nested ones as JSON text.

    Raises:
        RowError: a row cannot be read, and ``errors`` is not given.
        InputError: the table lacks the column, two columns have the same name, or Arrow cannot read one.
        UnknownDialect: there is no such dialect, or no row names one and the outputs do not show one.
        TypeError: ``table`` is not a table.
    """
    batches, schema = _batches(table)
    check_names(schema)
    reading = _reading(dialect, column, options)
    needed = (reading.columns.text, reading.columns.token_ids)
    if not any(name in schema.names for name in needed):
        raise InputError(f"table: has neither of the columns {' and '.join(needed)}; it has {', '.join(schema.names)}")
    out = schema_of(arrow_columns(schema))
    reading, stream = first_detected(reading, table_blocks(batches))
    with pool(RowReader(reading), workers) as mapped:
        done = mapped(partial(read_block, schema=out), stream)
        return pa.concat_tables([out.empty_table(), *(one.rows for one in _counted(done, reading, errors, summary))])


def parse_many(
    rows: Iterable[str | Mapping[str, Any]],
    dialect: str | Dialect,
    *,
    column: str = "output",
    workers: int = 1,
    errors: list[BadRow] | None = None,
    summary: Summary | None = None,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Parse rows as they arrive, in order.

    Args:
        rows: texts, or dicts of JSON values.
        dialect, column, workers, errors, summary, options: see `parse_table`.

    Yields:
        The columns of `WRITTEN`, then those of the input; nested ones as JSON text.

    Raises:
        RowError: a row cannot be read, and ``errors`` is not given.
        UnknownDialect: there is no such dialect, or no row names one and the outputs do not show one.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise wrong_type("rows", rows, "an iterable of texts or dicts")
    reading = _reading(dialect, column, options)
    blocks = numbered(_row_blocks(rows, column, SAMPLE if reading.dialect == AUTO else _FIRST))
    reading, stream = first_detected(reading, blocks)
    with pool(RowReader(reading), workers) as mapped:
        for done in _counted(mapped(partial(read_block, schema=None), stream), reading, errors, summary):
            yield from map(msgspec.json.decode, done.rows.splitlines())


def _reading(dialect: str | Dialect, column: str, options: dict[str, Any]) -> Reading:
    columns = options.pop("columns", Columns())
    allowed = [f for f in Reading.__struct_fields__ if f != "dialect"]
    unknown = next((name for name in options if name not in allowed), None)
    if unknown is not None:
        raise TypeError(f"{unknown}: is not one of column, workers, errors, {', '.join(allowed)}")
    return Reading(dialect=dialect, columns=columns._replace(text=column), **options)


def _batches(table: Any) -> tuple[Iterable[pa.RecordBatch], pa.Schema]:
    if isinstance(table, pa.RecordBatch):
        return [table], table.schema
    if not isinstance(getattr(table, "schema", None), pa.Schema):
        raise TypeError(f"table: must be a pyarrow.Table or a dataset, not {type(table).__name__}")
    return (table if isinstance(table, pa.RecordBatchReader) else table.to_batches()), table.schema


def _row_blocks(rows: Iterable[str | Mapping[str, Any]], column: str, size: int) -> Iterator[RowBlock]:
    stream = iter(rows)
    while lines := [encode({column: r} if isinstance(r, str) else dict(r)) for r in islice(stream, size)]:
        yield RowBlock(lines)
        size = min(size * 2, ROWS)


def _counted(
    done: Iterable[Done], reading: Reading, errors: list[BadRow] | None, summary: Summary | None
) -> Iterator[Done]:
    """The results of blocks, after noting their bad rows and counts."""
    if summary is not None:
        summary.detected += reading.reasons
    for one in done:
        if errors is not None:
            errors += one.bad
        elif one.bad:
            raise RowError(f"row {one.bad[0].row}: {one.bad[0].reason}")
        if summary is not None:
            summary.merge(one.summary)
        yield one
