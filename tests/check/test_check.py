"""A dialect file must keep what its examples promise; otherwise, the problem is located."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from tests.support import DIALECTS, run
from unspool import NOTICES, DialectError, Event, Markup, Stage
from unspool.check import Problem, check_dialect, read_file
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.parser import Parser

HEAD = """
name = "mine"
start = "<|assistant|>"
end = ["<|end|>"]
reasoning = "<think>{reasoning}</think>"
calls = "<tools>[{calls}]</tools>"
call = '{"name": "{name}", "arguments": {arguments}}'
separator.calls = ", "
"""
GOOD = """
[[examples]]
raw = ["Hello.", "Hello.<|end|>"]
content = "Hello."
[[examples]]
raw = '<think>plan</think><tools>[{"name": "f", "arguments": {"a": 1, "b": [true, 1.5]}}]</tools>'
reasoning = "plan"
tool_calls = [{ name = "f", arguments = { a = 1, b = [true, 1.5] } }]
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(examples: str, head: str = HEAD) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(head + examples, encoding="utf-8")
        return path

    return to_file


def problems(examples: str, head: str = HEAD) -> list[Problem]:
    """What the check says about a file."""
    return check_dialect(parse_dialect(head + examples, "mine.toml", find_base))


def failure(path: Path) -> str:
    with pytest.raises(DialectError) as caught:
        unspool.load_dialect(path)
    return str(caught.value)


# --- load_dialect -----------------------------------------------------------------------------------------------------


def test_a_users_own_file_is_loaded_and_used(write: Any) -> None:
    dialect = unspool.load_dialect(str(write(GOOD)))
    assert unspool.parse('<tools>[{"name": "g", "arguments": {}}]</tools>', dialect).tool_calls[0].name == "g"
    assert unspool.render({"role": "assistant", "content": "Hi"}, dialect) == "Hi"


def test_a_file_may_start_from_a_shipped_dialect(write: Any) -> None:
    base = DIALECTS[0]
    head = f'name = "mine"\nbase = "{base.name}"\n'
    dialect = unspool.load_dialect(write('[[examples]]\nraw = "Hello."\ncontent = "Hello."\n', head))
    assert dialect.call == base.call


def test_an_example_that_is_read_differently_names_file_place_got_and_expected(write: Any) -> None:
    path = write(GOOD + '[[examples]]\nraw = ["Bye", "<think>x</think>Bye"]\ncontent = "Bye"\n')
    assert failure(path) == "mine.toml: examples[2].raw[1]: reasoning: got 'x', expected ''"


def test_an_example_that_is_written_differently_names_file_place_got_and_expected(write: Any) -> None:
    path = write(GOOD + '[[examples]]\nraw = "<think>plan</think>\\n"\nreasoning = "plan"\n')
    text = failure(path)
    assert text.startswith(
        "mine.toml: examples[2].raw[0]: the message is written differently: got '<think>plan</think>'"
    )
    assert "expected '<think>plan</think>\\n'" in text


def test_a_message_that_the_dialect_refuses_to_write_is_an_error(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> str:
        raise DialectError("content: would not read back")

    monkeypatch.setattr("unspool.check.examples.render", refuse)
    message = "mine.toml: examples[0].raw[0]: the message cannot be written: content: would not read back"
    assert failure(write(GOOD)) == message


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ('[{ name = "g", arguments = { a = 1 } }]', "tool_calls: got ['f'], expected ['g']"),
        ('[{ name = "f", arguments = { a = 1.0 } }]', 'tool_calls[0].arguments: got {"a": 1}, expected {"a": 1.0}'),
        ('[{ name = "f", arguments = { a = true } }]', 'tool_calls[0].arguments: got {"a": 1}, expected {"a": true}'),
        ('[{ name = "f", arguments = { a = 1, b = 2 } }]', "tool_calls[0].arguments: got"),
        ('[{ name = "f", arguments = { a = 1 }, id = "x" }]', "tool_calls[0].id: got 'made-0', expected 'x'"),
        ("[]", "tool_calls: got ['f'], expected []"),
    ],
)
def test_calls_are_compared_by_name_json_value_and_id(write: Any, calls: str, message: str) -> None:
    raw = """raw = '<tools>[{"name": "f", "arguments": {"a": 1}}]</tools>'"""
    # The second example declares the tool, so the call of the first is read whatever the first expects.
    text = failure(write(f"[[examples]]\n{raw}\ntool_calls = {calls}\n{GOOD}"))
    assert f"mine.toml: examples[0].raw[0]: {message}" in text


