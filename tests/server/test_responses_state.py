"""Stored responses and conversations, by OpenAI's own client."""

import asyncio
import contextlib
import itertools
import json
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from unspool.engines import Delta, Request
from unspool.request.sealed import Seal
from unspool.store import Store

from ..sessions.support import Model
from .support import CHAT, HELLO, PATIENCE, Live, Scripted, chunks, live, until, written
from .test_loop import MCP
from .test_protocols import RESPONSES_TOOL
from .workshop import Workshop, call, model
from .writing import ANSWER, CALL, TOKENIZER, Writing, extends, template

FACTS = ["<think>\nOne.\n</think>\n\nThe first.", "<think>\nTwo.\n</think>\n\nThe second.", "The third."]
GONE = "previous_response_not_found"
UNKNOWN = "What came of it is not known."


def create(client: openai.OpenAI, streamed: bool, **options: Any) -> Any:
    """A response, streamed or whole."""
    options = {"model": "served", "input": "Hello", **options}
    if not streamed:
        return client.responses.create(**options)
    with client.responses.stream(**options) as stream:
        return stream.get_final_response()


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with live(Writing(*FACTS), "hermes", prompts=template()) as server:
        yield server.openai


def another(server: Live, key: str = "another") -> openai.OpenAI:
    return server.openai.with_options(api_key=key)


# -- responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("streamed", [False, True])
def test_turns_go_on_by_id_from_the_very_tokens_of_the_turn_before(streamed: bool, ids: bool) -> None:
    with written(*FACTS, ids=ids, turn_memory=0) as (server, engine):
        previous: str | None = None
        for i in range(3):
            response = create(server.openai, streamed, input=f"Question {i}", previous_response_id=previous)
            assert (response.previous_response_id, response.store) == (previous, True)
            previous = response.id
    for i in (1, 2):
        assert extends(engine, i, FACTS[i - 1])
        assert str(engine.requests[i].prompt).count("Question") == i + 1


def test_input_tokens_are_counted_with_what_is_stored() -> None:
    with written(*FACTS, turn_memory=0) as (server, engine):
        first = create(server.openai, False)
        more: Any = {"model": "served", "input": "More", "previous_response_id": first.id, "tools": [RESPONSES_TOOL]}
        counted = server.openai.responses.input_tokens.count(**more)
        create(server.openai, False, **more)
        assert counted.object == "response.input_tokens"
        prompt = str(engine.requests[1].prompt)
        assert "The first." in prompt
        assert counted.input_tokens == len(TOKENIZER.encode(prompt, add_special_tokens=False).ids)
        assert len(engine.requests) == 2
        with pytest.raises(openai.NotFoundError, match="Previous response"):
            server.openai.responses.input_tokens.count(input="a", previous_response_id="resp_nobody")


def test_another_key_finds_nothing_and_says_so_as_openai_does() -> None:
    with written(*FACTS) as (server, _):
        first = create(server.openai, False)
        other = another(server)
        for id in (first.id, "resp_nobody", "resp_" + "x" * 5000, "a/b", "\0"):
            for streamed in (False, True):
                with pytest.raises(openai.NotFoundError) as caught:
                    create(other, streamed, previous_response_id=id)
                body: Any = caught.value.body
                assert (body["code"], body["param"]) == (GONE, "previous_response_id")
                assert body["message"] == f"Previous response with id '{id[:200]}' not found."
        for ask in (other.responses.retrieve, other.responses.delete, other.responses.cancel):
            with pytest.raises(openai.NotFoundError, match=f"Response with id '{first.id}' not found"):
                ask(first.id)
        with pytest.raises(openai.NotFoundError):
            other.responses.input_items.list(first.id)
        assert create(server.openai, False, previous_response_id=first.id).status == "completed"


def test_instructions_are_not_inherited_and_tools_are() -> None:
    with written(*FACTS) as (server, engine):
        first = create(server.openai, False, instructions="Be brief.", tools=[RESPONSES_TOOL])
        second = create(server.openai, False, previous_response_id=first.id)
        third = create(server.openai, False, previous_response_id=first.id, tools=[])
        prompts = [str(r.prompt) for r in engine.requests]
        assert ["Be brief." in p for p in prompts] == [True, False, False]
        assert second.instructions is None
        assert [len(r.tools) for r in engine.requests] == [1, 1, 0]
        assert third.tools == []
        assert all("The first." in p for p in prompts[1:])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop_goes_on_with_results_alone(streamed: bool) -> None:
    with written(CALL, ANSWER, turn_memory=0) as (server, engine):
        first = create(server.openai, streamed, tools=[RESPONSES_TOOL])
        (made,) = [item for item in first.output if item.type == "function_call"]
        result: Any = [{"type": "function_call_output", "call_id": made.call_id, "output": "20"}]
        second = create(server.openai, streamed, input=result, previous_response_id=first.id, tools=[RESPONSES_TOOL])
        assert second.output_text == "20 degrees."
        assert extends(engine, 1, CALL)
        items = server.openai.responses.input_items.list(second.id, order="asc").data
        kinds = ["message", "reasoning", "function_call", "function_call_output"]
        assert [item.type for item in items] == kinds


def test_reasoning_is_kept_even_if_the_template_writes_the_turn_again() -> None:
    with written(CALL, ANSWER, turn_memory=0) as (server, engine):
        first = create(server.openai, False, tools=[RESPONSES_TOOL])
        body = {"previous_response_id": first.id, "instructions": "New.", "tools": [RESPONSES_TOOL]}
        result = [{"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "20"}]
        create(server.openai, False, input=result, **body)
    (message,) = [m for m in engine.requests[1].messages if m["role"] == "assistant"]
    assert message["reasoning_content"].strip() == "Which city?"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        f"Look.{call('browser.search', query='pages')}",
        f"Add.{call('add', a=1, b=2)}{call('add', a=3, b=4)}",
        f"Code.{call('python', code='print(42)')}",
    ],
)
def test_results_of_the_servers_tools_are_kept(streamed: bool, raw: str) -> None:
    engine, workshop = Writing(raw, ANSWER, ANSWER), Workshop()
    kinds = ({**MCP, "require_approval": "never"}, {"type": "web_search"}, {"type": "code_interpreter"})
    with live(engine, "hermes", prompts=template(), servers=[workshop], turn_memory=0) as server:
        first = create(server.openai, streamed, tools=list(kinds))
        create(server.openai, streamed, input="And now?", previous_response_id=first.id)
        assert len(engine.requests) == 3
        assert extends(engine, 2, ANSWER), "it goes on from the last round, with the results in it"
        create(server.openai, streamed, input="Else?", previous_response_id=first.id, instructions="New.")
        messages = engine.requests[3].messages
        results = [m["content"] for m in messages if m["role"] == "tool"]
        assert results == {"L": ["page=text"], "A": ["sum=3", "sum=7"], "C": ["printed=42"]}[raw[0]]
        items = [*first.output, *server.openai.responses.input_items.list(first.id).data]
        assert all("unspool" not in item.model_dump() for item in items)


