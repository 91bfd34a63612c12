"""Dividing columns: the columns of a query by whose values its rows can be computed again, part by part.

A column *divides* a query by a table if the rows of the query with a given value depend only on the rows of
the table that have this value in some column, its *lineage*. If a column divides the query by all tables that
changed, their changed rows name the values at which rows of the query changed.

Lineage is followed from a block downwards. A column of a block has the values of all columns that its joins
equate with it, so it divides the block by each of these readings. It passes

- to all branches of a UNION,
- through groups and windows to their input, if it is one of their keys,
- through a join with a preserved side to this side, and by the pairs of equal columns to the other side.

A column of the other side does not divide the join: NULL stands for any row without partner. So no column
divides a full join. Nor does a column divide an operator that is computed whole.

Where lineage ends, such as at a column that is computed, the block there still names the values: they are in
its change. This needs its old rows, so all values below it have to be reproducible. Values above it need not
be, which is why keys maintain queries of which some values are not. It is always the lowest block that names
the values, since its change costs least. At keys at which nothing changed after all, the rows are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.key_source import Division, KeySource, Lineage

_Positions = frozenset[int]
"""Positions of columns that have the same value in each row."""


def lineage(blocks: Blocks, position: int) -> Lineage:
    """Return the tables by which the column at a position divides a query, with their columns."""
    found = dict[int, frozenset[str]]()
    for table, columns in _tables(blocks, blocks.root, frozenset({position})):
        # A table that is read in several places needs the same column in all of them.
        found[table] = found.get(table, columns) & columns
    return {table: min(columns) for table, columns in found.items() if columns}


def key_source(
    blocks: Blocks, positions: Iterable[int], changed: Collection[int], relations: Sequence[str]
) -> KeySource | str:
    """Return where the values of the columns at *positions* are at which rows of a query may have changed.

    *changed* are the tables that changed. The result is a text if they do not name these values: the name of
    a table, which *relations* has, or the words of an operator that hides them.
    """
    keys = tuple(frozenset({position}) for position in positions)
    try:
        return _Search(blocks=blocks, changed=frozenset(changed), relations=relations).of(keys)
    except _Hidden as hidden:
        return str(hidden)


def dividing(
    blocks: Blocks, changed: Collection[int], usable: Iterable[int], relations: Sequence[str]
) -> Division | str:
    """Return the key that divides a query by the tables that *changed*.

    Its columns are among the *usable* positions. If changed rows contain the values of some of them, these
    are chosen, otherwise all whose values are named. The result is a text if there are none: what hides them,
    as `key_source` has it.
    """
    sources, hidden = dict[int, KeySource](), dict[str, None]()
    for position in usable:
        source = key_source(blocks, (position,), changed, relations)
        if isinstance(source, str):
            hidden[source] = None
        # The change of all rows is not the change of a part.
        elif all(block is not blocks.root for block, _ in source.blocks):
            sources[position] = source
    direct = tuple(position for position, source in sources.items() if not source.blocks)
    positions = direct or tuple(sources)
    if not positions:
        return ", ".join(hidden)
    division = divided_by(blocks, positions, changed, relations)
    assert not isinstance(division, str), "columns that name changes apart name them together"
    return division


def divided_by(
    blocks: Blocks, positions: Sequence[int], changed: Collection[int], relations: Sequence[str]
) -> Division | str:
    """Return the key of the columns at *positions*, or what hides its values, as `key_source` has it."""
    source = key_source(blocks, positions, changed, relations)
    if isinstance(source, str):
        return source
    lineages = tuple(lineage(blocks, position) for position in positions)
    return Division(positions=tuple(positions), source=source, lineages=lineages)


def _tables(blocks: Blocks, block: Block, positions: _Positions) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield each table in a block and below it, in all its places, with its columns that have a value."""
    for number in block.readings:
        columns = _columns(block, positions, number)
        if (reading := blocks.computed.get(number)) is None:
            yield number, columns
            continue
        for below, given in zip(reading.inputs, _below(reading, _numbers(columns)), strict=True):
            yield from _tables(blocks, below, given)


def _columns(block: Block, positions: _Positions, number: int) -> frozenset[str]:
    """Return the columns of a reading that have the values of columns of a block."""
    return frozenset(each.column for each in _equal(block, positions) if each.reading == number)


