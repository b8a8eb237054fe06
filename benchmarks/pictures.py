"""`make pictures`: the pictures of the docs, from real runs, into docs/pictures.

`python -m benchmarks.pictures words compare` makes only those. What takes long is kept in build/pictures and used
again; `--results DIR` and `--trained DIR` name folders that `oneword reproduce` and `oneword sweep` (of
examples/trained.toml) wrote. No review can be read in them: pictures that show a text show our own sentences, others
end above it.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image

if TYPE_CHECKING:
    import pandas as pd
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
WORK = ROOT / "build" / "pictures"
LARGEST = 400_000  # bytes of a picture
SENTENCE = "The plot is thin, but I would not call it a bad film."
# Ending of the name: width, scheme.
LOOKS: dict[str, tuple[int, Literal["light", "dark"]]] = {
    "": (1000, "light"),
    "-dark": (1000, "dark"),
    "-phone": (390, "light"),
}

# The command that writes each page, and the part of the page above which its picture ends (None: the whole page).
PAGES: dict[str, tuple[list[str], str | None]] = {
    "words": (["measure", SENTENCE], ".charts figure:nth-of-type(2)"),
    "model": (
        ["measure", "I love her smile.", "--model", "minilm", "--model", "minilm@random", "--out", "model"],
        "#meaning",
    ),
    "compare": (["compare", "I love her much", "I love her smile", "--out", "compare"], "#meaning"),
    "chat": (["chat", "--prompts", "../../examples/prompts.toml"], "#meaning"),
    "audit": (["audit", "--texts", "60", "--lengths", "16,32,64,128,256", "--reinit"], "#worst"),
}


# Pages ----------------------------------------------------------------------------------------------------------------


def page(name: str) -> Path:
    """The page of a command, made once."""
    path = WORK / f"{name}.html"
    if not path.exists():
        command, _ = PAGES[name]
        oneword([*command, "--html", path.name])
    return path


def pictured(name: str) -> None:
    """The page of a command, and the figures that it drew into the folder of its name."""
    _, until = PAGES[name]
    shots(page(name), name, until)
    for path in sorted((WORK / name).glob("*.png")):
        keep(path.read_bytes(), f"figure-{name}-{path.stem.removeprefix('all-MiniLM-L6-v2-')}")


def oneword(arguments: list[str]) -> None:
    """The command line, in the folder of work, so that pages name no folder of this machine."""
    WORK.mkdir(parents=True, exist_ok=True)
    print("oneword", *arguments, flush=True)
    subprocess.run(
        [Path(sys.executable).with_name("oneword"), *arguments], cwd=WORK, check=True, stdout=subprocess.DEVNULL
    )


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as api:
        chromium = api.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


# Where a picture ends: at `until` or the end of the page, or, if that is too far down, above the last part that fits.
END = """([until, tallest]) => {
  const top = (part) => Math.floor(part.getBoundingClientRect().top + scrollY);
  const end = until && document.querySelector(until) ? top(document.querySelector(until)) : document.body.scrollHeight;
  if (end <= tallest) return end;
  const parts = [...document.querySelectorAll("main section, main h3, main figure, .numbers tr, .verdict tr")].map(top);
  return Math.max(...parts.filter((place) => place <= tallest), Math.min(end, 800));
}"""


def shots(place: Path | str, name: str, until: str | None = None, *, tallest: int = 2200) -> None:
    """A page, by path or address, in light, in dark and on a phone: down to the top of `until`, or a part before it."""
    address = place.as_uri() if isinstance(place, Path) else place
    with browser() as chromium:
        for ending, (width, scheme) in LOOKS.items():
            context = chromium.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, device_scale_factor=1.5
            )
            tab = context.new_page()
            tab.goto(address, wait_until="load")
            tab.wait_for_selector(".drawing:not([data-drawn])", state="detached")  # Vega is still drawing them
            height = tab.evaluate(END, [until, tallest])
            content = tab.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
            keep(content, name + ending)
            context.close()


def keep(content: bytes, name: str) -> None:
    """Write a picture, in 256 colours if it would be too large."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    path = PICTURES / f"{name}.png"
    image.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}  {image.width}×{image.height}  {size / 1000:.0f} kB", flush=True)
    assert size <= LARGEST, f"expected at most {LARGEST} bytes, got {size}: let the picture end earlier"


# Figures --------------------------------------------------------------------------------------------------------------


def table_in(folder: Path) -> pd.DataFrame:
    from oneword.experiments.results import from_bytes, to_pandas

    return to_pandas(from_bytes((folder / "results.parquet").read_bytes(), "results.parquet")[0])


def reproduced(folder: Path) -> None:
    """The page and the figures of `oneword reproduce`, drawn anew from its table."""
    from oneword.experiments.claims import verdict
    from oneword.experiments.rows import figure_rows, fits
    from oneword.report.paper.figures import draw_all
    from oneword.report.paper.page import render

    if not (folder / "results.parquet").exists():
        oneword(["reproduce", "--out", str(folder)])
    table = table_in(folder)
    slopes, about = fits(table), json.loads((folder / "run.json").read_text(encoding="utf-8"))
    path = render(
        figure_rows(table), [claim.to_json() for claim in verdict(table)], about, WORK / "report.html", slopes
    )
    shots(path, "report", "#fig2-random-features", tallest=1800)
    for path in draw_all(figure_rows(table), WORK / "figures", slopes):
        if path.suffix == ".png":
            keep(path.read_bytes(), f"figure-{path.stem}")


def trained(folder: Path) -> None:
    """S of a trained encoder against the length of the text."""
    from oneword.experiments.rows import trained_fits, trained_lengths
    from oneword.report.words.figures import lengths_figure

    if not (folder / "results.parquet").exists():
        oneword(["sweep", str(ROOT / "examples" / "trained.toml"), "--out", str(folder)])
    table = table_in(folder)
    content = io.BytesIO()
    lengths_figure(trained_lengths(table), trained_fits(table)).savefig(content, format="png")
    keep(content.getvalue(), "trained-lengths")


def attention() -> None:
    """Every word of a text under softmax attention."""
    import oneword as ow

    text = ow.gaussian(50, 384, seed=0)
    content = io.BytesIO()
    ow.sensitivity(ow.AttentionFeatures.draw(384, seed=0), text).plot().savefig(content, format="png")
    keep(content.getvalue(), "attention")


def app() -> None:
    """The interactive page, in use."""
    from benchmarks import app_pictures  # which takes its pictures with this

    app_pictures.pictured()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="of oneword reproduce")
    parser.add_argument("--trained", type=Path, default=WORK / "trained", help="of oneword sweep examples/trained.toml")
    parser.add_argument("names", nargs="*", help="all by default")
    asked = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    todo: dict[str, Callable[[], None]] = {
        "attention": attention,
        "trained-lengths": partial(trained, asked.trained.resolve()),
        "report": partial(reproduced, asked.results.resolve()),
        **{name: partial(pictured, name) for name in PAGES},
        "app": app,
    }
    unknown = set(asked.names) - set(todo)
    if unknown:
        parser.error(f"expected names out of {', '.join(todo)}, got {', '.join(sorted(unknown))}")
    for name in asked.names or todo:
        todo[name]()


if __name__ == "__main__":
    main()
