"""Dialects from and to the ``response_template`` of transformers."""

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import DialectError, get_dialect
from unspool.cli import main
from unspool.infer.describing import agree, agreed, to_response_template
from unspool.infer.exchange import from_response_template
from unspool.infer.expressions import read_pattern

NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
CONTENT = {"close_pattern": r"(?:<\|stop\|>|<eos>)\s*|$", "content": "text"}
THOUGHT = {"open": "<mull>", "close_pattern": r"</mull>\s*", "content": "text"}


def spec(calls: dict[str, Any], **others: Any) -> dict[str, Any]:
    fields = {"reasoning_content": THOUGHT, "tool_calls": {"repeats": True, **calls}, "content": CONTENT, **others}
    return {"defaults": {"role": "assistant"}, "start_anchor": "<|me|>\n", "fields": fields}


_FILE = Path(__file__).with_name("response_templates.json")
SPECS: dict[str, tuple[dict[str, Any], str]] = {
    kind: (case["template"], case["text"]) for kind, case in json.loads(_FILE.read_text(encoding="utf-8")).items()
}
"""Response templates, each with a text: a thought and two calls."""


@pytest.mark.parametrize("kind", SPECS)
def test_a_response_template_makes_a_dialect_that_reads_its_texts(kind: str) -> None:
    template, text = SPECS[kind]
    converted = from_response_template(template)
    message = unspool.parse(text, converted.dialect)
    assert (message.reasoning, message.content) == ("hm", "Sure.")
    assert [(c.name, c.status, json.loads(c.arguments)) for c in message.tool_calls] == [
        ("f", "ok", {"a": "x"}),
        ("g", "ok", {}),
    ]
    assert any("white space" in line for line in converted.lossy)


def test_reasoning_that_the_prompt_opens_is_read() -> None:
    template = spec({"open": "<do>", "close": "</do>", "content": "json"})
    template["start_anchor"] = "<|me|>\n<mull>\n"
    template["fields"]["reasoning_content"] = {"open_pattern": r"(?=[\s\S]*?</mull>)", "close_pattern": r"</mull>\s*"}
    dialect = from_response_template(template).dialect
    assert (dialect.start, dialect.reasoning[0].text) == (("<|me|>\n",), "<mull>{reasoning}</mull>")
    assert unspool.parse("hm</mull>Sure.", dialect, prompt="<|me|>\n<mull>\n").reasoning == "hm"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"open_pattern": r"<do>(a|b)+", "close": "x", "content": "json"},
            "fields.tool_calls.open_pattern: cannot be conv",
        ),
        ({"open_pattern": r"<do[0-9]>", "close": "x", "content": "json"}, "a class outside a named group"),
        ({"open_pattern": "(" * 10_000, "close": "x", "content": "json"}, "neither named nor"),
        ({"open_pattern": "(?:" * 9_000, "close": "x", "content": "json"}, "20,000 characters|nested too deeply"),
        ({"open": 3, "close": "x", "content": "json"}, "fields.tool_calls.open: must be a string"),
        ({"open": "<do>", "close": "</do>", "content": "kv-lines"}, "'kv-lines' is not a way to write arguments"),
        ({"open": "<do>", "close": "</do>", "content": "xml-inline"}, "tag_pattern: must be a string"),
        (
            {"open": "<do>", "close": "</do>", "content": "python-call-list", "transform": NAMED},
            r"fields.tool_calls.transform: must be a function of \{name\} and \{arguments\} for each call",
        ),
    ],
)
def test_a_template_that_no_dialect_can_express_is_refused_with_its_place(change: dict[str, Any], why: str) -> None:
    with pytest.raises(DialectError, match=why):
        from_response_template(spec(change))


@pytest.mark.parametrize("template", [{}, {"fields": 3}, {"fields": {"content": 3}}, {"fields": {}, "x": 1}])
def test_something_other_than_a_response_template_is_refused(template: dict[str, Any]) -> None:
    with pytest.raises(DialectError):
        from_response_template(template)


def test_patterns_are_read_in_linear_time() -> None:
    assert len(read_pattern(r"a\s*" * 4_000, "x")[0]) == 1
    with pytest.raises(DialectError, match="more than 20,000 characters"):
        read_pattern("a" * 20_001, "x")


def test_a_dialect_becomes_a_response_template_and_losses_are_reported() -> None:
    described = to_response_template(get_dialect("hermes"))
    assert described.template["fields"]["tool_calls"]["transform"]["function"] == {
        "name": "{content.name}",
        "arguments": "{content.arguments}",
    }
    assert "calls: 2 other spellings are not read" in described.lossy
    with pytest.raises(DialectError, match=r"^start: "):
        to_response_template(get_dialect("json"))


def test_a_response_template_made_from_a_dialect_can_be_converted_back() -> None:
    for name in ("hermes", "qwen3-coder", "glm45", "deepseekv31"):
        again = from_response_template(to_response_template(get_dialect(name)).template).dialect
        message = {"tool_calls": [{"function": {"name": "f", "arguments": {"a": "x"}}}], "content": "Sure."}
        text = unspool.render(message, get_dialect(name), stage="content")
        assert [c.name for c in unspool.parse(text, again).tool_calls] == ["f"], name


@pytest.mark.engines
@pytest.mark.parametrize("kind", SPECS)
def test_both_parsers_read_the_same_texts(kind: str) -> None:
    template, _ = SPECS[kind]
    known = importlib.import_module("transformers.utils.chat_parsing.content_parsers").CONTENT_PARSERS
    if template["fields"]["tool_calls"]["content"] not in known:
        pytest.skip("this version of transformers lacks the parser")
    dialect = from_response_template(template).dialect
    cases = agree(dialect, template)
    assert agreed(cases, dialect), [c for c in cases if c.result == "fail"]


@pytest.mark.engines
def test_calls_that_transformers_puts_into_lists_of_their_own_are_no_agreement() -> None:
    template, _ = SPECS["a list of Python calls in a parser of its own"]
    fields = {**template["fields"], "tool_calls": {**template["fields"]["tool_calls"], "repeats": True}}
    nested = {**template, "fields": fields}
    dialect = from_response_template(nested).dialect
    assert not agreed(agree(dialect, nested), dialect)


@pytest.mark.engines
def test_transformers_reads_response_templates_of_shipped_dialects() -> None:
    for name in ("hermes", "qwen3-coder", "glm45", "deepseekv31", "mistral", "harmony"):
        dialect = get_dialect(name)
        cases = agree(dialect, to_response_template(dialect).template)
        assert agreed(cases, dialect), (name, [c for c in cases if c.result == "fail"])


def test_convert_writes_the_other_form_and_reports_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, file = tmp_path / "tokenizer_config.json", tmp_path / "new.toml"
    config.write_text(json.dumps({"response_template": SPECS["markup"][0]}), encoding="utf-8")
    code = main(["convert", str(tmp_path), "--from", "response_template", "--output", str(file), "--name", "new"])
    assert code == (1 if importlib.util.find_spec("transformers") is None else 0)
    assert "lossy: white space around reasoning and content" in capsys.readouterr().err
    assert unspool.load_dialect(file).name == "new"
    main(["convert", "hermes", "--to", "response_template", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["response_template"]["start_anchor"]
    assert printed["lossy"]
