"""Shell completion: the scripts offer what the commands take."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unspool.cli import COMMANDS, main


def offered(script: Path, *words: str) -> list[str]:
    """The completions that bash offers for the last word."""
    code = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1))
_shtab_unspool unspool "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}" """
    line = ["bash", "-c", code, "bash", str(script), *words]
    return subprocess.run(line, capture_output=True, text=True, check=True, cwd=script.parent).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_values_and_files(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "unspool.bash"
    script.write_bytes(capfdbinary.readouterr().out)
    assert set(offered(script, "unspool", "")) == {*COMMANDS}
    assert offered(script, "unspool", "serve", "--engine-k") == ["--engine-kind", "--engine-key", "--engine-keep-end"]
    assert offered(script, "unspool", "serve", "--profile", "m") == ["mindie"]
    assert "hermes" in offered(script, "unspool", "parse", "-d", "herm")
    assert offered(script, "unspool", "parse", "--tools", "uns") == ["unspool.bash"]
    (tmp_path / "minutes.txt").touch()
    assert offered(script, "unspool", "serve", "--profile", "mi") == ["mindie"]
    assert offered(script, "unspool", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_flag(shell: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["completion", shell]) == 0
    script = capfdbinary.readouterr().out.decode()
    assert all(command in script for command in COMMANDS)
    assert ("--engine-kind" if shell == "zsh" else "-l engine-kind") in script


def test_without_shtab_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "needs shtab; in a clone of unspool: pip install '.[completion]'\n" in capsys.readouterr().err
