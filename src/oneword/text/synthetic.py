"""Synthetic texts for theory: Gaussian words and words in clusters, every row of norm √d."""

from __future__ import annotations

import math
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import RangeError
from oneword.memory import check_memory
from oneword.random import normal, resolve_seed
from oneword.text.context import Context


def gaussian(
    n: int,
    d: int,
    *,
    cosine: float = 0.07,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Context:
    """n Gaussian words on the sphere of radius √d, whose pairwise cosine is `cosine` on average."""
    return _mixture(n, d, 1, cosine, cosine, "gaussian", seed, generator, dtype, device)


def clustered(
    n: int,
    d: int,
    *,
    clusters: int = 4,
    within: float = 0.6,
    between: float = 0.0,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Context:
    """n words in `clusters` groups: average cosine `within` a group and `between` two groups."""
    return _mixture(n, d, clusters, within, between, "clustered", seed, generator, dtype, device)


def _mixture(
    n: int,
    d: int,
    clusters: int,
    within: float,
    between: float,
    name: str,
    seed: int | None,
    generator: torch.Generator | None,
    dtype: torch.dtype,
    device: torch.device | str,
) -> Context:
    if n < 1 or d < 1 or clusters < 1:
        raise RangeError(f"expected n, d and clusters of at least 1, got n = {n}, d = {d}, clusters = {clusters}")
    if not 0 <= between <= within <= 1:
        raise RangeError(f"expected cosines 0 ≤ between ≤ within ≤ 1, got between = {between}, within = {within}")
    check_memory(4 * n * d * 8, f"a text of {n:,} words of dimension {d:,}")
    seed = resolve_seed(seed, generator)
    parts = (("common", 1), ("groups", clusters), ("own", n))
    common, groups, own = (normal(rows, d, 1.0, seed, name, part) for part, rows in parts)
    X = math.sqrt(between) * common + math.sqrt(1 - within) * own
    X = X + math.sqrt(within - between) * groups[torch.arange(n) % clusters]
    source = MappingProxyType(
        {
            "text": name,
            "seed": seed,
            "n": n,
            "d": d,
            "clusters": clusters,
            "within": within,
            "between": between,
        }
    )
    return Context(_on_sphere(X).to(dtype=dtype, device=device), source=source)


def _on_sphere(X: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return X / X.norm(dim=1, keepdim=True) * math.sqrt(X.shape[1])
