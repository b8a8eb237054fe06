"""Cells: what they refuse, what names them, and what their rows say."""

import json
import math
from functools import cache
from pathlib import Path

import numba
import pandas as pd
import pytest
import threadpoolctl
import torch

import oneword as ow
from oneword import theory
from oneword.errors import FileFormatError, OnewordError, RangeError, TextError, UnknownNameError
from oneword.experiments.cell import Cell
from oneword.experiments.cells import (
    AttentionMapCell,
    LearningCell,
    ReviewCell,
    SensitivityCell,
    TrainedCell,
    from_dict,
)
from oneword.experiments.draws import draw_maps, draw_text, prepare, trial_seed
from oneword.experiments.making import one_thread, run_cell
from oneword.experiments.rows import COLUMNS, trained_fits
from oneword.statistics import exponent
from tests.text.tiny_models import LINES, write_model

CELLS: list[Cell] = [
    SensitivityCell(map="rf", n=4, d=6, certify=0),
    SensitivityCell(map="drf", n=4, d=6, depths=(3, 1), activation="tanh", k=9, baseline=0),
    SensitivityCell(map="attention", n=4, d=6, words_from="clustered", certify=3),
    SensitivityCell(map="attention-relu", n=5, d=6, changed=2),
    SensitivityCell(map="attention-relu-unnormalised", n=4, d=6, positions="first", search="quick"),
    LearningCell(map="rf", n=4, d=6, N=6, samples=1, objectives=("loss",), trainings=("fine-tuned",)),
    LearningCell(map="attention", n=4, d=6, N=6, samples=1, positions=2),
    ReviewCell(map="attention", n=4, d=6, certify=0),
]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, "bert", layers=2, spread=0.3)
    return str(folder)


