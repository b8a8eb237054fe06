"""Log-odds of answers as a map of the prompt: the plain form is transformers' own, and the fast one equals it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from oneword.chat.model import ChatModel
from oneword.chat.odds import AnswerOdds, OddsProbe
from oneword.errors import RangeError
from oneword.maps.base import replace_rows
from oneword.maps.transformer import TransformerFeatures

PROMPT = "I love this film, not bad: watch it twice!"
SETS = (("good", "I love it!"), ("The acting was awful.", "not"))
families = pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
# In float64; but for the norms of Llama and Qwen, which transformers computes in float32 whatever the model is in.
DIGITS = {"gpt2": 1e-9, "llama": 1e-6, "qwen2": 1e-6}
Exact = dict[str, tuple[ChatModel, AnswerOdds, Tensor]]


def spelled(model: ChatModel, prompt: str = PROMPT) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    sent = model.send_message(prompt)
    first, second = (tuple(model.spelled(sent, answer) for answer in some) for some in SETS)
    return first, second


@pytest.fixture(scope="module")
def exact(folders: dict[str, Path]) -> Exact:
    """Models in float64."""
    out = {}
    for family in ("llama", "qwen2", "gpt2"):
        model = ChatModel.of(TransformerFeatures.load(str(folders[family]), dtype=torch.float64))
        out[family] = model, AnswerOdds(model.phi, spelled(model)), model.context(PROMPT).X
    return out


def by_tokens(model: ChatModel, ids: tuple[int, ...], answers: tuple[tuple[tuple[int, ...], ...], ...]) -> float:
    """By transformers, from token ids: one pass an answer."""
    sets = []
    for some in answers:
        each = []
        for answer in some:
            with torch.no_grad():
                rows = model.phi.model(input_ids=torch.tensor([[*ids, *answer]])).logits[0].double().log_softmax(-1)
            each.append(sum(rows[len(ids) - 1 + k, token] for k, token in enumerate(answer)))
        sets.append(torch.stack(each).logsumexp(0))
    return float(sets[0] - sets[1])


def changes(X: Tensor, rows: list[list[int]], size: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    i = torch.tensor(rows)
    noise = torch.randn(*i.shape, X.shape[1], dtype=X.dtype, generator=torch.Generator().manual_seed(seed))
    return X[i] + size * X.norm(dim=1).mean() / X.shape[1] ** 0.5 * noise, i


@families
def test_the_log_odds_are_those_of_transformers(exact: Exact, family: str) -> None:
    model, phi, X = exact[family]
    truth = by_tokens(model, model.send_message(PROMPT).ids, phi.answers)
    assert float(phi(X)) == pytest.approx(truth, abs=DIGITS[family])
    assert float(phi.at(X).clean) == pytest.approx(truth, abs=DIGITS[family])


@families
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_what_comes_before_the_changed_word_need_not_be_read_again(exact: Exact, family: str, size: float) -> None:
    _, phi, X = exact[family]
    probe = phi.at(X)
    assert probe._reuses
    assert probe._together
    n = len(X)
    every = [[i] for i in range(n)]
    some = [[n - 1], [0], [n // 2], [n - 1], [n // 2 + 1], [3]]
    for rows in (every, some, [[0, n - 1], [n - 2, n - 1], [n - 1, 2]]):
        y, i = changes(X, rows, size)
        plain = phi(replace_rows(X, y, i))
        torch.testing.assert_close(probe.features(y, i), plain, rtol=DIGITS[family], atol=DIGITS[family])


@families
def test_gradients_are_those_of_the_plain_form(exact: Exact, family: str) -> None:
    _, phi, X = exact[family]
    probe = phi.at(X)
    y, i = changes(X, [[2], [len(X) - 2], [len(X) // 2]], 1.0)
    value, gradient = probe.value_and_gradient(y, i)
    y = y.requires_grad_(True)
    fall = (probe.clean - phi(replace_rows(X, y, i))[:, 0]) * probe.clean.sign()
    (truth,) = torch.autograd.grad((fall * fall.abs()).sum(), y)
    slack = DIGITS[family]
    torch.testing.assert_close(value, (fall * fall.abs()).detach(), rtol=slack, atol=slack)
    torch.testing.assert_close(gradient, truth, rtol=slack, atol=10 * slack * float(truth.abs().max()))
    base = X.clone().requires_grad_(True)
    (whole,) = torch.autograd.grad(phi(base).sum(), base)
    gains = probe.gains(torch.arange(len(X))[:, None])
    torch.testing.assert_close(gains.norm, whole.norm(dim=1), rtol=10 * slack, atol=slack)


@families
def test_prompts_of_other_lengths_are_read_from_where_they_differ(exact: Exact, family: str) -> None:
    model, phi, X = exact[family]
    probe = phi.at(X)
    for text in ("I love this film", PROMPT + " I love her much", "not bad", PROMPT.replace("twice", "it"), PROMPT):
        ids = model.send_message(text).ids
        odds = float(probe.odds(phi.embedded(ids, X[None])))
        assert odds == pytest.approx(by_tokens(model, ids, phi.answers), abs=DIGITS[family])
        assert probe.relative(odds) == pytest.approx((float(probe.clean) - odds) / float(probe.clean))


@families
def test_changes_away_from_the_other_answer_count_less_than_nothing(exact: Exact, family: str) -> None:
    _, phi, X = exact[family]
    y, i = changes(X, [[k] for k in range(len(X))], 3.0)
    for sign in (1, -1):  # the second map has the answers in the other order
        probe = AnswerOdds(phi.phi, phi.answers[::sign]).at(X)
        odds = probe.features(y, i)[:, 0]
        nearer = (odds * probe.clean.sign()) < float(probe.clean.abs())
        assert ((probe.change2(y, i) > 0) == nearer).all()
        turned = odds.sign() != probe.clean.sign()
        assert ((probe.change2(y, i).clamp_min(0).sqrt() / probe.norm > 1) == turned).all()


@pytest.mark.parametrize("broken", ["_in_one_pass", "_prefix"])
def test_a_model_that_a_fast_way_does_not_suit_is_measured_without_it(
    exact: Exact, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, phi, X = exact["llama"]
    right = getattr(OddsProbe, broken)

    def wrong(self: OddsProbe, *given: object) -> object:
        if broken == "_in_one_pass":
            return 1.01 * right(self, *given)
        if given[0]:
            raise RuntimeError("such a cache cannot be cut")
        return None

    monkeypatch.setattr(OddsProbe, broken, wrong)
    probe = phi.at(X)
    assert (probe._together, probe._reuses) == ((False, True) if broken == "_in_one_pass" else (True, False))
    y, i = changes(X, [[len(X) - 2], [4]], 1.0)
    torch.testing.assert_close(probe.features(y, i), phi(replace_rows(X, y, i)), rtol=1e-6, atol=1e-6)


def test_a_set_without_answers_is_refused(exact: Exact) -> None:
    _, phi, _ = exact["llama"]
    for answers in (((), ((1,),)), (((1,),), ((),)), (((1,),),)):
        with pytest.raises(RangeError, match="expected two sets of answers"):
            AnswerOdds(phi.phi, answers)  # type: ignore[arg-type]


def test_the_embedded_chat_model_agrees_with_full_passes(smollm2: ChatModel) -> None:
    """To 1e-5 of the log-likelihoods they are made of: in float32, sums of other lengths come in another order."""
    phi, X = AnswerOdds(smollm2.phi, spelled(smollm2)), smollm2.context(PROMPT).X
    probe = phi.at(X)
    assert probe._reuses
    assert probe._together
    y, i = changes(X, [[len(X) - 8], [len(X) - 12], [len(X) - 12]], 1.0)
    with torch.no_grad():
        changed = replace_rows(X, y, i)
        fast, full = probe.features(y, i), phi(changed)
        largest = max(float(phi._log_p(changed, ids).abs().max()) for some in phi.answers for ids in some)
    torch.testing.assert_close(fast, full, rtol=0, atol=1e-5 * largest)


# Prompts as texts -----------------------------------------------------------------------------------------------------


@families
def test_a_prompt_is_a_text_whose_words_are_those_of_the_message(tiny: dict[str, ChatModel], family: str) -> None:
    model = tiny[family]
    for system, user in (("", PROMPT), ("It was awful.", "  I love\nthis film  "), ("not", "not good, not bad")):
        text, sent = model.context(user, system), model.send_message(user, system)
        own = [i for i, special in enumerate(text.special) if not special]
        assert [user[slice(*text.spans[i])] for i in own] == [text.words[i] for i in own]  # type: ignore[misc]
        assert " ".join(text.words[i] for i in own).replace(" ", "") == "".join(user.split())
        assert all(text.spans[i] is None for i in range(len(text.words)) if text.special[i])
        assert sorted(row for word in text.rows for row in word) == list(range(len(sent.ids)))
        torch.testing.assert_close(text.X, model.phi.encoder.embed(torch.tensor(sent.ids), dtype=text.X.dtype))
