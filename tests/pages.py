"""What every page of ours has to be: one file that names nothing outside of it, and opens in a browser in silence."""

import re
from contextlib import contextmanager

import pytest

SIZES = pytest.mark.parametrize("width", [390, 1200])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


def assert_names_nothing_outside(path):
    page = path.read_text()
    assert set(re.findall(r'\b(?:src|href|action)="([^"]*)"|url\(([^)]*)\)', page)) == {("data:,", "")}
    assert "default-src 'none'" in page
    assert "script-src" not in page


@contextmanager
def opened(browser, path, width, scheme):
    """The page in a tab; at the end nothing was said, asked for or wider than the window."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    tab, heard = context.new_page(), []
    tab.on("console", lambda message: heard.append(message.text))
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.on("dialog", lambda dialog: heard.append(dialog.message))
    tab.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
    tab.goto(path.as_uri(), wait_until="load")
    yield tab
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert heard == []
    context.close()