def test_a_trained_model_beside_random_words(tiny_model: str, tmp_path: Path) -> None:
    corpus = tmp_path / "lines.csv"
    lines = [f"{line} {k} times" for k, line in enumerate(LINES * 4)]
    pd.DataFrame({"text": lines, "label": [1, -1] * (len(lines) // 2)}).to_csv(corpus, index=False)
    cells = [
        TrainedCell(model=tiny_model, n=n, corpus=str(corpus), positions=2, real_words=3, trial=t)
        for n in (6, 9)
        for t in (0, 1)
    ]
    assert from_dict(json.loads(json.dumps(cells[0].to_dict()))) == cells[0]
    prepare(cells)
    table = pd.concat([run_cell(cell) for cell in cells])
    assert (table["real_mean"] <= table["real_max"]).all()
    assert (table["value"] > 0).all()
    assert (table["upper"] >= table["value"]).all()
    assert table["certificate"].str.startswith("ceiling: any change").all()
    assert set(table["objective"]) == {"pooled, layer 2"}
    pd.testing.assert_frame_equal(run_cell(cells[0]), table.iloc[:1], check_exact=True)
    fitted = trained_fits(table)
    assert fitted["column"].tolist() == ["upper", "sup", "best_word", "random_word"]
    without = trained_fits(table.assign(upper=[None, *table["upper"].iloc[1:]]))
    assert without["column"].tolist() == ["sup", "best_word", "random_word"]
    truth = exponent(table, y="real_mean")
    assert fitted["slope"].iloc[-1] == truth.slope


REVIEW = CELLS[-1]
LEARNING = LearningCell(map="attention", n=4, d=6, N=6, samples=2, frontier=(1.0, 0.5))


@cache
def rows_of(cell: Cell) -> pd.DataFrame:
    return run_cell(cell)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.title)
def test_a_cell_survives_json_and_keeps_its_key(cell: Cell) -> None:
    again = from_dict(json.loads(json.dumps(cell.to_dict())))
    assert again == cell
    assert again.key == cell.key


def test_the_key_of_a_spec_never_changes() -> None:
    """Written down once: results on disk are found by their keys."""
    assert SensitivityCell(map="rf", n=50, d=192).key == "f81e9e5d44f26159"  # of format 3


def test_every_field_counts_in_the_key() -> None:
    base = {"map": "drf", "n": 4, "d": 6, "depths": [2]}
    changes = [
        {"map": "rf", "depths": []}, {"n": 5}, {"d": 7}, {"depths": [3]}, {"k": 25}, {"activation": "gelu"},
        {"trial": 1}, {"seed": 1}, {"memory": 1 << 29}, {"words_from": "clustered"}, {"words_from": "corpus"},
        {"changed": 2}, {"positions": "one"}, {"search": "quick"}, {"certify": 0}, {"certify": 1.5}, {"baseline": 3},
        {"words_from": "corpus", "encoder": "x"}, {"words_from": "corpus", "corpus": "x"},
        {"words_from": "corpus", "real_words": 3},
    ]  # fmt: skip
    keys = [SensitivityCell(**(base | change)).key for change in [{}, *changes]]
    assert len(set(keys)) == len(keys)


def test_the_same_spec_written_differently_is_the_same_cell() -> None:
    plain = SensitivityCell(map="drf", n=4, d=6, depths=(2, 4), certify=2)
    wordy = SensitivityCell(map="drf", n=4, d=6, depths=[4, 2, 2], certify=2.0, k=24, activation="relu")
    assert wordy.key == plain.key


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"map": "atention"}, UnknownNameError, "did you mean 'attention'"),
        ({"words_from": "gauss"}, UnknownNameError, "did you mean 'gaussian'"),
        ({"map": "rf", "activation": "rellu"}, UnknownNameError, "did you mean 'relu'"),
        ({"positions": "al"}, UnknownNameError, "positions"),
        ({"search": "fast"}, UnknownNameError, "search"),
        ({"n": 1}, RangeError, "expected n a whole number ≥ 2, got 1"),
        ({"n": 4.5}, RangeError, "got 4.5"),
        ({"n": True}, RangeError, "got True"),
        ({"d": "6"}, RangeError, "got '6'"),
        ({"trial": -1}, RangeError, "trial"),
        ({"seed": 1 << 63}, RangeError, "seed"),
        ({"memory": 0}, RangeError, "memory"),
        ({"changed": 5}, RangeError, "≤ 4"),
        ({"changed": 2, "positions": "one"}, RangeError, "positions = all"),
        ({"certify": 0.5}, RangeError, "got 0.5"),
        ({"certify": math.inf}, RangeError, "inf"),
        ({"certify": "tight"}, RangeError, "tight"),
        ({"baseline": -1}, RangeError, "baseline"),
        ({"depths": [2]}, RangeError, "map = drf"),
        ({"map": "drf"}, RangeError, "depths"),
        ({"map": "drf", "depths": 3}, RangeError, "as a list"),
        ({"map": "drf", "depths": [0]}, RangeError, "≥ 1"),
        ({"k": 9}, RangeError, "map = rf or drf"),
        ({"encoder": "minilm"}, RangeError, "words_from = corpus"),
        ({"real_words": 3}, RangeError, "words_from = corpus"),
        ({"words_from": "corpus", "corpus": 3}, RangeError, "corpus"),
        ({"certifi": 2}, UnknownNameError, "did you mean 'certify'"),
        ({"kind": "sensitvity"}, UnknownNameError, "did you mean 'sensitivity'"),
        ({"kind": None}, UnknownNameError, "kind"),
    ],
)
def test_a_spec_that_means_nothing_is_refused(spec: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")) as raised:
        from_dict({"kind": "sensitivity", "map": "attention", "n": 4, "d": 6} | spec)
    assert "\n" not in str(raised.value)


def test_an_incomplete_spec_is_refused() -> None:
    with pytest.raises(FileFormatError, match="'n'"):
        from_dict({"kind": "sensitivity", "map": "rf", "d": 6})


def test_sentences_are_checked_when_the_cell_is_made() -> None:
    with pytest.raises(RangeError, match="as a list"):
        AttentionMapCell(sentences="I love her much")  # type: ignore[arg-type]
    with pytest.raises(TextError):
        AttentionMapCell(sentences=("fine", " "))
    with pytest.raises(RangeError, match="none"):
        AttentionMapCell(sentences=())


# Rows ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.title)
def test_rows_are_typed_and_complete(cell: Cell) -> None:
    table = rows_of(cell)
    assert list(table.columns) == list(COLUMNS)
    names = {"string": "string", "int64": "Int64", "double": "float64"}
    assert [str(dtype) for dtype in table.dtypes] == [names[str(kind)] for kind in COLUMNS.values()]
    assert set(table["key"]) == {cell.key}
    assert set(table["kind"]) == {cell.kind}
    assert table["row"].tolist() == list(range(len(table)))
    value, upper = table["value"], table["upper"]
    assert (value > 0).all() or cell.kind == "learning"
    assert (upper.isna() | (upper >= value)).all()
    assert 0 < cell.estimate_cost() < 60
    assert 1e8 < cell.estimate_bytes() < 1e10


def test_a_cell_is_a_pure_function_of_its_spec() -> None:
    pd.testing.assert_frame_equal(rows_of(CELLS[2]), run_cell(CELLS[2]), check_exact=True)


def test_the_numbers_are_those_of_the_library() -> None:
    cell = SensitivityCell(map="attention", n=5, d=8, certify=2, baseline=4, trial=3, seed=7)
    row = run_cell(cell).iloc[0]
    text = ow.gaussian(5, 8, seed=trial_seed(cell, "text"))
    phi = ow.AttentionFeatures.draw(8, seed=trial_seed(cell, "map"))
    with one_thread():
        s = ow.sensitivity(phi, text, certify=ow.Certify(2), baseline=4, seed=trial_seed(cell, "search"))
    assert (row["value"], row["upper"], row["baseline"]) == (s.value, s.upper, s.baseline)
    assert (row["position"], row["word"], row["status"]) == (s.position, s.word, str(s.status))
    assert row["first"] == s.per_word["value"][0]
    after = phi(text.X.index_put((torch.tensor([s.position]),), (text.X[s.position] + s.delta)[None]))
    assert float((after - phi(text.X)).norm() / phi(text.X).norm()) == pytest.approx(row["value"], rel=1e-9)


def test_attention_moves_onto_the_changed_word() -> None:
    cell = SensitivityCell(map="attention", n=6, d=16)
    row = run_cell(cell).iloc[0]
    ((_, phi),) = draw_maps(cell)
    before = phi.score.attend(phi.scores(draw_text(cell).text.X))[:, int(row["position"])].mean()
    assert row["mass_before"] == pytest.approx(float(before), rel=1e-12)
    assert row["mass_before"] < row["mass_after"] <= 1


def test_maps_of_a_trial_share_the_text_and_trials_do_not() -> None:
    cells = [SensitivityCell(map=m, n=4, d=6, trial=t) for t in (0, 1) for m in ("rf", "attention")]
    texts = [draw_text(cell).text.X for cell in cells]
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[2], texts[3])
    assert not torch.equal(texts[0], texts[2])
    weights = [next(iter(draw_maps(cell)))[1](texts[0]) for cell in cells]
    assert not torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[1], weights[3])


