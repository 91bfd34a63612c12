"""Drains: temporary tables of the connectors print and blackhole, which take the rows of streams and store none."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyspark.sql import DataFrame

from mt_core.spark.streams.publication import PUBLISHED, Check
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.flink.connectors import SINKS
from mt_core.sql.parser import ReadStatement

BLACKHOLE = "blackhole"
MOST_PRINTED = 1000

log = logging.getLogger(__name__)


class Drain:
    """One drain in one attempt: a batch that is repeated is taken again."""

    def __init__(self, name: str, connector: str, job_id: str) -> None:
        self._name, self._connector, self._job_id = name, connector, job_id
        self.batch: int | None = None

    def open(self) -> None:
        """Nothing has to be taken over."""

    def close(self) -> None:
        """Nothing is kept from being written."""

    def forget(self) -> None:
        """Nothing is stored."""

    def last_batch(self) -> int | None:
        """Return None: a drain does not know what it has taken."""
        return None

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Take *rows*, and return how many; print writes the first ones of a batch to the gateway's log."""
        check("write")
        if self._connector == BLACKHOLE:
            count = rows.count()
        else:
            printed = rows.limit(MOST_PRINTED).collect()
            for row in printed:
                log.info("%s: +I%s", self._name, list(row), extra={"action": "printed", "job_id": self._job_id})
            count = len(printed) if len(printed) < MOST_PRINTED else rows.count()
            if count > len(printed):
                log.info(
                    "%s: %d more rows of batch %d are not printed",
                    self._name,
                    count - len(printed),
                    batch,
                    extra={"action": "printed", "job_id": self._job_id},
                )
        check(PUBLISHED)
        self.batch = batch
        return count


def drains_of(temporary: Iterable[str]) -> dict[str, str]:
    """Return the connector of each drain that the statements *temporary* create, by its name in lower case."""
    facts = (ReadStatement(text).fact for text in temporary)
    return {
        fact.name[-1].lower(): fact.connector
        for fact in facts
        if isinstance(fact, CreateConnectorTable) and fact.connector in SINKS
    }
