"""Attacks on features other than chat: approvals, sealed reasoning, tools that the server runs, grammars of custom
tools, edits of long histories, several models, and the requests of the page. Expensive ones run with `make attacks`.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ..server.support import until
from ..server.workshop import call
from .clients import burst
from .upstream import upstream
from .victim import CHAT, QUICK, Victim, attacks, workshop

RESPONSES, MESSAGES, AGUI = "/v1/responses", "/v1/messages", "/ag-ui"
SURROGATE = "\ud800"
CALLS = f"{call('f', a=1)}\n" * 3000
"""200,000 characters of calls."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with Victim("--config", str(workshop(tmp_path_factory.mktemp("w")))) as found:
        yield found


@pytest.fixture(scope="module")
def computing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A server one of whose models has a tokenizer, a chat template and grammars."""
    with upstream() as engine:
        engine.start()
        other = f"http://127.0.0.1:{engine.port}"
        with Victim("--config", str(workshop(tmp_path_factory.mktemp("c"), other))) as found:
            yield found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def run(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A run of AG-UI."""
    with_ids = [{"id": str(i), **message} for i, message in enumerate(messages)]
    return {"threadId": "t", "runId": "r", "state": {}, "messages": with_ids, "tools": [], "context": [], **more}


def refused(server: Victim, path: str, body: Any, field: str, within: float = 5.0) -> None:
    taken = server.stopwatch()
    status, text = server.ask(path, body)
    assert (status, field in text) == (400, True), text[:500]
    assert taken() < within, field


# -- approvals and sealed reasoning ------------------------------------------------------------------------------------


def approval(server: Victim) -> dict[str, Any]:
    """A call that needs an approval, as Responses reports it."""
    body = {"input": [user("guarded it")], "tools": [{"type": "mcp", "server_label": "shop"}]}
    status, text = server.ask(RESPONSES, body)
    assert status == 200
    return next(o for o in json.loads(text)["output"] if o["type"] == "mcp_approval_request")


@pytest.mark.sampled(0)
def test_approvals_that_are_forged_changed_huge_or_many_are_refused_or_answered_once(server: Victim) -> None:
    asked = approval(server)

    def decided(request: Any, *ids: str) -> dict[str, Any]:
        yes = [{"type": "mcp_approval_response", "approval_request_id": id, "approve": True} for id in ids]
        return {"input": [user("x"), request, *yes], "tools": [{"type": "mcp", "server_label": "shop"}]}

    for _ in attacks(server):
        forged = ("mcpr_", "mcpr_" + "0" * 64, asked["id"][:-1], asked["id"][:-8] + SURROGATE * 8, "m" * 1_000_000)
        for id in forged:
            refused(server, RESPONSES, decided({**asked, "id": id}, id), "approval_request_id")
        for field, value in (("arguments", '{"a": 2}'), ("name", "die"), ("server_label", SURROGATE)):
            refused(server, RESPONSES, decided({**asked, field: value}, asked["id"]), "approval_request_id")
        refused(server, RESPONSES, decided(user("y"), asked["id"]), "approval_request_id")
        status, text = server.ask(RESPONSES, decided(asked, *[asked["id"]] * 3000))
        assert (status, text.count('"mcp_call"')) == (200, 1), text[:500]


def test_answers_to_interrupts_find_their_calls_however_many_there_are(server: Victim) -> None:
    _, text = server.ask(AGUI, run(user("guarded it")))
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    id, _, _ = events[-1]["outcome"]["interrupts"][0]["id"].partition(".")
    arguments = "".join(e["delta"] for e in events if e["type"] == "TOOL_CALL_ARGS")

    def answered(count: int, *answers: str) -> dict[str, Any]:
        function = {"name": "guarded", "arguments": arguments}
        calls = [{"id": f"c{i}", "type": "function", "function": function} for i in range(count)]
        ids = [f"{a}.c{i}" for i, a in enumerate(answers)]
        resume = [{"interruptId": id, "status": "resolved", "payload": {"approved": True}} for id in ids]
        return run(user("guarded it"), {"role": "assistant", "toolCalls": calls}, resume=resume)

    for _ in attacks(server):
        for forged in ("mcpr_" + "0" * 64, id[:-1] + SURROGATE, SURROGATE):
            refused(server, AGUI, answered(1, forged), "resume[0].interruptId")
        refused(server, AGUI, answered(1000, *[id] * 1000, "mcpr_"), "resume[1000].interruptId", 10)
        status, text = server.ask(AGUI, answered(200, *[id] * 200))
        assert (status, "RUN_FINISHED" in text) == (200, True)
        assert text.count('"done"') <= 128, "no more calls are run than one answer may have"


# -- tools that the server runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, pytest.param(AGUI, marks=pytest.mark.attacks)])
def test_clients_that_leave_a_tool_loop_at_any_moment_leak_nothing(server: Victim, path: str) -> None:
    words = ("add it", "add many", "flood it", "hang it", "hang many", "die it")
    bodies = [
        run(user(w)) if path == AGUI else {"messages": [user(w)], "stream": i % 2 == 0} for i, w in enumerate(words)
    ]

    for _ in attacks(server):
        for after in (0.0, 0.02, 0.2):
            burst(server.port, 20, "at once" if after else "one by one", bodies=bodies, path=path, after=after)


def test_a_result_of_very_many_parts_is_refused_before_it_delays_an_answer(server: Victim) -> None:
    listed = {"input": "x", "tools": [{"type": "mcp", "server_label": "shop"}]}
    until(lambda: '"split"' in server.ask(RESPONSES, listed)[1])  # an earlier test's calls end the tool server
    for _ in attacks(server):
        slowest = 0.0
        with ThreadPoolExecutor(1) as clients:
            asking = clients.submit(server.ask, CHAT, {"messages": [user("split it")]})
            while not asking.done():
                slowest = max(slowest, server.small())
            status, text = asking.result()
        assert (status, "failed" in text) == (200, True), text[:500]
        assert slowest < 1.0


