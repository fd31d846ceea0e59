"""Token ids are decoded without broken characters, one id at a time, at constant cost."""

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.tokenizer import byte_level
from unspool.tokens import Detokenizer, added_tokens, counted, encoded, token_bytes

TEXTS = [
    "Hello, world! It's 3 o'clock.",
    "  leading, trailing and   inner spaces  ",
    "line\n\n\tbreaks\r\n",
    "今天北京的天气怎么样？",
    "emoji 🌧️👩‍👩‍👧‍👦🇫🇷 and é, ü, ẞ",
    "العربية עברית ไทย 한국어",
    "<think> as plain text </think>",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
    "",
    " ",
]
ADDED = ["<think>", "</think>", "<|im_end|>", "<tool call>", "<｜end▁of▁sentence｜>", "café"]


def stream(tokenizer: Any, ids: Iterable[int]) -> tuple[str, bool]:
    """The whole text of ``ids``, and whether its last character was cut."""
    detokenizer = Detokenizer(tokenizer)
    parts = [part for token in ids for part in detokenizer.push(token)]
    rest, cut = detokenizer.flush()
    return "".join(parts) + rest, cut


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def inner(tokenizer: Any) -> Tokenizer:
    """The real tokenizer, without the wrapper of these tests."""
    found: Tokenizer = getattr(tokenizer, "inner", None) or getattr(tokenizer, "backend_tokenizer", tokenizer)
    return found


def token_id(tokenizer: Any, text: str) -> int:
    token = inner(tokenizer).token_to_id(text)
    assert token is not None
    return token


def whole(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=False)
    return text


# --- real tokenizers --------------------------------------------------------------------------------------------------


def make_byte_level() -> Tokenizer:
    """Spelled bytes, and merges that are trained on a short text."""
    tokenizer = byte_level(corpus=TEXTS * 3, size=330)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ADDED[2:]])
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ADDED[:2]])
    return tokenizer


DEEPSEEK = {
    "<think>": 128798,
    "</think>": 128799,
    "<｜tool▁calls▁begin｜>": 128806,
    "<｜tool▁calls▁end｜>": 128807,
    "<｜tool▁call▁begin｜>": 128808,
    "<｜tool▁call▁end｜>": 128809,
    "<｜tool▁sep｜>": 128814,
}


def make_deepseek() -> Tokenizer:
    """DeepSeek's own ids for its markers; one token for each byte, fillers in between."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [f"filler{n}" for n in range(len(tokens), max(DEEPSEEK.values()) + 1)]
    for text, token in DEEPSEEK.items():
        tokens[token] = text
    return byte_level(tokens, special=DEEPSEEK)


def sentencepiece_vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", *map(chr, range(0x21, 0x7F)), "He", "ll", "Hell", "Hello", "▁Hello", "▁▁", "天", "气", "天气", "▁a"]
    merges = [("H", "e"), ("l", "l"), ("He", "ll"), ("Hell", "o"), ("▁", "Hello"), ("▁", "▁"), ("天", "气"), ("▁", "a")]
    return {text: n for n, text in enumerate(tokens)}, merges


def make_byte_fallback(strip: bool = True) -> Tokenizer:
    """Like Llama 2 and Mistral (which strip the leading space) or Gemma (which does not)."""
    vocabulary, merges = sentencepiece_vocabulary()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if strip else spaces
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", *(AddedToken(t, normalized=False) for t in ADDED)])
    return tokenizer


def make_metaspace() -> Tokenizer:
    vocabulary, merges = sentencepiece_vocabulary()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", *(AddedToken(t, normalized=False) for t in ADDED)])
    return tokenizer


def make_words(decoder: Any) -> Tokenizer:
    words = ["[UNK]", "Hello", "world", "##ly", "It", "is", "n't", "."]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<think>"])
    return tokenizer


class OnlyDecodes:
    """A tokenizer that can only decode, and counts its calls."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.asked: list[int] = []

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        self.asked.append(len(ids))
        return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)


