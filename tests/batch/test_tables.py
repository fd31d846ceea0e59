"""`parse_table` and `parse_many`: which columns are written, and which are carried over."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import unspool
from unspool.batch import WRITTEN, BadRow, Columns, InputError, RowError, Summary, parse_many, parse_table
from unspool.cli import main

from ..rl.test_conversation import TOKENIZER, encode
from ..support import tool
from .rows import TOOLS, output, row

ROWS = [row(i) for i in range(12)]


def _table(rows: list[dict[str, Any]] = ROWS) -> pa.Table:
    # Arrow unifies nested tools; as JSON text, they stay as they are.
    return pa.Table.from_pylist([r | {"tools": json.dumps(r["tools"])} for r in rows])


def test_rows_hold_what_parse_returns() -> None:
    found = list(parse_many(ROWS, "hermes"))
    for i, (read_row, given) in enumerate(zip(found, ROWS, strict=True)):
        message = unspool.parse(output(i), "hermes", tools=TOOLS, ids=lambda index, name: "")
        assert (read_row["reasoning"], read_row["content"]) == (message.reasoning, message.content)
        assert read_row["finish_reason"] == message.finish_reason
        assert [(c["name"], c["arguments"], c["status"], c["known"]) for c in read_row["tool_calls"]] == [
            (c.name, c.arguments, c.status, c.known) for c in message.tool_calls
        ]
        assert [(s["kind"], s["start"], s["end"]) for s in read_row["segments"]] == [
            (s.kind, s.start, s.end) for s in message.segments
        ]
        assert read_row["valid"] is (None if i % 3 == 0 else i % 5 != 0)
        assert (read_row["key"], read_row["score"], read_row["input_content"]) == (i, i / 2, "theirs")
        assert json.loads(read_row["tools"]) == given["tools"]
        assert json.loads(read_row["meta"]) == given["meta"]
        assert list(read_row)[: len(WRITTEN)] == list(WRITTEN)


def test_a_table_gives_the_same_values_as_rows() -> None:
    table = parse_table(_table(), "hermes")
    rows = list(parse_many(ROWS, "hermes"))
    assert table.column_names == [*WRITTEN, "key", "output", "tools", "meta", "score", "input_content"]
    for kept, wanted in zip(table.to_pylist(), rows, strict=True):
        assert json.loads(kept.pop("tools")) == json.loads(wanted.pop("tools"))
        assert kept == wanted


@pytest.mark.parametrize("kind", ["dataset", "reader", "batch"])
def test_datasets_readers_and_batches_are_read_alike(kind: str) -> None:
    table = _table()
    given = {"dataset": ds.dataset(table), "reader": table.to_reader(3), "batch": table.to_batches()[0]}[kind]
    assert parse_table(given, "hermes") == parse_table(table, "hermes")


def test_nested_tools_lose_what_arrow_put_into_them() -> None:
    output = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
    rows = [{"output": output, "tools": tools} for tools in (TOOLS, [tool("g", q="string")])]
    found = parse_table(pa.Table.from_pylist(rows), "hermes").to_pylist()
    assert [r["valid"] for r in found] == [True, False]
    assert [c["known"] for r in found for c in r["tool_calls"]] == [True, False]


TIMES: list[tuple[pa.DataType, list[int], list[Any]]] = [
    (pa.timestamp("us", "UTC"), [1_500_000], ["1970-01-01T00:00:01.500000Z"]),
    (pa.timestamp("ns", "UTC"), [1_500_000_000], ["1970-01-01T00:00:01.500000Z"]),
    (pa.timestamp("ns", "UTC"), [1], ["1970-01-01 00:00:00.000000001Z"]),
    (pa.timestamp("us"), [1 << 62], ["<value out of range: 4611686018427387904>"]),
    (pa.time64("ns"), [1], ["00:00:00.000000001"]),
    (pa.duration("ns"), [1], ["1"]),
    (pa.duration("s"), [1 << 62], ["4611686018427387904"]),
]
"""Times of tables, and as JSON has them: some fit into no type of Python's."""


