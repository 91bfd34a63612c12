"""Sinks that know nothing of batches: tables of print, blackhole, jdbc and kafka, which get each batch at least once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import DataFrame

from mt_core.identifiers import display_name, quote, sql_name
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.spark.kafka.connector_jars import KAFKA
from mt_core.spark.kafka.records import write_records
from mt_core.spark.streams import targets
from mt_core.spark.streams.publication import PUBLISHED, Check, shaped
from mt_core.spark.streams.starts import StreamBroken

MOST_PRINTED = 1000

log = logging.getLogger(__name__)


class Sink:
    """One such table in one attempt; a batch that is repeated is written again."""

    def __init__(
        self, target: targets.SinkTarget, job_id: str, topic: Callable[[], KafkaTopic | None] = lambda: None
    ) -> None:
        self._target, self._job_id, self._topic = target, job_id, topic
        self.batch: int | None = None

    def open(self) -> None:
        """Raise StreamBroken for a table over Kafka that was dropped; nothing has to be taken over."""
        self._opened_topic()

    def close(self) -> None:
        """Nothing is kept from being written."""

    def forget(self) -> None:
        """Nothing is stored."""

    def last_batch(self) -> int | None:
        """Return None: the table does not say what it has."""
        return None

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows*, and return how many."""
        check("write")
        topic = self._opened_topic()
        count = self._write(rows, batch) if topic is None else write_records(rows, topic)
        check(PUBLISHED)
        self.batch = batch
        return count

    def _opened_topic(self) -> KafkaTopic | None:
        topic = self._topic()
        if topic is None and self._target.connector == KAFKA:
            name = display_name(self._target.table)
            raise StreamBroken(
                f"Table {name} was dropped, or renamed. Run the INSERT again, into the table that has its topic now."
            )
        return topic

    def _write(self, rows: DataFrame, batch: int) -> int:
        rows = shaped(rows, sql_name(self._target.table))
        match self._target.connector:
            case "print":
                return self._print(rows, batch)
            case targets.JDBC:
                return self._insert(rows)
            case _:
                return rows.count()

    def _insert(self, rows: DataFrame) -> int:
        session, name = rows.sparkSession, f"batch_{self._job_id}"
        rows = rows.persist()
        try:
            count = rows.count()
            rows.createOrReplaceTempView(name)
            stored_name = self._target.stored_name
            columns = ", ".join(map(quote, session.table(stored_name).columns))
            session.sql(f"INSERT INTO {stored_name} SELECT {columns} FROM {name}")
            return count
        finally:
            rows.unpersist()

    def _print(self, rows: DataFrame, batch: int) -> int:
        """Write the first rows of a batch to the gateway's log; return how many rows it has."""
        name, facts = display_name(self._target.table), {"action": "printed", "job_id": self._job_id}
        printed = rows.limit(MOST_PRINTED).collect()
        for row in printed:
            log.info("%s: +I%s", name, list(row), extra=facts)
        count = len(printed) if len(printed) < MOST_PRINTED else rows.count()
        if count > len(printed):
            log.info("%s: %d more rows of batch %d are not printed", name, count - len(printed), batch, extra=facts)
        return count