def test_an_approval_answers_a_stored_request() -> None:
    engine = model(guard_please=f"May I?{call('guarded', a=7)}", guarded__7="Done.", guarded="It was allowed.")
    workshop = Workshop()
    with live(engine, "hermes", servers=[workshop]) as server:
        first = create(server.openai, False, input="guard please", tools=[MCP])
        (request,) = [item for item in first.output if item.type == "mcp_approval_request"]
        answer: Any = [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}]
        second = create(server.openai, False, input=answer, previous_response_id=first.id)
        assert second.output_text == "It was allowed."
        assert workshop.calls == [("guarded", {"a": 7})]


def test_the_last_answer_to_a_request_for_approval_counts_and_the_call_is_run_once() -> None:
    asks = f"May I?{call('guarded', a=7)}"
    engine = model(guard_please=asks, was_not_allowed="Refused.", is_not_known="Unknown.", guarded="It was allowed.")
    workshop = Workshop()
    with live(engine, "hermes", servers=[workshop]) as server:
        first = create(server.openai, False, input="guard please", tools=[MCP])
        (id,) = (item.id for item in first.output if item.type == "mcp_approval_request")
        yes, no = ({"type": "mcp_approval_response", "approval_request_id": id, "approve": a} for a in (True, False))
        refused = create(server.openai, False, input=[yes, no], previous_response_id=first.id)
        unknown = create(server.openai, False, input=[yes], previous_response_id=first.id, tools=[])
        assert (refused.output_text, unknown.output_text, workshop.calls) == ("Refused.", "Unknown.", [])
        second = create(server.openai, False, input=[no, yes], previous_response_id=first.id)
        assert workshop.calls == [("guarded", {"a": 7})]
        with pytest.raises(openai.BadRequestError, match="its call has been run"):
            create(server.openai, False, input=[yes], previous_response_id=second.id)
        assert len(workshop.calls) == 1


def test_calls_that_were_not_approved_or_ran_elsewhere_are_in_the_prompt() -> None:
    engine = Scripted(["ok"])
    query = {"type": "search", "query": "rain", "queries": ["rain"], "sources": [{"type": "url", "url": "u"}]}
    call = {"server_label": "shop", "name": "buy", "arguments": '{"a": 7}'}
    request = {"type": "mcp_approval_request", "id": "p", **call}
    done = {"type": "mcp_call", "id": "m", "approval_request_id": "p", "output": "bought", **call}
    hello = {"role": "user", "content": "Hi"}
    refusal = {"type": "mcp_approval_response", "approval_request_id": "p", "approve": False, "reason": "dear"}
    given = '{"type": "search", "query": "rain", "queries": ["rain"]}'
    searched = {"type": "web_search_call", "id": "w"}
    script = {"type": "program", "id": "p", "call_id": "c", "code": "1", "fingerprint": "x"}
    ls = {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"], "env": {}}}
    patch = {"type": "apply_patch_call", "call_id": "c", "operation": {"path": "a", "diff": "+b"}}
    shell = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    shown = [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}}]
    files = {"type": "file_search_call", "id": "f", "queries": ["rain"], "results": [{"filename": "f", "text": "wet"}]}
    image = {"type": "image_generation_call", "id": "g", "result": "AAAA", "revised_prompt": "a cat"}
    out, unknown = {"call_id": "c"}, UNKNOWN
    cases: list[tuple[list[Any], str, str, str]] = [
        ([request], "buy", '{"a": 7}', "The call was not allowed: nobody answered"),
        ([request, hello, refusal], "buy", '{"a": 7}', "The call was not allowed: dear"),
        ([request, done], "buy", '{"a": 7}', "bought"),
        ([{**searched, "action": query}], "web_search", given, "u"),
        ([{**searched, "action": {"url": "u"}}], "web_search", '{"url": "u"}', unknown),
        ([searched], "web_search", "{}", unknown),
        ([ls], "local_shell", '{"command": ["ls"]}', unknown),
        ([ls, {**out, "type": "function_call_output", "output": "a"}], "local_shell", '{"command": ["ls"]}', "a"),
        ([ls, {**out, "type": "local_shell_call_output", "output": "a"}], "local_shell", '{"command": ["ls"]}', "a"),
        ([script, {**out, "type": "program_output", "result": "a"}], "program", '{"code": "1"}', "a"),
        ([shell, {**out, "type": "shell_call_output", "output": shown}], "shell", '{"commands": ["ls"]}', "a\nb"),
        ([patch], "apply_patch", '{"path": "a", "diff": "+b"}', unknown),
        ([files], "file_search", '{"queries": ["rain"]}', "f\nwet"),
        ([image], "image_generation", '{"revised_prompt": "a cat"}', unknown),
    ]  # fmt: skip
    with live(engine, "hermes") as server:
        for items, name, arguments, result in cases:
            server.ok("/v1/responses", input=[hello, *items, hello])
            _, said, told, *_ = engine.requests[-1].messages
            (made,) = said["tool_calls"]
            assert made["function"] == {"name": name, "arguments": arguments}
            assert (told["tool_call_id"], told["content"]) == (made["id"], result)
            assert sum("tool_calls" in m for m in engine.requests[-1].messages) == 1
            assert all(m.keys() <= {"role", "content", "name", "tool_calls", "tool_call_id"} for m in (said, told))
        odds: list[Any] = [{"action": "x"}, {"action": None, "id": None}, {"action": {}}]
        for odd in odds:
            server.ok("/v1/responses", input=[hello, {**searched, **odd}, hello])


