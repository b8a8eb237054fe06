"""`measure` with answers: what it says of a prompt is what the model says of the prompts that one would type."""

import html
import math
from pathlib import Path

import jsonschema
import pytest
import torch

import oneword as ow
from oneword.chat.model import ChatModel
from oneword.errors import OnewordError, RangeError, TextError
from oneword.report.words.prompts import is_prompt, odds_after
from oneword.report.words.table import WordTable
from oneword.search.ascent import Ascent
from oneword.search.shortlist import Shortlist
from oneword.words.effort import Effort

PROMPT = "I love this film, not bad: watch it twice!"
ANSWERS = ("good", "The acting was awful.")
FEW = Effort(
    model_search=Ascent(random=0, steps=3, keep=1, leading=2, polish=3),
    searched=3,
    best_words=2,
    random_words=2,
    shortlist=Shortlist(least=8, most=24),
)
families = pytest.mark.parametrize("family", ["llama", "gpt2"])


@pytest.fixture(scope="module")
def shown() -> dict[str, list[WordTable]]:
    return {}


@pytest.fixture(scope="module")
def found(tiny: dict[str, ChatModel], shown: dict[str, list[WordTable]]) -> dict[str, WordTable]:
    return {
        family: ow.measure(PROMPT, by=tiny[family].phi, answers=ANSWERS, effort=FEW,
                           show=shown.setdefault(family, []).append)
        for family in ("llama", "gpt2")
    }  # fmt: skip


def log_odds(model: ChatModel, prompt: str, clean: str = PROMPT) -> float:
    """By the prompt as one would type it; answers as they are spelled after the clean one."""
    at = model.send_message(clean)
    prefix = model.read(model.send_message(prompt))
    first, second = prefix.log_likelihoods([model.spelled(at, answer) for answer in ANSWERS])
    return first - second


def typed(line: dict[str, object], word: str) -> str:
    start, end = int(line["start"]), int(line["end"])  # type: ignore[call-overload]
    if word:
        return PROMPT[:start] + word + PROMPT[end:]
    before = PROMPT[:start].rstrip()
    return before + PROMPT[end:] if before else PROMPT[end:].lstrip()


@families
def test_every_word_was_left_out_as_one_would_type_the_prompt_without_it(
    tiny: dict[str, ChatModel], found: dict[str, WordTable], family: str
) -> None:
    table, model = found[family], tiny[family]
    clean = log_odds(model, PROMPT)
    (part,) = table.parts
    assert is_prompt(part)
    assert part.subject.log_odds == pytest.approx(clean, abs=1e-5)
    lines = table.words.to_dict("records")
    assert [PROMPT[line["start"] : line["end"]] for line in lines] == [line["word"] for line in lines]
    assert "".join(line["word"] for line in lines) == PROMPT.replace(" ", "")
    for line in lines:
        without = log_odds(model, typed(line, ""))
        assert odds_after(part, line["left_out"]) == pytest.approx(without, abs=1e-4)


@families
def test_real_words_were_typed_in_the_place_of_others(
    tiny: dict[str, ChatModel], found: dict[str, WordTable], family: str
) -> None:
    table, model = found[family], tiny[family]
    (part,) = table.parts
    best = table.words[table.words["best_word"].notna()]
    assert len(best) == 2
    for line in best.to_dict("records"):
        truth = log_odds(model, typed(line, str(line["replacement"])))
        assert odds_after(part, line["best_word"]) == pytest.approx(truth, abs=1e-4)
        ranked = table.replacements[table.replacements["position"] == line["position"]]["value"].tolist()
        assert ranked == sorted(ranked, reverse=True)
        assert ranked[0] == line["best_word"]


@families
def test_the_sup_is_attained_and_counts_one_direction_alone(found: dict[str, WordTable], family: str) -> None:
    table = found[family]
    (result,) = table.results.values()
    assert result.upper is None
    assert "no certificate" in result.certificate
    known = table.words["value"].dropna()
    assert len(known) == 3
    assert (known >= 0).all()
    assert result.value == known.max()


@families
def test_a_first_answer_has_every_word_left_out(shown: dict[str, list[WordTable]], found: object, family: str) -> None:
    first = shown[family][0]
    assert first.words["left_out"].notna().all()
    assert first.words["first_order"].notna().all()
    assert first.words["value"].isna().all()


@families
def test_the_sentence_says_whether_a_word_turns_the_answer(found: dict[str, WordTable], family: str) -> None:
    (part,) = found[family].parts
    said = repr(found[family])
    top = part.words["left_out"].max()
    assert ("turns it" in said.split("Typing")[0]) == (top > 1)
    likelier = ANSWERS[0] if part.subject.log_odds > 0 else ANSWERS[1]
    assert f"finds “{likelier}” likelier" in said


