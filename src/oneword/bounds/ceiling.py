"""Ceilings of trained models: how far their outputs can be moved by any change of any words, however large.

What a norm gives lies on a known ellipsoid, whatever the text is, so the farthest point of it bounds every change
(`ranges`). A ceiling knows no radius. In models that read both ways it is the same for every word; in causal models the
rows before the changed word stay. Proofs: docs/certificates.md, section 10.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.bounds.certificate import Certificate, Request
from oneword.bounds.ranges import Box, Ellipsoid, Range
from oneword.maps.checkpoints import nothing_comes_back
from oneword.maps.last_steps import LastSteps, UnknownSteps, last_steps, units
from oneword.maps.selection import sees_no_constant
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.random import stream
from oneword.sets.constraints import Constraint

Rows = Int[Tensor, "p m"]
# Rows that nothing reaches are computed anew in batches of another size: what that may change, in units of the model's
# precision, in the embeddings and in each layer.
_ANEW_AT_FIRST, _ANEW = 4, 64


@Certificate.register(TransformerProbe)
def ceiling(probe: TransformerProbe, rows: Rows, within: Constraint, request: Request) -> Certificate:
    """The ceilings of these sets of rows; `kind` is "certificate" where the radius bounds the change."""
    try:
        made = _ceiling(probe, rows.cpu(), within, request.any_rows is not None)
    except UnknownSteps as why:
        return Certificate(None, f"no ceiling: {why}")
    if made.upper is not None and bool((request.found.double().cpu() > made.upper * (1 + 1e-6)).any()):
        # What a model's last steps are is tried out, not proved: a bound that was passed is none.
        return Certificate(
            None, "no ceiling: a search went beyond it, so this model's last steps are not what they seem"
        )
    return made


def _ceiling(probe: TransformerProbe, rows: Rows, within: Constraint, any_set: bool) -> Certificate:
    phi = probe.phi
    if phi.selection.module is not None:
        raise UnknownSteps("none is known for a part of a model")
    output = phi.selection.output
    if callable(output.reduce) and not output.unit_rows:
        raise UnknownSteps(f"none is known for {output.title}")
    moving, covers = _moving(phi, probe, rows, any_set)
    if output.unit_rows:
        return Certificate(_unit_rows(phi, probe, moving), covers, "ceiling")
    if phi.selection.source == "attention":
        return Certificate(_attention(phi, probe, moving), covers, "ceiling")
    try:
        steps = last_steps(phi, probe.X)
    except UnknownSteps:
        gain = _embedding_gain(phi, probe.X) if _embedded(phi) and not any_set else None
        if gain is None:
            raise
        upper = _embeddings(phi, probe, rows, within, gain)
        return Certificate(upper, "layer 0 moves by the change itself")
    with torch.no_grad():
        clean = phi.rows(probe.X[None])[0].double().cpu()
    if phi.selection.source != "logits" and len(clean) != probe.n:
        raise UnknownSteps("its rows are not those of the words")
    made = _Rows(phi, steps, clean)
    upper = made.logits(moving) if phi.selection.source == "logits" else made.pooled(phi.pooling, moving)
    # Where the mean of a row exceeds its spread by far (STEADY), a LayerNorm is lost in rounding, and so is its bound.
    centred = steps.norm is not None and steps.norm.centred
    name = str(phi.precision).removeprefix("torch.")
    return Certificate(upper, f"{covers} that {name} can normalise" if centred else covers, "ceiling")


def _anew(phi: TransformerFeatures) -> int:
    return _ANEW_AT_FIRST + _ANEW * phi.selection.layer


def _embedded(phi: TransformerFeatures) -> bool:
    """Whether φ is made of the embeddings alone."""
    return phi.selection.layer == 0 and phi.selection.source == "hidden"


def _moving(
    phi: TransformerFeatures, probe: TransformerProbe, rows: Rows, any_set: bool
) -> tuple[Bool[Tensor, "p n"], str]:
    """The rows of the text that may move when each set of rows changes, and which changes that covers."""
    at = torch.arange(probe.n)
    if _embedded(phi) and not any_set:
        if not _apart(phi, probe.X):
            raise UnknownSteps("words mix before its first layer")
        return (rows[:, :, None] == at).any(1), "ceiling: any change of these rows, of any size"
    if any_set or not phi.causal or not nothing_comes_back(phi.checkpoint.base, probe.X.to(phi.precision)):
        return torch.ones((len(rows), probe.n), dtype=torch.bool), "ceiling: any change of any words, of any size"
    first = rows.min(1).values
    return at >= first[:, None], "ceiling: any change of this word and of those after it, of any size"


class _Rows:
    """The rows that φ(X) is made of, and how far each of them can be moved."""

    def __init__(self, phi: TransformerFeatures, steps: LastSteps, clean: Tensor) -> None:
        self.range = _range(phi, steps)
        self.unit, self.fine = units(phi.precision)
        self.clean = clean if clean.ndim == 2 else clean[None]
        self.rounding = 0.0 if steps.norm is None else steps.norm.rounding
        if steps.weight is not None:
            self.rounding = self._through(steps.weight)
        self.anew = _anew(phi) * self.unit * self.clean.norm(dim=1)

    def _through(self, weight: Float[Tensor, "p d"]) -> float:
        """What rounding can add to a row after the last matrix: that of its input, of its sums and of its outputs."""
        norm = float(torch.linalg.vector_norm(weight, dtype=torch.float64))
        sums = weight.shape[1] * self.fine + self.unit
        return norm * (self.rounding + sums * self.range.size) + self.unit * float(self.clean.norm(dim=1).max())

    def hidden(self, moving: Bool[Tensor, "p n"]) -> Float[Tensor, " p"]:
        """‖H′ − H‖² ≤ Σ_j max_u ‖u − h_j‖² over the rows that move."""
        return self._each(moving).norm(dim=1)

    def _each(self, moving: Bool[Tensor, "p n"]) -> Float[Tensor, "p n"]:
        far = self.range.farthest(self.clean) + self.rounding
        return torch.where(moving, far, torch.minimum(far, self.anew))

    def logits(self, moving: Bool[Tensor, "p n"]) -> Float[Tensor, " p"]:
        """Of every word, of the last one, or of the text as a whole."""
        return self.hidden(moving if len(self.clean) == moving.shape[1] else moving.any(1, keepdim=True))

    def pooled(self, how: str | None, moving: Bool[Tensor, "p n"]) -> Float[Tensor, " p"]:
        if how is None:
            return self.hidden(moving)
        if how in ("cls", "last"):
            return self._each(moving)[:, 0 if how == "cls" else -1]
        n, count = moving.shape[1], moving.sum(1)
        still = (self.anew * ~moving).sum(1) / n
        if how == "mean":  # an average of points of a convex set is in it
            means = moving.double() @ self.clean / count[:, None]
            sums = 2 * (n * self.fine + self.unit) * self.range.size  # of the mean itself, before and after
            return count / n * (self.range.farthest(means) + self.rounding) + still + sums
        # A largest entry moves by no more than those that it is taken of, and than the largest of those that can move.
        entries = self.hidden(moving)
        if not isinstance(self.range, Ellipsoid) or self.range.weight is not None:
            return entries
        tops = torch.where(moving[:, :, None], self.clean, -torch.inf).amax(1)
        rounding = n**0.5 * (self.rounding + self.anew.max() * (count < n))
        return torch.minimum(entries, self.range.farthest_maximum(tops, count) + rounding)


def _range(phi: TransformerFeatures, steps: LastSteps) -> Range:
    softmax = phi.selection.source == "logits" and sees_no_constant(phi.checkpoint)
    weight = None if steps.weight is None else steps.weight.cpu()
    if steps.norm is None:
        assert weight is not None
        return Box(weight, steps.bias, softmax)
    return Ellipsoid(steps.norm.gain, steps.norm.shift, steps.norm.centred, weight, steps.bias, softmax)


def _unit_rows(phi: TransformerFeatures, probe: TransformerProbe, moving: Bool[Tensor, "p n"]) -> Float[Tensor, " p"]:
    """‖u'_j − u_j‖ ≤ 1 + ‖u_j‖ for rows of norm 1 at most, whatever the layers before do."""
    if probe.clean.ndim != 2 or len(probe.clean) != probe.n:
        raise UnknownSteps("its rows are not those of the words")
    rounding = 2 * probe.clean.shape[1] * torch.finfo(phi.dtype).eps  # of a sum of squares, before and after
    far = 1 + probe.clean.double().norm(dim=1).cpu() + rounding
    # Normalising a row doubles its relative rounding at most.
    anew = 2 * _anew(phi) * torch.finfo(phi.precision).eps + rounding
    return torch.where(moving, far, far.clamp_max(anew)).norm(dim=1)


