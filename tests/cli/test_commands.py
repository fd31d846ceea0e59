"""The command line: every command, its exit codes, and its behaviour in a pipe and on a terminal."""

import io
import json
import os
import re
import select
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tokenizers import Tokenizer, models

import unspool
from tests.support import DIALECTS, tool
from unspool.cli import COMMANDS, FIRST, main, parsers
from unspool.cli.common import Misuse
from unspool.cli.pretty import Pretty
from unspool.engines.capture import Asked, write_recording

OUTPUT = "<think>Überlegung</think>Sure.<tools>[{}]</tools>"
CALL = '{"name": "get_weather", "arguments": {"city": "München", "days": 3}}'
ANSWER = OUTPUT.replace("{}", CALL)
DIALECT = """
name = "mine"
start = "<|assistant|>"
end = ["<|end|>"]
reasoning = "<think>{reasoning}</think>"
calls = "<tools>[{calls}]</tools>"
call = '{"name": "{name}", "arguments": {arguments}}'
separator.calls = ", "
id = "{name}-{index}"

[[examples]]
raw = '<think>plan</think>Sure.<tools>[{"name": "now", "arguments": {}}]</tools>'
reasoning = "plan"
content = "Sure."
tool_calls = [{ name = "now" }]
"""
TOOLS = [tool("get_weather", city="string")]
MISUSE = tomllib.loads(Path(__file__).with_name("misuse.toml").read_text(encoding="utf-8"))
CALLING = next(d for d in DIALECTS if d.call and d.models)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a dialect, tools and an answer."""
    (tmp_path / "mine.toml").write_text(DIALECT, encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    (tmp_path / "answer.txt").write_text(ANSWER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`main` in this process."""

    def call(*argv: str, stdin: str | bytes = "") -> Result:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        code = main(argv)
        return Result(code, *capsys.readouterr())

    return call


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "PYTHONIOENCODING", "PYTHONUTF8")}
    paths = str(Path(unspool.__file__).parents[1]), os.environ.get("PYTHONPATH")
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "TERM": "xterm", **extra}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "unspool", *argv]


