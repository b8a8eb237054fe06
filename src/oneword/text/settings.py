"""config.json as data: which settings reach transformers, and how large they may be.

A setting is a number, a truth value or one word, alone, in a list or in a table. Names of files, repositories and code
never pass, so that a folder cannot choose what is read or run:

| settings | what becomes of them |
|---|---|
| `REFUSED`: other files, quantised weights, kernels | an error |
| `CHOICES`: the precision, how attention is computed | one of the values listed here; any other is an error |
| `LEFT_OUT`, and all that is neither a number nor one word | left out: nothing that a forward pass computes needs it |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oneword.checks import MODEL_PRECISIONS, first_line, printable, shortened, shown
from oneword.errors import FileFormatError
from oneword.files import read_regular

MOST_BYTES = 10_000_000  # of a JSON file; the largest published config.json, with a label for each class, has 1 MB
_NOT_QUANTISED = "take weights not quantised"
_ORDINARY = "save the model with save_pretrained(…) of transformers"
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "transformers_weights": "name the weights *.safetensors",
        "gguf_file": "name the weights *.safetensors",
        "quantization_config": _NOT_QUANTISED,
        "compression_config": _NOT_QUANTISED,
        "fusion_config": _ORDINARY,
        "kernel_config": _ORDINARY,
        "use_kernels": _ORDINARY,
        "distributed_config": _ORDINARY,
        "attribute_map": _ORDINARY,
        "backbone": _ORDINARY,
        "backbone_config": _ORDINARY,
        "use_pretrained_backbone": _ORDINARY,
        "use_timm_backbone": _ORDINARY,
    }
)
_ATTENTION = ("eager", "sdpa")
_EXPERTS = ("eager", "batched_mm", "grouped_mm")
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attn_implementation": _ATTENTION,
        "_attn_implementation": _ATTENTION,
        "experts_implementation": _EXPERTS,
        "_experts_implementation": _EXPERTS,
        "dtype": MODEL_PRECISIONS,
        "torch_dtype": MODEL_PRECISIONS,
    }
)
LEFT_OUT = frozenset(
    {
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "_attn_implementation_internal",
        "_experts_implementation_internal",
        "auto_map",
        "custom_pipelines",
        "tokenizer_class",
        "processor_class",
        "transformers_version",
        "task_specific_params",
    }
)
_LABELS = ("id2label", "label2id")  # any text, which nobody but a reader takes for anything
_WORD = re.compile(r"[\w.+|-]{1,64}", re.ASCII)
# Settings that size no tensor: they count places in a text, or nothing at all.
_PLACES = re.compile(r"position|length|window|context|ctx|seq|chunk")
_NO_SIZES = re.compile(r"theta|base|factor|scal|seed|token|_ids?$")
_MOST_PLACES = 2**25
_MOST_OF_ANYTHING = 2**53
_COUNTS = 2**16  # layers, heads, labels: more than any model has, and few enough to be listed
_FLOATS = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}  # as transformers writes them: {"__float__": …}


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The content of a JSON file. Raises FileFormatError if it cannot be read."""
    try:
        return json.loads(read_regular(path, most))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: BaseException) -> FileFormatError:
    """What a reader raised, in one line, without what it quotes: the file may be a link to another one."""
    text = getattr(error, "strerror", None) or first_line(error)
    said = re.sub(r"([`'\"]).*?\1", "…", printable(text))[:200]
    where = " in ".join(shortened(printable(name)) for name in (path.name, path.parent.name))
    got = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return FileFormatError(f"expected a readable {where}, got {got}")


def checked_settings(
    config: Mapping[str, Any], largest: int, name: str, known: Callable[[str], bool]
) -> dict[str, Any]:
    """The settings that may be passed on. `largest` is the longest axis of the stored tensors.

    Raises FileFormatError for a setting that would choose code or files, and for a size that no tensor has; one that
    the model does not know (`known`), such as the number of its training steps, is left out instead.
    """
    kept: dict[str, Any] = {}
    for top, value in config.items():
        inside = list(_all_settings({top: value}))
        for key, each in inside:
            _check_choice(key, each, name)
        wrong = next(((key, each) for key, each in inside if not _fits(key, each, largest)), None)
        if wrong is not None and known(top):
            raise _too_large(*wrong, largest, name)
        plain = _NOTHING if wrong is not None else _plain(top, value)
        if plain is not _NOTHING:
            kept[top] = plain
    return kept


def _check_choice(key: str, value: object, name: str) -> None:
    if key in REFUSED and value is not None:
        raise FileFormatError(f"expected no {key} in config.json of {name}, got {shown(value)}: {REFUSED[key]}")
    if key in CHOICES and value is not None and value not in CHOICES[key]:
        wanted = " or ".join(CHOICES[key])
        raise FileFormatError(f"expected {wanted} as {key} in config.json of {name}, got {shown(value)}: leave it out")


def _all_settings(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every setting, those inside of tables too; the members of a list each by the list's name."""
    for key, value in table.items():
        members = value if isinstance(value, list) else [value]
        for each in members:
            if isinstance(each, dict) and key not in _LABELS:
                yield from _all_settings(each)
        yield key, value


def _most(key: str, largest: int) -> int:
    """The largest number that a setting of this name may be."""
    largest = max(largest, _COUNTS)
    if _NO_SIZES.search(key):
        return _MOST_OF_ANYTHING
    if _PLACES.search(key):
        return max(largest, _MOST_PLACES)
    return _COUNTS if "label" in key else largest


def _fits(key: str, value: object, largest: int) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return not any(
        (isinstance(each, float) and math.isnan(each)) or (isinstance(each, int) and abs(each) > _most(key, largest))
        for each in numbers
    )


def _too_large(key: str, value: object, largest: int, name: str) -> FileFormatError:
    wanted = (
        f"{shortened(printable(key))} of at most {_most(key, largest)} in config.json of {name}, as its tensors say"
    )
    huge = isinstance(value, int) and abs(value) >= 10**30
    got = "a number of more than 30 digits" if huge else shown(value)
    return FileFormatError(f"expected {wanted}, got {got}: {_ORDINARY}")


_NOTHING = object()


def _plain(key: str, value: Any) -> Any:
    """The setting as it is passed on; _NOTHING for one that is left out."""
    if key in LEFT_OUT or key in REFUSED:
        return _NOTHING
    if value is None or isinstance(value, bool | int | float) or key in _LABELS:
        return value
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) else _NOTHING
    if isinstance(value, list):
        members = [_plain("", each) for each in value]
        return _NOTHING if _NOTHING in members else members
    if value.keys() == {"__float__"} and value["__float__"] in _FLOATS:
        return _FLOATS[value["__float__"]]
    inside = {name: _plain(name, each) for name, each in value.items()}
    return {name: each for name, each in inside.items() if each is not _NOTHING}
