"""Multi-head attention: what it contains, what its mask does, how it is drawn and what its Probe says of memory."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap, Probe
from oneword.maps.multihead import MultiHeadAttention
from oneword.text.context import gaussian

N, D = 7, 6
X = gaussian(N, D, seed=2).X


@pytest.mark.parametrize("score", ["softmax", "sparsemax", "relu", "relu-unnormalised", "sigmoid", "linear"])
def test_one_head_with_the_identity_for_values_is_random_attention(score: str) -> None:
    phi = AttentionFeatures.draw(D, score=score, seed=1)
    one = torch.eye(D, dtype=torch.float64)[None]
    head = MultiHeadAttention(phi.W[None], one, one, score=score)
    torch.testing.assert_close(head(X), phi(X), rtol=1e-12, atol=1e-12)
    y, i = X.flip(0) * 1.3, torch.arange(N)
    torch.testing.assert_close(head.at(X).change2(y, i), phi.at(X).change2(y, i), rtol=1e-11, atol=1e-12)


def test_an_output_matrix_multiplies_the_heads_side_by_side() -> None:
    phi = MultiHeadAttention.draw(D, heads=3, output=True, seed=1)
    bare = MultiHeadAttention(phi.W_Q, phi.W_K, phi.W_V)
    assert bare(X).shape == (N, 3 * (D // 3))
    torch.testing.assert_close(bare(X) @ phi.W_O, phi(X))


@pytest.mark.parametrize("score", ["softmax", "relu", "sigmoid", "sparsemax"])
def test_under_a_causal_mask_no_earlier_row_moves(score: str) -> None:
    probe = MultiHeadAttention.draw(D, heads=2, causal=True, score=score, seed=3).at(X)
    i = torch.arange(N)
    moved = (probe.features(X.flip(0) * 2, i) - probe.clean).norm(dim=2)  # [changed word, row]
    assert (moved.tril(-1) <= 1e-14).all()  # a forward pass on other words beside them: rounding, no more
    if score == "softmax":  # its own row, and every later one, sees it
        assert (moved.triu() + torch.ones_like(moved).tril(-1) > 1e-6).all()


def test_entries_have_variance_one_over_d_and_scores_variance_one() -> None:
    d, heads = 240, 4
    phi = MultiHeadAttention.draw(d, heads=heads, output=True, seed=1)
    for W in (phi.W_Q, phi.W_K, phi.W_V, phi.W_O):  # heads·d_h = d, so W_O has variance 1/d too
        # A sample variance of m numbers is off by √(2/m); five of those.
        assert abs(float(W.square().mean()) * d - 1) <= 5 * math.sqrt(2 / W.numel())
    S = phi.scores(gaussian(60, d, seed=0).X)
    assert S.shape == (heads, 60, 60)
    # 14,400 scores of 60 words: as few independent ones as queries and keys have numbers, 4·2·60·60; a tenth covers it.
    assert float(S.var()) == pytest.approx(1, abs=0.1)


def test_more_heads_continue_fewer_and_a_generator_stands_for_a_seed() -> None:
    two, three = (MultiHeadAttention.draw(D, heads=heads, head_width=2, seed=4) for heads in (2, 3))
    assert torch.equal(two.W_Q, three.W_Q[:2])
    assert not torch.equal(three.W_Q[0], three.W_Q[1])
    assert not torch.equal(three.W_Q, three.W_K)
    drawn = MultiHeadAttention.draw(D, heads=2, generator=torch.Generator().manual_seed(3))
    assert torch.equal(drawn.W_V, MultiHeadAttention.draw(D, heads=2, seed=drawn.seed).W_V)


def test_it_says_what_it_takes_to_draw_it_again() -> None:
    drawn = MultiHeadAttention.draw(D, heads=2, head_width=4, output=True, causal=True, score="relu", seed=9)
    wrote = dict(drawn.describe())
    assert wrote.pop("map") == "MultiHeadAttention"
    assert torch.equal(MultiHeadAttention.draw(wrote.pop("d"), **wrote)(X), drawn(X))


# What a search is told --------------------------------------------------------------------------------------------

MAPS: dict[str, Callable[[int], FeatureMap]] = {
    "sparsemax": lambda d: AttentionFeatures.draw(d, score="sparsemax", seed=0),
    "heads": lambda d: MultiHeadAttention.draw(d, heads=4, causal=True, seed=0),
    "heads with W_O": lambda d: MultiHeadAttention.draw(d, heads=4, output=True, seed=0),
    "heads of sparsemax": lambda d: MultiHeadAttention.draw(d, heads=4, score="sparsemax", seed=0),
}


def kept(probe: Probe, y: Tensor, i: Tensor) -> int:
    """Bytes that autograd keeps between forward and backward, every storage once."""
    storages: dict[int, int] = {}

    def count(t: Tensor) -> Tensor:
        storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        value = probe.change2(y.requires_grad_(True), i)  # alive: no storage is used twice
    assert value.requires_grad
    return sum(storages.values())


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("build", MAPS.values(), ids=list(MAPS))
@pytest.mark.parametrize(("n", "d"), [(30, 16), (12, 64)])
def test_a_candidate_takes_no_more_memory_than_declared(
    build: Callable[[int], FeatureMap], n: int, d: int, m: int
) -> None:
    probe = build(d).at(gaussian(n, d, seed=0).X)

    def needed(b: int) -> int:
        i = (torch.arange(b * m) % n).reshape(b, m)
        return kept(probe, probe.X[i] * 1.1, i)

    each = (needed(40) - needed(20)) / 20  # what is there whatever the number of candidates cancels
    assert each <= probe.bytes_per_candidate(m)
    assert probe.bytes_per_candidate(m) <= 12 * each  # nor is it far from the truth: batches would be too small


def test_searches_start_where_the_heads_look() -> None:
    probe = MultiHeadAttention.draw(D, heads=2, seed=0).at(X)
    rows = torch.arange(N)[:, None]
    leading = probe.leading_direction(rows)[0, 0, 0]
    keys = torch.stack([head.K.mean(0) for head in probe.heads])
    assert float((keys @ leading).min()) > 0  # all heads' mean scores on the word rise
    random = X + math.sqrt(D) * torch.nn.functional.normalize(torch.from_numpy(gaussian(N, D, seed=8).X.numpy()), dim=1)
    ahead = probe.change2(X + math.sqrt(D) * leading, rows[:, 0]).max()
    assert float(ahead) > float(probe.change2(random, rows[:, 0]).max())
