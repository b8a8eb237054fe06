"""Plots that answer the pointer: Vega-Lite specifications, plain values that the page draws with Vega's script.

Colours are the CSS variables of the palette, so that a drawn plot follows light and dark. Domains are fixed: hiding a
series moves nothing. Vega measures letters in the browser and fits the axes, so that no installed font breaks a plot;
what is longer than its limit ends in an ellipsis.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

from oneword.plot.description import Axis, Heat, Mark, Panel, Plot, shared, span, ticks
from oneword.plot.print import BAR, NOTATION
from oneword.plot.svg import mark_path

Spec = dict[str, Any]
HEIGHT, TALL = 300, 420  # pixels: of a panel beside others, and of one that is alone
DASHES = {"solid": [], "dash": [6, 3], "dot": [1.5, 3]}
NUMBER = ".4~g"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif'
CONFIG: Spec = {
    "font": FONT,
    "background": None,
    "padding": 2,
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 10,
        "labelLimit": 110, "titleLimit": 240, "labelOverlap": "greedy", "labelSeparation": 4,
        "labelColor": "var(--muted)", "titleColor": "var(--ink)", "gridColor": "var(--grid)",
        "domainColor": "var(--muted)", "tickColor": "var(--muted)",
    },
}  # fmt: skip
# Vega evaluates expressions with its interpreter: the page needs no `unsafe-eval`.
OPTIONS: Spec = {
    "mode": "vega-lite", "renderer": "svg", "ast": True, "actions": False, "defaultStyle": False,
    "tooltip": {"disableDefaultStyle": True}, "config": CONFIG,
}  # fmt: skip


@cache
def script() -> str:
    """The script that draws specifications, `vegaEmbed`, to stand inside a page; ImportError without vl-convert."""
    from vl_convert import javascript_bundle

    return str(javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def specifications(plot: Plot) -> list[Spec]:
    """A Vega-Lite specification for each panel; its parameter `hidden` lists the series that are not shown."""
    common, height = shared(plot), TALL if len(plot.panels) == 1 else HEIGHT
    return [
        {
            "width": "container",
            "height": height,
            "autosize": {"type": "fit", "contains": "padding"},
            "params": [{"name": "hidden", "value": []}],
            **(_heat(panel, panel.heat) if panel.heat else _marks(panel, common)),
        }
        for panel in plot.panels
    ]


def plain_label(label: str) -> str:
    """A label of ours without formulas: S_RF is S (RF), S^(m) is S⁽ᵐ⁾."""
    raised = str.maketrans("(m)", "⁽ᵐ⁾")
    return NOTATION.sub(lambda found: f"S ({found[1]})" if found[1] else "S" + found[2].translate(raised), label)


def _marks(panel: Panel, y_span: tuple[float, float] | None) -> Spec:
    x_span, y_span = span(panel.x, panel.marks, of_x=True), y_span or span(panel.y, panel.marks, of_x=False)
    layers = [_layer(panel, mark, series) for mark, series in zip(panel.marks, panel.series(), strict=True)]
    return {
        "encoding": {"x": _axis(panel.x, "x", x_span), "y": _axis(panel.y, "y", y_span)},
        "layer": layers,
    }


def _axis(axis: Axis, field: str, limits: tuple[float, float]) -> Spec:
    scale: Spec = {"domain": list(limits), "nice": False, **({"type": "log"} if axis.log else {"zero": False})}
    shown: Spec = {"title": plain_label(axis.label) or None, "format": NUMBER}
    if axis.reverse:
        scale["reverse"] = True
    labelled = ticks(axis, *limits)
    shown |= {"tickCount": 6} if labelled is None else {"values": list(labelled[0])}
    if axis.names and labelled is not None:
        shown |= {"labelExpr": _named(labelled[1], f"indexof({json.dumps(labelled[0])}, datum.value)"), "grid": False}
        shown["labelOverlap"] = "parity"
    return {"field": field, "type": "quantitative", "scale": scale, "axis": shown}


def _named(names: tuple[str, ...], index: str) -> str:
    """An expression for one of the names, in lines."""
    return f"split({json.dumps(names)}[{index}], '\\n')"


def _layer(panel: Panel, mark: Mark, series: str) -> Spec:
    """One mark: its numbers, and the shapes that stand for each of them."""
    colour = f"var(--{mark.look.colour})"
    dash = {"strokeDash": DASHES[mark.dash]} if mark.dash != "solid" else {}
    symbol = {"type": "point", "shape": mark_path(mark.look.mark or "circle"), "color": colour, "filled": True}
    computed, tooltip = _told(panel, mark, series)
    told = {"tooltip": tooltip}
    shapes: list[Spec] = []
    if mark.whiskers:
        along = "x" if mark.horizontal else "y"
        rule = {"type": "rule", "color": colour, "strokeWidth": 2, "opacity": 0.6}
        ends = {along: {"field": "l", "type": "quantitative"}, f"{along}2": {"field": "h"}}
        shapes.append({"mark": rule, "encoding": ends})
    if mark.form == "band":
        band = {"type": "area", "color": colour, "opacity": 0.18}
        shapes.append({"mark": band, "encoding": {"y2": {"field": "t"}}})
    elif mark.form == "bars":
        bar = {"type": "bar", "color": colour, "orient": "horizontal" if mark.horizontal else "vertical"}
        zero = {"x2" if mark.horizontal else "y2": {"datum": 0}}
        shapes.append({"mark": bar | {"width": {"band": BAR}}, "encoding": zero | told})
    elif mark.form in ("dots", "levels"):
        size = {"size": 55, "opacity": 0.8} if mark.label else {"size": 20, "opacity": 0.45}
        shapes.append({"mark": symbol | size, "encoding": told})
    else:
        line = {"type": "line", "color": colour, "strokeWidth": 2 if mark.form == "points" else 1.5, **dash}
        shapes.append({"mark": line, "encoding": {"tooltip": {"value": plain_label(series)}} if series else {}})
        if mark.form == "points":
            edge = {"size": 70, "opacity": 1, "stroke": "var(--paper)", "strokeWidth": 0.8}
            if mark.look.mark == "dash":
                edge |= {"stroke": colour, "strokeWidth": 2}
            shapes.append({"mark": symbol | edge, "encoding": told})
    out: Spec = {"data": {"values": _rows(panel, mark)}}
    hide = [{"filter": f"indexof(hidden, {json.dumps(series)}) < 0"}] if series else []
    out["transform"] = [*hide, *({"calculate": code, "as": name} for name, code in computed.items())]
    return out | (shapes[0] if len(shapes) == 1 else {"layer": shapes})


def _rows(panel: Panel, mark: Mark) -> list[dict[str, float]]:
    """The numbers of a mark that can be drawn."""
    columns = {"x": mark.x, "y": mark.y, "t": mark.top, "l": mark.low, "h": mark.high}
    columns = {name: values for name, values in columns.items() if values}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [
        {name: value for name, value in row.items() if math.isfinite(value)}
        for row in rows
        if _drawn(row["x"], panel.x) and _drawn(row["y"], panel.y)
    ]


def _drawn(value: float, axis: Axis) -> bool:
    return math.isfinite(value) and (value > 0 or not axis.log)


def _told(panel: Panel, mark: Mark, series: str) -> tuple[dict[str, str], list[Spec]]:
    """What the pointer says of a value, series, value and interval: what is computed for it, and the fields."""
    computed = {"series": json.dumps(plain_label(series))} if series else {}
    fields: list[Spec] = [{"field": "series", "title": "title"}] if series else []
    for name, axis in (("x", panel.x), ("y", panel.y)):
        said = plain_label(axis.label) or name
        if axis.names and not axis.at:
            computed[f"{name}_name"] = f"{json.dumps(axis.names)}[round(datum.{name})]"
            fields.append({"field": f"{name}_name", "title": said})
        else:
            fields.append({"field": name, "title": said, "format": NUMBER})
    if mark.low and mark.high:
        ends = [f"isValid(datum.{end}) ? format(datum.{end}, '{NUMBER}') : '?'" for end in "lh"]
        computed["interval"] = f"({ends[0]}) + ' to ' + ({ends[1]})"
        fields.append({"field": "interval", "title": mark.interval or "interval"})
    return computed, fields


def _heat(panel: Panel, heat: Heat) -> Spec:
    """Darker is more; the numbers are written into the cells."""
    rows, columns = heat.row_names, heat.tokens
    values = [
        {"r": i, "c": j, "v": float(f"{x:.4g}"), "from": a, "to": b}
        for i, (a, row) in enumerate(zip(rows, heat.weights, strict=True))
        for j, (b, x) in enumerate(zip(columns, row, strict=True))
        if math.isfinite(x)
    ]
    plain: Spec = {"type": "ordinal", "sort": None}
    names: Spec = {"labelLimit": 90, "domain": False, "ticks": False}
    x = names | {"title": panel.x.label or None, "labelExpr": _named(columns, "datum.value"), "labelAngle": -45}
    y = names | {"title": panel.y.label or None, "labelExpr": _named(rows, "datum.value")}
    scale = {"domain": [0, heat.end], "range": [0, 1]}
    told = [{"field": "from", "title": "from"}, {"field": "to", "title": "to"}]
    told.append({"field": "v", "title": "weight", "format": ".3f"})
    shade = {"field": "v", "type": "quantitative", "scale": scale, "legend": None}
    return {
        "data": {"values": values},
        "encoding": {"x": {"field": "c", **plain, "axis": x}, "y": {"field": "r", **plain, "axis": y}, "tooltip": told},
        "layer": [
            {"mark": {"type": "rect", "color": "var(--heat)"}, "encoding": {"fillOpacity": shade}},
            {
                "mark": {"type": "text", "color": "var(--ink)", "fontSize": 11},
                "encoding": {"text": {"field": "v", "type": "quantitative", "format": ".2f"}},
            },
        ],
    }
