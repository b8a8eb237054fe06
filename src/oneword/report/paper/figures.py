"""The figures of the report: Fig. 1 to 5 of the paper, measured anew, and those that the paper does not have.

Each function takes the completed table and gives one figure. Every caption says which kind of number is drawn: searched
values are lower bounds on S, certificates are upper bounds, a bound curve is what the theorems say of RF.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from oneword.errors import FileFormatError
from oneword.maps import registry
from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, numbers
from oneword.report.looks import FAMILIES, KINDS, map_look, map_looks, step
from oneword.report.paper.parts import BOUND, figure_of, medians
from oneword.report.paper.series import (
    complete,
    first_family,
    of_kind,
    of_map,
    one_word,
    several_words,
    widest,
)
from oneword.report.paper.taught import taught
from oneword.report.table import shown

REFERENCE = Look("", "grey")
VACUOUS = 3.0  # certificates further than this above the value say nothing of it, and would flatten the picture
OTHER_SCORES = [map_ for map_ in registry.MAPS if map_.startswith("attention-") and map_ != "attention-relu"]
LENGTH, S = Axis("n, words in the text", log=True), Axis("word sensitivity S", log=True)
SYMBOLS = {"rf": "S_RF", "drf": "S_DRF", "attention": "S_RAF", "attention-relu": "S_ReLU-RAF"}  # of the paper


def figures(table: pd.DataFrame, fits: pd.DataFrame | None = None) -> list[Plot]:
    """Every figure; `fits` is what `experiments.rows.fits` makes of the same table (without it no slopes are shown)."""
    table = complete(table)
    curves = one_word(table)
    compared = every_score(curves)
    # Where all scores have a picture of their own, the others keep to those of the paper.
    papers = curves if compared.empty else curves[~curves["map"].isin(OTHER_SCORES)]
    return [
        contrast(papers, fits),
        random_features(curves, fits),
        attention(papers, fits),
        condition(curves),
        scores(compared, fits),
        families(curves, fits),
        mass(curves),
        kinds(curves),
        words(table),
        positions(curves),
        *taught(table),
        attention_maps(table),
    ]


def draw_all(table: pd.DataFrame, out: Path, fits: pd.DataFrame | None = None) -> list[Path]:
    """Draw every figure whose rows are there into `out`; `fits` adds slopes (see `experiments.rows.fits`)."""
    from oneword.plot.print import draw, save  # matplotlib takes a third of a second to import

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(f"expected a folder that can be made, got {out} ({error.strerror})") from None
    drawn = [figure for figure in figures(table, fits) if figure.panels]
    return [path for figure in drawn for path in save(draw(figure), out, figure.id)]


# Sensitivity against length


def contrast(curves: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """All maps in one picture."""
    marks: list[Mark] = []
    for map_, look in map_looks(curves["map"].dropna()).items():
        rows = _main(of_map(curves, map_))
        if map_ == "drf" and len(rows):
            rows = rows[rows["depth"] == rows["depth"].max()]
        if rows.empty:
            continue
        name = look.name if map_ != "drf" else f"{look.name}, L = {rows['depth'].max():g}"
        name += f", d = {rows['d'].max():g}{_one_position(rows)}"
        marks += _curve(rows, look, f"{name}{_slope(rows, fits)}", band=True)
        marks += _fit_line(rows, look, fits)
    marks += _references(marks)
    return figure_of(
        "contrast", [Panel("", _lengths(curves), S, tuple(marks))] if marks else [], "sensitivity of one changed word"
    )


def random_features(curves: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Fig. 2: RF by dimension, deep RF by depth."""
    return figure_of(
        "fig2-random-features",
        [
            *_ladder(of_map(curves, "rf"), "d", fits, "RF", (-0.5,)),
            *_ladder(_main(of_map(curves, "drf")), "depth", fits, "deep RF", (-0.5,)),
        ],
        "RF or deep RF",
    )