def test_a_search_between_a_thought_and_a_call_takes_neither_away() -> None:
    engine = Scripted(["ok"])
    hello = {"role": "user", "content": "Hi"}
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    search = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "rain"}}
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "dry"}
    with live(engine, "hermes") as server:
        for items in ([thought, search, called, output], [thought, called, search, output]):
            server.ok("/v1/responses", input=[hello, *items])
            _, first, *rest = engine.requests[-1].messages
            assert first["reasoning_content"] == "Hm."
            assert all(m["role"] == "tool" or m.get("tool_calls") for m in (first, *rest))
            assert sorted(m["content"] for m in rest if m["role"] == "tool") == [UNKNOWN, "dry"]


def test_a_response_is_retrieved_listed_and_deleted(client: openai.OpenAI) -> None:
    first = create(client, False, input="One", metadata={"k": "v"})
    second = create(client, True, input=[{"role": "user", "content": "Two"}], previous_response_id=first.id)
    assert client.responses.retrieve(first.id).model_dump() == first.model_dump()
    assert client.responses.retrieve(second.id).output_text == second.output_text == "The second."
    items: list[Any] = client.responses.input_items.list(second.id, order="asc").data
    texts = [item.content[0].text for item in items if item.type == "message"]
    assert texts == ["One", "The first.", "Two"]
    assert [item.type for item in items] == ["message", "reasoning", "message", "message"]
    assert len({item.id for item in items}) == 4
    page = client.responses.input_items.list(second.id, limit=3)
    assert [item.id for item in page.data] == [item.id for item in items[:0:-1]]
    assert page.has_more
    assert [item.id for item in page] == [item.id for item in reversed(items)], "the client asks for all pages"
    client.responses.delete(first.id)
    for gone in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            gone(first.id)
    with pytest.raises(openai.NotFoundError):
        create(client, False, previous_response_id=first.id)
    with pytest.raises(openai.NotFoundError, match=f"'{second.id}' continues a response that was deleted"):
        create(client, False, previous_response_id=second.id)
    assert client.responses.retrieve(second.id).id == second.id


@pytest.mark.parametrize("streamed", [False, True])
def test_what_shall_not_be_stored_is_not(client: openai.OpenAI, streamed: bool) -> None:
    first = create(client, streamed, store=False)
    assert first.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    kept = create(client, streamed)
    second = create(client, streamed, store=False, previous_response_id=kept.id)
    assert second.output_text == "The third."
    with pytest.raises(openai.NotFoundError):
        create(client, streamed, previous_response_id=second.id)


def test_a_server_may_store_only_what_requests_say() -> None:
    with live(Writing(*FACTS), "hermes", prompts=template(), stores=False) as server:
        assert create(server.openai, False).store is False
        kept = create(server.openai, False, store=True)
        assert server.openai.responses.retrieve(kept.id).model_dump()["store"] is True


def test_items_are_named_instead_of_sent(client: openai.OpenAI) -> None:
    first = create(client, False)
    items: Any = [{"role": "user", "content": "One"}, *({"type": "item_reference", "id": o.id} for o in first.output)]
    second = create(client, False, input=[*items, {"role": "user", "content": "Two"}])
    listed: list[Any] = client.responses.input_items.list(second.id, order="asc").data
    assert [i.type for i in listed] == ["message", "reasoning", "message", "message"]
    for id in ("msg_nobody_0", "x", "", "_" * 9):
        with pytest.raises((openai.NotFoundError, openai.BadRequestError)) as caught:
            create(client, False, input=[{"type": "item_reference", "id": id}])
        assert "input[0]" in str(caught.value.body)


def test_an_index_in_an_error_counts_the_requests_own_items(client: openai.OpenAI) -> None:
    first = create(client, False)
    with pytest.raises(openai.BadRequestError, match=r"input\[1\]\.type"):
        create(client, False, input=[*HELLO, {"type": "nonsense"}], previous_response_id=first.id)


def test_sealed_reasoning_of_stored_responses_needs_no_key(tmp_path: Path) -> None:
    engine, file = Writing(*FACTS), tmp_path / "store.db"
    options: Any = {"prompts": template(), "dialect": "hermes"}
    with live(engine, **options, store=Store(file), seal=Seal([b"1" * 32])) as server:
        first = create(server.openai, False, include=["reasoning.encrypted_content"])
        assert first.output[0].encrypted_content
    with live(engine, **options, store=Store(file), seal=Seal([b"2" * 32])) as server:
        again: Any = server.openai.responses.retrieve(first.id)
        assert again.output[0].encrypted_content == first.output[0].encrypted_content
        create(server.openai, False, previous_response_id=first.id)
    assert extends(engine, 1, FACTS[0])


def test_forks_go_on_from_the_same_turn() -> None:
    with written(*FACTS) as (server, engine):
        first = create(server.openai, False)
        for i in (1, 2):
            create(server.openai, False, input=f"Fork {i}", previous_response_id=first.id)
        assert "Fork 1" not in str(engine.requests[2].prompt)
        before = engine.requests[0].prompt
        assert all(str(r.prompt).startswith(f"{before}{FACTS[0]}") for r in engine.requests[1:])


@pytest.mark.parametrize("session", [False, True])
def test_the_store_grows_with_the_turns_alone(session: bool) -> None:
    store = Store()
    turns = 15
    with live(Model(lambda request: ANSWER), "hermes", prompts=template(), store=store, sessions=session) as server:
        client = another(server, server.post("/sessions").json()["key"]) if session else server.openai
        previous, sizes = None, []
        for _ in range(turns):
            previous = create(client, False, input="Hello", previous_response_id=previous).id
            sizes.append(_size(store))
    steps = [b - a for a, b in itertools.pairwise(sizes)]
    assert max(steps[1:]) < 1.05 * min(steps), "only the second turn has tokens of two"


