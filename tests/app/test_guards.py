"""What is let through to the page's server: requests of the page itself, and nothing else."""

import pytest

pytest.importorskip("gradio")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from oneword.app.guards import ASKED, MOST_BODY, guards

HOME = "http://127.0.0.1:7860"
UPLOAD, JOIN = "/gradio_api/upload", "/gradio_api/queue/join"


async def _anything(request):
    return PlainTextResponse("let through", headers={"Access-Control-Allow-Origin": "*"})


@pytest.fixture(scope="module")
def page():
    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    app = Starlette(routes=[Route("/{path:path}", _anything, methods=methods)], middleware=guards(alone=True))
    return TestClient(app, base_url=HOME)


def test_the_page_itself_is_let_through_and_answers_are_closed_to_others(page):
    for path in ("/", "/assets/index.js", "/theme.css", "/gradio_api/queue/data", "/gradio_api/heartbeat/ab1"):
        answer = page.get(path, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    for path in (UPLOAD, JOIN, "/gradio_api/run/predict", "/gradio_api/reset"):
        answer = page.post(path, content=b"x", headers={"Origin": HOME, "Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 200
        assert page.post(path, content=b"x", headers={"Origin": HOME}).status_code == 200  # an old browser


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": HOME, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-site"},  # another page of this machine
        {"Origin": "http://localhost:7860"},
        {"Origin": "null"},
        {"Origin": f"{HOME}.elsewhere.example"},
        {},  # a program
    ],
)
@pytest.mark.parametrize("path", [UPLOAD, JOIN, "/gradio_api/run/predict", "/gradio_api/cancel"])
def test_nobody_else_may_change_anything(page, path, headers):
    assert page.post(path, content=b"x", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}, {"Origin": "null"}]
)
def test_other_pages_read_nothing_but_may_link_here(page, headers):
    for path in ("/", "/theme.css", "/gradio_api/queue/data"):
        assert page.get(path, headers=headers).status_code == 403
    assert page.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/openapi.json", "/docs", "/redoc", "/config", "/monitoring", "/manifest.json", "/gradio_api/info",
        "/gradio_api/openapi.json", "/gradio_api/file=/tmp/x", "/gradio_api/file/x", "/gradio_api/proxy=http://x",
        "/gradio_api/mcp", "/gradio_api/runs", "/gradio_api/deep_link", "/gradio_api/stream/a/b/1/playlist.m3u8",
        "/static/%2e%2e/x", "/login", "/user",
    ],
)  # fmt: skip
def test_what_the_page_never_asks_for_is_not_there(page, path):
    assert page.get(path).status_code == 404
    assert page.post(path, content=b"x", headers={"Origin": HOME}).status_code == 404


def test_other_methods_names_and_sizes_are_refused(page):
    preflight = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    assert page.options(UPLOAD, headers=preflight).status_code == 405
    for method in ("PUT", "DELETE", "PATCH"):
        assert page.request(method, UPLOAD, headers={"Origin": HOME}).status_code == 405
    assert page.get("/", headers={"Host": "elsewhere.example"}).status_code == 400
    own = {"Origin": HOME}
    assert page.post(UPLOAD, content=b"x" * (MOST_BODY + 1), headers=own).status_code == 413
    assert page.post(UPLOAD, content=iter([b"x"]), headers=own).status_code == 411  # of any length
    assert not any("file" in pattern.pattern for pattern in ASKED.values())


def test_a_page_for_others_has_the_same_rules_under_its_own_name():
    app = Starlette(routes=[Route("/{path:path}", _anything, methods=["POST"])], middleware=guards(alone=False))
    shared = TestClient(app, base_url="http://example.org")
    assert shared.post(JOIN, content=b"x", headers={"Origin": "https://example.org"}).status_code == 200
    assert shared.post(JOIN, content=b"x", headers={"Origin": "https://elsewhere.example"}).status_code == 403
