"""Keyed readings: the rows of the readings of a query that can join the rows of a change.

A change joins few rows of the other relations of a query. They are reached by keys: the values that its rows
have in the columns of the join. A join is not evaluated here. A look-up returns a superset of the rows that
can join, among the rows of one version, and the query joins these. It may therefore compare each column by
itself, and fails only to whole relations, never to fewer rows.

Each of the following is tried before the next one:

- *memory*: small sources are read once per version and kept for all tables (`kept_rows`).
- *files*: the driver looks the keys up in the pages of the files (`mt_core.spark.iceberg.look_ups`).
- *a Spark job*: a semi join with the keys, over the files that may have them.
- *none*: if more than `MOST_LOCAL` rows match, or if there are as many keys, the whole relation is read.

All rows are those of the new version. The rows of the old one are these less the change: it has all removed
rows with the keys, and other removed rows join nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.model.storage import EMPTY
from mt_core.spark.iceberg.computed_rows import ComputedRows, no_rows, together
from mt_core.spark.iceberg.find_rows import TableVersion, all_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.key_tuples import key_tuples
from mt_core.spark.iceberg.look_ups import (
    Matches,
    Refusal,
    anti_join,
    look_up,
    semi_join,
    spark_look_up,
)
from mt_core.spark.queries.lineage import Lineage, Source, shape_of
from mt_core.spark.readings.kept_rows import KeptRows, projection
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.spark.readings.scoped_rows import in_scope, scope_of
from mt_core.spark.readings.source_facts import facts_of_source
from mt_core.spark.readings.version_files import version_files

log = logging.getLogger(__name__)
MOST_BYTES = 128 * 1024 * 1024
"""The maximum size, in bytes, of the rows that a run has looked up. Beyond it, keys are looked up again."""
_WHOLE = KeptRows(kind="whole")
# Equal stages, of one table or of several, look up the same keys.
_LOOKED_UP = KeptRows(kind="looked up", most=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A reading: its source at a version, and its scope.

    `columns` are those that any reading of the source has in its scope, in the table's order.
    """

    source: Source
    version: str
    scope: ReadingScope
    columns: StructType


