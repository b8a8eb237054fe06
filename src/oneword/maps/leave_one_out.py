"""The rows of attention without one word: what changing that word starts from.

Row j pays word i the share p of its attention, and the other words together the rest; o_j⁻ is its output if word i
were not there. With β = x_i − o_j⁻, the output moves by (q − p)β + q(y − x_i) when the share becomes q and the word y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.maps.scores import GroupedScore

# A row leaves the formula in o_j for the one in o_j⁻ where word i has more than this share of its attention:
# dividing by 1 − p costs a factor 1/(1 − p) of accuracy, and at most one word of a row can be above one half.
SHARP = 0.5


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """For some changed words i (first index) the rows j ≠ i. Row i itself is void: score −∞, share 0.

    | field | meaning |
    |---|---|
    | `score`, `share`, `rest` | s_ji, p_ji, and what the other words of row j pool (see `Score`) |
    | `spare` | β·Δ = (x_i − o_j)·Δ/spare: 1 − p, or 1 where o_j⁻ = o_j or `sharp` |
    | `beta2` | ‖β‖² |
    | `sharp`, `outputs` | where p > ½, and o_j⁻ of those rows; None and empty if there are none |
    """

    score: Float[Tensor, "p n"]
    share: Float[Tensor, "p n"]
    rest: Float[Tensor, "p n"]
    spare: Float[Tensor, "p n"]
    beta2: Float[Tensor, "p n"]
    sharp: Bool[Tensor, "p n"] | None
    outputs: Float[Tensor, "rows d"]

    @classmethod
    def of(
        cls,
        score: GroupedScore,
        X: Float[Tensor, "n d"],
        S: Float[Tensor, "n n"],
        P: Float[Tensor, "n n"],
        O: Float[Tensor, "n d"],
        words: Int[Tensor, " p"],
    ) -> LeaveOneOut:
        """From the scores, weights and outputs of the unchanged text."""
        own, x = words[:, None], X[words]
        s, p = S[:, words].mT, P[:, words].mT
        if len(words) == 1:
            rest = score.pool(S.index_fill(1, words, -torch.inf))[None]
        else:
            rest = score.rest(S)[:, words].mT.contiguous()
        plain = cls(
            score=s.scatter(1, own, -torch.inf),
            share=p.scatter(1, own, 0),
            rest=rest.scatter(1, own, 0),
            spare=torch.ones_like(p),
            beta2=x.square().sum(1, keepdim=True).expand_as(p),
            sharp=None,
            outputs=X[:0],
        )
        if not score.normalised:  # o⁻ = 0
            return plain
        spare = score.share(rest, score.mass(s))  # 1 − p
        sharp = plain.share > SHARP  # never the void row i, but there too nothing may be divided by 0
        alone = (p > SHARP) | (spare + p == 0)  # an empty row has o = o⁻ = 0
        spare = torch.where(alone, torch.ones_like(spare), spare).scatter(1, own, 1)
        plain = replace(plain, spare=spare, beta2=_squared_distances(x, O) / spare.square())
        if not bool(sharp.any()):
            return plain
        k, j = sharp.nonzero(as_tuple=True)
        without = S[j].scatter(1, words[k, None], -torch.inf)
        outputs = torch.zeros_like(X)
        outputs[j] = torch.nan_to_num(score.attend(without)) @ X  # n = 1: nothing is left, o⁻ = 0
        beta2 = plain.beta2.index_put((k, j), (X[words[k]] - outputs[j]).square().sum(1))
        return replace(plain, beta2=beta2, sharp=sharp, outputs=outputs)

    def at(self, k: Int[Tensor, " b"]) -> LeaveOneOut:
        """One line a candidate, which changes the k-th of the words."""
        sharp = None if self.sharp is None else self.sharp[k]
        each = (self.score[k], self.share[k], self.rest[k], self.spare[k], self.beta2[k])
        return LeaveOneOut(*each, sharp, self.outputs)

    def between(
        self,
        near: Float[Tensor, "b n"],
        q: Float[Tensor, "b n"],
        x: Float[Tensor, "b d"],
        y: Float[Tensor, "b d"],
        DD: Float[Tensor, "b 1"],
    ) -> Float[Tensor, "b n"]:
        """‖qy − px‖², how a row moves if its score is not normalised: of two forms the one whose terms cancel less.

        `near` is expanded in (q − p)x and q(y − x), which vanish as y → x; the other one in qy and px, which vanish as
        y or the attention does.
        """
        p = self.share
        xx, yy = x.square().sum(1, keepdim=True), y.square().sum(1, keepdim=True)
        far = q.square() * yy - 2 * q * p * (x * y).sum(1, keepdim=True) + p.square() * xx
        cancels = (q - p).square() * xx + q.square() * DD > q.square() * yy + p.square() * xx
        return torch.where(cancels, far, near)

    def sharp_pairs(self, count: int) -> tuple[Tensor, Tensor] | None:
        """(candidate, row j) where the changed word has most of the attention of row j."""
        if self.sharp is None:
            return None
        b, j = self.sharp.expand(count, -1).nonzero(as_tuple=True)
        return (b, j) if len(b) else None


def _squared_distances(X: Float[Tensor, "p d"], O: Float[Tensor, "n d"]) -> Float[Tensor, "p n"]:
    """‖x_i − o_j‖² from one matrix product, and from the difference itself where the product would cancel."""
    size = X.square().sum(1)[:, None] + O.square().sum(1)
    out = size - 2 * X @ O.mT
    near = (out < 1e-3 * size).nonzero()
    for i, j in (pairs.unbind(1) for pairs in near.split(1 << 14)):
        out[i, j] = (X[i] - O[j]).square().sum(1)
    return out
