"""OpenAI's Agents SDK: its runner over Responses and over chat completions, streamed and whole."""

import asyncio
import importlib
from typing import Any

import openai
import pytest

from ..server.support import live
from ..server.workshop import Workshop
from ..server.workshop import call as server_call
from ..server.writing import Writing, extends, template
from .support import call, say

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]
CITIES: list[str] = []


def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    CITIES.append(city)
    return "20 degrees"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", ["OpenAIResponsesModel", "OpenAIChatCompletionsModel"])
def test_an_agent_calls_its_function_and_answers(model: str, streamed: bool) -> None:
    agents = importlib.import_module("agents")
    agents.set_tracing_disabled(True)
    CITIES.clear()
    outputs = [call("get_weather", {"city": "Paris"}), say("It is warm.")]
    engine = Writing(*outputs)

    async def work(url: str) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY") as client:
            used = getattr(agents, model)(model="served", openai_client=client)
            agent = agents.Agent(name="a", model=used, tools=[agents.function_tool(get_weather)])
            if not streamed:
                return (await agents.Runner.run(agent, "How is Paris?")).final_output
            result = agents.Runner.run_streamed(agent, "How is Paris?")
            async for _ in result.stream_events():
                pass
            return result.final_output

    with live(engine, "hermes", prompts=template()) as server:
        answer = asyncio.run(work(server.url))
    assert (answer, CITIES) == ("It is warm.", ["Paris"])
    assert extends(engine, 1, outputs[0])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("approve", [False, True])
def test_a_hosted_tool_is_approved_or_refused_beside_one_that_needs_no_approval(streamed: bool, approve: bool) -> None:
    agents = importlib.import_module("agents")
    agents.set_tracing_disabled(True)
    asked: list[tuple[str, str]] = []
    guarded = (
        f"<think>\nMay I?\n</think>\n\nI ask {server_call('guarded', a=7)} and {server_call('add', a=1, b=1)} too."
    )
    engine, workshop = Writing(guarded, say("Done."), say("Again.")), Workshop()

    def decide(request: Any) -> dict[str, Any]:
        asked.append((request.data.name, request.data.arguments))
        return {"approve": approve, "reason": "not now"}

    async def work(url: str) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY") as client:
            used = agents.OpenAIResponsesModel(model="served", openai_client=client)
            hosted: Any = {"type": "mcp", "server_label": "workshop", "require_approval": "never"}
            tools = [agents.HostedMCPTool(tool_config=hosted, on_approval_request=decide)]
            agent = agents.Agent(name="a", model=used, tools=tools)
            if streamed:
                result = agents.Runner.run_streamed(agent, "Go")
                async for _ in result.stream_events():
                    pass
            else:
                result = await agents.Runner.run(agent, "Go")
            again = await agents.Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": "And now?"}])
            return result.final_output, again.final_output

    with live(engine, "hermes", prompts=template(), servers=[workshop], context="all") as server:
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
def test_an_agent_goes_on_with_stored_turns(how: str, streamed: bool) -> None:
    agents = importlib.import_module("agents")
    agents.set_tracing_disabled(True)
    CITIES.clear()
    outputs = [call("get_weather", {"city": "Paris"}), say("It is warm."), say("Take a hat.")]
    engine = Writing(*outputs)

    async def run(agent: Any, text: str, **options: Any) -> Any:
        if not streamed:
            return await agents.Runner.run(agent, text, **options)
        result = agents.Runner.run_streamed(agent, text, **options)
        async for _ in result.stream_events():
            pass
        return result

    async def work(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY") as client:
            used = agents.OpenAIResponsesModel(model="served", openai_client=client)
            agent = agents.Agent(name="a", model=used, tools=[agents.function_tool(get_weather)])
            options: dict[str, Any] = {how: True}
            if how == "conversation_id":
                options = {how: (await client.conversations.create()).id}
            elif how == "session":
                options = {how: agents.OpenAIConversationsSession(openai_client=client)}
            first = await run(agent, "How is Paris?", **options)
            if how == "auto_previous_response_id":
                options = {"previous_response_id": first.last_response_id}
            second = await run(agent, "What shall I wear?", **options)
            return [first.final_output, second.final_output]

    with live(engine, "hermes", prompts=template(), turn_memory=0) as server:
        answers = asyncio.run(work(server.url))
    assert (answers, CITIES) == (["It is warm.", "Take a hat."], ["Paris"])
    if how != "session":  # it keeps the items in a conversation, and sends them all itself
        assert extends(engine, 1, outputs[0])
        assert extends(engine, 2, outputs[1])
    assert "It is warm." in str(engine.requests[2].prompt)
