"""Print constraints that hold every dependency of the package at the lowest version that pyproject.toml allows.

torch and the tools (extras docs and dev) stay at the versions of constraints.txt: `make lowest` asks whether the
package works with old libraries, not with old linters.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
TOOLS = ("docs", "dev", "all")  # extras


def lowest(requirement: Requirement) -> str:
    """The constraint `name==version` at the lower bound of a requirement."""
    bounds = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
    assert len(bounds) == 1, f"expected one lower bound, got {requirement}"
    return f"{canonicalize_name(requirement.name)}=={bounds[0]}"


def constraints() -> list[str]:
    """One constraint a line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: list(map(Requirement, some)) for name, some in project["optional-dependencies"].items()}
    used = [
        *map(Requirement, project["dependencies"]),
        *(r for name in extras if name not in TOOLS for r in extras[name]),
    ]
    pinned = {"torch", *(canonicalize_name(r.name) for name in TOOLS for r in extras[name])}
    held = {line for line in map(lowest, used) if line.partition("==")[0] not in pinned}
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return sorted(held | {line for line in lines if canonicalize_name(line.partition("==")[0]) in pinned})


if __name__ == "__main__":
    print("\n".join(constraints()))