class Slotted:
    """The same, but without weak references and hashes."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("asked", "inner")

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.asked: list[int] = []

    decode = OnlyDecodes.decode


class FastOfTransformers:
    """Wraps a backend. Its own ``decode`` cleans up spaces, as in transformers."""

    def __init__(self, backend: Tokenizer) -> None:
        self.backend_tokenizer = backend
        self.added_tokens_decoder = backend.get_added_tokens_decoder()
        self.all_special_tokens = [str(t.content) for t in self.added_tokens_decoder.values() if t.special]
        self.all_special_ids = [token_id(backend, text) for text in self.all_special_tokens]

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens).replace(" ,", ",")


class SlowOfTransformers:
    """Decodes in Python, and puts spaces around special tokens by default."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.all_special_tokens = ["<s>", "<think>"]
        self.all_special_ids = [inner.token_to_id(text) for text in self.all_special_tokens]

    def get_added_vocab(self) -> dict[str, int]:
        return {"</think>": token_id(self.inner, "</think>")}

    def decode(
        self,
        ids: list[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool = True,
        spaces_between_special_tokens: bool = True,
    ) -> str:
        if any(token >= self.inner.get_vocab_size() for token in ids):
            raise IndexError("piece id is out of range")
        text = self.inner.decode(ids, skip_special_tokens=skip_special_tokens)
        text = text.replace("<think>", " <think> ") if spaces_between_special_tokens else text
        return text.replace(" ,", ",") if clean_up_tokenization_spaces else text


BYTE_LEVEL = make_byte_level()
LLAMA = make_byte_fallback()
GEMMA = make_byte_fallback(strip=False)
METASPACE = make_metaspace()


REAL = [
    pytest.param(BYTE_LEVEL, id="byte-level"),
    pytest.param(LLAMA, id="byte-fallback"),
    pytest.param(GEMMA, id="byte-fallback-without-strip"),
]
ALL = [
    *REAL,
    pytest.param(OnlyDecodes(BYTE_LEVEL), id="only-decodes-byte-level"),
    pytest.param(OnlyDecodes(LLAMA), id="only-decodes-byte-fallback"),
    pytest.param(OnlyDecodes(GEMMA), id="only-decodes-byte-fallback-without-strip"),
    pytest.param(FastOfTransformers(BYTE_LEVEL), id="fast-of-transformers"),
    pytest.param(SlowOfTransformers(LLAMA), id="slow-of-transformers"),
]


# --- tests ------------------------------------------------------------------------------------------------------------


class TestText:
    @pytest.mark.parametrize("text", [text for text in TEXTS if "<" not in text])
    @pytest.mark.parametrize("tokenizer", ALL)
    def test_encoded_text_is_decoded_unchanged(self, tokenizer: Any, text: str) -> None:
        assert stream(tokenizer, encode(inner(tokenizer), text)) == (text, False)

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_a_character_is_held_until_its_last_byte_and_no_longer(self, tokenizer: Any) -> None:
        ids = encode(inner(tokenizer), "a\U00012345b")  # there are no merges for it, so it is four tokens
        detokenizer = Detokenizer(tokenizer)
        parts = ["".join(detokenizer.push(token)) for token in ids]
        assert [part for part in parts if part] == ["a", "\U00012345", "b"]
        assert parts.index("\U00012345") - parts.index("a") == 4

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(), st.sampled_from([param.values[0] for param in ALL]))
    def test_any_text_is_decoded_whole(self, text: str, tokenizer: Any) -> None:
        backend = inner(tokenizer)
        ids = [token for token in encode(backend, text) if token not in backend.get_added_tokens_decoder()]
        found, cut = stream(tokenizer, ids)
        if "\ufffd" not in whole(backend, ids):
            assert (found, cut) == (whole(backend, ids), False)
        else:
            assert found == whole(backend, ids)

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_a_replacement_character_that_the_model_wrote_is_text(self, tokenizer: Any) -> None:
        assert stream(tokenizer, encode(inner(tokenizer), "a\ufffd\ufffdb")) == ("a\ufffd\ufffdb", False)

    @pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, LLAMA])
    def test_a_replacement_character_at_the_end_is_no_cut_where_bytes_are_known(self, tokenizer: Any) -> None:
        assert stream(tokenizer, encode(tokenizer, "a\ufffd")) == ("a\ufffd", False)

    @pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.BPEDecoder()])
    def test_unknown_decoders_are_followed_through_a_window(self, decoder: Any) -> None:
        tokenizer = make_words(decoder)
        ids = [token_id(tokenizer, word) for word in ["Hello", "world", "##ly", "It", "is", "n't", "."] * 3]
        assert stream(tokenizer, ids) == (whole(tokenizer, ids), False)

    def test_a_token_without_bytes_stands_for_itself(self) -> None:
        tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "<｜b c｜>": 1, "Ġ": 2}, merges=[]))
        tokenizer.decoder = decoders.ByteLevel()
        assert stream(tokenizer, [0, 1, 2, 0]) == ("a<｜b c｜> a", False)

    def test_a_vocabulary_with_gaps_is_read_around_them(self) -> None:
        class Gaps(OnlyDecodes):
            def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
                if any(token in range(100, 330) for token in ids):
                    raise IndexError("no such id")
                return super().decode(ids, skip_special_tokens)

        tokenizer = Gaps(LLAMA)
        assert stream(tokenizer, [token_id(LLAMA, "z"), 150, token_id(LLAMA, "▁Hello")]) == ("z Hello", False)

    def test_space_at_the_beginning_of_a_window_is_not_lost(self) -> None:
        class Strips(OnlyDecodes):
            def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
                return super().decode(ids, skip_special_tokens).lstrip(" ")

        words = [token_id(LLAMA, text) for text in ("▁Hello", "▁", "▁▁", "▁Hello", "▁", "▁a")]
        assert stream(Strips(GEMMA), words) == ("Hello    Hello  a", False)
        assert stream(Strips(GEMMA), [token_id(LLAMA, "▁")] * 2 + words) == ("Hello    Hello  a", False)

    def test_a_decoder_written_in_python_is_followed_through_a_window(self) -> None:
        class Upper:
            def decode_chain(self, tokens: list[str]) -> list[str]:
                return [token.upper() + "-" for token in tokens]

        tokenizer = make_words(decoders.Decoder.custom(Upper()))
        assert stream(tokenizer, [1, 2, 1]) == ("HELLO-WORLD-HELLO-", False)

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_ids_that_the_vocabulary_lacks_give_no_text(self, tokenizer: Any) -> None:
        ids = [token for token in encode(inner(tokenizer), "a b") for token in (token, 5_000_000, -1, 2**40)]
        assert stream(tokenizer, ids) == ("a b", False)


