"""Compare two tables of results column by column, bit for bit: python -m benchmarks.same_results A B

A and B are results.parquet files or the folders that hold them. What differs is listed; the exit code is 0 if nothing
does. Times, machines and versions are in run.json, not in the table.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from oneword.experiments.results import read_results

ROW = ["kind", "key", "row"]


def differences(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """What differs, in one line each."""
    out = [f"column {name} only in {one}" for name, one in _only(a.columns, b.columns)]
    a, b = (table.set_index(ROW).sort_index() for table in (a, b))
    out += [f"cell {key} row {row} ({kind}) only in {one}" for (kind, key, row), one in _only(a.index, b.index)]
    both = a.index.intersection(b.index)
    a, b = a.loc[both], b.loc[both]
    for name in a.columns.intersection(b.columns):
        changed = ~_same(a[name], b[name])
        if changed.any():
            at = int(changed.argmax())
            kind, key, row = both[at]
            first = f"cell {key} row {row} ({kind}): {a[name].iloc[at]!r}, {b[name].iloc[at]!r}"
            out.append(f"column {name}: {changed.sum()} of {len(both)} rows differ, first in {first}")
    return out


def _only(a: pd.Index, b: pd.Index) -> list[tuple[object, str]]:
    return [(item, "the first") for item in a.difference(b)] + [(item, "the second") for item in b.difference(a)]


def _same(a: pd.Series, b: pd.Series) -> np.ndarray:
    """Where both hold the same bits, or both nothing."""
    if a.dtype == np.float64 == b.dtype:
        bits = a.to_numpy().view(np.int64) == b.to_numpy().view(np.int64)
        return bits | (a.isna() & b.isna()).to_numpy()
    return ((a == b).fillna(False) | (a.isna() & b.isna())).to_numpy(dtype=bool)


def main(first: str, second: str) -> int:
    a, b = read_results(first), read_results(second)
    found = differences(a, b)
    print("\n".join(found) or f"the same: {len(a)} rows, {len(a.columns)} columns, {a['key'].nunique()} cells")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
