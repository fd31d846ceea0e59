"""OpenTelemetry's spans, as a collector on a real socket decodes them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from opentelemetry import baggage
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from unspool.engines import EngineError
from unspool.engines.capture import Asked, write_recording
from unspool.engines.upstream import Upstream
from unspool.generation.telemetry import Telemetry, configured
from unspool.tools import ToolLimits
from unspool.tools.config import read_list

from ..engines.upstream.support import DONE, Fake, said, says, threaded
from ..loopback import answering, sends
from ..sessions.support import Model, ask, made
from .processes import Process
from .support import CHAT, HELLO, MINIMAL, Live, Scripted, live, replay, running, until
from .workshop import Workshop, call, model
from .writing import template

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "my secret words"


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.bodies = b""

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        asked = (handler.command, handler.path, handler.headers["Content-Type"])
        assert asked == ("POST", "/v1/traces", "application/x-protobuf")
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(values(resource.resource))
            for scope in resource.scope_spans:
                self.spans += scope.spans
        self.bodies += body
        sends(b"")(handler)

    def named(self, prefix: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(prefix)]


def values(holder: Any) -> dict[str, Any]:
    """Attributes as Python's values."""
    found = {}
    for attribute in holder.attributes:
        kind = attribute.value.WhichOneof("value")
        value = getattr(attribute.value, kind)
        found[attribute.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    with answering(made.take) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        yield made


@contextmanager
def traced(engine: Any, *, content: bool = False, **options: Any) -> Iterator[Live]:
    """A server that sends its spans when it ends."""
    telemetry = configured(content=content)
    assert isinstance(telemetry, Telemetry)
    with live(engine, options.pop("dialect", "deepseek"), telemetry=telemetry, **options) as server:
        yield server


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_and_its_output_are_spans_of_the_callers_trace(collector: Collector, stream: bool) -> None:
    engine = replay("<think>So it is.</think>Hello")
    with traced(engine) as server:
        asked = {"messages": HELLO, "model": "any name", "temperature": 0.5, "max_tokens": 99, "stream": stream}
        answer = server.http.post(CHAT, json=asked, headers={"traceparent": TRACEPARENT})
        assert answer.status_code == 200
    (request,), (output,) = collector.named("POST "), collector.named("chat ")
    assert (request.name, request.kind) == (f"POST {CHAT}", Span.SPAN_KIND_SERVER)
    assert request.trace_id == output.trace_id == bytes.fromhex(TRACE)
    assert (request.parent_span_id, output.parent_span_id) == (bytes.fromhex(PARENT), request.span_id)
    assert (output.name, output.kind) == ("chat served", Span.SPAN_KIND_CLIENT)
    seen = values(request)
    assert seen["http.response.status_code"] == 200
    assert seen["http.route"] == seen["url.path"] == CHAT
    assert seen["gen_ai.request.model"] == "any name"
    assert seen.get("gen_ai.request.stream", False) is stream
    seen = values(output)
    assert 0 < seen.pop("gen_ai.response.time_to_first_chunk") < 60
    assert seen.pop("gen_ai.response.id")
    assert seen == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "replay",
        "gen_ai.request.model": "served",
        "gen_ai.response.model": "served",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    assert {span.status.code for span in collector.spans} == {Status.STATUS_CODE_UNSET}
    resource = collector.resources[0]
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("gateway", "test")


def test_the_output_belongs_to_a_session_a_thread_or_a_conversation(collector: Collector) -> None:
    model = Model(lambda request: "Hi.")
    with traced(model, dialect="hermes", prompts=template(), sessions=True) as server:
        session = made(server, id="run-1")
        ask(session, server, CHAT, messages=HELLO)
        thread = {"threadId": "t-1", "runId": "r", "messages": [{"id": "1", **HELLO[0]}]}
        server.http.post("/ag-ui", json=thread).raise_for_status()
        conversation = server.http.post("/v1/conversations", json={}).json()["id"]
        server.http.post("/v1/responses", json={"input": "Hi", "conversation": conversation}).raise_for_status()
        server.http.post(CHAT, json={"messages": HELLO}).raise_for_status()
    found = [values(span).get("gen_ai.conversation.id") for span in collector.named("chat ")]
    assert [one for one in found if one != "run-1"] == ["t-1", conversation, None]
    assert "run-1" in found


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_failure_of_the_engine_is_one_of_both_spans(collector: Collector, stream: bool) -> None:
    with traced(Scripted(["Hel", "lo"], fail_after=1, error=EngineError("the device is lost", 503))) as server:
        server.post(messages=HELLO, stream=stream)
    (request,), (output,) = collector.named("POST "), collector.named("chat ")
    assert values(request)["error.type"] == ("failed" if stream else "503")
    assert (values(output)["error.type"], output.status.message) == ("503", "the device is lost")
    assert request.status.code == output.status.code == Status.STATUS_CODE_ERROR
    assert "gen_ai.response.finish_reasons" not in values(output)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_an_engine_refuses_is_no_failure_of_it(collector: Collector, stream: bool) -> None:
    with traced(Scripted(["x"], fail_after=0, error=EngineError("image: takes text only", 400))) as server:
        server.post(messages=HELLO, stream=stream)
    assert values(collector.named("POST ")[0])["http.response.status_code"] == 400
    assert {(span.status.code, values(span).get("error.type")) for span in collector.spans} == {
        (Status.STATUS_CODE_UNSET, None)
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_goes_away_cancels_both_spans(collector: Collector, stream: bool) -> None:
    with traced(Scripted(["Hel", "lo"], hang_after=1)) as server:
        connection = server.request(messages=HELLO, stream=stream)
        until(server.engine.hanging.is_set)
        connection.close()
        until(lambda: 'status="cancelled"} 1' in server.http.get("/metrics").text)
    (request,), (output,) = collector.named("POST "), collector.named("chat ")
    assert values(request)["error.type"] == values(output)["error.type"] == "cancelled"
    assert values(output)["gen_ai.usage.output_tokens"] == 1


def test_a_refused_request_is_a_span_without_an_output(collector: Collector) -> None:
    with traced(Scripted(["x"])) as server:
        server.post(messages=HELLO, temperature="hot")
        server.post("/no/such/path", messages=HELLO)
        server.http.get("/health")
    (request,) = collector.spans
    assert values(request)["http.response.status_code"] == 400
    assert request.status.code == Status.STATUS_CODE_UNSET, "it is the client's fault"


def test_each_call_of_the_servers_tools_is_a_span_between_the_outputs(collector: Collector) -> None:
    answers = model(both_please=call("add", a=2, b=3) + call("fail"), failed=".", sum="It is 5.")
    with traced(answers, dialect="hermes", servers=[Workshop()]) as server:
        server.post(messages=[{"role": "user", "content": "both please"}])
    (request,) = collector.named("POST ")
    first, second = sorted(collector.named("chat "), key=lambda span: span.start_time_unix_nano)
    calls = {span.name: span for span in collector.named("execute_tool ")}
    assert {span.parent_span_id for span in [first, second, *calls.values()]} == {request.span_id}
    added, failed = calls["execute_tool add"], calls["execute_tool fail"]
    assert added.kind == Span.SPAN_KIND_INTERNAL
    seen = values(added)
    assert seen.pop("gen_ai.tool.call.id")
    assert seen == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "extension",
        "unspool.tool.server": "workshop",
    }
    assert (values(failed)["error.type"], failed.status.code) == ("tool_error", Status.STATUS_CODE_ERROR)
    assert values(first)["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert first.end_time_unix_nano <= added.start_time_unix_nano
    assert added.end_time_unix_nano <= second.start_time_unix_nano


def test_texts_are_in_spans_only_if_the_operator_wants_them(collector: Collector) -> None:
    answers = model(words=f"Adding.{call('spell', text='spelled result')}", spelled="The answer.")
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SECRET}]
    for content in (False, True):
        collector.bodies = b""
        with traced(answers, content=content, dialect="hermes", servers=[Workshop()]) as server:
            server.post(messages=asked)
        texts = (SECRET, "Be brief.", "Adding.", "spelled result", "The answer.")
        assert [text.encode() in collector.bodies for text in texts] == [content] * len(texts)
    _, first, second = sorted(collector.named("chat "), key=lambda span: span.start_time_unix_nano)[1:]
    given, said_ = (json.loads(values(second)[f"gen_ai.{side}.messages"]) for side in ("input", "output"))
    assert [message["role"] for message in given] == ["system", "user", "assistant", "tool"]
    assert given[2]["parts"][0] == {"type": "text", "content": "Adding."}
    asked_call, answered = given[2]["parts"][1], given[3]["parts"][0]
    assert (asked_call["type"], asked_call["name"]) == ("tool_call", "spell")
    assert json.loads(asked_call["arguments"]) == {"text": "spelled result"}
    assert answered == {"type": "tool_call_response", "id": asked_call["id"], "response": "spelled result"}
    last = {"role": "assistant", "parts": [{"type": "text", "content": "The answer."}], "finish_reason": "stop"}
    assert said_ == [last]
    assert json.loads(values(first)["gen_ai.output.messages"])[0]["finish_reason"] == "tool_calls"


