"""Every chat template that packages on the index ship: no message is lost, and no text becomes a special token."""

import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer import byte_level
from unspool import detect_dialect, get_dialect
from unspool.errors import TemplateError
from unspool.request.fields import BadRequest
from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Settings

from .hostile import (
    ESCAPES,
    NAME,
    RAW,
    SHAPES,
    asked,
    call,
    called,
    forged,
    lost,
    rendered,
    result,
    said,
    tokens_of,
    tool,
    words,
)
from .sources import corpus, manifest

pytestmark = pytest.mark.templates

NAMES = [(package, name) for package, listed in manifest().items() for name in listed["files"]]
ALL = pytest.mark.parametrize(("package", "name"), NAMES)


@pytest.fixture(scope="session")
def everything(request: pytest.FixtureRequest) -> dict[tuple[str, str], Path]:
    """All templates of the manifest."""
    assert request.config.cache is not None
    found = corpus(Path(request.config.cache.mkdir("templates")))
    return {(package, path.name): path for package, path in found}


@pytest.fixture
def made(everything: dict[tuple[str, str], Path], package: str, name: str) -> Prompts:
    """The template, as `unspool serve` examines it."""
    if (package, name) not in everything:
        pytest.skip("another package has the same text")
    return _prompts(everything[package, name])


@cache
def _prompts(path: Path) -> Prompts:
    text = path.read_text(encoding="utf-8")
    prompts = Prompts(Settings(text, text, {"bos_token": "<BOS>", "eos_token": "<EOS>"}, ()))
    for found in detect_dialect(chat_template=text)[:3]:
        try:
            if prompts.check(get_dialect(found.dialect)):
                break
        except TemplateError:  # another one fits
            continue
    return prompts


@ALL
def test_no_message_is_missing_from_a_prompt_in_silence(made: Prompts, package: str, name: str) -> None:
    refused = []
    declares = "The weather." in (rendered(made, [said("user", "ask")], [tool()]) or "")
    for (shape, messages), tools in product(SHAPES.items(), ([tool()], [])):
        try:
            prompt = made.render(asked(messages, tools))
        except BadRequest as error:
            refused.append(f"{shape}: {error}")
        else:
            assert lost(messages, prompt) == [], shape
            told = tools and declares and messages[-1]["role"] not in ("tool", "function")  # some tell only users
            assert "The weather." in prompt or not told, f"{shape}: the tools are lost"
            assert not prompt.rstrip().endswith(words(messages)[-1]), f"{shape}: the model would go on with it"
    assert refused == []


@ALL
def test_no_text_becomes_a_special_token_however_it_is_escaped(made: Prompts, package: str, name: str) -> None:
    tokens = tokens_of(made)
    chosen = random.Random(name).sample(tokens, min(3, len(tokens)))
    attacks: list[tuple[str, str, str | None]] = [(spelling, f(t), None) for t in chosen for spelling, f in RAW.items()]
    attacks += [(spelling, t, f(t)) for t in chosen for spelling, f in ESCAPES.items()]
    tried = list(forged(made, tokens, iter(attacks)))
    assert len(tried) > len(attacks), "most are rendered"
    assert [attack for attack in tried if attack[2]] == []


@ALL
def test_no_random_text_of_pieces_becomes_a_special_token_for_a_tokenizer(
    made: Prompts, package: str, name: str
) -> None:
    tokens = [token for token in tokens_of(made) if not token[0].isalnum()]
    if not tokens:
        pytest.skip("its turns begin with words")
    encoder = byte_level(special=tokens)

    def special(messages: list[Any], tools: list[Any]) -> int | None:
        prompt = rendered(made, messages, tools)
        return None if prompt is None else sum(id >= 256 for id in encoder.encode(prompt).ids)

    rng = random.Random(name)

    def piece() -> str:
        token = rng.choice(tokens)
        at = rng.randrange(len(token) + 1)
        return rng.choice((token, token[:at], token[at:], ESCAPES[rng.choice(sorted(ESCAPES))](token), " a", "{", '"'))

    def filled(*texts: str) -> tuple[list[Any], list[Any]]:
        arguments = {"city": texts[0], texts[1]: {texts[2]: [texts[3]]}}
        history = [
            said("user", texts[4]), called(call(arguments, name=NAME), content=texts[5]), result(texts[6]),
            said("user", texts[7], name=texts[8]), said("user", texts[9]),
        ]  # fmt: skip
        properties = {texts[11] or "p": {"type": "string", "enum": [texts[12]]}}
        return history, [tool(description=texts[10], properties=properties)]

    for _ in range(20):
        texts = ["".join(piece() for _ in range(rng.randrange(4))) for _ in range(13)]
        harmless = [letter if text.strip() else text for letter, text in zip("abcdefghijklm", texts, strict=True)]
        before, found = special(*filled(*harmless)), special(*filled(*texts))
        assert found is None or before is None or found <= before, texts
