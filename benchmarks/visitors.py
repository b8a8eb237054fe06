"""The interactive page under real visitors: how soon the first result comes, and ten people at once for five minutes.

The page runs in a process of its own, as `oneword app` does; visitors are tabs of a real Chromium, which takes part of
the same cores.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.first_answer import reviews
from oneword.app.texts import SAMPLES

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

BARS = {"first_result_seconds": "< 5", "errors": "0", "visitors": "10 for 300 s"}
VISITORS, SECONDS = 10, 300.0
THIRTY = SAMPLES["a review"]  # 32 words
LONG = " ".join([THIRTY] * 8)[:1330].rsplit(" ", 1)[0]  # about 250 words
PATIENCE = 600_000  # ms: with ten people in line
READERS = ("Softmax attention", "Fully connected layer", "all-MiniLM-L6-v2, trained")


@contextmanager
def page() -> Iterator[tuple[str, int]]:
    """`oneword app` as a command: its address and process."""
    command = [sys.executable, "-m", "oneword", "app"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(found[0] for line in process.stdout if (found := re.search(r"http://[\w.:]+/", line)))
        try:
            yield address, process.pid
        finally:
            process.terminate()


def measure(seconds: float = SECONDS) -> dict[str, Any]:
    """Everything, with the bars beside it."""
    with page() as (address, process):
        first = asyncio.run(_with_browser(address, _first_results))
        before = _memory(process, "VmRSS")
        crowd = asyncio.run(_with_browser(address, lambda browser, url: _crowd(browser, url, seconds)))
        memory = {
            "server_gb_before_the_crowd": before,
            "server_gb_after_the_crowd": _memory(process, "VmRSS"),
            "server_gb_at_the_peak": _memory(process, "VmHWM"),
        }
    return {"bars": BARS, **first, **crowd, **memory}


def _memory(process: int, what: str) -> float:
    line = next(each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith(what))
    return round(int(line.split()[1]) / 1e6, 2)


async def _with_browser(address: str, do: Any) -> dict[str, Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as api:
        browser = await api.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            found: dict[str, Any] = await do(browser, address)
            return found
        finally:
            await browser.close()


def at_once(visitors: int = VISITORS) -> dict[str, Any]:
    """Ten visitors with real reviews press Measure at the same moment: seconds to their first colours."""
    texts = reviews(200, visitors)
    with page() as (address, _):
        return asyncio.run(_with_browser(address, lambda browser, url: _all_press(browser, url, texts)))


async def _all_press(browser: Browser, address: str, texts: list[str]) -> dict[str, Any]:
    errors: list[str] = []
    tabs = [await _visit(browser, address) for _ in texts]
    for tab, text in zip(tabs, texts, strict=True):
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        await _read_by(tab, *READERS)
        await tab.fill("#text textarea", text)
    began = time.monotonic()

    async def press(tab: Page) -> tuple[float, float]:
        await tab.click("#measure")
        await tab.wait_for_selector("#words [data-start]")
        first = time.monotonic() - began
        await tab.wait_for_function(f"document.querySelectorAll('#words .review').length == {len(READERS)}")
        every = time.monotonic() - began
        said = await tab.inner_text("#status")
        errors.extend([said] if "expected" in said or "should not" in said else [])
        return first, every

    first, every = zip(*await asyncio.gather(*map(press, tabs)), strict=True)
    await tabs[0].wait_for_function("document.querySelector('#words').innerText.includes('S ≥')")  # a search goes on
    searched = time.monotonic() - began
    for tab in tabs:
        await tab.click("#stop")
        await tab.wait_for_selector("#status >> text=/Stopped|Done/")
    return {
        "bars": {"first_colours_seconds_worst": "< 30 on two cores", "errors": "0"},
        "visitors": len(texts),
        "words": [len(text.split()) for text in texts],
        "first_colours_seconds_median": round(statistics.median(first), 1),
        "first_colours_seconds_worst": round(max(first), 1),
        "colours_of_all_three_seconds_median": round(statistics.median(every), 1),
        "colours_of_all_three_seconds_worst": round(max(every), 1),
        "first_search_seconds": round(searched, 1),
        "errors": errors,
    }


async def _first_results(browser: Browser, address: str) -> dict[str, Any]:
    """One visitor: from the click to the first coloured word, for each choice of readers; a long text's progress."""
    out: dict[str, list[float]] = {}
    for _ in range(3):
        for names in (READERS[:1], READERS[2:], READERS):
            tab = await _visit(browser, address)
            await _read_by(tab, *names)
            began = await _ask(tab, THIRTY)
            await tab.wait_for_selector("#words [data-start]")
            out.setdefault(" + ".join(names), []).append(round(time.monotonic() - began, 2))
            await tab.wait_for_selector("#status >> text=/Done in/")
            await tab.context.close()
    tab = await _visit(browser, address)
    await _read_by(tab, *READERS)
    began = await _ask(tab, LONG)
    await tab.wait_for_selector("#status progress")
    progress = round(time.monotonic() - began, 2)
    await tab.wait_for_selector("#words [data-start]")
    colours = round(time.monotonic() - began, 2)
    await tab.wait_for_selector("#status >> text=/Done in/")
    whole = round(time.monotonic() - began, 2)
    await tab.context.close()
    return {
        "words": len(THIRTY.split()),
        "first_result_seconds": out,
        "long_text": {
            "words": len(LONG.split()),
            "progress_after_seconds": progress,
            "first_result_after_seconds": colours,
            "all_after_seconds": whole,
        },
    }


