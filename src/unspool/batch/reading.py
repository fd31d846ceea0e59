"""Reads one row: finds its output and its dialect, and makes the columns of the result."""

import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from ..check import load_dialect
from ..checkpoints.gguf import read_gguf
from ..checkpoints.pieces import Pieces
from ..dialect.file import Dialect
from ..dialect.ids import fill_id, fill_letters
from ..dialect.registry import as_dialect, get_dialect
from ..errors import DialectError
from ..grammar.validity import Validators
from ..infer.detect import detect_dialect
from ..message import Message
from ..parser import Parser, parse
from ..policy import Policy
from ..tokens import backend_of
from ..toolset import Toolset, read_toolset
from ..validation import wrong_type

_SPAN: Final = {"start": pa.int64(), "end": pa.int64()}
_CALL: Final = {**dict.fromkeys(("name", "arguments", "status", "id"), pa.string()), "known": pa.bool_()}
_NOTICE: Final = {"kind": pa.string(), "detail": pa.string(), **_SPAN}
_SEGMENT: Final = {"kind": pa.string(), **_SPAN, "call": pa.int32(), "token_start": pa.int64(), "token_end": pa.int64()}
_TOKENS: Final = dict.fromkeys(("reasoning", "content", "calls", "markers"), pa.int64())
SCHEMA: Final = pa.schema(
    {
        "reasoning": pa.string(),
        "content": pa.string(),
        "tool_calls": pa.list_(pa.struct(_CALL)),
        "finish_reason": pa.string(),
        "notices": pa.list_(pa.struct(_NOTICE)),
        "segments": pa.list_(pa.struct(_SEGMENT)),
        "tokens": pa.struct(_TOKENS),
        "valid": pa.bool_(),
    }
)
"""The columns that are written before those of the input."""
WRITTEN: Final = tuple(SCHEMA.names)
"""The names of the columns that are written before those of the input."""
AUTO: Final = "auto"
_LETTERS: Final = bytes(((string.ascii_letters + string.digits) * 5)[:256], "ascii")  # a letter or digit for each byte
_KEPT_TOOLS: Final = 256
_ARGUMENT: Final = re.compile(r"\w+(?=[:.\[])")  # the argument that an error's message begins with


def carried_names(columns: Iterable[str]) -> dict[str, str]:
    """The names under which columns of the input are carried. A name that the output uses gets the prefix ``input_``,
    as often as needed to be unique, for example if the input is the output of an earlier run."""
    names = {column: column for column in columns}
    for column in names.keys() & set(WRITTEN):
        name = f"input_{column}"
        while name in names:
            name = f"input_{name}"
        names[column] = name
    return names


class RowError(ValueError):
    """A row cannot be read; the message says why."""


class Columns(NamedTuple):
    """The names of the columns that are read; ``None`` if a column is not used. Only a text or ids are required.

    Attributes:
        text: the model's output.
        token_ids: the output as token ids; with a tokenizer, it takes precedence.
        tools: OpenAI tool dicts, or their JSON text.
        finish_reason: the engine's finish reason.
        prompt: the rendered prompt, or its ids.
        stage: the stage at which the output begins.
        model: the model's name, for the dialect ``auto``.
        response_template: the model's ``response_template``, for ``auto`` if the name decides nothing.
        chat_template: the model's chat template, for the same.
        dialect: a dialect's name, for ``auto``; it takes precedence.
    """

    text: str = "output"
    token_ids: str = "token_ids"
    tools: str = "tools"
    finish_reason: str = "finish_reason"
    prompt: str | None = None
    stage: str | None = None
    model: str = "model"
    response_template: str = "response_template"
    chat_template: str = "chat_template"
    dialect: str | None = None


RECORDED: Final = Columns(prompt="prompt", stage="stage", dialect="dialect")
"""The columns of recordings, once they are read as rows."""


