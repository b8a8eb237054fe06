"""A first answer of every map and model comes before the long searches, is called what it is, and changes no number."""

import io
import itertools
import json
import math
import re
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from torch import Tensor

import oneword as ow
from oneword.maps.base import ModuleFeatures
from oneword.maps.jacobian import estimated_gains2
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import shares
from oneword.report.words.lines import scales
from oneword.report.words.sentences import bracket, first_answer
from oneword.report.words.table import WordTable
from oneword.report.words.terminal import FirstView
from oneword.words.random_words import RandomWords
from tests.text.tiny_bert import needs_minilm
from tests.text.tiny_models import write_model

pytest.importorskip("transformers")
TEXT = "I love this film, and it wasn't unhappily made."
BY = ("attention", "rf")


@pytest.fixture(scope="module")
def phi(tmp_path_factory: pytest.TempPathFactory) -> TransformerFeatures:
    folder = tmp_path_factory.mktemp("bert")
    write_model(folder, "bert", layers=3, spread=0.3)
    return TransformerFeatures.load(str(folder), output="pooled", dtype=torch.float32)


@pytest.fixture(scope="module")
def run(phi: TransformerFeatures) -> tuple[WordTable, list[WordTable], list[tuple[str, float]]]:
    """Two maps and a model: the last table, those on the way, and what progress said."""
    shown: list[WordTable] = []
    heard: list[tuple[str, float]] = []
    table = ow.measure(
        TEXT, [*BY, phi], effort="quick", seeds=1, show=shown.append, progress=lambda *news: heard.append(news)
    )
    return table, shown, heard


def test_all_of_them_answer_before_the_search_of_any(run) -> None:
    _, shown, _ = run
    kinds = [{part.subject.by for part in table.parts} for table in shown[:3]]
    assert [len(each) for each in kinds] == [1, 2, 3]
    for table in shown[:3]:
        assert table.words["value"].isna().all()
        assert table.words["upper"].isna().all()
        assert table.seconds_left > 0
    assert shown[3].words["value"].notna().any()
    assert shown[-1].words["value"].notna().all()


def test_a_first_answer_is_called_what_it_is(run) -> None:
    _, shown, _ = run
    for part in shown[2].parts:
        said = f"{first_answer(part)} {bracket(part)}"
        assert "S ≥" not in said
        assert "random word" in said
        assert "while the search goes on" in said
        assert any(f"{part.subject.by}: a first answer" in note for note in shown[2].notes)
    assert "first order (no bound)" in first_answer(shown[2].parts[2])
    assert "estimated from 4 gradients" in " ".join(shown[2].notes)
    assert "S ≥" not in repr(shown[2])


def test_the_last_numbers_do_not_depend_on_the_first(run, phi: TransformerFeatures) -> None:
    table, _, _ = run
    plain = ow.measure(TEXT, [*BY, phi], effort="quick", seeds=1)
    pd.testing.assert_frame_equal(table.words, plain.words, check_exact=True)
    for name in ("replacements", "layers", "heads"):
        pd.testing.assert_frame_equal(getattr(table, name), getattr(plain, name), check_exact=True)
    assert table.notes == plain.notes
    assert table.seconds_left is plain.seconds_left is None
    json.dumps(plain.to_dict())


def test_words_are_coloured_by_first_order_only_while_nothing_else_is_known(run) -> None:
    table, shown, _ = run
    assert [set(scales(part)) for part in table.parts] == [{"value", "best_word", "random_word"}] * 2 + [
        {"value", "random_word"}
    ]
    words = shown[2].words.assign(random_word=math.nan)
    (part,) = ow.WordTable(shown[2].texts, words, subjects=shown[2].subjects).parts[2:]
    assert set(scales(part)) == {"first_order"}
    assert "first order, which is no bound" in bracket(part)


def test_progress_never_goes_back_and_ends_at_the_end(run) -> None:
    _, _, heard = run
    done = [share for _, share in heard]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(done))
    assert done[0] >= 0
    assert done[-1] == pytest.approx(1.0)


def test_first_order_from_a_few_gradients_is_near_the_norm_of_the_jacobian() -> None:
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(30, 5 * 4, generator=generator, dtype=torch.float64) * torch.arange(1, 6).repeat_interleave(4)
    linear = ModuleFeatures(lambda X: W @ X.flatten())
    truth = torch.stack([block.square().sum() for block in W.split(4, dim=1)])
    found = estimated_gains2(linear, torch.ones(5, 4, dtype=torch.float64), count=200)
    assert (found / truth - 1).abs().max() < 0.2  # 200 gradients of 30 directions: about 4 % each
    few = estimated_gains2(linear, torch.ones(5, 4, dtype=torch.float64))
    assert few.argsort().tolist() == [0, 1, 2, 3, 4]


