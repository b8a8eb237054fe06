"""A new figure is drawn from the table of a run, for the page and as files, with own maps in it."""

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from oneword.experiments.rows import figure_rows, fits
from oneword.report.paper.figures import draw_all, figures
from oneword.report.paper.page import render
from tests.fake_results import results

table = results()
soft = table[table["map"] == "attention"]
rows = figure_rows(pd.concat([table, soft.assign(map="mine")], ignore_index=True))
(figure,) = [figure for figure in figures(rows, fits(table)) if figure.id == "tightness"]
labels = {mark.label for mark in figure.panels[0].marks}
assert {"RF", "RAF (softmax)", "mine"} <= labels, labels
truth = (rows["tightness"]["upper"] / rows["tightness"]["value"]).groupby(rows["tightness"]["map"]).median()
assert (truth >= 1).all()
with tempfile.TemporaryDirectory() as folder:
    only = {name: some if name == "tightness" else some.iloc[:0] for name, some in rows.items()}
    assert any(path.name == "tightness.pdf" for path in draw_all(only, Path(folder)))
    page = render(rows, [], json.loads("{}"), Path(folder) / "report.html", fits(table)).read_text()
    assert "How tight certificates are" in page
