"""Visits of the page: browsers that sign in, read pages and send forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

import httpx

from mt_core.base.access import parse_tokens
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.gateway.page.visitor import COOKIE, VisitorCookies
from mt_core.gateway.services import GatewayServices
from tests.support.gateway.shared_app import app_of
from tests.support.html_document import Element, document_of

TOKENS = parse_tokens("boss:admin:chef,ann:sql:geheim,bob:read:lesen,air:refresh:nur")


class Browser:
    """A visitor's browser. Addresses are below /ui."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    @property
    def key(self) -> str:
        """The key that the visitor's forms must contain, on a gateway with `TOKENS`."""
        beginning = datetime.fromtimestamp(0, UTC)
        cookie = self.http.cookies[f"{COOKIE}-{self.http.base_url.port}"]
        visitor = VisitorCookies.of(TOKENS).visitor(cookie, beginning)
        assert visitor is not None
        return visitor.csrf

    def get(self, path: str, status: int = 200) -> Element:
        """Return a page, which must have this status."""
        answer = self.http.get(f"/ui{path}")
        assert answer.status_code == status, (answer.status_code, answer.headers.get("location"), answer.text)
        return document_of(answer.text)

    def part(self, path: str, block: str, since: str | None = None) -> httpx.Response:
        """Return the part of a page with the id *block*, as the browser asks for it."""
        headers = {"HX-Request": "true", "HX-Target": block}
        parameters = {} if since is None else {"since": since}
        return self.http.get(f"/ui{path}", headers=headers, params=parameters)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Open the form at *path*, fill in *fields*, and send it."""
        return self.submit(self.get(path), **fields)

    def submit(self, page: Element, **fields: str) -> httpx.Response:
        """Send the only form with a button of a page, as it is but for *fields*."""
        [form] = page.one("main").every("form", method="post")
        return self.http.post(form.attributes["action"], data={**fields_of(form), **fields})

    def follow(self, answer: httpx.Response) -> str:
        """Return where the redirection in *answer* leads, below /ui."""
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].removeprefix("/ui")


def fields_of(form: Element) -> dict[str, str]:
    """Return the fields of a form as a browser sends them if nothing is filled in."""
    return {
        each.attributes["name"]: each.attributes.get("value", "")
        for each in form.every("input")
        if each.attributes.get("type") != "checkbox" or "checked" in each.attributes
    }


class Visits:
    """A second server of a gateway's services, which requires `TOKENS`, and the browsers that visit it."""

    def __init__(self, services: GatewayServices) -> None:
        self._server = GatewayServer(app_of(replace(services, tokens=TOKENS)), listen("127.0.0.1", 0))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._server.stop()

    def browser(self, token: str = "geheim") -> Browser:
        """Return the browser of a visitor who has signed in with *token*, or has not if it is empty."""
        http = self._stack.enter_context(httpx.Client(base_url=self._server.url, timeout=60))
        if token:
            assert http.post("/ui/sign-in", data={"token": token}).status_code == 303
        return Browser(http)


@contextmanager
def visits_of(services: GatewayServices) -> Iterator[Visits]:
    """Yield visits of a gateway with *services*, to which the visitors' tokens are added."""
    with Visits(services) as visits:
        yield visits
