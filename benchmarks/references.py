"""Reference values that take minutes and do not depend on the search: kept in benchmarks/reference.json, keyed by case.

Delete the line of a case to measure it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

REFERENCE = Path(__file__).with_name("reference.json")


def kept() -> dict[str, float]:
    """All of them."""
    values: dict[str, float] = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    return values


def reference_of(case: str, measure: Callable[[], float]) -> float:
    """The value of one case, measured if it is not there."""
    if case not in kept():
        new = {case: measure()}
        # Read again: another run may have added to it.
        REFERENCE.write_text(json.dumps(kept() | new, indent=1, ensure_ascii=False) + "\n")
    return kept()[case]
