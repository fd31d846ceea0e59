"""From the chat template of an unknown family to a proven dialect, which reads texts that inference has not seen."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.support import calling, function_call, readings, tool
from unspool import Dialect, Inference
from unspool.check import check_dialect
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.infer.cutting import closing_for
from unspool.infer.proof import NEEDED
from unspool.infer.rendering import Renderer

from . import invented

OTHERWISE = ("reasoning-that-only-closes", "a-last-turn-to-be-gone-on-with", "spaces-by-place")
"""Families whose template writes the last turn differently from its generation."""


@cache
def inferred(family: str) -> Inference:
    return unspool.infer_dialect(invented.TEMPLATES[family], name="new")


def dialect_by(template: str) -> Dialect:
    """The dialect that a template proves."""
    found = unspool.infer_dialect(template)
    assert found.dialect is not None, [c for c in found.proof if c.result == "fail"]
    return found.dialect


def proven(family: str) -> Dialect:
    """The dialect, after every case of its proof passed."""
    found = inferred(family)
    assert [c for c in found.proof if c.result == "fail"] == []
    results = {c.case: c.result for c in found.proof}
    assert {results[case] for case in (*NEEDED, "two calls", "the grammar's closed loop")} == {"pass"}
    assert found.dialect is not None
    return found.dialect


@pytest.mark.parametrize("family", OTHERWISE)
def test_a_new_familys_dialect_is_inferred_and_proven(family: str) -> None:
    # Dialects of all other families are also given what their templates write of other texts; see below.
    proven(family)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "family", ["a-list-with-ids", "a-thinking-switch", "actions", "objects-in-objects", "spaces-by-place"]
)
def test_an_inferred_file_passes_the_check(family: str) -> None:
    assert check_dialect(proven(family)) == []


def test_reasoning_that_only_closes_is_read_as_models_write_it() -> None:
    text = 'hm, well\n</muse>\nLet us see.<call name="clock">{}</call><end>'
    message = unspool.parse(text, proven("reasoning-that-only-closes"))
    assert (message.reasoning, message.content) == ("hm, well", "Let us see.")
    assert [(c.name, c.status) for c in message.tool_calls] == [("clock", "ok")]


def test_markup_that_marks_strings_needs_no_schema() -> None:
    dialect = proven("typed-markup")
    text = '<use:f><p n="a" string="true">1</p><p n="b" string="false">1</p></use><end>'
    message = unspool.parse(text, dialect)
    assert json.loads(message.tool_calls[0].arguments) == {"a": "1", "b": 1}


def test_an_inferred_file_reads_as_if_written_by_hand() -> None:
    found = inferred("json-in-blocks")
    keys, _, examples = found.toml.partition("\n[[examples]]")
    assert keys.split("\n")[1:] == [
        'name = "new"',
        "",
        'start = "<~bot~>"',
        'end = ["<~done~>"]',
        "",
        'reasoning = "<ponder>\\n{reasoning}\\n</ponder>\\n"',
        'calls = "\\n<act>\\n{call}\\n</act>"',
        """call = '{"tool": "{name}", "input": {arguments}}'""",
        'separator.calls = "\\n"',
        "",
    ]
    assert examples.count("[[examples]]") >= 4


def test_an_inferred_file_keeps_the_promises_of_shipped_ones() -> None:
    found = inferred("typed-markup")
    loaded = parse_dialect(found.toml, "new.toml", find_base)
    # With `required`, only reasoning may precede the first call: the grammar refuses text there.
    problems = [p for p in check_dialect(loaded) if "'required'" not in p.what]
    assert problems == []


def test_prompts_tell_whether_the_output_begins_in_reasoning() -> None:
    dialect = proven("a-thinking-switch")
    assert unspool.detect_stage(dialect, "<user>\nHi<end><bot>\n<mull>") == "reasoning"
    assert unspool.detect_stage(dialect, "<user>\nHi<end><bot>\n<mull></mull>\n\n") == "content"
    cases = {c.case: c.reason for c in inferred("a-thinking-switch").proof}
    assert cases["the prompt's stage, enable_thinking=False"] == "content"
    assert cases["the prompt's stage"] == "reasoning"


def test_an_inferred_dialect_reads_the_ids_of_calls() -> None:
    text = '<CALLS>[{"id": "zz9", "name": "clock", "arguments": {}}]</CALLS>'
    assert unspool.parse(text, proven("a-list-with-ids")).tool_calls[0].id == "zz9"


def test_calls_that_look_like_prose_are_not_proven() -> None:
    found = unspool.infer_dialect(invented.TEMPLATES["ambiguous"])
    assert found.dialect is None
    assert any(c.result != "pass" and c.reason for c in found.proof if c.case in NEEDED)


def test_a_template_without_calls_gives_no_dialect_and_says_so() -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}<assistant>"
    found = unspool.infer_dialect(template)
    assert found.dialect is None
    assert {c.case: c.result for c in found.proof}["one call"] == "not written"


def test_a_key_that_the_format_cannot_hold_is_a_limit_not_a_failure() -> None:
    limits = [c.case for c in inferred("typed-markup").proof if c.result == "limit"]
    assert limits == ["keys that a format may not hold"]


def test_an_inferred_dialect_reads_token_ids_with_a_tokenizer() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {c: i for i, c in enumerate(["[UNK]", "\n", *map(chr, range(32, 127))])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.add_special_tokens(["<|code|>", "<|/code|>", "<|stop|>", "<|me|>"])
    found = unspool.infer_dialect(invented.TEMPLATES["python-calls"], tokenizer)
    # The vocabulary has no characters beyond ASCII, so these cases show that ids were read.
    failed = [c for c in found.proof if c.result == "fail"]
    assert [c.case for c in failed] == ["Unicode", "a line separator"]
    assert "by token ids" in failed[0].reason


def test_a_template_without_an_end_of_turn_is_read() -> None:
    template = (
        "{% for m in messages %}{{ '<' + m.role + '>' }}{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
        "{{ '<go>' + c.function.name + ' ' + c.function.arguments | tojson + '</go>' }}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    assert dialect_by(template).end == ("<user>", "<tool>")


def test_text_after_every_conversation_does_not_belong_to_a_turn() -> None:
    template = invented.TEMPLATES["json-in-blocks"].replace(
        "{% if add_generation_prompt %}", "<~system~>Answer!<~done~>\n{% if add_generation_prompt %}"
    )
    dialect = dialect_by(template)
    assert (dialect.start, dialect.end) == (("<~bot~>",), ("<~done~>",))


def test_tagged_text_before_calls_is_a_preamble() -> None:
    template = (
        "{% for m in messages %}{{ '[' + m.role + ']' }}{% if m.tool_calls %}{{ '<<say>>' + m.content + '<</say>>' }}"
        "{% for c in m.tool_calls %}{{ {'do': c.function.name, 'with': c.function.arguments} | tojson }}{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}{{ '[over]' }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    dialect = dialect_by(template)
    assert [part.text for part in dialect.preamble] == ["<<say>>{content}<</say>>"]
    assert (
        unspool.render(calling(function_call("f", id="a"), content="Hm."), dialect)
        == '<<say>>Hm.<</say>>{"do": "f", "with": {}}'
    )


def test_a_header_that_closes_opens_no_reasoning() -> None:
    source = "'<|start_header|>' '<|end_header|>' '[END MUSING]' '</think>'"
    closings = {"<|end_header|>": "", "[MUSING]": "[END MUSING]", "<think>": "</think>", "</think>": ""}
    assert {opening: closing_for(opening, source) for opening in closings} == closings


# -- texts that inference has not seen ---------------------------------------------------------------------------------

TEXT = {"type": "string"}
PROPERTIES: dict[str, dict[str, Any]] = {
    "book_flight": {
        "origin": TEXT,
        "seats": {"type": "integer"},
        "notes": {"type": "array", "items": TEXT},
        "options": {"type": "object", "properties": {"price": {"type": "number"}}},
        "direct": {"type": "boolean"},
    },
    "fs.read-file": dict.fromkeys(("path", "name", "Max-N", "two words", "größe", "2nd"), TEXT),
    "clock": {},
}
TOOLS = [tool(name, **properties) for name, properties in PROPERTIES.items()]
USER = {"role": "user", "content": "Where to?"}
Said = tuple[str, str, list[tuple[str, dict[str, Any]]]]

SAID: dict[str, Said] = json.loads(Path(__file__).with_name("unseen.json").read_text(encoding="utf-8"))
"""Turns: a thought, content, and the names and arguments of calls."""


def message(said: Said) -> dict[str, Any]:
    thought, content, calls = said
    sent: dict[str, Any] = {"role": "assistant", "content": content}
    sent |= dict.fromkeys(("reasoning_content", "thinking"), thought) if thought else {}
    if calls:
        sent["tool_calls"] = [
            {"id": f"Abcdefgh{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    return sent


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", [f for f in invented.FAMILIES if f not in OTHERWISE])
def test_the_inferred_dialect_reads_what_the_template_writes_of_other_texts(family: str) -> None:
    dialect = proven(family)
    asked = [{"messages": [USER], "tools": TOOLS, "add_generation_prompt": True}]
    asked += [{"messages": [USER, message(s)], "tools": TOOLS, "add_generation_prompt": False} for s in SAID.values()]
    with Renderer(invented.TEMPLATES[family], {"eos_token": "</eos>"}) as renderer:
        prompt, *shown = renderer.render(asked)
    read_back = 0
    for said, rendered in zip(SAID.values(), shown, strict=True):
        thought, content, calls = said
        if rendered.error or (thought and thought not in rendered.text):
            continue  # the template has no such turn
        same = next((i for i, c in enumerate(prompt.text) if rendered.text[i : i + 1] != c), len(prompt.text))
        turn = rendered.text[same:].replace("</eos>", "")
        for found in readings(dialect, turn, tools=TOOLS, prompt=prompt.text[:same]):
            assert (found.reasoning, found.content) == (thought, content), turn
            assert [(c.name, c.status, json.loads(c.arguments)) for c in found.tool_calls] == [
                (name, "ok", arguments) for name, arguments in calls
            ], turn
        read_back += 1
    assert read_back >= 4


FALSIFIED = {
    "escaped values": ("nested-markup", "{{ v }}", "{{ v | e }}", False),
    "upper case": ("numbered-calls", "c.function.name ~", "(c.function.name | upper) ~", False),
    "no text": ("fences", "(m.content or '')", "''", False),
    "calls from the last to the first": (
        "attributes-with-ids",
        "m.tool_calls or []",
        "(m.tool_calls or []) | reverse",
        False,
    ),
    "cut values": ("nested-markup", "{{ v }}", "{{ v[:60] }}", False),
    "trimmed values": ("nested-markup", "{{ v }}", "{{ v | trim }}", False),
    "names cut at a dot": ("numbered-calls", "c.function.name ~", "c.function.name.split('.')[0] ~", False),
    "names of one word": ("numbered-calls", "c.function.name ~", "c.function.name | replace('_', '') ~", False),
    "text in one line": ("fences", "(m.content or '')", "(m.content or '') | replace('\n', ' ')", False),
    "keys with other signs": ("lenticular-brackets", "⟪' ~ k ~", "⟪' ~ (k | replace('-', '_')) ~", False),
    "five arguments": (
        "lenticular-brackets",
        "in c.function.arguments.items()",
        "in (c.function.arguments.items() | list)[:5]",
        False,
    ),
    "long texts cut": ("lenticular-brackets", "(v if", "(v[:9000] if", False),
    "numbers of six digits": ("lenticular-brackets", "else v |", "else v | round(6) if v is float else v |", False),
    "four calls": ("lenticular-brackets", "m.tool_calls or []", "(m.tool_calls or [])[:4]", False),
    "one call only": ("numbered-calls", "m.tool_calls or []", "(m.tool_calls or [])[:1]", True),
}
"""Templates that change what they are given, and whether the rest is still a proof."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", FALSIFIED)
def test_a_part_that_a_template_falsifies_is_not_proven(kind: str) -> None:
    family, old, new, holds = FALSIFIED[kind]
    template = invented.TEMPLATES[family]
    assert old in template
    found = unspool.infer_dialect(template.replace(old, new))
    assert (found.dialect is not None) is holds
