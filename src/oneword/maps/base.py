"""FeatureMap φ and Probe: the two ideas everything else is built on.

A map is a pure function of a text. `phi.at(X)` prepares it at one text and returns a Probe, which answers questions
about X with one or a few rows changed. The Probe here does a full forward pass, so that any differentiable map works;
maps with structure bring Probes of their own (theory: "Incremental evaluation").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oneword.checks import check_precision, described, shortened, shown
from oneword.errors import (
    DTypeError,
    MapError,
    NonFiniteError,
    OnewordError,
    RangeError,
    ShapeError,
    UnknownNameError,
    ZeroNormError,
)
from oneword.sets.constraints import Ball, Constraint
from oneword.text.context import Context, check_text

Slope = Callable[[Tensor], tuple[Float[Tensor, " b"], Tensor]]  # new rows ↦ `change2` and its gradient

SHORT = 64  # words; up to here a text is searched from more starts, which cost little


class Probe(ABC):
    """φ prepared at one text X.

    Candidates come in batches: `y` of shape (b, d) with `i` of shape (b,) changes one row each; `y` of shape (b, m, d)
    with `i` of shape (b, m) changes m distinct rows at once. `y` is the new row itself, not the difference. A subclass
    sets `X` and `norm` in its `__init__`.
    """

    X: Float[Tensor, "n d"]
    norm: float  # ‖φ(X)‖, the denominator of Eq. 1
    # Whether slopes jump where maxima are, so that an ascent is stopped by kinks; a search also notices by itself.
    kinked: bool = False

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def positions(self) -> tuple[int, ...]:
        """The rows that this Probe can change."""
        return tuple(range(self.n))

    @abstractmethod
    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        """‖φ(X with rows i replaced by y) − φ(X)‖², differentiable in y."""

    @abstractmethod
    def features(self, y: Tensor, i: Tensor) -> Tensor:
        """φ(X with rows i replaced by y), of shape (b, *feature shape)."""

    def inner(self, y: Tensor, i: Tensor, u: Tensor) -> Float[Tensor, " b"]:
        """⟨φ(X with rows i replaced by y), u⟩, for u of the shape of φ(X)."""
        return self.features(y, i).reshape(len(i), -1) @ u.flatten()

    def value_and_gradient(self, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        """`change2` and its gradient in y, detached; Probes override it where a closed form is cheaper."""
        y = y.detach().requires_grad_(True)
        with torch.enable_grad():
            value = self.change2(y, i)
            if not value.requires_grad:
                raise DTypeError("expected a map that can be differentiated, got features without a gradient")
            (gradient,) = torch.autograd.grad(value.sum(), y)
        return value.detach(), gradient

    def slope_at(self, i: Tensor) -> Slope:
        """`value_and_gradient` of many batches that all change the rows i; Probes prepare here what i alone decides."""
        return lambda y: self.value_and_gradient(y, i)

    def allowed(self, within: Constraint | None) -> Constraint:
        """The set that was asked for, if it makes sense for these words; for None the paper's ball ‖Δ‖ ≤ √d."""
        return Ball() if within is None else within

    def length2(self, rows: Int[Tensor, "p m"]) -> Float[Tensor, " p"]:
        """The squared length that ‖Δ‖² is relative to, for each set of rows: d, the squared norm of every word."""
        return torch.full((len(rows),), float(self.d), dtype=self.X.dtype, device=self.X.device)

    def attention_shares(self, y: Tensor, i: Tensor) -> tuple[Tensor, Tensor] | None:
        """The shares of attention that all rows give the changed word, before and after; None if there are none."""
        return None

    def near(self, rows: tuple[int, ...]) -> Probe:
        """A Probe for changes of these rows only, free to hold what they need."""
        return self

    def rows_at_once(self, memory: int) -> int:
        """How many rows `near` may be given so that what it holds stays within `memory` bytes."""
        return self.n

    @abstractmethod
    def bytes_per_candidate(self, m: int) -> int:
        """Memory that one candidate with m changed rows needs in `value_and_gradient`, roughly."""

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"] | None:
        """Directions of Δ worth starting a search from, for each set of rows; None if the map knows none."""
        return None

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"] | None:
        """The single best guess among them, for a quick search."""
        return None

    def first_order_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"] | None:
        """The direction that would be best if φ were linear, where the starts rely on φ being nearly so; else None."""
        return None


class FeatureMap(nn.Module, ABC):
    """φ: texts of shape (…, n, d) to features of shape (…, *feature shape). Holds weights, never anything of a text."""

    @abstractmethod
    def forward(self, X: Float[Tensor, "*batch n d"]) -> Tensor:
        """φ(X), by the definition."""

    def at(self, X: Float[Tensor, "n d"]) -> Probe:
        """φ prepared at the text X."""
        return ForwardProbe(self, X)

    def encode(self, text: str) -> Context:
        """A text as this map takes it: layer 0 of the embedded encoder, in the precision and width of the map."""
        from oneword.text.encoders import Encoder  # which most maps never need

        like = self.like
        found = Encoder.load().encode(text, d=getattr(self, "d", None), dtype=like.dtype)
        return replace(found, X=found.X.to(like.device))

    @property
    def like(self) -> Tensor:
        """A tensor of the map's precision, on its device; float64 on the CPU for a map without weights."""
        weights = (w for w in (*self.parameters(), *self.buffers()) if w.is_floating_point())
        return next(weights, torch.empty(0, dtype=torch.float64))

    def read(self, text: Context) -> Context:
        """The text as this map takes it: as it is, unless the map has words of its own."""
        return text

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """What a result must say about the map to be reproduced."""


