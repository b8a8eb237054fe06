"""Every claim: what the paper proves (T1 to T5) and what this project predicts, against a table of results.

Every claim is judged from the rows alone. T1 is an upper bound on a sup of which a search sees only a lower bound, so
it is put to the certificates too. The theorems and the limits below are those of the paper and of `theory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from oneword import theory
from oneword.errors import NonFiniteError, RangeError
from oneword.experiments.judging import (
    CannotTell,
    Claim,
    Finding,
    about,
    each,
    few_positions,
    judged,
    listed,
    main_curve,
    need,
    need_finite,
    paired,
    slope,
)
from oneword.experiments.rows import complete, learning_rows, of_kind, of_map, one_word, several_words, widest, width
from oneword.report.looks import FAMILIES
from oneword.report.table import shown
from oneword.statistics import Estimate, above, all_of, at_least, at_most, below, inside, mean, per_layer, share

DECAY = -0.45  # T1, T2: an exponent at or below this is 1/√n; at these sizes the finite-size factor pulls it to −0.57
LAW, LAW_WIDTH, LAW_LEVEL = -0.5, 0.03, 0.05
LAW_FROM = 50  # the law is a limit: 7 % off at n = 10, 1 to 2 % from here on
CONSTANT = -0.1  # T3: an exponent above this is no decay
FALLS = -0.25  # ReLU attention: an exponent below this is a decay
SEVERAL = 0.10  # a limit as well, approached from below: 4 % off at d = 192, 7 % at d = 64 (n = 50)
IDENTITY = 1e-9
FIG2, RATIO = "fig2-random-features", "n-over-d"
UNLEARNT = 0.25  # |1 − yf| below this: the old model knows the new text, and alignment decides little
RF_ALIGNED, RAF_ALIGNED, MOST = 0.9, 0.3, 0.8
FRONTIER_UP_TO, NEARLY_ALL = 1.0, 0.9
ALIGNMENT_FALLS, ALIGNMENT_LENGTHS = -0.8, 4


_DECAY, _EXACT = f"exponent ≤ {shown(DECAY, 2)}", "measured over predicted"
_MOST, _NEARLY_ALL = (f"≥ {100 * limit:g} % of new texts" for limit in (MOST, NEARLY_ALL))
_LEAST = f"its least Err under γ ≤ g, at every g ≤ {FRONTIER_UP_TO:g}"
_SLOWEST = "growth of log S per layer, deepest step minus shallowest"

# By its id: what is claimed, what is predicted, and the figure that shows it (of reviews, if each family is judged).
CLAIMS = {
    "T1": ("S of RF decays at least as fast as 1/√n", _DECAY, FIG2),
    "T1-certified": ("the certified upper bound for RF decays at least as fast as 1/√n", _DECAY, FIG2),
    "T1-law": ("S of RF divided by 1+√(2d/k) is proportional to 1/√n", f"exponent {shown(LAW, 2)} ± {LAW_WIDTH}", FIG2),
    "T1-law-level": (f"S of RF equals (1+√(2d/k))/√n: {_EXACT}", f"1 ± {LAW_LEVEL}", FIG2),
    "T2-decay": ("S of deep RF decays at least as fast as 1/√n at every depth", _DECAY, FIG2),
    "T2-depth": ("S of deep RF grows with depth: C of log S = a + C·L + b·log n", "C > 0", FIG2),
    "T2-exponential": (f"S of deep RF grows no faster than e^{{CL}}: {_SLOWEST}", "≤ 0", FIG2),
    "T3": ("S of RAF does not decay with n, and its median is at least 1", f"exponent > {shown(CONSTANT, 2)}", RATIO),
    "T3-level": ("S of RAF is at least 1 at every length, on average", "S ≥ 1", RATIO),
    "contrast": ("S of ReLU-RAF is below S of RAF at every n: the ratio at the largest n", "ratio < 1", "contrast"),
    "contrast-decay": ("the searched S of ReLU-RAF decays with n", f"exponent < {shown(FALLS, 2)}", "fig3-attention"),
    "m-words": (f"S of RF when m words change is √(m/n)(1+√(2md/k)): {_EXACT}", f"1 ± {SEVERAL}", "m-words"),
    "certificates": ("no searched value exceeds its certificate", "all rows", "kinds"),
    "T4-scaling": ("fine-tuned: 1 − min F of RF falls like 1/n", f"exponent ≤ {shown(ALIGNMENT_FALLS, 2)}", ""),
}
# The parts of T4 and T5; without a figure it is that of the theorem.
LEARNING = {
    "a": ("Err = (2 + yδ + (F−1)(1−yf))²; largest gap", "≤ 10⁻⁹", ""),
    "b": ("RF keeps Err ≥ max(0, 2−γ−ε)²", "all rows", ""),
    "c-rf": (f"no change of one word brings the alignment F of RF below {RF_ALIGNED}", _MOST, ""),
    "c-raf": (f"a change of one word brings F of RAF to {RAF_ALIGNED} or less", _MOST, ""),
    "d-rf": (f"RF keeps {_LEAST}, at max(0, 2−g−ε)² or above", _NEARLY_ALL, "frontier"),
    "d-raf": (f"RAF brings {_LEAST}, below max(0, 2−g−ε)², which RF keeps", _NEARLY_ALL, "frontier"),
}


def verdict(table: pd.DataFrame) -> list[Claim]:
    """Every claim, in the order of the theorems; `holds` is None where the table cannot tell."""
    table = complete(table)
    curves = one_word(table)
    rf, drf, soft, relu = (of_map(curves, name) for name in ("rf", "drf", "attention", "attention-relu"))
    return [
        *_families("T1", _decay, rf, "RF rows"),
        _judged("T1-certified", _decay, rf[rf["upper"].notna()], "RF rows with a certificate", "upper"),
        _judged("T1-law", _law, rf),
        _judged("T1-law-level", _law_level, rf),
        *_families("T2-decay", _deep_decay, drf, "deep RF rows", others=""),
        _judged("T2-depth", _depth, drf),
        _judged("T2-exponential", _exponential, drf),
        *_families("T3", _constant, soft, "RAF rows"),
        _judged("T3-level", _level, soft),
        _judged("contrast", _contrast, relu, soft),
        _judged("contrast-decay", _contrast_decay, relu),
        _judged("m-words", _several, table),
        _judged("certificates", _certificates, table),
        *_learning(table, "T4", "fine-tuned", "fig4-fine-tuned"),
        _judged("T4-scaling", _alignment_scaling, table),
        *_learning(table, "T5", "retrained", "fig5-retrained"),
    ]


def _judged(name: str, judge: Callable[..., Finding], *given: object) -> Claim:
    return judged(name, *CLAIMS[name], judge, *given)


def _families(
    name: str, judge: Callable[..., Finding], rows: pd.DataFrame, what: str, others: str = "families"
) -> Iterator[Claim]:
    """The claim for each family of words; `others` is the figure of those that are not reviews."""
    claim, predicted, figure = CLAIMS[name]
    for family, look in FAMILIES.items():
        own, asked = rows[rows["words_from"] == family], f"{what} with words_from = {family}"
        full, shown_by = (name, figure) if family == "corpus" else (f"{name}-{family}", others)
        yield judged(full, f"{claim} ({look.name})", predicted, shown_by, judge, own, asked)


# Random features: T1, T2 and the laws


def _decay(rows: pd.DataFrame, what: str, column: str = "value") -> Finding:
    rows = main_curve(rows, what)
    fitted = slope(rows, column)
    return Finding(fitted, at_most(fitted, DECAY), about(rows), within=few_positions(rows))


def _law(rf: pd.DataFrame) -> Finding:
    rows = main_curve(rf, "RF rows")
    fitted = slope(rows.assign(scaled=rows["value"] / theory.rf_finite_size(rows["d"], width(rows))), "scaled")
    holds = inside(fitted, LAW - LAW_WIDTH, LAW + LAW_WIDTH)
    return Finding(fitted, holds, about(rows), within=few_positions(rows))


def _law_level(rf: pd.DataFrame) -> Finding:
    rows = main_curve(rf[rf["n"] >= LAW_FROM], f"RF rows with n ≥ {LAW_FROM}")
    level = paired(rows["value"], theory.rf_finite_size(rows["d"], width(rows)) / np.sqrt(rows["n"]))
    holds = inside(level, 1 - LAW_LEVEL, 1 + LAW_LEVEL)
    return Finding(level, holds, about(rows), within=few_positions(rows))


def _deep_decay(drf: pd.DataFrame, what: str) -> Finding:
    rows = main_curve(drf, what)
    depths = {depth: slope(some) for depth, some in each(rows, "depth").items()}
    if not depths:
        raise CannotTell("no deep RF rows with a depth")
    slowest = max(depths, key=lambda depth: depths[depth].value)
    holds = all_of(at_most(fitted, DECAY) for fitted in depths.values())
    note = f"slowest of L = {listed(depths)}: L = {slowest}; {about(rows)}"
    return Finding(depths[slowest], holds, note, len(depths), few_positions(rows))


def _depth(drf: pd.DataFrame) -> Finding:
    rows, rate, _ = _per_layer(drf)
    note = f"L = {listed(each(rows, 'depth'))}; b = {shown(slope(rows).value)}; {about(rows)}"
    return Finding(rate, above(rate, 0), note, within=few_positions(rows))


def _exponential(drf: pd.DataFrame) -> Finding:
    rows, _, rise = _per_layer(drf)
    depths = list(each(rows, "depth"))
    steps = f"L = {depths[-2]} to {depths[-1]} minus L = {depths[0]} to {depths[1]}"
    return Finding(rise, at_most(rise, 0), f"{steps}; {about(rows)}", within=few_positions(rows))


def _per_layer(drf: pd.DataFrame) -> tuple[pd.DataFrame, Estimate, Estimate]:
    """The rows of deep RF, their growth per layer, and how much that growth rises with depth."""
    rows = main_curve(drf, "deep RF rows")
    try:
        return rows, *per_layer(rows)
    except RangeError:
        raise CannotTell("no deep RF rows of three depths") from None
    except NonFiniteError as error:
        raise CannotTell(str(error)) from None


# Attention: T3, the contrast with ReLU, several words, certificates


def _constant(soft: pd.DataFrame, what: str) -> Finding:
    rows = main_curve(soft, what)
    fitted = slope(rows)
    median = float(rows["value"].median())
    holds = all_of([above(fitted, CONSTANT), median >= 1])
    return Finding(fitted, holds, f"median S ≥ {shown(median, 2)}; {about(rows)}", within=_beyond_theorem(rows))


def _level(soft: pd.DataFrame) -> Finding:
    rows = main_curve(soft, "RAF rows")
    lengths = {n: mean(some["value"]) for n, some in each(rows, "n").items()}
    lowest = min(lengths, key=lambda n: lengths[n].value)
    holds = all_of(at_least(found, 1) for found in lengths.values())
    note = f"lowest mean over n, at n = {lowest}; {about(rows)}"
    return Finding(lengths[lowest], holds, note, len(lengths), _beyond_theorem(rows))


def _beyond_theorem(rows: pd.DataFrame) -> str:
    """Whether d/log⁴d = Ω(n), which T3 asks for, can mean anything at these sizes: below 1 it is met by no text."""
    d = float(rows["d"].max())
    asked = theory.log4(d)
    if asked <= d:
        return ""
    return (
        f"observed beyond the theorem, whose condition d/log⁴d = Ω(n) is not met: log⁴d = {asked:.0f} > d = {d:g} "
        "(figure n-over-d)"
    )


def _contrast(relu: pd.DataFrame, soft: pd.DataFrame) -> Finding:
    relu = main_curve(relu, "ReLU-RAF rows")
    both = relu.merge(soft, on=["words_from", "d", "n", "trial"], suffixes=("_relu", "_softmax"))
    need(both, "RAF rows of the same n, d and trials as those of ReLU-RAF")
    # Certificates settle it where they suffice: no search, however long, could bring ReLU above softmax there.
    certified = bool((both["upper_relu"] < both["value_softmax"]).all())
    column = "upper_relu" if certified else "value_relu"
    lengths = {n: paired(some[column], some["value_softmax"]) for n, some in each(both, "n").items()}
    longest, highest = max(lengths), max(found.value for found in lengths.values())
    holds = certified or all_of(below(found, 1) for found in lengths.values())
    kind = "certified bound over searched value" if certified else "searched values"
    note = f"{kind}, at n = {longest}; largest mean ratio over all n: {shown(highest)}; {about(relu)}"
    return Finding(lengths[longest], holds, note, 0 if certified else len(lengths))


def _contrast_decay(relu: pd.DataFrame) -> Finding:
    rows = main_curve(relu, "ReLU-RAF rows")
    fitted = slope(rows)
    return Finding(fitted, below(fitted, FALLS), about(rows))


def _several(table: pd.DataFrame) -> Finding:
    rows = need(of_map(several_words(table), "rf"), "RF rows with several words changed at once")
    need_finite(rows, "value")
    cases = {
        (n, d, m): paired(some["value"], some["law"])
        for n, of_n in each(rows, "n").items()
        for d, of_d in each(of_n, "d").items()
        for m, some in each(of_d, "changed").items()
    }
    n, d, m = max(cases, key=lambda case: abs(cases[case].value - 1))
    holds = all_of(inside(case, 1 - SEVERAL, 1 + SEVERAL) for case in cases.values())
    note = f"furthest of {len(cases)} sizes: m = {m} at n = {n}, d = {d}"
    return Finding(cases[n, d, m], holds, note, len(cases))


def _certificates(table: pd.DataFrame) -> Finding:
    rows = pd.concat([of_kind(table, "sensitivity"), of_kind(table, "review")])
    rows = need(rows[rows["upper"].notna()], "rows with a certificate")
    kept = share(need_finite(rows, "value")["value"] <= rows["upper"])
    return Finding(kept, kept.value == 1, f"{kept.count} rows", 0)


# Learning a one-word change: T4, T5


def _learning(table: pd.DataFrame, theorem: str, training: str, figure: str) -> list[Claim]:
    rows = learning_rows(table)
    rows = rows[rows["training"] == training]

    def of(map_: str, objective: str | None = None) -> pd.DataFrame:
        """All rows of a map; of one objective, those at the largest d."""
        some = rows[rows["map"] == map_]
        some = some if objective is None else widest(some[some["objective"] == objective])
        return need(some, f"{training} rows with map = {map_}" + (f", objective = {objective}" if objective else ""))

    def identity() -> Finding:
        need_finite(need(rows, f"{training} rows"), "identity_gap", *_IDENTITY_OF)
        largest = float(np.maximum(rows["identity_gap"].abs(), identity_gap(rows)).max())
        gap = Estimate(largest, math.nan, math.nan, len(rows))
        return Finding(gap, largest <= IDENTITY, f"largest of {len(rows)} rows", 0)

    def bound() -> Finding:
        rf = need_finite(of("rf"), "err", "gamma", "residual", "n", "d")
        met = share(rf["err"] >= rf["bound"] - IDENTITY)
        return Finding(met, met.value == 1, f"every objective; {_setting(rf)}", 0, few_positions(rf))

    def aligned(lowest: Callable[[], pd.DataFrame], good: Callable[[pd.Series], pd.Series]) -> Finding:
        some = need_finite(lowest(), "residual", "alignment")
        asked = need(some[some["residual"].abs() >= UNLEARNT], f"{training} new texts with |1−yf| ≥ {UNLEARNT}")
        found = share(good(asked["alignment"]))
        smallest, largest = asked["alignment"].min(), asked["alignment"].max()
        note = f"min F from {shown(smallest)} to {shown(largest)}; {_setting(asked)}"
        return Finding(found, at_least(found, MOST), note, within=few_positions(asked))

    def lowest_rf() -> pd.DataFrame:
        some = of("rf", "lowest-alignment")
        return some[some["n"] == some["n"].max()]  # F → 1 as n grows: short texts only show how (T4-scaling)

    def frontier(map_: str, good: Callable[[pd.Series, pd.Series], pd.Series]) -> Finding:
        points = of(map_, "frontier")
        points = need(points[points["g"] <= FRONTIER_UP_TO], f"frontier points with g ≤ {FRONTIER_UP_TO}")
        bound = need_finite(points, "err", "gamma", "bound_at_g")["bound_at_g"]
        kept = (points["gamma"] <= points["g"] + IDENTITY) & good(points["err"], bound)
        sample = [points[name] for name in ("n", "d", "trial", "sample")]
        found = share(kept.groupby(sample).all())
        share_below = float((points["err"] < theory.error_bound(points["g"])).mean())
        note = f"{100 * share_below:.0f} % of points below the bare (2−g)²; {_setting(points)}"
        return Finding(found, at_least(found, NEARLY_ALL), note, within=few_positions(points))

    def claim(part: str, judge: Callable[..., Finding], *given: object) -> Claim:
        text, predicted, own_figure = LEARNING[part]
        return judged(f"{theorem}{part}", f"{training}: {text}", predicted, own_figure or figure, judge, *given)

    return [
        claim("a", identity),
        claim("b", bound),
        claim("c-rf", aligned, lowest_rf, lambda f: f >= RF_ALIGNED),
        claim("c-raf", aligned, lambda: of("attention", "lowest-alignment"), lambda f: f <= RAF_ALIGNED),
        claim("d-rf", frontier, "rf", lambda err, bound: err >= bound - IDENTITY),
        claim("d-raf", frontier, "attention", lambda err, bound: err < bound),
    ]


def _alignment_scaling(table: pd.DataFrame) -> Finding:
    rows = widest(of_map(learning_rows(table, "lowest-alignment"), "rf"))
    rows = need(rows[rows["training"] == "fine-tuned"], "RF rows with objective = lowest-alignment")
    fitted = slope(rows.assign(off=(1 - rows["alignment"]).abs()), "off", ALIGNMENT_LENGTHS)
    return Finding(fitted, at_most(fitted, ALIGNMENT_FALLS), about(rows), within=few_positions(rows))


_IDENTITY_OF = ("err", "label", "signed_delta", "alignment", "residual")


def identity_gap(rows: pd.DataFrame) -> pd.Series:
    """|Err − (2 + yδ + (F−1)(1−yf))²| from the numbers of the table: what was written is consistent too."""
    exact = theory.error(rows["label"], rows["signed_delta"], rows["alignment"], rows["residual"])
    gap: pd.Series = (rows["err"] - exact).abs()
    return gap


def _setting(rows: pd.DataFrame) -> str:
    """Sizes, and what T5 needs beside them: few texts against the features, a kernel well away from singular."""
    if (rows["training"] == "fine-tuned").all():
        return about(rows)
    few, small = (rows["N"] / width(rows)).max(), rows["lambda_min_over_k"].min()
    return f"{about(rows)}; N/k ≤ {shown(few)}, λ_min(K)/k ≥ {shown(small)}"