def test_a_long_text_is_cut(collector: Collector) -> None:
    with traced(replay("Hello"), content=True) as server:
        server.post(messages=[{"role": "user", "content": "x" * 1_000_000 + "\ud800"}], model="y" * 100_000)
    assert len(collector.bodies) < 32_768


@pytest.fixture
def fake() -> Iterator[Fake]:
    with threaded(Fake("vllm", says(said("Hi"), said("", "stop"), DONE))) as engine:
        yield engine


def sent(fake: Fake, *headers: tuple[str, str]) -> dict[str, str]:
    """The headers of a request that the engine got after the server got these."""
    with traced(Upstream(fake.url), dialect="hermes", prompts=template()) as server:
        content = json.dumps({"messages": HELLO}).encode()
        given = [("Content-Type", "application/json"), *headers]
        assert server.http.post(CHAT, content=content, headers=given).status_code == 200
    return fake.generated[-1].headers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", MINIMAL)
def test_the_trace_goes_on_in_every_protocol(collector: Collector, fake: Fake, path: str, stream: bool) -> None:
    with traced(Upstream(fake.url), dialect="hermes", prompts=template()) as server:
        asked = MINIMAL[path] if path == "/ag-ui" else {**MINIMAL[path], "stream": stream}
        headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1", "baggage": "user=alice"}
        server.http.post(path, json=asked, headers=headers).raise_for_status()
    request, output = sorted(collector.spans, key=lambda span: span.start_time_unix_nano)
    assert (request.name, request.parent_span_id.hex()) == (f"POST {path}", PARENT)
    assert (output.trace_id.hex(), output.parent_span_id) == (TRACE, request.span_id)
    passed_on = fake.generated[-1].headers
    assert passed_on["traceparent"] == f"00-{TRACE}-{output.span_id.hex()}-01"
    assert passed_on["tracestate"] == "vendor=1"
    assert "baggage" not in passed_on, "it may hold anything"
    assert values(output)["gen_ai.response.id"] == values(request)["gen_ai.response.id"]
    assert values(output)["gen_ai.provider.name"] == "vllm"


