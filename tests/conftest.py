"""One hypothesis profile for all tests (the same examples on every run), a cache of their own, the command as
a person runs it, a browser."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from oneword.cli.main import main

settings.register_profile(
    "oneword",
    max_examples=25,
    deadline=None,
    derandomize=True,
    # The conformance suite is inherited on purpose: one test, many classes.
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("oneword")
# Compiling takes a minute, so that what one run compiled is kept for the next. Numba is imported later, by tests.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "numba"))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """No test sees, or leaves anything in, the cache of whoever runs it; all processes of a run share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEWORD_CACHE", str(shared / "cache"))
        yield


@dataclass
class Run:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def oneword(capsys, monkeypatch):
    """The command, run in this process: importing torch anew for each test would take most of their time."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["oneword", *arguments])
        with pytest.raises(SystemExit) as stopped:
            sys.exit(main())
        return Run(stopped.value.code or 0, *capsys.readouterr())

    return run


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as api:
        chromium = api.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        yield chromium
        chromium.close()
