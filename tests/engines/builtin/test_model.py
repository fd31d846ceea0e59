"""The builtin model: its arithmetic, its files, its answers, and the examples that it was trained on."""

import itertools
import json
import random
import re
from typing import Any

import numpy as np
import pytest

from models.builtin import evaluate, examples, heldout, tools, words
from models.builtin.phrases import FILLS, PHRASES
from unspool import constrain, get_dialect, parse
from unspool.engines.builtin.model import FOLDER, Model
from unspool.engines.builtin.serving import served
from unspool.grammar.matchers import Llguidance
from unspool.request.prompts import Prompts, read_tokenizer

BAR = 0.85  # of the unseen cases below, of which 9 in 10 were right; the model card has the scores of all
LARGEST = 3_200_000  # bytes
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="module")
def runner() -> evaluate.Runner:
    return evaluate.Runner()


@pytest.fixture(scope="module")
def model(runner: evaluate.Runner) -> Model:
    return runner.model


def tokens_of(model: Model, text: str) -> list[int]:
    ids: list[int] = model.tokenizer.encode(text).ids
    return ids


PROMPT = (
    '<｜begin▁of▁sentence｜>get_weather:\n#get_weather\n"city": string\n'
    "<｜User｜>How is the weather in Łódź?<｜Assistant｜><think>"
)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def test_token_by_token_gives_the_logits_of_the_whole_prompt(model: Model) -> None:
    ids = tokens_of(model, PROMPT)
    _, whole = model.prefill(ids)
    state, logits = model.prefill(ids[:1])
    for token in ids[1:]:
        logits = model.step([state], [token])[0]
    np.testing.assert_allclose(logits, whole, atol=1e-3)


def test_a_long_prompt_read_in_pieces_gives_the_same_logits(model: Model) -> None:
    ids = (tokens_of(model, PROMPT) * 30)[:700]
    _, whole = model.prefill(ids)
    state, _ = model.prefill(ids[:650])
    for token in ids[650:]:
        logits = model.step([state], [token])[0]
    np.testing.assert_allclose(logits, whole, atol=1e-3)


def test_concurrent_sequences_are_independent(model: Model) -> None:
    prompts = [
        tokens_of(model, PROMPT),
        tokens_of(model, "<｜User｜>Hi!<｜Assistant｜></think>"),
        tokens_of(model, "a"),
    ]
    alone = [model.prefill(p)[0] for p in prompts]
    together = [model.prefill(p)[0] for p in prompts]
    for token in tokens_of(model, "This is about the weather."):
        logits = model.step(together, [token] * 3)
        assert logits.shape == (3, model.vocab_size)
        for i, state in enumerate(alone):
            np.testing.assert_allclose(logits[i], model.step([state], [token])[0], atol=1e-3)


def test_logits_are_those_of_a_distribution(model: Model) -> None:
    _, logits = model.prefill(tokens_of(model, PROMPT))
    assert logits.shape == (model.vocab_size,)
    assert logits.dtype == np.float32
    assert np.exp(logits).sum() == pytest.approx(1, abs=1e-3)


def test_an_empty_prompt_is_an_error(model: Model) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        model.prefill([])


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_models_files_are_below_the_size_limit() -> None:
    sizes = [f.stat().st_size for f in FOLDER.iterdir() if f.is_file()]
    assert sum(sizes) < LARGEST


def test_the_tokenizer_spells_any_text(model: Model) -> None:
    texts = [
        PROMPT,
        '{"a": "\\u00e9\\"", "b": [1.5, true]}',
        "日本語 🙂 \t\n  x",
        "ΑΒΓ ǅ ß \u200b",
        "".join(map(chr, range(32, 1000))),
    ]
    for text in texts:
        assert model.tokenizer.decode(tokens_of(model, text), skip_special_tokens=False) == text
    assert model.tokenizer.get_vocab_size() == model.vocab_size


def test_a_word_is_split_alike_with_and_without_a_space_before_it(model: Model) -> None:
    rng = random.Random(3)
    for _ in range(200):
        word = words.made_up(rng).capitalize()
        bare, spaced = (model.tokenizer.encode(t).tokens for t in (word, " " + word))
        assert spaced in (["Ġ" + bare[0], *bare[1:]], ["Ġ", *bare])  # the latter if the first letter is not ASCII


def test_the_template_writes_calls_that_the_dialect_reads() -> None:
    assert Prompts(read_tokenizer(FOLDER)).check(get_dialect("deepseekv31"))


