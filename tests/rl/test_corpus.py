"""Conversations have the ids of transformers' own rendering, wherever the template keeps what it wrote."""

import copy
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import unspool
from tests.tokenizer import byte_level
from unspool import DialectError, TemplateError
from unspool.rl import SAMPLED, Conversation

from ..templates.table import SOURCES, Source
from ..templates.turns import TOOLS

pytestmark = [pytest.mark.rollouts, pytest.mark.filterwarnings("ignore")]

Message = dict[str, Any]
_MARKER = re.compile(r"<[|/\w｜▁:]+>|\[/?[A-Z_]+\]")
ASKED: Message = {"role": "user", "content": "What's é? "}
AGAIN: Message = {"role": "user", "content": "And then?"}
CALL_ID = "callid000"
_TEXTS = ("What's é?", "20 °C", "Let me see:\n1. this\n2. that.", '"quoted" {and} <b>', "你好", "x" * 40, "a\tb", "0")


@cache
def tokenizer(template: str, dialect: str, kind: str = "bytes") -> Tokenizer:
    """A tokenizer with a token for every byte and for every marker of the template.

    The kind ``merges`` also has tokens of several bytes; in the kind ``text``, only the ends of answers are markers.
    """
    ends = [e for e in unspool.get_dialect(dialect).end if not e.isspace()]
    marks = sorted({*(_MARKER.findall(template) if kind != "text" else ()), *ends, "<BOS>", "<EOS>"})
    return byte_level(corpus=[template, *_TEXTS], size=0 if kind == "bytes" else 700, special=marks)


class Theirs:
    """Prompts as transformers renders them."""

    def __init__(self, source: Source, text: str) -> None:
        self.utils = import_module("transformers.utils.chat_template_utils")
        self.text, self.variables = text, {"bos_token": "<BOS>", "eos_token": "<EOS>", **source.variables}

    def __call__(self, messages: list[Message], *, generate: bool = True) -> str:
        text: str = self.utils.render_jinja_template(
            [copy.deepcopy(messages)],
            tools=copy.deepcopy(TOOLS),
            chat_template=self.text,
            add_generation_prompt=generate,
            **self.variables,
        )[0][0]
        return text


def _answer(source: Source, thought: str, content: str, arguments: Message | None) -> Message:
    message: Message = {"role": "assistant", "content": content}
    if arguments is not None:
        styled: Any = arguments if source.arguments == "object" else json.dumps(arguments, ensure_ascii=False)
        dialect = unspool.get_dialect(source.dialect)
        id = dialect.id.format(index=0, name="get_weather") if "{index}" in dialect.id else CALL_ID
        function = {"name": "get_weather", "arguments": styled}
        message["tool_calls"] = [{"id": id, "type": "function", "function": function}]
    if thought and source.reasoning == "parts":
        message["content"] = [
            {"type": "thinking", "thinking": thought},
            *([{"type": "text", "text": content}] if content else []),
        ]
    elif thought:
        message |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), thought)
    return message


def _generated(source: Source, theirs: Theirs, history: list[Message], answer: Message) -> str | None:
    """The text of an answer, with its end, as the template writes it after its prompt; ``None`` if it does not."""
    prompt, whole = theirs(history), theirs([*history, answer], generate=False)
    if not whole.startswith(prompt):
        return None
    text = whole[len(prompt) :]
    ends = [*unspool.get_dialect(source.dialect).end, "<EOS>"]
    last = max((at + len(e) for e in ends if e.strip() and (at := text.rfind(e)) >= 0), default=len(text))
    return text[:last]


def test_a_tokenizer_of_transformers_brings_its_own_template(tmp_path: Path) -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    theirs = import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_object=tokenizer("<|im_start|><|im_end|>", "hermes"), bos_token="<BOS>", eos_token="<|im_end|>"
    )
    theirs.chat_template = template
    theirs.save_pretrained(tmp_path)
    messages = [ASKED, {"role": "assistant", "content": "Hi."}, AGAIN]
    wanted = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    answer = theirs("Hi.<|im_end|>", add_special_tokens=False)["input_ids"]
    for given in (theirs, tmp_path):
        conversation = Conversation("hermes", given, messages=[ASKED])
        conversation.extend(answer)
        conversation.add([AGAIN])
        assert conversation.prompt() == wanted
        assert conversation.rewrites == []


def _rendered(name: str, answer: Message, thought: str, prompt: str) -> str:
    dialect = unspool.get_dialect(name)
    message: Message = {"role": "assistant", "content": None if "tool_calls" in answer else "Hello there."}
    message["reasoning_content"] = thought if thought and dialect.reasoning else None
    if "tool_calls" in answer:
        function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        message["tool_calls"] = [{**answer["tool_calls"][0], "function": function}]
    text = unspool.render(message, dialect, tools=TOOLS, stage=unspool.detect_stage(dialect, prompt))
    return text + (dialect.end[0] if dialect.end else "<EOS>")


