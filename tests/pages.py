"""What every page of ours has to be: one file that names nothing outside of it, and opens in a browser in silence."""

import re
from contextlib import contextmanager

import pytest

LARGEST = 300_000  # bytes of a page of a usual text; the report, which has a script, has its own limit
SIZES = pytest.mark.parametrize("width", [390, 1200])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


def assert_names_nothing_outside(path):
    page = path.read_text()
    named = {one or other for one, other in re.findall(r'\b(?:src|href|action)="([^"]*)"|url\(([^)]*)\)', page)}
    assert {name for name in named if not name.startswith("#")} == {"data:,"}
    assert "default-src 'none'" in page
    assert "script-src" not in page


# What differs from the frame of `base.html.j2`: one headline, cards, at the end what the numbers are and how they were
# made; every table in a box that scrolls, every such box within reach of the keyboard.
FRAME = """() => {
  const found = [], all = (what) => [...document.querySelectorAll(what)];
  const say = (wrong, what) => { if (wrong) found.push(what); };
  say(all("h1").length !== 1 || all("h1")[0].textContent !== document.title, "the headline is not the title");
  say(!all("header .card strong").length, "no cards");
  const ids = all("main > section").map((section) => section.id);
  say(ids.slice(-2).join() !== "meaning,provenance", "sections end with " + ids.slice(-2));
  say(!all("body > footer").length, "no footer");
  for (const table of all("main table:not(.verdict)")) say(!table.closest(".scroll"), "a table without a box");
  for (const box of all(".scroll, pre")) say(box.tabIndex !== 0, "out of reach: " + box.outerHTML.slice(0, 60));
  for (const box of all(".scroll")) say(!box.ariaLabel, "a box without a name");
  for (const image of all("main svg:not([aria-hidden])"))
    say(!image.closest("[role=img]")?.ariaLabel, "a picture without a name: " + image.outerHTML.slice(0, 60));
  for (const plot of all("svg.plot")) {
    const frame = plot.getBoundingClientRect();
    const out = (box) => box.left < frame.left - 2 || box.right > frame.right + 2
      || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
    for (const part of plot.querySelectorAll(":not(defs, defs *)"))
      say(out(part.getBoundingClientRect()), plot.ariaLabel + " is left by " + part.outerHTML.slice(0, 60));
    say(plot.querySelector("text:not([textLength])"), "letters that a font can change: " + plot.ariaLabel);
  }
  return found;
}"""


def assert_has_the_frame(tab, path, largest=LARGEST):
    assert tab.evaluate(FRAME) == []
    assert path.stat().st_size < largest
    tab.keyboard.press("Tab")
    focus = "getComputedStyle(document.activeElement.closest('label') ?? document.activeElement).outlineStyle"
    assert tab.evaluate(focus) == "solid"  # where the keyboard is can be seen


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
    assert_has_the_frame(tab, path)
    assert heard == []
    context.close()
