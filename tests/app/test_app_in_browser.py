"""The page in a real browser, as a person uses it: nothing on the console, and no request to any other host."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from tests.text.tiny_bert import needs_minilm

pytest.importorskip("gradio", reason="gradio is not installed")
pytestmark = needs_minilm
TEXT = "I would not call it a <script>alert(1)</script> bad film."
LONG = " ".join(["the film is slow but she is never dull and that is no small thing to say of it"] * 7)
PATIENCE = 60_000  # ms
SECRET = "nobody is to read this"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page is started, with a file that is nobody's business."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def address(browser, folder):
    """`oneword app` as a person starts it, until Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oneword", "app"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has Ctrl-C ignored, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()


@contextmanager
def visiting(browser, address, width=1280, scheme="light"):
    """The page in a tab of its own; every request is looked at, and at the end nothing was heard that should not be."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    host, heard = urlsplit(address).netloc, []

    def allow(route):
        if urlsplit(route.request.url).netloc in (host, ""):
            route.continue_()
        else:
            heard.append(f"asked for {route.request.url}")
            route.abort()

    context.route("**/*", allow)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.on("dialog", lambda dialog: heard.append(dialog.message))
    tab.goto(address)
    tab.wait_for_selector("#text textarea")
    yield tab
    assert heard == []
    context.close()


def read_by(tab, *names):
    """Choose these, and no others. A page that is still starting may undo a click: look again until it stays."""
    settled = 0
    for _ in range(50):
        boxes = tab.locator("#subjects label").all()
        wrong = [box for box in boxes if (box.inner_text().strip() in names) != box.locator("input").is_checked()]
        for box in wrong:
            box.click()
        settled = 0 if wrong else settled + 1
        if settled == 3:
            return
        tab.wait_for_timeout(100)
    raise AssertionError(f"expected {names} to be chosen, got other readers after 5 s")


def measure(tab, text):
    tab.fill("#text textarea", text)
    tab.click("#measure")


def done(tab):
    tab.wait_for_selector("#status >> text=/Done in/")


def upload(tab, path):
    with tab.expect_file_chooser() as chooser:
        tab.click("#upload")
    chooser.value.set_files(path)


def open_tab(tab, name):
    tab.get_by_role("tab", name=name).click()


def test_type_a_text_choose_a_word_and_change_it(browser, address):
    with visiting(browser, address) as tab:
        read_by(tab, "Softmax attention")
        measure(tab, TEXT)
        done(tab)
        words = tab.locator("#words [data-start]")
        assert "".join(words.all_inner_texts()) == TEXT.replace(" ", "")  # <script> is a text
        shades = {word.evaluate("each => getComputedStyle(each).backgroundColor") for word in words.all()}
        assert len(shades) > 5
        assert re.search(r"S ≥ \d\.\d\d at “.+” \(found\), S ≤ \d\.\d\d \(certified\)", tab.inner_text("#words"))

        tab.locator("#words [data-start]", has_text="bad").click()
        tab.wait_for_selector("#word h2 >> text=“bad”")
        card = tab.inner_text("#word")
        for said in ("worst change found", "certified", "random change of that size", "random real word"):
            assert said in card
        assert tab.locator("#words .chosen").inner_text() == "bad"
        best = tab.locator("#word [data-word]").first
        word = best.get_attribute("data-word")
        best.click()

        open_tab(tab, "Change one word")
        changed = TEXT.replace("bad", word)
        tab.wait_for_function("text => document.querySelector('#after textarea').value === text", arg=changed)
        tab.locator("#seen label", has_text="Softmax attention").click()
        tab.wait_for_selector("#changed .changed")
        assert tab.locator("#changed .changed").inner_text().split() == ["bad", word]
        assert tab.locator("#changed .squares table").count() == 3  # before, after, difference
        tab.fill("#after textarea", TEXT.replace("bad", "good"))
        tab.wait_for_selector("#changed .changed >> text=good")
        tab.fill("#after textarea", TEXT)
        tab.wait_for_selector("#changed >> text=Change a word above")


def test_a_model_shows_colours_at_once_then_layers_and_worst_words(browser, address):
    with visiting(browser, address) as tab:
        read_by(tab, "all-MiniLM-L6-v2, trained")
        measure(tab, "It is not bad.")
        tab.wait_for_selector("#words [data-start]")
        done(tab)
        assert "(ceiling)" in tab.inner_text("#words")
        open_tab(tab, "Layer by layer")
        assert tab.locator("#layers table.heat tbody tr").count() == 7
        open_tab(tab, "Word by word")
        tab.locator("#words [data-start]", has_text="bad").click()
        tab.wait_for_selector("#word >> text=Real words found that move it most")
        assert tab.locator("#word [data-word]").count() == 10


def test_by_keyboard_alone(browser, address):
    with visiting(browser, address) as tab:
        read_by(tab, "Softmax attention")
        tab.focus("#text textarea")
        tab.keyboard.type("I love her much")
        tab.focus("#measure")
        tab.keyboard.press("Enter")
        done(tab)
        for _ in range(20):  # over the tabs and the choice of colours into the text
            tab.keyboard.press("Tab")
            if tab.evaluate("document.activeElement.dataset.start") == "0":
                break
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowLeft")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#word h2 >> text=“love”")
        assert tab.locator("#words [aria-pressed=true]").inner_text() == "love"


def test_a_long_run_says_how_far_it_is_and_is_stopped(browser, address):
    with visiting(browser, address) as tab, visiting(browser, address) as other:
        read_by(tab, "all-MiniLM-L6-v2, trained")
        measure(tab, LONG)
        tab.wait_for_selector("#status progress")
        tab.wait_for_selector("#words [data-start]")  # random words, while the search goes on
        assert tab.evaluate("document.querySelector('#status progress').value") > 0
        tab.wait_for_function("document.querySelector('#status progress').value >= 0.05", timeout=120_000)
        assert re.search(r"\d+ %", tab.inner_text("#status"))
        read_by(other, "Softmax attention")
        measure(other, "I love her much")
        other.wait_for_selector("#status >> text=1 visitor is served first")
        tab.click("#stop")
        tab.wait_for_selector("#status >> text=Stopped")
        assert tab.locator("#words [data-start]").count() == len(LONG.split())  # what was found stays
        done(other)
        assert other.locator("#words [data-start]").count() == 4  # and nobody sees the text of another


def test_shorter_texts_are_drawn(browser, address):
    with visiting(browser, address) as tab:
        open_tab(tab, "Shorter texts")
        tab.click("#cut")
        tab.wait_for_selector("#status >> text=press Measure first")
        read_by(tab, "Softmax attention", "Fully connected layer")
        measure(tab, "the film is slow but she is never dull")
        done(tab)
        tab.click("#cut")
        tab.wait_for_selector("#lengths svg.plot")
        assert tab.locator("#lengths figure").count() == 2


def test_what_cannot_be_measured_is_said_in_one_line(browser, address, tmp_path):
    with visiting(browser, address) as tab:
        measure(tab, "  ")
        tab.wait_for_selector("#status [role=alert] >> text=expected a text of at least one word, got none")
        measure(tab, "word " * 301)
        tab.wait_for_selector("#status >> text=expected at most 300 words, got 301")
        read_by(tab)
        measure(tab, "I love her")
        tab.wait_for_selector("#status >> text=Choose at least one map or model")
        picture, text = tmp_path / "picture.txt", tmp_path / "text.txt"
        picture.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff\xfe")
        text.write_text("a text of one’s own", encoding="utf-8")
        upload(tab, picture)
        tab.wait_for_selector("#status >> text=expected a text file in UTF-8")
        assert tab.input_value("#text textarea") == "I love her"
        upload(tab, text)
        tab.wait_for_function("document.querySelector('#text textarea').value === 'a text of one’s own'")
        tab.click("#sample input")
        tab.get_by_role("option", name="a negation").click()
        tab.wait_for_function("document.querySelector('#text textarea').value.includes('not say')")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "dark")])
def test_it_is_readable_on_a_phone_and_in_the_dark(browser, address, width, scheme):
    with visiting(browser, address, width, scheme) as tab:
        read_by(tab, "Softmax attention")
        measure(tab, "I love her much")
        done(tab)
        for part in ("#text", "#subjects", "#measure", "#stop", "#words", "#word"):
            box = tab.locator(part).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width, part
        ink, paper = (
            tab.evaluate(f"getComputedStyle(document.querySelector('#words .review')).{name}")
            for name in ("color", "backgroundColor")
        )
        lightness = [sum(map(int, re.findall(r"\d+", each)[:3])) for each in (ink, paper)]
        assert (lightness[0] > lightness[1]) == (scheme == "dark")
        assert abs(lightness[0] - lightness[1]) > 400


def test_a_port_that_is_taken_is_said(oneword, address):
    run = oneword("app", "--port", str(urlsplit(address).port))
    assert run.returncode == 2
    assert "expected a --port that is free on --host 127.0.0.1" in run.stderr
    assert run.stderr.count("\n") == 1


def test_only_this_machine_by_its_own_name_is_answered(address):
    with urllib.request.urlopen(address) as answer:
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    other = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
    with pytest.raises(HTTPError, match="400"):
        urllib.request.urlopen(other)


def asked(address, path, method="GET", body=None, **headers):
    """Status and body of one request, as a program makes it."""
    request = urllib.request.Request(address.rstrip("/") + path, method=method, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def test_uploads_are_taken_from_the_page_alone(address):
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhello\r\n--x--\r\n'
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    upload, own = "/gradio_api/upload", {"Origin": address.rstrip("/")}
    for alien in ({}, {"Origin": "https://elsewhere.example"}, own | {"Sec-Fetch-Site": "cross-site"}):
        assert asked(address, upload, "POST", body, **form, **alien)[0] == 403
    status, paths = asked(address, upload, "POST", body, **form, **own)
    assert status == 200
    for path in json.loads(paths):  # and not given out again
        assert asked(address, f"/gradio_api/file={path}")[0] == 404
    large = HTTPConnection(urlsplit(address).netloc)
    large.putrequest("POST", upload)
    for name, value in (form | own | {"Content-Length": "2000000"}).items():
        large.putheader(name, value)
    large.endheaders()  # refused before any of it is read
    assert large.getresponse().status == 413
    large.close()


def test_no_schema_and_no_file_of_this_machine_is_given_out(address, folder):
    for path in ("/openapi.json", "/docs", "/redoc", "/config", "/gradio_api/info", "/gradio_api/openapi.json"):
        assert asked(address, path)[0] == 404
    secret = folder / "secret.txt"
    tried = [f"/gradio_api/file={secret}", "/gradio_api/file=secret.txt", f"/file={secret}", "/secret.txt"]
    tried += [f"/{name}/{dots}{secret}" for name in ("static", "assets") for dots in ("", "../" * 12, "..%2f" * 12)]
    for path in tried:
        status, content = asked(address, path)
        assert status in (403, 404)
        assert SECRET not in content
