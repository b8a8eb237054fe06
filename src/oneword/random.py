"""One seed, many independent named streams.

A stream is keyed by (seed, names …), so any block of a large random matrix can be redrawn alone. Numbers are drawn
on the CPU in float64 and only then cast and moved: a seed means the same weights in every dtype and on every device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.checks import check_precision, shown, whole_number
from oneword.devices import check_device
from oneword.errors import RangeError

# Rows are drawn in pieces of about this many numbers, so that a float32 matrix never exists in float64 as a whole.
_PIECE = 1 << 22


def resolve_seed(seed: int | None, generator: torch.Generator | None) -> int:
    """The seed itself (0 where nothing is given), or one drawn from `generator`, which advances."""
    if seed is not None and generator is not None:
        raise RangeError("expected at most one of seed= and generator=, got both: leave one out")
    if generator is not None:
        if not isinstance(generator, torch.Generator):
            raise RangeError(f"expected generator= a torch.Generator, got {shown(generator)}: give one, or seed=")
        return int(torch.randint(2**62, (1,), generator=generator, device=generator.device).item())
    seed = 0 if seed is None else whole_number("seed", seed)
    if seed < 0:
        raise RangeError(f"expected seed >= 0, got {seed}")
    return seed


def like(dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """An empty tensor for a map or a text. Raises DTypeError or UnknownNameError for another dtype or device."""
    check_precision(dtype)
    return torch.empty(0, dtype=dtype, device=check_device(device))


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator of one named stream."""
    key = (int(seed), *(name if isinstance(name, str) else int(name) for name in names))
    digest = hashlib.sha256(repr(key).encode()).digest()
    words = np.frombuffer(digest, dtype=np.uint32).tolist()
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(words)))


def normal_pieces(
    rows: int, columns: int, scale: float, seed: int, *names: str | int
) -> Iterator[tuple[slice, Float[Tensor, "piece columns"]]]:
    """A rows × columns Gaussian matrix, `scale` its standard deviation, as consecutive bands of rows in float64."""
    band = max(1, _PIECE // max(1, columns))
    for first in range(0, rows, band):
        last = min(rows, first + band)
        draw = stream(seed, *names, "rows", first).standard_normal((last - first, columns))
        yield slice(first, last), torch.from_numpy(draw).mul_(scale)


def normal(
    rows: int,
    columns: int,
    scale: float,
    seed: int,
    *names: str | int,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "rows columns"]:
    """The matrix of `normal_pieces`, assembled in `dtype` on `device`."""
    out = like(dtype, device).new_empty((rows, columns))
    for band, piece in normal_pieces(rows, columns, scale, seed, *names):
        out[band] = piece.to(dtype=dtype, device=device)
    return out
