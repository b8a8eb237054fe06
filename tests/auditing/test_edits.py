"""Edits change one place, and say what they promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneword.auditing import edits as rules
from oneword.auditing.edits import RULES, TYPES, difference, edits_by, rules_of
from oneword.auditing.english import fits_article, swaps
from oneword.errors import UnknownNameError
from tests.auditing.cases import SENTENCES, reviews


def every(places, text):
    """All texts that the rule can make of this one."""
    return {text[: p.start] + option + text[p.end :] for p in places(text) for option in p.options}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("This is good", {"This is not good"}),
        ("It was not good", {"It was good"}),
        ("I don't like it", {"I do like it"}),
        ("I don’t like it", {"I do like it"}),
        ("It won't work", {"It will work"}),
        ("WON'T you", {"WILL you"}),
        ("She can't sing", {"She can sing"}),
        ("She cannot sing", {"She can sing"}),
        ("It ain't so", set()),
        ("They have seen it", {"They have not seen it"}),
        ("They have a dog", set()),
        ("I did a good job", set()),
        ("I do like it", {"I do not like it"}),
        ("Is it good", set()),  # a question
        ("and so is he", set()),
        ("not only good", set()),
        ("There is nothing", set()),  # denied already
        ("HE IS GOOD", {"HE IS NOT GOOD"}),
        ("My will", set()),  # nothing that follows
        ("whether or not it works", set()),  # no denial by itself
        ("She doesn’t know", {"She does know"}),
    ],
)
def test_negation(text, wanted):
    assert every(rules.negations, text) == wanted


def test_numbers_keep_their_form():
    made = every(rules.numbers, "In 1994 it took 25 men and three boats")
    assert "In 1987 it took 25 men and three boats" in made
    assert "In 1994 it took 95 men and three boats" in made
    assert "In 1994 it took 25 men and seven boats" in made
    assert not any("994 it" in text for text in made if "1994" not in text)
    assert every(rules.numbers, "v2.5 and 8/10 and $30") == set()  # parts of something else
    assert every(rules.numbers, "at 10:30 sharp") == set()
    assert "Part 7: the end" in every(rules.numbers, "Part 2: the end")
    assert every(rules.numbers, "an 8 again") == set()  # no other digit takes "an"
    assert "a 80 again" not in every(rules.numbers, "a 10 again")


def test_names_are_swapped_within_their_list():
    made = every(rules.names, "Anna's book, annas book")
    assert "Maria's book, annas book" in made
    assert not any("John" in text for text in made)


def test_opposites_and_synonyms_keep_capitals_and_articles():
    assert every(rules.antonyms, "Good films") == {"Bad films"}
    assert every(rules.antonyms, "the Good Wife") == set()  # a name
    assert every(rules.antonyms, "an excellent film") == {"an awful film"}
    assert every(rules.synonyms, "a film") == {"a movie"}
    assert every(rules.synonyms, "an odd man") == set()  # "an strange man" would be a second change
    assert every(rules.antonyms, "a dishonest clerk") == set()  # "a honest clerk"


@pytest.mark.parametrize("word", ["hour", "honest", "apple", "uninteresting", "onerous", "unidentified"])
def test_articles_follow_the_sound(word):
    assert fits_article(word, "an")
    assert not fits_article(word, "a")
    for other in ("useful", "unique", "European", "one", "house", "film"):
        assert fits_article(other, "a")
        assert not fits_article(other, "an")


def test_words_of_a_phrase_stay():
    assert every(rules.antonyms, "he left before long") == set()
    assert every(rules.antonyms, "he left before noon") == {"he left after noon"}
    for text in ("she turned on the light", "they killed him", "it took a while"):
        assert every(rules.synonyms, text) == set()


def test_stop_words_go_where_nothing_is_lost():
    assert every(rules.stop_words, "it was really good") == {"it was good"}
    assert every(rules.stop_words, "it was not very good") == set()
    assert every(rules.stop_words, "only a few") == set()
    assert every(rules.stop_words, "in quite a few") == set()  # which are many
    assert every(rules.stop_words, "but a really interesting film") == {"but really interesting film"}
    assert "but a bad film" in every(rules.stop_words, "but a really bad film")
    for text in ("love rather than money", "I would rather die", "I'd rather die", "it doesn’t really work"):
        assert every(rules.stop_words, text) == set()
    assert every(rules.stop_words, "I think that he left") == {"I think he left"}
    assert every(rules.stop_words, "I saw that film") == set()


def test_typos_swap_two_inner_letters():
    assert every(rules.typos, "story") == {"sotry", "stroy", "stoyr"}
    assert every(rules.typos, "film") == set()
    assert "trial" not in every(rules.typos, "trail")


def test_punctuation_and_case():
    made = every(rules.punctuation, "Good, but slow and long.")
    assert made == {"Good but slow and long.", "Good, but slow, and long.", "Good, but slow and long"}
    assert every(rules.punctuation, "good  and long") == {"good,  and long"}
    assert every(rules.cases, "a Good film") == {"a Good Film", "a Good FILM"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.type)
def test_all_but_one_place_stays(rule):
    for text in [*SENTENCES, *reviews(4)]:
        for edit in edits_by(text, rule, seed=0, most=3):
            start, end, new_end = difference(edit.text, edit.edited)
            assert edit.edited != text
            assert edit.text == text
            assert text[:start] == edit.edited[:start]
            assert text[end:] == edit.edited[new_end:]
            assert len(text[start:end].split()) <= 2  # a word, or the words that a "not" or comma stands between
            assert edit.where == start


def test_every_rule_finds_a_place_somewhere():
    assert {edit.type for text in reviews(4) for rule in RULES for edit in edits_by(text, rule, seed=0)} == set(TYPES)


def test_the_seed_decides_and_places_differ():
    text, rule = reviews(1)[0], RULES[0]
    assert edits_by(text, rule, seed=1, most=3) == edits_by(text, rule, seed=1, most=3)
    assert len({edit.edited for edit in edits_by(text, rule, seed=1, most=3)}) == 3
    assert len({edits_by(text, rule, seed=k)[0].edited for k in range(8)}) > 1


@given(st.text(max_size=60))
def test_any_text_is_edited_or_left(text):
    for rule in RULES:
        for edit in edits_by(text, rule, seed=0):
            assert edit.edited != text


@given(st.text(alphabet="ab c'", max_size=12), st.text(alphabet="ab c'", max_size=12))
def test_the_difference_gives_the_texts_back(text, other):
    start, end, new_end = difference(text, other)
    assert 0 <= start <= end <= len(text)
    assert text[:start] + other[start:new_end] + text[end:] == other


@pytest.mark.parametrize(
    ("text", "other", "was", "became"),
    [
        ("is nice", "is not nice", "", "not "),
        ("it was the thrust", "it was thrust", "the ", ""),
        ("two men", "twelve men", "two", "twelve"),
        ("wasn't it", "was it", "wasn't", "was"),
        ("good, but", "good but", ",", ""),
    ],
)
def test_the_difference_is_in_whole_words(text, other, was, became):
    start, end, new_end = difference(text, other)
    assert (text[start:end], other[start:new_end]) == (was, became)


def test_word_lists_are_large_and_do_not_contradict_themselves():
    opposite, same = swaps("antonyms"), swaps("synonyms")
    assert sum(map(len, opposite.values())) > 2 * 150
    assert sum(map(len, same.values())) > 2 * 150
    assert not {(word, other) for word in opposite for other in opposite[word] if other in same.get(word, ())}


def test_an_unknown_type_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'negation'"):
        rules_of(["negatoin"])
