"""Figures for a paper: every format, the same bytes from the same table, no dates inside."""

import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from oneword.errors import FileFormatError
from oneword.experiments.rows import figure_rows, fits
from oneword.plot.print import COLUMN, PAGE
from oneword.report.paper.figures import draw_all, figures
from tests.fake_results import results


@pytest.fixture(scope="module")
def table():
    return results(trials=3, samples=3)


@pytest.fixture(scope="module")
def some(table):
    """Rows of two figures, one and two panels wide: to save all of them takes ten seconds."""
    return table[(table["kind"] == "attention_map") | (table["changed"] > 1).fillna(False)]


@pytest.fixture(scope="module")
def files(some, tmp_path_factory):
    return draw_all(figure_rows(some), tmp_path_factory.mktemp("out") / "figures")


def test_every_figure_comes_in_three_formats(files):
    assert {path.name for path in files} == {
        f"{name}.{suffix}" for name in ("fig1-attention-maps", "m-words") for suffix in ("pdf", "svg", "png")
    }
    assert sorted(files) == sorted(files[0].parent.iterdir())


def test_files_are_what_their_names_say(files):
    for path in files:
        content = path.read_bytes()
        if path.suffix == ".pdf":
            assert content.startswith(b"%PDF")
            assert b"/Type0" in content or b"/TrueType" in content  # fonts as text, not as outlines
        elif path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag.endswith("svg")
        else:
            with Image.open(path) as image:
                assert image.width / 300 == pytest.approx(COLUMN if image.width < 1500 else PAGE, abs=0.01)


def test_no_date_is_inside(files):
    for path in files:
        if path.suffix in (".pdf", ".svg"):
            assert not re.search(rb"CreationDate|<dc:date>|20\d\d-\d\d-\d\d", path.read_bytes()), path


def test_the_same_table_gives_the_same_bytes(some, files, tmp_path):
    for path, again in zip(files, draw_all(figure_rows(some), tmp_path), strict=True):
        assert path.read_bytes() == again.read_bytes(), path.name


def test_texts_are_not_read_as_formulas(table, tmp_path):
    maps = table[table["kind"] == "attention_map"].assign(to_token="$x", from_token="$\\frac{", text="$5 & <b>")
    assert len(draw_all(figure_rows(maps), tmp_path)) == 3


def test_there_is_a_figure_for_every_figure_of_the_paper_and_for_ours(table):
    names = {figure.id for figure in figures(figure_rows(table), fits(table)) if figure.panels}
    assert {f"fig{k}" for k in range(1, 6)} <= {name.split("-")[0] for name in names}
    ours = {"contrast", "families", "kinds", "mass", "n-over-d", "m-words", "positions", "frontier", "objectives"}
    assert ours < names


def test_a_folder_that_cannot_be_made_is_one_line(table, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="folder that can be made"):
        draw_all(figure_rows(table), tmp_path / "file" / "figures")
