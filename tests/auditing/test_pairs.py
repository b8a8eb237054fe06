"""One's own pairs: read, skipped with a count, refused by name."""

import pytest

from oneword.auditing.pairs import Pairs
from oneword.errors import FileFormatError, UnknownNameError

HEAD = "text,edited,kind,type\n"


def read(tmp_path, content, name="pairs.csv"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return Pairs.read(path)


def test_pairs_with_and_without_types(tmp_path):
    found = read(
        tmp_path, HEAD + "it is good,it is bad,Signal,tone\nit is good,it is good !,noise,\n,x,noise,\na,a,noise,\n"
    )
    assert [(edit.type, edit.kind, edit.where) for edit in found.edits] == [
        ("tone", "signal", 6),
        ("own noise", "noise", 10),
    ]
    assert found.texts == ("it is good",)
    assert found.skipped.count == 2
    lines = '{"text": "a b", "edited": "a c", "kind": "signal"}\n'
    assert read(tmp_path, lines, "pairs.jsonl").edits[0].type == "own signal"


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("text,editted,kind\na,b,noise\n", FileFormatError, "no edited among .*did you mean 'editted'"),
        ("", FileFormatError, "names of the columns"),
        (HEAD, FileFormatError, "at least one pair"),
        (HEAD + "a,a,noise,\n", FileFormatError, "the same"),
        (HEAD + "a,b,niose,\n", UnknownNameError, "line 2 of pairs.csv: .*did you mean 'noise'"),
        (HEAD + "a,b,noise,negation\n", FileFormatError, "'negation' as signal"),
        (HEAD + "a,b,noise,x\na,c,signal,x\n", FileFormatError, "'x' as noise"),
    ],
)
def test_bad_files_are_named(tmp_path, content, error, says):
    with pytest.raises(error, match=says):
        read(tmp_path, content)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileFormatError, match="convert it"):
        read(tmp_path, "x", "pairs.txt")
    with pytest.raises(FileFormatError, match=r"nowhere\.csv"):
        Pairs.read(tmp_path / "nowhere.csv")
