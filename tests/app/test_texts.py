"""What may be handed in: every text within the limits, and nothing else, whatever bytes a file has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneword.app.measuring import beginnings
from oneword.app.texts import MOST_BYTES, MOST_CHARACTERS, MOST_WORDS, check_text, read_upload
from oneword.errors import OnewordError


@given(st.text(max_size=200))
def test_a_text_is_taken_as_it_is_but_for_the_space_around_it(text):
    if text.strip():
        assert check_text(text) == text.strip()
    else:
        with pytest.raises(OnewordError, match="expected a text of at least one word"):
            check_text(text)


def test_a_text_that_is_too_long_is_refused_with_what_to_do():
    assert check_text("word " * MOST_WORDS)
    with pytest.raises(OnewordError, match=f"at most {MOST_WORDS} words, got {MOST_WORDS + 1}: shorten it"):
        check_text("word " * (MOST_WORDS + 1))
    with pytest.raises(OnewordError, match="characters"):
        check_text("x" * (MOST_CHARACTERS + 1))


@given(st.binary(max_size=300))
def test_any_file_is_read_as_text_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("upload") / "file.txt"
    path.write_bytes(content)
    said = None
    try:
        text = read_upload(path)
    except OnewordError as error:
        said = str(error)
    assert "\n" not in said if said is not None else text.encode() in content


def test_files_that_are_no_texts_are_refused(tmp_path):
    path = tmp_path / "file.txt"
    for content, said in (
        (b"\x89PNG\r\n\x1a\n\xff", "UTF-8"),
        (b"a\x00b", "control characters"),
        (b"a" * (MOST_BYTES + 1), "bytes"),
        (b" \n", "at least one word"),
    ):
        path.write_bytes(content)
        with pytest.raises(OnewordError, match=said):
            read_upload(path)


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=60), st.sampled_from([" ", "  ", "\n"]))
def test_shorter_texts_are_beginnings_that_end_with_a_word(words, between):
    text = between.join(words)
    found = beginnings(text)
    assert found[-1] == text
    lengths = [len(each.split()) for each in found]
    assert lengths == sorted(set(lengths))
    assert all(text.startswith(each) and each.split() == words[: len(each.split())] for each in found)
