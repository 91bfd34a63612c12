"""The sink for JDBC tables without a primary key: Spark inserts a batch, and repeats it after a failure."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mt_core.base.identifiers import quote, sql_name
from mt_core.spark.connectors.repeating import RepeatingSink
from mt_core.spark.connectors.sink import shaped


class JdbcSink(RepeatingSink):
    """The sink of one attempt of a job that writes a JDBC table."""

    guarantee = "at least once: a batch that fails in the middle is written again"

    def write(self, rows: DataFrame, batch: int) -> int:
        session, name = rows.sparkSession, f"batch_{self._attempt.job_id}"
        rows = shaped(rows, sql_name(self._target.table)).persist()
        try:
            count = rows.count()
            rows.createOrReplaceTempView(name)
            stored_name = self._target.stored_name
            columns = ", ".join(map(quote, session.table(stored_name).columns))
            session.sql(f"INSERT INTO {stored_name} SELECT {columns} FROM {name}")
            return count
        finally:
            rows.unpersist()