def test_random_words_are_the_same_in_whatever_order_they_are_tried(phi: TransformerFeatures) -> None:
    text = phi.encode(TEXT)
    probe, words = phi.at(text.X), ow.Vocabulary.of(phi.encoder)
    spots = [i for i, special in enumerate(text.special) if not special]
    small = {"seed": 1, "memory": 3 * probe.bytes_per_candidate(1)}
    whole = RandomWords(probe, text, spots, words, 2, **small)
    whole.run()
    draw = np.random.default_rng(0)
    for _ in range(3):
        pieces = RandomWords(probe, text, spots, words, 2, **small)
        pieces.first({i: float(draw.random()) for i in spots})
        first = pieces.left
        while pieces.left:
            pieces.run(most=int(draw.integers(1, 6)))
        assert first == sum(map(len, whole.found.values()))
        assert pieces.found == whole.found
        assert [list(each) for each in pieces.found.values()] == [list(each) for each in whole.found.values()]


def test_pieces_of_work_take_parts_of_the_whole_by_their_weight() -> None:
    heard: list[float] = []
    one, none, three = shares(lambda stage, done: heard.append(done), [1.0, 0.0, 3.0])
    for each in (one, none, three):
        each("x", 0.0)
        each("x", 1.0)
    assert heard == [0.0, 0.25, 0.25, 0.25, 0.25, 1.0]


def test_a_map_of_ones_own_has_a_first_answer_too() -> None:
    shown: list[WordTable] = []

    def mean(X: Tensor) -> Tensor:
        return X.mean(-2)

    ow.measure("I love her much", mean, effort="quick", show=shown.append)
    assert shown[0].words["value"].isna().all()
    assert shown[0].words["random_word"].notna().all()
    shown.clear()
    ow.measure("I love her much", mean, effort="quick", words=False, show=shown.append)
    assert shown[0].words["random_word"].isna().all()


def test_a_terminal_shows_the_text_in_colour_and_how_long_the_rest_takes(run) -> None:
    _, shown, _ = run
    console = Console(width=100, force_terminal=True, color_system="truecolor", file=io.StringIO(), record=True)
    console.print(FirstView(replace(shown[2], seconds_left=185.0), 12.2))
    said = console.export_text(styles=True)
    assert "first answer after 12 s: random words and first order; refining, about 3 min left" in said
    # rich keeps the codes of a style from whatever console used it first, which may have had 16 colours.
    assert re.search(r"\x1b\[(1;)?(38;2;|30;10\d|30;4\d|97;4\d)", said.partition("first answer")[0])
    assert "S ≥" not in said


@needs_minilm
def test_the_command_says_a_first_answer_on_standard_error_alone(oneword, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["measure", "I love her much", "--map", "attention", "--effort", "quick", "--json", "-"]
    plain = oneword(*arguments)
    assert "first answer" not in plain.stderr  # the whole answer is there as soon
    monkeypatch.setattr("oneword.cli.measure.SOON", -1.0)
    run = oneword(*arguments)
    (line,) = [line for line in run.stderr.splitlines() if "first answer after" in line]
    assert "Softmax attention: most random word at “" in line
    assert "left" in line
    assert json.loads(run.stdout)["words"] == json.loads(plain.stdout)["words"]
    assert "first answer" not in run.stdout
    assert oneword(*arguments, "--quiet").stderr == ""


@needs_minilm
@pytest.mark.slow
def test_the_time_left_is_what_the_work_takes() -> None:
    """From a fifth of the work on, elapsed time and fraction give the whole time within a factor of 2."""
    text = " ".join(["The film is slow but she is never dull, and that is no small thing to say of it."] * 3)
    ow.measure("I love her much", effort="quick")  # compiled functions are there
    began, heard = time.monotonic(), []
    ow.measure(text, show=lambda table: None, progress=lambda stage, done: heard.append((time.monotonic(), done)))
    whole = time.monotonic() - began
    guessed = [(now - began) / done / whole for now, done in heard if done >= 0.2]
    assert 0.5 < min(guessed) <= max(guessed) < 2
