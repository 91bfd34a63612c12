"""/ui/sign-in and /ui/sign-out: a token for a cookie, and back."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from mt_core.base.access import READERS, find_token
from mt_core.gateway.facts.query import Parameter
from mt_core.gateway.page.page import PREFIX, Page
from mt_core.gateway.page.route import cookie_name, form_of, known_visitor, set_cookie

WRONG = "This is not a token of this gateway, or it was changed."
MAY_NOT = "The token {name} has the role refresh, which may not read the page; use one with another role."
TOO_MANY = "Too many wrong tokens from your address; wait a minute."
MOST_WRONG, WITHIN_S, MOST_ADDRESSES = 5, 60.0, 1000
_TO = Parameter(name="to", description="The page to which the visitor returns.")


def sign_in_router(page: Page) -> APIRouter:
    """Return the endpoints for signing in and out, which are public."""
    router, wrong = page.router(public=True), WrongTokens()

    @router.get("/sign-in")
    def get_sign_in(request: Request) -> Response:
        to = page.query(request, (_TO,)).text(_TO.name)
        if known_visitor(request) is not None or not page.services.tokens:
            return _back(page, to)
        return page.answer(request, "sign_in.html", lambda: {"to": to, "problem": ""})

    @router.post("/sign-in")
    def post_sign_in(request: Request) -> Response:
        form, address = form_of(request), request.client.host if request.client is not None else ""
        to = form.get("to", "")
        if wrong.are_too_many(address):
            raise HTTPException(429, TOO_MANY)
        token = find_token(page.services.tokens, form.get("token", "").strip())
        problem = WRONG if token is None else MAY_NOT.format(name=token.name)
        if token is None or token.role not in READERS:
            wrong.note(address)
            facts = {"to": to, "problem": problem}
            return page.answer(request, "sign_in.html", lambda: facts, status=401)
        cookie, _ = page.cookies.sign_in(token, page.services.facts.overview.now())
        response = _back(page, to)
        set_cookie(page, request, response, cookie)
        return response

    @router.post("/sign-out")
    def post_sign_out(request: Request) -> Response:
        response = page.redirect("/sign-in")
        response.delete_cookie(cookie_name(page, request), path=page.base, httponly=True, samesite="strict")
        return response

    return router


class WrongTokens:
    """How many wrong tokens each address has sent lately. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_address: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str) -> None:
        with self._lock:
            times = self._by_address.setdefault(address, deque(maxlen=MOST_WRONG))
            times.append(time.monotonic())
            self._by_address.move_to_end(address)
            while len(self._by_address) > MOST_ADDRESSES:
                self._by_address.popitem(last=False)

    def are_too_many(self, address: str) -> bool:
        with self._lock:
            times = self._by_address.get(address)
            return times is not None and len(times) == MOST_WRONG and time.monotonic() - times[0] < WITHIN_S


def _back(page: Page, to: str) -> Response:
    """Return the way to a page of this gateway, and to no other address, whatever *to* says."""
    path, _, query = to.partition("?")
    is_ours = path.startswith(f"{PREFIX}/") and not path.startswith(f"{PREFIX}/sign-")
    if not is_ours or "\\" in to or "//" in path or {".", ".."} & {*path.split("/")}:
        return page.redirect("/")
    response = page.redirect(path.removeprefix(PREFIX))
    if query and query.isprintable() and query.isascii() and "#" not in query:
        response.headers["Location"] += f"?{query}"
    return response
