"""The library is called from Python as well as from the command: its messages name arguments, never options (`--x`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "oneword"
COMMANDS = ("cli", "app")  # what people type, and what is typed for them
# Not options of oneword: --nthreads is one of `dask worker`, --no-deps of pip, var(--ink) a colour of a page.
FLAG = re.compile(r"(?:^|\s|(?<!var)\()--(?!nthreads|no-deps)[a-z]")
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in COMMANDS)


def flags(source: str) -> list[str]:
    """The strings of a module that name an option, docstrings apart."""
    tree = ast.parse(source)
    documented = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [
        f"line {node.lineno}: {node.value}"
        for node in strings
        if id(node) not in docstrings and FLAG.search(node.value)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_message_of_the_library_names_an_option(path: Path) -> None:
    assert flags(path.read_text()) == []


@pytest.mark.parametrize("message", ["--radius is too large", "try --quick", "too many (--limit)"])
def test_an_option_in_a_message_is_found(message: str) -> None:
    assert flags(f'"""A docstring may say --quick."""\nraise ValueError(f"{message} {{1}}")')


def test_dashes_and_docstrings_are_no_options() -> None:
    assert flags('"""Try --quick."""\nx = "a -- b", "---", "word--word"') == []
