"""Text and token ids together: which text is special tokens, and which only spells them."""

import random
from functools import cache
from typing import Any

import pytest

import unspool
from unspool import Dialect, Message, Parser, Policy, Stage
from unspool.parser.parser import PairedParser
from unspool.plugins.pairing import Pairing, Special, special_of
from unspool.plugins.reader import Ids, OutputReader, ReadPiece, reader_of
from unspool.tokens import Detokenizer

from ..parser import test_tokens as feeding
from ..parser.test_tokens import FOREIGN
from ..support import CALLING, named, present, tools_of
from ..test_tokens import make_metaspace
from ..tokenizer import byte_level
from .support import CALL, WEATHER, Parts, Tokens, parts, raws
from .support import read as read_text
from .vllm_server import markers

HERMES = unspool.get_dialect("hermes")
Fed = list[tuple[str, list[int]]]
"""Pieces of an output, each with its ids."""


@cache
def special(name: str) -> Tokens:
    """A tokenizer of bytes whose special tokens are a dialect's tags and `FOREIGN`."""
    return Tokens(byte_level(special=[FOREIGN, *markers(unspool.get_dialect(name))]))


def fed(tokenizer: Any, ids: list[int], size: int, *, skip: bool = False) -> Fed:
    """An output as an engine passes it: characters when they are complete, special tokens unless ``skip`` is set."""
    stream, text, found = list(ids), "", []
    for at in range(0, len(stream), size):
        whole = tokenizer.decode(stream[: at + size], skip_special_tokens=skip).rstrip("\ufffd")
        found.append((whole[len(text) :], stream[at : at + size]))
        text = whole
    return found


def late(pieces: Fed, by: int, cut: int | None = None) -> Fed:
    """The same pieces, with text that comes later than its ids, as with stop strings, and that may be cut."""
    text = "".join(t for t, _ in pieces)
    sent, end, found = 0, 0, []
    for i, (piece, ids) in enumerate(pieces):
        end += len(piece)
        upto = len(text[:cut]) if i == len(pieces) - 1 else max(min(end, len(text[:cut])) - by, sent)
        found.append((text[sent:upto], ids))
        sent = upto
    return found


def read(reader: OutputReader, pieces: Fed) -> Parts:
    actual = ReadPiece(calls=[])
    for text, ids in pieces:
        reader.join(actual, reader.feed(text, ids))
    reader.join(actual, reader.close())
    names = [c.name for c in actual.calls if c.name is not None]
    return actual.reasoning, actual.content, list(zip(names, reader.arguments, strict=True))


def by_ids(dialect: Dialect, tokenizer: Any, ids: list[int], **options: Any) -> Message:
    """The message if each id is fed on its own. Except for markers in strings, `feed_tokens` must give the same."""
    policy = Policy(text_markers="ignore")
    parser, alone = Parser(dialect, tokenizer=tokenizer, policy=policy, **options), Detokenizer(tokenizer)
    parser.feed_tokens(ids)
    parser.close()
    paired, special = PairedParser(dialect, policy=policy, **options), present(special_of(dialect, tokenizer))
    paired.know_tokens(special.markers)
    for token in ids:
        text, literal = alone.push(token)
        paired.feed(text)
        if token not in special.ids:
            paired.feed(literal)
        elif literal in special.markers or paired.stage is Stage.TOOL_CALL:
            paired.feed_special(literal, foreign=literal not in special.markers)
    paired.close()
    quoted = any(marker in call.arguments for call in paired.message.tool_calls for marker in special.markers)
    assert quoted or parts(parser.message) == parts(paired.message)
    return paired.message


def mixed(tokenizer: Any, *texts: tuple[str, bool]) -> list[int]:
    """The ids of texts, each of which is encoded with special tokens or spelled without them."""
    inner = tokenizer.backend_tokenizer
    return [i for text, real in texts for i in (feeding.encode if real else feeding.plain)(inner, text)]


