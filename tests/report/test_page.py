"""The page: everything inside one file, every text escaped, what is missing said; and a browser that agrees."""

import copy
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

from oneword.errors import FileFormatError, MissingExtraError
from oneword.experiments.claims import verdict
from oneword.experiments.rows import figure_rows, fits
from oneword.plot.look import DARK, LIGHT
from oneword.report.paper.figures import figures
from oneword.report.paper.page import check_installed, headlines, objective_lines, render, reviews
from tests.fake_results import REVIEW, RUN, SCRIPT, results
from tests.pages import assert_has_the_frame

EVIL = "</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)>\x1b]8;;x\x07\u202e"


@pytest.fixture(scope="module")
def table():
    """Texts that would break a page which does not escape them, in every place where texts can be."""
    table = results(trials=4, samples=4)
    first = (table["sentence"] == 0).fillna(False)
    table.loc[first, "text"] = EVIL
    table.loc[first & (table["from_index"] == 1).fillna(False), "from_token"] = EVIL
    return table


@pytest.fixture(scope="module")
def claims(table):
    claims = [claim.to_json() for claim in verdict(table)]
    claims[0]["note"] = EVIL
    return claims


@pytest.fixture(scope="module")
def run():
    return RUN | {"command": f"oneword reproduce --corpus '{EVIL}'", "machine": {"cpu": EVIL}}


@pytest.fixture(scope="module")
def path(table, claims, run, tmp_path_factory):
    return render(figure_rows(table), claims, run, tmp_path_factory.mktemp("out") / "report.html", fits(table))


@pytest.fixture(scope="module")
def page(path):
    return path.read_text()


def without_vega(page: str) -> str:
    """The page without the script of Vega, which holds strings that look like anything."""
    scripts = re.findall(r"<script>.*?</script>", page, flags=re.DOTALL)
    return page.replace(max(scripts, key=len), "")


def test_texts_are_escaped_everywhere(page):
    ours = without_vega(page)
    assert EVIL not in ours
    assert SCRIPT not in ours
    assert "<img" not in ours
    assert not {"\x1b", "\x07", "\u202e"} & set(ours)  # shown as \x1b, where a page or a terminal would obey
    assert "&lt;script&gt;alert(&#39;words&#39;)&lt;/script&gt;" in ours
    assert len(re.findall(r"<script", ours)) == 2  # the plots and the script that draws them


