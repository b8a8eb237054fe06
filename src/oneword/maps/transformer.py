"""Trained transformers as feature maps: φ(X) is what a layer, the pooled vector, the logits or a head make of a text.

X are the embeddings of the words as the model takes them, of their own norms, before positions are added; the model
does the rest. `states` gives all layers from one forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from oneword.checks import check_precision, check_string, whole_number
from oneword.devices import check_device
from oneword.errors import DTypeError, RangeError, ShapeError, TextError
from oneword.maps.base import FeatureMap, check_matches
from oneword.maps.checkpoints import Checkpoint, accepts, eager, given_checkpoint, load_checkpoint
from oneword.maps.outputs import AS_THE_MODEL_POOLS, listed
from oneword.maps.selection import Selection, blocks_of, check_head, classifies, layers_of, part_of, sees_no_constant
from oneword.progress import Progress, silent
from oneword.text.context import Context
from oneword.text.encoders import Encoder
from oneword.text.tokenizer_files import tokenised_all

if TYPE_CHECKING:
    from oneword.maps.transformer_probe import TransformerProbe

_TOKENS_AT_ONCE = 4096  # of a batch of texts: enough to keep the cores busy, little enough for the cache


@dataclass(frozen=True, eq=False)
class States:
    """Everything one forward pass gives.

    | field | meaning |
    |---|---|
    | `hidden` | layer 0 (the embeddings) to L, each (…, n, width); the last one as the model returns it |
    | `attention` | of the layers 1 to L, each (…, heads, n, n); None if not asked for |
    | `logits` | of the model's head as it gives them, (…, n, vocabulary) in language models; None if not asked for |
    """

    hidden: tuple[Tensor, ...]
    attention: tuple[Tensor, ...] | None = None
    logits: Tensor | None = None


@final
class TransformerFeatures(FeatureMap):
    """One of the outputs of a trained model; `load` or `of` make it, `select` asks the same model for another."""

    def __init__(self, checkpoint: Checkpoint, selection: Selection) -> None:
        super().__init__()
        self.checkpoint = checkpoint
        self.selection = selection
        self.model = checkpoint.model
        self._blocks = blocks_of(checkpoint.base, self.layers)

    @classmethod
    def load(
        cls,
        name: str,
        *,
        layer: int | None = None,
        output: str = "hidden",
        head: int | None = None,
        module: str | None = None,
        revision: str | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        random_init: int | None = None,
    ) -> TransformerFeatures:
        """A model by name: "minilm", "mpnet", "smollm2" (embedded), a folder, a GGUF file, or a name on a hub.

        | argument | meaning |
        |---|---|
        | `layer` | 0 (embeddings) … L; the last by default |
        | `output` | "hidden" (the default: all words), "rows" (of norm 1), "pooled", "cls", "logits", "attention" |
        | `head` | of "attention": this head alone |
        | `module` | what this part of the model returns instead, for example "encoder.layer.3.attention" |
        | `dtype` | of its weights: float16, bfloat16, float32 (the default) or float64 |
        | `random_init` | a seed: the same model with weights drawn anew |

        The same files and seed give the same weights in memory, however many maps are made of them. Raises
        UnknownNameError or RangeError for an output, layer, head or part that the model does not have, FileFormatError
        for files that are missing or cannot be read, HubError if the hub does not answer.

            phi = TransformerFeatures.load("minilm", output="pooled")
            sensitivity(phi, phi.encode("I love her smile.")).value
        """
        check_precision(dtype, model=True)
        seed = None if random_init is None else whole_number("random_init", random_init)
        checkpoint = load_checkpoint(
            name, revision=revision, random_init=seed, dtype=dtype, device=check_device(device)
        )
        return cls(checkpoint, Selection.of(checkpoint, output, layer, head, module))

    @classmethod
    def of(
        cls,
        model: object,
        tokenizer: object = None,
        *,
        layer: int | None = None,
        output: str = "hidden",
        head: int | None = None,
        module: str | None = None,
    ) -> TransformerFeatures:
        """A model of transformers that is loaded already, with its fast tokenizer; or a SentenceTransformer.

        It stays where it is, in its precision, and is put into eval mode.
        """
        checkpoint = given_checkpoint(model, tokenizer)
        return cls(checkpoint, Selection.of(checkpoint, output, layer, head, module))

    def select(
        self, *, layer: int | None = None, output: str | None = None, head: int | None = None, module: str | None = None
    ) -> TransformerFeatures:
        """The same weights and another selection: what is not given is as before, but for `head` and `module`."""
        chosen = output or self.selection.output.name
        where = self.selection.layer if layer is None else layer
        return type(self)(self.checkpoint, Selection.of(self.checkpoint, chosen, where, head, module))

    def apart(self) -> TransformerFeatures:
        """The same in memory of its own: while a model runs for one thread, no other may ask it for its layers."""
        checkpoint = replace(self.checkpoint, model=copy.deepcopy(self.model))
        return type(self)(checkpoint, self.selection)

    @property
    def precision(self) -> torch.dtype:
        """What the model computes in."""
        return next(self.model.parameters()).dtype

    @property
    def dtype(self) -> torch.dtype:
        """Of X and φ(X): float32 for models in half precision, which round what they are given."""
        return torch.promote_types(self.precision, torch.float32)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def name(self) -> str:
        return self.checkpoint.name

    @property
    def encoder(self) -> Encoder:
        """The words as the model takes them: bare embeddings of their own norms."""
        return self.checkpoint.encoder

    @property
    def layers(self) -> int:
        """The number of blocks L; hidden states are numbered 0 … L."""
        return layers_of(self.checkpoint)

    @property
    def heads(self) -> int:
        """The attention heads of a layer."""
        return int(self.checkpoint.config.num_attention_heads)

    @property
    def causal(self) -> bool:
        """Whether a word sees only those before it."""
        return self.checkpoint.causal

    @property
    def pooling(self) -> str | None:
        """How φ(X) is made one vector: "mean", "cls", "last" or "max"; None where it keeps the words apart."""
        how = self.selection.output.reduce
        if self.selection.module is not None or not isinstance(how, str):
            return None
        return self.checkpoint.pooling if how == AS_THE_MODEL_POOLS else how

    def describe(self) -> Mapping[str, Any]:
        asked = self.selection
        output, layer = (asked.output.name, asked.layer) if asked.module is None else ("module", None)
        about: dict[str, Any] = {"map": "TransformerFeatures", "model": self.name, "revision": self.encoder.revision}
        about |= {"architecture": type(self.model).__name__, "output": output, "layer": layer, "layers": self.layers}
        about |= {"causal": self.causal, "precision": str(self.precision).removeprefix("torch.")}
        centred = self._centred if asked.source == "logits" else None
        more = {"pooling": self.pooling, "centred": centred, "head": asked.head, "module": asked.module}
        more["random_init"] = self.checkpoint.random_init
        return about | {name: value for name, value in more.items() if value is not None}

    # Texts ----------------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> Context:
        """A text as this model takes it."""
        found = self.encoder.encode(text, dtype=self.dtype)
        return replace(found, X=found.X.to(self.device))

    def read(self, text: Context) -> Context:
        """The same text in this model's words; an array is taken as embeddings as they are."""
        if text.encoder is None or text.encoder is self.encoder:
            return replace(text, X=text.X.to(self.device, self.dtype))
        spans = [span for span in text.spans if span is not None]
        if text.text is None or not spans:
            wanted = f"a text whose words have places in it, so that {self.name} can read it"
            raise TextError(f"expected {wanted}, got one of tokens alone: give it as phi.encode(text)")
        return self.encode(text.text[spans[0][0] : spans[-1][1]])

    def at(self, X: Float[Tensor, "n d"]) -> TransformerProbe:
        from oneword.maps.transformer_probe import TransformerProbe  # which knows this class

        return TransformerProbe(self, X)

    def vectors(self, texts: Sequence[str], *, progress: Progress = silent) -> Float[Tensor, "texts p"]:
        """φ of many texts, one row each. Texts of one length run together: no padding, hence no masks."""
        asked = self.selection
        if not asked.output.one_vector or asked.module is not None:
            got = f"{asked.module or asked.output.name!r}: use .select(output='pooled')"
            able = listed(lambda each: each.one_vector)
            raise RangeError(f"expected output as {able} for one vector a text, got {got}")
        if asked.source == "logits" and not self.causal and not classifies(self.checkpoint):
            raise RangeError(f"expected one vector a text, got logits of every word of {self.name}: take 'pooled'")
        if not texts:
            raise TextError("expected at least one text, got none")
        for text in texts:
            check_string(text)
        found = tokenised_all(self.encoder.tokenizer, texts)
        groups: dict[int, list[int]] = {}
        for k, each in enumerate(found):
            self.encoder.check_length(len(each.ids))
            groups.setdefault(len(each.ids), []).append(k)
        out: dict[int, Tensor] = {}
        table, done, total = self.encoder.layer0.word, 0, sum(len(each.ids) for each in found)
        for n, members in sorted(groups.items()):
            for part in torch.tensor(members).split(max(1, _TOKENS_AT_ONCE // n)):
                ids = torch.tensor([found[k].ids for k in part.tolist()])
                with torch.no_grad():
                    made = self(table[ids].to(self.device, self.dtype)).flatten(1)
                out |= zip(part.tolist(), made, strict=True)
                done += n * len(part)
                progress("texts", done / total)
        return torch.stack([out[k] for k in range(len(texts))])

    # Forward --------------------------------------------------------------------------------------------------------

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Tensor:
        self._check(X)
        batch = X.reshape(-1, *X.shape[-2:])
        made = self._answer(batch).to(self.dtype)
        made = made - made.mean(-1, keepdim=True) if self._centred else made
        return made.reshape(*X.shape[:-2], *made.shape[1:])

    def rows(self, X: Float[Tensor, "b n d"]) -> Tensor:
        """What φ(X) is made of, as the model gives it: the rows of the layer before they are pooled, or raw logits."""
        return self._rows(X, X.shape[1], None)

    @property
    def _centred(self) -> bool:
        """Logits less their mean, where a softmax follows, which does not see it."""
        asked = self.selection
        return asked.source == "logits" and asked.output.reduce is None and sees_no_constant(self.checkpoint)

    def padded(self, X: Float[Tensor, "n d"], count: int) -> Tensor:
        """φ(X) with `count` padding tokens after the text, which the model is told to leave out: only noise differs."""
        self._check(X)
        n, pad = len(X), self.encoder.layer0.word[self.encoder.pad].to(X)
        longer = torch.cat([X, pad.expand(count, -1)])[None]
        self.encoder.check_length(n + count)
        made = self._answer(longer, n, (torch.arange(n + count, device=X.device) < n).long()[None])[0].to(self.dtype)
        return made - made.mean(-1, keepdim=True) if self._centred else made

    def states(self, X: Float[Tensor, "*batch n d"], *, attention: bool = False, logits: bool = False) -> States:
        """All layers from one forward pass, and what else is asked for."""
        self._check(X)
        batch = X.reshape(-1, *X.shape[-2:])
        model = self.model if logits else self.checkpoint.base
        if logits:
            check_head(self.checkpoint)

        def back(values: Tensor) -> Tensor:
            return values.to(self.dtype).reshape(*X.shape[:-2], *values.shape[1:])

        with eager(self.model) if attention else nullcontext():
            found = self._run(model, batch, output_hidden_states=True, output_attentions=attention)
        return States(
            tuple(map(back, found.hidden_states)),
            tuple(map(back, found.attentions)) if attention else None,
            back(found.logits) if logits else None,
        )

    def _answer(self, X: Float[Tensor, "b t d"], n: int | None = None, mask: Tensor | None = None) -> Tensor:
        """The chosen output of the first n rows; `mask` says which rows are words."""
        asked, n = self.selection, X.shape[1] if n is None else n
        if asked.module is not None:
            made = self._module(X, asked.module, mask)
            # Only rows of words can be padding: a part that pools has none.
            return made[:, :n] if made.ndim > 2 and made.shape[1] == X.shape[1] else made
        rows = self._rows(X, n, mask)
        if asked.source == "logits" and self.causal:
            rows = rows[:, 0]
        return self.reduced(rows)

    def reduced(self, rows: Tensor) -> Tensor:
        """What φ(X) makes of the rows of a layer: pooled, changed by the output's own function, or as they are."""
        how = self.selection.output.reduce
        if self.selection.module is None and callable(how):
            made: Tensor = how(rows.to(self.dtype))  # lengths may overflow half precision
            return made
        return rows if self.pooling is None else pooled(rows, self.pooling)

    def _rows(self, X: Float[Tensor, "b t d"], n: int, mask: Tensor | None) -> Tensor:
        asked = self.selection
        if asked.source == "attention":
            with eager(self.model):
                found = self._run(self.checkpoint.base, X, mask, output_attentions=True).attentions[asked.layer - 1]
            return found[:, :, :n, :n] if asked.head is None else found[:, asked.head, :n, :n]
        if asked.source != "logits":
            return self._hidden(X, asked.layer, mask)[:, :n]
        logits: Tensor = self._run(self.model, X, mask).logits
        if logits.ndim < 3:  # of a classifier
            return logits
        return logits[:, n - 1 : n] if self.causal else logits[:, :n]

    def _hidden(self, X: Float[Tensor, "b n d"], layer: int, mask: Tensor | None) -> Float[Tensor, "b n width"]:
        """The hidden state of one layer; the layers above it are not run."""
        base = self.checkpoint.base
        if layer == self.layers:
            return cast(Tensor, self._run(base, X, mask).last_hidden_state)
        if self._blocks is None:
            return cast(Tensor, self._run(base, X, mask, output_hidden_states=True).hidden_states[layer])

        def stop(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            raise _EnoughError(args[0] if args else named["hidden_states"])

        with self._blocks[layer].register_forward_pre_hook(stop, with_kwargs=True):
            try:
                self._run(base, X, mask)
            except _EnoughError as enough:
                return enough.hidden
        raise AssertionError("a block that was not reached")

    def _module(self, X: Float[Tensor, "b n d"], name: str, mask: Tensor | None) -> Tensor:
        seen: list[Any] = []
        base = self.checkpoint.base
        part = part_of(self.checkpoint, name)
        with part.register_forward_hook(lambda module, args, out: seen.append(out)):
            self._run(base if any(part is each for each in base.modules()) else self.model, X, mask)
        made = seen[-1] if seen else None
        made = made[0] if isinstance(made, tuple | list) else made
        if not isinstance(made, Tensor) or len(made) != len(X):
            raise ShapeError(
                f"expected a part of the model that returns one tensor a text, got {type(made).__name__} from {name!r}"
                ": choose another"
            )
        return made

    def _run(self, model: nn.Module, X: Tensor, mask: Tensor | None = None, **wanted: Any) -> Any:
        if accepts(model, "use_cache"):
            wanted["use_cache"] = False
        # A copy: some models write into what they are given.
        return model(inputs_embeds=X.to(self.precision, copy=True), attention_mask=mask, return_dict=True, **wanted)

    def _check(self, X: Tensor) -> None:
        check_matches(X, torch.empty(0, dtype=self.dtype, device=self.device), self.encoder.d)
        self.encoder.check_length(X.shape[-2])

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        raise DTypeError(
            "expected a model that stays as it is, since others share its weights, got a cast or a move: load it with "
            "dtype= and device="
        )

    def train(self, mode: bool = True) -> Self:
        if mode:
            raise RangeError("expected a model in eval mode, got train(): its weights are shared and fixed")
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a model is large, and nothing here changes it


def pooled(hidden: Float[Tensor, "*b n width"], how: str) -> Float[Tensor, "*b width"]:
    """One vector of the words of a text: their mean, the largest of each entry, the first or the last of them."""
    if how == "mean":
        return hidden.mean(-2)
    if how == "max":
        return hidden.amax(-2)
    return hidden[..., 0 if how == "cls" else -1, :]


class _EnoughError(Exception):
    """Raised inside a forward pass when the layer that was asked for is reached."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__("enough")
        self.hidden = hidden
