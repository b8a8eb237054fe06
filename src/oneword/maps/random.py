"""Random features: φ_RF(X) = σ(V·flat(X)), a fully connected layer (Eq. 2), and its deep form φ_DRF.

Changing word i by Δ changes the pre-activations z = V·flat(X) by V_iΔ alone: O(kd) instead of O(kD). Where only one
position matters, z − V_i x_i is itself Gaussian with known variance, so `alone(i)` draws it directly: exact in law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from oneword.checks import number, whole_number
from oneword.errors import DTypeError, RangeError, ShapeError
from oneword.maps.activations import Activation, activation
from oneword.maps.base import FeatureMap, Probe, Slope, check_candidates, check_matches, check_tensor, feature_norm
from oneword.maps.blocks import Blocks, bands, check_sizes, gaussian_scale
from oneword.maps.jacobian import leading_eigenvectors
from oneword.memory import check_memory
from oneword.random import like, normal, resolve_seed
from oneword.text.context import check_finite


class LayeredFeatures(FeatureMap):
    """What RF and DRF share: σ(V_L … σ(V_1 flat(X))), the first layer in blocks, the others held."""

    def __init__(
        self, blocks: Blocks, layers: Sequence[Tensor], sigma: Activation, settings: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.blocks = blocks
        self._depth = 1 + len(layers)
        for layer, V in enumerate(layers, 2):
            self.register_buffer(f"V{layer}", V.detach())
        self.activation = sigma
        self._settings = dict(settings)

    @property
    def n(self) -> int:
        return self.blocks.n

    @property
    def d(self) -> int:
        return self.blocks.d

    @property
    def like(self) -> Tensor:
        return self.blocks.like

    @property
    def k(self) -> int:
        return self.blocks.k

    @property
    def layers(self) -> tuple[Float[Tensor, "k k"], ...]:
        """V_2 … V_L."""
        return tuple(self.get_buffer(f"V{layer}") for layer in range(2, self._depth + 1))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """`.to(...)`, `.float()` and the like also reach the first layer."""
        given = self.blocks.given
        self.blocks = replace(self.blocks, like=fn(self.blocks.like), given=None if given is None else fn(given))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch k"]:
        check_matches(X, self.blocks.like, self.d, self.n)
        return self.above(self.blocks.apply(X))

    def above(self, z: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """The features, from the first layer's pre-activations."""
        h = self.activation(z)
        for V in self.layers:
            h = self.activation(h @ V.mT)
        return h

    def at(self, X: Float[Tensor, "n d"]) -> LayeredProbe:
        check_matches(X, self.blocks.like, self.d, self.n)
        return LayeredProbe(self, X, self.blocks.apply(X))

    def describe(self) -> Mapping[str, Any]:
        sizes = {"n": self.n, "d": self.d, "k": self.k}
        about = {"activation": self.activation.name, "seed": self.blocks.seed, **self._settings}
        return {"map": type(self).__name__, **sizes, **about}


