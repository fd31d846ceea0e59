"""The prompt decides what a grammar may begin with."""

from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.tokenizer import FOLDER
from unspool.grammar import Llguidance
from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Described

from .support import CHAT, HELLO, WEATHER, Scripted, live

PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}<|im_start|>assistant\n"
NONE = PLAIN + "<think>\n\n</think>\n\n"
OPEN = PLAIN + "<think>\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def library() -> Llguidance:
    """The library that compiles grammars."""
    return Llguidance(Tokenizer.from_file(str(FOLDER / "tokenizer.json")))


def takes(library: Llguidance, constraint: Any, text: str) -> bool:
    """Whether a grammar accepts a text from its beginning."""
    matcher = library.matcher(constraint)
    tokens = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    return all(matcher.mask()[token] and matcher.accept(token) for token in tokens)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
@pytest.mark.parametrize(
    ("template", "thinking", "taken", "refused"),
    [
        (NONE, False, CALL, "<think>"),
        (PLAIN, False, CALL, "<think>"),
        (OPEN, True, "plan\n</think>\n\n" + CALL, "<think>plan<think>"),
    ],
)
def test_the_grammar_begins_at_the_stage_of_the_prompt(
    library: Llguidance, choice: Any, template: str, thinking: bool, taken: str, refused: str
) -> None:
    engine = Scripted([CALL])
    engine.tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    with live(engine, "hermes", prompts=Prompts(Described(template, template, {}, ()))) as server:
        ask: Any = {"messages": HELLO, "tools": [WEATHER], "tool_choice": choice, "thinking": thinking}
        assert server.post(CHAT, **ask).status_code == 200
        assert server.post(CHAT, **ask).status_code == 200
    first, second = (r.constraint for r in engine.requests)
    assert first is second, "it is kept"
    assert takes(library, first, taken)
    assert not takes(library, first, refused)
    if not thinking:
        assert not takes(library, first, "Hello")
