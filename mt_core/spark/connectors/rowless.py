"""The sinks `print`, which writes rows to the gateway's log, and `blackhole`, which discards them."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from mt_core.base.identifiers import display_name, sql_name
from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.connectors.repeating import RepeatingSink
from mt_core.spark.connectors.sink import shaped

MOST_PRINTED = 1000

log = logging.getLogger(__name__)


class PrintSink(RepeatingSink):
    """The sink of one attempt of a job that writes a `print` table."""

    guarantee = "at least once: a batch that fails in the middle is printed again"
    in_spark = False
    accepts_changelog = True

    def write(self, rows: DataFrame, batch: int) -> int:
        """Log the first rows of a batch and return its row count."""
        rows = shaped(rows, sql_name(self._target.table))
        name, facts = display_name(self._target.table), {"action": "printed", "job_id": self._attempt.job_id}
        printed = rows.limit(MOST_PRINTED).collect()
        for row in printed:
            values = row.asDict()
            kind = RowKind.of(values.pop(ROW_KIND, RowKind.INSERT.code))
            log.info("%s: %s%s", name, kind.value, list(values.values()), extra=facts)
        count = len(printed) if len(printed) < MOST_PRINTED else rows.count()
        if count > len(printed):
            log.info(
                "%s: %d more rows of batch %d are not printed", name, count - len(printed), batch, extra=facts
            )
        return count


class BlackholeSink(RepeatingSink):
    """The sink of one attempt of a job that writes a `blackhole` table."""

    guarantee = "nowhere: rows are counted, and dropped"
    in_spark = False
    accepts_changelog = True

    def write(self, rows: DataFrame, batch: int) -> int:
        return shaped(rows, sql_name(self._target.table)).count()
