"""The table of words: a column is declared once and then is in the terminal, on the page, in the app and in JSON."""

import dataclasses
import json

import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from oneword.report import app_views
from oneword.report.words.lines import scales
from oneword.report.words.sentences import bracket
from oneword.report.words.table import COLUMNS, FORMAT, Column, WordTable, json_schema, words_frame
from oneword.report.words.terminal import WordsView
from tests.word_tables import EVIL, MODEL, TWIN, bare, word_table

TITLED = [column for column in COLUMNS if column.title]
LABELLED = [column for column in COLUMNS if column.label]


@pytest.fixture(scope="module")
def table():
    found = word_table("I love her much", maps=("attention", "rf"), models=(MODEL,), seeds=(0, 1))
    return dataclasses.replace(found, words=_numbered(found.words))


def _numbered(words: pd.DataFrame) -> pd.DataFrame:
    """Every number that is shown is one of its own: 10 + its column, in the word "I" of the first and last subject."""
    words = words.copy()
    words.loc[words["by"] == MODEL, "left_out"] = 0.5  # as in a prompt
    for k, column in enumerate(TITLED):
        if column.dtype == "float64":
            words.loc[(words["word"] == "I") & words[column.name].notna(), column.name] = 10 + k + k / 100
    return words


def values(columns: list[Column]) -> list[str]:
    return [f"{10 + k:d}.{k:02d}" for k, column in enumerate(TITLED) if column in columns and column.dtype == "float64"]


@pytest.mark.parametrize("column", TITLED, ids=lambda column: column.name)
def test_a_column_with_a_title_is_in_the_terminal_and_on_the_page(table, column, tmp_path):
    console = Console(width=200, no_color=True, highlight=False)
    with console.capture() as caught:
        console.print(WordsView(table))
    page = table.save_html(tmp_path / "p.html").read_text()
    assert f"{column.title}<" in page.replace("\n", "<")
    for word in column.title.split():  # headers of the terminal may take two lines
        assert word in caught.get()
    for value in values([column]):
        assert value in caught.get()
        assert f">{value}<" in page.replace("\n", "<") or f"≥ {value}<" in page.replace("\n", "<")


@pytest.mark.parametrize("column", LABELLED, ids=lambda column: column.name)
def test_a_column_with_a_label_is_in_the_card_of_the_app(table, column):
    card = app_views.word(table, 0)
    assert f"<dt>{column.sign}</dt>" in card
    assert column.label in card
    for value in values([column]):
        assert f"<b>{value}</b>" in card


def test_a_column_that_nobody_measured_is_nowhere():
    page = bare()._repr_html_()
    assert "S ≥" in page
    assert "best word" not in page


def test_a_table_has_every_column_with_its_type_whatever_was_said():
    made = words_frame([{"text": 0, "window": 0, "position": 1, "tokens": 1, "n": 3, "word": "a", "by": "rf"}])
    assert {column.name: str(made[column.name].dtype) for column in COLUMNS} == {
        column.name: column.dtype for column in COLUMNS
    }
    assert list(words_frame([])) == [column.name for column in COLUMNS]


# JSON -----------------------------------------------------------------------------------------------------------------


def problems(content: object) -> list[str]:
    return [error.message for error in Draft202012Validator(json_schema()).iter_errors(content)]


def joint() -> WordTable:
    lines = [
        {"text": 0, "by": by, "seed": seed, "positions": [0, 1], "word": "a b", "value": 0.7, "upper": upper,
         "baseline": 0.1}
        for by, seed, upper in (("attention", 0, 1.5), ("m", None, None))
    ]  # fmt: skip
    return dataclasses.replace(bare(), joint=pd.DataFrame(lines))


def test_the_schema_is_one():
    Draft202012Validator.check_schema(json_schema())
    assert json_schema() == WordTable.schema()
    assert json_schema()["properties"]["format"] == {"const": FORMAT} == {"const": "oneword.words/3"}


@pytest.mark.parametrize(
    "table",
    [
        bare(),
        joint(),
        word_table("I love her", maps=("attention", "rf"), seeds=(0, 1)),
        word_table(f"I love {EVIL}", "not a film", maps=("rf",), models=(MODEL, TWIN)),
    ],
    ids=["bare", "joint", "maps", "maps and models"],
)
def test_what_is_written_is_what_the_schema_says(table):
    content = json.loads(json.dumps(table.to_dict("oneword measure"), allow_nan=False))
    assert problems(content) == []
    pd.testing.assert_frame_equal(words_frame(content["words"]), table.words)


def test_the_schema_tells_what_is_wrong():
    content = bare().to_dict()
    assert problems(content | {"format": "oneword.words/1"})
    for column in COLUMNS:
        line = dict(content["words"][0])
        missing = {name: value for name, value in line.items() if name != column.name}
        assert problems(content | {"words": [missing]}), column.name
        wrong = "x" if column.dtype != "object" else 1.5
        assert problems(content | {"words": [line | {column.name: wrong}]}), column.name
        assert bool(problems(content | {"words": [line | {column.name: None}]})) == (column.dtype == "int64")
    assert problems(content | {"words": [content["words"][0] | {"more": 1}]})


def test_words_of_a_long_text_that_were_searched_are_coloured_and_keep_their_bracket():
    one = bare("a b c d", (0.5, 0.25, 0.2, 0.1))
    some = one.words.index < 1
    words = one.words.assign(value=one.words["value"].where(some), upper=0.75, upper_kind="ceiling")
    (part,) = dataclasses.replace(one, words=words.assign(upper=words["upper"].where(some))).parts
    assert set(scales(part)) == {"value"}
    assert bracket(part) == "S ≥ 0.50 at “a” (found), S ≤ 0.75 (ceiling)"