@pytest.mark.sampled(0)
def test_a_tool_with_an_odd_schema_is_left_out_alone(computing: Victim) -> None:
    for _ in attacks(computing):
        body = {"model": "other", "messages": [user(QUICK)], "tool_choice": "required", "max_tokens": 4}
        status, text = computing.ask(CHAT, body)
        assert status == 200, text
        told = json.loads(
            computing.ask(RESPONSES, {"input": "x", "tools": [{"type": "mcp", "server_label": "shop"}]})[1]
        )
        listed = next(o for o in told["output"] if o["type"] == "mcp_list_tools")
        assert [tool["name"] for tool in listed["tools"]] == ["add", "guarded", "hang", "flood", "die", "split"]
    for name in ("odd_number", "odd_type", "odd_itself", "odd_depth"):
        assert 0 < sum(f"tool {name!r} of server shop is left out" in line for line in computing.lines) <= 4, name


# -- grammars of custom tools ------------------------------------------------------------------------------------------


def custom(*definitions: str, syntax: str = "lark") -> dict[str, Any]:
    tools = [
        {"type": "custom", "custom": {"name": f"t{i}", "format": {"type": "grammar", "grammar": g}}}
        for i, g in enumerate({"syntax": syntax, "definition": d} for d in definitions)
    ]
    return {"model": "other", "messages": [user(QUICK)], "tools": tools, "max_tokens": 4}


def doubled(levels: int, uses: int = 1) -> str:
    lines = [f"T{i}: T{i - 1} T{i - 1}" for i in range(1, levels + 1)]
    return "\n".join([f"start: {f'T{levels} ' * uses}", 'T0: "x"', *lines])


@pytest.mark.attacks
def test_hostile_grammars_of_custom_tools_are_refused_or_kept_within_limits(computing: Victim) -> None:
    refusals = {
        "rule named start": custom("x: y"),
        "parts": custom(doubled(30)),
        "refers to itself": custom("start: A\nA: A"),
        "characters": custom('start: "' + "x" * 70_000 + '"'),
        "nested too deeply": custom("start: A0\n" + "".join(f"A{i}: A{i + 1}\n" for i in range(2000)) + 'A2000: "x"'),
        "is not supported": custom("start: A\n%declare A"),
        "together": custom(*[doubled(13)] * 60),
        "definition": custom("(" * 500 + "a" + ")" * 500, syntax="regex"),
    }
    allowed = [
        custom(doubled(5, 2000)),
        custom("start: start start | A\nA: /(a?){100}/"),
        custom("start: A~9999\nA: B~9999\nB: C~9999\nC: /x/"),
        custom("start: /" + "(a|b)?" * 3000 + "/"),
        custom("((a{100}){100}){100}", syntax="regex"),
    ]

    for _ in attacks(computing):
        for message, body in refusals.items():
            refused(computing, CHAT, body, message, 20)
        for body in allowed:
            status, text = computing.ask(CHAT, body, timeout=60)
            assert status in (200, 400), text
            assert "lexer" not in text.lower(), text
        burst(computing.port, 10, "at once", bodies=allowed, after=0.2)


# -- long histories, several models ------------------------------------------------------------------------------------


@pytest.mark.attacks
def test_counting_and_editing_stop_when_the_client_leaves(computing: Victim) -> None:
    size = {"type": "input_tokens", "value": 1}
    edits = [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919", "trigger": size}]
    body = {"model": "other", "max_tokens": 4, "messages": [user("long " * 120_000)]}
    edited = {**body, "context_management": {"edits": edits}}

    for _ in attacks(computing):
        refused(computing, MESSAGES, {**body, "context_management": {"edits": edits[:1] * 1000}}, "occurs twice")
        burst(computing.port, 20, "at once", bodies=[body, edited], path=f"{MESSAGES}/count_tokens", after=0.2)
        burst(computing.port, 10, "at once", bodies=[edited], path=MESSAGES, after=0.2)


# -- requests of the page ----------------------------------------------------------------------------------------------


def test_files_and_names_that_take_long_to_read_are_refused_at_once(server: Victim) -> None:
    for _ in attacks(server):
        for toml in ("a" + ".a" * 15_000 + "=1", "[a" + '."a"' * 8_000 + "]", "a=" + "[" * 15_000, "a={" * 10_000):
            refused(server, "/ui/check", {"toml": toml}, "toml")
        refused(server, "/ui/about", {"dialect": "x" * 3_000_000}, "list_dialects()")
        refused(server, "/parse", {"text": "", "dialect": "x/" * 1_000_000}, "list_dialects()")


@pytest.mark.attacks
def test_requests_of_the_page_delay_no_answer_and_end_with_their_client(computing: Victim) -> None:
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object"}}} for i in range(3)]
    asked = {
        "/ui/detect": {"output": CALLS},
        "/ui/protocol": {"text": CALLS, "dialect": "hermes", "protocol": "responses"},
        "/parse": {"text": CALLS, "dialect": "hermes", "format": "steps"},
    }

    for _ in attacks(computing):
        for path, body in asked.items():
            with ThreadPoolExecutor(1) as clients:
                clients.submit(burst, computing.port, 20, "at once", bodies=[body], path=path, after=1.0)
                time.sleep(0.5)
                taken = computing.stopwatch()
                status, text = computing.ask(CHAT, {"messages": [user(QUICK)], "tools": tools})
                assert (status, taken() < 2) == (200, True), (path, text)
