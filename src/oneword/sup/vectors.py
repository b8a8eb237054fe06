"""The sup over a set of vectors: a lower bound by search, an upper bound by certificate."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.bounds.certificate import certificate
from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.progress import part, shares
from oneword.result import Sensitivity, numbers
from oneword.search.base import Found, Rows, Search, Status
from oneword.search.greedy import choose_words
from oneword.search.rounding import TOLERANCE, rounding
from oneword.sets.constraints import Constraint
from oneword.sup.task import Task, by_size, delta_of, rows_of, table_of
from oneword.text.context import Context


@dataclass(frozen=True, eq=False)
class Change:
    """A change of some words and what it attains, relative to ‖φ(X)‖."""

    positions: tuple[int, ...]
    value: float
    y: Float[Tensor, "rows d"]
    status: Status
    search: Search
    baseline: float
    floor: float  # the least value that rounding cannot explain; below it the value is 0 and nothing changes
    below: bool


def searched(probe: Probe, text: Context, spots: list[int], within: Constraint, task: Task) -> Sensitivity:
    """Every word by itself, or several at once; then the certificate."""
    each = _each_word(probe, text, spots, within, task)
    best = max(each, key=lambda change: change.value) if task.words == 1 else _jointly(probe, text, each, within, task)
    searched = time.monotonic()
    upper, uppers, how, kind = _certified(probe, text, each, best, within, task)
    rows = tuple(row for i in best.positions for row in text.rows[i])
    return Sensitivity(
        value=best.value,
        upper=upper,
        baseline=best.baseline,
        positions=best.positions,
        rows=rows,
        delta=delta_of(probe, rows, best.y),
        per_word=table_of(
            text,
            spots,
            value=[change.value for change in each],
            upper=[uppers.get(i, math.nan) for i in spots],
            baseline=[change.baseline for change in each],
        ),
        kind="searched",
        status=best.status,
        certificate=how,
        upper_kind=kind,
        provenance={
            "search": best.search.describe(),
            "certificate_seconds": time.monotonic() - searched,
            "rounding": {
                "floor": best.floor,
                "relative_error_at_the_floor": TOLERANCE,
                "positions_below": [change.positions[0] for change in each if change.below],
            },
        },
        deltas={change.positions[0]: delta_of(probe, text.rows[change.positions[0]], change.y) for change in each},
    )


def _each_word(probe: Probe, text: Context, spots: list[int], within: Constraint, task: Task) -> list[Change]:
    """The best change of every word by itself, in the order of `spots`."""
    changes: dict[int, Change] = {}
    groups = by_size(text, spots)
    heard = shares(task.progress, [task.searching.work(probe, len(members)) for members in groups])
    for members, progress in zip(groups, heard, strict=True):
        found = task.searching.run(
            probe,
            rows_of(text, probe, members),
            within,
            baseline=task.baseline,
            seed=task.seed,
            progress=progress,
        )
        each = _changes(probe, rows_of(text, probe, members), [(i,) for i in members], found, within)
        changes |= {change.positions[0]: change for change in each}
    return [changes[i] for i in spots]


def _changes(
    probe: Probe, rows: Rows, positions: list[tuple[int, ...]], found: Found, within: Constraint
) -> list[Change]:
    """What a search found, relative to ‖φ(X)‖; what rounding alone can explain counts as no change."""
    if not found.search.tested:
        _check(probe, rows, found, within)
    value = found.change2.clamp_min(0).sqrt() / probe.norm  # a Probe may count one direction as less than nothing
    random = found.baseline2.clamp_min(0).sqrt().mean(1) / probe.norm  # NaN where none were drawn
    digits = rounding(probe, rows, value, within, found.search.memory)
    below = digits.explains(value)
    x = probe.X[rows]
    y = torch.where(below[:, None, None], within.project(x, x), found.y)
    columns = (value.masked_fill(below, 0), random.masked_fill(below, math.nan), digits.floor)
    # A map of steps needs another remedy, unless Δ itself is lost.
    remedied = below if found.status is not Status.ZERO_GRADIENT else below & digits.lost
    statuses = [Status.ROUNDING if rounded else found.status for rounded in remedied.tolist()]
    lines = zip(positions, *map(numbers, columns), y, statuses, below.tolist(), strict=True)
    return [
        Change(at, value, new, status, found.search, mean, floor, under)
        for at, value, mean, floor, new, status, under in lines
    ]


def _check(probe: Probe, rows: Rows, found: Found, within: Constraint) -> None:
    """Refuse what a search of one's own cannot have found: rows outside of the set, a change that is not theirs."""
    who = type(found.search).__name__
    outside = float(within.violation(probe.X[rows], found.y).max())
    if outside > 1e-3:
        raise RangeError(
            f"expected {who} to give rows within the set, got one that is {outside:.2g} of its size outside"
        )
    best = int(found.change2.argmax())
    near = probe.near(tuple(rows[best].tolist()))
    made, said = float(near.change2(found.y[best][None], rows[best][None])), float(found.change2[best])
    rounding = (1e3 * torch.finfo(probe.X.dtype).eps * probe.norm) ** 2
    if abs(made - said) > 0.01 * made + rounding:
        raise RangeError(f"expected {who} to give the squared change of its rows, {made:.4g}, got {said:.4g}")


