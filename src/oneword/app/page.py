"""The page: what is where, and which event calls what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from oneword.app.events import Events, Session
from oneword.app.measuring import SEEN
from oneword.app.texts import MOST_WORDS, SAMPLES
from oneword.report import app_views as views

TITLE = "oneword: how much can one word change?"
_HOUR = 3600
# A word is a button: clicks and keys are events of the page. Arrows go from word to word, so that Tab passes a text in
# one step. What is drawn anew keeps the chosen word, the scale of colours and the focus.
_WORDS_SCRIPT = """
let chosen = null, scale = null, focus = null;
const words = () => [...element.querySelectorAll('[data-start]')];
const mark = () => words().forEach(word => {
  word.classList.toggle('chosen', word.dataset.start === chosen);
  word.setAttribute('aria-pressed', word.dataset.start === chosen);
});
const choose = word => { if (word) { chosen = word.dataset.start; mark(); trigger('select', {start: +chosen}); } };
element.addEventListener('click', event => choose(event.target.closest('[data-start]')));
element.addEventListener('change', event => { scale = event.target.className; });
element.addEventListener('focusin', event => { focus = words().indexOf(event.target); });
element.addEventListener('keydown', event => {
  const word = event.target.closest('[data-start]');
  if (!word) return;
  if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(word); return; }
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step) return;
  event.preventDefault();
  const line = [...word.parentElement.querySelectorAll('[data-start]')], next = line[line.indexOf(word) + step];
  if (next) { word.tabIndex = -1; next.tabIndex = 0; next.focus(); }
});
watch('value', () => {
  mark();
  const radio = scale && element.querySelector('input.' + scale);
  if (radio) radio.checked = true;
  if (focus !== null && document.activeElement === document.body) words()[focus]?.focus({preventScroll: true});
});
"""
_WORD_SCRIPT = """
element.addEventListener('click', event => {
  const button = event.target.closest('[data-word]');
  if (button) trigger('select', {start: +button.dataset.start, word: button.dataset.word});
});
"""


def build(events: Events) -> gr.Blocks:
    """The page of these events."""
    subjects = events.subjects
    first = subjects.models[0]
    seen_by = [(title, key) for title, key in subjects.choices if key in SEEN or subjects.is_model(key)]
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(_HOUR, _HOUR)) as page:
        _piece("header", views.header())
        found = gr.State(Session(), time_to_live=_HOUR)
        with gr.Row(elem_classes="controls"):
            with gr.Column(scale=3):
                hint = f"Type or paste a text of at most {MOST_WORDS} words, or pick a sample"
                text = gr.Textbox(label="Your text", placeholder=hint, lines=6, max_lines=12, elem_id="text")
                with gr.Row():
                    samples = [("pick one …", ""), *((name, name) for name in SAMPLES)]
                    sample = gr.Dropdown(samples, value="", label="Samples", elem_id="sample")
                    upload = gr.UploadButton("Open a text file", file_types=["text"], elem_id="upload")
            with gr.Column(scale=2):
                keys = gr.CheckboxGroup(
                    subjects.choices,
                    value=["attention", "rf", first],
                    label="Measured by",
                    info="Layers with random weights, as in the paper, and whole models.",
                    elem_id="subjects",
                )
                careful = gr.Checkbox(
                    label="Search longer",
                    info="Finds more in models and refines certificates; takes several times as long.",
                    elem_id="careful",
                )
                with gr.Row():
                    go = gr.Button("Measure", variant="primary", elem_id="measure")
                    stop = gr.Button("Stop", elem_id="stop")
        status = _piece("status", views.said(""))
        with gr.Tabs():
            with gr.Tab("Word by word"), gr.Row():
                with gr.Column(scale=3):
                    words = _piece("words", views.words(None), _WORDS_SCRIPT)
                with gr.Column(scale=2):
                    word = _piece("word", views.word(None, None), _WORD_SCRIPT)
            with gr.Tab("Layer by layer"):
                layers = _piece("layers", views.layers(None))
            with gr.Tab("Shorter texts"):
                cut = gr.Button("Cut the text shorter and shorter", elem_id="cut")
                curves = _piece("lengths", views.lengths(None))
            with gr.Tab("Change one word"):
                label, hint = "The same text: change a word", "Measure a text first: it appears here"
                after = gr.Textbox(label=label, placeholder=hint, lines=3, max_lines=8, elem_id="after")
                with gr.Row():
                    seen = gr.Radio(seen_by, value=first, label="Seen by", elem_id="seen")
                    layer = gr.Slider(1, subjects.deepest, value=1, step=1, label="Attention of layer", elem_id="layer")
                changed = _piece("changed", "")
            with gr.Tab("What the numbers are"):
                _piece("meaning", views.meaning())

        async def measure(
            text: str, keys: list[str], careful: bool, request: gr.Request
        ) -> AsyncIterator[tuple[Any, ...]]:
            new_text = True
            async for news in events.measure(_visitor(request), text, keys, careful):
                now = news.found
                if now is None:
                    yield news.status, *[gr.skip()] * 6
                    continue
                empty = (views.word(now.table, None), now.text, views.lengths(None))
                rest = empty if new_text else [gr.skip()] * 3
                yield news.status, views.words(now.table), views.layers(now.table), now, *rest
                new_text = False

        async def choose(found: Session, request: gr.Request, event: gr.EventData) -> AsyncIterator[tuple[Any, ...]]:
            async for said, card, now in events.choose(_visitor(request), found, int(event.start)):
                yield said or gr.skip(), card, now

        async def shorter(found: Session, keys: list[str], request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
            async for said, picture in events.cut(_visitor(request), found, keys):
                yield said, picture or gr.skip()

        def put(found: Session, event: gr.EventData) -> str:
            return found.with_word(int(event.start), str(event.word))

        def opened(path: str | None) -> tuple[Any, str]:
            content, said = events.open(path)
            return gr.skip() if content is None else content, said

        def stopped(request: gr.Request) -> None:
            events.jobs.stop(_visitor(request))

        # Whatever comes next takes the place of what goes on, so that no click is lost.
        slow: dict[str, Any] = {
            "concurrency_limit": None,
            "show_progress": "hidden",
            "api_visibility": "private",
            "trigger_mode": "multiple",
        }
        quick = slow | {"concurrency_limit": 4}
        go.click(measure, [text, keys, careful], [status, words, layers, found, word, after, curves], **slow)
        words.select(choose, found, [status, word, found], **slow)
        cut.click(shorter, [found, keys], [status, curves], **slow)
        stop.click(stopped, queue=False, show_progress="hidden", api_visibility="private")
        page.unload(stopped)
        sample.input(lambda name: SAMPLES.get(name, ""), sample, text, **quick)
        upload.upload(opened, upload, [text, status], **quick)
        word.select(put, found, after, **quick)
        # One at a time: a model must not be asked by two threads, and only the last of many letters counts.
        live = slow | {"concurrency_limit": 1, "concurrency_id": "live", "trigger_mode": "always_last"}
        for control in (after, seen, layer):
            control.change(events.change, [found, after, seen, layer], changed, **live)
    # Gradio looks for work a thousand times a second, which is a tenth of a core on a page that nobody uses.
    page.queue()._queue.sleep_when_free = 0.02
    return page


def _piece(name: str, value: str, script: str = "") -> gr.HTML:
    return gr.HTML(value, elem_id=name, elem_classes="ow", apply_default_css=False, js_on_load=script)


def _visitor(request: gr.Request) -> str:
    return str(request.session_hash)
