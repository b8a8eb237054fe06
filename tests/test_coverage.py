"""Exact speaks of what was tried: how many pairs, which words were not, and why."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

import oneword as ow
from oneword.errors import RangeError
from tests.text.tiny_bert import write_tiny

GIVEN = ["good", "bad", "film", "unhappy", "happy", "unhappily"]  # 1, 1, 1, 3, 2 tokens, and one unknown


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(folder):
    return ow.Encoder.load(str(folder))


def _found(encoder, content, words=GIVEN, **options):
    text, within = encoder.encode(content), ow.Words.of(encoder, words)
    return ow.sensitivity(ow.AttentionFeatures.draw(text.d, seed=0), text, within=within, **options)


def _shown(found):
    with (console := Console(width=400)).capture() as out:
        console.print(found)
    return out.get()


def test_exact_counts_the_pairs_that_were_tried_and_names_the_others(encoder):
    found = _found(encoder, "not a good film")
    assert found.kind == "exact"
    assert found.certificate.startswith("exact over the 12 (position, word) pairs tried, from ")
    tried = found.to_dict()["provenance"]["tried"]
    assert (tried["pairs"], tried["given"]) == (12, 6)
    assert [(each["word"], each["tokens"]) for each in tried["not_tried"]] == [
        ("unhappy", 3),
        ("happy", 2),
        ("unhappily", None),
    ]
    assert sum(map(len, found.substitutions.values.values())) == 12
    for view in (repr(found), _shown(found), found._repr_html_().replace("&#x27;", "'")):
        assert "3 of 6 given words not tried anywhere: 'unhappy' (3 tokens; no word that may change has 3)" in view
        assert "'unhappily' (unknown to the encoder)" in view


def test_words_of_the_text_without_candidates_are_named(encoder):
    found = _found(encoder, "not unhappy film", ["good", "bad"])
    tried = found.to_dict()["provenance"]["tried"]
    assert tried["without_candidates"] == [
        {"position": 2, "word": "unhappy", "tokens": 3, "reason": "3 tokens; no given word has 3"}
    ]
    assert found.per_word.set_index("position")["value"].isna().to_dict() == {1: False, 2: True, 3: False}
    for view in (repr(found), _shown(found), found._repr_html_().replace("&#x27;", "'")):
        assert "1 word of the text has no candidates: 'unhappy' at 2 (3 tokens; no given word has 3)" in view


def test_long_lists_are_shortened_for_readers_and_whole_in_files(encoder, tmp_path):
    words = ["good", *("happy" + "ly" * k for k in range(1, 9))]
    found = _found(encoder, "a film", words)
    left = found.provenance["tried"]["not_tried"]
    assert len(left) == 8
    assert "8 of 9 given words not tried anywhere" in repr(found)
    assert "and 3 more" in repr(found)
    again = ow.Sensitivity.load(found.save(tmp_path / "a.json"))
    assert again.provenance["tried"] == found.provenance["tried"]
    assert repr(again) == repr(found)


def test_where_all_fit_nothing_is_left_out(encoder):
    found = _found(encoder, "a film", ["good", "bad"])
    assert found.provenance["tried"] == {"pairs": 4, "given": 2, "not_tried": [], "without_candidates": []}
    assert "not tried" not in repr(found)
    vectors = ow.Vectors.of(ow.gaussian(3, 4, seed=1).X)
    table = ow.sensitivity(ow.AttentionFeatures.draw(4, seed=0), ow.gaussian(5, 4, seed=0), within=vectors)
    assert table.provenance["tried"]["pairs"] == 15


def test_a_list_of_which_nothing_fits_is_refused_by_library_and_command(encoder, folder, oneword, tmp_path):
    with pytest.raises(RangeError, match=r"expected words of 3 token\(s\) to replace, got none in the text"):
        _found(encoder, "a film", ["unhappy"])
    (tmp_path / "words.txt").write_text("unhappy\n", encoding="utf-8")
    arguments = ["--encoder", str(folder), "--map", "attention", "--among", str(tmp_path / "words.txt")]
    run = oneword("measure", "a film", *arguments)
    assert run.returncode == 2
    assert "expected words of 3 token(s) to replace, got none in the text" in run.stderr
    assert run.stderr.count("\n") == 1


def test_the_command_says_the_same_as_the_library(folder, oneword, tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(GIVEN), encoding="utf-8")
    arguments = ["--encoder", str(folder), "--map", "attention", "--seeds", "2", "--among", str(tmp_path / "words.txt")]
    page = tmp_path / "a.html"
    run = oneword("measure", "not happ good film", *arguments, "--html", str(page), "--json", str(tmp_path / "a.json"))
    assert run.returncode == 0, run.stderr
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert data["about"]["tried"]["pairs"] == {"attention": 12}
    assert [each["word"] for each in data["about"]["tried"]["not_tried"]] == ["unhappy", "happy", "unhappily"]
    told = " ".join(run.stdout.split())
    for view in (told, " ".join(page.read_text(encoding="utf-8").replace("&#39;", "'").split())):
        assert "3 of 6 given words not tried anywhere: 'unhappy' (3 tokens; no word that may change has 3)" in view
        assert "(position, word) pairs tried (attention 12)" in view
