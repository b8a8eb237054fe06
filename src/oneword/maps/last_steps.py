"""The last steps of a trained model, found by watching it run: a norm, a matrix after a norm, or one after a tanh.

What the names of modules and parameters say is not believed: γ is what multiplies, not always the parameter called
weight (Gemma multiplies by 1 + weight). A norm counts as known only if its outputs are γ⊙z + β with z in the ball, on
random inputs and on those of the text. An output counts as made by a norm only if it is that norm's very memory, left
as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from oneword.random import stream

if TYPE_CHECKING:
    from oneword.maps.transformer import TransformerFeatures

STEADY = 32.0  # the mean of a row over its spread up to which a LayerNorm is held to be accurate
_SIZES = (1e-3, 1.0, 30.0, 1e3)  # of the random rows that a norm is tried on
_TRIED = 16  # random rows of each size
_ROWS = 4  # rows of a text on which its last matrix is checked


def units(dtype: torch.dtype) -> tuple[float, float]:
    """The unit of a precision, and that of the sums it takes: in float32 at least."""
    return torch.finfo(dtype).eps, torch.finfo(torch.promote_types(dtype, torch.float32)).eps


@dataclass(frozen=True, eq=False)
class Norm:
    """u = γ⊙z + β with ‖z‖² ≤ d, and 1ᵀz = 0 if `centred` (LayerNorm); float64 on the CPU."""

    gain: Float[Tensor, " d"]
    shift: Float[Tensor, " d"]
    centred: bool
    precision: torch.dtype

    @property
    def rounding(self) -> float:
        """What the model's precision can add to a row, in norm: a few units of its entries.

        The mean is taken off in float32 at least, and its rounding counts as many times as it exceeds the spread.
        """
        unit, fine = units(self.precision)
        size = math.sqrt(len(self.gain)) * float(self.gain.abs().max()) + float(self.shift.norm())
        return 4 * unit * size + (4 * fine * STEADY * float(self.gain.norm()) if self.centred else 0.0)


@dataclass(frozen=True, eq=False)
class LastSteps:
    """`norm` or, where it is None, a tanh; then a matrix and its bias, where there is one."""

    norm: Norm | None
    weight: Float[Tensor, "p d"] | None = None
    bias: Float[Tensor, " p"] | None = None


class UnknownSteps(Exception):
    """No range of the output is known; the text says why."""


def last_steps(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> LastSteps:
    """How the rows that φ(X) is made of come about: hidden states of a layer, or logits.

    Raises UnknownSteps where they are not what a known norm or a tanh gives.
    """
    rng = torch.from_numpy(stream(0, "last steps").standard_normal(tuple(X.shape))).to(X)
    size = X.norm(dim=1, keepdim=True)
    found = [_last_steps(phi, each[None]) for each in (X, 30 * X, rng / math.sqrt(X.shape[1]) * size)]
    if len({tuple(step and id(step.module) for step in each) for each in found}) > 1:
        raise UnknownSteps("its last steps depend on the text")
    norm, matrix = found[0]
    known = None if norm is None else recognised(norm.module, phi.precision)
    if matrix is None:
        return LastSteps(known)
    assert isinstance(matrix.module, nn.Linear)
    return LastSteps(known, matrix.module.weight.detach(), _cpu(matrix.module.bias))


def _last_steps(phi: TransformerFeatures, X: Float[Tensor, "b n d"]) -> tuple[_Step | None, _Step | None]:
    """The norm (None: a tanh) and the matrix after it (None: none is there)."""
    with _watched(phi.model) as seen, torch.no_grad():
        out = phi.rows(X)
    norm = seen.maker(seen.norms, out)
    if norm is not None:
        return norm, None
    matrix = seen.maker(seen.matrices, out)
    if matrix is None and phi.selection.source == "logits":
        raise UnknownSteps("its logits are not what a matrix gives")
    if matrix is None and phi.selection.layer == 0:
        raise UnknownSteps("layer 0 is neither the words themselves nor what a norm gives")
    if matrix is None:
        raise UnknownSteps(
            f"layer {phi.selection.layer} does not end in a norm, and what blocks add up to has no bound"
        )
    if not _multiplies(matrix):
        raise UnknownSteps("its last matrix gives something else than its product")
    norm = seen.maker(seen.norms, matrix.given)
    if norm is None and seen.maker(seen.tanh, matrix.given) is None:
        raise UnknownSteps("its last matrix follows neither a norm nor a tanh")
    return norm, matrix


def _multiplies(step: _Step) -> bool:
    """Whether a matrix does just that on the rows that were seen: a hook may have changed what it gives."""
    matrix, d = step.module, step.given.shape[-1]
    assert isinstance(matrix, nn.Linear)
    given, out = step.given.reshape(-1, d)[-_ROWS:].double(), step.out.reshape(-1, step.out.shape[-1])[-_ROWS:].double()
    W, b = matrix.weight.double(), 0 if matrix.bias is None else matrix.bias.double()
    unit, fine = units(step.out.dtype)
    allowed = (d * fine + 4 * unit) * (given.abs() @ W.abs().mT + abs(b)) + d * torch.finfo(step.out.dtype).tiny
    off = (given @ W.mT + b - out).abs()
    return bool(((off <= allowed) | ~off.isfinite()).all())  # what overflows is refused elsewhere


def unsteadiness(phi: TransformerFeatures, X: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
    """How many times the mean of a row exceeds its spread, at most, where each text enters the last norm.

    Beyond STEADY a LayerNorm is not accurate any more: of a constant row it may give anything. 0 for other last steps.
    """
    norm, _ = _last_steps(phi, X)
    if norm is None or not recognised(norm.module, phi.precision).centred:
        return torch.zeros(len(X), dtype=torch.float64)
    rows = norm.given.double()
    ratio = (rows.mean(-1).abs() / rows.std(-1, correction=0)).nan_to_num(torch.inf).cpu()
    if len(ratio) != len(X):  # texts are not the first axis: each may be the worst of all
        return ratio.max().expand(len(X))
    return ratio.reshape(len(X), -1).amax(1)


# Watching a forward pass --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Step:
    module: nn.Module  # an empty one for a function
    given: Tensor
    out: Tensor
    before: Tensor  # a copy of `out`: it may be changed in place later on

    def made(self, tensor: Tensor) -> bool:
        same = (self.out == self.before) | (self.out.isnan() & self.before.isnan())
        return _part_of(tensor, self.out) and bool(same.all())


@dataclass(frozen=True, eq=False)
class _Seen:
    norms: list[_Step] = field(default_factory=list)
    matrices: list[_Step] = field(default_factory=list)
    tanh: list[_Step] = field(default_factory=list)

    @staticmethod
    def maker(steps: list[_Step], tensor: Tensor) -> _Step | None:
        """The last of these steps that wrote the tensor."""
        return next((step for step in reversed(steps) if step.made(tensor)), None)


class _Functions(TorchFunctionMode):
    """Sees functions that no module stands for."""

    def __init__(self, tanh: list[_Step]) -> None:
        super().__init__()
        self.tanh = tanh

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.tanh, Tensor.tanh):
            self.tanh.append(_Step(nn.Identity(), args[0], out, out.clone()))
        return out


@contextmanager
def _watched(model: nn.Module) -> Iterator[_Seen]:
    seen = _Seen()

    def hook(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if isinstance(out, Tensor) and args and isinstance(args[0], Tensor):
            steps = seen.matrices if type(module) is nn.Linear else seen.norms
            steps.append(_Step(module, args[0], out, out.clone()))

    parts = [part for part in model.modules() if type(part) is nn.Linear or "norm" in type(part).__name__.lower()]
    hooks = [part.register_forward_hook(hook) for part in parts]
    try:
        with _Functions(seen.tanh):
            yield seen
    finally:
        for each in hooks:
            each.remove()


def _part_of(tensor: Tensor, whole: Tensor) -> bool:
    """Whether a tensor is rows of another one: the same memory, whole rows."""
    d = whole.shape[-1]
    return (
        tensor.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        and tensor.dtype == whole.dtype
        and tensor.shape[-1] == d
        and whole.is_contiguous()
        and tensor.stride(-1) == 1
        and all(step % d == 0 for step in (*tensor.stride()[:-1], tensor.storage_offset() - whole.storage_offset()))
    )


# Which norm it is ---------------------------------------------------------------------------------------------------


def recognised(module: nn.Module, dtype: torch.dtype) -> Norm:
    """γ, β and whether the mean is taken off, checked on random rows of all sizes, sparse ones and shifted ones.

    `dtype` is that of the rows. Raises UnknownSteps where the outputs are those of no known norm.
    """
    name = type(module).__name__
    weight, bias = (getattr(module, each, None) for each in ("weight", "bias"))
    d = _width(module, weight)
    device = next((each.device for each in (weight, bias) if isinstance(each, Tensor)), torch.device("cpu"))
    gain = torch.ones(d, dtype=torch.float64) if weight is None else _cpu(weight)
    shift = torch.zeros(d, dtype=torch.float64) if bias is None else _cpu(bias)
    if gain is None or shift is None or gain.shape != (d,) or shift.shape != (d,):
        raise UnknownSteps(f"{name} is not a norm with one gain an entry")
    rows = _rows(d).to(dtype)
    try:
        with torch.no_grad():
            made = module(rows.to(device)[None])[0].double().cpu()
    except Exception as error:  # of whatever kind: it is somebody else's module
        raise UnknownSteps(f"{name} cannot be tried by itself ({type(error).__name__})") from None
    # Some norms compute in float32 whatever they are given.
    for precision in dict.fromkeys((dtype, torch.float32)):
        for multiplied, centred in product((gain, 1 + gain), (True, False)):
            norm = Norm(multiplied, shift, centred, precision)
            if _explains(norm, rows.double(), made):
                return norm
    raise UnknownSteps(f"{name} is neither a LayerNorm nor an RMSNorm, as far as its outputs show")


def _explains(norm: Norm, rows: Float[Tensor, "b d"], made: Float[Tensor, "b d"]) -> bool:
    """Whether every output is β + t·γ⊙z with t ≤ 1, z the row of norm √d that the definition gives.

    t falls below 1 only through the ε that a norm adds to the variance, so not for rows much larger than that.
    """
    rows = rows - rows.mean(1, keepdim=True) if norm.centred else rows
    spread = rows.square().mean(1, keepdim=True).sqrt()
    z = rows / spread.clamp_min(torch.finfo(rows.dtype).tiny)
    scaled, moved = norm.gain * z, made - norm.shift
    length = scaled.norm(dim=1)
    t = (moved * scaled).sum(1) / length.square().clamp_min(torch.finfo(rows.dtype).tiny)
    off = (moved - t[:, None] * scaled).norm(dim=1)
    over, short = (t - 1) * length, (0.99 - t) * length
    large = spread[:, 0] > 10
    return bool((torch.maximum(off, over) <= norm.rounding).all() and (short[large] <= norm.rounding).all())


def _rows(d: int) -> Float[Tensor, "b d"]:
    """Random rows of all sizes, some with a mean, some with a single entry."""
    rng = stream(0, "norms")
    parts = [size * torch.from_numpy(rng.standard_normal((_TRIED, d))) for size in _SIZES]
    return torch.cat([*parts, parts[2] + 30, 100 * torch.eye(d, dtype=torch.float64)[:_TRIED]])


def _width(module: nn.Module, weight: object) -> int:
    if isinstance(weight, Tensor) and weight.ndim == 1:
        return len(weight)
    shape: Any = getattr(module, "normalized_shape", ())
    if len(shape) != 1:
        raise UnknownSteps(f"{type(module).__name__} is not a norm with one gain an entry")
    return int(shape[0])


def _cpu(values: Any) -> Tensor | None:
    return values.detach().double().cpu() if isinstance(values, Tensor) else None
