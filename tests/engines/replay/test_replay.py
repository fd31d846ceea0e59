"""Recordings are written, read, played and captured with every cut."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from unspool import Policy, Stage
from unspool.engines import Capture, Delta, Engine, EngineError, Replay, Request, read_recordings
from unspool.engines.capture import Asked, write_recording
from unspool.wire import Usage

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def play(engine: Engine, request: Request | None = None) -> list[Delta]:
    async def run() -> list[Delta]:
        return [delta async for delta in engine.generate(request or Request())]

    return asyncio.run(run())


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in records))
    return path


class Pieces:
    """An engine that yields pieces, and then may fail."""

    tokenizer: Any = None

    def __init__(self, *pieces: Delta, error: EngineError | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.ended = False

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        try:
            for piece in self.pieces:
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.ended = True

    async def health(self) -> None:
        raise EngineError("never well", 503)

    async def close(self) -> None:
        self.ended = True


PIECES = (
    Delta(text="<tool_c", token_ids=(1, 2)),
    Delta(text='all>\n{"name": "f", "argum', stage=Stage.CONTENT),
    Delta(text='ents": {"a": "\ud83d'),
    Delta(text='x"}}\n</tool_call>', logprobs=({"token": "x", "logprob": -1.0},)),
    Delta(finish_reason="stop", usage=Usage(prompt_tokens=3, completion_tokens=4, decode_time_arr=[1.5])),
)


def capture(tmp_path: Path, engine: Engine, request: Request, **options: Any) -> Capture:
    return Capture(engine, tmp_path / "captures", dialect="hermes", **options)


def test_a_capture_replays_every_piece_unchanged(tmp_path: Path) -> None:
    request = Request(id="chatcmpl-1", tools=TOOLS, messages=[{"role": "user", "content": "\ud800"}])
    engine = capture(tmp_path, Pieces(*PIECES), request, policy=Policy(bad_arguments="repair"))
    assert tuple(play(engine, request)) == PIECES
    recordings = read_recordings(tmp_path / "captures")
    assert [delta for _, delta in recordings[0].pieces] == list(PIECES)
    assert tuple(play(Replay(recordings, speed=0))) == PIECES
    assert recordings[0].asked.policy == Policy(bad_arguments="repair")
    assert recordings[0].text == "".join(p.text for p in PIECES)


@pytest.mark.parametrize(
    ("request_", "content", "calls"),
    [
        (Request(tools=TOOLS), "", 1),
        (Request(tools=()), CALL, 0),
        (Request(tools=TOOLS, tool_choice="none"), CALL, 0),
        (Request(tools=TOOLS, stage=Stage.CONTENT), "", 1),
        (Request(tools=TOOLS, prompt="<|im_start|>assistant\n<tool_call>\n"), "", 1),
    ],
)
def test_a_capture_parses_as_the_original_did(tmp_path: Path, request_: Request, content: str, calls: int) -> None:
    raw = CALL.removeprefix("<tool_call>\n") if request_.prompt else CALL
    play(capture(tmp_path, Pieces(Delta(text=raw, finish_reason="stop")), request_), request_)
    message = read_recordings(tmp_path / "captures")[0].parse()
    assert (message.content, len(message.tool_calls)) == (content, calls)


def test_a_capture_of_a_failure_fails_at_the_same_place(tmp_path: Path) -> None:
    engine = capture(tmp_path, Pieces(Delta(text="a"), error=EngineError("lost", 503)), Request())
    for played in (engine, None):
        played_engine: Engine = played or Replay(read_recordings(tmp_path / "captures"), speed=0)
        with pytest.raises(EngineError, match="lost") as caught:
            play(played_engine)
        assert caught.value.status == 503


async def test_a_cancelled_capture_keeps_its_pieces_and_ends_its_engine(tmp_path: Path) -> None:
    inner = Pieces(*PIECES)
    engine = capture(tmp_path, inner, Request())
    stream = engine.generate(Request())
    await anext(stream)
    await stream.aclose()
    with pytest.raises(EngineError, match="never well"):
        await engine.health()
    assert inner.ended
    (file,) = (tmp_path / "captures").iterdir()
    assert [json.loads(line)["type"] for line in file.read_text().splitlines()] == ["request", "chunk", "cancelled"]
    assert [d for _, d in read_recordings(file)[0].pieces] == [PIECES[0]]


def test_capture_files_sort_in_the_order_of_the_requests(tmp_path: Path) -> None:
    for i in range(3):
        engine = capture(tmp_path, Pieces(Delta(text=str(i))), Request())
        play(engine, Request(id=f"../{9 - i}"))
    assert [r.text for r in read_recordings(tmp_path / "captures")] == ["0", "1", "2"]
    assert len(list((tmp_path / "captures").iterdir())) == 3


def test_recordings_are_played_in_order_and_then_from_the_start(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_recording(tmp_path / f"{name}.jsonl", Asked(), [name, "!"])
    engine = Replay(read_recordings(tmp_path), speed=0)
    assert ["".join(d.text for d in play(engine)) for _ in range(3)] == ["a!", "b!", "a!"]


def test_a_recording_with_a_match_answers_what_it_matches(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "r.jsonl",
        {"type": "request", "match": "weather"},
        {"type": "chunk", "text": "sunny"},
        {"type": "request"},
        {"type": "chunk", "text": "hm"},
    )
    engine = Replay(read_recordings(file), speed=0)
    parts = [{"type": "text", "text": "the weather?"}]
    assert play(engine, Request(messages=[{"role": "user", "content": parts}]))[0].text == "sunny"
    assert play(engine, Request(prompt="weather"))[0].text == "sunny"
    assert play(engine, Request(messages=[{"role": "user", "content": "hi"}]))[0].text == "hm"


def test_a_request_that_no_recording_matches_is_an_engine_error(tmp_path: Path) -> None:
    file = lines(tmp_path / "r.jsonl", {"type": "request", "match": "x"})
    with pytest.raises(EngineError, match="no recording matches"):
        play(Replay(read_recordings(file), speed=0))


def test_recorded_times_are_kept_and_can_be_shortened(tmp_path: Path) -> None:
    async def seconds(speed: float, at: float = 0.3) -> float:
        file = lines(
            tmp_path / "r.jsonl", {"type": "request"}, {"type": "chunk", "at": at}, {"type": "chunk", "at": at}
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert len([d async for d in Replay(read_recordings(file), speed).generate(Request())]) == 2
        return loop.time() - began

    assert asyncio.run(seconds(1)) >= 0.29
    assert asyncio.run(seconds(3)) >= 0.09
    assert asyncio.run(seconds(0, 1000.0)) < 100


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"type": "chunk"}', "the first line must be of the type request"),
        ("[]", "must be a JSON object"),
        ("{", "not JSON"),
        ('{"type": "request", "tools": 3}', "tools"),
        ('{"type": "request"}\n{"type": "chunk", "at": -1}', "r.jsonl:2: at: must be a number of seconds"),
        ('{"type": "request"}\n{"type": "chunk", "text": 1}', "r.jsonl:2"),
        ('{"type": "request"}\n{"type": "piece"}', "is not one of request, chunk, error, cancelled"),
        ("", "contains no recording"),
    ],
)
def test_an_error_in_a_file_is_reported_with_its_line(tmp_path: Path, line: str, error: str) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(line)
    with pytest.raises(ValueError, match=error):
        read_recordings(file)


@pytest.mark.parametrize(("recordings", "speed"), [(0, 1.0), (1, -1.0)])
def test_a_replay_needs_a_recording_and_a_speed(recordings: int, speed: float, tmp_path: Path) -> None:
    found = read_recordings(lines(tmp_path / "r.jsonl", {"type": "request"}))
    with pytest.raises(ValueError, match=r"recordings|speed"):
        Replay(found[:recordings], speed)
