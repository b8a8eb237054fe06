"""The house: no room has the name of a verb, commands are small, Probes have methods, not flags, modules are short."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
import typer

import oneword as ow

PACKAGE = Path(ow.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
VERBS = ("sensitivity", "measure", "compare", "audit", "sweep")
MOST_OPTIONS = 25
MOST_LINES = 450
FLAGS = {"cheap", "costly", "many_maxima", "own_norms"}


def commands() -> dict[str, Any]:
    """The commands by name; typer brings its own click, so that their types are not those of the package click."""
    from oneword.cli.main import app

    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {"": command})
        found |= {f"{name} {part}".strip(): each for part, each in inner.items()}
    return found


def test_verbs_stay_callable_after_every_module_was_imported() -> None:
    for module in pkgutil.walk_packages(ow.__path__, "oneword."):
        if module.name != "oneword.__main__":
            importlib.import_module(module.name)
    for name in VERBS:
        assert callable(getattr(ow, name)), name
    assert not {path.stem for path in PACKAGE.iterdir()} & set(VERBS)


@pytest.mark.parametrize("name", sorted(commands()))
def test_no_command_has_more_than_25_options(name: str) -> None:
    options = [each for each in commands()[name].params if each.param_type_name == "option"]
    assert len(options) <= MOST_OPTIONS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short_and_probes_have_no_flags(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= MOST_LINES
    tree = ast.parse(source)
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not named & FLAGS
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            kinds = ast.unparse(node.args[1])
            assert "Probe" not in kinds, f"line {node.lineno}: register by type instead of asking for {kinds}"


def test_public_names_are_few() -> None:
    assert len({*ow.__all__, "learning", "theory"} - {"__version__"}) <= 40
