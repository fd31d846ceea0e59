"""Python that models write: what it may and may not do in monty. Bombs that take long run in `make tools`."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from unspool.tools import ToolLimits, ToolResult
from unspool.tools.interpreter import Interpreter, InterpreterError, monty

LIMITS = ToolLimits(time=2, output=2_000, memory=200_000_000)


async def run(*cells: str, limits: ToolLimits = LIMITS, command: Sequence[str] = ()) -> list[ToolResult]:
    interpreter = Interpreter(command or monty(limits), limits)
    try:
        return [await interpreter.run(cell) for cell in cells]
    finally:
        await interpreter.aclose()


async def test_a_cell_shows_what_it_prints_and_the_value_of_its_last_expression_and_state_lasts() -> None:
    found = await run(
        "x = 6\nprint('ä\\nb')\nx * 7",
        "x",
        "def f(n):\n    return n + x\n",
        "f(1)  # a comment",
        "x = 'ß'; x",
        "None",
        "if x:\n    x",
        "[\n 1,\n 2]",
    )
    texts = [result.text for result in found]
    assert texts == ["ä\nb\n42\n", "6\n", "", "7\n", "'ß'\n", "", "", "[1, 2]\n"]
    assert not any(result.error for result in found)


async def test_a_lone_surrogate_does_not_end_the_interpreter() -> None:
    found = await run("x = 1", "print('a\\ud800b')", "print('a\ud800b')", "x")
    assert [result.error for result in found] == [False] * 4
    assert [result.text[0] + result.text[2:] for result in found[1:3]] == ["ab\n", "ab\n"]
    assert found[3].text == "1\n", "its state is still there"


async def test_errors_are_reported_with_their_line_and_state_stays() -> None:
    found = await run("x = 1\n1 / 0", "def f(:", "undefined", "raise SystemExit(3)", "x")
    assert [result.error for result in found] == [True, True, True, True, False]
    assert "ZeroDivisionError: division by zero" in found[0].text
    assert "line 2" in found[0].text
    assert "NameError" in found[2].text
    assert found[4].text == "1\n"


ESCAPES = {
    "a file is read": "open('/etc/passwd').read()",
    "a file is written": "open('/tmp/x', 'w').write('x')",
    "a folder is listed": f"import os\nos.listdir({str(Path(__file__).parent)!r})",
    "a socket is opened": "import socket\nsocket.socket()",
    "a program is run": "import subprocess\nsubprocess.run(['/bin/true'], check=True)",
    "a process is forked": "import os\nos.fork()",
    "a thread is started": "import threading\nthreading.Thread(target=print).start()",
    "a process is signalled": "import os\nos.kill(os.getppid(), 9)",
    "native code is called": "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "/proc is read": "open('/proc/self/environ').read()",
    "the environment's key is read": "import os\nos.environ['A_SECRET_KEY']",
    "a device is opened": "open('/dev/tty')",
    "builtins are reached": "().__class__.__base__.__subclasses__()[-1].__init__.__globals__['os'].listdir('/etc')",
    "a format string reaches them": "open('{0.__class__}'.format(1))",
    "a folder is a file's": "import os\nos.open('../../../etc/passwd', 0)",
    "the disk is filled": "import os\nfor _ in range(100): os.write(2, b'x' * 10_000)",
}


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-1")


@pytest.mark.usefixtures("secret")
async def test_nothing_leaves_the_sandbox() -> None:
    for (what, _), result in zip(ESCAPES.items(), await run(*ESCAPES.values()), strict=True):
        assert result.error, f"{what}: {result.text}"


async def test_existing_files_cannot_be_written() -> None:
    code = """
import os
written = 0
for folder, _, names in os.walk("/"):
    for name in ["new", *names[:2]]:
        try:
            open(folder + "/" + name, "a").write("x")
            written += 1
        except (OSError, PermissionError):
            pass
print("written:", written)
"""
    (result,) = await run(code)
    assert result.text == "written: 0\n" or (result.error and "written" not in result.text)


BOMBS = {
    "endless": "while True: pass",
    "memory": "a = []\nwhile True: a.append('x' * 100_000)",
    "one big block": "x = 'x' * 10**10\nlen(x)",
    "a big number": "x = 10 ** (10 ** 9)\nx == 1",
    "endless output": "while True: print('x' * 1000)",
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "forks": "import os\nwhile True: os.fork()",
    "swallowed": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
}


@pytest.mark.parametrize(
    "bomb", [pytest.param(bomb, marks=[] if bomb == "memory" else pytest.mark.tools) for bomb in BOMBS]
)
async def test_a_resource_bomb_ends_in_time_with_an_error_and_the_next_cell_runs(bomb: str) -> None:
    begun = time.monotonic()
    limits = ToolLimits(time=1, output=2_000, memory=200_000_000)
    found = await run(BOMBS[bomb], "1 + 1", limits=limits)
    assert found[0].error
    assert len(found[0].text) <= 2_000 + 200
    assert found[1].text == "2\n"
    assert time.monotonic() - begun < 15


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


async def test_a_cancelled_cell_ends_its_process() -> None:
    before = children()
    interpreter = Interpreter(monty(ToolLimits(time=60)), ToolLimits(time=60))
    assert (await interpreter.run("1")).text == "1\n"
    running = asyncio.ensure_future(interpreter.run("while True: pass"))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert interpreter.pid is None
    assert children() == before


FORGER = """
import json, sys

print('{"ready": true}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    cell, code = asked["cell"], asked["code"]
    forged = {"cell": eval(code.partition(":")[2]), "text": "forged"} if code.startswith("forge") else None
    answers = [{"cell": cell, "text": code}]
    if forged:
        answers = [*answers, forged] if "later" in code else [forged, *answers]
    print("\\n".join(map(json.dumps, answers)), flush=True)
"""
"""Answers each cell with its code, and at will with another answer, as code could that reached the child's output."""


@pytest.mark.parametrize("guess", ["cell", "2", "3", "'3'", "''", "None", "cell[::-1]", "hex(int(cell, 16) + 1)[2:]"])
@pytest.mark.parametrize("when", ["sooner", "later"])
async def test_a_forged_answer_is_never_that_of_another_cell(when: str, guess: str) -> None:
    cells = ("one", f"forge {when}:{guess}", "three", "four", "five")
    found = await run(*cells, limits=ToolLimits(time=5), command=(sys.executable, "-c", FORGER))
    for code, result in zip(("one", "three", "four", "five"), (found[0], *found[2:]), strict=True):
        assert result.text == code or (result.error and "The interpreter ended" in result.text)
    assert sum(result.error for result in found) <= 1, "the child is started anew"
    assert "forged" not in found[1].text or guess == "cell", "it can only lie about itself"


async def test_an_interpreter_that_cannot_start_says_why(tmp_path: Path) -> None:
    for command, why in (
        ([str(tmp_path / "nothing")], "No such file"),
        ([sys.executable, "-c", "raise SystemExit('no luck today')"], "no luck today"),
    ):
        (result,) = await run("1", limits=ToolLimits(time=1, output=1_000), command=command)
        assert result.error
        assert why in result.text


def test_a_missing_interpreter_is_reported_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InterpreterError, match=r"in a clone of unspool: pip install '\.\[python-tool\]'"):
        monty(LIMITS)
