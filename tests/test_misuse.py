"""Misuse of every public function: the error names the argument, what it got and what is allowed; nothing breaks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import Parser, UnknownDialect
from unspool.wire import ChatWriter

from .support import DIALECTS, tool

parse: Any = unspool.parse
render: Any = unspool.render
constrain: Any = unspool.constrain
detect_dialect: Any = unspool.detect_dialect
detect_stage: Any = unspool.detect_stage
get_dialect: Any = unspool.get_dialect
load_dialect: Any = unspool.load_dialect
fold: Any = unspool.fold
structure_constraint: Any = unspool.structure_constraint
structure_info: Any = unspool.structure_info
choose_dialect: Any = unspool.choose_dialect
infer_dialect: Any = unspool.infer_dialect
prove_dialect: Any = unspool.prove_dialect
TOOLS = [tool("f", a="string")]
MESSAGES = [{"role": "user", "content": "Hi"}]


def new(**options: Any) -> Any:
    return Parser(**{"dialect": "hermes", **options})


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no text": (lambda: parse(None, "hermes"), "text: must be a string, not None"),
    "bytes as text": (lambda: parse(b"Hi", "hermes"), "text: must be a string, not bytes; decode"),
    "no dialect": (lambda: parse("Hi", None), "dialect: must be the name of a dialect or a Dialect, not None"),
    "a path as dialect": (lambda: parse("Hi", Path("x.toml")), "dialect: must be the name of a dialect or a Dialect"),
    "a dict as policy": (lambda: new(policy={"bad_arguments": "drop"}), "policy: must be a Policy, such as Policy("),
    "an empty dict as policy": (lambda: new(policy={}), "policy: must be a Policy"),
    "tools as JSON": (lambda: new(tools='[{"name": "f"}]'), "tools: must be a list of tools, not a string"),
    "a single tool": (lambda: new(tools=TOOLS[0]), "tools: must be a list of tools, not an object"),
    "names as tools": (lambda: new(tools=["f"]), r"tools[0]: must be an object, not a string"),
    "messages as prompt": (lambda: new(prompt=MESSAGES), "prompt: must be the rendered prompt, its text or its token"),
    "a dict as prompt": (lambda: new(prompt=MESSAGES[0]), "not dict; render messages with the model's chat template"),
    "bytes as prompt": (lambda: new(prompt=b"<think>"), "prompt: must be the rendered prompt, its text or its token"),
    "ids without a tokenizer": (lambda: new(prompt=[1, 2]), "prompt: token ids need a tokenizer"),
    "a stage of no name": (lambda: new(stage="thinking"), "is not one of reasoning, content, tool_call, undecided"),
    "a chunk's stage of no name": (lambda: new().feed("x", stage="soon"), "stage: 'soon' is not one of reasoning, "),
    "a number as stage": (lambda: new(stage=3), "stage: 3 is not one of reasoning, content"),
    "a path as tokenizer": (lambda: new(tokenizer="tokenizer.json"), "tokenizer: must be a tokenizer (an object with"),
    "a list as ids": (lambda: new(ids=["a"]), "ids: must be a callable (index, name) -> str or None, not list"),
    "a number as finish reason": (lambda: parse("Hi", "hermes", finish_reason=3), "finish_reason: must be a string or"),
    "text for tokens": (lambda: new().feed_tokens("Hi"), "ids: must be token ids, an iterable of integers, not str"),
    "one token": (lambda: new().feed_tokens(3), "ids: must be token ids, an iterable of integers, not int"),
    "texts for tokens": (lambda: new().feed_tokens(["Hi"]), "ids[0]: must be a token id, an integer, not str"),
    "a negative token": (lambda: new().feed_tokens([1, -1]), "ids[1]: -1 is not a token id"),
    "tokens without a tokenizer": (lambda: new().feed_tokens([1]), "feed_tokens: the parser has no tokenizer; pass"),
    "rendering text": (lambda: render("Hi", "hermes"), "message: must be a Message or an OpenAI assistant message, no"),
    "rendering at no stage": (lambda: render({"content": "x"}, "hermes", stage="prose"), "stage: 'prose' is not one"),
    "rendering without a dialect": (lambda: render({"content": "Hi"}, None), "dialect: must be the name of a dialect"),
    "rendering with tools as JSON": (lambda: render({"content": "Hi"}, "hermes", tools="[]"), "tools: must be a list"),
    "a grammar of no dialect": (lambda: constrain(3, TOOLS), "dialect: must be the name of a dialect or a Dialect, no"),
    "a grammar of JSON": (lambda: constrain("hermes", "[]"), "tools: must be a list of tools, not a string"),
    "a level by its name": (lambda: constrain("hermes", TOOLS, strict_level="function"), "strict_level: must be a Too"),
    "a flag by its name": (lambda: constrain("hermes", TOOLS, "required", "false"), "parallel_tool_calls: must be tru"),
    "a grammar for messages": (lambda: constrain("hermes", TOOLS, "required", prompt=MESSAGES),
     "prompt: must be the r"),
    "a format as text": (lambda: constrain("hermes", response_format="json"), "response_format: must be an object"),
    "a grammar with a path as tokenizer": (lambda: constrain("hermes", TOOLS, "required", tokenizer="x.json"),
     "tokenizer: must be a tokenizer (an object"),
    "grammars in a list": (lambda: constrain("hermes", TOOLS, "required", grammars=[]), "grammars: must be an object"),
    "a grammar as text": (lambda: constrain("hermes", TOOLS, "required", grammars={"f": "start: /a/"}),
     "grammars['f']: must be a Freeform, not str"),
    "a flag by its name for a host": (lambda: structure_constraint("hermes", TOOLS, "required", "false"),
     "parallel_tool_calls: must be true or false, not str"),
    "a level as a number for a host": (lambda: structure_constraint("hermes", TOOLS, strict_level=2),
     "strict_level: must be a ToolStrictLevel, not int"),
    "an info of a number": (lambda: structure_info("hermes", 3), "tool: must be an OpenAI tool dict, or a tool's name"),
    "an info with a text as index": (lambda: structure_info("hermes", "f", index="1"), "index: must be an integer fr"),
    "an info before the first": (lambda: structure_info("hermes", "f", index=-1), "index: -1 is not an index; it coun"),
    "an info without dialect": (lambda: structure_info(None, "f"), "dialect: must be the name of a dialect or a Dial"),
    "a stage of no prompt": (lambda: detect_stage("hermes", None), "prompt: must be the rendered prompt"),
    "a stage of no dialect": (lambda: detect_stage(None, "x"), "dialect: must be the name of a dialect or a Dialect"),
    "detecting nothing": (lambda: detect_dialect(), "detect_dialect: needs model=, chat_template= or output="),
    "detecting by a number": (lambda: detect_dialect(3), "model: must be a model's name or None, not int"),
    "detecting by bytes": (lambda: detect_dialect(chat_template=b"x"), "chat_template: must be the text of a chat"),
    "detecting by a number as output": (lambda: detect_dialect(output=3), "output: must be a string or a list of stri"),
    "detecting with a number to call": (lambda: detect_dialect(output="Hi", awaited=3), "awaited: must be a callable"),
    "choosing by bytes": (lambda: choose_dialect(b"x"), "template: must be the text of a chat template, not bytes"),
    "choosing by a number as model": (lambda: choose_dialect("x", model=3), "model: must be a model's name or None"),
    "choosing by a text as response template": (lambda: choose_dialect("x", response_template="{}"),
     "response_template: must be an object or None, not str"),
    "proving a name": (lambda: prove_dialect("hermes", "x"), "dialect: must be a Dialect, such as get_dialect(name)"),
    "proving without a template": (lambda: prove_dialect(DIALECTS[0], None), "template: must be the text of a chat"),
    "inferring by bytes": (lambda: infer_dialect(b"x"), "template: must be the text of a chat template, not bytes"),
    "inferring with a path as tokenizer": (lambda: infer_dialect("x", "tokenizer.json"), "tokenizer: must be a tokeni"),
    "inferring with tokens in a list": (lambda: infer_dialect("x", special_tokens=["<s>"]), "special_tokens: must be"),
    "inferring with a token by its id": (lambda: infer_dialect("x", special_tokens={"bos_token": 1}),
     "special_tokens['bos_token']: must be a string, not int"),
    "inferring with limits in a dict": (lambda: infer_dialect("x", limits={}), "limits: must be Limits or None, not"),
    "getting no dialect": (lambda: get_dialect(None), "name: must be the name of a dialect, not None"),
    "reasoning of an object": (lambda: get_dialect("hermes", DIALECTS[0]), "reasoning: must be the name of a dialect"),
    "loading a number": (lambda: load_dialect(3), "path: must be the path of a TOML file, not int"),
    "loading a name": (lambda: load_dialect("hermes"), "hermes: no such file; a shipped dialect is get_dialect('herme"),
    "loading no file": (lambda: load_dialect("none.toml"), "none.toml: No such file or directory"),
    "parsing with a file's name": (lambda: unspool.parse("Hi", "mine.toml"), "a file is load_dialect('mine.toml')"),
    "folding nothing": (lambda: fold(None), "events: must be a list of events, not None"),
    "folding text": (lambda: fold("Hi"), "events: must be a list of events, not str"),
    "folding lists of events": (lambda: fold([new().feed("Hi")]), "events[0]: must be an event, not list"),
    "folding part of a call": (lambda: fold([unspool.ToolCallDelta(0, "{", 0, 1)]), "events[0]: refers to a call with"),
    "a policy of no value": (lambda: unspool.Policy(bad_arguments="fix"), "policy.bad_arguments: 'fix' is not one of"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_misuse_names_the_argument_and_what_is_allowed(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "(model='Qwen/Qwen3-Coder-30B-A3B-Instruct') finds 'qwen3-coder'"),
        ("deepseek-ai/DeepSeek-V3.1", "finds 'deepseekv31'"),
        ("somebody/some-model", "for a model's name see detect_dialect(model='somebody/some-model')"),
        ("hermess", "did you mean hermes?"),
        ("nope", "there is no dialect 'nope'; see list_dialects()"),
    ],
)
def test_a_models_name_in_place_of_a_dialects_points_to_detection(name: str, message: str) -> None:
    for call in (parse, lambda text, name: Parser(name), lambda text, name: get_dialect(name)):
        with pytest.raises(UnknownDialect) as caught:
            call("Hi", name)
        assert message in str(caught.value)


class Letters:
    def decode(self, ids: list[int], **options: Any) -> str:
        return "".join(map(chr, ids))


PIECES = [
    "<think>pl",
    "an</think>\n\nSure.",
    '\n<tool_call>\n{"name": "f", "arguments": {"a": "x',
    "y",
    '"}}\n</tool_call>',
]
REFUSED: list[Callable[[Any], Any]] = [
    lambda p: p.feed(b"bytes"),
    lambda p: p.feed(None),
    lambda p: p.feed(["text"]),
    lambda p: p.feed("text", "nowhere"),
    lambda p: p.feed_tokens("text"),
    lambda p: p.feed_tokens([1, "x"]),
    lambda p: p.feed_tokens([1, -1]),
    lambda p: p.feed_tokens([1], "nowhere"),
    lambda p: p.close(3),
]


def feed_both(pieces: list[Any], way: str, **options: Any) -> Any:
    """Feed two parsers alike, one of which is misused before each piece, and return that one."""
    plain, tried = (new(tools=TOOLS, ids=lambda i, name: f"{i}", **options) for _ in range(2))
    for piece in pieces:
        getattr(plain, way)(piece)
        for wrong in REFUSED:
            # Deep inside a string, the parser does not check what it is fed before Python itself refuses it.
            with pytest.raises((TypeError, ValueError, AttributeError)):
                wrong(tried)
        getattr(tried, way)(piece)
    assert plain.close() == tried.close()
    assert plain.message == tried.message
    return tried


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "gemma4", "pythonic"])
def test_a_refused_call_leaves_the_parser_as_it_was(name: str) -> None:
    dialect = unspool.get_dialect(name)
    raw = next(e.raw[0] for e in dialect.examples if e.tool_calls)
    for pieces in ([raw[i : i + 3] for i in range(0, len(raw), 3)], [raw]):
        feed_both(pieces, "feed", dialect=dialect)


def test_a_refused_call_leaves_a_parser_of_tokens_as_it_was() -> None:
    tried = feed_both([[*map(ord, piece)] for piece in PIECES], "feed_tokens", tokenizer=Letters())
    assert [c.arguments for c in tried.message.tool_calls] == ['{"a": "xy"}']


def writer() -> Any:
    return ChatWriter(id="x", model="m", created=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: writer().whole(unspool.Message()), "messages: must be a list of messages, not Message"),
        (lambda: writer().whole([{"content": "Hi"}]), "messages[0]: must be a Message, not dict"),
        (lambda: writer().events(0, None), "events: must be a list of events, not None"),
        (lambda: writer().events(0, ["Hi"]), "events: must be a list of events; it contains str"),
        (lambda: writer().events(3, []), "choice: 3 is not between 0 and 0"),
    ],
)
def test_writers_of_protocols_refuse_other_objects_than_events_and_messages(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert message in str(caught.value)
