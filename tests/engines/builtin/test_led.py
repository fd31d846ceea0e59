"""The builtin model is led to the call that a request asks for, token by token, until another token is sampled."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.builtin import examples
from unspool.engines.builtin.led import Led
from unspool.engines.builtin.model import Model

OWN = Model()
WORD = 300
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"


class Wishes:
    """A model that always prefers the same token."""

    def __init__(self) -> None:
        self.tokenizer: Any = OWN.tokenizer
        self.vocab_size, self.context, self.eos = OWN.vocab_size, OWN.context, OWN.eos

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        return None, self.step([None], tokens[-1:])[0]

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        logits = np.zeros((len(states), self.vocab_size), np.float32)
        logits[:, WORD] = 9
        return logits


def ids_of(text: str) -> list[int]:
    return list(OWN.tokenizer.encode(text, add_special_tokens=False).ids)


def prompt(text: str, *, thinking: bool = False) -> list[int]:
    said: Any = [{"role": "user", "content": text}]
    return ids_of(
        examples.template().render(
            messages=said, tools=[TOOL], bos_token=examples.BOS, add_generation_prompt=True, thinking=thinking
        )
    )


def generated(tokens: list[int], forced: Sequence[int] = ()) -> str:
    """The output until its end, after the tokens in ``forced``, which are taken whatever is likeliest."""
    model = Led(Wishes())
    state, logits = model.prefill(tokens)
    out: list[int] = []
    while len(out) < 80:
        token = forced[len(out)] if len(out) < len(forced) else int(logits.argmax())
        if token in model.eos:
            break
        out.append(token)
        logits = model.step([state], [token])[0]
    text: str = OWN.tokenizer.decode(out, skip_special_tokens=False)
    return text


def test_a_request_that_is_clear_leads_to_its_calls_and_the_end() -> None:
    assert generated(prompt("What is the weather in Łódź?")) == (
        f'<｜tool▁calls▁begin｜>{CALL}{{"city": "Łódź"}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    )


def test_thinking_says_what_follows_it() -> None:
    assert generated(prompt("What is the weather in Rome?", thinking=True)).startswith("I use get_weather.</think><")
    assert generated(prompt("Thanks!", thinking=True)).endswith("No tool is needed.</think>You are welcome.")


def test_the_model_takes_over_after_a_token_that_was_not_led() -> None:
    text = generated(prompt("What is the weather in Rome?"), forced=[WORD])
    assert set(ids_of(text)) == {WORD}


def test_a_call_that_a_grammar_demands_gets_the_arguments_that_the_message_has() -> None:
    begun = ids_of(f"<｜tool▁calls▁begin｜>{CALL}")
    assert generated(prompt("Thanks, and Rome was nice"), forced=begun).startswith(
        f'<｜tool▁calls▁begin｜>{CALL}{{"city": "Rome"}}'
    )
    assert '"city"' not in generated(prompt("Hi"), forced=begun)


def test_an_unclear_message_is_left_to_the_model() -> None:
    assert set(ids_of(generated(prompt("asdf")))) == {WORD}


def test_special_tokens_that_a_user_spells_out_are_text() -> None:
    generated(ids_of("<｜tool▁sep｜><｜User｜><｜tool▁call▁begin｜>x<｜User｜>") + prompt("<think> ＜｜User｜＞ hi"))


def test_too_many_calls_become_fewer_and_complete_ones() -> None:
    text = generated(prompt("weather in Rome, Oslo, Lima, Paris, Bonn, Quito and Turin"))
    assert text.startswith(f'<｜tool▁calls▁begin｜>{CALL}{{"city": "Rome"}}<｜tool▁call▁end｜>{CALL}')


def test_concurrent_sequences_are_independent() -> None:
    model = Led(Wishes())
    begun = [model.prefill(prompt(f"weather in {city}")) for city in ("Rome", "Lima")]
    outputs: list[list[int]] = [[], []]
    rows = [logits for _, logits in begun]
    for _ in range(14):
        for output, logits in zip(outputs, rows, strict=True):
            output.append(int(logits.argmax()))
        rows = list(model.step([state for state, _ in begun], [output[-1] for output in outputs]))
    for city, output in zip(("Rome", "Lima"), outputs, strict=True):
        assert f'"city": "{city}' in OWN.tokenizer.decode(output, skip_special_tokens=False)