def test_tools_that_every_response_repeats_count_once_against_what_a_request_may_be() -> None:
    tools: Any = [
        {"type": "function", "name": f"t{i}", "description": "long " * 50, "parameters": {}} for i in range(40)
    ]
    body = 2 * len(json.dumps(tools))
    with live(Writing(*FACTS * 2), "hermes", prompts=template(), body=body) as server:
        made = create(server.openai, False, tools=tools)
        for _ in range(4):
            made = create(server.openai, False, previous_response_id=made.id)
            assert len(made.tools) == 40
        long = create(server.openai, False, input="x" * (body // 2), previous_response_id=made.id)
        with pytest.raises(openai.BadRequestError, match="the turns up to it have"):
            create(server.openai, False, previous_response_id=long.id)


def _size(store: Store) -> int:
    return store.read(lambda reading: int(reading._db.execute("SELECT bytes FROM state").fetchone()[0]))


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_store_fails_the_request_and_the_server_goes_on(streamed: bool, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with live(Writing(*FACTS), "hermes", prompts=template(), store=store) as server:
        first = create(server.openai, streamed)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 5}")
        if streamed:
            last = chunks(server.post("/v1/responses", input="x" * 100_000, stream=True).text)[-1]
            assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
            assert "could not be stored" in last["response"]["error"]["message"]
        else:
            with pytest.raises(openai.InternalServerError, match=r"could not be stored: .* full"):
                create(server.openai, False, input="x" * 100_000)
        with pytest.raises(openai.InternalServerError, match="could not be stored"):
            server.openai.responses.create(model="m", input="x" * 100_000, background=True, stream=streamed)
        with pytest.raises(openai.InternalServerError, match="full"):
            server.openai.conversations.create(items=[{"role": "user", "content": "x" * 100_000}])
        assert server.http.get("/health").status_code == 200
        assert create(server.openai, streamed, store=False, previous_response_id=first.id).status == "completed"
        store._db.execute(f"PRAGMA max_page_count = {pages + 500}")
        assert create(server.openai, streamed, previous_response_id=first.id).status == "completed"


def test_a_damaged_record_is_a_503_that_says_so_and_is_logged_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"prompts": template(), "sessions": True}
    with live(Writing(*FACTS), "hermes", store=Store(tmp_path / "store.db"), **options) as server:
        response, conversation = create(server.openai, False).id, server.openai.conversations.create(items=HELLO).id
        item = server.openai.conversations.items.list(conversation).data[0].id
        session = server.post("/sessions", id="s").json()
        server.http.post(CHAT, json={"messages": HELLO}, headers={"Authorization": f"Bearer {session['key']}"})
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as db:
        db.execute("UPDATE records SET data = substr(data, 1, length(data) / 2) WHERE length(data)")
    with live(Writing(*FACTS), "hermes", store=Store(tmp_path / "store.db"), **options) as server:
        server.http.headers["Authorization"] = f"Bearer {server.openai.api_key}"
        pages = f"responses/{response}", f"conversations/{conversation}", f"conversations/{conversation}/items/{item}"
        asked: list[Any] = [("GET", f"/v1/{page}", None) for page in pages]
        asked += [("GET", path, None) for path in ("/sessions/s", "/sessions/s/trajectory")]
        for named in ({"previous_response_id": response}, {"conversation": conversation}):
            asked += [("POST", "/v1/responses", {"input": "Hi", "stream": stream, **named}) for stream in (False, True)]
        for method, path, body in asked:
            answer = server.http.request(method, path, json=body)
            assert (answer.status_code, "the store is damaged" in answer.text) == (503, True), (method, path)
        assert len([r for r in caplog.records if "the store is damaged" in r.getMessage()]) == len(asked)
        assert create(server.openai, False).status == "completed"
        server.post("/sessions", id="other")
        listed = {one["id"]: (one["status"], one["problems"]) for one in server.http.get("/sessions").json()["data"]}
        assert (listed["other"], listed["s"][0]) == (("open", []), "damaged")
        assert "cannot be read" in str(listed["s"][1])
        for path in (*pages[:2], "sessions/s"):
            path = f"/{path}" if path == "sessions/s" else f"/v1/{path}"
            assert [server.http.delete(path).status_code for _ in range(2)] == [200, 404], path
        assert [one["id"] for one in server.http.get("/sessions").json()["data"]] == ["other"]


@pytest.mark.parametrize("key", [None, "the server's"])
def test_a_damaged_session_is_deleted_by_its_own_key_alone_or_the_servers(tmp_path: Path, key: str | None) -> None:
    options: dict[str, Any] = {"prompts": template(), "sessions": True, "api_key": key}
    with live(Writing(*FACTS), "hermes", store=Store(tmp_path / "store.db"), **options) as server:
        server.http.headers["Authorization"] = f"Bearer {server.openai.api_key}"
        keys = [server.post("/sessions", id=id).json()["key"] for id in ("s", "other")]
        another(server, keys[0]).responses.create(model="m", input="Hi")
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as db:
        db.execute("UPDATE records SET data = X'C0' WHERE kind LIKE 'session%' AND length(data)")
    with live(Writing(*FACTS), "hermes", store=Store(tmp_path / "store.db"), **options) as server:
        gone = [
            server.http.delete("/sessions/s", headers={"Authorization": f"Bearer {key}"}).status_code
            for key in (keys[1], keys[0], keys[0])
        ]
        assert gone == [401, 200, 401]
        assert server.http.delete("/sessions/other", headers={"Authorization": f"Bearer {key or 'any'}"}).is_success
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as db:
        assert not db.execute("SELECT id FROM records").fetchall()


SHAPES = [b"null", b"1", b'"x"', b"[]", b"{}", b"[1]", b"[{}]", b'{"id":1}', b'[{"id":[]}]', b'{"output":{}}']
SHAPES += [b'{"output":[1]}', b'{"output":[{"id":1}]}', b"", b"{", b"NaN"]


def test_a_record_of_another_shape_is_damaged_like_one_that_cannot_be_decoded(tmp_path: Path) -> None:
    store, options = tmp_path / "store.db", dict[str, Any](prompts=template())
    with live(Writing(*FACTS), "hermes", store=Store(store), **options) as server:
        response = create(server.openai, False).id
        conversation = server.openai.conversations.create(items=HELLO).id
        item = server.openai.conversations.items.list(conversation).data[0].id
    url = f"/v1/responses/{response}", f"/v1/conversations/{conversation}"
    asked: list[Any] = [("GET", page, None) for page in (*url, f"{url[0]}/input_items", f"{url[1]}/items/{item}")]
    for named in ({"previous_response_id": response}, {"conversation": conversation}):
        asked.append(("POST", "/v1/responses", {"input": "Hi", "store": False, **named}))
    with (
        live(Writing(*FACTS), "hermes", store=Store(store), **options) as server,
        contextlib.closing(sqlite3.connect(store, isolation_level=None, timeout=PATIENCE)) as db,
    ):
        server.http.headers["Authorization"] = f"Bearer {server.openai.api_key}"
        for at, kind, data in db.execute("SELECT at, kind, data FROM records").fetchall():
            fields = {"response": ("response", "input", "hidden"), "conversation": ("metadata",)}.get(kind, (None,))
            for field, shape in itertools.product(fields, SHAPES):
                new = shape if field is None else msgspec.msgpack.encode({**msgspec.msgpack.decode(data), field: shape})
                db.execute("UPDATE records SET data = ? WHERE at = ?", (new, at))
                answers = [server.http.request(method, path, json=body) for method, path, body in asked]
                for answer, one in zip(answers, asked, strict=True):
                    assert answer.status_code in (200, 503), (kind, field, shape, one, answer.text)
                    answer.json()
                fits = (
                    shape == b"[]"
                    if field == "input"
                    else field in ("hidden", "metadata") and shape[:2] in (b"{}", b'{"')
                )
                assert fits != any(answer.status_code == 503 for answer in answers), (kind, field, shape)
            db.execute("UPDATE records SET data = ? WHERE at = ?", (data, at))


def test_turns_are_found_again_after_a_restart_but_not_by_another_model(tmp_path: Path) -> None:
    engine = Writing(*FACTS)
    for name in ("served", "served", "another"):
        with live(engine, "hermes", prompts=template(), store=Store(tmp_path / "store.db"), model=name) as server:
            if not engine.requests:
                first = create(server.openai, False)
            else:
                create(server.openai, False, previous_response_id=first.id)
    assert extends(engine, 1, FACTS[0])
    engine.requests.pop(1)
    assert not extends(engine, 1, FACTS[0])
    assert "The first." in str(engine.requests[1].prompt)


class Watched(Writing):
    """Does something while it writes."""

    def __init__(self, *outputs: str) -> None:
        super().__init__(*outputs)
        self.meanwhile: Callable[[], object] = lambda: None

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        await asyncio.to_thread(self.meanwhile)
        async for delta in super().generate(request):
            yield delta


def test_a_response_whose_conversation_goes_meanwhile_is_told_so() -> None:
    engine = Watched(*FACTS, *FACTS)
    with live(engine, "hermes", prompts=template()) as server:
        client = server.openai
        conversation = client.conversations.create().id
        previous = create(client, False).id
        for delete, continued in (
            (lambda: client.responses.delete(previous), {"previous_response_id": previous}),
            (lambda: client.conversations.delete(conversation), {"conversation": conversation}),
        ):
            engine.meanwhile = delete
            with pytest.raises(openai.NotFoundError, match=r"could not be stored: there is no (response|conversation)"):
                create(client, False, **continued)


def test_a_history_that_is_too_long_is_refused() -> None:
    with live(Writing(*FACTS), "hermes", prompts=template(), body=20_000, messages=5) as server:
        previous = None
        for _ in range(2):
            previous = create(server.openai, False, input="x" * 15_000, previous_response_id=previous).id
        with pytest.raises(openai.BadRequestError, match=r"previous_response_id: the turns up to it have .* bytes"):
            create(server.openai, False, previous_response_id=previous)
        previous = create(server.openai, False).id
        previous = create(server.openai, False, previous_response_id=previous).id
        with pytest.raises(openai.BadRequestError, match=r"input: 6 messages; allowed are 5"):
            create(server.openai, False, previous_response_id=previous)


def test_what_a_hostile_client_asks_for_is_refused(client: openai.OpenAI) -> None:
    first = create(client, False)
    base = str(client.base_url).removesuffix("/v1/")
    asks: list[tuple[str, str, Any, int]] = [
        ("GET", f"/v1/responses/{first.id}?stream=true", None, 400),
        ("GET", f"/v1/responses/{first.id}/input_items?limit=0", None, 400),
        ("GET", f"/v1/responses/{first.id}/input_items?limit={'9' * 5000}", None, 400),
        ("GET", f"/v1/responses/{first.id}/input_items?order=up", None, 400),
        ("GET", f"/v1/responses/{first.id}/input_items?after=nobody", None, 404),
        ("GET", "/v1/responses/%ff%00", None, 404),
        ("GET", "/v1/conversations/nobody/items", None, 404),
        ("POST", f"/v1/responses/{first.id}/cancel", {}, 400),
        ("POST", "/v1/conversations", [], 400),
        ("POST", "/v1/conversations", {"metadata": {str(i): "" for i in range(17)}}, 400),
        ("POST", "/v1/conversations", {"metadata": {"k": "v" * 513}}, 400),
        ("POST", "/v1/conversations", {"metadata": {"k": 1}}, 400),
        ("POST", "/v1/conversations", {"items": [{}] * 21}, 400),
        ("POST", "/v1/conversations", {"items": [{"type": "nonsense"}]}, 400),
        ("POST", "/v1/conversations", {"items": [{"role": "user", "content": [{"type": "input_video"}]}]}, 400),
        ("POST", "/v1/responses", {"input": "x", "conversation": "conv_nobody"}, 404),
        ("POST", "/v1/responses", {"input": "x", "conversation": "c", "previous_response_id": first.id}, 400),
    ]
    with openai.DefaultHttpxClient(base_url=base, timeout=PATIENCE, headers={"Authorization": "Bearer EMPTY"}) as http:
        for method, path, body, status in asks:
            answer = http.request(method, path, json=body)
            assert (answer.status_code, path, body) == (status, path, body)
            assert answer.json()["error"]["type"] == "invalid_request_error"
        wrong = http.post("/v1/conversations", content="{}", headers={"Content-Type": "text/plain"})
        assert wrong.status_code == 415


# -- conversations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_a_conversation_takes_what_is_said_and_goes_on_exactly(streamed: bool) -> None:
    with written(*FACTS, turn_memory=0) as (server, engine):
        client = server.openai
        conversation = client.conversations.create(metadata={"topic": "facts"})
        for i in range(3):
            name: Any = conversation.id if i else {"id": conversation.id}
            response = create(client, streamed, input=f"Question {i}", conversation=name)
            assert response.conversation is not None
            assert response.conversation.id == conversation.id
        assert extends(engine, 1, FACTS[0])
        assert extends(engine, 2, FACTS[1])
        items: list[Any] = list(client.conversations.items.list(conversation.id, order="asc", limit=3))
        texts = [item.content[0].text for item in items if item.type == "message"]
        assert texts == ["Question 0", "The first.", "Question 1", "The second.", "Question 2", "The third."]
        with pytest.raises(openai.BadRequestError, match="belongs to a conversation"):
            create(client, streamed, previous_response_id=response.id)


def test_a_conversation_is_made_changed_and_deleted(client: openai.OpenAI) -> None:
    said: Any = {"type": "message", "role": "user", "content": "Remember 7."}
    made = client.conversations.create(items=[said], metadata={"a": "1"})
    assert made.id.startswith("conv_")
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"b": "2"})
    assert (changed.metadata, changed.created_at) == ({"b": "2"}, made.created_at)
    added = client.conversations.items.create(made.id, items=[said, {"role": "assistant", "content": "Yes."}])
    assert len(added.data) == 2
    listed = client.conversations.items.list(made.id).data
    assert [item.id for item in listed[:2]] == [item.id for item in reversed(added.data)]
    first: Any = client.conversations.items.retrieve(str(added.data[0].id), conversation_id=made.id)
    assert first.content[0].text == "Remember 7."
    again = client.conversations.items.create(made.id, items=[first.model_dump(exclude_none=True)])
    assert again.data[0].id != first.id, "an id is unique in its conversation"
    assert client.conversations.items.delete(first.id, conversation_id=made.id).id == made.id
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(first.id, conversation_id=made.id)
    assert client.conversations.delete(made.id).deleted
    for gone in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError):
            gone(made.id)


