"""The one entry to certificates: pick the bound that fits the Probe, keep the smallest, or say why there is none."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.attention import OUTWARDS, SHORTEST, hull_bound, own_row, segment_bound
from oneword.bounds.ceiling import ceiling
from oneword.bounds.heads import heads_bound, heads_hull_bound, output_gain
from oneword.bounds.layers import DENSE_WIDTH, layer_norm, position_bounds
from oneword.bounds.rounding import hull_slack, slack
from oneword.bounds.sparse import support_bound
from oneword.bounds.unnormalised import interval_bound
from oneword.errors import RangeError
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import Probe
from oneword.maps.multihead_probe import MultiHeadProbe
from oneword.maps.random import LayeredProbe
from oneword.maps.rescored_probe import RescoredProbe
from oneword.maps.scores import Linear, ReLU, Score, Sigmoid, Softmax, Sparsemax
from oneword.maps.transformer_probe import TransformerProbe
from oneword.progress import Progress, silent
from oneword.sets.constraints import Constraint

BOUNDED = (Softmax, ReLU, Sigmoid, Linear, Sparsemax)  # the scores that the proofs are about


@dataclass(frozen=True)
class Certify:
    """How hard to work on the upper bound: until upper/value ≤ target, or the budget is spent.

    `work` is the budget of branch and bound in millions of row bounds (10 take a few seconds). It is counted, so that
    the same call gives the same bits, and a stricter target never gives a larger bound. `seconds`, where given, stops
    it earlier, and the result says so. Closed forms are always computed in full.
    """

    target: float = 1.2
    work: float = 30.0
    seconds: float | None = None

    def __post_init__(self) -> None:
        in_time = self.seconds is None or 0 <= self.seconds < math.inf
        if not (self.target >= 1 and 0 <= self.work < math.inf and in_time):
            raise RangeError(
                "expected Certify(target ≥ 1, work ≥ 0, seconds ≥ 0 or None), all finite, "
                f"got target = {self.target}, work = {self.work}, seconds = {self.seconds}"
            )

    @classmethod
    def plain(cls) -> Certify:
        """The closed-form bound alone, at once."""
        return cls(target=1.0, work=0.0)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Upper bounds on ‖φ(X^i(Δ)) − φ(X)‖, one a set of rows; `how` names the bound, or says why there is none.

    `kind` says what they cover: "certificate" the allowed changes, "ceiling" changes of any size; "none".
    """

    upper: Float[Tensor, " p"] | None
    how: str
    seconds: float
    kind: str


def certificate(
    probe: Probe,
    rows: Int[Tensor, "p m"],
    within: Constraint,
    found: Float[Tensor, " p"],
    effort: Certify,
    *,
    any_rows: int | None = None,
    progress: Progress = silent,
) -> Certificate:
    """Certify every set of rows; `found` holds the changes a search attained.

    `any_rows`: the sets were picked by a search, so the bound must cover every set of up to this many rows.
    """
    started = time.monotonic()
    kind = "certificate"
    if isinstance(probe, TransformerProbe):
        made = ceiling(probe, rows, within, any_rows)
        upper, how, kind = made.upper, made.how, "ceiling" if made.any_size else kind
        if upper is not None and bool((found.double().cpu() > upper * (1 + 1e-6)).any()):
            # What a model's last steps are is tried out, not proved: a bound that was passed is none.
            upper, how = None, "no ceiling: a search went beyond it, so this model's last steps are not what they seem"
    else:
        upper, how = _dispatch(probe, rows, within, found, effort, any_rows, progress)
    return Certificate(upper, how, time.monotonic() - started, "none" if upper is None else kind)


def _dispatch(
    probe: Probe,
    rows: Int[Tensor, "p m"],
    within: Constraint,
    found: Tensor,
    effort: Certify,
    any_rows: int | None,
    progress: Progress,
) -> tuple[Tensor | None, str]:
    if isinstance(probe, AttentionProbe) and isinstance(probe.score, Softmax | ReLU) and probe.score.normalised:
        return _attention(probe, rows, within, found, effort, progress)
    if isinstance(probe, AttentionProbe | RescoredProbe):
        return _closed(probe, rows, within)
    if isinstance(probe, MultiHeadProbe):
        return _heads(probe, rows, within)
    if isinstance(probe, LayeredProbe):
        return _layered(probe, rows, within, any_rows, progress)
    return None, "no certificate: none is known for this map"


def _attention(
    probe: AttentionProbe,
    rows: Int[Tensor, "p m"],
    within: Constraint,
    found: Tensor,
    effort: Certify,
    progress: Progress,
) -> tuple[Tensor | None, str]:
    """Softmax and ReLU, normalised."""
    if (none := _unknown(probe, probe.score, rows)) is not None:
        return None, none
    exact = _in_double(probe)
    assert isinstance(exact, AttentionProbe)
    reach, longest = _reach(within, probe.X), _longest(exact)
    if rows.shape[1] > 1:
        return _hull(rows, hull_bound(exact, float(reach.max())), hull_slack(exact, reach, reach, longest))
    at = rows[:, 0].cpu()
    limit = _limit(within, probe.X)
    upper2 = segment_bound(exact, reach, limit)[at]
    value2 = found.double().cpu().square()
    target2 = effort.target**2 * float(value2.max())
    how = "closed form"
    # Nothing attained is no ratio to reach.
    if target2 > 0 and effort.work > 0 and effort.seconds != 0 and bool((upper2 > target2).any()):
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
        stop = ladder.climb(target2, progress)
        upper2, how = torch.from_numpy(ladder.upper2), "branch and bound" + (f"; {stop.value}" if stop else "")
    return _root(upper2) + slack(exact, reach, reach, longest)[at], how


