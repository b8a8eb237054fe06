"""The tensors of a model's folder: which safetensors files hold them, and their shapes, known before any is read.

As in transformers these are model.safetensors, else the shards that model.safetensors.index.json lists. Without both
they are model-*-of-*.safetensors, else every *.safetensors of the folder. An index names files of its own folder,
never a path.
"""

from __future__ import annotations

import math
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor

from oneword.checks import shown
from oneword.errors import FileFormatError
from oneword.memory import check_memory
from oneword.text.settings import read_json, unreadable

INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"
_SHARDS = "model-*-of-*.safetensors"
_MOST_HEADER = 25_000_000  # bytes; that of a shard with 1,000 tensors has 100,000


@dataclass(frozen=True)
class Stored:
    """Where a tensor is, and its shape."""

    path: Path
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StoredTensors:
    """All tensors of a folder, read one by one."""

    folder: Path

    @cached_property
    def files(self) -> list[Path]:
        """The files that hold the weights."""
        if (self.folder / _WHOLE).exists():
            return [self.folder / _WHOLE]
        if (self.folder / INDEX).exists():
            return [self.folder / name for name in self._listed()]
        # A repository may hold its weights a second time, under other names.
        return sorted(self.folder.glob(_SHARDS)) or sorted(self.folder.glob("*.safetensors"))

    @cached_property
    def places(self) -> dict[str, Stored]:
        """Every tensor by its name; the headers alone are read."""
        for path in self.files:
            check_regular(path)
        places: dict[str, Stored] = {}
        for path in self.files:
            try:
                _check_header(path)
                with safe_open(path, framework="pt") as file:
                    names = file.keys()
                    places |= {name: Stored(path, tuple(file.get_slice(name).get_shape())) for name in names}
            except (OSError, SafetensorError) as error:
                raise unreadable(path, error) from None
        return places

    @property
    def largest(self) -> int:
        """The longest axis of all tensors; 0 if there is none."""
        return max((axis for each in self.places.values() if 0 not in each.shape for axis in each.shape), default=0)

    @property
    def numbers(self) -> int:
        """How many numbers they hold."""
        return sum(math.prod(each.shape) for each in self.places.values())

    def check_memory(self) -> None:
        """Refuse weights that do not fit into the memory, before they are read."""
        held = {each.path for each in self.places.values()}
        check_memory(sum(path.stat().st_size for path in held), f"the weights in {shown(self.folder.name)}")

    def read(self, name: str) -> Shaped[Tensor, ...]:
        """One tensor as it is stored, in memory of its own: a file that changes later changes no model."""
        path = self.places[name].path
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:  # or a type torch lacks
            raise unreadable(path, error) from None
        return tensor.clone()

    def _listed(self) -> list[str]:
        """The shards of the index."""
        index = self.folder / INDEX
        said = read_json(index)
        shards = said.get("weight_map") if isinstance(said, dict) else None
        if not isinstance(shards, dict) or not shards:
            raise FileFormatError(f"expected weight_map, a table of shards, in {INDEX}, got none: save the model again")
        names = set(map(str, shards.values()))
        for name in sorted(names):
            if Path(name).name != name or "\\" in name or "\0" in name or not name.endswith(".safetensors"):
                wanted = f"shards *.safetensors of the folder itself in {INDEX}"
                raise FileFormatError(f"expected {wanted}, got {shown(name)}: keep all files in one folder")
        return sorted(names)


def check_regular(path: Path) -> None:
    """Raise FileFormatError unless this is a file, or a link to one: a pipe would be waited at."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(mode):
        got = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise FileFormatError(f"expected a file {shown(path.name)} in {shown(path.parent.name)}, got {got}: remove it")


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > _MOST_HEADER:
        wanted = f"a header of at most {_MOST_HEADER:,} bytes in {path.name}"
        raise FileFormatError(f"expected {wanted}, got {length:,}: save the model again with save_pretrained(…)")
