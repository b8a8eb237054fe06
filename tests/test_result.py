"""Results: saved and loaded without loss, shown with every text escaped."""

import io
import json
import os

import numpy as np
import pytest
import torch
from rich.console import Console

import oneword as ow
from oneword.errors import FileFormatError
from tests.text.tiny_bert import write_tiny


@pytest.fixture(scope="module")
def result():
    X = ow.gaussian(4, 8, seed=0).X
    text = ow.Context(X, words=("<script>alert(1)</script>", "[bold]x", "$a^2$ & b", "w3"))
    return ow.sensitivity(ow.AttentionFeatures.draw(8, seed=0), text)


def test_save_and_load_lose_nothing(result, tmp_path):
    path = result.save(tmp_path / "s.json")
    loaded = ow.Sensitivity.load(path)
    assert loaded.value == result.value
    assert loaded.upper == result.upper
    assert loaded.status is result.status
    assert torch.equal(loaded.delta, result.delta)
    assert loaded.per_word.equals(result.per_word)
    assert loaded.provenance == json.loads(json.dumps(dict(result.provenance)))
    assert repr(loaded) == repr(result)


def test_saving_leaves_no_other_file(result, tmp_path):
    result.save(tmp_path / "s.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.json", "s.json.safetensors"]


def test_a_result_without_certificate_or_baseline_survives_too(tmp_path):
    s = ow.sensitivity(lambda x: x**2, ow.gaussian(3, 6), baseline=0)
    loaded = ow.Sensitivity.load(s.save(tmp_path / "s.json"))
    assert loaded.upper is None
    assert loaded.per_word["upper"].isna().all()
    assert loaded.per_word.equals(s.per_word)
    assert "–" in _terminal(s)


def test_names_that_look_alike_do_not_share_their_arrays(result, tmp_path):
    other = ow.sensitivity(ow.AttentionFeatures.draw(8, seed=1), ow.gaussian(4, 8, seed=1), certify=False)
    paths = [result.save(tmp_path / "c0.1"), other.save(tmp_path / "c0.2")]
    assert [torch.equal(ow.Sensitivity.load(p).delta, s.delta) for p, s in zip(paths, (result, other), strict=True)]


def test_numpy_numbers_in_the_question_can_be_saved(tmp_path):
    one = np.int64(1)
    s = ow.sensitivity(
        ow.AttentionFeatures.draw(4, seed=0),
        ow.gaussian(3, 4),
        seed=one,
        words=one,
        positions=np.arange(2),
        within=ow.Ball(np.float32(2)),
        certify=ow.Certify(2.0),
    )
    assert ow.Sensitivity.load(s.save(tmp_path / "s.json")).value == s.value


@pytest.mark.parametrize(
    "damage", ["missing", "not json", "other json", "deep json", "arrays missing", "arrays truncated"]
)
def test_damaged_files_are_one_line_errors(result, tmp_path, damage):
    path = result.save(tmp_path / "s.json")
    arrays = path.with_name("s.json.safetensors")
    if damage == "missing":
        path.unlink()
    elif damage == "not json":
        path.write_text("{")
    elif damage == "other json":
        path.write_text('{"format": "something else"}')
    elif damage == "deep json":
        path.write_text("[" * 100_000)
    elif damage == "arrays missing":
        arrays.unlink()
    else:
        arrays.write_bytes(arrays.read_bytes()[:10])
    with pytest.raises(FileFormatError, match="expected") as caught:
        ow.Sensitivity.load(path)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def over_words(tmp_path_factory):
    text = ow.encode("a good day", write_tiny(tmp_path_factory.mktemp("models") / "tiny"))
    words = ow.Words.of(text.encoder, ["good", "bad", "the"])
    return ow.sensitivity(ow.AttentionFeatures.draw(text.X.shape[1], seed=0), text, within=words)


@pytest.mark.parametrize(("name", "step"), [("s.json", 13), ("s.json.safetensors", 3)])
def test_a_flipped_bit_is_noticed_or_harmless(over_words, tmp_path, name, step):
    path = over_words.save(tmp_path / "s.json")
    written = ow.Sensitivity.load(path)
    file = tmp_path / name
    content = file.read_bytes()
    noticed = 0
    for place in range(0, len(content), step):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            found = ow.Sensitivity.load(path)
        except FileFormatError as error:
            noticed += "\n" not in str(error)
        else:
            assert found.to_dict() == written.to_dict()
            assert torch.equal(found.delta, written.delta)
            for position, values in written.substitutions.values.items():
                assert np.array_equal(found.substitutions.values[position], values)
    assert noticed > 50


def test_arrays_of_another_result_are_noticed(result, over_words, tmp_path):
    for name, saved in (("a", result), ("b", over_words)):
        saved.save(tmp_path / name)
    (tmp_path / "b.safetensors").replace(tmp_path / "a.safetensors")
    with pytest.raises(FileFormatError, match=r"as it was written, got another checksum: save it again"):
        ow.Sensitivity.load(tmp_path / "a")


def test_links_and_pipes_in_the_place_of_a_result_touch_nothing_and_hang_nothing(result, tmp_path):
    (tmp_path / "victim").write_text("victim")
    os.mkfifo(tmp_path / "pipe")
    for name in ("s.json", "s.json.safetensors"):
        (tmp_path / name).symlink_to("victim")
    path = result.save(tmp_path / "s.json")
    assert ow.Sensitivity.load(path).value == result.value
    assert (tmp_path / "victim").read_text() == "victim"
    for name in ("s.json.safetensors", "s.json"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(FileFormatError, match="a pipe, not a file"):
            ow.Sensitivity.load(path)


def test_saving_where_nothing_can_be_written_says_so(result, tmp_path):
    with pytest.raises(FileFormatError, match="can be written"):
        result.save(tmp_path / "no such folder" / "s.json")


def _terminal(s):
    buffer = io.StringIO()
    Console(file=buffer, width=120).print(s)
    return buffer.getvalue()


def test_terminal_shows_markup_as_text(result):
    shown = _terminal(result)
    assert "[bold]x" in shown
    assert f"{result.value:.4f}" in shown
    assert f"{result.upper:.4f}" in shown


def test_html_escapes_words(result):
    shown = result._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_the_summary_line_says_which_number_is_which_bound(result):
    assert "S ≥" in repr(result)
    assert "S ≤" in repr(result)
    assert "searched" in repr(result)


def test_the_figure_draws_every_word_and_reads_no_formulas(result, tmp_path):
    figure = result.plot()
    figure.savefig(tmp_path / "s.png")  # would fail on "$a^2$ & b" taken as a formula
    (axes,) = figure.axes
    assert len(axes.patches) == 4
    assert [label.get_text() for label in axes.get_xticklabels()][3] == "w3"
    assert len(figure.legends[0].get_texts()) == 3
