"""Maintained rows: what a run writes that applies a change, and whether it adds to the table or stands in for its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from mt_core.errors import EngineError, SourcesChanged
from mt_core.identifiers import quote
from mt_core.maintenance.changes import ChangeKind
from mt_core.maintenance.delta import DeltaTexts, counted_again, touched
from mt_core.maintenance.strategy import ValueChanged, Way, check_keys
from mt_core.spark.maintenance.appended_partitions import appended_values
from mt_core.spark.maintenance.query_shapes import values_of
from mt_core.spark.maintenance.replacement import EVERYWHERE, Replacement, bounds_of
from mt_core.spark.maintenance.row_images import (
    MOST_LOCAL,
    computed,
    counted,
    images_between,
    source_images,
    temporary_view,
)
from mt_core.spark.maintenance.source_changes import pieces_of, pins
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import agrees
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Maintenance, SourceVector, Write


@contextmanager
def maintained_rows(
    session: SparkSession, lineage: Lineage, write: Write, maintenance: Maintenance
) -> Iterator[DataFrame | Replacement]:
    """Give what to write, in the table's columns: rows to add for APPEND and NOTHING, for the others all rows or a replacement."""
    _check_unchanged(lineage, write.vector)
    changes, strategy = maintenance.changes, maintenance.strategy
    stored_order(write.table, changes.columns, write.columns, write.query_types)
    names = [column.name for column in changes.columns]
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    with ExitStack() as stack:
        texts = _texts(session, lineage, write.vector, maintenance, stack)
        match strategy.way:
            case Way.NOTHING:
                yield _stored(session.sql(texts.full()).limit(0), names, write)
            case Way.APPEND:
                yield _stored(session.sql(texts.added()), names, write)
            case Way.MERGE if not (maintenance.in_place and None in strategy.merge):
                yield _stored(session.sql(texts.merged(table, names, strategy.merge)), names, write)
            case Way.MERGE | Way.KEYS | Way.SIGNED:
                yield _replacement(session, texts, write, maintenance, stack)
            case _:
                raise EngineError(f"A refresh of {write.table} cannot be applied by {strategy.way}.")


def touched_values(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> frozenset[tuple[str | None, ...]]:
    """Return the values, as texts, that changed rows have in the key columns of *maintenance*."""
    _check_unchanged(lineage, vector)
    names, strategy = [column.name for column in maintenance.changes.columns], maintenance.strategy
    known = _values_in_manifests(session, lineage, vector, maintenance)
    if known is not None:
        return known
    with ExitStack() as stack:
        texts = _texts(session, lineage, vector, maintenance, stack)
        keys = session.sql(texts.keys(names, strategy.key_columns, strategy.keys))
        values = keys.select(*(col(quote(each)).cast("string") for each in keys.columns)).distinct()
        return frozenset(tuple(row) for row in values.collect())


def _values_in_manifests(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> frozenset[tuple[str | None, ...]] | None:
    """Return what `touched_values` does if sources were only appended to, in partitions by the columns that tell; else None.

    Rows that were changed are in files with others, which may be in more partitions than they.
    """
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    tables, found = {source.name: source.table for source in lineage.sources}, set[tuple[str | None, ...]]()
    for number, columns in maintenance.strategy.key_columns.items():
        source = changes.readings[number]
        if columns is None or changes.changes[source].kind is not ChangeKind.APPENDS:
            return None
        with lineage.lock:
            values = appended_values(session, tables[source], old[source], new[source], columns)
        if values is None:
            return None
        found |= values
    return frozenset(found)


def _check_unchanged(lineage: Lineage, vector: SourceVector) -> None:
    if not agrees(lineage, {each.name: each.version or {} for each in vector.sources}):
        raise SourcesChanged("A view or table of the query changed while the refresh was starting; run it again.")


def _replacement(
    session: SparkSession, texts: DeltaTexts, write: Write, maintenance: Maintenance, stack: ExitStack
) -> Replacement:
    """Return what a change takes out of the table and puts in; its views stay until *stack* closes."""
    strategy, names = maintenance.strategy, [column.name for column in maintenance.changes.columns]
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    if strategy.way is Way.KEYS:
        keys, number = counted(session.sql(texts.keys(names, strategy.key_columns, strategy.keys)))
        # Rows of a checkpoint are counted without reading a source.
        check_keys(strategy, number if number <= MOST_LOCAL else keys.count())
        gone = stack.enter_context(temporary_view(keys))
        rows = session.sql(texts.renewed(names, strategy.keys, gone))
        bounds = bounds_of(session, gone, keys.columns) if maintenance.in_place else EVERYWHERE
        return Replacement(keys=tuple(keys.columns), gone=gone, bounds=bounds, rows=_stored(rows, names, write))
    if strategy.way is Way.MERGE:
        gone = stack.enter_context(temporary_view(computed(session.sql(texts.added()).toDF(*names))))
        grouping = tuple(name for name, function in zip(names, strategy.merge, strict=True) if function is None)
        bounds = bounds_of(session, gone, grouping)
        old = touched(table, names, grouping, gone, bounds)
        rows = session.sql(texts.merged(f"({old})", names, strategy.merge, gone))
        return Replacement(keys=grouping, gone=gone, bounds=bounds, rows=_stored(rows, names, write))
    # In the table's own types: a value that they do not hold exactly is found again only as it was stored.
    plus, minus = (_stored(session.sql(text), names, write) for text in (texts.added(), texts.removed()))
    images = stack.enter_context(images_between(minus, plus))
    stored = tuple(column.name for column in write.columns)
    bounds = bounds_of(session, images.removed, stored) if maintenance.in_place else EVERYWHERE
    rows = session.sql(counted_again(table, stored, images, bounds))
    return Replacement(keys=stored, gone=images.removed, bounds=bounds, rows=rows)


def _texts(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance, stack: ExitStack
) -> DeltaTexts:
    """Return the texts of a refresh, with the images of the sources of which rows were changed, until *stack* closes."""
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    changed = {n: source for n, source in enumerate(changes.readings) if changes.changes[source].kind.changes_rows}
    values = maintenance.strategy.values
    texts = DeltaTexts(
        pieces=pieces_of(lineage), shape=changes.shape, old=old, new=new, changed=frozenset(changed) - values
    )
    if values:
        _check_values(session, texts, values)
    read = {changed[number] for number in texts.changed}
    return replace(
        texts,
        images={
            source.name: stack.enter_context(
                source_images(session, lineage, source, old[source.name], new[source.name])
            )
            for source in lineage.sources
            if source.name in read and changes.changes[source.name].kind is ChangeKind.ROWS
        },
    )


def _check_values(session: SparkSession, texts: DeltaTexts, values: Collection[int]) -> None:
    """Raise ValueChanged unless scalar subqueries give the same whichever version they read of the relations *values*.

    Each version in a statement of its own: Spark takes two versions of a table in one for the same relation.
    """
    old, new = (values_of(session, text) for text in (texts.full(older=values), texts.full()))
    same = " AND ".join(f"o.{name} <=> n.{name}" for name in old.columns)
    with temporary_view(old) as before, temporary_view(new) as after:
        found = session.sql(f"SELECT {same} FROM {before} AS o CROSS JOIN {after} AS n").first()
    if found is None or not found[0]:
        raise ValueChanged("a scalar subquery gives another value")


def _stored(rows: DataFrame, names: list[str], write: Write) -> DataFrame:
    """Give *rows*, whose columns have *names* by position, the columns of the table in order and type."""
    named = rows.toDF(*names)
    return named.select(*(col(quote(column.name)).cast(column.type).alias(column.name) for column in write.columns))