@pytest.mark.parametrize(**named(CALLING))
def test_spelled_and_real_calls_are_read_as_the_parser_of_ids_reads_them(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    for example, raw in raws(dialect):
        ids = mixed(tokenizer, (raw, False), (" And ", True), (raw, True))
        options: dict[str, Any] = {"tools": tools_of(dialect), "stage": example.stage}
        want = parts(by_ids(dialect, tokenizer, ids, **options))
        for pieces in (fed(tokenizer, ids, 1), fed(tokenizer, ids, 1000)):
            assert read(reader_of(dialect, tokenizer, ids=Ids(), **options), pieces) == want


QUOTED = f"So {CALL} is one"
OUTPUTS: dict[str, tuple[list[tuple[str, bool]], str, str, int]] = {
    "spelled alone": ([(QUOTED, False)], "", QUOTED, 0),
    "spelled in a thought": ([(QUOTED, False), (".</think>\n\n", True)], QUOTED + ".", "", 0),
    "both": ([(f"é{CALL}", False), (CALL, True), ("<|im_end|>", True)], "", f"é{CALL}", 1),
    "characters of several tokens": (
        [("a</think>b", False), (f"</think>日本語{CALL}{CALL}", True)], "a</think>b", "日本語", 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "reasoning", "content", "calls"), OUTPUTS.values(), ids=OUTPUTS)
def test_any_pieces_with_late_text_or_without_special_tokens_mean_the_same(
    texts: list[tuple[str, bool]], reasoning: str, content: str, calls: int
) -> None:
    tokenizer = special("hermes")
    ids = mixed(tokenizer, *texts)
    options: dict[str, Any] = {"tools": [WEATHER], "stage": "reasoning" if reasoning else "content"}
    want = (reasoning, content, [("get_weather", '{"city": "Paris"}')] * calls)
    assert parts(by_ids(HERMES, tokenizer, ids, **options)) == want
    for size in (1, 2, 5, 1000):
        for skip in (False, True):
            pieces = fed(tokenizer, ids, size, skip=skip)
            assert read(reader_of(HERMES, tokenizer, ids=Ids(), **options), pieces) == want, (size, skip)
        for by in (1, 7, 30):
            pieces = late(fed(tokenizer, ids, size), by)
            assert read(reader_of(HERMES, tokenizer, ids=Ids(lag=True), **options), pieces) == want, (size, by)


@pytest.mark.parametrize(**named(CALLING))
def test_without_spelled_markers_ids_change_nothing(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    for example, raw in raws(dialect):
        ids = tokenizer.backend_tokenizer.encode(raw).ids
        options: dict[str, Any] = {"tools": tools_of(dialect), "stage": example.stage}
        want = read_text(raw, dialect, example.stage)
        for size in (1, 7, 1000):
            assert read(reader_of(dialect, tokenizer, ids=Ids(), **options), fed(tokenizer, ids, size)) == want


def test_text_cut_by_a_stop_string_is_not_restored_from_ids() -> None:
    tokenizer = special("hermes")
    ids = mixed(tokenizer, ("One <tool_call> two STOP three", False), (CALL, True))
    for size in (1, 4, 1000):
        pieces = late(fed(tokenizer, ids, size), 3, cut=len("One <tool_call> two "))
        reader = reader_of(HERMES, tokenizer, ids=Ids(lag=True), tools=[WEATHER], stage="content")
        assert read(reader, pieces) == ("", "One <tool_call> two ", [])


def test_foreign_special_tokens_are_dropped_by_id_and_kept_if_spelled_or_in_calls() -> None:
    tokenizer = special("hermes")
    call = CALL.replace("Paris", f"Pa{FOREIGN}ris")
    ids = mixed(tokenizer, (f"{FOREIGN}a", True), (f"b{FOREIGN}", False), (call, True))
    want = ("", f"ab{FOREIGN}", [("get_weather", '{"city": "Pa%sris"}' % FOREIGN)])  # noqa: UP031
    for size in (1, 1000):
        reader = reader_of(HERMES, tokenizer, ids=Ids(), tools=[WEATHER], stage="content")
        assert read(reader, fed(tokenizer, ids, size)) == want


@pytest.mark.parametrize("ids", [[], [5], [7, 9, 11]], ids=["none", "one of its own", "others"])
def test_without_ids_or_with_others_text_alone_is_read(ids: list[int]) -> None:
    tokenizer = special("hermes")
    reader = reader_of(HERMES, tokenizer, ids=Ids(), tools=[WEATHER], stage="content")
    assert read(reader, [("Sure.", ids), (CALL, ids)]) == ("", "Sure.", [("get_weather", '{"city": "Paris"}')])


def test_after_reasoning_under_a_grammar_a_spelled_marker_counts() -> None:
    tokenizer = special("hermes")
    thought = mixed(tokenizer, (f"So {CALL}</think> on", False), ("</think>", True), (CALL, False))
    for size in (1, 4, 1000):
        reader = reader_of(HERMES, tokenizer, ids=Ids(constrained=True), tools=[WEATHER], stage="reasoning")
        got = read(reader, fed(tokenizer, thought, size))
        assert got == (f"So {CALL}</think> on", "", [("get_weather", '{"city": "Paris"}')])


def test_a_spelled_marker_counts_under_a_grammar_or_by_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = special("hermes")
    pieces = fed(tokenizer, mixed(tokenizer, (CALL, False)), 1)
    call = [("get_weather", '{"city": "Paris"}')]
    for ids, want in ((Ids(), []), (Ids(constrained=True), call)):
        assert read(reader_of(HERMES, tokenizer, ids=ids, tools=[WEATHER], stage="content"), pieces)[2] == want
    monkeypatch.setenv("UNSPOOL_POLICY", "text_markers=accept")
    assert read(reader_of(HERMES, tokenizer, ids=Ids(), tools=[WEATHER], stage="content"), pieces)[2] == call


def test_white_space_at_the_start_leaves_open_whether_ids_belong_to_the_text() -> None:
    tokenizer = special("hermes")
    ids = mixed(tokenizer, (f"\n\n {CALL} is one. ", False), (CALL, True))
    want = ("", f"\n\n {CALL} is one. ", [("get_weather", '{"city": "Paris"}')])
    for by in (0, 1, 9):
        for size in (1, 3, 1000):
            reader = reader_of(HERMES, tokenizer, ids=Ids(lag=by > 0), tools=[WEATHER], stage="content")
            assert read(reader, late(fed(tokenizer, ids, size), by)) == want, (by, size)
    for blank in ("", "\n"):
        for ids in ([], tokenizer.backend_tokenizer.encode(blank).ids):
            reader = reader_of(HERMES, tokenizer, ids=Ids(lag=True), tools=[WEATHER], stage="content")
            assert read(reader, [(blank, ids)]) == ("", blank, [])


@pytest.mark.parametrize("lag", [False, True])
def test_pairing_gives_every_character_of_the_text_and_every_special_token_once(lag: bool) -> None:
    tokenizer = make_metaspace()
    literals = {2_000 + i: text for i, text in enumerate(["<a>", "</a>"])}
    rng = random.Random(5)
    pairing = Pairing(Special(literals, frozenset(literals), tuple(literals.values())), tokenizer, lags=lag)
    assert pairing.plain([1, 2]) is not lag
    actual: list[tuple[str, bool]] = []
    text = ""
    for _ in range(200):
        piece = rng.choice(["a", " b", "<a", "c>", ""])
        text += piece
        actual += pairing.take(piece, [])
    assert "".join(t for t, _ in actual) + pairing.rest() == text
    assert not any(real for _, real in actual)


def test_a_tokenizer_that_cannot_list_its_tokens_is_not_asked_again() -> None:
    class Mute:
        get_added_vocab = decode = staticmethod(lambda *_: None)

    assert special_of(HERMES, Mute()) is None
    assert reader_of(HERMES, Mute(), ids=Ids(), tools=[WEATHER]).feed(CALL, [1]).calls
