"""The page: renders templates for visitors, whole or in parts, and not at all if nothing has changed.

A template is the whole of a view. What a view shows of its own is a function, so that a request for what the
visitor has already costs a comparison of versions. A part that the browser updates is a block of the
template: its name is the id of its only element, with underscores for hyphens. The browser asks for it at the
address of the page itself, with the version that it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException

from mt_core.gateway.facts.answers import up_to_date
from mt_core.gateway.facts.query import Parameter, Query
from mt_core.gateway.page import formats
from mt_core.gateway.page.late_bar import late_bar
from mt_core.gateway.page.route import is_fragment, known_visitor, page_route, visitor_of
from mt_core.gateway.page.sentences import STATE_WORDS
from mt_core.gateway.page.static_files import StaticFiles
from mt_core.gateway.page.visitor import VisitorCookies
from mt_core.gateway.services import GatewayServices
from mt_core.model.table import RefreshMode
from mt_core.tables.overview.facts import TableFacts

PREFIX = "/ui"
UNCHANGED = 204
# The version of a part of a page that the visitor has. It is not part of what the page shows.
SINCE = Parameter(name="since", description="The version that the visitor has.")
STATUS_BLOCK = "gateway_status"
Facts = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What every page shows of the gateway: Spark's trouble, "" if it is ready, and the refreshes at work.

    `running` and `queued` count the refreshes of the workers. While the overview is being built, `read` of
    `total` tables have been read.
    """

    trouble: str
    running: int
    queued: int
    read: int
    total: int

    @property
    def version(self) -> str:
        return f"{hash((self.trouble, self.running, self.queued)):x}"


NOTHING_KNOWN = Status(trouble="", running=0, queued=0, read=0, total=0)


