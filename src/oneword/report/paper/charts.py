"""The plots as plotly specifications: plain values, drawn by the page itself.

Colours are names of the palette that begin with @; the page puts in those for light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from oneword.plot import Axis, Mark, Panel, Plot
from oneword.plot.description import shared, span, ticks

SYMBOLS = {"dash": "line-ew-open", "dot": "circle"}
FAINT = "+33"  # the alpha of a band, in hexadecimal
DASHES = {"solid": "solid", "dash": "6px,3px", "dot": "1px,3px"}


def charts(plot: Plot) -> list[dict[str, Any]]:
    """One specification a panel: title, legend (label, colour, dash, mark), data and layout."""
    common = shared(plot)
    alone = len(plot.panels) == 1
    return [
        {
            "title": panel.title,
            "data": [_heat(panel)] if panel.heat else [trace for mark in panel.marks for trace in _traces(mark)],
            "layout": _layout(panel, common, tall=alone),
        }
        for panel in plot.panels
    ]


def _traces(mark: Mark) -> list[dict[str, Any]]:
    color = _color(mark)
    trace: dict[str, Any] = {"type": "scatter", "x": _plain(mark.x), "y": _plain(mark.y), "mode": "lines"}
    if mark.form == "band":
        quiet = trace | {"line": {"width": 0}, "hoverinfo": "skip"}
        return [quiet, quiet | {"y": _plain(mark.top), "fill": "tonexty", "fillcolor": _color(mark) + FAINT}]
    hover = {"hovertemplate": f"%{{x:.4g}} → %{{y:.4g}}<extra>{escape(mark.label)}</extra>"}
    if mark.form == "dots":
        size, opacity = (7, 0.8) if mark.label else (4.5, 0.45)
        dots = {"color": color, "symbol": _symbol(mark), "size": size, "opacity": opacity}
        return [trace | hover | {"mode": "markers", "marker": dots}]
    line = {"color": color, "width": 2, "dash": DASHES[mark.dash]}
    if mark.form == "line":
        return [trace | {"line": line | {"width": 1.5}, "hoverinfo": "skip"}]
    marks = {
        "color": color,
        "symbol": _symbol(mark),
        "size": 8,
        "line": {"color": color, "width": 1.5},
    }
    return [trace | hover | {"mode": "lines+markers", "line": line, "marker": marks}]


def _plain(values: Sequence[float]) -> list[float | None]:
    """JSON has no NaN: a gap."""
    return [value if math.isfinite(value) else None for value in values]


def _heat(panel: Panel) -> dict[str, Any]:
    assert panel.heat is not None
    tokens = [escape(token) for token in panel.heat.tokens]
    return {
        "type": "heatmap",
        "z": panel.heat.weights,
        "colorscale": [[0, "@paper"], [1, "@heat"]],
        "zmin": 0,
        "showscale": False,
        "texttemplate": "%{z:.2f}",
        "textfont": {"color": "@ink"},
        "xgap": 1,
        "ygap": 1,
        "customdata": [[[a, b] for b in tokens] for a in tokens],
        "hovertemplate": "%{customdata[0]} → %{customdata[1]}: %{z:.3f}<extra></extra>",
    }


def _layout(panel: Panel, common: tuple[float, float] | None, *, tall: bool) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "height": 420 if tall else 300,
        "margin": {"l": 58, "r": 10, "t": 8, "b": 46},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@muted", "font": {"color": "@ink"}},
        "dragmode": False,
        "showlegend": False,
    }
    if panel.heat is not None:
        tokens = [escape(token) for token in panel.heat.tokens]
        named = {"tickvals": list(range(len(tokens))), "ticktext": tokens, "fixedrange": True, "automargin": True}
        named |= {"showgrid": False, "zeroline": False}
        layout["xaxis"] = named | {"title": {"text": escape(panel.x.label), "standoff": 8}}
        layout["yaxis"] = named | {"title": {"text": escape(panel.y.label), "standoff": 8}, "autorange": "reversed"}
        return layout
    layout["xaxis"] = _axis(panel.x, span(panel.x, panel.marks, of_x=True))
    layout["yaxis"] = _axis(panel.y, common or span(panel.y, panel.marks, of_x=False))
    return layout


def _axis(axis: Axis, limits: tuple[float, float]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "title": {"text": escape(axis.label), "standoff": 8},
        "type": "log" if axis.log else "linear",
        "range": [math.log10(x) for x in limits] if axis.log else list(limits),
        "gridcolor": "@grid",
        "linecolor": "@muted",
        "zeroline": False,
        "fixedrange": True,
        "ticks": "outside",
        "tickcolor": "@muted",
    }
    labelled = ticks(axis, *limits)
    if labelled is not None:
        out |= {"tickvals": labelled[0], "ticktext": [escape(name).replace("\n", "<br>") for name in labelled[1]]}
    return out


def _color(mark: Mark) -> str:
    return f"@{mark.look.colour}"


def _symbol(mark: Mark) -> str:
    return SYMBOLS.get(mark.look.mark, mark.look.mark or "circle")