@pytest.mark.parametrize(("kind", "given", "wanted"), TIMES, ids=lambda value: str(value))
def test_timestamps_without_a_python_equivalent_are_carried(
    kind: pa.DataType, given: list[int], wanted: list[Any], tmp_path: Path
) -> None:
    times = pa.array(given, pa.int64()).cast(kind)
    within = {
        "struct": pa.StructArray.from_arrays([times], names=["t"]),
        "list": pa.ListArray.from_arrays([0, 1], times),
        "large": pa.LargeListArray.from_arrays([0, 1], times),
        "fixed": pa.FixedSizeListArray.from_arrays(times, 1),
        "map": pa.MapArray.from_arrays([0, 1], pa.array(["k"]), times),
    }
    table = pa.table({"output": ["Hi."], "time": times, **within})
    parsed = parse_table(table, "hermes")
    assert parsed["time"].combine_chunks() == pa.chunked_array([times]).combine_chunks()
    nested = {"struct": {"t": wanted[0]}, "list": wanted, "large": wanted, "fixed": wanted, "map": [["k", wanted[0]]]}
    assert {name: json.loads(parsed[name][0].as_py()) for name in within} == nested
    if pa.types.is_timestamp(kind) and kind.unit == "us" and given[0] > 1 << 60:
        return  # parquet's writer refuses it
    pq.write_table(table, tmp_path / "in.parquet")
    words = ["batch", str(tmp_path / "in.parquet"), "-d", "hermes", "-o", str(tmp_path / "out.jsonl"), "--workers", "1"]
    assert main(words) == 0
    (found,) = map(json.loads, (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines())
    assert found["time"] == wanted[0]
    assert {name: json.loads(found[name]) for name in within} == nested


def test_tensors_are_carried_as_json() -> None:
    kind = pa.fixed_shape_tensor(pa.int64(), (2,))
    tensors = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2]], kind.storage_type))
    found = parse_table(pa.table({"output": ["Hi."], "at": tensors}), "hermes")
    assert found["at"].to_pylist() == ["[1,2]"]


def test_a_column_that_arrow_cannot_read_is_named() -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InputError, match=r"meta: .* duplicate field names"):
        parse_table(pa.table({"output": ["Hi."], "meta": twice}), "hermes")


def test_call_ids_are_reproducible_and_differ_between_rows() -> None:
    found = [[c["id"] for r in parse_many(ROWS, "hermes") for c in r["tool_calls"]] for _ in range(2)]
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0]) > 10


def test_token_ids_are_counted_by_kind() -> None:
    text = output(1) + "<|im_end|>"
    (found,) = parse_many([{"token_ids": encode(text)}], "hermes", tools=TOOLS, tokenizer=TOKENIZER)
    assert sum(found["tokens"].values()) == len(encode(text))
    assert found["tokens"]["reasoning"] == len(encode("plan 1 北"))
    assert found["segments"][0]["token_end"] - found["segments"][0]["token_start"] == found["tokens"]["reasoning"]
    assert json.loads(found["token_ids"]) == encode(text)
    table = parse_table(pa.table({"token_ids": [encode(text)]}), "hermes", tools=TOOLS, tokenizer=TOKENIZER)
    assert table["tokens"].to_pylist() == [found["tokens"]]
    assert isinstance(TOKENIZER, Tokenizer)


def test_the_dialect_is_found_by_the_models_name_and_template() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    template = "<tool_call>\n{{ {'name': n, 'arguments': a} }}\n</tool_call><think></think>"
    rows: list[dict[str, Any]] = [
        {"output": call, "model": "NousResearch/Hermes-3-Llama-3.1-8B"},
        {"output": call, "chat_template": template},
        {"output": "Hello.", "model": "nobody-knows-this"},
        {"output": "Hello."},
    ]
    bad: list[BadRow] = []
    found = list(parse_many(rows, "auto", errors=bad))
    assert [[c["name"] for c in r["tool_calls"]] for r in found] == [["f"], ["f"]]
    assert [(b.row, b.reason.partition(":")[0]) for b in bad] == [(2, "dialect"), (3, "dialect")]


