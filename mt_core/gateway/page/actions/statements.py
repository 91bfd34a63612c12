"""Statements of visitors: each runs in a session of its own, in the name of the visitor's token.

So whatever a statement records of who ran it, it records of the visitor. A visitor waits only for as long as
most statements take. After that, a thread keeps the session open until the statement ends.
"""

from __future__ import annotations

from functools import partial

from mt_core.base.background import start_thread
from mt_core.errors import Canceled
from mt_core.gateway.page.visitor import Visitor
from mt_core.gateway.services import GatewayServices
from mt_core.sessions.operations.operation import POLL_S, Operation, OperationStatus
from mt_core.sessions.session import Session

# The time in which a statement ends that does not compute.
WAIT_S = 5.0
SESSION_NAME = "page"


def run_statement(
    services: GatewayServices, statement: str, visitor: Visitor, *, wait_s: float | None = None
) -> bool:
    """Run a statement, and return whether it has ended within *wait_s* seconds (None: `WAIT_S`).

    It continues if it has not. Raises the error of a statement that failed in this time, Canceled for one
    that was stopped, and SessionLimit.
    """
    session = services.sessions.open(SESSION_NAME, owner=visitor.name)
    ended = True
    try:
        operation = services.executor.submit(session, statement, caller=visitor.name)
        ended = operation.wait(WAIT_S if wait_s is None else wait_s)
        if ended:
            _check(operation)
        else:
            start_thread("statement of the page", partial(_finish, services, session, operation))
        return ended
    finally:
        if ended:
            services.sessions.close(session.handle, missing_ok=True)


def _check(operation: Operation) -> None:
    if operation.error is not None:
        raise operation.error
    if operation.status is not OperationStatus.FINISHED:
        raise Canceled(f"The statement is {operation.status}.")


def _finish(services: GatewayServices, session: Session, operation: Operation) -> None:
    """Close *session* once its operation has ended. It does not expire before."""
    try:
        while not operation.wait(POLL_S):
            services.sessions.use(session)
    finally:
        services.sessions.close(session.handle, missing_ok=True)
