"""Source failures: the reason why a stream can no longer read a table or a topic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from mt_core.model.stream_plan import Start
from mt_core.spark.connectors.kafka.losses import loss_of
from mt_core.spark.connectors.stream_errors import NEW_JOB, StreamBroken
from mt_core.spark.driver.failures import SPARK_ERRORS, thrown_by
from mt_core.spark.driver.jvm_objects import spark_identifier, state_of
from mt_core.spark.streams.sources.starts import uuid_of
from mt_core.spark.streams.sources.streamed_text import StreamSource

_REWRITTEN = re.compile(r"Cannot process (overwrite|delete) snapshot: (\d+)")
_EXPIRED = re.compile(r"snapshot (\d+), the snapshot was expired or removed")
_IGNORE = f"{NEW_JOB} To skip such changes, first SET 'streaming.on-source-rewrite' = 'ignore'."


def breakage(
    session: SparkSession, sources: Iterable[StreamSource], starts: Mapping[str, Start], error: BaseException
) -> StreamBroken | None:
    """Return the StreamBroken error that explains *error* by a change of a source, or None."""
    sources = tuple(sources)
    for source in sources:
        if (
            source.name in starts
            and (what := _disappearance(session, source, starts[source.name])) is not None
        ):
            return StreamBroken(f"Table {source.name} {what}. {NEW_JOB}")
    if (lost := loss(sources, error)) is not None:
        return lost
    for message in (*(thrown.message for thrown in thrown_by(error)), str(error)):
        if match := _REWRITTEN.search(message):
            how = "replaced rows" if match[1] == "overwrite" else "deleted rows"
            return StreamBroken(f"Snapshot {match[2]} of {_owner(sources, match[2])} {how}. {_IGNORE}")
        if match := _EXPIRED.search(message):
            return StreamBroken(
                f"Snapshot {match[1]} of {_owner(sources, match[1])}, up to which the stream had read, "
                f"has expired. {NEW_JOB}"
            )
    return None


def loss(sources: Iterable[StreamSource], error: BaseException) -> StreamBroken | None:
    """Return the StreamBroken error that explains *error* by lost records of a topic, or None."""
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
    """Return the name of the source that has the snapshot, or the names of all sources if none has it now."""
    tables = [source for source in sources if source.table is not None]
    for source in tables:
        try:
            source.table.refresh()
            if source.table.snapshot(int(snapshot_id)) is not None:
                return source.name
        except SPARK_ERRORS:
            # The table has been dropped.
            continue
    return " or ".join(source.name for source in tables)
