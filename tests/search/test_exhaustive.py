"""Every word at every position, against one forward pass each."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oneword as ow
from oneword.maps.base import ForwardProbe
from oneword.search.exhaustive import exhaust
from oneword.sets.vocabulary import Replacements
from oneword.text.layer0 import AffineRows
from oneword.text.samples import Sample

SCORES = ["softmax", "relu", "relu-unnormalised", "sigmoid", "linear", "sparsemax"]


class Placed(Replacements):
    """Words whose rows depend on the position, of any shape a layer 0 can give them."""

    def __init__(self, rows: AffineRows) -> None:
        self.parts = rows

    def check(self, text: ow.Context) -> None:
        pass

    def affine(self, places: torch.Tensor, d: int, dtype: torch.dtype) -> AffineRows:
        p = self.parts
        return AffineRows(p.a, p.c[places], p.s[:, places].contiguous(), p.b, shared=False)

    def rows(self, places: torch.Tensor, d: int, dtype: torch.dtype, some: torch.Tensor | None = None) -> torch.Tensor:
        y = self.parts.at(int(places[0]))[:, None]
        return y if some is None else y[some]

    def describe(self) -> dict:
        return {"shown": "placed words"}


def drawn(n: int, d: int, words: int, seed: int, dtype: torch.dtype) -> Placed:
    g = torch.Generator().manual_seed(seed)
    a, c, s, b = (
        torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((words, d), (n, d), (words, n), (d,))
    )
    return Placed(AffineRows(a.to(dtype), c.to(dtype), (s.abs() + 0.5).to(dtype), b.to(dtype), shared=False))


def brute_force(
    phi: ow.AttentionFeatures, X: torch.Tensor, within: Replacements, k: int, v: int
) -> tuple[float, float]:
    """Squared change and ‖Δ‖², in float64 by the definition."""
    y = within.rows(torch.tensor([k]), X.shape[1], X.dtype)[v, 0].double()
    plain = ow.AttentionFeatures(phi.W.double(), score=phi.score)
    changed = X.double().clone()
    changed[k] = y
    return float((plain(changed) - plain(X.double())).square().sum()), float((y - X[k].double()).square().sum())


def assert_exact(phi: ow.AttentionFeatures, X: torch.Tensor, within: Replacements, pairs, tolerance: float) -> None:
    probe = phi.at(X)
    found = exhaust(probe, torch.arange(len(X))[:, None], within)
    for k, v in pairs:
        change2, distance2 = brute_force(phi, X, within, k, v)
        wanted, got = np.sqrt(change2) / probe.norm, np.sqrt(max(float(found.change2[k, v]), 0)) / probe.norm
        assert abs(got - wanted) <= tolerance * max(wanted, 1e-3), (k, v, got, wanted)
        assert float(found.distance2[k, v]) == pytest.approx(
            distance2, rel=1e3 * tolerance, abs=1e-4 if tolerance > 1e-6 else 1e-9
        )


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("shared", [True, False], ids=["shared table", "placed"])
@pytest.mark.parametrize("scale", [1.0, 10.0, 50.0])
def test_every_substitution_is_that_of_a_forward_pass(score: str, shared: bool, scale: float) -> None:
    n, d, words = 9, 12, 40
    X = ow.gaussian(n, d, seed=1).X
    X[3] = X[5]  # equal words
    phi = ow.AttentionFeatures(scale * ow.AttentionFeatures.draw(d, seed=2).W, score=score)
    table = torch.cat([ow.gaussian(words - 3, d, seed=3).X, X[2:3], -X[2:3], torch.zeros(1, d, dtype=X.dtype)])
    within = ow.Vectors.of(table) if shared else drawn(n, d, words, 4, X.dtype)
    assert_exact(phi, X, within, itertools.product(range(n), range(words)), 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 5),
    d=st.integers(2, 6),
    score=st.sampled_from(SCORES),
    scale=st.sampled_from([0.01, 1.0, 30.0, 300.0]),
    shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_short_texts_and_sharp_attention(n: int, d: int, score: str, scale: float, shared: bool, seed: int) -> None:
    X = ow.gaussian(n, d, seed=seed).X
    phi = ow.AttentionFeatures(scale * ow.AttentionFeatures.draw(d, seed=seed).W, score=score)
    try:
        phi.at(X)
    except ow.errors.ZeroNormError:
        return
    within = ow.Vectors.of(ow.gaussian(7, d, seed=seed + 1).X) if shared else drawn(n, d, 7, seed, X.dtype)
    assert_exact(phi, X, within, itertools.product(range(n), range(7)), 1e-9)


@pytest.mark.parametrize("score", ["softmax", "relu"])
def test_numbers_do_not_depend_on_the_number_of_threads(score: str) -> None:
    X = ow.gaussian(20, 16, seed=0, dtype=torch.float32).X
    probe = ow.AttentionFeatures.draw(16, seed=0, dtype=torch.float32, score=score).at(X)
    rows, threads = torch.arange(20)[:, None], torch.get_num_threads()
    try:
        for within in (ow.Vectors.of(ow.gaussian(301, 16, seed=1).X), drawn(20, 16, 301, 2, torch.float32)):
            torch.set_num_threads(1)
            one = exhaust(probe, rows, within).change2
            torch.set_num_threads(3)
            assert torch.allclose(exhaust(probe, rows, within).change2, one, rtol=1e-5, atol=0)
    finally:
        torch.set_num_threads(threads)


def test_any_probe_is_searched_through_its_own_formula() -> None:
    X, table = ow.gaussian(5, 6, seed=0).X, ow.gaussian(8, 6, seed=1).X
    phi = ow.AttentionFeatures.draw(6, seed=0)
    rows = torch.arange(5)[:, None]
    fast, plain = (exhaust(probe, rows, ow.Vectors.of(table)) for probe in (phi.at(X), ForwardProbe(phi, X)))
    assert torch.allclose(fast.change2, plain.change2, rtol=1e-9)
    assert torch.allclose(fast.distance2, plain.distance2, rtol=1e-9)


def test_progress_goes_up_to_one() -> None:
    heard: list[float] = []
    probe = ow.AttentionFeatures.draw(6, seed=0).at(ow.gaussian(5, 6, seed=0).X)
    for within in (ow.Vectors.of(ow.gaussian(8, 6, seed=1).X), drawn(5, 6, 8, 0, torch.float64)):
        heard.clear()
        exhaust(probe, torch.arange(5)[:, None], within, progress=lambda stage, done: heard.append(done))
        assert heard == sorted(heard)
        assert heard[-1] == 1.0


@pytest.fixture(scope="module")
def minilm() -> ow.Encoder:
    return ow.Encoder.load()


@pytest.fixture(scope="module")
def review(minilm: ow.Encoder) -> Sample:
    return ow.Corpus.load().tokens(minilm).sample(1, 60, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "score"), [*itertools.product([torch.float32, torch.float64], ["softmax", "relu"])])
def test_two_thousand_substitutions_in_a_real_review(
    minilm: ow.Encoder, review: Sample, dtype: torch.dtype, score: str
) -> None:
    """|error| ≤ 1e-5·max(S, 0.1) in float32, 1e-9 relative in float64; a word replaced by itself gives 0."""
    encoder, sample = minilm, review
    X = sample.context(0, encoder).X.to(dtype)
    phi = ow.AttentionFeatures.draw(encoder.d, seed=0, dtype=dtype, score=score)
    within = ow.Vocabulary.of(encoder)
    probe = phi.at(X)
    found = exhaust(probe, torch.arange(len(X))[:, None], within)
    S = found.change2.double().clamp_min(0).sqrt() / probe.norm
    plain, X64 = ow.AttentionFeatures(phi.W.double(), score=score), X.double()
    base = plain(X64)
    draw = random.Random(0)
    for _ in range(40):  # 40 positions, 50 words each, as one batch of forward passes
        k, v = draw.randrange(len(X)), torch.tensor(draw.sample(range(within.count), 50))
        texts = X64.repeat(50, 1, 1)
        texts[:, k] = within.rows(torch.tensor([k]), encoder.d, dtype, v)[:, 0].double()
        wanted = (plain(texts) - base).flatten(1).norm(dim=1) / base.norm()
        error = (S[k, v] - wanted).abs()
        bound = 1e-5 * wanted.clamp_min(0.1) if dtype == torch.float32 else 1e-9 * wanted
        assert bool((error <= bound).all())
    number = {int(i): v for v, i in enumerate(within.ids[1][:, 0])}
    itself = [float(S[k, number[i]]) for k, i in enumerate(sample.ids[0].tolist()) if i in number]
    assert len(itself) > 40
    assert max(itself) <= (1e-6 if dtype == torch.float32 else 1e-12)


def test_features_that_all_but_cancel_are_evaluated_once_more() -> None:
    """φ(X) is the mean of two nearly opposite words: every expanded square cancels, Δ itself does not."""
    u, e = ow.gaussian(2, 6, seed=0).X
    X = torch.stack([u, -u + 1e-7 * e])
    phi = ow.AttentionFeatures(torch.zeros(6, 6, dtype=torch.float64))
    table = u + 1e-8 * ow.gaussian(20, 6, seed=1).X
    found = exhaust(phi.at(X), torch.tensor([[0]]), ow.Vectors.of(table))
    true = torch.stack([(y - X[0]).square().sum() for y in table])
    assert torch.allclose(found.distance2[0], true, rtol=1e-6, atol=0)
    assert torch.allclose(found.change2[0], true / 2, rtol=1e-6, atol=0)  # both rows move by Δ/2
