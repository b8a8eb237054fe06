"""A map from outside the package with a Probe, a set, a search and a certificate of its own, from public names alone.

φ(X) = A·(the mean of the words): Δ at any word moves it by AΔ/n, so over a box |Δ_c| ≤ r the sup is attained at a
corner, which a plain loop finds for small d.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import oneword as ow

N, D, P = 5, 6, 4


@dataclass(frozen=True)
class Box(ow.Constraint):
    """|y_c − x_c| ≤ side for every coordinate c."""

    side: float = 1.0

    def toward(self, x: Tensor, direction: Tensor) -> Tensor:
        return x + self.side * torch.where(direction < 0, -1.0, 1.0).to(x)

    def project(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(y, x - self.side), x + self.side)

    def sample(self, x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
        return x + self.side * torch.from_numpy(rng.choice([-1.0, 1.0], (count, len(x)))).to(x)

    def reach(self, x: Tensor) -> Tensor:
        return torch.full(x.shape[:-1], self.side * math.sqrt(x.shape[-1]), dtype=x.dtype)

    def longest(self, x: Tensor) -> Tensor:
        return x.norm(dim=-1) + self.reach(x)

    def violation(self, x: Tensor, y: Tensor) -> Tensor:
        return ((y - x).abs().amax(-1) / self.side - 1).clamp_min(0)

    def describe(self) -> dict[str, float | str | None]:
        return {"set": "Box", "side": self.side, "shown": f"|Δ| ≤ {self.side:g} in each coordinate"}


class MeanProbe(ow.Probe):
    """The map at one text: a changed word costs one product with A."""

    def __init__(self, A: Tensor, X: Tensor) -> None:
        self.A, self.X = A, X
        self.clean = A @ X.mean(0)
        self.norm = float(self.clean.norm())

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        moved = (y - self.X[i]).reshape(len(i), -1, self.d).sum(1)
        return self.clean + moved @ self.A.mT / self.n

    def change2(self, y: Tensor, i: Tensor) -> Tensor:
        return (self.features(y, i) - self.clean).square().sum(1)

    def bytes_per_candidate(self, m: int) -> int:
        return 8 * (m * self.d + 2 * len(self.A))

    def allowed(self, within: ow.Constraint | None) -> ow.Constraint:
        return Box() if within is None else within


class MeanFeatures(ow.FeatureMap):
    def __init__(self, A: Tensor) -> None:
        super().__init__()
        self.register_buffer("A", A)

    def forward(self, X: Tensor) -> Tensor:
        return X.mean(-2) @ self.A.mT

    def at(self, X: Tensor) -> MeanProbe:
        return MeanProbe(self.A, X)

    def describe(self) -> dict[str, object]:
        return {"map": "MeanFeatures"}


@dataclass(frozen=True)
class Signs(ow.Search):
    """Steps to the corner that the gradient points to, from random corners."""

    starts: int = 24
    steps: int = 12

    def run(self, probe, rows, within, *, starts=None, baseline=0, seed=0, progress=None):
        x = probe.X[rows]
        best, best_y = torch.full((len(rows),), -math.inf, dtype=x.dtype), x
        for s in range(self.starts):
            rng = np.random.default_rng([seed, s])
            y = torch.stack([torch.stack([within.sample(word, 1, rng)[0] for word in words]) for words in x])
            for _ in range(self.steps):
                value, gradient = probe.value_and_gradient(y, rows)
                better = value > best
                best, best_y = torch.where(better, value, best), torch.where(better[:, None, None], y, best_y)
                y = within.toward(x, gradient)
        return ow.Found(best, best_y, x.new_zeros((len(rows), 0)), ow.Status.CONVERGED, self)


@ow.Search.default_for(MeanProbe)
def signs(probe, quick, memory):
    return Signs(starts=4 if quick else 24)


@ow.Certificate.register(MeanProbe)
def operator_norm(probe, rows, within, request):
    """‖AΔ‖ ≤ ‖A‖‖Δ‖."""
    gain = float(torch.linalg.matrix_norm(probe.A, 2)) / probe.n * (1 + 1e-12)
    return ow.Certificate(gain * within.reach(probe.X[rows]).sum(1), "operator norm of A")


def truth(phi: MeanFeatures, X: Tensor, side: float) -> float:
    """Every corner of the box at every word, by forward passes."""
    clean, best = phi(X), 0.0
    for i in range(len(X)):
        for corner in itertools.product((-side, side), repeat=X.shape[1]):
            changed = X.clone()
            changed[i] += torch.tensor(corner, dtype=X.dtype)
            best = max(best, float((phi(changed) - clean).norm() / clean.norm()))
    return best


def main() -> None:
    A = torch.randn(P, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    phi, X = MeanFeatures(A), ow.gaussian(N, D, seed=1).X
    for within, side in ((None, 1.0), (Box(0.5), 0.5)):
        found, exact = ow.sensitivity(phi, X, within=within), truth(phi, X, side)
        assert found.upper is not None
        assert math.isclose(found.value, exact, rel_tol=1e-9), (found.value, exact)
        assert exact <= found.upper <= 3 * exact, (exact, found.upper)
        assert found.certificate == "operator norm of A"
        assert found.provenance["search"] == {"starts": 24, "steps": 12}
        assert found.provenance["within"]["set"] == "Box"
    assert ow.sensitivity(phi, X, search="quick").value <= truth(phi, X, 1.0) * (1 + 1e-9)
    own = ow.sensitivity(phi, X, search=Signs(starts=2), words=2)
    assert own.value >= ow.sensitivity(phi, X).value * (1 - 1e-9)


if __name__ == "__main__":
    main()
