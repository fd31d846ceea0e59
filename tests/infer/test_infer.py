"""From the chat template of an unknown family to a proven dialect."""

import json
from functools import cache

import pytest

import unspool
from unspool import Dialect, Inference
from unspool.check import check_dialect
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.infer.cutting import closing_for
from unspool.infer.proof import NEEDED

from . import invented


@cache
def inferred(family: str) -> Inference:
    return unspool.infer_dialect(invented.TEMPLATES[family], name="new")


def proven(family: str) -> Dialect:
    found = inferred(family)
    assert found.dialect is not None, [c for c in found.proof if c.result == "fail"]
    return found.dialect


@pytest.mark.parametrize("family", invented.FAMILIES)
def test_a_new_familys_dialect_is_inferred_and_proven(family: str) -> None:
    proven(family)
    results = {c.case: c.result for c in inferred(family).proof}
    assert "fail" not in results.values()
    assert all(results[case] == "pass" for case in NEEDED)
    assert results["two calls"] == results["the grammar's closed loop"] == "pass"


@pytest.mark.parametrize("family", ["a-list-with-ids", "a-thinking-switch", "objects-in-objects"])
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


def test_a_value_that_holds_its_own_closing_is_a_limit_not_a_failure() -> None:
    limits = [c for c in inferred("typed-markup").proof if c.result == "limit"]
    assert all("</p>" in c.reason for c in limits)


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
    found = unspool.infer_dialect(template)
    assert found.dialect is not None, [c for c in found.proof if c.result == "fail"]
    assert found.dialect.end == ("<user>", "<tool>")


def test_text_after_every_conversation_does_not_belong_to_a_turn() -> None:
    template = invented.TEMPLATES["json-in-blocks"].replace(
        "{% if add_generation_prompt %}", "<~system~>Answer!<~done~>\n{% if add_generation_prompt %}"
    )
    found = unspool.infer_dialect(template)
    assert found.dialect is not None, [c for c in found.proof if c.result == "fail"]
    assert (found.dialect.start, found.dialect.end) == (("<~bot~>",), ("<~done~>",))


def test_tagged_text_before_calls_is_a_preamble() -> None:
    template = (
        "{% for m in messages %}{{ '[' + m.role + ']' }}{% if m.tool_calls %}{{ '<<say>>' + m.content + '<</say>>' }}"
        "{% for c in m.tool_calls %}{{ {'do': c.function.name, 'with': c.function.arguments} | tojson }}{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}{{ '[over]' }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    found = unspool.infer_dialect(template)
    assert found.dialect is not None, [c for c in found.proof if c.result == "fail"]
    assert 'preamble = "<<say>>{content}<</say>>"' in found.toml
    tool_calls = {"content": "Hm.", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}
    assert unspool.render(tool_calls, found.dialect) == '<<say>>Hm.<</say>>{"do": "f", "with": {}}'


def test_a_header_that_closes_opens_no_reasoning() -> None:
    source = "'<|start_header|>' '<|end_header|>' '[END MUSING]' '</think>'"
    assert [closing_for(opening, source) for opening in ("<|end_header|>", "[MUSING]", "<think>", "</think>")] == [
        "",
        "[END MUSING]",
        "</think>",
        "",
    ]
