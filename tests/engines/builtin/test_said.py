"""Calls of the builtin model contain words of the request, unless the model is sure of something else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.engines.builtin.model import Model
from unspool.engines.builtin.said import LESS, Copying

OWN = Model()
HEAD = (
    "<｜begin▁of▁sentence｜>find: Find.\n#find\n"
    '"what": string\n"color": optional "red" or "blue"\n"count": optional integer, how many\n'
)
CALL = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>"


class Flat:
    """A model in which all tokens are equally likely."""

    def __init__(self) -> None:
        self.tokenizer: Any = OWN.tokenizer
        self.vocab_size, self.context, self.eos = OWN.vocab_size, OWN.context, OWN.eos

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        return None, np.zeros(self.vocab_size, np.float32)

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        return np.zeros((len(states), self.vocab_size), np.float32)


def ids(text: str) -> list[int]:
    found: list[int] = OWN.tokenizer.encode(text).ids
    return found


def likely(said: str, output: str, head: str = HEAD, call: str = CALL) -> set[str]:
    """The tokens that stay as likely as before, after a request and an output; empty if all do."""
    model = Copying(Flat())
    state, _ = model.prefill(ids(f"{head}<｜User｜>{said}<｜Assistant｜></think>"))
    logits = np.zeros(OWN.vocab_size, np.float32)
    for token in ids(call + output):
        logits = model.step([state], [token])[0]
    assert all(-value % LESS == 0 for value in np.unique(logits))
    if not logits.any():
        return set()
    return {OWN.tokenizer.decode([int(i)], skip_special_tokens=False) for i in np.flatnonzero(logits == 0)}


def test_a_value_begins_with_a_word_of_the_message() -> None:
    found = likely("Look for apes and bees", '{"what": "')
    firsts = [OWN.tokenizer.decode(ids(word)[:1]) for word in ("Look", "for", "apes", "and", "bees")]
    assert set(firsts) <= found
    assert len(found) <= 6


def test_a_value_continues_as_in_the_message_and_ends_after_a_word() -> None:
    inside = likely("Look for 123 bees or 45", '{"what": "12')
    assert inside == {"3"}
    behind = likely("Look for 123 bees or 45", '{"what": "123')
    assert '"' in behind
    assert " " + OWN.tokenizer.decode(ids("bees")[:1]) in behind


def test_a_value_that_is_not_in_the_message_is_left_alone_once_begun() -> None:
    assert likely("Look for bees", '{"what": "zzz') == set()


def test_two_values_do_not_share_a_word_of_the_message() -> None:
    head = '{"what": "bees"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{"what": "'
    first = OWN.tokenizer.decode(ids("bees")[:1])
    assert first not in likely("apes, bees", head)
    assert first in likely("apes, bees, bees", head)


def test_a_choice_in_the_message_is_not_left_out() -> None:
    assert '"}' in likely("Look for bees", '{"what": "bees')
    assert '"}' not in likely("Look for blue bees", '{"what": "bees')
    assert likely("Look for blue bees", '{"what": "bees", "color": "blue') == set()
    assert " " not in likely("Look for blue bees", '{"what": "bees"')


def test_a_number_in_the_message_is_not_left_out() -> None:
    assert '"}' not in likely("Look for 7 bees", '{"what": "bees')
    assert likely("Look for 7 bees", '{"what": "7 bees') == set()
    assert {token[0] for token in likely("Look for 7 bees", '{"what": "bees", "co')} == {"l", "u"}
    assert {token[0] for token in likely("Look for blue bees", '{"what": "bees", "co')} == {"l"}


def test_only_parameters_of_the_tool_are_likely() -> None:
    likeliest = likely("bees", '{"')
    assert likeliest
    assert all(any(name.startswith(t) for name in ("what", "color", "count")) for t in likeliest)
    assert '"' in likely("bees", '{"what')


def test_a_number_that_is_not_in_the_message_is_left_out() -> None:
    assert {token[0] for token in likely("Look for bees", '{"what": "bees", "co')} == {"l"}
    assert likely("Look for bees", '{"what": "bees", "cou') == set()


def test_a_number_begins_like_one_in_the_message_in_digits_or_in_words() -> None:
    for said in ("Look for 7 bees", "Look for seven bees"):
        found = likely(said, '{"what": "bees", "count":')
        assert "7" in found
        assert not found & {"1", "8"}


def test_a_value_does_not_end_within_an_address() -> None:
    assert '"' not in likely("Look for max@firm.de", '{"what": "max@firm')
    assert '"' not in likely("Look for max@firm.de", '{"what": "max')
    assert '"' in likely("Look for max@firm.de", '{"what": "max@firm.de')
    assert '"' in likely("Look for max. Please", '{"what": "max')


LAMP = (
    '<｜begin▁of▁sentence｜>lamp: Lamps.\n#lamp\n"room": string\n"warm": boolean\n"level": optional integer\n'
    '"color": optional "red" or "blue"\n'
)


def test_a_text_leaves_out_values_of_other_parameters() -> None:
    call = CALL.replace("find", "lamp")
    for said in ("bees, blue", "bees 7", "bees warm"):
        found = likely(said, '{"room": "bees', LAMP, call)
        assert '"' in found
        assert not found & {OWN.tokenizer.decode(ids(word)[:1]) for word in (",", " blue", " 7", " warm")}
    first = OWN.tokenizer.decode(ids("room")[:1])
    assert likely("warm blue room", '{"room": "', LAMP, call) == {first}


def test_a_switch_is_set_as_the_message_says() -> None:
    call = CALL.replace("find", "lamp")

    def found(said: str) -> set[str]:
        return {token.strip()[:1] for token in likely(said, '{"room": "hall", "warm":', LAMP, call)} & {"t", "f"}

    assert found("warm light in the hall") == {"t"}
    assert found("no warm light in the hall") == {"f"}
    assert found("light in the hall") == {"t", "f"}


def test_no_call_follows_once_one_of_several_has_the_last_word() -> None:
    one = '{"what": "apes"}<｜tool▁call▁end｜>'
    two = one + '<｜tool▁call▁begin｜>find<｜tool▁sep｜>{"what": "bees"}<｜tool▁call▁end｜>'
    assert "<｜tool▁call▁begin｜>" not in likely("apes and bees, please", two)
    assert likely("apes and bees and cats", two) == set()
    assert likely("find apes", one) == set()


FLY = '<｜begin▁of▁sentence｜>find: Fly.\n#find\n"from": string\n"destination": string\n"who": optional string\n'


def test_a_preposition_tells_which_parameter_a_value_belongs_to() -> None:
    said = "To the 47, from 13, 29"
    assert likely(said, '{"from": "', FLY) == {"1"}
    assert likely(said, '{"from": "13", "destination": "', FLY) == {"4"}
    assert likely(said, '{"from": "13", "destination": "47", "who": "', FLY) >= {"2"}
    assert not likely(said, '{"from": "13", "destination": "47", "who": "', FLY) & {"1", "4"}


def test_logits_outside_of_calls_are_unchanged() -> None:
    model = Copying(Flat())
    state, logits = model.prefill(ids(f"{HEAD}<｜User｜>Look for 7 blue bees<｜Assistant｜></think>"))
    assert not logits.any()
    for token in ids('Here is "what": {"you'):
        assert not model.step([state], [token]).any()


def test_concurrent_sequences_are_independent() -> None:
    model = Copying(Flat())
    texts = ["Look for 7 bees", "Hi"]
    together = [model.prefill(ids(f"{HEAD}<｜User｜>{t}<｜Assistant｜></think>"))[0] for t in texts]
    alone = [model.prefill(ids(f"{HEAD}<｜User｜>{t}<｜Assistant｜></think>"))[0] for t in texts]
    for token in ids(CALL + '{"what": "bees"'):
        logits = model.step(together, [token, token])
        for i, state in enumerate(alone):
            np.testing.assert_array_equal(logits[i], model.step([state], [token])[0])
