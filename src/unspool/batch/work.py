"""What workers do with a block: read its rows, carry its columns, count."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from .blocks import Block, InputError
from .reading import RECORDED, WRITTEN, Reader, Reading, RowError, named
from .summary import Summary

__all__ = ["BadRow", "Done", "Worker", "arrow_columns", "line_columns", "schema_of"]

_CALL: Final = pa.struct(
    [
        ("name", pa.string()),
        ("arguments", pa.string()),
        ("status", pa.string()),
        ("id", pa.string()),
        ("known", pa.bool_()),
    ]
)
_NOTICE: Final = pa.struct([("kind", pa.string()), ("detail", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
_SEGMENT: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("call", pa.int32()),
        ("token_start", pa.int64()),
        ("token_end", pa.int64()),
    ]
)
_TOKENS: Final = pa.struct([(kind, pa.int64()) for kind in ("reasoning", "content", "calls", "markers")])
SCHEMA: Final = pa.schema(
    [
        ("reasoning", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("finish_reason", pa.string()),
        ("notices", pa.list_(_NOTICE)),
        ("segments", pa.list_(_SEGMENT)),
        ("tokens", _TOKENS),
        ("valid", pa.bool_()),
    ]
)
"""The columns that are written before those of the input."""
assert tuple(SCHEMA.names) == WRITTEN

_Row = dict[str, Any]
_Carried = dict[str, str]
_TYPES: Final = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "json": pa.string(),
    "null": pa.string(),
}
_EXACT: Final = 15  # digits that a float keeps
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


class BadRow(NamedTuple):
    """A row that could not be read: its place among all rows, its file, and why."""

    row: int
    file: str
    reason: str


class Done(NamedTuple):
    """What a block became.

    Attributes:
        block: its number.
        rows: those that were read: a table, or their lines as JSON.
        bad: those that were not.
        summary: what they hold, counted.
    """

    block: int
    rows: pa.Table | bytes
    bad: list[BadRow]
    summary: Summary


# --- columns of the input ---------------------------------------------------------------------------------------------


def arrow_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a table as they are carried: nested ones as JSON text."""
    return pa.schema([(f.name, pa.string() if pa.types.is_nested(f.type) else f.type) for f in schema])


def line_columns(block: Block) -> _Carried:
    """The columns of a block's lines, and what each holds in all of them."""
    assert isinstance(block.rows, list)
    found: _Carried = {}
    for line in block.rows:
        try:
            row = _recorded(line) if block.recorded else _decoded(line)
        except RowError:
            continue  # it is told as a bad row when it is read
        for name, raw in row.items():
            found[name] = _merged(found.get(name, "null"), _kind(bytes(raw)))
    return found


def merged_columns(left: _Carried, right: _Carried) -> _Carried:
    """The columns of both."""
    return left | {name: _merged(left.get(name, "null"), kind) for name, kind in right.items()}