def test_training_prompts_are_those_of_the_template() -> None:
    template = examples.template()
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Łódź?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
        {"role": "assistant", "content": "It is sunny."},
        {"role": "user", "content": "Thanks"},
    ]
    for thinking, opening in ((True, "<think>"), (False, "</think>")):
        prompt = template.render(
            messages=messages, tools=[WEATHER], bos_token=examples.BOS, add_generation_prompt=True, thinking=thinking
        )
        calls = (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Łódź"}'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        )
        assert prompt == (
            "<｜begin▁of▁sentence｜>Be brief.\nget_weather: Get the current weather in a city.\n#get_weather\n"
            '"city": string\n"unit": optional "celsius" or "fahrenheit"\n'
            f"<｜User｜>Weather in Łódź?<｜Assistant｜></think>{calls}<｜end▁of▁sentence｜>"
            "<｜tool▁output▁begin｜>sunny<｜tool▁output▁end｜>It is sunny.<｜end▁of▁sentence｜>"
            f"<｜User｜>Thanks<｜Assistant｜>{opening}"
        )


# --- answers ----------------------------------------------------------------------------------------------------------


def test_unseen_requests_are_answered_as_they_should(runner: evaluate.Runner) -> None:
    cases = evaluate.cases_of()[::8]
    table = evaluate.score(runner, cases)
    right, count = (sum(column) for column in zip(*table.values(), strict=True))
    assert right / count >= BAR, table


@pytest.mark.parametrize("thinking", [True, False])
def test_a_required_call_is_made_in_time_whatever_was_asked(model: Model, thinking: bool) -> None:
    matchers = Llguidance(model.tokenizer, eos=list(model.eos), vocab_size=model.vocab_size)
    template = examples.template()
    schemas: list[dict[str, Any]] = [
        WEATHER["function"]["parameters"],
        {"type": "object", "properties": {}},
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "deep": {"type": "boolean"}, "size": {"type": "number"}},
            "required": ["title", "deep", "size"],
        },
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]},
        {
            "type": "object",
            "properties": {
                "ids": {"type": "array", "items": {"type": "integer"}},
                "deep": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            },
            "required": ["ids", "deep"],
        },
    ]
    texts = ["Weather in Gjøvik?", "Hi", "Write an opera about 17 geese.", "¿Qué hora es?", "Sort 17, 4 and 8."]
    for schema, text in zip(schemas, texts, strict=True):
        declared = {"type": "function", "function": {"name": "do_it", "description": "Does it.", "parameters": schema}}
        prompt = template.render(
            messages=[{"role": "user", "content": text}],
            tools=[declared],
            bos_token=examples.BOS,
            add_generation_prompt=True,
            thinking=thinking,
        )
        constraint = constrain("deepseekv31", [declared], "required", prompt=prompt, tokenizer=model.tokenizer)
        assert constraint is not None
        matcher = matchers.matcher(constraint)
        bounded = served(model)
        state, logits = bounded.prefill(tokens_of(model, prompt))
        ids: list[int] = []
        while len(ids) < 300:
            token = int(np.where(matcher.mask(), logits, -np.inf).argmax())
            if token in model.eos:
                break
            assert matcher.accept(token)
            ids.append(token)
            logits = bounded.step([state], [token])[0]
        output = model.tokenizer.decode(ids, skip_special_tokens=False)
        message = parse(output, "deepseekv31", tools=[declared], prompt=prompt)
        assert len(ids) < 300, output
        assert [c.status for c in message.tool_calls][:1] == ["ok"], output
        json.loads(message.tool_calls[0].arguments)


# --- examples ---------------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_examples() -> None:
    def some(seed: int) -> list[list[examples.Piece]]:
        return list(itertools.islice(examples.examples(seed, 20), 40))

    assert some(5) == some(5)
    assert some(5) != some(6)


def test_every_call_of_the_examples_is_one_that_the_parser_reads_and_the_tools_take() -> None:
    rng = random.Random(8)
    found = 0
    for _ in range(300):
        declared = examples.declared(rng)
        if not declared:
            continue
        asks, _ = examples.requested(rng, declared)
        calls = [(t, a) for t, q in asks if t is not None and (a := examples.arguments(t, q.slots)) is not None]
        if not calls:
            continue
        found += 1
        message = parse(examples.written(calls), "deepseekv31", tools=[t.declaration() for t in declared])
        assert [(c.name, json.loads(c.arguments)) for c in message.tool_calls] == [(t.name, a) for t, a in calls]
        for tool, arguments in calls:
            schema = tool.declaration()["function"]["parameters"]
            assert set(schema.get("required", ())) <= set(arguments) <= set(schema["properties"])
            for name, value in arguments.items():
                assert value in schema["properties"][name].get("enum", [value])
    assert found > 200