def test_a_conversation_is_its_owners_alone() -> None:
    with live(Writing(*FACTS), "hermes", prompts=template()) as server:
        said: Any = {"role": "user", "content": "7"}
        made = server.openai.conversations.create(items=[said])
        (item,) = server.openai.conversations.items.list(made.id).data
        other = another(server)
        theirs, items = other.conversations, other.conversations.items
        for attempt in (
            *(partial(ask, made.id) for ask in (theirs.retrieve, theirs.delete, items.list)),
            *(partial(ask, str(item.id), conversation_id=made.id) for ask in (items.retrieve, items.delete)),
            partial(theirs.update, made.id, metadata={}),
            partial(items.create, made.id, items=[said]),
            partial(create, other, False, conversation=made.id),
        ):
            with pytest.raises(openai.NotFoundError, match=f"Conversation with id '{made.id}' not found"):
                attempt()
        assert len(server.openai.conversations.items.list(made.id).data) == 1


def test_a_response_that_is_not_stored_still_belongs_to_its_conversation(client: openai.OpenAI) -> None:
    made = client.conversations.create()
    response = create(client, False, conversation=made.id, store=False)
    assert len(client.conversations.items.list(made.id).data) == 3
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    assert create(client, False, conversation=made.id).status == "completed"


# -- in the background -------------------------------------------------------------------------------------------------


