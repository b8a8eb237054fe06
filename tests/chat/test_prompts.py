"""Files of prompts: read, or refused in one line."""

from pathlib import Path

import pytest

from oneword.chat.prompts import Prompt, given_prompts, read_prompts
from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError


def write(folder: Path, content: str) -> Path:
    path = folder / "prompts.toml"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_file_of_prompts_is_read(tmp_path):
    (one, two) = read_prompts(
        write(
            tmp_path,
            '[[prompt]]\nuser = "a {word} b"\nwords = ["x", "y"]\n[[prompt]]\nname = "n"\nuser = "{}"\n'
            'system = "{word}!"\nwords = ["x", "z"]\nanswers = [["yes ", "sure"], ["no"]]\n',
        )
    )
    assert (one.title, one.words, one.answers, one.filled("x")) == ("a {word} b", ("x", "y"), (), ("", "a x b"))
    assert (two.title, two.answers, two.filled("z")) == ("n", (("yes", "sure"), ("no",)), ("z!", "{}"))


GOOD = 'user = "a {word}"\nwords = ["x", "y"]\n'
BAD: list[tuple[str, type[OnewordError], str]] = [
    ("[[prompt]]\n" + GOOD + 'word = ["x"]', UnknownNameError, r"prompt\]\] 1: .*got 'word'; did you mean 'words'"),
    ("[[prompts]]\n" + GOOD, UnknownNameError, "did you mean 'prompt'"),
    ('[[prompt]]\nwords = ["x", "y"]', RangeError, r"prompt\]\] 1: expected user, got none: add it"),
    ('[[prompt]]\nuser = "a"\nwords = ["x", "y"]', RangeError, "got it 0 times"),
    ('[[prompt]]\nuser = "{word} {word}"\nwords = ["x", "y"]', RangeError, "got it 2 times"),
    ('[[prompt]]\nuser = "{word}"\nsystem = "{word}"\nwords = ["x", "y"]', RangeError, "got it 2 times"),
    ('[[prompt]]\nuser = " "\nsystem = "{word}"\nwords = ["x", "y"]', RangeError, "at least one word"),
    ('[[prompt]]\nuser = "{word}"\nwords = "x"', RangeError, "as a list of two different words"),
    ('[[prompt]]\nuser = "{word}"\nwords = ["x", "x"]', RangeError, "two different words"),
    ('[[prompt]]\nuser = "{word}"\nwords = ["x", "y", "z"]', RangeError, "two different words"),
    ('[[prompt]]\nuser = "{word}"\nwords = ["x", " "]', RangeError, "two different words"),
    ("[[prompt]]\n" + GOOD + 'answers = "yes"', RangeError, "as two lists of answers"),
    ("[[prompt]]\n" + GOOD + 'answers = ["yes", "no"]', RangeError, "two lists of at least one answer"),
    ("[[prompt]]\n" + GOOD + 'answers = [["yes"], []]', RangeError, "two lists of at least one answer"),
    ("[[prompt]]\n" + GOOD + 'answers = [["yes"], ["yes "]]', RangeError, "got 'yes' twice"),
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


def test_prompts_may_be_mappings():
    prompt = Prompt(user="a {word}", words=("x", "y"), answers=(("b",), ("c",)))
    assert given_prompts({"user": "a {word}", "words": ["x", "y"], "answers": [["b"], ["c"]]}) == (prompt,)
    assert given_prompts([prompt, prompt]) == (prompt, prompt)
    with pytest.raises(RangeError, match="prompt 2: expected words"):
        given_prompts([prompt, {"user": "a {word}", "words": ["x"]}])
    for wrong in (3, "a {word}", None):
        with pytest.raises(RangeError, match=r"a Prompt, a mapping or a list of them, got .*read_prompts"):
            given_prompts(wrong)


def test_the_prompts_of_the_examples_are_twelve_with_answers_to_both_words():
    found = read_prompts(Path(__file__).parents[2] / "examples" / "prompts.toml")
    assert len(found) == 12
    assert all(len(prompt.answers) == 2 for prompt in found)
