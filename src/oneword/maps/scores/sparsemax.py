"""Sparsemax: the point of the simplex nearest to the scores (Martins & Astudillo, ICML 2016, 1602.02068)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.scores.base import Score


@final
@dataclass(frozen=True)
class Sparsemax(Score):
    """Weights max(0, s − τ), with the one τ for which they sum to 1; most of them vanish."""

    @property
    def name(self) -> str:
        return "sparsemax"

    def attend(self, s: Tensor) -> Tensor:
        return sparsemax(s)


def sparsemax(s: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """argmin over the simplex of ‖p − s‖², along the last axis, differentiable in s.

    The support is the k largest scores, k the last with 1 + k s_(k) > s_(1) + … + s_(k), and τ is what makes their
    weights sum to 1. The gradient of τ is the mean over the support, so that of p is that of the support, centred.
    """
    s = s - s.detach().amax(-1, keepdim=True)  # the support is then above −1, whatever the size of the scores
    with torch.no_grad():
        ranked = s.sort(-1, descending=True).values
        place = torch.arange(1, s.shape[-1] + 1, device=s.device, dtype=s.dtype)
        count = (1 + place * ranked > ranked.cumsum(-1)).sum(-1, keepdim=True)
        support = s >= ranked.gather(-1, count - 1)
    # Counted again: of equal scores all are in the support, or none, and rounding may have let `count` end among them.
    tau = (s.masked_fill(~support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return torch.relu(s - tau)
