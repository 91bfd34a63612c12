"""Maintained rows: what a run writes that applies a change, and whether it adds to the table or stands in for its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from mt_core.errors import EngineError, SourcesChanged
from mt_core.identifiers import quote
from mt_core.maintenance.changes import ChangeKind
from mt_core.maintenance.delta import DeltaTexts, counted_again, ordered, touched
from mt_core.maintenance.first_rows import FirstRows
from mt_core.maintenance.strategy import Ties, ValueChanged, Way, check_keys
from mt_core.spark.maintenance.appended_partitions import appended_values
from mt_core.spark.maintenance.appended_rows import AppendedRows
from mt_core.spark.maintenance.bounds import EVERYWHERE, bounds_of, condition_of, named_values
from mt_core.spark.maintenance.changed_groups import ChangedGroups, added_over
from mt_core.spark.maintenance.computed_rows import Computed, computed, kept
from mt_core.spark.maintenance.query_shapes import values_of
from mt_core.spark.maintenance.replacement import Replacement
from mt_core.spark.maintenance.row_delta import InPlace, RowDelta
from mt_core.spark.maintenance.row_images import (
    ImageViews,
    difference,
    images_of,
    is_small,
    repeated,
    source_images,
    temporary_view,
)
from mt_core.spark.maintenance.source_changes import pieces_of, pins
from mt_core.spark.maintenance.touched_rows import Wanted, touched_rows
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_relations import is_query, relation_at
from mt_core.spark.queries.source_versions import agrees
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Maintenance, SourceVector, Write

Change = DataFrame | Replacement | RowDelta


@contextmanager
def maintained_rows(
    session: SparkSession, lineage: Lineage, write: Write, maintenance: Maintenance, in_place: InPlace | None
) -> Iterator[Change]:
    """Give what to write, in the table's columns: rows to add for APPEND and NOTHING, for the others all rows or what stands in.

    *in_place*: files of the table stay; None if it is written anew.
    """
    _check_unchanged(lineage, write.vector)
    changes, strategy = maintenance.changes, maintenance.strategy
    stored_order(write.table, changes.columns, write.columns, write.query_types)
    names = [column.name for column in changes.columns]
    table = f"{write.table.sql} VERSION AS OF {maintenance.base}"
    with ExitStack() as stack:
        texts, images = _texts(session, lineage, write.vector, maintenance, stack)
        appended = AppendedRows(session=session, lineage=lineage, maintenance=maintenance, vector=write.vector)
        match strategy.way:
            case Way.NOTHING:
                yield _stored(session, texts.full(), names, write).limit(0)
            case Way.APPEND:
                few = appended.few(write.columns, lambda each: _stored(session, added_over(texts, each), names, write))
                yield _stored(session, texts.added(), names, write) if few is None else few
            case Way.MERGE if strategy.first is not None:
                rows = computed(session.sql(texts.candidates(table, names, strategy.first)))
                found = _first(session, stack.enter_context(temporary_view(rows)), names, strategy.first)
                yield _stored(session, found, names, write)
            case Way.MERGE if not texts.images and (in_place is None or None not in strategy.merge):
                yield _stored(session, texts.merged(table, names, strategy.merge), names, write)
            case Way.MERGE | Way.KEYS | Way.SIGNED:
                yield _Replaced(
                    session=session,
                    appended=appended,
                    texts=texts,
                    images=images,
                    write=write,
                    maintenance=maintenance,
                    in_place=in_place,
                    stack=stack,
                ).change()
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
        texts, _ = _texts(session, lineage, vector, maintenance, stack)
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
        change = changes.changes[source]
        if columns is None or change.kind is not ChangeKind.APPENDS or change.from_nothing:
            return None
        with lineage.lock:
            values = appended_values(session, tables[source], old[source], new[source], columns)
        if values is None:
            return None
        found |= values
    return frozenset(found)


def _check_unchanged(lineage: Lineage, vector: SourceVector) -> None:
    if not agrees(lineage, {each.name: each.version or {} for each in vector.sources}):
        raise SourcesChanged(
            "A view, function or table of the query changed while the refresh was starting; run it again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replaced:
    """What a change that does not only add rows takes out of the table and puts in; its views stay until `stack` closes."""

    session: SparkSession
    appended: AppendedRows
    texts: DeltaTexts
    images: Mapping[str, ImageViews]
    write: Write
    maintenance: Maintenance
    in_place: InPlace | None
    stack: ExitStack

    def change(self) -> Change:
        match self.maintenance.strategy.way:
            case Way.KEYS:
                return self.keys()
            case Way.MERGE:
                return self.groups()
            case _:
                return self.rows()

    def keys(self) -> Change:
        """Replace the rows of all keys that changed rows have by what the query gives for them."""
        strategy, names = self.maintenance.strategy, self._names
        found = kept(self.session.sql(self.texts.keys(names, strategy.key_columns, strategy.keys)))
        check_keys(strategy, found.count())
        keys, gone = tuple(found.columns), self._view(found.frame)
        rows = self._stored(self.texts.renewed(names, strategy.keys, gone, self._named(found, keys)))
        if self.in_place is not None and self.in_place.by_place and not self.in_place.by_key:
            touched = touched_rows(self.session, self.in_place.at, keys, Wanted(rows=found, keys=keys))
            return RowDelta(gone=touched, rows=rows, few=False)
        return Replacement(keys=keys, gone=gone, bounds=self._bounds(found, keys), rows=rows)

    def groups(self) -> Change:
        """Add the aggregates of changed rows to those of their groups."""
        strategy, names = self.maintenance.strategy, self._names
        keys = tuple(position for position, function in enumerate(strategy.merge) if function is None)
        grouping = tuple(names[position] for position in keys)
        found = ChangedGroups.of(self.appended, self.texts, self.images)
        delta, certain, doubtful = found.every, self._view(found.certain), found.doubtful
        if self.in_place is None and doubtful is None:
            few = self.maintenance.small and delta.rows is not None
            return self._stored(self.texts.merged(self._table, names, strategy.merge, certain, few=few))
        by_place = self.in_place is not None and self.in_place.by_place
        bounds, old, gone = self._bounds(delta, grouping), self._table, delta
        if self.in_place is not None and by_place:
            gone = touched_rows(self.session, self.in_place.at, names, Wanted(rows=delta, keys=grouping, single=True))
            bounds, old = EVERYWHERE, self._view(gone.frame)
        if not by_place or doubtful is not None:
            old = f"({touched(old, names, grouping, certain, bounds)})"
        few = by_place and doubtful is None and delta.rows is not None and gone.rows is not None
        text = self.texts.merged(old, names, strategy.merge, certain, few=few)
        if doubtful is not None:
            doubted, named = self._view(doubtful.frame.select(*map(quote, grouping))), self._named(doubtful, grouping)
            text = f"{text}\nUNION ALL\n{self.texts.renewed(names, keys, doubted, named)}"
        rows = self._stored(text)
        if by_place:
            return RowDelta(gone=gone, rows=rows, few=few)
        return Replacement(keys=grouping, gone=self._view(delta.frame), bounds=bounds, rows=rows)

    def rows(self) -> Change:
        """Take the rows out that removed rows of the sources had given, and put those in that added ones give."""
        # In the table's own types: a value that they do not hold exactly is found again only as it was stored.
        plus, minus = (self._stored(text) for text in (self.texts.added(), self.texts.removed()))
        copies = f"_copies_{uuid4().hex}"
        changes = self.maintenance.changes
        # A query that reads nothing else gives as few rows as changed.
        size = changes.changed_bytes if len(changes.readings) == 1 else None
        net = difference(minus, plus, copies, small=is_small(size))
        stored = tuple(column.name for column in self.write.columns)
        gone = _gone(net, copies)
        if self.in_place is not None and self.in_place.by_place:
            wanted = Wanted(rows=gone, keys=stored, copies=copies)
            touched = touched_rows(self.session, self.in_place.at, stored, wanted)
            few = net.rows is not None and touched.rows is not None
            return RowDelta(gone=touched, rows=repeated(net, copies, 1), few=few)
        images, bounds = self.stack.enter_context(images_of(net, copies)), self._bounds(net, stored)
        rows = self.session.sql(counted_again(self._table, stored, images, bounds))
        return Replacement(keys=stored, gone=self._view(gone.frame), bounds=bounds, rows=rows)

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.maintenance.changes.columns]

    @property
    def _table(self) -> str:
        return f"{self.write.table.sql} VERSION AS OF {self.maintenance.base}"

    def _stored(self, text: str) -> DataFrame:
        return _stored(self.session, text, self._names, self.write)

    def _bounds(self, values: Computed, columns: Sequence[str]) -> str:
        return EVERYWHERE if self.in_place is None else condition_of(bounds_of(values, columns))

    def _named(self, values: Computed, columns: Sequence[str]) -> str:
        """Return a condition on rows of the query that have *values*; none for small sources, as it is compiled anew each time."""
        return EVERYWHERE if is_small(self.maintenance.changes.source_bytes) else named_values(values, columns)

    def _view(self, frame: DataFrame) -> str:
        return self.stack.enter_context(temporary_view(frame))


def _gone(net: Computed, copies: str) -> Computed:
    """Return the rows of a difference that go, with how many copies."""
    if net.rows is None:
        gone = net.frame.where(f"{quote(copies)} < 0")
        return Computed.many(gone.withColumn(copies, -col(copies)))
    rows = net.rows.filter(compute.less(net.rows[copies], 0))
    place = rows.column_names.index(copies)
    return replace(net, rows=rows.set_column(place, rows.schema.field(copies), compute.negate(rows[copies])))


def _texts(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance, stack: ExitStack
) -> tuple[DeltaTexts, Mapping[str, ImageViews]]:
    """Return the texts of a refresh, and the images of the sources of which rows were changed, until *stack* closes."""
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    changed = {n: source for n, source in enumerate(changes.readings) if changes.changes[source].kind.changes_rows}
    values = maintenance.strategy.values
    texts = DeltaTexts(
        pieces=pieces_of(lineage),
        shape=changes.shape,
        old=old,
        new=new,
        changed=frozenset(changed) - values,
        relations=_relations(session, lineage, old, new),
        from_nothing=frozenset(name for name, change in changes.changes.items() if change.from_nothing),
    )
    if values:
        _check_values(session, texts, values)
    read = {changed[number] for number in texts.changed}
    grouped = maintenance.strategy.way is not Way.SIGNED
    images = {
        source.name: stack.enter_context(
            source_images(session, lineage, source, old[source.name], new[source.name], grouped=grouped)
        )
        for source in lineage.sources
        if source.name in read and changes.changes[source.name].kind is ChangeKind.ROWS
    }
    return replace(texts, images=images), images


def _relations(
    session: SparkSession, lineage: Lineage, old: Mapping[str, str], new: Mapping[str, str]
) -> dict[tuple[str, str], str]:
    """Return what is read of each source at its two versions, for those whose columns are other ones now, or that have no rows."""
    relations: dict[tuple[str, str], str] = {}
    with lineage.lock:
        for source in lineage.sources:
            for version in {old.get(source.name), new.get(source.name)} - {None}:
                relation = relation_at(session, lineage, source, str(version))
                if relation is None:
                    raise SourcesChanged(
                        f"The columns of {source.name} cannot be told in snapshot {version}; run it again."
                    )
                if is_query(relation):
                    relations[source.name, str(version)] = relation
    return relations


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
