"""Tokens of a word inside a text: those it has in the text itself, whatever the tokenizer does with spaces."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from oneword.text.tokens import TokenKinds, align
from tests.text.tiny_models import LINES, TOKENIZERS, around

MORE = ["film (good and bad) 10/10", "her film", "The-film: awful!", "I love 😀 and 漢 much"]


def spelled(kinds: TokenKinds, word: str, *, attached: bool = False) -> list[str]:
    return [kinds.tokenizer.id_to_token(i) for i in kinds.spelled(word, attached=attached)]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_word_has_the_tokens_that_it_has_in_a_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    kinds = TokenKinds(tokenizer)
    compared = 0
    for line in LINES + MORE:
        found = tokenizer.encode(line, add_special_tokens=False)
        words = align(line, found.offsets)
        for span, rows in zip(words.spans, words.rows, strict=True):
            tokens, word = [found.tokens[row] for row in rows], line[slice(*span)]
            own = spelled(kinds, word, attached=kinds.is_attached(tokens[0]))
            if tokens[0] in ("Ġ", "▁") and not word.isalnum() and word not in "😀漢":
                assert own in (tokens[1:], [])  # no token for the space alone
            elif own:
                assert own == tokens
                compared += 1
            else:  # unknown, but never to a tokenizer that has every byte
                assert name in ("wordpiece", "unigram")
    assert compared >= 40


def test_the_space_before_a_word_is_no_token_of_its_own() -> None:
    """As Llama 2 and Mistral: the normalizer puts ▁ before the text, and a space would be a second one."""
    assert spelled(TokenKinds(TOKENIZERS["llama"]()), "love") == ["▁love"]
    for name in ("byte-level", "byte-level, untrimmed", "byte-level, prefix space"):
        kinds = TokenKinds(TOKENIZERS[name]())
        assert spelled(kinds, "love") == ["Ġlove"]
        assert spelled(kinds, ",") == spelled(kinds, ",", attached=True) == [","]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_special_tokens_and_unknown_words_have_no_tokens(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    kinds = TokenKinds(tokenizer)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    unknown = ["漢", "q☃"] if name in ("wordpiece", "unigram") else []
    for word in special + unknown:
        assert kinds.spelled(word) == kinds.spelled(word, attached=True) == ()


def test_the_unknown_token_of_a_unigram_need_not_be_special() -> None:
    tokenizer = Tokenizer(models.Unigram([("<s>", 0.0), ("?", -9.0), ("▁good", -1.0), ("▁", -2.0)], 1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    kinds = TokenKinds(tokenizer)
    assert (spelled(kinds, "good"), spelled(kinds, "bad")) == (["▁good"], [])


def test_where_words_have_one_form_nothing_is_attached() -> None:
    kinds = TokenKinds(TOKENIZERS["wordpiece"]())
    assert not kinds.has_two_forms
    assert kinds.attached_words == []
    assert not any(kinds.is_attached(token) for token in ("film", "the", ",", "##il"))
    assert kinds.spelled("her") == kinds.spelled("her", attached=True)


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name != "wordpiece"])
def test_attached_words_are_words_that_also_stand_after_a_space_or_punctuation(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    kinds = TokenKinds(tokenizer)
    spaced = {kinds.joined([tokenizer.id_to_token(i)]) for i in kinds.words()}
    names = [kinds.joined([tokenizer.id_to_token(i)]) for i in kinds.attached_words]
    assert "," in names
    assert len(set(names)) == len(names)
    assert all(word in spaced or not any(map(str.isalnum, word)) for word in names)
    assert not set(kinds.words()) & set(kinds.attached_words)


def test_a_tokenizer_that_joins_a_word_with_what_stands_before_is_asked_again() -> None:
    """A merge across "(" must not lend its token to the word."""
    vocabulary = {token: i for i, token in enumerate(["<s>", "▁", "(", "-", "g", "o", "(g", "▁a", "a", "go"])}
    merges = [("(", "g"), ("g", "o"), ("▁", "a")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens(["<s>"])
    assert spelled(TokenKinds(around(tokenizer, "<s> $A")), "go", attached=True) == ["go"]
