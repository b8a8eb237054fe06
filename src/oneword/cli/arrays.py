"""Measurements of a synthetic text, or of several words at once: one result of the library a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oneword.cli.answers import write_results
from oneword.cli.common import dump, stages
from oneword.errors import RangeError

if TYPE_CHECKING:
    import torch

    from oneword.bounds.certificate import Certify
    from oneword.search.base import Search
    from oneword.sets.constraints import Constraint
    from oneword.text.context import Context
    from oneword.text.encoders import Encoder


def synthetic(size: str, cosine: float, seed: int, dtype: torch.dtype, device: str) -> Context:
    """The Gaussian text that N,D stands for."""
    from oneword.text.context import gaussian

    try:
        n, d = (int(part) for part in size.replace("x", ",").split(","))
    except ValueError:
        raise RangeError(f"expected --gaussian N,D with two whole numbers, for example 50,384, got {size!r}") from None
    return gaussian(n, d, cosine=cosine, seed=seed, dtype=dtype, device=device)


def own_words(
    encoder: Encoder, text: str, positions: Sequence[int] | None, special: bool, d: int | None, like: torch.Tensor
) -> tuple[Context, list[int]]:
    """A text, and which of its words may change: unless `positions` say, those of the person, with `special` all."""
    context = encoder.encode(text, d=d, dtype=like.dtype)
    context = replace(context, X=context.X.to(like.device))
    own = [i for i, added in enumerate(context.special) if special or not added]
    return context, own if positions is None else list(positions)


@dataclass(frozen=True)
class Measurement:
    """What is asked of every map."""

    within: Constraint
    words: int
    positions: Sequence[int] | None
    search: Search | Literal["quick"] | None
    certify: Certify
    seed: int

    def run(self, context: Context, maps: Sequence[str], silent: bool, json_file: str | None, out: Path | None) -> None:
        """Measure, print, write."""
        from oneword.maps import registry
        from oneword.sup.verb import sensitivity

        results = {}
        for name in maps:
            like = context.X
            phi = registry.draw(name, context.n, context.d, seed=self.seed, dtype=like.dtype, device=like.device)
            with stages(name, silent) as report:
                results[name] = sensitivity(phi, context, progress=report, **vars(self))
            if not silent:
                from rich.console import Console

                Console().print(results[name], "")
        if json_file is not None:
            dump([result.to_dict() for result in results.values()], json_file)
        if out is not None:
            write_results(results, out, silent)