class Page:
    """The pages below *base*, which is `PREFIX` after the path under which a proxy serves the gateway."""

    def __init__(self, services: GatewayServices, base: str = PREFIX) -> None:
        self.services, self.base = services, base
        self.cookies = VisitorCookies.of(services.tokens)
        self.static = StaticFiles(services.libraries)
        self._status: tuple[object, Status] | None = None
        self._templates = _environment(self)

    def router(self, *, public: bool = False) -> APIRouter:
        """Return a router whose endpoints are `PageRoute` objects; *public* ones need no sign-in."""
        return APIRouter(route_class=page_route(self, public=public), include_in_schema=False)

    def query(self, request: Request, parameters: Iterable[Parameter] = ()) -> Query:
        """Return the query of *request*, which may have these *parameters*. Raises RequestInvalid."""
        return Query.of(request, (*parameters, SINCE))

    def now(self) -> datetime:
        """Let the overview catch up with the registry, and return the instant for which to read it."""
        return up_to_date(self.services.facts)

    def require_sql(self, request: Request) -> None:
        """Raise HTTPException 403 unless the visitor may run SQL and change tables."""
        visitor = visitor_of(request)
        if not visitor.may_act:
            raise HTTPException(
                403,
                f"You are signed in as {visitor.name} with the role {visitor.role}, which may only read. "
                "This needs a token with the role sql or admin.",
            )

    def answer(
        self,
        request: Request,
        template: str,
        facts: Facts = dict,
        *,
        version: str | None = None,
        status: int = 200,
    ) -> Response:
        """Return the page, or the part of it that the request asks for, of *template* with *facts*.

        The part is the block with the name in the header HX-Target. If the request contains the *version* of
        the part in the parameter `since`, the answer is 204 without a body.
        """
        block = request.headers.get("hx-target", "").replace("-", "_") if is_fragment(request) else ""
        current = self.status()
        if not block:
            context = self._context(request, current, version, facts)
            return HTMLResponse(self._templates.get_template(template).render(context), status)
        if block == STATUS_BLOCK:
            if known_visitor(request) is None:
                raise HTTPException(401, "You are not signed in; reload the page.")
            version, facts = current.version, dict
        if version is not None and request.query_params.get(SINCE.name) == version:
            return Response(status_code=UNCHANGED)
        loaded = self._templates.get_template("base.html" if block == STATUS_BLOCK else template)
        if block not in loaded.blocks:
            raise HTTPException(404)
        context = self._context(request, current, version, facts)
        return HTMLResponse("".join(loaded.blocks[block](loaded.new_context(context))), status)

    def redirect(self, path: str, **query: str) -> Response:
        """Return the redirection of a browser to *path* below the page, to be read there with GET."""
        parameters = urlencode({name: text for name, text in query.items() if text})
        return RedirectResponse(f"{self.base}{quote(path)}" + (f"?{parameters}" if parameters else ""), 303)

    def error(self, request: Request, status: int, text: str) -> Response:
        """Return *text* as a page, or alone if the request was for a part of a page."""
        if is_fragment(request):
            return Response(text, status, media_type="text/plain; charset=utf-8")
        # A fault may be that the state of the gateway cannot be read.
        current = self.status() if status < 500 else NOTHING_KNOWN
        context = self._context(request, current, None, lambda: {"code": status, "text": text})
        return HTMLResponse(self._templates.get_template("error.html").render(context), status)

    def status(self) -> Status:
        """Return the state of the gateway as every page shows it."""
        overview, trouble = self.services.facts.overview, self.services.engine_trouble()
        now, progress = overview.now(), overview.progress
        read = overview, overview.version(now), progress, trouble
        if self._status is None or self._status[0] != read:
            readable = [table for table in overview.facts(now) if isinstance(table, TableFacts)]
            status = Status(
                trouble=trouble,
                running=sum(table.running for table in readable if table.mode is not RefreshMode.CONTINUOUS),
                queued=sum(table.queued for table in readable),
                read=progress.read,
                total=progress.total,
            )
            self._status = read, status
        return self._status[1]

    def _context(self, request: Request, status: Status, version: str | None, facts: Facts) -> dict[str, Any]:
        """Return what a whole template or a block of it knows, with the macros as `ui`."""
        shown = [(name, text) for name, text in request.query_params.multi_items() if name != SINCE.name]
        path = request.scope["path"].removeprefix(PREFIX) or "/"
        context: dict[str, Any] = {
            "base": self.base,
            "visitor": known_visitor(request),
            "with_tokens": bool(self.services.tokens),
            "now": self.services.facts.overview.now(),
            "status": status,
            "version": version or "",
            "path": path,
            "here": f"{self.base}{quote(path)}" + (f"?{urlencode(shown)}" if shown else ""),
            "libraries": self.static.libraries,
            "release": self.services.info.version,
            **facts(),
        }
        return {**context, "ui": self._templates.get_template("macros.html").make_module(context)}


def _environment(page: Page) -> Environment:
    environment = Environment(
        loader=PackageLoader("mt_core.gateway.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Callable[..., Markup]] = {
        # Macros of imported templates have no context, and so no `now` of the page.
        "instant": lambda value, zone=None: formats.instant(value, zone, page.services.facts.overview.now()),
        "age": lambda value: formats.age(value, page.services.facts.overview.now()),
        "span": formats.span,
        "number": formats.number,
        "size": formats.size,
        "sql": formats.sql,
    }
    environment.filters |= filters
    environment.globals |= {
        "static": lambda name: page.static.address(page.base, name),
        "library": lambda name: page.static.library_address(page.base, name),
        "live": _live,
        "late_bar": late_bar,
        "state_words": STATE_WORDS,
    }
    return environment


@pass_context
def _live(context: Context, seconds: float, version: str | None = None) -> Markup:
    """Return the attributes of an element that the browser updates, asking every *seconds* seconds."""
    shown = context["version"] if version is None else version
    # Not in hx-vals, which links inside the element would inherit.
    return Markup(
        'hx-get="{}" hx-target="this" hx-swap="outerHTML" hx-trigger="poll" hx-disinherit="*" '
        'data-version="{}" data-every="{}"'
    ).format(context["here"], shown, seconds)
