"""Attention under every word of a table at every position: all n·V substitutions from shared inner products.

Changing word i to y moves the rows j ≠ i by c_j(x_i − o_j) + q_jΔ (see `kernels`) and row i to a new mixture of all
words. Everything needed is an inner product of y with K, O, Q or X: one GEMM a table. What is left for one
substitution is a sum of n terms and, for row i, a few numbers. Where the word's row depends on the position (layer 0
adds a position and a LayerNorm), y_vi = α_vi(a_v + c_i) + ρ_vi b: its inner products are affine in shared ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.leave_one_out import LeaveOneOut
from oneword.maps.scores import GroupedScore
from oneword.progress import Progress
from oneword.search import kernels
from oneword.search.kernels import VOID, Array
from oneword.text.layer0 import AffineRows

HIGHEST = 40.0  # logit: e^40 beside 1 is all of the attention, in every precision, and nothing beside VOID
PIECE = 1 << 18  # numbers in one array: what is in between stays in the processor's cache
LARGEST = 4096  # words in a piece
SMALL = 0.01  # changes below this, relative to what they are made of, are evaluated once more
CANCELS = 0.1  # of a sum: if less is left after one term was taken out, it is not trusted

STAGE = "vocabulary"  # what progress is reported as

# Unpacked arguments hide how many there are from the type checker.
_add_rows: Callable[..., None] = kernels.add_rows
_replace_one: Callable[..., None] = kernels.replace_one


@dataclass(frozen=True, eq=False)
class Outcome:
    """All substitutions [changed word, new word]: squared changes, ‖Δ‖², and where rounding may have spoiled them."""

    change2: Float[Tensor, "p words"]
    distance2: Float[Tensor, "p words"]
    doubtful: Bool[Tensor, "p words"]

    @classmethod
    def empty(cls, count: int, rows: Float[Tensor, "words d"]) -> Outcome:
        change2 = rows.new_empty((count, len(rows)))
        return cls(change2, torch.empty_like(change2), torch.zeros_like(change2, dtype=torch.bool))


class _Product(NamedTuple):
    """Inner products with a table: of all words' a, of c at one place, of b."""

    a: Array
    c: Array
    b: Array


