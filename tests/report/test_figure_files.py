"""Every figure is fit for a paper: a column or a page wide, vector files with their fonts inside, no label cut off."""

import io
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from matplotlib.legend import Legend
from matplotlib.text import Text

from oneword.experiments.rows import figure_rows, fits
from oneword.plot.print import COLUMN, PAGE, draw, formula, placed, save
from oneword.report import comparison_page as compared
from oneword.report.paper.figures import figures as paper_figures
from oneword.report.words.chart import per_word
from oneword.report.words.figures import heads_figure, layers_figure, lengths_figure
from tests.fake_results import results
from tests.word_tables import MODEL, REVIEW, exponents, lengths, word_table


def per_word_table(count: int) -> pd.DataFrame:
    words = (["The", "accountant", "was", "not", "extraordinarily-long-winded"] * count)[:count]
    values = np.linspace(3, 4, count)
    return pd.DataFrame(
        {"position": range(count), "word": words, "value": values, "upper": values + 0.4, "baseline": 0.3}
    )


def comparison() -> tuple[tuple[str, str], dict[str, pd.DataFrame]]:
    """Two sentences that differ in their last word, by hand."""
    words, layers = ["[CLS]", "I", "love", "her", "much", "[SEP]"], range(3)
    draw_ = np.random.default_rng(0)
    attention = [
        {"text": text, "layer": 1, "head": None, "from_index": i, "to_index": j, "from_word": a, "to_word": b,
         "weight": draw_.random()}
        for text in "ab" for i, a in enumerate(words) for j, b in enumerate(words)
    ]  # fmt: skip
    pairs = [
        {"pair": k, "word_a": word, "word_b": word, "how": "equal", "special": False} for k, word in enumerate(words)
    ]
    moved = [{**pair, "layer": layer, "change": draw_.random()} for layer in layers for pair in pairs]
    answers = [
        {"text": text, "rank": k + 1, "answer": f" answer{k}", "probability": 0.5 / (k + 1), "elsewhere": 0.1}
        for text in "ab" for k in range(5)
    ]  # fmt: skip
    heads = [{"layer": layer, "head": head, "change": draw_.random()} for layer in (1, 2) for head in range(16)]
    tables = {
        "attention": pd.DataFrame(attention),
        "pairs": pd.DataFrame(pairs),
        "moved": pd.DataFrame(moved),
        "layers": pd.DataFrame(
            {"layer": layers, "whole": [0.5, 0.6, 0.7], "median": [0.1, 0.2, 0.3], "pooled": [0.4, 0.5, 0.6]}
        ),
        "heads": pd.DataFrame(heads),
        "answers": pd.DataFrame(answers),
    }
    return ("I love her much", "I love her smile"), tables


def figures():
    """Every figure that this package draws, under its name."""
    table = results(trials=3, samples=3)
    for figure in paper_figures(figure_rows(table), fits(table)):
        yield figure.id, draw(figure)
    for count in (4, 18, 50, 200):
        yield f"{count} words", per_word(per_word_table(count), f"AttentionFeatures (softmax), n = {count}, d = 384")
    (one,) = word_table(REVIEW, models=(MODEL,)).parts
    yield "layers", layers_figure(one)
    yield "heads", heads_figure(one)
    yield "lengths", lengths_figure(lengths(), exponents())
    texts, tables = comparison()
    yield "compared layers", compared.layers(tables)
    yield "compared heads", compared.heads(tables)
    yield "answers", compared.answers(texts, tables)


@pytest.fixture(scope="module")
def drawn():
    return dict(figures())


def test_every_figure_is_a_column_or_a_page_wide(drawn):
    for name, figure in drawn.items():
        assert figure.get_figwidth() in (COLUMN, PAGE), name
        assert figure.get_figheight() < 9, name


def test_no_label_is_cut_off(drawn):
    for name, figure in drawn.items():
        width, height = placed(figure).get_size_inches() * figure.dpi
        labels = [text for text in shown_texts(figure) if text.get_text().strip()]
        assert labels, name
        for text in labels:
            box = text.get_window_extent()
            where = (name, text.get_text())
            assert box.x0 > -1, where
            assert box.y0 > -1, where
            assert box.x1 < width + 1, where
            assert box.y1 < height + 1, where


def shown_texts(figure) -> Iterator[Text]:
    """Titles, labels, legends, numbers in cells, and the ticks that lie within their axis."""
    for legend in figure.findobj(Legend):
        yield from legend.get_texts()
    for axes in figure.axes:
        yield from (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)


@pytest.mark.parametrize("name", ["contrast", "fig1-attention-maps", "18 words", "layers", "heads", "answers"])
def test_fonts_are_inside_the_files_also_when_others_save_them(drawn, name):
    for suffix in ("pdf", "svg"):
        content = io.BytesIO()
        drawn[name].savefig(content, format=suffix)
        assert_fonts_inside(content.getvalue(), suffix)


def test_saved_figures_have_their_fonts_inside(drawn, tmp_path):
    for path in save(drawn["kinds"], tmp_path, "kinds"):
        if path.suffix != ".png":
            assert_fonts_inside(path.read_bytes(), path.suffix[1:])


def assert_fonts_inside(content: bytes, suffix: str) -> None:
    if suffix == "svg":
        assert b"<text" not in content  # outlines
        return
    fonts = re.findall(rb"/Type /FontDescriptor", content)
    assert len(fonts) == len(re.findall(rb"/FontFile2 \d+ 0 R", content)) > 0
    assert b"/Type3" not in content


def test_labels_have_the_notation_of_the_paper(drawn):
    assert drawn["fig3-attention"].axes[0].get_ylabel() == r"word sensitivity $S_{\text{RAF}}$"
    assert drawn["m-words"].axes[0].get_ylabel() == "word sensitivity $S^{(m)}$"
    assert formula("costs $5, CLASS_RF") == r"costs \$5, CLASS_RF"
