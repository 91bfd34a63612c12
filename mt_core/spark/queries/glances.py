"""Glances: the current snapshots of many Iceberg tables, all read with one call of the JVM."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import java_function, static_member, texts

CAPACITY = 32
_REFRESH = "org.apache.iceberg.TableOperations.refresh"
_LOCATION = "org.apache.iceberg.TableMetadata.metadataFileLocation"


class Glances:
    """Remembers which tables it looked at together, and what it saw. For one thread."""

    def __init__(self) -> None:
        # By the identities of the tables: the tables, and the list of their operations in the JVM.
        self._groups: OrderedDict[tuple[int, ...], tuple[list[Any], Any]] = OrderedDict()
        # By name: the location of a table's metadata, and its snapshot there.
        self._seen: dict[str, tuple[str, str]] = {}

    def snapshots(self, session: SparkSession, tables: Mapping[str, Any]) -> dict[str, str]:
        """Return the current snapshot of each table, by name, "" of one without any; raises Spark's errors."""
        if not tables:
            return {}
        current = self._operations(session, list(tables.values())).stream().map(java_function(session, _REFRESH))
        locations = texts(session, current.map(java_function(session, _LOCATION)).toList())
        for (name, table), location in zip(tables.items(), locations, strict=True):
            if self._seen.get(name, ("", ""))[0] != location:
                snapshot = table.currentSnapshot()
                self._seen[name] = location, "" if snapshot is None else str(snapshot.snapshotId())
        return {name: self._seen[name][1] for name in tables}

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
