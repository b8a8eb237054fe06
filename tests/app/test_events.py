"""What the page shows is what the library measures, and every text on it is escaped."""

import asyncio
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

import oneword as ow
from oneword.app import events as module
from oneword.app.events import Events, Session
from oneword.app.measuring import change, lengths, measurement
from oneword.app.subjects import MAPS, Subjects
from oneword.errors import OnewordError
from oneword.report import app_views as views
from oneword.report.words.lines import scales
from oneword.report.words.sentences import bracket
from oneword.report.words.table import SHADES, Subject, WordTable, words_frame
from tests.text.tiny_bert import needs_minilm
from tests.text.tiny_models import write_model

pytest.importorskip("gradio")
TEXT = "This is not a <b>bad</b> film."


def _nothing(*_):
    return None


def measure_text(subjects, keys, text, careful, progress, show):
    """The table at the end; `show` sees those before it."""
    found = measurement(subjects, keys, text, careful)
    for _ in found.steps(progress, first=True):
        show(found.table())
    return found.table()


def in_thread(work):
    """A browser of another test may have a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _table(text, kind="map", by="attention", title="Softmax <attention>", notes=(), keep=slice(None), **columns):
    """A table of words between spaces, with numbers made up."""
    lines, at = [], 0
    for k, word in enumerate(text.split()):
        start = text.index(word, at)
        at = start + len(word)
        line = {"text": 0, "window": 0, "position": k, "index": k, "word": word, "start": start, "end": at}
        line |= {"tokens": 1, "n": 9, "by": by, "value": 1 + k / 10, "random_word": 0.1, "below_noise": False}
        lines.append(line | {name: value[k] if isinstance(value, list) else value for name, value in columns.items()})
    return WordTable((text,), words_frame(lines[keep]), subjects=(Subject(0, by, title, kind),), notes=notes)


@pytest.fixture(scope="module")
def subjects():
    return Subjects()


def test_every_text_on_the_page_is_escaped():
    text = "<script>alert(1)</script> & \"quoted\" 'words' {{x}} ${y}"
    table = _table(text)
    best = [{"replacement": '<img src=x onerror="y">', "value": 0.5}]
    table = table.with_replacements(0, "attention", 0, best, "exact", tried=3)
    shown = [
        views.words(table),
        views.word(table, 0),
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
    shown = views.words(_table(text))
    starts = [part.split('"')[0] for part in shown.split('data-start="')[1:]]
    assert starts == ["0", "5", "9"]
    assert shown.count('tabindex="0"') == 1  # Tab passes a text in one step, arrows go from word to word
    assert shown.count('role="button"') == 3


def test_a_scale_is_known_once_most_words_have_a_value():
    (part,) = _table("a b c d", value=math.nan, best_word=[0.5, math.nan, math.nan, math.nan]).parts
    assert set(scales(part)) == {"random_word"} <= set(SHADES)
    assert "while the search goes on" in bracket(part)


def test_a_word_is_put_in_the_place_of_another():
    found = Session("one two three", _table("one two three"))
    assert found.with_word(4, "2") == "one 2 three"
    assert found.with_word(5, "2") == "one 2 three"  # anywhere inside the word


def test_waiting_is_said():
    assert "2 visitors are served first" in views.working("", 0.0, None, 2)
    assert "about 12 s left" in views.working("search", 0.5, 11.6, 0)


def test_a_text_that_begins_with_words_that_were_not_measured_can_be_entered_by_tab():
    text = "not measured: one two"
    shown = views.words(_table(text, keep=slice(2, None), notes=("2 of 4 words",)))
    assert shown.count('tabindex="0" data-start="14"') == 1
    assert "2 of 4 words" in shown


def test_words_that_do_nearly_the_same_look_nearly_the_same():
    (part,) = _table("a b c", value=[0.32, 0.325, 0.33]).parts
    low, high = scales(part)["value"]
    assert (low, high) == (pytest.approx(0.297), pytest.approx(0.33))


def test_models_of_one_name_are_told_apart():
    subjects = Subjects(("a/checkpoint", "b/checkpoint", "c/other"), twins=False)
    assert [subjects.title(name) for name in subjects.models] == [
        "a/checkpoint, trained", "b/checkpoint, trained", "other, trained",
    ]  # fmt: skip


def test_a_chat_model_is_offered_without_a_twin_and_read_when_somebody_asks():
    subjects = Subjects((), later=("smollm2",))
    assert ("SmolLM2-135M-Instruct, trained", "smollm2") in subjects.choices
    assert not any("twin" in key for _, key in subjects.choices)
    assert subjects.deepest == 30
    subjects.load()
    assert not subjects._loaded


def test_a_causal_model_shows_its_next_words_before_and_after(tmp_path):
    pytest.importorskip("transformers")
    folder, bert = str(tmp_path / "gpt2"), str(tmp_path / "bert")
    write_model(tmp_path / "gpt2", "gpt2", head=True, layers=2)
    write_model(tmp_path / "bert", "bert")
    subjects = Subjects((folder,), twins=False)
    found = Session("I love this film", _table("I love this film", kind="model", by=folder))
    page = Events(subjects, subjects).change(found, "I love this <b>story", folder, 1)
    assert "What comes next" in page
    assert page.count('<ol class="answers">') == 2
    assert "<b>story" not in page
    encoder = Subjects((bert,), twins=False)
    assert "What comes next" not in Events(encoder, encoder).change(found, "I love this story", bert, 1)


def test_what_is_stopped_is_not_called_done_and_what_is_replaced_is_silent(monkeypatch):
    class Measured:
        def __init__(self, subjects, keys, text, careful):
            self.keys, self.text = keys, text

        def steps(self, progress, *, first):
            yield True
            while self.keys == ["for ever"]:
                progress("searching", 0.5)
                time.sleep(0.001)

        def table(self):
            return _table(self.text)

    monkeypatch.setattr(module, "measurement", Measured)
    events = Events(Subjects(), Subjects())

    async def run():
        said = []
        async for news in events.measure("me", "one two", ["for ever"], False):
            said.append(news)
            if news.found is not None:
                events.jobs.stop("me")
        assert said[-1].over
        assert "Stopped" in said[-1].status
        first = events.measure("me", "one two", ["for ever"], False)
        await anext(first)
        async for news in events.measure("me", "three", ["at once"], False):
            last = news
        assert "Done" in last.status
        assert not [news async for news in first if news.over]  # the second has the word
        found = Session("one", _table("one", kind="model", by="minilm"))
        busy = events.measure("me", "one two", ["for ever"], False)
        await anext(busy)
        cards = [card async for _, card, _ in events.choose("me", found, 0)]
        assert len(cards) == 1
        assert "not looked for yet" in cards[0]
        events.jobs.stop("me")
        async for _ in busy:
            pass

    in_thread(run())
    events.jobs.close()


@needs_minilm
def test_a_text_of_more_tokens_than_there_are_positions_is_refused_in_one_line(subjects):
    text = "好" * 600
    for key in ("attention", "minilm"):
        with pytest.raises(OnewordError, match="at most 512"):
            measure_text(subjects, [key], text, False, _nothing, _nothing)


@needs_minilm
def test_the_page_shows_the_numbers_of_the_command_and_of_the_library(subjects, oneword):
    shown = []
    table = measure_text(subjects, ["attention", "rf", "minilm"], TEXT, False, _nothing, shown.append)
    words = table.words
    assert [TEXT[a:b] for a, b in zip(words["start"], words["end"], strict=True)] == list(words["word"])
    assert (words["value"] <= words["upper"]).all()
    assert [part.subject.title for part in table.parts][:2] == [MAPS["attention"], MAPS["rf"]]
    for part in table.parts[:2]:
        for line in part.words.to_dict("records"):
            best = part.replacements[line["window"], line["position"]]
            assert best[0]["value"] == pytest.approx(line["best_word"])
            assert [each["value"] for each in best] == sorted((each["value"] for each in best), reverse=True)
    command = ["--map", "attention", "--map", "rf", "--model", "minilm", "--seeds", "1", "--json", "-"]
    run = oneword("measure", TEXT, *command)
    assert run.returncode == 0, run.stderr
    same = pd.DataFrame(json.loads(run.stdout)["words"])
    for name in ("value", "upper", "first_order", "best_word", "random_word", "random"):
        expected = same[name].astype(float)
        np.testing.assert_allclose(words[name], expected, rtol=1e-12, err_msg=name)
    assert list(words["replacement"]) == [word if isinstance(word, str) else None for word in same["replacement"]]
    text = ow.Encoder.load("minilm").encode(TEXT, dtype=torch.float32)
    phi = ow.AttentionFeatures.draw(text.d, seed=0, dtype=torch.float32)
    exact = ow.sensitivity(
        phi, text, within=ow.Vocabulary.of(text.encoder), positions=[text.words.index("bad")], baseline=0
    )
    line = table.parts[0].at(TEXT.index("bad"))
    assert line["best_word"] == pytest.approx(exact.value, rel=1e-5)
    assert line["replacement"] == exact.replacement


@needs_minilm
def test_a_model_shows_what_it_knows_before_the_end(subjects):
    found = []
    measure_text(subjects, ["minilm"], "It is not bad.", False, _nothing, found.append)
    known = [list(scales(each.parts[0])) for each in found]
    assert known[0] == ["random_word"]  # a first answer: first order beside it, no search
    assert found[0].words["first_order"].notna().all()
    assert "value" in known[-1]
    assert found[0].words["value"].isna().all()
    assert found[-1].words["value"].notna().all()
    assert (found[-1].words["upper"] >= found[-1].words["value"]).all()
    pd.testing.assert_series_equal(found[0].words["random_word"], found[-1].words["random_word"])
    assert len(found[-1].layers) == 7 * len(found[-1].words)


@needs_minilm
def test_the_worst_words_of_a_model_are_looked_for_when_a_word_is_chosen(subjects):
    events = Events(subjects, subjects)
    text = "It is not bad."

    async def run():
        found = Session()
        async for news in events.measure("me", text, ["minilm"], False):
            found = news.found or found
        (part,) = found.table.parts
        start = next(int(line["start"]) for line in part.words.to_dict("records") if part.lacks_words(line["start"]))
        cards = []
        async for _, card, now in events.choose("me", found, start):
            cards.append(card)
            last = now
        assert "Looking for real words" in cards[0]
        assert cards[-1].count("data-word") == 10
        return last.table.parts[0], start

    part, start = in_thread(run())
    events.jobs.close()
    line = part.at(start)
    best = part.replacements[line["window"], line["position"]]
    assert 2 <= len(best) <= 10
    phi = ow.TransformerFeatures.load("minilm", output="pooled")
    changed = text[:start] + best[0]["replacement"] + text[int(line["end"]) :]
    before, after = phi.vectors([text, changed])
    assert best[0]["value"] == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-3)


@needs_minilm
@pytest.mark.parametrize("key", ["attention", "attention-relu"])
def test_attention_of_both_texts_is_the_plain_formula(subjects, key):
    a, b = "I love her much", "I love her smile"
    found = change(subjects, key, a, b)
    for text, weights, pooled in zip(found.texts, found.weights, "ab", strict=True):
        X = text.X.double()
        scores = X @ subjects.attention(key).W.double() @ X.T / X.shape[1] ** 0.5
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
    features = [subjects.attention(key).double()(each) for each in (X, Y)]
    assert whole[1] == pytest.approx(float((features[1] - features[0]).norm() / features[0].norm()), rel=1e-4)


@needs_minilm
def test_a_second_model_in_memory_says_the_same(subjects):
    apart = Subjects(apart=True).model("minilm")
    shared = subjects.model("minilm")
    assert apart.model is not shared.model
    texts = ["I love her much", "not bad"]
    torch.testing.assert_close(apart.vectors(texts), shared.vectors(texts), rtol=0, atol=0)


@needs_minilm
def test_shorter_texts_are_measured_each_by_itself(subjects):
    text = "the film is not as bad as they say it is"
    table = lengths(subjects, ["attention", "minilm"], text, _nothing)
    assert sorted(set(table["model"])) == ["Softmax attention", "all-MiniLM-L6-v2, trained"]
    assert table.groupby("model")["n"].apply(list).tolist() == [[6, 10, 13]] * 2
    assert (table["sup"] > 0).all()
    assert "<svg" in views.lengths(table)


@needs_minilm
def test_a_change_that_cannot_be_is_said_and_none_is_none(subjects):
    events = Events(subjects, subjects)
    found = Session("It is not bad.")
    assert "expected a text of at least one word" in events.change(found, " ", "minilm", 1)
    assert "Change a word" in events.change(found, "It is  not bad.", "minilm", 1)
    assert events.change(found, "It is very bad.", "minilm", 99).count("<table") == 3  # the last layer there is
    assert "at most" in events.change(found, "word " * 301, "attention", 1)
    events.jobs.close()
