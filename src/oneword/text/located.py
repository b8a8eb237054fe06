"""Where a model is that a person named: the embedded one, a folder on this machine, or a hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oneword.checks import shown
from oneword.errors import FileFormatError, RangeError
from oneword.text import sources
from oneword.text.folders import FILES, POOLING, ModelFolder
from oneword.text.sources import EMBEDDED_ENCODER, MINILM

_NAMES = ("minilm", EMBEDDED_ENCODER.lower())
_REMEDY = "give the folder of a model on this machine, or 'minilm'"


@dataclass(frozen=True)
class Located:
    """A model's folder, its name in results, and its version; None where only its files can tell."""

    folder: ModelFolder
    name: str
    revision: str | None


def locate(name: object, revision: str | None, kinds: str) -> Located | Path:
    """The model of this name, or the file, if it names one. `kinds` are what it could have been, for the message."""
    if not isinstance(name, str | Path):
        raise FileFormatError(f"expected {kinds}, or a hub name, got {shown(name)}: give one as a string")
    name, path = str(name), sources.on_disk(name)
    embedded = name.lower() in _NAMES
    if revision is not None and (embedded or path is not None):
        raise RangeError(f"expected revision= with a hub name only, got it with {name!r}: leave it out")
    if embedded:
        return Located(ModelFolder(MINILM.folder() / "model"), EMBEDDED_ENCODER, f"{MINILM.name} {MINILM.version}")
    if path is not None:
        return Located(ModelFolder.at(path), path.name, None) if path.is_dir() else path
    sources.check_hub_name(name, kinds)
    folder = ModelFolder(sources.download(name, revision, FILES, _REMEDY, (POOLING,)))
    return Located(folder, name, folder.name)  # the hub names the folder by the commit
