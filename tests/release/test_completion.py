"""Shell completion: what a person gets who presses Tab."""

import os
import shutil
import subprocess

import pytest

from tests.release.conftest import Installed

# Each shell asks in its own way; all of them get the words that fit.
ASKED = {
    "bash": {"COMP_WORDS": "oneword mea", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "oneword mea"},
    "fish": {"_TYPER_COMPLETE_ARGS": "oneword mea", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.parametrize("shell", ASKED)
def test_the_beginning_of_a_command_is_completed(shell: str, installed: Installed) -> None:
    answer = installed.run("oneword", _ONEWORD_COMPLETE=f"complete_{shell}", **ASKED[shell])
    assert "measure" in answer.stdout
    assert "compare" not in answer.stdout
    assert answer.stderr == ""


@pytest.mark.parametrize("shell", ASKED)
def test_there_is_a_script_for_each_shell(shell: str, installed: Installed) -> None:
    answer = installed.run("oneword", _ONEWORD_COMPLETE=f"source_{shell}")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"_ONEWORD_COMPLETE=complete_{shell}" in answer.stdout


def test_bash_itself_completes_commands_and_options(installed: Installed) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine")
    script = """
    eval "$(oneword --show-completion)"
    COMP_WORDS=(oneword mea) COMP_CWORD=1
    _oneword_completion oneword; echo "${COMPREPLY[@]}"
    COMP_WORDS=(oneword measure --gauss) COMP_CWORD=2
    _oneword_completion oneword; echo "${COMPREPLY[@]}"
    """
    paths = os.pathsep.join([str(installed.folder / "bin"), os.environ["PATH"]])
    answer = subprocess.run([bash, "-c", script], capture_output=True, text=True, env=os.environ | {"PATH": paths})
    assert answer.stderr == ""
    assert answer.stdout.splitlines() == ["measure", "--gaussian"]
