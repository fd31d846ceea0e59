"""Detection: the dialect of a model, from its name or its chat template."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import unspool
from tests.support import DIALECTS
from unspool import Candidate, detect_dialect
from unspool.dialect import registry

NAMES: dict[str, str] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def test_a_models_name_tells_its_dialect() -> None:
    assert {model: detect_dialect(model=model)[0].dialect for model in NAMES} == NAMES


def test_the_size_of_a_model_is_no_generation() -> None:
    assert [c.dialect for c in detect_dialect(model="deepcogito/cogito-v2-preview-llama-405B")] == []
    assert detect_dialect(model="NousResearch/Hermes-3-Llama-3.1-405B")[0].dialect == "hermes"


@pytest.mark.parametrize("model", ["DEEPSEEK-V3.1", "deepseek-v3.1", "a/b/DeepSeek-V3.1/", "C:\\models\\DeepSeek-V3.1"])
def test_case_and_organisation_do_not_matter(model: str) -> None:
    assert detect_dialect(model=model) == detect_dialect(model="DeepSeek-V3.1")


SPELLINGS = [
    lambda name: name + ":latest",
    lambda name: name.replace("-", ":", 1),
    lambda name: name.replace("-", "_"),
    lambda name: re.sub(r"(?<=[A-Za-z]{2})-(?=\d\.)", "", name),  # `granite4.1`
    lambda name: re.sub(r"(?<=\d)\.(?=\d)", "p", name),
    lambda name: re.sub(r"(?<=\d)\.(?=\d(?!\d))", "_", name),
]


@pytest.mark.parametrize("spell", SPELLINGS)
def test_a_host_spells_a_name_in_its_own_way(spell: Callable[[str], str]) -> None:
    assert {name: detect_dialect(model=spell(name))[0].dialect for name in NAMES} == NAMES


def test_the_size_of_a_model_is_no_part_of_its_version() -> None:
    assert {detect_dialect(model=f"qwen3_{size}")[0].dialect for size in ("8b", "1.7b", "0.6b", "30b_a3b")} == {
        "hermes"
    }


EXAMPLE = '[[examples]]\nraw = "<r>a</r>b"\nreasoning = "a"\ncontent = "b"\n'


def test_globs_are_compared_as_names_are(tmp_path: Path) -> None:
    file = tmp_path / "wren.toml"
    file.write_text('name = "wren"\nmodels = ["*Wren_2:Small*"]\nreasoning = "<r>{reasoning}</r>"\n' + EXAMPLE, "utf-8")
    dialect = unspool.load_dialect(str(file))
    for name in ("acme/wren-2-small", "WREN_2:small", "wren2:small"):
        assert dialect.matches(registry.model_key(name)) == len("Wren_2:Small") + 1
    assert not dialect.matches(registry.model_key("wren_3:small"))


def test_the_more_literal_name_ranks_first() -> None:
    assert [c.dialect for c in detect_dialect(model="DeepSeek-V3.2-Exp")] == ["deepseekv31", "deepseekv32"]


@pytest.mark.parametrize("model", ["qwq-32b", "mistralai/Ministral-3-14B-Reasoning-2512", "Kimi-K2-Thinking"])
def test_reasoning_alone_ranks_last(model: str) -> None:
    found = [c.dialect for c in detect_dialect(model=model)]
    assert found[-1] == "think"
    assert len(found) > 1


UNSEEN = ["upstage/Solar-Open3-400B", "IQuestLab/IQuest-Coder-V3"]
UNSEEN += ["deepseek-ai/DeepSeek-V3.5", "deepseek-ai/DeepSeek-V4.2", "mistralai/Mistral-Small-5", "tencent/Hy30"]
UNSEEN += ["ai21labs/AI21-Jamba2-3B", "swiss-ai/Apertus-2-8B", "ai-sage/GigaChat3.9-10B", "CohereLabs/command-a2"]
UNSEEN += ["nvidia/OpenMath-Nemotron-32B", "ibm-granite/granite-34b-code-instruct-8k", "huggyllama/llama-30b"]
UNSEEN += ["openlm-research/open_llama_3b_v2", "google/medgemma-4b-it", "translategemma:4b"]
UNSEEN += ["meituan-longcat/LongCat-3.0", "Aleph-Alpha/Kolibri-2", "LGAI-EXAONE/K-EXAONE-2.5", "inclusionAI/Ling-4.0"]


def test_a_name_does_not_reach_over_generations() -> None:
    assert [model for model in UNSEEN if detect_dialect(model=model)] == []


def test_a_word_is_worth_less_than_any_family() -> None:
    word = detect_dialect(model="acme-thinking-7b")[0]
    assert word.reason == "the name contains no family, only 'thinking'"
    assert word.score < min(detect_dialect(model=model)[0].score for model, d in NAMES.items() if d != "think") / 2
    written = detect_dialect(model="acme-thinking-7b", chat_template=HERMES)
    assert (written[0].dialect, written[-1].dialect) == ("hermes", "think")


def test_an_organisation_alone_is_not_a_model() -> None:
    assert detect_dialect(model="deepseek-v3/unknown") == []


def test_names_of_the_request_for_comments_are_not_preferred() -> None:
    policies = {d.name for d in DIALECTS if d.policy.text_before_tools == "content"}
    assert policies
    for model in NAMES:
        assert not policies & {c.dialect for c in detect_dialect(model=model)}


def test_a_candidate_gives_its_reason() -> None:
    (found,) = detect_dialect(model="gpt-oss-20b")
    assert found == Candidate("harmony", found.score, "the name fits *gpt-oss*")
    assert found.score > 0
    with pytest.raises(AttributeError):
        found.score = 1.0  # type: ignore[misc]


# -- by template -------------------------------------------------------------------------------------------------------

HERMES = """{%- if tools %}{{ '<|im_start|>system\\n<tools>' }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role }}
{%- if message.reasoning_content %}{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + call.arguments | tojson + '}\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"""


def test_a_chat_template_tells_its_dialect() -> None:
    found = detect_dialect(chat_template=HERMES)
    assert found[0].dialect == "hermes"
    assert "markers occur in the template" in found[0].reason


def test_a_template_without_markers_tells_nothing() -> None:
    assert (
        detect_dialect(chat_template="{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}") == []
    )


_IN_TURNS = [d for d in DIALECTS if any(s in c.text for c in d.content for s in d.start)]


@pytest.mark.parametrize("dialect", _IN_TURNS, ids=lambda d: d.name)
def test_parts_that_are_turns_do_not_outweigh_calls(dialect: unspool.Dialect) -> None:
    call = HERMES.replace("<think>", "").replace("</think>", "")
    found = detect_dialect(chat_template=call + "\n".join((*dialect.start, *dialect.end)))
    assert found[0].dialect == "hermes"


def test_constants_of_a_template_are_filled_in() -> None:
    tags = ["<|function_calls>", '<|invoke name="', '<|parameter name="']
    tags += ["</|parameter>", "</|invoke>", "</|function_calls>"]
    joined = (tag.replace("|", "' + mark + '") for tag in tags)
    written = "{%- set mark = '｜DSML｜' -%}" + "".join(f"{{{{ '{tag}' }}}}" for tag in joined)
    assert "｜DSML｜invoke" not in written
    assert detect_dialect(chat_template=written)[0].dialect == "deepseekv32"
    marks = ["<think{}>", "</think{}>", "<tool_calls{}>", "</tool_calls{}>", "<arg_key{}>", "</arg_key{}>"]
    formatted = "{% set s = ':opensource' %}" + "".join(
        f"{{% set m{i} = '{m}'.format(s) %}}{{{{ m{i} }}}}" for i, m in enumerate(marks)
    )
    assert detect_dialect(chat_template=formatted)[0].dialect == "hunyuan"


@pytest.mark.parametrize(
    "dialect", [d for d in DIALECTS if d.models and d.call and d.name != "pythonic"], ids=lambda d: d.name
)
def test_what_a_dialect_writes_tells_it(dialect: unspool.Dialect) -> None:
    """The best candidates write the same way, and the dialect itself is one of them."""
    written = "\n".join(e.raw[0] for e in dialect.examples) + "".join((*dialect.start[:1], *dialect.end[:1]))
    found = detect_dialect(chat_template=written)
    score = {c.dialect: c.score for c in found}
    assert score[dialect.name] > 0.8, found[:3]


def test_name_and_template_are_weighed_together() -> None:
    by_both = detect_dialect(model="arcee-ai/Trinity-Mini", chat_template=HERMES)
    assert by_both[0].dialect == "trinity"
    assert by_both[0].reason.startswith("the name fits *trinity*; ")
    against = detect_dialect(model="gpt-oss-renamed", chat_template=HERMES)
    assert against[0].dialect == "hermes"
    assert "harmony" in [c.dialect for c in against]


def test_the_cache_of_names_is_bounded() -> None:
    for spelled in ("HERMES", "Hermes", "hErMeS"):
        assert unspool.get_dialect(spelled) is unspool.get_dialect("hermes")
    assert [key for key in registry._found if key.lower() == "hermes"] == ["hermes"]


@pytest.mark.parametrize(
    "dialect", [d for d in DIALECTS if any(e.tool_calls for e in d.examples)], ids=lambda d: d.name
)
def test_an_output_tells_its_dialect(dialect: unspool.Dialect) -> None:
    outputs = [e.raw[0] for e in dialect.examples if e.tool_calls]
    found = detect_dialect(output=outputs)
    best = [c.dialect for c in found if c.score == found[0].score]
    assert dialect.name in [*best, *(c.dialect for c in found[:4])]


def test_several_outputs_tell_more_than_one() -> None:
    json = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    markup = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
    assert detect_dialect(output=json)[0].dialect == "hermes"
    (best, *_) = detect_dialect(output=[markup, "Hello.<|im_end|>"])
    assert (best.dialect, best.reason) == (
        "qwen3-coder",
        "reads 1 call and 0 thoughts of 2 outputs, and renders 1 unchanged",
    )


def test_a_name_decides_among_those_that_read_an_output_alike() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert detect_dialect("Trinity-Mini", output=text)[0].dialect == "trinity"
    assert "the name fits" in detect_dialect("Trinity-Mini", output=text)[0].reason


@pytest.mark.parametrize("output", ["Hello.", "", "a < b > c [1, 2] {x}", "print(f(x))\n[TODO] <b>bold</b>"])
def test_plain_text_tells_no_dialect(output: str) -> None:
    assert detect_dialect(output=output) == []


_CALL = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
_BROKEN = {
    "a brace is missing": _CALL[:-1],
    "single quotes": _CALL.replace('"', "'"),
    "a trailing comma": _CALL.replace("3}", "3,}"),
    "it is cut": _CALL[:-12],
}
_FRAMES = {
    "hermes": "<tool_call>\n{}\n</tool_call>",
    "mistral": "[TOOL_CALLS] [{}]",
    "longcat": "<longcat_tool_call>\n{}\n</longcat_tool_call>",
    "nemotron": "<TOOLCALL>[{}]</TOOLCALL>",
}


@pytest.mark.parametrize("prose", ["", "Sure.\n"])  # which a stage alone makes a thought
@pytest.mark.parametrize("broken", _BROKEN)
@pytest.mark.parametrize("dialect", _FRAMES)
def test_a_broken_call_shows_its_dialect(dialect: str, broken: str, prose: str) -> None:
    found = detect_dialect(output=prose + _FRAMES[dialect].replace("{}", _BROKEN[broken]))
    assert found[0].dialect == dialect
    assert found[0].reason.startswith("reads 1 call")
    # A dialect without these markers finds the call in bare text, and says less.
    assert all(c.score < found[0].score for c in found if c.dialect in ("json", "llama3", "llama-function"))


def test_of_several_broken_calls_a_dialect_that_reads_all_is_best() -> None:
    text = "\n".join(_FRAMES["hermes"].replace("{}", broken) for broken in list(_BROKEN.values())[:3])
    found = detect_dialect(output=text)
    assert found[0].dialect == "hermes"
    assert found[0].reason == "reads 3 calls (1 repaired) and 0 thoughts of 1 output"


@pytest.mark.parametrize("dialect", ["kimi_k2", "deepseekv32"])
def test_markers_alone_show_a_dialect_where_no_call_is_read(dialect: str) -> None:
    opening = unspool.get_dialect(dialect).calls[0].text.partition("{")[0].strip()
    found = detect_dialect(output=f"{opening} and nothing else")
    assert found[0].dialect == dialect
    assert "is one of its markers" in found[0].reason


def test_an_output_must_be_a_string() -> None:
    with pytest.raises(TypeError, match="output: must be a string or a list of strings"):
        detect_dialect(output=[b"x"])  # type: ignore[list-item]


def test_detection_stops_when_it_is_cancelled() -> None:
    seen = []

    def awaited() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        unspool.detect_dialect(output="<think>a</think>", awaited=awaited)
