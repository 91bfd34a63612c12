"""Sinks that know nothing of batches: tables of the connectors print, blackhole and jdbc, which get each batch at least once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyspark.sql import DataFrame

from mt_core.identifiers import display_name, quote, sql_name
from mt_core.model.stream import TableName
from mt_core.spark.streams.publication import PUBLISHED, Check, shaped
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.flink.connectors import SINKS
from mt_core.sql.parser import ReadStatement

JDBC = "jdbc"
MOST_PRINTED = 1000

log = logging.getLogger(__name__)


class Sink:
    """One such table in one attempt; a batch that is repeated is written again."""

    def __init__(self, table: TableName, connector: str, job_id: str) -> None:
        self._table, self._connector, self._job_id = table, connector, job_id
        self.batch: int | None = None

    def open(self) -> None:
        """Nothing has to be taken over."""

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
        rows = shaped(rows, sql_name(self._table))
        match self._connector:
            case "print":
                count = self._print(rows, batch)
            case "jdbc":
                count = self._insert(rows)
            case _:
                count = rows.count()
        check(PUBLISHED)
        self.batch = batch
        return count

    def _insert(self, rows: DataFrame) -> int:
        session, name = rows.sparkSession, f"batch_{self._job_id}"
        rows = rows.persist()
        try:
            count = rows.count()
            rows.createOrReplaceTempView(name)
            columns = ", ".join(map(quote, session.table(sql_name(self._table)).columns))
            session.sql(f"INSERT INTO {sql_name(self._table)} SELECT {columns} FROM {name}")
            return count
        finally:
            rows.unpersist()

    def _print(self, rows: DataFrame, batch: int) -> int:
        """Write the first rows of a batch to the gateway's log; return how many rows it has."""
        name, facts = display_name(self._table), {"action": "printed", "job_id": self._job_id}
        printed = rows.limit(MOST_PRINTED).collect()
        for row in printed:
            log.info("%s: +I%s", name, list(row), extra=facts)
        count = len(printed) if len(printed) < MOST_PRINTED else rows.count()
        if count > len(printed):
            log.info("%s: %d more rows of batch %d are not printed", name, count - len(printed), batch, extra=facts)
        return count


def temporary_sinks(temporary: Iterable[str]) -> dict[str, str]:
    """Return the connector of each sink that the statements *temporary* create, by its name in lower case."""
    facts = (ReadStatement(text).fact for text in temporary)
    return {
        fact.name[-1].lower(): fact.connector
        for fact in facts
        if isinstance(fact, CreateConnectorTable) and fact.connector in (*SINKS, JDBC)
    }