def _attention(phi: TransformerFeatures, probe: TransformerProbe, moving: Bool[Tensor, "p n"]) -> Tensor:
    """‖a′_j − a_j‖² ≤ max(0, 1 − 2 min_l a_jl) + ‖a_j‖², l over the words that row j sees: a corner is farthest.

    Weights are at least 0 and sum to at most 1: some models leave a part of the attention to no word at all.
    """
    if probe.clean.shape[-2:] != (probe.n, probe.n):
        raise UnknownSteps("the rows of its attention are not those of the words")
    texts = torch.from_numpy(stream(0, "attention").standard_normal((4, *probe.X.shape))).to(probe.X)
    sizes = torch.tensor([0.1, 1e2, 1e4, 1e6]).to(texts)[:, None, None]
    with torch.no_grad():
        tried = phi(texts * sizes).reshape(-1, probe.n, probe.n).nan_to_num(0.0).double().cpu()
    a = probe.clean.double().cpu().reshape(-1, probe.n, probe.n)  # heads, rows, words
    # Many models take their softmax in float32, whatever they compute in.
    unit = max(torch.finfo(phi.precision).eps, torch.finfo(torch.float32).eps)
    rounding = 4 * unit + 2 * probe.n * torch.finfo(torch.float32).eps
    every = torch.cat([a, tried])
    if bool((every < 0).any()) or bool((every.sum(2) > 1 + rounding + probe.n * unit).any()):
        raise UnknownSteps("the rows of its attention are no shares of 1")
    # Some masks are large numbers, not infinite ones: then a row may see later words after all.
    later = torch.ones(probe.n, probe.n, dtype=torch.bool).triu(1)
    hidden = phi.causal and not bool(every[:, later].any())
    least = a.masked_fill(later, torch.inf).amin(2) if hidden else a.amin(2)
    far = ((1 - 2 * least).clamp_min(0) + a.square().sum(2)).sqrt() + rounding
    anew = torch.minimum(far, _anew(phi) * unit * a.norm(dim=2))
    each = torch.where(moving[:, None], far, anew)  # p, heads, rows
    return each.flatten(1).norm(dim=1)