class Detected(msgspec.Struct, frozen=True):
    """The dialect that outputs show (``None`` if they do not decide), and the evidence, or the candidates left."""

    dialect: str | None
    reason: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are read. It is plain data that can be sent to other processes and machines.

    Attributes:
        dialect: a name, the path of a ``.toml`` file, a `Dialect`, or ``auto``. With ``auto`` each row's model or
            templates decide, or else a sample of the outputs.
        columns: the names of the columns.
        tools, tool_choice, prompt, stage, finish_reason: the values for rows that have none of their own.
        policy: the policy of the parser.
        tokenizer: a ``tokenizers.Tokenizer``, or the path of its file or folder, or of a GGUF; required for ids.
        model: the model of rows that name none, for ``auto``.
        detected: for ``auto``, the dialects that outputs show, by model, for models without a known dialect; ``""`` is
            the key for rows without a model. Every run detects them anew.
    """

    dialect: str | Dialect
    columns: Columns = Columns()
    tools: Sequence[Any] | None = None
    tool_choice: Any = "auto"
    prompt: str | None = None
    stage: str | None = None
    finish_reason: str = "stop"
    policy: Policy | None = None
    tokenizer: Any = None
    model: str | None = None
    detected: Mapping[str, Detected] = {}

    @property
    def reasons(self) -> list[str]:
        """What the outputs showed, as sentences."""
        return [one.reason for one in self.detected.values()]


class _DeclaredTools(NamedTuple):
    """Declared tools, read once for many rows, with the validators of their schemas."""

    tools: Toolset
    validators: Validators


class RowReader:
    """Reads rows. Each worker has its own. `UnknownDialect` or `DialectError` if there is no such dialect, `ToolsError`
    if the tools are wrong, `OSError` if a file cannot be read."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._dialect = None if reading.dialect == AUTO else _dialect(reading.dialect)
        self._named: dict[tuple[Any, ...], Dialect | None] = {}
        self._tokenizer = _tokenizer(reading.tokenizer)
        self._own = self._read_tools(reading.tools)
        self._kept: dict[str, _DeclaredTools] = {}
        if self._dialect is not None:
            Parser(self._dialect, tools=reading.tools, stage=reading.stage, policy=reading.policy)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowReader, (self.reading,)  # each process or thread makes its own: caches are not shared

    def read(self, row: Mapping[str, Any], number: int, columns: Columns | None = None) -> dict[str, Any]:
        """The values to write for a row (``None`` counts as missing), without the columns of the input; `RowError` if
        it cannot be read. Missing ids of calls are derived from its index among all rows, so they are reproducible."""
        reading = self.reading
        columns = columns or reading.columns
        ids = self._ids(row, columns)
        text: Any = row.get(columns.text)
        if ids is None and text is None:
            there = row.get(columns.token_ids) is not None
            lacks = f"{columns.text}: is missing, the row has no output"
            raise RowError(f"{columns.token_ids}: needs a tokenizer" if there else lacks)
        tools = self._tools(row.get(columns.tools), columns)
        prompt = row.get(columns.prompt) if columns.prompt else None
        stage = row.get(columns.stage) if columns.stage else None
        reason = row.get(columns.finish_reason)
        try:
            dialect = self._dialect or self.named(row, columns) or self._detected(row, columns)
            asked: dict[str, Any] = {
                "tools": tools.tools,
                "stage": stage if stage is not None else reading.stage,
                "prompt": prompt if prompt is not None else reading.prompt,
                "policy": reading.policy,
                "tokenizer": self._tokenizer,
                "ids": lambda index, name: _id(dialect, name, index, number),
            }
            reason = reason if reason is not None else reading.finish_reason
            counts = None
            if ids is None:
                message = parse(text, dialect, finish_reason=reason, **asked)
            else:
                from ..engines.token_kinds import counts_of  # only ids need NumPy

                parser = Parser(dialect, **asked)
                events = parser.feed_tokens(ids) + parser.close(reason)
                counts = counts_of(events, len(ids))
                message = parser.message
        except (ValueError, TypeError) as error:
            raise RowError(_named(error, columns)) from None
        except Exception as error:  # one row's failure in tokenizer or parser must not stop the others
            raise RowError(f"{type(error).__name__}: {error}") from error
        return _record(message, counts, tools.validators)

    def _ids(self, row: Mapping[str, Any], columns: Columns) -> Any:
        """The token ids of a row, if there is a tokenizer; JSON text, which earlier runs make of them, is read."""
        ids = row.get(columns.token_ids) if self._tokenizer is not None else None
        if not isinstance(ids, str):
            return ids
        try:
            return json.loads(ids)
        except (ValueError, RecursionError) as error:
            raise RowError(f"{columns.token_ids}: {error}") from None

    def _tools(self, given: Any, columns: Columns) -> _DeclaredTools:
        if given is None:
            return self._own
        key = given if isinstance(given, str) else json.dumps(given, default=str)
        found = self._kept.get(key)
        if found is None:
            try:
                tools = self._read_tools(json.loads(given) if isinstance(given, str) else _pruned(given))
            except (ValueError, TypeError, RecursionError) as error:
                raise RowError(_named(error, columns, columns.tools)) from None
            if len(self._kept) >= _KEPT_TOOLS:
                self._kept.pop(next(iter(self._kept)))
            found = self._kept[key] = tools
        return found

    def _read_tools(self, tools: Any) -> _DeclaredTools:
        return _DeclaredTools(read_toolset(tools, self.reading.tool_choice), Validators(tools))

    def named(self, row: Mapping[str, Any], columns: Columns) -> Dialect | None:
        """The dialect that a row's columns name, for ``auto``. `RowError` if its response template cannot be read, or
        another of these columns is no text; `UnknownDialect` if there is no such dialect."""
        name = row.get(columns.dialect) if columns.dialect else None
        template, answers = row.get(columns.chat_template), row.get(columns.response_template)
        if answers is not None and not isinstance(answers, str):
            answers = json.dumps(_pruned(answers), sort_keys=True)
        key = name, self.model(row, columns), template, answers
        for column, value in zip((columns.dialect, columns.model, columns.chat_template), key, strict=False):
            if value is not None and not isinstance(value, str):
                raise RowError(f"{column}: must be a string, not {type(value).__name__}")
        if key not in self._named:
            if len(self._named) >= _KEPT_TOOLS:
                self._named.clear()
            self._named[key] = get_dialect(name) if name else _named_by(key[1], answers, template, columns)
        return self._named[key]

    def model(self, row: Mapping[str, Any], columns: Columns) -> str | None:
        return row.get(columns.model) or self.reading.model

    def output(self, row: Mapping[str, Any], columns: Columns) -> str | None:
        """The output of a row as text; ``None`` if it cannot be read."""
        try:
            ids = self._ids(row, columns)
            if ids is None:
                text = row.get(columns.text)
                return text if isinstance(text, str) else None
            decoded: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        except Exception:  # tokenizers raises nothing more specific; reading the row reports it as bad
            return None
        return decoded

    def _detected(self, row: Mapping[str, Any], columns: Columns) -> Dialect:
        """The dialect that the outputs showed before the run."""
        model = self.model(row, columns)
        detected = self.reading.detected.get(model or "")
        if detected is None:
            without = f"{columns.model}, {columns.response_template} and {columns.chat_template}"
            unknown = f"{columns.model}: no dialect found for {model!r}"
            raise RowError(unknown if model else f"dialect: auto needs one of the columns {without}, or a model")
        if detected.dialect is None:
            raise RowError(f"dialect: {detected.reason}")
        return get_dialect(detected.dialect)


