"""What the server does with every engine: stop strings, choices, and clients that go away."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.server.support import Live, live, until
from unspool.request.prompts import Prompts, Tokenizer

from .table import LIMIT, Made, every

TEMPLATE = "{{ messages[-1].content }}"
PLAIN = "kimi"
"""A dialect without calls, whose markers no engine of the table writes, so the whole output is content."""


@contextmanager
def served(made: Made) -> Iterator[Live]:
    with live(made.engine, PLAIN, prompts=Prompts(Tokenizer(TEMPLATE, TEMPLATE, {}, ()))) as server:
        yield server


def asked(prompt: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": LIMIT, **more}


def answer(server: Live, prompt: str, **more: Any) -> dict[str, Any]:
    """The only choice of an answer."""
    response = server.post(**asked(prompt, **more))
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    return dict(choice)


@every
def test_a_stop_string_cuts_the_content_and_ends_the_generation(made: Made) -> None:
    with served(made) as server:
        whole = answer(server, made.endless)["message"]["content"]
        before = made.generated()
        at = next(i for i in range(40, len(whole)) if whole[i : i + 3].isascii() and whole[i : i + 3].strip())
        stop = whole[at : at + 3]
        cut = answer(server, made.endless, stop=["\u2603", stop], max_tokens=None)
        until(lambda: made.running() == 0)
        generated = made.generated() - before
        stream = server.openai.chat.completions.create(
            **asked(made.endless, stop=[stop], max_tokens=None), model="m", stream=True
        )
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert cut["message"]["content"] == streamed == whole[: whole.index(stop)]
    assert cut["finish_reason"] == "stop"
    assert generated <= LIMIT + made.ahead


@pytest.mark.parametrize("stream", [True, False])
@every
def test_a_client_that_goes_away_ends_the_generation(made: Made, stream: bool) -> None:
    with served(made) as server:
        connection = server.request(**asked(made.endless, max_tokens=None, stream=stream))
        until(lambda: made.generated() > 5)
        left = time.monotonic()
        connection.close()
        until(lambda: made.running() == 0)
        assert time.monotonic() - left < 5, "it takes a second where nothing else loads the machine"
        assert answer(server, made.prompts[0])["message"]["content"]
