"""Delta SQL: computes the change of a query's result from the changes of its sources.

The query's text is split at its readings, the places where it reads a table. Each reading is replaced by a
relation at a pinned version, or by changed rows. If the query is linear in its readings, the change of its
result is a sum over the changed readings. Each term is the query over the changed rows of one reading, with
the changed readings before it at their new versions and those after it at their old versions. Thus no pair of
changed rows is counted twice. Removed and added rows are summed separately and subtracted.

Because the module edits text instead of plans, Spark analyses and optimizes the result like the query itself.
The price is that only what SQL can name can be read. Therefore old versions may need subqueries
(`relations`), and updated sources need temporary views (`Images`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from mt_core.base.identifiers import quote, string_literal
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.merging import AGAIN, Merge
from mt_core.incremental.plan import OCCURRENCE_PREFIX
from mt_core.incremental.shape import QueryShape

TOO_FEW = "a removed row is not in the table as often as it was removed"
"""The message of the error with which Spark refuses to remove rows that a table does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A place where the text reads a table: `name` is its SQL name, `source` its name in source vectors.

    `alias` is the name that the rest of the SQL uses for the table, or None if the SQL already contains an
    alias.
    """

    name: str
    source: str
    alias: str | None


Piece = str | Reading


class Images(Protocol):
    """SQL relations with the rows that a later version of a source removed and added.

    `both` contains every removed and every added row at least once. If `few` is set, each relation has a
    single partition and can be grouped without an exchange. If `only_added` is set, no row was removed.
    """

    @property
    def removed(self) -> str: ...
    @property
    def added(self) -> str: ...
    @property
    def both(self) -> str: ...
    @property
    def few(self) -> bool: ...
    @property
    def only_added(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImages:
    """The row images of a source as relations that already exist."""

    removed: str
    added: str
    both: str
    few: bool = False
    only_added: bool = False


def readings(pieces: Iterable[Piece]) -> list[Reading]:
    """Return the readings in *text*. A reading's number is its index in this list."""
    return [piece for piece in pieces if not isinstance(piece, str)]


