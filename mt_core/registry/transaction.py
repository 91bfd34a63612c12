"""One transaction on the tables of the registry."""

from __future__ import annotations

from sqlalchemy import Connection

from mt_core.clock import Clock
from mt_core.registry.catalogs import SqlCatalogs
from mt_core.registry.gateways import SqlGateways
from mt_core.registry.runs import SqlRuns
from mt_core.registry.statements import Statements
from mt_core.registry.tables import SqlTables
from mt_core.registry.workflows import SqlWorkflows


class SqlTransaction:
    """A `Transaction` over *connection*; a change that is refused leaves it usable, with all changes before."""

    def __init__(self, connection: Connection, *, name: str, clock: Clock | None) -> None:
        statements = Statements(connection, name=name, clock=clock)
        self.now = statements.now
        self.tables = SqlTables(statements)
        self.runs = SqlRuns(statements)
        self.workflows = SqlWorkflows(statements)
        self.catalogs = SqlCatalogs(statements)
        self.gateways = SqlGateways(statements)
