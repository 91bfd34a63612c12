"""Replacements for Spark statements that Iceberg's catalogs do not support.

These are DROP DATABASE … CASCADE and ALTER VIEW … AS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.base.tokens import significant
from mt_core.errors import TableNotFound
from mt_core.model.storage import is_state_table
from mt_core.spark.driver.jvm_objects import java_class, java_strings, state_of

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_NO_ALTER_VIEW, _NO_VIEWS = "ALTER VIEW <viewName> AS is not supported", "does not support views"


def emptying(session: SparkSession, catalog: str, levels: tuple[str, ...]) -> Iterator[str]:
    """Yield the statements that drop the contents of an Iceberg database.

    Nothing is yielded for other catalogs, because they support CASCADE.
    """
    plugin = state_of(session).catalogManager().catalog(catalog)
    if not java_class(session, _CATALOG).isInstance(plugin):
        return
    namespace = java_strings(session, levels)
    if not plugin.namespaceExists(namespace):
        return
    for child in plugin.listNamespaces(namespace):
        yield f"DROP NAMESPACE IF EXISTS {sql_name((catalog, *map(str, child)))} CASCADE"
    for noun, identifiers in (("VIEW", plugin.listViews(namespace)), ("TABLE", plugin.listTables(namespace))):
        for each in identifiers:
            yield (
                f"DROP {noun} IF EXISTS {sql_name((catalog, *map(str, each.namespace()), str(each.name())))}"
            )


def state_drops(
    session: SparkSession, catalog: str, levels: tuple[str, ...], *, is_cascade: bool
) -> Iterator[str]:
    """Yield the statements that drop the state tables of an Iceberg database before it is dropped.

    Their materialized tables have been dropped before. Without CASCADE, nothing is yielded if the database
    has other contents, because then it is not dropped.
    """
    plugin = state_of(session).catalogManager().catalog(catalog)
    namespace = java_strings(session, levels)
    if not java_class(session, _CATALOG).isInstance(plugin) or not plugin.namespaceExists(namespace):
        return
    tables = [str(each.name()) for each in plugin.listTables(namespace)]
    states = [name for name in tables if is_state_table(name)]
    if not states:
        return
    if is_cascade or (
        states == tables and not [*plugin.listNamespaces(namespace)] and not [*plugin.listViews(namespace)]
    ):
        for name in states:
            yield f"DROP TABLE IF EXISTS {sql_name((catalog, *levels, name))} PURGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredView:
    """An ALTER VIEW … AS statement: its parsed *plan*, its *text*, and the *parts* of the view's name."""

    plan: Any
    text: str
    parts: tuple[str, ...]

    @property
    def is_computed(self) -> bool:
        """True if the name is an IDENTIFIER() clause, which Iceberg does not resolve."""
        return str(self.plan.children().head().productPrefix()) == "PlanWithUnresolvedIdentifier"

    def is_refused(self, error: Exception) -> bool:
        """Return whether Iceberg's catalog refused the statement as unsupported.

        Spark has then analysed the query, and the view exists. Raises TableNotFound if the view does not
        exist. In this case, Iceberg's error says that the catalog does not support views.
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
        """Return the replacement: the statement with a plain name, or CREATE OR REPLACE VIEW.

        Both preserve the view's comment and properties.
        """
        after = next(token.end for token in significant(self.text) if token.keyword == "AS")
        query = self.text[self.text.index(str(self.plan.originalText()), after) :]
        if self.is_computed:
            return f"ALTER VIEW {sql_name(self.parts)} AS {query}"
        return f"CREATE OR REPLACE VIEW {sql_name(qualified(self.parts))} AS {query}"