def numbered(pieces: Sequence[Piece]) -> str:
    """Return the text with a numbered alias for each reading, which `occurrence_of` finds in the plan."""
    return _rendered(
        pieces,
        lambda number, reading: _aliased(
            f"(SELECT * FROM {reading.name} AS {OCCURRENCE_PREFIX}{number})", reading
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTexts:
    """The SQL of one refresh.

    `old` and `new` are the snapshot ids of each source, `changed` the numbers of the changed readings.
    `images` contains the row images of changed readings, by number; those without are read as a range of
    appended rows. `relations` maps a source and version to the SQL relation to read, if it is not
    `VERSION AS OF`; queries are parenthesized. All rows of a source in `from_nothing` are appended.

    Spark applies the options of the first relation of a name to all relations of that name in a statement
    (SPARK-58330). Therefore a statement reads only one snapshot range of a table, and all its other readings
    name a version.
    """

    pieces: Sequence[Piece]
    shape: QueryShape
    old: Mapping[str, str]
    new: Mapping[str, str]
    changed: frozenset[int]
    images: Mapping[int, Images] = field(default_factory=dict)
    relations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    from_nothing: frozenset[str] = frozenset()

    @property
    def removes(self) -> bool:
        """Whether rows of a changed reading may have been removed."""
        return bool(self._removing())

    def _removing(self) -> list[int]:
        return [
            number
            for number in sorted(self.changed)
            if number in self.images and not self.images[number].only_added
        ]

    def full(self, *, older: Collection[int] = ()) -> str:
        """Return the query at the new versions, but with the readings *older* at their old versions."""
        return _rendered(
            self.pieces,
            lambda number, reading: self._at(
                reading, (self.old if number in older else self.new)[reading.source]
            ),
        )

    def added(self) -> str:
        """Return a query for the result rows of added source rows: a union over the changed readings."""
        return self._sum(sorted(self.changed), lambda images: images.added)

    def removed(self) -> str:
        """Return a query for the result rows of removed source rows.

        A row may be in `added` too; the two then cancel out.
        """
        removed = self._sum(self._removing(), lambda images: images.removed)
        return removed or f"SELECT * FROM ({self.added()}\n) WHERE false"

    def subtracted(self, columns: Sequence[str], merge: Merge, doubt: str) -> str:
        """Return a query for the change of each group's aggregates, omitting the groups whose change is zero.

        The boolean column *doubt* marks the groups whose new aggregates do not follow from the change. Such a
        group may now be empty, or have a NULL sum because no value is left to add.
        """
        sign, names = f"d.{doubt}_sign", [quote(column) for column in columns]
        removed_rows, added_rows = f"min({sign}) < 0", f"max({sign}) > 0"
        items, doubts, equal = [], [] if self.shape.row_count is not None else [f"NOT {added_rows}"], []
        for name, function in zip(names, merge, strict=True):
            if function is None:
                items.append(f"d.{name}")
                continue
            removed, added = (f"sum(CASE WHEN {sign} {side} 0 THEN d.{name} END)" for side in "<>")
            items.append(f"sum(CASE WHEN {sign} > 0 THEN d.{name} ELSE -d.{name} END) AS {name}")
            equal.append(f"{removed} <=> {added}")
            if function == "Sum":
                doubts.append(f"{removed} IS NOT NULL AND {added} IS NULL")
        keys = ", ".join(f"d.{name}" for name, function in zip(names, merge, strict=True) if function is None)
        both = f"SELECT *, 1 FROM ({self.added()}) UNION ALL SELECT *, -1 FROM ({self.removed()})"
        if all(images.few for images in self.images.values()):
            both = f"SELECT /*+ COALESCE(1) */ * FROM ({both})"
        return (
            f"SELECT {', '.join(items)}, {' OR '.join(doubts) or 'false'} AS {doubt} "
            f"FROM ({both}) "
            f"AS d({', '.join(names)}, {doubt}_sign) GROUP BY {keys} "
            f"HAVING NOT ({' AND '.join([removed_rows, added_rows, *equal])})"
        )

    def merged(
        self, table: str, columns: Sequence[str], merge: Merge, delta: str | None = None, *, few: bool = False
    ) -> str:
        """Return a query for the new rows of *table*: its aggregates combined with those of the changed rows.

        *delta* is a relation with the aggregates of the changed rows, if they are already computed. If *few*
        is set, one task can group them together with the table, without an exchange.
        """
        names = [quote(column) for column in columns]
        fields = ", ".join(names)
        items = [
            name if function is None else f"{AGAIN[function]}({name}) AS {name}"
            for name, function in zip(names, merge, strict=True)
        ]
        keys = [name for name, function in zip(names, merge, strict=True) if function is None]
        both = (
            f"SELECT {fields} FROM {table} UNION ALL SELECT * "
            f"FROM {delta or f'({self.added()})'} AS `_delta`({fields})"
        )
        if few:
            both = f"SELECT /*+ COALESCE(1) */ * FROM ({both})"
        text = f"SELECT {', '.join(items)} FROM ({both})"
        text = f"{text} GROUP BY {', '.join(keys)}" if keys else text
        counted = self.shape.row_count
        # A group can only become empty if rows were removed.
        return (
            text
            if not self.removes or counted is None
            else f"SELECT * FROM ({text}) WHERE {names[counted]} <> 0"
        )

    def candidates(self, table: str, columns: Sequence[str], first: FirstRows) -> str:
        """Return a query for the first rows of *table* and the appended rows, plus one row to detect ties."""
        fields = ", ".join(map(quote, columns))
        return (
            f"SELECT {fields} FROM (SELECT {fields} FROM {table} UNION ALL SELECT * FROM ({self.added()}) AS "
            f"`_delta`({fields})) ORDER BY {ordered(columns, first)} LIMIT {first.rows + 1}"
        )

    def keys(
        self, columns: Sequence[str], key_columns: Mapping[int, tuple[str, ...] | None], keys: Sequence[int]
    ) -> str:
        """Return a query for the distinct result keys of the changed rows.

        *keys* are positions in *columns*.
        """
        names = [quote(columns[position]) for position in keys]
        fields = ", ".join(map(quote, columns))
        parts = []
        for number in sorted(self.changed):
            direct = key_columns[number]
            if direct is None:
                parts.append(
                    f"SELECT {', '.join(names)} FROM ({self._over(number, _both)}\n) AS `_delta`({fields})"
                )
            else:
                pairs = ", ".join(
                    f"{quote(column)} AS {name}" for column, name in zip(direct, names, strict=True)
                )
                changed = self._change(number, readings(self.pieces)[number], _both)
                parts.append(f"SELECT {pairs} FROM {changed}")
        return f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})"

    def renewed(
        self, columns: Sequence[str], keys: Sequence[int], key_table: str, bounds: str = "true"
    ) -> str:
        """Return a query for the current result rows of the keys in *key_table*.

        *bounds* is a condition on `q` that all these rows satisfy. Spark pushes its literals down to the
        sources, which then skip partitions and files.
        """
        fields, names = ", ".join(map(quote, columns)), [columns[position] for position in keys]
        return (
            f"SELECT q.* FROM ({self.full()}\n) AS q({fields}) "
            f"LEFT SEMI JOIN {key_table} AS k ON {same('q', names)} WHERE {bounds}"
        )

    def _sum(self, numbers: Iterable[int], image: Callable[[Images], str]) -> str:
        return "\nUNION ALL\n".join(f"({self._over(number, image)}\n)" for number in numbers)

    def _over(self, number: int, image: Callable[[Images], str]) -> str:
        """Return the query over the changed rows of one reading.

        The changed readings before it are at their new versions, those after it at their old versions. The
        readings in other branches of its UNIONs are empty.
        """
        empty = self.shape.occurrences[number].siblings

        def text(other: int, reading: Reading) -> str:
            if other == number:
                return self._change(number, reading, image)
            older = other in self.changed and other > number
            version = (self.old if older else self.new)[reading.source]
            if other in empty:
                return _aliased(f"(SELECT * FROM {self._relation(reading, version)} WHERE false)", reading)
            return self._at(reading, version)

        return _rendered(self.pieces, text)

    def _change(self, number: int, reading: Reading, image: Callable[[Images], str]) -> str:
        """Return a relation with the changed rows of a reading: one of its images, or the appended rows."""
        images = self.images.get(number)
        if images is not None:
            return _aliased(image(images), reading)
        if reading.source in self.from_nothing:
            return self._at(reading, self.new[reading.source])
        old, new = (string_literal(versions[reading.source]) for versions in (self.old, self.new))
        return f"{reading.name} WITH ('start-snapshot-id' = {old}, 'end-snapshot-id' = {new})"

    def _at(self, reading: Reading, version: str) -> str:
        relation = self._relation(reading, version)
        return _aliased(relation, reading) if relation.startswith("(") else relation

    def _relation(self, reading: Reading, version: str) -> str:
        return self.relations.get((reading.source, version), f"{reading.name} VERSION AS OF {version}")


