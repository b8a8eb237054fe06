"""The next token after two texts: distributions apart as a plain loop says."""

import numpy as np
import pytest
import torch

from oneword.comparison.answers import Divergence, check_has_next_token
from oneword.comparison.verb import compare
from oneword.errors import RangeError

A, B = "I love this film, and I love", "I love this film, and it was"
speaking = pytest.mark.parametrize("family", ["gpt2", "llama"])


def next_probabilities(phi, text):
    ids = torch.tensor([phi.encoder.tokenizer.encode(text).ids])
    with torch.no_grad():
        return phi.model(input_ids=ids).logits[0, -1].double().softmax(-1).numpy()


@speaking
def test_the_next_tokens_and_their_divergence_are_the_models_own(tiny, family):
    phi = tiny[family]
    answers = compare(A, B, by=phi, top=3).answers
    p, q = (next_probabilities(phi, text) for text in (A, B))
    for text, own, other in (("a", p, q), ("b", q, p)):
        some = answers.top[answers.top["text"] == text]
        assert some["probability"].to_numpy() == pytest.approx(np.sort(own)[::-1][:3], rel=1e-4, abs=1e-9)
        ids = [phi.encoder.tokenizer.token_to_id(token) for token in some["token"]]
        assert some["elsewhere"].to_numpy() == pytest.approx(other[ids], rel=1e-3, abs=1e-9)
    assert answers.flips == (p.argmax() != q.argmax())
    assert answers.divergence.tv == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-6)


def test_divergences_of_two_known_distributions():
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    found = Divergence.between(*(torch.tensor(x).log() for x in (p, q)))
    m = (p + q) / 2
    middle = (np.log(0.5 / m[0]) + 0.25 * 2 * np.log(0.25 / m[0]) + 0.5 * np.log(0.5 / m[2])) / 2
    assert found.kl_ab == pytest.approx(np.log(2))
    assert found.kl_ba == np.inf
    assert found.js == pytest.approx(middle)
    assert found.tv == pytest.approx(0.5)


@speaking
def test_divergences_lie_in_their_ranges_and_swap(tiny, family):
    there, back = (compare(*texts, by=tiny[family]).answers.divergence for texts in ((A, B), (B, A)))
    assert 0 < there.js <= np.log(2)
    assert 0 < there.tv <= 1
    assert (there.kl_ab, there.kl_ba) == pytest.approx((back.kl_ba, back.kl_ab))


def test_a_model_that_does_not_speak_is_compared_without_answers_and_asked_in_vain(tiny):
    for family, why in (("bert", "reads both ways"), ("headless", "without its output layer")):
        assert compare(A, B, by=tiny[family]).answers is None
        with pytest.raises(RangeError, match=f"causal language model \\(GPT-2, Llama.*{why}"):
            check_has_next_token(tiny[family])