def on_terminal(*argv: str, stdin: str = "", **extra: str) -> str:
    """The output of the real command on a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen(command(*argv), stdin=subprocess.PIPE, stdout=theirs, env=environment(**extra)) as process:
        os.close(theirs)
        assert process.stdin
        process.stdin.write(stdin.encode())
        process.stdin.close()
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # on Linux, this is the end of a terminal
            pass
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")


# --- parse: what comes out --------------------------------------------------------------------------------------------


def test_parse_reads_standard_input_with_and_without_a_dash(run: Run) -> None:
    expected = run("parse", "-d", "mine.toml", "answer.txt")
    assert run("parse", "-d", "mine.toml", stdin=ANSWER) == expected
    assert run("parse", "-d", "mine.toml", "-", stdin=ANSWER) == expected


def test_the_message_is_what_the_library_says(run: Run) -> None:
    written = run("parse", "-d", "mine.toml", "answer.txt").out
    message = unspool.parse(ANSWER, unspool.load_dialect("mine.toml"))
    assert msgspec.json.decode(written, type=unspool.Message) == message
    assert run("parse", "-d", "mine.toml", "--format", "openai", "answer.txt").json == message.to_openai()


def test_format_events_is_one_event_a_line_and_they_tile_the_output(run: Run) -> None:
    lines = run("parse", "-d", "mine.toml", "--format", "events", "answer.txt").out.splitlines()
    events = [json.loads(line) for line in lines]
    assert [e["start"] for e in events] == [0, *(e["end"] for e in events[:-1])]
    assert events[-1] == {**events[-1], "type": "finish", "reason": "tool_calls", "end": len(ANSWER)}


def test_format_pretty_labels_every_part(run: Run) -> None:
    assert run("parse", "-d", "mine.toml", "--format", "pretty", "answer.txt").out.splitlines() == [
        "reasoning  Überlegung",
        "content    Sure.",
        "call 0     get_weather  get_weather-0",
        '           {"city": "München", "days": 3}',
        "           ok",
        "finish     tool_calls",
    ]


def test_pretty_names_the_dialect_that_reads_what_the_chosen_one_does_not(run: Run) -> None:
    raw = next(e.raw[0] for e in unspool.get_dialect("kimi_k2").examples if e.tool_calls)
    assert "; kimi_k2 reads " in run("parse", "-d", "kimi", "--format", "pretty", stdin=raw).err
    for arguments in (("-d", "kimi_k2"), ("-d", "kimi", "--tool-choice", "none")):
        assert run("parse", *arguments, "--format", "pretty", stdin=raw).err == ""
    for text in ("Use <b>.", "Kimi writes <|tool_calls_section_begin|> first."):  # a marker alone is nothing to read
        assert run("parse", "-d", "kimi", "--format", "pretty", stdin=text).err == ""


def test_json_is_utf_8_and_not_escaped_whatever_the_locale(files: Path) -> None:
    env = environment(LC_ALL="C", PYTHONIOENCODING="ascii")
    done = subprocess.run(command("parse", "-d", "mine.toml", "answer.txt"), env=env, capture_output=True, check=True)
    assert "Überlegung" in done.stdout.decode("utf-8")


def test_carriage_returns_pass_through(run: Run) -> None:
    assert run("parse", "-d", "mine.toml", stdin="a\r\nb\rc").json["content"] == "a\r\nb\rc"


# --- parse: what goes in ----------------------------------------------------------------------------------------------


def test_the_dialect_is_found_by_the_models_name(run: Run) -> None:
    dialect = unspool.get_dialect("hermes")
    example = next(e for e in dialect.examples if e.tool_calls)
    message = run("parse", "--model", "Qwen/Qwen2.5-7B-Instruct", stdin=example.raw[0]).json
    assert [c["name"] for c in message["tool_calls"]] == [c.name for c in example.tool_calls]


def test_reasoning_takes_the_markers_of_another_dialect(run: Run) -> None:
    output = ANSWER.replace("<think>", "◁think▷").replace("</think>", "◁/think▷")
    message = run("parse", "-d", "mine.toml", "--reasoning", "kimi", stdin=output).json
    assert message["reasoning"] == "Überlegung"
    assert message["tool_calls"]


def test_a_named_tool_choice_reads_bare_arguments(run: Run) -> None:
    argv = ("parse", "-d", "mine.toml", "--tools", "tools.json", "--tool-choice", "get_weather")
    calls = run(*argv, stdin='{"city": "Bonn"}').json["tool_calls"]
    assert [(c["name"], c["arguments"]) for c in calls] == [("get_weather", '{"city": "Bonn"}')]


def test_stage_and_prompt_tell_how_the_output_begins(run: Run, files: Path) -> None:
    (files / "prompt.txt").write_text("<|user|>Hi<|assistant|><think>", encoding="utf-8")
    for argument in ("--stage=reasoning", "--prompt=<|assistant|><think>", "--prompt=@prompt.txt"):
        message = run("parse", "-d", "mine.toml", argument, stdin="plan</think>Hi.").json
        assert (message["reasoning"], message["content"]) == ("plan", "Hi."), argument


def test_finish_reason_sets_that_of_the_message(run: Run) -> None:
    assert run("parse", "-d", "mine.toml", "--finish-reason", "length", stdin="Hi").json["finish_reason"] == "length"


# --- parse: strict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "arguments", "message"),
    [
        (ANSWER.replace("3}", ""), (), "call 0 (get_weather): invalid"),
        (ANSWER[: ANSWER.index(" 3}")], (), "call 0 (get_weather): incomplete"),
        (ANSWER.replace("get_weather", "launch"), (), "call 0 (launch): is not declared"),
        (ANSWER.replace("3}", ""), ("--policy", "bad_arguments=drop"), "bad_arguments"),
        (ANSWER.replace("3}", ""), ("--policy", "bad_arguments=text"), "bad_arguments"),
        (ANSWER.replace("get_weather", "launch"), ("--policy", "unknown_tool=drop"), "undeclared_tool"),
        (ANSWER.replace('"name": "get_weather", ', ""), (), "call_without_name"),
    ],
)
def test_strict_exits_with_1_for_a_failed_call(run: Run, output: str, arguments: tuple[str, ...], message: str) -> None:
    argv = ("parse", "-d", "mine.toml", "--tools", "tools.json", *arguments)
    strict = run(*argv, "--strict", stdin=output)
    assert strict.code == 1
    assert strict.err.startswith("unspool parse: --strict: ")
    assert message in strict.err
    assert strict.json["finish_reason"], "the message is written all the same"
    assert run(*argv, stdin=output).code == 0, "only --strict minds"


def test_strict_exits_with_0_where_all_calls_are_good(run: Run) -> None:
    assert run("parse", "-d", "mine.toml", "--tools", "tools.json", "--strict", "answer.txt").code == 0
    assert run("parse", "-d", "mine.toml", "--strict", stdin="no call at all").code == 0


# --- parse: follow ----------------------------------------------------------------------------------------------------


class Following:
    """The real command at the end of a slowly written pipe."""

    def __init__(self, *argv: str) -> None:
        argv = ("parse", "-d", "mine.toml", "--follow", *argv)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command(*argv), stdin=pipe, stdout=pipe, env=environment())

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def wait_for(self, text: str) -> str:
        """The output up to a text; fails after a minute."""
        assert self.process.stdout
        shown = b""
        while text.encode() not in shown:
            ready, _, _ = select.select([self.process.stdout], [], [], 60)
            assert ready, f"{text!r} does not come; so far {shown!r}"
            shown += os.read(self.process.stdout.fileno(), 4096)
        return shown.decode()

    def end(self) -> tuple[str, int]:
        """The output up to the end, and the exit code."""
        rest, _ = self.process.communicate(timeout=10)
        return rest.decode(), self.process.returncode


def test_follow_shows_a_partial_line_before_the_next_one_is_written(files: Path) -> None:
    following = Following("--format", "pretty")
    following.write(b"<think>no line ")
    assert "reasoning  no line" in following.wait_for("no line")
    following.write("break, ü"[:-1].encode() + "ü".encode()[:1])
    following.wait_for("break,")
    following.write("ü".encode()[1:] + b"</think>Hi <tools>" + b'[{"name": "f", "arguments": {"a": "st')
    assert "ü" in following.wait_for('{"a": "st')
    following.write(b'ring"}}]</tools>')
    rest, code = following.end()
    assert rest.endswith("ok\nfinish     tool_calls\n")
    assert code == 0


def test_follow_writes_a_message_once_at_the_end(run: Run) -> None:
    assert run("parse", "-d", "mine.toml", "--follow", "answer.txt") == run("parse", "-d", "mine.toml", "answer.txt")


# --- on a terminal ----------------------------------------------------------------------------------------------------


def test_pretty_with_colours_is_the_default_on_a_terminal(files: Path) -> None:
    shown = on_terminal("parse", "-d", "mine.toml", stdin=ANSWER)
    assert "\x1b[2mÜberlegung\x1b[0m" in shown, "reasoning is dim"
    assert "\x1b[32mok\x1b[0m" in shown
    assert shown.endswith("finish     \x1b[0m\x1b[2mtool_calls\x1b[0m\n")


def test_no_color_is_honoured(files: Path) -> None:
    shown = on_terminal("parse", "-d", "mine.toml", stdin=ANSWER, NO_COLOR="1")
    assert shown.startswith("reasoning  Überlegung\ncontent    Sure.\ncall 0     get_weather")
    assert "\x1b" not in shown


def test_a_terminal_is_not_steered_by_what_the_model_wrote(run: Run) -> None:
    shown = run("parse", "-d", "mine.toml", "--format", "pretty", stdin="a\x1b[2Jb\x9bc\td").out
    assert shown == "content    a\\x1b[2Jb\\x9bc\td\nfinish     stop\n"


def pretty(*events: unspool.Event) -> str:
    written: list[str] = []
    shower = Pretty(written.append, color=False)
    for event in events:
        shower.add(event)
    return "".join(written)


def test_lines_of_a_text_stand_below_each_other_and_blank_ones_at_its_end_are_not_shown() -> None:
    events = [unspool.ContentDelta(t, 0, 0) for t in ("one\n", "\ntwo", "\n", "\n")]
    assert pretty(*events, unspool.Finish("stop", 0, 0)) == "content    one\n\n           two\nfinish     stop\n"


def test_a_notice_inside_a_call_is_shown_after_it() -> None:
    shown = pretty(
        unspool.ToolCallStart(0, "id", "f", 0, 0),
        unspool.Notice("repaired", "a quote", 0, 0),
        unspool.ToolCallDelta(0, "{}", 0, 0),
        unspool.ToolCallEnd(0, "repaired", 0, 0),
        unspool.Notice("empty", "", 0, 0),
    )
    call = ["call 0     f  id", "           {}", "           repaired"]
    assert shown.splitlines() == [*call, "notice     repaired: a quote", "notice     empty"]


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "message"), MISUSE.items())
def test_misuse_exits_with_2_and_one_line_that_names_the_argument(run: Run, argv: str, message: str) -> None:
    Path("binary").write_bytes(b"\xff\xfe")
    Path("cut").write_bytes("ü".encode()[:1])
    Path("object.json").write_text('{"role": 3}', encoding="utf-8")
    Path("nameless.json").write_text('[{"type": "function"}]', encoding="utf-8")
    result = run(*argv.split())
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert result.err.count("\n") == 1


def test_unspool_alone_shows_the_help_with_the_first_commands_first(run: Run) -> None:
    alone = run()
    assert alone.out == parsers()[0].format_help()
    assert (alone.code, alone.err) == (0, "")
    listed = [line.split()[0] for line in alone.out.splitlines() if line.startswith("  ")]
    assert tuple(listed[: len(FIRST)]) == FIRST
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_of_a_command_is_short_however_many_arguments_it_has(name: str) -> None:
    assert len(parsers()[1][name].format_help().partition("\n\n")[0].splitlines()) <= 12


@pytest.mark.parametrize("name", COMMANDS)
def test_messages_name_a_value_and_not_its_name_in_the_usage(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = COMMANDS[name][2]

    def refuse(options: Any) -> int:
        raise Misuse(f"{next(iter(variables), 'FILE')}: this.txt: is wrong")

    variables = [a.metavar for a in parsers()[1][name]._get_positional_actions() if str(a.metavar).isupper()]
    monkeypatch.setitem(COMMANDS, name, (lambda p: None, refuse, text))
    assert run(name).err == f"unspool {name}: this.txt: is wrong\n"


def test_the_list_of_dialects_shows_families_and_models_and_says_which_to_take(run: Run) -> None:
    shown = run("dialects").out
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    for dialect in DIALECTS:
        row = rows[dialect.name]
        assert dialect.description.partition(": ")[0].splitlines()[0] in row
        globs = [part.strip("-") for glob in dialect.models[:2] for part in re.split(r"\[[^]]*\]|\*", glob)]
        assert all(part in row for part in globs)
        column = shown.splitlines()[0].index("MODELS SUCH AS")
        assert not set(row[column:].split("  ")[0]) & set("*?["), "examples of models are names, and no globs"
        assert all(alias in row for alias in dialect.aliases)
    which = shown.partition("Which to take:")[2]
    assert all(f"unspool {word}" in which for word in ("detect MODEL", "detect --output", "infer", "dialects NAME"))


@pytest.mark.parametrize("module", ["msgspec", "unspool.parser.calls", "unspool.cli", "unspool.server.main"])
def test_an_interrupt_is_quiet_whatever_is_being_imported(module: str) -> None:
    code = """if 1:
        import sys

        class Interrupted:
            def find_spec(self, name, path=None, target=None):
                if name == module:
                    raise KeyboardInterrupt

        from unspool.__main__ import main
        sys.meta_path.insert(0, Interrupted())
        module, sys.argv[1:] = sys.argv[1], ["serve", "--port", "0", "--engine", "http://127.0.0.1:9"]
        sys.exit(main())
        """
    ran = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "")


def test_a_reader_that_leaves_early_ends_the_command_quietly(files: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command("dialects"), stdout=writer, stderr=subprocess.PIPE, env=environment())
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


# --- dialects, check, render, detect, demo ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.toml", CALLING.name, CALLING.aliases[0] if CALLING.aliases else CALLING.name])
def test_dialects_name_shows_templates_and_examples(run: Run, name: str) -> None:
    shown = run("dialects", name).out
    dialect = unspool.load_dialect(name) if name == "mine.toml" else CALLING
    assert f"name       {dialect.name}\n" in shown
    templates = (*dialect.reasoning, *dialect.calls, *dialect.call)
    assert all(repr(t.text) in shown for t in templates if t.spelled is None)
    assert all(repr(text) in shown for text, _ in dialect.spellings)
    assert shown.count("\nExample ") == len(dialect.examples)
    assert all(f"  | {e.raw[0].splitlines()[0]}" in shown for e in dialect.examples if e.raw[0].splitlines()[0])


def test_dialects_name_shows_every_key_that_the_file_sets(run: Run) -> None:
    shown = run("dialects", "mine.toml").out
    for line in ("start      '<|assistant|>'", "end        '<|end|>'", "id         '{name}-{index}'"):
        assert line in shown
    assert "separator.calls ', '" in shown
    assert "quote" not in shown
    assert "models" not in shown


def test_new_writes_a_commented_file_that_passes_check_as_it_is(run: Run, files: Path) -> None:
    result = run("new", "finch")
    assert (result.code, result.err) == (0, "")
    assert result.out == "finch.toml: a dialect to start from; change it, and test it with `unspool check finch.toml`\n"
    text = (files / "finch.toml").read_text(encoding="utf-8")
    assert text.startswith("# finch: one line about the family")
    assert text.count("\n# ") > 20
    assert run("check", "finch.toml").out.startswith("finch.toml: ok (4 examples, ")
    assert run("new", "finch", "--output", "-").out == text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("new",), "NAME"),
        (("new", "my model"), "'my model' is not a name; allowed are letters, digits and _ . -"),
        (("new", "Hermes"), "'Hermes' is a dialect already, 'hermes'"),
        (("new", "mine", "-o", "mine.toml"), "--output: mine.toml exists already"),
        (("new", "other", "-o", "none/other.toml"), "--output: none/other.toml: No such file or directory"),
    ],
)
def test_new_overwrites_nothing_and_takes_no_known_name(run: Run, argv: tuple[str, ...], message: str) -> None:
    result = run(*argv)
    assert result.code == 2
    assert message in result.err


def test_check_counts_what_it_tried(run: Run) -> None:
    raw = len(unspool.load_dialect("mine.toml").examples[0].raw[0])
    assert run("check", "mine.toml") == (0, f"mine.toml: ok (1 examples, 1 raw texts, {raw - 1} cuts)\n", "")


def test_check_prints_every_problem_on_a_line(run: Run, files: Path) -> None:
    bad = DIALECT.replace('content = "Sure."', 'content = "Sure!"')
    (files / "bad.toml").write_text(bad, encoding="utf-8")
    result = run("check", "bad.toml", "mine.toml")
    assert result.code == 2
    first, second, third, *_ = result.err.splitlines()
    assert first == "unspool check: bad.toml: examples[0].raw[0]: content: got 'Sure.', expected 'Sure!'"
    assert second.startswith("    read as: reasoning 'plan', content 'Sure.', call now, ")
    assert "the message is written differently" in third
    assert result.out.startswith("mine.toml: ok"), "the other file is checked all the same"


def test_constrain_prints_each_form(run: Run) -> None:
    argv = ("constrain", "-d", "mine.toml", "--tools", "tools.json")
    tag = run(*argv).json
    assert tag["type"] == "structural_tag"
    assert run(*argv, "--format", "lark").out.startswith("%llguidance {}\nstart: ")
    assert "root ::= " in run(*argv, "--format", "gbnf").out
    array = run(*argv, "--format", "json_schema", "--no-parallel").json
    assert (array["type"], array["minItems"], array["maxItems"]) == ("array", 1, 1)
    assert run(*argv, "--tool-choice", "get_weather", "--format", "json_schema").json["maxItems"] == 1
    assert run(*argv, "--tool-choice", "auto", "--strict-level", "function").code == 0


def test_constrain_takes_a_response_format_and_special_tokens_of_a_tokenizer(run: Run, files: Path) -> None:
    (files / "answer.json").write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}', encoding="utf-8")
    shown = run("constrain", "-d", "mine.toml", "--tool-choice", "none", "--response-format", "answer.json").out
    assert '"integer"' in shown
    special = Tokenizer(models.BPE())
    special.add_special_tokens(["<think>", "</think>"])
    special.save(str(files / "tokenizer.json"))
    argv = ("constrain", "-d", "mine.toml", "--tools", "tools.json", "--format", "lark")
    assert "<[0]>" in run(*argv, "--tokenizer", "tokenizer.json").out
    assert "<[0]>" not in run(*argv).out


@pytest.mark.parametrize("form", ["message", "openai"])
def test_render_writes_back_what_parse_read(run: Run, form: str) -> None:
    message = run("parse", "-d", "mine.toml", "--format", form, "answer.txt").out
    assert run("render", "-d", "mine.toml", stdin=message) == (0, ANSWER, "")


def test_render_begins_at_the_stage(run: Run) -> None:
    message = json.dumps({"role": "assistant", "reasoning_content": "plan", "content": "Hi"})
    assert run("render", "-d", "mine.toml", "--stage", "reasoning", stdin=message).out == "plan</think>Hi"


def test_render_ends_the_line_on_a_terminal(files: Path) -> None:
    assert on_terminal("render", "-d", "mine.toml", stdin='{"role": "assistant", "content": "Hi"}') == "Hi\n"


def test_detect_reads_a_chat_template(run: Run, files: Path) -> None:
    dialect = unspool.get_dialect("gemma4")
    example = next(e for e in dialect.examples if e.tool_calls)
    (files / "template.jinja").write_text(dialect.start[0] + example.raw[0] + dialect.end[0], encoding="utf-8")
    assert run("detect", "--chat-template", "template.jinja").out.splitlines()[1].split()[0] == "gemma4"


def test_demo_shows_several_formats_and_ends_by_itself(run: Run) -> None:
    result = run("demo")
    assert result.code == 0
    assert result.out.count("finish     tool_calls") >= 4
    shown = [line[:-1] for line in result.out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    formats = {unspool.get_dialect(name).argument_format for name in shown}
    assert formats == {d.argument_format for d in DIALECTS}


def test_demo_takes_its_time_when_asked_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    run("demo", "--delay", "0.5")
    assert set(slept) == {0.5}


# --- recordings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def recording(files: Path) -> Path:
    """A recorded output in a file's dialect, with a tool; the prompt opened its reasoning."""
    policy = unspool.Policy(bad_arguments="drop")
    asked = Asked(dialect="mine.toml", prompt="<|user|>Hi<|assistant|><think>", tools=TOOLS, policy=policy)
    path = files / "one.jsonl"
    write_recording(path, asked, ["plan</thi", f"nk>Sure.<tools>[{CALL}", "]</tools>"])
    return path


