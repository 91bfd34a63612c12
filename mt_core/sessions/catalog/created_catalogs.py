"""Catalogs that statements created, stored in the registry and visible to every session and refresh."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from mt_core.base.tokens import TokenKind, significant
from mt_core.errors import DefinitionInvalid, IllegalStatus, MtError, RegistryError
from mt_core.model.catalog import CatalogAbilities, CreatedCatalog
from mt_core.sql.connectors.catalog_options import PREFIX, catalog_settings
from mt_core.tables.registry import Registry, Transaction, in_transaction

log = logging.getLogger(__name__)

CatalogSettings = Mapping[str, Mapping[str, str]]
_NAME = {TokenKind.WORD, TokenKind.IDENTIFIER}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalogs:
    """The cached catalogs, and the Spark settings that open them."""

    catalogs: Mapping[str, CreatedCatalog]
    settings: CatalogSettings


class CreatedCatalogs:
    """The created catalogs in the registry, in a write-through cache. Thread-safe.

    Only this gateway writes to the registry. `reserved` are the names of configured catalogs. They hide
    catalogs of the same name in the registry, and statements cannot change them.
    """

    def __init__(self, registry: Registry, *, reserved: Collection[str] = ()) -> None:
        self._registry, self._reserved = registry, frozenset(reserved)
        self._lock = threading.Lock()
        self._catalogs: _Catalogs | None = None
        # Those of configured catalogs. A start of the gateway may change the options of these catalogs, and
        # the servers behind them, so the registry does not keep their abilities.
        self._abilities: dict[str, CatalogAbilities] = {}

    def load(self) -> _Catalogs:
        """Return the catalogs, which the first call loads. Raises RegistryError."""
        catalogs = self._catalogs
        if catalogs is None:
            with self._lock:
                catalogs = self._catalogs = self._catalogs or in_transaction(self._registry, self._usable)
        return catalogs

    def get(self, name: str) -> CreatedCatalog | None:
        """Return the created catalog *name*, or None if there is none."""
        return self.load().catalogs.get(name)

    def settings(self) -> CatalogSettings:
        """Return Spark's settings for each catalog, by catalog name.

        The object stays the same until a catalog is created, altered or dropped.
        """
        return self.load().settings

    def abilities(self, name: str) -> CatalogAbilities | None:
        """Return what a catalog can do with tables, or None if it was not probed with its current options."""
        catalog = self.get(name)
        return self._abilities.get(name) if catalog is None else catalog.abilities

    def keep_abilities(self, name: str, abilities: CatalogAbilities) -> None:
        """Store what a catalog can do with tables, for as long as its options stay the same."""
        catalog = self.get(name)
        if catalog is None:
            self._abilities[name] = abilities
            return

        def work(tx: Transaction) -> None:
            if catalog in tx.catalogs.all():
                tx.catalogs.put(replace(catalog, abilities=abilities))

        self._change(work)

    def create(self, catalog: CreatedCatalog) -> None:
        """Store a new catalog. Raises DefinitionInvalid if its name is taken."""
        self.check_changeable(catalog.name, "created")

        def work(tx: Transaction) -> None:
            if any(each.name == catalog.name for each in tx.catalogs.all()):
                raise already_there(catalog.name)
            tx.catalogs.put(catalog)

        self._change(work)

    def alter(self, catalog: CreatedCatalog, *, expected: CreatedCatalog) -> None:
        """Replace *expected* by *catalog*.

        Raises DefinitionInvalid if another statement altered or dropped the catalog in the meantime.
        """

        def work(tx: Transaction) -> None:
            if expected not in tx.catalogs.all():
                raise DefinitionInvalid(
                    f"Catalog {catalog.name} was altered or dropped at the same time by another "
                    "statement; check it with SHOW CREATE CATALOG, then try again."
                )
            tx.catalogs.put(catalog)

        self._change(work)

    def drop(self, name: str) -> None:
        """Delete a catalog.

        Raises IllegalStatus naming the materialized tables that are in it or read from it.
        """

        def work(tx: Transaction) -> None:
            users = list(_users(tx, name))
            if users:
                raise IllegalStatus(
                    f"Catalog {name} cannot be dropped: {', '.join(users)}. "
                    "DROP these materialized tables first, or ALTER their queries."
                )
            tx.catalogs.delete(name)

        self._change(work)

    def check_changeable(self, name: str, verb: str) -> None:
        """Raise DefinitionInvalid if *name* is a configured catalog, which statements cannot change.

        *verb* completes the message: "cannot be created", for example.
        """
        if name in self._reserved:
            raise DefinitionInvalid(
                f"Catalog {name} is a setting of the gateway ({PREFIX}{name}) and cannot be {verb} by a "
                "statement; change the gateway's configuration, or use another name."
            )

    def _change(self, work: Callable[[Transaction], None]) -> None:
        def changed(tx: Transaction) -> _Catalogs:
            work(tx)
            return self._usable(tx)

        with self._lock:
            try:
                self._catalogs = in_transaction(self._registry, changed)
            except RegistryError:
                # The transaction may have committed, so load the catalogs again on the next call.
                self._catalogs = None
                raise

    def _usable(self, tx: Transaction) -> _Catalogs:
        catalogs: dict[str, CreatedCatalog] = {}
        settings: dict[str, Mapping[str, str]] = {}
        for catalog in tx.catalogs.all():
            if catalog.name in self._reserved:
                text = "catalog %s of the registry is hidden by a configured catalog with the same name"
                log.warning(text, catalog.name, extra={"action": "catalog_hidden"})
                continue
            catalogs[catalog.name] = catalog
            try:
                settings[catalog.name] = catalog_settings(catalog.name, catalog.options)
            except MtError as error:
                # A catalog that this release does not support must not make the others unusable.
                text = "catalog %s of the registry cannot be used: %s"
                log.warning(text, catalog.name, error, extra={"action": "catalog_unusable"})
        return _Catalogs(catalogs=catalogs, settings=settings)


def already_there(name: str) -> DefinitionInvalid:
    """Return the error of a CREATE CATALOG whose name is taken."""
    return DefinitionInvalid(
        f"Catalog {name} exists already; choose another name, or DROP CATALOG {name} first."
    )


def _users(tx: Transaction, name: str) -> Iterator[str]:
    """Yield a description of each materialized table that uses the catalog."""
    for table in tx.tables.page():
        definition = table.definition
        if table.identifier.catalog == name:
            yield f"{table.identifier} is in it"
        elif f"{PREFIX}{name}" in definition.settings:
            # The session that defined it had configured a catalog of that name.
            continue
        elif definition.catalog == name or _names_catalog(definition.expanded_query, name):
            yield f"{table.identifier} reads from it"


def _names_catalog(query: str, name: str) -> bool:
    """Return whether *query*, whose relations are fully qualified, contains a name in catalog *name*."""
    if name.partition("`")[0] not in query:
        # Tokenizing thousands of queries would block other transactions for seconds.
        return False
    tokens = list(significant(query))
    for index in range(len(tokens) - 4):
        first, dot, _, second_dot, third = tokens[index : index + 5]
        begins = first.kind in _NAME and first.value == name and (index == 0 or tokens[index - 1].text != ".")
        if begins and dot.text == second_dot.text == "." and third.kind in _NAME:
            return True
    return False
