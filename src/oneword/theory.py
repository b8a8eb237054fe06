"""Closed-form predictions of word sensitivity, to draw beside the measurements.

S_φ(X) is Eq. 1 of S. Bombari and M. Mondelli, "Towards Understanding the Word Sensitivity of Attention
Layers: A Study via Random Features", ICML 2024, arXiv 2402.02969. Its theorems T1 and T2 give orders in n,
O(1/√n) for RF (Eq. 2) and O(e^{CL}/√n) for DRF; the functions here give constants too. They are predictions,
not bounds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.signal import find_peaks
from scipy.special import expit, spherical_jn
from torch import Tensor

from oneword.errors import RangeError, ZeroNormError
from oneword.maps.activations import ACTIVATIONS, Activation
from oneword.maps.activations import activation as resolve

ActivationLike = str | Activation | Callable[[Tensor], Tensor]
_Array = NDArray[np.float64]

# Integrals over the standard normal stop here: the density is 8e-23, below every tolerance in this file.
_REACH = 10.0


def rf_sensitivity(n: float, d: float, k: float | None = None, activation: ActivationLike = "relu") -> float:
    """Sensitivity of random features φ(X) = σ(V·flat(X)) (Eq. 2; T1) to one word, for any Lipschitz σ.

    With w = σ'(g)², g standard normal, and D = nd:

        S ≈ √d·√(min_{0<x<1/sup w} [ d/(Dx) + (k/D) E(w/(1−xw)) ]) / √(k E σ(g)²)

    The numerator is √d times the largest singular value of diag(σ'(z))V_i: the right edge of a weighted
    Marchenko–Pastur law, in the form of Silverstein and Choi (1995). ReLU: (1+√(2d/k))/√n; abs and identity:
    (1+√(d/k))/√n. `k` defaults to D.
    """
    n, d, k = _sizes(n, d, k)
    slopes = _slopes(resolve(activation))
    if slopes.top == 0:
        return 0.0

    # In units of sup w: v = w/sup w, x = y/sup w. The logit u of y resolves both ends of 0 < y < 1; the
    # bracket is convex in x, so it has one minimum in u.
    def edge(u: float) -> float:
        y = float(expit(u))

        def integrand(g: float) -> float:
            v = min(slopes.square(g) / slopes.top, 1.0)
            return v / (1 - y * v)

        return d / (k * y) + _normal_mean(integrand, slopes.breaks)

    best = minimize_scalar(edge, bounds=(-40, 30), method="bounded", options={"xatol": 1e-7})
    return math.sqrt(slopes.top * float(best.fun) / (n * slopes.norm2))


def rf_words(m: float, n: float, d: float, k: float | None = None) -> float:
    """Sensitivity of ReLU random features (Eq. 2) when m words change at once, each by at most √d.

        S^(m) ≈ √(m/n)(1 + √(2md/k))

    So a constant fraction of the words must change before the features do. `k` defaults to nd; m = 1 is T1.
    """
    n, d, k = _sizes(n, d, k)
    m = _number("m", m)
    if m > n:
        raise RangeError(f"expected m <= n words to change, got m = {m:g} and n = {n:g}")
    return math.sqrt(m / n) * (1 + math.sqrt(2 * m * d / k))


def rf_random(n: float, activation: ActivationLike = "relu") -> float:
    """Relative change of random features (Eq. 2) for a random Δ, uniform of norm √d: a baseline below S_RF.

        S = √( E(σ(z+δ)−σ(z))² / E σ(z)² ),   z ~ N(0, 1), δ ~ N(0, 1/n) independent

    Leading order: (V_iΔ)_a has variance ‖Δ‖²/D = 1/n; its covariance with z, of order 1/(n√d), is left out.
    A kink of σ that its Activation does not declare costs accuracy (1e-4 instead of 1e-6).
    """
    n = _number("n", n)
    sigma = resolve(activation)
    norm2 = _mean_square(sigma)
    step = 1 / math.sqrt(n)
    change2 = _mean_square_change(sigma, step, 1.0)
    for width in (1 / 2, 1 / 4, 1 / 8):  # halve the panels until nothing moves: for smooth σ the first time
        coarse, change2 = change2, _mean_square_change(sigma, step, width)
        if abs(change2 - coarse) <= 1e-8 * change2:
            break
    return math.sqrt(change2 / norm2)


def drf_guide(n: float, depth: int, d: float | None = None, k: float | None = None) -> float:
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


def drf_random(n: float, depth: int) -> float:
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


# Means over the standard normal


def _scalar(function: Callable[[Tensor], Tensor]) -> Callable[[float], float]:
    """A torch function at one float64 number. Cached: quad comes back to the same nodes for every x."""

    @cache
    def at(g: float) -> float:
        return float(function(torch.tensor(g, dtype=torch.float64)).detach())

    return at


def _breaks(points: Sequence[float]) -> list[float]:
    """Panels of the quadrature: every 2 (so that nothing narrow is overlooked) and at the given points."""
    inside = {float(p) for p in points if abs(p) < _REACH}
    return sorted(inside.union(np.arange(-_REACH, _REACH + 1, 2).tolist()))


def _normal_mean(f: Callable[[float], float], breaks: Sequence[float]) -> float:
    """E f(g), adaptive on each panel; f ≥ 0 and of order 1."""

    def integrand(g: float) -> float:
        return f(g) * _density(g)

    return math.fsum(
        float(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-10, limit=200)[0]) for a, b in pairwise(breaks)
    )


def _density(g: float) -> float:
    return math.exp(-g * g / 2) / math.sqrt(2 * math.pi)


def _mean_square(sigma: Activation) -> float:
    """E σ(g)²: the squared feature norm per feature."""
    square = _scalar(lambda g: sigma(g).square())
    grid = torch.linspace(-_REACH, _REACH, 2001, dtype=torch.float64)
    # _normal_mean wants numbers of order 1, whatever the units of σ.
    scale = float((sigma(grid).square() * torch.exp(-grid.square() / 2)).max().detach())
    if not 0 < scale < math.inf:
        raise ZeroNormError(f"expected 0 < E σ(g)² < ∞ for activation {sigma.name}, got {scale:g}")
    return scale * _normal_mean(lambda g: square(g) / scale, _breaks(sigma.kinks))


@dataclass(frozen=True)
class _Slopes:
    """What `rf_sensitivity` needs of σ, whatever the sizes: w = σ'², sup w, panels, E σ²."""

    square: Callable[[float], float]
    top: float
    breaks: list[float]
    norm2: float


def _slopes(sigma: Activation) -> _Slopes:
    # Kept for the activations of the registry, so that a curve in n costs little more than a point; the
    # slopes of somebody's own callable (a module, say) may change between calls.
    return _kept_slopes(sigma) if ACTIVATIONS.get(sigma.name) == sigma else _new_slopes(sigma)


def _new_slopes(sigma: Activation) -> _Slopes:
    """Look for sup w and for the peaks of w, where 1/(1−xw) is sharpest, on a grid; then refine them."""
    square = _scalar(lambda g: sigma.derivative(g).square())
    grid = torch.linspace(-_REACH, _REACH, 2001, dtype=torch.float64)
    weights = sigma.derivative(grid).square().numpy()
    top = float(weights.max())
    far = max(square(-2 * _REACH), square(2 * _REACH))
    if not (math.isfinite(top) and far <= 1.01 * top):
        raise RangeError(
            f"expected a Lipschitz activation (T1), got {sigma.name}: its slope still grows beyond "
            f"±{_REACH:g}, from {math.sqrt(top):.4g} to {math.sqrt(far):.4g}"
        )
    step = 2 * _REACH / (len(grid) - 1)
    peaks: list[float] = []
    for index in find_peaks(weights, prominence=1e-3 * top)[0]:
        g = float(grid[index])
        bounds = (g - step, g + step)
        fine = minimize_scalar(lambda t: -square(float(t)), bounds=bounds, method="bounded", options={"xatol": 1e-9})
        peaks.append(float(fine.x))
        top = max(top, -float(fine.fun))
    return _Slopes(square, top, _breaks((*sigma.kinks, *peaks)), _mean_square(sigma))


_kept_slopes = cache(_new_slopes)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _panels(edges: _Array) -> tuple[_Array, _Array]:
    """Gauss–Legendre points and standard normal weights on consecutive panels (last axis: edges → points)."""
    half = np.diff(edges)[..., None] / 2
    points = edges[..., :-1, None] + half * (1 + _NODES)
    weights = half * _WEIGHTS * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    flat = (*edges.shape[:-1], -1)
    return points.reshape(flat), weights.reshape(flat)


def _mean_square_change(sigma: Activation, step: float, width: float) -> float:
    """E(σ(z+δ)−σ(z))² for δ = step·h, z and h standard normal: Gauss–Legendre on panels of `width`.

    At a given h the integrand has kinks in z at κ and κ − step·h; after integration over z only those h
    remain special where two of these meet. With panels split there, the rule converges as if σ were smooth.
    """
    grid = np.linspace(-_REACH, _REACH, round(2 * _REACH / width) + 1)
    kinks = np.array([kink for kink in sigma.kinks if abs(kink) < _REACH])
    meets = ((kinks[:, None] - kinks) / step).ravel()
    h, h_weights = _panels(np.union1d(grid, meets[np.abs(meets) < _REACH]))
    total = 0.0
    for first in range(0, len(h), 256):  # bounds the memory
        some = slice(first, first + 256)
        shift = step * h[some, None]  # (h, 1)
        fixed = np.tile(np.concatenate([grid, kinks]), (len(shift), 1))
        moving = np.clip(kinks - shift, -_REACH, _REACH)
        z, z_weights = _panels(np.sort(np.concatenate([fixed, moving], axis=1), axis=1))
        change = (sigma(torch.from_numpy(z + shift)) - sigma(torch.from_numpy(z))).detach().numpy()
        total += float(h_weights[some] @ (z_weights * change**2).sum(axis=1))
    return total


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
