"""The endpoints of the page: who may call them, and how they answer errors.

Each request of a browser passes here: it must address this gateway by a name of its own, come from no page of
another site, and carry the cookie of a visitor. A form must contain the visitor's key. The cookie counts only
below /ui. Errors are HTML with the status that the API would answer, and the pages of the gateway may load
nothing but its own scripts and styles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from mt_core.base.secrets import without_passwords
from mt_core.errors import MtError, RequestInvalid
from mt_core.gateway.http.bodies import BUFFERED, SHORT_BYTES, BufferedBody
from mt_core.gateway.http.endpoints import DirectRoute, Handler
from mt_core.gateway.http.errors import OWN_FAULT
from mt_core.gateway.http.security import check_site
from mt_core.gateway.page.visitor import COOKIE, LASTS, Visitor, VisitorCookies
from mt_core.gateway.services import GatewayServices

FORM = "application/x-www-form-urlencoded"
CSRF = "csrf"
# In bytes. Anybody may send a form without signing in, so that one is short.
LONGEST_FORM, LONGEST_PUBLIC_FORM = 4_000_000, 65_536
MOST_FIELDS = 200
_VISITOR, _FORM = "freshtable.visitor", "freshtable.form"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # Without a referrer at all, Chromium would send the origin null with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NO_KEY = (
    "The form does not contain the key of this page, so it may come from another site. Nothing was changed. "
    "Go back, reload the page and send the form again."
)
# A browser sends no strict cookie when a link of another site, such as Airflow, leads here, but it does when
# this page then loads itself.
_AGAIN = (
    '<!doctype html><html lang="en"><meta http-equiv="refresh" content="0"><title>Freshtable</title>'
    '<p><a href="">Continue</a></p></html>'
)


class PageFrame(Protocol):
    """What an endpoint needs of the page: its visitors, and how it answers refusals."""

    @property
    def services(self) -> GatewayServices: ...

    @property
    def base(self) -> str: ...

    @property
    def cookies(self) -> VisitorCookies: ...

    def redirect(self, path: str, **query: str) -> Response: ...

    def error(self, request: Request, status: int, text: str) -> Response: ...


class PageRoute(DirectRoute):
    """An endpoint of `page` for a visitor, who has signed in if the gateway has tokens."""

    page: ClassVar[PageFrame]
    is_public: ClassVar[bool] = False

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            request.scope[OWN_FAULT] = lambda text: _with_headers(self.page.error(request, 500, text))
            try:
                response = await self._answer(request, handler)
            except (HTTPException, MtError) as error:
                # The state of the gateway is part of every page, and may take long to read.
                response = await run_in_threadpool(_refusal, self.page, request, error)
            return _with_headers(response)

        return answer

    async def _answer(self, request: Request, handler: Handler) -> Response:
        page, scope = self.page, request.scope
        check_site(scope, page.services.tokens, page.services.hosts, _origin(page.services.page_url))
        now = page.services.facts.overview.now()
        visitor = page.cookies.visitor(request.cookies.get(cookie_name(page, request), ""), now)
        cookie = ""
        if visitor is None and not self.is_public:
            if page.services.tokens or _comes_from_elsewhere(request):
                return _sign_in(page, request)
            cookie, visitor = page.cookies.sign_in(None, now)
        if visitor is not None:
            scope[_VISITOR] = visitor
        if request.method == "POST":
            scope[_FORM] = await _form(request, LONGEST_PUBLIC_FORM if self.is_public else LONGEST_FORM)
            if not self.is_public:
                _check_key(request, visitor)
        response = await handler(request)
        if cookie:
            set_cookie(page, request, response, cookie)
        return response


def _with_headers(response: Response) -> Response:
    for name, text in HEADERS.items():
        response.headers[name] = text
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Vary"] = "HX-Request, HX-Target, Accept-Encoding"
    return response


def visitor_of(request: Request) -> Visitor:
    """Return the visitor of a request to an endpoint that is not public."""
    visitor: Visitor = request.scope[_VISITOR]
    return visitor


def known_visitor(request: Request) -> Visitor | None:
    """Return the visitor of a request, or None without a sign-in."""
    visitor: Visitor | None = request.scope.get(_VISITOR)
    return visitor


def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields of the form in a POST request."""
    form: Mapping[str, str] = request.scope[_FORM]
    return form


def cookie_name(page: PageFrame, request: Request) -> str:
    """Return the name of the visitor's cookie, which contains the port at which browsers reach the gateway.

    Browsers send cookies to all ports of a host, where other gateways may be.
    """
    host = urlsplit(page.services.page_url).netloc or request.headers.get("host", "")
    port = host.rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isascii() and port.isdigit() and len(port) < 6 else COOKIE


def set_cookie(page: PageFrame, request: Request, response: Response, cookie: str) -> None:
    response.set_cookie(
        cookie_name(page, request),
        cookie,
        max_age=int(LASTS.total_seconds()),
        path=page.base,
        secure=request.url.scheme == "https" or page.services.page_url.startswith("https:"),
        httponly=True,
        samesite="strict",
    )


def _origin(url: str) -> str:
    """Return the scheme and the host of a URL, as browsers send them; "" for no URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if url else ""


def _sign_in(page: PageFrame, request: Request) -> Response:
    """Return the way to the sign-in form, from which the visitor comes back."""
    if is_fragment(request):
        raise HTTPException(401, "You are no longer signed in; reload the page.")
    if _comes_from_elsewhere(request):
        return HTMLResponse(_AGAIN)
    back = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
    return page.redirect("/sign-in", to=back if request.method == "GET" else "")


def _comes_from_elsewhere(request: Request) -> bool:
    """Return whether a page of another site led here, so that the visitor's cookie was not sent."""
    return request.headers.get("sec-fetch-site") == "cross-site"


def is_fragment(request: Request) -> bool:
    """Return whether the request is for a part of a page."""
    return request.headers.get("hx-request") == "true"


async def _form(request: Request, most: int) -> dict[str, str]:
    """Return the fields of the form in *request*, of at most *most* bytes. Raises RequestInvalid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    buffered = request.scope[BUFFERED] = BufferedBody(limits=request.app.state.bodies, most=most)
    body = await buffered.read(request)
    if kind != FORM and body:
        raise RequestInvalid(f"The page accepts forms of type {FORM}.")
    # To decode a long one takes longer than other requests may have to wait.
    return _fields(body) if len(body) <= SHORT_BYTES else await run_in_threadpool(_fields, body)


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(
            parse_qsl(
                body.decode(),
                keep_blank_values=True,
                strict_parsing=bool(body),
                errors="strict",
                max_num_fields=MOST_FIELDS,
            )
        )
    except ValueError as cause:
        raise RequestInvalid("The form is not encoded as forms are, or has too many fields.") from cause


def _check_key(request: Request, visitor: Visitor | None) -> None:
    if visitor is None or not visitor.has_key(form_of(request).get(CSRF, "")):
        raise HTTPException(403, _NO_KEY)


def _refusal(page: PageFrame, request: Request, error: HTTPException | MtError) -> Response:
    if isinstance(error, MtError):
        return page.error(request, error.http_status, without_passwords(str(error)))
    if error.status_code in (404, 405):
        return page.error(request, 404, f"There is no page {request.scope['path']}.")
    return page.error(request, error.status_code, error.detail)


def page_route(page: PageFrame, *, public: bool = False) -> type[PageRoute]:
    """Return the class of endpoints of *page*. A *public* endpoint asks for no visitor."""
    members: dict[str, Any] = {"page": page, "is_public": public}
    return type("PageRoute", (PageRoute,), members)
