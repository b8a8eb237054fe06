"""A model of transformers from the files of a folder, which transformers itself never sees.

config.json is read here, as data; the class must be one of transformers for these settings; the tensors are read from
safetensors files and handed over. Before any memory is taken the model is built without it (on the device "meta"):
settings that ask for more than the files hold are refused there, parameter by parameter. No code of the model's own is
run, no pickle read, nothing downloaded.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as registration

from oneword.checks import described, one_line, printable, shortened, shown
from oneword.errors import FileFormatError, OnewordError
from oneword.text.gguf import quietly
from oneword.text.model_folder import ModelFolder
from oneword.text.sources import TRANSFORMERS

# What a model may lack and still be whole: heads, as long as nobody asks for what they make.
_SPARE = ("pooler", "cls.", "lm_head", "classifier", "vocab_", "score", "generator_", "discriminator_", "position_ids")
# Families for which transformers loads kernels from a hub, where there is a GPU.
_FETCHED = ("mra", "rwkv", "yoso")
# A head is not larger than the rest of the model, and a small one is always allowed. The same of what is no parameter:
# masks and tables of positions, which small models too have for their longest text.
_MORE_NUMBERS = {"parameters": 2**22, "buffers": 2**26}
_MORE_PARTS = 1000


def build(folder: ModelFolder, random_init: int | None) -> tuple[Any, tuple[str, ...]]:
    """The model in a folder, and the weights of heads that its files do not have; all drawn anew with a seed.

    Raises FileFormatError for settings and files that do not fit one another, MemoryLimitError for weights that are
    larger than the memory.
    """
    transformers = TRANSFORMERS.imported()
    folder.tensors.check_memory()
    with quietly(transformers):
        try:
            config = _config(transformers, folder)
            kind, config = _class(transformers, config, folder)
            return _trained(kind, config, folder) if random_init is None else (_drawn(kind, config, random_init), ())
        except OnewordError:
            raise
        except Exception as error:  # of whatever kind: it comes from what config.json says
            got = shortened(printable(one_line(described(error))), 200)
            raise FileFormatError(f"expected settings of a model in config.json of {folder.name}, got {got}") from None


def _config(transformers: Any, folder: ModelFolder) -> Any:
    """The settings as transformers holds them."""
    kind = folder.config.get("model_type")
    if kind == "mistral" and "layer_types" in folder.config and "ministral" in transformers.CONFIG_MAPPING:
        kind = "ministral"  # as AutoConfig does
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        needs = ", which needs code of its own, and that is never run" if "auto_map" in folder.config else ""
        raise FileFormatError(
            f"expected a model that transformers knows, got {shown(kind)} in {folder.name}{needs}: choose another model"
        )
    if kind in _FETCHED:
        got = f"{kind}, whose layers transformers fetches as compiled code: choose another model"
        raise FileFormatError(f"expected a model in {folder.name} that transformers brings along, got {got}")
    family = transformers.CONFIG_MAPPING[kind]
    fields = {field.name for field in dataclasses.fields(family)} if dataclasses.is_dataclass(family) else set()
    more = fields.union(family.attribute_map, inspect.signature(family.__init__).parameters)
    settings = folder.settings(lambda key: hasattr(family, key) or key in more)
    settings["model_type"] = kind
    taken = next((key for key in settings if callable(getattr(family, key, None))), None)
    if taken is not None:
        raise FileFormatError(f"expected settings in config.json of {folder.name}, got {shown(taken)}: leave it out")
    config = family.from_dict(settings)
    if getattr(config, "is_encoder_decoder", False):
        raise FileFormatError(
            f"expected an encoder or a decoder, got {kind}, which is both, in {folder.name}: give its "
            "encoder by TransformerFeatures.of(model.get_encoder(), tokenizer)"
        )
    return config


def _class(transformers: Any, config: Any, folder: ModelFolder) -> tuple[Any, Any]:
    """The class that the model was saved from, with its head, or the bare model where that is not known; its settings.

    The model is built once without memory, so that nothing is allocated for settings that do not fit the files.
    """
    kind = _named_class(transformers, config, folder)
    with _counting(folder), torch.device("meta"):
        own = copy.deepcopy(config)
        made = transformers.AutoModel.from_config(own) if kind is None else kind._from_config(own)
    kind = type(made)
    return kind, config if isinstance(config, kind.config_class) else config.get_text_config()


def _named_class(transformers: Any, config: Any, folder: ModelFolder) -> Any:
    """The class that config.json names, out of those for its settings; None if transformers has no such name."""
    models = import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    names = getattr(config, "architectures", None) or []
    for name in names if isinstance(names, list) else [names]:
        found: Any = getattr(models, str(name), None)
        if found is None and str(name) not in dir(transformers):
            continue
        is_model = inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel)
        if not is_model or not isinstance(config, found.config_class or ()):
            raise _no_class(folder, name)
        return found
    return None


def _no_class(folder: ModelFolder, name: object) -> FileFormatError:
    kind = shown(folder.config.get("model_type"))
    wanted = f"architectures in config.json of {folder.name} to name a model of type {kind}"
    return FileFormatError(f"expected {wanted}, got {shown(name)}: name the class that was saved, or leave it out")


def _trained(kind: Any, config: Any, folder: ModelFolder) -> tuple[Any, tuple[str, ...]]:
    """The model, and the weights of heads that were not there."""
    weights = {name: folder.tensors.read(name) for name in folder.tensors.places}
    model, info = kind.from_pretrained(
        None,
        config=config,
        state_dict=weights,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    for name, stored, wanted in sorted(info["mismatched_keys"]):
        shape = f"shape {tuple(wanted)}, as config.json says"
        raise FileFormatError(
            f"expected {shown(name)} of {shape}, got {tuple(stored)} in {folder.name}: save the model again"
        )
    spare = tuple(sorted(key for key in info["missing_keys"] if any(part in key for part in _SPARE)))
    missing = sorted(set(info["missing_keys"]) - set(spare))
    if missing:
        got = f"no {missing[0]} ({len(missing)} missing): save the whole model with save_pretrained(…)"
        raise FileFormatError(f"expected all weights of a {type(model).__name__} in {folder.name}, got {got}")
    return model, tuple(key for key in spare if "position_ids" not in key)


def _drawn(kind: Any, config: Any, seed: int) -> Any:
    """The same model with weights drawn anew, by its own rule; nobody else's random numbers are disturbed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind._from_config(config)


@contextmanager
def _counting(folder: ModelFolder) -> Iterator[None]:
    """Count what a model is made of while it is built in this thread; stop when it is more than the files hold."""
    here = threading.get_ident()
    most = {which: 2 * folder.tensors.numbers + more for which, more in _MORE_NUMBERS.items()}
    most_parts = 4 * len(folder.tensors.places) + _MORE_PARTS
    numbers = dict.fromkeys(most, 0)
    parts = 0

    def count(which: str, tensor: Tensor | None) -> None:
        nonlocal parts
        if tensor is None or threading.get_ident() != here:
            return
        numbers[which] += tensor.numel()
        parts += 1
        if numbers[which] > most[which] or parts > most_parts:
            held = f"{folder.tensors.numbers:,} numbers in {len(folder.tensors.places):,} tensors of {folder.name}"
            got = f"settings for more than {min(numbers[which], most[which]):,} in {parts:,}"
            raise FileFormatError(f"expected a model of about the {held}, got {got}: save the model again")

    hooks = (
        registration.register_module_parameter_registration_hook(lambda module, name, own: count("parameters", own)),
        registration.register_module_buffer_registration_hook(lambda module, name, own: count("buffers", own)),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
