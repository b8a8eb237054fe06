"""Every claim turns at its limit: a world just inside it holds, one just beyond it fails.

Each world is made of the rows its claim reads and no others, with noise small enough for the interval to decide.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from oneword.experiments.claims import verdict
from oneword.experiments.rows import learning_rows
from tests.fake_results import results

NOISE = 0.002
NEW_TEXTS = 200  # shares of so many are known within 6 %
FAMILIES = {"": "corpus", "-gaussian": "gaussian", "-clustered": "clustered"}
TRAININGS = {"T4": "fine-tuned", "T5": "retrained"}

World = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Limit:
    """A claim, what of it is moved, the rows it reads, and the two worlds."""

    id: str
    what: str
    reads: dict[str, object]
    inside: World
    beyond: World


def noise(rows: pd.DataFrame) -> np.ndarray:
    return np.exp(NOISE * np.random.default_rng(0).standard_normal(len(rows)))


def law(rows: pd.DataFrame) -> pd.Series:
    """1+√(2d/k) at k = nd."""
    return 1 + np.sqrt(2 / rows["n"])


def power(exponent: float, level: float = 1.0, column: str = "value", finite_size: bool = False) -> World:
    def world(rows: pd.DataFrame) -> pd.DataFrame:
        value = level * rows["n"] ** exponent * noise(rows)
        return rows.assign(**{column: value * law(rows) if finite_size else value})

    return world


def scaled(factor: float, column: str = "value", **only: object) -> World:
    """Of the rows named by `only`, the column times a factor."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(**{column: rows[column].where(~chosen(rows, **only), rows[column] * factor)})

    return world


def then(first: World, second: World) -> World:
    return lambda rows: second(first(rows))


def predicted(level: float) -> World:
    return lambda rows: rows.assign(value=level * law(rows) / np.sqrt(rows["n"]) * noise(rows))


def by_depth(linear: float, bend: float = 0.0) -> World:
    def world(rows: pd.DataFrame) -> pd.DataFrame:
        growth = np.exp(linear * rows["depth"] + bend * rows["depth"] ** 2)
        return rows.assign(value=growth / np.sqrt(rows["n"]) * noise(rows))

    return world


def ratio(level: float) -> World:
    """ReLU-RAF over RAF at n = 100 alone; without certificates, searched values decide."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        relu = (rows["map"] == "attention-relu").astype(bool)
        value = np.where(relu, np.where(rows["n"] == 100, level, 0.5), 1.0) * noise(rows)
        return rows.assign(value=value, upper=np.nan)

    return world


def several(level: float) -> World:
    def world(rows: pd.DataFrame) -> pd.DataFrame:
        share = rows["changed"] / rows["n"]
        of = np.where(rows["changed"] == 12, level, 1.0)
        return rows.assign(value=of * np.sqrt(share) * (1 + np.sqrt(2 * share)) * noise(rows))

    return world


def one_above(factor: float) -> World:
    """One searched value at its certificate, times a factor."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["upper"].notna()].reset_index(drop=True)
        return rows.assign(value=rows["value"].where(rows.index != 7, rows["upper"] * factor))

    return world


def one_gap(gap: float) -> World:
    return lambda rows: rows.assign(identity_gap=np.where(np.arange(len(rows)) == 7, gap, 0.0))


def misfit(size: float) -> World:
    """One error of the table that is not the one of its identity."""
    return lambda rows: rows.assign(err=rows["err"] + np.where(np.arange(len(rows)) == 7, size, 0.0))


def floor_of_one(off: float) -> World:
    """One error of RF at its bound and so far off."""
    return lambda rows: rows.assign(err=np.where(np.arange(len(rows)) == 7, learning_rows(rows)["bound"] + off, 99.0))


