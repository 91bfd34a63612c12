"""Glances: the current snapshots of many Iceberg tables, all read with one call of the JVM, and apart from each other there."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import plain_message
from mt_core.spark.driver.jvm_objects import chained_function, java_function, json_of, own_object, static_member
from mt_core.tables.engine import UnreadSources

CAPACITY = 32
WAIT_MS, LIMIT_MS = 250, 10_000
"""How long the tables that answer wait for the others; how long one may take until it counts as failed."""
NO_ANSWER = "it has not answered for"
"""What LimitedReads says of a table that does not answer."""
_REFRESH = "org.apache.iceberg.TableOperations.refresh"
_REFRESH_TABLE = "org.apache.iceberg.Table.refresh"
_LOCATION = "org.apache.iceberg.TableMetadata.metadataFileLocation"
_VERSIONS = "freshtable.queries.TableVersions"
_READS = "freshtable.driver.LimitedReads"


class Glances:
    """Remembers which tables it looked at together, and what it saw. For one thread."""

    def __init__(self) -> None:
        # By the identities of the tables: the tables, and the list of their operations in the JVM.
        self._groups: OrderedDict[tuple[int, ...], tuple[list[Any], Any]] = OrderedDict()
        # By name: the location of a table's metadata, and its snapshot there.
        self._seen: dict[str, tuple[str, str]] = {}

    def snapshots(self, session: SparkSession, tables: Mapping[str, Any]) -> dict[str, str | UnreadSources]:
        """Return the current snapshot of each table, by name, "" of one without any; raises Spark's errors."""
        if not tables:
            return {}
        operations = self._operations(session, list(tables.values()))
        locations = read(session, operations, chained_function(session, _REFRESH, _LOCATION), WAIT_MS)
        for (name, table), location in zip(tables.items(), locations, strict=True):
            if isinstance(location, str) and self._seen.get(name, ("", ""))[0] != location:
                self._seen[name] = location, snapshot_of(table)
        return {
            name: self._seen[name][1] if isinstance(location, str) else location
            for name, location in zip(tables, locations, strict=True)
        }

    def _operations(self, session: SparkSession, tables: list[Any]) -> Any:
        """Return the operations of *tables* as a Java list, from a cache: to make it takes calls for each table."""
        key = tuple(map(id, tables))
        if key not in self._groups:
            operations = static_member(session, "java.util.ArrayList")()
            for table in tables:
                operations.add(table.operations())
            if len(tables) == 1:
                # A table that is looked at for its own commits must not push the lists of many tables out.
                return operations
            self._groups[key] = tables, operations
        self._groups.move_to_end(key)
        while len(self._groups) > CAPACITY:
            self._groups.popitem(last=False)
        return self._groups[key][1]


def refreshed(
    session: SparkSession, tables: Sequence[Any], wait_ms: int, *, fresh: bool
) -> Sequence[UnreadSources | None]:
    """Bring tables to their current metadata; return for each why it could not be read, None if it was. Otherwise as `read`."""
    outcomes = read(session, _list(session, tables), java_function(session, _REFRESH_TABLE), wait_ms, fresh=fresh)
    return [outcome if isinstance(outcome, UnreadSources) else None for outcome in outcomes]


def current_versions(session: SparkSession, tables: Sequence[Any], wait_ms: int) -> Sequence[str | UnreadSources]:
    """Bring tables to their current metadata; return for each what TableVersions reads there, fresh. Otherwise as `read`."""
    return read(session, _list(session, tables), own_object(session, _VERSIONS), wait_ms, fresh=True)


def _list(session: SparkSession, items: Sequence[Any]) -> Any:
    objects = static_member(session, "java.util.ArrayList")()
    for item in items:
        objects.add(item)
    return objects


def snapshot_of(table: Any) -> str:
    """Return the current snapshot of a table as of its last refresh, "" without any."""
    snapshot = table.currentSnapshot()
    return "" if snapshot is None else str(snapshot.snapshotId())


def read(
    session: SparkSession, objects: Any, function: Any, wait_ms: int, *, fresh: bool = False
) -> Sequence[str | UnreadSources]:
    """Return the text that a Java Function gives of each of some objects, or why it has none.

    None of them waits longer than *wait_ms* for another one. A *fresh* text was read after the call began; otherwise it may be that
    of a read which an earlier call did not wait for. Raises Spark's errors, but not those of an object.
    """
    found = json.loads(json_of(session, own_object(session, _READS).of(objects, function, wait_ms, LIMIT_MS, fresh)))
    return [
        UnreadSources(reason=plain_message(failure) if failure else "") if text is None else str(text)
        for text, failure in found
    ]
