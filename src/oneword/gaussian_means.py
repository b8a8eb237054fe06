"""Means over the standard normal g of an activation σ and its slope: what the predictions of `theory` need of σ.

Quadratures in float64, on panels that are split where σ has kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.signal import find_peaks
from scipy.special import expit
from torch import Tensor

from oneword.errors import RangeError, ZeroNormError
from oneword.maps.activations import ACTIVATIONS, Activation

_Array = NDArray[np.float64]

# Integrals over the standard normal stop here: the density is 8e-23, below every tolerance in this file.
_REACH = 10.0


def edge(sigma: Activation, d: float, k: float) -> tuple[float, float]:
    """min_{0<x<1/sup w} [ d/(kx) + E(w/(1−xw)) ] with w = σ'(g)², and E σ(g)²."""
    slopes = _slopes(sigma)
    if slopes.top == 0:
        return 0.0, slopes.norm2

    # In units of sup w: v = w/sup w, x = y/sup w. The logit u of y resolves both ends of 0 < y < 1; the
    # bracket is convex in x, so it has one minimum in u.
    def bracket(u: float) -> float:
        y = float(expit(u))

        def integrand(g: float) -> float:
            v = min(slopes.square(g) / slopes.top, 1.0)
            return v / (1 - y * v)

        return d / (k * y) + _normal_mean(integrand, slopes.breaks)

    best = minimize_scalar(bracket, bounds=(-40, 30), method="bounded", options={"xatol": 1e-7})
    return slopes.top * float(best.fun), slopes.norm2


def mean_square_step(sigma: Activation, step: float) -> float:
    """E(σ(z+δ)−σ(z))² for independent z ~ N(0, 1) and δ ~ N(0, step²)."""
    change2 = _mean_square_change(sigma, step, 1.0)
    for width in (1 / 2, 1 / 4, 1 / 8):  # halve the panels until nothing moves: for smooth σ the first time
        coarse, change2 = change2, _mean_square_change(sigma, step, width)
        if abs(change2 - coarse) <= 1e-8 * change2:
            break
    return change2


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


def mean_square(sigma: Activation) -> float:
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
    """What `edge` needs of σ, whatever the sizes: w = σ'², sup w, panels, E σ²."""

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
    return _Slopes(square, top, _breaks((*sigma.kinks, *peaks)), mean_square(sigma))


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
