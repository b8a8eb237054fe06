"""`make evidence`: the long measurements, written to docs/measurements.json with what they were made on.

`python -m benchmarks.evidence brackets laws` runs only those sections; the others keep what the file holds. The tree
has to be clean, so that the commit in the file is the code that measured.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    attack,
    brackets,
    ceilings,
    cells,
    choices,
    first_answer,
    fuzz_inputs,
    fuzz_models,
    hard_searches,
    laws,
    learning,
    models,
    prompts,
    reach,
    search_quality,
    speed,
    visitors,
    vocabulary,
)
from oneword.experiments.making import cpu_name

FILE = Path(__file__).parents[1] / "docs" / "measurements.json"
CORES = os.cpu_count() or 1


def _laws() -> dict[str, Any]:
    return {
        "random_features": laws.random_features(),
        "deep_random_features": laws.deep_random_features(),
        "attention": laws.attention(),
        "several_words_random_features": laws.several_words(),
    }


def _speed() -> dict[str, Any]:
    return {
        "attention_n250_d768": [speed.attention(1), speed.attention(2)],
        "cost": speed.cost_exponents(),
        "random_features_n150_d768": speed.random_features(),
    }


SECTIONS: dict[str, Callable[[], Any]] = {
    "speed": _speed,
    "learning": learning.speed,
    "vocabulary": vocabulary.speed,
    "models": models.measure,
    "prompts": prompts.measure,
    "app": visitors.measure,
    "visitors_at_once": visitors.at_once,
    "first_answer": first_answer.measure,
    "brackets": brackets.measure,
    "attack": lambda: attack.attack(120_000),
    "ceilings": ceilings.measure,
    "search_quality": search_quality.measure,
    "hard_searches": hard_searches.measure,
    "reach": reach.measure,
    "laws": _laws,
    "choices": choices.measure,
    "deep_guide": laws.deep_guide,
    "cells": cells.measure,
    "more_workers": cells.more_workers,
    "hostile_inputs": fuzz_inputs.measure,
    "hostile_models": fuzz_models.measure,
}


def made_on() -> dict[str, Any]:
    """Commit, machine and versions."""
    packages = ("oneword", "torch", "numpy", "scipy", "numba")
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": cpu_name(),
        "cores": CORES,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def _git(*command: str) -> str:
    run = subprocess.run(["git", *command], capture_output=True, text=True, cwd=FILE.parents[1])
    return run.stdout.strip()


def check_clean() -> None:
    """Refuse to measure what no commit holds; only the file of measurements may differ."""
    changed = _git("status", "--porcelain", "--", ".", f":!{FILE.relative_to(FILE.parents[1])}").splitlines()
    if changed:
        sys.exit(f"expected a clean tree, got {len(changed)} changed ({changed[0].strip()}): commit first")


def main(asked: list[str]) -> None:
    unknown = [name for name in asked if name not in SECTIONS]
    if unknown:
        sys.exit(f"expected sections out of {', '.join(SECTIONS)}, got {', '.join(unknown)}")
    check_clean()
    about = made_on()
    for name in asked or SECTIONS:
        print(f"{name} …", flush=True)
        torch.set_num_threads(CORES if name == "laws" else 1)  # small problems are faster on one; speed sets its own
        started = time.monotonic()
        numbers = SECTIONS[name]()
        seconds = round(time.monotonic() - started, 1)
        about["threads"] = torch.get_num_threads()
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}  # now: another run may have added to it
        kept[name] = {"made_on": about, "seconds": seconds, "numbers": numbers}
        FILE.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
        print(f"{name}: {seconds} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