class Substitution:
    """What does not depend on the new word, for changed words i (first index)."""

    def __init__(self, probe: AttentionProbe, i: Int[Tensor, " p"]) -> None:
        score, X, O = probe.score, probe.X, probe.O
        self.probe, self.i, self.score = probe, i, score
        self.around = around = probe.without.at(i)
        self.pool = score.pool(probe.S)
        self.every = torch.equal(i, torch.arange(probe.n))
        self.xx = X[i].square().sum(1)
        # Rows j before the change, in the order the kernels take them: p, 1 − p, x_i·o_j, ‖x_i − o_j‖², ‖x_i‖².
        spare = _spare(score, around, self.pool, i)
        xo = X[i] @ O.mT if score.normalised else torch.zeros_like(spare)  # o_j⁻ = 0
        rows = (around.share, spare, xo, around.beta2 * around.spare.square(), self.xx)
        self.rows = tuple(part.contiguous().numpy() for part in rows)
        self.one = self.rows[0].dtype.type(1)
        self.gram = X @ X.mT
        self.across = O[i] @ X.mT  # o_i · x_l
        self.oo = O[i].square().sum(1)
        # What new words are multiplied with; o⁻ under sharp attention only. One GEMM each: the results are contiguous.
        self.tables = (probe.K, O, probe.Q, X, around.outputs)

    # One table for every position ---------------------------------------------------------------------------------

    def everywhere(self, E: Float[Tensor, "words d"], progress: Progress) -> Outcome:
        """Word i becomes row v of the table, whatever i is."""
        out = Outcome.empty(len(self.i), E)

        def replaced(piece: slice) -> None:
            Y = E[piece]
            yk, yo, yq, yx, without = (Y @ table.mT for table in self.tables)
            yy = Y.square().sum(1, keepdim=True)
            own = (Y @ self.probe.W_symmetric * Y).sum(1, keepdim=True)
            change2, doubtful = self._row_i(yq, own, yo, yx, yy)
            yx = self._own(yx)
            distance2 = yy - 2 * yx + self.xx
            new = (relative(self.score, yk, self.pool), yo, yx, distance2, change2)
            _add_rows(*(part.numpy() for part in new), *self.rows, self._pooled, self.one)
            if self.around.sharp is not None:
                change2 += self._sharp_rows(self.around.sharp, self.i, yk, yx, without, distance2)
            out.change2.mT[piece], out.distance2.mT[piece] = change2, distance2
            out.doubtful.mT[piece] = doubtful | self._cancels(change2, distance2, yy + self.xx)

        self._all(replaced, len(E), progress)
        return out

    def _row_i(
        self, t: Float[Tensor, "b n"], own: Float[Tensor, "b 1"], yo: Tensor, yx: Tensor, yy: Float[Tensor, "b 1"]
    ) -> tuple[Float[Tensor, "b p"], Bool[Tensor, "b p"]]:
        """‖o'_i − o_i‖²: the sum over all words, less word i, plus the new one; and where little is left of it."""
        m, s = masses(self.score, t, own)
        mG = m @ self.gram
        uu, uy = (m * mG).sum(1, keepdim=True), (m * yx).sum(1, keepdim=True)
        m_i = self._own(m)
        square = uu + m_i * (m_i * self.xx - 2 * self._own(mG)) + s * (s * yy + 2 * (uy - m_i * self._own(yx)))
        mixed = m @ self.across.mT - m_i * self.across[:, self.i].diagonal() + s * self._own(yo)
        if not self.score.normalised:
            return square - 2 * mixed + self.oo, square < CANCELS**2 * (uu + m_i.square() * self.xx)
        total = m.sum(1, keepdim=True) + s
        left = total - m_i
        share = _inverse(left)
        return (square * share - 2 * mixed) * share + self.oo, left < CANCELS * total

    # Rows that depend on the position -----------------------------------------------------------------------------

    def placed(self, words: AffineRows, progress: Progress) -> Outcome:
        """Word i becomes word v as it stands at i."""
        out = Outcome.empty(len(self.i), words.a)
        at_c = [(words.c @ table.mT).numpy() for table in self.tables]
        at_b = [(table @ words.b).numpy() for table in self.tables]

        def replaced(piece: slice) -> None:
            at_a = [(words.a[piece] @ table.mT).numpy() for table in self.tables]
            *numbers, cancels = _composed(words, piece, self.probe.W_symmetric)
            scale, shift, own = (number.mT.contiguous() for number in numbers)
            for k in range(len(self.i)):
                products = [_Product(a, c[k], b) for a, b, c in zip(at_a, at_b, at_c, strict=True)]
                change2, distance2 = self._at(k, products, scale[k].numpy(), shift[k].numpy(), own[k, :, None])
                out.change2[k, piece], out.distance2[k, piece] = change2, distance2
                out.doubtful[k, piece] = cancels[:, k] | self._cancels(change2, distance2, self.xx[k] + self.probe.d)

        self._all(replaced, len(words.a), progress)
        return out

    def _at(
        self, k: int, products: list[_Product], scale: Array, shift: Array, own: Float[Tensor, "b 1"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """The k-th of the changed words."""

        def composed(part: _Product) -> Float[Tensor, "b n"]:
            y = torch.empty(part.a.shape, dtype=own.dtype)
            kernels.compose(part.a, scale, shift, y.numpy(), part.c, part.b)
            return y

        keys, outputs, queries, words, without = products
        i = int(self.i[k])
        yk, yq = composed(keys), composed(queries)
        yq[:, i] = -torch.inf  # word i itself does not stay
        m, s = masses(self.score, yq, own)
        change2, distance2 = own.new_empty(len(own)), own.new_empty(len(own))
        row_i = (relative(self.score, yk, self.pool), m, m @ self.gram, s[:, 0])
        _replace_one(
            *(part.numpy() for part in row_i), outputs.a, words.a, scale, shift, change2.numpy(), distance2.numpy(),
            outputs.c, outputs.b, words.c, words.b, *(part[k] for part in self.rows),
            self.across[k].numpy(), self.oo.numpy()[k], self.one * self.probe.d, i, self._pooled, self.one,
        )  # fmt: skip
        if self.around.sharp is not None:
            yx = torch.from_numpy(scale * (words.a[:, i] + words.c[i]) + shift * words.b[i])
            sharp, here = self.around.sharp[k : k + 1], self.i[k : k + 1]
            change2 += self._sharp_rows(sharp, here, yk, yx[:, None], composed(without), distance2[:, None])[:, 0]
        return change2, distance2

    # Both ---------------------------------------------------------------------------------------------------------

    def _all(self, replaced: Callable[[slice], None], words: int, progress: Progress) -> None:
        """Piece by piece, in threads; a piece is never so large that a short text would have one only."""
        size = max(8, min(PIECE // self.probe.n, LARGEST))
        pieces = [slice(first, first + size) for first in range(0, words, size)]
        for done, _ in enumerate(_in_threads(replaced, pieces), 1):
            progress(STAGE, done / len(pieces))

    @property
    def _pooled(self) -> Any:
        return self.one * self.score.normalised

    def _cancels(self, change2: Tensor, distance2: Tensor, size: Tensor) -> Bool[Tensor, "*b"]:
        """Where expanded squares may have cancelled, given ‖x‖² + ‖y‖²: Δ itself does not."""
        least = SMALL**2 * size.clamp_min(self.probe.norm**2)
        return ~((change2 > least) & (distance2 > SMALL**2 * size))

    def _own(self, t: Float[Tensor, "b n"]) -> Float[Tensor, "b p"]:
        """The columns of the words i; as it is where these are all words in order, which is the usual case."""
        return t if self.every else t[:, self.i]

    def _sharp_rows(
        self,
        sharp: Bool[Tensor, "q n"],
        i: Int[Tensor, " q"],
        yk: Tensor,
        yx: Tensor,
        without: Tensor,
        distance2: Tensor,
    ) -> Float[Tensor, "b q"]:
        """The rows that had most of their attention on word i, by the formula in o_j⁻."""
        k, j = sharp.nonzero(as_tuple=True)
        around = self.probe.without.at(i)
        x, o = self.probe.X[i[k]], around.outputs[j]
        q = self.score.share(self.score.mass(yk[:, j]), around.rest[k, j])
        rise = q - around.share[k, j]
        turn = yx[:, k] - without[:, j] - (x * (x - o)).sum(1)  # (x_i − o⁻)·(y − x_i)
        rows = rise.square() * around.beta2[k, j] + 2 * q * rise * turn + q.square() * distance2[:, k]
        return torch.zeros_like(distance2).index_add(1, k, rows)


def _spare(
    score: GroupedScore, around: LeaveOneOut, pool: Float[Tensor, " n"], i: Int[Tensor, " p"]
) -> Float[Tensor, "p n"]:
    """1 − p; void in row i and in sharp rows, which are added up by themselves."""
    spare = around.spare.clone()
    if score.normalised and not score.logarithmic:
        spare[:, pool == 0] = 1 / VOID  # a row that attended to nothing: any new word takes it all
    spare.scatter_(1, i[:, None], VOID)
    return spare if around.sharp is None else spare.masked_fill_(around.sharp, VOID)


def relative(score: GroupedScore, s: Float[Tensor, "b n"], pool: Float[Tensor, " n"]) -> Float[Tensor, "b n"]:
    """The mass of a score, relative to the mass that its row had."""
    if score.logarithmic:
        return (s - pool).clamp_max_(HIGHEST).exp_()
    mass = score.mass(s)
    return mass * _inverse(torch.where(pool > 0, pool, torch.ones_like(pool))) if score.normalised else mass


def masses(score: GroupedScore, t: Float[Tensor, "b n"], own: Float[Tensor, "b 1"]) -> tuple[Tensor, Tensor]:
    """The masses of a row's scores and of its own, up to a common factor if the score is normalised."""
    if not score.logarithmic:
        return score.mass(t), score.mass(own)
    top = torch.maximum(t.amax(1, keepdim=True), own)
    return (t - top).exp_(), (own - top).exp_()


def _composed(words: AffineRows, piece: slice, W: Float[Tensor, "d d"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """α_vi, ρ_vi and the score of y_vi with itself, for y = α(a + c) + ρb of norm √d; and where a, b, c cancel."""
    a, b, c, s = words.a[piece], words.b, words.c, words.s[piece]
    p = len(c)
    ac, ab, aWc, aWb = (a @ torch.cat([c, b[None], c @ W, (b @ W)[None]]).mT).split([p, 1, p, 1], 1)
    size = (a * a).sum(1, keepdim=True) + (c * c).sum(1)
    norm2 = (size + 2 * ac) / s.square() + 2 * (ab + c @ b) / s + b @ b
    cancels = norm2 < CANCELS**2 * (size / s.square() + b @ b)
    shift = math.sqrt(a.shape[1]) * norm2.rsqrt()
    scale = shift / s
    self_a, self_c = (a @ W * a).sum(1, keepdim=True), (c @ W * c).sum(1)
    own = scale * (scale * (self_a + 2 * aWc + self_c) + 2 * shift * (aWb + c @ (W @ b))) + shift.square() * (b @ W @ b)
    return scale, shift, own, cancels


def _inverse(total: Tensor) -> Tensor:
    """1/total, and 0 for 0: a row that attends to nothing."""
    return torch.where(total > 0, 1 / total, torch.zeros_like(total))


def _in_threads(do: Callable[[slice], None], pieces: Iterable[slice]) -> Iterator[None]:
    """Independent pieces of work in as many threads as torch has; yields once a piece, consume it to the end.

    A piece is computed by one thread from start to end, so that its bits do not depend on how many there are.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield from map(do, pieces)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(do, pieces)
    finally:
        torch.set_num_threads(threads)
