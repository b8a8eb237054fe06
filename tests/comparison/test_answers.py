"""The next token after two texts: distributions apart as a plain loop says, and prompts whose answer flips or stays."""

from pathlib import Path

import numpy as np
import pytest
import torch

from oneword.comparison.answers import Divergence, Prompt, answer_prompts, read_prompts
from oneword.comparison.verb import compare
from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError

A, B = "I love this film, and I love", "I love this film, and it was"
speaking = pytest.mark.parametrize("family", ["gpt2", "llama"])
SENTIMENT = Prompt(text="I love this {word} film, and it was", words=("awful", "naïve"), answers=("good", "bad"))


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
            answer_prompts(tiny[family], [SENTIMENT])


# Prompts ------------------------------------------------------------------------------------------------------------


@speaking
def test_the_answer_is_the_likelier_of_those_given(tiny, family):
    phi = tiny[family]
    found = answer_prompts(phi, [SENTIMENT])
    first = {answer: phi.encoder.spelled(answer)[0] for answer in SENTIMENT.answers}
    best = []
    for word in SENTIMENT.words:
        p = next_probabilities(phi, SENTIMENT.filled(word))
        best.append(max(first, key=lambda answer, p=p: p[first[answer]]))
    (line,) = found.flips.to_dict("records")
    assert [line["answer_a"], line["answer_b"]] == best
    assert line["flips"] == (best[0] != best[1])
    assert found.answers.groupby("word")["share"].sum().to_numpy() == pytest.approx(1)


def test_without_answers_any_token_may_come_first_and_every_pair_of_words_is_compared(tiny):
    prompt = Prompt(text="I love this {word} film", words=("awful", "naïve", "good"), name="any")
    found = answer_prompts(tiny["gpt2"], [prompt], top=2)
    assert found.flips[["word_a", "word_b"]].to_numpy().tolist() == [
        ["awful", "naïve"],
        ["awful", "good"],
        ["naïve", "good"],
    ]
    assert len(found.answers) == 6
    p = next_probabilities(tiny["gpt2"], prompt.filled("awful"))
    assert found.flips["probability_a"].iloc[0] == pytest.approx(p.max(), rel=1e-4)


def test_a_prompt_may_be_a_mapping(tiny):
    given = {"text": SENTIMENT.text, "words": list(SENTIMENT.words), "answers": ["good", "bad"]}
    assert answer_prompts(tiny["gpt2"], [given]).flips.equals(answer_prompts(tiny["gpt2"], [SENTIMENT]).flips)
    with pytest.raises(RangeError, match="prompt 1: expected words of at least 2 different words"):
        answer_prompts(tiny["gpt2"], [given | {"words": ["x"]}])


def test_answers_that_begin_alike_are_refused(tiny):
    with pytest.raises(RangeError, match="different first tokens"):
        answer_prompts(tiny["gpt2"], [Prompt(text="{word} I", words=("a", "b"), answers=("film", "film!"))])


def write(folder: Path, content: str) -> Path:
    path = folder / "prompts.toml"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_file_of_prompts_is_read(tmp_path):
    (one, two) = read_prompts(
        write(
            tmp_path,
            '[[prompt]]\ntext = "a {word} b"\nwords = ["x", "y"]\n[[prompt]]\nname = "n"\ntext = "{word} {}"\n'
            'words = ["x", "y", "z"]\nanswers = ["yes", "no"]\n',
        )
    )
    assert (one.title, one.words, one.answers, one.filled("x")) == ("a {word} b", ("x", "y"), (), "a x b")
    assert (two.title, two.answers, two.filled("z")) == ("n", ("yes", "no"), "z {}")


GOOD = 'text = "a {word}"\nwords = ["x", "y"]\n'
BAD: list[tuple[str, type[OnewordError], str]] = [
    ("[[prompt]]\n" + GOOD + 'word = ["x"]', UnknownNameError, r"prompt\]\] 1: .*got 'word'; did you mean 'words'"),
    ("[[prompts]]\n" + GOOD, UnknownNameError, "did you mean 'prompt'"),
    ('[[prompt]]\nwords = ["x", "y"]', RangeError, r"prompt\]\] 1: expected text, got none: add it"),
    ('[[prompt]]\ntext = "a"\nwords = ["x", "y"]', RangeError, "got it 0 times"),
    ('[[prompt]]\ntext = "{word} {word}"\nwords = ["x", "y"]', RangeError, "got it 2 times"),
    ('[[prompt]]\ntext = "{word}"\nwords = "x"', RangeError, "as a list of words"),
    ('[[prompt]]\ntext = "{word}"\nwords = ["x", "x"]', RangeError, "at least 2 different words"),
    ("[[prompt]]\n" + GOOD + 'answers = ["yes"]', RangeError, "alone"),
    ("[[prompt]]\n" + GOOD + "name = 3", RangeError, "expected name to be a valid string, got 3"),
    ("", RangeError, "at least one prompt"),
    ("[[prompt]\n", FileFormatError, "TOML"),
]


@pytest.mark.parametrize(("content", "error", "match"), BAD)
def test_a_file_that_is_no_prompts_is_refused_in_one_line(tmp_path, content, error, match):
    with pytest.raises(error, match=match) as caught:
        read_prompts(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert "prompts.toml" in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="No such file"):
        read_prompts(tmp_path / "none.toml")


def test_the_prompts_of_the_examples_can_be_read():
    assert len(read_prompts(Path(__file__).parents[2] / "examples" / "prompts.toml")) >= 2
