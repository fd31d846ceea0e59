"""A dialect is chosen only if the chat template proves it."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.cli.test_infer import checkpoint
from tests.support import dialect_of, present
from unspool import UnknownDialect, get_dialect
from unspool.cli import main
from unspool.cli.proof import report
from unspool.infer.choosing import choose_dialect, holds, prove_dialect, summary

from . import invented


def test_a_proven_shipped_dialect_is_preferred_to_an_inferred_one() -> None:
    choice = choose_dialect(invented.TEMPLATES["known"])
    assert (choice.dialect, choice.origin) == (get_dialect("hermes"), "shipped")
    assert choice.described().startswith("hermes (shipped): proven by the chat template: ")


def test_an_unknown_family_gets_its_inferred_dialect() -> None:
    choice = choose_dialect(invented.TEMPLATES["attributes-with-ids"], model="Qwen3-8B")
    assert choice.origin == "inferred"
    assert choice.dialect.call[0].text == '<call id="{id}" fn="{name}">{arguments}</call>'


def test_without_a_proven_dialect_the_error_names_candidates_and_failures() -> None:
    with pytest.raises(UnknownDialect) as caught:
        choose_dialect(invented.TEMPLATES["ambiguous"], model="Qwen3-8B")
    message = str(caught.value)
    assert "hermes (shipped): content: fail: whole: content is 'Zqtext.<end>'" in message
    assert "; inferred: " in message


JSON_CALLS = """
{%- for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + ('' if m.tool_calls else m.content) }}
{%- if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- for c in m.tool_calls or [] %}
{{- '{"name": "' + c.function.name + '", "parameters": ' + c.function.arguments | tojson + '}' }}{% endfor %}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}
"""


def test_a_dialect_that_would_write_python_is_not_preferred_for_calls_in_json() -> None:
    assert holds(prove_dialect(get_dialect("pythonic"), JSON_CALLS))
    assert choose_dialect(JSON_CALLS).dialect.codec.name == "json"


def test_a_template_without_calls_proves_its_other_parts() -> None:
    choice = choose_dialect(invented.TEMPLATES["silent"], model="Qwen3-8B")
    assert choice.dialect is get_dialect("hermes")
    assert choice.described().endswith("writes no call, so content alone is proven")


def test_a_dialect_that_reads_calls_differently_is_not_proven() -> None:
    proof = prove_dialect(get_dialect("mistral"), invented.TEMPLATES["known"])
    assert not holds(proof)
    assert summary(proof).startswith("not proven by the chat template: ")
    assert all(len(case.reason or "") < 600 for case in proof)


def test_a_dialect_that_only_reads_the_templates_calls_is_not_proven() -> None:
    proved = summary(prove_dialect(get_dialect("qwen3-coder"), invented.TEMPLATES["known"]))  # it reads JSON too
    assert "one call: fail: whole: the calls are in a format that the dialect reads, but does not write" in proved


def test_a_dialects_form_is_proven_whatever_its_policies_make_of_text_before_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dialect = dialect_of('base = "hermes"\npolicy = { text_before_tools = "content", text_between_tools = "content" }')
    proof = prove_dialect(dialect, invented.TEMPLATES["known"])
    assert holds(proof)
    report(dialect, proof, invented.TEMPLATES["known"], table=False)
    said = f"proven by the chat template: {sum(c.result == 'pass' for c in proof)} cases pass"
    assert capsys.readouterr().err.endswith(f"{said}; by its policy, calls after text are content\n")


def test_a_shipped_dialect_may_leave_white_space_with_the_text() -> None:
    template = invented.TEMPLATES["known"].replace("(m.content or '')", "(' ' + m.content if m.content else '')")
    assert holds(prove_dialect(get_dialect("hermes"), template))
    found = present(unspool.infer_dialect(template).dialect)
    assert unspool.parse(" Hello.<|im_end|>", found).content == "Hello."


def test_the_command_proves_a_dialect_by_a_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(checkpoint(tmp_path / "m", invented.TEMPLATES["known"]))
    assert main(["prove", "hermes", "--template", path]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("hermes: proven by the chat template: ")
    assert said.out.splitlines()[0].split() == ["content", "pass"]
    assert main(["prove", "mistral", "--template", path, "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["dialect"], printed["proven"]) == ("mistral", False)
    assert main(["prove", "auto", "--template", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dialect"] == "hermes"


def test_a_template_that_a_checkpoint_lacks_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(checkpoint(tmp_path / "m", invented.TEMPLATES["known"]))
    assert main(["prove", "hermes", "--template", path, "--template-name", "x"]) == 2
    assert "--template-name: there is no template 'x'" in capsys.readouterr().err


def test_the_server_uses_the_proven_dialect_logs_it_and_never_guesses(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.jsonl").write_text('{"type": "request"}\n')
    command = ["serve", "--port", "0", "--engine", f"replay:{tmp_path / 'r.jsonl'}", "--tokenizer"]
    new = str(checkpoint(tmp_path / "new", invented.TEMPLATES["numbered-calls"]))
    assert main([*command, new]) == 0
    assert served[-1][0].dialect.call[0].text.startswith("<|call|>{name}#{index}")
    assert "unspool: dialect inferred (inferred): proven by the chat template: " in capsys.readouterr().err
    known = str(checkpoint(tmp_path / "known", invented.TEMPLATES["known"]))
    assert main([*command, known, "--dialect", "auto", "--proof"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].split() == ["content", "pass"]
    assert said[-1].startswith("unspool: dialect hermes (shipped): proven by the chat template: ")
    assert main([*command, known, "--dialect", "mistral", "--no-self-check"]) == 0
    assert "unspool: dialect mistral: not proven by the chat template: " in capsys.readouterr().err
    assert main([*command, str(checkpoint(tmp_path / "vague", invented.TEMPLATES["ambiguous"]))]) == 2
    assert "--tokenizer: no dialect is proven by the chat template; " in capsys.readouterr().err
    assert main(["serve", "--port", "0", "--engine", command[4], "--dialect", "auto"]) == 2
    assert "--dialect: auto needs the model's chat template" in capsys.readouterr().err
