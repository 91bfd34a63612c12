"""Name lookup of a session, and the views of its catalogs with all that their meaning depends on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from pyspark.sql import SparkSession

from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_in
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import own_class, state_of
from mt_core.spark.functions.function_sync import functions_of

_NAMES = "freshtable.queries.Names"


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
        self._session, self._java = session, own_class(session, _NAMES)
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
        return _view(parts, self._java.view(self._session._jsparkSession, json.dumps(parts)))

    def temporary_view(self, name: str) -> View | None:
        """Return the temporary view of that name, None for the name of anything else,
        and of a view without a query.
        """
        return _view((name,), self._java.temporaryView(self._session._jsparkSession, name))

    def relations(self, namespace: Sequence[str]) -> list[str]:
        """Return the tables and views of *namespace*, empty: of the current one, and the temporary views.

        A catalog without views gives its tables alone. Raises Spark's error if there is no such namespace,
        or there are no tables in such a catalog.
        """
        catalog, levels = self.current() if not namespace else self._split(tuple(namespace))
        names: list[str] = json.loads(
            self._java.relations(self._session._jsparkSession, json.dumps([catalog, *levels]))
        )
        return names

    def _split(self, namespace: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Return the catalog of *namespace*, by its first part or the current one, and its levels there."""
        if self.is_catalog(namespace[0]):
            return namespace[0], namespace[1:]
        return str(self._manager.currentCatalog().name()), namespace

    def relation_exists(self, parts: tuple[str, ...]) -> bool:
        """Return whether a table or view of that full name exists."""
        if self.view(parts) is not None:
            return True
        return bool(self._java.tableExists(self._session._jsparkSession, json.dumps(parts)))

    def function(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a function that is not built in, one part for one of all sessions;
        None for one of Spark's.
        """
        catalog, namespace = self.current()
        if len(parts) == 1:
            if parts[0].lower() in functions_of(self._session):
                return (parts[0].lower(),)
            is_built_in = bool(self._java.isBuiltIn(self._session._jsparkSession, parts[0]))
            return None if is_built_in else (catalog, *namespace, *parts)
        qualified = self.qualify(parts, catalog, namespace)
        # Iceberg's catalogs bring functions such as bucket() in the namespace system;
        # `system.builtin` is Spark's own.
        return None if qualified[-2].lower() in {"system", "builtin"} else qualified

    def function_digest(self, parts: tuple[str, ...]) -> str:
        """Return a hash of a function's class, resources and text, if Spark's own catalog has it;
        otherwise of its name.
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
    found = json.loads(facts)
    # Spark keeps no catalog of a view that an old release created.
    catalog, *namespace = (
        (parts[:-1] or ("",)) if found["catalog"] is None else (found["catalog"], *found["namespace"])
    )
    return View(
        parts=parts,
        text=found["text"],
        catalog=catalog,
        namespace=tuple(namespace),
        columns=columns_in(found["schema"]),
        query_columns=tuple(found.get("query_columns", ())),
        settings=tuple(sorted(found.get("settings", {}).items())),
    )
