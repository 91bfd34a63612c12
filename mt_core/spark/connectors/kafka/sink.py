"""The sinks for Kafka topics: a batch is sent, and sent again after a failure."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mt_core.base.identifiers import display_name, sql_name
from mt_core.model.connector_table import table_named
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.spark.connectors.kafka.insert import write_records
from mt_core.spark.connectors.key_changes import computed_changes
from mt_core.spark.connectors.repeating import RepeatingSink
from mt_core.spark.connectors.sink import stored
from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.connectors.targets import temporary_tables


class KafkaSink(RepeatingSink):
    """The sink of one attempt of a job that writes a Kafka table. Raises StreamBroken after a DROP."""

    guarantee = "at least once: a batch that fails in the middle is sent again"
    in_spark = False

    def open(self) -> None:
        """Raise StreamBroken if the table was dropped. There is no state to take over."""
        self._open_topic()

    def write(self, rows: DataFrame, batch: int) -> int:
        return write_records(rows, self._open_topic())

    def topic(self) -> KafkaTopic | None:
        """Return the table's topic, or None if the table was dropped or replaced."""
        table = self._target.table
        if len(table) == 1:
            created = temporary_tables(self._attempt.definition.temporary).get(table[0].lower())
            return None if created is None else created.kafka
        current = table_named(self._attempt.connectors(), table)
        if current is None or current.stored_name != self._target.stored_name:
            return None
        return current.topic

    def _open_topic(self) -> KafkaTopic:
        topic = self.topic()
        if topic is None:
            name = display_name(self._target.table)
            raise StreamBroken(
                f"Table {name} was dropped, or renamed. Run the "
                "INSERT again, into the table that has its topic now."
            )
        return topic


class UpsertKafkaSink(KafkaSink):
    """The sink of one attempt of a job that writes a Kafka table with a primary key (upsert)."""

    guarantee = "by key: a batch that fails in the middle is sent again, which changes nothing"
    accepts_changelog = True

    def write(self, rows: DataFrame, batch: int) -> int:
        """Send one record for each changed key, which is its row or a tombstone."""
        rows = stored(rows, sql_name(self._target.table))
        keys = {key.lower() for key in self._target.keys}
        named = [name for name in rows.columns if name.lower() in keys]
        with computed_changes(rows, named, display_name(self._target.table)) as changes:
            return 0 if changes is None else write_records(changes.changes.frame, self._open_topic())
