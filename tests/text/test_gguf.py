"""GGUF files: the same weights as transformers unpacks, and nothing that a file claims is believed unchecked."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneword.errors import FileFormatError
from oneword.maps.transformer import TransformerFeatures
from oneword.text import cache, gguf
from oneword.text.encoders import Encoder
from tests.text.tiny_gguf import TEMPLATE, WIDTH, write_gguf

transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="module")
def header(file: Path) -> bytes:
    """Everything before the bytes of the tensors, and a little more."""
    content = file.read_bytes()
    return content[: content.rindex(b"ffn_down") + 200]


@pytest.mark.parametrize("quantisation", ["F32", "Q8_0", "Q4_1"])
def test_the_weights_are_those_that_transformers_unpacks(tmp_path: Path, quantisation: str) -> None:
    write_gguf(tmp_path / "own.gguf", quantisation)
    direct = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="own.gguf", dtype=torch.float32, local_files_only=True
    )
    phi = TransformerFeatures.load(tmp_path / "own.gguf", output="logits")
    ours, theirs = phi.model.state_dict(), direct.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (phi.name, phi.layers, phi.causal) == ("own", 2, True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="own.gguf", local_files_only=True)
    text = "I love this film, much!"
    assert phi.encoder.tokenizer.encode(text).ids == tokenizer(text)["input_ids"]


def test_a_file_is_converted_once_and_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, version = gguf.converted(file)
    monkeypatch.setattr(gguf, "_convert", lambda *_: pytest.fail("converted again"))
    assert gguf.converted(file) == (first, version)
    assert Encoder.load(file).d == WIDTH
    assert first.parent == cache.folder()
    assert TEMPLATE.split()[2] in (first / "tokenizer_config.json").read_text()


def test_what_is_around_a_file_is_not_seen(tmp_path: Path) -> None:
    """Its folder could bring settings, code and adapters along."""
    write_gguf(tmp_path / "own.gguf", seed=1)
    for name in ("config.json", "tokenizer_config.json", "adapter_config.json", "generation_config.json"):
        (tmp_path / name).write_text('{"auto_map": {"AutoModelForCausalLM": "evil.Model"}, "model_type": "evil"}')
    (tmp_path / "evil.py").write_text("raise SystemExit('code of a model was run')")
    assert TransformerFeatures.load(tmp_path / "own.gguf", output="logits").layers == 2


def patched(place: bytes, offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """The number that stands so many bytes after the first such place is another one."""

    def change(content: bytes) -> bytes:
        at = content.index(place) + offset
        return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]

    return change


NAME = b"general.architecture"
TENSOR = b"blk.0.ffn_down.weight"
HOSTILE = {
    "empty": (lambda c: b"", "got 0 bytes"),
    "a few bytes": (lambda c: c[:20], "got 20 bytes"),
    "other first bytes": (lambda c: b"PK\3\4" + c[4:], "got other first bytes"),
    "another version": (lambda c: c[:4] + struct.pack("<I", 9) + c[8:], "got version 9, where 2 and 3 are known"),
    "too many tensors": (lambda c: c[:8] + struct.pack("<Q", 1 << 40) + c[16:], "got 1,099,511,627,776 tensors"),
    "too many values": (lambda c: c[:16] + struct.pack("<Q", 1 << 63) + c[24:], "values, of which there may be"),
    "more values than there are": (lambda c: c[:16] + struct.pack("<Q", 60_000) + c[24:], "got "),
    "a long name": (patched(NAME, -8, "<Q", 1 << 60), "letters, of which there may be"),
    "a name beyond the end": (patched(NAME, -8, "<Q", 1 << 23), "got a file that ends within"),
    "another type": (patched(NAME, len(NAME), "<I", 77), "got a value of type 77"),
    "a list of lists": (patched(b"tokenizer.ggml.tokens", 25, "<I", 9), "got a list of type 9"),
    "a long list": (patched(b"tokenizer.ggml.tokens", 29, "<Q", 1 << 50), "entries of a list"),
    "no architecture": (lambda c: c.replace(NAME, b"general.architectura"), "got no general.architecture"),
    "two of a name": (lambda c: c.replace(b"bos_token_id", b"eos_token_id"), "got two values named"),
    "a path as a tensor": (lambda c: c.replace(b"blk.0.ffn_down", b"../../ffn_down"), "got a tensor named"),
    "a tensor twice": (lambda c: c.replace(b"blk.1.ffn_down", b"blk.0.ffn_down"), "got two tensors named"),
    "many axes": (patched(TENSOR, len(TENSOR), "<I", 900), "got 900 axes"),
    "a large shape": (patched(TENSOR, len(TENSOR) + 4, "<Q", 1 << 50), "got shape"),
    "no rows": (patched(TENSOR, len(TENSOR) + 4, "<Q", 0), "got shape"),
    "an unknown quantisation": (patched(TENSOR, len(TENSOR) + 20, "<I", 250), "the unknown quantisation 250"),
    "a place beyond the end": (patched(TENSOR, len(TENSOR) + 24, "<Q", 1 << 62), "got a file that ends before"),
    "cut off": (lambda c: c[: -len(c) // 4], "got a file that ends before the tensor"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "cache"))
    change, said = HOSTILE[kind]
    own = tmp_path / "own.gguf"
    own.write_bytes(change(file.read_bytes()))
    with pytest.raises(FileFormatError, match="expected a GGUF file of a model, ") as caught:
        TransformerFeatures.load(own)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert cache.usage().files == 0


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), cut=st.floats(0.05, 1))
def test_any_byte_of_the_header_may_be_another_one(
    header: bytes, file: Path, tmp_path: Path, place: float, value: int, cut: float
) -> None:
    """The check answers or refuses; it never fails in another way, and reads nothing outside of the file."""
    content = bytearray(file.read_bytes())
    content[int(place * len(header))] = value
    own = tmp_path / "own.gguf"
    own.write_bytes(content[: int(cut * len(content))] if cut < 0.5 else content)
    said = ""
    try:
        assert gguf.check(own).numbers > 0
    except FileFormatError as error:
        said = str(error)
    assert "\n" not in said


def test_an_architecture_that_transformers_does_not_read_is_one_line(file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(file.read_bytes().replace(b"llama", b"lluma"))
    with pytest.raises(
        FileFormatError, match=r"expected a GGUF file that transformers can read, got 'own\.gguf'"
    ) as it:
        TransformerFeatures.load(own)
    assert "\n" not in str(it.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.gguf")
    with pytest.raises(FileFormatError, match="got a pipe"):
        TransformerFeatures.load(tmp_path / "own.gguf")


def test_a_missing_file_is_no_hub_name() -> None:
    with pytest.raises(FileFormatError, match="there is no such file or folder"):
        TransformerFeatures.load("nowhere.gguf")
