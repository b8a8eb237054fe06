"""The table of results: one set of columns for every kind of cell, null where a column does not apply.

The types are fixed as well, so that the same rows make the same Parquet file, bit for bit. In pandas whole numbers are
Int64, texts string, and other numbers float64 with NaN for null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from oneword.errors import FileFormatError

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

COLUMNS: Mapping[str, pa.DataType] = {
    # every kind
    "kind": _TEXT, "key": _TEXT, "row": _WHOLE, "map": _TEXT, "words_from": _TEXT, "encoder": _TEXT, "corpus": _TEXT,
    "n": _WHOLE, "d": _WHOLE, "k": _WHOLE, "depth": _WHOLE, "activation": _TEXT, "trial": _WHOLE, "seed": _WHOLE,
    # sensitivity; a review shares value, upper, baseline, position and word
    "changed": _WHOLE, "positions": _TEXT, "value": _REAL, "first": _REAL, "upper": _REAL, "baseline": _REAL,
    "real_mean": _REAL, "real_max": _REAL, "predicted": _REAL, "mass_before": _REAL, "mass_after": _REAL,
    "position": _WHOLE, "word": _TEXT, "status": _TEXT, "certificate": _TEXT,
    # learning
    "N": _WHOLE, "sample": _WHOLE, "label": _WHOLE, "training": _TEXT, "objective": _TEXT, "g": _REAL, "err": _REAL,
    "gamma": _REAL, "signed_delta": _REAL, "f": _REAL, "alignment": _REAL, "rho": _REAL, "residual": _REAL,
    "identity_gap": _REAL, "condition": _REAL, "lambda_min_over_k": _REAL, "dropped": _WHOLE,
    # attention_map
    "sentence": _WHOLE, "text": _TEXT, "from_token": _TEXT, "to_token": _TEXT, "from_index": _WHOLE,
    "to_index": _WHOLE, "weight": _REAL,
}  # fmt: skip

SCHEMA = pa.schema(list(COLUMNS.items()))
_PANDAS: dict[pa.DataType, Any] = {_TEXT: pd.StringDtype(), _WHOLE: pd.Int64Dtype()}


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows with all columns; what a row does not name is null, and so is NaN."""
    unknown = {name for row in rows for name in row} - set(COLUMNS)
    assert not unknown, f"columns that the table does not have: {sorted(unknown)}"
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    arrays = {name: pa.array(columns[name], kind, from_pandas=True) for name, kind in COLUMNS.items()}
    return pa.table(arrays, schema=SCHEMA)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows in one table, sorted by (kind, key, row)."""
    table = pa.concat_tables(tables or [SCHEMA.empty_table()])
    return table.sort_by([("kind", "ascending"), ("key", "ascending"), ("row", "ascending")])


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The same for people: Int64, string and float64."""
    out: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS.get)
    return out


def to_bytes(table: pa.Table, about: Mapping[str, str] | None = None) -> bytes:
    """A Parquet file. Every option that shapes it is set here, and no time is written: equal tables, equal bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(dict(about or {})),
        sink,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=False,
        row_group_size=1 << 20,
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_bytes(content: bytes, name: str) -> tuple[pa.Table, dict[str, str]]:
    """What `to_bytes` wrote: the table, and what was said about it."""
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        if not table.schema.equals(SCHEMA):
            raise FileFormatError(f"expected the columns of a table of results, got others in {name}")
        return table.replace_schema_metadata(None), about
    # A file that is not what it was can fail in the reader in any of these ways.
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileFormatError(f"expected a table of results, got {name}, which cannot be read ({reason})") from None