async def _crowd(browser: Browser, address: str, seconds: float) -> dict[str, Any]:
    """Ten visitors, each doing one thing after another until time is up."""
    ends, did, errors, waits = time.monotonic() + seconds, Counter[str](), list[str](), list[float]()

    async def visitor(number: int) -> None:
        draw = random.Random(number)
        tab = await _visit(browser, address)
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        while time.monotonic() < ends:
            await _read_by(tab, *draw.sample(READERS, draw.choice((1, 1, 2))))
            text = draw.choice(list(SAMPLES.values()))
            began = await _ask(tab, text)
            if draw.random() < 0.1:
                await asyncio.sleep(draw.random())
                await tab.click("#stop")
            await tab.wait_for_selector("#status >> text=/Done in|Stopped|expected/")
            said = await tab.inner_text("#status")
            did["stopped" if "Stopped" in said else "measured"] += 1
            if "Done" in said:
                waits.append(time.monotonic() - began)
            elif "Stopped" not in said:
                errors.append(said)
                continue
            if not await tab.locator("#words [data-start]").count():  # stopped before there was anything
                continue
            await tab.locator("#words [data-start]").nth(draw.randrange(3)).click()
            await tab.wait_for_selector("#word h2")
            did["words chosen"] += 1
            await tab.get_by_role("tab", name="Change one word").click()
            await tab.fill("#after textarea", text.replace(" ", " very ", 1))
            await tab.wait_for_selector("#changed .card")
            did["words changed"] += 1
            await tab.get_by_role("tab", name="Word by word").click()
            await asyncio.sleep(draw.uniform(0.5, 3))
        await tab.context.close()

    failed = await asyncio.gather(*(visitor(k) for k in range(VISITORS)), return_exceptions=True)
    errors += [f"{type(each).__name__}: {each}".splitlines()[0] for each in failed if each is not None]
    return {
        "visitors": VISITORS,
        "seconds": seconds,
        "did": dict(sorted(did.items())),
        "seconds_waited_median": round(statistics.median(waits), 1) if waits else None,
        "seconds_waited_most": round(max(waits), 1) if waits else None,
        "errors": errors,
    }


async def _visit(browser: Browser, address: str) -> Page:
    context = await browser.new_context()
    tab = await context.new_page()
    tab.set_default_timeout(PATIENCE)
    await tab.goto(address)
    await tab.wait_for_selector("#text textarea")
    return tab


async def _read_by(tab: Page, *names: str) -> None:
    for box in await tab.locator("#subjects label").all():
        if ((await box.inner_text()).strip() in names) != await box.locator("input").is_checked():
            await box.click()


async def _ask(tab: Page, text: str) -> float:
    """Press Measure; what was said before is gone when this returns."""
    await tab.fill("#text textarea", text)
    await tab.click("#measure")
    began = time.monotonic()
    await tab.wait_for_selector("#status progress")
    return began
