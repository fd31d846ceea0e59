"""OpenAI's Agents SDK: its runner over Responses and over chat completions, streamed and whole."""

import asyncio
import importlib
from typing import Any

import openai
import pytest

from ..server.support import live
from ..server.test_continuation import Writing, extends, template
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
        told = asyncio.run(work(server.url))
    assert (told, CITIES) == ("It is warm.", ["Paris"])
    assert extends(engine, 1, outputs[0])
