"""A task: one statement on its way through the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.errors import EngineUnavailable
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sessions.session import Session
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.tables.ports import Progress

# How long a thread waits for something before it looks whether its operation still wants it.
POLL_S = 1.0
_LONGEST_QUICK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One statement to perform, in the session as it stands when the statement's turn comes."""

    session: Session
    operation: Operation
    properties: Mapping[str, str]

    def context(self) -> SessionContext:
        return self.session.context(self.properties)


def is_quick(statement: ReadStatement, engine: StatementEngine) -> bool:
    """Return whether performing *statement* costs less than handing it to another thread; not if it waits for Spark."""
    if Trait.QUICK not in statement.traits or len(statement.sent) > _LONGEST_QUICK:
        return False
    return Trait.WITHOUT_ENGINE in statement.traits or _is_ready(engine)


def _is_ready(engine: StatementEngine) -> bool:
    try:
        return engine.wait_ready(0)
    except EngineUnavailable:
        return False


def task_counts(progress: Progress | None) -> tuple[int, int] | None:
    """Return how many of how many of Spark's tasks are done, as operations measure it."""
    return None if progress is None else (progress.done, progress.total)
