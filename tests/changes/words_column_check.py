"""A column "reached" of the words table is in the table, JSON, the terminal, the page and the card of the app."""

import tempfile
from pathlib import Path

from rich.console import Console

import oneword as ow
from oneword.report import app_views as views

table = ow.measure("I love her", ["attention", "minilm"], effort="quick", seeds=1)
expected = table.words["value"] / table.words["upper"]
assert (table.words["reached"] == expected).all()
assert [line["reached"] for line in table.to_dict()["words"]] == expected.tolist()
console = Console(width=160)
with console.capture() as caught:
    console.print(table)
assert caught.get().count("reached") >= 2
with tempfile.TemporaryDirectory() as folder:
    page = table.save_html(Path(folder) / "page.html").read_text(encoding="utf-8")
assert page.count(">reached") >= 2
assert views.word(table, 0).count("of the upper bound") == 2
