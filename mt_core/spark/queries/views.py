"""Name lookup of a session, and the views of its catalogs with all that their meaning depends on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pyspark.sql import SparkSession

from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import (
    java_class,
    java_strings,
    scala_items,
    spark_identifier,
    state_of,
    static_member,
    texts,
    texts_of_each,
)
from mt_core.spark.functions.function_sync import functions_of

_CATALOGS = "org.apache.spark.sql.connector.catalog"
_NAME = f"{_CATALOGS}.Identifier.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view. `query_columns` are the columns it takes from its query by name (empty: by position).

    `settings` are the values of Spark's settings at its creation.
    """

    parts: tuple[str, ...]
    text: str
    catalog: str
    namespace: tuple[str, ...]
    columns: tuple[Column, ...]
    query_columns: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Return a hash of everything the view's rows depend on besides its sources."""
        facts = [
            self.text,
            self.catalog,
            list(self.namespace),
            [[column.name, column.type] for column in self.columns],
            list(self.query_columns),
            [list(setting) for setting in self.settings],
        ]
        return sha256(json.dumps(facts).encode()).hexdigest()[:32]


class Names:
    """The names that a session can use: the full name of an unqualified one, and the object of a full one."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._manager = state_of(session).catalogManager()

    def current(self) -> tuple[str, tuple[str, ...]]:
        """Return the current catalog and namespace."""
        namespace = tuple(str(level) for level in self._manager.currentNamespace())
        return str(self._manager.currentCatalog().name()), namespace

    def is_catalog(self, name: str) -> bool:
        """Return whether a catalog of that name is configured; opens none."""
        return bool(self._manager.isCatalogRegistered(name))

    def default_namespace(self, catalog: str) -> tuple[str, ...]:
        """Return the namespace in which *catalog* looks up names while another catalog is the current one."""
        return tuple(str(level) for level in self._manager.catalog(catalog).defaultNamespace())

    def qualify(self, parts: tuple[str, ...], catalog: str, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name of *parts* where *catalog* and *namespace* are current."""
        full = parts
        if len(parts) == 1:
            full = (catalog, *namespace, *parts)
        elif not self.is_catalog(parts[0]):
            full = (catalog, *parts)
        # Names in Spark's own catalog are in lower case; other catalogs distinguish `T` and `t`.
        return tuple(map(str.lower, full)) if full[0].lower() == SESSION_CATALOG else full

    def view(self, parts: tuple[str, ...]) -> View | None:
        """Return the view of that full name, None for the name of anything else."""
        if len(parts) < 3:
            return None
        plugin = self._manager.catalog(parts[0])
        if self._has_views(plugin):
            identifier = spark_identifier(self._session, parts[1:])
            return _catalog_view(parts, plugin.loadView(identifier)) if plugin.viewExists(identifier) else None
        if parts[0] != SESSION_CATALOG or len(parts) != 3:
            return None
        catalog = state_of(self._session).catalog()
        database = static_member(self._session, "scala.Option.apply")(parts[1])
        identifier = static_member(self._session, "org.apache.spark.sql.catalyst.TableIdentifier")(parts[2], database)
        table = catalog.getTableRawMetadata(identifier) if catalog.tableExists(identifier) else None
        is_view = table is not None and table.tableType().name() == "VIEW"
        return _session_catalog_view(parts, table) if is_view else None

    def temporary_view(self, name: str) -> View | None:
        """Return the temporary view of that name, None for the name of anything else, and of a view without a query."""
        view = state_of(self._session).catalog().getRawTempView(name)
        if not view.isDefined() or not view.get().tableMeta().viewText().isDefined():
            return None
        return _session_catalog_view((name,), view.get().tableMeta())

    def relations(self, namespace: Sequence[str]) -> list[str]:
        """Return the tables and views of *namespace*, empty: of the current one, and the temporary views.

        A catalog without views gives its tables alone. Raises Spark's error if there is no such namespace, or there are no
        tables in such a catalog.
        """
        catalog, levels = self.current() if not namespace else self._split(tuple(namespace))
        plugin, within = self._manager.catalog(catalog), java_strings(self._session, levels)
        table_catalog = static_member(self._session, f"{_CATALOGS}.CatalogV2Implicits.CatalogHelper")(plugin)
        names = texts_of_each(self._session, table_catalog.asTableCatalog().listTables(within), _NAME)
        if self._has_views(plugin):
            names += texts_of_each(self._session, plugin.listViews(within), _NAME)
            as_java = static_member(self._session, "scala.jdk.javaapi.CollectionConverters.asJava")
            names += texts(self._session, as_java(state_of(self._session).catalog().getTempViewNames()))
        return names

    def _split(self, namespace: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Return the catalog of *namespace*, by its first part or the current one, and its levels there."""
        if self.is_catalog(namespace[0]):
            return namespace[0], namespace[1:]
        return str(self._manager.currentCatalog().name()), namespace

    def _has_views(self, plugin: Any) -> bool:
        return bool(java_class(self._session, f"{_CATALOGS}.ViewCatalog").isInstance(plugin))

    def relation_exists(self, parts: tuple[str, ...]) -> bool:
        """Return whether a table or view of that full name exists."""
        if self.view(parts) is not None:
            return True
        plugin = self._manager.catalog(parts[0])
        return bool(plugin.tableExists(spark_identifier(self._session, parts[1:])))

    def function(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a function that is not built in, one part for one of all sessions; None for one of Spark's."""
        catalog, namespace = self.current()
        if len(parts) == 1:
            if parts[0].lower() in functions_of(self._session):
                return (parts[0].lower(),)
            functions = state_of(self._session).catalog()
            is_built_in = (
                functions.lookupBuiltinOrTempFunction(parts[0]).isDefined()
                or functions.lookupBuiltinOrTempTableFunction(parts[0]).isDefined()
            )
            return None if is_built_in else (catalog, *namespace, *parts)
        qualified = self.qualify(parts, catalog, namespace)
        # Iceberg's catalogs bring functions such as bucket() in the namespace system; `system.builtin` is Spark's own.
        return None if qualified[-2].lower() in {"system", "builtin"} else qualified

    def function_digest(self, parts: tuple[str, ...]) -> str:
        """Return a hash of a function's class, resources and text, if Spark's own catalog has it; otherwise of its name."""
        text = ".".join(parts)
        if len(parts) == 1:
            created = functions_of(self._session).get(parts[0])
            return text if created is None else created.digest
        if parts[0] == SESSION_CATALOG and len(parts) == 3:
            catalog = state_of(self._session).catalog().externalCatalog()
            if catalog.functionExists(parts[1], parts[2]):
                text = str(catalog.getFunction(parts[1], parts[2]).toString())
        return sha256(text.encode()).hexdigest()[:32]


def _catalog_view(parts: tuple[str, ...], view: Any) -> View:
    return View(
        parts=parts,
        text=view.query(),
        catalog=view.currentCatalog() or parts[0],
        namespace=tuple(str(level) for level in view.currentNamespace()),
        columns=columns_of(view.schema()),
    )


def _session_catalog_view(parts: tuple[str, ...], table: Any) -> View:
    catalog, *namespace = tuple(map(str, scala_items(table.viewCatalogAndNamespace()))) or parts[:-1] or ("",)
    settings = table.viewSQLConfigs()
    keys = map(str, scala_items(settings.keys().toSeq()))
    return View(
        parts=parts,
        text=table.viewText().get(),
        catalog=catalog,
        namespace=tuple(namespace),
        columns=columns_of(table.schema()),
        query_columns=tuple(map(str, scala_items(table.viewQueryColumnNames()))),
        settings=tuple(sorted((key, str(settings.apply(key))) for key in keys)),
    )
