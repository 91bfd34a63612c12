"""The names that a session can see, read from its engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mt_core.base.identifiers import sql_name
from mt_core.errors import MtError
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.ports import CatalogEngine
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import texts_of
from mt_core.sql.statements import Name

MOST = 5000


class Named(StrEnum):
    """The kinds of names that SHOW lists. TABLES includes views."""

    NAMESPACES = "NAMESPACES"
    TABLES = "TABLES"
    VIEWS = "VIEWS"


_SYSTEM_FUNCTIONS = "SHOW SYSTEM FUNCTIONS"
# The column of SHOW's result that has the name. It differs between catalogs.
_COLUMNS: Mapping[Named, tuple[str, ...]] = {
    Named.NAMESPACES: ("database name", "namespace", "databaseName"),
    Named.TABLES: ("table name", "tableName"),
    Named.VIEWS: ("view name", "viewName"),
}


@dataclass(frozen=True, slots=True)
class SessionNames:
    """The names that one session can see; all lists are empty while Spark is not running.

    The methods do not take the session's turn, so completion works while a statement runs. They never raise
    an error; names that cannot be read are omitted. `system` caches the names of Spark's built-in functions
    for all sessions.
    """

    engine: CatalogEngine
    session: Session
    shared: CreatedFunctions
    system: list[str]

    def catalogs(self) -> Sequence[str]:
        return self._if_ready(lambda: sorted(self.engine.catalogs(self.session.context())))

    def within(self, kind: Named, namespace: Name = ()) -> Sequence[str]:
        """Return the names of all objects of *kind* in *namespace*, which may begin with a catalog.

        An empty *namespace* means the current one.
        """
        return self._shown(
            f"SHOW {kind} IN {sql_name(namespace)}" if namespace else f"SHOW {kind}", *_COLUMNS[kind]
        )

    def system_functions(self) -> Sequence[str]:
        """Return the names of Spark's built-in functions, without operators. They are read only once."""
        if not self.system:
            self.system.extend(filter(str.isidentifier, self._shown(_SYSTEM_FUNCTIONS, "function")))
        return self.system

    def functions(self) -> Sequence[str]:
        """Return the names of the shared functions and of this session's temporary functions."""
        context = self.session.context()
        return self._if_ready(
            lambda: sorted({*self.shared.all(), *self.engine.session_state(context).functions})
        )

    def columns(self, table: Name) -> Sequence[str]:
        context = self.session.context()
        return self._if_ready(
            lambda: [column.name for column in self.engine.relation(context, table).columns]
        )

    def _shown(self, sql: str, *columns: str) -> list[str]:
        context, job_id = self.session.context(), uuid.uuid4().hex
        return self._if_ready(
            lambda: texts_of(self.engine.execute(context, sql, job_id=job_id).rows, *columns, most=MOST)
        )

    def _if_ready(self, read: Callable[[], list[str]]) -> list[str]:
        try:
            return read() if self.engine.wait_ready(0) else []
        except MtError:
            return []
