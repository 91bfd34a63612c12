"""Glances: the current snapshots of many Iceberg tables, all read with one call of the JVM,
and apart from each other there.
"""

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
"""How long the tables that answer wait for the others; how long one may take until it counts as failed."""
NO_ANSWER = "it has not answered for"
"""What TableReads says of a table that does not answer."""
READS = "freshtable.queries.TableReads"


class Glances:
    """Remembers which tables it looked at together, and what it saw. For one thread."""

    def __init__(self) -> None:
        # By the identities of the tables: the tables, and a list of them in the JVM.
        self._groups: OrderedDict[tuple[int, ...], tuple[list[Any], Any]] = OrderedDict()
        # By name: the location of a table's metadata, and its snapshot there.
        self._seen: dict[str, tuple[str, str]] = {}

    def snapshots(self, session: SparkSession, tables: Mapping[str, Any]) -> dict[str, str | UnreadSources]:
        """Return the current snapshot of each table, by name, "" of one without any;
        raises Spark's errors.
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
        """Return *tables* as a Java list, from a cache: to make it takes a call for each table."""
        if len(tables) == 1:
            # A table that is looked at for its own commits must not push the lists of many tables out.
            return _list(session, tables)
        key = tuple(map(id, tables))
        if key not in self._groups:
            self._groups[key] = tables, _list(session, tables)
        self._groups.move_to_end(key)
        while len(self._groups) > CAPACITY:
            self._groups.popitem(last=False)
        return self._groups[key][1]


def refreshed(session: SparkSession, tables: Sequence[Any], wait_ms: int) -> Sequence[UnreadSources | None]:
    """Bring tables to their current metadata; return for each why it could not be read, None if it was.

    None of them waits longer than *wait_ms* for another one. Raises Spark's errors, but not those of a table.
    """
    found = outcomes(own_class(session, READS).refreshed(_list(session, tables), wait_ms, LIMIT_MS))
    return [outcome if isinstance(outcome, UnreadSources) else None for outcome in found]


def current_versions(
    session: SparkSession, tables: Sequence[Any], wait_ms: int
) -> Sequence[str | UnreadSources]:
    """Bring tables to their current metadata; return for each its version there, read after the call began.

    Otherwise as `refreshed`.
    """
    return outcomes(own_class(session, READS).versions(_list(session, tables), wait_ms, LIMIT_MS))


def _list(session: SparkSession, items: Sequence[Any]) -> Any:
    objects = static_member(session, "java.util.ArrayList")()
    for item in items:
        objects.add(item)
    return objects


def snapshot_of(session: SparkSession, table: Any) -> str:
    """Return the current snapshot of a table as of its last refresh, "" without any."""
    return str(own_class(session, READS).snapshot(table))


def outcomes(answer: str) -> Sequence[str | UnreadSources]:
    """Return the text that TableReads has read of each of some objects, or why it has none."""
    return [
        UnreadSources(reason=plain_message(failure) if failure else "") if text is None else str(text)
        for text, failure in json.loads(answer)
    ]
