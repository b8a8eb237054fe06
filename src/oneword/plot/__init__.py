"""One way to draw: a plot is described once, then printed, put into a page as SVG, or made interactive.

| module | what it holds |
|---|---|
| `description` | `Plot`, `Panel`, `Axis`, `Mark`, `Heat`: what is drawn, in the units of the data |
| `look` | the palette, and how a series is named, coloured and marked |
| `print` | matplotlib: PDF, SVG and PNG for papers |
| `svg` | the same drawing inside a page, in the page's colours |
| `interactive` | Vega-Lite, for the report |
"""

from __future__ import annotations

from oneword.plot.description import Axis, Heat, Mark, Panel, Plot, numbers
from oneword.plot.look import Look

__all__ = ["Axis", "Heat", "Look", "Mark", "Panel", "Plot", "inline", "legend", "numbers"]


def inline(plot: Panel | Plot, *, width: float = 420, height: float = 300, keys: bool = True) -> str:
    """A plot as HTML that can stand in any page: `<figure>` with an SVG for each panel, and legends.

    Letters are outlines, so that no font can break it; colours are the CSS variables of the palette, so that it follows
    light and dark. Every text is escaped.

    Args:
        plot: What to draw.
        width: Of each panel, in CSS pixels; the SVG shrinks where the page has less room.
        height: Of each panel, in CSS pixels.
        keys: Whether to write the legend (see `legend` to write it elsewhere). Default: yes.

    Returns:
        HTML, safe to put into a template (`Markup` of it, or `| safe`).

    Example:
        >>> blue = Look("S", "blue", "circle")
        >>> panel = Panel("RF", Axis("n", log=True), Axis("S"), (Mark("points", (10, 20), (0.3, 0.2), blue, "S"),))
        >>> inline(panel).startswith("<figure")
        True
    """
    from oneword.plot.svg import inline as drawn  # matplotlib takes a third of a second to import

    return drawn(plot, width=width, height=height, keys=keys)


def legend(plot: Panel | Plot, *, buttons: bool = False) -> str:
    """The legend of a plot as an HTML list; every text is escaped.

    `buttons` (default: no) makes each entry a button, for a script that hides its series.
    """
    from oneword.plot.svg import legend as listed

    return listed(plot, buttons=buttons)