def plots_of(page: str) -> dict:
    """The specifications inside a page."""
    (plots,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(plots, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nothing_outside_the_file_is_named_but_the_paper(page):
    ours = without_vega(page)
    targets = set(re.findall(r'\b(?:src|href|action)="([^"]*)"|url\(([^)]*)\)', ours))
    targets = {one or other for one, other in targets}
    assert {target for target in targets if not target.startswith("#")} == {
        "data:,",
        "https://arxiv.org/abs/2402.02969",
    }
    assert "default-src 'none'" in ours
    assert page.count("window.vegaEmbed=") == 1
    assert "unsafe-eval" not in ours


def test_every_claim_stands_on_the_page_with_its_numbers(page, claims):
    for claim in claims:
        assert f"<code>{claim['id']}</code>" in page
    assert f"{len(claims)} of {len(claims)}" in page or f"of {len(claims)}</strong>" in page
    assert "−0.5" in page


def test_claims_that_fail_or_stay_open_are_marked(table, claims, tmp_path):
    claims = copy.deepcopy(claims[:3])
    claims[0] |= {"holds": False}
    claims[1] |= {"holds": None, "measured": None, "low": None, "high": None}
    shown = without_vega(render(figure_rows(table), claims, RUN, tmp_path / "r.html").read_text())
    assert "1 of 3" in shown
    assert "claims hold, 1 fails, 1 cannot be told" in shown
    assert shown.count('class="bad"') == shown.count('class="unsure"') == 1


def test_the_verdict_says_how_many_answers_chance_may_have_turned(page, claims):
    judged = sum(claim["intervals"] > 0 for claim in claims)
    total = sum(claim["intervals"] for claim in claims)
    assert 0 < judged < total
    assert f"{judged} of {len(claims)} answers rest on 95 % intervals, {total} in all" in page
    assert f"at most {0.025 * total:.2g} of these answers" in page


def test_claims_lead_to_the_figure_that_shows_them_where_it_is_drawn(page, table, claims, tmp_path):
    assert '<code>T3</code></td><td role="cell">S of RAF does not decay' in page
    line = page[page.index("<code>T3</code>") :].partition("</tr>")[0]
    assert '<a href="#n-over-d">figure n-over-d</a>' in line
    assert '<section id="n-over-d">' in page
    without = table[table["map"] != "attention"]
    shown = without_vega(render(figure_rows(without), claims, RUN, tmp_path / "r.html").read_text())
    assert "#n-over-d" not in shown


def test_sections_follow_the_order_of_the_argument(page):
    order = ["contrast", "verdict", "fig2-random-features", "fig3-attention", "n-over-d", "scores", "mass", "kinds"]
    order += ["m-words", "positions", "fig4-fine-tuned", "fig5-retrained", "frontier", "objectives", "review"]
    order += ["fig1-attention-maps", "fig1-chat", "meaning", "provenance"]
    places = [page.index(f'<section id="{name}"') for name in order]
    assert places == sorted(places)
    assert "eft out" not in without_vega(page)


def test_the_answers_of_a_chat_model_are_escaped_and_judged(page):
    assert "I loved it &amp; &lt;b&gt;more&lt;/b&gt;." in page
    assert "Their sign changes: the word flips the answer." in page


def test_limits_and_provenance_name_the_encoder(page):
    assert "layer 0 of all-MiniLM-L6-v2: MiniLM is not BERT-Base" in page
    assert "100 entries, in run.json" in page
    for text in ("torch 2.13.0", "imdb-embedded, version 0123456789abcdef", "oneword reproduce --corpus"):
        assert text in page


def test_another_encoder_is_not_called_minilm(table, tmp_path):
    other = table.assign(encoder="bert-base-uncased")
    shown = without_vega(render(figure_rows(other), [], RUN, tmp_path / "r.html").read_text())
    assert "layer 0 of bert-base-uncased." in shown
    assert "MiniLM is not" not in shown


@pytest.mark.parametrize("empty", [pd.DataFrame(), results().iloc[:0]])
def test_an_empty_table_makes_a_page_that_says_what_is_missing(empty, tmp_path):
    shown = without_vega(render(figure_rows(empty), [], {}, tmp_path / "r.html").read_text())
    assert shown.count("left out, no rows") == 17  # every figure, the review, and the chat
    assert "no encoder was used" in shown


def test_a_table_with_gaps_makes_valid_json(table, tmp_path):
    broken = table.copy()
    broken.loc[broken.index[::3], ["value", "err", "upper"]] = np.nan
    shown = render(figure_rows(broken), [], {}, tmp_path / "r.html", fits(broken)).read_text()
    assert len(plots_of(shown)) > 20  # gaps leave dots out, not plots


def test_the_same_results_make_the_same_bytes(table, claims, run, path, tmp_path):
    again = render(figure_rows(table), claims, run, tmp_path / "report.html", fits(table))
    assert again.read_bytes() == path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_one_line(table, tmp_path):
    with pytest.raises(FileFormatError, match="can be written"):
        render(figure_rows(table), [], {}, tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("package", ["vl_convert", "jinja2"])
def test_a_missing_extra_is_one_line_that_says_what_to_install(table, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oneword\[page\]'"):
        render(figure_rows(table), [], {}, tmp_path / "report.html")
    with pytest.raises(MissingExtraError, match=package):
        check_installed()


def test_headlines_say_which_kind_of_number_they_are(table):
    cards = headlines(figure_rows(table), fits(table))
    assert len(cards) == 5
    for card in cards:
        assert re.search("searched|exact|attained", card["note"])
    assert cards[0]["value"].startswith("≥ 3.")
    assert "; certified (median): at most" in cards[1]["note"]
    assert headlines(figure_rows(pd.DataFrame()), None) == []


def test_a_certificate_of_one_position_is_not_called_one_of_s(table):
    one = table.assign(positions="one")
    note = headlines(figure_rows(one), None)[1]["note"]
    assert "one position a trial; certified (one position, median): at most" in note


def test_an_error_that_is_rounding_is_shown_as_0(table):
    reached = table.copy()
    reached.loc[reached["objective"] == "frontier", "err"] = 1.8e-29
    assert headlines(figure_rows(reached), None)[-1]["value"] == "0"
    assert headlines(figure_rows(table), None)[-1]["value"].startswith("≤ ")


def test_a_review_is_one_text_however_many_were_measured(table):
    first = reviews(figure_rows(table)["reviews"])
    again = table[table["kind"] == "review"]
    others = [again.assign(**more, value=again["value"] * 2) for more in ({"trial": 1}, {"trial": 2}, {"n": 90})]
    assert reviews(figure_rows(pd.concat([*others, table], ignore_index=True))["reviews"]) == first
    assert [word["word"] for word in first[0]["words"]] == list(REVIEW)


def test_objectives_are_means_over_new_texts(table):
    lines = objective_lines(figure_rows(table)["objectives"])
    rows = table[(table["map"] == "attention") & (table["n"] == 120) & (table["training"] == "retrained")]
    (line,) = [x for x in lines["lines"] if x["map"] == "RAF (softmax), n = 120" and x["training"] == "retrained"]
    for name, cell in zip(lines["names"], line["cells"], strict=True):
        assert cell["err"] == pytest.approx(rows.loc[rows["objective"] == name, "err"].mean())
    assert all(cell["under"] == 0 for x in lines["lines"] if x["map"].startswith("RF") for cell in x["cells"])


def test_plots_are_valid_vega_lite(page):
    altair = pytest.importorskip("altair")
    for spec in plots_of(page).values():
        altair.LayerChart.from_dict(spec)  # raises on an unknown or wrong property


def test_plots_have_the_numbers_of_the_table(table, page):
    specs = plots_of(page)
    for figure in figures(figure_rows(table), fits(table)):
        for index, panel in enumerate(figure.panels):
            layers = specs[f"{figure.id}/{index}"]["layer"]
            for layer, mark in zip(layers, panel.marks, strict=panel.heat is None):
                drawn = [(row["x"], row["y"]) for row in layer["data"]["values"]]
                assert drawn == [pair for pair in zip(mark.x, mark.y, strict=True) if np.isfinite(pair).all()]


# In a browser


@pytest.fixture(scope="module", params=[400, 1200])
def tab(request, browser, path):
    """The page at a width; what it says on the console and asks of the network is kept."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    tab = context.new_page()
    tab.heard = []
    tab.on("console", lambda message: tab.heard.append(message.text))
    tab.on("pageerror", lambda error: tab.heard.append(str(error)))
    tab.on("request", lambda request: tab.heard.append(request.url) if request.url != path.as_uri() else None)
    tab.on("dialog", lambda dialog: tab.heard.append(dialog.message))
    tab.goto(path.as_uri(), wait_until="load")
    settled(tab)
    yield tab
    context.close()


def settled(tab) -> None:
    """Wait until Vega has drawn every plot. (The page forbids `eval`, and so playwright's own waiting.)"""
    for _ in range(200):
        if tab.evaluate("document.querySelectorAll('.drawing:not([data-drawn])').length") == 0:
            return
        tab.wait_for_timeout(50)
    pytest.fail("plots were not drawn within 10 s")


def test_the_browser_draws_every_plot_in_silence(tab, table):
    count = sum(len(figure.panels) for figure in figures(figure_rows(table)))
    assert tab.locator(".drawing").count() == count
    drawn = "[...document.querySelectorAll('.drawing')].filter(c => c.querySelector('.role-mark path')).length"
    assert tab.evaluate(drawn) == count
    assert tab.title() == "How much can one word change?"
    assert tab.heard == []


INK = "getComputedStyle(document.querySelector('.drawing .role-axis-title text')).fill"


def rgb(color: str) -> str:
    return f"rgb({', '.join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))})"


def test_plots_follow_light_and_dark(tab):
    for scheme, palette in (("dark", DARK), ("light", LIGHT)):
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(INK) == rgb(palette["ink"])
        marks = "getComputedStyle(document.querySelector('#contrast .mark-line path')).stroke"
        assert tab.evaluate(marks) in {rgb(color) for color in palette.values()}
    assert tab.heard == []


def curve(table):
    """A curve of the first figure that has a spread: its label and its numbers."""
    (panel,) = next(figure for figure in figures(figure_rows(table), fits(table)) if figure.id == "contrast").panels
    return next(mark for mark in panel.marks if mark.form == "points" and mark.low)


def test_the_pointer_is_told_series_value_and_interval(tab, table):
    mark = curve(table)
    place = tab.locator("#contrast .drawing")
    place.scroll_into_view_if_needed()
    point = f"""() => {{
      const all = [...document.querySelectorAll("#contrast .mark-symbol path")];
      const label = (path) => path.getAttribute("aria-label") ?? "";
      const box = all.find((path) => label(path).includes({json.dumps(mark.label)}) && label(path).includes("trials"))
        .getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    }}"""
    tab.mouse.move(*tab.evaluate(point))
    tab.wait_for_timeout(150)
    told = tab.locator("#vg-tooltip-element").inner_text()
    assert mark.label in told
    assert f"{mark.y[0]:.4g}" in told
    assert f"{mark.low[0]:.4g} to {mark.high[0]:.4g}" in told
    tab.mouse.move(0, 0)
    assert tab.heard == []


def test_an_entry_of_the_legend_hides_its_series(tab, table):
    lines = "document.querySelectorAll('#contrast .mark-line path[d^=M]').length"
    before = tab.evaluate(lines)
    entry = tab.locator("#contrast .legend button", has_text=curve(table).label)
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    for _ in range(100):
        if tab.evaluate(lines) < before:
            break
        tab.wait_for_timeout(20)
    assert tab.evaluate(lines) == before - 2  # the curve and its fit
    entry.press("Enter")
    for _ in range(100):
        if tab.evaluate(lines) == before:
            break
        tab.wait_for_timeout(20)
    assert tab.evaluate(lines) == before
    assert entry.get_attribute("aria-pressed") == "true"


OVERLAPS = """() => {
  const shown = (e) => e.getClientRects().length > 0;
  const visible = (text) => text.getAttribute("opacity") !== "0";
  const before = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
  const apart = (a, b) => before(a, b) || before(b, a);
  const found = [];
  const check = (elements, what) => {
    const boxes = elements.filter(shown).map((e) => [e, e.getBoundingClientRect()]);
    boxes.forEach(([a, box], k) => boxes.slice(k + 1).forEach(([b, other]) => {
      if (!apart(box, other)) found.push(what + ": " + a.textContent.slice(0, 40) + " | " + b.textContent.slice(0, 40));
    }));
  };
  check([...document.querySelectorAll("header > *, main > section > *")], "blocks");
  for (const chart of document.querySelectorAll(".drawing"))
    check([...chart.querySelectorAll(".role-axis-label text, .role-axis-title text")].filter(visible), "axes");
  for (const list of document.querySelectorAll(".legend, .cards, .panels, .verdict tbody"))
    check([...list.children], "list");
  return found;
}"""


def test_nothing_overlaps_and_nothing_runs_out_of_the_page(tab):
    assert tab.evaluate("document.documentElement.scrollWidth") == tab.viewport_size["width"]
    wide = """() => [...document.querySelectorAll("main *")].filter((e) => !e.closest(".scroll, pre, .drawing, thead")
      && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"""
    assert tab.evaluate(wide) == []
    long = """() => [...document.querySelectorAll(".drawing")].filter((c) => [...c.querySelectorAll("text")].some(
      (t) => t.getBoundingClientRect().right > c.getBoundingClientRect().right + 2
          || t.getBoundingClientRect().left < c.getBoundingClientRect().left - 2)).map((c) => c.dataset.plot)"""
    assert tab.evaluate(long) == []
    assert tab.evaluate(OVERLAPS) == []


def test_the_page_has_the_frame_of_all_pages(tab, path):
    assert_has_the_frame(tab, path, largest=1_500_000)


@pytest.mark.slow
def test_what_is_printed_is_light(browser, path):
    tab = browser.new_context(color_scheme="dark", offline=True).new_page()
    tab.goto(path.as_uri(), wait_until="load")
    settled(tab)
    tab.emulate_media(color_scheme="dark", media="print")
    assert tab.evaluate("getComputedStyle(document.body).color") == tab.evaluate(INK) == rgb(LIGHT["ink"])
    assert tab.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == LIGHT["ink"]
    tab.context.close()


def test_words_of_a_review_show_their_numbers_when_asked(tab):
    words = tab.locator(".review").first.locator("span")
    assert words.count() == len(REVIEW)
    assert re.search(r"S ≥ [\d.]+ \(searched\), S ≤ [\d.]+ \(certified\)", words.first.get_attribute("title"))
    assert not words.first.locator("small").is_visible()
    tab.get_by_label("show the numbers").check()
    assert words.first.locator("small").is_visible()
    tab.get_by_label("show the numbers").uncheck()
