"""AG-UI's own client on Node: it verifies the events of a running server, and rebuilds what the parser read."""

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import Dialect, Message, Policy, Stage, detect_stage
from unspool.engines import Replay
from unspool.request.prompts import Prompts, Tokenizer

from ..server.support import PATIENCE, Scripted, live, recorded, replay, until
from ..support import Trial, examples, number, parse_case, random_split

pytestmark = pytest.mark.node

VARIABLE = "UNSPOOL_AGUI"
"""The variable with the folder into which ``npm install`` put the client; by default that of `make agui`."""

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get(VARIABLE, HERE.parent.parent / ".venv" / "agui")).resolve()
ASKED: dict[str, Any] = {"id": "u", "role": "user", "content": "Hello"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": name,
        "description": "Tells.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    }
    for name in ("get_weather", "now")
]


class Run:
    """The client's report of one run."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.failed: dict[str, Any] | None = None
        self.warnings = ""
        self.ended: dict[str, Any] = {}

    @property
    def kinds(self) -> list[str]:
        return [e["type"] for e in self.events]


def converse(url: str, *runs: dict[str, Any], messages: list[Any] | None = None) -> list[Run]:
    """Let the client run its agent, once or several times, and return its report of each run."""
    node = shutil.which("node")
    assert node, "node has to be installed"
    assert (FOLDER / "node_modules").is_dir(), f"run `make agui`, or name the client's folder in {VARIABLE}"
    given = [{"runId": f"run-{i}", "tools": TOOLS, "context": [], **run} for i, run in enumerate(runs)]
    asked = {"url": f"{url}/ag-ui", "threadId": "thread-1", "messages": messages or [ASKED], "runs": given}
    command = [node, str(HERE / "client.cjs"), str(FOLDER)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=PATIENCE + 40, check=False
    )
    assert done.returncode == 0, done.stderr
    all_runs = [Run()]
    for line in map(json.loads, done.stdout.rstrip("\n").split("\n")):
        if "event" in line:
            all_runs[-1].events.append(line["event"])
        elif "failed" in line:
            all_runs[-1].failed = line["failed"]
        else:
            all_runs[-1].ended = line["ended"]
            all_runs.append(Run())
    assert len(all_runs) == len(runs) + 1
    for run in all_runs:
        run.warnings = done.stderr
    return all_runs[:-1]


Rebuilt = tuple[list[str], str, list[tuple[str, str]]]
"""Reasonings, content, and calls by name and arguments."""


def rebuilt(run: Run) -> Rebuilt:
    """The parts that the client rebuilt from a run."""
    messages = run.ended["newMessages"]
    answers = [m for m in messages if m["role"] == "assistant"]
    reasonings = [m["content"] for m in messages if m["role"] == "reasoning"]
    assert len(answers) + len(reasonings) == len(messages)
    assert len(answers) <= 1
    calls = [call for m in answers for call in m.get("toolCalls") or ()]
    assert {c["type"] for c in calls} <= {"function"}
    tool_calls = [(c["function"]["name"], c["function"]["arguments"]) for c in calls]
    return reasonings, "".join(m.get("content") or "" for m in answers), tool_calls


def expected(message: Message) -> Rebuilt:
    reasonings = [s.text for s in message.segments if s.kind == "reasoning" and s.text]
    return reasonings, message.content, [(c.name, c.arguments) for c in message.tool_calls]


def finished(run: Run) -> dict[str, Any]:
    """The event with which a run finished successfully."""
    assert run.failed is None, run.failed
    assert not run.warnings
    assert run.kinds[0] == "RUN_STARTED"
    assert run.kinds[-1] == "RUN_FINISHED"
    return run.events[-1]


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "北京"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
OUTPUTS = {
    "line ends and characters beyond 16 bits": "Hello.\u2028 How are you? 😀",
    "the same call twice": f"{CALL}\n{NOW}\n{CALL}",
    "text around calls": f"One. {CALL} Two. {NOW} Three.",
    "reasoning interrupted by calls": f"<think>I see. {CALL} And now? {NOW} Well.</think>Done.",
    "arguments that are no JSON": '<tool_call>\n{"name": "now", "arguments": {oops}\n</tool_call>',
    "nothing": "",
}


RESUME = Policy(call_in_reasoning="resume")


@pytest.mark.parametrize("raw", OUTPUTS.values(), ids=OUTPUTS.keys())
def test_the_client_takes_every_event_and_rebuilds_the_message(raw: str) -> None:
    openai = [{"type": "function", "function": tool} for tool in TOOLS]
    message = unspool.parse(raw, "hermes", tools=openai, policy=RESUME)
    with live(replay(raw), "hermes", policy=RESUME) as server:
        (run,) = converse(server.url, {})
    last = finished(run)
    assert rebuilt(run) == expected(message)
    assert last["result"] == {"finishReason": message.finish_reason}
    calls = [c["id"] for m in run.ended["newMessages"] for c in m.get("toolCalls") or ()]
    assert last["outcome"].get("pendingToolCallIds", []) == calls
    assert len(set(calls)) == len(message.tool_calls)


def test_a_tools_result_goes_back_and_the_conversation_goes_on() -> None:
    with live(Scripted([f"<think>One. {CALL} Two.</think>Let me see."]), "hermes", policy=RESUME) as server:
        (first,) = converse(server.url, {})
        call = first.ended["newMessages"][1]["toolCalls"][0]
        server.engine.pieces = ["<think>Three.</think>", "It is ", "warm."]
        result = {"id": "t", "role": "tool", "toolCallId": call["id"], "content": "20 degrees"}
        thanks = {"id": "v", "role": "user", "content": "Thanks"}
        runs = converse(server.url, {"append": [result]}, {"append": [thanks]}, messages=first.ended["messages"])
    finished(first)
    assert [rebuilt(run) for run in runs] == [(["Three."], "It is warm.", [])] * 2
    answer = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    assert list(server.engine.requests[2].messages) == [
        {"role": "user", "content": "Hello"},
        {**answer, "reasoning_content": "One.  Two."},
        {"role": "tool", "tool_call_id": call["id"], "content": "20 degrees"},
        {"role": "assistant", "content": "It is warm.", "reasoning_content": "Three."},
        {"role": "user", "content": "Thanks"},
    ]


@pytest.mark.parametrize("again", ["run-0", "run-1"])
def test_calls_that_a_model_counts_from_0_again_are_not_taken_for_earlier_ones(again: str) -> None:
    raw = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )
    with live(replay(raw), "kimi_k2") as server:
        runs = converse(server.url, {}, {"runId": again})
    assert [rebuilt(run)[2] for run in runs] == [[("now", "{}")]] * 2
    ids = [finished(run)["outcome"]["pendingToolCallIds"] for run in runs]
    assert ids[0] == ["functions.now:0"]
    assert ids[1] != ids[0]


def test_runs_of_one_thread_share_its_id_and_have_their_own() -> None:
    with live(replay("One.", "Two."), "hermes") as server:
        again = {"id": "v", "role": "user", "content": "Again"}
        runs = converse(server.url, {}, {"append": [again]})
    assert [rebuilt(run)[1] for run in runs] == ["One.", "Two."]
    assert [finished(run)["runId"] for run in runs] == ["run-0", "run-1"]
    assert {run.events[0]["threadId"] for run in runs} == {"thread-1"}


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_engine_that_fails_halfway_ends_the_run_with_its_error(after: int) -> None:
    with live(Scripted(["<think>I see", ".</think>Let", f" me. {CALL[:30]}"], fail_after=after), "hermes") as server:
        (run,) = converse(server.url, {})
    assert run.kinds[-1] == "RUN_ERROR"
    assert run.events[-1]["message"] == "the device is lost"
    reasonings, content, _ = rebuilt(run)
    assert "".join(reasonings).startswith("I see")
    assert "Let me. ".startswith(content)


@pytest.mark.parametrize(
    ("props", "status", "message"),
    [({}, 500, "the device is lost"), ({"temperature": 9}, 400, "forwardedProps.temperature: ")],
)
def test_a_run_that_does_not_begin_is_an_http_error(props: dict[str, Any], status: int, message: str) -> None:
    with live(Scripted([], fail_after=0), "hermes") as server:
        (run,) = converse(server.url, {"forwardedProps": props})
    assert run.failed is not None
    payload = run.failed["payload"]
    assert (run.failed["status"], payload["type"], payload["code"]) == (status, "RUN_ERROR", str(status))
    assert payload["message"].startswith(message)


def test_an_aborted_run_stops_the_engine_and_keeps_the_text_so_far() -> None:
    with live(Scripted(["Once ", "upon ", "a time"], hang_after=2), "hermes") as server:
        (run,) = converse(server.url, {"abortAt": "TEXT_MESSAGE_CONTENT"})
        until(lambda: server.engine.cancelled == 1)
        assert server.engine.running == 0
    assert "RUN_FINISHED" not in run.kinds
    assert [e["code"] for e in run.events if e["type"] == "RUN_ERROR"] in ([], ["abort"])  # the client's own
    content = rebuilt(run)[1]
    assert content
    assert "Once upon ".startswith(content)


GROUPS: dict[tuple[str, Stage | None], list[Trial]] = {}
for _case in examples():
    GROUPS.setdefault((_case.dialect.name, _case.example.stage), []).append(_case)


def played(group: list[Trial]) -> Replay:
    """An engine that plays the last example whose number is in the prompt, cut at random."""
    cut = [(random_split(case.raw, random.Random(case.raw)), f"#{case.number}#") for case in reversed(group)]
    return Replay([recorded(pieces, words) for pieces, words in cut], speed=0)


def opened(dialect: Dialect, stage: Stage) -> Prompts:
    """A chat template that opens the answer's reasoning, and for content closes it too."""
    opening, closing = (
        "".join(p for p in t if isinstance(p, str)) for t in (dialect.reasoning[0].before, dialect.reasoning[0].after)
    )
    prompt = "".join(dialect.start[:1]) + opening + (closing if stage is Stage.CONTENT else "")
    assert detect_stage(dialect, prompt) == stage
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{% raw %}" + prompt + "{% endraw %}"
    return Prompts(Tokenizer(template, template, {}, ()))


@pytest.mark.parametrize("group", GROUPS.values(), ids=[f"{name}-{stage}" if stage else name for name, stage in GROUPS])
def test_the_client_rebuilds_every_example_of_every_dialect(group: list[Trial]) -> None:
    dialect, stage = group[0].dialect, group[0].example.stage
    with live(played(group), dialect.name, prompts=opened(dialect, stage) if stage else None) as server:
        tools = [{"description": "", **tool["function"]} for tool in group[0].tools]
        questions = [{"id": f"u{c.number}", "role": "user", "content": f"#{c.number}#"} for c in group]
        runs = converse(server.url, *({"tools": tools, "append": [q]} for q in questions))
    for case, run in zip(group, runs, strict=True):
        message, _ = parse_case(case, ids=number)
        assert finished(run)["result"] == {"finishReason": message.finish_reason}
        assert rebuilt(run) == expected(message), case
