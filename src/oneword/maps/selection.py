"""Which numbers of a trained model are measured: one of its outputs, at one of its layers, heads or parts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from oneword.checks import shown, whole_number
from oneword.errors import FileFormatError, RangeError, UnknownNameError, did_you_mean
from oneword.maps.checkpoints import Checkpoint
from oneword.maps.outputs import AS_THE_MODEL_POOLS, OUTPUTS, POOLINGS, Output, listed


@dataclass(frozen=True)
class Selection:
    """Which of a model's numbers φ(X) are.

    | field | meaning |
    |---|---|
    | `output` | one of `OUTPUTS` |
    | `layer` | from 0, the embeddings, to L |
    | `head` | one head of attention; None for all |
    | `module` | a part of the model by its name: what it returns is taken instead of the output |
    """

    output: Output
    layer: int
    head: int | None = None
    module: str | None = None

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, output: str, layer: int | None, head: int | None, module: str | None
    ) -> Selection:
        """The selection of these names; `layer` None is the last one.

        Raises UnknownNameError, RangeError or FileFormatError where the model does not have it.
        """
        if not isinstance(output, str) or output not in OUTPUTS:
            raise UnknownNameError(f"expected output out of {', '.join(OUTPUTS)}, got {shown(output)}")
        chosen, last = OUTPUTS[output], layers_of(checkpoint)
        where = last if layer is None else whole_number("layer", layer)
        if not chosen.first_layer <= where <= last:
            there = f"{chosen.first_layer} to {last}"
            raise RangeError(f"expected layer from {there}, the layers of {checkpoint.name}, got {where}")
        if head is not None:
            heads = int(checkpoint.config.num_attention_heads)
            if not chosen.has_heads:
                able = listed(lambda each: each.has_heads)
                raise RangeError(f"expected head= with output={able!r} only, got it with {output!r}: leave it out")
            if not 0 <= whole_number("head", head) < heads:
                raise RangeError(f"expected head from 0 to {heads - 1}, the heads of {checkpoint.name}, got {head}")
        if chosen.source == "logits":
            check_head(checkpoint)
            if checkpoint.causal and classifies(checkpoint):
                raise RangeError(
                    f"expected a language model or a classifier that reads both ways for {output}, got "
                    f"{checkpoint.name}, which finds its last token by padding: take output='pooled'"
                )
        if chosen.reduce == AS_THE_MODEL_POOLS and checkpoint.pooling not in POOLINGS:
            got = f"{checkpoint.pooling} in {checkpoint.name}: take output='hidden' or 'cls'"
            raise FileFormatError(f"expected a pooling out of {', '.join(POOLINGS)} for output={output!r}, got {got}")
        if module is not None:
            part_of(checkpoint, module)
        return cls(chosen, where, head, module)

    @property
    def source(self) -> str:
        """Where its numbers come from: "module", or the source of its output."""
        return "module" if self.module is not None else self.output.source

    @property
    def layer_output(self) -> str:
        """The output to compare layers by: the same where it is made of hidden states, else these."""
        return self.output.name if self.source == "hidden" else "hidden"


def check_head(checkpoint: Checkpoint) -> None:
    """Refuse a model that makes no logits, or whose head was not saved and would be random."""
    if checkpoint.base is checkpoint.model:
        got = f"{type(checkpoint.model).__name__} in {checkpoint.name}"
        remedy = "take output='hidden' or 'pooled', or a model saved with its head"
        raise RangeError(f"expected a model with a head for logits, got {got}: {remedy}")
    if any("pooler" not in key for key in checkpoint.untrained):
        got = f"no {checkpoint.untrained[0]}: save the model with its head, or take output='hidden'"
        raise FileFormatError(f"expected the weights of the head of {checkpoint.name} for logits, got {got}")


def classifies(checkpoint: Checkpoint) -> bool:
    """Whether its logits are of a text, not of its words."""
    return type(checkpoint.model).__name__.endswith("ForSequenceClassification")


def sees_no_constant(checkpoint: Checkpoint) -> bool:
    """Whether a softmax follows the logits, so that adding the same number to all of them changes nothing.

    Not so for regression, for a single output, and for labels that each have a sigmoid of their own.
    """
    kind, config = type(checkpoint.model).__name__, checkpoint.config
    if classifies(checkpoint) or kind.endswith("ForTokenClassification"):
        other = ("regression", "multi_label_classification")
        return int(config.num_labels) > 1 and getattr(config, "problem_type", None) not in other
    return kind.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM"))


def layers_of(checkpoint: Checkpoint) -> int:
    """The number of blocks."""
    return int(checkpoint.config.num_hidden_layers)


def part_of(checkpoint: Checkpoint, name: str) -> nn.Module:
    """A part of the model by its name, counted from the bare model or from the one with its head."""
    if not isinstance(name, str):
        raise UnknownNameError(f"expected module= the name of a part of {checkpoint.name}, got {shown(name)}")
    parts = dict(checkpoint.model.named_modules()) | dict(checkpoint.base.named_modules())
    if name in parts and name:
        prefix = getattr(checkpoint.model, "base_model_prefix", "")
        drawn = [key for key in checkpoint.untrained if f"{key}.".startswith((f"{name}.", f"{prefix}.{name}."))]
        if drawn:
            got = "none, so that they would be random: choose a part that was saved"
            raise FileFormatError(f"expected the weights of {name} in {checkpoint.name}, got {got}")
        return parts[name]
    raise UnknownNameError(f"expected a part of {checkpoint.name}, got {shown(name)}{did_you_mean(name, parts)}")


def blocks_of(base: nn.Module, layers: int) -> nn.ModuleList | None:
    """The blocks of the model in order; None where it is not plain which they are."""
    lists = [module for module in base.modules() if isinstance(module, nn.ModuleList) and len(module) == layers]
    return lists[0] if len(lists) == 1 else None
