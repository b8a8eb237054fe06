"""Every map of the package against its plain loop."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache, partial

import numpy as np
import pytest
import torch
from scipy.special import erf, erfc
from torch import Tensor, nn

from oneword.maps.activations import activation
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap, ModuleFeatures
from oneword.maps.blocks import Blocks
from oneword.maps.multihead import MultiHeadAttention
from oneword.maps.random import DeepRandomFeatures, LayeredFeatures, LoneWordFeatures, RandomFeatures
from tests.conformance import MapCase, MapConformance, assert_recomputes, changed, exact, prepared

# erf exists in 64 bits only: the truth of gelu and erf carries 1e-16 of σ, far below the tolerances. gelu itself is
# known to few digits in its tail, where torch computes x(1 + erf)/2: its map has so many neurons that some are not.
SIGMA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda z: np.where(z > 0, z, 0),
    "gelu": lambda z: z * erfc((-z / np.sqrt(np.longdouble(2))).astype(float)) / 2,
    "tanh": np.tanh,
    "erf": lambda z: erf(z.astype(float)).astype(np.longdouble),
    "abs": np.abs,
}


# Random features: the dense V, assembled from its blocks ----------------------------------------------------------


def dense(phi: LayeredFeatures) -> list[Tensor]:
    return [torch.cat([phi.blocks[i] for i in range(phi.n)], 1), *phi.layers]


@lru_cache(maxsize=2)  # a text is compared with many of its changes
def exact_dense(phi: LayeredFeatures) -> list[np.ndarray]:
    return [exact(V) for V in dense(phi)]


def layered_truth(phi: FeatureMap, X: np.ndarray) -> np.ndarray:
    assert isinstance(phi, LayeredFeatures)
    h = X.reshape(-1)
    for V in exact_dense(phi):
        h = SIGMA[phi.activation.name](V @ h)
    return h


def layered_permuted(phi: FeatureMap, order: list[int]) -> FeatureMap:
    assert isinstance(phi, LayeredFeatures)
    first = torch.cat([phi.blocks[i] for i in order], 1)
    return DeepRandomFeatures([first, *phi.layers], phi.n, activation=phi.activation)


def rf(
    sigma: str, width: Callable[[int], int], n: int, d: int, seed: int, dtype: torch.dtype, scale: float
) -> FeatureMap:
    phi = RandomFeatures.draw(n, d, k=width(n * d), activation=sigma, seed=seed, dtype=dtype)
    return phi if scale == 1 else RandomFeatures(scale * dense(phi)[0], n, activation=sigma)


def drf(sigma: str, depth: int, n: int, d: int, seed: int, dtype: torch.dtype, scale: float) -> FeatureMap:
    phi = DeepRandomFeatures.draw(n, d, depth=depth, activation=sigma, seed=seed, dtype=dtype)
    return phi if scale == 1 else DeepRandomFeatures([scale * V for V in dense(phi)], n, activation=sigma)


def layered(name: str, build: Callable[[int, int, int, torch.dtype, float], FeatureMap]) -> MapCase:
    return MapCase(name, build, layered_truth, dense, layered_permuted)


# One position alone: the other words enter by their norm only -----------------------------------------------------


def lone(n: int, d: int, seed: int, dtype: torch.dtype, scale: float) -> LoneWordFeatures:
    blocks = Blocks(n, d, n * d, scale / math.sqrt(n * d), seed, torch.empty(0, dtype=dtype))
    return LoneWordFeatures(blocks, seed % n, activation("relu"))


def lone_truth(phi: FeatureMap, X: np.ndarray) -> np.ndarray:
    assert isinstance(phi, LoneWordFeatures)
    others = sum((x**2).sum() for j, x in enumerate(X) if j != phi.only)
    z = exact(phi.block) @ X[phi.only] + np.sqrt(np.longdouble(others)) * exact(phi.rest)
    return SIGMA["relu"](z)


def lone_weights(phi: FeatureMap) -> Sequence[Tensor]:
    assert isinstance(phi, LoneWordFeatures)
    return phi.block, phi.rest


def lone_permuted(phi: FeatureMap, order: list[int]) -> FeatureMap:
    assert isinstance(phi, LoneWordFeatures)
    moved = copy(phi)
    moved.only = order.index(phi.only)
    return moved


# Attention --------------------------------------------------------------------------------------------------------


def attention(score: str, n: int, d: int, seed: int, dtype: torch.dtype, scale: float) -> AttentionFeatures:
    phi = AttentionFeatures.draw(d, score=score, seed=seed, dtype=dtype)
    return phi if scale == 1 else AttentionFeatures(scale * phi.W, score=score)


def weigh(score: str, s: np.ndarray) -> np.ndarray:
    """The weights of one row of scores, by the definition of each score."""
    if score == "sparsemax":
        for size in range(1, len(s) + 1):  # the k largest scores, for the one k that leaves the others below τ
            tau = (np.sort(s)[::-1][:size].sum() - 1) / size
            if (s > tau).sum() == size:
                break
        return np.maximum(s - tau, 0)
    if score == "softmax":
        return np.exp(s - s.max()) / np.exp(s - s.max()).sum()
    if score == "sigmoid":
        return 1 / (1 + np.exp(-s))
    g = s if score == "linear" else np.where(s > 0, s, 0)
    return g / g.sum() if score == "relu" and g.sum() > 0 else g


def attention_truth(phi: FeatureMap, X: np.ndarray) -> np.ndarray:
    assert isinstance(phi, AttentionFeatures)
    W, root = exact(phi.W), np.sqrt(np.longdouble(X.shape[1]))
    out = np.zeros_like(X)
    for j in range(len(X)):
        weights = weigh(phi.score.name, np.array([(X[j] @ W @ X[l]) / root for l in range(len(X))]))
        for l in range(len(X)):
            out[j] += weights[l] * X[l]
    return out


def attention_weights(phi: FeatureMap) -> Sequence[Tensor]:
    assert isinstance(phi, AttentionFeatures)
    return (phi.W,)


# Several heads ----------------------------------------------------------------------------------------------------


def multihead(
    options: dict[str, object], n: int, d: int, seed: int, dtype: torch.dtype, scale: float
) -> MultiHeadAttention:
    """Two or three heads of width 2 (wider than d where d = 1); `scale` is that of the scores."""
    phi = MultiHeadAttention.draw(d, heads=2 + seed % 2, head_width=2, seed=seed, dtype=dtype, **options)  # type: ignore[arg-type]
    W_Q = phi.W_Q if scale == 1 else scale * phi.W_Q
    return MultiHeadAttention(W_Q, phi.W_K, phi.W_V, phi.W_O, causal=phi.causal, score=phi.score)


def multihead_truth(phi: FeatureMap, X: np.ndarray) -> np.ndarray:
    assert isinstance(phi, MultiHeadAttention)
    heads = []
    for W_Q, W_K, W_V in zip(exact(phi.W_Q), exact(phi.W_K), exact(phi.W_V), strict=True):
        out = np.zeros((len(X), W_V.shape[1]), dtype=X.dtype)
        for j in range(len(X)):
            seen = range(j + 1) if phi.causal else range(len(X))
            s = np.array([(X[j] @ W_Q) @ (X[l] @ W_K) for l in seen]) / np.sqrt(np.longdouble(W_Q.shape[1]))
            for l, weight in zip(seen, weigh(phi.score.name, s), strict=True):
                out[j] += weight * (X[l] @ W_V)
        heads.append(out)
    together = np.concatenate(heads, 1)
    return together if phi.W_O is None else together @ exact(phi.W_O)


def multihead_weights(phi: FeatureMap) -> Sequence[Tensor]:
    assert isinstance(phi, MultiHeadAttention)
    return tuple(W for W in (phi.W_Q, phi.W_K, phi.W_V, phi.W_O) if W is not None)


HEADS: dict[str, dict[str, object]] = {
    "softmax": {},
    "softmax causal": {"causal": True},
    "softmax causal W_O": {"causal": True, "output": True},
    "relu W_O": {"score": "relu", "output": True},
    "relu causal": {"score": "relu", "causal": True},
    "sigmoid causal": {"score": "sigmoid", "causal": True},
    "linear causal W_O": {"score": "linear", "causal": True, "output": True},
    "sparsemax causal": {"score": "sparsemax", "causal": True},
}


# Any module -------------------------------------------------------------------------------------------------------


def module(n: int, d: int, seed: int, dtype: torch.dtype, scale: float) -> ModuleFeatures:
    draw = np.random.default_rng(seed).standard_normal((3, n * d)) * scale / math.sqrt(n * d)
    layer = nn.Linear(n * d, 3, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(draw))
        layer.bias.fill_(0.5)
    return ModuleFeatures(nn.Sequential(nn.Flatten(-2), layer, nn.Tanh()), batched=seed % 2 == 0)


def module_weights(phi: FeatureMap) -> Sequence[Tensor]:
    return tuple(phi.parameters())


def module_truth(phi: FeatureMap, X: np.ndarray) -> np.ndarray:
    weight, bias = (exact(p) for p in module_weights(phi))
    return np.array([np.tanh(sum(row * X.reshape(-1)) + b) for row, b in zip(weight, bias, strict=True)])


def module_permuted(phi: FeatureMap, order: list[int]) -> FeatureMap:
    weight, bias = module_weights(phi)
    blocks = weight.detach().reshape(len(bias), len(order), -1)[:, order]
    layer = nn.Linear(weight.shape[1], len(bias), dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(blocks.flatten(1))
        layer.bias.copy_(bias)
    return ModuleFeatures(nn.Sequential(nn.Flatten(-2), layer, nn.Tanh()))


ATTENTION = [
    MapCase(
        f"attention {score}",
        partial(attention, score),
        attention_truth,
        attention_weights,
        permuted=lambda phi, order: phi,
        row_a_word=True,
        least=1e-3 if score == "sparsemax" else 0.0,
    )
    for score in ("softmax", "relu", "relu-unnormalised", "sigmoid", "linear", "sparsemax")
]
MULTIHEAD = [
    MapCase(
        f"heads {name}",
        partial(multihead, options),
        multihead_truth,
        multihead_weights,
        # Under a causal mask words in another order make another text for no map of this kind.
        permuted=None if "causal" in options else (lambda phi, order: phi),
        row_a_word=True,
    )
    for name, options in HEADS.items()
]
CASES = [
    *(layered(f"RF {sigma}", partial(rf, sigma, lambda D: D)) for sigma in ("relu", "tanh", "erf", "abs")),
    layered("RF gelu", partial(rf, "gelu", lambda D: D + 20)),
    layered("RF narrow", partial(rf, "relu", lambda D: 1 + D // 2)),
    layered("RF wide", partial(rf, "tanh", lambda D: 2 * D + 3)),
    layered("DRF depth 1", partial(drf, "tanh", 1)),
    layered("DRF depth 3", partial(drf, "relu", 3)),
    MapCase("RF alone", lone, lone_truth, lone_weights, lone_permuted),
    *ATTENTION,
    *MULTIHEAD,
    MapCase("module", module, module_truth, module_weights, module_permuted, checks_text=False),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestMaps(MapConformance):
    """All of them."""


# ReLU rows that attend to nothing -----------------------------------------------------------------------------------

both = pytest.mark.parametrize("case", ATTENTION[1:3], ids=str)


@both
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("c", [0.05, 1.0, 50.0])
def test_rows_may_lose_or_gain_all_their_attention(case: MapCase, dtype: torch.dtype, c: float) -> None:
    """W = −c·I: a word attends to its opposites only. Equal words and one opposite: if it turns, nothing is left."""
    x = torch.tensor([1.0, 2.0, -1.0, 0.5], dtype=dtype)
    X = torch.stack([x, x, x, -x, torch.zeros_like(x)])
    phi = AttentionFeatures(-c * torch.eye(4, dtype=dtype), score=case.name.removeprefix("attention "))
    words = torch.stack([x, -x, 2 * x, 0.3 * x + torch.tensor([0.1, 0.0, 0.3, -0.2], dtype=dtype), torch.zeros_like(x)])
    for row in range(5):
        assert_recomputes(case, phi, X, words, torch.full((5,), row))
    pairs = torch.tensor([[3, 0], [0, 3], [4, 3], [1, 2], [3, 4]])
    assert_recomputes(case, phi, X, torch.stack([words, words.flip(0)], 1), pairs)


@both
def test_no_attention_at_all_is_refused(case: MapCase) -> None:
    x = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
    phi = AttentionFeatures(-torch.eye(3, dtype=torch.float64), score=case.name.removeprefix("attention "))
    for X in (x, x.expand(6, 3)):
        assert prepared(case, phi, X) is None


@pytest.mark.parametrize("case", ATTENTION, ids=str)
@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
def test_attention_before_and_after_is_that_of_the_plain_loop(case: MapCase, scale: float) -> None:
    """How much each row attends to the changed word: with unit vectors for words, φ itself holds the attention."""
    n = 6
    X = math.sqrt(n) * torch.eye(n, dtype=torch.float64)
    phi = attention(case.name.removeprefix("attention "), n, n, 3, torch.float64, scale)
    probe = phi.at(X)
    i = torch.arange(n)
    before = attention_truth(phi, exact(X)) / math.sqrt(n)  # [row, word]
    assert np.allclose(exact(probe.P), before, rtol=1e-12, atol=1e-12 * scale)
    y = 1.7 * X  # still along its own axis: φ shows what it receives
    for b in range(n):
        after = attention_truth(phi, exact(changed(X, y[b], i[b])))[:, b] / (1.7 * math.sqrt(n))
        assert np.allclose(exact(probe.attention(y[b : b + 1], i[b : b + 1])[0]), after, rtol=1e-12, atol=1e-12 * scale)