def _numbers(columns: Iterable[str]) -> _Positions:
    """Return the positions of columns of a computed reading."""
    return frozenset(int(each[1:]) for each in columns)


def _equal(block: Block, positions: _Positions) -> frozenset[KeyColumn]:
    """Return all columns of readings that have the values of columns of a block."""
    # The columns of some operators are not known.
    given = dict(enumerate(block.columns))
    own = frozenset(column for each in positions if (column := given.get(each)) is not None)
    return own.union(*(each.columns for each in block.equal if own & {*each.columns}))


def _below(reading: ComputedReading, positions: _Positions) -> tuple[_Positions, ...]:
    """Return for each input the columns whose values divide it if those at *positions* divide the reading."""
    match reading.kind:
        case Kind.UNION:
            return (positions,) * len(reading.inputs)
        case Kind.GROUPS | Kind.WINDOW:
            keys = _in_first(reading, positions)
            return (keys if keys & {*reading.named} else frozenset(),)
        case Kind.JOIN:
            preserved = _in_first(reading, positions)
            return preserved, frozenset(each.right for each in reading.equal if each.left in preserved)
        case _:
            return (frozenset(),) * len(reading.inputs)


def _in_first(reading: ComputedReading, positions: _Positions) -> _Positions:
    """Return the positions of the same values in the first input."""
    first = reading.inputs[0]
    passed = frozenset(
        below[1] for each in positions if (below := reading.passed[each]) is not None and below[0] == 0
    )
    equal = _equal(first, passed)
    return passed | {position for position, column in enumerate(first.columns) if column in equal}


class _Hidden(Exception):
    """A reading whose changes do not name the values of a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A source of keys. Each value of a key is in all `tables` columns that stand at its place."""

    tables: Mapping[int, tuple[frozenset[str], ...]] = field(default_factory=dict)
    blocks: tuple[tuple[Block, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for the source of a key, whose columns are given by equal positions."""

    blocks: Blocks
    changed: frozenset[int]
    relations: Sequence[str]

    def of(self, keys: Sequence[_Positions]) -> KeySource:
        """Return the source of a key of the query."""
        source = self._block(self.blocks.root, keys)
        return KeySource(
            tables={number: tuple(map(min, columns)) for number, columns in source.tables.items()},
            blocks=source.blocks,
        )

    def _block(self, block: Block, keys: Sequence[_Positions]) -> _Source:
        try:
            return self._together(
                [self._reading(block, number, keys) for number in block.readings if self._changes(number)]
            )
        except _Hidden:
            fixed = self.blocks.fixed().keys() & self.blocks.tables_below(block)
            if self.blocks.unstable_below(block) or fixed & self.changed:
                raise
            return _Source(blocks=((block, tuple(map(min, keys))),))

    def _changes(self, number: int) -> bool:
        reading = self.blocks.computed.get(number)
        return number in self.changed if reading is None else any(map(self._changed, reading.inputs))

    def _changed(self, block: Block) -> bool:
        return bool(self.blocks.tables_below(block) & self.changed)

    def _reading(self, block: Block, number: int, keys: Sequence[_Positions]) -> _Source:
        """Return the source in a reading of a block, of all its changes."""
        columns = tuple(_columns(block, each, number) for each in keys)
        if (reading := self.blocks.computed.get(number)) is None:
            if not all(columns):
                raise _Hidden(self.relations[number])
            return _Source(tables={number: columns})
        below = [_below(reading, _numbers(each)) for each in columns]
        sources = list[_Source]()
        for input_, child in enumerate(reading.inputs):
            if self._changed(child):
                if not all(each[input_] for each in below):
                    raise _Hidden(reading.words)
                sources.append(self._block(child, [each[input_] for each in below]))
        return self._together(sources)

    def _together(self, sources: Iterable[_Source]) -> _Source:
        tables = dict[int, tuple[frozenset[str], ...]]()
        blocks = list[tuple[Block, tuple[int, ...]]]()
        for source in sources:
            blocks += source.blocks
            for number, columns in source.tables.items():
                both = zip(tables.get(number, columns), columns, strict=True)
                tables[number] = tuple(one & other for one, other in both)
                if not all(tables[number]):
                    raise _Hidden(self.relations[number])
        return _Source(tables=tables, blocks=tuple(blocks))