def test_parse_reads_a_recording_with_its_own_dialect_tools_and_stage(run: Run, recording: Path) -> None:
    message = run("parse", "one.jsonl").json
    assert (message["reasoning"], message["content"]) == ("plan", "Sure.")
    assert message["tool_calls"][0]["known"] is True
    recording.rename("renamed.txt")
    assert run("parse", "renamed.txt").json == message, "it is known by its first line"
    (recording.parent / "folder").mkdir()
    Path("renamed.txt").rename("folder/one.jsonl")
    assert run("parse", "folder").json == message


def test_a_recording_is_known_on_standard_input_whatever_the_order_of_its_keys(run: Run) -> None:
    request = '\n{"dialect": "hermes", "prompt": "' + "x" * 9000 + '", "type": "request"}\n'
    message = run("parse", stdin=request + '{"type": "chunk", "text": "<think>a</think>b"}\n').json
    assert (message["reasoning"], message["content"]) == ("a", "b")


def test_the_command_line_overrides_the_recording(run: Run, recording: Path) -> None:
    def read(*argv: str) -> Any:
        return run("parse", "one.jsonl", *argv).json

    assert read("--stage", "content")["content"].startswith("planSure.")
    assert read("--prompt", "<|assistant|>")["content"].startswith("planSure.")
    assert read("-d", "hermes")["tool_calls"] == []
    assert read("--tool-choice", "none")["tool_calls"] == []
    assert read("--finish-reason", "length")["finish_reason"] == "length"
    recording.write_text(recording.read_text().replace(": 3}}", ": @}}"))
    assert read()["tool_calls"] == [], "the recorded policy drops a call with bad arguments"
    assert read("--policy", "bad_arguments=raw")["tool_calls"][0]["status"] == "invalid"


