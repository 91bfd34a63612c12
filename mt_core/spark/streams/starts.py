"""Starts of a stream: the snapshot of each source that its job begins at, and what becomes of a source since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import EngineError, Unsupported
from mt_core.model.storage import TABLE_ID
from mt_core.model.stream import OnSourceRewrite
from mt_core.spark.driver.failures import SPARK_ERRORS, thrown_by
from mt_core.spark.driver.jvm_objects import spark_identifier, state_of
from mt_core.spark.kafka.losses import loss_of
from mt_core.spark.streams.sources import STREAMING, StreamSource

_ADDING = frozenset({"append", "replace"})
_REWRITTEN = re.compile(r"Cannot process (overwrite|delete) snapshot: (\d+)")
_EXPIRED = re.compile(r"snapshot (\d+), the snapshot was expired or removed")
_SKIPS = {"streaming-skip-overwrite-snapshots": "true", "streaming-skip-delete-snapshots": "true"}
NEW_JOB = "Run the INSERT again: its new job begins with the rows that the table has then."
_IGNORE = f"{NEW_JOB} SET 'streaming.on-source-rewrite' = 'ignore' before makes it pass over such changes."


class StreamBroken(EngineError):
    """A stream that no restart can continue."""

    internal = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The table with that uuid, from strictly after a snapshot on; from its first one if `snapshot` is None.

    `millis` is when the snapshot was committed.
    """

    uuid: str
    snapshot: str | None = None
    millis: int = 0

    def options(self, on_rewrite: OnSourceRewrite) -> dict[str, str]:
        """Return the options of Iceberg's reader."""
        # It begins with the first commit at that time or later.
        begin = {} if self.snapshot is None else {"stream-from-timestamp": str(self.millis + 1)}
        return begin | (_SKIPS if on_rewrite is OnSourceRewrite.IGNORE else {})

    def to_json(self) -> dict[str, Any]:
        return {"uuid": self.uuid, "snapshot": self.snapshot, "millis": self.millis}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Start:
        return cls(uuid=body["uuid"], snapshot=body["snapshot"], millis=body["millis"])


def start_of(source: StreamSource, *, keeps_state: bool) -> Start:
    """Return where a new stream begins to read *source*: after its current snapshot, whose rows are read before.

    A query that *keeps_state* has to see all rows itself, and begins with the first snapshot. Raises Unsupported if the table
    no longer has each of its rows in a snapshot that adds it.
    """
    table = source.table
    table.refresh()
    uuid, current = uuid_of(table), table.currentSnapshot()
    if current is None:
        return Start(uuid=uuid)
    rewriting = next((each for each in _ancestors(table) if str(each.operation()) not in _ADDING), None)
    if rewriting is not None and table.properties().get(TABLE_ID) is not None:
        raise Unsupported(
            f"Refreshes of materialized table {source.name} replace rows, which a stream cannot read; read it as it stands at "
            f"each batch: {source.name} /*+ OPTIONS('{STREAMING}' = 'false') */."
        )
    if not keeps_state:
        return Start(uuid=uuid, snapshot=str(current.snapshotId()), millis=int(current.timestampMillis()))
    if rewriting is not None:
        what = f"snapshot {rewriting.snapshotId()} of {source.name} replaced or deleted rows"
    elif _has_lost_its_first(table):
        what = f"the first snapshots of {source.name} have expired"
    else:
        return Start(uuid=uuid)
    raise Unsupported(
        f"The query joins or aggregates rows of several batches, and {what}: a stream cannot read the rows that are there. "
        "Keep the result as a materialized table, or stream from a table that rows are only added to."
    )


def uuid_of(table: Any) -> str:
    """Return what makes a table of Iceberg another one than the next of its name."""
    return str(table.uuid().toString())


def rows_at(table: Any, snapshot_id: str) -> int:
    """Return how many rows a table of Iceberg had at a snapshot; deleted ones count until their files are rewritten."""
    return int(table.snapshot(int(snapshot_id)).summary().get("total-records") or 0)


def check_start(source: StreamSource, start: Start, read: Iterable[int] = ()) -> None:
    """Raise StreamBroken unless *source*, if none of its snapshots is among those *read*, can still be read from its start."""
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
                    f"Snapshot {following.snapshotId()} of {source.name} was committed by a machine whose clock is late. {NEW_JOB}"
                )
            return
        following = snapshot
    if start.snapshot is not None or _has_lost_its_first(table):
        begin = "Its first snapshot" if start.snapshot is None else f"Snapshot {start.snapshot}"
        raise StreamBroken(
            f"{begin} of {source.name} expired, or was rolled back, before the stream read on. {NEW_JOB}"
        )


def breakage(
    session: SparkSession, sources: Iterable[StreamSource], starts: Mapping[str, Start], error: BaseException
) -> StreamBroken | None:
    """Return what became of a source if that is why a stream failed with *error*, None if it is not."""
    sources = tuple(sources)
    for source in sources:
        if source.name in starts and (what := _disappearance(session, source, starts[source.name])) is not None:
            return StreamBroken(f"Table {source.name} {what}. {NEW_JOB}")
    if (lost := loss(sources, error)) is not None:
        return lost
    for message in (*(thrown.message for thrown in thrown_by(error)), str(error)):
        if match := _REWRITTEN.search(message):
            how = "replaced rows" if match[1] == "overwrite" else "deleted rows"
            return StreamBroken(f"Snapshot {match[2]} of {_owner(sources, match[2])} {how}. {_IGNORE}")
        if match := _EXPIRED.search(message):
            return StreamBroken(
                f"Snapshot {match[1]} of {_owner(sources, match[1])}, up to which the stream had read, has expired. {NEW_JOB}"
            )
    return None


def loss(sources: Iterable[StreamSource], error: BaseException) -> StreamBroken | None:
    """Return what became of the records of a topic if that is why a stream failed with *error*, None if it is not."""
    tables = [source.topic for source in sources if source.topic is not None]
    text = loss_of(tables, (*(thrown.message for thrown in thrown_by(error)), str(error)))
    return None if text is None else StreamBroken(text)


def _disappearance(session: SparkSession, source: StreamSource, start: Start) -> str | None:
    plugin = state_of(session).catalogManager().catalog(source.parts[0])
    identifier = spark_identifier(session, source.parts[1:])
    plugin.invalidateTable(identifier)
    if not plugin.tableExists(identifier):
        return "was dropped"
    table = plugin.loadTable(identifier)
    if not hasattr(table, "table") or uuid_of(table.table()) != start.uuid:
        return "was dropped and created again"
    return None


def _owner(sources: tuple[StreamSource, ...], snapshot_id: str) -> str:
    """Return the name of the source that has the snapshot, the names of all if none has it any more."""
    tables = [source for source in sources if source.table is not None]
    for source in tables:
        try:
            source.table.refresh()
            if source.table.snapshot(int(snapshot_id)) is not None:
                return source.name
        except SPARK_ERRORS:
            # The table was dropped since.
            continue
    return " or ".join(source.name for source in tables)


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
