"""First order: the Jacobian block J_i of each word, its operator norm and the direction that attains it.

    ‖φ(X^i(Δ)) − φ(X)‖ = ‖J_i Δ‖ + O(‖Δ‖²),      sup over ‖Δ‖ ≤ r of ‖J_i Δ‖ = r‖J_i‖_op

Where φ(X) has few entries the whole Jacobian is made, one backward pass an entry, for all words at once. Otherwise
power iteration, a derivative along a direction (jvp) and one against it (vjp) a step, for a batch of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor
from torch.autograd import forward_ad

from oneword.maps.base import FeatureMap
from oneword.progress import Progress, silent
from oneword.random import stream

STEPS = 60  # of power iteration, at most
_TOLERANCE = 1e-3  # relative, of the norm, between steps
DENSE = 1024  # entries of φ(X): up to here the whole Jacobian costs less than power iterations for every word
ESTIMATED = 4  # gradients from which the gains of all words are estimated
_SMALL = 32  # up to this width a full decomposition is as quick as Lanczos


@dataclass(frozen=True, eq=False)
class Gains:
    """For each set of rows: ‖J‖_op of its block, and the unit change that attains it."""

    norm: Float[Tensor, " p"]
    direction: Float[Tensor, "p m d"]


def gains(
    phi: FeatureMap,
    X: Float[Tensor, "n d"],
    rows: Int[Tensor, "p m"],
    *,
    at_once: int = 16,
    progress: Progress = silent,
) -> Gains:
    """The gain of every set of rows by power iteration; `at_once` texts are held with what derivatives need."""
    parts = [power_iteration(phi, X, part) for part in _reported(rows.split(at_once), progress)]
    return Gains(torch.cat([part.norm for part in parts]), torch.cat([part.direction for part in parts]))


def jacobian(
    phi: FeatureMap, X: Float[Tensor, "n d"], *, at_once: int = 16, progress: Progress = silent
) -> Float[Tensor, "size n d"]:
    """∂φ/∂X, one backward pass an entry: a forward pass of several copies, then as many entries at a time."""
    copies = X.detach().expand(at_once, *X.shape).clone().requires_grad_(True)
    with torch.enable_grad():
        out = phi(copies).reshape(at_once, -1)
    found = []
    for entries in _reported(torch.arange(out.shape[1], device=X.device).split(at_once), progress):
        some = torch.arange(len(entries), device=X.device)
        (gradient,) = torch.autograd.grad(out[some, entries].sum(), copies, retain_graph=True)
        found.append(gradient[: len(entries)])
    return torch.cat(found)


def estimated_gains2(
    phi: FeatureMap, X: Float[Tensor, "n d"], *, count: int = ESTIMATED, progress: Progress = silent
) -> Float[Tensor, " n"]:
    """‖J_i‖²_F of every row, estimated: the mean of ‖J_iᵀu‖² over `count` Gaussian u, one backward pass each.

    ‖J_i‖_F is at least the operator norm, and mostly one to two times as large; words are ranked as by it.
    """
    base = X.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        out = phi(base)
    found = torch.zeros(len(X), dtype=X.dtype, device=X.device)
    for k in range(count):
        u = torch.from_numpy(stream(0, "gains of all words", k).standard_normal(tuple(out.shape))).to(out)
        (gradient,) = torch.autograd.grad(out, base, u, retain_graph=k + 1 < count)
        found += gradient.square().sum(1) / count
        progress("first order", (k + 1) / count)
    return found


def of_blocks(J: Float[Tensor, "size n d"], rows: Int[Tensor, "p m"]) -> Gains:
    """The gain of every block of a Jacobian that is held, by its Gram matrix in float64."""
    norms, directions = [], []
    for some in rows:
        block = J[:, some].flatten(1).double()  # (size, m·d)
        top = leading_eigenvectors(block.mT @ block, 1, 1e-6)[0].to(block)
        norms.append((block @ top).norm())
        directions.append(top.view(len(some), -1))
    return Gains(torch.stack(norms).to(J), torch.stack(directions).to(J))


def power_iteration(phi: FeatureMap, X: Float[Tensor, "n d"], rows: Int[Tensor, "p m"], steps: int = STEPS) -> Gains:
    """v ← JᵀJv/‖JᵀJv‖ for each set of rows until its norm rests; each begins and ends whatever the others do."""
    (n, d), tiny = X.shape, torch.finfo(X.dtype).tiny
    drawn = [stream(0, "gain", *some).standard_normal((len(some), d)) for some in rows.tolist()]
    v = torch.stack([torch.from_numpy(each) for each in drawn]).to(X)
    v = v / _length(v)
    norm = torch.zeros(len(rows), dtype=X.dtype, device=X.device)
    moving = torch.arange(len(rows), device=X.device)
    for _ in range(steps):
        copies = X.detach().expand(len(moving), n, d).clone()
        at = torch.arange(len(moving), device=X.device)[:, None]
        tangent = torch.zeros_like(copies).index_put((at, rows[moving]), v[moving])
        with torch.no_grad(), forward_ad.dual_level():
            along = forward_ad.unpack_dual(phi(forward_ad.make_dual(copies, tangent))).tangent
        base = copies.clone().requires_grad_(True)
        with torch.enable_grad():
            (back,) = torch.autograd.grad(phi(base), base, along)
        before, now = norm[moving], along.reshape(len(moving), -1).norm(dim=1)
        w = back[at, rows[moving]]
        length = _length(w)
        norm[moving] = now
        v[moving] = torch.where(length > 0, w / length.clamp_min(tiny), v[moving])
        moving = moving[(now - before).abs() > _TOLERANCE * now]
        if not len(moving):
            break
    return Gains(norm, v)


def _length(v: Float[Tensor, "p m d"]) -> Float[Tensor, "p 1 1"]:
    return v.flatten(1).norm(dim=1)[:, None, None]


def _reported(parts: tuple[Tensor, ...], progress: Progress) -> Iterator[Tensor]:
    """One part after the other, and after each how much is done."""
    for done, part in enumerate(parts, 1):
        yield part
        progress("first order", done / len(parts))


def leading_eigenvectors(gram: Float[Tensor, "w w"], count: int, tolerance: float) -> Float[Tensor, "count w"]:
    """The `count` leading ones, largest first, in float64 on the CPU; fewer where there are no more."""
    width = len(gram)
    if width > _SMALL:
        start = np.random.default_rng(0).standard_normal(width)
        try:
            values, vectors = eigsh(gram.double().cpu().numpy(), k=count, v0=start, tol=tolerance)
            return torch.from_numpy(vectors[:, values.argsort()[::-1]].T.copy())
        except ArpackError:  # no convergence, or a matrix that vanishes
            pass
    return torch.linalg.eigh(gram.double().cpu())[1][:, -count:].mT.flip(0)
