"""Workbenches: the session and the scripts of each visitor who runs SQL on the page.

A visitor is known by the nonce of their cookie, so two tabs of a browser share one session, and two browsers
never do. The session is one of the gateway's: it belongs to the visitor's token, counts towards the limit and
expires when it is idle. Its scripts and their rows end with it.

A session that ended takes the effects of SET and USE and the temporary objects with it. If its visitor had
any, the next script would run with other settings, against other tables. As in a terminal, it is not run, and
its visitor is told. Only the visitor's page can know after a restart that there had been such a session:
`mark` is what it sends with the next script, "" as long as nothing would be lost.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.base.statement.session_changes import session_change
from mt_core.base.tokens import split_statements
from mt_core.errors import GatewayBusy, MtError, RequestInvalid, SessionNotFound, SqlSyntaxError
from mt_core.gateway.page.console.scripts import Script
from mt_core.sessions.executor import StatementExecutor
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.session import Session
from mt_core.sessions.sessions import SessionManager

NAME = "page"
MOST_SCRIPTS = 10
MOST_STATEMENTS = 200
_LOST = (
    "Your session ended, because it was idle or because the gateway was restarted: its temporary objects and "
    "the effects of SET and USE are gone. Nothing was run; repeat what the statement needs, or run it again "
    "as it is."
)


@dataclass(slots=True, kw_only=True)
class Workbench:
    """A visitor's session and their scripts, oldest first. Guarded by the lock of `Workbenches`."""

    session: Session
    mark: str
    changed: bool = False
    scripts: dict[str, Script] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A text that a visitor submits; `caller` is the token's name.

    `mark` is what their page knows of their session.
    """

    nonce: str
    caller: str
    text: str
    mark: str
    at: datetime


class Workbenches:
    """The workbenches by nonce. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._benches: dict[str, Workbench] = {}

    def submit(
        self,
        submission: Submission,
        sessions: SessionManager,
        executor: StatementExecutor,
        now: Callable[[], datetime],
    ) -> Script:
        """Return the script that runs a text in the visitor's session, which opens if it is not open.

        A text that cannot be run becomes a script with an error. Raises SessionLimit, and GatewayBusy if
        `MOST_SCRIPTS` of the visitor are running.
        """
        with self._lock:
            bench = self._bench(submission, sessions)
            _make_room(bench)
            script = _script(submission, lost=submission.mark not in ("", bench.mark))
            bench.scripts[script.handle] = script

        def begin(statement: str) -> Operation:
            operation = executor.submit(
                sessions.get(bench.session.handle), statement, caller=submission.caller
            )
            if session_change(statement) is not None:
                bench.changed = True
            return operation

        if script.error is None:
            script.start(begin, now)
        return script

    def session(self, submission: Submission, sessions: SessionManager) -> Session:
        """Return the visitor's session, which opens if it is not open. Raises SessionLimit."""
        with self._lock:
            return self._bench(submission, sessions).session

    def find(self, nonce: str, sessions: SessionManager) -> Workbench | None:
        """Return the workbench of a visitor, None if they have no open session.

        This restarts the idle timeout of the session, like any request of its client.
        """
        with self._lock:
            bench = self._benches.get(nonce)
        if bench is None or not _is_open(bench, sessions):
            return None
        sessions.use(bench.session)
        return bench

    def script(self, nonce: str, handle: str, sessions: SessionManager) -> Script | None:
        """Return the script of a visitor with *handle*, None if it or its session was closed."""
        bench = self.find(nonce, sessions)
        return None if bench is None else bench.scripts.get(handle)

    def mark(self, nonce: str, sessions: SessionManager) -> str:
        """Return what the visitor's page sends with the next script; "" if nothing would be lost."""
        bench = self.find(nonce, sessions)
        return bench.mark if bench is not None and bench.changed else ""

    def _bench(self, submission: Submission, sessions: SessionManager) -> Workbench:
        bench = self._benches.get(submission.nonce)
        if bench is None or not _is_open(bench, sessions):
            self._benches = {
                nonce: other for nonce, other in self._benches.items() if _is_open(other, sessions)
            }
            session = sessions.open(NAME, owner=submission.caller)
            bench = self._benches[submission.nonce] = Workbench(session=session, mark=secrets.token_hex(8))
        sessions.use(bench.session)
        return bench


def _is_open(bench: Workbench, sessions: SessionManager) -> bool:
    return sessions.owner_of(bench.session.handle) is not None


def _make_room(bench: Workbench) -> None:
    """Close the oldest script that has ended, if there are `MOST_SCRIPTS`. Raises GatewayBusy."""
    if len(bench.scripts) < MOST_SCRIPTS:
        return
    oldest = next((each for each in bench.scripts.values() if not each.running), None)
    if oldest is None:
        raise GatewayBusy(
            f"{MOST_SCRIPTS} of your statements are running, which is the limit; stop one, or wait for it."
        )
    for step in oldest.steps:
        if step.operation is not None:
            bench.session.close_operation(step.operation.handle)
    del bench.scripts[oldest.handle]


def _script(submission: Submission, *, lost: bool) -> Script:
    text, handle = submission.text, str(uuid.uuid4())
    try:
        statements = split_statements(text)
    except SqlSyntaxError as error:
        return Script(handle, text, [], begun_at=submission.at, error=error)
    refusal = _refusal(len(statements), lost=lost)
    return Script(handle, text, [] if refusal else statements, begun_at=submission.at, error=refusal)


def _refusal(count: int, *, lost: bool) -> MtError | None:
    """Return why *count* statements are not run, None if they are."""
    if not count:
        return RequestInvalid("There is no statement here; write one, then run it.")
    if count > MOST_STATEMENTS:
        return RequestInvalid(
            f"There are {count} statements here, the page runs up to {MOST_STATEMENTS} at a time; "
            "run longer scripts with freshtable sql -f."
        )
    return SessionNotFound(_LOST) if lost else None
