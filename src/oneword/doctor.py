"""What is installed, what this machine offers, and what can be had offline."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib.metadata import requires
from typing import Any

from packaging.requirements import Requirement
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from oneword._version import __version__, installed
from oneword.memory import physical_memory
from oneword.text import cache, sources

EXTRAS = {
    "embedded": "the default encoder and 25,000 reviews, offline",
    "hub": "encoders and data sets from a hub",
    "gguf": "models in GGUF files",
    "cluster": "sweeps on many machines",
    "page": "the HTML report",
    "app": "the interactive page",
    "docs": "the documentation site",
}


def examine() -> dict[str, Any]:
    """Everything `oneword doctor` reports, ready for JSON."""
    needed = [Requirement(line) for line in requires("oneword") or []]
    core = [r.name for r in needed if r.marker is None]
    by_extra = {extra: [r.name for r in needed if r.marker and f'extra == "{extra}"' in _marker(r)] for extra in EXTRAS}
    files, stored = cache.usage()
    sizes = {"megabytes": round(stored / 1e6, 1), "limit_megabytes": round(cache.limit() / 1e6, 1)}
    return {
        "oneword": __version__,
        "python": platform.python_version(),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "memory_gb": round(physical_memory() / 1e9, 1),
            "accelerator": _accelerator(),
        },
        "packages": {name: installed(name) for name in core},
        "extras": {
            extra: {"for": purpose, "packages": {name: installed(name) for name in by_extra[extra]}}
            for extra, purpose in EXTRAS.items()
        },
        "offline": {
            "models": {
                name: {"title": model.title, "about": model.about, "here": model.installed, "install": model.install}
                for name, model in sources.EMBEDDED_MODELS.items()
            },
            "corpora": {sources.EMBEDDED_CORPUS: sources.REVIEWS.version is not None},
            "cache": {"folder": str(cache.folder()), "files": files, **sizes},
        },
    }


def shown(findings: dict[str, Any]) -> RenderableType:
    """The findings as a table for the terminal."""
    machine = findings["machine"]
    head = Text(
        f"oneword {findings['oneword']}, Python {findings['python']}, {machine['system']}: {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, accelerator: {machine['accelerator']}",
        style="bold",
    )
    grid = Table(box=None, pad_edge=False)
    for name in ("", "packages", "state"):
        grid.add_column(name)
    grid.add_row("core", _line(findings["packages"]), _state(findings["packages"], "oneword"))
    for extra, about in findings["extras"].items():
        packages = about["packages"]
        grid.add_row(f"{extra}: {about['for']}", _line(packages), _state(packages, f"oneword[{extra}]"))
    offline = findings["offline"]
    for name, model in offline["models"].items():
        state = _ready() if model["here"] else _missing(model["install"])
        grid.add_row(f"model {name}, without a network", f"{model['title']}: {model['about']}", state)
    here = [name for name, found in offline["corpora"].items() if found]
    grid.add_row("corpora without a network", ", ".join([*here, "your own folders and files"]), "")
    held = offline["cache"]
    size = f"{held['megabytes']} of {held['limit_megabytes']} MB"
    held_there = Text(f"{held['folder']} (files: {held['files']}, {size})")  # a path is no markup
    grid.add_row("cache", held_there, "oneword cache clear removes it")
    return Group(head, grid)


def _marker(requirement: Requirement) -> str:
    return str(requirement.marker).replace("'", '"')


def _accelerator() -> str:
    if importlib.util.find_spec("torch") is None:
        return "none (torch is missing)"
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "none"


def _line(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {found}" if found else name for name, found in packages.items())


def _state(packages: dict[str, str | None], install: str) -> Text:
    return _ready() if all(packages.values()) else _missing(f"pip install '{install}'")


def _ready() -> Text:
    return Text("ready", style="green")


def _missing(install: str) -> Text:
    return Text(f"missing: {install}", style="yellow")
