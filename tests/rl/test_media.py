"""A sample with images has their ranges as the engine made them, with a kind of their own."""

from typing import Any

import numpy as np
import pytest

from tests.request.parts.test_places import ADDED, SEEING, SPAN
from tests.tokenizer import byte_level
from unspool.rl import KINDS, Conversation, Sample, collate, expand

COST = 5
PAD = 1000
IMAGE = {"type": "image"}
ANSWER = 'A cat.<tool_call>\n{"name": "look", "arguments": {"at": "it"}}\n</tool_call><|im_end|>'


TOKENIZER = byte_level(special=(*ADDED, "<tool_call>", "</tool_call>"), normalized=True)


def encoded(text: str) -> list[int]:
    ids: list[int] = TOKENIZER.encode(text, add_special_tokens=False).ids
    return ids


def read(prompt: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """A prompt as an engine reads it: each placeholder becomes a run."""
    made: list[int] = []
    ranges: list[tuple[int, int]] = []
    for token in prompt:
        if token == TOKENIZER.token_to_id("<|image_pad|>"):
            ranges.append((len(made), COST))
            made += [PAD] * COST
        else:
            made.append(token)
    return made, ranges


def conversation(*parts: Any) -> tuple[Sample, list[int]]:
    """A sample of two turns, and the last prompt."""
    asked = [{"role": "user", "content": [*parts, {"type": "text", "text": "What?"}]}]
    made = Conversation("hermes", TOKENIZER, template=SEEING, messages=asked)
    made.extend(encoded(ANSWER), [-0.5] * len(encoded(ANSWER)))
    made.add([{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "It is "}, IMAGE]}])
    prompt = made.prompt()
    made.extend(encoded("Fine.<|im_end|>"), [-0.25] * len(encoded("Fine.<|im_end|>")))
    return made.sample, prompt


@pytest.mark.parametrize("parts", [[], [IMAGE], [IMAGE, IMAGE], [IMAGE, {"type": "text", "text": "and"}, IMAGE]])
def test_ranges_have_their_own_kind_and_everything_else_moves(parts: list[Any]) -> None:
    sample, prompt = conversation(*parts)
    assert TOKENIZER.decode(prompt, skip_special_tokens=False).count(SPAN) == 1 + sum(p == IMAGE for p in parts)
    theirs, media = read(prompt)
    found = expand(sample, theirs, media)
    rest = sample.ids[len(prompt) :]
    assert found.ids.tolist() == [*theirs, *rest]
    inside = found.kinds == "media"
    assert np.array_equal(inside, np.isin(np.arange(len(found.ids)), [i for a, n in media for i in range(a, a + n)]))
    pads = sample.ids == TOKENIZER.token_to_id("<|image_pad|>")
    assert np.array_equal(found.ids[~inside], sample.ids[~pads])
    assert np.array_equal(found.codes[~inside], sample.codes[~pads])
    assert np.array_equal(found.logprobs[~inside], sample.logprobs[~pads], equal_nan=True)
    assert np.isnan(found.logprobs[inside]).all()
    (call,), (before,) = found.calls, sample.calls
    assert found.ids[call.start : call.end].tolist() == sample.ids[before.start : before.end].tolist()
    assert not found.mask()[inside].any()
    assert found.mask().sum() == sample.mask().sum()
    assert collate([found], pad=0).codes.max() == KINDS.index("media")


def test_a_prompt_that_differs_outside_the_ranges_is_refused() -> None:
    sample, prompt = conversation(IMAGE)
    theirs, media = read(prompt)
    for at in (0, media[0][0] - 1, media[0][0] + COST, len(theirs) - 1):
        other = [*theirs[:at], theirs[at] + 1, *theirs[at + 1 :]]
        with pytest.raises(ValueError, match="prompt_ids: differ from the sample outside the ranges"):
            expand(sample, other, media)


@pytest.mark.parametrize("media", [[(0, 0)], [(5, 2), (3, 2)], [(0, 10_000)], [(5, 3), (6, 3)]])
def test_what_are_no_ranges_is_refused(media: list[tuple[int, int]]) -> None:
    sample, prompt = conversation(IMAGE)
    with pytest.raises(ValueError, match="media: must be ranges"):
        expand(sample, prompt, media)