def attention(curves: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Fig. 3: softmax and ReLU attention by dimension."""
    panels = [
        panel
        for map_ in ("attention", "attention-relu", "attention-relu-unnormalised")
        for panel in _ladder(of_map(curves, map_), "d", fits, map_look(map_).name, (0.0, -0.5))
    ]
    return figure_of("fig3-attention", panels, "RAF or ReLU-RAF", share_y=True)


def scores(compared: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """Which score functions keep word sensitivity as the text grows."""
    marks: list[Mark] = []
    for map_, look in map_looks(compared["map"]).items():
        rows = of_map(compared, map_)
        if len(rows):
            marks += _curve(rows, look, f"{look.name}{_slope(rows, fits)}")
    title = f"d = {compared['d'].max():g}" if marks else ""
    panels = [Panel(title, _lengths(compared), S, (*marks, *_references(marks)))] if marks else []
    return figure_of("scores", panels, "three scores of attention at one d")


def every_score(curves: pd.DataFrame) -> pd.DataFrame:
    """Attention of one family of words, at the largest d where three scores were measured at two lengths or more."""
    rows = curves[curves["map"].str.startswith("attention", na=False)]
    rows = rows[rows["words_from"] == first_family(rows)]
    rows = rows[rows.groupby(["map", "d"])["n"].transform("nunique") > 1]
    rows = rows[rows.groupby("d")["map"].transform("nunique") > 2]
    return rows[rows["d"] == rows["d"].max()]


def families(curves: pd.DataFrame, fits: pd.DataFrame | None) -> Plot:
    """The claims hold whatever the words are."""
    panels = []
    for map_ in ("rf", "attention"):
        marks: list[Mark] = []
        for family, look in FAMILIES.items():
            rows = widest(of_map(curves, map_, family))
            if len(rows):
                marks += _curve(rows, look, f"{look.name}, d = {rows['d'].max():g}{_slope(rows, fits)}")
        if marks:
            panels.append(Panel(map_look(map_).name, _lengths(of_map(curves, map_)), _s(map_), tuple(marks)))
    return figure_of("families", panels if curves["words_from"].nunique() > 1 else [], "more than one family of words")


def kinds(curves: pd.DataFrame) -> Plot:
    """Certified, searched, real words, random changes: the numbers that must not be confused."""
    panels = []
    for map_ in ("attention", "attention-relu", "rf"):
        rows = _main(of_map(curves, map_))
        marks = []
        for column, look in KINDS.items():
            there = rows[rows[column] > 0]
            if len(there):
                n, middle = medians(there, column)
                marks.append(Mark("points", n, middle, look, look.name))
        if len(marks) > 1:
            panels.append(Panel(_title(map_, rows), _lengths(rows), _s(map_), tuple(marks)))
    return figure_of("kinds", panels, "certificates, real words or random changes beside searched values")


def mass(curves: pd.DataFrame) -> Plot:
    """The mechanism of T3: attention moves onto the changed word."""
    panels = []
    for map_ in ("attention", "attention-relu"):
        look = map_look(map_)
        rows = _main(of_map(curves[curves["mass_after"].notna()], map_))
        if len(rows):
            marks = [
                *_curve(rows, replace(REFERENCE, mark="circle"), "before the change", "mass_before"),
                *_curve(rows, look, "after the change", "mass_after"),
            ]
            axis = Axis("attention on word i", low=0, high=1)
            panels.append(Panel(_title(map_, rows), _lengths(rows), axis, tuple(marks)))
    return figure_of("mass", panels, "the attention on the changed word", share_y=True)


def condition(curves: pd.DataFrame) -> Plot:
    """The condition d/log⁴d = Ω(n) of T3, made visible."""
    rows = of_map(curves, "attention")
    rows = rows[rows["words_from"] == first_family(rows)]
    rows = rows.assign(per=rows["n"] / rows["d"])
    marks = []
    dimensions = sorted(rows["d"].unique())
    for index, d in enumerate(dimensions):
        look = step(index, len(dimensions))
        marks += _curve(rows[rows["d"] == d], look, f"d = {d:g}", x="per")
    axis = Axis("n/d, words over dimension", log=True)
    panel = Panel(map_look("attention").name, axis, replace(_s("attention"), low=1.0), tuple(marks))
    return figure_of("n-over-d", [panel] if marks else [], "RAF")


def words(table: pd.DataFrame) -> Plot:
    """Several words at once: what attention does with one, a layer does with a fixed share of the text."""
    rows = several_words(table)
    marks: list[Mark] = []
    for map_, look in map_looks(rows["map"].dropna()).items():
        some = _main(of_map(rows, map_))
        if some.empty:
            continue
        some = some[some["n"] == some["n"].max()]
        marks += _curve(some, look, f"{look.name}, n = {some['n'].max():g}, d = {some['d'].max():g}", x="changed")
        law = some.dropna(subset=["law"]).drop_duplicates("changed").sort_values("changed")
        if len(law):
            label = "√(m/n)(1+√(2md/k))"
            marks.append(Mark("line", numbers(law["changed"]), numbers(law["law"]), BOUND, label, dash="dash"))
    axis = Axis("m, words changed at once", log=True, at=numbers(sorted(rows["changed"].unique())))
    panel = Panel("", axis, replace(S, label="word sensitivity S^(m)"), tuple(marks))
    return figure_of("m-words", [panel] if marks else [], "several words changed at once")


def positions(curves: pd.DataFrame) -> Plot:
    """The sup over all positions beside the value at position 0, the only one the authors' script changes."""
    panels = []
    for map_ in ("attention", "attention-relu", "rf"):
        rows = _main(of_map(curves[curves["first"].notna() & (curves["positions"] == "all")], map_))
        if len(rows):
            marks = [
                *_curve(rows, map_look(map_), "all positions"),
                *_curve(rows, replace(REFERENCE, mark="circle"), "position 0 only", "first"),
            ]
            panels.append(Panel(_title(map_, rows), _lengths(rows), _s(map_), tuple(marks)))
    return figure_of("positions", panels, "values at position 0 alone")


# Fig. 1


def attention_maps(table: pd.DataFrame) -> Plot:
    """Fig. 1: the first attention layer of the encoder on two sentences that differ in one word."""
    rows = of_kind(table, "attention_map")
    panels = []
    for _, some in rows.groupby("sentence", sort=True):
        weights = (
            some.pivot(index="from_index", columns="to_index", values="weight").sort_index(axis=0).sort_index(axis=1)
        )
        tokens = some.drop_duplicates("from_index").sort_values("from_index")["from_token"]
        heat = Heat(tuple(map(str, tokens)), tuple(numbers(line) for line in weights.to_numpy()))
        panels.append(Panel(f"“{some['text'].iloc[0]}”", Axis("to"), Axis("from"), heat=heat))
    name = ", ".join(sorted(set(rows["encoder"].dropna())))
    return figure_of("fig1-attention-maps", panels, "attention maps", encoder=name)


# Parts


def _main(rows: pd.DataFrame) -> pd.DataFrame:
    """One family of words, at its largest dimension."""
    return widest(rows[rows["words_from"] == first_family(rows)])


def _s(map_: str) -> Axis:
    """The axis of S of one map."""
    return replace(S, label=f"word sensitivity {SYMBOLS.get(map_, 'S')}")


def _title(map_: str, rows: pd.DataFrame) -> str:
    return f"{map_look(map_).name}, d = {rows['d'].max():g}"


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
    rows = rows[rows["words_from"] == first_family(rows)]
    lengths = rows.groupby(by)["n"].nunique()
    values = sorted((lengths[lengths > 1] if (lengths > 1).any() else lengths).index)  # a lone length is no curve
    rows = rows[rows[by].isin(values)]
    marks: list[Mark] = []
    for index, value in enumerate(values):
        some = rows[rows[by] == value]
        name = f"{'d' if by == 'd' else 'L'} = {value:g}{_slope(some, fits)}"
        marks += _curve(some, step(index, len(values)), name, band=value == values[-1])
    if not marks:
        return []
    title += "" if by == "d" else f", d = {rows['d'].max():g}"
    title += _one_position(rows)
    return [Panel(title, _lengths(rows), _s(str(rows["map"].iloc[0])), (*marks, *_references(marks, slopes)))]


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
