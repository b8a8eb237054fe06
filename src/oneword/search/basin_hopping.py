"""Where kinks or saturation stop an ascent: momentum from many random starts, then restarts around the best.

At a kink a plain ascent jumps from side to side until its step has vanished, and a conditional-gradient step lands
anywhere; momentum slides along it. What is left are maxima that few starts lead to; most of them are near others that
are almost as high, so the best candidates are shaken, less each time, and climb again (basin hopping).
"""

from __future__ import annotations

import numpy as np
import torch

from oneword.maps.base import SHORT
from oneword.progress import Progress
from oneword.random import stream
from oneword.search.base import STAGE, Batch, Rows
from oneword.search.candidates import Candidates, Landscape, larger, stacked
from oneword.search.momentum import along, climb

_LAST_STEP = 1e-3  # of the reach
_POSITIONS = SHORT  # sets of rows that get random starts: all of them in a short text
_WIDTH = 6  # candidates that a set keeps
_LONGER = 6  # sets whose candidates climb longer
_SHAKEN = 3  # sets whose best candidates are shaken
_EACH = 2  # candidates of such a set
# How far, of the reach. Saturated maps are all but constant between their steps, which takes more of them.
KINKED, SATURATED = (0.6, 0.3, 0.1), (0.6, 0.4, 0.3, 0.2, 0.1, 0.05)
_COPIES = 6  # shaken ones of each candidate, beside itself


def hop(
    land: Landscape,
    rows: Rows,
    candidates: Candidates,
    *,
    random: int,
    steps: int,
    shakes: tuple[float, ...],
    progress: Progress,
) -> Candidates:
    """The best of `candidates` and of `random` further starts a set; the leading sets climb longer, and are shaken.

    `steps` is what a polish takes: a random start gets two fifths of it, a leading set four thirds, a shaken one half.
    """
    field = candidates.best(_WIDTH)
    lead = field.leading(_POSITIONS)
    fresh = _unclimbed(land.random_words(rows[lead], random, "wander"))
    field = field.put(lead, field.sets(lead).beside(_up(land, rows[lead], fresh, 2 * steps // 5)).best(_WIDTH))
    progress(STAGE, 0.8)
    lead = field.leading(_LONGER)
    field = field.put(lead, _up(land, rows[lead], field.sets(lead), 4 * steps // 3).best(_WIDTH))
    progress(STAGE, 0.9)
    for shake in shakes:
        lead = field.leading(_SHAKEN)
        some = field.sets(lead)
        rest = Candidates(*(each[:, _EACH:] for each in some))
        parents = some.first(_EACH)
        children = _up(land, rows[lead], _shaken(land, rows[lead], parents, shake), steps // 2, shake)
        field = field.put(lead, _families(parents, children).beside(rest).best(_WIDTH))
    progress(STAGE, 1.0)
    return field


def _unclimbed(y: Batch) -> Candidates:
    return Candidates(torch.full(y.shape[:2], -torch.inf, dtype=y.dtype, device=y.device), y, y)


def _shaken(land: Landscape, rows: Rows, parents: Candidates, shake: float) -> Candidates:
    """Copies of each candidate: the first as it is, the others moved at random, by streams of the rows' own."""
    origin, y = (t.repeat_interleave(1 + _COPIES, 1) for t in (parents.origin, parents.y))
    moves = np.stack([stream(land.seed, "shake", *r, str(shake)).standard_normal(y.shape[1:]) for r in rows.tolist()])
    move = along(torch.from_numpy(moves).to(y))
    move[:, :: 1 + _COPIES] = 0
    x = land.probe.X[rows][:, None].expand_as(y)
    moved = land.within.project(x, y + shake * land.within.reach(x)[..., None] * move)
    return _unclimbed(moved)._replace(origin=origin)


def _families(parents: Candidates, children: Candidates) -> Candidates:
    """The best of each candidate and its copies: they are no independent climbs."""
    best = children.value.unflatten(1, (-1, 1 + _COPIES)).argmax(2)
    child = children.pick(best + (1 + _COPIES) * torch.arange(best.shape[1], device=best.device))
    value, y = larger(parents.value, parents.y, child.value, child.y)
    return Candidates(value, y, parents.origin)


def _up(land: Landscape, rows: Rows, start: Candidates, steps: int, widest: float = 1.0) -> Candidates:
    """The best of each climb by momentum; `widest` is its first step, of the reach."""
    x, steps, found = land.probe.X[rows][:, None].expand_as(start.y), max(1, steps), []
    keep = min(0.9, max(0.0, 1 - 8 / steps))
    for some, _ in land.in_parts(rows):
        begin = start.sets(some)
        slope = land.near(rows[some]).slope(rows[some], begin.y.shape[1])
        best, best_y, _ = climb(
            slope, x[some], begin.y, begin.value, land.within, steps=steps, keep=keep, first=widest, last=_LAST_STEP
        )
        found.append(Candidates(best, best_y, begin.origin))
    return stacked(found)