def typed_columns(carried: _Carried) -> pa.Schema:
    """Arrow's types of the columns of JSON lines."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in carried.items()])


def _kind(raw: bytes) -> str:
    head = raw[:1]
    if head == b'"':
        return "text"
    if head in b"{[":
        return "json"
    if head in b"tf":
        return "bool"
    if head == b"n":
        return "null"
    if any(c in raw for c in b".eE"):
        return "float"
    if len(raw) <= _EXACT:
        return "int"
    return "long" if -(1 << 63) <= int(raw[:40]) < 1 << 63 and len(raw) <= 20 else "json"


def _merged(left: str, right: str) -> str:
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    both = {left, right}
    return "long" if both == {"int", "long"} else "float" if both == {"int", "float"} else "json"


def schema_of(carried: pa.Schema) -> pa.Schema:
    """The columns of the output.

    Raises:
        InputError: two columns would have one name.
    """
    names = [*WRITTEN, *(named(n) for n in carried.names)]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: two columns would have this name; rename one of the input's")
    return pa.schema([*SCHEMA, *(f.with_name(named(f.name)) for f in carried)])


# --- blocks -----------------------------------------------------------------------------------------------------------


class Worker:
    """Works on blocks, one after the other.

    Args:
        reading: how rows are read.
        schema: the columns of the output, to make tables; ``None`` makes JSON lines.
    """

    def __init__(self, reading: Reading, schema: pa.Schema | None) -> None:
        self._reader = Reader(reading)
        self._schema = schema

    def work(self, block: Block) -> Done:
        """Read a block's rows."""
        bad: list[BadRow] = []
        summary = Summary()
        if isinstance(block.rows, list):
            records, carried = self._read_lines(block, block.rows, bad, summary)
            rows = self._table(records, carried) if self._schema is not None else _lines(records, carried)
        else:
            records, carried = self._read_batch(block, block.rows, bad, summary)
            rows = self._arrow_table(records, carried) if self._schema is not None else _arrow_lines(records, carried)
        summary.add_errors(len(bad))
        return Done(block.number, rows, bad, summary)

    # -- JSON lines ------------------------------------------------------------------------------------------------

    def _read_lines(
        self, block: Block, lines: Sequence[bytes | None], bad: list[BadRow], summary: Summary
    ) -> tuple[list[_Row], list[dict[str, msgspec.Raw]]]:
        records: list[_Row] = []
        carried: list[dict[str, msgspec.Raw]] = []
        columns = RECORDED if block.recorded else self._reader.reading.columns
        used = {c for c in columns if c}
        for i, line in enumerate(lines):
            try:
                told = _recorded(line) if block.recorded else _decoded(line)
                row = {name: _value(name, told[name]) for name in used if name in told}
                if isinstance(row.get(columns.tools), list):
                    row[columns.tools] = bytes(told[columns.tools]).decode()
                record = self._reader.read(row, block.first + i, columns)
                if self._schema is not None:
                    _check(told, self._schema)
            except RowError as error:
                bad.append(BadRow(block.first + i, block.file, str(error)))
                continue
            summary.add(record, row.get(columns.text))
            records.append(record)
            carried.append(told)
        return records, carried

    def _table(self, records: list[_Row], carried: list[dict[str, msgspec.Raw]]) -> pa.Table:
        assert self._schema is not None
        columns: list[pa.Array] = _written(records)
        for field in list(self._schema)[len(WRITTEN) :]:
            name = field.name if field.name in SCHEMA.names else _unnamed(field.name)
            columns.append(pa.array([_cell(row.get(name), field.type) for row in carried], field.type))
        return pa.table(columns, schema=self._schema)

    # -- Arrow -----------------------------------------------------------------------------------------------------

    def _read_batch(
        self, block: Block, batch: pa.RecordBatch, bad: list[BadRow], summary: Summary
    ) -> tuple[list[_Row], pa.RecordBatch]:
        columns = self._reader.reading.columns
        used = [c for c in dict.fromkeys(columns) if c and c in batch.schema.names]
        values = {name: batch.column(name).to_pylist() for name in used}
        records: list[_Row] = []
        kept: list[int] = []
        for i in range(len(batch)):
            row = {name: column[i] for name, column in values.items()}
            try:
                record = self._reader.read(row, block.first + i)
            except RowError as error:
                bad.append(BadRow(block.first + i, block.file, str(error)))
                continue
            summary.add(record, row.get(columns.text))
            records.append(record)
            kept.append(i)
        return records, batch if len(kept) == len(batch) else batch.take(pa.array(kept, pa.int64()))

    def _arrow_table(self, records: list[_Row], batch: pa.RecordBatch) -> pa.Table:
        assert self._schema is not None
        columns = _written(records)
        by_name = {named(name): batch.column(name) for name in batch.schema.names}
        for field in list(self._schema)[len(WRITTEN) :]:
            column = by_name.get(field.name)
            if column is None:
                column = pa.nulls(len(batch), field.type)
            elif pa.types.is_nested(column.type):
                column = pa.array([None if v is None else _json(v) for v in column.to_pylist()], pa.string())
            columns.append(column.cast(field.type))
        return pa.table(columns, schema=self._schema)