class TestSpaces:
    @pytest.mark.parametrize("tokenizer", [LLAMA, METASPACE, OnlyDecodes(LLAMA), OnlyDecodes(METASPACE)])
    def test_only_the_very_first_space_of_sentencepiece_is_dropped(self, tokenizer: Any) -> None:
        hello = token_id(tokenizer, "▁Hello")
        assert stream(tokenizer, [hello, hello]) == ("Hello Hello", False)

    @pytest.mark.parametrize("tokenizer", [LLAMA, OnlyDecodes(LLAMA)])
    def test_a_space_that_is_the_first_token_is_dropped_and_the_next_one_is_not(self, tokenizer: Any) -> None:
        space, hello, byte = (token_id(tokenizer, text) for text in ("▁", "▁Hello", "<0x20>"))
        for ids in ([space, hello], [space, space, hello], [byte, hello], [hello, space, byte, hello]):
            assert stream(tokenizer, ids) == (whole(inner(tokenizer), ids), False)

    @pytest.mark.parametrize("tokenizer", [LLAMA, METASPACE, OnlyDecodes(LLAMA), SlowOfTransformers(LLAMA)])
    def test_spaces_beside_added_tokens_stay(self, tokenizer: Any) -> None:
        hello, think = (token_id(tokenizer, text) for text in ("▁Hello", "<think>"))
        detokenizer = Detokenizer(tokenizer)
        if not isinstance(tokenizer, OnlyDecodes):
            assert detokenizer.push(think) == ("", "<think>")
            assert detokenizer.push(hello) == (" Hello", "")
            assert detokenizer.push(think) == ("", "<think>")
        else:
            assert detokenizer.push(hello) == ("Hello", "")
        assert detokenizer.push(hello) == (" Hello", "")

    def test_spaces_are_not_tidied_up_by_transformers(self) -> None:
        ids = encode(BYTE_LEVEL, "a , b")
        assert stream(FastOfTransformers(BYTE_LEVEL), ids) == ("a , b", False)
        assert stream(SlowOfTransformers(LLAMA), encode(LLAMA, "a , b")) == ("a , b", False)