def test_depths_are_one_draw_cut_at_each() -> None:
    both = run_cell(SensitivityCell(map="drf", n=4, d=6, depths=(2, 3)))
    alone = run_cell(SensitivityCell(map="drf", n=4, d=6, depths=(2,)))
    assert both["depth"].tolist() == [2, 3]
    assert both["value"][0] == alone["value"][0]


def test_predictions_stand_beside_the_measurements() -> None:
    def predicted(**spec: object) -> float:
        return run_cell(SensitivityCell(n=6, d=8, search="quick", **spec))["predicted"][0]

    assert predicted(map="rf") == pytest.approx(theory.rf_sensitivity(6, 8))
    assert predicted(map="rf", activation="tanh", k=30) == pytest.approx(theory.rf_sensitivity(6, 8, 30, "tanh"))
    assert predicted(map="rf", changed=3) == pytest.approx(theory.rf_words(3, 6, 8))
    assert predicted(map="drf", depths=(2,)) == pytest.approx(theory.drf_guide(6, 2))
    assert math.isnan(predicted(map="rf", changed=3, activation="tanh"))
    assert math.isnan(predicted(map="attention"))


def test_one_position_and_the_first() -> None:
    one, first = (run_cell(SensitivityCell(map="rf", n=9, d=6, positions=p, trial=2)).iloc[0] for p in ("one", "first"))
    assert first["position"] == 0
    assert first["first"] == first["value"]
    assert 0 < one["position"] < 9  # drawn for this trial
    assert pd.isna(one["first"])


