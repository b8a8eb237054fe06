"""Closed-form certificates for multi-head attention: those of its heads, which share one Δ.

A head averages values, so its rows move as those of attention do, with W_VᵀΔ in place of Δ. Its bound alone knows
‖W_VᵀΔ‖ ≤ r‖W_V‖; for normalised grouped scores all heads together do better, with [W_V] all heads' values side by side:

    Σ_h f_h‖W_VʰᵀΔ‖² ≤ r² max_h f_h ‖[W_V]‖²,      Σ_h g_h·W_VʰᵀΔ ≤ r‖Σ_h W_Vʰg_h‖.

W_O multiplies the norm of the change by at most its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.attention import OUTWARDS, far_ends, from_origin, hull_bound, narrow, own_row
from oneword.bounds.layers import layer_norm
from oneword.maps.multihead_probe import Head, MultiHeadProbe

# From the heads, their gains, how far words move and how long they may be: a squared bound at each position.
HeadsBound = Callable[[list[Head], list[float], Float[Tensor, " n"], Float[Tensor, " n"]], Float[Tensor, " n"]]


def one_by_one(bound: Callable[[Any, Tensor, Tensor], Tensor]) -> HeadsBound:
    """The sum over the heads of a bound for words that move by r and values that move by reach."""
    return lambda heads, gains, r, longest: torch.stack(
        [bound(head, r, gain * r) for head, gain in zip(heads, gains, strict=True)]
    ).sum(0)


def segments_of_heads(
    heads: list[Head], gains: list[float], r: Float[Tensor, " n"], longest: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """For normalised grouped scores: all heads together."""
    together = layer_norm(torch.cat([head.W_V for head in heads], 1))
    others = []
    for ends in zip(*(far_ends(head, r) for head in heads), strict=True):  # all plain, then all reachable
        far = torch.stack([end.far for end in ends])
        added = sum((end.far * gain**2 for end, gain in zip(ends, gains, strict=True)), torch.zeros_like(r))
        spread = torch.minimum(far.amax(0) * together**2, added)
        pull = torch.stack([end.pull @ head.W_V.mT for end, head in zip(ends, heads, strict=True)]).sum(0)
        fixed = torch.stack([end.fixed for end in ends]).sum(0)
        others.append(fixed + spread * r.square() + 2 * r * pull.norm(dim=1))
    each = list(zip(heads, gains, strict=True))
    apart = [torch.minimum(narrow(head, r, gain * r), from_origin(head, gain * longest)) for head, gain in each]
    own = torch.stack([own_row(head, r, gain * r, gain * longest) for head, gain in each]).sum(0)
    return torch.stack([*others, torch.stack(apart).sum(0)]).amin(0) + own


def heads_hull_bound(probe: MultiHeadProbe, r: float) -> float:
    """An upper bound on the squared change when any number of words change by at most r each."""
    each = (hull_bound(head, layer_norm(head.W_V) * r) for head in probe.heads)
    return sum(each) * output_gain(probe) ** 2 * OUTWARDS


def output_gain(probe: MultiHeadProbe) -> float:
    """‖W_O‖, or 1 without one."""
    return 1.0 if probe.phi.W_O is None else layer_norm(probe.phi.W_O)
