"""Exhaustive search: every allowed word at every position, so that what is found is the sup itself."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import Probe
from oneword.memory import batch_size
from oneword.progress import Progress, silent
from oneword.search.base import Rows
from oneword.search.substitution import STAGE, Outcome, Substitution
from oneword.sets.vocabulary import Replacements


@singledispatch
def exhaust(
    probe: Probe,
    rows: Rows,
    within: Replacements,
    *,
    memory: int = 1 << 28,
    progress: Progress = silent,
    some: Int[Tensor, " words"] | None = None,
) -> Outcome:
    """What each word of m tokens does in the place of each of these words (sets of m rows); `some`: these words only.

    Any map: each candidate through the Probe. Faster ways are registered by the type of the Probe.
    """
    change2, distance2 = [], []
    for count, row in enumerate(rows):
        near = probe.near(tuple(row.tolist()))
        Y = within.rows(row.cpu(), probe.d, probe.X.dtype, some).to(probe.X.device)
        parts = Y.split(batch_size(near.bytes_per_candidate(len(row)), memory))
        found = []
        for done, y in enumerate(parts):
            with torch.no_grad():
                found.append(near.change2(y, row.expand(len(y), -1)))
            progress(STAGE, (count + (done + 1) / len(parts)) / len(rows))
        change2.append(torch.cat(found))
        distance2.append((Y - probe.X[row]).square().sum((1, 2)))
    values = torch.stack(change2)
    return Outcome(values, torch.stack(distance2), torch.zeros_like(values, dtype=torch.bool))


one_by_one = exhaust.dispatch(Probe)


@exhaust.register(AttentionProbe)
def _by_substitution(
    probe: AttentionProbe, rows: Rows, within: Replacements, *, progress: Progress = silent, **options: Any
) -> Outcome:
    """Attention: all words of one token in a few matrix products; what may have cancelled is computed again."""
    if options.get("some") is not None or rows.shape[1] > 1 or probe.X.device.type != "cpu":
        return one_by_one(probe, rows, within, progress=progress, **options)
    places = rows[:, 0]
    substitution = Substitution(probe, places)
    words = within.affine(places, probe.d, probe.X.dtype)
    if words is None:
        table = within.rows(places[:1], probe.d, probe.X.dtype)[:, 0]
        out = substitution.everywhere(table, progress)
    else:
        out = substitution.placed(words, progress)
    for k in out.doubtful.any(1).nonzero()[:, 0].tolist():
        some = out.doubtful[k].nonzero()[:, 0]
        again = one_by_one(probe, rows[k : k + 1], within, **options | {"some": some})
        out.change2[k, some], out.distance2[k, some] = again.change2[0], again.distance2[0]
    return out