class TestAddedTokens:
    @pytest.mark.parametrize("tokenizer", REAL)
    def test_added_tokens_come_as_their_literal_special_or_not(self, tokenizer: Tokenizer) -> None:
        detokenizer = Detokenizer(tokenizer)
        for text in ADDED:
            assert detokenizer.push(token_id(tokenizer, text)) == ("", text)
        assert detokenizer.flush() == ("", False)

    def test_the_ids_of_added_tokens_are_listed(self) -> None:
        assert added_tokens(BYTE_LEVEL) == {text: token_id(BYTE_LEVEL, text) for text in ADDED}
        assert added_tokens(FastOfTransformers(BYTE_LEVEL)) == added_tokens(BYTE_LEVEL)
        slow = SlowOfTransformers(LLAMA)
        assert added_tokens(slow) == {text: token_id(LLAMA, text) for text in ("<s>", "<think>", "</think>")}
        assert added_tokens(OnlyDecodes(LLAMA)) == {}
        assert Detokenizer(BYTE_LEVEL).added == {token: text for text, token in added_tokens(BYTE_LEVEL).items()}

    def test_text_that_spells_an_added_token_is_text(self) -> None:
        ids = [token for part in ("<thi", "nk>") for token in encode(BYTE_LEVEL, part)]
        detokenizer = Detokenizer(BYTE_LEVEL)
        pushed = [detokenizer.push(token) for token in ids]
        assert "".join(text for text, _ in pushed) == "<think>"
        assert not any(literal for _, literal in pushed)

    @pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, LLAMA, SlowOfTransformers(LLAMA)])
    def test_a_character_cut_by_an_added_token_comes_out_broken_before_it(self, tokenizer: Any) -> None:
        think = token_id(tokenizer, "<think>")
        ids = encode(inner(tokenizer), "a\U00012345")
        detokenizer = Detokenizer(tokenizer)
        assert "".join(part for token in ids[:-1] for part in detokenizer.push(token)) == "a"
        text, literal = detokenizer.push(think)
        assert set(text) == {"\ufffd"}
        assert literal == "<think>"
        # The rest of the character is broken too, and the text after it is whole.
        more = "".join(part for token in [ids[-1], *ids[-4:]] for part in detokenizer.push(token))
        assert more == "\ufffd\U00012345"


class TestCutsAndInvalidBytes:
    @pytest.mark.parametrize("tokenizer", ALL)
    @pytest.mark.parametrize("missing", [1, 2, 3])
    def test_a_character_cut_at_the_end_is_reported(self, tokenizer: Any, missing: int) -> None:
        ids = encode(inner(tokenizer), "ok \U00012345")[:-missing]
        text, cut = stream(tokenizer, ids)
        assert cut
        assert text.rstrip("\ufffd") == "ok "
        assert text.endswith("\ufffd")

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_flushing_twice_gives_nothing_more_and_text_may_follow(self, tokenizer: Any) -> None:
        ids = encode(inner(tokenizer), "a\U00012345")
        detokenizer = Detokenizer(tokenizer)
        for token in ids[:-1]:
            detokenizer.push(token)
        assert detokenizer.flush()[1]
        assert detokenizer.flush() == ("", False)
        assert "".join(part for token in ids[-4:] for part in detokenizer.push(token)) == "\U00012345"

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_invalid_bytes_come_out_broken_and_what_follows_is_whole(self, tokenizer: Any) -> None:
        backend = inner(tokenizer)
        bad, good = token_id(backend, "ÿ" if backend is BYTE_LEVEL else "<0xFF>"), encode(backend, "天\U00012345!")
        for count in (1, 2, 3, 50):
            text, cut = stream(tokenizer, [*good, *[bad] * count, *good])
            once = stream(tokenizer, good)[0]
            assert text.replace("\ufffd", "|").replace(" ", "") == once + "|" * count + once
            assert not cut

    @pytest.mark.parametrize("tokenizer", ALL)
    def test_a_long_run_of_bytes_that_complete_nothing_is_not_held(self, tokenizer: Any) -> None:
        backend = inner(tokenizer)
        bad = token_id(backend, "Ģ" if backend is BYTE_LEVEL else "<0x80>")
        detokenizer = Detokenizer(tokenizer)
        out = [detokenizer.push(bad)[0] for _ in range(100)]
        assert len("".join(out)) >= 96
        assert len("".join(out)) + len(detokenizer.flush()[0]) == 100

    @given(st.lists(st.integers(0, 340)), st.sampled_from([param.values[0] for param in ALL]))
    def test_no_sequence_of_ids_raises_or_loses_valid_text(self, ids: list[int], tokenizer: Any) -> None:
        plain = [token for token in ids if token not in inner(tokenizer).get_added_tokens_decoder()]
        text, _ = stream(tokenizer, plain)
        expected = whole(inner(tokenizer), plain)
        if "\ufffd" not in expected:
            assert text == expected
        elif inner(tokenizer) is BYTE_LEVEL:
            assert text.replace("\ufffd", "") == expected.replace("\ufffd", "")

    @given(st.lists(st.integers(0, 255)))
    def test_known_bytes_break_exactly_as_the_tokenizer_breaks_them(self, ids: list[int]) -> None:
        assert stream(BYTE_LEVEL, ids)[0] == whole(BYTE_LEVEL, ids)


