"""Name resolution in a session, and the definitions of the views in its catalogs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from pyspark.sql import SparkSession

from mt_core.model.storage import is_state_table
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_in
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import own_class, state_of
from mt_core.spark.functions.function_sync import functions_of

_NAMES = "freshtable.queries.Names"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view definition.

    `query_columns` are the query columns that the view selects by name. If they are empty, it selects by
    position. `settings` are Spark settings captured when the view was created.
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
        """A hash of everything that determines the view's rows, except for its sources."""
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
    """The name resolution of a session: qualifies names, and looks up objects by full name."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._java = session, own_class(session, _NAMES)
        self._manager = state_of(session).catalogManager()

    def current(self) -> tuple[str, tuple[str, ...]]:
        """Return the current catalog and namespace."""
        namespace = tuple(str(level) for level in self._manager.currentNamespace())
        return str(self._manager.currentCatalog().name()), namespace

    def is_catalog(self, name: str) -> bool:
        """Return whether a catalog of that name is configured, without opening it."""
        return bool(self._manager.isCatalogRegistered(name))

    def default_namespace(self, catalog: str) -> tuple[str, ...]:
        """Return the namespace in which *catalog* resolves names while it is not the current catalog."""
        return tuple(str(level) for level in self._manager.catalog(catalog).defaultNamespace())

    def qualify(self, parts: tuple[str, ...], catalog: str, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name of *parts* if *catalog* and *namespace* are current."""
        full = parts
        if len(parts) == 1:
            full = (catalog, *namespace, *parts)
        elif not self.is_catalog(parts[0]):
            full = (catalog, *parts)
        # Names in Spark's own catalog are in lower case. Other catalogs distinguish `T` and `t`.
        return tuple(map(str.lower, full)) if full[0].lower() == SESSION_CATALOG else full

    def view(self, parts: tuple[str, ...]) -> View | None:
        """Return the view with this full name, or None if it is not a view."""
        if len(parts) < 3:
            return None
        return _view(parts, self._java.view(self._session._jsparkSession, json.dumps(parts)))

    def temporary_view(self, name: str) -> View | None:
        """Return the temporary view with this name, or None if no view with a query text has it."""
        return _view((name,), self._java.temporaryView(self._session._jsparkSession, name))

    def relations(self, namespace: Sequence[str]) -> list[str]:
        """Return the tables and views of *namespace*, and the temporary views, without state tables.

        If *namespace* is empty, the current namespace is used. A catalog that does not support views
        returns only tables. Raises Spark's error if the namespace does not exist or the catalog does not
        support tables.
        """
        catalog, levels = self.current() if not namespace else self._split(tuple(namespace))
        names: list[str] = json.loads(
            self._java.relations(self._session._jsparkSession, json.dumps([catalog, *levels]))
        )
        return [name for name in names if not is_state_table(name)]

    def _split(self, namespace: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Split *namespace* into its catalog, which is the current one by default, and its levels."""
        if self.is_catalog(namespace[0]):
            return namespace[0], namespace[1:]
        return str(self._manager.currentCatalog().name()), namespace

    def relation_exists(self, parts: tuple[str, ...]) -> bool:
        """Return whether a table or view with this full name exists."""
        if self.view(parts) is not None:
            return True
        return bool(self._java.tableExists(self._session._jsparkSession, json.dumps(parts)))

    def property_of(self, parts: tuple[str, ...], key: str) -> str | None:
        """Return a property of the table with this full name, or None if there is no such table."""
        value = self._java.property(self._session._jsparkSession, json.dumps(parts), key)
        return None if value is None else str(value)

    def function(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a user-defined function, or None for a built-in one.

        The full name of a function that all sessions share has a single part.
        """
        catalog, namespace = self.current()
        if len(parts) == 1:
            if parts[0].lower() in functions_of(self._session):
                return (parts[0].lower(),)
            is_built_in = bool(self._java.isBuiltIn(self._session._jsparkSession, parts[0]))
            return None if is_built_in else (catalog, *namespace, *parts)
        qualified = self.qualify(parts, catalog, namespace)
        # Iceberg catalogs have functions such as bucket() in the namespace `system`. `system.builtin` is
        # Spark's.
        return None if qualified[-2].lower() in {"system", "builtin"} else qualified

    def function_digest(self, parts: tuple[str, ...]) -> str:
        """Return a hash of a function's class, resources and text.

        For a function of another catalog than Spark's own, only the name is hashed.
        """
        text = ".".join(parts)
        if len(parts) == 1:
            created = functions_of(self._session).get(parts[0])
            return text if created is None else created.digest
        if parts[0] == SESSION_CATALOG and len(parts) == 3:
            text = self._java.function(self._session._jsparkSession, *parts[1:]) or text
        return sha256(text.encode()).hexdigest()[:32]


def _view(parts: tuple[str, ...], facts: str | None) -> View | None:
    if facts is None:
        return None
    view = json.loads(facts)
    # Views created by old Spark releases have no catalog.
    catalog, *namespace = (
        (parts[:-1] or ("",)) if view["catalog"] is None else (view["catalog"], *view["namespace"])
    )
    return View(
        parts=parts,
        text=view["text"],
        catalog=catalog,
        namespace=tuple(namespace),
        columns=columns_in(view["schema"]),
        query_columns=tuple(view.get("query_columns", ())),
        settings=tuple(sorted(view.get("settings", {}).items())),
    )
