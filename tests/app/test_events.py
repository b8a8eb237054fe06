"""What the page shows is what the library measures, and every text on it is escaped."""

import asyncio
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from oneword.app.readers import MAPS, Readers
from oneword.app.reading import read
from oneword.app.visits import Found, Visits
from oneword.report.app.reading import SHADES, WORDS, Reading

import oneword as ow
from oneword.app import visits as module
from oneword.app.change import change
from oneword.app.lengths import lengths
from oneword.errors import OnewordError
from oneword.report.app import views
from tests.text.tiny_bert import needs_minilm

pytest.importorskip("gradio")
TEXT = "This is not a <b>bad</b> film."


def _nothing(*_):
    return None


def in_thread(work):
    """A browser of another test may have a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _reading(text, **columns):
    """A reading of words between spaces, with numbers made up."""
    lines, at = [], 0
    for k, word in enumerate(text.split()):
        start = text.index(word, at)
        at = start + len(word)
        lines.append(
            {"start": start, "end": at, "word": word, "sup": 1 + k / 10, "random_word": 0.1, "below_noise": False}
        )
    words = pd.DataFrame(lines).assign(**columns).reindex(columns=WORDS)
    return Reading("attention", "Softmax <attention>", words)


@pytest.fixture(scope="module")
def readers():
    return Readers()


def test_every_text_on_the_page_is_escaped():
    text = "<script>alert(1)</script> & \"quoted\" 'words' {{x}} ${y}"
    reading = _reading(text, replacement="<i>", best_word=0.3, kind="exact")
    reading = reading.with_replacements(0, [('<img src=x onerror="y">', 0.5)], "exact")
    shown = [
        views.words(text, [reading]),
        views.word([reading], 0),
        views.said(text, "error"),
        views.working(text, 0.5, 3.0, 0),
    ]
    assert 'data-word="&lt;img src=x onerror=&#34;y&#34;&gt;"' in shown[1]
    for each in shown:
        assert "<script" not in each
        assert "<img" not in each
        assert "<i>" not in each.replace("<i></i>", "")


def test_words_are_buttons_in_the_order_of_the_text():
    text = "one  two\nthree"
    shown = views.words(text, [_reading(text)])
    starts = [part.split('"')[0] for part in shown.split('data-start="')[1:]]
    assert starts == ["0", "5", "9"]
    assert shown.count('tabindex="0"') == 1  # Tab passes a text in one step, arrows go from word to word
    assert shown.count('role="button"') == 3


def test_a_scale_is_known_once_most_words_have_a_value():
    reading = _reading("a b c d", sup=math.nan, best_word=[0.5, math.nan, math.nan, math.nan])
    assert set(reading.scales()) == {"random_word"} <= set(SHADES)
    assert "while the search goes on" in views.headline(reading)


def test_a_word_is_put_in_the_place_of_another():
    found = Found("one two three", (_reading("one two three"),))
    assert found.with_word(4, "2") == "one 2 three"
    assert found.with_word(5, "2") == "one 2 three"  # anywhere inside the word


def test_waiting_is_said():
    assert "2 visitors are served first" in views.working("", 0.0, None, 2)
    assert "about 12 s left" in views.working("search", 0.5, 11.6, 0)


def test_a_text_that_begins_with_words_that_were_not_measured_can_be_entered_by_tab():
    text = "not measured: one two"
    reading = _reading(text)
    some = replace(reading, words=reading.words.iloc[2:], notes=("2 of 4 words",))
    shown = views.words(text, [some])
    assert shown.count('tabindex="0" data-start="14"') == 1
    assert "2 of 4 words" in shown


def test_words_that_do_nearly_the_same_look_nearly_the_same():
    low, high = _reading("a b c", sup=[0.32, 0.325, 0.33]).scales()["sup"]
    assert (low, high) == (pytest.approx(0.297), pytest.approx(0.33))


def test_models_of_one_name_are_told_apart():
    readers = Readers(("a/checkpoint", "b/checkpoint", "c/other"), twins=False)
    assert [readers.title(name) for name in readers.models] == [
        "a/checkpoint, trained", "b/checkpoint, trained", "other, trained",
    ]  # fmt: skip


def test_what_is_stopped_is_not_called_done_and_what_is_replaced_is_silent(monkeypatch):
    def reading(readers, key, text, careful, report, show):
        show(_reading(text))
        while key == "for ever":
            report("searching", 0.5)
            time.sleep(0.001)

    monkeypatch.setattr(module, "read", reading)
    visits = Visits(Readers(), Readers())

    async def run():
        said = []
        async for news in visits.measure("me", "one two", ["for ever"], False):
            said.append(news)
            if news.found is not None:
                visits.jobs.stop("me")
        assert said[-1].over
        assert "Stopped" in said[-1].status
        first = visits.measure("me", "one two", ["for ever"], False)
        await anext(first)
        async for news in visits.measure("me", "three", ["at once"], False):
            last = news
        assert "Done" in last.status
        assert not [news async for news in first if news.over]  # the second has the word
        found = Found("one", (replace(_reading("one"), profiled=object()),))
        busy = visits.measure("me", "one two", ["for ever"], False)
        await anext(busy)
        cards = [card async for _, card, _ in visits.choose("me", found, 0)]
        assert len(cards) == 1
        assert "not looked for yet" in cards[0]
        visits.jobs.stop("me")
        async for _ in busy:
            pass

    in_thread(run())
    visits.jobs.close()


@needs_minilm
def test_a_text_of_more_tokens_than_there_are_positions_is_refused_in_one_line(readers):
    text = "好" * 600
    for key in ("attention", "minilm"):
        with pytest.raises(OnewordError, match="at most 512"):
            read(readers, key, text, False, _nothing, _nothing)


@needs_minilm
@pytest.mark.parametrize("key", ["attention", "rf"])
def test_a_reading_of_a_map_is_a_survey_of_it(readers, key):
    found = []
    read(readers, key, TEXT, False, _nothing, found.append)
    reading = found[-1]
    assert reading.title == MAPS[key]
    assert [TEXT[a:b] for a, b in zip(reading.words["start"], reading.words["end"], strict=True)] == list(
        reading.words["word"]
    )
    assert (reading.words["sup"] <= reading.words["upper"]).all()
    for line in reading.words.to_dict("records"):
        best = reading.replacements[line["start"]]
        assert best[0][1] == pytest.approx(line["best_word"])
        assert [value for _, value in best] == sorted((value for _, value in best), reverse=True)
    if key == "attention":
        text = ow.Encoder.load("minilm").encode(TEXT, dtype=torch.float32)
        phi = ow.AttentionFeatures.draw(text.d, seed=0, dtype=torch.float32)
        i = text.words.index("bad")
        exact = ow.sensitivity(phi, text, within=ow.Vocabulary.of(text.encoder), positions=[i], baseline=0)
        line = reading.at(TEXT.index("bad"))
        assert line["best_word"] == pytest.approx(exact.value, rel=1e-5)
        assert line["replacement"] == exact.replacement


@needs_minilm
def test_a_model_shows_what_it_knows_before_the_end(readers):
    found = []
    read(readers, "minilm", "It is not bad.", False, _nothing, found.append)
    known = [list(each.scales()) for each in found]
    assert known[0] == ["random_word"]
    assert "sup" in known[-1]
    assert found[0].words["sup"].isna().all()
    assert found[-1].words["sup"].notna().all()
    assert (found[-1].words["upper"] >= found[-1].words["sup"]).all()
    pd.testing.assert_series_equal(found[0].words["random_word"], found[-1].words["random_word"])
    assert len(found[-1].profiled.layers) == 7 * len(found[-1].words)


@needs_minilm
def test_the_worst_words_of_a_model_are_looked_for_when_a_word_is_chosen(readers):
    visits = Visits(readers, readers)
    text = "It is not bad."

    async def run():
        found = Found()
        async for news in visits.measure("me", text, ["minilm"], False):
            found = news.found or found
        start = text.index("bad")
        assert found.readings[0].replacements == {}
        cards = []
        async for _, card, now in visits.choose("me", found, start):
            cards.append(card)
            last = now
        assert "Looking for real words" in cards[0]
        assert cards[-1].count("data-word") == 10
        return last.readings[0], start

    reading, start = in_thread(run())
    visits.jobs.close()
    best = reading.replacements[start]
    assert 2 <= len(best) <= 10
    phi = ow.TransformerFeatures.load("minilm", output="pooled")
    before, after = phi.vectors([text, text.replace("bad", best[0][0])])
    assert best[0][1] == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-3)


@needs_minilm
@pytest.mark.parametrize("key", ["attention", "attention-relu"])
def test_attention_of_both_texts_is_the_plain_formula(readers, key):
    a, b = "I love her much", "I love her smile"
    found = change(readers, key, a, b)
    for text, weights, pooled in zip(found.texts, found.weights, "ab", strict=True):
        X = text.X.double()
        scores = X @ readers.attention(key).W.double() @ X.T / X.shape[1] ** 0.5
        plain = (
            torch.softmax(scores, 1)
            if key == "attention"
            else torch.relu(scores) / torch.relu(scores).sum(1, keepdim=True)
        )
        np.testing.assert_allclose(weights[0, 0], plain.numpy(), atol=2e-5)
        assert len(found.attention()[lambda t, name=pooled: t["text"] == name]) == len(text.words) ** 2
    X, Y = (text.X.double() for text in found.texts)
    whole = found.layers["whole"].tolist()
    assert whole[0] == pytest.approx(float((Y - X).norm() / X.norm()), rel=1e-5)
    features = [readers.attention(key).double()(each) for each in (X, Y)]
    assert whole[1] == pytest.approx(float((features[1] - features[0]).norm() / features[0].norm()), rel=1e-4)


@needs_minilm
def test_a_second_model_in_memory_says_the_same(readers):
    apart = Readers(apart=True).model("minilm")
    shared = readers.model("minilm")
    assert apart.model is not shared.model
    texts = ["I love her much", "not bad"]
    torch.testing.assert_close(apart.vectors(texts), shared.vectors(texts), rtol=0, atol=0)


@needs_minilm
def test_shorter_texts_are_measured_each_by_itself(readers):
    text = "the film is not as bad as they say it is"
    table = lengths(readers, ["attention", "minilm"], text, _nothing)
    assert sorted(set(table["model"])) == ["Softmax attention", "all-MiniLM-L6-v2, trained"]
    assert table.groupby("model")["n"].apply(list).tolist() == [[6, 10, 13]] * 2
    assert (table["sup"] > 0).all()
    assert "<svg" in views.lengths(table)


@needs_minilm
def test_a_change_that_cannot_be_is_said_and_none_is_none(readers):
    visits = Visits(readers, readers)
    found = Found("It is not bad.")
    assert "expected a text of at least one word" in visits.change(found, " ", "minilm", 1)
    assert "Change a word" in visits.change(found, "It is  not bad.", "minilm", 1)
    assert visits.change(found, "It is very bad.", "minilm", 99).count("<table") == 3  # the last layer there is
    assert "at most" in visits.change(found, "word " * 301, "attention", 1)
    visits.jobs.close()
