"""`oneword measure --model M`: every word of a text under trained models, layer by layer and head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from oneword.cli.common import dump, overall, writable_folder, write_table
from oneword.errors import RangeError

if TYPE_CHECKING:
    import torch

    from oneword.maps.transformer import TransformerFeatures
    from oneword.profile.profile import Profile
    from oneword.report.profile.profiled import Profiled
    from oneword.sets.constraints import Constraint

FORMAT = "oneword.profile/1"


@dataclass(frozen=True)
class Asked:
    """What was asked of the models, as the options say it."""

    models: tuple[str, ...]
    layer: int | None
    output: str
    head: int | None
    module: str | None
    reinit: bool
    per_layer: bool
    positions: Sequence[int] | None
    special: bool
    radius: float | None
    real_words: int
    among: Path | None
    seed: int
    quick: bool
    most: int

    def run(self, texts: Sequence[str], like: torch.Tensor, silent: bool) -> list[Profile]:
        """Every text under every model."""
        from oneword.profile.profile import profile

        maps = list(self._maps(like))
        jobs = [(phi, text) for text in texts for phi in maps]
        tokens = sum(phi.encode(text).n for phi, text in jobs)
        if tokens > self.most:
            raise RangeError(
                f"expected at most {self.most:,} tokens in all, got {tokens:,}: give fewer texts (--limit), shorter "
                "ones, or allow more (--most)"
            )
        found = []
        with overall(silent) as report:
            for count, (phi, text) in enumerate(jobs):

                def say(stage: str, done: float, before: int = count, name: str = phi.name) -> None:
                    report(f"{name}: {stage}", (before + done) / len(jobs))

                words = None if self.among is None else self._words(phi, self.among)
                found.append(
                    profile(
                        phi,
                        text,
                        within=self._within(),
                        positions=self._positions(phi, text),
                        words=words,
                        effort=self._effort(),
                        seed=self.seed,
                        report=say,
                    )
                )
        return found

    def _maps(self, like: torch.Tensor) -> Any:
        from oneword.maps.transformer import TransformerFeatures

        for name in self.models:
            for seed in (None, self.seed) if self.reinit else (None,):
                yield TransformerFeatures.load(
                    name, layer=self.layer, output=self.output, head=self.head, module=self.module,
                    dtype=like.dtype, device=like.device, random_init=seed,
                )  # fmt: skip

    def _within(self) -> Constraint:
        from oneword.sets.constraints import Ball

        return Ball(relative=1.0 if self.radius is None else self.radius)

    def _positions(self, phi: TransformerFeatures, text: str) -> list[int] | None:
        """As the library counts them: special tokens in front are words, too."""
        if self.positions is not None:
            return list(self.positions)
        return list(range(len(phi.encode(text).words))) if self.special else None

    def _words(self, phi: TransformerFeatures, among: Path) -> Any:
        from oneword.cli.texts import word_list
        from oneword.sets.vocabulary import Words

        return Words.of(phi.encoder, word_list(among))

    def _effort(self) -> Any:
        from oneword.profile.profile import Effort
        from oneword.search.defaults import DefaultSearch

        return Effort(DefaultSearch(quick=self.quick), random_words=self.real_words, per_layer=self.per_layer)


def show(found: Sequence[Profiled]) -> None:
    from rich.console import Console

    from oneword.report.profile.terminal import ProfileView

    Console(highlight=False).print(ProfileView(found))


def write(
    found: Sequence[Profile],
    command: str,
    *,
    html: Path | None,
    json_file: str | None,
    tables: Sequence[Path],
    out: Path | None,
    silent: bool,
) -> None:
    """A page, JSON, tables, and a folder of results with figures: whatever was asked for."""
    import pandas as pd

    shown = [profile.tables for profile in found]
    if html is not None:
        from oneword.report.profile.page import render

        render(shown, html, command=command)
    for path in tables:
        parts = [each.words.assign(model=each.model, objective=each.objective, text=k) for k, each in enumerate(shown)]
        write_table(pd.concat(parts, ignore_index=True), path)
    if json_file is not None:
        dump(_to_json(shown, command), json_file)
    if out is not None:
        _write_folder(found, out, silent)


def _to_json(shown: Sequence[Profiled], command: str) -> dict[str, Any]:
    from oneword.report.table import to_records

    return {
        "format": FORMAT,
        "command": command,
        "profiles": [
            {
                "model": each.model,
                "text": each.text,
                "objective": each.objective,
                "noise": each.noise,
                "words": to_records(each.words),
                "layers": to_records(each.layers),
                "heads": to_records(each.heads),
                "notes": list(each.notes),
                "about": dict(each.about),
            }
            for each in shown
        ],
    }


def _write_folder(found: Sequence[Profile], folder: Path, silent: bool) -> None:
    from oneword.report.profile import figures as profile_figures

    writable_folder(folder)
    for k, each in enumerate(found):
        name = f"profile-{k}" if len(found) > 1 else "profile"
        each.result.save(folder / f"{name}.json")
        for table in ("words", "layers", "heads"):
            write_table(getattr(each.tables, table), folder / f"{name}-{table}.parquet")
        for kind in ("layers", "heads"):
            figure = getattr(profile_figures, f"{kind}_figure")(each.tables)
            for suffix in ("pdf", "png"):
                figure.savefig(folder / f"{name}-{kind}.{suffix}")
    if not silent:
        typer.echo(f"written to {folder}: results (*.json), tables (*.parquet) and figures (*.pdf, *.png)")
