"""The closed forms of the scores beside softmax and ReLU, and of several heads: every step of their proofs."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.attack import forward_change
from oneword.bounds.attention import segment_bound
from oneword.bounds.certificate import Certify, certificate
from oneword.bounds.rounding import doubt
from oneword.bounds.scores import heads_bound
from oneword.bounds.sparse import support_bound
from oneword.bounds.unnormalised import interval_bound
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe, RescoredProbe
from oneword.maps.base import FeatureMap, Probe
from oneword.maps.multihead import MultiHeadAttention
from oneword.search.ascent import Ascent
from oneword.sets.constraints import Ball
from oneword.text.context import clustered, gaussian

SCORES = ("sparsemax", "sigmoid", "linear", "relu-unnormalised")
SIZES = ((1, 4), (2, 3), (8, 3), (6, 9))  # one word, two, more words than dimensions, fewer
SCALES = (0.05, 1.0, 10.0, 50.0)
RADII = (None, 0.01)


def attention(score: str, d: int, scale: float) -> AttentionFeatures:
    return AttentionFeatures(scale * AttentionFeatures.draw(d, score=score, seed=3).W, score=score)


def heads(d: int, scale: float, **options: object) -> MultiHeadAttention:
    phi = MultiHeadAttention.draw(d, heads=3, head_width=4, seed=3, **options)  # type: ignore[arg-type]
    return MultiHeadAttention(scale * phi.W_Q, phi.W_K, phi.W_V, phi.W_O, causal=phi.causal, score=phi.score)


def texts(n: int, d: int) -> Iterator[Tensor]:
    yield gaussian(n, d, seed=1).X
    repeated = clustered(n, d, seed=2).X
    repeated[1::2] = repeated[::2][: len(repeated[1::2])]
    repeated[n // 2] = 0
    yield repeated


def assert_never_beaten(phi: FeatureMap, X: Tensor, radius: float | None) -> None:
    """By random words of the ball and its rim, nor by a search; values by a plain forward pass."""
    probe: Probe = phi.at(X)
    rows, within = torch.arange(len(X))[:, None], Ball(radius)
    found = Ascent(random=6, steps=6, keep=2, leading=6, polish=20).run(probe, rows, within)
    made = certificate(probe, rows, within, found.change2.sqrt(), Certify())
    assert made.upper is not None, made.how
    rng = np.random.default_rng(0)
    rim = torch.stack([within.sample(x, 40, rng) for x in X])  # (n, 40, d)
    inside = X[:, None] + torch.from_numpy(rng.random((len(X), 40, 1))) * (rim - X[:, None])
    y = torch.cat([rim, inside, found.y], 1)[:, :, None]
    assert (forward_change(phi, X, y, rows) <= made.upper[:, None]).all()


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("score", SCORES)
def test_no_score_beats_its_bound(score: str, scale: float, radius: float | None) -> None:
    for n, d in SIZES:
        for X in texts(n, d):
            if X.any():
                assert_never_beaten(attention(score, d, scale), X, radius)


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize(
    ("causal", "output"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("score", ["softmax", "relu", *SCORES])
def test_heads_never_beat_theirs(score: str, causal: bool, output: bool, scale: float, radius: float | None) -> None:
    phi = heads(6, scale, score=score, causal=causal, output=output)
    for n in (1, 2, 8):
        assert_never_beaten(phi, gaussian(n, 6, seed=1).X + (1e-9 if score.startswith("relu") else 0), radius)


@pytest.mark.parametrize("score", ["softmax", "relu", "sparsemax"])
def test_several_words_stay_in_the_hull_of_each_head(score: str) -> None:
    X = gaussian(6, 8, seed=4).X
    for phi in (attention(score, 8, 1.0), heads(8, 1.0, score=score, causal=True, output=True)):
        probe, rows = phi.at(X), torch.tensor([[0, 3, 5], [1, 2, 4]])
        best = Ascent(random=8, polish=40).run(probe, rows, Ball()).change2.sqrt()
        made = certificate(probe, rows, Ball(), best, Certify())
        assert made.upper is not None
        assert made.how == "convex hull of the changed words"
        assert (best <= made.upper).all()


@pytest.mark.parametrize("radius", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("score", ["softmax", "relu", *SCORES])
def test_keys_that_are_nothing_but_rounding_are_covered(score: str, radius: float) -> None:
    """W = c·uvᵀ and words orthogonal to u: in exact arithmetic all keys vanish, and what is left of them is ε·c.

    Two ways to compute the same scores then differ by all there is, so the bound must not trust either.
    """
    n, d = 6, 8
    rng = np.random.default_rng(0)
    one, rows = torch.eye(d, dtype=torch.float64)[None], torch.arange(n)[:, None]
    for size in (1e10, 1e12, 1e14) * 3:
        u, v = (torch.from_numpy(w / np.linalg.norm(w)) for w in rng.standard_normal((2, d)))
        X = torch.from_numpy(rng.standard_normal((n, d)))
        for _ in range(2):
            X = X - torch.outer(X @ u, u)
        W = size * torch.outer(u, v)
        step = torch.from_numpy(rng.standard_normal((n, 60, 1, d)))
        step[:, :30] -= (step[:, :30] @ u)[..., None] * u  # half of the changed words are orthogonal to u as well
        y = X[:, None, None] + radius * step / step.norm(dim=-1, keepdim=True)
        heads_ = (
            MultiHeadAttention(W[None], one, one, score=score),
            MultiHeadAttention(one, one, W[None], score=score),
        )
        for phi in (AttentionFeatures(W, score=score), *heads_):
            if not phi(X).any():
                continue
            made = certificate(phi.at(X), rows, Ball(radius), torch.ones(n), Certify.plain())
            assert made.upper is not None
            assert (forward_change(phi, X, y, rows) <= made.upper[:, None]).all()


def test_rounding_adds_next_to_nothing_where_nothing_cancels() -> None:
    """Also under ReLU, whose rows may attend to one word or to none, and with zero words, whose scores are exact."""
    for n in (1, 2, 3, 20):
        for X in texts(n, 16):
            r = torch.full((n,), 4.0, dtype=torch.float64)
            for score in ("softmax", "relu", *SCORES):
                phi = attention(score, 16, 1.0)
                if phi(X).any():
                    assert float(doubt(phi.at(X), r).max()) <= 1e-6


# Every step ---------------------------------------------------------------------------------------------------------


def test_under_sparsemax_other_words_lose_what_the_changed_one_gains() -> None:
    """As one score rises every other weight falls, starting from what it is without that word."""
    rng = np.random.default_rng(0)
    score = attention("sparsemax", 4, 1.0).score
    for _ in range(50):
        s = torch.from_numpy(2 * rng.standard_normal(8))
        path = s.expand(60, 8).clone()
        path[:, 2] = torch.linspace(-6, 6, 60, dtype=torch.float64)
        weights = score.attend(path)
        others = torch.cat([weights[:, :2], weights[:, 3:]], 1)
        assert (others.diff(dim=0) <= 1e-15).all()
        assert (weights[:, 2].diff() >= -1e-15).all()
        assert (weights[:, 2].diff() <= path[:, 2].diff() * (1 + 1e-12)).all()  # no more than the score rose
        alone = s.clone()
        alone[2] = -torch.inf
        assert (others <= torch.cat([score.attend(alone)[:2], score.attend(alone)[3:]]) + 1e-15).all()


def test_one_head_with_the_identity_for_values_has_the_bound_of_attention() -> None:
    n, d = 9, 12
    X, one = gaussian(n, d, seed=5).X, torch.eye(d, dtype=torch.float64)[None]
    r = torch.full((n,), math.sqrt(d), dtype=torch.float64)
    for score in ("softmax", "relu", *SCORES):
        phi = AttentionFeatures.draw(d, score=score, seed=5)
        probe, head = phi.at(X), MultiHeadAttention(phi.W[None], one, one, score=score).at(X)
        if isinstance(probe, RescoredProbe):
            bound = support_bound(probe, r, r)
        elif probe.score.normalised:
            bound = segment_bound(probe, r, 2 * r)
        else:
            bound = interval_bound(probe, r, r)
        torch.testing.assert_close(heads_bound(head, r, 2 * r), bound, rtol=1e-7, atol=0)


def test_heads_together_are_bounded_better_than_each_alone() -> None:
    """One Δ cannot be the worst for the values of every head."""
    n, d = 12, 64
    probe = MultiHeadAttention.draw(d, heads=8, seed=0).at(gaussian(n, d, seed=0).X)
    r = torch.full((n,), math.sqrt(d), dtype=torch.float64)
    alone = [
        heads_bound(MultiHeadAttention(W_Q[None], W_K[None], W_V[None]).at(probe.X), r, 2 * r)
        for W_Q, W_K, W_V in zip(probe.phi.W_Q, probe.phi.W_K, probe.phi.W_V, strict=True)
    ]
    assert (heads_bound(probe, r, 2 * r) < 0.8 * torch.stack(alone).sum(0)).all()


# Tight where it can be ----------------------------------------------------------------------------------------------


def test_one_word_alone_under_linear_attention_is_bounded_exactly_where_all_is_parallel() -> None:
    """n = d = 1, W = w: φ = w x³, so a word that moves outwards by r attains w((x + r)³ − x³)."""
    X = torch.tensor([[2.0]], dtype=torch.float64)
    probe = AttentionFeatures(torch.tensor([[1.5]], dtype=torch.float64), score="linear").at(X)
    made = certificate(probe, torch.tensor([[0]]), Ball(0.5), torch.ones(1), Certify())
    assert made.upper is not None
    assert float(made.upper[0]) == pytest.approx(1.5 * (2.5**3 - 2**3), rel=1e-8)


@pytest.mark.parametrize("score", ["sparsemax", "softmax"])
def test_a_causal_text_whose_last_word_changes_moves_by_its_own_row_alone(score: str) -> None:
    """One head, V = I: the bound at the last position is that of row n in the hull, with no other row."""
    n, d = 7, 5
    X, one = gaussian(n, d, seed=6).X, torch.eye(d, dtype=torch.float64)[None]
    phi = AttentionFeatures.draw(d, seed=6)
    probe = MultiHeadAttention(phi.W[None], one, one, causal=True, score=score).at(X)
    r = math.sqrt(d)
    o = probe.clean[-1]
    hull = max(float((X[:-1] - o).norm(dim=1).max()), float((X[-1] - o).norm()) + r)
    reach = torch.full((n,), r, dtype=torch.float64)
    bound = heads_bound(probe, reach, 2 * reach)[-1]
    assert float(bound.sqrt()) == pytest.approx(hull, rel=1e-8)


def test_small_balls_have_small_bounds() -> None:
    """All closed forms vanish with the radius."""
    n, d = 16, 24
    X = gaussian(n, d, seed=7).X
    for score in SCORES:
        probe = attention(score, d, 1.0).at(X)
        r = torch.full((n,), 1e-6, dtype=torch.float64)
        if isinstance(probe, AttentionProbe):
            small = interval_bound(probe, r, r)
            assert (small.sqrt() <= 1e-3).all()
        else:
            assert (support_bound(probe, r, r).sqrt() <= 1e-3).all()
