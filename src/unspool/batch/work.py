"""The work on a block: reads its rows, carries its columns, and counts."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from ..wire.encoding import encode
from .blocks import InputError, RowBlock
from .reading import RECORDED, SCHEMA, WRITTEN, RowError, RowReader, carried_names
from .summary import Summary

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
_FITTING: Final = {
    pa.bool_(): ("bool",),
    pa.int64(): ("int", "long"),
    pa.float64(): ("float", "int"),
    pa.string(): ("text",),
}
"""The kinds of values that a column takes, by its Arrow type. A text column takes all others as JSON."""
_INPUT: Final = b"input"
_EXACT: Final = 15  # the digits that a float keeps
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into


class BadRow(NamedTuple):
    """A row that could not be read: its index among all rows, its file, and the reason."""

    row: int
    file: str
    reason: str


class _Cell(NamedTuple):
    """A carried column: its name in the output, and the kinds of values that it takes."""

    name: str
    kinds: tuple[str, ...]


class Done(NamedTuple):
    """The result of a block: the rows, as a table or as JSON lines; those that could not be read; the counts."""

    rows: pa.Table | bytes
    bad: list[BadRow]
    summary: Summary


# --- columns of the input ---------------------------------------------------------------------------------------------


def arrow_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a table to pass on: nested ones as JSON text."""
    return pa.schema([(f.name, pa.string() if _is_nested(f.type) else f.type) for f in schema])


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(getattr(kind, "storage_type", kind)))


def values_of(batch: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a table's column for JSON; times unknown to Python are Arrow's text. `InputError` if unreadable."""
    column = batch.column(name)
    if _is_nested(column.type):
        column = getattr(column, "storage", column)
    try:
        values: list[Any]
        try:
            values = _cast(column, _in_microseconds).to_pylist()
        except (ValueError, OverflowError):  # parts of a microsecond, or years after 9999
            values = _cast(column, lambda kind: pa.string()).to_pylist()
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"{name}: {error}") from None
    return values


def _cast(column: pa.Array, convert: Callable[[pa.DataType], pa.DataType]) -> pa.Array:
    kind = _with_times(column.type, convert)
    return column if kind == column.type else column.cast(kind)


def _with_times(kind: pa.DataType, convert: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with all types of times in it replaced, at any depth."""
    types = pa.types
    if types.is_temporal(kind):
        return convert(kind)
    if types.is_struct(kind):
        return pa.struct([f.with_type(_with_times(f.type, convert)) for f in kind])
    if types.is_map(kind):
        return pa.map_(_with_times(kind.key_type, convert), _with_times(kind.item_type, convert))
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, convert)), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        made = pa.list_ if types.is_list(kind) else pa.large_list
        return made(kind.value_field.with_type(_with_times(kind.value_type, convert)))
    return kind


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind) or getattr(kind, "unit", "us") != "ns":
        return kind
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def line_columns(block: RowBlock) -> _Carried:
    """The columns of a block's lines, each with the kind of its values in all lines."""
    assert isinstance(block.rows, list)
    found: _Carried = {}
    for line in block.rows:
        try:
            row = _recorded(line) if block.recorded else _decoded(line)
        except RowError:
            continue  # reading it reports it as a bad row
        for name, raw in row.items():
            found[name] = _merged(found.get(name, "null"), _kind(bytes(raw)))
    return found


def merged_columns(left: _Carried, right: _Carried) -> _Carried:
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
    names = carried_names(carried.names)
    return pa.schema([*SCHEMA, *(_renamed(f, names[f.name]) for f in carried)])


def _renamed(field: pa.Field, name: str) -> pa.Field:
    """A column under the name with which it is carried; its metadata keeps the name in the input."""
    return field if field.name == name else field.with_name(name).with_metadata({_INPUT: field.name})


def _own(field: pa.Field) -> str:
    """The name that a carried column has in the input."""
    name: bytes = (field.metadata or {}).get(_INPUT, field.name.encode())
    return name.decode()


# --- blocks -----------------------------------------------------------------------------------------------------------