# Layer 0 ------------------------------------------------------------------------------------------------------------


def _apart(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> bool:
    """Whether each row of layer 0 is made of one word alone, as far as a change of each word in turn shows."""
    same = X.expand(len(X), *X.shape).clone()
    at = torch.arange(len(X), device=X.device)
    changed = same.clone()
    changed[at, at] += 1 + X[at]
    with torch.no_grad():  # batches of one size: others may round differently
        moved = (phi.rows(changed) != phi.rows(same)).any(-1)
    return not bool(moved.masked_fill(torch.eye(len(X), dtype=torch.bool, device=X.device), False).any())


def _embedding_gain(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> float | None:
    """s where layer 0 is s·X and something that X does not change, as in decoders; None where it is more than that."""
    gains = []
    with torch.no_grad():
        before = phi.rows(X[None])[0].double()
        for change in (X, -0.5 * X.flip(0), 1 + X):
            after = phi.rows((X + change)[None])[0].double()
            wide = change.double()
            if after.shape != wide.shape:
                return None
            gain = float(((after - before) * wide).sum() / wide.square().sum())
            # Entry by entry, a few units of what was added up: a norm would be off by far more.
            rounding = 8 * torch.finfo(phi.precision).eps * (after.abs() + before.abs() + abs(gain) * wide.abs())
            if bool(((after - before - gain * wide).abs() > rounding).any()):
                return None
            gains.append(gain)
    spread = max(gains) - min(gains)
    return max(gains, key=abs) if spread <= 8 * torch.finfo(phi.precision).eps * max(map(abs, gains)) else None


def _embeddings(
    phi: TransformerFeatures, probe: TransformerProbe, rows: Rows, within: Constraint, gain: float
) -> Float[Tensor, " p"]:
    """Only the changed rows move, each by s·Δ: the radius bounds them."""
    with torch.no_grad():
        size = phi.rows(probe.X[None])[0].double().norm(dim=1).cpu()
    reach = within.reach(probe.X.double()).cpu()
    unit, fine = units(phi.precision)
    rounding = 16 * unit * (size + abs(gain) * reach)
    each, n = (abs(gain) * reach + rounding)[rows], probe.n
    if phi.pooling in (None, "max"):  # a largest entry moves by no more than the entries it is taken of
        return each.norm(dim=1)
    if phi.pooling == "mean":
        return each.sum(1) / n + 2 * (n * fine + unit) * float((size + abs(gain) * reach).max())
    at = 0 if phi.pooling == "cls" else n - 1
    return (each * (rows == at)).sum(1) + rounding[at]
