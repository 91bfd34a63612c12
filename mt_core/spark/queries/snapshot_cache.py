"""The current snapshots of many Iceberg tables, read in parallel with a single call to the JVM."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import plain_message
from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.tables.engine import UnreadSources

CAPACITY = 32
WAIT_MS, LIMIT_MS = 250, 10_000
"""The times, in milliseconds, for which a call waits for slow tables and for which a read may last."""
NO_ANSWER = "it has not answered for"
"""The part of a TableReads message that says that a table does not answer."""
READS = "freshtable.queries.TableReads"


class SnapshotCache:
    """Reads the current snapshot ids of many tables in one JVM call. Not thread-safe."""

    def __init__(self) -> None:
        # By the id() of the tables: the tables, whose references keep the ids valid, and their list in the
        # JVM.
        self._groups: OrderedDict[tuple[int, ...], tuple[list[Any], Any]] = OrderedDict()
        # By table name: the location of its metadata, and the current snapshot id in that metadata.
        self._seen: dict[str, tuple[str, str]] = {}

    def snapshots(self, session: SparkSession, tables: Mapping[str, Any]) -> dict[str, str | UnreadSources]:
        """Return the current snapshot id of each table, "" for an empty table, or why it was not read.

        Raises Spark's errors.
        """
        if not tables:
            return {}
        listed = self._listed(session, list(tables.values()))
        locations = outcomes(own_class(session, READS).locations(listed, WAIT_MS, LIMIT_MS))
        for (name, table), location in zip(tables.items(), locations, strict=True):
            if isinstance(location, str) and self._seen.get(name, ("", ""))[0] != location:
                self._seen[name] = location, snapshot_of(session, table)
        return {
            name: self._seen[name][1] if isinstance(location, str) else location
            for name, location in zip(tables, locations, strict=True)
        }

    def _listed(self, session: SparkSession, tables: list[Any]) -> Any:
        """Return *tables* as a cached Java list, because building it takes a call for each table."""
        if len(tables) == 1:
            # A single table is polled after each of its commits, and must not evict lists of many tables.
            return _list(session, tables)
        key = tuple(map(id, tables))
        if key not in self._groups:
            self._groups[key] = tables, _list(session, tables)
        self._groups.move_to_end(key)
        while len(self._groups) > CAPACITY:
            self._groups.popitem(last=False)
        return self._groups[key][1]


def refreshed(session: SparkSession, tables: Sequence[Any], wait_ms: int) -> Sequence[UnreadSources | None]:
    """Refresh the metadata of *tables*. Return, for each table, why it could not be read, or None.

    The call waits up to *wait_ms* milliseconds for slow tables. Raises Spark's errors, except those of
    single tables.
    """
    answers = outcomes(own_class(session, READS).refreshed(_list(session, tables), wait_ms, LIMIT_MS))
    return [outcome if isinstance(outcome, UnreadSources) else None for outcome in answers]


def current_versions(
    session: SparkSession, tables: Sequence[Any], wait_ms: int
) -> Sequence[str | UnreadSources]:
    """Refresh the metadata of *tables*. Return the version of each, read after the call began.

    The call waits up to *wait_ms* milliseconds for slow tables, like `refreshed`, and raises the same errors.
    """
    return outcomes(own_class(session, READS).versions(_list(session, tables), wait_ms, LIMIT_MS))


def _list(session: SparkSession, items: Sequence[Any]) -> Any:
    objects = static_member(session, "java.util.ArrayList")()
    for item in items:
        objects.add(item)
    return objects


def snapshot_of(session: SparkSession, table: Any) -> str:
    """Return the current snapshot id in a table's loaded metadata, or "" if the table has no snapshot."""
    return str(own_class(session, READS).snapshot(table))


def outcomes(answer: str) -> Sequence[str | UnreadSources]:
    """Return the results in the JSON *answer* of TableReads, each a string or the reason for its absence."""
    return [
        UnreadSources(reason=plain_message(failure) if failure else "") if text is None else str(text)
        for text, failure in json.loads(answer)
    ]
