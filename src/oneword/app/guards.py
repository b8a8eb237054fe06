"""What stands between the page and everything else: no other host is asked, and no other host's page may ask.

The server below can do much more than the page needs (schemas, files, proxies, streams, recordings). Only what the page
itself asks for is let through. Whatever is not a plain reading must come from the page: browsers say so in `Origin`,
and a request without it is refused, too.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneword.app.texts import MOST_UPLOADED

ALONE = ("127.0.0.1", "localhost")  # names of this machine that no other machine can reach
# The browser itself refuses whatever would come from elsewhere. Gradio writes its settings as a script into the page.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'; frame-ancestors 'none'"
)
OWN = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
# What the page asks for, by method. `run/predict` is the button Stop.
ASKED = {
    "GET": re.compile(
        r"/|/(assets|static)/.*|/favicon\.ico|/theme\.css"
        r"|/gradio_api/(startup-events|heartbeat/\w+|queue/data|upload_progress|app_id/?)"
    ),
    "POST": re.compile(r"/gradio_api/(queue/join|run/predict|upload|cancel|reset)/?"),
}
MOST_BODY = MOST_UPLOADED + (1 << 16)  # bytes of a request: a file, and what is around it


def guards(*, alone: bool) -> list[Middleware]:
    """For every request, whether the page makes such ones; for every answer, a policy.

    If the page is for this machine alone, other names for it are refused: else a page elsewhere could point its own
    name at this machine and read what is here.
    """
    names = [Middleware(TrustedHostMiddleware, allowed_hosts=list(ALONE))] if alone else []
    return [Middleware(_Guard), *names]


def refusal(method: str, path: str, headers: Headers) -> tuple[int, str] | None:
    """Why a request is not let through, with its status; None if it is."""
    if method not in ("GET", "HEAD", "POST"):
        return 405, "expected GET, HEAD or POST"
    changes = method == "POST"
    if not ASKED["POST" if changes else "GET"].fullmatch(path) or ".." in path:
        return 404, "expected an address of the page, got another one"
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    own = (site in (None, "same-origin", "none")) and (
        not changes if origin is None else urlsplit(origin).netloc == headers.get("host")
    )
    followed = path == "/" and not changes and headers.get("sec-fetch-mode") == "navigate"  # a link to the page
    if not (own or followed):
        return 403, "expected a request of the page itself, got one of another page or program"
    if not changes:
        return None
    length = headers.get("content-length", "")
    if not length.isdecimal():
        return 411, "expected a request that says how long it is"
    if int(length) > MOST_BODY:
        return 413, f"expected at most {MOST_BODY:,} bytes, got {int(length):,}"
    return None


class _Guard:
    """Refuses what the page does not ask for; takes what would open the answers to other pages out of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if not pair[0].lower().startswith(b"access-control-")]
                own = [(name.encode(), value.encode()) for name, value in OWN.items()]
                message = {**message, "headers": [*kept, *own]}
            await send(message)

        refused = refusal(scope.get("method", ""), scope["path"], Headers(scope=scope))
        answer = self.app if refused is None else PlainTextResponse(refused[1], refused[0])
        await answer(scope, receive, guarded)
