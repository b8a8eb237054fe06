"""The noise floor: how far φ(X) moves when nothing of the text changes, only how it is run.

The same text goes through batches of several sizes and with padding. Sums of floating-point numbers then come in
another order, and a change of a word that is smaller than this says nothing.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.base import feature_norm
from oneword.maps.transformer import TransformerFeatures

BATCHES = (2, 7, 16)
PADDINGS = (1, 3, 16, 37)


def noise_floor(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> float:
    """The largest ‖φ'(X) − φ(X)‖/‖φ(X)‖ over batch sizes and paddings."""
    room = phi.encoder.longest - len(X)
    with torch.no_grad():
        clean = phi(X)
        # The first and the last of a batch: they need not be computed alike.
        others = [made[k] for size in BATCHES for made in [phi(X.expand(size, *X.shape))] for k in (0, -1)]
        others += [phi.padded(X, count) for count in PADDINGS if count <= room]
        return max(float((other - clean).norm()) for other in others) / feature_norm(clean)