@families
def test_json_fits_its_schema_and_the_page_has_the_prompt(
    tmp_path: Path, found: dict[str, WordTable], family: str
) -> None:
    table = found[family]
    jsonschema.validate(table.to_dict(), table.schema())
    page = table.save_html(tmp_path / "words.html").read_text(encoding="utf-8")
    assert "<th>left out" in page
    assert f"log-odds of “{ANSWERS[0]}” over" in page
    assert html.escape(table.parts[0].subject.about["sent"].splitlines()[0]) in page


def test_the_same_prompt_with_its_answers_swapped_has_the_same_numbers(
    tiny: dict[str, ChatModel], found: dict[str, WordTable]
) -> None:
    """Which answer comes first decides the sign of the log-odds, and nothing else."""
    other = ow.measure(PROMPT, by=tiny["gpt2"].phi, answers=ANSWERS[::-1], effort=FEW)
    one = found["gpt2"]
    assert other.parts[0].subject.log_odds == pytest.approx(-one.parts[0].subject.log_odds, abs=1e-6)
    for column in ("left_out", "first_order", "random_word"):
        assert other.words[column].to_numpy() == pytest.approx(one.words[column].to_numpy(), abs=1e-3)


def test_several_answers_are_sets_and_what_cannot_be_asked_is_refused(
    tiny: dict[str, ChatModel], folders: dict[str, Path]
) -> None:
    phi = tiny["gpt2"].phi
    table = ow.measure(PROMPT, by=phi, answers=(["good", "I love it!"], ["not"]), effort=FEW, words=False)
    assert "“good” / “I love it!” over “not”" in table.parts[0].subject.what
    assert table.words["best_word"].isna().all()
    wrong = {
        "good": "two answers",
        ("good",): "two answers",
        ("good", ""): "answers as texts",
        ("good", 3): "answers as",
    }
    for answers, said in wrong.items():
        with pytest.raises(RangeError, match=said):
            ow.measure(PROMPT, by=phi, answers=answers, effort=FEW)  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="none begins another"):
        ow.measure(PROMPT, by=phi, answers=("good", "good film"), effort=FEW)
    with pytest.raises(RangeError, match="causal language models with answers=, got the map attention"):
        ow.measure(PROMPT, by="attention", answers=ANSWERS)
    with pytest.raises(OnewordError, match=r"next token|causal"):
        ow.measure(PROMPT, by=str(folders["bert"]), answers=ANSWERS)
    with pytest.raises(TextError, match="prompts as strings"):
        ow.measure(ow.Context(torch.ones(3, 16)), by=phi, answers=ANSWERS)
    with pytest.raises(TextError):
        ow.measure("   ", by=phi, answers=ANSWERS)


def test_a_word_alone_is_measured_and_cannot_be_left_out(tiny: dict[str, ChatModel]) -> None:
    table = ow.measure("good", by=tiny["gpt2"].phi, answers=("not", "bad"), effort=FEW)
    assert table.words["word"].tolist() == ["good"]
    assert math.isnan(table.words["left_out"][0])


@pytest.mark.slow
def test_the_embedded_chat_model_decides_as_it_does_when_asked(smollm2: ChatModel) -> None:
    """A real prompt: the words left out and the words typed, each against the prompt as one would send it."""
    prompt, answers = "I did not like this film at all. Is that positive or negative?", ("Positive", "Negative")
    table = ow.measure(prompt, by=smollm2.phi, answers=answers, effort="quick")
    (part,) = table.parts
    at = smollm2.send_message(prompt)
    spelled = [smollm2.spelled(at, answer) for answer in answers]

    def asked(text: str) -> float:
        first, second = smollm2.read(smollm2.send_message(text)).log_likelihoods(spelled)
        return first - second

    assert part.subject.log_odds == pytest.approx(asked(prompt), abs=1e-3)
    best = table.words[table.words["best_word"].notna()].to_dict("records")
    assert best
    for line in [*table.words.to_dict("records")[:4], *best]:
        start, end = line["start"], line["end"]
        left = prompt[:start].rstrip() + prompt[end:] if start else prompt[end:].lstrip()
        assert odds_after(part, line["left_out"]) == pytest.approx(asked(left), abs=1e-3)
        if line["replacement"] is not None:
            typed_in = prompt[:start] + line["replacement"] + prompt[end:]
            assert odds_after(part, line["best_word"]) == pytest.approx(asked(typed_in), abs=1e-3)
    assert {"positive", "negative"} & {line["word"] for line in best}  # what the model echoes decides
