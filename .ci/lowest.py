"""Print constraints that hold every dependency of the package at the lowest version that pyproject.toml allows.

torch and the tools of the tests (extras docs and dev) stay at the versions of constraints.txt: `make lowest` asks
whether the package works with old libraries, not with old linters.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINNED_EXTRAS = ("docs", "dev", "all")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?(?P<ranges>.*)")


def lowest(requirement: str) -> str:
    """The constraint `name==version` for the lower bound of a requirement."""
    parts = _REQUIREMENT.fullmatch(requirement)
    assert parts is not None, requirement
    bounds = [bound for bound in parts["ranges"].split(",") if bound.startswith((">=", "=="))]
    assert len(bounds) == 1, f"expected one lower bound, got {requirement!r}"
    return f"{parts['name']}=={bounds[0][2:]}"


def constraints() -> list[str]:
    """All constraints, one a line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(each for name in extras if name not in PINNED_EXTRAS for each in extras[name]),
    ]
    pinned = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    versions = dict(line.split("==") for line in pinned)
    tools = {_REQUIREMENT.fullmatch(each)["name"] for name in ("docs", "dev") for each in extras[name]} | {"torch"}  # type: ignore[index]
    held = {line for line in map(lowest, wanted) if line.partition("==")[0] not in tools}
    return sorted(held | {f"{name}=={version}" for name, version in versions.items() if name in tools})


if __name__ == "__main__":
    print("\n".join(constraints()))
