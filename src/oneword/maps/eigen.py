"""The leading eigenvectors of a Gram matrix, by Lanczos: the gain of a linear map and the directions that attain it."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor

_SMALL = 32  # up to this width a full decomposition is as quick


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
