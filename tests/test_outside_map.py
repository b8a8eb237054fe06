"""A map from outside the package brings its own Probe, set, search and certificate; only public names are needed."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.changes import outside_map_check

SCRIPT = Path(outside_map_check.__file__)


def test_an_outside_map_is_measured_between_its_own_bounds() -> None:
    outside_map_check.main()


def test_it_imports_nothing_of_the_package_but_its_public_names() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name for name in imported if name.startswith("oneword")] == ["oneword"]