def _closed(
    probe: AttentionProbe | RescoredProbe, rows: Int[Tensor, "p m"], within: Constraint
) -> tuple[Tensor | None, str]:
    """What has a closed form and no more: sparsemax, and scores that are not normalised."""
    if (none := _unknown(probe, probe.score, rows)) is not None:
        return None, none
    exact, reach = _in_double(probe), _reach(within, probe.X)
    longest = _longest(exact)
    if rows.shape[1] > 1:
        return _hull(rows, hull_bound(exact, float(reach.max())), hull_slack(exact, reach, reach, longest))
    if isinstance(exact, RescoredProbe):
        upper2 = support_bound(exact, reach, reach)
    else:
        upper2 = interval_bound(exact, reach, reach, layer_norm(exact.W_symmetric))
    return (_root(upper2) + slack(exact, reach, reach, longest))[rows[:, 0].cpu()], "closed form"


def _heads(probe: MultiHeadProbe, rows: Int[Tensor, "p m"], within: Constraint) -> tuple[Tensor | None, str]:
    if (none := _unknown(probe, probe.phi.score, rows)) is not None:
        return None, none
    exact = copy.deepcopy(probe.phi).double().cpu().at(probe.X.double().cpu())
    reach = _reach(within, probe.X)
    # Values too are rounded relative to their terms: what counts is how long they could be, not what W_V leaves.
    gains = [layer_norm(head.W_V) for head in exact.heads]
    each = [(head, reach, gain * reach, gain * _longest(exact)) for head, gain in zip(exact.heads, gains, strict=True)]
    if rows.shape[1] > 1:
        rounding = output_gain(exact) * sum(hull_slack(*head) for head in each)
        return _hull(rows, heads_hull_bound(exact, float(reach.max())), rounding)
    added = output_gain(exact) * torch.stack([slack(*head) for head in each]).sum(0)
    return (_root(heads_bound(exact, reach, _limit(within, probe.X))) + added)[
        rows[:, 0].cpu()
    ], "closed form, head by head"


def _unknown(probe: Probe, score: Score, rows: Int[Tensor, "p m"]) -> str | None:
    """Why nothing is known, or None."""
    if type(score) not in BOUNDED:  # not isinstance: whoever inherits from one of them may have changed it
        return f"no certificate: none is known for {score.name}, a score of one's own"
    if 0 < _longest(probe) < SHORTEST:
        return "no certificate: the words are so short that their squares underflow; scale them up"
    if rows.shape[1] > 1 and not score.normalised:
        return f"no certificate: none is known for several words under {score.name}, which the words do not bound"
    return None


def _root(upper2: Tensor) -> Tensor:
    return upper2.sqrt() * (1 + 1e-12)


def _hull(rows: Int[Tensor, "p m"], bound2: float, rounding: float) -> tuple[Tensor, str]:
    bound = math.sqrt(bound2) * (1 + 1e-12) + rounding
    return torch.full((len(rows),), bound, dtype=torch.float64), "convex hull of the changed words"


def _reach(within: Constraint, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """How far each word may move, with what rounding y to the text's own dtype can add to it."""
    exact = X.detach().double().cpu()
    reach = within.reach(exact)
    return reach + 8 * torch.finfo(X.dtype).eps * (exact.norm(dim=1) + reach)


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


def _layered(
    probe: LayeredProbe, rows: Int[Tensor, "p m"], within: Constraint, any_rows: int | None, progress: Progress
) -> tuple[Tensor | None, str]:
    if probe.phi.activation.lipschitz is None:
        name = probe.phi.activation.name
        return None, f"no certificate: {name} has no known Lipschitz constant; give Activation(lipschitz=…)"
    joint = rows.shape[1] > 1
    needed = list(probe.positions) if any_rows else sorted(set(rows.flatten().tolist()))
    bounds = position_bounds(probe, needed, _reach(within, probe.X)[needed].tolist(), joint, progress)
    by_row = dict(zip(needed, bounds, strict=True))
    how = "operator norms"
    if probe.phi.layers:
        rough = "" if probe.phi.k <= DENSE_WIDTH else f"; above k = {DENSE_WIDTH}, of looser norms"
        how = f"product of operator norms{rough} (vacuous beyond a few layers)"
    if any_rows:
        most = sum(sorted(bounds, reverse=True)[:any_rows])
        return torch.full((len(rows),), most, dtype=torch.float64), how
    return torch.tensor([sum(by_row[row] for row in rows_) for rows_ in rows.tolist()], dtype=torch.float64), how
