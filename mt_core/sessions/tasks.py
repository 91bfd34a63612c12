"""A task: one statement on its way through the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.sessions.operation import Operation
from mt_core.sessions.ports import SessionContext
from mt_core.sessions.session import Session
from mt_core.tables.ports import Progress

# How long a thread waits for something before it looks whether its operation still wants it.
POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One statement to perform, in the session as it stands when the statement's turn comes."""

    session: Session
    operation: Operation
    properties: Mapping[str, str]

    def context(self) -> SessionContext:
        return self.session.context(self.properties)


def task_counts(progress: Progress | None) -> tuple[int, int] | None:
    """Return how many of how many of Spark's tasks are done, as operations measure it."""
    return None if progress is None else (progress.done, progress.total)