def _written(records: list[_Row]) -> list[pa.Array]:
    return [pa.array([record[f.name] for record in records], f.type) for f in SCHEMA]


def _decoded(line: bytes | None) -> dict[str, msgspec.Raw]:
    if line is None:
        raise RowError("row: is too long")
    try:
        return _raw.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RowError(f"row: no JSON object: {error}") from None


def _recorded(lines: bytes | None) -> dict[str, msgspec.Raw]:
    """A recording as a row."""
    told = [_decoded(line) for line in lines.splitlines()] if lines is not None else [_decoded(None)]
    head, *pieces = told
    row = {name: raw for name, raw in head.items() if name != "type"}
    text = "".join(_text(piece["text"]) for piece in pieces if "text" in piece)
    row["output"] = msgspec.Raw(_encode(text))
    reasons = [piece["finish_reason"] for piece in pieces if "finish_reason" in piece]
    if reasons:
        row["finish_reason"] = reasons[-1]
    return row


def _text(raw: msgspec.Raw) -> str:
    # Recordings may hold lone surrogates, which UTF-8 cannot carry.
    value = json.loads(bytes(raw))
    if not isinstance(value, str):
        raise RowError("text: must be a string")
    return value.encode(errors="surrogatepass").decode(errors="replace")


def _value(name: str, raw: msgspec.Raw) -> Any:
    try:
        return _any.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RowError(f"{name}: {error}") from None


def _check(row: Mapping[str, msgspec.Raw], schema: pa.Schema) -> None:
    """Refuse what the columns cannot carry: they were told by other rows.

    Raises:
        RowError: a value fits no column.
    """
    for name, raw in row.items():
        kind = _kind(bytes(raw))
        i = schema.get_field_index(named(name))
        if i < 0:
            raise RowError(f"{name}: the first rows have no such column; JSON lines as output could carry it")
        fits = kind == "null" or schema.field(i).type in (_TYPES[kind], pa.string())
        if not fits and not (kind == "int" and schema.field(i).type == pa.float64()):
            raise RowError(f"{name}: is of another type than in the first rows; JSON lines as output could carry it")


def _unnamed(name: str) -> str:
    original = name.removeprefix("input_")
    return original if original in WRITTEN and original != name else name


def _cell(raw: msgspec.Raw | None, kind: pa.DataType) -> Any:
    if raw is None or bytes(raw) == b"null":
        return None
    if kind == pa.string():
        data = bytes(raw)
        return _any.decode(data) if data[:1] == b'"' else data.decode()
    return _any.decode(raw)


def _lines(records: list[_Row], carried: list[dict[str, msgspec.Raw]]) -> bytes:
    parts: list[bytes] = []
    for record, row in zip(records, carried, strict=True):
        told: dict[str, Any] = dict(record)
        for name, raw in row.items():
            data = bytes(raw)
            told[named(name)] = data.decode() if data[:1] in b"{[" else raw
        parts.append(_encode(told))
    return b"".join(part + b"\n" for part in parts)


def _arrow_lines(records: list[_Row], batch: pa.RecordBatch) -> bytes:
    rows = batch.to_pylist()
    nested = {f.name for f in batch.schema if pa.types.is_nested(f.type)}
    return b"".join(
        _encode(record | {named(n): _json(v) if n in nested and v is not None else v for n, v in row.items()}) + b"\n"
        for record, row in zip(records, rows, strict=True)
    )


def _json(value: Any) -> str:
    return _encode(value).decode()


def rows_of(done: Done) -> Iterator[_Row]:
    """The rows of a block as dicts."""
    assert isinstance(done.rows, bytes)
    for line in done.rows.splitlines():
        yield _any.decode(line)
