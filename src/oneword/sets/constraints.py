"""What may change: the set of new words y that may stand where x_i stood.

A constraint answers three questions, each for a batch of words x (…, d): which y of the set lies furthest in a given
direction, which y of the set is nearest to a point, and what a random y looks like.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import betainc, betaincinv
from torch import Tensor

from oneword.checks import number, shown
from oneword.errors import RangeError, UnknownNameError, did_you_mean


@dataclass(frozen=True)
class Constraint(ABC):
    """A set of allowed new words around each x."""

    @abstractmethod
    def toward(self, x: Float[Tensor, "*b d"], direction: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The allowed y with the largest y·direction (any allowed y where the direction is 0)."""

    @abstractmethod
    def project(self, x: Float[Tensor, "*b d"], y: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The allowed point nearest to y."""

    @abstractmethod
    def sample(self, x: Float[Tensor, " d"], count: int, rng: np.random.Generator) -> Float[Tensor, "count d"]:
        """Random allowed words, uniform on the boundary of the set."""

    @abstractmethod
    def reach(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
        """The largest ‖y − x‖ that is allowed: the radius a certificate has to cover."""

    @abstractmethod
    def longest(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
        """The largest ‖y‖ that is allowed."""

    @abstractmethod
    def violation(self, x: Float[Tensor, "*b d"], y: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
        """How far y lies outside the set, relative to its size; 0 inside."""

    @abstractmethod
    def describe(self) -> dict[str, float | str | None]:
        """For provenance."""


@final
@dataclass(frozen=True)
class Ball(Constraint):
    """‖y − x‖ ≤ radius, centred on the original word. The default radius is the paper's √d.

    `relative` makes it ‖y − x‖ ≤ relative·‖x‖ instead: for models whose words have norms of their own.
    """

    radius: float | None = None
    relative: float | None = None

    def __post_init__(self) -> None:
        for name in ("radius", "relative"):
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        if self.radius is not None and self.relative is not None:
            raise RangeError(
                f"expected radius or relative, got both ({self.radius:g} and {self.relative:g}): leave one out"
            )

    def toward(self, x: Tensor, direction: Tensor) -> Tensor:
        return x + self.reach(x)[..., None] * unit(direction)

    def project(self, x: Tensor, y: Tensor) -> Tensor:
        r = self.reach(x)[..., None]
        move = y - x
        length = torch.linalg.vector_norm(move, dim=-1, keepdim=True)
        outside = length > r
        return torch.where(outside, x + move * (r / torch.where(outside, length, 1.0)), y)

    def sample(self, x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
        return self.toward(x, _gaussian(count, x, rng))

    def reach(self, x: Tensor) -> Tensor:
        if self.relative is not None:
            return self.relative * x.norm(dim=-1)
        r = math.sqrt(x.shape[-1]) if self.radius is None else self.radius
        return torch.full(x.shape[:-1], r, dtype=x.dtype, device=x.device)

    def longest(self, x: Tensor) -> Tensor:
        return x.norm(dim=-1) + self.reach(x)

    def violation(self, x: Tensor, y: Tensor) -> Tensor:
        r = self.reach(x).clamp_min(torch.finfo(x.dtype).tiny)  # a word of norm 0 may not move at all
        return ((y - x).norm(dim=-1) / r - 1).clamp_min(0)

    def describe(self) -> dict[str, float | str | None]:
        if self.relative is not None:
            shown = "‖Δ‖ ≤ ‖x‖" if self.relative == 1 else f"‖Δ‖ ≤ {self.relative:g}·‖x‖"
            return {"set": "Ball", "radius": None, "relative": self.relative, "shown": shown}
        shown = "‖Δ‖ ≤ √d" if self.radius is None else f"‖Δ‖ ≤ {self.radius:g}"
        return {"set": "Ball", "radius": self.radius, "shown": shown}


@final
@dataclass(frozen=True)
class Sphere(Constraint):
    """‖y‖ = norm (√d by default), as every real word has it; optionally ‖y − x‖ ≤ largest.

    With `largest`, the original word has to lie within that distance of the sphere.
    """

    norm: float | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", _positive("norm", self.norm))
        object.__setattr__(self, "largest", _positive("largest", self.largest))

    def _radius(self, d: int) -> float:
        return math.sqrt(d) if self.norm is None else self.norm

    def _least_cosine(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b 1"]:
        """‖y − x‖ ≤ largest, written as y·x̂/‖y‖ ≥ c."""
        R, length = self._radius(x.shape[-1]), x.norm(dim=-1, keepdim=True)
        if self.largest is None:
            return torch.full_like(length, -1.0)
        if bool((abs(length - R) > self.largest).any()):
            raise RangeError(
                f"expected words within {self.largest:g} of the sphere of norm {R:g}, got one of norm "
                f"{float(length.reshape(-1)[abs(length - R).argmax()]):g}: raise largest= or rescale the rows"
            )
        largest = min(self.largest, 1e150)  # whose square is a number
        c = (R**2 + length.square() - largest**2) / (2 * R * length.clamp_min(torch.finfo(x.dtype).tiny))
        return c.clamp(-1, 1)

    def toward(self, x: Tensor, direction: Tensor) -> Tensor:
        R, axis = self._radius(x.shape[-1]), unit(x)
        least = self._least_cosine(x)
        y = unit(direction)
        along = (y * axis).sum(-1, keepdim=True)
        across = y - along * axis
        # Straight away from x, every point of the rim is as good; on a line there is no rim, only x's own side.
        straight = across.norm(dim=-1, keepdim=True) < torch.finfo(x.dtype).eps ** 0.5
        across = torch.where(straight, _orthogonal(axis), unit(across))
        across = unit(across - (across * axis).sum(-1, keepdim=True) * axis)  # again: rounding left something along x
        at_rim = axis if x.shape[-1] == 1 else least * axis + (1 - least.square()).clamp_min(0).sqrt() * across
        # A direction of length 0 says nothing: stay at the word's own place on the sphere, or anywhere if it has none.
        e = torch.zeros_like(axis)
        e[..., 0] = 1
        own = torch.where(axis.abs().amax(-1, keepdim=True) > 0, axis, e)
        y = torch.where(direction.abs().amax(-1, keepdim=True) > 0, y, own)
        return R * unit(torch.where(along < least, at_rim, y))

    def project(self, x: Tensor, y: Tensor) -> Tensor:
        return self.toward(x, y)  # nearest on a sphere is furthest along

    def sample(self, x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
        y = self.toward(x, _gaussian(count, x, rng))
        d = x.shape[-1]
        if self.largest is None or d < 2:
            return y
        # Uniform on the cap: (1 + cosine)/2 of a uniform direction is Beta((d−1)/2, (d−1)/2), cut at the rim.
        half, least = (d - 1) / 2, float(self._least_cosine(x))
        beyond_rim = betainc(half, half, (1 - least) / 2)
        cosine = 1 - 2 * torch.from_numpy(betaincinv(half, half, rng.random(count) * beyond_rim))
        cosine = cosine.clamp(least, 1).to(x)[:, None]
        axis = unit(x)
        across = unit(y - (y @ axis)[:, None] * axis)
        return self._radius(d) * unit(cosine * axis + (1 - cosine.square()).clamp_min(0).sqrt() * across)

    def reach(self, x: Tensor) -> Tensor:
        far = x.norm(dim=-1) + self._radius(x.shape[-1])
        return far if self.largest is None else far.clamp_max(self.largest)

    def longest(self, x: Tensor) -> Tensor:
        return torch.full(x.shape[:-1], self._radius(x.shape[-1]), dtype=x.dtype, device=x.device)

    def violation(self, x: Tensor, y: Tensor) -> Tensor:
        R = self._radius(x.shape[-1])
        off = (y.norm(dim=-1) / R - 1).abs()
        if self.largest is None:
            return off
        return torch.maximum(off, (y - x).norm(dim=-1) / self.largest - 1).clamp_min(0)

    def describe(self) -> dict[str, float | str | None]:
        shown = "‖y‖ = √d" if self.norm is None else f"‖y‖ = {self.norm:g}"
        near = "" if self.largest is None else f", ‖Δ‖ ≤ {self.largest:g}"
        return {"set": "Sphere", "norm": self.norm, "largest": self.largest, "shown": shown + near}


# By the names that a person types: how each is made from a radius in units of √d (None: the set's own) and from d.
SETS: dict[str, Callable[[float | None, int], Constraint]] = {
    "ball": lambda radius, d: Ball(None if radius is None else radius * d**0.5),
    "sphere": lambda radius, d: Sphere(largest=None if radius is None else radius * d**0.5),
}


def constraint(name: str, radius: float | None, d: int) -> Constraint:
    """The set of this name for words of dimension d.

    `radius` is the largest ‖Δ‖ in units of √d; None leaves it to the set (for the ball √d, the paper's). Raises
    `UnknownNameError` for a name that is not in SETS.
    """
    if name not in SETS:
        raise UnknownNameError(f"expected a set out of {', '.join(SETS)}, got {shown(name)}{did_you_mean(name, SETS)}")
    return SETS[name](_positive("radius", radius), d)


def unit(v: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """v/‖v‖, and 0 for 0. Rescaled by the largest entry first: the norm of a tiny gradient would underflow."""
    largest = v.abs().amax(-1, keepdim=True)
    v = v / torch.where(largest > 0, largest, 1.0)
    return v / torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp_min(0.5)


def _orthogonal(axis: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Some unit vector orthogonal to each axis (0 in one dimension)."""
    e = torch.zeros_like(axis).scatter(-1, axis.abs().argmin(-1, keepdim=True), 1.0)
    return unit(e - (e * axis).sum(-1, keepdim=True) * axis)


def _gaussian(count: int, x: Float[Tensor, " d"], rng: np.random.Generator) -> Float[Tensor, "count d"]:
    return torch.from_numpy(rng.standard_normal((count, x.shape[-1]))).to(x)


def _positive(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    found = number(name, value, finite=False)
    if not (math.isfinite(found) and found > 0):
        raise RangeError(f"expected {name} > 0 and finite, got {found:g}: give another")
    return found
