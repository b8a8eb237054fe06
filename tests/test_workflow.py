"""What a hosted repository runs and shows: the workflow, and the forms for issues."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert any(".ci/run" in command for command in commands)
    assert (ROOT / ".ci" / "run").is_file()
    targets = [command.split()[1] for command in commands if command.startswith("make ")]
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in targets)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_asks_with_labels(path: Path) -> None:
    form: dict[str, Any] = yaml.safe_load(path.read_text())
    if path.stem != "config":
        assert form["name"]
        assert form["description"]
        assert all(part["attributes"]["label"] for part in form["body"])


def test_the_lowest_versions_are_those_that_pyproject_allows() -> None:
    found = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["constraints"]()
    chosen = {line.partition("==")[0]: line.partition("==")[2] for line in found}
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert chosen["torch"] == pinned["torch"]
    assert Version(chosen["tokenizers"]) < Version(pinned["tokenizers"])
    assert all(str(Requirement(line).specifier).startswith("==") for line in found)
