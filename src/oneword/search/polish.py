"""Projected gradient ascent, each candidate with a step of its own; and whether it was stopped by kinks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from oneword.progress import Progress
from oneword.search.base import STAGE, Rows
from oneword.search.candidates import Candidates, Landscape, pick
from oneword.search.momentum import along

_FINALISTS = 8  # candidates of a set that go on after `_TRIAL` steps
_TRIAL = 30
_KINK = 0.1  # the relative rise of the value within the reach that the gradient still promises at a candidate at rest
_NEARBY = 1e-4  # of the reach


@dataclass(frozen=True, eq=False)
class Polished:
    """Candidates where their ascents ended."""

    ends: Candidates
    settled: Bool[Tensor, "p s"]
    promise: Float[Tensor, "p s"]  # about 0 at a smooth maximum; at a kink the gradient points to what is not there

    def stopped_by_kinks(self) -> bool:
        """Whether a candidate that matters came to rest although its gradient says that it could rise."""
        matters = self.ends.value > self.ends.value.max() / 4
        return bool((self.settled & matters & (self.promise > _KINK)).any())


def polish(land: Landscape, rows: Rows, candidates: Candidates, steps: int, progress: Progress) -> Polished:
    """Ascent along the normalised gradient, the step growing on success and shrinking on failure."""
    near, within = land.near(rows), land.within
    y, origin = candidates.y, candidates.origin
    x = land.probe.X[rows][:, None].expand_as(y)
    reach = within.reach(x)[..., None]  # (p, s, m, 1)
    step = torch.full_like(reach[..., :1, :], 0.3)
    slope = near.slope(rows, y.shape[1])
    value, gradient = slope(y)
    settled = torch.zeros_like(value, dtype=torch.bool)
    recent = value
    for count in range(1, steps + 1):
        trial = within.project(x, y + step * reach * along(gradient))
        trial_value, trial_gradient = slope(trial)
        up = trial_value > value
        value, up = torch.where(up, trial_value, value), up[..., None, None]
        y, gradient = torch.where(up, trial, y), torch.where(up, trial_gradient, gradient)
        step = torch.where(up, step * 1.5, step * 0.4).clamp_max_(3.0)
        progress(STAGE, count / steps)
        if count == _TRIAL and y.shape[1] > _FINALISTS:  # by now the better ones show
            order = value.argsort(dim=1, descending=True, stable=True)[:, :_FINALISTS]
            value, y, origin, gradient, step, x, reach, recent = (
                pick(t, order) for t in (value, y, origin, gradient, step, x, reach, recent)
            )
            slope = near.slope(rows, _FINALISTS)
        if count % 15 == 0:  # settled: fifteen steps brought less than one part in 10⁶, or the step has vanished
            settled = (value <= recent * (1 + 1e-6)) | (step.flatten(1) < 1e-7)
            step = step * ~settled[..., None, None]  # it stays there, however long the others go on
            recent = value
            if bool(settled.all()):
                break
    nearby = within.project(x, y + _NEARBY * reach * along(gradient))
    rise = (gradient * (nearby - y)).flatten(2).sum(-1)
    promise = rise / (_NEARBY * value.clamp_min(torch.finfo(value.dtype).tiny))
    return Polished(Candidates(value, y, origin), settled, promise)
