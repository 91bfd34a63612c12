"""Maintained rows: the rows that an incremental run inserts into a table, and the rows that it deletes.

The strategy (`mt_core.incremental.strategy`) selects one of several methods. This module turns it into one
of two changes: a complete new content, or a replacement of some rows. Every method runs SQL over the changed
rows (`DeltaTexts`), at the source versions pinned for the run, and against the table at the snapshot that the
previous run published. The invariant is that the table then equals a recomputation at the new versions,
except that doubles may be added in a different order. Small inputs are computed in the driver by inline
plans, because a Spark job costs more than such a change. Larger inputs use the same SQL in Spark jobs.
Nothing is written here. If a precondition does not hold (a scalar subquery changed, rows tie at a LIMIT,
there are too many keys), NotApplied is raised before anything is staged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from mt_core.base.identifiers import quote
from mt_core.errors import EngineError
from mt_core.incremental.changes import ChangeKind
from mt_core.incremental.delta import (
    DeltaTexts,
    ordered,
    over,
    touched,
)
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.strategy import ResultUnchanged, Ties, ValueChanged, Way, check_keys
from mt_core.spark.iceberg.bounds import EVERYWHERE, values_condition
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, computed, no_rows
from mt_core.spark.iceberg.find_rows import LookupKeys, TableVersion, find_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.replace_rows import AddedRows, AllRows, Change, DeleteModes
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.row_delta import RowDelta
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.appended_partitions import values_in_manifests
from mt_core.spark.incremental.changed_groups import ChangedGroups
from mt_core.spark.incremental.small_change import SmallChange
from mt_core.spark.incremental.table_change import TableChange, counts_checked
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.query_shapes import pieces_of, values_of
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import check_unchanged, relations_at
from mt_core.spark.readings.row_images import ImageViews
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Maintenance, SourceVector, Write

SMALL = 16 * 1024 * 1024
"""The maximum size, in bytes, of sources that are read as a whole to look up keys in them."""


@contextmanager
def maintained_rows(
    session: SparkSession,
    lineage: Lineage,
    write: Write,
    maintenance: Maintenance,
    stored: Any,
    modes: DeleteModes | None,
) -> Iterator[tuple[Change, DeleteModes | None]]:
    """Yield the change that brings the *stored* Iceberg table to the new source versions, and its modes.

    *modes* says how rows may be deleted in place. If it is None, or if too many rows changed, the modes are
    None, and the table is rewritten. Raises SourcesChanged, ValueChanged or Ties if the changes cannot be
    applied, and ResultUnchanged if the query reads none of the changed rows.
    """
    check_unchanged(lineage, write.vector)
    changes, strategy = maintenance.changes, maintenance.strategy
    stored_order(write.table, changes.columns, write.columns, write.query_types)
    names = [column.name for column in changes.columns]
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    with ExitStack() as stack:
        # This checks scalar subqueries and raises ValueChanged, even if the strategy writes no rows.
        texts, images = _texts(session, lineage, write.vector, maintenance, stack)
        if not texts.changed and strategy.way is not Way.NOTHING:
            raise ResultUnchanged
        small = SmallChange.of(session, lineage, changes, images)
        if not maintenance.in_place and _changed_rows(maintenance, images) > maintenance.most_in_place:
            modes = None
        match strategy.way:
            case Way.NOTHING:
                yield AddedRows(rows=no_rows(session, stored_schema(session, stored))), modes
            case Way.MERGE if strategy.first is not None:
                rows = computed(session.sql(texts.candidates(table, names, strategy.first)))
                found = _first(session, stack.enter_context(temporary_view(rows)), names, strategy.first)
                yield AllRows(rows=_stored(session, found, names, write)), modes
            case Way.MERGE if not texts.removes and (
                not small if modes is None else None not in strategy.merge
            ):
                merged = texts.merged(table, names, strategy.merge)
                yield AllRows(rows=_stored(session, merged, names, write)), modes
            case Way.MERGE | Way.KEYS:
                replacement = _RowReplacement(
                    session=session,
                    lineage=lineage,
                    small=small,
                    texts=texts,
                    write=write,
                    maintenance=maintenance,
                    table=TableChange(
                        session=session,
                        lineage=lineage,
                        at=TableVersion(table=stored, snapshot=maintenance.base),
                        name=table,
                        columns=tuple(column.name for column in write.columns),
                        modes=modes,
                        small=maintenance.small,
                        stack=stack,
                    ),
                )
                with counts_checked():
                    yield replacement.change(), modes
            case _:
                raise EngineError(f"A refresh of {write.table} cannot be applied by {strategy.way}.")


def _changed_rows(maintenance: Maintenance, images: Mapping[int, ImageViews]) -> float:
    """Return how many rows of the sources changed; infinite if this is not known."""
    changes, rows = maintenance.changes, dict[str, float]()
    for number, views in images.items():
        source, count = changes.readings[number], float(views.net.count()) if views.few else inf
        rows[source] = max(rows.get(source, 0), count)
    for source, change in changes.changes.items():
        if change.kind is ChangeKind.APPENDS and source not in rows:
            rows[source] = inf if change.rows is None else change.rows
    return sum(rows.values()) if images else inf


def _first(session: SparkSession, candidates: str, names: Sequence[str], first: FirstRows) -> str:
    """Return the query for the first rows of *candidates*, which has one row more than the LIMIT.

    Raises Ties if the extra row has the same ORDER BY values as the last row within the LIMIT.
    """
    order = ordered(names, first)
    places = (
        f"SELECT row_number() OVER (ORDER BY {order}) AS place, rank() OVER (ORDER BY {order}) AS rank "
        f"FROM {candidates}"
    )
    tie = f"SELECT 1 FROM ({places}) WHERE place = {first.rows + 1} AND rank < place"
    if not first.total and not session.sql(tie).isEmpty():
        raise Ties("rows on both sides of the LIMIT are equal in the ORDER BY")
    return f"SELECT * FROM {candidates} ORDER BY {order} LIMIT {first.rows}"


def changed_key_values(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> frozenset[tuple[str | None, ...]]:
    """Return the distinct values of the key columns in the changed rows, as text."""
    check_unchanged(lineage, vector)
    names, strategy = [column.name for column in maintenance.changes.columns], maintenance.strategy
    known = values_in_manifests(session, lineage, vector, maintenance, strategy.key_columns)
    if known is not None:
        return known
    with ExitStack() as stack:
        texts, _ = _texts(session, lineage, vector, maintenance, stack)
        if not texts.changed:
            return frozenset()
        keys = session.sql(texts.keys(names, strategy.key_columns, strategy.keys))
        values = keys.select(*(col(quote(each)).cast("string") for each in keys.columns)).distinct()
        return frozenset(tuple(row) for row in values.collect())


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowReplacement:
    """Computes the rows to delete from the `table` and the rows to insert."""

    session: SparkSession
    lineage: Lineage
    small: SmallChange | None
    texts: DeltaTexts
    write: Write
    maintenance: Maintenance
    table: TableChange

    def change(self) -> Change:
        return self.keys() if self.maintenance.strategy.way is Way.KEYS else self.groups()

    def keys(self) -> Change:
        """Replace the rows of all changed keys with the query's current result for those keys."""
        strategy, names = self.maintenance.strategy, self._names
        small = self.small and self.small.compute(
            lambda rows: over(self.texts, rows).keys(names, strategy.key_columns, strategy.keys)
        )
        values = small or collect_or_checkpoint(
            self.session.sql(self.texts.keys(names, strategy.key_columns, strategy.keys))
        )
        check_keys(strategy, values.count())
        keys, gone = tuple(values.columns), self.table.view(values.frame)
        rows = self._stored(self.texts.renewed(names, strategy.keys, gone, self._named(values, keys)))
        return Replacement(keys=keys, values=values, gone=gone, rows=rows)

    def groups(self) -> Change:
        """Add the aggregates of the changed rows to the stored aggregates of their groups."""
        strategy, names = self.maintenance.strategy, self._names
        keys = tuple(position for position, function in enumerate(strategy.merge) if function is None)
        grouping = tuple(names[position] for position in keys)
        groups = ChangedGroups.of(self.session, self.texts, self.maintenance, self.small)
        delta, doubtful = groups.every, groups.doubtful
        if self.table.modes is None and doubtful is None:
            return AllRows(rows=self._all_merged(groups))
        by_place = self.table.looks_up
        bounds, old, gone = self.table.bounds(delta, grouping), self.table.name, delta
        if by_place:
            gone = find_rows(
                self.session, self.table.at, names, LookupKeys(rows=delta, keys=grouping, single=True)
            )
            if doubtful is None:

                def merged(at: Mapping[str, str]) -> str:
                    text = self.texts.merged(at["gone"], names, strategy.merge, groups.certain(at["changed"]))
                    return _stored_text(text, names, self.write)

                come = PLANS.sql(self.session, self.lineage, merged, {"gone": gone, "changed": delta})
                if come is not None:
                    return RowDelta(gone=gone, come=come)
            bounds, old = EVERYWHERE, self.table.view(gone.frame)
        certain = groups.certain(self.table.view(delta.frame))
        if not by_place or doubtful is not None:
            old = f"({touched(old, names, grouping, certain, bounds)})"
        text = self.texts.merged(old, names, strategy.merge, certain)
        if doubtful is not None:
            doubted, named = (
                self.table.view(doubtful.frame.select(*map(quote, grouping))),
                self._named(doubtful, grouping),
            )
            text = f"{text}\nUNION ALL\n{self.texts.renewed(names, keys, doubted, named)}"
        rows = self._stored(text)
        if by_place:
            return RowDelta(gone=gone, come=rows)
        return Replacement(
            keys=grouping, values=delta, gone=self.table.view(delta.frame), rows=rows, bounds=bounds
        )

    def _all_merged(self, groups: ChangedGroups) -> DataFrame | ComputedRows:
        """Return all rows of the table after the aggregate deltas are added to the changed groups."""
        merge, names, delta = self.maintenance.strategy.merge, self._names, groups.every

        def all_merged(at: Mapping[str, str]) -> str:
            text = self.texts.merged(at["table"], names, merge, groups.certain(at["changed"]))
            return _stored_text(text, names, self.write)

        whole = self.table.whole(all_merged, {"changed": delta})
        if whole is not None:
            return whole
        few, certain = (
            self.maintenance.small and delta.few,
            groups.certain(self.table.view(delta.frame)),
        )
        return self._stored(self.texts.merged(self.table.name, names, merge, certain, few=few))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.maintenance.changes.columns]

    def _stored(self, text: str) -> DataFrame:
        return _stored(self.session, text, self._names, self.write)

    def _named(self, values: ComputedRows, columns: Sequence[str]) -> str:
        """Return a condition that restricts the query's rows to *values*, which lets sources skip files.

        For small sources the condition is always true: Spark would compile each new condition, which costs
        more than the skipped files save.
        """
        return (
            EVERYWHERE
            if self.maintenance.changes.source_bytes <= SMALL
            else values_condition(values, columns)
        )


