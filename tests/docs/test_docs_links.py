"""Links of README, docs and notebooks lead somewhere: to a file, to a heading, or to an address that can be one."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.markdown_pages import NOTEBOOKS, PAGES, ROOT, name, prose

toc = pytest.importorskip("markdown.extensions.toc", reason="needs oneword[docs]")

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+?)(?: \{#(.+)\})?$", re.MULTILINE)


def links(page: Path) -> list[str]:
    return LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked to by."""
    return {own or toc.slugify(re.sub(r"[`*]", "", title), "-") for title, own in HEADING.findall(prose(page))}


def source(path: Path) -> Path:
    """The file that a page of the site is made of."""
    notebook = path.with_suffix(".ipynb")
    return notebook if path.suffix == ".md" and notebook.exists() else path


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_every_link_leads_somewhere(page: Path):
    for link in links(page):
        if "://" in link:
            address = urlsplit(link)
            assert address.scheme == "https", link
            assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", address.netloc), link
            continue
        file, _, anchor = link.partition("#")
        target = source((page.parent / file).resolve()) if file else page
        assert target.exists(), f"{link}: no such file"
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_there_are_links_to_check():
    assert sum(len(links(page)) for page in PAGES) > 50
