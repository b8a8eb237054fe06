"""Maps of one's own in sweeps: carried through, and never answered from results of another version of them."""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

import oneword as ow
from oneword.errors import CellError, RangeError, UnknownNameError
from oneword.experiments import store
from oneword.experiments.making import Maker
from oneword.experiments.own_maps import SESSION, fingerprint
from oneword.experiments.results import read_results
from oneword.experiments.spec import grid, load_spec
from tests.experiments.conftest import kept

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")

MODULE = """
import torch
from oneword import FeatureMap
from {helper} import scale

class Scaled(FeatureMap):
    def __init__(self, W, power=3):
        super().__init__()
        self.register_buffer("W", W)
        self.power = power

    def forward(self, X):
        return torch.tanh(scale() * X @ self.W) ** self.power

    def describe(self):
        return {{"map": "scaled"}}

def factory(n, d, seed):
    return Scaled(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))
"""
HELPER = "def scale():\n    return {value}\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of somebody's, with another one beside it; written anew with other values, and imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits within a second would look the same

    def write(value: float = 0.5, text: str = MODULE):
        (folder / "a_helper.py").write_text(HELPER.format(value=value))
        (folder / "a_map.py").write_text(text.format(helper="a_helper"))
        for name in ("a_helper", "a_map"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("a_map")

    yield write
    for name in ("a_helper", "a_map"):
        sys.modules.pop(name, None)


def small(maps: object, **more: object) -> pd.DataFrame:
    return ow.sweep(maps, n=[3, 4], d=4, trials=2, search="quick", **more)


def test_objects_factories_and_names_stand_beside_each_other(module) -> None:
    mine = module()
    table = small(["attention", mine.factory, mine.factory(4, 4, 7)], baseline=2)
    assert set(table["map"]) == {"attention", "factory", "Scaled"}
    assert table.groupby("map").size().tolist() == [4, 4, 4]
    assert (table["value"] > 0).all()
    drawn = table[table["map"] == "factory"].set_index(["n", "trial"])["value"]
    assert drawn.nunique() == 4  # weights and text of each trial


def test_names_can_be_given(module) -> None:
    mine = module()
    table = small({"weak": mine.factory(4, 4, 1), "strong": mine.factory(4, 4, 2)})
    assert set(table["map"]) == {"weak", "strong"}


def test_learning_and_reviews_take_them_too(module) -> None:
    given = {"maps": [module().factory], "n": 3, "d": 4, "trials": 1}
    for kind, more in (("learning", {"N": 3, "samples": 1, "objectives": ["loss"]}), ("review", {})):
        (cell,) = grid(kind, {**given, **more})
        assert {row["map"] for row in cell.rows()} == {"factory"}


def test_cells_are_done_anew_after_an_edit_and_kept_without_one(module, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = small(module().factory, out=out)
    cells = kept(out)
    again = small(module().factory, out=out)  # written and imported anew, with the same text
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert kept(out) == cells
    commented = small(module(text="# a comment and some lines\n\n" + MODULE).factory, out=out)
    pd.testing.assert_frame_equal(first, commented, check_exact=True)
    assert kept(out) == cells
    edited = small(module(text=MODULE.replace("torch.tanh(", "torch.sin(")).factory, out=out)
    assert kept(out) == 2 * cells
    assert (
        edited.sort_values(["n", "trial"])["value"].values != first.sort_values(["n", "trial"])["value"].values
    ).all()
    small(module(value=0.25).factory, out=out)  # an edit of what it imports
    assert kept(out) == 3 * cells


def test_parameters_count_in_the_fingerprint(module) -> None:
    mine = module()
    W = torch.eye(4, dtype=torch.float64)
    prints = [fingerprint(mine.Scaled(*given)) for given in ((W,), (W.clone(),), (2 * W,), (W, 5), (W.float(),))]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4
    assert fingerprint(ow.AttentionFeatures.draw(4, seed=0)) == fingerprint(ow.AttentionFeatures.draw(4, seed=0))
    assert fingerprint(ow.AttentionFeatures.draw(4, seed=0)) != fingerprint(ow.AttentionFeatures.draw(4, seed=1))
    assert fingerprint(ow.RandomFeatures.draw(3, 4, seed=0)) != fingerprint(ow.RandomFeatures.draw(3, 4, seed=1))


def test_what_a_closure_holds_counts_in_the_fingerprint() -> None:
    def power(exponent: object) -> ow.ModuleFeatures:
        def function(X: Tensor) -> Tensor:
            return X**exponent

        return ow.ModuleFeatures(function, batched=True)

    assert fingerprint(power(2)) == fingerprint(power(2)) != fingerprint(power(3))
    without = [fingerprint(power(iter([1]))) for _ in range(2)]  # an iterator has no stable form
    assert without[0] != without[1]
    assert all(each.startswith(SESSION) for each in without)


def test_a_kept_cell_says_which_version_it_is_of(module, tmp_path: Path) -> None:
    (cell,) = grid("sensitivity", {"maps": module().factory, "n": 3, "d": 4, "trials": 1, "search": "quick"})
    assert cell.to_dict()["own"] == fingerprint(module().factory)
    with store.opened(tmp_path) as cells:
        cells.write([store.Made(cell, "[]", 0.0, Maker.here(), {})])
        assert len(list(cells.read({cell.key: cell}, {cell.key: {}}))) == 1


@needs_dask
@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bits(module, tmp_path: Path, workers: int) -> None:
    mine = module()
    maps = [mine.factory, mine.factory(3, 4, 5)]
    small(maps, out=tmp_path / "here")
    small(maps, out=tmp_path / "there", workers=workers)
    assert (tmp_path / "here/results.parquet").read_bytes() == (tmp_path / "there/results.parquet").read_bytes()


@needs_dask
def test_workers_that_load_another_version_are_refused(module, tmp_path: Path) -> None:
    old = module().factory
    module(text=MODULE.replace("torch.tanh(", "torch.sin("))  # on disk, where workers find it
    sys.modules["a_map"].factory = old  # by its name it is still this one here
    with pytest.raises(CellError, match="got another version: start Python anew"):
        small(old, out=tmp_path / "out", workers=1)


# Files ---------------------------------------------------------------------------------------------------------------


def spec(folder: Path, maps: str) -> Path:
    path = folder / "own.toml"
    path.write_text(f"[sweep]\nmaps = {maps}\nn = 3\nd = 4\ntrials = 1\nsearch = 'quick'\n")
    return path


def test_a_file_names_a_factory_and_needs_trust(module, tmp_path: Path, oneword) -> None:
    module()
    path = spec(tmp_path / "code", "['rf', 'a_map:factory']")
    with pytest.raises(RangeError, match=r"own\.toml: \[sweep\] 1: expected trust_code = True to run the code of"):
        load_spec(path)
    assert [cell.map for cell in load_spec(path, trust_code=True).cells] == ["rf", "factory"]
    with pytest.raises(RangeError, match="trust_code"):
        small("a_map:factory")
    assert set(small("a_map:factory", trust_code=True)["map"]) == {"factory"}
    refused = oneword("sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "0")
    assert refused.returncode == 2
    assert "trust_code" in refused.stderr
    done = oneword("sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "0", "--trust-code")
    assert done.returncode == 0
    assert set(read_results(tmp_path / "out")["map"]) == {"rf", "factory"}


def test_what_cannot_be_meant_is_refused(module, tmp_path: Path) -> None:
    mine = module()
    with pytest.raises(UnknownNameError, match="expected a factory at 'a_map:none', got none"):
        small("a_map:none", trust_code=True)
    with pytest.raises(UnknownNameError, match=r"no_such_module.*ModuleNotFoundError"):
        small("no_such_module:factory", trust_code=True)
    with pytest.raises(RangeError, match="two that are called 'Scaled'"):
        small([mine.factory(3, 4, 1), mine.factory(3, 4, 2)])
    with pytest.raises(RangeError, match="no map of the registry has, got 'rf'"):
        small({"rf": mine.factory})
    with pytest.raises(RangeError, match="expected a name, a FeatureMap or a factory"):
        small([3])
    with pytest.raises(RangeError, match=r"give a function of X as ModuleFeatures\(function\)"):
        small(torch.tanh)
    with pytest.raises(RangeError, match="leave it out"):
        small(mine.factory, depth=[2])
    with pytest.raises(CellError, match="expected a FeatureMap from the factory"):
        small({"nothing": lambda n, d, seed: 3})
