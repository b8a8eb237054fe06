"""Compiled functions are kept where only their user can write, and never beside the package."""

import os
from pathlib import Path

import numba
import pytest

from oneword.compiled import compiled

PACKAGE = Path(__file__).parents[1] / "src" / "oneword"


def double(x: float) -> float:
    return 2 * x


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who chose none for numba."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_compiled_functions_are_kept_in_the_cache_of_the_user(kernels: Path) -> None:
    before = os.umask(0o002)  # where files are for one's group
    try:
        assert compiled()(double)(1.5) == 3.0
    finally:
        os.umask(before)
    assert len(kept(kernels)) == 2
    assert kernels.stat().st_mode & 0o777 == 0o700
    assert not kept(Path(__file__).parent)
    assert numba.config.CACHE_DIR == "", "other packages have places of their own"


def test_a_folder_that_the_user_chose_for_numba_is_used(
    tmp_path: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "chosen"))
    assert compiled()(double)(1.5) == 3.0
    assert len(kept(tmp_path / "chosen")) == 2
    assert not kernels.exists()


@pytest.mark.parametrize("case", ["others may write", "a link", "somebody else", "Not a directory"])
def test_a_folder_that_is_not_the_users_alone_is_not_used(
    tmp_path: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    if case == "Not a directory":
        kernels.parent.write_text("")
    elif case == "a link":
        kernels.parent.mkdir()
        kernels.symlink_to(tmp_path / "other")
    else:
        kernels.mkdir(parents=True)
        kernels.chmod(0o777 if case == "others may write" else 0o700)
    if case == "somebody else":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match=f"compiled functions are not kept in .*{case}") as said:
        made = [compiled()(double) for _ in range(2)]
    assert len(said) == 1, "once is enough"
    assert "\n" not in str(said[0].message)
    assert made[0](1.5) == 3.0
    assert not kept(tmp_path)
    assert not kept(Path(__file__).parent)


def test_everything_is_compiled_here() -> None:
    users = [path.name for path in PACKAGE.rglob("*.py") if "jit(" in path.read_text()]
    assert users == ["compiled.py"]
