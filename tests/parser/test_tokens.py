"""Token ids give the same message as text, with spans of tokens and markers that are known by their ids."""

import copy
import pickle
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers

import unspool
from tests.same_events import tokenizer as marked
from tests.support import (
    CALLING,
    DIALECTS,
    THINKING,
    TOOLS,
    XML,
    Trial,
    cases,
    check,
    dialect_of,
    literals,
    named,
    notices,
    number,
    run,
    same,
    statuses,
    tool,
    values,
)
from tests.test_tokens import DEEPSEEK, make_byte_fallback, make_byte_level, make_deepseek, make_metaspace, token_id
from tests.tokenizer import byte_level
from tests.writing import around_reasoning, write_calls, write_content, write_reasoning
from unspool import (
    ContentDelta,
    Dialect,
    Event,
    Finish,
    Markup,
    Message,
    Parser,
    Policy,
    ReasoningDelta,
    Stage,
    get_dialect,
)
from unspool.parser import detect_stage

F = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
END = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


FOREIGN = "<|unheard_of|>"
"""A special token that no dialect contains."""


@cache
def deepseek() -> Tokenizer:
    """A tokenizer with DeepSeek's own ids for its markers; every byte is a token."""
    return make_deepseek()


@cache
def special(name: str) -> Tokenizer:
    """A tokenizer of bytes in which every longer literal of a dialect without white space is a special token."""
    found = [t for t in literals(get_dialect(name)) if len(t) > 3 and not any(c.isspace() for c in t)]
    # Byte-level decoders take some characters, such as «, for bytes, so no single token can spell them.
    return byte_level(
        special=[FOREIGN, *(t for t in found if not t.isalnum() and decoders.ByteLevel().decode([t]) == t)]
    )


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def plain(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids that spell a text without any special token, each a byte."""
    return [token_id(tokenizer, byte) for part, _ in BYTES.pre_tokenize_str(text) for byte in part]


def feed(
    dialect: str | Dialect, pieces: Sequence[Sequence[int]], tokenizer: Any, **options: Any
) -> tuple[Message, list[Event]]:
    """Feed ids in pieces, and assert that the spans of tokens tile them."""
    reason = options.pop("finish_reason", "stop")
    parser = Parser(dialect, tokenizer=tokenizer, **{"tools": TOOLS, "ids": number, **options})
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed_tokens(piece)
    events += parser.close(reason)
    ids = [token for piece in pieces for token in piece]
    output = tokenizer.decode(ids, skip_special_tokens=False)
    check(events, output.rstrip("\ufffd") if events[-1].end < len(output) else output)
    at = 0
    for event in events:
        assert event.token_start == at, f"{event} does not begin at token {at}"
        assert event.token_end >= event.token_start
        at = event.token_end
    assert at == len(ids), "every token belongs to an event"
    assert parser.message == unspool.fold(events)
    return parser.message, events


def ways(ids: list[int]) -> list[list[list[int]]]:
    """All at once, one by one, and in random pieces."""
    rng = random.Random(len(ids))
    cuts = [0, *sorted(rng.sample(range(1, len(ids)), len(ids) // 5)), len(ids)] if ids else [0]
    return [[ids], [[token] for token in ids], [ids[at:to] for at, to in pairwise(cuts)]]


def everywhere(dialect: str | Dialect, tokens: list[int], tokenizer: Any, **options: Any) -> Message:
    """The message of token ids, which must be the same in all pieces."""
    whole, *others = [feed(dialect, pieces, tokenizer, **options)[0] for pieces in ways(tokens)]
    assert all(same(other) == same(whole) for other in others)
    return whole


# -- the same message as from text -------------------------------------------------------------------------------------


def free(case: Trial) -> bool:
    """Whether no string of the calls contains a marker, whose id would end the call by design."""
    held = repr([c.arguments for c in case.calls])
    return not any(t in held for t in literals(case.dialect) if len(t) > 3)


def assert_alike(case: Trial, ids: list[int], tokenizer: Any) -> None:
    """Assert that an example's ids mean what its text means."""
    options: dict[str, Any] = {"tools": case.tools, "stage": case.example.stage, "ids": number}
    by_text, _ = run(case.dialect, [case.raw], **options)
    assert same(everywhere(case.dialect, ids, tokenizer, **options)) == same(by_text)


@pytest.mark.parametrize("case", [c for c in cases() if free(c)], ids=str)
def test_examples_as_ids_mean_the_same_as_text(case: Trial) -> None:
    tokenizer = special(case.dialect.name)
    ids = encode(tokenizer, case.raw)
    assert tokenizer.decode(ids, skip_special_tokens=False) == case.raw
    assert_alike(case, ids, tokenizer)


@pytest.mark.parametrize(**named([d for d in CALLING if d in THINKING and not d.framed]))
def test_thoughts_anywhere_stray_markers_and_cut_calls_as_ids_mean_the_same_as_text(dialect: Dialect) -> None:
    opening, closing = (side.strip() for side in around_reasoning(dialect))
    call = write_calls(dialect, [("f", {"a": "x"})])
    thoughts = f"Hi. {opening}one{closing}two {opening}three {call} four{closing}five"
    if call.rstrip().endswith(tuple(e.strip() for e in dialect.end)):  # as a token, it ends the turn by design
        thoughts = f"Hi. {opening}one{closing}two {opening}three"
    tokenizer = special(dialect.name)
    for text in (thoughts, f"one{closing}{closing}two", *(f"Hi. {call[:cut]}" for cut in range(1, len(call), 5))):
        whole, _ = run(dialect, [text], ids=number, tools=TOOLS, stage="content")
        message = everywhere(dialect, encode(tokenizer, text), tokenizer, stage="content")
        assert same(message) == same(whole), text
        assert notices(message) == notices(whole), text


@pytest.mark.parametrize("name", ["deepseekv31", "deepseekv3", "deepseek", "deepseek-r1"])
def test_deepseeks_own_ids_are_read(name: str) -> None:
    for case in filter(free, cases([get_dialect(name)])):
        ids = encode(deepseek(), case.raw)
        assert not case.calls or "|" in case.raw or set(ids) & set(DEEPSEEK.values())
        assert_alike(case, ids, deepseek())


@pytest.mark.parametrize(**named(CALLING))
def test_a_tokenizer_without_special_tokens_reads_markers_as_text(dialect: Dialect) -> None:
    tokenizer = make_byte_level()
    calls: list[tuple[str, Any]] = [("f", {"a": "é 北京", "n": 3}), ("g", {"a": "y"})]
    message = everywhere(dialect, encode(tokenizer, write_calls(dialect, calls)), tokenizer)
    assert values(message) == calls


# -- spans -------------------------------------------------------------------------------------------------------------


def test_a_token_belongs_to_the_event_that_holds_its_first_character() -> None:
    raw = f'plan 计</think>Sure 北.{F}{{"a": "北京"}}{END}'
    ids = encode(deepseek(), raw)
    for pieces in ways(ids):
        _, events = feed("deepseekv31", pieces, deepseek(), stage="reasoning")
        for event in events:
            if isinstance(event, ReasoningDelta | ContentDelta):
                decoded = deepseek().decode(ids[event.token_start : event.token_end], skip_special_tokens=False)
                assert decoded == event.text
            if isinstance(event, Finish):
                assert event.token_start == event.token_end == len(ids)


def test_without_ids_there_are_no_token_spans_and_no_count() -> None:
    message, events = run("hermes", ["<think>plan</think>x"])
    assert {(e.token_start, e.token_end) for e in events} == {(-1, -1)}
    assert message.reasoning_tokens is None


@pytest.mark.parametrize(**named(THINKING))
def test_the_tokens_of_reasoning_are_counted_exactly(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    thought = "plan é 北京 and more"
    raw = write_reasoning(dialect, thought) + dialect.reasoning[0].trail + write_content(dialect, "answer")
    message = everywhere(dialect, encode(tokenizer, raw), tokenizer)
    assert message.reasoning == thought
    assert message.reasoning_tokens == len(encode(tokenizer, thought))
    message, _ = feed(dialect, [encode(tokenizer, "Hello.")], tokenizer, stage="content")
    assert message.reasoning_tokens == 0


def test_the_token_counts_of_interleaved_reasoning_add_up() -> None:
    raw = f"<think>one</think>{F}{{}}{END}<think>three</think>answer"
    message, _ = feed("deepseekv31", [encode(deepseek(), raw)], deepseek())
    assert (message.reasoning, message.reasoning_tokens) == ("onethree", 8)


# -- markers by id -----------------------------------------------------------------------------------------------------


def test_the_same_characters_as_ordinary_text_inside_a_string_stay_data() -> None:
    inner = f"a {END} b <think></think> {F}"
    ids = encode(deepseek(), F) + plain(deepseek(), f'{{"a": "{inner}"}}') + encode(deepseek(), END)
    message = everywhere("deepseekv31", ids, deepseek())
    assert values(message) == [("f", {"a": inner})]
    assert notices(message) == []


@pytest.mark.parametrize(**named([d for d in CALLING if d.argument and not d.item]))
def test_markers_spelled_as_text_inside_text_values_stay_data_where_policy_ignores_them(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    last = dialect.argument[0].after
    closing = "".join(p for p in last if isinstance(p, str)).strip()
    if closing not in tokenizer.get_vocab() or len(closing) < 3:
        pytest.skip("the closing is not one special token, or is too short to be told from text")
    head, tail = write_calls(dialect, [("f", {"a": "⌖"})]).split("⌖")
    ordinary = {i for i in encode(tokenizer, tail) if i not in tokenizer.get_added_tokens_decoder()}
    # The call's closing is data too if it consists of special tokens; other text counts as usual.
    inner = f"x {closing} y" if tokenizer.decode([*ordinary]).strip() else f"x {closing}{tail.strip()} y"
    ids = encode(tokenizer, head) + plain(tokenizer, inner) + encode(tokenizer, tail)
    message = everywhere(dialect, ids, tokenizer, policy=Policy(text_markers="ignore"))
    assert values(message) == [("f", {"a": inner})]


def test_a_closing_markers_id_inside_an_unterminated_string_ends_the_call() -> None:
    good = '<｜tool▁call▁begin｜>g<｜tool▁sep｜>{"a": "y"}'
    raw = f'{F}{{"a": "open<｜tool▁call▁end｜>{good}{END}'
    message = everywhere("deepseekv31", encode(deepseek(), raw), deepseek())
    assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [
        ("f", '{"a": "open', "invalid"),
        ("g", '{"a": "y"}', "ok"),
    ]
    assert message.content == ""
    message = everywhere("deepseekv31", encode(deepseek(), raw), deepseek(), policy=Policy(bad_arguments="repair"))
    assert [c.status for c in message.tool_calls] == ["repaired", "ok"]
    assert values(message) == [("f", {"a": "open"}), ("g", {"a": "y"})]
    # As text, the same characters are data: the string ends at the next quote, and the text after it is an error.
    assert statuses(run("deepseekv31", [raw], tools=TOOLS)[0]) == [("f", "invalid")]


@pytest.mark.parametrize(**named([d for d in XML if d.end and d.name != "beam"]))  # beam's also closes the call
def test_the_id_of_an_end_inside_a_value_in_markup_ends_the_call(dialect: Dialect) -> None:
    made = marked(tuple(sorted(literals(dialect))))
    tools = [tool("look", s="string", t="string")]
    end = next(e for e in dialect.end if e.count("<|") < 2 and made.token_to_id(e) is not None)
    written = write_calls(dialect, [("look", {"s": "halfway", "t": "x"})])
    again = write_calls(dialect, [("look", {"s": "shut"})])
    for size in (0, 4):
        ids = [*encode(made, written[: written.index("halfway") + size]), *encode(made, end)]
        for rest in ("", *dialect.start[:1]):
            behind = encode(made, rest + again) if rest else []
            message = everywhere(dialect, [*ids, *behind], made, tools=tools)
            assert [(c.name, c.status) for c in message.tool_calls] == [
                ("look", "incomplete"),
                *([("look", "ok")] if rest else []),
            ]
            assert message.tool_calls[0].arguments in ("", '{"s": "' + "halfway"[:size])
            assert message.content == ""


def test_an_id_that_opens_something_inside_a_string_is_data() -> None:
    raw = f'{F}{{"a": "x <think> <｜tool▁call▁begin｜> y"}}{END}'
    message = everywhere("deepseekv31", encode(deepseek(), raw), deepseek())
    assert values(message) == [("f", {"a": "x <think> <｜tool▁call▁begin｜> y"})]


def test_text_that_only_spells_a_marker_is_one_by_default_and_text_where_policy_says_so() -> None:
    raw = f'Sure.{F}{{"a": "x"}}{END}'
    ids = plain(deepseek(), raw)
    for pieces in ways(ids):
        message, _ = feed("deepseekv31", pieces, deepseek())
        assert (message.content, values(message)) == ("Sure.", [("f", {"a": "x"})])
        message, _ = feed("deepseekv31", pieces, deepseek(), policy=Policy(text_markers="ignore"))
        assert (message.content, message.tool_calls) == (raw, [])
    message, _ = feed("deepseekv31", [encode(deepseek(), raw)], deepseek(), policy=Policy(text_markers="ignore"))
    assert (message.content, values(message)) == ("Sure.", [("f", {"a": "x"})])


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<THOUGHT>plan</THOUGHT>answer", "plan", "answer"),
        ("<thOUGHT>plan</Thought>answer", "plan", "answer"),
        ("<THOUGHT>plan", "plan", ""),
        ("<thOUGH", "", "<thOUGH"),
        ("a <b> <t", "", "a <b> <t"),
    ],
)
def test_a_tag_in_another_case_than_its_token_counts(text: str, reasoning: str, content: str) -> None:
    tokenizer = special("think")
    message = everywhere("think", encode(tokenizer, text), tokenizer, policy=Policy(text_markers="ignore"))
    assert (message.reasoning, message.content) == (reasoning, content)


@pytest.mark.parametrize("text", ["<thought>", "<thought>plan</thought>answer", "Hi. <think>plan", "<think", "<"])
def test_a_tag_that_spells_its_token_is_text(text: str) -> None:
    tokenizer = special("think")
    message = everywhere("think", plain(tokenizer, text), tokenizer, policy=Policy(text_markers="ignore"))
    assert (message.reasoning, message.content) == ("", text)


def test_the_policy_for_spelled_markers_does_nothing_to_text() -> None:
    ignore = Policy(text_markers="ignore")
    message, _ = run("deepseekv31", [f'{F}{{"a": "x"}}{END}'], policy=ignore, tools=TOOLS)
    assert values(message) == [("f", {"a": "x"})]


@pytest.mark.parametrize(**named(DIALECTS))
def test_a_special_token_that_no_template_names_is_markup_in_text_and_data_in_arguments(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    content = write_content(dialect, f"a{FOREIGN}b {FOREIGN} c{FOREIGN}d")
    for pieces in ways(encode(tokenizer, content)):
        message, events = feed(dialect.name, pieces, tokenizer, stage="content")
        assert message.content.rstrip() == "ab  cd"
        assert [e.text for e in events if isinstance(e, Markup)].count(FOREIGN) == 3
    if dialect.reasoning:
        thought = write_reasoning(dialect, f"a{FOREIGN}b") + write_content(dialect, "c")
        message = everywhere(dialect, encode(tokenizer, thought), tokenizer)
        assert (message.reasoning, message.content.strip()) == ("ab", "c")
    if dialect.call:
        call = write_calls(dialect, [("f", {"a": f"x{FOREIGN}y"})])
        message = everywhere(dialect, encode(tokenizer, call), tokenizer)
        assert values(message) == [("f", {"a": f"x{FOREIGN}y"})]


@pytest.mark.parametrize(
    ("token", "content"), [("<|of|>", "ab"), ("<|a_f|>", "ab"), ("<|f:|>", "a<|f:|>b"), ("<|f|>", "a<|f|>b")]
)
def test_a_template_names_only_special_tokens_that_contain_a_whole_word_of_it(token: str, content: str) -> None:
    dialect = dialect_of('calls = "<run>{calls}</run>"\ncall = "f{name}: {arguments};;"')
    tokenizer = byte_level(special=[token])
    message = everywhere(dialect, encode(tokenizer, f"a{token}b"), tokenizer)
    assert message.content == content


# -- characters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["北京", "🌧️👩‍👩‍👧‍👦", "é\u0301", "\u2028x", "ab"])
def test_characters_of_many_bytes_are_never_broken(text: str) -> None:
    raw = f'<think>{text}</think>{text}{F}{{"a": "{text}"}}{END}'
    for pieces in ways(encode(deepseek(), raw)):
        message, events = feed("deepseekv31", pieces, deepseek())
        assert (message.reasoning, message.content, values(message)) == (text, text, [("f", {"a": text})])
        assert "\ufffd" not in repr(events)
        assert notices(message) == []


@pytest.mark.parametrize("make", [make_byte_level, make_byte_fallback])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["copy", "pickle"])
def test_a_copy_in_the_middle_of_a_character_goes_on(make: Callable[[], Tokenizer], copied: Any) -> None:
    tokenizer = make()
    ids = encode(tokenizer, "Köln 北京 🌧️.")
    for at in range(len(ids)):
        parser = Parser("hermes", tokenizer=tokenizer)
        for token in ids[:at]:
            parser.feed_tokens([token])
        for one in (copied(parser), parser):
            for token in ids[at:]:
                one.feed_tokens([token])
            one.close()
            assert one.message.content == "Köln 北京 🌧️."


def test_copies_before_the_first_id_share_nothing_that_changes() -> None:
    tokenizer = make_byte_fallback()
    first, second, last = (token_id(tokenizer, t) for t in ("<0xE6>", "<0x97>", "a"))
    parser = Parser("hermes", tokenizer=tokenizer)
    parser.feed_tokens([])
    for one, ids in ((copy.deepcopy(parser), [first, second, last]), (parser, [first, last])):
        for token in ids:
            one.feed_tokens([token])
        one.close()
        assert one.message.content == "\ufffda"


@pytest.mark.parametrize("make", [make_byte_level, make_byte_fallback, make_metaspace, make_deepseek])
def test_many_ids_at_once_are_read_as_one_by_one(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    rng = random.Random(24)
    known = [*encode(tokenizer, "<think>a plan: 北京 🌧️</think>And é, of course. " * 3), 10**6, *range(40)]
    for _ in range(40):
        ids = rng.choices(known, k=30) + known[: rng.randint(0, 60)]
        found = []
        for pieces in ([[token] for token in ids], [ids], [ids[:17], ids[17:]]):
            parser = Parser("deepseekv31", tools=TOOLS, tokenizer=tokenizer)
            events = [event for piece in pieces for event in parser.feed_tokens(piece)] + parser.close()
            assert [e.token_start for e in events[1:]] == [e.token_end for e in events[:-1]]
            assert events[-1].token_end == len(ids)
            found.append(parser.message)
        assert found[1:] == found[:1] * 2


def test_a_cut_character_at_the_end_is_a_notice() -> None:
    for raw in ("Hi 北", f'{F}{{"a": "北', "<think>北"):
        ids = encode(deepseek(), raw)[:-1]
        for pieces in ways(ids):
            parser = Parser("deepseekv31", tools=TOOLS, tokenizer=deepseek())
            for piece in pieces:
                parser.feed_tokens(piece)
            parser.close("length")
            assert "cut_character" in notices(parser.message)
            assert parser.message.finish_reason == "length"


# -- prompts as ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    **named([d for d in DIALECTS if d.start and d.reasoning and not d.reasoning[0].text.startswith(d.start)])
)
def test_the_stage_is_detected_from_a_prompts_ids(dialect: Dialect) -> None:
    tokenizer = special(dialect.name)
    opening = write_reasoning(dialect, "\0").split("\0")[0]
    for tail, stage in (
        ("", Stage.CONTENT),
        (opening, Stage.REASONING),
        (write_reasoning(dialect, "plan"), Stage.CONTENT),
    ):
        prompt = f"user: hi\n{dialect.start[0]}{tail}"
        ids = encode(tokenizer, prompt)
        assert detect_stage(dialect, ids, tokenizer=tokenizer) is stage
        assert detect_stage(dialect, prompt) is stage
        assert Parser(dialect, prompt=ids, tokenizer=tokenizer).stage is stage


# -- misuse ------------------------------------------------------------------------------------------------------------


def test_ids_need_an_open_parser() -> None:
    parser = Parser("deepseekv31", tokenizer=deepseek())
    parser.close()
    with pytest.raises(ValueError, match="closed"):
        parser.feed_tokens([1])


@pytest.mark.parametrize(**named([d for d in THINKING if d.end and not d.framed]))
def test_reasoning_that_opens_behind_content_that_was_reasoning_has_its_own_text(dialect: Dialect) -> None:
    opening = around_reasoning(dialect)[0].strip()
    made = marked(tuple(sorted(literals(dialect))))
    ids = made.encode(f"{opening}{dialect.end[0]}].{opening}<", add_special_tokens=False).ids
    policy = Policy(unclosed_reasoning="content", stray_markers="text")
    for size in (1, 2, 3):
        feed(dialect, [ids[at : at + size] for at in range(0, len(ids), size)], made, policy=policy)
