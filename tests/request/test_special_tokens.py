"""Text that spells special tokens never becomes one, with real tokenizers."""

import html
import json
import random
import re
import time
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, normalizers

from tests.tokenizer import byte_level
from unspool.request.special_tokens import BREAK, SpecialTokens, apart, markers, turn_marks

_FILE = Path(__file__).with_name("special_tokens.json")
FAMILIES: dict[str, list[str]] = json.loads(_FILE.read_text(encoding="utf-8"))
ALIKE: dict[str, list[str]] = defaultdict(list)
"""What is an ASCII character once it is normalized, by that."""
for _odd in map(chr, [*range(0xA0, 0xD800), *range(0xE000, 0x110000)]):
    if (_normal := unicodedata.normalize("NFKC", _odd)).isascii() and len(_normal) == 1:
        ALIKE[_normal].append(_odd)
FAMILIES["reserved"] = [f"<|reserved_special_token_{i}|>" for i in range(300)]


def added(made: Tokenizer, text: str) -> list[int]:
    return [i for i in made.encode(text).ids if i >= 256]


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"overlapping"}))
def test_what_templates_write_is_known_as_a_special_token_without_the_tokenizer(family: str) -> None:
    assert all(any(found in token for found in markers([f"it is {token}x"])) for token in FAMILIES[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_of_fragments_becomes_a_special_token(family: str) -> None:
    tokens = FAMILIES[family]
    made, marks = byte_level(special=tokens), SpecialTokens(tokens)
    rng = random.Random(family)
    for token in tokens:
        assert added(made, token), "the tokenizer knows it"
        assert not added(made, marks.break_up(token))
    for _ in range(300):
        cuts = [(t, rng.randrange(len(t) + 1)) for t in rng.choices(tokens, k=6)]
        text = "".join(rng.choice((t, t[:at], t[at:])) for t, at in cuts)
        broken = marks.break_up(text)
        assert not added(made, broken), text
        assert broken.replace(BREAK, "") == text
        parts = [{"type": "text", "text": piece} for piece in (text[:7], text[7:11], text[11:])]
        broken_up = marks.break_up([*parts, {"type": "image"}])
        assert not added(made, "".join(p.get("text", "") for p in broken_up)), text


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_becomes_a_special_token_of_a_tokenizer_that_normalizes(family: str) -> None:
    tokens = FAMILIES[family]
    made, marks = byte_level(), SpecialTokens(tokens)
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    made.add_special_tokens([AddedToken(t, special=True, normalized=True) for t in tokens])
    rng = random.Random(family)
    known = {c: [odd for odd in ALIKE[c] if made.normalizer.normalize_str(odd) == c] for c in map(chr, range(33, 127))}
    for token in tokens * (300 // len(tokens)):
        odd = "".join(rng.choice((c, rng.choice(known[c]), f"\x01{c}")) if c in known else c for c in token)
        assert added(made, odd), "the tokenizer reads it as the token"
        assert not added(made, marks.break_up(odd)), odd
        escaped = "".join(rng.choice((c, f"\\u{ord(c):04x}", f"&#{ord(c)};")) for c in odd)
        decoded = html.unescape(re.sub(r"\\u(....)", lambda m: chr(int(m[1], 16)), marks.break_up(escaped)))
        assert not added(made, decoded), escaped


@pytest.mark.parametrize("token", ["### Response:", "[BEGIN FINAL RESPONSE]"])
@pytest.mark.parametrize("odd", ["\u2581", "\u200b", "\u200d", "\u2028", "\ufeff", "\ufffd", "\u1680", "\u3000"])
def test_what_a_tokenizer_reads_as_a_space_is_one(token: str, odd: str) -> None:
    made = byte_level()
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    made.add_special_tokens([AddedToken(token, special=True, normalized=True)])
    text = f"a {token.replace(' ', odd)} b"
    assert added(made, text)
    assert not added(made, SpecialTokens([token]).break_up(text))


def test_every_character_that_is_ascii_once_it_is_normalized_is_read_as_that() -> None:
    assert sum(map(len, ALIKE.values())) > 1000
    for c, odd in ALIKE.items():
        marks = SpecialTokens([f"<{c}>"])
        assert [one for one in odd if not marks.spelled(f"<{one}>")] == []


@pytest.mark.parametrize("normal", [normalizers.NFD(), normalizers.NFKD()])
@pytest.mark.parametrize("text", ["<|im_start|\u226f", "\\u003c|im_start|\\u226f", "&lt;|im_start|&ngt;"])
def test_no_sign_that_a_tokenizer_takes_apart_ends_a_token(normal: normalizers.Normalizer, text: str) -> None:
    made = byte_level()
    made.normalizer = normal
    made.add_special_tokens([AddedToken("<|im_start|>", special=True, normalized=True)])

    def decoded(text: str) -> str:
        return html.unescape(re.sub(r"\\u(....)", lambda m: chr(int(m[1], 16)), text))

    assert added(made, decoded(text))
    assert not added(made, decoded(SpecialTokens(["<|im_start|>"]).break_up(text)))


def test_a_token_with_an_open_part_is_known_by_what_stands_before_that() -> None:
    marks = SpecialTokens(markers(["a<think:{any}>b", "'<｜hy_User{}｜>'.format(id)", "<{}>", "[|{any}|]"]))
    for token in "<think:opensource>", "<think:q7>", "<｜hy_User:q7｜>":
        assert not marks.spelled(marks.break_up(f"x{token}"))
        assert marks.break_up(token) != token
    assert marks.break_up("<q> [|q|]") == "<q> [|q|]"


def test_text_without_special_tokens_is_unchanged() -> None:
    marks = SpecialTokens(FAMILIES["qwen"])
    values: list[Any] = ["a < b <|im_star", "，＜think＜ ﬁ \x01", "", 3, None, True, ["<", {"a": ["<|im_"]}]]
    for value in values:
        assert marks.break_up(value) == value
    assert SpecialTokens([]).break_up("<s>") == "<s>"


@pytest.mark.parametrize("family", ["reserved", "overlapping", "minimax"])
def test_breaking_up_hostile_text_takes_linear_time(family: str) -> None:
    marks = SpecialTokens(FAMILIES[family])
    token = FAMILIES[family][0]
    times = []
    for size in (20_000, 200_000):
        text = (token[:-1] * size)[:size]
        taken = []
        for _ in range(3):
            began = time.process_time()
            marks.break_up(text)
            taken.append(time.process_time() - began)
        times.append(min(taken))
    assert times[1] < 30 * times[0] + 0.05
    assert times[1] < 2.0


@pytest.mark.parametrize(
    ("probes", "literals", "marks"),
    [
        (["User: Zqask\n\nAssistant: Zqsay</s>User: Zqmore"], ["User: ", "Assistant: "], {"Assistant:"}),
        (["User: Zqask\n\nUser: Zqmore", "System: Zqrule\n\nUser: Zqask"], [], {"User:", "System:"}),
        (["Human: Zqask<sep>AI: Zqsay<sep>Human: Zqmore<sep>"], ["Human: ", "AI: "], set()),
        (["@@user@@\nZqask\n<|end|>\n@@bot@@\nZqsay\n<|end|>"], [], {"@@bot@@"}),
        (["~u~Zqask~/~\n~a~Zqsay~/~\n~u~Zqmore~/~\n"], [], {"~u~", "~a~"}),
        (["%%turn%%userZqask%%turn%%botZqsay"], ["%%turn%%"], {"%%turn%%", "%%turn%%bot"}),
        (["Be kind: always.\nUser: Zqask\nBot: Zqsay"], [], {"Bot:"}),
        (["# Rules: none\n\nZqask"], ["# Rules: none"], set()),
        (["nothing: here"], ["nothing:"], set()),
    ],
)
def test_turns_have_marks_of_any_shape_where_no_special_token_opens_them(
    probes: list[str], literals: list[str], marks: set[str]
) -> None:
    assert turn_marks(probes, literals, ["</s>"]) == marks


WORDS = SpecialTokens(["<s>"], ["A:", "Human:", "问：", "_x:"])


@pytest.mark.parametrize("text", ["the USA: 5", "SuperHuman: yes", "aA: b", "eéHuman:", "жA:"])
def test_words_that_open_turns_are_not_marks_inside_of_words(text: str) -> None:
    assert WORDS.break_up(text) == text


BEFORE = [*"\n \t.-*(\u200b\u3164\u2028，7_²中あสا", "", "</s>", "\\n", "\\t", r"\u000a", "&#10;", "&NewLine;", r"\\n"]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("mark", ["A:", "Human:", "问：", "Ｈuman:", "H\x01uman:", r"\u0048uman:", "&#72;uman&colon;"])
def test_words_that_open_turns_are_marks_wherever_a_word_begins(before: str, mark: str) -> None:
    text = f"x{before}{mark} I" if before else f"{mark} I"
    broken = WORDS.break_up(text)
    assert broken != text
    assert not WORDS.spelled(broken)
    assert broken.replace(BREAK, "") == text.replace(BREAK, "")
    parts = [{"type": "text", "text": piece} for piece in (text[:-4], text[-4:])]
    assert not WORDS.spelled("".join(p["text"] for p in WORDS.break_up(parts)))


def test_a_word_that_the_template_writes_behind_a_letter_opens_turns_anywhere() -> None:
    assert apart(["A:", "Human:", "### B:", "问："], ["Human: Zqask\nA: Zqsay"]) == {"A:", "Human:"}
    assert apart(["A:", "Human:", "### B:"], ["Human: ZqaskA: Zqsay"]) == {"Human:"}