def _named_by(model: str | None, answers: str | None, template: str | None, columns: Columns) -> Dialect | None:
    """The dialect of a model: by its name, else by its response template, else by its chat template."""
    if answers is not None and not (model and detect_dialect(model=model)):
        from ..infer.exchange import from_response_template  # slow to import, and rarely needed

        try:
            return from_response_template(json.loads(answers)).dialect
        except (DialectError, ValueError, TypeError, RecursionError) as error:
            raise RowError(_named(error, columns, columns.response_template)) from None
    if model is None and template is None:
        return None
    candidates = detect_dialect(model=model, chat_template=template)
    return get_dialect(candidates[0].dialect) if candidates else None


def _id(dialect: Dialect, name: str, index: int, row: int) -> str:
    """An id in the dialect's form, with letters derived from the row's number."""
    form = fill_id(dialect.id, name, str(index))
    size = form.count("?")
    if not size:
        return form
    letters = blake2b(f"{row}:{index}".encode()).digest().translate(_LETTERS).decode()  # 64 letters
    return fill_letters(form, letters.ljust(size, "0"))


def _named(error: Exception, columns: Columns, column: str | None = None) -> str:
    """The message of an error, which names an argument, rewritten to name the argument's column, or else ``column``."""
    text = str(error)
    argument = _ARGUMENT.match(text)
    name = argument[0] if argument else ""
    own = {**columns._asdict(), "text": columns.text, "ids": columns.token_ids}.get(name)
    if own is not None:
        return f"{own}{text[len(name) :]}"
    return text if column is None else f"{column}: {text}"


def _record(message: Message, counts: dict[str, int] | None, validators: Validators) -> dict[str, Any]:
    judged = [validators.valid(call) for call in message.tool_calls]
    untold = dict.fromkeys(("token_start", "token_end")) if counts is None else {}
    return {
        "reasoning": message.reasoning,
        "content": message.content,
        "tool_calls": [{field: getattr(call, field) for field in _CALL} for call in message.tool_calls],
        "finish_reason": message.finish_reason,
        "notices": [{field: getattr(notice, field) for field in _NOTICE} for notice in message.notices],
        "segments": [
            {field: getattr(s, field) for field in _SEGMENT} | {"call": s.call if s.call >= 0 else None} | untold
            for s in message.segments
        ],
        "tokens": counts,
        "valid": None if not judged or any(j is None for j in judged) else all(judged),
    }


def _dialect(name: str | Dialect) -> Dialect:
    if not isinstance(name, str | Dialect):
        raise wrong_type("dialect", name, "a name, the path of a .toml file, a Dialect, or 'auto'")
    return load_dialect(name) if isinstance(name, str) and name.endswith(".toml") else as_dialect(name)


def tokenizer_file(given: str) -> Path:
    """The path of a tokenizer's file, given the file or its folder."""
    return Path(given) / "tokenizer.json" if Path(given).is_dir() else Path(given)


def _tokenizer(given: Any) -> Any:
    if not isinstance(given, str):
        return backend_of(given)
    path = tokenizer_file(given)
    if path.suffix == ".gguf":
        return Pieces(read_gguf(path, vocabulary=True))
    from tokenizers import Tokenizer

    text = path.read_text(encoding="utf-8")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises nothing more specific
        raise ValueError(f"tokenizer: {path}: {error}") from None


def _pruned(value: Any) -> Any:
    """A value without the empty keys that Arrow adds from other rows."""
    if isinstance(value, Mapping):
        return {k: _pruned(v) for k, v in value.items() if v is not None}
    return [_pruned(v) for v in value] if isinstance(value, list) else value
