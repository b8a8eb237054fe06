"""The sup over a finite set of words: each tried wherever it fits, so that it is exact over what was tried."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch

from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.progress import shares
from oneword.result import Sensitivity, Substitutions
from oneword.search.base import Status
from oneword.search.exhaustive import exhaust
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task, by_size, delta_of, rows_of, table_of
from oneword.text.context import Context


def tried(probe: Probe, text: Context, spots: list[int], within: Replacements, task: Task) -> Sensitivity:
    """Words that have as many tokens as no word of the set stay out of it: their value is NaN."""
    if task.words > 1:
        raise RangeError(f"expected one word at a time with a finite set of words, got words={task.words}: use a Ball")
    within.check(text)
    covered = Coverage.of(within, [(text, {i: i for i in spots})]).check(within)
    values: dict[int, np.ndarray] = {}
    distances: dict[int, np.ndarray] = {}
    forms: dict[int, Replacements] = {}
    groups = [pair for group in by_size(text, spots) for pair in within.fitting(text, group)]
    pairs = [len(members) * len(form.names[len(text.rows[members[0]])]) for form, members in groups]
    for (form, members), progress in zip(groups, shares(task.progress, pairs), strict=True):
        rows = rows_of(text, probe, members)
        forms |= dict.fromkeys(members, form)
        found = exhaust(probe, rows, form, memory=task.searching.memory, progress=progress)
        values |= zip(members, (found.change2.clamp_min(0).sqrt() / probe.norm).cpu().numpy(), strict=True)
        relative = (found.distance2.clamp_min(0) / probe.length2(rows)[:, None]).sqrt()
        distances |= zip(members, relative.cpu().numpy(), strict=True)
    words = {i: form.names[len(text.rows[i])] for i, form in forms.items()}
    every = Substitutions(words, values, distances, {i: len(text.rows[i]) for i in values})
    tops = {i: int(found.argmax()) for i, found in values.items()}
    best = max(tops, key=lambda i: float(values[i][tops[i]]))
    chosen = torch.tensor([tops[best]])
    y = forms[best].rows(torch.tensor(text.rows[best]), probe.d, probe.X.dtype, chosen)[0].to(probe.X.device)
    value = [float(values[i][tops[i]]) if i in tops else math.nan for i in spots]
    names = [words[i][tops[i]] if i in tops else None for i in spots]
    table = table_of(
        text,
        spots,
        value=value,
        upper=value,
        baseline=[float(values[i].mean()) if i in values else math.nan for i in spots],
        # As objects: pandas would turn the None of a word that nothing can replace into NaN.
        replacement=pd.Series(names, dtype=object),
        distance=[float(distances[i][tops[i]]) if i in tops else math.nan for i in spots],
    )
    return Sensitivity(
        value=float(values[best].max()),
        upper=float(values[best].max()),
        baseline=float(values[best].mean()),
        positions=(best,),
        rows=text.rows[best],
        delta=delta_of(probe, text.rows[best], y),
        per_word=table,
        kind="exact",
        status=Status.EXACT,
        certificate=f"exact over the {covered.pairs:,} (position, word) pairs tried, from {within.describe()['shown']}",
        upper_kind="exact",
        provenance={"tried": covered.to_dict()},
        substitutions=every,
    )