def test_what_was_not_measured_is_null() -> None:
    row = run_cell(SensitivityCell(map="attention", n=4, d=6, baseline=0)).iloc[0]
    for name in ("k", "depth", "activation", "encoder", "corpus", "upper", "baseline", "real_mean", "predicted", "N"):
        assert pd.isna(row[name]), name


def test_a_review_has_a_row_for_every_word() -> None:
    table = run_cell(REVIEW)
    assert table["position"].tolist() == [0, 1, 2, 3]
    assert table["word"].tolist() == ["w0", "w1", "w2", "w3"]
    assert table["upper"].notna().all()
    best = run_cell(SensitivityCell(map="attention", n=4, d=6, certify=0))
    assert table["value"].max() == best["value"][0]


# Learning -----------------------------------------------------------------------------------------------------------


def test_a_new_text_has_a_row_for_every_training_and_objective() -> None:
    table = rows_of(LEARNING)
    objectives = ["loss", "features", "alignment", "lowest-alignment", "frontier", "frontier"]
    assert table["objective"].tolist() == objectives * 4
    assert table["training"].tolist() == (["fine-tuned"] * 6 + ["retrained"] * 6) * 2
    assert table["sample"].tolist() == [0] * 12 + [1] * 12
    assert table["g"].dropna().tolist() == [0.5, 1.0] * 4
    assert set(table["N"]) == {6}
    assert table["label"].groupby(table["sample"]).first().tolist() == [1, -1]


def test_errors_obey_the_identity_and_the_limits() -> None:
    table = rows_of(LEARNING)
    y = table["label"].astype(float)
    identity = (2 + y * table["signed_delta"] + (table["alignment"] - 1) * table["residual"]) ** 2
    assert (table["err"] - identity).abs().max() < 1e-9
    assert table["residual"].to_numpy() == pytest.approx((1 - y * table["f"]).to_numpy())
    frontier = table[table["objective"] == "frontier"]
    assert (frontier["gamma"] <= frontier["g"]).all()
    assert (table["condition"] >= 1).all()
    assert (table["lambda_min_over_k"] > 0).all()


def test_only_the_drawn_positions_change() -> None:
    cell = LearningCell(map="attention", n=20, d=6, N=3, samples=3, positions=2, objectives=("loss",))
    table = run_cell(cell)
    assert set(table["positions"]) == {"2"}
    for sample, rows in table.groupby("sample"):
        assert set(rows["position"]) <= set(cell._positions(int(sample)))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"N": 0}, "N"),
        ({"samples": 0}, "samples"),
        ({"trainings": ["retained"]}, "did you mean 'retrained'"),
        ({"trainings": []}, "at least one"),
        ({"objectives": ["lowest"]}, "objectives"),
        ({"objectives": []}, "at least one"),
        ({"frontier": [0]}, "g > 0"),
        ({"frontier": 0.5}, "as a list"),
        ({"positions": 5}, "≤ 4"),
        ({"positions": "one"}, "'one'"),
    ],
)
def test_a_learning_cell_that_means_nothing_is_refused(spec: dict[str, object], says: str) -> None:
    with pytest.raises(OnewordError, match=says):
        from_dict({"kind": "learning", "map": "attention", "n": 4, "d": 6, "N": 5} | spec)


def test_new_texts_of_a_corpus_have_its_labels(tiny_encoder: str, tiny_corpus: str) -> None:
    cell = LearningCell(
        map="attention", n=7, d=8, N=6, samples=4, objectives=("loss",), trainings=("retrained",), words_from="corpus",
        encoder=tiny_encoder, corpus=tiny_corpus,
    )  # fmt: skip
    table = run_cell(cell)
    assert sorted(table["label"]) == [-1, -1, 1, 1]  # balanced
    assert set(table["corpus"]) == {"reviews.csv"}
    assert set(table["dropped"]) == {0}


