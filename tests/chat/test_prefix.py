"""Generation and scoring equal transformers called directly; what was read once is never changed by a question."""

import copy

import pytest
import torch

from oneword.chat.prefix import Prefix, Sampling
from oneword.chat.prompts import Prompt
from oneword.errors import NonFiniteError, RangeError

LOVE = Prompt(user="I love this {word} film", words=("good", "bad"))
ANSWERS = ("The acting was awful.", "not", "I love her much, and I love it twice!")
families = pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])


def generated(model, ids, tokens, ends):
    """Greedy, by transformers itself."""
    found = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False, max_new_tokens=tokens,
        eos_token_id=sorted(ends) or None, pad_token_id=0,
    )  # fmt: skip
    return found[0, len(ids) :].tolist()


def full_pass(model, ids, answer):
    """log p of an answer from one forward pass over everything."""
    with torch.no_grad():
        rows = model(input_ids=torch.tensor([[*ids, *answer]])).logits[0].double().log_softmax(-1)
    return sum(float(rows[len(ids) - 1 + k, token]) for k, token in enumerate(answer))


def assert_equals_transformers(model, tokens, words=LOVE.words):
    network = model.phi.model
    for word in words:
        sent = model.send(LOVE, word)
        prefix = model.read(sent)
        reply = prefix.generate(tokens, model.ends)
        assert list(reply.ids) == generated(network, sent.ids, tokens, model.ends)
        answers = [model.spelled(sent, answer) for answer in ANSWERS]
        wanted = [full_pass(network, sent.ids, ids) for ids in answers]
        assert prefix.log_likelihoods(answers) == pytest.approx(wanted, abs=1e-4)


@families
def test_greedy_answers_and_log_likelihoods_equal_transformers(tiny, family):
    assert_equals_transformers(tiny[family], 12)


def test_greedy_answers_and_log_likelihoods_of_the_embedded_chat_model_equal_transformers(smollm2):
    assert_equals_transformers(smollm2, 16, LOVE.words[:1])


@families
def test_a_reply_ends_where_transformers_ends_it(tiny, family):
    model = tiny[family]
    sent = model.send(LOVE, "good")
    prefix = model.read(sent)
    free = prefix.generate(8, ())
    assert (len(free.ids), free.ended, free.words) == (8, False, free.ids)
    end = free.ids[3]  # or wherever it comes first
    reply = prefix.generate(8, {end})
    assert list(reply.ids) == generated(model.phi.model, sent.ids, 8, {end})
    assert reply.ended
    assert reply.words == free.ids[: free.ids.index(end)]


@families
def test_nothing_that_is_asked_changes_what_was_read(tiny, family):
    model = tiny[family]
    sent = model.send(LOVE, "good")
    prefix = model.read(sent)
    ids = model.spelled(sent, ANSWERS[2])
    first = (prefix.generate(6, ()), prefix.log_likelihoods([ids]), prefix.attention(ids, sent.word))
    again = (prefix.generate(6, ()), prefix.log_likelihoods([ids]), prefix.attention(ids, sent.word))
    assert first[:2] == again[:2]
    assert all(torch.equal(first[2][layer], again[2][layer]) for layer in first[2])


@families
def test_attention_is_that_of_one_pass_over_everything(tiny, family):
    model = tiny[family]
    sent = model.send(LOVE, "good")
    ids = model.spelled(sent, ANSWERS[0])
    found = model.read(sent).attention(ids, sent.word)
    whole = model.phi.states(model.phi.encoder.layer0.word[torch.tensor([*sent.ids, *ids])], attention=True).attention
    assert sorted(found) == [1, 2]
    for layer, heads in found.items():
        rows = whole[layer - 1][:, len(sent.ids) :, list(sent.word)]
        assert heads.tolist() == pytest.approx(rows.sum(-1).mean(-1).tolist(), abs=1e-5)


def test_answers_in_several_passes_are_scored_as_in_one(tiny, monkeypatch):
    model = tiny["qwen2"]
    sent = model.send(LOVE, "good")
    prefix, answers = model.read(sent), [model.spelled(sent, answer) for answer in ANSWERS]
    together = prefix.log_likelihoods(answers)
    monkeypatch.setattr("oneword.chat.prefix.AT_ONCE", 1)
    assert prefix.log_likelihoods(answers) == pytest.approx(together, abs=1e-4)
    assert prefix.log_likelihoods([]) == []


# Sampling -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(tiny):
    model = tiny["qwen2"]
    prefix = model.read(model.send(LOVE, "good"))

    def drawn(seed, sample=0):
        return prefix.generate(12, (), Sampling(seed, temperature=9.0).chooser(sample)).ids

    assert drawn(0) == drawn(0)
    assert len({drawn(0), drawn(1), drawn(0, 1)}) == 3


def test_a_cold_sample_is_the_greedy_answer(tiny):
    model = tiny["qwen2"]
    prefix = model.read(model.send(LOVE, "good"))
    for sampling in (Sampling(temperature=1e-6), Sampling(top_p=1e-9)):
        assert prefix.generate(8, (), sampling.chooser()) == prefix.generate(8, ())


def test_draws_have_the_probabilities_of_the_softmax_and_the_nucleus_of_transformers():
    logits = torch.tensor([2.0, 0.5, 1.0, -1.0, 0.0])
    sampling = Sampling(seed=1, temperature=1.5, top_p=0.8)
    choose = sampling.chooser()
    draws = torch.tensor([choose(logits) for _ in range(4000)])
    warper = pytest.importorskip("transformers").TopPLogitsWarper(0.8)
    kept = warper(torch.zeros(1, 1), (logits / 1.5)[None])[0]
    wanted = kept.softmax(-1)
    shares = torch.bincount(draws, minlength=5) / len(draws)
    assert torch.equal(shares > 0, wanted > 0)
    assert shares.tolist() == pytest.approx(wanted.tolist(), abs=0.035)  # four standard deviations of 4,000 draws


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"temperature": 0.0}, "temperature > 0"),
        ({"temperature": float("nan")}, "temperature as a finite number"),
        ({"top_p": 0.0}, "0 < top_p <= 1"),
        ({"top_p": 1.1}, "0 < top_p <= 1"),
        ({"seed": -1}, "seed >= 0"),
    ],
)
def test_numbers_of_sampling_have_ranges(given, match):
    with pytest.raises(RangeError, match=match):
        Sampling(**given)


def test_logits_that_are_no_numbers_are_refused(tiny):
    network = copy.deepcopy(tiny["gpt2"].phi.model)
    with torch.no_grad():
        network.transformer.ln_f.weight.fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="that are NaN: load the model in float32"):
        Prefix.read(network, [1, 2])


def test_a_model_that_keeps_no_keys_and_values_is_refused():
    with pytest.raises(RangeError, match=r"keeps keys and values .*got Linear"):
        Prefix.read(torch.nn.Linear(2, 2), [1])