class TestBytesOfOneToken:
    @pytest.mark.parametrize("tokenizer", ALL)
    @pytest.mark.parametrize("text", TEXTS)
    def test_known_bytes_of_all_tokens_make_up_the_text(self, tokenizer: Any, text: str) -> None:
        ids = encode(inner(tokenizer), f"a{text}<|im_end|>")
        found = [token_bytes(tokenizer, token) for token in ids]
        known = [data for data in found if data is not None]
        if len(known) == len(found):
            assert b"".join(known).decode().lstrip() == stream(tokenizer, ids)[0].lstrip()
        else:
            assert isinstance(tokenizer, OnlyDecodes | SlowOfTransformers)
        assert found[-1] == b"<|im_end|>"

    @pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, LLAMA, GEMMA])
    def test_a_token_of_part_of_a_character_is_its_bytes(self, tokenizer: Tokenizer) -> None:
        ids = encode(tokenizer, "a\U00012345")[-4:]
        assert [token_bytes(tokenizer, token) for token in ids] == [b"\xf0", b"\x92", b"\x8d", b"\x85"]

    def test_a_decode_only_tokenizer_hides_the_bytes_of_part_of_a_character(self) -> None:
        ids = encode(BYTE_LEVEL, "a\U00012345")
        assert [token_bytes(OnlyDecodes(BYTE_LEVEL), token) for token in ids] == [b"a", None, None, None, None]

    def test_an_id_that_the_vocabulary_lacks_stands_for_nothing(self) -> None:
        assert token_bytes(BYTE_LEVEL, 10**6) == b""


class TestCost:
    @pytest.mark.parametrize("backend", [BYTE_LEVEL, LLAMA, METASPACE])
    @pytest.mark.parametrize("body", ["Hello a 天气🤔 ", "\ufffd", "\U00012345", 1_000_000, "<0xFF>"])
    def test_a_window_stays_short_however_long_the_text(self, backend: Tokenizer, body: str | int) -> None:
        """Also over ids without text, and over bytes that complete nothing."""
        tokenizer = OnlyDecodes(backend)
        detokenizer = Detokenizer(tokenizer)
        byte = backend.token_to_id(str(body)) if body == "<0xFF>" else None
        ids = [body] if isinstance(body, int) else encode(backend, body) if byte is None else [byte]
        for token in ids * 300:
            tokenizer.asked.clear()
            detokenizer.push(token)
            assert sum(tokenizer.asked) <= 100

    @pytest.mark.parametrize("kind", [OnlyDecodes, Slotted])
    def test_a_tokenizer_is_examined_once(self, kind: type[OnlyDecodes] | type[Slotted]) -> None:
        tokenizer = kind(LLAMA)
        Detokenizer(tokenizer)
        assert tokenizer.asked
        tokenizer.asked.clear()
        for _ in range(3):
            Detokenizer(tokenizer)
        assert not tokenizer.asked

    def test_tokenizers_that_must_be_kept_alive_are_kept_in_small_number(self) -> None:
        tokenizers = [Slotted(make_words(None)) for _ in range(20)]
        for tokenizer in tokenizers:
            assert stream(tokenizer, [1, 2]) == ("Hello world", False)
        first = tokenizers[0]
        first.asked.clear()
        Detokenizer(first)
        assert first.asked  # it is examined again, because it had been released

    def test_a_tokenizer_is_not_kept_alive(self) -> None:
        makers: list[Callable[[], Any]] = [
            # Not all versions of `tokenizers` allow weak references, so the test watches an object that contains one.
            *(lambda: OnlyDecodes(LLAMA), lambda: FastOfTransformers(LLAMA), lambda: FastOfTransformers(BYTE_LEVEL))
        ]
        for make in makers:
            tokenizer = make()
            stream(tokenizer, [300, 301])
            alive = weakref.ref(tokenizer)
            del tokenizer
            gc.collect()
            assert alive() is None


class TestIndependence:
    @pytest.mark.parametrize("tokenizer", ALL)
    def test_streams_of_one_tokenizer_do_not_touch_each_other(self, tokenizer: Any) -> None:
        ids = [encode(inner(tokenizer), text) for text in TEXTS if "<" not in text]
        streams = [Detokenizer(tokenizer) for _ in ids]
        out = ["" for _ in ids]
        for step in range(max(map(len, ids))):
            for n, tokens in enumerate(ids):
                if step < len(tokens):
                    out[n] += "".join(streams[n].push(tokens[step]))
        assert out == [stream(tokenizer, tokens)[0] for tokens in ids]


def test_long_texts_are_counted_in_parts_and_the_counting_can_be_stopped() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = "a b\n" * 100_000 + "b " * 100_000
    parts = []
    assert counted(tokenizer, text, lambda: parts.append(1)) == len(encoded(tokenizer, text)) == 300_000
    assert 2 < len(parts) < 6

    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        counted(tokenizer, text, stop)
