"""Plots inside a page: matplotlib's drawing as SVG, its letters as outlines, its colours those of the page.

It is drawn in colours that stand for the roles of the palette; these become CSS variables. Titles and legends are HTML,
which folds where a page is narrow.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from html import escape
from typing import Any
from unicodedata import combining, east_asian_width
from xml.etree import ElementTree

import numpy as np
from matplotlib.font_manager import findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.markers import MarkerStyle

from oneword.checks import printable
from oneword.plot.description import Axis, Mark, Panel, Plot, keys_of, shared
from oneword.plot.look import LIGHT, MARKS
from oneword.plot.print import METADATA, STYLE, draw_panel, drawing, plain

# A colour that stands for each role.
STAND_IN = {role: f"#fe{k:02x}01" for k, role in enumerate(LIGHT)}
PIXELS = 72  # a pixel of the page is a point of matplotlib
ON_PAGE: dict[Any, Any] = STYLE | {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "axes.linewidth": 1,
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 7.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 1,
    "grid.color": STAND_IN["grid"],
    "axes.edgecolor": STAND_IN["grid"],
    "axes.spines.left": False,
    "text.color": STAND_IN["ink"],
    "axes.labelcolor": STAND_IN["muted"],
    "xtick.color": STAND_IN["muted"],
    "ytick.color": STAND_IN["muted"],
}


def inline(plot: Panel | Plot, *, width: float = 420, height: float = 300, keys: bool = True) -> str:
    """See `oneword.plot.inline`."""
    plot = _plot(plot)
    if plot.stacked:
        (last,) = plot.panels[-1:]
        said = "; ".join(_said(panel) for panel in plot.panels)
        return _figure("", _svg(plot.panels, width, height, None, said), legend(last) if keys else "")
    together = plot.one_legend()
    figures = [
        _figure(
            panel.title,
            _svg([replace(panel, title="")], width, height, shared(plot), _said(panel)),
            legend(panel) if keys and not (together and len(plot.panels) > 1) else "",
        )
        for panel in plot.panels
    ]
    if len(figures) == 1:
        return figures[0]
    return f'<div class="panels">{"".join(figures)}</div>' + (legend(plot) if keys and together else "")


def legend(plot: Panel | Plot, *, buttons: bool = False) -> str:
    """See `oneword.plot.legend`."""
    items = [f"{key(mark)}<span>{_text(mark.label)}</span>" for mark in dict.fromkeys(_keys(_plot(plot)))]
    if buttons:
        items = [f'<button type="button" aria-pressed="true">{item}</button>' for item in items]
    items = [f"<li>{item}</li>" for item in items]
    return f'<ul class="legend">{"".join(items)}</ul>' if items else ""


def _text(text: str) -> str:
    return escape(printable(text, keep="\n"))


def key(mark: Mark) -> str:
    """A small picture of a mark, for a legend."""
    colour = f"var(--{mark.look.colour})"
    parts = []
    if mark.form in ("bars", "band"):
        parts.append(
            f'<path d="M1 1H29V11H1z" fill="{colour}"' + (' opacity=".2"' if mark.form == "band" else "") + "/>"
        )
    if mark.form in ("line", "points", "levels"):
        dash = {"solid": "", "dash": ' stroke-dasharray="6 3"', "dot": ' stroke-dasharray="1.5 3"'}[mark.dash]
        parts.append(f'<path d="M1 6H29" stroke="{colour}" stroke-width="2"{dash}/>')
    if mark.form in ("dots", "points") and mark.look.mark:
        parts.append(
            f'<path transform="translate(15 6) scale(4.5)" d="{mark_path(mark.look.mark)}" fill="{colour}" '
            f'stroke="{colour}" stroke-width=".3"/>'
        )
    return f'<svg class="key" viewBox="0 0 30 12" aria-hidden="true">{"".join(parts)}</svg>'


def mark_path(mark: str) -> str:
    """The outline of a mark as the data of an SVG path, around 0, from −1 to 1."""
    if mark == "circle":
        return "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z"
    if mark == "dot":
        return "M-.5 0a.5 .5 0 1 0 1 0a.5 .5 0 1 0 -1 0z"
    style = MarkerStyle(MARKS[mark])
    points = 2 * np.asarray(style.get_path().transformed(style.get_transform()).vertices, dtype=float)
    return "M" + "L".join(f"{_short(x, 2)} {_short(-y, 2)}" for x, y in points) + ("" if mark == "dash" else "z")


def _plot(plot: Panel | Plot) -> Plot:
    return plot if isinstance(plot, Plot) else Plot("", "", "", (plot,))


def _keys(plot: Plot) -> list[Mark]:
    """One mark for each entry of the legend of all panels: its look, without numbers."""
    return [replace(mark, x=(), y=(), top=(), low=(), high=()) for panel in plot.panels for mark in keys_of(panel)]


def _said(panel: Panel) -> str:
    """What a reader hears of a panel."""
    title = f"{panel.title}: " if panel.title else ""
    return f"{title}{panel.y.label} against {panel.x.label}" if panel.x.label else f"{title}{panel.y.label}"


def _figure(title: str, svg: str, keys: str) -> str:
    return f"<figure>{f'<figcaption>{_text(title)}</figcaption>' if title else ''}{svg}{keys}</figure>"


def _svg(panels: Sequence[Panel], width: float, height: float, y_span: tuple[float, float] | None, said: str) -> str:
    """Panels below each other, each of that height."""
    size = (width / PIXELS, len(panels) * height / PIXELS)
    with drawing(*size, style=ON_PAGE) as figure:
        around, between = 2 / PIXELS, (2 if len(panels) == 1 else 6) / PIXELS
        figure.get_layout_engine().set(w_pad=around, h_pad=between)  # type: ignore[union-attr, call-arg]
        every = figure.subplots(len(panels), squeeze=False).ravel()
        foreign: list[str] = []
        for axes, panel in zip(every, panels, strict=True):
            drawn = replace(panel, x=_with_stand_ins(panel.x), y=_with_stand_ins(panel.y))
            draw_panel(axes, drawn, y_span, STAND_IN, room=0.62 * size[0])  # letters are larger than in print
            for axis, names in ((axes.xaxis, panel.x.names), (axes.yaxis, panel.y.names)):
                for label, name in zip(axis.get_ticklabels(), names, strict=False):
                    if _stand_in(name) != name:
                        label.set_gid(f"foreign-{len(foreign)}")
                        foreign.append(name)
            axes.set_title(plain(panel.title), loc="left")
            for axis, about in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
                axis.grid(not about.names or bool(about.at))
            if panel is not panels[-1]:
                axes.tick_params(labelbottom=False)
        content = io.BytesIO()
        super(type(figure), figure).savefig(
            content, format="svg", metadata=METADATA["svg"], dpi=PIXELS, transparent=True
        )
    return _cleaned(content.getvalue(), width, len(panels) * height, said, foreign)


@cache
def _font() -> FT2Font:
    return get_font(findfont("DejaVu Sans"))


def _stand_in(name: str) -> str:
    """The name with letters about as wide for those that the font does not have: W, n, or none for an accent."""
    known = [letter.isspace() or _font().get_char_index(ord(letter)) for letter in name]
    return "".join(letter if has else _as_wide(letter) for letter, has in zip(name, known, strict=True))


def _as_wide(letter: str) -> str:
    return "" if combining(letter) else "W" if east_asian_width(letter) in "WF" else "n"


def _with_stand_ins(axis: Axis) -> Axis:
    return replace(axis, names=tuple(map(_stand_in, axis.names)))


def _write_foreign(root: ElementTree.Element, names: Sequence[str]) -> None:
    """Letters that the font does not have are left to the browser's fonts, in the width of their stand-ins."""
    for group in root.iter("g"):
        kind, _, index = group.get("id", "").partition("-")
        if kind == "foreign" and len(group):
            name, outlines = names[int(index)], group[0]
            room = f"{sum(95 if letter == 'W' else 60 for letter in _stand_in(name)):g}"  # at a size of 100
            own = {
                "font-size": "100",
                "transform": "scale(1 -1)",
                "textLength": room,
                "lengthAdjust": "spacingAndGlyphs",
            }
            outlines[:] = [ElementTree.Element("text", own)]
            outlines[0].text = name