@final
class ModuleFeatures(FeatureMap):
    """Any callable X ↦ φ(X) as a FeatureMap. `batched` says whether it also takes a batch (b, n, d) at once."""

    def __init__(self, function: Callable[[Tensor], Tensor], *, batched: bool = False) -> None:
        super().__init__()
        if isinstance(function, type) or not callable(function):
            raise UnknownNameError(
                "expected a map: a FeatureMap, an nn.Module, a function X ↦ φ(X), or a name such as 'attention', got "
                f"{shown(function)}: give an object that can be called"
            )
        self.function = function
        self.batched = batched

    def at(self, X: Float[Tensor, "n d"]) -> Probe:
        weights = next(iter(self.parameters()), None)
        if weights is not None:
            check_dtype(X, weights)
        return super().at(X)

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Tensor:
        # Copies: a function that writes into its input (relu_) would change the text of everyone else.
        if self.batched or X.ndim == 2:
            return self.function(X.clone(memory_format=torch.contiguous_format))
        return torch.stack(_alike([self.function(x.clone()) for x in X]))

    def describe(self) -> Mapping[str, Any]:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return {"map": "ModuleFeatures", "function": name}


@final
class ForwardProbe(Probe):
    """A full forward pass for every candidate: slow, and true for every map."""

    def __init__(self, phi: FeatureMap, X: Float[Tensor, "n d"]) -> None:
        self.phi = phi
        self.X = check_text(X).detach()
        with torch.no_grad():
            # Copies: φ may write into what it is given.
            self.clean, again = _alike([called(phi, self.X.clone()), called(phi, self.X.clone())])
        self.norm = feature_norm(self.clean)
        if not torch.allclose(self.clean, again, rtol=1e-6):
            raise RangeError("expected a deterministic map, got two different φ(X): call .eval() if it has dropout")
        self._kept_for_gradient = bytes_kept(phi, self.X)

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        features = called(self.phi, replace_rows(self.X, y, i))
        if features.shape != (len(i), *self.clean.shape):
            raise ShapeError(
                f"expected features of shape {(len(i), *self.clean.shape)} for {len(i)} texts at once, got "
                f"{tuple(features.shape)}: let the map take a batch (b, n, d)"
            )
        return features

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        return (self.features(y, i) - self.clean).reshape(len(i), -1).square().sum(1)

    def bytes_per_candidate(self, m: int) -> int:
        # The changed text and the features, twice for their gradients, and what the map keeps in between.
        return 4 * (self.X.numel() + self.clean.numel()) * self.X.element_size() + 2 * self._kept_for_gradient


def bytes_kept(phi: FeatureMap, X: Float[Tensor, "n d"]) -> int:
    """What one forward pass keeps for its backward pass, the weights left out: they are there anyway."""
    weights = {p.untyped_storage().data_ptr() for p in [*phi.parameters(), *phi.buffers()]}
    kept = 0

    def count(t: Tensor) -> Tensor:
        nonlocal kept
        kept += 0 if t.untyped_storage().data_ptr() in weights else t.numel() * t.element_size()
        return t

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        called(phi, X.clone().requires_grad_(True).clone())  # once more: no one may write into a leaf
    return kept


# Maps of one's own ----------------------------------------------------------------------------------------------------


def called(phi: FeatureMap, X: Float[Tensor, "*batch n d"]) -> Tensor:
    """φ(X), refused in one line if the map is one's own and fails, or gives anything but one tensor of real numbers."""
    with blaming(phi, X):
        features = phi(X)
    if not isinstance(features, Tensor):
        got = type(features).__name__
        raise ShapeError(f"expected φ(X) as one tensor, got {got}: wrap the map, so that it returns one")
    if not features.is_floating_point():
        raise DTypeError(f"expected features φ(X) in floating point, got {features.dtype}: return real numbers")
    return features


@contextmanager
def blaming(own: FeatureMap | Probe, X: Float[Tensor, "*batch n d"]) -> Iterator[None]:
    """What a map or a Probe from outside the package raises, as an error of one line that says so."""
    try:
        yield
    except OnewordError:
        raise
    except Exception as error:
        if type(own).__module__.startswith("oneword.") and not isinstance(own, ModuleFeatures):
            raise  # a fault of this package
        raise _failure(own, X, error) from error


