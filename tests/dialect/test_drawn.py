"""A file that `unspool check` accepts keeps every promise of the shipped dialects; `make drawn` draws many more."""

import random
import tomllib
from pathlib import Path

import pytest

from tests.grammar.support import constrained
from unspool import Dialect, Policy
from unspool.check import promises
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.grammar import ToolStrictLevel

from ..support import alike, chunkings, run, statuses, tool, values
from .drawn import BLANK, examples, keeps_to_everything, refusal, tally_of

_FILE = Path(__file__).with_name("hostile.toml")
HOSTILE = [row["keys"] for row in tomllib.loads(_FILE.read_text(encoding="utf-8"))["hostile"]]


@pytest.mark.slow
def test_files_with_hostile_overlaps_or_unusual_calls_are_accepted_and_keep_every_promise() -> None:
    for keys in HOSTILE:
        text = written(keys)
        assert refusal(text) == "", text
        keeps_to_everything(parse_dialect(text, "drawn.toml", find_base), random.Random(text))


def written(keys: str) -> str:
    """A whole file with these keys, whose examples the renderer writes."""
    head = f'name = "drawn"\n{keys}'
    return head + "".join(examples(parse_dialect(head + BLANK, "drawn.toml", find_base)))


def loaded(keys: str) -> Dialect:
    """The dialect of such a file."""
    return parse_dialect(written(keys), "drawn.toml", find_base)


@pytest.mark.slow
def test_a_drawn_file_is_refused_with_a_reason_or_keeps_every_promise() -> None:
    tally = tally_of(16)
    assert [fault for fault in tally.faults if "it means something else" not in fault[1]] == []
    assert tally.accepted
    assert all(": " in reason for reason in tally.refused)


def test_framed_content_does_not_hold_a_line_that_begins_a_call() -> None:
    keys = """
content = "<<{content}>>"
calls = "\\n{calls}"
call = "* {name}:{arguments} *"
argument = "<p={key}>{value}</p>"
"""
    dialect = loaded(keys)
    constraint = constrained(dialect, [tool("f", a="string")], strict_level=ToolStrictLevel.PARAMETER)
    assert promises.refusal(constraint.lark, "<<a\n* g: and f>>") == ""
    assert promises.refusal(constraint.lark, "<<a\n* f: and g>>").startswith("does not allow")


def test_calls_in_frames_are_given_back_as_text_with_their_separators() -> None:
    keys = """
start = "«bot»"
content = "«bot»<say>{content}</say>"
calls = "«bot»{call}"
call = "@call {name}({arguments})@end"
separator.calls = "<sep>"
"""
    dialect = loaded(keys)
    raw = "@call a({})@end<sep>«bot»@call b({})@end"
    message = alike(dialect, raw, chunkings(raw), tools=[tool("f")], policy=Policy(unknown_tool="text"))
    assert (message.tool_calls, message.content) == ([], raw.replace("«bot»", ""))


TAGS = """
calls = "<do>{calls}</do>"
call = "<{name}>{arguments}</{name}>"
argument = "<{key}>{value}</{key}>"
"""


def test_the_closing_of_another_call_in_a_value_is_text_where_closings_repeat_the_name() -> None:
    dialect = loaded(TAGS)
    for text in ("x</g></do>y", "</u>", "x</g></do>"):
        raw = f"<do><f><a>{text}</a></f></do>"
        message = alike(dialect, raw, chunkings(raw), tools=[tool("f", a="string"), tool("g")])
        assert values(message) == [("f", {"a": text})]


def test_an_end_tag_opens_no_call_and_no_argument_where_names_are_tags() -> None:
    keys = TAGS + 'item = "<|li|>{value}<|/li|>"\n'
    dialect = loaded(keys)
    h = tool("h", o={"type": "object", "properties": {"k": {"type": "string"}}})
    raw = "<do><h><o><k>3</o></h></do>"
    assert statuses(alike(dialect, raw, chunkings(raw), tools=[h])) == [("h", "ok")]


@pytest.mark.parametrize("item", ["", 'item = "<|li|>{value}<|/li|>"\n'], ids=["flat", "nested"])
def test_texts_may_contain_tags_that_are_no_markers_where_names_are_tags(item: str) -> None:
    dialect = loaded(TAGS + item)
    constraint = constrained(dialect, [tool("f", a="string", b="string"), tool("g")], "required")
    assert promises.refusal(constraint.lark, "<do><f><a>1<2, <u>&amp;</u></a></f></do>") == ""
    for marker in ("</a>", "</f>", "</do>", "<b>" if item else "</a>"):
        refused = promises.refusal(constraint.lark, f"<do><f><a>x{marker}y</a></f></do>")
        assert refused.startswith("does not allow"), marker


def test_white_space_that_the_closing_of_an_answer_owns_is_no_reasoning_however_it_is_cut() -> None:
    keys = """
reasoning = "<f {reasoning} />"
content = "<end>{content}\\n\\n</end>"
"""
    dialect = loaded(keys)
    for chunks in chunkings("<f plan\n\n</end>"):
        message, _ = run(dialect, chunks)
        assert (message.reasoning, message.content) == ("plan", "")


@pytest.mark.parametrize("behind", ["#{number}\\n", " => ", "#{number} args=", ":"])
def test_a_call_that_begins_with_its_name_is_one_however_it_is_cut(behind: str) -> None:
    keys = f"""
calls = "{{calls}}\\n\\n"
call = "{{name}}{behind}{{arguments}}"
argument = "<p name=\\"{{key}}\\">{{value}}</p>"
separator.calls = ", "
"""
    dialect = loaded(keys)
    raw = f'f{behind}<p name="a">x</p>'.replace("\\n", "\n").replace("{number}", "1")
    for chunks in chunkings(raw):
        assert values(run(dialect, chunks, tools=[tool("f", a="string")])[0]) == [("f", {"a": "x"})]
