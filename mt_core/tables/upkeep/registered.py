"""Registered tables: which names the registry has, for those who must keep off them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mt_core.identifiers import Namespace
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Registry, Transaction, in_transaction


class RegisteredTables:
    """Looks names up in the registry. Raises RegistryError; safe from any thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, None if none is."""

        def find(tx: Transaction) -> TableIdentifier | None:
            return next((each for each in identifiers if tx.tables.named(each) is not None), None)

        return in_transaction(self._registry, find)

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the tables of a namespace and of those below it, however its levels are written."""
        place = ".".join(namespace)

        def matching(_tx: Transaction, tables: Iterable[MaterializedTable]) -> list[TableIdentifier]:
            return [each.identifier for each in tables if _lies_in(each.identifier, catalog, place)]

        return on_each_page(self._registry, matching)


def _lies_in(identifier: TableIdentifier, catalog: str, place: str) -> bool:
    its_place = ".".join(identifier.namespace)
    return identifier.catalog == catalog and (not place or its_place == place or its_place.startswith(f"{place}."))
