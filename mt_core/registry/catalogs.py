"""The created catalogs in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from mt_core.model.catalog import CreatedCatalog
from mt_core.registry.rows import catalog_of, catalog_row
from mt_core.registry.schema import CATALOGS
from mt_core.registry.statements import Statements


class SqlCatalogs:
    """A `StoredCatalogs`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def all(self) -> Sequence[CreatedCatalog]:
        result = self._statements.execute(select(CATALOGS).order_by(CATALOGS.c.name))
        return [catalog_of(row) for row in result.mappings()]

    def put(self, catalog: CreatedCatalog) -> None:
        self.delete(catalog.name)
        self._statements.insert(CATALOGS, catalog_row(catalog))

    def delete(self, name: str) -> None:
        self._statements.execute(delete(CATALOGS).where(CATALOGS.c.name == name))
