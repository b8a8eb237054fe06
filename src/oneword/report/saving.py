"""Figures as files: PDF, SVG and PNG, the same bytes from the same figure, each whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from oneword.files import write_whole
from oneword.report.drawing import Drawing, placed

# No dates and no versions inside the files.
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def save_figure(figure: Drawing, folder: Path, name: str) -> list[Path]:
    """Write a figure in every format."""
    paths = []
    placed(figure)
    for suffix, metadata in METADATA.items():
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata=metadata)
        paths.append(folder / f"{name}.{suffix}")
        write_whole(paths[-1], content.getvalue())
    return paths
