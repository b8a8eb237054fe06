"""Pictures of the interactive page, used as a person would: each of its parts in light, in dark and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.pictures import LOOKS, browser, keep
from benchmarks.visitors import page

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXT = "The plot is thin, but I would not call it a bad film: she is warm and quick, and steals every scene."
PATIENCE = 300_000  # ms
WIDE = 1280  # pixels: with room for both attention maps


def _words(tab: Page) -> None:
    tab.locator("#words section").first.locator("[data-start]", has_text="bad").click()
    tab.wait_for_selector("#word h2")
    tab.wait_for_selector("#word section:last-of-type [data-word]")


def _layers(tab: Page) -> None:
    _open(tab, "Layer by layer")


def _shorter(tab: Page) -> None:
    _open(tab, "Shorter texts")
    tab.click("#cut")
    tab.wait_for_selector("#lengths svg.curves")


def _change(tab: Page) -> None:
    _open(tab, "Change one word")
    tab.fill("#after textarea", TEXT.replace("bad", "good"))
    tab.wait_for_selector("#changed .changed >> text=good")


PARTS: dict[str, Callable[[Page], None]] = {
    "app": _words,
    "app-layers": _layers,
    "app-lengths": _shorter,
    "app-change": _change,
}


def pictured() -> None:
    """All parts, one measurement for each look."""
    with page() as (address, _), browser() as chromium:
        for ending, (width, scheme) in LOOKS.items():
            context = chromium.new_context(
                viewport={"width": width if ending == "-phone" else WIDE, "height": 900},
                color_scheme=scheme,
                device_scale_factor=1.5,
            )
            tab = context.new_page()
            tab.set_default_timeout(PATIENCE)
            tab.goto(address)
            tab.fill("#text textarea", TEXT)
            tab.click("#measure")
            tab.wait_for_selector("#status >> text=/Done in/")
            for name, show in PARTS.items():
                show(tab)
                tab.mouse.move(0, 0)
                tab.wait_for_timeout(500)  # what fades in is there
                keep(tab.screenshot(full_page=True), name + ending)
                if (name, ending) == ("app", ""):
                    keep(_results(tab), "hero")
            context.close()


def _results(tab: Page) -> bytes:
    """The text in colour and the chosen word, without the controls."""
    boxes = [tab.locator(place).bounding_box() for place in ("#words", "#word")]
    top = min(box["y"] for box in boxes if box) - 8
    bottom = max(box["y"] + box["height"] for box in boxes if box) + 8
    return tab.screenshot(full_page=True, clip={"x": 0, "y": top, "width": WIDE, "height": bottom - top})


def _open(tab: Page, name: str) -> None:
    """A tab of the page; on a phone those that have no room are in a menu."""
    wanted = tab.get_by_role("tab", name=name)
    if not wanted.is_visible():
        tab.locator(".overflow-menu > button").click()
        wanted = tab.locator(".overflow-dropdown button", has_text=name)
    wanted.click()
