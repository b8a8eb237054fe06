"""The code of README and docs: Python runs as it stands there, commands are ones that the command line takes."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import typer.main
from typer import Exit

from oneword.cli.main import app
from oneword.text.sources import MINILM
from tests.markdown_pages import PAGES, ROOT, Block, blocks, name

# README shows the search as it is by default; the same line runs with the quick one.
QUICKER = {"README.md": {'smile."))': 'smile."), search="quick")'}}
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def with_blocks(*languages: str) -> list[object]:
    return [pytest.param(page, id=name(page)) for page in PAGES if blocks(page, *languages)]


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_runs_from_top_to_bottom(page: Path, tmp_path, monkeypatch):
    if MINILM.version is None:
        pytest.skip("needs oneword[embedded]")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        code = block.code
        for line, quicker in QUICKER.get(name(page), {}).items():
            code = code.replace(line, quicker)
        compiled = compile("\n" * block.line + code, name(page), "exec")
        if block.why is None:
            exec(compiled, names)


@pytest.mark.parametrize("page", with_blocks("sh", "bash", "yaml"))
def test_commands_are_ones_that_exist(page: Path):
    for block in blocks(page, "sh", "bash", "yaml"):
        for words in commands(block):
            program = Path(words[0]).name
            if program == "make":
                assert set(words[1:]) <= set(TARGETS), words
            if program == "oneword":
                parse(words[1:])


@pytest.mark.parametrize("page", with_blocks("toml"))
def test_toml_can_be_read(page: Path):
    for block in blocks(page, "toml"):
        tomllib.loads(block.code)


@pytest.mark.parametrize("wrong", ["measure --htlm page.html", "mesure text", "sweep", "audit --texts many"])
def test_a_wrong_command_would_be_noticed(wrong: str):
    with pytest.raises(Exception, match=r"(?i)no such|missing|valid integer|expected a command"):
        parse(wrong.split())


def texts(node: object) -> Iterator[str]:
    """All strings in what a YAML file holds."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for part in node.values() if isinstance(node, dict) else node:
            yield from texts(part)


def commands(block: Block) -> Iterator[list[str]]:
    """The commands of a shell script, or of the steps of a pipeline, as words."""
    code = block.code
    if block.language == "yaml":
        yaml = pytest.importorskip("yaml", reason="needs oneword[docs]")
        code = "\n".join(texts(yaml.safe_load(code)))
    code = code.replace("\\\n", " ")
    for line in code.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.commenters, lexer.whitespace_split = "#", True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def parse(words: list[str]) -> None:
    """Refuse what the command line would refuse, without running it."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            raise ValueError(f"expected a command out of {', '.join(command.commands)}, got {words[0]!r}")
        command, words = command.commands[words[0]], words[1:]
    with suppress(Exit):  # --help and --version
        command.make_context("oneword", list(words))
