"""A stream through one of our operators, batch by batch, with a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import (
    active_session,
    java_dataset,
    scala_items,
    scala_sequence,
    static_member,
)
from mt_core.spark.streams.inserts import query_of
from mt_core.spark.streams.operators.rewriting import with_operators
from mt_core.spark.streams.operators.state_store import state_store_for
from mt_core.spark.streams.operators.state_ttls import read_ttls

Change = tuple[str, Mapping[str, Any]]
"""A row of a changelog: `+I`, `-U`, `+U` or `-D`, and its columns."""
KIND = "__row_kind"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_START_MS = 1_000_000


class OperatorStream:
    """The plan that *operator* makes of a stream with *columns*, written as in a CREATE TABLE;
    a changelog has KIND as the last.
    """

    def __init__(
        self, session: SparkSession, folder: Path, columns: str, operator: Callable[[DataFrame], DataFrame]
    ) -> None:
        self._session, self._folder, self._columns, self._operator = session, folder, columns, operator
        text = static_member(session, "org.apache.spark.sql.Encoders.STRING")()
        self._source = static_member(session, f"{_STREAMING}.runtime.MemoryStream")(
            0, session._jsparkSession, static_member(session, "scala.Option.empty")(), text
        )
        self._clock = static_member(session, "org.apache.spark.util.ManualClock")(_START_MS)
        self._query: Any = None
        self.start()

    def start(self) -> None:
        """Begin, or go on after a stop, also with another operator for the same state."""
        batches = DataFrame(self._source.toDF(), self._session)
        typed = f"ARRAY<STRUCT<{self._columns}>>"
        given = self._operator(batches.selectExpr(f"inline(from_json(value, '{typed}'))"))
        texts = given.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS change")
        self._sink = static_member(self._session, f"{_STREAMING}.sources.MemorySink")()
        self._query = self._started(texts)

    def stop(self) -> None:
        self._query.stop()

    def restart(self, operator: Callable[[DataFrame], DataFrame] | None = None) -> None:
        self.stop()
        self._operator = operator or self._operator
        self.start()

    def feed(self, *rows: Mapping[str, Any]) -> Sequence[Change]:
        """Let *rows* be the next batch; return what the operator gives for it."""
        self._source.addData(scala_sequence(self._session, [json.dumps(rows)]))
        return self._given()

    def repeat(self) -> Sequence[Change]:
        """Go on as after a crash before the last batch was noted;
        return what the operator gives for it again.
        """
        self.stop()
        last = max((self._folder / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        self.start()
        return self._given()

    def rows_kept(self) -> int:
        """Return how many rows the operators keep after the last batch."""
        return sum(int(each.numRowsTotal()) for each in self._query.lastProgress().stateOperators())

    def rows_expired(self) -> int:
        """Return how many rows the operators have lost since the start because they had expired,
        as Spark reports it.
        """
        reported = [json.loads(each.json()) for each in self._query.recentProgress()]
        # Every ten seconds without a batch Spark repeats what it said of the last one.
        batches = [report for report in reported if "addBatch" in report["durationMs"]]
        states = [state for batch in batches for state in batch["stateOperators"]]
        return sum(state["customMetrics"]["numValuesRemovedDueToTTLExpiry"] for state in states)

    def wait(self, time: timedelta) -> None:
        self._clock.advance(time // timedelta(milliseconds=1))

    def _given(self) -> Sequence[Change]:
        self._query.processAllAvailable()
        return [_change(json.loads(row.getString(0))) for row in scala_items(self._sink.latestBatchData())]

    def _started(self, rows: DataFrame) -> Any:
        session, streaming = self._session, "org.apache.spark.sql.streaming"
        none = static_member(session, "scala.Option.empty")()
        checkpoint = static_member(session, "scala.Option.apply")(str(self._folder))
        no_options = static_member(session, "scala.collection.immutable.Map.from")(
            static_member(session, "scala.jdk.javaapi.CollectionConverters.asScala")(
                session._jvm.java.util.HashMap()
            )
        )
        with active_session(session), state_store_for(rows):
            return session._jsparkSession.streams().startQuery(
                none,
                checkpoint,
                rows._jdf,
                no_options,
                self._sink,
                static_member(session, f"{streaming}.OutputMode.Append")(),
                False,
                True,
                static_member(session, f"{streaming}.Trigger.ProcessingTime")(0),
                self._clock,
                none,
                none,
            )


def _change(columns: dict[str, Any]) -> Change:
    kind = RowKind.INSERT if KIND not in columns else RowKind.of(columns.pop(KIND))
    return kind.value, columns


def through(session: SparkSession, rows: DataFrame, make: Callable[[Any], Any]) -> DataFrame:
    """Return the stream of the plan that *make* gives for that of *rows*."""
    return DataFrame(java_dataset(session, make(rows._jdf.queryExecution().analyzed())), session)


def statement(
    text: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Callable[[DataFrame], DataFrame]:
    """Return what makes the stream of a query of the table `clicks`, in a session with *settings*,
    of the rows of that table.
    """

    def operator(rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        rows.createOrReplaceTempView("clicks")
        with active_session(session):
            return DataFrame(java_dataset(session, changelog_of(session, text, settings).plan), session)

    return operator


def changelog_of(
    session: SparkSession,
    text: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    planned_ttls: Sequence[Sequence[str]] | None = None,
) -> Changelog:
    """Return the query of a stream with our operators in their places; *planned_ttls* are those of a plan."""
    parsed = query_of(session, text)
    ttls = read_ttls(text, parsed, settings, planned_ttls)
    found = with_operators(session, java_dataset(session, parsed).queryExecution().analyzed(), ttls)
    ttls.check()
    return found
