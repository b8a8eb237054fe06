"""The pages that people read, README and docs, with their code blocks."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+?) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of code. `why` is the reason that the page gives for not running it."""

    language: str
    code: str
    line: int
    why: str | None


def name(page: Path) -> str:
    """A page as it is called in reports of tests."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks in these languages."""
    text = page.read_text()
    return [
        Block(found["language"], found["code"], text.count("\n", 0, found.start("code")), found["why"])
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]


def prose(page: Path) -> str:
    """The page without its code; of a notebook, the cells that are text."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text())["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _FENCE.sub("", page.read_text())
