"""Trained models, with the encoder of their input: the words as a model takes them, before positions are added.

How a model is built from a folder is in building.py; here it is run, to see whether it masks the future.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor, nn

from oneword.checks import check_precision, described, one_line, printable, shortened, shown
from oneword.errors import FileFormatError, OnewordError
from oneword.maps.building import build
from oneword.random import stream
from oneword.text import cache
from oneword.text.encoders import Encoder, check_vocabulary
from oneword.text.families import NO_LIMIT
from oneword.text.layer0 import Layer0
from oneword.text.locating import locate
from oneword.text.model_folder import POOLING, ModelFolder
from oneword.text.settings import read_json, unreadable
from oneword.text.sources import EMBEDDED_MODELS, TRANSFORMERS
from oneword.text.tokenizer_files import unlimited

_TRIED_WORDS = 6  # of a text that is tried for what later words do to earlier ones
_KINDS = (
    f"a model: {', '.join(map(repr, EMBEDDED_MODELS))}, a folder with config.json, tokenizer.json, *.safetensors, or a "
    "GGUF file"
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model and what encodes its input.

    | field | meaning |
    |---|---|
    | `name` | for results |
    | `model` | of transformers, in eval mode; with its head, if it has one |
    | `encoder` | at layer "input": bare word embeddings of their own norms |
    | `pooling` | how a text becomes one vector: "mean", "cls", "last" or "max"; else what the files say instead |
    | `causal` | whether a word sees only those before it: tried out, since models say it in many ways or not at all |
    | `random_init` | the seed of weights drawn anew; None if they are trained |
    | `untrained` | weights of heads that the files do not have: nothing that needs them may be asked for |
    """

    name: str
    model: nn.Module
    encoder: Encoder
    pooling: str
    causal: bool
    random_init: int | None = None
    untrained: tuple[str, ...] = ()

    @property
    def config(self) -> Any:
        """The model's settings."""
        return self.model.config

    @property
    def base(self) -> nn.Module:
        """The model without its head."""
        found = getattr(self.model, "base_model", self.model)
        assert isinstance(found, nn.Module)
        return found


def load_checkpoint(
    name: object, *, revision: str | None, random_init: int | None, dtype: torch.dtype, device: torch.device
) -> Checkpoint:
    """The model of this name; the same files give the same object, so that several questions share its weights."""
    found = locate(name, revision, _KINDS)
    if isinstance(found, Path):
        raise FileFormatError(f"expected {_KINDS}, or a hub name, got the file {shown(found.name)}: give its folder")
    return _load(found.folder, found.name, found.revision, random_init, dtype, device, found.folder.stamp)


@lru_cache(maxsize=4)
def _load(
    folder: ModelFolder,
    name: str,
    revision: str | None,
    random_init: int | None,
    dtype: torch.dtype,
    device: torch.device,
    stamp: tuple[tuple[int, int], ...],
) -> Checkpoint:
    """`stamp` makes a folder whose files changed another folder."""
    folder.check_files()
    model, untrained = build(folder, random_init)
    with _runnable(folder):
        encoder = _encoder(model, folder.tokenizer(), name, revision or folder.fingerprint, folder)
    model.requires_grad_(False).eval().to(dtype=dtype, device=device)
    with _runnable(folder):
        causal = _known_causal(model, encoder, folder, random_init)
    about = name if random_init is None else f"{name} re-initialised (seed {random_init})"
    return Checkpoint(about, model, encoder, said_pooling(folder, causal), causal, random_init, untrained)


@contextmanager
def _runnable(folder: ModelFolder) -> Iterator[None]:
    """Whatever a model raises when it is first used: its settings do not fit one another."""
    try:
        yield
    except OnewordError:
        raise
    except Exception as error:
        got = shortened(printable(one_line(described(error))), 200)
        wanted = f"a model of words that can be run in {folder.name}"
        raise FileFormatError(f"expected {wanted}, got {got}: check config.json, or choose another model") from None


