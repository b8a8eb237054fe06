"""Prompts that differ in one word: the rule of a flip, where answers part, and how far the next tokens are apart."""

import math
from itertools import combinations

import jsonschema
import numpy as np
import pandas as pd
import pytest
import torch

from oneword.chat.prompts import Prompt
from oneword.chat.result import Chat
from oneword.chat.verb import ask
from oneword.errors import RangeError, UnknownNameError

SETS = (("It was awful.", "The story was worse."), ("I love it!", "I love her much, and I love this film."))
LOVE = Prompt(user="I love this {word} film", words=("good", "naïve"), answers=SETS, name="love")
FREE = Prompt(user="It was {word}", words=("awful", "made"), name="free")
families = pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])


def log_rows(model, sent, ids):
    """The distributions before each of these tokens, by one forward pass over everything."""
    with torch.no_grad():
        rows = model.phi.model(input_ids=torch.tensor([[*sent.ids, *ids]])).logits[0].double().log_softmax(-1)
    return rows[len(sent.ids) - 1 : -1]


@pytest.fixture(scope="module")
def found(tiny) -> dict[str, Chat]:
    return {family: ask([LOVE, FREE], model.phi, tokens=6, samples=2, seed=3) for family, model in tiny.items()}


@families
def test_the_likelier_set_of_whole_answers_decides(tiny, found, family):
    model, line = tiny[family], found[family].tables["prompts"].iloc[0]
    odds = []
    for word in LOVE.words:
        sent = model.send(LOVE, word)
        p = [[math.exp(sum(float(row[i]) for row, i in zip(log_rows(model, sent, ids), ids, strict=True)))
              for ids in (model.spelled(sent, answer) for answer in own)] for own in SETS]  # fmt: skip
        odds.append(math.log(sum(p[0]) / sum(p[1])))
    assert [line["log_odds_a"], line["log_odds_b"]] == pytest.approx(odds, abs=1e-4)
    assert line["flips"] == ((odds[0] > 0) != (odds[1] > 0))


@families
def test_an_answer_counts_all_its_tokens(found, family):
    scores = found[family].tables["answers"]
    assert scores["answer"].tolist() == [*SETS[0], *SETS[1]] * 2
    assert scores["set"].tolist() == [1, 1, 2, 2] * 2
    assert (scores["tokens"] > 2).all()
    assert scores["per_token"].to_numpy() == pytest.approx(scores["log_likelihood"] / scores["tokens"])


def test_a_flip_needs_another_sign_and_swapping_the_words_swaps_the_log_odds(tiny):
    phi = tiny["gpt2"].phi
    words, answers = ("good", "bad", "awful"), ("film.", "twice!", "her much", "not bad", "it was")
    prompts = [
        Prompt(user="I love this {word}", words=pair, answers=((a,), (b,)))
        for pair in combinations(words, 2)
        for a, b in combinations(answers, 2)
    ]
    table = ask(prompts, phi, tokens=1).tables["prompts"]
    signs = np.sign(table[["log_odds_a", "log_odds_b"]].to_numpy())
    assert table["flips"].tolist() == (signs[:, 0] != signs[:, 1]).tolist()
    assert table["flips"].nunique() == 2  # some flip, some stay
    swapped = ask([prompt.model_copy(update={"words": prompt.words[::-1]}) for prompt in prompts], phi, tokens=1)
    there, back = table, swapped.tables["prompts"]
    assert there["log_odds_a"].to_numpy() == pytest.approx(back["log_odds_b"].to_numpy())
    assert there["flips"].tolist() == back["flips"].tolist()


@families
def test_without_answers_no_flip_is_decided(found, family):
    line = found[family].tables["prompts"].iloc[1]
    assert pd.isna(line["flips"])
    assert math.isnan(line["log_odds_a"])
    assert (found[family].tables["answers"]["number"] == 1).all()


@families
def test_divergence_and_probabilities_along_the_first_answer(tiny, found, family):
    model, tables = tiny[family], found[family].tables
    steps = tables["steps"][tables["steps"]["number"] == 2]
    ids = model.read(model.send(FREE, "awful")).generate(6, model.ends).ids
    p, q = (log_rows(model, model.send(FREE, word), ids).exp().numpy() for word in FREE.words)
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        js = sum(np.nansum(each * np.log(each / middle), axis=1) for each in (p, q)) / 2
    assert steps["js"].to_numpy() == pytest.approx(js, abs=1e-5)
    for name, each in (("p_a", p), ("p_b", q)):
        assert steps[name].to_numpy() == pytest.approx(each[np.arange(len(ids)), list(ids)], abs=1e-5)
    assert steps["js"].between(0, math.log(2) + 1e-9).all()


