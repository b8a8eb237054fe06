"""Certificates of attention: which bound is proved for which score, and branch and bound where it refines one.

A bound is registered for the very type of a score: whoever inherits from one of them may have changed it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.attention import OUTWARDS, SHORTEST, hull_bound, own_row, segment_bound
from oneword.bounds.certificate import Certificate, Request
from oneword.bounds.heads import HeadsBound, heads_hull_bound, one_by_one, output_gain, segments_of_heads
from oneword.bounds.layers import allowed_reach, layer_norm
from oneword.bounds.rounding import hull_slack, slack
from oneword.bounds.sparse import support_bound
from oneword.bounds.unnormalised import interval_bound
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe, RescoredProbe
from oneword.maps.base import Probe
from oneword.maps.multihead_probe import MultiHeadProbe
from oneword.maps.scores import Linear, ReLU, Score, Sigmoid, Softmax, Sparsemax
from oneword.sets.constraints import Constraint


@dataclass(frozen=True)
class ScoreBounds:
    """What is proved for attention with one kind of score.

    | field | meaning |
    |---|---|
    | `closed` | squared bounds of one head at each position, from how far words move and how long they may be |
    | `heads` | the same for several heads that share one Δ |
    | `refined` | whether branch and bound makes them smaller |
    """

    closed: Callable[[Any, Float[Tensor, " n"], Float[Tensor, " n"]], Float[Tensor, " n"]]
    heads: HeadsBound
    refined: bool = False


SEGMENTS = ScoreBounds(segment_bound, segments_of_heads, refined=True)
SUPPORTS = ScoreBounds(lambda rows, r, longest: support_bound(rows, r, r), one_by_one(support_bound))
INTERVALS = ScoreBounds(lambda rows, r, longest: interval_bound(rows, r, r), one_by_one(interval_bound))

_OF_SCORES: dict[type[Score], Callable[[Any], ScoreBounds]] = {
    **dict.fromkeys((Softmax, ReLU), lambda score: SEGMENTS if score.normalised else INTERVALS),
    **dict.fromkeys((Sigmoid, Linear), lambda score: INTERVALS),
    Sparsemax: lambda score: SUPPORTS,
}


@Certificate.register(AttentionProbe)
@Certificate.register(RescoredProbe)
def _attention(
    probe: AttentionProbe | RescoredProbe, rows: Int[Tensor, "p m"], within: Constraint, request: Request
) -> Certificate:
    if (none := _unknown(probe, probe.score, rows)) is not None:
        return Certificate(None, none)
    bounds = _OF_SCORES[type(probe.score)](probe.score)
    exact: Any = _in_double(probe)
    reach, longest = allowed_reach(within, probe.X), _longest(exact)
    if rows.shape[1] > 1:
        return _hull(rows, hull_bound(exact, float(reach.max())), hull_slack(exact, reach, reach, longest))
    at = rows[:, 0].cpu()
    limit = _limit(within, probe.X)
    upper2, how = bounds.closed(exact, reach, limit)[at], "closed form"
    if bounds.refined:
        upper2, how = _refined(exact, at, reach, limit, upper2, request)
    return Certificate(_root(upper2) + slack(exact, reach, reach, longest)[at], how)


def _refined(
    exact: AttentionProbe,
    at: Int[Tensor, " p"],
    reach: Float[Tensor, " n"],
    limit: Float[Tensor, " n"],
    upper2: Float[Tensor, " p"],
    request: Request,
) -> tuple[Float[Tensor, " p"], str]:
    """Branch and bound where the closed form is not good enough."""
    effort, value2 = request.effort, request.found.double().cpu().square()
    target2 = effort.target**2 * float(value2.max())
    # Nothing attained is no ratio to reach.
    if not (target2 > 0 and effort.work > 0 and effort.seconds != 0 and bool((upper2 > target2).any())):
        return upper2, "closed form"
    from oneword.bounds.branch import Ladder, Spots  # numba takes a second, and closed forms are common

    # The smaller of two balls that hold all new words: around x_i and around 0.
    near = (reach <= limit)[at]
    spots = Spots(
        at.tolist(),
        torch.where(near[:, None], exact.X[at], 0.0),
        torch.where(near, reach[at], limit[at]).numpy(),
        upper2.numpy(),
        (own_row(exact, reach, reach, limit)[at] * OUTWARDS).numpy(),
        value2.numpy(),
    )
    ladder = Ladder(exact, spots, 1e6 * effort.work, effort.seconds)
    stop = ladder.climb(target2, request.progress)
    return torch.from_numpy(ladder.upper2), "branch and bound" + (f"; {stop.value}" if stop else "")


def heads_bound(probe: MultiHeadProbe, r: Float[Tensor, " n"], longest: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """An upper bound on the squared change at each position; words move by r and are no longer than `longest`."""
    gains = [layer_norm(head.W_V) for head in probe.heads]
    bounds = _OF_SCORES[type(probe.phi.score)](probe.phi.score)
    return bounds.heads(probe.heads, gains, r, longest) * output_gain(probe) ** 2 * OUTWARDS


@Certificate.register(MultiHeadProbe)
def _heads(probe: MultiHeadProbe, rows: Int[Tensor, "p m"], within: Constraint, request: Request) -> Certificate:
    if (none := _unknown(probe, probe.phi.score, rows)) is not None:
        return Certificate(None, none)
    exact = copy.deepcopy(probe.phi).double().cpu().at(probe.X.double().cpu())
    reach = allowed_reach(within, probe.X)
    # Values too are rounded relative to their terms: what counts is how long they could be, not what W_V leaves.
    gains = [layer_norm(head.W_V) for head in exact.heads]
    each = [(head, reach, gain * reach, gain * _longest(exact)) for head, gain in zip(exact.heads, gains, strict=True)]
    if rows.shape[1] > 1:
        rounding = output_gain(exact) * sum(hull_slack(*head) for head in each)
        return _hull(rows, heads_hull_bound(exact, float(reach.max())), rounding)
    added = output_gain(exact) * torch.stack([slack(*head) for head in each]).sum(0)
    upper = _root(heads_bound(exact, reach, _limit(within, probe.X))) + added
    return Certificate(upper[rows[:, 0].cpu()], "closed form, head by head")


def _unknown(probe: Probe, score: Score, rows: Int[Tensor, "p m"]) -> str | None:
    """Why nothing is known, or None."""
    if type(score) not in _OF_SCORES:
        return f"no certificate: none is known for {score.name}, a score of one's own"
    if 0 < _longest(probe) < SHORTEST:
        return "no certificate: the words are so short that their squares underflow; scale them up"
    if rows.shape[1] > 1 and not score.normalised:
        return f"no certificate: none is known for several words under {score.name}, which the words do not bound"
    return None


def _root(upper2: Tensor) -> Tensor:
    return upper2.sqrt() * (1 + 1e-12)


def _hull(rows: Int[Tensor, "p m"], bound2: float, rounding: float) -> Certificate:
    bound = math.sqrt(bound2) * (1 + 1e-12) + rounding
    return Certificate(torch.full((len(rows),), bound, dtype=torch.float64), "convex hull of the changed words")


def _limit(within: Constraint, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """How long each new word may be, with its rounding."""
    return within.longest(X.detach().double().cpu()) * (1 + 8 * torch.finfo(X.dtype).eps)


def _longest(probe: Probe) -> float:
    return float(probe.X.norm(dim=1).max())


def _in_double(probe: AttentionProbe | RescoredProbe) -> AttentionProbe | RescoredProbe:
    """A certificate is computed in float64 on the CPU, whatever the search used."""
    if probe.X.dtype == torch.float64 and probe.X.device.type == "cpu":
        return probe
    phi = AttentionFeatures(probe.W.double().cpu(), score=probe.score)
    return phi.at(probe.X.double().cpu())
