"""A figure of the report: on the page with its numbers, as files for a paper, and said to be missing without rows."""

import json
import re
import tempfile
from pathlib import Path

import pandas as pd

from oneword.experiments.rows import figure_rows
from oneword.report.paper.figures import draw_all, figures
from oneword.report.paper.page import render

about = {"kind": "sensitivity", "map": "attention", "words_from": "gaussian", "changed": 1, "positions": "all", "d": 16}
table = pd.DataFrame([about | {"n": n, "trial": 0, "seed": 0, "value": 2.0, "upper": 3.0} for n in (10, 20)])
rows = figure_rows(table)

(figure,) = [each for each in figures(rows) if each.id == "tightness"]
(curve,) = figure.panels[0].marks
assert curve.y == (1.5, 1.5)
(empty,) = [each for each in figures(figure_rows(table.iloc[:0])) if each.id == "tightness"]
assert empty.missing

with tempfile.TemporaryDirectory() as place:
    folder = Path(place)
    page = render(rows, [], {}, folder / "report.html").read_text(encoding="utf-8")
    assert '<section id="tightness">' in page
    (plots,) = re.findall(r'id="plots">(.*?)</script>', page, flags=re.DOTALL)
    assert json.loads(plots)["tightness/0"]["layer"][0]["data"]["values"][0]["y"] == 1.5
    assert {path.suffix for path in draw_all(rows, folder / "figures") if path.stem == "tightness"} == {
        ".pdf",
        ".svg",
        ".png",
    }
