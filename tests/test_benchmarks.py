"""The benchmarks run, and measure what they claim. Times are not tested."""

import json
from pathlib import Path

import pytest
import uvloop

from benchmarks.__main__ import main
from benchmarks.clock import least_chunk
from benchmarks.samples import Sample, content_sample, nested_sample, number_sample, reasoning_sample, string_sample
from benchmarks.servers import CHUNKS
from benchmarks.serving import Fleet, load
from benchmarks.table import HEADER, ranked, table
from benchmarks.texts import DENSE, SOURCE, ever_new
from unspool import Dialect

from .support import CALLING, named


def _samples(dialect: Dialect) -> list[Sample]:
    samples = [
        string_sample(dialect, SOURCE),
        string_sample(dialect, ever_new(DENSE, 2_000)),
        content_sample(dialect, SOURCE),
        nested_sample(dialect),
        number_sample(dialect),
    ]
    return [*samples, reasoning_sample(dialect, SOURCE)] if dialect.reasoning else samples


@pytest.mark.slow
@pytest.mark.sampled(0)
def test_the_quick_mode_prints_a_table_and_writes_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["--quick", "--only", "whole", "--only", "ids", "--json", str(file)]) == 0
    header, _, *lines = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in header.split("|")[1:-1]] == list(HEADER)
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert len(rows) == len(lines) == 10  # the bare call, the least work, a row for each syntax, two for a vocabulary
    assert all(row["value"] > 0 for row in rows)
    assert [row["promised"] for row in rows[2:]] == [{"at least": 50.0}] * 4 + [None, {"at most": 4.0}] * 2


@pytest.mark.parametrize(**named(CALLING))
def test_every_sample_is_parsed_into_its_value(dialect: Dialect) -> None:
    for sample in _samples(dialect):
        parser = sample.begun()
        parser.feed(sample.body)
        sample.check(parser, 1)


def test_the_cost_of_a_chunk_is_compared_with_the_least_possible_work() -> None:
    found = [(8.0, CALLING[0]), (6.0, CALLING[1]), (9.0, CALLING[2])]
    middle, worst = ranked("a", found, "× bare", median=7.0, worst=10.0, least=4.0)
    assert (middle.value, middle.least, middle.kept) == (8.0, 2.0, False)
    assert (worst.value, worst.least, worst.kept) == (9.0, 2.25, True)
    assert "8 × bare, 2 × least" in table([middle])
    assert middle.as_dict()["in least work"] == 2.0
    assert 1.0 < least_chunk() < 100.0


@pytest.mark.slow
@pytest.mark.sampled(0)
def test_compared_servers_send_as_many_events_of_the_same_text() -> None:
    with Fleet("flood") as fleet:
        answers = {
            name: b"".join(data for _, data in uvloop.run(load(port, 1))[0]) for name, port in fleet.ports.items()
        }
    counts = {name: answer.count(b"data: ") for name, answer in answers.items()}
    assert all(abs(count - CHUNKS) <= 6 for count in counts.values()), counts
    assert answers["bare"].count(b"harbour") == answers["unspool"].count(b"harbour") > 10
    assert all(answer.count(b"[DONE]") == 1 for answer in answers.values())
