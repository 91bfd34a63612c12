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

All rows are those of the new version. The rows of the old one are these less the change (`old_rows`): it has
all removed rows with the keys, and other removed rows join nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array_repeat, col, explode, lit
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import unused_name
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.model.storage import EMPTY
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, no_rows
from mt_core.spark.iceberg.find_rows import TableVersion, all_rows
from mt_core.spark.iceberg.inline_plans import PLANS, Make
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.look_ups import Matches, Refusal, look_up, semi_join, spark_look_up
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.queries.lineage import Lineage, Source, shape_of
from mt_core.spark.readings.kept_rows import KeptRows, projection
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.spark.readings.row_images import COPIES, net_rows
from mt_core.spark.readings.scoped_rows import in_scope, scope_of
from mt_core.spark.readings.source_facts import facts_of_source
from mt_core.spark.readings.version_files import version_files

log = logging.getLogger(__name__)
_WHOLE = KeptRows(kind="whole")
# Equal stages, of one table or of several, look up the same keys.
_LOOKED_UP = KeptRows(kind="looked up", most=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A reading: its source at a version, and its scope, with the `columns` of that in the table's order."""

    source: Source
    version: str
    scope: ReadingScope
    columns: StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedReadings:
    """The readings of a query at *versions*, restricted to their *scopes*, for one run.

    All rows have exactly the columns of the scope, in the order of the table. If it has none, they have the
    first column.
    """

    session: SparkSession
    lineage: Lineage
    versions: ReadingVersions
    scopes: Mapping[int, ReadingScope]
    _readings: dict[int, _Reading] = field(default_factory=dict)
    _facts: dict[int, SourceFacts] = field(default_factory=dict)
    _whole: dict[int, ComputedRows | None] = field(default_factory=dict)

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
        values = self._distinct(keys, matches)
        if not values.count() or self._reading(number).version == EMPTY:
            return no_rows(self.session, self._reading(number).columns)
        if self._expected(number, values.count(), matches) > MOST_LOCAL:
            return None
        found = self._found(number, values, matches)
        return None if found is None else self._in_scope(number, found)

    def _found(self, number: int, values: ComputedRows, matches: Sequence[Match]) -> ComputedRows | None:
        reading = self._reading(number)
        pairs = [(f"k{position}", each.to, each.null_safe) for position, each in enumerate(matches)]
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
                scope = scope_of(self.scopes, number, stored_schema(self.session, source.table))
                columns = projection(self.session, source.table, scope.columns)
            self._readings[number] = _Reading(
                source=source, version=self.versions.versions[name], scope=scope, columns=columns
            )
        return self._readings[number]

    def _in_scope(self, number: int, rows: ComputedRows) -> ComputedRows:
        return in_scope(self.session, self.lineage, number, self._reading(number).scope, rows)

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

    def _distinct(self, keys: ComputedRows, matches: Sequence[Match]) -> ComputedRows:
        """Return the distinct values of *keys* that can match, in columns `k0`, `k1` and so on."""
        items = ", ".join(f"{quote(each.of)} AS k{position}" for position, each in enumerate(matches))
        conditions = [f"{quote(each.of)} IS NOT NULL" for each in matches if not each.null_safe]

        def distinct(at: Mapping[str, str]) -> DataFrame:
            where = " AND ".join(conditions) or "true"
            return self.session.sql(f"SELECT DISTINCT {items} FROM {at['keys']} WHERE {where}")

        purpose = repr(("distinct keys", items, conditions))
        needed = keys.select(list(dict.fromkeys(each.of for each in matches)))
        return _computed(self.session, purpose, distinct, {"keys": needed})

    def _expected(self, number: int, keys: int, matches: Sequence[Match]) -> int:
        """Return how many rows have one of a number of *keys*, if all values are equally frequent."""
        facts, columns = self.facts(number), self._reading(number).columns
        looked_up = (
            KeyColumn(reading=number, column=name, type=columns[name].dataType.simpleString())
            for name in {each.to for each in matches}
        )
        return keys * facts.rows // max(1, min(facts.rows, prod(map(facts.values_of, looked_up))))


def old_rows(session: SparkSession, rows: ComputedRows, net: ComputedRows) -> ComputedRows:
    """Return *rows* as they were before the *net* change; without COPIES, it has only added rows.

    The result has the columns of *rows*. Those that *net* lacks, because the query does not read them, may
    have other values.
    """
    if net.few and not net.count():
        return rows
    signed = COPIES in net.columns
    names = [name for name in rows.columns if name in net.columns]
    each = unused_name("_each", rows.columns)
    fields = [
        quote(field.name)
        if field.name in names
        else f"CAST(NULL AS {sql_type(field.dataType)}) AS {quote(field.name)}"
        for field in rows.schema.fields
    ]

    def before(at: Mapping[str, str]) -> DataFrame:
        now = session.table(at["rows"]).select(*map(quote, names), lit(1).alias(COPIES))
        less = (-col(COPIES) if signed else lit(-1)).alias(COPIES)
        change = session.table(at["net"]).select(*map(quote, names), less)
        counted = net_rows(now.unionAll(change)).where(col(COPIES) > 0)
        repeated = counted.select(*map(quote, names), explode(array_repeat(lit(0), col(COPIES))).alias(each))
        return repeated.selectExpr(*fields)

    return _computed(session, repr(("old", names, signed)), before, {"rows": rows, "net": net})


def _computed(
    session: SparkSession, purpose: str, make: Make, inputs: Mapping[str, ComputedRows]
) -> ComputedRows:
    """Return the result of a query over *inputs*, computed inline if that is possible, or by a job."""
    few = PLANS.run(session, None, purpose, make, inputs)
    if few is not None:
        return few
    with ExitStack() as stack:
        return collect_or_checkpoint(
            make({name: stack.enter_context(temporary_view(rows.frame)) for name, rows in inputs.items()})
        )
