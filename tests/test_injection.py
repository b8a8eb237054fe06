"""Text is data: what words, file names, labels and columns hold is shown, never obeyed."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from rich.console import Console

import oneword as ow
from oneword.auditing.edits import Edit
from oneword.auditing.encoders import AuditedEncoder
from oneword.auditing.result import Audit
from oneword.auditing.thresholds import junit
from oneword.checks import printable
from oneword.cli.common import write_table
from oneword.cli.experiments import _show_exponents
from oneword.plot.print import save
from oneword.report import app_views
from oneword.report.paper.claims import claims_table
from oneword.report.words.figures import layers_figure
from oneword.report.words.table import WordTable
from tests.word_tables import word_table


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x1b]8;;file:///x\x07", r"\x1b[31mred\x1b]8;;file:///x\x07"),
        ("two\r\nlines\ta\bb\x00", r"two\r\nlines\ta\x08b\x00"),
        ("\x9b2J\x85\x7f", r"\x9b2J\x85\x7f"),
        ("abc\u202edcba\u2066\u2029", r"abc\u202edcba\u2066\u2029"),
        ("half \ud800 a pair", r"half \ud800 a pair"),
        ("naïve 中文 עברית 👩‍👧 −1", "naïve 中文 עברית 👩‍👧 −1"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(given: str, shown: str) -> None:
    assert printable(given) == shown


# One string that tries everything: pages, terminals, spreadsheets, templates, formulas.
SCRIPT = "</script><script>window.hit=1</script><img src=x onerror=window.hit=2>\"onmouseover='window.hit=3'"
SEQUENCES = "\x1b[31m\x1b]8;;file:///x\x07\x1b]52;c;aGk=\x07\r\b\x9b2J\u202e\u2066"
MARKUP = r"[red][link=file:///x]{{7*7}}{%raw%}$\frac{1}{0}$ datum.x signal('a') **b** [a](javascript:b)"
EVIL = f"={SCRIPT}{SEQUENCES}{MARKUP}"
OBEYED = ("\x1b]", "\x07", "\x08", "\r", "\x9b", "\u202e", "\u2066", "\x1b[31m")


def evil_words() -> WordTable:
    """The string as every word, text, model, replacement, note and fact."""
    table = word_table(f"one {EVIL} two", maps=(EVIL,), models=(f"m{EVIL}",))
    words = table.words.assign(
        word=EVIL, replacement=EVIL, by=[EVIL if by == EVIL else f"m{EVIL}" for by in table.words["by"]]
    )
    return dataclasses.replace(table, words=words, notes=(EVIL,), about={**table.about, EVIL: EVIL})


def evil_audit() -> Audit:
    texts = [f"It was not a good film, {EVIL} and I was sad.", f"She is a great {EVIL} actor, he was boring."]
    own = [Edit(EVIL, "signal", text, f"{text} not", len(text)) for text in texts]

    def letters(given: list[str]) -> list[list[int]]:
        return [[1 + text.count(letter) for letter in "aeinot"] for text in given]

    about = AuditedEncoder(EVIL, letters, about={"model": EVIL, EVIL: EVIL})
    limits = {"auc": {EVIL: 1.0}}
    return ow.audit(about, texts, pairs=own, lengths=[8], edits=["typo"], resamples=99, thresholds=limits)


@pytest.fixture(scope="module")
def evil_comparison() -> ow.Comparison:
    found = ow.compare("I love her much", "I love her smile", by="attention")
    a, b = (dataclasses.replace(text, words=(EVIL,) * len(text.words), text=EVIL) for text in found.texts)
    moved = found.moved.assign(word_a=EVIL, word_b=EVIL)
    heads = found.heads.assign(word_a=EVIL, word_b=EVIL)
    about = {**found.about, "model": EVIL, "encoder": EVIL}
    return dataclasses.replace(
        found, given=(EVIL, EVIL), texts=(a, b), moved=moved, heads=heads, about=about, notes=(EVIL,)
    )


@pytest.fixture(scope="module")
def evil_results(evil_comparison: ow.Comparison) -> dict[str, Any]:
    sup = ow.sensitivity("attention", dataclasses.replace(ow.gaussian(3, 4), words=(EVIL,) * 3), search="quick")
    return {"words": evil_words(), "audit": evil_audit(), "comparison": evil_comparison, "sensitivity": sup}


KINDS = ("words", "audit", "comparison", "sensitivity")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_and_never_obeys(kind: str, width: int, evil_results: dict[str, Any]) -> None:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="truecolor", highlight=False).print(
        evil_results[kind]
    )
    printed = file.getvalue()
    assert [each for each in OBEYED if each in printed] == []
    assert r"\x1b" in printed  # shown instead
    assert re.search(r"\[\s*r\s*e\s*d\s*\]", re.sub(r"\x1b\[[0-9;]*m", "", printed))  # markup is text


def test_tables_of_sweeps_show_names_of_maps_and_models_as_they_are(capsys, tmp_path: Path) -> None:
    line = {"map": EVIL, "words_from": EVIL, "d": 3, "depth": None, "slope": 1.0, "low": 0.0, "high": 2.0}
    _show_exponents(pd.DataFrame([line]))
    claim = {"id": EVIL, "claim": EVIL, "predicted": EVIL, "note": EVIL, "holds": None, "measured": None, "low": None,
             "high": None, "intervals": 0}  # fmt: skip
    Console().print(claims_table([claim]))
    printed = capsys.readouterr().out
    assert [each for each in OBEYED if each in printed] == []
    assert "[red]" in printed.replace("\n", "")


class Elements(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_gets_no_element_out_of_a_text(kind: str, evil_results: dict[str, Any]) -> None:
    found = elements(evil_results[kind]._repr_html_())
    assert found.handlers == []
    assert not {"script", "img"} & set(found.tags)


@pytest.fixture(scope="module")
def evil_pages(evil_results: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for kind in ("words", "audit", "comparison"):
        evil_results[kind].save_html(folder / f"{kind}.html", command=f"oneword {EVIL}")
    return {path.stem: path for path in folder.glob("*.html")}


@pytest.mark.parametrize("kind", ["words", "audit", "comparison"])
def test_a_page_gets_no_element_out_of_a_text(kind: str, evil_pages: dict[str, Path]) -> None:
    page = evil_pages[kind].read_text()
    found = elements(page)
    assert found.handlers == []
    assert not {"script", "img"} & set(found.tags)
    assert [each for each in OBEYED if each in page] == []
    assert "{{7*7}}" in page


def test_the_interactive_page_gets_no_element_out_of_a_text(evil_results: dict[str, Any]) -> None:
    table, comparison = evil_results["words"], evil_results["comparison"]
    starts = [int(start) for start in table.words["start"].dropna().unique()]
    pieces = [
        app_views.words(table),
        *(app_views.word(table, start, looking=looking) for start in starts for looking in (False, True)),
        app_views.layers(table),
        app_views.change((EVIL, EVIL), comparison.tables(1), 1, (EVIL,)),
        app_views.said(EVIL, "error"),
        app_views.working(EVIL, 0.5, 3.0, 0),
    ]
    for piece in pieces:
        found = elements(piece)
        assert found.handlers == []
        assert not {"script", "img"} & set(found.tags)
        assert [each for each in OBEYED if each in piece.replace("\r", " ")] == []  # white space, in HTML
        assert "{{7*7}}" in piece


def test_no_script_of_a_text_runs_in_a_browser(evil_pages: dict[str, Path], browser: Any) -> None:
    tab = browser.new_page()
    for path in evil_pages.values():
        tab.goto(path.as_uri())
        tab.mouse.move(200, 300)
        assert tab.evaluate("window.hit") is None
        assert tab.locator("img[src=x]").count() == 0
    tab.close()


def test_junit_is_xml_whatever_a_model_is_called(evil_results: dict[str, Any], tmp_path: Path) -> None:
    root = ElementTree.fromstring(evil_results["audit"].save_junit(tmp_path / "junit.xml").read_bytes())
    assert {each.tag for each in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}
    assert printable(EVIL) in str(root[0].get("name"))
    for letter in ("\x00", "\ufffe", "\x0b"):
        verdicts = pd.DataFrame([{"model": letter, "what": letter, "wanted": 1.0, "got": 0.0, "low": 0.0, "high": 0.0,
                                  "passed": False, "why": letter}])  # fmt: skip
        ElementTree.fromstring(junit(verdicts, 0.0))


# CSV ------------------------------------------------------------------------------------------------------------------

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


def test_a_spreadsheet_runs_no_text_of_a_csv_file(tmp_path: Path) -> None:
    texts = [*FORMULAS, "a=b", "", "plain"]
    table = pd.DataFrame({"=word": texts, "value": [-1.5] * len(texts), "kind": pd.Categorical(texts)})
    write_table(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == ["'=word", "value", "kind"]
    assert [row[0] for row in rows] == [*(f"'{each}" for each in FORMULAS), "a=b", "", "plain"]
    assert [row[2] for row in rows] == [row[0] for row in rows]
    assert {row[1] for row in rows} == {"-1.5"}  # numbers stay numbers


def test_parquet_keeps_texts_as_they_are(tmp_path: Path) -> None:
    table = pd.DataFrame({"=word": FORMULAS})
    write_table(table, tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table)


def test_the_tables_of_every_result_are_safe(evil_results: dict[str, Any], tmp_path: Path) -> None:
    for name, table in {"words": evil_results["words"].words, "audit": evil_results["audit"].edits}.items():
        write_table(table, tmp_path / f"{name}.csv")
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith("=")]


# Figures and errors ---------------------------------------------------------------------------------------------------


def test_labels_of_figures_are_no_formulas(evil_results: dict[str, Any], tmp_path: Path) -> None:
    part = evil_results["words"].parts_of(0)[-1]
    path = next(each for each in save(layers_figure(part), tmp_path, "figure") if each.suffix == ".svg")
    assert {"script", "img", "a"} & set(elements(path.read_text()).tags) == set()


def test_an_error_repeats_names_and_shows_what_a_terminal_would_obey(tmp_path: Path) -> None:
    for act in (
        lambda: ow.Corpus.load(str(tmp_path / f"{SEQUENCES}.csv")),
        lambda: ow.sensitivity(f"attentio{SEQUENCES}\n", "I love her"),
        lambda: ow.audit(lambda texts: texts, thresholds=str(tmp_path / f"{SEQUENCES}.toml")),
    ):
        with pytest.raises(ow.OnewordError) as caught:
            act()
        assert printable(str(caught.value)) == str(caught.value)
        assert r"\x1b" in str(caught.value)
