"""Random attention features, φ(X) = A(X W Xᵀ/√d) X with A the softmax of each row (Eq. 3) or another score.

Changing word i to y changes one score in every row j ≠ i and the whole of row i. With o_j⁻ the output of row j if word
i were not there, p its attention on word i before and q after the change,

    o'_j − o_j = (q − p)(x_i − o_j⁻) + q (y − x_i)

so one candidate costs O(nd + d²) instead of a forward pass's O(nd² + n²d), and all of its rows come from inner
products with three matrices that do not depend on the candidate: keys K, outputs O and queries Q. A score that is not
normalised is the same formula with o_j⁻ = 0 and the bare weights as p and q.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.cluster.vq import kmeans2
from torch import Tensor

from oneword._random import normal, resolve_seed
from oneword.errors import DTypeError, RangeError, ShapeError
from oneword.maps.base import SHORT, FeatureMap, Probe, check_candidates, check_matches, feature_norm
from oneword.maps.scores import Score, Softmax, score
from oneword.text.context import check_finite

# A row leaves the formula in o_j for the one in o_j⁻ where word i has more than this share of its attention:
# dividing by 1 − p costs a factor 1/(1 − p) of accuracy, and at most one word of a row can be above one half.
SHARP = 0.5


@final
class AttentionFeatures(FeatureMap):
    """RAF of the paper. `W` (d × d) plays W_Qᵀ W_K; `score` is "softmax", "relu", "relu-unnormalised" or a Score."""

    W: Float[Tensor, "d d"]

    def __init__(self, W: Float[Tensor, "d d"], *, score: str | Score = Softmax(), seed: int | None = None) -> None:  # noqa: B008
        super().__init__()
        if W.ndim != 2 or W.shape[0] != W.shape[1]:
            raise ShapeError(f"expected W of shape (d, d), got {tuple(W.shape)}")
        check_finite(W, "W")
        if not W.is_floating_point():
            raise DTypeError(f"expected W in floating point, got {W.dtype}: convert it with W.double()")
        self.register_buffer("W", W.detach())
        self.score = _score(score)
        self.seed = seed
        self._symmetric: tuple[Tensor, int, Tensor] | None = None

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        score: str | Score = Softmax(),  # noqa: B008
        seed: int | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> AttentionFeatures:
        """W_ab ~ N(0, 1/d), independent."""
        if d < 1:
            raise RangeError(f"expected d of at least 1, got {d}")
        seed = resolve_seed(seed, generator)
        return cls(normal(d, d, 1 / math.sqrt(d), seed, "W", dtype=dtype, device=device), score=score, seed=seed)

    @property
    def d(self) -> int:
        return int(self.W.shape[0])

    @property
    def W_symmetric(self) -> Float[Tensor, "d d"]:
        """(W + Wᵀ)/(2√d), which gives a word's score with itself; made anew only when W has changed."""
        made = self._symmetric
        if made is None or made[0] is not self.W or made[1] != self.W._version:
            made = self._symmetric = self.W, self.W._version, (self.W + self.W.mT) / (2 * math.sqrt(self.d))
        return made[2]

    def scores(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n n"]:
        """X W Xᵀ/√d."""
        return X @ self.W @ X.mT / math.sqrt(self.d)

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        check_matches(X, self.W, self.d)
        return self.score.attend(self.scores(X)) @ X

    def at(self, X: Float[Tensor, "n d"]) -> AttentionProbe:
        return AttentionProbe(self, X)

    def describe(self) -> Mapping[str, Any]:
        return {"map": "AttentionFeatures", "score": self.score.name, "d": self.d, "seed": self.seed}


_score = score  # the name is taken by the argument inside the class


@final
class AttentionProbe(Probe):
    """Attention prepared at one text. Matrices called `…_of` are indexed [changed word i, attending row j]."""

    cheap = True

    def __init__(self, phi: AttentionFeatures, X: Float[Tensor, "n d"]) -> None:
        check_matches(X, phi.W, phi.d)
        X, W = X.detach(), phi.W.detach()
        self.X, self.W, self.score = X, W, phi.score
        root = math.sqrt(phi.d)
        self.table = X.new_empty((3 * len(X), phi.d))  # K, O and Q in one: a single GEMM serves all three
        self.K, self.O, self.Q = self.table.split(len(X))
        torch.mm(X / root, W, out=self.K)  # s_ji = K_j · x_i
        torch.mm(X / root, W.mT, out=self.Q)  # s_il = Q_l · x_i
        S = self.K @ X.mT
        self.S = S
        self.P = self.score.attend(S)
        torch.mm(self.P, X, out=self.O)
        self.norm = feature_norm(self.O)
        self.W_symmetric = phi.W_symmetric

        rest = self.score.rest(S)
        self.rest_of = rest.mT.contiguous()
        self.score_of = S.mT.contiguous()
        self.share_of = self.P.mT.contiguous()
        self._leave_one_out(rest)

    def _leave_one_out(self, rest: Float[Tensor, "n n"]) -> None:
        """β_ji = x_i − o_j⁻: its squared length, and how to get β·Δ from o_j·Δ."""
        X, O, P = self.X, self.O, self.P
        xx = X.square().sum(1)
        if not self.score.normalised:  # o⁻ = 0
            self.sharp_of: Bool[Tensor, "n n"] | None = None
            self.spare_of = torch.ones_like(P)
            self.beta2_of = xx[:, None].expand_as(P)
            return
        spare = self.score.share(rest, self.score.mass(self.S))  # 1 − p
        sharp = P > SHARP
        alone = sharp | (spare + P == 0)  # an empty row has o = o⁻ = 0
        spare = torch.where(alone, torch.ones_like(spare), spare)
        v2 = _squared_distances(X, O)  # ‖x_i − o_j‖², [i, j]
        beta2 = v2 / spare.mT.square()
        self.spare_of = spare.mT.contiguous()
        self.sharp_of = sharp.mT.contiguous() if bool(sharp.any()) else None
        if self.sharp_of is not None:
            rows = sharp.any(1)
            without = self.S.masked_fill(sharp, -torch.inf)[rows]
            self.O_sharp = torch.zeros_like(O)
            self.O_sharp[rows] = torch.nan_to_num(self.score.attend(without)) @ X  # n = 1: nothing is left, o⁻ = 0
            i, j = self.sharp_of.nonzero(as_tuple=True)
            beta2[i, j] = (X[i] - self.O_sharp[j]).square().sum(1)
        self.beta2_of = beta2

    # One changed row ---------------------------------------------------------------------------------------------

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        check_candidates(self.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return (self._several(y, i) - self.O).flatten(1).square().sum(1)
        apply: Callable[..., Tensor] = _OneRowChange.apply
        return apply(y.reshape(len(i), -1), i.reshape(-1), self)

    def value_and_gradient(self, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        check_candidates(self.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return super().value_and_gradient(y, i)
        value, gradient = self._one_row(y.detach().reshape(len(i), -1), i.reshape(-1), need_gradient=True)
        assert gradient is not None
        return value, gradient.reshape(y.shape)

    def _one_row(
        self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"], need_gradient: bool
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b d"] | None]:
        """The squared change, and its gradient by hand: one GEMM in, one GEMM out, nothing kept in between."""
        X, n = self.X, self.n
        x = X[i]
        D = y - x
        DK, DO = (D @ self.table[: 2 * n].mT).split(n, 1)
        own = i[:, None]

        # Rows j ≠ i.
        p, rest, spare, beta2 = self.share_of[i], self.rest_of[i], self.spare_of[i], self.beta2_of[i]
        s = self.score_of[i] + DK
        q = self.score.share(self.score.mass(s), rest)
        pairs = self._sharp_pairs(i)
        if not self.score.normalised:
            DO = torch.zeros_like(DO)
        elif pairs is not None:
            b, j = pairs
            DO = DO.index_put((b, j), (D[b] * self.O_sharp[j]).sum(1))
        Dx, DD = (D * x).sum(1, keepdim=True), D.square().sum(1, keepdim=True)
        u = (Dx - DO) / spare  # β_j · Δ
        rise = q - p
        rows = rise.square() * beta2 + 2 * q * rise * u + q.square() * DD
        value = rows.scatter(1, own, 0).sum(1)

        t, a, yW, moved = self._changed_row(y, i)
        a_own = a.gather(1, own)
        h = moved - self.O[i]
        value = value + h.square().sum(1)
        if not need_gradient:
            return value, None

        by_q = 2 * (rise * beta2 + (q + rise) * u + q * DD) * self.score.slope(s, q, rest)
        by_u = (2 * q * rise / spare).scatter(1, own, 0)
        by_a = 2 * (h @ X.mT)
        by_a = by_a.scatter_add(1, own, 2 * (h * D).sum(1, keepdim=True))
        by_t = self.score.pull(a, t, by_a)
        by_t_own = by_t.gather(1, own)
        by_o = -by_u
        gradient = 2 * (q.square().scatter(1, own, 0).sum(1, keepdim=True) * D + a_own * h + by_t_own * yW)
        gradient += by_u.sum(1, keepdim=True) * x
        if not self.score.normalised:
            by_o = torch.zeros_like(by_o)
        elif pairs is not None:
            gradient.index_add_(0, b, by_o[b, j][:, None] * self.O_sharp[j])
            by_o = by_o.index_put((b, j), by_o.new_zeros(()))
        gradient += torch.cat([by_q.scatter(1, own, 0), by_o, by_t.scatter(1, own, 0)], 1) @ self.table
        return value, gradient

    def _changed_row(
        self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"], Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """Row i, all of whose scores are new: scores, weights, yW (symmetrised) and output.

        The scores come from y itself: near y = 0, S + ΔQ would be mere rounding, which a normalised ReLU blows up.
        """
        own = i[:, None]
        yW = y @ self.W_symmetric
        t = (y @ self.Q.mT).scatter(1, own, (yW * y).sum(1, keepdim=True))
        a = self.score.attend(t)
        return t, a, yW, a @ self.X + a.gather(1, own) * (y - self.X[i])

    def _sharp_pairs(self, i: Int[Tensor, " b"]) -> tuple[Tensor, Tensor] | None:
        """(candidate, row j) where the changed word has most of the attention of row j."""
        if self.sharp_of is None:
            return None
        b, j = self.sharp_of[i].nonzero(as_tuple=True)
        return (b, j) if len(b) else None

    def inner(self, y: Tensor, i: Tensor, u: Tensor) -> Float[Tensor, " b"]:
        check_candidates(self.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return super().inner(y, i, u)
        i, y, U = i.reshape(-1), y.reshape(len(i), -1), u.reshape(self.X.shape)
        D = y - self.X[i]
        p, q = self.share_of[i], self._shares(D @ self.K.mT, i)
        before = (self.O * U).sum(1)  # o_j · u_j
        without = before if self.score.normalised else torch.zeros_like(before)
        beta_u = (self.X[i] @ U.mT - without) / self.spare_of[i]
        pairs = self._sharp_pairs(i)
        if pairs is not None:
            b, j = pairs
            beta_u = beta_u.index_put((b, j), ((self.X[i[b]] - self.O_sharp[j]) * U[j]).sum(1))
        rows = before + (q - p) * beta_u + q * (D @ U.mT)
        _, _, _, moved = self._changed_row(y, i)
        return rows.scatter(1, i[:, None], (moved * U[i]).sum(1, keepdim=True)).sum(1)

    def attention(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """The attention of every row on the changed word after the change (`share_of[i]` is that before it)."""
        _, a, _, _ = self._changed_row(y, i)
        return self._shares((y - self.X[i]) @ self.K.mT, i).scatter(1, i[:, None], a.gather(1, i[:, None]))

    def _shares(self, DK: Float[Tensor, "b n"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """q: the attention of the rows j ≠ i on the changed word."""
        return self.score.share(self.score.mass(self.score_of[i] + DK), self.rest_of[i])

    # Features, and several changed rows ---------------------------------------------------------------------------

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b n d"]:
        check_candidates(self.X, y, i)
        return self._several(y, i) if i.ndim == 2 else self._several(y[:, None], i[:, None])

    def _several(self, y: Float[Tensor, "b m d"], i: Int[Tensor, "b m"]) -> Float[Tensor, "b n d"]:
        """The changed outputs, candidates that change the same rows together."""
        sets, which = torch.unique(i, dim=0, return_inverse=True)
        if len(sets) == 1:
            return self._same_rows(y, sets[0])
        out = y.new_empty((len(i), *self.X.shape))
        for s, rows in enumerate(sets):
            out = out.index_put((which == s,), self._same_rows(y[which == s], rows))
        return out

    def _same_rows(self, y: Float[Tensor, "b m d"], rows: Int[Tensor, " m"]) -> Float[Tensor, "b n d"]:
        X = self.X
        changed = torch.zeros(self.n, dtype=torch.bool, device=X.device)
        changed[rows] = True
        D = y - X[rows]
        # Rows that stay: the unchanged words act together as one, with output o⁻ and mass `rest`.
        others = self.S.masked_fill(changed, -torch.inf)[~changed]
        outside, rest = self.score.attend(others) @ X, self.score.pool(others)  # (n−m, d), (n−m,)
        s = self.S[~changed][:, rows] + (D @ self.K[~changed].mT).mT  # (b, n−m, m)
        if self.score.normalised:
            group = self.score.share(self.score.pool(s), rest)  # attention on all changed words together
            stays = (1 - group)[..., None] * outside + (group[..., None] * self.score.attend(s)) @ y
        else:
            stays = outside + self.score.attend(s) @ y
        # Rows that change: every score is new.
        t = y @ self.Q.mT  # (b, m, n)
        t = t.index_copy(2, rows, y @ self.W @ y.mT / math.sqrt(self.d))
        a = self.score.attend(t)
        moves = a @ X + a[:, :, rows] @ D
        out = y.new_empty((len(y), *X.shape))
        return out.index_copy(1, (~changed).nonzero()[:, 0], stays).index_copy(1, rows, moves)

    def bytes_per_candidate(self, m: int) -> int:
        per = 24 * self.n + 8 * self.d if m == 1 else 6 * self.X.numel() + 8 * m * self.n
        return per * self.X.element_size()

    # Where to start a search ---------------------------------------------------------------------------------------

    @cached_property
    def _mean_key(self) -> Float[Tensor, " d"]:
        return _unit(self.K.mean(0))

    @cached_property
    def _key_directions(self) -> Float[Tensor, "s d"]:
        """Where many rows look at once: the mean key, centres of clusters of keys, ± their leading axes, few keys."""
        U = _unit(self.K)
        parts = [self._mean_key[None], _centres(U, min(8, self.n))]
        _, axes = torch.linalg.eigh(self.K.mT @ self.K if self.d <= self.n else self.K @ self.K.mT)
        axes = axes[:, -4:] if self.d <= self.n else self.K.mT @ axes[:, -4:]
        parts += [_unit(axes.mT), -_unit(axes.mT)]
        if self.n <= SHORT:  # a short text: each key, and mixtures in which a few of them dominate
            mixture = np.random.default_rng(0).exponential(size=(64, self.n)) ** 2
            parts += [U, _unit(torch.from_numpy(mixture).to(U) @ U)]
        return torch.cat(parts)

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        x = self.X[i]  # (p, m, d)
        away = _unit(x - self.O.mean(0))
        toward = self._key_directions[:, None] + 0.7 * away[:, None]  # (p, s, m, d)
        rest = torch.stack([self._mean_key.expand_as(x), away, -away, -x], 1)
        return torch.cat([rest, toward], 1)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        return self._mean_key.expand(len(i), 1, i.shape[1], self.d)


class _OneRowChange(torch.autograd.Function):
    """`change2` for one row, with the gradient that `_one_row` computes anyway."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, i: Tensor, probe: AttentionProbe) -> Tensor:
        value, gradient = probe._one_row(y, i, need_gradient=ctx.needs_input_grad[0])
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return by_value[:, None] * gradient, None, None


def _squared_distances(X: Float[Tensor, "n d"], O: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """‖x_i − o_j‖² from one matrix product, and from the difference itself where the product would cancel."""
    size = X.square().sum(1)[:, None] + O.square().sum(1)
    out = size - 2 * X @ O.mT
    near = (out < 1e-3 * size).nonzero()
    for i, j in (pairs.unbind(1) for pairs in near.split(1 << 14)):
        out[i, j] = (X[i] - O[j]).square().sum(1)
    return out


def _unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny)


def _centres(U: Float[Tensor, "n d"], k: int) -> Float[Tensor, "k d"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is no harm: equal words make them
        centres, _ = kmeans2(U.double().cpu().numpy(), k, iter=10, minit="++", rng=np.random.default_rng(0))
    return _unit(torch.from_numpy(centres).to(U))
