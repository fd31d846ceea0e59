"""An agent's run is recorded token by token, whatever it does with its history."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from unspool.engines import Delta, Request
from unspool.store import Store

from ..server.support import CHAT, HELLO, WEATHER, Live, live, until
from ..server.test_continuation import ONE, TWO, of_chat, of_responses
from ..server.workshop import Workshop
from ..server.writing import ANSWER, TEMPLATE, TOKENIZER, template
from .support import Model, ask, check, made, trajectory, tree

CALL = (
    "<think>\nWhich city?\n</think>\n\n"
    '<tool_call>\n{"name":  "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'
)


VARIABLE = TEMPLATE + "{% if add_more %}(more) {% endif %}"


class Run(NamedTuple):
    """A model, a server before it that records sessions, and one of these."""

    model: Model
    server: Live
    session: dict[str, Any]

    def ask(self, path: str = CHAT, **body: Any) -> Any:
        answer = ask(self.session, self.server, path, **body)
        assert answer.status_code == 200, answer.text
        return answer

    def chat(self, messages: list[Any], **options: Any) -> dict[str, Any]:
        message: dict[str, Any] = self.ask(messages=messages, **options).json()["choices"][0]["message"]
        return message

    def found(self) -> Any:
        """What was recorded, which must be what the model was sent and sampled."""
        found = trajectory(self.server, self.session)
        check(found, self.model.record)
        return found


def answers(*outputs: str) -> Model:
    waiting = list(outputs)
    return Model(lambda request: waiting.pop(0))


@contextlib.contextmanager
def recorded(model: Model, text: str = TEMPLATE, **fields: Any) -> Iterator[Run]:
    with live(model, "hermes", prompts=template(text), sessions=True) as server:
        yield Run(model, server, made(server, **fields))


def test_a_tool_loop_is_one_row_of_the_very_tokens() -> None:
    with recorded(answers(CALL, "<think>\nWarm.\n</think>\n\n20 degrees.", "Bye."), metadata={"task": 7}) as run:
        history: list[Any] = [*HELLO]
        first = run.chat(history, tools=[WEATHER])
        call = first["tool_calls"][0]
        # The client writes the arguments in its own way, and drops the reasoning.
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
        history += [{"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "annotations": []}]
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "20 C"}]
        second = run.chat(history, tools=[WEATHER])
        history += [{"role": "assistant", "content": second["content"]}, {"role": "user", "content": "Thanks"}]
        run.chat(history, tools=[WEATHER])
        found = run.found()
    assert tree(found) == [(None, None), (0, None), (1, None)]
    (row,) = found["rows"]
    assert row["role"] == "agent"
    text = run.model.tokenizer.decode(row["input_ids"], skip_special_tokens=False)
    assert "Which city?" in text
    assert '{"name":  "get_weather"' in text
    assert text.count("<|im_end|>") == 6, "the engine leaves the end out of an answer's text, not out of its tokens"
    assert found["metadata"] == {"task": 7}
    assert [c["logprobs_kind"] for c in found["calls"]] == ["raw"] * 3


class Silent(Model):
    """Writes nothing to the request with a number."""

    silent = 0

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        if request.capture and request.id != "examination" and len(self.requests) == self.silent:
            self.requests.append(request)
            await asyncio.Event().wait()
        async for delta in super().generate(request):
            yield delta


@pytest.mark.parametrize("silent", [0, 1])
def test_what_was_broken_off_before_its_first_token_is_no_answer_that_a_prompt_continues(silent: int) -> None:
    model = Silent(lambda request: "")
    model.silent = silent
    with recorded(model) as run:
        key, asked = {"Authorization": f"Bearer {run.session['key']}"}, {"messages": HELLO, "stream": True}
        if silent:  # there is another answer without text, which is continued
            run.chat(HELLO)
        with pytest.raises(httpx2.TimeoutException):
            run.server.http.post(CHAT, json=asked, headers=key, timeout=0.3)
        until(lambda: not run.server.http.get(f"/sessions/{run.session['id']}").json()["in_flight"])
        run.chat([*HELLO, {"role": "assistant", "content": ""}, {"role": "user", "content": "And?"}])
        found = run.found()
    assert tree(found) == [(None, None)] * (1 + silent) + [(0, None) if silent else (None, "rewritten")]
    assert [len(row["calls"]) for row in found["rows"]] == [1 + silent]


SYSTEM = {"role": "system", "content": "Be kind."}


def said(message: dict[str, Any]) -> dict[str, Any]:
    """An answer as a client sends it back: without its reasoning."""
    return {k: v for k, v in message.items() if k in ("role", "content", "tool_calls")}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("system", {"messages": {0: {"role": "system", "content": "Be brief."}}}),
        ("tools", {"tools": [WEATHER, {"type": "function", "function": {"name": "now"}}]}),
        ("template", {"chat_template_kwargs": {"add_more": True}}),
        ("rewritten", {"messages": {2: {"role": "assistant", "content": "Something else."}}}),
        ("template", {"begun": "The ", "continue_final_message": True, "add_generation_prompt": False}),
    ],
)
def test_a_prompt_that_does_not_simply_continue_says_why(reason: str, change: dict[str, Any]) -> None:
    with recorded(answers("<think>\nHm.\n</think>\n\nOne.", "Two.", "Three.", "Four."), VARIABLE) as run:
        history = [SYSTEM, user("Hi")]
        for text in ("And", "So"):
            history += [said(run.chat(history, tools=[WEATHER])), user(text)]
        changed = [change.get("messages", {}).get(i, m) for i, m in enumerate(history)]
        more = {name: value for name, value in change.items() if name not in ("messages", "begun")}
        begun = [{"role": "assistant", "content": change["begun"]}] if "begun" in change else []
        last = said(run.chat(changed + begun, **{"tools": [WEATHER], **more}))
        if begun:
            last["content"], more = change["begun"] + last["content"], {}
        run.chat([*changed, last, user("Go on")], **{"tools": [WEATHER], **more})
        found = run.found()
    if reason == "rewritten":  # the first answer is gone, so nothing is left to continue
        assert tree(found) == [(None, None), (0, None), (None, "rewritten"), (2, None)]
    else:
        assert tree(found) == [(None, None), (0, None), (1, reason), (2, None)]
    assert [row["calls"] for row in found["rows"]] == [
        [c["id"] for c in found["calls"][:2]],
        [c["id"] for c in found["calls"][2:]],
    ]


def test_a_switch_of_thinking_between_turns_is_a_fork_only_where_the_template_writes_earlier_turns_by_it() -> None:
    opening, thought = "<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
    ending = TEMPLATE.replace(opening, opening + "{% if enable_thinking is false %}" + thought + "{% endif %}")
    word = ending.replace(opening, "{{ '/nothink' if enable_thinking is false }}" + opening)  # as GLM-4.6's
    late = ending.replace(
        "{{ m.content or '' }}",
        "{{ m.content or '' }}{{ '/nothink' if m.role == 'user' and loop.index > 2 and enable_thinking is false }}",
    )
    forked = [None, "template", None, "template"]
    beginning = "{{ enable_thinking }}" + ending
    cleared = ending.replace(
        "{{ m.content or '' }}",
        "{% if enable_thinking and m.reasoning_content %}{{ m.reasoning_content }}{% endif %}{{ m.content or '' }}",
    )
    for text, forks in (
        (ending, [None] * 4),
        (cleared, [None] * 4),  # the answers are as the model wrote them in any case
        (word, forked),
        (beginning, forked),
        (late, [None, None, None, "template"]),
    ):
        model = answers("<think>\nHm.\n</think>\n\nOne.", "Two.", "Three.", "<think>\nSo.\n</think>\n\nFour.")
        with recorded(model, text) as run:
            history = [SYSTEM, user("Hi")]
            for thinking in (True, False, False, True):
                answer = run.chat(history, chat_template_kwargs={"enable_thinking": thinking})
                history += [said(answer) | {"reasoning_content": answer.get("reasoning_content")}, user("And?")]
            found = run.found()
        assert [call["fork"] for call in found["calls"]] == forks
        assert [len(row["calls"]) for row in found["rows"]] == (
            [4] if not any(forks) else [3, 1] if forks[1] is None else [1, 2, 1]
        )
        ids = found["calls"][1]["prompt_ids"]
        assert str(model.tokenizer.decode(ids, skip_special_tokens=False)).endswith(thought)


@pytest.mark.parametrize("raw", [CALL, CALL.replace("<tool_call>", "Hm.<think>\nOr not?\n</think>\n\n<tool_call>", 1)])
def test_reasoning_that_the_client_drops_is_restored_where_the_template_writes_the_turn_again(
    raw: str, tmp_path: Path
) -> None:
    model, thinking = answers(raw, "20."), TEMPLATE.replace("m.content or ''", "m.reasoning_content or ''")
    options: Any = {"prompts": template(thinking), "sessions": True}
    with live(model, "hermes", **options, store=Store(tmp_path / "store.db")) as server:
        run = Run(model, server, made(server))
        message = run.chat([SYSTEM, user("Hi")], tools=[WEATHER])
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "20"}
    with live(model, "hermes", **options, store=Store(tmp_path / "store.db")) as server:
        run = run._replace(server=server)
        run.chat([user("Hi"), said(message), result], tools=[WEATHER])
        assert tree(run.found()) == [(None, None), (0, "system")]
    assert f"assistant\n{message['reasoning_content']}" in str(model.requests[1].prompt)


def test_a_history_that_is_rewritten_late_keeps_the_tokens_before_the_change() -> None:
    with recorded(answers("One.", "Two.", "Three.")) as run:
        history = [user("Hi")]
        for text in ("And", "So"):
            history += [said(run.chat(history)), user(text)]
        history[3] = {"role": "assistant", "content": "2."}
        run.chat(history)
        found = run.found()
    assert tree(found) == [(None, None), (0, None), (0, "rewritten")]
    assert [len(row["calls"]) for row in found["rows"]] == [2, 2]
    assert [sum(row["loss_mask"]) for row in found["rows"]] == [
        sum(len(c["output_ids"]) for c in found["calls"][:2]),
        len(found["calls"][2]["output_ids"]),
    ]


def test_an_answer_without_text_that_the_client_leaves_out_is_a_rewritten_history() -> None:
    with recorded(answers("<think>\nHm.\n</think>\n\n", "Two.", "Three.")) as run:
        for messages in ([user("Hi")], [user("Hi"), user("Well?")], [user("Hi")]):
            run.chat(messages)
        found = run.found()
    assert tree(found) == [(None, None), (None, "rewritten"), (None, None)]


def test_titles_and_sub_agents_are_roots_with_roles_of_their_own() -> None:
    with recorded(answers(CALL, "A title", "A sub-agent's answer.", "Done.")) as run:
        history = [SYSTEM, user("Hi")]
        answer = run.ask(messages=history, tools=[WEATHER]).json()
        first = said(answer["choices"][0]["message"])
        run.chat([{"role": "system", "content": "Write a title."}, user("Hi")])
        run.server.http.headers["X-Session-Edge"] = f"subagent_call={answer['id']}, compaction=unknown"
        run.chat([{"role": "system", "content": "You search."}, user("Search")], tools=[WEATHER])
        run.server.http.headers["X-Session-Edge"] = "no edge"
        wrong = ask(run.session, run.server, CHAT, messages=[user("Hi")])
        assert (wrong.status_code, "X-Session-Edge: must be TYPE=ID" in wrong.text) == (400, True)
        del run.server.http.headers["X-Session-Edge"]
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "20 C"}
        run.chat([*history, first, result], tools=[WEATHER])
        found = run.found()
    assert tree(found) == [(None, None), (None, None), (None, None), (0, None)]
    first_call, _, sub_agent, _ = found["calls"]
    assert (first_call["answer"], first_call["edges"]) == (answer["id"], [])
    assert sub_agent["edges"] == [["subagent_call", first_call["id"]], ["compaction", "unknown"]]
    assert [(row["role"], len(row["calls"])) for row in found["rows"]] == [("agent", 1), ("agent", 2), ("auxiliary", 1)]


def test_an_edge_to_an_answer_with_several_choices_names_the_one_that_the_prompt_continues_or_all() -> None:
    with recorded(answers("One.", "Two.", "Three.", "Four.")) as run:
        answer = run.ask(messages=[user("Hi")], n=2)
        first = said(answer.json()["choices"][0]["message"])
        run.server.http.headers["X-Session-Edge"] = f"from={answer.json()['id']}"
        run.chat([user("Hi"), first, user("And")])
        run.chat([user("Something else")])
        found = run.found()
    one, two = sorted(found["calls"][:2], key=lambda call: call["id"] != found["calls"][2]["parent"])
    assert [call["edges"] for call in found["calls"][2:]] == [
        [["from", one["id"]]],
        [["from", call["id"]] for call in found["calls"][:2]],
    ]
    assert one["answer"] == two["answer"]


def test_an_answer_that_was_passed_over_for_another_is_discarded() -> None:
    with recorded(answers("One.", "One or two.", "Three.")) as run:
        answer = run.ask(messages=[user("Hi")], n=2)
        choices = [said(c["message"]) for c in answer.json()["choices"]]
        run.chat([user("Hi"), choices[1], user("And")])
        found = run.found()
        learnt = trajectory(run.server, run.session, format="trl")
    assert [row["role"] for row in found["rows"]] == ["agent", "discarded"]
    assert found["rows"][0]["calls"][0] == found["calls"][2]["parent"]
    assert len(learnt["prompt_ids"]) == 1


def test_results_of_tools_and_kinds_of_output_are_told_apart() -> None:
    with recorded(answers(CALL, "<think>\nWarm.\n</think>\n\n20 degrees.")) as run:
        first = said(run.chat([user("Hi")], tools=[WEATHER]))
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "20 Celsius"}
        run.chat([user("Hi"), first, result], tools=[WEATHER])
        (row,) = run.found()["rows"]

    def text(kind: str) -> str:
        ids = [i for i, k in zip(row["input_ids"], row["kinds"], strict=True) if k == kind]
        return str(run.model.tokenizer.decode(ids, skip_special_tokens=False))

    assert text("results") == "20 Celsius"
    assert text("content") == "20 degrees."
    assert "Which city?" in text("reasoning")
    assert '"get_weather"' in text("calls")
    assert text("markers").endswith("<|im_end|>")


def of_stored(server: Live, messages: list[Any], stream: bool = False) -> list[Any]:
    """The id of a response that continues another one by its id."""
    history, question = messages[:-1], messages[-1]["content"]
    tools: Any = [{"type": "mcp", "server_label": "workshop", "require_approval": "never"}]
    answer: Any = server.openai.responses.create(
        model="m", input=question, tools=tools, stream=stream, previous_response_id=history[-1] if history else None
    )
    if stream:
        *_, last = answer
        answer = last.response
    return [answer.id]


@pytest.mark.parametrize("ask_", [of_chat, of_responses, of_stored])
@pytest.mark.parametrize("streamed", [False, True])
def test_rounds_with_the_servers_tools_are_calls_of_one_path_also_after_a_restart(
    ask_: Any, streamed: bool, tmp_path: Path
) -> None:
    model, file = answers(TWO, ONE, ANSWER, "Bye.", "Yes."), tmp_path / "store.db"
    history: list[Any] = []
    session: dict[str, Any] = {}
    for question in ("Hello", "Thanks", "Else?"):
        options: Any = {"servers": [Workshop()], "sessions": True, "store": Store(file)}
        with live(model, "hermes", prompts=template(), **options) as server:
            session = session or made(server)
            run = Run(model, server, session)
            server.openai = server.openai.with_options(api_key=session["key"])
            history.append(user(question))
            history += ask_(server, history, stream=streamed)
            found = run.found()
    assert tree(found) == [(None, None), (0, None), (1, None), (2, None), (3, None)]
    (row,) = found["rows"]
    assert "results" in row["kinds"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_a_stop_string_ends_keeps_all_of_its_tokens(streamed: bool) -> None:
    with recorded(answers("One. STOP two", "Three.")) as run:
        answer = run.ask(messages=HELLO, stop=["STOP"], stream=streamed)
        assert "STOP" not in answer.text
        run.chat([*HELLO, {"role": "assistant", "content": "One. "}, user("And")])
        found = trajectory(run.server, run.session)
    assert found["calls"][0]["stop"] == "STOP"
    assert tree(found) == [(None, None), (0, None)]
    kept = run.model.tokenizer.decode(found["calls"][0]["output_ids"], skip_special_tokens=False)
    assert kept == "One. STOP"
    first = run.model.record[0]  # what was read before the stream was closed
    first.ids, first.logprobs = found["calls"][0]["output_ids"], found["calls"][0]["logprobs"]
    check(found, run.model.record)


def test_raw_completions_are_recorded_as_they_were_sent() -> None:
    with recorded(answers("One.")) as run:
        ids = run.model.tokenizer.encode("Hello", add_special_tokens=False).ids
        run.ask("/v1/completions", prompt=ids, max_tokens=20)
        found = run.found()
    (call,) = found["calls"]
    assert call["prompt_ids"] == ids
    assert sum(found["rows"][0]["loss_mask"]) == len(call["output_ids"])


@pytest.mark.parametrize("special", [None, True, False])
def test_the_tokens_of_raw_prompts_are_the_sessions_own(special: bool | None) -> None:
    model = answers("One.", "Two.", "Three.", "Four.")
    begin = model.tokenizer.token_to_id("<|im_start|>")
    model.tokenizer = Tokenizer.from_str(model.tokenizer.to_str())
    model.tokenizer.post_processor = TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", begin)])
    prompts = ["Hello \ud800", "é" * 2000]
    asked = {} if special is None else {"add_special_tokens": special}
    with recorded(model) as run:
        run.ask("/v1/completions", prompt=prompts, n=2, max_tokens=20, **asked)
        found = run.found()
    texts = [text.replace("\ud800", "\ufffd") for text in prompts]
    wanted = [[begin] * (special is not False) + TOKENIZER.encode(text, add_special_tokens=False).ids for text in texts]
    assert sorted(call["prompt_ids"] for call in found["calls"]) == sorted([*wanted, *wanted])
    assert not any(call["problems"] for call in found["calls"])
    assert {str(request.prompt) for request in model.requests} == set(texts), "for engines that take text alone"
