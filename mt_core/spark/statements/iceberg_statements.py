"""Statements of Spark's that Iceberg's catalogs do not perform: DROP DATABASE … CASCADE and ALTER VIEW … AS,
by others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.base.tokens import significant
from mt_core.errors import TableNotFound
from mt_core.spark.driver.jvm_objects import java_class, java_strings, state_of

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_NO_ALTER_VIEW, _NO_VIEWS = "ALTER VIEW <viewName> AS is not supported", "does not support views"


def emptying(session: SparkSession, catalog: str, levels: tuple[str, ...]) -> Iterator[str]:
    """Yield the statements that drop what a database of an Iceberg catalog holds;
    none for other catalogs, which CASCADE.
    """
    plugin = state_of(session).catalogManager().catalog(catalog)
    if not java_class(session, _CATALOG).isInstance(plugin):
        return
    namespace = java_strings(session, levels)
    if not plugin.namespaceExists(namespace):
        return
    for child in plugin.listNamespaces(namespace):
        yield f"DROP NAMESPACE IF EXISTS {sql_name((catalog, *map(str, child)))} CASCADE"
    for noun, found in (("VIEW", plugin.listViews(namespace)), ("TABLE", plugin.listTables(namespace))):
        for each in found:
            yield (
                f"DROP {noun} IF EXISTS {sql_name((catalog, *map(str, each.namespace()), str(each.name())))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredView:
    """ALTER VIEW … AS: its parsed *plan*, its *text*, and the *parts* of the name of the view."""

    plan: Any
    text: str
    parts: tuple[str, ...]

    @property
    def is_computed(self) -> bool:
        """Whether IDENTIFIER() gives the name: Iceberg finds no view by it."""
        return str(self.plan.children().head().productPrefix()) == "PlanWithUnresolvedIdentifier"

    def is_refused(self, error: Exception) -> bool:
        """Whether Iceberg's catalog refused the statement as such; Spark has analysed the query then,
        and the view exists.

        Raises TableNotFound if it does not: the error says that the catalog had no views at all.
        """
        if _NO_VIEWS in str(error):
            name = display_name(self.parts)
            raise TableNotFound(
                f"ALTER VIEW {name}: there is no such view; SHOW VIEWS lists those there are, "
                f"CREATE VIEW {name} creates it.",
                table=name,
            ) from error
        return _NO_ALTER_VIEW in str(error)

    def statement(self, qualified: Callable[[tuple[str, ...]], tuple[str, ...]]) -> str:
        """Return what to run instead: with the name, or CREATE OR REPLACE VIEW,
        which keeps comment and properties.
        """
        after = next(token.end for token in significant(self.text) if token.keyword == "AS")
        query = self.text[self.text.index(str(self.plan.originalText()), after) :]
        if self.is_computed:
            return f"ALTER VIEW {sql_name(self.parts)} AS {query}"
        return f"CREATE OR REPLACE VIEW {sql_name(qualified(self.parts))} AS {query}"