def _jointly(probe: Probe, text: Context, each: list[Change], within: Constraint, task: Task) -> Change:
    """Several words at once: chosen greedily, then searched together."""
    of_rows = {text.rows[change.positions[0]]: change for change in each}
    starts = {rows: change.y for rows, change in of_rows.items()}
    chosen, y = choose_words(probe, list(starts), starts, task.words, within, task.searching, task.progress)
    new_rows = dict(zip(chosen, y.split([len(word) for word in chosen]), strict=True))
    chosen.sort(key=lambda word: of_rows[word].positions)
    rows = torch.tensor([[row for word in chosen for row in word]], device=probe.X.device)
    # Beside the words changed one after the other: the best word alone, so that more words never do less.
    best = max(chosen, key=lambda word: of_rows[word].value)
    alone = [new_rows[word] if word == best else probe.X[list(word)] for word in chosen]
    alone[chosen.index(best)] = of_rows[best].y
    together = torch.cat([new_rows[word] for word in chosen])
    found = task.searching.run(
        probe,
        rows,
        within,
        starts=torch.stack([together, torch.cat(alone)])[None],
        baseline=task.baseline,
        seed=task.seed,
        progress=part(task.progress, 0.0, 1.0, "search, all at once"),
    )
    positions = tuple(of_rows[word].positions[0] for word in chosen)
    return _changes(probe, rows, [positions], found, within)[0]


def _certified(
    probe: Probe, text: Context, each: list[Change], best: Change, within: Constraint, task: Task
) -> tuple[float | None, dict[int, float], str, str]:
    """Upper bounds: of the result, and of each word where only one changes; what they rest on, and what they cover."""
    if task.certify is False:
        return None, {}, "no certificate: not asked for", "none"
    # What is relative to ‖φ(X)‖ inherits the rounding of that norm.
    norm = probe.norm / (1 + 100 * torch.finfo(probe.X.dtype).eps)
    certify = partial(certificate, effort=task.certify)
    if task.words > 1:
        rows = torch.tensor([[row for i in best.positions for row in text.rows[i]]], device=probe.X.device)
        sizes = sorted((len(text.rows[change.positions[0]]) for change in each), reverse=True)
        any_rows = sum(sizes[: task.words]) if task.words < len(each) else None
        attained = torch.tensor([best.value * probe.norm], dtype=torch.float64)
        made = certify(probe, rows, within, attained, any_rows=any_rows, progress=task.progress)
        made = made.check(attained, probe.X.dtype)
        return None if made.upper is None else float(made.upper[0]) / norm, {}, made.how, made.kind
    value = {change.positions[0]: change.value for change in each}
    uppers: dict[int, float] = {}
    hows: list[str] = []
    groups = by_size(text, list(value))
    for members, progress in zip(groups, shares(task.progress, [len(each) for each in groups]), strict=True):
        attained = torch.tensor([value[i] * probe.norm for i in members], dtype=torch.float64)
        made = certify(probe, rows_of(text, probe, members), within, attained, progress=progress)
        made = made.check(attained, probe.X.dtype)
        hows.append(made.how)
        if made.upper is None:
            return None, {}, made.how, made.kind
        uppers |= dict(zip(members, numbers(made.upper / norm), strict=True))
    return max(uppers.values()), uppers, ", ".join(dict.fromkeys(hows)), made.kind