def _texts(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance, stack: ExitStack
) -> tuple[DeltaTexts, Mapping[int, ImageViews]]:
    """Return the delta SQL of a refresh and the row images of changed readings, by number.

    Readings whose changes do not concern the query are not among the changed ones. The views of the images
    exist until *stack* closes.
    """
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    changed = {number for number, change in changes.by_reading().items() if change.kind.changes_rows}
    values = maintenance.strategy.values
    texts = DeltaTexts(
        pieces=pieces_of(lineage),
        shape=changes.shape,
        old=old,
        new=new,
        changed=frozenset(changed) - values,
        relations=relations_at(session, lineage, [old, new]),
        from_nothing=frozenset(name for name, change in changes.changes.items() if change.from_nothing),
    )
    if values:
        _check_values(session, texts, values)
    readings = ReadingImages(session=session, lineage=lineage, changes=changes, old=old, new=new)
    images = readings.of(texts.changed, stack)
    unread = {number for number, views in images.items() if views.few and not views.net.count()}
    images = {number: views for number, views in images.items() if number not in unread}
    return replace(texts, images=images, changed=texts.changed - unread), images


def _check_values(session: SparkSession, texts: DeltaTexts, values: Collection[int]) -> None:
    """Raise ValueChanged if a scalar subquery over the relations *values* has a new result.

    The old and new versions are read in separate statements, because within one statement Spark would treat
    two versions of a table as the same relation.
    """
    old, new = (values_of(session, text) for text in (texts.full(older=values), texts.full()))
    same = " AND ".join(f"o.{name} <=> n.{name}" for name in old.columns)
    with temporary_view(old) as before, temporary_view(new) as after:
        row = session.sql(f"SELECT {same} FROM {before} AS o CROSS JOIN {after} AS n").first()
    if row is None or not row[0]:
        raise ValueChanged("a scalar subquery has another value")


def _stored(session: SparkSession, text: str, names: list[str], write: Write) -> DataFrame:
    return session.sql(_stored_text(text, names, write))


def _stored_text(text: str, names: list[str], write: Write) -> str:
    """Return the query *text*, with columns *names*, projected and cast to the table's columns.

    This is a single SQL text because, for a small change, analysing intermediate DataFrames takes most of
    the time.
    """
    items = (f"CAST(d.{quote(each.name)} AS {each.type}) AS {quote(each.name)}" for each in write.columns)
    return f"SELECT {', '.join(items)} FROM ({text}\n) AS d({', '.join(map(quote, names))})"
