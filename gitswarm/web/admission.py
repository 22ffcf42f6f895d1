"""Who may see the page: nobody without the address that was printed, and no other site in the same browser.

Loopback is open to every user of the machine and to every page in the browser, so that each request is looked at:
its `Host` (DNS rebinding), its cookie, and where the browser says that it comes from.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    # No script, style or frame but our own, and no site may put this page into a frame of its own.
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    # Not `no-referrer`: with that a browser sends `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_READS = ("GET", "HEAD")


class Keys:
    """The token of the next login, which is good for one, and the value of the cookie that it is exchanged for."""

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        """
        :param tell: gets the address of the next login, when one was used.
        """
        self.port = port
        self.cookie = f"git-swarm-{port}"  # cookies ignore ports: two repositories must not share one
        self.session = secrets.token_urlsafe(32)
        self._token = secrets.token_urlsafe(32)
        self._tell = tell

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    def take(self, token: str) -> bool:
        """Whether it is the token of this login; it is none after that."""
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        self._token = secrets.token_urlsafe(32)
        self._tell(self.address)
        return True

    def is_known(self, cookie: str) -> bool:
        return secrets.compare_digest(cookie.encode(), self.session.encode())


class Admission:
    """ASGI middleware in front of everything, static files and streams too."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys
        self._host = f"127.0.0.1:{keys.port}"  # not localhost: somebody else may listen on that port of [::1]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault(
                    "Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store"
                )
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """The refusal of a request; None: it may pass."""
        host = request.headers.get("host", "")
        if host != self._host:
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST, f"this page is at http://{self._host}/")
        known = self._keys.is_known(request.cookies.get(self._keys.cookie, ""))
        token = request.query_params.get("token") if request.method == "GET" else None
        if token is not None and (known or self._keys.take(token)):
            return self._logged_in(request)
        if not known:
            return _refusal(
                HTTPStatus.UNAUTHORIZED, "open the address that git swarm web printed last; it is good once"
            )
        if not _is_own(request, f"http://{host}"):
            return _refusal(HTTPStatus.FORBIDDEN, "the request comes from another site")
        if "\0" in request.url.path + unquote(request.url.query):
            return _refusal(HTTPStatus.BAD_REQUEST, "an address has no NUL in it")
        return None

    def _logged_in(self, request: Request) -> Response:
        """A redirect to the same address without the token."""
        clean = request.url.remove_query_params("token")
        path = f"/{clean.path.lstrip('/')}"  # two slashes would begin with the name of another host
        answer = RedirectResponse(f"{path}?{clean.query}" if clean.query else path, HTTPStatus.SEE_OTHER)
        answer.set_cookie(self._keys.cookie, self._keys.session, httponly=True, samesite="strict")
        return answer


def _is_own(request: Request, origin: str) -> bool:
    """Whether it comes from this page, or was typed. SameSite is not enough: another port is the same site."""
    origin_header, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if request.method not in _READS:
        return origin_header == origin if origin_header is not None else site == "same-origin"
    is_link = request.headers.get("sec-fetch-mode") == "navigate" and origin_header is None
    return origin_header in (None, origin) and (is_link or site in (None, "same-origin", "none"))


def _refusal(status: HTTPStatus, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)
