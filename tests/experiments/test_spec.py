"""Experiments as files and as arguments: which cells they mean, and how they are refused."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.run import sweep
from oneword.experiments.spec import grid, load_spec
from tests.experiments.conftest import kept


@pytest.fixture
def load(tmp_path: Path):
    def loader(text: str, **override: object):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return load_spec(path, override)

    return loader


SMALL = "maps = ['attention']\nn = 4\nd = 6\ntrials = 1\n"


def test_lists_are_multiplied_out(load) -> None:
    spec = load(
        """
        title = "Two maps"
        description = "and two lengths"
        [sweep]
        maps = ["rf", "drf", "attention"]
        n = [4, 6]
        d = 8
        depth = [2, 4]
        k = [10, 20]
        trials = 3
        """
    )
    assert (spec.title, spec.description) == ("Two maps", "and two lengths")
    seen = [(cell.map, cell.n, cell.k, cell.depths, cell.trial) for cell in spec.cells]
    assert len(seen) == len(set(seen)) == 3 * 2 * (2 + 2 + 1)  # attention has no k
    assert ("drf", 6, 20, (2, 4), 2) in seen
    assert ("attention", 4, None, (), 0) in seen
    assert ("rf", 4, 10, (), 1) in seen


def test_the_file_and_the_arguments_mean_the_same_cells(load) -> None:
    arguments = {"maps": ["rf"], "n": [4, 5], "d": 6, "trials": 2, "changed": [1, 2], "certify": 0, "seed": 3}
    text = "\n".join(f"{name} = {value!r}" for name, value in arguments.items())
    assert [cell.key for cell in load("[sweep]\n" + text).cells] == [
        cell.key for cell in grid("sensitivity", arguments)
    ]


def test_ten_trials_unless_told_otherwise(load) -> None:
    assert len(load("[sweep]\nmaps = 'rf'\nn = 4\nd = 6").cells) == 10
    assert len(load("[review]\nmap = 'rf'\nn = 4\nd = 6".replace("map =", "maps =")).cells) == 1


def test_several_tables_of_several_kinds(load) -> None:
    spec = load(
        f"[[sweep]]\n{SMALL}[[sweep]]\n{SMALL}seed = 1\n[[review]]\n{SMALL}"
        "[[attention_map]]\nsentences = ['I love her much', 'I love her smile']\n"
    )
    assert [cell.kind for cell in spec.cells] == ["sensitivity", "sensitivity", "review", "attention_map"]
    assert spec.cells[3].sentences == ("I love her much", "I love her smile")
    assert spec.title == "mine"


def test_the_same_cell_twice_is_one(load) -> None:
    assert len(load(f"[[sweep]]\n{SMALL}[[sweep]]\n{SMALL}").cells) == 1


def test_overrides_reach_the_tables_that_have_a_use_for_them(load) -> None:
    text = f"[[sweep]]\n{SMALL}[[sweep]]\n{SMALL}words_from = 'corpus'\n[attention_map]\nsentences = ['a']\n"
    gaussian, corpus, sentences = load(text, seed=5, encoder="bert", trials=1).cells
    assert (gaussian.seed, gaussian.encoder) == (5, None)
    assert (corpus.seed, corpus.encoder, corpus.corpus) == (5, "bert", "imdb-embedded")
    assert sentences.encoder == "bert"


def test_words_from_several_families(load) -> None:
    text = f"[sweep]\n{SMALL}words_from = ['gaussian', 'corpus']\nreal_words = 7\nencoder = 'x'\n"
    gaussian, corpus = load(text).cells
    assert (gaussian.real_words, gaussian.encoder) == (0, None)
    assert (corpus.real_words, corpus.encoder) == (7, "x")


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (f"[sweep]\n{SMALL}trails = 3", UnknownNameError, "[sweep] 1: expected keys out of"),
        (f"[sweep]\n{SMALL}trails = 3", UnknownNameError, "did you mean 'trials'"),
        (f"[sweeep]\n{SMALL}", UnknownNameError, "did you mean 'sweep'"),
        (f"titel = 'x'\n[sweep]\n{SMALL}", UnknownNameError, "did you mean 'title'"),
        ("title = 3\n[sweep]\nmaps = 'rf'", RangeError, "expected title to be a valid string, got 3"),
        ("sweep = 3", RangeError, "write [sweep]"),
        ("title = 'x'", RangeError, "at least one table"),
        ("[sweep]\nmaps = ['rf']\nn = 4", RangeError, "expected a value or a list of d"),
        ("[sweep]\nmaps = ['rf']\nn = []\nd = 6", RangeError, "at least one value of n"),
        ("[sweep]\nmaps = ['raf']\nn = 4\nd = 6", UnknownNameError, "'raf'"),
        (f"[sweep]\n{SMALL}depth = [2]", RangeError, "leave it out"),
        (f"[sweep]\n{SMALL}encoder = 'minilm'", RangeError, "leave it out"),
        ("[sweep]\nmaps = ['drf']\nn = 4\nd = 6", RangeError, "depths"),
        ("[sweep]\nmaps = ['rf']\nn = 4.5\nd = 6", RangeError, "got 4.5"),
        ("[sweep]\nmaps = ['rf']\nn = 4\nd = 6\ntrials = 0", RangeError, "trials"),
        ("[sweep]\nmaps = ['rf'", FileFormatError, "expected a TOML file, got mine.toml"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(load, text: str, error: type[OnewordError], says: str) -> None:
    with pytest.raises(error) as raised:
        load(text)
    assert says in str(raised.value)
    assert "mine.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="No such file"):
        load_spec(tmp_path / "none.toml")


SHIPPED = sorted(Path(str(files("oneword.experiments") / "specs")).rglob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_spec_can_be_done_on_a_small_machine(path: Path) -> None:
    spec = load_spec(path)
    assert spec.title
    assert spec.description
    memory = 24e9 if path.parent.name == "768" else 8e9  # deep RF at the paper's own width holds 13 GB of weights
    assert max(cell.estimate_bytes() for cell in spec.cells) < 0.8 * memory


def test_learning_has_tables_too(load) -> None:
    text = (
        "[learning]\nmaps = ['rf', 'attention']\nn = [4, 5]\nd = 6\nN = 7\nobjectives = ['loss']\nfrontier = [1, 0.5]"
    )
    cells = load(text).cells
    assert [(cell.map, cell.n) for cell in cells] == [("rf", 4), ("rf", 5), ("attention", 4), ("attention", 5)]
    assert cells[0].frontier == (0.5, 1.0)


def test_a_sweep_is_a_table() -> None:
    table = sweep(maps=["attention", "rf"], n=[4, 5], d=6, trials=2, search="quick", words_from="clustered")
    assert len(table) == 8
    assert set(table["map"]) == {"attention", "rf"}
    assert (table["value"] > 0).all()


def test_a_sweep_can_be_kept(tmp_path: Path) -> None:
    first = sweep("attention", 4, 6, trials=2, search="quick", out=tmp_path)
    assert kept(tmp_path) == 2
    again = sweep("attention", 4, 6, trials=2, search="quick", out=tmp_path)
    pd.testing.assert_frame_equal(first, again, check_exact=True)


def test_a_sweep_refuses_keys_it_does_not_know() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'certify'"):
        sweep("attention", 4, 6, certifi=2)


def test_arrays_and_ranges_are_lists() -> None:
    given = {"maps": "rf", "d": 6, "trials": 1}
    for lengths in (range(4, 7), np.arange(4, 7), (4, 5, 6)):
        assert [cell.n for cell in grid("sensitivity", {**given, "n": lengths})] == [4, 5, 6]


def test_defaults_of_a_grid_are_those_of_a_cell() -> None:
    (cell,) = grid("sensitivity", {"maps": "rf", "n": 4, "d": 6, "trials": 1})
    assert cell == SensitivityCell(map="rf", n=4, d=6)