class Gated(Writing):
    """Waits in the middle of its output for a signal."""

    def __init__(self, *outputs: str) -> None:
        super().__init__(*outputs)
        self.gate = threading.Event()
        self.cancelled = 0

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        count = 0
        try:
            async for delta in super().generate(request):
                count += 1
                while count == 12 and not self.gate.is_set():
                    await asyncio.sleep(0.01)
                yield delta
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise


def test_a_response_in_the_background_is_asked_for_until_it_is_complete() -> None:
    with live(Gated(*FACTS), "hermes", prompts=template()) as server:
        client = server.openai
        queued = create(client, False, background=True)
        assert (queued.status, queued.background, queued.output) == ("queued", True, [])
        assert client.responses.retrieve(queued.id).status == "in_progress"
        with pytest.raises(openai.BadRequestError, match="is in_progress"):
            create(client, False, previous_response_id=queued.id)
        server.engine.gate.set()
        until(lambda: client.responses.retrieve(queued.id).status == "completed")
        assert client.responses.retrieve(queued.id).output_text == "The first."
        assert client.responses.cancel(queued.id).status == "completed", "what is complete stays so"
        second = create(client, False, previous_response_id=queued.id)
        assert extends(server.engine, 1, FACTS[0])
        assert second.output_text == "The second."


def test_a_response_in_the_background_is_cancelled() -> None:
    with live(Gated(*FACTS), "hermes", prompts=template()) as server:
        client = server.openai
        queued = create(client, False, background=True)
        until(lambda: server.engine.requests)
        assert client.responses.cancel(queued.id).status == "cancelled"
        assert client.responses.cancel(queued.id).status == "cancelled"
        until(lambda: server.engine.cancelled == 1)
        assert client.responses.retrieve(queued.id).status == "cancelled"
        deleted = create(client, False, background=True)
        client.responses.delete(deleted.id)
        until(lambda: server.engine.cancelled == 2)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(deleted.id)
        server.engine.gate.set()
        whole = create(client, False)
        with pytest.raises(openai.BadRequestError, match="background"):
            client.responses.cancel(whole.id)


