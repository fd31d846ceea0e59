"""Conversations hold the ids of transformers' own rendering, wherever the template keeps what it wrote."""

import copy
import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool.rl import Conversation

from ..templates.sources import folders
from ..templates.table import SOURCES, Source
from ..templates.turns import TOOLS

pytestmark = [pytest.mark.rollouts, pytest.mark.filterwarnings("ignore")]

Message = dict[str, Any]
_MARKER = re.compile(r"<[|/\w｜▁:]+>|\[/?[A-Z_]+\]")
ASKED: Message = {"role": "user", "content": "What's é? "}
AGAIN: Message = {"role": "user", "content": "And then?"}
CALL_ID = "callid000"


@pytest.fixture(scope="session")
def templates(request: pytest.FixtureRequest) -> dict[str, Path]:
    """The folders of templates."""
    assert request.config.cache is not None
    return folders(Path(request.config.cache.mkdir("templates")))


@cache
def tokenizer(template: str, dialect: str) -> Tokenizer:
    """Every byte a token, and every marker of the template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    ends = [e for e in unspool.get_dialect(dialect).end if not e.isspace()]
    marks = sorted({*_MARKER.findall(template), *ends, "<BOS>", "<EOS>"})
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in marks])
    return made


class Theirs:
    """What transformers renders."""

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
    """The text of an answer as the template has it behind its prompt, its end included; ``None``: otherwise."""
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
def test_ids_are_transformers_own_exactly_where_the_template_keeps_history(
    source: Source, case: str, templates: dict[str, Path]
) -> None:
    text = (templates[source.package] / f"{source.file}.jinja").read_text(encoding="utf-8")
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
        source.dialect,
        tok,
        template=text,
        messages=[ASKED],
        tools=TOOLS,
        variables=source.variables,
        special=special,
    )
    assert conversation.prompt() == encode(first)
    if written is None:  # the template writes it otherwise than behind its own prompt: as the dialect has it
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
