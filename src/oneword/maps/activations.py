"""Elementwise activations σ of the random-feature maps (Eq. 2 of Bombari & Mondelli, ICML 2024, 2402.02969).

Each one carries what the rest of the package needs to know about it: its Lipschitz constant M, for the
certificate S ≤ M√d·max_i‖V_i‖/‖φ(X)‖, and the points where σ' jumps, for the quadratures of `oneword.theory`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from oneword.checks import shown
from oneword.errors import DTypeError, RangeError, ShapeError, UnknownNameError, did_you_mean


@dataclass(frozen=True)
class Activation:
    """An elementwise σ: R → R with what is known about it.

    | field | meaning |
    |---|---|
    | name | what tables and files call it |
    | function | σ on torch tensors of any shape |
    | lipschitz | an upper bound of the slope that holds rigorously; None: not known, so no certificate |
    | kinks | where σ' jumps, ascending; empty for a smooth σ |

    Equality and hash are those of the fields; two wraps of one function are equal, two lambdas are not.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    lipschitz: float | None = None
    kinks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.lipschitz is not None and not 0 <= self.lipschitz < math.inf:
            raise RangeError(f"expected lipschitz of {self.name} finite and >= 0 or None, got {self.lipschitz}")
        if not all(math.isfinite(kink) for kink in self.kinks):
            raise RangeError(f"expected finite kinks of {self.name}, got {self.kinks}")
        object.__setattr__(self, "kinks", tuple(sorted(float(kink) for kink in self.kinks)))

    def __call__(self, x: Tensor) -> Tensor:
        """σ(x), elementwise."""
        value = self.function(x)
        if not isinstance(value, Tensor) or value.shape != x.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ShapeError(f"expected {self.name} elementwise, shape {tuple(x.shape)} in and out, got {got} out")
        return value

    def derivative(self, x: Tensor) -> Tensor:
        """σ'(x), elementwise and detached; at a kink, the subgradient of autograd (0 for relu and abs)."""
        if not x.is_floating_point():
            raise DTypeError(f"expected floating point to differentiate {self.name}, got {x.dtype}")
        # A clone made outside inference mode: it can be differentiated whatever mode the caller is in.
        with torch.inference_mode(False), torch.enable_grad():
            point = x.detach().clone().requires_grad_(True)
            value = self(point)
            if not value.requires_grad:  # a constant σ
                return torch.zeros_like(point, requires_grad=False)
            (slope,) = torch.autograd.grad(value.sum(), point)
        return slope.detach()


def _softplus(x: Tensor) -> Tensor:
    # torch's softplus switches to x above 20: a jump of 2e-9 there would break its Lipschitz constant.
    return -functional.logsigmoid(-x)


def _identity(x: Tensor) -> Tensor:
    return x


# Constants that are no float are rounded up: the next float above the true value, so that certificates hold.
# gelu: σ' = Φ + xφ is largest at x = √2, Φ(√2) + √2 φ(√2) = 1.12890414518515478…
# silu: with s the sigmoid, σ' = s(1 + x(1−s)) is largest at x = 2.39935728…, 1.09983932012886691…
# erf: 2/√π = 1.12837916709551257…
RELU = Activation("relu", torch.relu, 1.0, (0.0,))
LEAKY_RELU = Activation("leaky_relu", functional.leaky_relu, 1.0, (0.0,))  # slope 0.01 below 0
ABS = Activation("abs", torch.abs, 1.0, (0.0,))
GELU = Activation("gelu", functional.gelu, 1.128904145185155)  # the erf form, xΦ(x)
SILU = Activation("silu", functional.silu, 1.099839320128867)
SOFTPLUS = Activation("softplus", _softplus, 1.0)
TANH = Activation("tanh", torch.tanh, 1.0)
ERF = Activation("erf", torch.erf, 1.1283791670955128)
SIGMOID = Activation("sigmoid", torch.sigmoid, 0.25)
SIN = Activation("sin", torch.sin, 1.0)
IDENTITY = Activation("identity", _identity, 1.0)

ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {known.name: known for known in (RELU, LEAKY_RELU, ABS, GELU, SILU, SOFTPLUS, TANH, ERF, SIGMOID, SIN, IDENTITY)}
)


def activation(spec: str | Activation | Callable[[Tensor], Tensor]) -> Activation:
    """The Activation meant by a name, by itself, or by a bare elementwise callable.

    A bare callable gets no Lipschitz constant, hence no certificate: pass
    `Activation(name, function, lipschitz, kinks)` instead to have one.
    """
    if isinstance(spec, Activation):
        return spec
    if isinstance(spec, str):
        if spec in ACTIVATIONS:
            return ACTIVATIONS[spec]
        hint = did_you_mean(spec.lower(), ACTIVATIONS)
        raise UnknownNameError(f"expected an activation among {', '.join(ACTIVATIONS)}, got {spec!r}{hint}")
    if callable(spec):
        return Activation(getattr(spec, "__name__", type(spec).__name__), spec)
    raise UnknownNameError(f"expected the name of an activation, an Activation or a callable, got {shown(spec)}")