def test_a_corpus_without_labels_teaches_nothing(tiny_encoder: str, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"{word} film\n" for word in ("good", "bad", "the", "a")))
    cell = LearningCell(
        map="rf",
        n=3,
        d=8,
        N=2,
        samples=1,
        words_from="corpus",
        encoder=tiny_encoder,
        corpus=str(tmp_path / "texts.txt"),
    )
    with pytest.raises(RangeError, match="labels"):
        run_cell(cell)


# Words from a corpus ------------------------------------------------------------------------------------------------


def test_words_of_a_corpus(tiny_encoder: str, tiny_corpus: str) -> None:
    cell = SensitivityCell(
        map="attention", n=5, d=8, words_from="corpus", encoder=tiny_encoder, corpus=tiny_corpus, real_words=20
    )
    row = run_cell(cell).iloc[0]
    assert (row["encoder"], row["corpus"]) == ("tiny", "reviews.csv")  # names, never paths
    assert row["word"] in ("[CLS]", "good", "bad")
    assert 0 < row["real_mean"] <= row["real_max"]
    assert row["real_max"] <= 2.5 * row["value"]  # real words lie within 2√d, twice the ball


def test_a_real_word_is_embedded_where_it_stands(tiny_encoder: str, tiny_corpus: str) -> None:
    """A word replaced by itself changes nothing: among many random words some are the word itself, to the last bit."""
    cell = SensitivityCell(map="rf", n=5, d=8, words_from="corpus", encoder=tiny_encoder, corpus=tiny_corpus)
    drawn = draw_text(cell)
    for position in (1, 4):
        rows = drawn.real_words(200, position, seed=0)
        assert (rows == drawn.text.X[position]).all(1).any()
        assert len(rows.unique(dim=0)) > 5


def test_several_real_words_at_once(tiny_encoder: str, tiny_corpus: str) -> None:
    cell = SensitivityCell(
        map="rf", n=5, d=8, words_from="corpus", encoder=tiny_encoder, corpus=tiny_corpus, real_words=4, changed=2
    )
    assert run_cell(cell)["real_max"][0] > 0


def test_a_review_of_a_corpus_has_its_label(tiny_encoder: str, tiny_corpus: str) -> None:
    cell = ReviewCell(map="attention", n=5, d=8, words_from="corpus", encoder=tiny_encoder, corpus=tiny_corpus)
    table = run_cell(cell)
    assert table["word"][0] == "[CLS]"
    assert set(table["label"]) <= {1, -1}


def test_an_attention_map_has_rows_that_sum_to_one(tiny_encoder: str) -> None:
    table = run_cell(AttentionMapCell(sentences=("good film", "bad <b>film</b>"), encoder=tiny_encoder))
    sums = table.groupby(["sentence", "from_index"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(1)
    assert table.loc[table["sentence"] == 1, "text"].iloc[0] == "bad <b>film</b>"


def test_what_the_encoder_does_not_have_is_refused_before_the_run(tiny_encoder: str, tiny_corpus: str) -> None:
    def cell(n: int, d: int) -> Cell:
        return SensitivityCell(map="rf", n=n, d=d, words_from="corpus", encoder=tiny_encoder, corpus=tiny_corpus)

    with pytest.raises(RangeError, match="width of tiny"):
        prepare([cell(5, 9)])
    with pytest.raises(RangeError, match="24 tokens"):
        prepare([cell(25, 8)])


# One thread ---------------------------------------------------------------------------------------------------------


def test_a_cell_runs_on_one_thread_and_gives_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def rows(self: Cell) -> list[dict[str, object]]:
        seen["torch"] = torch.get_num_threads()
        seen["numba"] = numba.get_num_threads()
        seen["pools"] = max(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
        return []

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(ReviewCell, "rows", rows)
        run_cell(REVIEW)
        assert seen == {"torch": 1, "numba": 1, "pools": 1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before[0])
    assert numba.get_num_threads() == before[1]


def test_threads_come_back_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(OSError, match="no luck"), one_thread():
        raise OSError("no luck")
    assert torch.get_num_threads() == before
