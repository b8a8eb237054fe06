"""How maps are drawn: blocks that can be redrawn, depths that continue each other, and the law of one word alone."""

import math

import pytest
import torch

from oneword.maps.attention import AttentionFeatures
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.text.context import gaussian

N, D = 6, 5
X = gaussian(N, D, seed=2).X


def test_redrawing_a_block_gives_the_block() -> None:
    phi, again = (RandomFeatures.draw(N, D, k=17, seed=4) for _ in range(2))
    forward = [phi.blocks[i] for i in range(N)]
    backward = [again.blocks[i] for i in reversed(range(N))][::-1]
    assert all(torch.equal(a, b) for a, b in zip(forward, backward, strict=True))
    assert not torch.equal(forward[0], forward[1])


def test_the_blocks_side_by_side_are_the_map() -> None:
    phi = RandomFeatures.draw(N, D, k=17, activation="gelu", seed=4)
    held = RandomFeatures(torch.cat([phi.blocks[i] for i in range(N)], 1), N, activation="gelu")
    assert torch.allclose(held(X), phi(X), rtol=0, atol=1e-14)  # the same sums, over another layout in memory
    assert all(torch.equal(held.blocks[i], phi.blocks[i]) for i in range(N))


def test_a_deeper_map_of_the_same_seed_continues_a_shallower_one() -> None:
    two, four = (DeepRandomFeatures.draw(N, D, depth=depth, seed=4) for depth in (2, 4))
    assert len(two.layers) == 1
    assert len(four.layers) == 3
    assert torch.equal(two.layers[0], four.layers[0])
    assert not torch.equal(four.layers[0], four.layers[1])
    assert all(torch.equal(two.blocks[i], four.blocks[i]) for i in range(N))
    assert torch.equal(four.truncated(2)(X), two(X))
    assert four.truncated(2).describe() == two.describe()


def test_one_layer_with_beta_1_is_the_random_features_map() -> None:
    deep = DeepRandomFeatures.draw(N, D, depth=1, beta=1.0, seed=4)
    assert torch.equal(deep(X), RandomFeatures.draw(N, D, seed=4)(X))


def test_beta_scales_every_layer_by_its_root() -> None:
    one, two = (DeepRandomFeatures.draw(N, D, depth=3, beta=beta, seed=4) for beta in (1.0, 2.0))
    # ReLU is homogeneous: three layers, each √2 times as large.
    assert torch.allclose(two(X), 2**1.5 * one(X), rtol=1e-13, atol=0)


def test_weights_have_the_variance_of_the_paper() -> None:
    n, d, k = 10, 30, 400
    rf = RandomFeatures.draw(n, d, k=k, seed=1).blocks[3]  # N(0, 1/D)
    deep = DeepRandomFeatures.draw(n, d, k=k, depth=2, seed=1)  # N(0, 2/D), then N(0, 2/k)
    W = AttentionFeatures.draw(200, seed=1).W  # N(0, 1/d)
    for drawn, variance in ((rf, 1 / 300), (deep.blocks[3], 2 / 300), (deep.layers[0], 2 / k), (W, 1 / 200)):
        # A sample variance of m numbers is off by √(2/m); five of those.
        assert abs(float(drawn.square().mean()) / variance - 1) <= 5 * math.sqrt(2 / drawn.numel())


def test_a_generator_stands_for_a_seed() -> None:
    draws = [RandomFeatures.draw(N, D, generator=torch.Generator().manual_seed(3))(X) for _ in range(2)]
    assert torch.equal(*draws)
    generator = torch.Generator().manual_seed(3)
    first, second = (AttentionFeatures.draw(D, generator=generator) for _ in range(2))
    assert not torch.equal(first.W, second.W)
    assert torch.equal(first.W, AttentionFeatures.draw(D, seed=first.seed).W)


