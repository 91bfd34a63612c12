"""One transaction on the tables of the registry."""

from __future__ import annotations

from mt_core.model.catalog import CreatedCatalog
from mt_core.model.gateway import GatewayLease
from mt_core.registry.facts import SqlFacts
from mt_core.registry.runs import SqlRuns
from mt_core.registry.schema import CATALOGS, GATEWAYS, TOMBSTONES
from mt_core.registry.statements import Statements
from mt_core.registry.tables import SqlTables
from mt_core.registry.workflows import SqlWorkflows
from mt_core.tables.registry import Tombstone


class SqlTransaction:
    """A `Transaction` that executes *statements*; a change that is refused leaves it usable, with all changes before."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.now = statements.now
        self.tables = SqlTables(statements)
        self.runs = SqlRuns(statements)
        self.workflows = SqlWorkflows(statements)
        self.tombstones = SqlFacts(statements=statements, kind=Tombstone, table=TOMBSTONES, order="dropped_at")
        self.catalogs = SqlFacts(statements=statements, kind=CreatedCatalog, table=CATALOGS)
        self.gateways = SqlFacts(statements=statements, kind=GatewayLease, table=GATEWAYS)
