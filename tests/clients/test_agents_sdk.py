"""OpenAI's Agents SDK: its runner over Responses and over chat completions, streamed and whole."""

import asyncio
import importlib
from typing import Any

import openai
import pytest

from ..server.support import written
from ..server.workshop import Workshop
from ..server.workshop import call as server_call
from ..server.writing import extends
from .support import call, say

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]
CITIES: list[str] = []


def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    CITIES.append(city)
    return "20 degrees"


@pytest.fixture
def agents() -> Any:
    found = importlib.import_module("agents")
    found.set_tracing_disabled(True)
    CITIES.clear()
    return found


def connected(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY")


async def ran(agents: Any, agent: Any, given: Any, streamed: bool, **options: Any) -> Any:
    """The result of a run."""
    if not streamed:
        return await agents.Runner.run(agent, given, **options)
    result = agents.Runner.run_streamed(agent, given, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_of_chat_completions_calls_its_function_and_answers(agents: Any, streamed: bool) -> None:
    outputs = [call("get_weather", {"city": "Paris"}), say("It is warm.")]

    async def work(url: str) -> Any:
        async with connected(url) as client:
            used = agents.OpenAIChatCompletionsModel(model="served", openai_client=client)
            agent = agents.Agent(name="a", model=used, tools=[agents.function_tool(get_weather)])
            return (await ran(agents, agent, "How is Paris?", streamed)).final_output

    with written(*outputs) as (server, engine):
        answer = asyncio.run(work(server.url))
    assert (answer, CITIES) == ("It is warm.", ["Paris"])
    assert extends(engine, 1, outputs[0])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("approve", [False, True])
def test_a_hosted_tool_is_approved_or_refused_beside_one_that_needs_no_approval(
    agents: Any, streamed: bool, approve: bool
) -> None:
    asked: list[tuple[str, str]] = []
    guarded = (
        f"<think>\nMay I?\n</think>\n\nI ask {server_call('guarded', a=7)} and {server_call('add', a=1, b=1)} too."
    )
    workshop = Workshop()

    def decide(request: Any) -> dict[str, Any]:
        asked.append((request.data.name, request.data.arguments))
        return {"approve": approve, "reason": "not now"}

    async def work(url: str) -> Any:
        async with connected(url) as client:
            used = agents.OpenAIResponsesModel(model="served", openai_client=client)
            hosted: Any = {"type": "mcp", "server_label": "workshop", "require_approval": "never"}
            tools = [agents.HostedMCPTool(tool_config=hosted, on_approval_request=decide)]
            agent = agents.Agent(name="a", model=used, tools=tools)
            result = await ran(agents, agent, "Go", streamed)
            again = await agents.Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": "And now?"}])
            return result.final_output, again.final_output

    with written(guarded, say("Done."), say("Again."), servers=[workshop], context="all") as (server, engine):
        actual = asyncio.run(work(server.url))
    assert actual == ("Done.", "Again.")
    assert asked == [("guarded", '{"a": 7}')]
    assert [name for name, _ in workshop.calls] == (["add", "guarded"] if approve else ["add"])
    assert extends(engine, 1, guarded)
    assert extends(engine, 2, say("Done."))
    behind = str(engine.requests[1].prompt).rpartition(guarded)[2]
    assert ("guarded=7" if approve else "The call was not allowed: not now") in behind


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("how", ["auto_previous_response_id", "conversation_id", "session"])
def test_an_agent_goes_on_with_stored_turns(agents: Any, how: str, streamed: bool) -> None:
    outputs = [call("get_weather", {"city": "Paris"}), say("It is warm."), say("Take a hat.")]

    async def work(url: str) -> list[str]:
        async with connected(url) as client:
            used = agents.OpenAIResponsesModel(model="served", openai_client=client)
            agent = agents.Agent(name="a", model=used, tools=[agents.function_tool(get_weather)])
            options: dict[str, Any] = {how: True}
            if how == "conversation_id":
                options = {how: (await client.conversations.create()).id}
            elif how == "session":
                options = {how: agents.OpenAIConversationsSession(openai_client=client)}
            first = await ran(agents, agent, "How is Paris?", streamed, **options)
            if how == "auto_previous_response_id":
                options = {"previous_response_id": first.last_response_id}
            second = await ran(agents, agent, "What shall I wear?", streamed, **options)
            return [first.final_output, second.final_output]

    with written(*outputs, turn_memory=0) as (server, engine):
        answers = asyncio.run(work(server.url))
    assert (answers, CITIES) == (["It is warm.", "Take a hat."], ["Paris"])
    if how != "session":  # it keeps the items in a conversation, and sends them all itself
        assert extends(engine, 1, outputs[0])
        assert extends(engine, 2, outputs[1])
    assert "It is warm." in str(engine.requests[2].prompt)
