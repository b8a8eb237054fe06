"""The site: built without a warning, its notebooks run, and nothing in it comes from another host."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import oneword as ow
from oneword.text.sources import MINILM
from tests.markdown_pages import NOTEBOOKS, ROOT

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built once for all processes of a test run."""
    pytest.importorskip("material", reason="needs oneword[docs]")
    filelock = pytest.importorskip("filelock")
    if MINILM.version is None:
        pytest.skip("needs oneword[embedded]")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "site"
    with filelock.FileLock(shared / "site.lock"):
        if not (shared / "said.txt").exists():
            # Not --quiet: what is not said is not counted, and --strict would let it pass.
            build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            # Unless told not to, the theme prints an advertisement for another generator.
            done = subprocess.run(
                build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
            )
            lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO")]
            (shared / "said.txt").write_text("\n".join([str(done.returncode), *filter(None, lines)]))
    said = (shared / "said.txt").read_text()
    assert said == "0", said
    return folder


class Loads(HTMLParser):
    """The addresses that a browser fetches with a page; links that a person may follow are none."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADED.get(tag, ""))
        if tag == "link" and given.get("rel") not in ("next", "prev", "canonical"):
            address = given.get("href")
        if address:
            self.addresses.append(address)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_names_no_other_host(site: Path):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        assert loads.addresses
        assert not [address for address in loads.addresses if "//" in address], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", style.read_text()), style


@pytest.mark.slow
def test_formulas_are_mathml(site: Path):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "arithmatex" not in text, page
        for formula in re.findall(r"<math.*?</math>", text, re.DOTALL):
            assert "\\" not in formula, (page, formula)
    for page in ("theory.html", "learning.html", "certificates.html"):
        assert (site / page).read_text().count("<math") > 20


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_they_found(site: Path, notebook: Path):
    page = (site / "notebooks" / f"{notebook.stem}.html").read_text()
    pictures = re.findall(rf'src="({notebook.stem}-[\w-]+\.png)"', page)
    assert len(pictures) >= 2
    assert all((site / "notebooks" / picture).stat().st_size > 2000 for picture in pictures)
    assert page.count("<table>") >= 2
    assert not re.search(r"\bnan\b|\binf\b|Traceback|Warning", page, re.IGNORECASE)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(notebook: Path):
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_every_public_name_has_its_place_in_the_reference():
    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    documented = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    assert set(ow.__all__) - documented == {"__version__"}


@pytest.mark.slow
def test_a_browser_fetches_nothing_else_and_finds_what_is_searched_for(site: Path, browser):
    """Opened from a folder, where the search has to do without a server and without a worker."""
    page = browser.new_page()
    seen: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for name in ("theory", "notebooks/first-result", "reference/maps", "index"):
        page.goto((site / f"{name}.html").as_uri())
    # Key by key: the search listens for keys, and does not notice a value that is put in after it has become ready.
    page.locator("input.md-search__input").press_sequentially("Marchenko")
    page.wait_for_selector(".md-search-result__item a[href*='theory']", timeout=30_000)
    page.close()
    assert seen
    assert not [url for url in seen if not url.startswith(("file:", "data:", "about:", "blob:"))]
    assert not complaints
