"""Only the server that sealed a reasoning can open it, with a key that it still has."""

import base64
import os

import pytest

from unspool.request.sealed import MAX_SEALED, Seal, SealError, read_keys

OLD, NEW = os.urandom(32), os.urandom(32)


def test_what_was_sealed_opens_and_no_two_are_alike() -> None:
    seal = Seal([NEW]).bound_to(b"key")
    made = [seal.seal("plan: 日本\n") for _ in range(2)]
    assert made[0] != made[1]
    assert [seal.open(m or "") for m in made] == ["plan: 日本\n"] * 2
    assert "plan" not in str(base64.urlsafe_b64decode(made[0] or ""))


def test_the_first_key_seals_and_all_open() -> None:
    before, between, after = Seal([OLD]), Seal([NEW, OLD]), Seal([NEW])
    assert between.open(before.seal("a") or "") == "a"
    assert after.open(between.seal("b") or "") == "b"
    with pytest.raises(SealError):
        after.open(before.seal("a") or "")


@pytest.mark.parametrize("other", [Seal([NEW]).bound_to(b"other"), Seal([NEW]), Seal([OLD]).bound_to(b"key")])
def test_another_api_key_or_another_key_opens_nothing(other: Seal) -> None:
    with pytest.raises(SealError, match="made by another server or for another API key"):
        other.open(Seal([NEW]).bound_to(b"key").seal("a") or "")


def test_a_changed_seal_does_not_open() -> None:
    seal = Seal([NEW])
    data = base64.urlsafe_b64decode(seal.seal("ab") or "")
    changed = [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(len(data))]
    for one in [*changed, *(data[:n] for n in range(len(data))), data + b"x"]:
        with pytest.raises(SealError):
            seal.open(base64.urlsafe_b64encode(one).decode())
    for text in ("x", "é", "****", "\ud800", "A" * (MAX_SEALED + 1), " "):
        with pytest.raises(SealError):
            seal.open(text)


def test_reasoning_that_is_too_long_is_not_sealed_and_the_longest_opens_again() -> None:
    seal = Seal([NEW])
    most = MAX_SEALED // 4 * 3 - 64
    longest = seal.seal("a" * most)
    assert longest is not None
    assert len(longest) <= MAX_SEALED
    assert seal.open(longest) == "a" * most
    assert seal.seal("a" * MAX_SEALED) is None


def test_half_a_surrogate_pair_is_sealed_as_a_replacement_character() -> None:
    assert Seal([NEW]).open(Seal([NEW]).seal("a\ud800") or "") == "a\ufffd"


def test_keys_are_read_from_lines_and_wrong_ones_are_refused_without_being_shown() -> None:
    text = f"{base64.b64encode(NEW).decode()}\n{base64.urlsafe_b64encode(OLD).decode()}\n"
    assert read_keys(text) == [NEW, OLD]
    for wrong, said in (("", "no key"), ("secret!", "key 1 is not base64"), ("c2VjcmV0", "key 1 has 6 bytes")):
        with pytest.raises(ValueError, match=said) as error:
            read_keys(wrong)
        assert not wrong or wrong not in str(error.value)
    with pytest.raises(ValueError, match="at least one"):
        Seal([])
