"""The shortlist: what it reports was evaluated, it keeps to its budget, and it finds the best of easy maps."""

import pytest
import torch

import oneword as ow
from oneword.errors import RangeError
from oneword.search.exhaustive import exhaust
from oneword.search.shortlist import Shortlist, shortlist


@pytest.fixture(scope="module")
def case():
    text = ow.gaussian(6, 12, seed=0)
    words = ow.Vectors.of(ow.gaussian(500, 12, seed=1).X)
    probe = ow.AttentionFeatures.draw(12, seed=2).at(text.X)
    truth = exhaust(probe, torch.tensor([[3]]), words).change2[0].sqrt() / probe.norm
    return probe, words, truth


def test_the_value_is_that_of_the_word_and_the_budget_is_kept(case):
    probe, words, truth = case
    for seed in range(5):
        found = shortlist(probe, (3,), words, Shortlist(least=1), seed=seed)
        assert found.value == pytest.approx(float(truth[words.names[1].index(found.word)]), rel=1e-9)
        assert len({word for word, _ in found.best}) == len(found.best) == 10
        assert [value for _, value in found.best] == sorted((value for _, value in found.best), reverse=True)
        assert found.passes <= 50
        assert not found.exhaustive


def test_a_small_set_is_tried_whole(case):
    probe, words, truth = case
    found = shortlist(probe, (3,), words, Shortlist(least=500, most=500))
    assert found.exhaustive
    assert found.passes == 500
    assert found.word == words.names[1][int(truth.argmax())]


def test_it_finds_more_than_as_many_random_words_do(case):
    probe, words, truth = case
    found = [shortlist(probe, (3,), words, seed=seed).value for seed in range(10)]
    draw = torch.Generator().manual_seed(0)
    random = [float(truth[torch.randperm(500, generator=draw)[:64]].max()) for _ in range(10)]
    assert sum(found) > sum(random)
    assert min(found) >= 0.9 * float(truth.max())


def test_the_same_seed_gives_the_same_word(case):
    probe, words, _ = case
    one, again = (shortlist(probe, (3,), words, seed=7) for _ in range(2))
    assert (one.best, one.passes) == (again.best, again.passes)


def test_an_effort_that_cannot_be_is_refused():
    with pytest.raises(RangeError, match="expected 0 < share ≤ 1"):
        Shortlist(share=0)
    with pytest.raises(RangeError, match="1 ≤ least ≤ most"):
        Shortlist(least=5, most=2)
