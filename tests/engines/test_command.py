"""A local model of transformers from the command line to the answer."""

import copy
import json
from pathlib import Path

import pytest

from unspool.cli import main

from .test_generate import model, tokenizer

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

TEMPLATE = """{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"color": {"type": "string", "enum": ["red", "green"]}},
            "required": ["color"],
            "additionalProperties": False,
        },
    },
}


def test_generate_needs_only_a_models_folder(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    folder = tmp_path / "model"
    made = copy.deepcopy(model())  # other tests use the model too
    made.config.eos_token_id = made.generation_config.eos_token_id = tokenizer().eos_token_id
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]), encoding="utf-8")
    words = ["generate", "Paint it!", "--engine", f"transformers:{folder}", "--dialect", "hermes", "--device", "cpu"]
    words += ["--tools", str(tmp_path / "tools.json"), "--tool-choice", "paint", "--no-parallel", "--seed", "3"]
    assert main([*words, "--max-tokens", "2000", "--format", "openai"]) == 0
    calls = json.loads(capfdbinary.readouterr().out)["tool_calls"]
    assert [c["function"]["name"] for c in calls] == ["paint"]
    assert json.loads(calls[0]["function"]["arguments"])["color"] in ("red", "green")