@dataclass(slots=True, kw_only=True)
class _Found:
    """The `rows` of a source that have some `values`: those that a run has looked up so far."""

    values: ComputedRows
    rows: ComputedRows

    def add(self, values: ComputedRows, rows: ComputedRows) -> None:
        """Add other values, and the rows that have them."""
        self.values = together(values.session, values.schema, [self.values, values])
        self.rows = together(rows.session, rows.schema, [self.rows, rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedReadings:
    """The readings of a query at *versions*, restricted to their *scopes*, for one run.

    All rows have exactly the columns of the scope, in the order of the table. If it has none, they have the
    first column. The conditions on the `exact` readings are required (`scoped_rows`).
    """

    session: SparkSession
    lineage: Lineage
    versions: ReadingVersions
    scopes: Mapping[int, ReadingScope]
    exact: frozenset[int] = frozenset()
    _readings: dict[int, _Reading] = field(default_factory=dict)
    _facts: dict[int, SourceFacts] = field(default_factory=dict)
    _whole: dict[int, ComputedRows | None] = field(default_factory=dict)
    _found: dict[tuple[str, Matches, str], _Found] = field(default_factory=dict)

    @property
    def filtered(self) -> frozenset[int]:
        """The readings of which a condition of the query rejects rows."""
        return frozenset(number for number, scope in self.scopes.items() if scope.filters)

    def columns(self, number: int) -> StructType:
        """Return the columns of a reading in its scope, which may be none."""
        reading = self._reading(number)
        return StructType([each for each in reading.columns.fields if each.name in reading.scope.columns])

    def facts(self, number: int) -> SourceFacts:
        """Return the facts of the source of a reading. Starts no job."""
        if number not in self._facts:
            reading = self._reading(number)
            with self.lineage.lock:
                self._facts[number] = facts_of_source(
                    self.session, reading.source.table, reading.version, reading.columns.names
                )
        return self._facts[number]

    def whole(self, number: int) -> ComputedRows | None:
        """Return all rows of a reading, or None if its source is not small. Starts no job."""
        if number not in self._whole:
            rows = self._all(self._reading(number)) if self.facts(number).is_small else None
            self._whole[number] = None if rows is None else self._in_scope(number, rows)
        return self._whole[number]

    def matching(self, number: int, keys: ComputedRows, matches: Sequence[Match]) -> ComputedRows | None:
        """Return the rows of a reading that match *keys*, or None if the whole relation should be read.

        There may be further rows of the reading. *keys* may have further columns, and need not be distinct.
        """
        if not keys.few:
            return None
        whole = self.whole(number)
        if whole is not None:
            pairs = [(each.of, each.to, each.null_safe) for each in matches]
            return whole if whole.java is None or keys.java is None else semi_join(whole, keys, pairs)
        if keys.java is None:
            return None
        null_safe = [each.null_safe for each in matches]
        values = key_tuples(self.session, [(keys, [each.of for each in matches])], null_safe)
        if not values.count() or self._reading(number).version == EMPTY:
            return no_rows(self.session, self._reading(number).columns)
        if self._expected(number, values.count(), matches) > MOST_LOCAL:
            return None
        found = self._having(number, values, matches)
        return None if found is None else self._in_scope(number, found)

    def _having(self, number: int, values: ComputedRows, matches: Sequence[Match]) -> ComputedRows | None:
        """Return the rows of a source with some values. Each value is looked up once in a run."""
        pairs = tuple((f"k{position}", each.to, each.null_safe) for position, each in enumerate(matches))
        own = [(of, of, null_safe) for of, _, null_safe in pairs]
        key = self._reading(number).source.name, pairs, values.schema.simpleString()
        before = self._found.get(key)
        missing = values if before is None else anti_join(values, before.values, own)
        if missing.count():
            found = self._read(number, missing, pairs)
            if found is None or found.java is None:
                return found if before is None else self._read(number, values, pairs)
            found = semi_join(found, missing, pairs, exact=True)
            if before is None:
                self._found[key] = _Found(values=missing, rows=found)
                return found
            before.add(missing, found)
        assert before is not None
        rows = semi_join(before.rows, values, pairs, exact=True)
        if sum(each.rows.size for each in self._found.values()) > MOST_BYTES:
            self._found.clear()
        return rows

    def _read(self, number: int, values: ComputedRows, pairs: Matches) -> ComputedRows | None:
        reading = self._reading(number)
        found = self._looked_up(reading, values, pairs)
        if found is Refusal.ROWS:
            return None
        if found is None or isinstance(found, Refusal):
            return spark_look_up(self.versions.rows(number), reading.columns.names, values, pairs)
        return found

    def _looked_up(
        self, reading: _Reading, values: ComputedRows, pairs: Matches
    ) -> ComputedRows | Refusal | None:
        """Return the result of `look_up`, or None if the keys or the files cannot be used."""
        session, java, table = self.session, values.java, reading.source.table
        with self.lineage.lock:
            shape = shape_of(table)
            if java is None or shape != self.lineage.shapes[reading.source.name]:
                return None
            files = version_files(session, table, reading.version)
        # Integers of different widths may have the same bytes.
        key = reading.version, repr(pairs), values.schema.simpleString(), str(java.digest())
        found = _LOOKED_UP.of(session, shape, reading.columns.names, *key)
        if found is not None:
            return found
        looked_up = look_up(session, table, files, reading.columns, values, pairs)
        if isinstance(looked_up, Refusal):
            log.info("a look-up is refused: %s", looked_up, extra={"action": "look_up_refused"})
        else:
            _LOOKED_UP.keep(looked_up, session, shape, *key)
        return looked_up

    def _reading(self, number: int) -> _Reading:
        if number not in self._readings:
            name = self.versions.readings[number].source
            source = next(each for each in self.lineage.sources if each.name == name)
            with self.lineage.lock:
                stored = stored_schema(self.session, source.table)
                scope = scope_of(self.scopes, number, stored)
                # Rows that are found for one reading of a source serve the others as well.
                others = [each for each, other in enumerate(self.versions.readings) if other.source == name]
                scopes = [scope_of(self.scopes, each, stored) for each in others if each in self.scopes]
                columns = projection(
                    self.session, source.table, scope.columns.union(*(each.columns for each in scopes))
                )
            self._readings[number] = _Reading(
                source=source, version=self.versions.versions[name], scope=scope, columns=columns
            )
        return self._readings[number]

    def _in_scope(self, number: int, rows: ComputedRows) -> ComputedRows:
        scope, required = self._reading(number).scope, number in self.exact
        return in_scope(self.session, self.lineage, number, scope, rows, required=required)

    def _all(self, reading: _Reading) -> ComputedRows | None:
        """Return all rows of a small source, with the columns of a reading and possibly with more."""
        session, version, asked = self.session, reading.version, reading.columns.names
        with self.lineage.lock:
            table = reading.source.table
            shape = shape_of(table)
            if shape != self.lineage.shapes[reading.source.name]:
                return None
            kept = _WHOLE.of(session, shape, asked, version)
            if kept is not None:
                return kept
            columns = _WHOLE.columns_to_read(session, table, asked)
            if version == EMPTY:
                return no_rows(session, columns)
            given = all_rows(session, TableVersion(table=table, snapshot=version), columns)
        if given is None:
            return None
        rows = PLANS.run(session, None, "all rows", lambda at: session.table(at["rows"]), {"rows": given})
        if rows is not None:
            _WHOLE.keep(rows, session, shape, version)
        return rows

    def _expected(self, number: int, keys: int, matches: Sequence[Match]) -> int:
        """Return how many rows have one of a number of *keys*, if all values are equally frequent."""
        facts, columns = self.facts(number), self._reading(number).columns
        looked_up = (
            KeyColumn(reading=number, column=name, type=columns[name].dataType.simpleString())
            for name in {each.to for each in matches}
        )
        return keys * facts.rows // max(1, min(facts.rows, prod(map(facts.values_of, looked_up))))
