"""Templates of pages: every text that goes into one is escaped. jinja2 is of the extra `page`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneword.errors import MissingExtraError
from oneword.report.table import shown

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> Template:
    """A template of this package; MissingExtraError where jinja2 is not installed."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise missing_for_pages(error) from None
    environment = Environment(
        loader=PackageLoader("oneword.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["shown"] = shown
    return environment.get_template(name)


def missing_for_pages(error: ImportError) -> MissingExtraError:
    return MissingExtraError(
        f"expected plotly and jinja2 to write a page, got no {error.name}: pip install 'oneword[page]'"
    )
