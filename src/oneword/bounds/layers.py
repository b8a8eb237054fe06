"""Certificates for random features: how far z can move, and how much of it σ lets through.

RF with an M-Lipschitz σ: S ≤ M r max_i ‖V_i‖/‖φ(X)‖. ReLU does better: a neuron that is off at X, z_a ≤ 0, lets through
(δ − |z_a|)₊ ≤ δ(1 − |z_a|/δ_a) of a move δ ≤ δ_a = r‖V_{a,i}‖, so V_i may be weighted by θ_a before its norm is taken.
DRF multiplies the norms of its layers: valid, and vacuous from a few layers on.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.certificate import STAGE, Certificate, Request
from oneword.maps.activations import RELU
from oneword.maps.blocks import bands
from oneword.maps.random import LayeredProbe
from oneword.progress import Progress
from oneword.sets.constraints import Constraint

DENSE_WIDTH = 2048  # up to this width a k × k layer's norm is computed from its Gram matrix


@Certificate.register(LayeredProbe)
def _layered(probe: LayeredProbe, rows: Int[Tensor, "p m"], within: Constraint, request: Request) -> Certificate:
    if probe.phi.activation.lipschitz is None:
        name = probe.phi.activation.name
        return Certificate(
            None, f"no certificate: {name} has no known Lipschitz constant; give Activation(lipschitz=…)"
        )
    joint = rows.shape[1] > 1
    needed = list(probe.positions) if request.any_rows else sorted(set(rows.flatten().tolist()))
    bounds = position_bounds(probe, needed, allowed_reach(within, probe.X)[needed].tolist(), joint, request.progress)
    by_row = dict(zip(needed, bounds, strict=True))
    how = "operator norms"
    if probe.phi.layers:
        rough = "" if probe.phi.k <= DENSE_WIDTH else f"; above k = {DENSE_WIDTH}, of looser norms"
        how = f"product of operator norms{rough} (vacuous beyond a few layers)"
    if request.any_rows:
        most = sum(sorted(bounds, reverse=True)[: request.any_rows])
        return Certificate(torch.full((len(rows),), most, dtype=torch.float64), how)
    sums = [sum(by_row[row] for row in together) for together in rows.tolist()]
    return Certificate(torch.tensor(sums, dtype=torch.float64), how)


def allowed_reach(within: Constraint, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """How far each word may move, with what rounding y to the text's own dtype can add to it."""
    exact = X.detach().double().cpu()
    reach = within.reach(exact)
    return reach + 8 * torch.finfo(X.dtype).eps * (exact.norm(dim=1) + reach)


def position_bounds(
    probe: LayeredProbe, rows: list[int], r: list[float], joint: bool, progress: Progress
) -> list[float]:
    """An upper bound on ‖φ(X^i(Δ)) − φ(X)‖ for each row.

    `joint`: the rows may change together, so each one's share must hold whatever the others do (no ReLU weights).
    """
    lipschitz = probe.phi.activation.lipschitz
    assert lipschitz is not None
    gain = lipschitz ** (1 + len(probe.phi.layers)) * math.prod(layer_norm(V) for V in probe.phi.layers)
    weighted = probe.phi.activation == RELU and not joint
    # z is rounded, before the change and after it: the change of σ(z) by at most twice that.
    rounding = 32 * torch.finfo(probe.z.dtype).eps * float(torch.linalg.vector_norm(probe.z, dtype=torch.float64))
    bounds = []
    for count, (row, radius) in enumerate(zip(rows, r, strict=True)):
        theta = (probe.z.double(), radius) if weighted else None
        bounds.append(gain * (radius * _block_norm(probe.block(row), theta) + rounding))
        progress(STAGE, (count + 1) / len(rows))
    return bounds


def _block_norm(V: Float[Tensor, "k d"], theta: tuple[Float[Tensor, " k"], float] | None) -> float:
    """‖Θ^{1/2} V_i‖ rounded up, from its Gram matrix in float64, a band of rows at a time."""
    gram = torch.zeros((V.shape[1], V.shape[1]), dtype=torch.float64, device=V.device)
    size = 0.0
    for neurons, band in bands(V):
        if theta is not None:
            z, radius = theta[0][neurons], theta[1]
            reach = radius * band.norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
            passes = torch.where(z > 0, torch.ones_like(z), (1 - z.abs() / reach).clamp_min(0))
            band = band * passes[:, None]
        gram += band.mT @ band
        size += float(band.square().sum())
    return _root_of_top(gram, size, len(V))


def layer_norm(V: Float[Tensor, "k l"]) -> float:
    """An upper bound on ‖V‖: sharp for moderate widths, the cheap norms beyond."""
    if max(V.shape) <= DENSE_WIDTH:
        W = V.double()
        return _root_of_top(W.mT @ W, float(W.square().sum()), len(W))
    size = V.abs()
    by_rows, by_columns = (float(size.sum(axis, dtype=torch.float64).max()) for axis in (1, 0))
    # In float64, or a float32 sum of k² squares would stop growing at 2²⁴ times its terms.
    frobenius = float(torch.linalg.vector_norm(V, dtype=torch.float64))
    return min(frobenius, math.sqrt(by_rows * by_columns)) * (1 + 1e-9)


def _root_of_top(gram: Float[Tensor, "d d"], size: float, terms: int) -> float:
    """√λ_max, rounded up by the error of the Gram product (terms·ε·‖V‖²_F) and of the eigenvalue solver."""
    slack = 4 * (terms + len(gram)) * torch.finfo(torch.float64).eps * size
    return math.sqrt(float(torch.linalg.eigvalsh(gram)[-1]) + slack)