def read_block(reader: RowReader, block: RowBlock, schema: pa.Schema | None) -> Done:
    """Read a block's rows: the step of a run. ``schema`` has the columns of the output's table; without one, the output
    is JSON lines."""
    work = _Work(reader, block, schema)
    rows = work.lines(block.rows) if isinstance(block.rows, list) else work.arrow(block.rows)
    work.summary.errors += len(work.bad)
    return Done(rows, work.bad, work.summary)


class _Work:
    """Reads one block, and collects the rows that cannot be read, and the counts."""

    def __init__(self, reader: RowReader, block: RowBlock, schema: pa.Schema | None) -> None:
        self._reader = reader
        self._block = block
        self._schema = schema
        self._carried = list(schema or ())[len(WRITTEN) :]
        self.bad: list[BadRow] = []
        self.summary = Summary()

    def _skip(self, i: int, error: RowError) -> None:
        self.bad.append(BadRow(self._block.first + i, self._block.file, str(error)))

    # -- JSON lines ------------------------------------------------------------------------------------------------

    def lines(self, lines: Sequence[bytes | None]) -> pa.Table | bytes:
        read = self._read_lines(lines)
        if self._schema is None:
            return _lines(read)
        records, carried = [], []
        for record, cells in read:
            records.append(record)
            carried.append(cells)
        columns = [pa.array([row.get(f.name) for row in carried], f.type) for f in self._carried]
        return pa.table([*_written(records), *columns], schema=self._schema)

    def _read_lines(self, lines: Sequence[bytes | None]) -> Iterator[tuple[_Row, dict[str, Any]]]:
        """For each row, the values to write and the columns that it carries."""
        first, recorded = self._block.first, self._block.recorded
        columns = RECORDED if recorded else self._reader.reading.columns
        used = [c for c in dict.fromkeys(columns) if c and c != columns.tools]
        cells = {_own(f): _Cell(f.name, _FITTING.get(f.type, ())) for f in self._carried}
        for i, line in enumerate(lines):
            try:
                values, row = line_values(line, recorded, used)
                if columns.tools in values:
                    row[columns.tools] = _tools(columns.tools, values[columns.tools])
                record = self._reader.read(row, first + i, columns)
                carried = _as_json(values) if self._schema is None else _cells(values, row, cells)
            except RowError as error:
                self._skip(i, error)
                continue
            self.summary.add(record, row.get(columns.text))
            yield record, carried

    # -- Arrow -----------------------------------------------------------------------------------------------------

    def arrow(self, batch: pa.RecordBatch) -> pa.Table | bytes:
        columns = self._reader.reading.columns
        used = [c for c in dict.fromkeys(columns) if c and c in batch.schema.names]
        records: list[_Row] = []
        kept: list[int] = []
        try:
            values = {name: values_of(batch, name) for name in used}
            for i in range(len(batch)):
                row = {name: column[i] for name, column in values.items()}
                try:
                    record = self._reader.read(row, self._block.first + i)
                except RowError as error:
                    self._skip(i, error)
                    continue
                self.summary.add(record, row.get(columns.text))
                records.append(record)
                kept.append(i)
            batch = batch if len(kept) == len(batch) else batch.take(pa.array(kept, pa.int64()))
            return _arrow_lines(records, batch) if self._schema is None else self._table(records, batch)
        except InputError as error:
            raise InputError(f"{self._block.file}: {error}" if self._block.file else str(error)) from None

    def _table(self, records: list[_Row], batch: pa.RecordBatch) -> pa.Table:
        columns = _written(records)
        there = set(batch.schema.names)
        for field in self._carried:
            column = batch.column(_own(field)) if _own(field) in there else None
            if column is None:
                column = pa.nulls(len(batch), field.type)
            elif _is_nested(column.type):
                values = values_of(batch, _own(field))
                column = pa.array([None if v is None else _json(v) for v in values], pa.string())
            columns.append(column.cast(field.type))
        return pa.table(columns, schema=self._schema)


def _written(records: list[_Row]) -> list[pa.Array]:
    return [pa.array([record[f.name] for record in records], f.type) for f in SCHEMA]