@pytest.mark.parametrize("table", [False, True])
def test_a_response_template_decides_if_the_models_name_does_not(table: bool) -> None:
    fields = {
        "reasoning_content": {"open": "<mull>", "close": "</mull>"},
        "content": {"close": "<|stop|>"},
        "tool_calls": {
            "open_pattern": r"<do:(?P<name>\w+)",
            "close_pattern": "</do>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
    }
    output, response = "<mull>hm</mull>Sure.<do:f{}</do>", {"response_template": {"fields": fields}}
    rows: list[dict[str, Any]] = [{"output": output, "model": "nobody-knows-this"}, {"output": output}]
    rows += [{"output": "<think>hm</think>Sure.", "model": "Qwen/Qwen3-8B"}]
    rows = [{**one, **response} for one in rows]
    rows += [{"output": output, "response_template": "no JSON"}] * (not table)
    bad: list[BadRow] = []
    if table:
        rows = parse_table(pa.Table.from_pylist(rows), "auto", errors=bad).to_pylist()
    else:
        rows = list(parse_many(rows, "auto", errors=bad))
    read = [(r["reasoning"], r["content"], len(r["tool_calls"])) for r in rows]
    assert read == [("hm", "Sure.", count) for count in (1, 1, 0)]
    assert [b.reason.partition(":")[0] for b in bad] == ["response_template"] * (not table)


def test_prompts_and_stages_are_read_from_their_columns() -> None:
    told = {"p": "<|im_start|>assistant\n<think>\n"}, {"s": "reasoning"}
    rows = [{"text": "plan</think>Hi.", **one} for one in told]
    columns = Columns(prompt="p", stage="s")
    assert [r["content"] for r in parse_many(rows, "hermes", column="text", columns=columns)] == ["Hi.", "Hi."]
    bad: list[BadRow] = []
    assert list(parse_many([{"text": "x", "s": "asleep"}], "hermes", column="text", columns=columns, errors=bad)) == []
    assert "'asleep' is not one of" in bad[0].reason


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"output": 7}, "output: must be a string, not int"),
        ({}, "output: is missing"),
        ({"token_ids": [1]}, "token_ids: needs a tokenizer"),
        ({"output": "x", "tools": "{"}, "tools: "),
        ({"output": "x", "tools": [{"type": "function"}]}, "tools[0]"),
        ({"output": "x", "tools": {}}, "tools: must be a list"),
        ({"output": "x", "finish_reason": 3}, "finish_reason: must be a string"),
    ],
)
def test_a_bad_row_is_reported_and_the_others_are_read(given: dict[str, Any], reason: str) -> None:
    bad: list[BadRow] = []
    found = list(parse_many([row(0), given, row(2)], "hermes", errors=bad))
    assert [r["key"] for r in found] == [0, 2]
    assert bad[0].row == 1
    assert bad[0].reason.startswith(reason)
    with pytest.raises(RowError, match=r"row 1: "):
        list(parse_many([row(0), given], "hermes"))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"output": "x", "model": ["a"]}, "model: must be a string, not list"),
        ({"output": "x", "chat_template": {"a": 1}}, "chat_template: must be a string, not dict"),
        ({"output": "x", "response_template": ["a"]}, "response_template: must be an object"),
        ({"token_ids": [True]}, "token_ids[0]: must be a token id, an integer, not bool"),
        ({"token_ids": "[1"}, "token_ids: "),
        ({"token_ids": "{}x"}, "token_ids: "),
    ],
)
def test_the_reason_for_a_bad_row_names_the_column(given: dict[str, Any], reason: str) -> None:
    bad: list[BadRow] = []
    rows = [row(0) | {"model": "Qwen/Qwen3-8B"}, {"model": "Qwen/Qwen3-8B"} | given]
    if "response_template" in given:
        del rows[1]["model"]
    assert len(list(parse_many(rows, "auto", tokenizer=TOKENIZER, errors=bad))) == 1
    assert bad[0].row == 1
    assert bad[0].reason.startswith(reason)


def test_token_ids_that_an_earlier_run_wrote_as_text_are_read() -> None:
    (first,) = parse_many([{"token_ids": encode(output(1))}], "hermes", tokenizer=TOKENIZER)
    rows = [{"token_ids": first["token_ids"]}]
    for dialect in ("hermes", "auto"):
        (again,) = parse_many(rows, dialect, tokenizer=TOKENIZER)
        assert again == first


def test_bare_texts_are_rows() -> None:
    found = list(parse_many(["<think>\nplan\n</think>\n\nHi.", "half a \ud800 character"], "hermes"))
    assert [(r["reasoning"], r["content"]) for r in found] == [("plan", "Hi."), ("", "half a \ufffd character")]


def test_bad_rows_of_tables_are_left_out() -> None:
    bad: list[BadRow] = []
    table = pa.table({"output": ["Hi.", None, "Ho."], "n": [1, 2, 3]})
    assert parse_table(table, "hermes", errors=bad)["n"].to_pylist() == [1, 3]
    assert [b.row for b in bad] == [1]


def test_at_most_a_thousand_invented_names_are_counted_separately() -> None:
    call = '<tool_call>\n{{"name": "f{}", "arguments": {{}}}}\n</tool_call>'
    rows = [{"output": call.format(i), "finish_reason": f"because {i}"} for i in range(1_100)]
    summary = Summary()
    assert len(list(parse_many(rows, "hermes", summary=summary))) == summary.rows == 1_100
    assert (len(summary.calls), summary.calls["(others)"]) == (1_001, {"calls": 100, "ok": 100})
    assert sum(summary.finish.values()) == 1_100
    assert len(summary.finish) <= 1_001


def test_wrong_arguments_are_reported() -> None:
    with pytest.raises(InputError, match="has neither of the columns output and token_ids; it has x"):
        parse_table(pa.table({"x": [1]}), "hermes")
    with pytest.raises(TypeError, match=r"table: must be a pyarrow\.Table"):
        parse_table([1], "hermes")
    with pytest.raises(TypeError, match="toolz: is not one of column, workers, errors, "):
        list(parse_many([], "hermes", toolz=[]))
    with pytest.raises(unspool.UnknownDialect):
        list(parse_many(["x"], "hermess"))
    with pytest.raises(InputError, match="x: two columns of the input have this name"):
        parse_table(pa.Table.from_arrays([["a"], ["b"], ["c"]], ["output", "x", "x"]), "hermes")
