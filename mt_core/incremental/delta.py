"""Delta texts: the SQL of a query over what changed, made from the query's text cut at the places
where it reads a table.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A place where the text reads a table: `name` is the table's in SQL,
    `source` its name in source vectors.

    `alias` is what the table is called in the rest of the text, None where an alias follows
    in the text itself.
    """

    name: str
    source: str
    alias: str | None


Piece = str | Reading


class Images(Protocol):
    """Relations, by their names in SQL, with the rows that one version has and a later one has not,
    and the other way round.

    `both` has every row of the two at least once. `few`: each is in one part,
    which need not be exchanged to be grouped.
    """

    @property
    def removed(self) -> str: ...
    @property
    def added(self) -> str: ...
    @property
    def both(self) -> str: ...
    @property
    def few(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImages:
    """Images that are there already."""

    removed: str
    added: str
    both: str
    few: bool = False


def readings(pieces: Iterable[Piece]) -> list[Reading]:
    """Return the places where a text reads a table; their order numbers them."""
    return [piece for piece in pieces if not isinstance(piece, str)]


def numbered(pieces: Sequence[Piece]) -> str:
    """Return the text with an alias around each reading that `maintenance.plan` finds again
    in the analysed plan.
    """
    return _rendered(
        pieces,
        lambda number, reading: _aliased(
            f"(SELECT * FROM {reading.name} AS {OCCURRENCE_PREFIX}{number})", reading
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTexts:
    """The texts of one refresh.

    `old` and `new` are the snapshots of each source, `changed` the numbers of changed readings.

    `images` are those of the sources, by name, of which rows were changed or deleted; the others were only
    appended to. `relations` has for a source what is to be read at a version of it, in SQL, where that is not
    `VERSION AS OF`; a query is in brackets. What was appended to a source `from_nothing` is all of it.

    Spark takes the options of the first relation of a name for all relations of that name in a statement
    (SPARK-58330), so every reading but the one with a range names its version, and one statement
    has one range of a table.
    """

    pieces: Sequence[Piece]
    shape: QueryShape
    old: Mapping[str, str]
    new: Mapping[str, str]
    changed: frozenset[int]
    images: Mapping[str, Images] = field(default_factory=dict)
    relations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    from_nothing: frozenset[str] = frozenset()

    def full(self, *, older: Collection[int] = ()) -> str:
        """Return the query at the new versions, with the readings *older* at the old ones."""
        return _rendered(
            self.pieces,
            lambda number, reading: self._at(
                reading, (self.old if number in older else self.new)[reading.source]
            ),
        )

    def added(self) -> str:
        """Return the rows that added rows of the sources add to the result:
        the sum over the changed readings.
        """
        return self._sum(sorted(self.changed), lambda images: images.added)

    def removed(self) -> str:
        """Return the rows that removed rows of the sources had added to the result; as rows, both overlap."""
        places = readings(self.pieces)
        numbers = [number for number in sorted(self.changed) if places[number].source in self.images]
        return self._sum(numbers, lambda images: images.removed)

    def subtracted(self, columns: Sequence[str], merge: Merge, doubt: str) -> str:
        """Return the aggregates of added rows less those of removed ones,
        for each group in which the two differ.

        Column *doubt* says that those of the table do not follow from that:
        the group may have no rows any more, or no value that a sum adds up, so that the sum is NULL.
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
        """Return the rows of *table*, whose columns are *columns*, with the aggregates of the changed
        rows added.

        *delta* is a relation with those aggregates, if they are computed already. *few*:
        they and the table are few rows, which one task groups without an exchange.
        """
        names = [quote(column) for column in columns]
        given = ", ".join(names)
        items = [
            name if function is None else f"{AGAIN[function]}({name}) AS {name}"
            for name, function in zip(names, merge, strict=True)
        ]
        keys = [name for name, function in zip(names, merge, strict=True) if function is None]
        both = (
            f"SELECT {given} FROM {table} UNION ALL SELECT * "
            f"FROM {delta or f'({self.added()})'} AS `_delta`({given})"
        )
        if few:
            both = f"SELECT /*+ COALESCE(1) */ * FROM ({both})"
        text = f"SELECT {', '.join(items)} FROM ({both})"
        text = f"{text} GROUP BY {', '.join(keys)}" if keys else text
        counted = self.shape.row_count
        # Only where rows were removed, a group may have none any more.
        return (
            text
            if not self.images or counted is None
            else f"SELECT * FROM ({text}) WHERE {names[counted]} <> 0"
        )

    def candidates(self, table: str, columns: Sequence[str], first: FirstRows) -> str:
        """Return the rows that come first among those of *table*, whose columns are *columns*,
        and appended ones, and one more.
        """
        given = ", ".join(map(quote, columns))
        return (
            f"SELECT {given} FROM (SELECT {given} FROM {table} UNION ALL SELECT * FROM ({self.added()}) AS "
            f"`_delta`({given})) ORDER BY {ordered(columns, first)} LIMIT {first.rows + 1}"
        )

    def keys(
        self, columns: Sequence[str], key_columns: Mapping[int, tuple[str, ...] | None], keys: Sequence[int]
    ) -> str:
        """Return the keys of the result that changed rows have, each once:
        *keys* are positions among *columns*.
        """
        names = [quote(columns[position]) for position in keys]
        given = ", ".join(map(quote, columns))
        parts = []
        for number in sorted(self.changed):
            direct = key_columns[number]
            if direct is None:
                parts.append(
                    f"SELECT {', '.join(names)} FROM ({self._over(number, _both)}\n) AS `_delta`({given})"
                )
            else:
                pairs = ", ".join(
                    f"{quote(column)} AS {name}" for column, name in zip(direct, names, strict=True)
                )
                parts.append(f"SELECT {pairs} FROM {self._change(readings(self.pieces)[number], _both)}")
        return f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})"

    def renewed(
        self, columns: Sequence[str], keys: Sequence[int], key_table: str, bounds: str = "true"
    ) -> str:
        """Return the rows that the query gives now for the keys in *key_table*.

        `q` meets *bounds* in all of them: Spark takes literals down to the sources,
        where they spare partitions and files.
        """
        given, names = ", ".join(map(quote, columns)), [columns[position] for position in keys]
        return (
            f"SELECT q.* FROM ({self.full()}\n) AS q({given}) "
            f"LEFT SEMI JOIN {key_table} AS k ON {same('q', names)} WHERE {bounds}"
        )

    def _sum(self, numbers: Iterable[int], image: Callable[[Images], str]) -> str:
        return "\nUNION ALL\n".join(f"({self._over(number, image)}\n)" for number in numbers)

    def _over(self, number: int, image: Callable[[Images], str]) -> str:
        """Return the query over the change of one reading.

        Changed readings before it are at their new version, those after it at their old one;
        the other branches of its UNIONs read nothing.
        """
        empty = self.shape.occurrences[number].siblings

        def text(other: int, reading: Reading) -> str:
            if other == number:
                return self._change(reading, image)
            older = other in self.changed and other > number
            version = (self.old if older else self.new)[reading.source]
            if other in empty:
                return _aliased(f"(SELECT * FROM {self._relation(reading, version)} WHERE false)", reading)
            return self._at(reading, version)

        return _rendered(self.pieces, text)

    def _change(self, reading: Reading, image: Callable[[Images], str]) -> str:
        """Return the rows of a source that changed: one of its images, or what was appended."""
        images = self.images.get(reading.source)
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
    """Return *texts* with all changes of sources in *images*, whichever source they are of."""
    return replace(texts, images={reading.source: images for reading in readings(texts.pieces)})


def images_of(relation: str, columns: Sequence[str], copies: str, *, few: bool) -> NamedImages:
    """Return the images that *relation* has: its *columns*, and one with how many more *copies* of a row
    the later version has.
    """
    removed, added = (repeated(relation, columns, copies, sign, few=few) for sign in (-1, 1))
    return NamedImages(
        removed=removed,
        added=added,
        both=f"(SELECT * FROM {removed} UNION ALL SELECT * FROM {added})",
        few=few,
    )


def repeated(relation: str, columns: Sequence[str], copies: str, sign: int, *, few: bool) -> str:
    """Return, in brackets, the rows of *relation* of which one version has more, by *sign*,
    as many of each as it has more.

    *few*: in one part, which need not be exchanged to be grouped.
    """
    given, more = ", ".join(map(quote, columns)), f"{sign} * {quote(copies)}"
    hint, each = "/*+ COALESCE(1) */ " if few else "", quote(apart_from("_each", columns))
    return (
        f"(SELECT {hint}{given} FROM {relation} "
        f"LATERAL VIEW explode(array_repeat(0, {more})) AS {each} WHERE {more} > 0)"
    )


def apart_from(name: str, columns: Iterable[str]) -> str:
    """Return a name for one more column beside *columns*: *name* if none has it."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name += "_"
    return name


def ordered(columns: Sequence[str], first: FirstRows) -> str:
    """Return the order of first rows in SQL."""
    return ", ".join(f"{quote(columns[position])} {direction}" for position, direction in first.order)


def same(alias: str, columns: Iterable[str]) -> str:
    """Return the condition that a row of the relation *alias* has the values of one of `k` in *columns*."""
    return " AND ".join(f"{alias}.{quote(column)} <=> k.{quote(column)}" for column in columns)


def touched(
    table: str, columns: Sequence[str], keys: Sequence[str], key_table: str, bounds: str = "true"
) -> str:
    """Return the rows of *table* with keys in *key_table*.

    `q` meets *bounds* in all of them, which may spare files.
    """
    given = ", ".join(map(quote, columns))
    return (
        f"SELECT {given} FROM {table} AS q LEFT SEMI "
        f"JOIN {key_table} AS k ON {same('q', keys)} WHERE {bounds}"
    )


def kept_apart(table: str, columns: Sequence[str], keys: Sequence[str], gone: str) -> str:
    """Return the rows of *table*, with *columns*, that have no values in *keys* that rows of *gone* have."""
    return (
        f"SELECT {', '.join(map(quote, columns))} FROM {table} AS q LEFT ANTI "
        f"JOIN {gone} AS k ON {same('q', keys)}"
    )


def counted_again(table: str, columns: Sequence[str], images: Images, bounds: str = "true") -> str:
    """Return the rows of *table* that `images.removed` has values of, with those of the images taken out
    and put in.
    """
    given = ", ".join(map(quote, columns))
    return (
        f"({touched(table, columns, columns, images.removed, bounds)} "
        f"UNION ALL SELECT {given} FROM {images.added}) EXCEPT ALL SELECT {given} FROM {images.removed}"
    )


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