CASES: dict[str, tuple[str, bool]] = {
    "tool": ("", True),
    "thought-tool": ("plan it", True),
    "user": ("", False),
    "thought-user": ("plan it", False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
def test_ids_equal_transformers_exactly_if_the_template_keeps_history(
    source: Source, case: str, templates: dict[str, Path]
) -> None:
    text = source.text(templates)
    if "%M" in text:
        pytest.skip("the template tells the time of day, which goes on")
    theirs = Theirs(source, text)
    thought, calls = CASES[case]
    answer = _answer(source, thought, "" if calls else "Hello there.", {"city": "Paris"} if calls else None)
    try:
        first = theirs([ASKED])
        written = _generated(source, theirs, [ASKED], answer)
    except Exception as error:
        pytest.skip(f"transformers refuses: {error}")
    tok = tokenizer(text, source.dialect)

    def encode(text: str) -> list[int]:
        ids: list[int] = tok.encode(text, add_special_tokens=False).ids
        return ids

    special = {"bos_token": "<BOS>", "eos_token": "<EOS>"}
    conversation = Conversation(
        source.dialect, tok, template=text, messages=[ASKED], tools=TOOLS, variables=source.variables, special=special
    )
    assert conversation.prompt() == encode(first)
    if written is None:  # the template does not write it after its own prompt, so the dialect does
        written = _rendered(source.dialect, answer, thought, first)
    else:
        transcript = conversation.sft([ASKED, answer])
        assert transcript.ids.tolist() == encode(theirs([ASKED, answer], generate=False))
        assert tok.decode(transcript.ids[transcript.mask].tolist(), skip_special_tokens=False) == written
    message = conversation.extend(encode(written))
    new = [AGAIN]
    if calls:
        if not message.tool_calls:
            pytest.skip("the dialect does not read the call")
        id = answer["tool_calls"][0]["id"]
        conversation._history[-1]["tool_calls"][0]["id"] = id
        new = [{"role": "tool", "tool_call_id": id, "name": "get_weather", "content": "20 °C"}]
    try:
        whole = theirs([ASKED, answer, *new])
    except Exception as error:
        pytest.skip(f"transformers refuses: {error}")
    before = conversation.ids.tolist()
    conversation.add(new)
    assert conversation.ids.tolist()[: len(before)] == before
    if [r.what for r in conversation.rewrites] != ["behind"]:
        assert len(conversation._opening) > len(new[0]["content"])
        assert whole.endswith(conversation._opening)
    if conversation.rewrites:
        assert not whole.startswith(first + written), conversation.rewrites
    else:
        assert tok.decode(conversation.ids.tolist(), skip_special_tokens=False) == whole
        assert conversation.ids.tolist() == encode(whole)


# -- random conversations ----------------------------------------------------------------------------------------------

KINDS = ("bytes", "merges", "text")


class Walk:
    """A random conversation with a template, and transformers' rendering of it."""

    def __init__(self, source: Source, text: str, kind: str, seed: int) -> None:
        self.rng = random.Random(f"{source} {kind} {seed}")
        self.source, self.kind, self.theirs = source, kind, Theirs(source, text)
        self.tokenizer = tokenizer(text, source.dialect, kind)
        self.history: list[Message] = [{"role": "user", "content": self.text()}]
        self.conversation = Conversation(
            source.dialect,
            self.tokenizer,
            template=text,
            messages=self.history,
            tools=TOOLS,
            variables=source.variables,
            special={"bos_token": "<BOS>", "eos_token": "<EOS>"},
        )

    def text(self) -> str:
        return self.rng.choice(_TEXTS)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self) -> str:
        text: str = self.tokenizer.decode(self.conversation.ids.tolist(), skip_special_tokens=False)
        return text

    def answer(self) -> tuple[Message, str] | None:
        """An answer, and its text as the template or else the dialect writes it; ``None`` if neither does."""
        thought = self.text() if self.rng.random() < 0.5 else ""
        count = self.rng.choice((0, 0, 1, 1, 2))
        content = self.text() if not count or self.rng.random() < 0.3 else ""
        answer = _answer(self.source, thought, content, {"city": self.text()} if count else None)
        if count == 2:
            first = answer["tool_calls"][0]
            second = {**first["function"], "name": "now", "arguments": "{}" if self.source.arguments == "text" else {}}
            id = first["id"].replace("get_weather", "now").replace("0", "1")
            answer["tool_calls"].append({**first, "id": id, "function": second})
        try:
            written = _generated(self.source, self.theirs, self.history, answer)
        except Exception:  # the template refuses it
            return None
        if written is not None:
            return answer, written
        prompt = self.theirs(self.history)
        dialect = unspool.get_dialect(self.source.dialect)
        calls = [
            {**c, "function": {**c["function"], "arguments": json.dumps(a) if not isinstance(a, str) else a}}
            for c in answer.get("tool_calls", ())
            for a in [c["function"]["arguments"]]
        ]
        message = {"role": "assistant", "content": content or None, "tool_calls": calls or None}
        if thought and dialect.reasoning:
            message["reasoning_content"] = thought
        try:
            said = unspool.render(message, dialect, tools=TOOLS, stage=unspool.detect_stage(dialect, prompt))
        except DialectError:
            return None
        return answer, said + (dialect.end[0] if dialect.end else "<EOS>")

    def results(self, calls: Any) -> list[Message]:
        return [
            {"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": self.text()}
            for c in calls
        ]


def _walks(source: Source, templates: dict[str, Path], seeds: int) -> Iterator[Walk]:
    text = source.text(templates)
    if "%M" in text:
        pytest.skip("the template tells the time of day, which goes on")
    for seed in range(seeds):
        try:
            walk = Walk(source, text, KINDS[seed % len(KINDS)], seed)
            walk.theirs(walk.history)
        except TemplateError as error:
            pytest.skip(str(error))
        yield walk


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
def test_random_conversations_are_those_of_transformers_until_the_template_rewrites(
    source: Source, templates: dict[str, Path]
) -> None:
    turns = 0
    for walk in _walks(source, templates, 12):
        conversation = walk.conversation
        for _ in range(walk.rng.randint(1, 6)):
            made = walk.answer()
            if made is None:
                break
            answer, written = made
            message = conversation.extend(walk.encode(written))
            calls = answer.get("tool_calls", [])
            if [(c.name, c.status) for c in message.tool_calls] != [(c["function"]["name"], "ok") for c in calls]:
                break  # the template cannot write the answer
            for ours, call in zip(conversation._history[-1].get("tool_calls", ()), calls, strict=True):
                ours["id"] = call["id"]  # if the id is written after the arguments, the call already has another one
            new = walk.results(calls) or [{"role": "user", "content": walk.text()}]
            walk.history += [answer, *new]
            try:
                whole = walk.theirs(walk.history)
            except Exception:  # transformers refuses
                break
            before, text = conversation.ids.tolist(), walk.decode()
            added = conversation.add(new)
            assert conversation.ids.tolist() == before + added
            turns += 1
            if conversation.rewrites:
                assert conversation.rewrites[-1].what == "behind" or not whole.startswith(text), conversation.rewrites
                break
            assert walk.decode() == whole
            if walk.kind == "bytes":
                assert conversation.ids.tolist() == walk.encode(whole)
    assert turns > 2


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
def test_ids_only_grow_whatever_is_generated_or_added(source: Source, templates: dict[str, Path]) -> None:
    for walk in _walks(source, templates, 12):
        conversation, size = walk.conversation, walk.tokenizer.get_vocab_size()
        special = sorted(walk.tokenizer.get_added_tokens_decoder())
        spelled = "".join(walk.tokenizer.get_added_tokens_decoder()[i].content for i in special)
        sampled = np.zeros(len(conversation.ids), bool)
        for _ in range(walk.rng.randint(1, 6)):
            made = walk.answer() if walk.rng.random() < 0.6 else None
            ids = walk.encode(made[1]) if made else []
            for _ in range(walk.rng.choice((0, 1, 5, 40))):  # garbage with many markers
                ids.insert(walk.rng.randint(0, len(ids)), walk.rng.choice([walk.rng.randrange(size), *special[:2]]))
            before = conversation.ids.tolist()
            message = conversation.extend(ids, [-0.5] * len(ids), walk.rng.choice(("stop", "length")))
            assert conversation.ids.tolist() == before + ids
            sampled = np.append(sampled, np.ones(len(ids), bool))
            new = walk.results(message.to_openai().get("tool_calls", [])[:1]) or [{"role": "user", "content": ""}]
            plain, evil = ([{**new[0], "content": text}, *new[1:]] for text in ("Zq", f"Zq{spelled}"))
            before = conversation.ids.tolist()
            other = conversation.copy()
            try:
                wanted = other.add(plain)
                added = conversation.add(evil)
            except TemplateError:
                assert conversation.ids.tolist() == before
                break
            assert conversation.ids.tolist() == before + added
            if not conversation.rewrites and not other.rewrites:
                assert [i for i in added if i in special] == [i for i in wanted if i in special]
            sampled = np.append(sampled, np.zeros(len(added), bool))
            assert conversation.mask().tolist() == sampled.tolist()
            assert (~np.isnan(conversation.logprobs)).tolist() == sampled.tolist()
            assert set(conversation.kinds[sampled]) <= set(SAMPLED)
            assert not set(conversation.kinds[~sampled]) & set(SAMPLED)
            assert all(sampled[span.start : span.end].all() for span in conversation.calls)
