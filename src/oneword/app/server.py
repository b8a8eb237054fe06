"""The page served on this machine: local fonts and files only, nothing sent anywhere, no other host asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from oneword.app.events import Events
from oneword.app.subjects import Subjects
from oneword.app.texts import MOST_UPLOADED
from oneword.errors import MissingExtraError
from oneword.plot.look import DARK, LIGHT
from oneword.report import app_views as views
from oneword.text.sources import EMBEDDED_MODELS

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace")
MOST_SESSIONS = 200  # of which something is remembered


@dataclass(frozen=True)
class Running:
    """A page that is served; `close` ends it."""

    url: str
    share_url: str | None
    blocks: Any
    events: Events

    @staticmethod
    def wait() -> None:
        """Until somebody presses Ctrl-C."""
        Event().wait()

    def close(self) -> None:
        self.events.jobs.close()
        self.blocks.close(verbose=False)


LATER = ("smollm2",)  # chat models, whose next words the page shows where they are installed


def serve(
    models: Sequence[str] = ("minilm",),
    *,
    later: Sequence[str] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    share: bool = False,
    browser: bool = False,
) -> Running:
    """Read the models, start the page, and go on; `later` are read when somebody asks (None: those of `LATER`)."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is loaded
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    for name in ("NO_PROXY", "no_proxy"):  # gradio looks whether its own page answers: no proxy is to be asked for it
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))
    try:
        import gradio as gr
    except ImportError as error:
        raise MissingExtraError(
            f"expected gradio for the page, got no {error.name}: pip install 'oneword[app,embedded,hub]'"
        ) from None
    from oneword.app.guards import ALONE, guards
    from oneword.app.page import build

    if later is None:
        later = [name for name in LATER if EMBEDDED_MODELS[name].installed and name not in models]
    events = Events(Subjects(models, later=later), Subjects(models, apart=True, later=later))
    events.subjects.load()
    events.live.load()
    page = build(events)
    _, local, shared = page.launch(
        server_name=host,
        server_port=port,
        share=share,
        inbrowser=browser,
        quiet=True,
        prevent_thread_lock=True,
        show_error=False,
        footer_links=[],
        ssr_mode=False,
        max_file_size=MOST_UPLOADED,
        state_session_capacity=MOST_SESSIONS,
        app_kwargs={
            "middleware": guards(alone=host in ALONE and not share),
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
        },
        strict_cors=True,
        enable_monitoring=False,
        theme=gr.themes.Base(font=SANS, font_mono=MONO, primary_hue="blue", neutral_hue="stone").set(
            body_background_fill=LIGHT["paper"], body_background_fill_dark=DARK["paper"]
        ),
        head=f"<style>{views.style()}</style>",
    )
    return Running(local, shared, page, events)