@families
def test_answers_part_at_the_first_token_that_differs(tiny, found, family):
    model = tiny[family]
    for prompt, (_, line) in zip((LOVE, FREE), found[family].tables["prompts"].iterrows(), strict=True):
        a, b = (model.read(model.send(prompt, word)).generate(6, model.ends).ids for word in prompt.words)
        assert a[: line["common"]] == b[: line["common"]]
        if pd.isna(line["part_a"]):
            assert a == b
        else:
            assert a[line["common"]] != b[line["common"]]


@families
def test_attention_and_samples_are_there_for_both_words(tiny, found, family):
    tables = found[family].tables
    heads = tables["attention"].groupby(["number", "side"]).size()
    assert heads.tolist() == [4] * 4  # two layers of two heads
    assert tables["attention"]["weight"].between(0, 1).all()
    assert tables["samples"].groupby(["number", "side"]).size().tolist() == [2] * 4
    again = ask(FREE, tiny[family].phi, tokens=6, samples=2, seed=3).tables["samples"]
    assert again["answer"].tolist() == tables["samples"][tables["samples"]["number"] == 2]["answer"].tolist()


@families
def test_the_result_is_ready_for_json_and_follows_its_schema(found, family):
    content = found[family].to_dict()
    assert content["format"] == "oneword.chat/1"
    jsonschema.validate(content, Chat.schema())
    assert found[family].flips["prompt"].tolist() == ["love", "free"]
    assert "2 prompts" in repr(found[family])


def test_what_was_sent_is_part_of_the_result(found):
    line = found["qwen2"].tables["prompts"].iloc[0]
    assert line["sent_a"] == "<s>user\nI love this good film</s>\n<s>assistant\n"
    assert any("no chat template" in note for note in found["gpt2"].notes)


def test_answers_that_begin_another_one_are_refused(tiny):
    prompt = LOVE.model_copy(update={"answers": (("I love",), ("I love it",))})
    with pytest.raises(RangeError, match="none begins another, got 'I love' and 'I love it'"):
        ask(prompt, tiny["qwen2"].phi, tokens=1)


def test_prompts_and_answers_that_are_too_long_are_refused_and_replies_stay_within_the_window(tiny):
    phi = tiny["gpt2"].phi
    long = Prompt(user="{word}" + " film" * 63, words=("I", "A"))
    with pytest.raises(RangeError, match="expected at most 64 tokens"):
        ask(long, phi)
    near = Prompt(user="{word}" + " film" * 55, words=("I", "A"), answers=(("film",), ("I love her much." * 9,)))
    with pytest.raises(RangeError, match="expected at most 64 tokens"):
        ask(near, phi)
    line = ask(near.model_copy(update={"answers": ()}), phi, tokens=40).tables["prompts"].iloc[0]
    assert line["sent_tokens_a"] + line["tokens_a"] <= 64


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"tokens": 0}, RangeError, "tokens of at least 1"),
        ({"samples": -1}, RangeError, "samples of at least 0"),
        ({"temperature": 0.0}, RangeError, "temperature > 0"),
        ({"tokens": "x"}, RangeError, "tokens as a whole number"),
        ({"seed": "x"}, RangeError, "seed as a whole number"),
        ({"progress": 3}, RangeError, "progress as a function"),
        ({"by": 3}, UnknownNameError, "by= a name or TransformerFeatures"),
    ],
)
def test_wrong_arguments_are_one_line(tiny, given, error, match):
    with pytest.raises(error, match=match):
        ask(FREE, **{"by": tiny["gpt2"].phi, **given})
    with pytest.raises(RangeError, match="at least one prompt"):
        ask([], tiny["gpt2"].phi)


def test_progress_is_told_from_the_beginning_to_the_end(tiny):
    said = []
    ask([LOVE, FREE], tiny["gpt2"].phi, tokens=2, progress=lambda stage, done: said.append((stage, done)))
    assert said[0] == ("reading the model", 0.0)
    assert [done for _, done in said] == sorted(done for _, done in said)
    assert {"love", "free"} <= {stage for stage, _ in said}
