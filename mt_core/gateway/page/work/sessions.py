"""The page of sessions: who has opened them, since when they are idle, and what they work on.

A handle gives access to its session, so the page shows the ids of `facts.json_form` instead, and secrets in
properties are masked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from mt_core.base.secrets import masked
from mt_core.gateway.facts.json_form import session_id
from mt_core.gateway.page.page import Page
from mt_core.sessions.session import OperationView, SessionView

# More would not be read by anybody, and a gateway may have 10,000.
MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSession:
    """A session without its handle. `properties` are masked."""

    session_id: str
    name: str
    user: str
    opened_at: datetime
    idle_since: datetime
    operations: tuple[OperationView, ...]
    properties: Mapping[str, str]

    @classmethod
    def of(cls, view: SessionView) -> ShownSession:
        return cls(
            session_id=session_id(view.handle),
            name=view.name or "",
            user=view.owner,
            opened_at=view.opened_at,
            idle_since=view.last_access,
            operations=view.operations,
            properties=masked(view.properties),
        )


def sessions_router(page: Page) -> APIRouter:
    """Return the endpoint of the page of sessions."""
    router = page.router()

    @router.get("/sessions")
    def get_sessions(request: Request) -> Response:
        page.query(request)
        views = sorted(
            page.services.sessions.views(),
            key=lambda each: (bool(each.operations), each.last_access),
            reverse=True,
        )
        shown, total = views[:MOST], len(views)

        def facts() -> Mapping[str, Any]:
            return {"sessions": [ShownSession.of(view) for view in shown], "total": total}

        return page.answer(request, "sessions.html", facts, version=_version(shown, total))

    return router


def _version(views: Sequence[SessionView], total: int) -> str:
    return hashlib.sha256(repr((total, views)).encode()).hexdigest()[:32]