def test_several_recordings_are_shown_one_after_another(run: Run, recording: Path) -> None:
    recording.write_text(recording.read_text() * 2)
    shown = run("parse", "one.jsonl", "--format", "pretty").out
    assert shown.count("one.jsonl:1:\n") == shown.count("one.jsonl:6:\n") == 1
    assert shown.count("reasoning  plan") == 2


def test_a_recording_that_names_no_dialect_asks_for_one(run: Run, files: Path) -> None:
    write_recording(files / "one.jsonl", Asked(), ["Hi"])
    assert "--dialect: is required" in run("parse", "one.jsonl").err
    assert run("parse", "one.jsonl", "-d", "mine.toml").json["content"] == "Hi"
    write_recording(files / "one.jsonl", Asked(dialect="nowhere"), ["Hi"])
    assert "one.jsonl:1: there is no dialect 'nowhere'" in run("parse", "one.jsonl").err


def test_generate_plays_a_recording_without_a_prompt_and_without_a_dialect(run: Run, recording: Path) -> None:
    argv = ("generate", "--engine", "replay:one.jsonl", "--replay-speed", "0", "--format", "message")
    message = run(*argv).json
    assert (message["reasoning"], message["content"]) == ("plan", "Sure.")
    assert [c["name"] for c in message["tool_calls"]] == ["get_weather"]
    write_recording(recording.parent / "two.jsonl", Asked(dialect="hermes"), ["Hi"])
    result = run("generate", "--engine", "replay:.")
    assert result.code == 2
    assert "--engine: the recordings have several dialects (hermes, mine.toml); pass --dialect" in result.err


def test_generate_on_a_terminal_says_what_it_waits_for(files: Path) -> None:
    ours, theirs = os.openpty()
    waiting = command("generate", "--engine", "http://127.0.0.1:9")
    with subprocess.Popen(waiting, stdin=theirs, stderr=subprocess.PIPE, env=environment()) as process:
        os.close(theirs)
        assert process.stderr
        assert b"type the prompt, then press Ctrl-D" in process.stderr.readline()
        process.terminate()
    os.close(ours)


def test_the_version_is_reported(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"unspool {unspool.__version__}\n"


def test_detect_accepts_a_bare_model_name(run: Run) -> None:
    assert run("detect", "Qwen/Qwen3-Coder-30B") == run("detect", "--model", "Qwen/Qwen3-Coder-30B")
    assert run("detect", "no-such-model").err.startswith("unspool detect: no-such-model: no dialect found for it")


@pytest.mark.parametrize("package", ["pyarrow", "jsonschema_rs"])
def test_without_a_package_batch_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from unspool.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, "batch", "rows.jsonl", "-o", "out.jsonl", "-d", "hermes"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"unspool batch: needs {package}; in a clone of unspool: pip install '.[batch]'\n"
