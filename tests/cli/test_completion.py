"""Shell completion: the scripts offer what the commands take."""

import shutil
import subprocess
from pathlib import Path

import pytest

from unspool.cli import COMMANDS, main


def offered(script: Path, *words: str) -> list[str]:
    """The completions that bash offers for the last word."""
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _unspool; printf "%s\\n" "${COMPREPLY[@]}"'
    line = ["bash", "-uc", code, "bash", str(script), *words]
    return subprocess.run(line, capture_output=True, text=True, check=True, cwd=script.parent).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_values_and_files(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "unspool.bash"
    script.write_bytes(capfdbinary.readouterr().out)
    assert set(offered(script, "unspool", "")) == {*COMMANDS, "--help", "--version"}
    assert offered(script, "unspool", "serve", "--engine-k") == ["--engine-kind", "--engine-key", "--engine-keep-end"]
    assert offered(script, "unspool", "serve", "--profile", "m") == ["mindie"]
    assert "hermes" in offered(script, "unspool", "parse", "-d", "herm")
    assert offered(script, "unspool", "parse", "--tools", "uns") == ["unspool.bash"]
    (tmp_path / "minutes.txt").touch()
    assert offered(script, "unspool", "serve", "--profile", "mi") == ["mindie"]
    assert offered(script, "unspool", "completion", "z") == ["zsh"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_the_same(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "unspool.fish"
    script.write_bytes(capfdbinary.readouterr().out)
    (tmp_path / "minutes.txt").touch()
    lines = ("unspool serv", "unspool serve --prof", "unspool serve --profile mi", "unspool parse --tools unsp")
    found = []
    for line in lines:
        command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(script), line]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        found.append([line.split("\t")[0] for line in ran.stdout.splitlines()])
    assert found == [["serve"], ["--profile"], ["mindie"], ["unspool.fish"]]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_flag(shell: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["completion", shell]) == 0
    script = capfdbinary.readouterr().out.decode()
    assert all(command in script for command in COMMANDS)
    assert ("--engine-kind" if shell == "zsh" else "-l engine-kind") in script
    if shutil.which(shell):
        ran = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