def share_of(column: str, good: float, bad: float, share: float) -> World:
    """So large a share of the new texts with the good number, the others with the bad one."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(**{column: np.where(rows["sample"] < share * NEW_TEXTS, good, bad)})

    return world


def frontier_at(good: float, bad: float, share: float = 1.0) -> World:
    """Errors of the frontier at so many times the bound of RF at that n, with γ = g."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["objective"] == "frontier"]
        times = np.where(rows["sample"] < share * NEW_TEXTS, good, bad)
        return rows.assign(gamma=rows["g"], err=times * learning_rows(rows)["bound_at_g"])

    return world


def frontier_of(multiple: float) -> World:
    """Errors (2−g−cε)² with another multiple c of ε: 0 is the bare (2−g)², 1 the bound of RF."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["objective"] == "frontier"]
        return rows.assign(
            gamma=rows["g"], err=(2 - rows["g"] - multiple * learning_rows(rows)["slack"]).clip(lower=0) ** 2
        )

    return world


def drifting(by: float) -> World:
    """A frontier of RAF with γ that far above g."""
    return lambda rows: rows.assign(gamma=rows["g"] + by, err=0.5 * learning_rows(rows)["bound_at_g"])


def aligned(exponent: float) -> World:
    return lambda rows: rows.assign(alignment=1 - rows["n"] ** exponent * noise(rows))


def chosen(rows: pd.DataFrame, **conditions: object) -> pd.Series:
    mask = pd.Series(True, index=rows.index)
    for column, value in conditions.items():
        values = value if isinstance(value, tuple) else (value,)
        mask &= rows[column].isin(values)
    return mask


def curve(map_: str | tuple[str, ...], family: str = "corpus") -> dict[str, object]:
    return {"kind": "sensitivity", "map": map_, "changed": 1, "words_from": family}


def learnt(theorem: str, **more: object) -> dict[str, object]:
    return {"kind": "learning", "training": TRAININGS[theorem], **more}


def _sensitivity() -> list[Limit]:
    both = ("attention", "attention-relu")
    out = [
        Limit("T1-certified", "exponent", curve("rf"), power(-0.46, column="upper"), power(-0.44, column="upper")),
        Limit("T1-law", "from above", curve("rf"), power(-0.475, finite_size=True), power(-0.465, finite_size=True)),
        Limit("T1-law", "from below", curve("rf"), power(-0.525, finite_size=True), power(-0.535, finite_size=True)),
        Limit("T1-law-level", "from above", curve("rf"), predicted(1.045), predicted(1.055)),
        Limit("T1-law-level", "from below", curve("rf"), predicted(0.955), predicted(0.945)),
        Limit("T2-depth", "C", curve("drf"), by_depth(0.001), by_depth(-0.001)),
        Limit("T2-depth", "C of a bent curve", curve("drf"), by_depth(-0.03, 0.0035), by_depth(-0.03, 0.0025)),
        Limit("T2-exponential", "bend", curve("drf"), by_depth(0.05, -0.0005), by_depth(0.05, 0.0005)),
        Limit("T3-level", "one length", curve("attention"), scaled(1.01 / 3.6, n=100), scaled(0.9 / 3.9, n=100)),
        Limit("contrast", "ratio at one length", curve(both), ratio(0.99), ratio(1.01)),
        Limit("contrast-decay", "exponent", curve("attention-relu"), power(-0.26), power(-0.24)),
        Limit("m-words", "from below", {"kind": "sensitivity", "map": "rf", "d": 96}, several(0.905), several(0.895)),
        Limit("m-words", "from above", {"kind": "sensitivity", "map": "rf", "d": 96}, several(1.095), several(1.105)),
        Limit("certificates", "one row", {"kind": "sensitivity"}, one_above(1 - 1e-9), one_above(1 + 1e-9)),
    ]
    for name, family in FAMILIES.items():
        rf, drf, raf = (curve(map_, family) for map_ in ("rf", "drf", "attention"))
        deep = (
            then(power(-0.6), scaled_slope(-0.46 + 0.6, depth=4)),
            then(power(-0.6), scaled_slope(-0.44 + 0.6, depth=4)),
        )
        out += [
            Limit(f"T1{name}", "exponent", rf, power(-0.46), power(-0.44)),
            Limit(f"T2-decay{name}", "exponent of one depth", drf, *deep),
            Limit(f"T3{name}", "exponent", raf, power(-0.09, 3), power(-0.11, 3)),
            Limit(f"T3{name}", "median", raf, power(0, 1.02), power(0, 0.98)),
        ]
    return out


def scaled_slope(exponent: float, **only: object) -> World:
    """Of some rows, another exponent in n."""

    def world(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(value=rows["value"].where(~chosen(rows, **only), rows["value"] * rows["n"] ** exponent))

    return world


def _learning() -> list[Limit]:
    out = []
    for t in TRAININGS:
        rf, raf = learnt(t, map="rf"), learnt(t, map="attention")
        low_rf, low_raf = (learnt(t, map=map_, objective="lowest-alignment") for map_ in ("rf", "attention"))
        out += [
            Limit(f"{t}a", "gap that was measured", rf, one_gap(0.9e-9), one_gap(1.1e-9)),
            Limit(f"{t}a", "gap in the table", rf, misfit(0.9e-9), misfit(1.1e-9)),
            Limit(f"{t}b", "one error", rf, floor_of_one(1e-6), floor_of_one(-1e-6)),
            Limit(f"{t}c-rf", "share", low_rf, *(share_of("alignment", 0.95, 0.8, share) for share in (0.87, 0.73))),
            Limit(f"{t}c-rf", "F", low_rf, share_of("alignment", 0.901, 0, 1), share_of("alignment", 0.899, 0, 1)),
            Limit(f"{t}c-raf", "share", low_raf, *(share_of("alignment", 0.1, 0.5, share) for share in (0.87, 0.73))),
            Limit(f"{t}c-raf", "F", low_raf, share_of("alignment", 0.299, 0, 1), share_of("alignment", 0.301, 0, 1)),
            Limit(f"{t}d-rf", "share", rf, frontier_at(1.1, 0.9, 0.94), frontier_at(1.1, 0.9, 0.84)),
            Limit(f"{t}d-rf", "error", rf, frontier_at(1.0, 0), frontier_at(0.999, 0)),
            Limit(f"{t}d-rf", "ε", rf, frontier_of(0.99), frontier_of(1.01)),
            Limit(f"{t}d-raf", "share", raf, frontier_at(0.9, 1.1, 0.94), frontier_at(0.9, 1.1, 0.84)),
            Limit(f"{t}d-raf", "error", raf, frontier_at(0.999, 0), frontier_at(1.0, 0)),
            Limit(f"{t}d-raf", "ε: what RF does is not enough", raf, frontier_of(1.01), frontier_of(0.99)),
            Limit(f"{t}d-raf", "γ ≤ g", raf | {"objective": "frontier"}, drifting(0), drifting(1e-6)),
        ]  # fmt: skip
    lowest = learnt("T4", map="rf", objective="lowest-alignment")
    return [*out, Limit("T4-scaling", "exponent", lowest, aligned(-0.81), aligned(-0.79))]


LIMITS = [*_sensitivity(), *_learning()]


@pytest.fixture(scope="module")
def table():
    return results(samples=NEW_TEXTS)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.id}: {limit.what}")
def test_a_claim_holds_just_inside_its_limit_and_fails_just_beyond(table, limit):
    rows = table[chosen(table, **limit.reads)].reset_index(drop=True)
    rows = rows.astype({name: "float64" for name in rows.columns if pd.api.types.is_numeric_dtype(rows[name])})
    answers = [
        next(claim for claim in verdict(world(rows)) if claim.id == limit.id) for world in (limit.inside, limit.beyond)
    ]
    assert [claim.holds for claim in answers] == [True, False], answers


def test_every_claim_has_a_world_on_each_side_of_its_limit():
    assert {claim.id for claim in verdict(pd.DataFrame())} == {limit.id for limit in LIMITS}