def test_baggage_reaches_no_processor_of_spans() -> None:
    seen: list[Mapping[str, object]] = []

    class Reading(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            seen.append(baggage.get_all(parent_context))

    provider = TracerProvider()
    provider.add_span_processor(Reading())
    with live(replay("Hello"), "deepseek", telemetry=Telemetry(provider, content=False)) as server:
        headers = {"traceparent": TRACEPARENT, "baggage": "user=alice"}
        server.http.post(CHAT, json={"messages": HELLO}, headers=headers).raise_for_status()
    assert seen == [{}, {}], "of the request, and of its output"


STRANGERS: dict[str, Sequence[tuple[str, str]]] = {
    "malformed": [("traceparent", "00-" + "0" * 32 + f"-{PARENT}-01")],
    "not hexadecimal": [("traceparent", TRACEPARENT.replace("a", "z"))],
    "long": [("traceparent", TRACEPARENT + "-" + "a" * 4000)],
    "given twice": [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT.replace("01", "00"))],
    "a state alone": [("tracestate", "vendor=1")],
}


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
def test_a_trace_that_is_not_well_formed_is_not_continued(
    collector: Collector, fake: Fake, headers: Sequence[tuple[str, str]]
) -> None:
    passed_on = sent(fake, *headers)
    (request,) = collector.named("POST ")
    assert (request.parent_span_id, request.trace_state) == (b"", "")
    assert passed_on["traceparent"].startswith(f"00-{request.trace_id.hex()}-")
    assert "tracestate" not in passed_on