def test_no_example_holds_what_the_evaluation_asks() -> None:
    made = "\n".join(
        "".join(piece.text for piece in example) for example in itertools.islice(examples.examples(1), 600)
    )
    for place in heldout.PLACES:
        assert not re.search(rf"\b{re.escape(place)}\b", made)
    for topic in heldout.TOPICS:
        assert topic not in made
    names = [evaluate.name_of(t) for some in heldout.TOOLS.values() for t in some]
    names += [evaluate.name_of(t) for t, *_ in heldout.OTHERS]
    for name in names:
        assert not re.search(rf"(?m)^#{re.escape(name)}\b", made)
    asked = "\n".join(re.findall("<｜User｜>([^<]*)", made))
    for pattern in (*heldout.WEATHER, *heldout.TIME, *heldout.SEARCH, *heldout.CALCULATION):
        before, behind = (re.escape(part.strip(" .?!")) for part in pattern.split("{}"))
        value = r"[\d(][^,]*" if pattern in heldout.CALCULATION else "[^,]+"
        assert not re.search(rf"(?im)^{before}\b\W*{value}\b{behind}[.?!]?$", asked), pattern
    for text in heldout.CHAT:
        assert not re.search(f"<｜User｜>{re.escape(text)}[.?!]*<", made)


WORDS = {"v": words.VERBS, "w": words.COMMON, "a": words.QUALITIES, "tell": PHRASES["frames"]["tell"]}


def ways(phrase: str, value: str) -> str:
    """A pattern for the texts that a phrase of the examples makes with a value."""
    parts = re.split(r"\{(\w+)\}", phrase)
    for i in range(1, len(parts), 2):
        options = WORDS.get(parts[i].rstrip("2")) or FILLS.get(parts[i]) or [value]
        parts[i] = f"(?:{'|'.join(map(re.escape, options))})"
    return "".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts))


@pytest.mark.parametrize("intent", [*tools.INTENTS, "other", "chat"])
def test_no_phrase_of_the_examples_says_what_the_evaluation_asks(intent: str) -> None:
    value = "1 + 2" if intent == "calculation" else "Zyx"
    if intent == "chat":
        asked = heldout.CHAT
        phrases = [*PHRASES["asks"]["other"], *itertools.chain.from_iterable(PHRASES["chat"].values())]
    elif intent == "other":
        asked = [text.replace(str(next(iter(a.values()))), value) for _, text, a in heldout.OTHERS]
        families = [*PHRASES["families"], *PHRASES["demos"]]
        whole = [re.sub(r"\[[^\]]*\]|\{\w+=\w*\}", "", p) for family in families for p in family["asks"]]
        phrases = [re.sub(r"\{\w+\}", "{q}", p) for p in whole]
    else:
        asked = [pattern.format(value) for pattern in getattr(heldout, intent.upper())]
        where = " {at} {place}{when}" if intent in ("weather", "time") else ""
        phrases = [*PHRASES["asks"][intent], *(f"{{tell}} {thing}{where}" for thing in PHRASES["things"][intent])]
    cores = {core for text in asked for core in without_edges(text)}
    for phrase in phrases:
        fixed = re.sub(r"\{\w+\}", "\0", phrase).lower().split("\0")
        near = [core for core in cores if all(part in core.lower() for part in fixed)]
        assert not near or not any(map(re.compile(ways(phrase, value), re.IGNORECASE).fullmatch, near)), phrase


def without_edges(text: str) -> set[str]:
    """A request, with and without the words that the examples put around one, and the punctuation at its end."""
    before = [f"{p.strip()} ".lower() for p in (*PHRASES["frames"]["before"], *PHRASES["frames"]["polite"])]
    marks = len(text) - len(text.rstrip(".?!"))
    found = {text[: len(text) - n] for n in range(marks + 1)}
    found |= {t[: -len(p)] for t in found for p in PHRASES["frames"]["behind"] if p and t.lower().endswith(p.lower())}
    return found | {t[len(p) :] for t in found for p in before if t.lower().startswith(p)}


def test_the_names_of_the_examples_and_of_the_evaluation_have_nothing_in_common() -> None:
    def plain(name: str) -> str:
        return re.sub("[^a-z]", "", name.lower())

    assert not set(words.CITIES) & set(heldout.PLACES)
    own = {plain(title) for titles in PHRASES["titles"].values() for title in titles}
    own |= {plain(name) for kind in ("families", "demos") for family in PHRASES[kind] for name in family["names"]}
    asked = [t["function"] for some in heldout.TOOLS.values() for t in some]
    asked += [t["function"] for t, *_ in heldout.OTHERS]
    assert not own & {plain(f["name"]) for f in asked}
    taken = {name for kind in ("place", "query", "expression") for name in PHRASES["names"][kind]}
    assert not taken & {evaluate.only(t) for some in heldout.TOOLS.values() for t in some}
    descriptions = {text for texts in PHRASES["about"].values() for text in texts}
    assert not descriptions & {f["description"].rstrip(".") for f in asked} - {""}
    rng = random.Random(2)
    assert not words.held_out() & {words.made_up(rng) for _ in range(20_000)}
