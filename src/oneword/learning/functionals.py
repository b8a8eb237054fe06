"""⟨φ(X^i(Δ)), v⟩ for several v at once, all that a linear model sees of a changed text.

For attention and one changed row it comes from the leave-one-out form: with β_ji = x_i − o_j⁻ and q the new attention,

    ⟨o'_j, v_j⟩ = ⟨o_j, v_j⟩ + (q − p) β_ji·v_j + q Δ·v_j

so β·v is prepared once a text, and a candidate costs two matrix products, one in and one out, for all v together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import Probe, check_candidates
from oneword.sets.constraints import unit


class Functionals:
    """Several linear functionals of the features of changed texts, differentiable in the new rows."""

    def __init__(self, probe: Probe, V: Float[Tensor, "r p"]) -> None:
        self.probe, self.V = probe, V

    def __call__(self, y: Tensor, i: Tensor) -> Float[Tensor, "b r"]:
        """⟨φ(X with rows i replaced by y), v⟩, for candidates as a Probe takes them."""
        return self.probe.features(y, i).reshape(len(i), -1) @ self.V.mT

    def near(self, rows: tuple[int, ...]) -> Functionals:
        """For changes of these rows only; see Probe.near."""
        near = self.probe.near(rows)
        return self if near is self.probe else functionals(near, self.V)

    def bytes_per_candidate(self, m: int) -> int:
        return self.probe.bytes_per_candidate(m)

    def directions(
        self, i: Int[Tensor, "p m"], weights: Float[Tensor, " r"], uphill: Float[Tensor, "p m d"]
    ) -> Float[Tensor, "p s m d"] | None:
        """Directions of Δ in which a weighted sum may rise far, beside its gradient `uphill`; None if none is known."""
        return None


@singledispatch
def functionals(probe: Probe, V: Float[Tensor, "r p"]) -> Functionals:
    """The fastest form that there is for this Probe; registered by its type."""
    return Functionals(probe, V)


@final
class AttentionFunctionals(Functionals):
    """One changed row under attention. Arrays called `…_of` are indexed [changed word i, functional, row j]."""

    probe: AttentionProbe

    def __init__(self, probe: AttentionProbe, V: Float[Tensor, "r p"]) -> None:
        super().__init__(probe, V)
        X, O, n = probe.X, probe.O, probe.n
        U = V.reshape(len(V), n, -1)
        self.table = torch.cat([probe.K, U.flatten(0, 1), probe.Q])
        XU = (X @ U.flatten(0, 1).mT).view(n, len(V), n)  # x_i · v_j, [i, functional, j]
        before = (O * U).sum(2)  # o_j · v_j, [functional, j]
        without = before if probe.score.normalised else torch.zeros_like(before)
        beta_v = (XU - without) / probe.without.spare[:, None]
        pairs = probe.without.sharp_pairs(n)
        if pairs is not None:
            i, j = pairs
            beta_v[i, :, j] = ((X[i] - probe.without.outputs[j])[:, None] * U[:, j].transpose(0, 1)).sum(2)
        self.beta_of = beta_v.masked_fill(torch.eye(n, dtype=torch.bool, device=X.device)[:, None], 0)
        self.words_of = XU.permute(2, 1, 0).contiguous()  # x_j · v_i: what row i makes of each word
        self.rest_of = (before.sum(1, keepdim=True) - before).mT.contiguous()  # Σ_{j ≠ i} o_j · v_j, [i, functional]

    def __call__(self, y: Tensor, i: Tensor) -> Float[Tensor, "b r"]:
        check_candidates(self.probe.X, y, i)
        if i.ndim == 2 and i.shape[1] > 1:
            return super().__call__(y, i)
        apply: Callable[..., Tensor] = _OneRow.apply
        return apply(y.reshape(len(i), -1), i.reshape(-1), self)

    def bytes_per_candidate(self, m: int) -> int:
        if m > 1:
            return self.probe.bytes_per_candidate(m)
        return ((12 + 6 * len(self.V)) * self.probe.n + 8 * self.probe.d) * self.V.element_size()

    def directions(
        self, i: Int[Tensor, "p m"], weights: Float[Tensor, " r"], uphill: Float[Tensor, "p m d"]
    ) -> Float[Tensor, "p s m d"]:
        """Where many rows look, and where a word that they all look at counts most; and both at once.

        Rows look along their keys: all of them, or those that gain by attending to word i, each by its gain β_ji·v_j.
        Where every row attends to the changed word only, the sum is y·Σ_j v_j.
        """
        keys = unit(self.probe.K)
        everyone = unit(keys.mean(0))
        all_attend = unit(torch.einsum("r,rjd->d", weights, self.V.view(len(weights), *self.probe.X.shape)))
        gain = torch.einsum("r,pmrj->pmj", weights, self.beta_of[i])
        gaining, signed = unit(gain.clamp_min(0) @ keys), unit(gain @ keys)  # (p, m, d)
        parts = [everyone, all_attend, *(everyone + share * all_attend for share in (0.5, 1.0, 2.0))]
        parts += [gaining, gaining + 0.7 * all_attend, gaining + 0.7 * uphill, signed, signed + 0.7 * all_attend]
        return torch.stack([unit(part).expand_as(gaining) for part in parts], 1)


functionals.register(AttentionProbe, AttentionFunctionals)


class _OneRow(torch.autograd.Function):
    """Values, and by hand the gradient of any combination of them."""

    @staticmethod
    def forward(ctx: Any, y: Float[Tensor, "b d"], i: Int[Tensor, " b"], of: AttentionFunctionals) -> Tensor:
        probe, n, r = of.probe, of.probe.n, len(of.V)
        own = i[:, None]
        moved = (y - probe.X[i]) @ of.table[: (1 + r) * n].mT
        around = probe.without.at(i)
        s, DV = around.score + moved[:, :n], moved[:, n:].view(-1, r, n)  # new scores; Δ · v_j
        q = probe.score.share(probe.score.mass(s), around.rest)
        beta = of.beta_of[i]
        value = of.rest_of[i] + _sum(beta, q - around.share) + _sum(DV, q)

        yW = y @ probe.W_symmetric
        t = (y @ probe.Q.mT).scatter(1, own, (yW * y).sum(1, keepdim=True))
        a = probe.score.attend(t)
        words = of.words_of[i]
        words = words.scatter_add(2, own[:, None].expand(-1, r, 1), DV.gather(2, own[:, None].expand(-1, r, 1)))
        value = value + _sum(words, a)
        if ctx.needs_input_grad[0]:
            slope = probe.score.slope(s, q, around.rest)
            weight = q.scatter(1, own, a.gather(1, own))  # of the rows of V
            ctx.of = of
            ctx.save_for_backward(i, beta + DV, slope, weight, words, a, t, yW)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by: Float[Tensor, "b r"]) -> tuple[Tensor, None, None]:
        i, by_q, slope, weight, words, a, t, yW = ctx.saved_tensors
        of: AttentionFunctionals = ctx.of
        own = i[:, None]
        by_t = of.probe.score.pull(a, t, _sum(words.mT, by))
        by_K = _sum(by_q.mT, by) * slope
        by_V = (by[:, :, None] * weight[:, None]).flatten(1)
        gradient = torch.cat([by_K, by_V, by_t.scatter(1, own, 0)], 1) @ of.table
        return gradient + 2 * by_t.gather(1, own) * yW, None, None


def _sum(terms: Float[Tensor, "b r n"], weights: Float[Tensor, "b n"]) -> Float[Tensor, "b r"]:
    return (terms @ weights[:, :, None])[:, :, 0]