def test_a_stream_in_the_background_goes_on_without_its_client() -> None:
    with live(Gated(*FACTS), "hermes", prompts=template()) as server:
        client = server.openai
        stream = client.responses.create(model="m", input="Hello", background=True, stream=True)
        seen: list[Any] = []
        for event in stream:
            seen.append(event)
            if event.type == "response.reasoning_text.delta":
                break
        stream.close()
        id, last = seen[0].response.id, seen[-1].sequence_number
        server.engine.gate.set()
        rest = list(client.responses.retrieve(id, stream=True, starting_after=last))
        numbers = [event.sequence_number for event in (*seen, *rest)]
        assert numbers == list(range(len(numbers)))
        final: Any = rest[-1]
        assert (final.type, final.response.output_text) == ("response.completed", "The first.")
        again = list(client.responses.retrieve(id, stream=True))
        assert [event.sequence_number for event in again] == numbers
        assert client.responses.retrieve(id).output_text == "The first."


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_in_the_background_waits_for_room_in_the_store(
    streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.server.background._BEAT", 0.05)
    store = Store(tmp_path / "store.db")
    with live(Gated("word " * 2000), "hermes", prompts=template(), store=store) as server:
        stream: Any = server.openai.responses.create(model="m", input="Hello", background=True, stream=streamed)
        id = next(stream).response.id if streamed else stream.id
        until(lambda: server.engine.requests)
        time.sleep(0.3)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        server.engine.gate.set()
        time.sleep(0.5)
        assert server.openai.responses.retrieve(id).status == "in_progress"
        store._db.execute(f"PRAGMA max_page_count = {pages + 1000}")
        until(lambda: server.openai.responses.retrieve(id).status == "completed")
        assert server.openai.responses.retrieve(id).output_text == "word " * 2000
        if streamed:
            events = list(stream)
            assert [event.sequence_number for event in events] == list(range(1, len(events) + 1))
            assert events[-1].type == "response.completed"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("after", [0, 3])
def test_a_failure_in_the_background_is_stored(streamed: bool, after: int) -> None:
    with live(Scripted(["a", "b", "c", "d"], fail_after=after), "hermes") as server:
        client = server.openai
        made: Any = client.responses.create(model="m", input="Hello", background=True, stream=streamed)
        if streamed:
            events: list[Any] = list(made)
            assert events[-1].type == "response.failed"
            assert [e.sequence_number for e in events] == list(range(len(events)))
        id = events[0].response.id if streamed else made.id
        until(lambda: client.responses.retrieve(id).status == "failed")
        error: Any = client.responses.retrieve(id).error
        assert (error.code, error.message) == ("server_error", "the device is lost")


def test_a_response_whose_process_is_gone_has_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine, store = Gated(*FACTS), Store(tmp_path / "store.db")
    lost = "the server ended before the response was complete, or could not store it"
    with live(engine, "hermes", prompts=template(), store=store) as server:
        queued = create(server.openai, False, background=True)
        monkeypatch.setattr("unspool.request.stored._clock", lambda: time.monotonic() + 31)
        found: Any = server.openai.responses.retrieve(queued.id)
        assert (found.status, found.error.message) == ("failed", lost)
        more: Any = {"model": "m", "input": "More", "previous_response_id": queued.id}
        assert server.openai.responses.input_tokens.count(**more).input_tokens, "what was asked can be gone on with"
        monkeypatch.undo()
        assert server.openai.responses.retrieve(queued.id).status == "in_progress"
    again = Store(tmp_path / "store.db")
    with live(engine, "hermes", prompts=template(), store=again) as server:
        found = server.openai.responses.retrieve(queued.id)
        assert (found.status, found.error.message) == ("failed", "the server is shutting down")


def test_a_response_in_the_background_outlives_a_clock_that_is_set_but_no_restart_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with live(Gated(*FACTS), "hermes", prompts=template()) as server:
        queued = create(server.openai, False, background=True)
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 86_400)
        assert server.openai.responses.retrieve(queued.id).status == "in_progress"
        monkeypatch.setattr("unspool.request.stored._clock", lambda: 0.0)
        assert server.openai.responses.retrieve(queued.id).status == "failed"


def test_a_stream_of_a_response_whose_process_is_gone_ends_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("unspool.server.background._BEAT", 0.1)
    with live(Gated(*FACTS), "hermes", prompts=template(), store=Store(tmp_path / "store.db")) as server:
        stream = server.openai.responses.create(model="m", input="Hello", background=True, stream=True)
        first = [next(stream) for _ in range(5)]
        id = first[0].response.id  # type: ignore[union-attr]
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as now,
            contextlib.closing(sqlite3.connect(tmp_path / "later.db")) as later,
        ):
            now.backup(later)  # as a kill leaves it
    monkeypatch.setattr("unspool.request.stored.LOST", 0.0)
    with live(Gated(*FACTS), "hermes", prompts=template(), store=Store(tmp_path / "later.db")) as server:
        rest: list[Any] = list(server.openai.responses.retrieve(id, stream=True, starting_after=1))
        assert [event.sequence_number for event in rest] == list(range(2, len(rest) + 2))
        assert (rest[-1].type, rest[-1].response.status) == ("response.failed", "failed")
        assert "the server ended" in rest[-1].response.error.message


@pytest.mark.parametrize("given", [{}, {"input": None}, {"input": []}, {"input": ""}])
def test_a_response_goes_on_without_input(given: dict[str, Any]) -> None:
    with written(*FACTS, turn_memory=0) as (server, engine):
        first = create(server.openai, False, input="One")
        server.http.headers["Authorization"] = f"Bearer {server.openai.api_key}"
        answer = server.ok("/v1/responses", previous_response_id=first.id, **given).json()
        third = create(server.openai, False, input="Three", previous_response_id=answer["id"])
        assert third.output_text == "The third."
    assert [extends(engine, i, FACTS[i - 1]) for i in (1, 2)] == [True, True]
    assert all(text in str(engine.requests[2].prompt) for text in ("One", "The first.", "The second.", "Three"))


@pytest.mark.parametrize("given", [{}, {"input": []}])
@pytest.mark.parametrize("named", ["previous_response_id", "conversation"])
def test_a_call_without_output_does_not_go_on_without_input(named: str, given: dict[str, Any]) -> None:
    with written(CALL, ANSWER, "Bye.") as (server, engine):
        client = server.openai
        kept: dict[str, Any] = {"conversation": client.conversations.create().id} if named == "conversation" else {}
        asked = create(client, False, tools=[RESPONSES_TOOL], **kept)
        continued: dict[str, Any] = kept or {"previous_response_id": asked.id}
        server.http.headers["Authorization"] = f"Bearer {client.api_key}"
        (called,) = [item for item in asked.output if item.type == "function_call"]
        answer = server.post("/v1/responses", **continued, **given)
        message = f"input: No tool output found for function call {called.call_id}."
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)
        assert len(engine.requests) == 1
        output = {"type": "function_call_output", "call_id": called.call_id, "output": "Rain"}
        second = server.ok("/v1/responses", input=[output], **continued).json()
        if named == "previous_response_id":
            continued = {"previous_response_id": second["id"]}
        assert server.ok("/v1/responses", **continued).json()["status"] == "completed"


