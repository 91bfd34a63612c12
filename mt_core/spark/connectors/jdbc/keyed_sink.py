"""The sink for JDBC tables with a primary key: a batch is one transaction that upserts and deletes by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid
from mt_core.model.connector_table import table_named
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.connectors.jdbc.upsert_texts import KeyedTable
from mt_core.spark.connectors.key_changes import KeyChanges, computed_changes
from mt_core.spark.connectors.repeating import RepeatingSink
from mt_core.spark.connectors.sink import stored
from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.connectors.targets import temporary_tables
from mt_core.spark.driver.jvm_objects import java_map, own_class, static_member
from mt_core.sql.connectors.kinds import source_of

_DIALECT = "org.apache.spark.sql.jdbc.JdbcDialects.get"


class KeyedJdbcSink(RepeatingSink):
    """The sink of one attempt of a job that writes a JDBC table with a primary key.

    Raises StreamBroken if the table was dropped.
    """

    guarantee = "each batch in one transaction, by key; a batch that is repeated changes nothing"
    accepts_changelog = True

    def open(self) -> None:
        """Raise StreamBroken if the table was dropped. There is no state to take over."""
        self._options()

    def write(self, rows: DataFrame, batch: int) -> int:
        options = self._options()
        rows = stored(rows, self._target.stored_name)
        keys = {key.lower() for key in self._target.keys}
        named = [name for name in rows.columns if name.lower() in keys]
        with computed_changes(rows, named, display_name(self._target.table)) as changes:
            if changes is None:
                return 0
            columns = [name for name in rows.columns if name != ROW_KIND]
            run_changes(changes, options, self._table(rows.sparkSession, options, columns, named))
            return changes.count

    def _table(
        self, session: SparkSession, options: Mapping[str, str], columns: Sequence[str], keys: Sequence[str]
    ) -> KeyedTable:
        """Return the table, with its column names spelled as in the database."""
        present = {
            name.lower(): name for name in session.read.format("jdbc").options(**options).load().columns
        }
        gone = [name for name in columns if name.lower() not in present]
        if gone:
            raise DefinitionInvalid(
                f"Table {display_name(self._target.table)}: table {options['dbtable']} of the database has "
                f"no column {', '.join(gone)}; it has {', '.join(present.values())}."
            )
        return KeyedTable(
            url=options["url"],
            name=options["dbtable"],
            columns=tuple(present[name.lower()] for name in columns),
            keys=tuple(present[key.lower()] for key in keys),
            quoted=static_member(session, _DIALECT)(options["url"]).quoteIdentifier,
        )

    def _options(self) -> Mapping[str, str]:
        """Return the table's options under the names that Spark uses."""
        name = self._target.table
        if len(name) == 1:
            created = temporary_tables(self._attempt.definition.temporary).get(name[0].lower())
            written = None if created is None else created.options
        else:
            table = table_named(self._attempt.connectors(), name)
            written = (
                table.options if table is not None and table.stored_name == self._target.stored_name else None
            )
        if written is None:
            raise StreamBroken(f"Table {display_name(name)}, which the job writes, was dropped.")
        return source_of(display_name(name), written).options


def run_changes(changes: KeyChanges, options: Mapping[str, str], table: KeyedTable) -> None:
    """Apply *changes* in one transaction. *table* must have its columns in the same order as *changes*."""
    session = changes.changes.session
    rows, gone = changes.rows().frame, changes.deleted().frame
    deleted = changes.all_keys().frame if table.deletes_first else gone
    texts, frames = (static_member(session, "java.util.ArrayList")() for _ in range(2))
    for text, frame in ((table.deletes, deleted), (table.inserts, rows)):
        texts.add(text)
        frames.add(frame._jdf)
    written = own_class(session, "freshtable.operators.JdbcChanges")
    written.run(java_map(session, options), texts, frames)
