"""The names that a session can see, read from its engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from mt_core.errors import MtError
from mt_core.identifiers import sql_name
from mt_core.sessions.ports import Name, NameDirectory, ResultRows, StatementEngine
from mt_core.sessions.session import Session

MOST = 5000
_NAMESPACE_COLUMNS = ("database name", "namespace", "databaseName")
_TABLE_COLUMNS = ("table name", "tableName")
_VIEW_COLUMNS = ("view name", "viewName")


class SessionNames(NameDirectory):
    """The names of one session, empty while Spark does not run. They take no turn: completion works while a statement runs."""

    def __init__(self, engine: StatementEngine, session: Session) -> None:
        self._engine, self._session = engine, session

    def catalogs(self) -> Sequence[str]:
        return self._if_ready(lambda: sorted(self._engine.catalogs(self._session.context())))

    def namespaces(self, catalog: str | None) -> Sequence[str]:
        return self._ask(f"SHOW NAMESPACES{_within((catalog,) if catalog else ())}", _NAMESPACE_COLUMNS)

    def tables(self, namespace: Name) -> Sequence[str]:
        return self._ask(f"SHOW TABLES{_within(namespace)}", _TABLE_COLUMNS)

    def views(self, namespace: Name) -> Sequence[str]:
        return self._ask(f"SHOW VIEWS{_within(namespace)}", _VIEW_COLUMNS)

    def columns(self, table: Name) -> Sequence[str]:
        context = self._session.context()
        return self._if_ready(lambda: [column.name for column in self._engine.columns(context, table)])

    def _ask(self, sql: str, columns: Sequence[str]) -> list[str]:
        context = self._session.context()
        return self._if_ready(
            lambda: _column(self._engine.execute(context, sql, job_id=uuid.uuid4().hex).rows, columns)
        )

    def _if_ready(self, ask: Callable[[], list[str]]) -> list[str]:
        try:
            return ask() if self._engine.wait_ready(0) else []
        except MtError:
            return []


def _column(rows: ResultRows | None, columns: Sequence[str]) -> list[str]:
    if rows is None:
        return []
    try:
        index = next((at for at, column in enumerate(rows.columns) if column.name in columns), 0)
        return [str(row[index]) for row in rows.page(0, MOST)]
    finally:
        rows.close()


def _within(namespace: Name) -> str:
    return f" IN {sql_name(namespace)}" if namespace else ""
