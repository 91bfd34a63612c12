"""The starts of a stream: the snapshot at which a job starts to read each source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mt_core.errors import Unsupported
from mt_core.model.storage import TABLE_ID
from mt_core.model.stream import OnSourceRewrite
from mt_core.model.stream_plan import Start
from mt_core.spark.connectors.stream_errors import NEW_JOB, StreamBroken
from mt_core.spark.streams.sources.streamed_text import STREAMING, StreamSource

_ADDING = frozenset({"append", "replace"})
_SKIPS = {"streaming-skip-overwrite-snapshots": "true", "streaming-skip-delete-snapshots": "true"}


def options_of(starts: Mapping[str, Start], on_rewrite: OnSourceRewrite) -> dict[str, dict[str, str]]:
    """Return the options of Iceberg's reader for each source in *starts*, by source name."""
    skips = _SKIPS if on_rewrite is OnSourceRewrite.IGNORE else {}
    # Iceberg's reader starts with the first commit at or after this time.
    return {
        name: ({} if start.snapshot is None else {"stream-from-timestamp": str(start.millis + 1)}) | skips
        for name, start in starts.items()
    }


def snapshots_of(starts: Mapping[str, Start]) -> dict[str, str]:
    """Return the snapshots whose rows are read before the stream, by source name."""
    return {name: start.snapshot for name, start in starts.items() if start.snapshot is not None}


def start_of(source: StreamSource, *, keeps_state: bool, in_order: bool = False) -> Start:
    """Return where a new stream starts to read *source*.

    Usually it starts after the current snapshot, which is first read as a batch. A query that *keeps_state*
    must see all rows as a stream, so it starts with the first snapshot. A query whose later rows replace
    earlier ones (*in_order*) does the same if it can. Raises Unsupported if a stateful query needs rows
    whose snapshot has expired.
    """
    table = source.table
    table.refresh()
    uuid, current = uuid_of(table), table.currentSnapshot()
    if current is None:
        return Start(uuid=uuid)
    rewriting = next((each for each in _ancestors(table) if str(each.operation()) not in _ADDING), None)
    if rewriting is not None and table.properties().get(TABLE_ID) is not None:
        raise Unsupported(
            f"Refreshes of materialized table {source.name} replace rows, which a stream cannot read; "
            f"read it as it stands at each batch: {source.name} /*+ OPTIONS('{STREAMING}' = 'false') */."
        )
    whole = rewriting is None and not _has_lost_its_first(table)
    if not keeps_state and not (in_order and whole):
        return Start(uuid=uuid, snapshot=str(current.snapshotId()), millis=int(current.timestampMillis()))
    if rewriting is not None:
        what = f"snapshot {rewriting.snapshotId()} of {source.name} replaced or deleted rows"
    elif not whole:
        what = f"the first snapshots of {source.name} have expired"
    else:
        return Start(uuid=uuid)
    raise Unsupported(
        f"The query joins or aggregates rows of several batches, and {what}: "
        "a stream cannot read the existing rows. "
        "Keep the result as a materialized table, or stream from an append-only table."
    )


def uuid_of(table: Any) -> str:
    """Return the UUID of an Iceberg table, which a later table with the same name does not have."""
    return str(table.uuid().toString())


def rows_at(table: Any, snapshot_id: str) -> int:
    """Return the row count of an Iceberg table at a snapshot.

    Deleted rows are counted until their files are rewritten.
    """
    return int(table.snapshot(int(snapshot_id)).summary().get("total-records") or 0)


def check_start(source: StreamSource, start: Start, read: Iterable[int] = ()) -> None:
    """Raise StreamBroken if *source* can no longer be read.

    It can be read from a snapshot in *read* that still exists, or from its *start*.
    """
    table = source.table
    table.refresh()
    if uuid_of(table) != start.uuid:
        raise StreamBroken(f"Table {source.name} was dropped and created again. {NEW_JOB}")
    if any(table.snapshot(snapshot_id) is not None for snapshot_id in read if snapshot_id >= 0):
        return
    following = None
    for snapshot in _ancestors(table):
        if str(snapshot.snapshotId()) == start.snapshot:
            if following is not None and int(following.timestampMillis()) <= start.millis:
                raise StreamBroken(
                    f"Snapshot {following.snapshotId()} of {source.name} was committed by a machine whose "
                    f"clock is late. {NEW_JOB}"
                )
            return
        following = snapshot
    if start.snapshot is not None or _has_lost_its_first(table):
        begin = "Its first snapshot" if start.snapshot is None else f"Snapshot {start.snapshot}"
        raise StreamBroken(
            f"{begin} of {source.name} expired, or was rolled back, before the stream read on. {NEW_JOB}"
        )


def _ancestors(table: Any) -> Iterator[Any]:
    """Yield the current snapshot and its ancestors, newest first."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


def _has_lost_its_first(table: Any) -> bool:
    snapshots = list(_ancestors(table))
    return bool(snapshots) and snapshots[-1].parentId() is not None