def given_checkpoint(model: object, tokenizer: object) -> Checkpoint:
    """A model that is loaded already, with its fast tokenizer; or a SentenceTransformer, which has both."""
    pooling = None
    first = next(model.children(), None) if isinstance(model, nn.Module) else None
    if hasattr(first, "auto_model"):
        model, tokenizer, pooling = _parts_of_sentence_transformer(model, tokenizer)
    if not isinstance(model, nn.Module) or not hasattr(model, "get_input_embeddings"):
        raise FileFormatError(
            f"expected a model of transformers or a SentenceTransformer, got {type(model).__name__}: for other maps "
            "give X ↦ φ(X) to sensitivity itself"
        )
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise FileFormatError(
            f"expected a fast tokenizer, which knows where its tokens stand in a text, got {type(tokenizer).__name__}: "
            "load it with AutoTokenizer.from_pretrained(…, use_fast=True)"
        )
    check_precision(next(model.parameters()).dtype, model=True)
    name = Path(str(getattr(model.config, "_name_or_path", "") or type(model).__name__)).name
    encoder = _encoder(model, unlimited(Tokenizer.from_str(backend.to_str())), name, _fingerprint(model), None)
    causal = masks_the_future(getattr(model, "base_model", model), encoder)
    return Checkpoint(name, model.eval(), encoder, pooling or usual_pooling(causal), causal)


def _parts_of_sentence_transformer(given: Any, tokenizer: object) -> tuple[object, object, str]:
    """Its transformer, its tokenizer and how it pools; a last part that normalises does not change a direction."""
    parts = list(given.children())
    said = [part for part in parts if hasattr(part, "pooling_mode") or hasattr(part, "get_pooling_mode_str")]
    if len(said) == 1 and {type(part).__name__ for part in parts[1:]} <= {"Pooling", "Normalize"}:
        mode = said[0].pooling_mode if hasattr(said[0], "pooling_mode") else said[0].get_pooling_mode_str()
        how = pooling_mode(str(mode))
    else:
        how = " and ".join(type(part).__name__ for part in parts[1:]) or "no pooling"
    return parts[0].auto_model, given.tokenizer if tokenizer is None else tokenizer, how


# The encoder of its input -------------------------------------------------------------------------------------------


def _encoder(model: Any, tokenizer: Tokenizer, name: str, revision: str, folder: ModelFolder | None) -> Encoder:
    words = model.get_input_embeddings()
    table = words.weight.detach() if type(words) is nn.Embedding else _through(words)
    check_vocabulary(tokenizer, len(table), name)
    pad = getattr(model.config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) and 0 <= pad < len(table) else 0
    layer0 = Layer0(table.cpu().clone(), rescaled=False)  # as stored, whatever the model is cast to
    path = None if folder is None else folder.path
    return Encoder(name, revision, tokenizer, layer0, "input", longest=_longest(model), pad=pad, folder=path)


def _through(words: nn.Module) -> Tensor:
    """All rows of embeddings that do more than look up, such as rescale."""
    with torch.no_grad():
        count = int(words.weight.shape[0])  # type: ignore[index]
        device = next(words.parameters()).device
        return torch.cat([words(ids) for ids in torch.arange(count, device=device).split(4096)])


