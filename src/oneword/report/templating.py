"""Pages from templates: every text that goes into one is escaped. jinja2 is of the extra `page`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneword import plot
from oneword.errors import MissingExtraError, printable
from oneword.files import write_whole
from oneword.plot import look
from oneword.report.table import shown

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def page_template(name: str) -> Template:
    """A template of this package; MissingExtraError where jinja2 is not installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise missing_for_pages(error) from None
    return _environment().get_template(name)


def check_installed() -> None:
    """Raise MissingExtraError where a page could not be made: before the work, not after it."""
    page_template("base.html.j2")


@cache  # pieces of the interactive page are drawn several times a second
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("oneword.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    environment.filters["shown"] = shown
    environment.filters["tied"] = tied
    environment.globals["palette"] = look
    environment.globals["inline"] = lambda each, **size: Markup(plot.inline(each, **size))
    environment.globals["legend"] = lambda each, **how: Markup(plot.legend(each, **how))
    return environment


def _shown(value: object) -> object:
    """A text without what turns the direction of a page or is no HTML; markup is that of other templates."""
    return printable(value, keep="\n\r\t") if type(value) is str else value


def tied(text: str) -> str:
    """A number stays in one line with what belongs to it: ≥ before it, % after it."""
    return text.replace("≥ ", "≥\u00a0").replace("≤ ", "≤\u00a0").replace(" %", "\u00a0%")


def missing_for_pages(error: ImportError) -> MissingExtraError:
    return MissingExtraError(
        f"expected vl-convert-python and jinja2 to write a page, got no {error.name}: pip install 'oneword[page]'"
    )


def write_page(name: str, path: Path, **values: Any) -> Path:
    """Fill a template and write it, whole or not at all."""
    write_whole(path, page_template(name).render(values).encode())
    return path


def facts(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the numbers rest on; what has a short form is shown by it."""
    for name, value in about.items():
        if isinstance(value, Mapping):
            parts = [f"{key} {each}" for key, each in value.items() if each not in (None, [], "") and key != name]
            own = [str(value[name])] if name in value else []
            yield name, value["shown"] if "shown" in value else ", ".join(own + parts)
        elif value is not None:
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
