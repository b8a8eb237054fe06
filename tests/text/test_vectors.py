"""Tables of word vectors: every format gives the same rows, unknown words are named, nothing is unpickled."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from oneword.errors import FileFormatError, NonFiniteError, OnewordError, RangeError, TextError, ZeroNormError
from oneword.text.encoders import Encoder, encode
from oneword.text.families import NO_LIMIT

WORDS = ["the", "film", "was", "not", "good", ",", "café", "😀", "漢"]
ROWS = np.random.default_rng(0).standard_normal((len(WORDS), 5)).astype(np.float32)


def as_text(words: list[str] = WORDS, rows: np.ndarray = ROWS, header: str = "", end: str = "\n") -> str:
    lines = [f"{word} {' '.join(map(repr, row.tolist()))}" for word, row in zip(words, rows, strict=True)]
    return header + "".join(line + end for line in lines)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(name: str = "vectors.txt", content: str | bytes = as_text()) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def refused(error: type[OnewordError], match: str, act: Callable[[], object]) -> None:
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_every_format_gives_the_same_encoder(write: Callable[..., Path], tmp_path: Path) -> None:
    files = [
        write(),
        write("header.vec", as_text(header=f"{len(WORDS)} 5\n", end=" \n")),  # word2vec and fastText
        npz(tmp_path / "vectors.npz", words=np.array(WORDS), vectors=ROWS.astype(np.float64)),
        write("twice.txt", as_text() + as_text(["film"], np.ones((1, 5)))),  # the first row counts
        write("blank.txt", as_text() + "\n\n"),
    ]
    truth = torch.from_numpy(ROWS[[1, 2, 3, 4]]).double()
    for path in files:
        encoder = Encoder.load(path)
        found = encoder.encode("Film was  not\ngood")
        assert found.words == ("Film", "was", "not", "good")
        assert torch.allclose(found.X, truth / truth.norm(dim=1, keepdim=True) * math.sqrt(5), rtol=1e-14)
        assert (encoder.d, encoder.vocabulary_size, encoder.longest) == (5, len(WORDS), NO_LIMIT)
        assert encoder.describe() == {
            "encoder": path.name, "revision": encoder.revision, "layer": "bare", "encoder_width": 5
        }  # fmt: skip


def test_a_table_is_an_encoder_without_positions_and_special_tokens(write: Callable[..., Path]) -> None:
    encoder = Encoder.load(write())
    assert encoder.around == ((), ())
    assert encode("the film", encoder).special == (False, False)
    parts = encoder.affine(encoder.whole_words, torch.tensor([0, 10_000]))
    assert parts.shared
    assert torch.equal(parts.at(0), encoder.embed(encoder.whole_words, positions=torch.tensor(7)))
    assert encoder.tokens_of(encoder.whole_words) == tuple(WORDS)
    refused(RangeError, "BERT-type encoder at layer 0", lambda: encoder.first_attention("film"))
    refused(RangeError, "one token before a text", lambda: encoder.ends)


def test_a_word_that_is_not_there_is_left_out_and_named(write: Callable[..., Path]) -> None:
    encoder = Encoder.load(write())
    text = "The movie was, alas, GOOD😀"
    found = encoder.encode(text)
    assert found.words == ("The", "was", ",", ",", "GOOD", "😀")
    assert found.source["skipped"] == ("movie", "alas")
    assert [text[slice(*span)] for span in found.spans] == list(found.words)
    assert "skipped" not in encoder.encode("the film").source
    refused(TextError, "got 'movie', none of whose words vectors.txt has", lambda: encoder.encode("movie"))


def test_a_window_names_the_words_left_out_of_itself(write: Callable[..., Path]) -> None:
    encoder = Encoder.load(write())
    text = "oh the film, alas, was not good"
    cuts = encoder.windows(text, size=3)
    assert [cut.words for cut in cuts] == [("the", "film", ","), (",", "was", "not"), ("good",)]
    # A word that is not there belongs to the window of the word before it, at the beginning to the first.
    assert [cut.source.get("skipped") for cut in cuts] == [("oh", "alas"), None, None]
    for size in (1, 2, 5):
        cuts = encoder.windows(text, size=size)
        assert [word for cut in cuts for word in cut.source.get("skipped", ())] == ["oh", "alas"]


@pytest.mark.parametrize("unknown", ["<unk>", "<UNK>", "[UNK]"])
def test_a_word_that_is_not_there_takes_the_row_for_unknown_words(write: Callable[..., Path], unknown: str) -> None:
    encoder = Encoder.load(write("unk.txt", as_text([*WORDS[:-1], unknown])))
    found = encoder.encode("The movie was good")
    assert found.words == ("The", "movie", "was", "good")
    assert found.tokens[1] == unknown
    assert "skipped" not in found.source
    assert encoder.tokens_of(encoder.whole_words) == tuple(WORDS[:-1])


def test_a_table_with_capitals_is_asked_as_it_is_spelt(write: Callable[..., Path]) -> None:
    encoder = Encoder.load(write("capitals.txt", as_text(["The", "the", *WORDS[2:]])))
    assert encoder.encode("The the THE was").tokens == ("The", "the", "was")


def test_words_of_several_parts_do_not_disturb_a_table(write: Callable[..., Path]) -> None:
    encoder = Encoder.load(write("parts.txt", as_text([*WORDS[:-1], ". . ."])))
    assert encoder.tokens_of(encoder.whole_words)[-1] == ". . ."


def test_a_table_is_read_once_unless_it_changes(write: Callable[..., Path]) -> None:
    path = write()
    first = Encoder.load(path)
    assert Encoder.load(str(path)) is first
    assert Encoder.load(write("copy.txt")).revision == first.revision
    path.write_text(as_text(rows=2 * ROWS))
    assert Encoder.load(path).revision != first.revision


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "words with their numbers in bad.txt, got none"),
        ("3 5\n", "got none"),
        ("film\n", "a word and its numbers in line 1"),
        ("This is a review.\n", "numbers in line 1 of bad.txt, got 'This is a review.'"),
        (as_text() + "short 1.0 2.0\n", f"5 numbers in line {len(WORDS) + 1}"),
        (as_text() + "odd 1 2 x 4 5\n", f"5 numbers in line {len(WORDS) + 1}"),
        (b"\xff\xfe\x00", "readable bad.txt in .*, got UnicodeDecodeError"),
    ],
)
def test_a_file_that_is_no_table_is_refused(write: Callable[..., Path], content: str | bytes, match: str) -> None:
    path = write("bad.txt", content)
    refused(FileFormatError, match, lambda: Encoder.load(path))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple:
            return pytest.fail, ("unpickled",)

    pickled = np.array([Bomb()] * len(WORDS), dtype=object)
    for arrays in ({"words": pickled, "vectors": ROWS}, {"words": np.array(WORDS), "vectors": pickled}):
        path = npz(tmp_path / "bad.npz", **arrays)
        refused(
            FileFormatError,
            r"arrays words .* in bad.npz, got ValueError: Object arrays",
            lambda p=path: Encoder.load(p),
        )


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(WORDS)},
        {"words": np.array(WORDS), "vectors": ROWS[:3]},
        {"words": np.array(WORDS), "vectors": ROWS[:, 0]},
        {"words": np.array(WORDS), "vectors": ROWS[:, :0]},
        {"words": np.arange(len(WORDS)), "vectors": ROWS},
        {"words": np.array(WORDS), "vectors": ROWS.astype(int)},
    ],
)
def test_arrays_that_are_no_table_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = npz(tmp_path / "bad.npz", **arrays)
    refused(FileFormatError, "expected (arrays )?words .*vectors", lambda: Encoder.load(path))


def test_a_file_that_is_no_archive_is_refused(write: Callable[..., Path]) -> None:
    for content in (b"", b"PK\x03\x04", b"film 1 2 3"):
        path = write("bad.npz", content)
        refused(FileFormatError, "in bad.npz, got", lambda path=path: Encoder.load(path))


def test_numbers_that_are_not_finite_and_rows_of_zeros_are_refused(write: Callable[..., Path]) -> None:
    path = write("nan.txt", as_text() + "bad nan 1 2 3 inf\n")
    refused(NonFiniteError, "2 of 50 entries of the vectors in nan.txt", lambda: Encoder.load(path))
    encoder = Encoder.load(write("zero.txt", as_text() + "nil 0 0 0 0 0\n"))
    refused(ZeroNormError, "got 0 for 'nil' in all coordinates: leave", lambda: encoder.encode("film nil"))
    assert encoder.tokens_of(encoder.whole_words) == tuple(WORDS)


@pytest.mark.parametrize("name", ["model.bin", "vectors.csv", "glove"])
def test_other_files_are_refused_by_name(write: Callable[..., Path], name: str) -> None:
    path = write(name)
    refused(FileFormatError, f"word vectors as .txt, .vec, .npz, got the file {name}", lambda: Encoder.load(path))


@pytest.mark.parametrize(
    "name", ["glove.6B.100d.txt", "vectors.npz", "wiki.vec", "~nobody-of-this-name/x", "a" * 300, "a\0b"]
)
def test_files_that_are_not_there_are_one_line(name: str) -> None:
    refused(FileFormatError, "there is no such file or folder", lambda: Encoder.load(name))