def _longest(model: Any) -> int:
    """How many tokens a text may have; RoBERTa and its kin begin to count after the padding token."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return NO_LIMIT
    tables = [m for name, m in model.named_modules() if isinstance(m, nn.Embedding) and "position" in name]
    return positions - max((1 + m.padding_idx for m in tables if m.padding_idx is not None), default=0)


def _known_causal(model: Any, encoder: Encoder, folder: ModelFolder, random_init: int | None) -> bool:
    """`masks_the_future`, which takes many seconds for a large model, and is kept in the cache for these files."""
    weights, base = next(model.parameters()), getattr(model, "base_model", model)
    about = (encoder.revision, type(model).__name__, str(random_init), str(weights.dtype), str(weights.device))
    stamp = (str(folder.path.resolve()), repr(folder.stamp), str(TRANSFORMERS.version), str(torch.__version__))

    def tried() -> dict[str, np.ndarray]:
        return {"causal": np.array([masks_the_future(base, encoder)])}

    return bool(cache.remembered(f"causal-{cache.digest(*about, *stamp)[:32]}", tried)["causal"][0])


def masks_the_future(base: nn.Module, encoder: Encoder) -> bool:
    """Whether words stay what they are when a later one changes; tried on words of the vocabulary and on others."""
    weights = next(base.parameters())
    rng = stream(0, "causal")
    table = encoder.layer0.word
    words = table[torch.from_numpy(rng.integers(len(table), size=_TRIED_WORDS))]
    size = words.norm(dim=1).mean() / words.shape[1] ** 0.5
    noise = torch.from_numpy(rng.standard_normal((3, *words.shape))).to(words)
    texts = [words, *(scale * size * each for scale, each in zip((0.1, 1.0, 3.0), noise, strict=True))]
    return all(nothing_comes_back(base, text.to(weights)) for text in texts)


def nothing_comes_back(base: nn.Module, X: Float[Tensor, "n d"]) -> bool:
    """Whether no row of this text moves when one after it changes, by little or by much."""
    n, size = len(X), X.norm(dim=1).mean() / X.shape[1] ** 0.5
    places = torch.linspace(1, n - 1, min(n - 1, _TRIED_WORDS)).round().long().tolist()
    rng = torch.from_numpy(stream(0, "changes", n).standard_normal((3, X.shape[1]))).to(X)
    changed = [(i, scale * size * new) for i in places for scale, new in zip((0.1, 1.0, 10.0), rng, strict=True)]
    same = X.expand(max(1, len(changed)), *X.shape)  # one batch as large as the other: sizes may round differently
    other = same.clone()
    for k, (i, new) in enumerate(changed):
        other[k, i] = new
    training = base.training
    base.eval()
    with torch.no_grad():
        before, after = (base(inputs_embeds=each.clone()).last_hidden_state for each in (same, other))
    base.train(training)
    return all(torch.equal(before[k, :i], after[k, :i]) for k, (i, _) in enumerate(changed))


# How a text becomes one vector ---------------------------------------------------------------------------------------


def said_pooling(folder: ModelFolder, causal: bool) -> str:
    """What a sentence-transformers folder says, or what is usual; what is none of POOLINGS cannot be asked for."""
    for place in (folder.path, folder.path.parent):
        path = place / POOLING
        if not path.is_file():
            continue
        said = read_json(path)
        if not isinstance(said, dict):
            raise unreadable(path, TypeError("no table"))
        chosen = said.get("pooling_mode") or [
            key for key, value in said.items() if key.startswith("pooling_mode_") and value is True
        ]
        modes = chosen if isinstance(chosen, list) else [chosen]
        told = [*(pooling_mode(str(mode)) for mode in modes), *_after_pooling(place)]
        return " and ".join(shortened(printable(each)) for each in told) or "nothing"
    return usual_pooling(causal)


def usual_pooling(causal: bool) -> str:
    """The last word of a decoder has seen all others; an encoder's words have seen each other."""
    return "last" if causal else "mean"


def pooling_mode(said: str) -> str:
    """One of POOLINGS out of what sentence-transformers calls it; what is none of them stays as it is called."""
    name = said.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
    return {"mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max"}.get(name, name)


def _after_pooling(place: Path) -> list[str]:
    """What comes after pooling and changes more than the length of the vector."""
    path = place / "modules.json"
    if not path.is_file():
        return []
    parts = read_json(path)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise unreadable(path, TypeError("no list of tables"))
    kinds = [str(part.get("type", "")).rpartition(".")[2] for part in parts]
    return [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]


# Around transformers ------------------------------------------------------------------------------------------------


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Attention as plain matrix products, which can be seen and differentiated in both ways, while this lasts."""
    before = getattr(model.config, "_attn_implementation", "eager")
    if before == "eager":
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def accepts(module: nn.Module, argument: str) -> bool:
    """Whether the forward pass of a module takes this argument."""
    return argument in inspect.signature(module.forward).parameters


def _fingerprint(model: Any) -> str:
    """A version for a model that came without files: its settings, and the sum of its weights."""
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True, default=str).encode())
    for name, weights in model.named_parameters():
        digest.update(f"{name} {float(weights.detach().double().abs().sum()):.17g}".encode())
    return "sha256:" + digest.hexdigest()[:16]
