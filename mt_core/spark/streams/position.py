"""The position of a stream: the offset of each source after the last committed batch, and the state sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from mt_core.spark.streams.sources.ends import has_ended

FIRST_ROWS = -1
"""The batch with the rows of the sources' starting snapshots; Spark's batch numbers begin at 0."""
_NOT_READ = -1
_EXPIRED = "numValuesRemovedDueToTTLExpiry"


class Position:
    """The position of one attempt.

    `batch` is the last batch in Spark's progress reports, which Spark makes after the commit.
    """

    def __init__(self) -> None:
        self.batch, self.rows_read = FIRST_ROWS, 0
        # One offset per source; empty before the first batch.
        self._offsets: Sequence[Any] = ()
        self._states: Sequence[Mapping[str, Any]] = ()
        # For each operator, the total number of removed rows and of expired entries.
        self._removed_and_expired: list[tuple[int, int]] = []

    def begin(self, batch: int, offsets: Sequence[Any]) -> None:
        """Start after *batch* of an earlier attempt, which had read up to *offsets*."""
        self.batch, self._offsets = batch, offsets

    def advance(self, query: StreamingQuery, batch: int) -> None:
        """Add the rows that *query* has read since the last call, up to *batch*."""
        if batch <= self.batch:
            return
        for progress in query.recentProgress:
            body: dict[str, Any] = json.loads(progress.json)
            # While there is no input, Spark reports the next batch number with the metrics of the last batch.
            if "addBatch" in body["durationMs"] and self.batch < body["batchId"] <= batch:
                self.batch = body["batchId"]
                self.rows_read += body["numInputRows"]
                self._offsets = [source["endOffset"] for source in body["sources"]]
                self._record_states(body["stateOperators"])

    def has_ended(self, last: int | None) -> bool:
        """Return whether the sources have delivered all their rows, up to offset *last*."""
        return has_ended(self._offsets, last)

    @property
    def offsets(self) -> str | None:
        """The offset of each source as JSON, or None before the first batch."""
        return json.dumps(list(self._offsets)) if self._offsets else None

    def states(self, names: Sequence[str]) -> str | None:
        """Return the state metrics of each operator as JSON, or None for a stateless query.

        *names* are the names of our operators from the sink to the sources.
        """
        if len(names) != len(self._states):
            names = [each["operatorName"] for each in self._states]
        states = [
            {
                "operator": name,
                "rows": each["numRowsTotal"],
                "bytes": each["memoryUsedBytes"],
                "removed": removed,
                "expired": expired,
            }
            for name, each, (removed, expired) in zip(
                names, self._states, self._removed_and_expired, strict=True
            )
        ]
        return json.dumps(states) if states else None

    def _record_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        before = self._removed_and_expired or [(0, 0)] * len(states)
        self._states = states
        self._removed_and_expired = [
            (removed + each["numRowsRemoved"], expired + each.get("customMetrics", {}).get(_EXPIRED, 0))
            for each, (removed, expired) in zip(states, before, strict=True)
        ]

    @property
    def is_in_each_source(self) -> bool:
        """True if at least one row of each source has been read."""
        return bool(self._offsets) and all(map(_is_read, self._offsets))

    @property
    def snapshots(self) -> list[int]:
        """The last snapshot read from each Iceberg table."""
        return [
            each["snapshot_id"] for each in self._offsets if isinstance(each, dict) and "snapshot_id" in each
        ]


def _is_read(offset: Any) -> bool:
    return offset is not None and not (isinstance(offset, dict) and offset.get("snapshot_id") == _NOT_READ)