def test_a_call_that_is_not_ok_does_not_pass(write: Any) -> None:
    raw = """raw = '<tools>[{"name": "f", "arguments": {"a": }}]</tools>'"""
    text = failure(write(f'[[examples]]\n{raw}\ntool_calls = [{{ name = "f", arguments = {{ a = 1 }} }}]\n'))
    assert "tool_calls[0].status: got 'invalid', expected 'ok'" in text


# --- check_dialect ----------------------------------------------------------------------------------------------------


def test_all_problems_are_reported_not_only_the_first() -> None:
    bad = '[[examples]]\nraw = "a"\ncontent = "b"\n[[examples]]\nraw = "c"\ncontent = "d"\n'
    found = problems(bad)
    assert [p.where for p in found] == ["examples[0].raw[0]"] * 2 + ["examples[1].raw[0]"] * 2 + ["examples"]


def test_a_good_file_has_no_problems() -> None:
    assert problems(GOOD) == []


class _ForgetsAtCuts(Parser):
    """A parser that depends on cuts: only the first piece counts."""

    def feed(self, text: str, stage: Stage | str | None = None) -> list[Event]:
        if not self.message.content:
            return super().feed(text, stage)
        at = self.message.segments[-1].end
        return [Markup(text, at, at + len(text))]


def test_an_example_that_means_something_else_when_cut_is_a_problem(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.check.trials.check_events", lambda events, output: None)
    monkeypatch.setattr("unspool.check.trials.fold", lambda events: AnyMessage())
    monkeypatch.setattr("unspool.check.trials.Parser", _ForgetsAtCuts)
    dialect = read_file(
        write('[[examples]]\nraw = "abc"\ncontent = "abc"\n', 'name = "mine"\nreasoning = "<t>{reasoning}</t>"\n')
    )
    problems = [str(p) for p in check_dialect(dialect)]
    assert problems[0].startswith(
        "examples[0].raw[0]: read character by character it means something else: got ('', 'a'"
    )


class AnyMessage:
    """Equal to any message."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_a_failed_example_comes_with_its_notices_and_events() -> None:
    raw = '<think>plan</think>Sure.<tools>[{"name": "f", "arguments": {"a": }}]</tools>'
    first, *more = problems(f"[[examples]]\nraw = '{raw}'\nreasoning = 'plan'\ncontent = 'Sure.'\n{GOOD}")
    assert str(first) == "examples[0].raw[0]: tool_calls: got ['f'], expected []"
    assert first.why[0].startswith("notice bad_arguments at ")
    assert NOTICES["bad_arguments"] in first.why[0]
    assert first.why[-1].startswith("read as: reasoning 'plan', content 'Sure.', ")
    assert first.why[-1].endswith("invalid call ends, markup ']</tools>'")
    assert all(p.why == () for p in more)


def test_an_end_string_inside_an_example_gets_a_hint() -> None:
    example = '[[examples]]\nraw = "One.<|end|>Two.<|end|>"\ncontent = "One.Two."\n'
    first, *_ = problems(example + GOOD)
    assert str(first) == "examples[0].raw[0]: content: got 'One.<|end|>Two.', expected 'One.Two.'"
    assert first.why[0].startswith("hint: the `end` string '<|end|>' occurs at 4: it is markup if nothing, white ")
    example = '[[examples]]\nraw = "One.<|end|>"\ncontent = "Two."\n'
    first, *_ = problems(example + GOOD)
    assert not any("hint" in line for line in first.why), "at the end it is where it belongs"
    example = '[[examples]]\nraw = "One.<|end|>Two."\ncontent = "One.<|end|>Two."\n'
    first, *_ = problems(example + GOOD)
    assert "the grammar under tool_choice 'auto' does not allow" in str(first)
    assert first.why[0].startswith("hint: the `end` string '<|end|>' occurs at 4: ")


def test_a_file_with_calls_needs_an_example_with_one_but_loads_without(write: Any) -> None:
    path = write('[[examples]]\nraw = "Hello."\ncontent = "Hello."\n')
    assert [str(p) for p in check_dialect(unspool.load_dialect(path))] == [
        "examples: none contains a call, though the file has `call`: add one with `tool_calls`"
    ]


def test_a_users_file_must_keep_the_promises_of_every_dialect() -> None:
    head = HEAD.replace('{"name": "{name}", "arguments": {arguments}}', "call:{name}{arguments}<end>")
    raw = "<tools>[call:f{a:1}<end>]</tools>"
    example = f"[[examples]]\nraw = '{raw}'\ntool_calls = [{{ name = 'f', arguments = {{ a = 1 }} }}]\n"
    assert problems(example, head + "quote = '<q>'\n") == []
    # Strings in these quotes cannot contain one.
    problem, *_ = problems(example, head + "quote = '北京'\n")
    assert str(problem).startswith(
        "file: the calls (('f', {'a': 'Paris', 'b': 'é 北京 🌧️', 'n': -3}),) cannot be written"
    )


def test_a_long_trace_shows_the_events_around_the_difference() -> None:
    calls = ", ".join(f'{{"name": "f", "arguments": {{"a": {i}}}}}' for i in range(30))
    table = ", ".join(f'{{ name = "{"g" if i == 20 else "f"}", arguments = {{ a = {i} }} }}' for i in range(30))
    first, *_ = problems(f"[[examples]]\nraw = '<tools>[{calls}]</tools>'\ntool_calls = [{table}]\n{GOOD}")
    trace = next(line for line in first.why if line.startswith("read as: "))
    assert trace.startswith("read as: …, ")
    assert trace.endswith(", …")
    assert "arguments '{\"a\": 19}'" in trace
    assert '"a": 2}' not in trace


def test_an_example_id_that_does_not_match_the_template_is_named() -> None:
    head = HEAD.replace('{"name": "{name}"', '{"id": "{id}", "name": "{name}"')
    raw = '<tools>[{"id": "c-1", "name": "f", "arguments": {}}]</tools>'
    example = f"[[examples]]\nraw = '{raw}'\ntool_calls = [{{ name = 'f', id = 'c-1' }}]\n"
    (problem,) = problems(example, head)
    assert str(problem).startswith("examples[0].tool_calls[0].id: 'c-1' does not match `id`, 'call_????")
    assert problems(example, head + 'id = "c-{number}"\n') == []


def test_reasoning_may_close_as_calls_do_but_not_as_their_arguments(write: Any) -> None:
    keys = """name = "mine"
reasoning = "<|thought|>{reasoning}<|end|>"
call = "<|call|>{name}<|args|>{arguments}<|end|>"
"""
    raw = '<|thought|>hm<|end|>Well.<|call|>f<|args|>{"a": 1}<|end|>'
    example = f"[[examples]]\nraw = '{raw}'\nreasoning = 'hm'\ncontent = 'Well.'\n"
    example += 'tool_calls = [{ name = "f", arguments = { a = 1 } }]\n'
    dialect = read_file(write(example, keys))
    assert check_dialect(dialect) == []
    assert unspool.parse(raw, dialect, tools=[]).content == "Well." + raw.partition("Well.")[2], (
        "its closing is text, too"
    )

    keys = keys.replace("{arguments}<|end|>", "{arguments}<|done|>") + 'argument = "<{key}>{value}<|end|>"\n'
    found = problems('[[examples]]\nraw = "x"\ncontent = "x"\n', keys)
    assert any(p.where == "reasoning" and "of `argument` both close with '<|end|>'" in p.what for p in found)


def test_reasoning_whose_whole_opening_the_start_has_is_not_opened_by_nothing(write: Any) -> None:
    keys = (
        'name = "mine"\nstart = "<t>"\nreasoning = ["<a>{reasoning}</a>", "<t>{reasoning}</b>"]\nstage = "reasoning"\n'
    )
    dialect = read_file(write('[[examples]]\nraw = "x"\nreasoning = "x"\n', keys))
    for pieces in (["plan</b>ok"], list("plan</b>ok"), ["<t>", "<t>plan</b>ok"]):
        message, _ = run(dialect, pieces)
        assert (message.reasoning, message.content) == ("plan", "ok")


def test_an_opening_of_reasoning_that_takes_no_text_is_not_repeated(write: Any) -> None:
    keys = 'name = "mine"\nend = ["<|eot|>"]\nreasoning = ["<a>{reasoning}</a>", "{any}{reasoning}</b>"]\n'
    dialect = read_file(write('[[examples]]\nraw = "<a>x</a>"\nreasoning = "x"\n', keys))
    message = unspool.parse("<a> <|eot|>plan</a>", dialect)
    assert (message.reasoning + message.content).strip()


@pytest.mark.parametrize(
    ("reasoning", "where", "what"),
    [
        ("<a>{reasoning}</r>", "'<f>f<a>Paris</a>", "let no other part open or close with what a call contains"),
        ("<r>{reasoning}</a>", "calls in reasoning", "let reasoning neither open nor close with what a call contains"),
    ],
)
def test_reasoning_that_an_argument_of_some_name_would_open_or_close_is_refused(
    reasoning: str, where: str, what: str
) -> None:
    head = f"""name = "mine"\nreasoning = "{reasoning}"\ncall = "<f>{{name}}{{arguments}}</f>"
argument = "<{{key}}>{{value}}</{{key}}>"\n"""
    example = """[[examples]]\nraw = '<f>g<k>x</k></f>'\ntool_calls = [{ name = "g", arguments.k = "x" }]\n"""
    found = problems(example, head)
    assert any(where in p.what and what in p.what for p in found), found
    free = head.replace("<a>", "<r>").replace("</a>", "</r>")
    assert problems(example, free) == []


def test_calls_that_each_open_a_json_list_are_refused_with_a_proposal_that_reads_lists(write: Any) -> None:
    one = '{"name": "{name}", "arguments": {arguments}}'
    keys = f"""name = "mine"\ncalls = '{{calls}}'\ncall = '[{one} ]'\n"""
    raw = '[{"name": "f", "arguments": {"a": 1}} ]'
    example = f"[[examples]]\nraw = '{raw}'\ntool_calls = [{{ name = 'f', arguments.a = 1 }}]\n"
    (problem,) = problems(example, keys)
    assert str(problem).startswith(f"call: '[{one} ]' opens as a JSON list of calls does, and such a list would end")
    assert problem.what.endswith("write the markers into `calls`, as in '[{call} ]'")
    keys = keys.replace("{calls}", "[{call} ]").replace(f"'[{one} ]'", f"'{one}'")
    dialect = read_file(write(example, keys))
    assert check_dialect(dialect) == []
    listed = raw.replace("]", ', {"name": "f", "arguments": {"a": 2}}]')
    tools = [{"type": "function", "function": {"name": "f"}}]
    for text in (listed, raw + raw.replace("1", "2")):
        message = unspool.parse(text, dialect, tools=tools)
        assert ([c.arguments for c in message.tool_calls], message.content) == (['{"a": 1}', '{"a": 2}'], "")


@pytest.mark.parametrize("margin", ["", "  ", "\\n"])
def test_a_call_that_begins_with_its_name_need_not_be_found_after_content(write: Any, margin: str) -> None:
    keys = f"""name = "mine"\ncalls = "{margin}{{calls}}"\ncall = "{{name}}({{arguments}})"\narguments = "python"\n"""
    example = """[[examples]]\nraw = "f(a=1)"\ntool_calls = [{ name = "f", arguments.a = 1 }]\n"""
    dialect = read_file(write(example, keys + 'separator.calls = "\\n"\n'))
    assert check_dialect(dialect) == []
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    with pytest.raises(DialectError, match="would not read back"):
        unspool.render({"role": "assistant", "content": "Well.", "tool_calls": [call]}, dialect)


OK = """content = "ok"\ntool_calls = [{ name = "f", arguments.a = 1 }]"""


ACCEPTED = tomllib.loads(Path(__file__).with_name("accepted.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", ACCEPTED.values(), ids=ACCEPTED)
def test_a_file_that_resembles_a_refused_one_is_accepted(file: str) -> None:
    assert problems("", file) == []


class Refused(msgspec.Struct):
    """A file, after `HEAD` if it has no name, what the check says, and what to replace so that it is accepted."""

    what: str
    file: str
    says: list[str]
    mend: list[tuple[str, str]] = []


_FILE = Path(__file__).with_name("refused.toml")
REFUSED = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, list[Refused]])["refused"]


@pytest.mark.parametrize("case", REFUSED, ids=[case.what for case in REFUSED])
def test_a_file_is_refused_with_a_proposal_and_accepted_once_it_follows_it(case: Refused) -> None:
    text = case.file if case.file.startswith("name") else HEAD + case.file
    try:
        said = " ".join(" ".join((str(p), *p.why)) for p in problems("", text))
    except DialectError as error:
        said = str(error)
    assert [words for words in case.says if words not in said] == [], said
    for old, new in case.mend:
        assert old in text
        text = text.replace(old, new)
    if case.mend:
        assert problems("", text) == []


def test_an_unknown_key_comes_with_the_nearest_one(write: Any) -> None:
    assert "reasonning: unknown key; did you mean reasoning?" in failure(write(GOOD, f'{HEAD}reasonning = "x"\n'))


def test_no_proposal_is_an_opening_that_the_loader_refuses() -> None:
    head = """name = "mine"\ncall = "* {name} {arguments}"\n"""
    example = """[[examples]]\nraw = 'ok* f {"a": 1}'\n""" + OK
    found = problems(example + "\n", head)
    hints = [line for p in found for line in p.why if "no letter or digit marks the calls" in line]
    assert hints
    assert all("anywhere" not in line and "a marker with a word" in line for line in hints)
