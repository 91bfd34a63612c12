"""The position of a stream: what its committed batches have read, as Spark reports it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery

from mt_core.spark.streams.position import FIRST_ROWS, Position

NOT_READ = {"snapshot_id": -1, "position": 0}
READ = {"snapshot_id": 7, "position": 2}


def reporting(*batches: tuple[int, int, list[Any]]) -> StreamingQuery:
    reports = [
        {
            "batchId": number,
            "numInputRows": rows,
            # Spark says every ten seconds too that it has no rows for the batch to come,
            # with what it said of the last one.
            "durationMs": {"triggerExecution": 5} | ({"addBatch": 2} if rows else {}),
            "sources": [{"endOffset": offset} for offset in offsets],
            "stateOperators": [
                {
                    "operatorName": "transformWithStateExec",
                    "numRowsTotal": 10 * number,
                    "memoryUsedBytes": 100,
                    "numRowsRemoved": 2 * number,
                    "customMetrics": {"numValuesRemovedDueToTTLExpiry": number},
                }
            ],
        }
        for number, rows, offsets in batches
    ]
    progress = [SimpleNamespace(json=json.dumps(report)) for report in reports]
    return cast("StreamingQuery", SimpleNamespace(recentProgress=progress))


def test_a_position_counts_each_batch_once_up_to_the_last_that_is_committed() -> None:
    position, query = Position(), reporting((0, 3, [READ]), (1, 4, [READ]), (2, 5, [READ]))

    position.advance(query, 0)
    position.advance(query, 1)
    position.advance(query, 1)

    assert (position.batch, position.rows_read) == (1, 7)


def test_a_batch_that_spark_had_waited_for_is_counted() -> None:
    position, later = Position(), {"snapshot_id": 8, "position": 0}

    position.advance(reporting((0, 3, [READ]), (1, 0, [READ]), (1, 4, [later])), 1)

    assert (position.batch, position.rows_read, position.snapshots) == (1, 7, [8])


def test_a_position_has_no_offsets_before_the_first_batch() -> None:
    position = Position()

    assert (position.batch, position.offsets, position.is_in_each_source) == (FIRST_ROWS, None, False)


def test_a_source_that_waits_for_its_first_rows_has_not_been_read() -> None:
    position = Position()

    position.begin(3, [READ, NOT_READ])
    waits = position.is_in_each_source
    position.advance(reporting((4, 1, [READ, {"0": 5}])), 4)

    assert (waits, position.is_in_each_source, position.snapshots) == (False, True, [7])


def test_a_source_without_an_offset_has_not_been_read() -> None:
    position = Position()

    position.begin(0, [READ, None])

    assert not position.is_in_each_source
    assert position.offsets == json.dumps([READ, None])


def test_a_position_has_what_operators_keep_after_the_last_batch_and_what_was_removed_and_expired() -> None:
    position = Position()

    position.advance(reporting((1, 3, [READ]), (2, 4, [READ])), 2)

    assert json.loads(position.states(["deduplicate_1"]) or "") == [
        {"operator": "deduplicate_1", "rows": 20, "bytes": 100, "removed": 6, "expired": 3}
    ]
    assert json.loads(position.states([]) or "")[0]["operator"] == "transformWithStateExec"
    assert Position().states([]) is None
