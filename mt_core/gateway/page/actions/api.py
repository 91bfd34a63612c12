"""The endpoints of actions: GET shows the form, and POST does what it says and leads back.

A form that is sent twice, by a double click or a reload, acts once.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from mt_core.base.background import error_of
from mt_core.base.secrets import without_passwords
from mt_core.errors import MtError, OperationNotFound, TableNotFound
from mt_core.gateway.http.blocking import long_wait
from mt_core.gateway.page.actions.cancellations import CancelJob, CancelRefresh
from mt_core.gateway.page.actions.forms import Action, ActionForm, Outcome
from mt_core.gateway.page.actions.table_actions import KEY, ActionOnTable, TableAction
from mt_core.gateway.page.page import Page
from mt_core.gateway.page.route import CSRF, form_of, visitor_of

# How long a form that is sent again is the same request, in seconds.
SAME_FOR_S = 60.0
_FAILED, _REFUSED = 500, 409


class Submissions:
    """Performs each form once, however often it is sent within `SAME_FOR_S` seconds. Thread-safe.

    A form that failed may be sent again.
    """

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        self._outcomes: dict[str, tuple[float, Future[Outcome]]] = {}

    def once(self, key: str, work: Callable[[], Outcome]) -> Outcome:
        """Return the outcome of *work*, or of the work that is or was done for the same *key*.

        Raises the error of that work.
        """
        own = Future[Outcome]()
        with self._lock:
            now = self._elapsed_s()
            for each, (began, outcome) in [*self._outcomes.items()]:
                if outcome.done() and now - began >= SAME_FOR_S:
                    del self._outcomes[each]
            _, outcome = self._outcomes.setdefault(key, (now, own))
        if outcome is own:
            error = error_of(lambda: own.set_result(work()))
            if error is not None:
                with self._lock:
                    del self._outcomes[key]
                own.set_exception(error)
        return outcome.result()


def actions_router(page: Page) -> APIRouter:
    """Return the forms of all actions, and the endpoints that perform them."""
    router, submissions, services = page.router(), Submissions(), page.services
    for action in TableAction:
        on_table = ActionOnTable(services=services, action=action)
        _add(router, page, submissions, f"/tables/{{subject_id}}/{action}", on_table)
    _add(router, page, submissions, "/runs/{subject_id}/cancel", CancelRefresh(services=services))
    _add(router, page, submissions, "/jobs/{subject_id}/cancel", CancelJob(services=services))
    return router


def _add(router: APIRouter, page: Page, submissions: Submissions, path: str, action: Action) -> None:
    @router.get(path)
    def get_form(request: Request, subject_id: str) -> Response:
        page.query(request)
        page.require_sql(request)
        return _shown(page, request, action.form(subject_id, {}))

    @router.post(path)
    async def post_form(request: Request, subject_id: str) -> Response:
        return await long_wait(lambda: perform(request, subject_id))

    def perform(request: Request, subject_id: str) -> Response:
        page.query(request)
        page.require_sql(request)
        sent, visitor = form_of(request), visitor_of(request)
        key = _identity(request, sent, visitor.nonce)
        try:
            outcome = submissions.once(key, lambda: action.perform(subject_id, sent, visitor))
        except (TableNotFound, OperationNotFound):
            raise
        except MtError as error:
            return _shown(page, request, action.form(subject_id, sent), error)
        return page.redirect(outcome.path, **outcome.query)


def _shown(
    page: Page, request: Request, form: ActionForm | Outcome, error: MtError | None = None
) -> Response:
    """Return the form, with the *error* of what was sent before."""
    if isinstance(form, Outcome):
        return page.redirect(form.path, **form.query)
    if error is None:
        return page.answer(request, "action.html", lambda: {"form": form, "error": ""})
    text = without_passwords(error.message)
    # The error says it already, or it no longer holds.
    shown = replace(form, refusal="")
    # Whatever the cause, the page itself did not fail.
    status = _REFUSED if error.http_status == _FAILED else error.http_status
    return page.answer(request, "action.html", lambda: {"form": shown, "error": text}, status=status)


def _identity(request: Request, sent: Mapping[str, str], nonce: str) -> str:
    """Return what is the same for a form that the same visitor sends twice."""
    fields = sorted((name, text) for name, text in sent.items() if name != CSRF)
    facts = repr((request.url.path, fields, nonce if sent.get(KEY) else time.monotonic_ns()))
    return hashlib.sha256(facts.encode()).hexdigest()
