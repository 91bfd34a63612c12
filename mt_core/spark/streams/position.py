"""Position of a stream in its sources: up to where its committed batches have read each,
and what its operators keep since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from mt_core.spark.streams.sources.ends import has_ended

FIRST_ROWS = -1
"""The number of the batch that has the rows of the sources' first snapshots; those of Spark begin at 0."""
_NOT_READ = -1
_EXPIRED = "numValuesRemovedDueToTTLExpiry"


class Position:
    """Where one attempt is; `batch` is the last batch that Spark has reported,
    which it does after the commit.
    """

    def __init__(self) -> None:
        self.batch, self.rows_read = FIRST_ROWS, 0
        # Of each source; empty before the first batch.
        self._offsets: Sequence[Any] = ()
        self._states: Sequence[Mapping[str, Any]] = ()
        # Of each operator: how many rows were removed, and how many entries had expired.
        self._gone: list[tuple[int, int]] = []

    def begin(self, batch: int, offsets: Sequence[Any]) -> None:
        """Begin after a *batch* of an earlier attempt, which has read up to *offsets*."""
        self.batch, self._offsets = batch, offsets

    def advance(self, query: StreamingQuery, batch: int) -> None:
        """Count what *query* has read since the last call, up to *batch*."""
        if batch <= self.batch:
            return
        for progress in query.recentProgress:
            body: dict[str, Any] = json.loads(progress.json)
            # Without rows for a while Spark reports the batch to come with what it said of the last one.
            if "addBatch" in body["durationMs"] and self.batch < body["batchId"] <= batch:
                self.batch = body["batchId"]
                self.rows_read += body["numInputRows"]
                self._offsets = [source["endOffset"] for source in body["sources"]]
                self._keep(body["stateOperators"])

    def has_ended(self, last: int | None) -> bool:
        """Return whether the sources have given all that they will ever have,
        which is up to the offset *last*.
        """
        return has_ended(self._offsets, last)

    @property
    def offsets(self) -> str | None:
        """The offset of each source as JSON, None before the first batch."""
        return json.dumps(list(self._offsets)) if self._offsets else None

    def states(self, names: Sequence[str]) -> str | None:
        """Return what each operator keeps, as JSON; None without one.

        *names* are those of ours, from the last operator down.
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
            for name, each, (removed, expired) in zip(names, self._states, self._gone, strict=True)
        ]
        return json.dumps(states) if states else None

    def _keep(self, states: Sequence[Mapping[str, Any]]) -> None:
        before = self._gone or [(0, 0)] * len(states)
        self._states = states
        self._gone = [
            (removed + each["numRowsRemoved"], expired + each.get("customMetrics", {}).get(_EXPIRED, 0))
            for each, (removed, expired) in zip(states, before, strict=True)
        ]

    @property
    def is_in_each_source(self) -> bool:
        """Whether something was read of each source, rather than waiting there for its first rows."""
        return bool(self._offsets) and all(map(_is_read, self._offsets))

    @property
    def snapshots(self) -> list[int]:
        """The snapshots of Iceberg's tables up to which they were read."""
        return [
            each["snapshot_id"] for each in self._offsets if isinstance(each, dict) and "snapshot_id" in each
        ]


def _is_read(offset: Any) -> bool:
    return offset is not None and not (isinstance(offset, dict) and offset.get("snapshot_id") == _NOT_READ)
