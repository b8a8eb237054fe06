"""Laws and predictions of word sensitivity and of learning a one-word change, to compare measurements with.

S_φ(X) is Eq. 1 of S. Bombari and M. Mondelli, "Towards Understanding the Word Sensitivity of Attention
Layers: A Study via Random Features", ICML 2024, arXiv 2402.02969. Its theorems T1 and T2 give orders in n,
O(1/√n) for RF (Eq. 2) and O(e^{CL}/√n) for DRF; the functions here give constants too. They are predictions,
not bounds.

Every function takes numbers, arrays or columns of a table, which are broadcast against each other. Numbers give a
number, anything else an array of float64. Importing this module does not load torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import spherical_jn

from oneword.errors import RangeError

if TYPE_CHECKING:
    from torch import Tensor

    from oneword.maps.activations import Activation

__all__ = [
    "alignment_gap",
    "drf_guide",
    "drf_random",
    "error",
    "error_bound",
    "error_slack",
    "log4",
    "rf_finite_size",
    "rf_random",
    "rf_sensitivity",
    "rf_words",
]

Numbers = Any  # a number, an array or a column of a table

SLACK = 1.25  # on the leading order of sup|F − 1| for RF


def _vectorised(function: Callable[..., float]) -> Callable[..., Any]:
    """The function for arrays too: called once for each set of numbers."""

    parameters = signature(function)

    @wraps(function)
    def each(*args: Any, **options: Any) -> Any:
        given = parameters.bind(*args, **options).arguments
        arrays = {name: np.asarray(value) for name, value in given.items() if np.ndim(value)}
        if not arrays:
            return function(**given)
        values = np.broadcast(*arrays.values())
        found = [function(**given | dict(zip(arrays, numbers, strict=True))) for numbers in values]
        return np.array(found, dtype=np.float64).reshape(values.shape)

    return each


# Random features


@_vectorised
def rf_sensitivity(
    n: Numbers, d: Numbers, k: Numbers | None = None, activation: str | Activation | Callable[[Tensor], Tensor] = "relu"
) -> float:
    """Sensitivity of random features φ(X) = σ(V·flat(X)) (Eq. 2; T1) to one word, for any Lipschitz σ.

    With w = σ'(g)², g standard normal, and D = nd:

        S ≈ √d·√(min_{0<x<1/sup w} [ d/(Dx) + (k/D) E(w/(1−xw)) ]) / √(k E σ(g)²)

    The numerator is √d times the largest singular value of diag(σ'(z))V_i: the right edge of a weighted
    Marchenko–Pastur law, in the form of Silverstein and Choi (1995). ReLU: (1+√(2d/k))/√n; abs and identity:
    (1+√(d/k))/√n. `k` defaults to D. Raises RangeError for sizes below 1 and for a σ that is not Lipschitz.

    >>> import oneword as ow
    >>> round(ow.theory.rf_sensitivity(150, 768), 4)
    0.0911
    >>> ow.theory.rf_sensitivity([50, 100], 384).round(3).tolist()
    [0.17, 0.114]
    """
    from oneword import gaussian_means
    from oneword.maps.activations import activation as resolve

    n, d, k = _sizes(n, d, k)
    edge, norm2 = gaussian_means.edge(resolve(activation), d, k)
    return math.sqrt(edge / (n * norm2))


@_vectorised
def rf_finite_size(d: Numbers, k: Numbers) -> float:
    """1 + √(2d/k): the factor by which a finite width k raises S of ReLU random features above 1/√n (T1)."""
    return 1 + math.sqrt(2 * d / k)


@_vectorised
def rf_words(m: Numbers, n: Numbers, d: Numbers, k: Numbers | None = None) -> float:
    """Sensitivity of ReLU random features (Eq. 2) when m words change at once, each by at most √d.

        S^(m) ≈ √(m/n)(1 + √(2md/k))

    So a constant fraction of the words must change before the features do. `k` defaults to nd; m = 1 is T1.
    """
    n, d, k = _sizes(n, d, k)
    m = _number("m", m)
    if m > n:
        raise RangeError(f"expected m <= n words to change, got m = {m:g} and n = {n:g}")
    return math.sqrt(m / n) * (1 + math.sqrt(2 * m * d / k))


@_vectorised
def rf_random(n: Numbers, activation: str | Activation | Callable[[Tensor], Tensor] = "relu") -> float:
    """Relative change of random features (Eq. 2) for a random Δ, uniform of norm √d: a baseline below S_RF.

        S = √( E(σ(z+δ)−σ(z))² / E σ(z)² ),   z ~ N(0, 1), δ ~ N(0, 1/n) independent

    Leading order: (V_iΔ)_a has variance ‖Δ‖²/D = 1/n; its covariance with z, of order 1/(n√d), is left out.
    A kink of σ that its Activation does not declare costs accuracy (1e-4 instead of 1e-6).
    """
    from oneword import gaussian_means
    from oneword.maps.activations import activation as resolve

    n, sigma = _number("n", n), resolve(activation)
    norm2 = gaussian_means.mean_square(sigma)
    return math.sqrt(gaussian_means.mean_square_step(sigma, 1 / math.sqrt(n)) / norm2)


@_vectorised
def drf_guide(n: Numbers, depth: Numbers, d: Numbers | None = None, k: Numbers | None = None) -> float:
    """A guide for the sensitivity of L = `depth` ReLU layers with β = 2 (T2):

        S ≈ (1/√n)(1 + √(2Ld/k)),   which is (1/√n)(1 + √(2L/n)) for k = D

    Not a bound, on either side, and not a limit law: on average a search found 0.80 to 0.99 of it at one position and
    0.90 to 1.03 of it over all positions (n = 10 to 80, L = 2, 4, 8, d = 32, 96; single draws 0.67 to 1.19).
    L = 1 is `rf_sensitivity`.
    `k` defaults to nd, where d cancels; any other k needs d.
    """
    n, depth = _number("n", n), _depth(depth)
    if d is None:
        if k is not None:
            raise RangeError(f"expected d together with k, got k = {k} alone")
        return (1 + math.sqrt(2 * depth / n)) / math.sqrt(n)
    n, d, k = _sizes(n, d, k)
    return (1 + math.sqrt(2 * depth * d / k)) / math.sqrt(n)


@_vectorised
def drf_random(n: Numbers, depth: Numbers) -> float:
    """Relative change of L = `depth` ReLU layers with β = 2 (T2) for a random Δ, uniform of norm √d.

    Wide layers, the arc-cosine kernel (Cho and Saul, 2009): norms are kept, so φ(X) and φ(X^i) have norms
    1 : c with c = √(1+1/n), and the correlation goes from ρ₀ = 1/c by

        ρ ← (√(1−ρ²) + ρ(π−arccos ρ))/π   a layer,        S = √(1 + c² − 2cρ_L)

    A baseline below S_DRF. depth = 1 is `rf_random` of ReLU.
    """
    n, depth = _number("n", n), _depth(depth)
    c = math.sqrt(1 + 1 / n)
    excess = 1 / (n * (1 + c))  # c − 1
    # ρ → 1 as n grows: follow ε = 1 − ρ, in which nothing cancels. With ρ = cos θ the step is
    # ε ← ε − (sin θ − θ cos θ)/π, and sin θ − θ cos θ = θ² j₁(θ), j₁ the spherical Bessel function.
    epsilon = excess / c
    for _ in range(depth):
        theta = 2 * math.asin(math.sqrt(epsilon / 2))
        epsilon -= theta**2 * float(spherical_jn(1, theta)) / math.pi
    return math.sqrt(excess**2 + 2 * c * epsilon)  # 1 + c² − 2cρ = (c−1)² + 2c(1−ρ)


# Attention


def log4(d: float) -> float:
    """log⁴d, natural: T3 asks for d/log⁴d = Ω(n), which no text meets where log⁴d > d."""
    return math.log(d) ** 4


# Learning a one-word change (T4, T5): f = f(X; θ*), δ = f(X^i(Δ); θ*) − f, γ = |δ|, F the feature alignment


def error(y: Numbers, delta: Numbers, alignment: Numbers, residual: Numbers) -> Any:
    """Err = (2 + yδ + (F−1)(1−yf))²: the squared error on the changed text, exactly and for every map.

    `residual` is 1 − yf, what the old model had left to learn.
    """
    return (2 + y * delta + (alignment - 1) * residual) ** 2


def alignment_gap(n: Numbers, d: Numbers, k: Numbers, rho: Numbers = 1.0) -> Any:
    """sup|F − 1| ≈ √(1+2nd/k)/(n√ρ) for random features, to leading order; ρ = ‖P⊥φ‖²/‖φ‖², 1 after fine-tuning."""
    return np.sqrt(1 + 2 * n * d / k) / (n * np.sqrt(rho))


def error_slack(residual: Numbers, n: Numbers, d: Numbers, k: Numbers, rho: Numbers = 1.0) -> Any:
    """ε = 1.25 |1−yf| sup|F−1|: what a finite n leaves to random features; it goes to 0 like 1/n."""
    return SLACK * np.abs(residual) * alignment_gap(n, d, k, rho)


def error_bound(gamma: Numbers, slack: Numbers = 0.0) -> Any:
    """max(0, 2−γ−ε)²: the error of random features stays above (T4, T5). The paper's curve has ε = 0, as n → ∞.

    With a limit g in the place of γ it bounds all changes that have γ ≤ g.
    """
    return np.clip(2 - gamma - slack, 0, None) ** 2


# What may be asked


def _number(name: str, value: object) -> float:
    number = float(value) if isinstance(value, Real) else math.nan
    if not 1 <= number < math.inf:
        raise RangeError(f"expected a finite number {name} >= 1, got {value!r}")
    return number


def _depth(value: object) -> int:
    depth = int(value) if isinstance(value, Integral) else 0
    if depth < 1:
        raise RangeError(f"expected a whole number depth >= 1, got {value!r}")
    return depth


def _sizes(n: float, d: float, k: float | None) -> tuple[float, float, float]:
    """n words, d coordinates, k features (D = nd unless given)."""
    n, d = _number("n", n), _number("d", d)
    return n, d, n * d if k is None else _number("k", k)
