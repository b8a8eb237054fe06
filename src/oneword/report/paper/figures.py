"""The figures of the report: Fig. 1 to 5 of the paper, measured anew, and those that the paper does not have.

Each function takes the rows of one figure, which `experiments.rows.figure_rows` chooses. Every caption says which kind
of number is drawn: searched values are lower bounds on S, certificates are upper bounds, a bound curve is what the
theorems say of RF.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from oneword.files import make_folder
from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, numbers
from oneword.report.looks import FAMILIES, KINDS, MAPS, maps_in, step
from oneword.report.paper import learning
from oneword.report.paper.parts import BOUND, figure_of, medians
from oneword.report.table import shown

REFERENCE = Look("", "grey")
VACUOUS = 3.0  # certificates further than this above the value say nothing of it, and would flatten the picture
LENGTH, S = Axis("n, words in the text", log=True), Axis("word sensitivity S", log=True)
SYMBOLS = {"rf": "S_RF", "drf": "S_DRF", "attention": "S_RAF", "attention-relu": "S_ReLU-RAF"}  # of the paper


def figures(rows: Mapping[str, pd.DataFrame], fits: pd.DataFrame | None = None) -> list[Plot]:
    """Every figure, from the rows of each (`experiments.rows.figure_rows`).

    `fits` is what `experiments.rows.fits` makes of the same table; without it no slopes are shown.
    """
    return [
        contrast(rows["contrast"], fits),
        random_features(rows["fig2-random-features"], fits),
        attention(rows["fig3-attention"], fits),
        condition(rows["n-over-d"]),
        scores(rows["scores"], fits),
        families(rows["families"], fits),
        mass(rows["mass"]),
        kinds(rows["kinds"]),
        words(rows["m-words"]),
        positions(rows["positions"]),
        learning.errors(rows["fig4-fine-tuned"], "fine-tuned"),
        learning.errors(rows["fig5-retrained"], "retrained"),
        learning.frontier(rows["frontier"]),
        learning.objectives(rows["objectives"]),
        attention_maps(rows["fig1-attention-maps"]),
    ]


def draw_all(rows: Mapping[str, pd.DataFrame], out: Path, fits: pd.DataFrame | None = None) -> list[Path]:
    """Draw every figure whose rows are there into `out`; `fits` adds slopes (see `experiments.rows.fits`)."""
    from oneword.plot.print import draw, save  # matplotlib takes a third of a second to import

    make_folder(out)
    drawn = [figure for figure in figures(rows, fits) if figure.panels]
    return [path for figure in drawn for path in save(draw(figure), out, figure.id)]


# Sensitivity against length


def contrast(rows: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """All maps in one picture."""
    marks: list[Mark] = []
    for look, some in maps_in(rows):
        name = look.name if some["depth"].isna().all() else f"{look.name}, L = {some['depth'].max():g}"
        name += f", d = {some['d'].max():g}{_one_position(some)}"
        marks += _curve(some, look, f"{name}{_slope(some, fits)}", band=True)
        marks += _fit_line(some, look, fits)
    marks += _references(marks)
    return figure_of(
        "contrast",
        "How S changes with the length of the text",
        "Dots are trials, marks their medians: searched, so lower bounds on S. Bands reach up to the median "
        "certificate, an upper bound, where it is less than three times the value. Dashed: fits of log S on log "
        "n over all trials. Dotted: the slopes −½ and 0, to compare with.",
        [Panel("", _lengths(rows), S, tuple(marks))] if marks else [],
        "sensitivity of one changed word",
    )


def random_features(rows: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Fig. 2: RF by dimension, deep RF by depth."""
    deep = rows["depth"].notna()
    return figure_of(
        "fig2-random-features",
        "Fig. 2: fully connected layers",
        "S of RF for each dimension d, and of deep RF for each depth L: searched, so lower bounds. Dots are "
        "trials, medians are joined; the band reaches up to the median certificate, an upper bound. Dotted: "
        "slope −½.",
        [*_ladder(rows[~deep], "d", fits, "RF", (-0.5,)), *_ladder(rows[deep], "depth", fits, "deep RF", (-0.5,))],
        "RF or deep RF",
    )