@final
class RandomFeatures(LayeredFeatures):
    """RF of the paper: V_ab ~ N(0, 1/D), k neurons (k = D by default), any elementwise activation."""

    def __init__(self, V: Float[Tensor, "k D"], n: int, *, activation: str | Activation = "relu") -> None:
        check_tensor(V, "V")
        if V.ndim != 2 or n < 1 or V.shape[1] % n:
            raise ShapeError(f"expected V of shape (k, n·d) with n = {n}, got {tuple(V.shape)}")
        k, d = V.shape[0], V.shape[1] // n
        super().__init__(Blocks(n, d, k, 0.0, None, V.new_empty(0), V), (), _activation(activation), {})

    @classmethod
    def draw(
        cls,
        n: int,
        d: int,
        *,
        k: int | None = None,
        activation: str | Activation = "relu",
        seed: int | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> RandomFeatures:
        """Blocks of V are drawn when they are needed, from (seed, block)."""
        check_sizes(n, d, 1 if k is None else k)
        scale = gaussian_scale(n * d)
        weights = like(dtype, device)
        blocks = Blocks(n, d, n * d if k is None else k, scale, resolve_seed(seed, generator), weights)
        phi = cls.__new__(cls)
        LayeredFeatures.__init__(phi, blocks, (), _activation(activation), {})
        return phi

    def alone(self, i: int) -> LoneWordFeatures:
        """The same law for one position and one text, with one block of V drawn and no other."""
        return LoneWordFeatures(self.blocks, i, self.activation)


@final
class DeepRandomFeatures(LayeredFeatures):
    """DRF of the paper: V_1 ~ N(0, β/D), later layers N(0, β/k). β = 2 (He) keeps ‖φ‖ stable in depth for ReLU."""

    def __init__(self, V: Sequence[Tensor], n: int, *, activation: str | Activation = "relu") -> None:
        for layer in V:
            check_tensor(layer, "every layer of V")
        if not V or n < 1 or any(layer.ndim != 2 for layer in V) or V[0].shape[1] % n:
            raise ShapeError(f"expected V_1 (k × n·d), V_2 … V_L (k × k), got shapes {[tuple(v.shape) for v in V]}")
        k, d = V[0].shape[0], V[0].shape[1] // n
        for layer in V[1:]:
            if layer.shape != (k, k):
                raise ShapeError(f"expected later layers of shape ({k}, {k}), got {tuple(layer.shape)}")
            check_finite(layer, "V")
        blocks = Blocks(n, d, k, 0.0, None, V[0].new_empty(0), V[0])
        super().__init__(blocks, V[1:], _activation(activation), {"depth": len(V)})

    @classmethod
    def draw(
        cls,
        n: int,
        d: int,
        *,
        depth: int,
        k: int | None = None,
        beta: float = 2.0,
        activation: str | Activation = "relu",
        seed: int | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> DeepRandomFeatures:
        """Layers are keyed by (seed, layer): a deeper map of the same seed continues a shallower one."""
        check_sizes(n, d, 1 if k is None else k)
        depth = whole_number("depth", depth)
        if depth < 1 or number("beta", beta) <= 0:
            raise RangeError(f"expected depth ≥ 1 and β > 0, got depth = {depth}, β = {beta}")
        k = n * d if k is None else k
        seed = resolve_seed(seed, generator)
        weights = like(dtype, device)
        check_memory((depth - 1) * k * k * weights.element_size(), f"{depth - 1} layers of {k:,} × {k:,} in {dtype}")
        blocks = Blocks(n, d, k, gaussian_scale(n * d, beta), seed, weights)
        scale = gaussian_scale(k, beta)
        layers = [normal(k, k, scale, seed, "V", layer, dtype=dtype, device=device) for layer in range(2, depth + 1)]
        phi = cls.__new__(cls)
        LayeredFeatures.__init__(phi, blocks, layers, _activation(activation), {"depth": depth, "beta": beta})
        return phi

    def truncated(self, depth: int) -> DeepRandomFeatures:
        """The map of the first `depth` layers, on the same weights."""
        if not 1 <= depth <= len(self.layers) + 1:
            raise RangeError(f"expected a depth out of 1 … {len(self.layers) + 1}, got {depth}")
        phi = DeepRandomFeatures.__new__(DeepRandomFeatures)
        settings = self._settings | {"depth": depth}
        LayeredFeatures.__init__(phi, self.blocks, self.layers[: depth - 1], self.activation, settings)
        return phi


@final
class LoneWordFeatures(LayeredFeatures):
    """RF restricted to changes of word i: σ(V_i x_i + ‖X without x_i‖/√D · g), g standard normal.

    For a fixed text this has the law of φ_RF as a function of x_i: V·flat(X) without block i is Gaussian with
    independent entries of variance (‖X‖² − ‖x_i‖²)/D.
    """

    def __init__(self, blocks: Blocks, i: int, sigma: Activation) -> None:
        if not 0 <= i < blocks.n:
            raise RangeError(f"expected a position out of 0 … {blocks.n - 1}, got {i}")
        if blocks.seed is None:
            raise RangeError("expected a drawn map: V given as an array has no law to draw from; use the map itself")
        super().__init__(blocks, (), sigma, {"only_position": i})
        self.only = i
        like = blocks.like
        g = normal(1, blocks.k, blocks.scale, blocks.seed, "rest", i, dtype=like.dtype, device=like.device)
        self.register_buffer("rest", g[0], persistent=False)
        self.register_buffer("block", blocks[i], persistent=False)

    rest: Float[Tensor, " k"]
    block: Float[Tensor, "k d"]

    def _preactivation(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch k"]:
        squares = X.square().sum(-1)
        others = squares[..., : self.only].sum(-1) + squares[..., self.only + 1 :].sum(-1)
        return X[..., self.only, :] @ self.block.mT + others.sqrt()[..., None] * self.rest

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch k"]:
        check_matches(X, self.blocks.like, self.d, self.n)
        return self.above(self._preactivation(X))

    def at(self, X: Float[Tensor, "n d"]) -> LayeredProbe:
        check_matches(X, self.blocks.like, self.d, self.n)
        return LayeredProbe(self, X, self._preactivation(X), {self.only: self.block}, only=(self.only,))


class _Slot(NamedTuple):
    """One changed row of each candidate; those that change the same row go through its block together."""

    order: Int[Tensor, " b"]  # of the candidates, by their rows
    back: Int[Tensor, " b"]
    rows: list[int]
    counts: list[int]

    @classmethod
    def of(cls, rows: Int[Tensor, " b"]) -> _Slot:
        order = rows.argsort(stable=True)
        each, counts = rows.unique(return_counts=True)
        return cls(order, order.argsort(), each.tolist(), counts.tolist())


@final
class LayeredProbe(Probe):
    """RF or DRF prepared at one text; blocks that are not `held` are redrawn at every call."""

    def __init__(
        self,
        phi: LayeredFeatures,
        X: Float[Tensor, "n d"],
        z: Float[Tensor, " k"],
        held: Mapping[int, Float[Tensor, "k d"]] | None = None,
        only: tuple[int, ...] | None = None,
    ) -> None:
        self.phi, self.X, self.z, self.held, self.only = phi, X.detach(), z.detach(), dict(held or {}), only
        with torch.no_grad():
            self.clean = phi.above(self.z)
        self.norm = feature_norm(self.clean)

    @property
    def positions(self) -> tuple[int, ...]:
        return super().positions if self.only is None else self.only

    def block(self, i: int) -> Float[Tensor, "k d"]:
        """V_i, held or redrawn."""
        return self.held[i] if i in self.held else self.phi.blocks[i]

    def near(self, rows: tuple[int, ...]) -> LayeredProbe:
        if self.only is not None:
            return self
        check_memory(2 * len(rows) * self.phi.blocks.bytes, f"{len(rows)} blocks of V at once, and a copy of them")
        probe = copy(self)
        probe.held = {i: self.block(i) for i in rows}
        return probe

    def rows_at_once(self, memory: int) -> int:
        return max(1, memory // self.phi.blocks.bytes)

    def preactivations(self, y: Tensor, i: Tensor) -> Float[Tensor, "b k"]:
        """z of the changed texts."""
        check_candidates(self.X, y, i)
        return self._moved(y - self.X[i], self._slots(i))

    def _slots(self, i: Tensor) -> list[_Slot]:
        if self.only is not None and bool((i != self.only[0]).any()):
            raise RangeError(
                f"expected changes of position {self.only[0]} only, got {i.unique().tolist()}: use the map itself"
            )
        return [_Slot.of(rows) for rows in i.reshape(len(i), -1).unbind(1)]

    def _moved(self, D: Tensor, slots: list[_Slot]) -> Float[Tensor, "b k"]:
        """z where the rows of the slots have changed by D."""
        D, z = D.reshape(len(D), -1, self.d), self.z  # (b, m, d)
        for k, slot in enumerate(slots):
            members = D[slot.order, k].split(slot.counts)
            moved = [part @ self.block(row).mT for row, part in zip(slot.rows, members, strict=True)]
            z = z + torch.cat(moved)[slot.back]
        return z

    def value_and_gradient(self, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        check_candidates(self.X, y, i)  # before anything is made of i
        return self.slope_at(i)(y)

    def slope_at(self, i: Tensor) -> Slope:
        """By hand but for the activations: the first layer is linear, and takes most of the operations."""
        x, slots = self.X[i], self._slots(i)

        def slope(y: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
            check_candidates(self.X, y, i)
            z = self._moved(y.detach() - x, slots).requires_grad_(True)
            with torch.enable_grad():
                features = self.phi.above(z)
            change = features.detach() - self.clean
            value = change.square().sum(1)
            if not features.requires_grad:  # a constant activation
                raise DTypeError("expected a map that can be differentiated, got features without a gradient")
            (by_z,) = torch.autograd.grad(features, z, 2 * change)
            parts = []
            for slot in slots:
                members = by_z[slot.order].split(slot.counts)
                back = [part @ self.block(row) for row, part in zip(slot.rows, members, strict=True)]
                parts.append(torch.cat(back)[slot.back])
            return value, torch.stack(parts, 1).view(y.shape)

        return slope

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b k"]:
        return self.phi.above(self.preactivations(y, i))

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        return (self.features(y, i) - self.clean).square().sum(1)

    def bytes_per_candidate(self, m: int) -> int:
        return 6 * (1 + len(self.phi.layers)) * self.phi.k * self.X.element_size()

    def derivatives(self) -> list[Float[Tensor, " k"]]:
        """σ' at the pre-activations of each layer, at X."""
        z, out = self.z, [self.phi.activation.derivative(self.z)]
        for V in self.phi.layers:
            z = V @ self.phi.activation(z)
            out.append(self.phi.activation.derivative(z))
        return out

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        """± the leading right singular vectors of the Jacobian block of the changed rows."""
        slopes = self.derivatives()
        tops = [self._leading(rows, slopes) for rows in i.tolist()]  # each (s, m, d)
        top = torch.stack(tops)
        return torch.cat([top, -top], 1)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        return self.directions(i)[:, :1]

    def first_order_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        return self.leading_direction(i)

    def _leading(self, rows: list[int], slopes: list[Tensor]) -> Float[Tensor, "s m d"]:
        blocks = [self.block(row) for row in rows]
        V = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)  # (k, m·d)
        width = V.shape[1]
        if not self.phi.layers and width <= 1024:
            gram = torch.zeros((width, width), dtype=torch.float64, device=V.device)
            for rows_of, band in bands(V):
                weighted = band * slopes[0][rows_of, None]
                gram += weighted.mT @ weighted
            top = leading_eigenvectors(gram, 2, 1e-2).to(V)  # a start for a search needs no more than two digits
        else:
            top = self._lanczos(V, slopes)
        return top.reshape(-1, len(rows), self.d)

    def _lanczos(self, V: Float[Tensor, "k w"], slopes: list[Tensor]) -> Float[Tensor, "1 w"]:
        def gram(v: np.ndarray) -> np.ndarray:
            h = slopes[0] * (V @ torch.from_numpy(v.reshape(-1)).to(V))
            for layer, slope in zip(self.phi.layers, slopes[1:], strict=True):
                h = slope * (layer @ h)
            for layer, slope in zip(reversed(self.phi.layers), reversed(slopes[1:]), strict=True):
                h = layer.mT @ (slope * h)
            out: np.ndarray = (V.mT @ (slopes[0] * h)).double().cpu().numpy()
            return out

        width = V.shape[1]
        if width < 3:  # too small for Lanczos
            top = np.linalg.eigh(np.stack([gram(e) for e in np.eye(width)]))[1][:, -1:]
        else:
            start = np.random.default_rng(0).standard_normal(width)
            operator = LinearOperator((width, width), matvec=gram, dtype=np.float64)
            try:  # a start for a search needs no more than two digits
                top = eigsh(operator, k=1, v0=start, tol=1e-2, ncv=min(width, 20), maxiter=20)[1]
            except ArpackNoConvergence as stopped:
                top = stopped.eigenvectors if stopped.eigenvectors.size else start[:, None]
            except ArpackError:  # a Jacobian that vanishes: no direction is better than another
                top = start[:, None]
        return torch.from_numpy(np.ascontiguousarray(top.T)).to(V)


_activation = activation  # the name is taken by the arguments above
