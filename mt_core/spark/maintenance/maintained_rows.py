"""Maintained rows: what a run writes that applies a change, and whether it adds to the table or stands in for its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from uuid import uuid4

from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from mt_core.errors import EngineError, SourcesChanged
from mt_core.identifiers import quote
from mt_core.maintenance.changes import ChangeKind
from mt_core.maintenance.delta import DeltaTexts, counted_again, ordered, touched
from mt_core.maintenance.first_rows import FirstRows
from mt_core.maintenance.strategy import Strategy, Ties, ValueChanged, Way, check_keys
from mt_core.spark.maintenance.appended_partitions import appended_values
from mt_core.spark.maintenance.query_shapes import values_of
from mt_core.spark.maintenance.replacement import EVERYWHERE, Copies, Replacement, bounds_of
from mt_core.spark.maintenance.row_images import (
    SMALL,
    Computed,
    computed,
    difference,
    images_of,
    kept,
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
                yield _stored(session, texts.full(), names, write).limit(0)
            case Way.APPEND:
                yield _stored(session, texts.added(), names, write)
            case Way.MERGE if strategy.first is not None:
                rows = computed(session.sql(texts.candidates(table, names, strategy.first)))
                found = _first(session, stack.enter_context(temporary_view(rows)), names, strategy.first)
                yield _stored(session, found, names, write)
            case Way.MERGE if not texts.images and not (maintenance.in_place and None in strategy.merge):
                yield _stored(session, texts.merged(table, names, strategy.merge), names, write)
            case Way.MERGE | Way.KEYS | Way.SIGNED:
                yield _replacement(session, texts, write, maintenance, stack)
            case _:
                raise EngineError(f"A refresh of {write.table} cannot be applied by {strategy.way}.")


def _first(session: SparkSession, candidates: str, names: Sequence[str], first: FirstRows) -> str:
    """Return the text for the first rows of a relation that has one more; raises Ties if that one could be among them as well."""
    order = ordered(names, first)
    places = f"SELECT row_number() OVER (ORDER BY {order}) AS place, rank() OVER (ORDER BY {order}) AS rank FROM {candidates}"
    tie = f"SELECT 1 FROM ({places}) WHERE place = {first.rows + 1} AND rank < place"
    if not first.total and not session.sql(tie).isEmpty():
        raise Ties("rows beside the LIMIT are equal in the ORDER BY")
    return f"SELECT * FROM {candidates} ORDER BY {order} LIMIT {first.rows}"


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
    match maintenance.strategy.way:
        case Way.KEYS:
            return _of_keys(session, texts, write, maintenance, stack)
        case Way.MERGE:
            return _of_groups(session, texts, write, maintenance, stack)
        case _:
            return _of_rows(session, texts, write, maintenance, stack)


def _of_keys(
    session: SparkSession, texts: DeltaTexts, write: Write, maintenance: Maintenance, stack: ExitStack
) -> Replacement:
    strategy, names = maintenance.strategy, [column.name for column in maintenance.changes.columns]
    found = kept(session.sql(texts.keys(names, strategy.key_columns, strategy.keys)))
    check_keys(strategy, found.count())
    keys, gone = tuple(found.frame.columns), stack.enter_context(temporary_view(found.frame))
    bounds = bounds_of(found, keys) if maintenance.in_place else EVERYWHERE
    rows = _stored(session, texts.renewed(names, strategy.keys, gone), names, write)
    return Replacement(keys=keys, gone=gone, bounds=bounds, rows=rows)


def _of_groups(
    session: SparkSession, texts: DeltaTexts, write: Write, maintenance: Maintenance, stack: ExitStack
) -> Replacement:
    strategy, names = maintenance.strategy, [column.name for column in maintenance.changes.columns]
    keys = tuple(position for position, function in enumerate(strategy.merge) if function is None)
    grouping = tuple(names[position] for position in keys)
    delta, following, doubtful = _changed_groups(session, texts, names, strategy)
    gone, certain = (stack.enter_context(temporary_view(each)) for each in (delta.frame, following))
    bounds = bounds_of(delta, grouping) if maintenance.in_place else EVERYWHERE
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    old = touched(table, names, grouping, certain, bounds)
    text = texts.merged(f"({old})", names, strategy.merge, certain)
    if doubtful is not None:
        doubted = stack.enter_context(temporary_view(doubtful.select(*map(quote, grouping))))
        text = f"{text}\nUNION ALL\n{texts.renewed(names, keys, doubted)}"
    return Replacement(keys=grouping, gone=gone, bounds=bounds, rows=_stored(session, text, names, write))


def _of_rows(
    session: SparkSession, texts: DeltaTexts, write: Write, maintenance: Maintenance, stack: ExitStack
) -> Replacement:
    names = [column.name for column in maintenance.changes.columns]
    # In the table's own types: a value that they do not hold exactly is found again only as it was stored.
    plus, minus = (_stored(session, text, names, write) for text in (texts.added(), texts.removed()))
    copies = f"_copies_{uuid4().hex}"
    # A query that reads nothing else gives as few rows as changed.
    size = maintenance.changes.changed_bytes if len(maintenance.changes.readings) == 1 else None
    net = difference(minus, plus, copies, small=size is not None and size <= SMALL)
    images = stack.enter_context(images_of(net.frame, copies))
    gone = stack.enter_context(temporary_view(net.frame.where(f"{copies} < 0").withColumn(copies, -col(copies))))
    stored = tuple(column.name for column in write.columns)
    bounds = bounds_of(net, stored) if maintenance.in_place else EVERYWHERE
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    return Replacement(
        keys=stored,
        gone=gone,
        bounds=bounds,
        rows=session.sql(counted_again(table, stored, images, bounds)),
        copies=Copies(column=copies, rows=session.table(images.added)),
    )


def _changed_groups(
    session: SparkSession, texts: DeltaTexts, names: list[str], strategy: Strategy
) -> tuple[Computed, DataFrame, DataFrame | None]:
    """Return the groups that changed: all with the change of their aggregates, those in no doubt, the others if there are any."""
    if not texts.images:
        appended = kept(session.sql(texts.added()).toDF(*names))
        return appended, appended.frame, None
    doubt = f"_doubt_{uuid4().hex}"
    delta = kept(session.sql(texts.subtracted(names, strategy.merge, doubt)))
    certain = delta.frame.where(f"NOT {doubt}").select(*map(quote, names))
    if delta.rows is not None and not compute.any(delta.rows[doubt]).as_py():
        return delta, certain, None
    doubtful = kept(delta.frame.where(doubt))
    check_keys(strategy, doubtful.count())
    return delta, certain, doubtful.frame


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


def _stored(session: SparkSession, text: str, names: list[str], write: Write) -> DataFrame:
    """Return the rows of *text*, whose columns have *names* by position, in the columns of the table in order and type.

    In one text: the analysis of each frame between them, and each call for a column, would cost a small change its time.
    """
    items = (f"CAST(d.{quote(each.name)} AS {each.type}) AS {quote(each.name)}" for each in write.columns)
    return session.sql(f"SELECT {', '.join(items)} FROM ({text}\n) AS d({', '.join(map(quote, names))})")
