"""OpenAI's Agents SDK: its runner over Responses and over chat completions, streamed and whole."""

import asyncio
import importlib
from typing import Any

import openai
import pytest

from ..media import base64_of, part, png
from ..request.parts.test_places import SEEING, prompts
from ..server.support import live, written
from ..server.workshop import Workshop
from ..server.workshop import call as server_call
from ..server.writing import Writing, extends
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


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_runs_the_tools_that_openai_defines_and_reads_what_came_of_them(agents: Any, streamed: bool) -> None:
    """Shell, patches and a screen, whose picture comes back as an image."""
    clicks = {"actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}, {"type": "type", "text": "hi"}]}
    outputs = [
        call("shell", {"commands": ["ls", "pwd"], "timeout_ms": 900}),
        call("local_shell", {"command": ["ls", "-l"]}),
        call("apply_patch", {"type": "create_file", "path": "a.txt", "diff": "+Hello"}),
        call("computer", clicks),
        say("All done."),
    ]
    done: list[Any] = []

    def shell(request: Any) -> Any:
        done.append(request.data.action.commands)
        outcome = agents.ShellCallOutcome("exit", 3)
        return agents.ShellResult([agents.ShellCommandOutput("out", "err", outcome)])

    def local(request: Any) -> str:
        done.append(request.data.action.command)
        return "local output"

    class Editor:
        def create_file(self, operation: Any) -> Any:
            done.append((operation.path, operation.diff))
            return agents.ApplyPatchResult("completed", "made it")

        update_file = delete_file = create_file

    class Screen(agents.Computer):  # type: ignore[misc]
        def screenshot(self) -> str:
            return base64_of(png())

        def click(self, x: int, y: int, button: str) -> None:
            done.append((x, y, button))

        def type(self, text: str) -> None:
            done.append(text)

        double_click = drag = keypress = move = scroll = wait = click

    async def work(url: str) -> Any:
        async with connected(url) as client:
            used = agents.OpenAIResponsesModel(model="served", openai_client=client)
            editor = agents.ApplyPatchTool(Editor())
            tools = [agents.ShellTool(shell), agents.LocalShellTool(local), editor, agents.ComputerTool(Screen())]
            return (await ran(agents, agents.Agent(name="a", model=used, tools=tools), "Go", streamed)).final_output

    engine = Writing(*outputs)
    engine.media = frozenset({"image"})  # type: ignore[attr-defined]
    with live(engine, "hermes", prompts=prompts(SEEING)) as server:
        assert asyncio.run(work(server.url)) == "All done."
    assert done == [["ls", "pwd"], ["ls", "-l"], ("a.txt", "+Hello"), (1, 2, "left"), "hi"]
    results = [m["content"] for m in engine.requests[-1].messages if m["role"] == "tool"]
    assert results == ["out\nerr\nexit code 3", "local output", "made it", [part(png())]]