def line_values(
    line: bytes | None, recorded: bool, names: Iterable[str]
) -> tuple[dict[str, msgspec.Raw], dict[str, Any]]:
    """A line's raw values, and the decoded values of some columns; `RowError` if it is not a row."""
    values = _recorded(line) if recorded else _decoded(line)
    return values, {name: _value(name, values[name]) for name in names if name in values}


def _decoded(line: bytes | None) -> dict[str, msgspec.Raw]:
    if line is None:
        raise RowError("row: is too long")
    try:
        line.decode()  # checks all of it, since only some values are decoded later
        return _raw.decode(line)
    except UnicodeDecodeError as error:
        raise RowError(f"row: not UTF-8: {error.reason}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        if rb"\ud" not in line.lower():
            raise RowError(f"row: no JSON object: {error}") from None
    try:  # a lone surrogate, as of a character that was cut, is no reason to lose a row
        return _raw.decode(encode(json.loads(line)))
    except (ValueError, RecursionError) as error:
        raise RowError(f"row: no JSON object: {error}") from None


def _recorded(lines: bytes | None) -> dict[str, msgspec.Raw]:
    """A recording as a row."""
    records = [_decoded(line) for line in lines.splitlines()] if lines is not None else [_decoded(None)]
    head, *pieces = records
    row = {name: raw for name, raw in head.items() if name != "type"}
    text = "".join(_text(piece["text"]) for piece in pieces if "text" in piece)
    row["output"] = msgspec.Raw(_encode(text))
    reasons = [piece["finish_reason"] for piece in pieces if "finish_reason" in piece]
    if reasons:
        row["finish_reason"] = reasons[-1]
    return row


def _text(raw: msgspec.Raw) -> str:
    value = _value("text", raw)
    if not isinstance(value, str):
        raise RowError("text: must be a string")
    return value


def _tools(name: str, raw: msgspec.Raw) -> Any:
    """The tools of a row. A list stays JSON text, which is the key for caching the tools."""
    data = bytes(raw)
    return data.decode() if data.startswith(b"[") else _value(name, raw)


def _value(name: str, raw: msgspec.Raw) -> Any:
    try:
        return _any.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RowError(f"{name}: {error}") from None


def _cells(row: Mapping[str, msgspec.Raw], values: Mapping[str, Any], cells: Mapping[str, _Cell]) -> dict[str, Any]:
    """The values that a row carries in these columns of a table, some of them decoded already. `RowError` if one does
    not fit its column, whose type earlier rows decided."""
    found: dict[str, Any] = {}
    for name, raw in row.items():
        data = bytes(raw)
        kind = _kind(data)
        cell = cells.get(name)
        if cell is None:
            raise RowError(f"{name}: the first rows have no such column; JSON lines as output could carry it")
        if kind == "null":
            continue
        if kind in cell.kinds:
            found[cell.name] = values[name] if kind == "text" and name in values else _value(name, raw)
        elif "text" in cell.kinds:
            found[cell.name] = data.decode()
        else:
            raise RowError(f"{name}: is of another type than in the first rows; JSON lines as output could carry it")
    return found


def _as_json(row: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The values that a row carries in JSON lines."""
    names = carried_names(row)
    return {names[n]: bytes(raw).decode() if bytes(raw)[:1] in b"{[" else raw for n, raw in row.items()}


def _lines(read: Iterable[tuple[_Row, dict[str, Any]]]) -> bytes:
    """Write lines of JSON. Each row is dropped once it is written."""
    lines = bytearray()
    for record, carried in read:
        _encode_into(record | carried, lines, -1)
        lines += b"\n"
    return bytes(lines)


def _arrow_lines(records: list[_Row], batch: pa.RecordBatch) -> bytes:
    names = carried_names(batch.schema.names)
    columns = []
    for field in batch.schema:
        values = values_of(batch, field.name)
        nested = _is_nested(field.type)
        columns.append([_json(v) if nested and v is not None else v for v in values])
    cells = (dict(zip(names.values(), row, strict=True)) for row in zip(*columns, strict=True))
    return _lines(zip(records, cells, strict=True))


def _json(value: Any) -> str:
    return _encode(value).decode()
