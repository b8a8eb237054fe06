"""One position of an attention layer, as the branch and bound sees it: a table of rows and the shape of its cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds import kernels
from oneword.bounds.attention import SHORTEST, row_norms
from oneword.bounds.layout import RELU, ROUNDING, ROW, SHAPE, SOFTMAX, Array, Cell, Tables
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.leave_one_out import SHARP


@final
@dataclass(frozen=True, eq=False)
class Multipliers:
    """A price for the score of every row, and log m, log μ and c₀ for all of them."""

    prices: Array
    common: Array

    def handed(self, giver: int, taker: int) -> Multipliers:
        """The same for another position: row i has no price."""
        prices = self.prices.copy()
        prices[giver] = prices.sum() / max(1, len(prices) - 1)
        prices[taker] = 0.0
        return Multipliers(prices, self.common)


class Keys:
    """What all positions share: the spectrum of the keys and of the outputs."""

    def __init__(self, probe: AttentionProbe) -> None:
        self.probe = probe
        K, O = probe.K, probe.O
        _, sigma, axes = torch.linalg.svd(K, full_matrices=False)
        # The singular values are those of a matrix within rounding of K: lift them by more than that. The last entry is
        # for what lies outside all axes, where keys have nothing.
        lifted = torch.cat([sigma.square(), sigma.new_zeros(1)]) + ROUNDING * sigma[0].square()
        self.top2, self.sigma2 = float(lifted[0]), _numpy(lifted[1:])
        self.axes = axes[1:]
        agree = torch.sign((K @ axes[0]).sum())
        self.k_hat = axes[0] * (agree if agree != 0 else 1.0)
        self.along = _numpy(torch.cat([K @ self.axes.mT, K.new_zeros((len(K), 1))], 1))
        self.along_top = K @ self.k_hat
        self.lengths = row_norms(K)
        self.longest = float(self.lengths.max())
        centred = O - O.mean(0)
        self.spread2 = float(torch.linalg.matrix_norm(centred, 2)) ** 2 * (1 + ROUNDING) + ROUNDING
        self.grid = RELU if probe.score.can_vanish else SOFTMAX


class Position:
    """The bound at one position, as a function of cell and multipliers. `work` counts the rows that were bounded.

    The new word lies in the ball of radius r around `centre`, x_i or another point; cells and Δ are relative to it.
    `most2` is a bound on the squared move of row i that is known from elsewhere.
    """

    def __init__(self, keys: Keys, i: int, centre: Float[Tensor, " d"], r: float, most2: float = math.inf) -> None:
        self.keys, self.i, self.r, self.work = keys, i, r, 0
        probe, k_hat = keys.probe, keys.k_hat
        p = probe.without.share[i]
        self._sharp = p > SHARP
        self._others = torch.arange(probe.n) != i
        self._group = self._others & ~self._sharp

        # v̂: from the mean output of the grouped rows to the centre, orthogonal to k̂. What rounding leaves of the way
        # outside the plane is charged as `leak`.
        O, group = probe.O, self._group
        away = centre - (O[group].mean(0) if bool(group.any()) else torch.zeros_like(centre))
        flat = away - (away @ k_hat) * k_hat
        flat = flat - (flat @ k_hat) * k_hat
        length = float(flat.norm())
        self.v_hat = flat / length if length > 1e-9 * r else torch.zeros_like(flat)

        self.rows = _numpy(self._table(centre))
        self.shape = _numpy(self._shape(centre, away, most2))
        along = keys.axes @ self.v_hat
        outside = (self.v_hat @ self.v_hat - along @ along).clamp_min(0).sqrt()
        self.v = _numpy(torch.cat([along, outside[None]]))

    def _table(self, centre: Float[Tensor, " d"]) -> Float[Tensor, "n columns"]:
        """The rows, with the columns of `ROW`."""
        probe, keys, i = self.keys.probe, self.keys, self.i
        X, without = probe.X, probe.without
        relu = probe.score.can_vanish
        table = X.new_zeros((probe.n, len(ROW)))
        v = centre - probe.O
        table[:, ROW.v_off] = -1.0
        if bool(self._sharp.any()):
            v[self._sharp] = centre - without.outputs[self._sharp]
            table[self._sharp, ROW.v_off] = self._off(v[self._sharp]).norm(dim=1) * (1 + ROUNDING)
        p, inverse = without.share[i], 1 / without.spare[i]
        score = without.score[i] + probe.K @ (centre - X[i])
        ks, ka = probe.K @ self.v_hat, keys.along_top
        table[:, ROW.score] = score if relu else score - without.rest[i]
        table[:, ROW.share], table[:, ROW.inverse] = p, inverse
        table[:, ROW.v2], table[:, ROW.v_s], table[:, ROW.v_a] = v.square().sum(1), v @ self.v_hat, v @ keys.k_hat
        table[:, ROW.k_s], table[:, ROW.k_a] = ks, ka
        off2 = keys.lengths.square() * (1 + ROUNDING) - ks.square() - ka.square()
        # Keys whose squares underflow are taken whole.
        table[:, ROW.k_off] = torch.where(keys.lengths > SHORTEST, off2.clamp_min(0).sqrt(), keys.lengths)
        table[:, ROW.rest] = without.rest[i] if relu else -1.0
        farthest = X[i].norm() + centre.norm() + self.r
        table[:, ROW.doubt] = ROUNDING * probe.steepness * X.norm(dim=1) * farthest
        # −2ακ v·b + κ²‖b‖² + 2qκ‖b‖r with b = x_i − c and κ = q − α = k0 + k1 q
        b = X[i] - centre
        b2, vb, br = b @ b, v @ b, b.norm() * self.r
        k0, k1 = inverse * p, 1 - inverse
        table[:, ROW.extra0] = 2 * inverse * p * k0 * vb + k0.square() * b2
        table[:, ROW.extra1] = -2 * inverse * vb * (k0 - p * k1) + 2 * k0 * k1 * b2 + 2 * k0 * br
        table[:, ROW.extra2] = -2 * inverse * vb * k1 + k1.square() * b2 + 2 * k1 * br
        table[i] = 0.0
        table[i, ROW.share], table[i, ROW.rest] = -1.0, 0.0 if relu else -1.0
        return table

    def _shape(self, centre: Float[Tensor, " d"], away: Float[Tensor, " d"], most2: float) -> Float[Tensor, " entries"]:
        """The numbers of `SHAPE`."""
        probe, keys, v_hat = self.keys.probe, self.keys, self.v_hat
        o, group = probe.O[self.i], float(self._group.sum())
        g = centre - o
        far2 = (probe.X[self._others] - o).square().sum(1).max() if probe.n > 1 else o.new_zeros(())
        if probe.score.can_vanish:  # the row may come to attend to nothing
            far2 = torch.maximum(far2, o.square().sum())
        shape = o.new_zeros(len(SHAPE))
        shape[SHAPE.r2], shape[SHAPE.group] = self.r**2 * (1 + ROUNDING), group
        shape[SHAPE.away_s], shape[SHAPE.away_a] = away @ v_hat, away @ keys.k_hat
        shape[SHAPE.top2], shape[SHAPE.spread2] = keys.top2, keys.spread2
        shape[SHAPE.leak] = 2 * group * self._off(away[None]).norm() * (1 + ROUNDING)
        shape[SHAPE.own2], shape[SHAPE.own_s], shape[SHAPE.own_a] = g @ g, g @ v_hat, g @ keys.k_hat
        shape[SHAPE.own_off] = self._off(g[None]).norm() * (1 + ROUNDING)
        shape[SHAPE.far2], shape[SHAPE.most2], shape[SHAPE.keys] = far2, most2, keys.longest
        shape[SHAPE.line], shape[SHAPE.price] = 0.0 if bool(v_hat.any()) else 1.0, self.r**2 * self._steep / 10
        return shape

    def _off(self, vectors: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """What is left of them off the plane."""
        for axis in (self.v_hat, self.keys.k_hat):
            vectors = vectors - torch.outer(vectors @ axis, axis)
        return vectors

    @property
    def _steep(self) -> float:
        """What a unit of score is worth, in r²: a row gains r² for one unit, or for as much as its score can move."""
        farthest = self.r * self.keys.longest
        return min(max(1.0, 1 / farthest), 1e6) if farthest > SHORTEST else 1.0

    @property
    def on_a_line(self) -> bool:
        """Whether there is no v̂, so that cells off s = 0 hold nothing."""
        return bool(self.shape[SHAPE.line] > 0)

    @property
    def whole(self) -> Cell:
        """The cell of every Δ."""
        return 0.0, 0.0, self.r, self.r

    @property
    def first_multipliers(self) -> Multipliers:
        r2 = max(self.r, SHORTEST) ** 2
        prices = np.full(len(self.rows), self.shape[SHAPE.price])
        prices[self.i] = 0.0
        m = r2 * self._steep**2 / 15
        return Multipliers(prices, np.array([math.log(m), math.log(r2 / 8), 0.7]))

    def value(self, cell: Cell, at: Multipliers) -> float:
        """An upper bound on the squared change for every Δ of the cell; negative if the cell misses the ball."""
        self.work += len(self.rows)
        slopes, common_slopes = np.empty(len(self.rows)), np.empty(3)
        return float(kernels.cell_bound(self._tables, cell, at.prices, at.common, slopes, common_slopes, False))

    def tune(self, cell: Cell, at: Multipliers, evaluations: int, first_step: float) -> tuple[float, Multipliers]:
        """A smaller bound for the cell, and the multipliers that give it."""
        self.work += evaluations * len(self.rows)
        prices, common = at.prices.copy(), at.common.copy()
        bound = float(kernels.tune(self._tables, cell, prices, common, evaluations, first_step))
        return bound, Multipliers(prices, common)

    @property
    def _tables(self) -> Tables:
        return Tables(self.rows, self.shape, self.keys.along, self.v, self.keys.sigma2, self.keys.grid)


def _numpy(values: Tensor) -> Array:
    return np.ascontiguousarray(values.detach().cpu().numpy(), dtype=np.float64)
