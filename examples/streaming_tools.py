"""Start tools while the model is still writing: each call runs as soon as its arguments are complete.

    python examples/streaming_tools.py

The stream here is a list. Replace it with the chunks of your engine.
"""

import asyncio
from collections.abc import AsyncIterator

import unspool

OUTPUT = """<think>Two cities, at once.</think>I look both up.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>"""
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]


async def chunks() -> AsyncIterator[str]:
    for at in range(0, len(OUTPUT), 8):
        await asyncio.sleep(0)
        yield OUTPUT[at : at + 8]


async def get_weather(city: str) -> str:
    print(f"\n[asking for {city}]")
    await asyncio.sleep(0.01)
    return f"21 degrees in {city}"


async def main() -> None:
    parser = unspool.Parser("hermes", tools=TOOLS)
    running: list[asyncio.Task[str]] = []
    async for chunk in chunks():
        for event in parser.feed(chunk):
            match event:
                case unspool.ReasoningDelta(text=text) | unspool.ContentDelta(text=text):
                    print(text, end="", flush=True)
                case unspool.ToolCallEnd(index=index, status="ok" | "repaired"):
                    call = parser.message.tool_calls[index]
                    running.append(asyncio.create_task(get_weather(**call.arguments_dict())))
    parser.close("stop")
    for result in await asyncio.gather(*running):
        print(result)


if __name__ == "__main__":
    asyncio.run(main())
