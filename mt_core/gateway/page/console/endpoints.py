"""The SQL view: an editor, the statements that were submitted with it, and their results.

Nothing runs by GET. A POST begins a script and leads to its address, which shows its progress, in a part
that the browser updates, until it has ended. A browser that runs no JavaScript gets the same pages. A script
and its rows belong to one visitor; to others they do not exist.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from mt_core.base.plural import plural
from mt_core.base.statement.typed_word import typed_word
from mt_core.errors import GatewayBusy, RequestInvalid, SessionLimit
from mt_core.gateway.facts.query import Parameter, Query, whole_number
from mt_core.gateway.http.blocking import long_wait
from mt_core.gateway.page.console.results import count_of, drawing_of
from mt_core.gateway.page.console.scripts import Script
from mt_core.gateway.page.console.views import shown_script, usual_choice, version_of
from mt_core.gateway.page.console.workbenches import MOST_STATEMENTS, Submission, Workbenches
from mt_core.gateway.page.page import Page
from mt_core.gateway.page.route import form_of, is_fragment, visitor_of
from mt_core.sessions.completion import complete

# A script that ends within this time is shown with its results at once.
PATIENCE_S = 0.4
MOST_ROWS = 999_999_999
TEMPLATE = "sql.html"
_SCRIPT = "/sql/operations/{handle}"
_TEXT = Parameter(name="statement", description="The text to begin with in the editor.")
_CHOSEN = whole_number("statement", "The number of the statement.", least=0, most=MOST_STATEMENTS, usual=0)
_AFTER = whole_number("after", "The number of rows before the page.", least=0, most=MOST_ROWS, usual=0)


def sql_router(page: Page) -> APIRouter:
    """Return the endpoints of the SQL view."""
    router, view = page.router(), _View(page, Workbenches())

    @router.get("/sql")
    def get_editor(request: Request) -> Response:
        text = page.query(request, (_TEXT,)).text(_TEXT.name)
        return page.answer(request, TEMPLATE, lambda: view.editor(request, text))

    @router.post("/sql")
    async def post_script(request: Request) -> Response:
        return await long_wait(lambda: view.submit(request))

    @router.post("/sql/complete")
    async def post_complete(request: Request) -> Response:
        return await long_wait(lambda: view.complete(request))

    @router.get(_SCRIPT)
    def get_script(request: Request, handle: str) -> Response:
        return view.script(request, handle)

    @router.get(f"{_SCRIPT}/chart")
    def get_drawing(request: Request, handle: str) -> Response:
        return view.drawing(request, handle)

    @router.post(f"{_SCRIPT}/stop")
    async def post_stop(request: Request, handle: str) -> Response:
        return await long_wait(lambda: view.stop(request, handle))

    return router


class _View:
    """Answers the requests of visitors, each with the scripts of their own."""

    def __init__(self, page: Page, benches: Workbenches) -> None:
        self._page, self._benches = page, benches

    def editor(self, request: Request, text: str, **facts: Any) -> dict[str, Any]:
        """Return the facts for the template: an editor with *text*, and what *facts* say else."""
        visitor = visitor_of(request)
        mark = self._benches.mark(visitor.nonce, self._page.services.sessions)
        usual = {"text": text, "mark": mark, "refused": "", "is_gone": False, "script": None, "address": ""}
        return {**usual, **facts}

    def submit(self, request: Request) -> Response:
        submission, services = self._submission(request), self._page.services
        # The thread of a script has no request, so it gets the services themselves.
        now, sessions, executor = services.facts.overview.now, services.sessions, services.executor
        try:
            script = self._benches.submit(submission, sessions, executor, now)
        except (GatewayBusy, SessionLimit) as error:
            text, refused = submission.text, str(error)
            return self._failure(request, error.http_status, text=text, refused=refused)
        script.wait(PATIENCE_S)
        return self._page.redirect(_SCRIPT.format(handle=script.handle))

    def complete(self, request: Request) -> Response:
        submission, position = self._submission(request), form_of(request).get("position", "")
        text, services = submission.text, self._page.services
        at = int(position) if position.isascii() and position.isdigit() and len(position) < 10 else len(text)
        names = services.names(self._benches.session(submission, services.sessions))
        return _json({"length": len(typed_word(text[:at])), "candidates": complete(text, at, names)})

    def script(self, request: Request, handle: str) -> Response:
        query, script = self._page.query(request, (_CHOSEN, _AFTER)), self._script(request, handle)
        if script is None:
            return self._failure(request, 404, text="", is_gone=True)
        address = self._page.base + _SCRIPT.format(handle=handle)

        def facts() -> dict[str, Any]:
            shown = shown_script(script, _position(script, query), query.number(_AFTER))
            return self.editor(request, script.text, script=shown, address=address)

        return self._page.answer(request, TEMPLATE, facts, version=version_of(script))

    def drawing(self, request: Request, handle: str) -> Response:
        query, script = self._page.query(request, (_CHOSEN,)), self._script(request, handle)
        step = script.steps[_position(script, query)] if script is not None and script.steps else None
        rows = None if step is None else step.rows
        drawing = None if rows is None else drawing_of(rows)
        if rows is None or drawing is None:
            raise HTTPException(404, "There are no rows here that can be drawn.")
        return _json({**asdict(drawing), "total": count_of(rows)})

    def stop(self, request: Request, handle: str) -> Response:
        self._page.query(request)
        script = self._script(request, handle)
        if script is not None:
            script.stop()
            script.wait(PATIENCE_S)
        return self._page.redirect(_SCRIPT.format(handle=handle))

    def _failure(self, request: Request, status: int, **facts: Any) -> Response:
        # A browser shows no part of a page whose status is an error.
        shown = 200 if is_fragment(request) else status
        return self._page.answer(request, TEMPLATE, lambda: self.editor(request, **facts), status=shown)

    def _script(self, request: Request, handle: str) -> Script | None:
        self._page.require_sql(request)
        return self._benches.script(visitor_of(request).nonce, handle, self._page.services.sessions)

    def _submission(self, request: Request) -> Submission:
        self._page.require_sql(request)
        self._page.query(request)
        form, visitor = form_of(request), visitor_of(request)
        return Submission(
            nonce=visitor.nonce,
            caller=visitor.name,
            # Forms end lines with CR and LF, whatever was typed.
            text=form.get("statement", "").replace("\r\n", "\n"),
            mark=form.get("session", ""),
            at=self._page.services.facts.overview.now(),
        )


def _position(script: Script, query: Query) -> int:
    """Return the position of the statement that *query* names by its number, or else of the usual one."""
    number, count = query.number(_CHOSEN), len(script.steps)
    if number > count:
        raise RequestInvalid(
            f"There is no statement {number} here; there {plural(count, 'is', 'are')} {count}."
        )
    return number - 1 if number else usual_choice(script)


def _json(body: dict[str, Any]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
