"""What the site shows of the files beside docs/: the examples on one page, the changelog on another.

Pages link to those files by their paths in the repository, which a reader of the repository can follow; here the links
lead to those two pages.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_EXAMPLES = re.compile(r"\]\((?:\.\./)+examples/?([\w.]*)\)")
_HEAD = """# Examples

Short files to start from; they are in the folder `examples` of the repository, and the tests run each script.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    made = {"examples.md": _examples(root / "examples"), "changelog.md": _changelog(root / "CHANGELOG.md")}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)

    def link(found: re.Match[str]) -> str:
        return f"]({up}examples.md" + (f"#{_anchor(found[1])})" if found[1] else ")")

    return _EXAMPLES.sub(link, markdown)


def _examples(folder: Path) -> str:
    parts = [_HEAD]
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix != ".py", path.name)):
        if path.suffix in (".py", ".toml"):
            language = {".py": "python", ".toml": "toml"}[path.suffix]
            parts.append(f"## {path.name} {{#{_anchor(path.name)}}}\n\n```{language}\n{path.read_text()}```\n")
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return name.replace(".", "-")


def _changelog(path: Path) -> str:
    """Its links to docs/ start there; those to other files of the repository have no page and become plain text."""
    text = path.read_text().replace("](docs/", "](")
    return re.sub(r"\[([^\]]+)\]\((?!https://|#|[\w/-]+\.(?:md|json))[^)]*\)", r"\1", text)