def _cleaned(content: bytes, width: float, height: float, said: str, foreign: Sequence[str]) -> str:
    """What a page needs of matplotlib's SVG: no styles for the whole page, short numbers, names of its own."""
    root = ElementTree.fromstring(content)
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
        element.text = element.tail = None
        # Axes show all of their marks: nothing has to be clipped.
        known = {name.partition("}")[2] or name: value for name, value in element.attrib.items()}
        element.attrib = {name: value for name, value in known.items() if name != "clip-path"}
        for name, value in element.attrib.items():
            value = " ".join(value.split())
            if name in ("x", "y"):
                value = _short(float(value), 1)
            elif name == "transform":
                value = re.sub(r"-?\d*\.\d+", lambda found: f"{float(found[0]):.4g}", value)
            elif name == "style":
                value = value.replace("; ", ";").replace(": ", ":")
            element.set(name, value)
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("style", "metadata", "clipPath")]:
            parent.remove(child)
    _write_foreign(root, foreign)
    _flatten(root)
    for element in root.iter("path"):
        element.set("d", _short_path(element.get("d", ""), digits=2 if element.get("id") else 1))  # marks are small
    for empty in [child for child in root if child.tag == "defs" and not len(child)]:
        root.remove(empty)
    used = set(re.findall(r'href="#([\w.-]+)', ElementTree.tostring(root, "unicode")))
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    body = "".join(ElementTree.tostring(child, "unicode") for child in root)
    prefix = "p" + blake2b(body.encode(), digest_size=3).hexdigest()
    for k, name in enumerate(sorted(used)):
        body = re.sub(rf'(id="|href="#){re.escape(name)}(?=")', rf"\g<1>{prefix}-{k}", body)
    for role, colour in STAND_IN.items():
        body = body.replace(colour, "currentColor" if role == "ink" else f"var(--{role})")
    return (
        f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-label="{_text(said)}" stroke-linejoin="round">{body}</svg>'
    )


