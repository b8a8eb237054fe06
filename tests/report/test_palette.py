"""Colours: text that can be read on whatever it stands on, and roles that stay apart for every kind of colour vision.

Contrast is that of WCAG 2.2 (1.4.3); shades are mixed as the style sheet mixes them (OKLab: B. Ottosson, 2020); colour
vision is simulated with the matrices of G. Machado, M. Oliveira and L. Fernandes (IEEE TVCG 15, 2009) at full severity.
"""

import itertools
import re
from importlib.resources import files

import matplotlib
import numpy as np
import pytest

from oneword.plot import print as printed
from oneword.plot.look import DARK, LIGHT, MARKS, PRINT, SERIES, TINTS
from oneword.report import looks as named
from oneword.report.words.figures import CURVES

SCHEMES = pytest.mark.parametrize(
    ("palette", "tint"), [(LIGHT, TINTS["light"] / 100), (DARK, TINTS["dark"] / 100)], ids=["light", "dark"]
)
TO_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                   [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                   [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip
VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
TEXT = 4.5  # WCAG's least contrast of text, level AA
GRAPHIC = 3.0  # and of what is not text
APART = 0.07  # of OKLab: about the distance of two neighbours among ten greys


def linear(color):
    rgb = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]) if isinstance(color, str) else np.array(color)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def encoded(light):
    light = np.clip(light, 0, 1)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def contrast(a, b):
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (a, b))
    return (high + 0.05) / (low + 0.05)


def lab(light):
    return TO_LAB @ np.cbrt(TO_LMS @ light)


def mixed(color, share, ground):
    """color-mix(in oklab, color share, ground)."""
    both = share * lab(linear(color)) + (1 - share) * lab(linear(ground))
    return encoded(np.linalg.inv(TO_LMS) @ (np.linalg.inv(TO_LAB) @ both) ** 3)


def over(color, share, ground):
    """The colour at that opacity over the ground: color-mix with transparent."""
    a, b = (encoded(linear(each)) for each in (color, ground))
    return share * a + (1 - share) * b


def distance(a, b, vision):
    seen = [lab(np.clip(VISIONS[vision] @ linear(color), 0, 1)) for color in (a, b)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_black_and_white_have_the_contrast_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_a_mix_of_nothing_is_the_ground():
    np.testing.assert_allclose(mixed("#e69f00", 0, "#f4f3ee"), encoded(linear("#f4f3ee")), atol=1e-6)
    np.testing.assert_allclose(mixed("#e69f00", 1, "#f4f3ee"), encoded(linear("#e69f00")), atol=1e-6)


@SCHEMES
def test_text_can_be_read_on_paper_and_on_cards(palette, tint):
    for name, ground in itertools.product(("ink", "muted", "accent", "holds", "fails", "open"), ("paper", "raised")):
        assert contrast(palette[name], palette[ground]) >= TEXT, (name, ground)
    assert contrast(palette["muted"], palette["grid"]) >= TEXT  # what is below the noise stands on stripes


@SCHEMES
def test_words_can_be_read_on_every_shade(palette, tint):
    for share in np.linspace(0, 1, 21):
        for ground in ("paper", "raised"):
            assert contrast(palette["ink"], over(palette["word"], share * tint, palette[ground])) >= TEXT
        assert contrast(palette["ink"], mixed(palette["heat"], share, palette["raised"])) >= TEXT
        assert contrast(palette["ink"], mixed(palette["word"], share * tint, palette["raised"])) >= TEXT


def test_numbers_of_a_printed_heat_map_can_be_read():
    shades = matplotlib.colormaps[printed.STYLE["image.cmap"]]
    for x in np.linspace(0, 1, 101):
        ink = "#ffffff" if x > printed.DARK_CELL else "#000000"
        assert contrast(ink, shades(x)[:3]) >= TEXT, x


@SCHEMES
def test_the_strongest_shade_is_seen_to_be_one(palette, tint):
    for vision in VISIONS:
        strongest = over(palette["word"], tint, palette["raised"])
        assert distance(strongest, palette["raised"], vision) > APART
        assert distance(palette["heat"], palette["raised"], vision) > APART
        assert distance(palette["deep"], palette["raised"], vision) > APART


@SCHEMES
@pytest.mark.parametrize("vision", VISIONS)
def test_roles_that_stand_beside_each_other_stay_apart(palette, tint, vision):
    groups = [(*SERIES, "sky", "ink"), ("holds", "fails", "open"), ("word", "sky"), ("word", "heat")]
    for a, b in (pair for group in groups for pair in itertools.combinations(group, 2)):
        assert distance(palette[a], palette[b], vision) >= APART, (a, b)


@SCHEMES
def test_marks_are_seen_on_paper(palette, tint):
    """Okabe and Ito's two lightest hues are below 3:1 on white: they never stand for anything alone (see below)."""
    light = {"orange", "sky"} if palette is LIGHT else set()
    for name in {*SERIES, "sky", "deep", "accent"} - light:
        assert contrast(palette[name], palette["paper"]) >= GRAPHIC, name


@pytest.mark.parametrize(
    "looks",
    [named.MAPS, named.FAMILIES, named.OBJECTIVES, named.KINDS, CURVES],
    ids=["maps", "families", "objectives", "kinds", "curves"],
)
def test_colour_is_never_alone(looks):
    """Without colour there are still names, and marks of their own: as many as there are colours."""
    colours, marks = ({getattr(look, name) for look in looks.values()} for name in ("colour", "mark"))
    assert len(marks) >= len(colours)
    assert marks <= set(MARKS)
    assert len({look.name for look in looks.values()}) == len(looks)
    for a, b in itertools.combinations(looks.values(), 2):
        assert (a.colour, a.mark) != (b.colour, b.mark)
    assert colours <= {*SERIES, "sky"}


def test_every_role_has_a_colour_for_light_and_for_dark():
    assert LIGHT.keys() == DARK.keys()
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in (*LIGHT.values(), *DARK.values(), *PRINT.values()))
    assert PRINT.keys() == LIGHT.keys()


def test_style_sheets_name_no_colours_of_their_own():
    folder = files("oneword.report") / "templates"
    for sheet in folder.iterdir():
        if sheet.name.endswith(".j2"):
            text = sheet.read_text(encoding="utf-8")
            assert not re.findall(r"#[0-9a-fA-F]{6}\b", text), sheet.name
            used = set(re.findall(r"var\(--([a-z]+)\)", text))
            assert used <= {*LIGHT, "tint", "band", "sans", "serif", "mono", "s", "c"}, sheet.name


def test_every_page_has_one_frame():
    folder = files("oneword.report") / "templates"
    texts = {sheet.name: sheet.read_text(encoding="utf-8") for sheet in folder.iterdir() if sheet.name.endswith(".j2")}
    assert [name for name, text in texts.items() if "<!doctype" in text] == ["base.html.j2"]
    pages = {name for name, text in texts.items() if '{% extends "base.html.j2" %}' in text}
    assert pages == {f"{name}.html.j2" for name in ("words", "compare", "audit", "report", "chat")}
