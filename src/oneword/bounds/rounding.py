"""What rounding can do to attention, apart from the bounds themselves (docs/certificates.md, section 8).

A score x·Wy/√d is only as good as ε‖W‖‖x‖‖y‖/√d, however small it comes out: where x and W cancel, keys and scores
are nothing but rounding. `doubt` says how much of a row's attention that may shift; a row whose attention shifts by e
moves by at most e times the way from one value to another.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.attention import Rows, score_error
from oneword.bounds.layout import ROUNDING


def slack(rows: Rows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"], longest: float) -> Float[Tensor, " n"]:
    """What rounding adds to the change of all rows together at each position; values are no longer than `longest`."""
    return _apart(reach, longest) * doubt(rows, r).norm(dim=1)


def hull_slack(rows: Rows, r: Float[Tensor, " n"], reach: Float[Tensor, " n"], longest: float) -> float:
    """The same when any number of words change: then nothing but the outputs of the unchanged text is used."""
    return _apart(reach, longest) * float(doubt(rows, r).diagonal().norm())


def _apart(reach: Float[Tensor, " n"], longest: float) -> float:
    """The largest distance of an unchanged output from a changed one, so that a doubt of 1 covers all there is."""
    return 2 * longest + float(reach.max())


def doubt(rows: Rows, r: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """[i, j]: how much of the attention of row j rounding may shift, before and after word i changes by at most r.

    On the diagonal for the unchanged row alone: nothing is assumed of the weights of a row whose word changes.
    """
    n, size = len(rows.X), rows.words.norm(dim=1)
    farthest = size.max() + r.max()
    if not rows.score.normalised:  # each weight on its own, g being 1-Lipschitz; that of y with itself has ‖y‖²
        error = score_error(rows, farthest, farthest)
        error = error.clamp_max(rows.score.largest)
        return (n * (ROUNDING + error)).expand(n, n)
    error = score_error(rows, size, farthest)  # of any score of row j
    if rows.score.can_vanish:
        return (ROUNDING + _relu_doubt(rows, error)).clamp_max(1)
    if n == 1:  # one word has all the attention
        return torch.full_like(rows.S, ROUNDING)
    # Softmax: shares move by less than the scores. Sparsemax, a projection: by as much, in the Euclidean norm.
    moved = error.clamp_max(1) * rows.score.weight_gain(n)
    return (ROUNDING + moved).clamp_max(1).expand(n, n)


def _relu_doubt(rows: Rows, error: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """A share errs by the errors of the row's scores over their total, so that small totals leave much in doubt.

    A score that is negative beyond doubt counts for nothing. If all words but i are such, their total is 0, and word i
    has all the attention or none: before the change that is known unless its score is in doubt, and after it the bound
    covers both.
    """
    size = rows.words.norm(dim=1)
    each = score_error(rows, size[:, None], size)
    alive = rows.S + each > 0  # [j, l]; a score that is 0 for certain is not
    together = (each * alive).sum(1)
    tiny = torch.finfo(each.dtype).tiny
    positive = rows.S.clamp_min(0)
    rest = positive.sum(1) - positive.mT  # [i, j]; inexact only where word i has nearly all
    rest = (rest - 1e-12 * positive.sum(1)).clamp_min(tiny)
    others = alive.sum(1) - alive.mT.long()
    unsure = (rows.S.abs() < each).mT.to(each.dtype)
    after = torch.where(others > 0, 2 * (together + error) / rest, unsure)
    after = after.masked_fill(rows.S.mT.isneginf(), 0)  # a row that does not see word i stays
    whole = torch.where(alive.any(1), 2 * together / positive.sum(1).clamp_min(tiny), 0)
    return torch.where(torch.eye(len(size), dtype=torch.bool), torch.diag(whole), after)
