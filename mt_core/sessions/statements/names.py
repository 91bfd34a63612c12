"""The names that a session can see, read from its engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mt_core.errors import MtError
from mt_core.identifiers import sql_name
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import texts_of
from mt_core.sql.statements import Name

MOST = 5000


class Named(StrEnum):
    """What SHOW lists the names of. TABLES includes views."""

    NAMESPACES = "NAMESPACES"
    TABLES = "TABLES"
    VIEWS = "VIEWS"


# The columns of SHOW that can have the name.
_COLUMNS: Mapping[Named, tuple[str, ...]] = {
    Named.NAMESPACES: ("database name", "namespace", "databaseName"),
    Named.TABLES: ("table name", "tableName"),
    Named.VIEWS: ("view name", "viewName"),
}


@dataclass(frozen=True, slots=True)
class SessionNames:
    """The names of one session, empty while Spark does not run. They take no turn: completion works while a statement runs.

    They raise no error: names that cannot be read are missing.
    """

    engine: StatementEngine
    session: Session

    def catalogs(self) -> Sequence[str]:
        return self._if_ready(lambda: sorted(self.engine.catalogs(self.session.context())))

    def within(self, kind: Named, namespace: Name = ()) -> Sequence[str]:
        """Return the names of a *kind* in *namespace*, which may begin with a catalog; without one in the current one."""
        sql = f"SHOW {kind} IN {sql_name(namespace)}" if namespace else f"SHOW {kind}"
        context, job_id = self.session.context(), uuid.uuid4().hex
        return self._if_ready(
            lambda: texts_of(self.engine.execute(context, sql, job_id=job_id).rows, *_COLUMNS[kind], most=MOST)
        )

    def columns(self, table: Name) -> Sequence[str]:
        context = self.session.context()
        return self._if_ready(lambda: [column.name for column in self.engine.relation(context, table).columns])

    def _if_ready(self, read: Callable[[], list[str]]) -> list[str]:
        try:
            return read() if self.engine.wait_ready(0) else []
        except MtError:
            return []
