"""Views: found in any catalog, and read with all that their meaning depends on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pyspark.sql import SparkSession

from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.jvm_objects import java_strings, jvm_of, session_state, spark_identifier

_VIEW_CATALOG = "org.apache.spark.sql.connector.catalog.ViewCatalog"
_GLOBAL_TEMP = "global_temp"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view. `query_columns` are the columns it takes from its query by name (empty: by position)."""

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
    """How a session looks up names: what an unqualified one means, and whether a qualified one is a view."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._manager = session_state(session).catalogManager()

    def current(self) -> tuple[str, tuple[str, ...]]:
        """Return the current catalog and namespace."""
        return str(self._manager.currentCatalog().name()), tuple(
            str(level) for level in self._manager.currentNamespace()
        )

    def is_catalog(self, name: str) -> bool:
        """Return whether *name* is that of a catalog."""
        return bool(self._manager.isCatalogRegistered(name))

    def default_namespace(self, catalog: str) -> tuple[str, ...]:
        """Return the namespace in which *catalog* looks up names while another catalog is the current one."""
        return tuple(str(level) for level in self._manager.catalog(catalog).defaultNamespace())

    def qualify(self, parts: tuple[str, ...], catalog: str, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name which *parts* means where *catalog* and *namespace* are current."""
        if len(parts) == 1:
            full = (catalog, *namespace, *parts)
        else:
            full = parts if self._manager.isCatalogRegistered(parts[0]) else (catalog, *parts)
        # Spark's own catalog knows lower case alone; others tell `T` from `t`.
        return tuple(map(str.lower, full)) if full[0].lower() == SESSION_CATALOG else full

    def is_global_temporary(self, parts: tuple[str, ...]) -> bool:
        return len(parts) == 2 and parts[0].lower() == _GLOBAL_TEMP

    def view(self, parts: tuple[str, ...]) -> View | None:
        """Return the view of that full name, or None if it is something else."""
        if len(parts) < 3:
            return None
        plugin = self._manager.catalog(parts[0])
        jvm = jvm_of(self._session)
        if jvm.java.lang.Class.forName(_VIEW_CATALOG).isInstance(plugin):
            identifier = spark_identifier(self._session, parts[1:])
            return _catalog_view(parts, plugin.loadView(identifier)) if plugin.viewExists(identifier) else None
        return self._session_view(parts) if parts[0] == SESSION_CATALOG and len(parts) == 3 else None

    def relation_exists(self, parts: tuple[str, ...]) -> bool:
        """Return whether a table or view of that full name exists."""
        if self.view(parts) is not None:
            return True
        plugin = self._manager.catalog(parts[0])
        return bool(plugin.tableExists(spark_identifier(self._session, parts[1:])))

    def namespace_exists(self, catalog: str, namespace: tuple[str, ...]) -> bool:
        """Return whether a catalog has a namespace."""
        return bool(self._manager.catalog(catalog).namespaceExists(java_strings(self._session, namespace)))

    def function(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a function that is not built in, or None for one that is."""
        catalog, namespace = self.current()
        if len(parts) == 1:
            return None if self._is_built_in(parts[0]) else (catalog, *namespace, *parts)
        qualified = self.qualify(parts, catalog, namespace)
        # Iceberg's catalogs bring functions such as bucket() in the namespace system; `system.builtin` is Spark's own.
        return None if qualified[-2].lower() in {"system", "builtin"} else qualified

    def function_digest(self, parts: tuple[str, ...]) -> str:
        """Return a hash of what is known of a function: its class, resources and text."""
        return sha256(self._function_text(parts).encode()).hexdigest()[:32]

    def _function_text(self, parts: tuple[str, ...]) -> str:
        if parts[0] == SESSION_CATALOG and len(parts) == 3:
            catalog = session_state(self._session).catalog().externalCatalog()
            if catalog.functionExists(parts[1], parts[2]):
                return str(catalog.getFunction(parts[1], parts[2]).toString())
        return ".".join(parts)

    def _is_built_in(self, name: str) -> bool:
        catalog = session_state(self._session).catalog()
        return bool(
            catalog.lookupBuiltinOrTempFunction(name).isDefined()
            or catalog.lookupBuiltinOrTempTableFunction(name).isDefined()
        )

    def _session_view(self, parts: tuple[str, ...]) -> View | None:
        catalog, jvm = session_state(self._session).catalog(), jvm_of(self._session)
        identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(parts[2], jvm.scala.Option.apply(parts[1]))
        if not catalog.tableExists(identifier):
            return None
        table = catalog.getTableRawMetadata(identifier)
        return _session_catalog_view(parts, table) if table.tableType().name() == "VIEW" else None


def _catalog_view(parts: tuple[str, ...], view: Any) -> View:
    return View(
        parts=parts,
        text=view.query(),
        catalog=view.currentCatalog() or parts[0],
        namespace=tuple(str(level) for level in view.currentNamespace()),
        columns=columns_of(view.schema()),
    )


def _session_catalog_view(parts: tuple[str, ...], table: Any) -> View:
    context = _texts(table.viewCatalogAndNamespace()) or parts[:-1]
    settings = table.viewSQLConfigs()
    keys = _texts(settings.keys().toSeq())
    return View(
        parts=parts,
        text=table.viewText().get(),
        catalog=context[0],
        namespace=context[1:],
        columns=columns_of(table.schema()),
        query_columns=_texts(table.viewQueryColumnNames()),
        settings=tuple(sorted((key, str(settings.apply(key))) for key in keys)),
    )


def _texts(sequence: Any) -> tuple[str, ...]:
    return tuple(str(sequence.apply(index)) for index in range(sequence.size()))
