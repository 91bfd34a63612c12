"""Resolves the names of connector tables in a session's statements, and rewrites plans that use them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import Unsupported
from mt_core.model.connector_table import SPARK_CATALOG, STORED_IN, ConnectorTable, table_named
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.connectors.kafka.source import TopicTable, topic_table
from mt_core.spark.driver.jvm_objects import scala_items, scala_sequence, state_of
from mt_core.spark.queries.views import Names

_WRITES = frozenset({"UpdateTable", "DeleteFromTable", "MergeIntoTable"})
# Commands on the files, partitions or statistics of the table that is their first child.
_ON_STORED = frozenset(
    {
        *("TruncateTable", "AnalyzeTable", "AnalyzeColumn", "ShowPartitions", "RefreshTable"),
        *("RepairTable", "RecoverPartitions", "AddPartitions", "DropPartitions"),
    }
)


class ConnectorNames:
    """Resolves the names of connector tables in a session, which must be active."""

    def __init__(self, session: SparkSession, source: ConnectorSource) -> None:
        self._session, self._source = session, source
        self._names = Names(session)

    def find(self, parts: tuple[str, ...]) -> ConnectorTable | None:
        """Return the connector table with this name, as written, or None if there is none."""
        return self.named(self._names.qualify(parts, *self._names.current())) if self._source() else None

    def named(self, full: tuple[str, ...]) -> ConnectorTable | None:
        """Return the connector table with this full name, or None if there is none.

        Also return None if the table was dropped outside of Freshtable, or if another object uses its name.
        """
        table = table_named(self._source(), full)
        if table is None or full[0] == SPARK_CATALOG:
            return table
        return table if self._names.view(full) is not None else None

    def topic(self, parts: tuple[str, ...]) -> TopicTable | None:
        """Return the Kafka table with this name, as written, or None if there is none."""
        if self._is_temporary(parts):
            return topic_table(self._session, parts[0])
        return topic_of(self.find(parts))

    def public_name(self, full: tuple[str, ...]) -> tuple[str, ...]:
        """Return the user-visible name of the table with the full name *full*.

        A connector table in Spark's own catalog has a different name there.
        """
        if full[:2] != (SPARK_CATALOG, STORED_IN):
            return full
        stored = sql_name(full)
        return next((table.parts for table in self._source().values() if table.spark_name == stored), full)

    def adapted(self, plan: Any) -> Any:
        """Return the parsed *plan* with its target tables renamed to their names in Spark's own catalog.

        Raises Unsupported for changes of rows that connectors do not support.
        """
        if not self._source():
            return plan
        kind = str(plan.productPrefix())
        match kind:
            case "UnresolvedWith":
                return plan.copy(self.adapted(plan.child()), plan.cteRelations(), plan.allowRecursion())
            case "Union" if any(
                str(each.productPrefix()) == "InsertIntoStatement" for each in scala_items(plan.children())
            ):
                return plan.withNewChildren(
                    scala_sequence(
                        self._session, [self.adapted(each) for each in scala_items(plan.children())]
                    )
                )
            case "InsertIntoStatement":
                return self._insert(plan)
            case _ if kind in _WRITES:
                self._refuse(plan, kind)
                return plan
            case _ if kind in _ON_STORED:
                return self._on_stored(plan)
            case _:
                return plan

    def _insert(self, plan: Any) -> Any:
        target = plan.table()
        stored = self._stored(target)
        if stored is None:
            return plan
        table = target.copy(stored, target.options(), target.isStreaming())
        rest = (plan.partitionSpec(), plan.userSpecifiedCols(), plan.query())
        return plan.copy(table, *rest, plan.overwrite(), plan.ifPartitionNotExists(), plan.byName())

    def _on_stored(self, plan: Any) -> Any:
        first, *others = scala_items(plan.children())
        stored = self._stored(first)
        if stored is None:
            return plan
        table = first.copy(stored, first.commandName(), first.productElement(2))
        return plan.withNewChildren(scala_sequence(self._session, [table, *others]))

    def _stored(self, node: Any) -> Any:
        """Return the name that the table of *node* has in Spark's own catalog, as a Scala Seq, or None."""
        if str(node.productPrefix()) not in {
            "UnresolvedRelation",
            "UnresolvedTable",
            "UnresolvedTableOrView",
        }:
            return None
        parts = tuple(map(str, scala_items(node.multipartIdentifier())))
        table = None if self._is_temporary(parts) else self.find(parts)
        if table is None:
            return None
        if table.query:
            raise Unsupported(
                f"Table {display_name(table.parts)}: the connector '{table.connector}' "
                "stores no rows and cannot be the target of this statement, except of a stream; "
                "SET 'execution.runtime-mode' = 'streaming' and read a table as a stream."
            )
        if table.topic is not None:
            raise Unsupported(
                f"Table {display_name(table.parts)}: its records are in Kafka, where only a separate "
                "INSERT INTO adds to them; EXPLAIN only the query."
            )
        if not table.spark_name:
            return None
        return state_of(self._session).sqlParser().parseMultipartIdentifier(table.spark_name)

    def _refuse(self, plan: Any, kind: str) -> None:
        node = plan.children().head()
        while str(node.productPrefix()) == "SubqueryAlias":
            node = node.child()
        if str(node.productPrefix()) != "UnresolvedRelation":
            return
        parts = tuple(map(str, scala_items(node.multipartIdentifier())))
        table = None if self._is_temporary(parts) else self.find(parts)
        if table is not None:
            verb = kind.removesuffix("Table").removesuffix("From").removesuffix("Into").upper()
            raise Unsupported(
                f"{verb} of {display_name(table.parts)}: the connector '{table.connector}' only adds rows; "
                "INSERT INTO it, or store the rows in an Iceberg table."
            )

    def _is_temporary(self, parts: tuple[str, ...]) -> bool:
        return len(parts) == 1 and bool(
            state_of(self._session).catalog().getRawTempView(parts[0]).isDefined()
        )


def topic_of(table: ConnectorTable | None) -> TopicTable | None:
    """Return *table* as a Kafka table, or None if it is not one."""
    if table is None or table.topic is None:
        return None
    return TopicTable(parts=table.parts, topic=table.topic, watermark=table.watermark)
