"""Shared catalogs: those that statements created, kept in the registry and seen by every session and every refresh."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from mt_core.errors import DefinitionInvalid, IllegalStatus, MtError, RegistryError
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.table import TableDefinition
from mt_core.sql.flink.catalog_options import PREFIX, catalog_settings
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tokens import Token, TokenKind, significant

log = logging.getLogger(__name__)

CatalogSettings = Mapping[str, Mapping[str, str]]
_NAME = {TokenKind.WORD, TokenKind.IDENTIFIER}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The catalogs as they were read last, and the settings of Spark they mean."""

    catalogs: Mapping[str, CreatedCatalog]
    settings: CatalogSettings


class CreatedCatalogs:
    """Reads the registry once and writes through: a registry has one gateway. Safe from any thread.

    `reserved` are the names of the configuration: it wins over the registry, and no statement changes them.
    """

    def __init__(self, registry: Registry, *, reserved: Collection[str] = ()) -> None:
        self._registry, self._reserved = registry, frozenset(reserved)
        self._lock = threading.Lock()
        self._known: _Known | None = None

    def load(self) -> None:
        """Read the registry now instead of at the first question; raises RegistryError."""
        self._read()

    def get(self, name: str) -> CreatedCatalog | None:
        """Return the catalog that a statement created under *name*, None for any other name."""
        return self._read().catalogs.get(name)

    def settings(self) -> CatalogSettings:
        """Return Spark's settings of each catalog by its name; the same object until one is created, altered or dropped."""
        return self._read().settings

    def create(self, catalog: CreatedCatalog) -> None:
        """Keep a new catalog; raises DefinitionInvalid if its name is taken."""
        self.check_changeable(catalog.name, "created")

        def work(tx: Transaction) -> None:
            if any(known.name == catalog.name for known in tx.catalogs.all()):
                raise already_there(catalog.name)
            tx.catalogs.put(catalog)

        self._change(work)

    def alter(self, catalog: CreatedCatalog, *, expected: CreatedCatalog) -> None:
        """Keep *catalog* in place of *expected*; raises DefinitionInvalid when that is not what there is any more."""

        def work(tx: Transaction) -> None:
            if expected not in tx.catalogs.all():
                raise DefinitionInvalid(
                    f"Catalog {catalog.name} was altered or dropped at the same time by somebody else; look at it again."
                )
            tx.catalogs.put(catalog)

        self._change(work)

    def drop(self, name: str) -> None:
        """Forget a catalog; raises IllegalStatus naming the materialized tables that live in it or read from it."""

        def work(tx: Transaction) -> None:
            users = list(_users(tx, name))
            if users:
                raise IllegalStatus(
                    f"Catalog {name} cannot be dropped: {', '.join(users)}. DROP these materialized tables first, or ALTER "
                    "their queries."
                )
            tx.catalogs.delete(name)

        self._change(work)

    def check_changeable(self, name: str, verb: str) -> None:
        """Raise DefinitionInvalid for a name of the configuration, which cannot be *verb* by a statement."""
        if name in self._reserved:
            raise DefinitionInvalid(
                f"Catalog {name} is a setting of the gateway ({PREFIX}{name}) and cannot be {verb} by a statement; "
                "change the gateway's configuration, or use another name."
            )

    def _change(self, work: Callable[[Transaction], None]) -> None:
        def changed(tx: Transaction) -> _Known:
            work(tx)
            return self._understood(tx)

        with self._lock:
            try:
                self._known = in_transaction(self._registry, changed)
            except RegistryError:
                # Whether it happened is uncertain: read again.
                self._known = None
                raise

    def _read(self) -> _Known:
        known = self._known
        if known is None:
            with self._lock:
                known = self._known = self._known or in_transaction(self._registry, self._understood)
        return known

    def _understood(self, tx: Transaction) -> _Known:
        catalogs = {catalog.name: catalog for catalog in tx.catalogs.all() if self._counts(catalog.name)}
        settings = {name: found for name, catalog in catalogs.items() if (found := _settings_of(catalog)) is not None}
        return _Known(catalogs=catalogs, settings=settings)

    def _counts(self, name: str) -> bool:
        if name in self._reserved:
            text = "catalog %s of the registry is hidden by the configuration's of that name"
            log.warning(text, name, extra={"action": "catalog_hidden"})
        return name not in self._reserved


def already_there(name: str) -> DefinitionInvalid:
    """Return the error of a CREATE CATALOG whose name is taken."""
    return DefinitionInvalid(f"Catalog {name} exists already; choose another name, or DROP CATALOG {name} first.")


def _settings_of(catalog: CreatedCatalog) -> Mapping[str, str] | None:
    try:
        return catalog_settings(catalog.name, catalog.options)
    except MtError as error:
        # One that this release does not understand must not keep the others away.
        text = "catalog %s of the registry cannot be used: %s"
        log.warning(text, catalog.name, error, extra={"action": "catalog_unusable"})
        return None


def _users(tx: Transaction, name: str) -> Iterator[str]:
    for table in tx.tables.page():
        if table.identifier.catalog == name:
            yield f"{table.identifier} lives in it"
        elif _reads_from(table.definition, name):
            yield f"{table.identifier} reads from it"


def _reads_from(definition: TableDefinition, name: str) -> bool:
    if f"{PREFIX}{name}" in definition.settings:
        # It has a catalog of that name of its own, from a release in which catalogs were kept with the session.
        return False
    return definition.catalog == name or _names_catalog(definition.expanded_query, name)


def _names_catalog(query: str, name: str) -> bool:
    """Whether *query*, whose relations are all qualified, has a name of three parts or more that begins with *name*."""
    if name.partition("`")[0] not in query:
        # To take thousands of queries apart would keep everybody else out of the registry for seconds.
        return False
    tokens = list(significant(query))
    return any(
        token.kind in _NAME and token.value == name and _is_qualified(tokens[index : index + 5])
        for index, token in enumerate(tokens)
        if index == 0 or tokens[index - 1].text != "."
    )


def _is_qualified(tokens: list[Token]) -> bool:
    return len(tokens) == 5 and [tokens[1].text, tokens[3].text] == [".", "."] and tokens[4].kind in _NAME