def _both(images: Images) -> str:
    return images.both


def over(texts: DeltaTexts, images: Images) -> DeltaTexts:
    """Return *texts* with *images* as the change of every reading."""
    return replace(texts, images=dict.fromkeys(range(len(readings(texts.pieces))), images))


def images_of(
    relation: str,
    columns: Sequence[str],
    copies: str,
    *,
    few: bool,
    unread: Mapping[str, str] | None = None,
) -> NamedImages:
    """Return the images in *relation*, whose column *copies* contains the net count of each row.

    *relation* may lack the columns *unread*, which are given with their SQL types. They are NULL.
    """
    removed, added = (repeated(relation, columns, copies, sign, few=few, unread=unread) for sign in (-1, 1))
    return NamedImages(
        removed=removed,
        added=added,
        both=f"(SELECT * FROM {removed} UNION ALL SELECT * FROM {added})",
        few=few,
    )


def appended_images(
    relation: str, columns: Sequence[str], *, few: bool, unread: Mapping[str, str] | None = None
) -> NamedImages:
    """Return the images of appended rows. *relation* may lack the columns *unread*, as in `images_of`."""
    added = f"(SELECT {_fields(columns, unread)} FROM {relation})"
    removed = f"(SELECT * FROM {added} WHERE false)"
    return NamedImages(removed=removed, added=added, both=added, few=few, only_added=True)