def attention(rows: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Fig. 3: softmax and ReLU attention by dimension."""
    return figure_of(
        "fig3-attention",
        "Fig. 3: attention layers",
        "S of attention with softmax and with ReLU for each dimension d: searched, so lower bounds. Dots are "
        "trials, medians are joined; at the largest d the band reaches up to the median certificate, an upper "
        "bound. Dotted: slopes 0 and −½.",
        [panel for look, some in maps_in(rows) for panel in _ladder(some, "d", fits, look.name, (0.0, -0.5))],
        "RAF or ReLU-RAF",
        share_y=True,
    )


def scores(rows: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Which score functions keep word sensitivity as the text grows."""
    marks: list[Mark] = []
    for look, some in maps_in(rows):
        marks += _curve(some, look, f"{look.name}{_slope(some, fits)}")
    title = f"d = {rows['d'].max():g}" if marks else ""
    return figure_of(
        "scores",
        "Which score functions keep word sensitivity",
        "S of attention whose weights come from the scores in six ways, for the same texts and the same W: "
        "softmax and sparsemax let one word draw all attention, the others do not. Dots are trials, marks their "
        "medians: searched, so lower bounds on S; slopes are fits of log S on log n over all trials. Dotted: "
        "slopes 0 and −½.",
        [Panel(title, _lengths(rows), S, (*marks, *_references(marks)))] if marks else [],
        "three scores of attention at one d",
    )


def families(rows: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """The claims hold whatever the words are."""
    panels = []
    for of_map, own in maps_in(rows):
        marks: list[Mark] = []
        for family, look in FAMILIES.items():
            some = own[own["words_from"] == family]
            if len(some):
                marks += _curve(some, look, f"{look.name}, d = {some['d'].max():g}{_slope(some, fits)}")
        panels.append(Panel(of_map.name, _lengths(own), _s(own), tuple(marks)))
    return figure_of(
        "families",
        "Real, Gaussian and clustered words",
        "The theorems assume nothing about how words are distributed: the same curves for each family of words "
        "at the largest d. Searched, so lower bounds on S.",
        panels,
        "more than one family of words",
    )


def kinds(rows: pd.DataFrame) -> Plot:
    """Certified, searched, real words, random changes: the numbers that must not be confused."""
    panels = []
    for of_map, own in maps_in(rows):
        marks = []
        for column, look in KINDS.items():
            there = own[own[column] > 0]
            if len(there):
                n, middle = medians(there, column)
                marks.append(Mark("points", n, middle, look, look.name))
        if len(marks) > 1:
            panels.append(Panel(f"{of_map.name}, d = {own['d'].max():g}", _lengths(own), _s(own), tuple(marks)))
    return figure_of(
        "kinds",
        "Kinds of number, side by side",
        "Medians over trials. The sup over the ball ‖Δ‖ ≤ √d lies between what was searched (a lower bound) and "
        "what is certified (an upper bound). Real words mostly lie outside that ball, at ‖Δ‖ of about 1.3 to "
        "1.4 √d, so neither bounds them; their changes are exact for the words that were tried.",
        panels,
        "certificates, real words or random changes beside searched values",
    )


def mass(rows: pd.DataFrame) -> Plot:
    """The mechanism of T3: attention moves onto the changed word."""
    panels = []
    for look, own in maps_in(rows):
        marks = [
            *_curve(own, replace(REFERENCE, mark="circle"), "before the change", "mass_before"),
            *_curve(own, look, "after the change", "mass_after"),
        ]
        axis = Axis("attention on word i", low=0, high=1)
        panels.append(Panel(f"{look.name}, d = {own['d'].max():g}", _lengths(own), axis, tuple(marks)))
    return figure_of(
        "mass",
        "Why softmax attention notices: where the attention goes",
        "The mean attention that all words pay to the changed word i, before and after the change that the "
        "search found. Exact for that change.",
        panels,
        "the attention on the changed word",
        share_y=True,
    )


def condition(rows: pd.DataFrame) -> Plot:
    """The condition d/log⁴d = Ω(n) of T3, made visible."""
    marks = []
    dimensions = sorted(rows["d"].unique())
    for index, d in enumerate(dimensions):
        marks += _curve(rows[rows["d"] == d], step(index, len(dimensions)), f"d = {d:g}", x="n_over_d")
    axis = Axis("n/d, words over dimension", log=True)
    return figure_of(
        "n-over-d",
        "S of RAF against n/d",
        "T3 asks for d/log⁴d = Ω(n). At widths below about 5,500, log⁴d is larger than d, so the condition is "
        "not met and what is seen here goes beyond the theorem. Drawn against n/d, the curves show from where "
        "on a text is too long for its dimension. Searched, so lower bounds on S.",
        [Panel(MAPS["attention"].name, axis, replace(_s(rows), low=1.0), tuple(marks))] if marks else [],
        "RAF",
    )


def words(rows: pd.DataFrame) -> Plot:
    """Several words at once: what attention does with one, a layer does with a fixed share of the text."""
    marks: list[Mark] = []
    for look, own in maps_in(rows):
        marks += _curve(own, look, f"{look.name}, n = {own['n'].max():g}, d = {own['d'].max():g}", x="changed")
        law = own.dropna(subset=["law"]).drop_duplicates("changed").sort_values("changed")
        if len(law):
            label = "√(m/n)(1+√(2md/k))"
            marks.append(Mark("line", numbers(law["changed"]), numbers(law["law"]), BOUND, label, dash="dash"))
    axis = Axis("m, words changed at once", log=True, at=numbers(sorted(rows["changed"].unique())))
    return figure_of(
        "m-words",
        "Changing several words at once",
        "S when m words may change, each by at most √d. Positions are chosen greedily, so these are lower "
        "bounds. Dashed: the prediction for RF, of which a constant share of the words must change; attention "
        "needs one.",
        [Panel("", axis, replace(S, label="word sensitivity S^(m)"), tuple(marks))] if marks else [],
        "several words changed at once",
    )


def positions(rows: pd.DataFrame) -> Plot:
    """The sup over all positions beside the value at position 0, the only one the authors' script changes."""
    panels = []
    for look, own in maps_in(rows):
        marks = [
            *_curve(own, look, "all positions"),
            *_curve(own, replace(REFERENCE, mark="circle"), "position 0 only", "first"),
        ]
        panels.append(Panel(f"{look.name}, d = {own['d'].max():g}", _lengths(own), _s(own), tuple(marks)))
    return figure_of(
        "positions",
        "All positions, or the first alone",
        "The sup of Eq. 1 is over positions too. Changing only position 0, the [CLS] token of a review, can "
        "only give less. Searched, so lower bounds.",
        panels,
        "values at position 0 alone",
    )


# Fig. 1


def attention_maps(rows: pd.DataFrame) -> Plot:
    """Fig. 1: the first attention layer of the encoder on two sentences that differ in one word."""
    panels = []
    for _, some in rows.groupby("sentence", sort=True):
        weights = (
            some.pivot(index="from_index", columns="to_index", values="weight").sort_index(axis=0).sort_index(axis=1)
        )
        tokens = some.drop_duplicates("from_index").sort_values("from_index")["from_token"]
        heat = Heat(tuple(map(str, tokens)), tuple(numbers(line) for line in weights.to_numpy()))
        panels.append(Panel(f"“{some['text'].iloc[0]}”", Axis("to"), Axis("from"), heat=heat))
    encoders = ", ".join(sorted(set(rows["encoder"].dropna())))
    return figure_of(
        "fig1-attention-maps",
        "Fig. 1: one word changes where a trained layer looks",
        f"Attention of the first layer of {encoders}, averaged over heads: from the word of the row to that of "
        "the column. Exact.",
        panels,
        "attention maps",
    )


# Parts


def _s(rows: pd.DataFrame) -> Axis:
    """The axis of S of one map."""
    return replace(S, label=f"word sensitivity {SYMBOLS.get(rows['map'].iloc[0], 'S')}")


def _one_position(rows: pd.DataFrame) -> str:
    return ", one position a trial" if (rows["positions"] == "one").all() else ""


def _lengths(rows: pd.DataFrame) -> Axis:
    return replace(LENGTH, at=numbers(sorted(rows["n"].unique())))


def _curve(
    rows: pd.DataFrame, look: Look, label: str, column: str = "value", x: str = "n", band: bool = False
) -> list[Mark]:
    """Trials as dots, medians joined; the band reaches from the medians up to those of the certificates."""
    at, middle = medians(rows, column, x)
    marks = []
    certified = rows[rows["upper"] <= VACUOUS * rows["value"]]
    if band and len(certified):
        low, top = medians(certified, "value", x), medians(certified, "upper", x)
        marks.append(Mark("band", low[0], low[1], look, top=top[1]))
    middles = Mark("points", at, middle, look, label)
    if len(rows) > len(at):
        marks.append(Mark("dots", numbers(rows[x]), numbers(rows[column]), look))
        trials = rows.groupby(x)[column]
        middles = replace(middles, low=numbers(trials.min()), high=numbers(trials.max()), interval="trials")
    return [*marks, middles]


def _ladder(
    rows: pd.DataFrame, by: str, fits: pd.DataFrame | None, title: str, slopes: tuple[float, ...]
) -> list[Panel]:
    """One panel: the curves of one map for each dimension or depth."""
    values = sorted(rows[by].unique())
    marks: list[Mark] = []
    for index, value in enumerate(values):
        some = rows[rows[by] == value]
        name = f"{'d' if by == 'd' else 'L'} = {value:g}{_slope(some, fits)}"
        marks += _curve(some, step(index, len(values)), name, band=value == values[-1])
    if not marks:
        return []
    title += "" if by == "d" else f", d = {rows['d'].max():g}"
    title += _one_position(rows)
    return [Panel(title, _lengths(rows), _s(rows), (*marks, *_references(marks, slopes)))]


def fit_of(rows: pd.DataFrame, fits: pd.DataFrame | None) -> pd.Series | None:
    """The fit through one curve, if there is one."""
    if fits is None:
        return None
    first = rows.iloc[0]
    same = (fits["map"] == first["map"]) & (fits["words_from"] == first["words_from"]) & (fits["d"] == first["d"])
    same &= fits["depth"].isna() if np.isnan(first["depth"]) else fits["depth"] == first["depth"]
    return fits[same].iloc[0] if same.any() else None


def _slope(rows: pd.DataFrame, fits: pd.DataFrame | None) -> str:
    fit = fit_of(rows, fits)
    if fit is None:
        return ""
    half = (fit["high"] - fit["low"]) / 2
    return f": slope {shown(fit['slope'])}" + (f" ± {half:.3f}" if np.isfinite(half) else "")


def _fit_line(rows: pd.DataFrame, look: Look, fits: pd.DataFrame | None) -> list[Mark]:
    fit = fit_of(rows, fits)
    if fit is None:
        return []
    ends = np.array([fit["n_low"], fit["n_high"]])
    return [Mark("line", numbers(ends), numbers(np.exp(fit["intercept"]) * ends ** fit["slope"]), look, dash="dash")]


def _references(marks: list[Mark], slopes: tuple[float, ...] = (0.0, -0.5)) -> list[Mark]:
    """Slopes to compare with, below the curves where they do not hide them."""
    lines = [mark for mark in marks if mark.form == "points"]
    if not lines:
        return []
    n = np.array([min(min(mark.x) for mark in lines), max(max(mark.x) for mark in lines)])
    names = {0.0: "slope 0", -0.5: "slope −½"}
    # The slope −½ starts under the lowest curve that begins first, the slope 0 at S = 1.
    start = min(mark.y[0] * (mark.x[0] / n[0]) ** 0.5 for mark in lines)
    level = {0.0: np.ones(2), -0.5: 0.8 * start * (n / n[0]) ** -0.5}
    return [Mark("line", numbers(n), numbers(level[slope]), REFERENCE, names[slope], dash="dot") for slope in slopes]
