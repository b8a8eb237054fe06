"""How far a point can be from a known range of outputs: what a norm or a tanh can give, seen through a matrix.

A norm gives u = γ⊙z + β with ‖z‖² ≤ d, and 1ᵀz = 0 for LayerNorm (P removes the mean). The largest ‖Wu + b − t‖ is the
maximum of ‖Gz + c‖ over a ball, G = WΓP and c = Wβ + b − t: a trust-region problem whose dual is exact. With the
eigenvalues w_l and eigenvectors ν_l of GᵀG, for every λ > max w

    max ‖Gz + c‖² ≤ ‖c‖² + λd + Σ_l (Gᵀc·ν_l)²/(λ − w_l)

Every λ gives a bound; the best one is found by bisection (docs/certificates.md, section 10).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

_HALVINGS = 100
# λ stays this far above the largest eigenvalue, relative to it, and eigenvalues are raised by the smaller number: more
# than float64 can be off by.
_ABOVE, _RAISED = 1e-9, 1e-12
_OUTWARDS = 1 + 1e-11
_BAND = 4096  # rows of a matrix that are in float64 at once


class Range(ABC):
    """A set that an output lies in, whatever the text is."""

    @abstractmethod
    def farthest(self, points: Float[Tensor, "b p"]) -> Float[Tensor, " b"]:
        """An upper bound on the distance from each point to the set's farthest one, in float64."""

    @property
    @abstractmethod
    def size(self) -> float:
        """An upper bound on the norm of what enters the last matrix, or of the output where there is none."""


@final
@dataclass(frozen=True, eq=False)
class Ellipsoid(Range):
    """{ W(γ⊙z + β) + b : ‖z‖² ≤ d, and 1ᵀz = 0 if `centred` }; without W and b what the norm itself gives.

    `softmax`: a constant is taken off the output, as a softmax does not see it.
    """

    gain: Float[Tensor, " d"]
    shift: Float[Tensor, " d"]
    centred: bool
    weight: Float[Tensor, "p d"] | None = None
    bias: Float[Tensor, " p"] | None = None
    softmax: bool = False

    @property
    def d(self) -> int:
        return len(self.gain)

    @property
    def size(self) -> float:
        return math.sqrt(self.d) * float(self.gain.abs().max()) + float(self.shift.norm())

    @cached_property
    def _spectrum(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """Eigenvalues and eigenvectors of GᵀG."""
        gram = torch.eye(self.d, dtype=torch.float64) if self.weight is None else self._gram(self.weight)
        A = self._narrowed(self._narrowed(gram).mT)
        values, vectors = torch.linalg.eigh((A + A.mT) / 2)
        return values, vectors

    def _gram(self, weight: Float[Tensor, "p d"]) -> Float[Tensor, "d d"]:
        gram = torch.zeros((self.d, self.d), dtype=torch.float64)
        total = torch.zeros(self.d, dtype=torch.float64)
        for band in weight.split(_BAND):
            exact = band.double()
            gram += exact.mT @ exact
            total += exact.sum(0)
        if self.softmax:  # WᵀCW with C the centring: Σ w wᵀ less the part of the mean
            gram -= torch.outer(total, total) / len(weight)
        return gram

    def _narrowed(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Rows times ΓP."""
        scaled = rows * self.gain
        return scaled - scaled.mean(1, keepdim=True) if self.centred else scaled

    def _offsets(self, points: Float[Tensor, "b p"]) -> tuple[Float[Tensor, " b"], Float[Tensor, "b d"]]:
        """‖c‖² and Gᵀc for c = Wβ + b − t."""
        if self.weight is None:
            c = self.shift - points
            return c.square().sum(1), self._narrowed(c)
        at_shift = torch.cat([band.double() @ self.shift for band in self.weight.split(_BAND)])
        c = at_shift + (0 if self.bias is None else self.bias) - points
        c = c - c.mean(1, keepdim=True) if self.softmax else c
        pulled = torch.zeros((len(c), self.d), dtype=torch.float64)
        for part, band in zip(c.split(_BAND, dim=1), self.weight.split(_BAND), strict=True):
            pulled += part @ band.double()
        return c.square().sum(1), self._narrowed(pulled)

    def farthest(self, points: Float[Tensor, "b p"]) -> Float[Tensor, " b"]:
        c2, pulled = self._offsets(points.double())
        w, vectors = self._spectrum
        h2 = (pulled @ vectors).square()
        top = float(w[-1].clamp_min(0))
        w = w.clamp_min(0) + _RAISED * top
        radius = math.sqrt(self.d)
        # The best λ is where ‖(λ − GᵀG)⁻¹Gᵀc‖ = √d; nearer to the largest eigenvalue the norm grows.
        low = torch.full_like(c2, math.log(max(_ABOVE * top, torch.finfo(c2.dtype).tiny)))
        high = torch.maximum(low, (h2.sum(1).sqrt() / radius).clamp_min(torch.finfo(c2.dtype).tiny).log())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = (h2 / (top + middle.exp()[:, None] - w).square()).sum(1) > self.d
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        over = (top + high.exp()[:, None] - w).clamp_min(torch.finfo(c2.dtype).tiny)
        bound2 = c2 + (top + high.exp()) * self.d + (h2 / over).sum(1)
        return bound2.sqrt() * _OUTWARDS

    def farthest_maximum(self, points: Float[Tensor, "b d"], rows: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        """The same for the largest of each entry over this many rows of the norm (no matrix).

        Entry c is β_c + γ_c ζ_c with |ζ_c| ≤ √(d−1) (√d for RMSNorm), and Σζ_c² ≤ rows·d. For every λ ≥ 0 the maximum
        of Σ(γ_cζ_c + c_c)² is at most Σ_c max_ζ [(γ_cζ + c_c)² − λζ²] + λ·rows·d.
        """
        assert self.weight is None
        c, gain = (self.shift - points.double()).abs(), self.gain.abs()
        most = math.sqrt(self.d - 1 if self.centred else self.d)
        total = rows.double() * self.d

        def largest(lagrange: Float[Tensor, " b"]) -> Float[Tensor, "b d"]:
            """The ζ that attains the maximum of each entry."""
            over = lagrange[:, None] - gain.square()
            inner = gain * c / over.clamp_min(torch.finfo(c.dtype).tiny)
            return torch.where(over > 0, inner.clamp_max(most), most)

        low = torch.zeros_like(total)
        high = gain.square().max() + (gain * c).norm(dim=1) / total.sqrt()
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = largest(middle).square().sum(1) > total
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        zeta = largest(high)
        entries = (gain * zeta + c).square() - high[:, None] * zeta.square()
        return (entries.sum(1) + high * total).clamp_min(0).sqrt() * _OUTWARDS


@final
@dataclass(frozen=True, eq=False)
class Box(Range):
    """{ Wu + b : every entry of u in [−1, 1] }: what the last matrix makes of a tanh.

    A convex function on a box is largest in a corner, and there are too many: each output is bounded by itself, which
    is exact for one output, and for the two of a softmax.
    """

    weight: Float[Tensor, "p d"]
    bias: Float[Tensor, " p"] | None
    softmax: bool = False

    @property
    def size(self) -> float:
        return math.sqrt(self.weight.shape[1])

    def farthest(self, points: Float[Tensor, "b p"]) -> Float[Tensor, " b"]:
        W = self.weight.double()
        c = (0 if self.bias is None else self.bias.double()) - points.double()
        if self.softmax:
            W, c = W - W.mean(0), c - c.mean(1, keepdim=True)
        return (W.abs().sum(1) + c.abs()).norm(dim=1) * _OUTWARDS