@pytest.mark.parametrize("named", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_an_output_of_a_call_that_is_nowhere_is_refused_as_by_openai(named: str, kind: str) -> None:
    output = {"type": kind, "call_id": "call_nobody", "output": "Rain"}
    made = {"type": "function_call", "call_id": "call_nobody", "name": "f", "arguments": "{}"}
    with written(CALL, *FACTS) as (server, engine):
        client = server.openai
        kept: dict[str, Any] = {"conversation": client.conversations.create().id} if named == "conversation" else {}
        asked = create(client, False, tools=[RESPONSES_TOOL], **kept)
        continued: Any = kept or {"previous_response_id": asked.id}
        with pytest.raises(openai.BadRequestError) as caught:
            create(client, False, input=[output], **continued)
        body: Any = caught.value.body
        text = "input: No tool call found for function call output with call_id call_nobody."
        assert (body["message"], body["param"], len(engine.requests)) == (text, "input", 1)
        own = {**output, "call_id": asked.output[-1].model_dump()["call_id"]}
        assert create(client, False, input=[own, output, made], **continued).status == "completed"
        if named == "conversation":  # what it has is taken, whatever it is
            orphan: Any = [{**output, "call_id": "gone"}]
            client.conversations.items.create(kept[named], items=orphan)
            assert create(client, False, input="Go on", **continued).status == "completed"


def test_a_conversation_needs_no_input_if_it_ends_with_a_question(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[{"type": "message", "role": "user", "content": "Which river?"}])
    assert client.responses.create(model="m", conversation=made.id).output_text == "The first."
    named: dict[str, Any]
    for named in ({}, {"conversation": client.conversations.create().id}):
        with pytest.raises(openai.BadRequestError, match="input: is required"):
            create(client, False, input=openai.omit, **named)


ITEMS: dict[str, dict[str, Any]] = {
    "message": {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    "reasoning": {"summary": [{"type": "summary_text", "text": "T"}], "content": [], "encrypted_content": "forged"},
    "function_call": {"call_id": "a", "name": "f", "arguments": "{}", "namespace": "n"},
    "function_call_output": {"call_id": "a", "output": "1"},
    "custom_tool_call": {"call_id": "b", "name": "g", "input": "x"},
    "custom_tool_call_output": {"call_id": "b", "output": "1"},
    "tool_search_call": {"call_id": "c", "arguments": {"q": "x"}},
    "tool_search_output": {"call_id": "c", "tools": [{"type": "function", "name": "f", "parameters": {}}]},
    "additional_tools": {"role": "developer", "tools": [{"type": "custom", "name": "f", "format": {"type": "text"}}]},
    "mcp_list_tools": {"server_label": "shop", "tools": []},
    "mcp_call": {"id": "m", "server_label": "shop", "name": "f", "arguments": "{}", "output": "1", "error": "no"},
    "mcp_approval_request": {"id": "p", "server_label": "shop", "name": "f", "arguments": "{}"},
    "mcp_approval_response": {"approval_request_id": "mcpr_forged", "approve": True, "reason": "r"},
    "code_interpreter_call": {"id": "i", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
    "web_search_call": {"id": "w", "unspool": {"id": "w", "name": "s", "arguments": "{}", "result": "r"}},
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ITEMS)
def test_items_that_no_later_request_could_read_are_refused_by_their_field(kind: str) -> None:
    good = {"type": kind, **ITEMS[kind]}
    values: list[Any] = [5, True, "", [], [5], {}, {"type": 5}, [{}], None]
    broken = [{**good, field: wrong} for field in ITEMS[kind] for wrong in values]
    asked: Any = {"type": "mcp_approval_request", **ITEMS["mcp_approval_request"]}
    answer = {"type": "mcp_approval_response", "approval_request_id": "p"}
    answers: Any = [{**answer, "approve": yes} for yes in (True, False)]
    with live(Scripted(["Hello."]), "hermes") as server:
        client = server.openai
        first: Any = client.conversations.create(items=[asked])
        refused: list[Any] = []
        for item in [good, *broken, *answers]:
            made: Any = client.conversations.create()
            for to in (made.id, first.id):
                try:
                    client.conversations.items.create(to, items=[item])
                except openai.BadRequestError as error:
                    refused.append(error.body)
            assert create(client, False, conversation=made.id).status == "completed", item
        assert create(client, False, conversation=first.id).status == "completed"
    assert refused
    assert all(body["param"].startswith("items[0]") for body in refused), refused


def test_what_approves_a_deleted_or_an_older_call_leaves_the_conversation_readable(tmp_path: Path) -> None:
    engine = model(guard_please=f"May I?{call('guarded', a=7)}", guarded__7="Done.", go_on="It went on.")
    file, workshop = tmp_path / "s.db", Workshop()
    with live(engine, "hermes", servers=[workshop], store=Store(file), approval_key=b"old") as server:
        made = server.openai.conversations.create()
        first = create(server.openai, False, input="guard please", conversation=made.id, tools=[MCP])
        (request,) = [item for item in first.output if item.type == "mcp_approval_request"]
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        server.openai.conversations.items.create(made.id, items=[answer])
        other: Any = {**answer, "approval_request_id": "other"}
        with pytest.raises(openai.BadRequestError, match="is not an mcp_approval_request"):
            server.openai.conversations.items.create(made.id, items=[other])
    with live(engine, "hermes", servers=[workshop], store=Store(file), approval_key=b"new") as server:
        with pytest.raises(openai.BadRequestError, match="was not requested by this server"):
            server.openai.conversations.items.create(made.id, items=[answer])
        assert create(server.openai, False, input="go on", conversation=made.id).output_text == "It went on."
        server.openai.conversations.items.delete(request.id, conversation_id=made.id)
        assert create(server.openai, False, input="go on", conversation=made.id).output_text == "It went on."
    assert not workshop.calls


def test_a_conversation_takes_no_more_than_a_request_may_have() -> None:
    said: Any = {"role": "user", "content": "x" * 3000}
    short: Any = {"role": "user", "content": "x"}
    with live(Scripted(["Hello."]), "hermes", body=20_000, messages=8) as server:
        client = server.openai
        for items, most in (([said], 6), ([short], 8)):
            made = client.conversations.create()
            for _ in range(most):
                client.conversations.items.create(made.id, items=items)
            with pytest.raises(openai.BadRequestError, match="items: the conversation would have"):
                client.conversations.items.create(made.id, items=items)
            kept = client.conversations.items.list(made.id).data
            assert len(kept) == most
            client.conversations.items.delete(str(kept[0].id), conversation_id=made.id)
            assert create(client, False, conversation=made.id, input="x").status == "completed"
