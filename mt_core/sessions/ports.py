"""What sessions need from outside: an engine that runs SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mt_core.rowset import Column
from mt_core.tables.ports import Progress


class ResultRows(Protocol):
    """The rows of a statement, in JSON form (flink.md §2.4), readable again and again until closed."""

    @property
    def columns(self) -> Sequence[Column]: ...

    def page(self, start: int, size: int) -> list[list[Any]]:
        """Return up to *size* rows from row *start*; fewer only at the end."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """What a statement gave; `is_query` for SELECT and the like, `rows` None for a statement that only has an effect."""

    is_query: bool
    rows: ResultRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """A session as the engine needs it: properties that differ from the defaults, and where names are looked up."""

    session_id: str
    properties: Mapping[str, str]


class StatementEngine(Protocol):
    """Runs SQL text in sessions that do not see each other. Raises EngineUnavailable while it starts or after it was lost."""

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until statements can run; raises EngineUnavailable with the cause if they never will."""

    def execute(self, context: SessionContext, sql: str, *, job_id: str) -> StatementResult:
        """Run one statement; blocks; raises QueryFailed with line and position, Canceled after `cancel(job_id)`."""

    def current_catalog(self, context: SessionContext) -> str: ...

    def current_namespace(self, context: SessionContext) -> str: ...

    def close_session(self, session_id: str) -> None: ...

    def cancel(self, job_id: str) -> None: ...

    def progress(self, job_id: str) -> Progress | None: ...