def _fields(columns: Sequence[str], unread: Mapping[str, str] | None) -> str:
    types = unread or {}
    return ", ".join(
        f"CAST(NULL AS {types[name]}) AS {quote(name)}" if name in types else quote(name) for name in columns
    )


def repeated(
    relation: str,
    columns: Sequence[str],
    copies: str,
    sign: int,
    *,
    few: bool,
    unread: Mapping[str, str] | None = None,
) -> str:
    """Return a subquery with each row of *relation* repeated as often as its net count in *copies*.

    *sign* selects the positive or the negative counts. If *few* is set, the result has a single partition and
    can be grouped without an exchange. *relation* may lack the columns *unread*, as in `images_of`.
    """
    fields, more = _fields(columns, unread), f"{sign} * {quote(copies)}"
    hint, each = "/*+ COALESCE(1) */ " if few else "", quote(unused_name("_each", columns))
    return (
        f"(SELECT {hint}{fields} FROM {relation} "
        f"LATERAL VIEW explode(array_repeat(0, {more})) AS {each} WHERE {more} > 0)"
    )


def unused_name(name: str, columns: Iterable[str]) -> str:
    """Return *name*, with underscores appended until it differs from all *columns*."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name += "_"
    return name


def ordered(columns: Sequence[str], first: FirstRows) -> str:
    """Return the ORDER BY list of *first* in SQL."""
    return ", ".join(f"{quote(columns[position])} {direction}" for position, direction in first.order)


def same(alias: str, columns: Iterable[str]) -> str:
    """Return the join condition that *columns* are equal in *alias* and `k`; NULLs are equal."""
    return " AND ".join(f"{alias}.{quote(column)} <=> k.{quote(column)}" for column in columns)


def touched(
    table: str, columns: Sequence[str], keys: Sequence[str], key_table: str, bounds: str = "true"
) -> str:
    """Return a query for the rows of *table* whose keys are in *key_table*.

    *bounds* is a condition on `q` that all these rows satisfy, which lets a scan skip files.
    """
    fields = ", ".join(map(quote, columns))
    return (
        f"SELECT {fields} FROM {table} AS q LEFT SEMI "
        f"JOIN {key_table} AS k ON {same('q', keys)} WHERE {bounds}"
    )


def rows_without(table: str, columns: Sequence[str], keys: Sequence[str], gone: str) -> str:
    """Return a query for the rows of *table* whose *keys* are not in *gone*."""
    return (
        f"SELECT {', '.join(map(quote, columns))} FROM {table} AS q LEFT ANTI "
        f"JOIN {gone} AS k ON {same('q', keys)}"
    )


def rows_after_change(table: str, columns: Sequence[str], net: str, copies: str, bounds: str = "true") -> str:
    """Return a query for the rows of *table* that *net* removes from, and for those that it adds.

    *net* has the *columns*, and how often each row is added, or removed if negative, in its column *copies*.
    If the table contains a removed row less often, the query fails with the message TOO_FEW. *bounds* is a
    condition as in `touched`.
    """
    fields, many = ", ".join(map(quote, columns)), quote(copies)
    rows = touched(table, columns, columns, f"(SELECT * FROM {net} WHERE {many} < 0)", bounds)
    counted = (
        f"SELECT {fields}, sum({many}) AS {many} FROM (SELECT *, 1 AS {many} FROM ({rows}) "
        f"UNION ALL SELECT {fields}, {many} FROM {net}) GROUP BY {fields}"
    )
    checked = f"CAST(IF({many} < 0, raise_error({string_literal(TOO_FEW)}), {many}) AS INT) AS {many}"
    result = f"(SELECT {fields}, {checked} FROM ({counted}))"
    return f"SELECT * FROM {repeated(result, columns, copies, 1, few=False)}"


def _rendered(pieces: Iterable[Piece], text: Callable[[int, Reading], str]) -> str:
    written, number = [], 0
    for piece in pieces:
        if isinstance(piece, str):
            written.append(piece)
        else:
            written.append(text(number, piece))
            number += 1
    return "".join(written)


def _aliased(text: str, reading: Reading) -> str:
    return text if reading.alias is None else f"{text} AS {quote(reading.alias)}"
