"""Plots inside pages: the same bytes each time, letters as outlines, colours of the page, every text escaped."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, inline, legend
from oneword.plot.description import span
from oneword.plot.interactive import specifications
from oneword.plot.look import LIGHT, MARKS, SERIES, series_look
from oneword.plot.print import draw
from oneword.plot.svg import mark_path

BLUE, RED = Look("blue one", "blue", "circle"), Look("red one", "vermilion", "square")
EVIL = "</svg><script>alert('1')</script>\"'&"


def panel(title: str = "RF", label: str = "S") -> Panel:
    marks = (
        Mark("band", (10, 20, 50), (0.3, 0.2, 0.1), BLUE, top=(0.4, 0.3, 0.15)),
        Mark("points", (10, 20, 50), (0.3, 0.2, 0.1), BLUE, label),
        Mark("dots", (10, 20), (0.2, math.nan), RED, "R", low=(0.1, 0.1), high=(0.3, 0.2), whiskers=True),
    )
    return Panel(title, Axis("n, words", log=True, at=(10, 20, 50)), Axis("word sensitivity S_RF", log=True), marks)


def bars(*names: str) -> Panel:
    places = tuple(map(float, range(len(names))))
    values = tuple(place + 1 for place in places)
    marks = (Mark("bars", places, values, BLUE, "S"), Mark("levels", places, values, RED, "mean"))
    return Panel("", Axis("", names=names), Axis("S", low=0), marks)


def svg_of(page: str) -> ElementTree.Element:
    (found,) = re.findall(r'<svg class="plot".*?</svg>', page, flags=re.DOTALL)
    return ElementTree.fromstring(found)


def test_letters_are_outlines_and_nothing_outside_is_named():
    page = inline(panel())
    assert "<text" not in page
    assert "<style" not in page  # it would hold for the whole page
    assert "http" not in page
    assert "url(" not in page


def test_colours_are_those_of_the_page():
    found = inline(Plot("", "", "", (panel(), bars("a", "b")), stacked=True))
    assert not re.findall(r"#[0-9a-f]{6}\b", found)
    used = set(re.findall(r"var\(--([a-z]+)\)", found))
    assert {"blue", "vermilion", "grid", "muted"} <= used <= set(LIGHT)


def test_the_same_plot_gives_the_same_bytes_and_two_plots_share_no_names():
    assert inline(panel()) == inline(panel())
    names = [set(re.findall(r'id="([^"]+)"', inline(each))) for each in (panel(), bars("a", "b"))]
    assert all(names)
    assert not names[0] & names[1]
    page = inline(panel())
    assert set(re.findall(r'href="#([^"]+)"', page)) == set(re.findall(r'id="([^"]+)"', page))


def test_threads_do_not_draw_in_the_style_of_each_other():
    plots = [panel("a"), bars("a", "b"), panel("c", "T"), bars(*map(str, range(30)))]
    expected = [inline(plot) for plot in plots]
    drawn = [draw(Plot("", "", "", (plot,))).get_figwidth() for plot in plots]
    with ThreadPoolExecutor(8) as threads:
        pages = threads.map(inline, plots * 4)
        widths = threads.map(lambda plot: draw(Plot("", "", "", (plot,))).get_figwidth(), plots * 4)
        assert list(pages) == expected * 4
        assert list(widths) == drawn * 4


def test_texts_are_escaped_in_titles_names_and_legends():
    page = inline(panel(EVIL, EVIL)) + inline(bars(EVIL, "b")) + legend(panel(label=EVIL), buttons=True)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    ElementTree.fromstring(f"<div>{page}</div>")


def test_a_reader_who_cannot_see_hears_what_is_drawn():
    drawn = svg_of(inline(panel()))
    assert drawn.get("role") == "img"
    assert drawn.get("aria-label") == "RF: word sensitivity S_RF against n, words"


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_are_left_to_the_browser_in_a_width_of_ours():
    names = ("plain", "真実は", "न हीं")
    texts = [element for element in svg_of(inline(bars(*names))).iter() if element.tag == "text"]
    assert [text.text for text in texts] == list(names[1:])
    assert all(float(text.get("textLength")) > 0 for text in texts)


def test_plots_of_many_numbers_stay_small():
    many = bars(*(f"word{k}" for k in range(250)))
    assert len(inline(many, width=1000, height=150)) < 20_000


def test_panels_that_say_the_same_have_one_legend():
    same = Plot("", "", "", (panel("a"), panel("b")))
    assert inline(same).count("<ul") == 1
    assert inline(replace(same, panels=(panel("a"), panel("b", "T")))).count("<ul") == 2
    assert inline(same, keys=False).count("<ul") == 0


@pytest.mark.parametrize("mark", MARKS)
def test_outlines_of_marks_lie_within_their_square(mark):
    numbers = [float(x) for x in re.findall(r"-?\d*\.?\d+", re.sub(r"a[^M]*", "", mark_path(mark)))]
    assert numbers
    assert all(abs(x) <= 1.5 for x in numbers)


def test_series_without_a_look_of_their_own_are_told_apart():
    looks = [series_look(k, f"series {k}") for k in range(12)]
    assert len({(look.colour, look.mark) for look in looks}) == 12
    assert {look.colour for look in looks} == set(SERIES)


def test_bars_begin_at_nothing_and_whiskers_have_room():
    assert span(Axis("", low=0), bars("a").marks, of_x=False)[0] == 0
    whiskers = Mark("dots", (0.5,), (1.0,), BLUE, low=(0.1,), high=(0.9,), whiskers=True, horizontal=True)
    low, high = span(Axis(""), [whiskers], of_x=True)
    assert low < 0.1 < 0.9 < high


def test_marks_of_one_look_are_one_series():
    assert panel().series() == ["S", "S", "R"]


# The interactive form of the same descriptions ------------------------------------------------------------------------


def test_every_form_is_valid_vega_lite():
    altair = pytest.importorskip("altair")
    heat = Panel("", Axis("to"), Axis("from"), heat=Heat(("a", "b"), ((0.5, 0.5), (1.0, math.nan))))
    level = Mark(
        "bars", (1.0, 2.0), (0.0, 1.0), BLUE, "S", low=(0.5, 1.5), high=(1.5, 2.5), whiskers=True, horizontal=True
    )
    across = Panel("", Axis("S"), Axis("", names=("a", EVIL), reverse=True), (level,))
    for spec in specifications(Plot("", "", "", (panel(), bars("a", EVIL), across, heat))):
        altair.LayerChart.from_dict(spec)


def test_numbers_that_cannot_be_drawn_are_left_out():
    (spec,) = specifications(Plot("", "", "", (panel(),)))
    assert spec["layer"][2]["data"]["values"] == [{"x": 10, "y": 0.2, "l": 0.1, "h": 0.3}]


def test_hidden_series_are_filtered_and_the_axes_stay():
    (spec,) = specifications(Plot("", "", "", (panel(),)))
    assert spec["params"] == [{"name": "hidden", "value": []}]
    assert [layer["transform"][0]["filter"] for layer in spec["layer"]] == [
        f'indexof(hidden, "{name}") < 0' for name in "SSR"
    ]
    assert spec["encoding"]["y"]["scale"]["domain"] == list(span(panel().y, panel().marks, of_x=False))
