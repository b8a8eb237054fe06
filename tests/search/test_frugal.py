"""Searches of models: what one position finds is handed on, and the leading positions climb from several starts."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import oneword as ow
from oneword.maps.base import Probe
from oneword.maps.transformer import TransformerFeatures
from oneword.search.base import Search, Status
from oneword.search.candidates import Candidates, Landscape
from oneword.search.defaults import DefaultSearch
from oneword.search.frugal import FrugalAscent, agreed, scout_and_climb
from oneword.sets.constraints import unit
from tests.text.tiny_models import write_model

IDS = [2, 17, 31, 44, 58, 3]  # not a text: a tokenizer trained anew numbers its words anew
WITHIN = ow.Ball(relative=1.0)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Probe:
    pytest.importorskip("transformers")
    folder: Path = tmp_path_factory.mktemp("bert")
    write_model(folder, "bert", layers=2, spread=0.3)
    phi = TransformerFeatures.load(str(folder), output="pooled", dtype=torch.float64)
    return phi.at(phi.encoder.layer0.word[IDS].double())


def every(probe: Probe) -> Tensor:
    return torch.arange(probe.n)[:, None]


def values(probe: Probe, y: Tensor) -> Tensor:
    """`change2` of one new word at every position."""
    return probe.change2(y, torch.arange(len(y)))


def probe_of(function: object, X: Tensor) -> Probe:
    """A plain map, to be searched as a model is."""
    return ow.ModuleFeatures(function, batched=True).at(X)  # type: ignore[arg-type]


def climbed(probe: Probe, starts: Tensor, **effort: int) -> Candidates:
    search = FrugalAscent(**{"steps": 16, "keep": 1, "leading": 1, "polish": 20} | effort)
    land = Landscape(probe, ow.Ball(), search.memory)
    return scout_and_climb(land, every(probe), starts[:, :, None], search)


def bump(w: Tensor) -> object:
    """Flat but for words near w, at whichever position."""
    return lambda X: 1 + torch.exp(-(X - w).square().sum(-1) / 4).sum(-1, keepdim=True)


def long_search(probe: Probe, row: int) -> float:
    """8 starts and 200 steps at one word."""
    x, i = probe.X[row].expand(8, -1), torch.full((8,), row)
    reach = WITHIN.reach(x)[:, None]
    y = WITHIN.toward(x, torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0)))
    best, mean = torch.zeros(8, dtype=x.dtype), torch.zeros_like(x)
    for k in range(200):
        value, gradient = probe.value_and_gradient(y, i)
        best, mean = torch.maximum(best, value), 0.8 * mean + 0.2 * unit(gradient)
        y = WITHIN.project(x, y + (0.075 * (1 + math.cos(math.pi * k / 200)) + 0.01) * reach * unit(mean))
    return float(best.max().sqrt())


@pytest.mark.parametrize(
    ("search", "bar"), [(DefaultSearch(), 0.92), (DefaultSearch(quick=True), 0.75)], ids=["full", "quick"]
)
def test_the_best_two_words_of_a_model_come_near_a_long_search(probe: Probe, search: Search, bar: float) -> None:
    found = search.run(probe, every(probe), WITHIN).change2.sqrt()
    for row in found.argsort(descending=True)[:2].tolist():
        assert float(found[row]) >= bar * long_search(probe, row)


def test_what_one_position_finds_is_handed_on_to_all() -> None:
    X = ow.gaussian(12, 8, seed=0).X
    w = X.mean(0)
    probe = probe_of(bump(w), X)
    starts = ow.Ball().toward(X, X - w)[:, None].clone()  # away from w …
    starts[5, 0] = w + 0.5  # … but for one position
    inside = ow.Ball().project(X, w.expand_as(X))
    assert (climbed(probe, starts).value[:, 0] >= 0.99 * values(probe, inside)).all()


def test_a_position_where_a_start_of_its_own_does_more_keeps_it() -> None:
    X = ow.gaussian(12, 8, seed=0).X
    own = ow.Ball().toward(X, X.flip(0) - X)  # at each position another word is the one that counts
    probe = probe_of(lambda Y: 1 + torch.exp(-(Y - own).square().sum(-1)).sum(-1, keepdim=True), X)
    starts = ow.Ball().project(X, own + 0.1)[:, None]
    assert ((climbed(probe, starts).y[:, 0, 0] - own).norm(dim=1) < 0.1).all()


@pytest.mark.parametrize("quick", [False, True])
def test_starts_that_end_at_the_same_height_count_as_converged(quick: bool) -> None:
    X = ow.gaussian(5, 6, seed=1).X
    longest = torch.tensor([3.0, 1, 1, 1, 1, 1]).to(X)
    search = (
        FrugalAscent.suited_to(5, quick=True)
        if quick
        else FrugalAscent(random=2, steps=16, keep=2, leading=2, polish=80)
    )
    probe = probe_of(lambda Y: Y * longest, X)
    status = Status.QUICK if quick else Status.CONVERGED
    assert search.run(probe, every(probe), ow.Ball()).status is status


def test_a_single_start_never_agrees() -> None:
    X = ow.gaussian(1, 6, seed=1).X
    assert not agreed(climbed(probe_of(lambda Y: 2 * Y, X), ow.Ball().toward(X, X)[:, None])).any()


def test_starts_that_end_at_different_heights_do_not_agree() -> None:
    X = torch.zeros(1, 4, dtype=torch.float64)

    def two_hills(Y: Tensor) -> Tensor:
        return 1 + torch.exp(-(Y - 1).square().sum(-1)) + 2 * torch.exp(-(Y + 1).square().sum(-1))

    starts = torch.stack([torch.full_like(X, 0.9), torch.full_like(X, -0.9)], 1)
    found = climbed(probe_of(two_hills, X), starts, keep=2)
    assert not agreed(found).any()
    torch.testing.assert_close(found.y[0, 0, 0], torch.full((4,), -1.0, dtype=torch.float64), rtol=0, atol=0.05)


def test_the_leading_words_climb_longest_and_from_several_starts(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[Tensor]] = {}
    plain = Probe.value_and_gradient

    def watched(self: Probe, y: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        for row, word in zip(i[:, 0].tolist(), y[:, 0], strict=True):
            seen.setdefault(row, []).append(word)
        return plain(self, y, i)

    monkeypatch.setattr(type(probe), "value_and_gradient", watched)
    found = FrugalAscent(random=0, steps=4, keep=2, leading=2, polish=20).run(probe, every(probe), WITHIN)
    best = int(found.change2.argmax())
    assert len(seen[best]) > min(len(words) for words in seen.values())
    # Its last climbs, side by side, came from different places and stayed apart.
    assert not torch.equal(seen[best][-1], seen[best][-2])
    assert not torch.equal(seen[best][-21], seen[best][-22])


def test_the_same_call_gives_the_same_bits_and_batches_change_nothing(probe: Probe) -> None:
    search = FrugalAscent(random=1, steps=3, keep=2, leading=2, polish=6)
    a, b = (search.run(probe, every(probe), WITHIN, seed=3) for _ in range(2))
    assert torch.equal(a.change2, b.change2)
    assert torch.equal(a.y, b.y)
    small = FrugalAscent(1, 3, 2, 2, 6, memory=1).run(probe, every(probe), WITHIN, seed=3)
    torch.testing.assert_close(a.change2, small.change2, rtol=1e-8, atol=0)


@pytest.mark.parametrize("search", [FrugalAscent(1, 2, 2, 2, 5), DefaultSearch(quick=True)], ids=["full", "quick"])
def test_progress_rises_to_one(probe: Probe, search: Search) -> None:
    heard: list[float] = []
    search.run(probe, every(probe), WITHIN, progress=lambda stage, done: heard.append(done))
    assert heard == sorted(heard)
    assert heard[0] < 0.2
    assert heard[-1] == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_any_number_of_positions_is_searched(probe: Probe, count: int) -> None:
    search = FrugalAscent(random=0, steps=2, keep=2, leading=3, polish=4)
    found = search.run(probe, every(probe)[:count], WITHIN)
    starts = probe.directions(every(probe)[:count])
    assert starts is not None
    at = WITHIN.toward(probe.X[:count, None], starts[:, :, 0])
    for k in range(starts.shape[1]):
        assert (found.change2 >= probe.change2(at[:, k], torch.arange(count)) * (1 - 1e-9)).all()
    torch.testing.assert_close(found.change2, probe.change2(found.y[:, 0], torch.arange(count)), rtol=1e-9, atol=0)