def _short(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}".rstrip("0").rstrip(".")  # + 0.0: no −0


def _joined(values: Sequence[float], digits: int) -> str:
    return " ".join(_short(x, digits) for x in values).replace(" -", "-")


def _short_path(path: str, digits: int) -> str:
    """The same path with fewer digits and letters: level and upright lines have one number, steps may be relative."""
    steps: list[str] = []
    place = start = (math.nan, math.nan)
    for letter, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = [round(float(value), digits) for value in rest.split()]
        if not values:  # back to where this piece began
            steps.append(letter)
            place = start
            continue
        end = (values[-2], values[-1])
        here: tuple[float, ...] = place
        if letter == "L" and end[0] == place[0]:
            here, letter, values = place[1:], "V", values[1:]
        elif letter == "L" and end[1] == place[1]:
            here, letter, values = place[:1], "H", values[:1]
        ways = [letter + _joined(values, digits)]
        if not math.isnan(place[0]):
            ways.append(letter.lower() + _joined([x - here[k % len(here)] for k, x in enumerate(values)], digits))
        steps.append(min(ways, key=len))
        start, place = end if letter == "M" else start, end
    return "".join(steps)


def _flatten(element: ElementTree.Element) -> None:
    """Drop what is drawn with nothing and groups without a purpose; join what is drawn alike."""
    children: list[ElementTree.Element] = []
    styles = {child.get("style") for child in element if child.tag == "use"}
    if element.tag == "g" and len(styles) == 1 and None not in styles:
        element.set("style", styles.pop() or "")
        for child in element:
            child.attrib.pop("style", None)
    for group in element:
        _flatten(group)
        for child in group if group.tag == "g" and not set(group.attrib) - {"id"} else (group,):
            if child.tag == "path" and child.get("style") in ("fill:none", "fill:none;opacity:0"):
                continue
            if children and _alike(children[-1], child):
                children[-1].set("d", children[-1].get("d", "") + child.get("d", ""))
            else:
                children.append(child)
    element[:] = children


def _alike(a: ElementTree.Element, b: ElementTree.Element) -> bool:
    """Whether two paths can be one."""
    others = [{name: value for name, value in each.attrib.items() if name != "d"} for each in (a, b)]
    return a.tag == b.tag == "path" and others[0] == others[1] and "id" not in others[0]
