"""`sweep`: a grid of maps, lengths and dimensions as one table, made of the same cells as the command line's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import pandas as pd

from oneword.experiments.grid import grid
from oneword.experiments.run import Progress, run


def sweep(
    maps: str | Sequence[str],
    n: int | Sequence[int],
    d: int | Sequence[int],
    *,
    trials: int = 10,
    words_from: str | Sequence[str] = "gaussian",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = 0,
    cluster: str | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> pd.DataFrame:
    """The word sensitivity of every map at every length and dimension, `trials` times; one row each.

    | argument | meaning |
    |---|---|
    | `maps` | rf, drf, attention, and attention-… with relu, relu-unnormalised, sparsemax, sigmoid or linear |
    | `words_from` | "gaussian", "clustered" or "corpus" |
    | `out` | a folder to keep cells in, so that a sweep that was stopped goes on; by default none is kept |
    | `workers` | processes; 0 does all in this one, None takes as many as there are cores |
    | `more` | any other key of a SensitivityCell, with `depth` for its depths |

    Lists are multiplied out. In a script, more than one process needs `if __name__ == "__main__":` around the call.
    """
    given = {"maps": maps, "n": n, "d": d, "trials": trials, "words_from": words_from, **more}
    cells = grid("sensitivity", given)
    if out is not None:
        return run(cells, out, workers=workers, cluster=cluster, progress=progress)
    with tempfile.TemporaryDirectory(prefix="oneword-") as folder:
        return run(cells, folder, workers=workers, cluster=cluster, progress=progress)
