"""Registered tables: the names that statements about other relations must not touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mt_core.identifiers import Namespace
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Registry, Transaction, in_transaction


@dataclass(frozen=True, slots=True)
class RegisteredTables:
    """Looks names up in the registry. Raises RegistryError; thread-safe."""

    registry: Registry

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, None if none is."""
        return in_transaction(
            self.registry, lambda tx: next((each for each in identifiers if tx.tables.named(each) is not None), None)
        )

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the tables of a namespace and of those below it, however its levels are written."""
        place = "".join(f"{level}." for level in namespace)

        def inside(_tx: Transaction, tables: Iterable[MaterializedTable]) -> list[TableIdentifier]:
            names = [table.identifier for table in tables if table.identifier.catalog == catalog]
            return [each for each in names if "".join(f"{level}." for level in each.namespace).startswith(place)]

        return on_each_page(self.registry, inside)