def _failure(own: FeatureMap | Probe, X: Tensor, error: Exception) -> OnewordError:
    """What to raise for a map that fails at X. One that works in another precision has its weights in that."""
    said = f"expected a map for X of shape {tuple(X.shape)} in {X.dtype}, got {shortened(described(error), 200)}"
    other = torch.float32 if X.dtype == torch.float64 else torch.float64
    if _works(own, X.to(other)):
        remedy = f"build its weights in X.dtype, or give the text in {other} (dtype={other} where it is encoded)"
        return DTypeError(f"{said}: it takes {other}; {remedy}")
    if X.ndim > 2 and _works(own, X[0]):
        return MapError(f"{said}: let it take a batch (b, n, d), or wrap it as ModuleFeatures")
    return MapError(f"{said}: give it texts of the width that it takes, or mend it")


def _works(own: FeatureMap | Probe, X: Tensor) -> bool:
    if not isinstance(own, FeatureMap):
        return False
    try:
        with torch.no_grad():
            own(X)
    except Exception:  # whatever it is
        return False
    return True


def _alike(features: list[Tensor]) -> list[Tensor]:
    """Features of several texts of one size, which have one shape; what is no tensor is refused by `called`."""
    shapes = list(dict.fromkeys(tuple(each.shape) for each in features if isinstance(each, Tensor)))
    if len(shapes) > 1:
        raise ShapeError(
            f"expected features φ(X) of one shape for all texts of that size, got {shapes[0]} and {shapes[1]}: pad them"
        )
    return features


def replace_rows(X: Float[Tensor, "n d"], y: Tensor, i: Tensor) -> Float[Tensor, "b n d"]:
    """One changed copy of X a candidate."""
    check_candidates(X, y, i)
    b = torch.arange(len(i), device=X.device)
    changed = X.expand(len(i), *X.shape).clone()
    return changed.index_put((b, i) if i.ndim == 1 else (b[:, None], i), y)


def check_candidates(X: Float[Tensor, "n d"], y: Tensor, i: Tensor) -> None:
    """Refuse candidates that do not fit the text."""
    if y.shape != (*i.shape, X.shape[1]) or i.ndim not in (1, 2):
        raise ShapeError(
            f"expected y of shape (b, d) with i of shape (b,), or (b, m, d) with (b, m), and d = {X.shape[1]}, "
            f"got y {tuple(y.shape)} and i {tuple(i.shape)}"
        )
    if y.dtype != X.dtype:
        raise DTypeError(f"expected y in the text's {X.dtype}, got {y.dtype}: convert it with y.to(X.dtype)")


def check_tensor(W: object, name: str) -> None:
    """Refuse weights that are lists or arrays, whose dtype and device would be a guess, and those of a wrong dtype."""
    if not isinstance(W, Tensor):
        raise DTypeError(f"expected {name} as a torch tensor, got {type(W).__name__}: convert it with torch.as_tensor")
    check_precision(W.dtype)


def check_matches(X: Tensor, weights: Tensor, d: int, n: int | None = None) -> None:
    """Refuse a text whose width, length, dtype or device is not the map's."""
    check_text(X) if X.ndim == 2 else None
    if X.ndim < 2 or X.shape[-1] != d or (n is not None and X.shape[-2] != n):
        raise ShapeError(
            f"expected a text of shape ({'n' if n is None else n}, {d}), got {tuple(X.shape)}: draw the map for it"
        )
    check_dtype(X, weights)


def check_dtype(X: Tensor, weights: Tensor) -> None:
    """Refuse a text in another precision, or on another device, than the map."""
    if X.dtype != weights.dtype or X.device != weights.device:
        raise DTypeError(
            f"expected a text in the map's {weights.dtype} on {weights.device}, got {X.dtype} on {X.device}: "
            f"convert it with X.to({weights.dtype}) or give the map dtype={X.dtype}"
        )


def check_scores(scores: Tensor, *keys: Tensor) -> Tensor:
    """The scores themselves, before a mask; refused where they overflow: −∞ would pass for a hidden word."""
    if not all(bool(torch.isfinite(values).all()) for values in (scores, *keys)):
        raise NonFiniteError(
            f"expected finite scores, got NaN or infinity: they overflow {scores.dtype}; give smaller weights or "
            "words, or more precision with .double()"
        )
    return scores


def frobenius(W: Tensor) -> float:
    """‖W‖_F in float64, also where squares of W would overflow or vanish."""
    largest = float(W.abs().max())
    return largest * float((W.double() / largest).norm()) if largest > 0 else 0.0


def feature_norm(features: Tensor) -> float:
    """‖φ(X)‖, refused where a relative change would mean nothing."""
    norm = float(torch.linalg.vector_norm(features, dtype=torch.float64))  # float32 sums of many squares stall
    if not math.isfinite(norm):
        raise NonFiniteError("expected finite features φ(X), got NaN or infinity: check the map's weights and scale")
    if norm == 0:
        raise ZeroNormError(
            "expected features φ(X) of positive norm, got 0: word sensitivity divides by it; change X or the map"
        )
    return norm
