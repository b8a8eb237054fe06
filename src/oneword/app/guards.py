"""What stands between the page and everything else: no other host is asked, and no other host's page may ask."""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALONE = ("127.0.0.1", "localhost")  # names of this machine that no other machine can reach
# The browser itself refuses whatever would come from elsewhere. Gradio writes its settings as a script into the page.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'; frame-ancestors 'none'"
)


def guards(*, alone: bool) -> list[Middleware]:
    """For every answer a policy; if the page is for this machine alone, other names for it are refused.

    Else a page elsewhere could point its own name at this machine and read what is here.
    """
    names = [Middleware(TrustedHostMiddleware, allowed_hosts=list(ALONE))] if alone else []
    return [Middleware(_Policy), *names]


class _Policy:
    """Adds the policy to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"no-referrer")]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self.app(scope, receive, with_policy)
