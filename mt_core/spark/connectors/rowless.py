"""Tables that store no rows as sinks of a stream: those of print, whose rows are in the gateway's log,
and of blackhole.
"""

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
    """One attempt of one job on a table of print."""

    guarantee = "at least once: a batch that fails in the middle is printed again"
    in_spark = False
    takes_changes = True

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write the first rows of a batch to the gateway's log; return how many rows it has."""
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
    """One attempt of one job on a table of blackhole."""

    guarantee = "nowhere: rows are counted, and dropped"
    in_spark = False
    takes_changes = True

    def write(self, rows: DataFrame, batch: int) -> int:
        return shaped(rows, sql_name(self._target.table)).count()
