"""A client's history continues the model's own turns, token by token, in every protocol."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Files

from .support import CHAT, HELLO, WEATHER, Live, live, written
from .test_loop import BETA, MCP, MCP_SERVER, rebuilt, run
from .test_protocols import ANTHROPIC_TOOL, RESPONSES_TOOL, claude
from .workshop import Workshop, call
from .writing import ANSWER, CALL, MARKS, TEMPLATE, Writing, extends


def chat(server: Live, history: Sequence[Any], **options: Any) -> Any:
    completion = server.openai.chat.completions.create(model="m", messages=list(history), tools=[WEATHER], **options)
    return completion.choices[0].message


def answered(message: Any, result: str = "20") -> list[Any]:
    """The messages of a chat completions client after a call: the answer without its reasoning, and the result."""
    answer = {k: v for k, v in message.model_dump(exclude_none=True).items() if k != "reasoning_content"}
    return [answer, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": result}]


@pytest.mark.parametrize("ids", [True, False])
def test_chat_completions_go_on_from_the_models_own_tokens_within_a_tool_loop(ids: bool) -> None:
    with written(CALL, CALL, ANSWER, ids=ids) as (server, engine):
        history: list[Any] = list(HELLO)
        for _ in range(2):
            history += answered(chat(server, history))
        final = chat(server, history)
        assert extends(engine, 1, CALL)
        assert extends(engine, 2, CALL)
        history += [{"role": "assistant", "content": final.content}, {"role": "user", "content": "Thanks"}]
        chat(server, history)
        assert not extends(engine, 3, ANSWER)
        assert "Which city" not in str(engine.requests[3].prompt)


@pytest.mark.parametrize("sessions", [False, True])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
def test_turns_with_several_calls_go_on_where_the_template_has_one_call_in_a_message(
    sessions: bool, order: int
) -> None:
    text = TEMPLATE.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")
    prompts = Prompts(Files(text, text, {"eos_token": "<|im_end|>"}, tuple(MARKS)))
    called = CALL.partition("</think>")[2]
    called += called.replace("Paris", "Rome")
    engine = Writing(called, ANSWER)
    with live(engine, "hermes", prompts=prompts, sessions=sessions) as server:
        if sessions:
            server.http.headers["Authorization"] = f"Bearer {server.post('/sessions').json()['key']}"
        engine.requests.clear()
        message = server.post(messages=HELLO, tools=[WEATHER]).json()["choices"][0]["message"]
        ids = [made["id"] for made in message["tool_calls"]]
        results = [{"role": "tool", "tool_call_id": id, "content": f"result {at}"} for at, id in enumerate(ids)]
        server.post(messages=[*HELLO, message, *results[::order]], tools=[WEATHER])
    first, second = (str(request.prompt) for request in engine.requests)
    written = "".join(f"<|im_start|>tool\n{one['content']}<|im_end|>\n" for one in results[::order])
    assert second == f"{first}{called}<|im_end|>\n{written}<|im_start|>assistant\n"
    assert extends(engine, 1, called)


def test_tokens_of_earlier_turns_are_continued_if_the_flag_or_the_request_says_so() -> None:
    with written(ANSWER, context="all") as (server, engine):
        final = chat(server, HELLO)
        history = [*HELLO, {"role": "assistant", "content": final.content}]
        chat(server, [*history, {"role": "user", "content": "Thanks"}])
        assert extends(engine, 1, ANSWER)
    with written(ANSWER) as (server, engine):
        for context, expected in (("all_turns", True), ("current_turn", False), ("auto", False)):
            ask: Any = {"input": HELLO, "reasoning": {"context": context}}
            first = server.post("/v1/responses", **ask).json()
            server.post("/v1/responses", **{**ask, "input": [*HELLO, *first["output"], *HELLO]})
            assert extends(engine, len(engine.requests) - 1, ANSWER) is expected


def test_responses_go_on_from_items_that_come_back_with_or_without_the_reasoning() -> None:
    for drop in (False, True):
        with written(CALL) as (server, engine):
            ask: Any = {"model": "m", "tools": [RESPONSES_TOOL]}
            with server.openai.responses.stream(**ask, input="Hello") as stream:
                output: list[Any] = [i.model_dump(exclude_none=True) for i in stream.get_final_response().output]
            back = [i for i in output if not (drop and i["type"] == "reasoning")]
            result: Any = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "20"}
            asked: Any = [{"role": "user", "content": "Hello"}, *back, result]
            server.openai.responses.create(**ask, input=asked)
        assert extends(engine, 1, CALL)


@pytest.mark.parametrize(
    "raw", [CALL, CALL.replace('{"city":"Paris"}', '{"city":"Par'), CALL.replace('{"city":"Paris"}', "7")]
)
def test_messages_go_on_though_their_client_reads_the_input_of_tools(raw: str) -> None:
    with written(raw) as (server, engine), claude(server.url) as client:
        ask: Any = {"model": "m", "max_tokens": 99, "tools": [ANTHROPIC_TOOL]}
        first = client.messages.create(**ask, messages=HELLO)
        call: Any = next(b for b in first.content if b.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "20"}
        reminder = {"type": "text", "text": "Be brief."}
        said: Any = [b.model_dump() for b in first.content if b.type != "thinking"]
        behind: Any = [{"role": "assistant", "content": said}, {"role": "user", "content": [result, reminder]}]
        client.messages.create(**ask, messages=[*HELLO, *behind])
    assert extends(engine, 1, raw)


def test_a_turn_that_the_client_changed_is_written_by_the_template() -> None:
    with written(CALL) as (server, engine):
        said, result = answered(chat(server, HELLO))
        other = json.loads(json.dumps(said))
        other["tool_calls"][0]["function"]["arguments"] = '{"city": "Rome"}'
        changes: list[Any] = [
            [*HELLO, other, result],
            [*HELLO, {**said, "content": "Sure."}, result],
            [*HELLO, {**said, "reasoning_content": "Another thought."}, result],
            [{"role": "system", "content": "New."}, *HELLO, said, result],
        ]
        for history in changes:
            chat(server, history)
            assert engine.requests[-1].prompt_ids is None
            assert CALL not in str(engine.requests[-1].prompt)
        chat(server, [*HELLO, said, result], extra_body={"tools": [{**WEATHER, "function": {"name": "get_weather"}}]})
        assert engine.requests[-1].prompt_ids is None
        chat(server, [*HELLO, said, result])
        assert engine.requests[-1].prompt_ids is not None


def test_where_only_an_id_of_a_call_names_a_turn_its_reasoning_goes_to_the_template() -> None:
    engine = Writing(CALL)
    thinking = TEMPLATE.replace("m.content or ''", "m.reasoning_content or ''")
    with live(engine, "hermes", prompts=Prompts(Files(thinking, thinking, {}, tuple(MARKS)))) as server:
        said, result = answered(chat(server, HELLO))
        chat(server, [{"role": "system", "content": "New."}, *HELLO, said, result])
    assert "Which city?" in str(engine.requests[-1].prompt)


@pytest.mark.parametrize("options", [{"context": "never"}, {"turn_memory": 0}, {"turn_memory": 700}])
def test_flags_switch_continuation_off_and_bound_its_memory(options: Any) -> None:
    with written(CALL, **options) as (server, engine):
        history = [*HELLO, *answered(chat(server, HELLO))]
        chat(server, history)
    assert not extends(engine, 1, CALL)


def test_an_output_that_was_cut_after_its_first_call_goes_on_after_the_cut() -> None:
    with written(CALL + CALL) as (server, engine):
        first = chat(server, HELLO, parallel_tool_calls=False)
        assert len(first.tool_calls) == 1
        chat(server, [*HELLO, *answered(first)], parallel_tool_calls=False)
    before, now = (str(r.prompt) for r in engine.requests)
    assert now.startswith(before + CALL.removesuffix("\n</tool_call>"))
    assert now.count('"name":  "get_weather"') == 1
    assert engine.requests[1].prompt_ids is None


# -- answers of several rounds -----------------------------------------------------------------------------------------

TWO = f"<think>\nBoth.\n</think>\n\nLet me see. {call('add', a=1, b=1)}\n{call('add', a=2, b=2)}"
ONE = f"<think>\nMore.\n</think>\n\n{call('browser.open', id='p')}"


HOSTED: Any = [MCP, {"type": "web_search"}]


def of_chat(server: Live, history: list[Any], *, stream: bool, hidden: bool = False, **options: Any) -> list[Any]:
    """Send the history in chat completions, and return the messages that the client then appends."""
    ask: Any = {"model": "m", "messages": history, **options}
    if stream:
        with server.openai.chat.completions.stream(**ask) as answer:
            message = answer.get_final_completion().choices[0].message
    else:
        message = server.openai.chat.completions.create(**ask).choices[0].message
    dumped = message.model_dump(exclude_none=True, exclude={"parsed"})
    dumped["tool_calls"] = [{k: v for k, v in c.items() if k != "index"} for c in dumped.get("tool_calls", ())] or None
    return [{k: v for k, v in dumped.items() if v is not None and not (hidden and k == "tool_results")}]


def of_responses(server: Live, history: list[Any], *, stream: bool, **options: Any) -> list[Any]:
    ask: Any = {"model": "m", "input": history, "tools": HOSTED, **options}
    if stream:
        with server.openai.responses.stream(**ask) as answer:
            output = answer.get_final_response().output
    else:
        output = server.openai.responses.create(**ask).output
    return [item.model_dump(exclude_none=True, warnings=False) for item in output]


def of_messages(server: Live, history: list[Any], *, stream: bool, **options: Any) -> list[Any]:
    ask: Any = {"model": "m", "max_tokens": 99, "mcp_servers": [MCP_SERVER], "betas": BETA, **options}
    with claude(server.url, server.openai.api_key) as client:
        if stream:
            with client.beta.messages.stream(**ask, messages=history) as answer:
                message: Any = answer.get_final_message()
        else:
            message = client.beta.messages.create(**ask, messages=history)
    return [{"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in message.content]}]


def of_agui(server: Live, history: list[Any], *, stream: bool, **options: Any) -> list[Any]:
    return rebuilt(run(server, history, **options), reasoning=stream)


PROTOCOLS: Any = [of_chat, of_responses, of_messages, of_agui]

# Text before, between and after calls, and a second thought, which the protocols represent in very different ways.
WORDY = (
    f"<think>\nBoth.\n</think>\n\nFirst {call('add', a=1, b=1)}\n then \n<think>\nOr not? </think>\n"
    f"  this: {call('add', a=2, b=2)} wait."
)
WORDY_ANSWER = "<think>\nIt is warm.\n</think>\n\n 20 degrees.<think>No.</think> 21."


@pytest.mark.sampled(12)
@pytest.mark.parametrize("ask", PROTOCOLS)
@pytest.mark.parametrize("raws", [(TWO, ONE, ANSWER), (WORDY, ONE, WORDY_ANSWER)], ids=["plain", "wordy"])
@pytest.mark.parametrize(("stream", "ids"), [(False, True), (True, False), (True, True)])
def test_a_users_turn_goes_on_after_every_round_of_the_last_answer(
    ask: Any, raws: tuple[str, ...], stream: bool, ids: bool
) -> None:
    with written(*raws, ids=ids, servers=[Workshop()], context="all") as (server, engine):
        history: list[Any] = list(HELLO)
        for turn in range(2):
            history += [*ask(server, history, stream=stream), {"role": "user", "content": f"Now {turn}?"}]
        ask(server, history, stream=stream)
        assert len(engine.requests) == 9
        for at in range(1, 7):
            assert extends(engine, at, raws[(at - 1) % 3]), at
        assert str(engine.requests[6].prompt).count("page=text") == 2


@pytest.mark.parametrize("hidden", [False, True])
def test_chat_completions_continue_turns_with_shown_or_hidden_server_results(hidden: bool) -> None:
    with written(TWO, ONE, ANSWER, servers=[Workshop()], context="all") as (server, engine):
        turn = of_chat(server, HELLO, stream=False, hidden=hidden)
        assert ("tool_results" in turn[0]) is not hidden
        thanks = {"role": "user", "content": "Thanks"}
        of_chat(server, [*HELLO, *turn, thanks], stream=False)
        assert extends(engine, 3, ANSWER)
        changes: list[Any] = [{"content": "It is cold."}, {"reasoning_content": "Another thought."}]
        if not hidden:
            changes += [{"tool_results": [{**turn[0]["tool_results"][0], "content": "sum=9"}]}]
        for change in changes:
            of_chat(server, [*HELLO, {**turn[0], **change}, thanks], stream=False)
            assert not any(ANSWER in str(r.prompt) for r in engine.requests[-1:])
        assert ANSWER in str(engine.requests[3].prompt)


# The same round, with a call of a client's tool.
TOLD = "\n and <think>Or Rome? </think>\n"
WORDY_MIXED = (
    f"<think>\nAsk.\n</think>\n\nI ask {call('add', a=3, b=3)}{TOLD}{call('get_weather', city='Paris')}\n"
    f" and {call('add', a=4, b=4)} too "
)


def theirs(ask: Any, made: list[Any]) -> list[Any]:
    """A client's answers to the calls that are left to it."""
    if ask is of_chat:
        ids = [c["id"] for m in made for c in m.get("tool_calls") or ()]
        return [{"role": "tool", "tool_call_id": id, "content": "20"} for id in ids]
    if ask is of_responses:
        ids = [item["call_id"] for item in made if item["type"] == "function_call"]
        return [{"type": "function_call_output", "call_id": id, "output": "20"} for id in ids]
    if ask is of_messages:
        ids = [block["id"] for block in made[0]["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "20"} for id in ids]
        return [{"role": "user", "content": results}] if results else []
    calls = [c for m in made for c in m.get("toolCalls", ()) if c["function"]["name"] == "get_weather"]
    return [{"role": "tool", "toolCallId": c["id"], "content": "20"} for c in calls]


CLIENTS_OWN: Any = {
    of_chat: [WEATHER],
    of_responses: [*HOSTED, RESPONSES_TOOL],
    of_messages: [ANTHROPIC_TOOL],
    of_agui: [{"name": "get_weather", "description": "", "parameters": {"type": "object", "properties": {}}}],
}


@pytest.mark.parametrize("ask", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_round_with_calls_of_server_and_client_is_continued(ask: Any, stream: bool) -> None:
    options: Any = {"tools": CLIENTS_OWN[ask], "stream": stream}
    if ask is of_chat:
        options["hidden"] = stream  # whether the client drops the results of the server's tools
    with written(WORDY, WORDY_MIXED, WORDY_ANSWER, servers=[Workshop()], context="all") as (server, engine):
        actual = ask(server, HELLO, **options)
        history = [*HELLO, *actual, *theirs(ask, actual)]
        history += [*ask(server, history, **options), {"role": "user", "content": "Thanks"}]
        ask(server, history, **options)
    raws = [WORDY, WORDY_MIXED, WORDY_ANSWER]
    for at in range(1, 4):
        assert extends(engine, at, raws[at - 1]), at
    behind = str(engine.requests[2].prompt).rpartition(WORDY_MIXED)[2]
    assert [behind.count(text) for text in ("sum=6", "sum=8", "\n20<")] == [1, 1, 1]


@pytest.mark.parametrize("ask", PROTOCOLS)
def test_without_memory_the_template_gets_the_text_of_a_round_before_its_results(ask: Any) -> None:
    both = f"One {call('get_weather', city='Paris')} two <think>Hm.</think> three."
    with written(both, ANSWER, turn_memory=0) as (server, engine):
        options: Any = {"tools": CLIENTS_OWN[ask][-1:], "stream": False}
        options |= {"mcp_servers": [], "betas": []} if ask is of_messages else {}
        actual = ask(server, HELLO, **options)
        ask(server, [*HELLO, *actual, *theirs(ask, actual)], **options)
    asked, said, result = engine.requests[1].messages
    assert [m["role"] for m in (asked, said, result)] == ["user", "assistant", "tool"]
    assert (said["content"], len(said["tool_calls"])) == ("One  two  three.", 1)


@pytest.mark.parametrize("ask", [of_responses, of_agui])
def test_an_answer_that_waited_for_approval_goes_on_after_what_asked_for_it(ask: Any) -> None:
    guarded = f"<think>\nMay I?\n</think>\n\n{call('guarded', a=7)}{call('add', a=1, b=1)}"
    with written(guarded, ANSWER, servers=[Workshop()]) as (server, engine):
        if ask is of_responses:
            items = ask(server, HELLO, stream=False)
            id = next(item["id"] for item in items if item["type"] == "mcp_approval_request")
            items.append({"type": "mcp_approval_response", "approval_request_id": id, "approve": True})
            ask(server, [*HELLO, *items], stream=False)
        else:
            events = run(server, HELLO)
            (interrupt,) = events[-1]["outcome"]["interrupts"]
            answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
            run(server, [*HELLO, *rebuilt(events, reasoning=True)], resume=[answer])
    assert extends(engine, 1, guarded)
    behind = str(engine.requests[1].prompt).rpartition(guarded)[2]
    assert [behind.count(text) for text in ("guarded=7", "sum=2")] == [1, 1]


def test_reasoning_that_was_changed_in_an_earlier_turn_is_written_by_the_template() -> None:
    with written(CALL) as (server, engine):
        history: list[Any] = list(HELLO)
        for _ in range(2):
            history += answered(chat(server, history))
        for thought, kept in (("Which city?", True), ("Which town?", False)):
            chat(server, [history[0], {**history[1], "reasoning_content": thought}, *history[2:]])
            assert (engine.requests[-1].prompt_ids is not None) is kept


def test_turns_are_not_shared_between_api_keys() -> None:
    with written(CALL) as (server, engine):
        history = [*HELLO, *answered(chat(server, HELLO))]
        for key, found in (("other", False), (server.openai.api_key, True)):
            ask = {"model": "m", "messages": history, "tools": [WEATHER]}
            server.http.post(CHAT, json=ask, headers={"Authorization": f"Bearer {key}"})
            assert (engine.requests[-1].prompt_ids is not None) is found


def test_a_tool_of_the_server_keeps_its_name_beside_a_clients_in_every_history() -> None:
    own = {"name": "add", "parameters": {"type": "object", "properties": {}}}
    tools: Any = {
        of_chat: [{"type": "function", "function": own}],
        of_responses: [{"type": "function", "strict": False, **own}, MCP],
        of_messages: [{"name": "add", "input_schema": own["parameters"]}],
        of_agui: [{"description": "", **own}],
    }
    for ask, declared in tools.items():
        with written(call("workshop__add", a=1, b=1), ANSWER, servers=[Workshop()], turn_memory=0) as (server, engine):
            turn = ask(server, HELLO, stream=False, tools=declared)
            ask(server, [*HELLO, *turn, {"role": "user", "content": "More"}], stream=False, tools=declared)
            called = [c["function"]["name"] for m in engine.requests[2].messages for c in m.get("tool_calls", ())]
        assert called == ["workshop__add"], ask
