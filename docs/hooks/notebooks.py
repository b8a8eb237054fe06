"""Notebooks as pages: they are kept without outputs and run when the site is built, each in a kernel of its own.

A notebook that raises stops the build. What came out is kept in .cache for as long as the notebook and the library
stay as they are.
"""

import hashlib
import os
import re
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

_SURROUNDINGS = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")},
    # What is nothing to a reader: no widgets are installed, and frozen modules cannot be debugged.
    "PYTHONWARNINGS": "ignore:IProgress not found",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
# Tables of pandas bring a style of their own; without it they look like the others.
_FRAME = re.compile(r'<style scoped>.*?</style>\s*<table border="1" class="dataframe">', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    for path in sorted((root / "docs" / "notebooks").glob("*.ipynb")):
        body, resources = MarkdownExporter().from_notebook_node(_kept(path, root))
        body = _FRAME.sub("<table>", body)
        for name, picture in resources["outputs"].items():
            body = body.replace(name, f"{path.stem}-{name}")
            files.append(File.generated(config, f"notebooks/{path.stem}-{name}", content=picture))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=body))
    return files


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
        extra_arguments=["--log-level=ERROR"],  # it warns that it listens on this machine without encryption
    )
    return client.execute(env=os.environ | _SURROUNDINGS)


def _kept(path: Path, root: Path) -> nbformat.NotebookNode:
    sources = [path, *sorted((root / "src").rglob("*.py"))]
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    kept = root / ".cache" / "notebooks" / f"{path.stem}-{key}.ipynb"
    if not kept.exists():
        notebook = executed(path)
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{path.stem}-*.ipynb"):
            old.unlink()
        nbformat.write(notebook, kept)
    return nbformat.read(kept, as_version=4)
