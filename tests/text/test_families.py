"""Layer 0 of every family is what transformers computes; its affine parts give its rows; others are refused by name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError
from oneword.text.encoders import Encoder
from oneword.text.families import FAMILIES, distance_lines
from tests.text.tiny_models import KINDS, POSITIONS, WIDTH, write_model

TEXT = "I love this film, and naïve heroes!"
BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "electra", "electra, one width")


def refused(error: type[OnewordError], match: str, act: Callable[[], object]) -> None:
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_layer_0_and_bare_embeddings_are_those_of_transformers(tmp_path: Path, kind: str, head: bool) -> None:
    model = write_model(tmp_path / "model", kind, head=head)
    encoder, bare = (Encoder.load(tmp_path / "model", layer=layer) for layer in (0, "bare"))
    ids = torch.tensor([encoder.tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        truth = model(input_ids=ids, output_hidden_states=True).hidden_states[0][0].double()
        words = model.get_input_embeddings()(ids[0])
    at = torch.arange(ids.shape[1])
    # transformers computes in float32: sums and norms of about 16 numbers of size 1, in a projection 12 of them.
    assert (encoder.layer0.raw(ids[0], at) - truth).abs().max() <= 1e-5
    assert (encoder.d, encoder.describe()["layer"]) == (WIDTH, 0)
    assert torch.equal(bare.layer0.raw(ids[0], at), words.double())
    assert (bare.d, bare.describe()["layer"]) == (words.shape[1], "bare")
    X = encoder.encode(TEXT, d=5).X
    assert torch.allclose(X, truth[:, :5] / truth[:, :5].norm(dim=1, keepdim=True) * 5**0.5, atol=1e-5)


@pytest.mark.parametrize("layer", [0, "bare"])
@pytest.mark.parametrize("kind", KINDS)
def test_affine_parts_give_the_rows_of_every_word_at_every_position(tmp_path: Path, kind: str, layer: str) -> None:
    write_model(tmp_path / "model", kind)
    encoder = Encoder.load(tmp_path / "model", layer=layer)
    ids, positions = torch.arange(0, encoder.vocabulary_size, 3), torch.tensor([0, 1, 7, 30, 2])
    for d in (encoder.d, 5):
        parts = encoder.affine(ids, positions, d=d)
        for place, i in enumerate(positions):
            rows = encoder.embed(ids, d=d, positions=i)
            assert (parts.at(place) - rows).norm() <= 1e-12 * rows.norm()
        assert parts.shared == (layer == "bare" or KINDS[kind].config in ("Llama", "Mistral", "Qwen2", "Qwen3"))
    single = encoder.affine(ids, positions, dtype=torch.float32)
    assert {part.dtype for part in (single.a, single.c, single.s, single.b)} == {torch.float32}


def test_shared_rows_have_no_part_that_depends_on_the_position(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    parts = Encoder.load(tmp_path / "model").affine(torch.arange(9), torch.arange(4))
    assert not parts.c.any()
    assert not parts.b.any()
    assert (parts.s == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_attention_is_that_of_transformers_in_encoders_like_bert(tmp_path: Path, kind: str) -> None:
    model = write_model(tmp_path / "model", kind)
    encoder = Encoder.load(tmp_path / "model")
    if kind not in BERT_LIKE:
        refused(RangeError, "expected a BERT-type encoder at layer 0", lambda: encoder.first_attention(TEXT))
        return
    model.set_attn_implementation("eager")
    tokens, weights = encoder.first_attention(TEXT)
    found = encoder.tokenizer.encode(TEXT)
    with torch.no_grad():
        truth = model(input_ids=torch.tensor([found.ids]), output_attentions=True).attentions[0][0]
    assert tokens == tuple(found.tokens)
    assert (weights - truth).abs().max() <= 1e-4  # scores of size 16 in float32, and their exponentials
    bare = Encoder.load(tmp_path / "model", layer="bare")
    refused(RangeError, "got model at layer bare", lambda: bare.first_attention(TEXT))


def test_distances_are_counted_as_in_mpnet() -> None:
    mpnet = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    places = torch.arange(700)
    for lines in (8, 32, 64):
        truth = mpnet.MPNetEncoder.relative_position_bucket(places - places[:, None], num_buckets=lines)
        assert torch.equal(distance_lines(700, lines), truth)


def test_shards_and_half_precision_are_read(tmp_path: Path) -> None:
    model = write_model(tmp_path / "whole", "llama", head=True)
    write_model(tmp_path / "shards", "llama", head=True, max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    whole, shards = (Encoder.load(tmp_path / name) for name in ("whole", "shards"))
    assert torch.equal(whole.encode(TEXT).X, shards.encode(TEXT).X)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    (tmp_path / "whole" / "tokenizer.json").rename(tmp_path / "half" / "tokenizer.json")
    half = Encoder.load(tmp_path / "half")
    assert half.layer0.word.dtype == torch.bfloat16
    assert torch.allclose(half.encode(TEXT).X, whole.encode(TEXT).X, rtol=0.02, atol=0.02)  # 8 bits


def test_positions_begin_after_the_padding_in_roberta(tmp_path: Path) -> None:
    for kind, longest in (("roberta", POSITIONS - 2), ("bert", POSITIONS), ("gpt2", POSITIONS), ("llama", POSITIONS)):
        write_model(tmp_path / kind, kind)
        encoder = Encoder.load(tmp_path / kind)
        assert encoder.longest == longest
        refused(
            RangeError, f"at most {longest} tokens", lambda encoder=encoder: encoder.encode("film " * POSITIONS * 3)
        )
        assert Encoder.load(tmp_path / kind, layer="bare").encode("film " * POSITIONS * 3).n >= POSITIONS * 3


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("bert", ("[CLS]",), ("[SEP]",)),
        ("roberta", ("<s>",), ("</s>",)),
        ("gpt2", (), ()),
        ("llama", ("<s>",), ()),
    ],
)
def test_special_tokens_are_those_of_the_tokenizer(tmp_path: Path, kind: str, before: tuple, after: tuple) -> None:
    write_model(tmp_path / "model", kind)
    encoder = Encoder.load(tmp_path / "model")
    assert tuple(encoder.tokens_of(torch.tensor(part)) for part in encoder.around) == (before, after)
    whole, bare = encoder.encode(TEXT), encoder.encode(TEXT, special=False)
    assert whole.words == (*before, *bare.words, *after)
    assert whole.special == (True,) * len(before) + (False,) * len(bare.words) + (True,) * len(after)
    assert list(whole.tokens) == encoder.tokenizer.encode(TEXT).tokens
    if before and after:
        assert encoder.tokens_of(torch.tensor(encoder.ends)) == before + after
    else:
        refused(RangeError, "one token before a text and one after", lambda: encoder.ends)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "gpt2", "llama"])
def test_whole_words_are_readable_and_begin_a_word(tmp_path: Path, kind: str) -> None:
    write_model(tmp_path / "model", kind)
    encoder = Encoder.load(tmp_path / "model")
    tokens = encoder.tokens_of(encoder.whole_words)
    words = [encoder.joined([token]) for token in tokens]
    assert {"film", "the", "her"} & {word.lower() for word in words}
    assert all(word and word.isprintable() and not word.startswith(("##", "<", "[", " ")) for word in words)
    pieces = {"bert": ("un", "##happily"), "roberta": ("Ġun", "happily"), "gpt2": ("Ġun", "happily")}.get(
        kind, ("▁un", "happily")
    )
    assert encoder.rows_of_words(pieces) == ((0, 1),)
    assert encoder.joined(pieces) == "unhappily"


def test_special_tokens_are_words_of_their_own_in_tokens_alone(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "roberta")
    encoder = Encoder.load(tmp_path / "model")
    assert encoder.rows_of_words(("<s>", "un", "happy", "Ġfilm", "s", "</s>")) == ((0,), (1, 2), (3, 4), (5,))


# Folders ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["", "0_Transformer"])
def test_a_sentence_transformers_folder_is_read(tmp_path: Path, inner: str) -> None:
    folder = tmp_path / "sentences"
    write_model(folder / inner, "bert")
    (folder / "modules.json").write_text(
        f'[{{"idx": 0, "name": "0", "path": "{inner}", "type": "sentence_transformers.models.Transformer"}},'
        ' {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]'
    )
    assert Encoder.load(folder).name == "sentences"
    assert Encoder.load(folder).encode("film").n >= 3


@pytest.mark.parametrize(
    ("modules", "match"),
    [
        ("[", "readable modules.json"),
        ("[]", "readable modules.json"),
        ('[{"path": "..", "type": "Transformer"}]', "inside"),
    ],
)
def test_a_sentence_transformers_folder_that_says_nothing_useful_is_refused(
    tmp_path: Path, modules: str, match: str
) -> None:
    (tmp_path / "modules.json").write_text(modules)
    refused(FileFormatError, match, lambda: Encoder.load(tmp_path))


@pytest.mark.parametrize("kind", ["t5", "gemma", None, 3])
def test_an_unknown_family_is_refused_with_the_known_ones(make_tiny: Callable[..., Path], kind: object) -> None:
    folder = make_tiny(model_type=kind)
    refused(FileFormatError, f"type {', '.join(FAMILIES)} .* got {kind}", lambda: Encoder.load(folder))


def test_no_padding_written_as_minus_1_is_what_ends_a_text(tmp_path: Path) -> None:
    """As early Llama files have it; their positions do not count from it."""
    write_model(tmp_path / "model", "llama")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token_id": -1, "eos_token_id": 2}))
    assert Encoder.load(tmp_path / "model").pad == 2


def test_an_unknown_layer_is_refused(make_tiny: Callable[..., Path]) -> None:
    folder = make_tiny()
    refused(UnknownNameError, "layer=0 or layer='bare', got 1", lambda: Encoder.load(folder, layer=1))


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_model(tmp_path / "model", "electra")
    path = tmp_path / "model" / "model.safetensors"
    weights = {name: part.clone() for name, part in load_file(path).items()}  # the file is written over
    save_file({name: part for name, part in weights.items() if "project" not in name}, path)
    refused(FileFormatError, "with embeddings_project.weight, got no such", lambda: Encoder.load(tmp_path / "model"))
    save_file(weights | {"embeddings.position_embeddings.weight": torch.ones(9, 3)}, path)
    refused(
        FileFormatError,
        r"position_embeddings.weight of shape \(any, 12\) .* got \(9, 3\)",
        lambda: Encoder.load(tmp_path / "model"),
    )
    save_file(weights | {"embeddings.word_embeddings.weight": torch.ones(200, 12, dtype=torch.int8)}, path)
    refused(FileFormatError, "in floating point, got torch.int8", lambda: Encoder.load(tmp_path / "model"))
