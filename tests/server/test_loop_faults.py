"""Tools that hang, flood or fail, limits, and clients that leave: every answer ends, and nothing is left behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from unspool.engines import Delta
from unspool.tools import ToolServerError

from .support import CHAT, MINIMAL, Scripted, chunks, live, until
from .test_loop import MCP, asked
from .workshop import Workshop, call, model


def results(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [r["content"] for r in answer.json()["choices"][0]["message"]["tool_results"]]


def test_errors_of_a_tool_are_its_result() -> None:
    workshop = Workshop()
    wrong = '<tool_call>\n{"name": "add", "arguments": {"a": oops}}\n</tool_call>'
    answers = {"go": call("fail") + call("crash") + wrong + call("hang")}
    answers |= dict.fromkeys(("failed=yes", "The tool failed.", "left for tools"), "Done.")
    with live(model(**answers), "hermes", servers=[workshop], tooltime=1) as server:
        answer = server.post(CHAT, messages=asked("go"))
    texts = results(answer)
    assert {"The tool failed.", "failed=yes"} < {*texts}
    assert len(texts) == 4
    assert any(text.startswith("The arguments are not one JSON object") for text in texts)
    assert any(text.startswith("The tool did not answer within") for text in texts)
    assert answer.json()["choices"][0]["message"]["content"] == "Done."
    assert (workshop.cancelled, workshop.opened, workshop.closed) == (1, 1, 2), "the session, then the server"


def test_many_calls_run_a_few_at_once_and_their_time_is_limited_together() -> None:
    workshop = Workshop()
    slow, fast = call("hang") * 40, "".join(call("add", a=i, b=1) for i in range(40))
    answers = {"hang": slow, "go": fast, "used up": "Too slow.", "sum=40": "Done."}
    with live(model(**answers), "hermes", servers=[workshop], tooltime=1) as server:
        assert sorted(results(server.post(CHAT, messages=asked("go")))) == sorted(f"sum={i + 1}" for i in range(40))
        assert workshop.most == 16
        texts = results(server.post(CHAT, messages=asked("hang")))
    said = [sum(part in text for text in texts) for part in ("left for tools", "used up")]
    assert said == [16, 24], "not each sixteen had all of the time"


def test_results_that_are_too_long_are_cut() -> None:
    answers = {"go": call("flood") + call("flood"), "flood": "Much.", "limit for results": "Much."}
    with live(model(**answers), "hermes", servers=[Workshop()], results=1000) as server:
        texts = results(server.post(CHAT, messages=asked("go")))
    assert (len(texts[0]), "600,000 characters" in texts[0]) == (1000, True)
    assert texts[1] == "The limit for results in this answer is reached."


def test_calls_and_rounds_are_limited_and_the_answer_says_that_it_was_cut() -> None:
    workshop = Workshop()
    answers = {"go": call("add", a=1, b=1), "sum=2": call("add", a=1, b=1), "No more tools": "I stop."}
    body: Any = {"input": "go", "tools": [MCP]}
    with live(model(**answers), "hermes", servers=[workshop], rounds=3) as server:
        chat = server.post(CHAT, messages=asked("go")).json()["choices"][0]
        assert (chat["finish_reason"], len(chat["message"]["tool_results"])) == ("length", 4)
        whole = server.post("/v1/responses", **body).json()
        assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        fewer = server.post("/v1/responses", max_tool_calls=2, **body).json()
        assert (fewer["status"], fewer["output"][-1]["content"][0]["text"]) == ("completed", "I stop.")
    assert len(workshop.calls) == 4 + 4 + 2


def test_a_request_sets_lower_limits_and_no_higher_ones() -> None:
    workshop = Workshop()
    again = call("add", a=1, b=1)
    answers = {"go": again, "sum=2": again, "flood": call("flood"), "No more": "I stop.", "hang": call("hang")}
    answers |= {"left for": "Too slow.", "reached.": "Much."}
    with live(model(**answers), "hermes", servers=[workshop], rounds=3) as server:

        def answered(text: str, **limits: Any) -> Any:
            answer = server.ok(CHAT, messages=asked(text), tool_limits=limits)
            return answer.json()["choices"][0]["message"]

        assert [len(answered("go", rounds=r)["tool_results"]) for r in (0, 1, 99)] == [1, 2, 4]
        assert answered("go", calls=1)["content"] == "I stop."
        assert answered("flood", results=100)["tool_results"][0]["content"].startswith("flood ")
        assert len(answered("flood", results=100)["tool_results"][0]["content"]) <= 100
        assert answered("hang", tooltime=0.2)["content"] == "Too slow."
        props = {"tool_limits": {"rounds": 0}}
        messages = [{"id": "1", **asked("go")[0]}]
        run = {**MINIMAL["/ag-ui"], "messages": messages, "forwardedProps": props}
        events = chunks(server.post("/ag-ui", **run).text)
        assert [e["type"] for e in events].count("TOOL_CALL_RESULT") == 1
        for wrong, field in (({"rounds": -1}, "tool_limits.rounds"), ({"minutes": 1}, "tool_limits.minutes")):
            refused = server.post(CHAT, messages=asked("go"), tool_limits=wrong)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)


def test_the_limit_of_tokens_holds_for_all_rounds_together() -> None:
    # Each round has 7 tokens by the engine's count, see `support.USAGE`.
    with live(Scripted([call("add", a=1, b=1)]), "hermes", servers=[Workshop()]) as server:
        chat = server.post(CHAT, messages=asked("go"), max_tokens=16).json()["choices"][0]
    assert chat["finish_reason"] == "length"
    assert [r.max_tokens for r in server.engine.requests] == [16, 9, 2]


def test_a_call_that_the_limit_of_tokens_cut_is_not_run() -> None:
    workshop = Workshop()
    engine = Scripted(['<tool_call>\n{"name": "add", "arguments": {"a": 1'], reason="length")
    with live(engine, "hermes", servers=[workshop]) as server:
        for path, body in ((CHAT, {"messages": asked("go")}), ("/v1/responses", {"input": "go", "tools": [MCP]})):
            answer = server.post(path, **body, stream=True)
            assert chunks(answer.text)
    assert workshop.calls == []


def test_a_server_that_is_down_is_reported_and_does_not_stop_the_others() -> None:
    up, down = Workshop("up", ["add"]), Workshop("down", ["spell"])
    down.down = "nobody answers"
    with live(model(go=call("add", a=1, b=1), **{"sum=2": "Two."}), "hermes", servers=[up, down]) as server:
        assert results(server.post(CHAT, messages=asked("go"))) == ["sum=2"]
        tools = [{"type": "mcp", "server_label": label} for label in ("down", "up")]
        answer = server.post("/v1/responses", input="go", tools=tools).json()
        streamed = server.post("/v1/responses", input="go", tools=tools, stream=True)
    assert [(i["server_label"], i["error"]) for i in answer["output"][:2]] == [("down", "nobody answers"), ("up", None)]
    assert answer["output"][-1]["content"][0]["text"] == "Two."
    assert "response.mcp_list_tools.failed" in [e["type"] for e in chunks(streamed.text)]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_tools(stream: bool) -> None:
    workshop = Workshop()
    with live(Scripted(["Wait.", call("hang")]), "hermes", servers=[workshop]) as server:
        connection = server.request(messages=asked("go"), stream=stream)
        until(lambda: workshop.running == 1)
        assert server.server._service.admission.running == 0, "no place is held while tools run"
        connection.close()
        until(lambda: workshop.cancelled == 1 and workshop.closed == 1)
        until(lambda: not server.server._service.runs)


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/ag-ui"])
def test_a_client_that_leaves_while_the_model_reads_results_ends_the_session_of_its_tools(path: str) -> None:
    class Later(Scripted):
        async def generate(self, request: Any) -> Any:
            self.hang_after = 0 if self.requests else None
            async for delta in super().generate(request):
                yield delta

    workshop, engine = Workshop(), Later([call("add", a=1, b=1)])
    body: Any = {"tools": [MCP]} if path == "/v1/responses" else {}
    with live(engine, "hermes", servers=[workshop]) as server:
        connection = server.request(path, **MINIMAL[path], **body, stream=True)
        until(engine.hanging.is_set)
        assert (len(workshop.calls), workshop.closed) == (1, 0)
        connection.close()
        until(lambda: workshop.closed == 1 and engine.cancelled == 1 and not server.server._service.runs)
        assert server.server._service.admission.running == 0


def test_a_client_that_leaves_while_tools_are_listed_asks_no_model() -> None:
    class Slow(Workshop):
        async def list_tools(self) -> Any:
            self.running += 1
            while not left.is_set():
                await asyncio.sleep(0.01)
            return await super().list_tools()

    left = threading.Event()
    slow, engine = Slow(), Scripted(["Hello."])
    with live(engine, "hermes", servers=[slow]) as server:
        connection = server.request(messages=asked("go"), stream=True)
        until(lambda: slow.running == 1)
        connection.close()
        until(lambda: server.server._service.metrics.text({}).count('status="cancelled"'))
        left.set()
        assert (engine.requests, slow.opened) == ([], 0)
        assert server.post(messages=asked("go")).status_code == 200, "the list is there for others"


def test_an_engine_that_fails_in_a_later_round_ends_every_answer_in_order() -> None:
    class Failing(Scripted):
        async def generate(self, request: Any) -> Any:
            self.fail_after = None if len(self.requests) % 2 == 0 else 0
            async for delta in super().generate(request):
                yield delta

    workshop = Workshop()
    with live(Failing([call("add", a=1, b=1)]), "hermes", servers=[workshop]) as server:
        assert server.post(CHAT, messages=asked("go")).status_code == 500
        text = server.post("/v1/responses", input="go", tools=[MCP], stream=True).text
        last = chunks(text)[-1]
        assert last["type"] == "response.failed"
        assert [i["type"] for i in last["response"]["output"]] == ["mcp_list_tools", "mcp_call"]
    assert (workshop.opened, workshop.closed) == (2, 3)


def test_a_server_that_shuts_down_ends_loops_with_an_error() -> None:
    workshop = Workshop()
    with live(Scripted(["Wait.", call("hang")]), "hermes", servers=[workshop], drain=0.1) as server:
        connection = server.request(messages=asked("go"), stream=True)
        until(lambda: workshop.running == 1)
        server.server.should_exit = True
        data = b""
        while piece := connection.recv(65536):
            data += piece
    assert b"the server is shutting down" in data
    assert (workshop.cancelled, workshop.running) == (1, 0)


def test_a_hundred_loops_at_once_keep_apart_and_leave_nothing() -> None:
    class Sums(Scripted):
        """Adds the number of the request to itself, in as many rounds as the number says."""

        async def generate(self, request: Any) -> Any:
            number = int(request.messages[0]["content"])
            rounds = sum(m["role"] == "tool" for m in request.messages)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            text = call("add", a=number, b=rounds) if rounds <= number % 3 else f"{request.messages[-1]['content']}."
            for i in range(0, len(text), 9):
                await asyncio.sleep(0)
                yield Delta(text=text[i : i + 9])
            self.running -= 1
            yield Delta(finish_reason="stop")

    workshop = Workshop()
    engine = Sums([])
    threads = threading.active_count()
    with live(engine, "hermes", servers=[workshop], generations=10) as server:

        def ask(number: int) -> tuple[int, str, list[str]]:
            answer = server.post(CHAT, messages=asked(str(number)), stream=number % 2 == 0)
            if number % 2:
                reply = answer.json()["choices"][0]["message"]
                return number, reply["content"], [r["content"] for r in reply["tool_results"]]
            deltas = [c["choices"][0]["delta"] for c in chunks(answer.text) if c["choices"]]
            text = "".join(d.get("content") or "" for d in deltas)
            return number, text, [r["content"] for d in deltas for r in d.get("tool_results", ())]

        with ThreadPoolExecutor(50) as pool:
            for number, text, results_of in pool.map(ask, range(100)):
                assert results_of == [f"sum={number + i}" for i in range(number % 3 + 1)]
                assert text == f"{results_of[-1]}."
        service = server.server._service
        until(lambda: not service.runs and not service.held)  # a body is let go after its answer is sent
        assert (service.admission.running, service.admission.waiting, service.held) == (0, 0, 0)
    assert engine.most_running <= 10
    assert (workshop.opened, workshop.closed, workshop.running) == (100, 101, 0)
    until(lambda: threading.active_count() <= threads)


def test_a_server_that_hangs_is_asked_once_for_all_and_not_again_for_a_while() -> None:
    class Slow(Workshop):
        asked = 0

        async def list_tools(self) -> Any:
            self.asked += 1
            await asyncio.sleep(0.5)
            raise ToolServerError("does not answer")

    slow = Slow("slow")
    with live(Scripted(["Hello."]), "hermes", servers=[slow]) as server, ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            answers = list(pool.map(lambda _: server.post(CHAT, messages=asked("go")), range(8)))
            assert [a.json()["choices"][0]["message"]["content"] for a in answers] == ["Hello."] * 8
    assert slow.asked == 1
