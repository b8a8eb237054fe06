"""The distribution as a user gets it: built once, installed once, away from the source tree."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path  # made from the sdist


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, which sees the packages of this one but not its editable install."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, command: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of that environment, away from the source tree."""
        script, everything = self.folder / "bin" / command, os.environ | environment
        return subprocess.run([script, *arguments], capture_output=True, text=True, cwd=self.folder, env=everything)


def build(out: Path, *what: str) -> list[Path]:
    """Without isolation: hatchling is installed here, and nothing is downloaded."""
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(out), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return sorted(out.iterdir())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("build", reason="needs oneword[dev]")
    pytest.importorskip("hatchling", reason="needs oneword[dev]")
    wheel, sdist = build(tmp_path_factory.mktemp("dist"))
    return Built(sdist, wheel)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "--python", Installed(folder).python]
    subprocess.run([*pip, "install", *options, built.wheel], check=True)
    # A folder that a .pth file names is searched last, and .pth files in it are not read: no editable install.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(get_path("purelib") + "\n")
    return Installed(folder)
