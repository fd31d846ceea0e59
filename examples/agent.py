"""An agent: a model, tools that are plain functions, and a loop with a limit. Any OpenAI client and server will do.

unspool serve          # in another terminal, or any server of yours
pip install openai
python examples/agent.py "What is the weather in Paris?"
"""

import json
import sys
from collections.abc import Callable
from typing import Any

try:
    from openai import APIConnectionError, OpenAI
except ImportError:
    raise SystemExit(__doc__) from None


def get_weather(city: str) -> dict[str, Any]:
    return {"city": city, "temperature": 21}


FUNCTIONS: dict[str, Callable[..., Any]] = {"get_weather": get_weather}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Get the current weather in a city.", "parameters": CITY},
    }
]


def run(call: Any) -> str:
    """Run a call, and return the result as text. An error is a result too, which lets the model correct the call."""
    try:
        return json.dumps(FUNCTIONS[call.function.name](**json.loads(call.function.arguments)))
    except (KeyError, TypeError, ValueError) as error:
        return f"error: {type(error).__name__}: {error}"


def main(question: str, url: str = "http://127.0.0.1:8192/v1", turns: int = 8) -> str:
    client = OpenAI(base_url=url, api_key="any")
    messages: Any = [{"role": "user", "content": question}]
    for _ in range(turns):
        answer: Any = client.chat.completions.create(model="any", messages=messages, tools=TOOLS).choices[0]
        messages.append(answer.message.model_dump(exclude_none=True))
        if not answer.message.tool_calls:
            return answer.message.content or ""
        for call in answer.message.tool_calls:
            print(f"[{call.function.name} {call.function.arguments}]")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": run(call)})
    raise RuntimeError(f"no answer after {turns} turns")


if __name__ == "__main__":
    try:
        print(main(" ".join(sys.argv[1:]) or "What is the weather in Paris?"))
    except APIConnectionError:
        sys.exit(__doc__)  # no server runs