def test_a_state_that_is_too_long_is_dropped(collector: Collector, fake: Fake) -> None:
    state = ",".join(f"vendor{i}={'x' * 200}" for i in range(30))
    passed_on = sent(fake, ("traceparent", TRACEPARENT), ("tracestate", state))
    assert TRACE in passed_on["traceparent"]
    assert "tracestate" not in passed_on
    assert collector.spans[0].trace_state == ""


@pytest.mark.parametrize(("sampler", "asks"), [("parentbased_always_on", "00"), ("always_off", "01")])
def test_a_caller_that_is_not_sampled_gets_no_spans_but_its_trace_goes_on(
    collector: Collector, fake: Fake, monkeypatch: pytest.MonkeyPatch, sampler: str, asks: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    assert sent(fake, ("traceparent", f"00-{TRACE}-{PARENT}-{asks}"))["traceparent"].startswith(f"00-{TRACE}-")
    assert not collector.spans


def test_servers_of_tools_continue_the_trace_in_headers_and_messages(collector: Collector) -> None:
    heard: list[tuple[str | None, Any]] = []
    tools = MCPServer("calculator")

    @tools.tool()
    def add(a: int, b: int, context: Context) -> int:
        heard.append(((context.headers or {}).get("traceparent"), context.request_context.meta))
        return a + b

    answers = model(add_please=call("add", a=2, b=3), **{"5": "It is 5."})
    with running(tools.streamable_http_app()) as url:
        servers = read_list(f"calc={url}/mcp", ToolLimits())
        with traced(answers, dialect="hermes", servers=servers) as gateway:
            asked = {"messages": [{"role": "user", "content": "add please"}]}
            assert gateway.http.post(CHAT, json=asked, headers={"traceparent": TRACEPARENT}).status_code == 200
    (span,) = collector.named("execute_tool ")
    ((header, meta),) = heard
    assert header == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert meta["traceparent"] == header


# -- set-up ------------------------------------------------------------------------------------------------------------


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    with pytest.raises(ValueError, match=r"^OTEL_TRACES_EXPORTER: no package with the exporter 'nowhere'"):
        configured()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    with pytest.raises(ValueError, match=r"^OTEL_EXPORTER_OTLP_PROTOCOL: 'carrier-pigeon' is not one of http/protobuf"):
        configured()


def test_the_standard_switches_turn_it_off(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    with traced(replay("Hello")) as server:
        assert server.post(messages=HELLO).status_code == 200
    assert not collector.spans
    monkeypatch.setenv("OTEL_SDK_DISABLED", "TRUE")
    assert configured() is None


def test_a_collector_that_is_down_delays_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with traced(replay("Hello")) as server:
        began = time.monotonic()
        assert server.post(messages=HELLO).status_code == 200
        assert time.monotonic() - began < 5


def test_without_the_argument_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import sys; import unspool.cli.serve, unspool.server.main, unspool.engines.upstream\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.processes
def test_the_command_sends_spans(collector: Collector, tmp_path: Path) -> None:
    write_recording(tmp_path / "r.jsonl", Asked(), ["hi"])
    with Process("--engine", f"replay:{tmp_path / 'r.jsonl'}", "--dialect", "hermes", "--otel") as process:
        httpx2.post(process.url + CHAT, json={"messages": HELLO}).raise_for_status()
    assert [span.name for span in collector.spans] == ["chat hermes", f"POST {CHAT}"]
