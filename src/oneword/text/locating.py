"""Find a model by its name: an embedded one, a folder or a GGUF file on this machine, or a hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oneword.checks import shown
from oneword.errors import FileFormatError, RangeError
from oneword.text import embedded, gguf, sources
from oneword.text.model_folder import FILES, POOLING, TEMPLATE, TOKENIZER_SETTINGS, ModelFolder
from oneword.text.tensors import INDEX

_REMEDY = "give the folder of a model on this machine, or 'minilm'"


@dataclass(frozen=True)
class Located:
    """A model's folder, its name in results, and its version; None where only its files can tell."""

    folder: ModelFolder
    name: str
    revision: str | None


def locate(name: object, revision: str | None, kinds: str) -> Located | Path:
    """The model of this name, or the file, if it names one of another kind.

    `kinds` are what it could have been, for the message.
    """
    if not isinstance(name, str | Path):
        raise FileFormatError(f"expected {kinds}, or a hub name, got {shown(name)}: give one as a string")
    name, path, model = str(name), sources.on_disk(name), sources.embedded_model(str(name))
    if revision is not None and (model is not None or path is not None):
        raise RangeError(f"expected revision= with a hub name only, got it with {shown(name)}: leave it out")
    if model is not None:
        return Located(ModelFolder(embedded.folder_of(model)), model.title, model.revision)
    if path is not None and gguf.is_gguf(path):
        folder, version = gguf.converted(path)
        return Located(ModelFolder(folder), path.stem, version)
    if path is not None:
        return Located(ModelFolder.at(path), path.name, None) if path.is_dir() else path
    sources.check_hub_name(name, kinds)
    optional = (POOLING, INDEX, TEMPLATE, TOKENIZER_SETTINGS)
    found = ModelFolder(sources.download(name, revision, FILES, _REMEDY, optional))
    return Located(found, name, found.name)  # the hub names the folder by the commit