def test_a_map_says_what_it_takes_to_draw_it_again() -> None:
    drawn = DeepRandomFeatures.draw(N, D, depth=3, k=20, activation="tanh", seed=9)
    wrote = drawn.describe()
    again = DeepRandomFeatures.draw(
        wrote["n"],
        wrote["d"],
        depth=wrote["depth"],
        k=wrote["k"],
        beta=wrote["beta"],
        activation=wrote["activation"],
        seed=wrote["seed"],
    )
    assert torch.equal(again(X), drawn(X))


# One word alone: exact in law --------------------------------------------------------------------------------------


def test_the_block_of_a_lone_word_is_the_block_of_the_map() -> None:
    phi = RandomFeatures.draw(N, D, seed=4)
    for i in range(N):
        assert torch.equal(phi.alone(i).block, phi.blocks[i])


@pytest.mark.parametrize("i", [0, 3])
def test_what_the_other_words_add_has_the_variance_of_the_whole_map_and_ignores_the_block(i: int) -> None:
    k = 20_000
    phi = RandomFeatures.draw(N, D, k=k, seed=4, activation="identity")
    scaled = X * torch.arange(1, N + 1, dtype=X.dtype)[:, None]  # words of different norms: only the others count
    rest = phi.alone(i)(scaled) - phi.blocks[i] @ scaled[i]
    variance = float(scaled.square().sum() - scaled[i].square().sum()) / (N * D)
    whole = phi(scaled) - phi.blocks[i] @ scaled[i]
    for drawn in (rest, whole):
        # Mean, variance and fourth moment of k normal numbers, and their correlation with the block: five errors each.
        assert abs(float(drawn.mean())) <= 5 * math.sqrt(variance / k)
        assert abs(float(drawn.square().mean()) / variance - 1) <= 5 * math.sqrt(2 / k)
        assert abs(float(drawn.pow(4).mean()) / variance**2 - 3) <= 5 * math.sqrt(96 / k)
        correlation = phi.blocks[i].T @ drawn / k * math.sqrt(N * D / variance)
        assert float(correlation.abs().max()) <= 5 / math.sqrt(k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_word_whose_neighbours_are_all_zero_is_itself(dtype: torch.dtype) -> None:
    for seed in range(20):
        text = gaussian(4, 12, seed=seed, dtype=dtype).X
        text[1:] = 0
        phi = RandomFeatures.draw(4, 12, activation="identity", seed=seed, dtype=dtype)
        expected = phi.blocks[0] @ text[0]
        # 12 products of size 1, summed: what is left of the other words must be 0, not the root of a rounding error.
        assert (phi.alone(0)(text) - expected).abs().max() <= 10 * torch.finfo(dtype).eps


def test_weights_that_change_in_place_are_noticed() -> None:
    phi = AttentionFeatures.draw(5, seed=0)
    X = gaussian(3, 5, seed=0).X
    y, i = X + 1, torch.arange(3)
    phi.at(X)
    phi.W.mul_(3)
    fresh = AttentionFeatures(phi.W.clone())
    assert torch.equal(phi.at(X).change2(y, i), fresh.at(X).change2(y, i))
    phi.W = AttentionFeatures.draw(5, seed=1).W
    assert torch.equal(phi.at(X).change2(y, i), AttentionFeatures.draw(5, seed=1).at(X).change2(y, i))


def test_attention_on_the_changed_word_is_that_of_the_changed_text() -> None:
    for score in ("softmax", "relu"):
        phi = AttentionFeatures.draw(6, score=score, seed=2)
        X = gaussian(5, 6, seed=2).X
        i = torch.arange(5)
        y = X[i].flip(0) * 1.5
        after = phi.at(X).attention(y, i)
        for a, (word, row) in zip(after, zip(y, i.tolist(), strict=True), strict=True):
            changed = X.clone()
            changed[row] = word
            # Two evaluations of the same weights in float64.
            assert torch.allclose(a, phi.score.attend(phi.scores(changed))[:, row], rtol=1e-12, atol=1e-15)
