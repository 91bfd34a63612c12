"""Blocks: the linear parts of a query, and the operators between them as computed readings.

A change passes through projections, filters and inner joins row by row: such a part of a query is a
*block*, and a change of its readings changes it by a sum of terms. An operator for which this does not
hold, such as an outer join or a window, is a *computed reading* of the block above it. Like a reading of a
table, it can say its change and return its rows with given keys at the new version. It computes both by
asking the blocks below it, at the keys that changed there.

So a query is a tree in which blocks and computed readings take turns, with readings of tables as leaves. No
output of a computed reading is kept: its old rows are its new rows less its change.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mt_core.incremental.stages.join_blocks import JoinBlock, KeyClass, KeyColumn

Place = str
"""A place of an operator in the trees of a query, as JSON.

It is `[tree, [position, ...]]`: tree 0 is the query, tree n its n-th scalar subquery; the positions of
children lead from the root of the tree to the operator.
"""


def place_of(tree: int, path: Sequence[int] = ()) -> Place:
    """Return the place of an operator, by default of the root of a tree."""
    return json.dumps([tree, list(path)], separators=(",", ":"))


class Kind(StrEnum):
    """What computes a computed reading, which decides how its keys are found."""

    JOIN = "join"
    """A left or right outer, semi, anti or existence join. The first input is the preserved side."""
    FULL = "full"
    """A full outer join."""
    GROUPS = "groups"
    """An aggregate that is not a state."""
    WINDOW = "window"
    UNION = "union"
    """A UNION, or one of several places where a table is read, as a UNION of one branch."""
    FIXED = "fixed"
    """Any other operator. It is computed whole, and its readings must not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A column of each of the two inputs of a join, by position, that are equal in joined rows."""

    left: int
    right: int
    null_safe: bool

    @property
    def sides(self) -> tuple[int, int]:
        """The positions in the two inputs."""
        return self.left, self.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A linear part of a query, of which the operator at `place` is the topmost.

    `readings` are its leaves, tables and computed readings, by number. `columns` has for each column of its
    output the column of a reading that has the same values, or None if it is computed; the columns of a
    computed reading are named `c0`, `c1` and so on, by position. `joins` has the columns that join the
    readings and by which rows are found, and `equal` has all columns that are equal in each row.
    """

    place: Place
    readings: tuple[int, ...]
    columns: tuple[KeyColumn | None, ...]
    joins: JoinBlock
    equal: tuple[KeyClass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedReading:
    """An operator that is not linear, over the blocks below it.

    `number` identifies it among the readings of the blocks above; numbers of computed readings follow those
    of tables. `place` is the place of the operator, and `inputs` are the blocks of its children, the
    preserved side of a join first. `pairs` are the equal columns of a join. `keys` are the positions, in
    the output of the only input, of the columns by which groups or partitions are formed. Only columns by
    which rows are found are among them, so rows of one group have equal keys, but not vice versa. Where
    values are only compared in SQL, `equal` has all pairs, and `named` all keys. `passed` has for each
    column of its output the input and the position in it that has the same values, or None if it is
    computed; values that may stand for a missing partner count as passed. `words` describes it for users.
    `unstable` is which of its values is not reproducible, or empty: computed again from the same rows, such a
    value may be another one.
    """

    number: int
    place: Place
    kind: Kind
    inputs: tuple[Block, ...]
    pairs: tuple[Pair, ...] = ()
    keys: tuple[int, ...] = ()
    equal: tuple[Pair, ...] = ()
    named: tuple[int, ...] = ()
    passed: tuple[tuple[int, int] | None, ...] = ()
    words: str = ""
    unstable: str = ""

    @property
    def has_key(self) -> bool:
        """Whether a change of its inputs can be restricted to keys."""
        return bool(self.pairs or self.keys) or self.kind is Kind.UNION


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A block, with the computed readings in it and below these, by number."""

    root: Block
    computed: Mapping[int, ComputedReading]

    def tables(self) -> frozenset[int]:
        """Return the readings of tables, in the block and below it."""
        return self.tables_below(self.root)

    def tables_below(self, block: Block) -> frozenset[int]:
        """Return the readings of tables in a block and below it."""
        found = set[int]()
        for number in block.readings:
            if (computed := self.computed.get(number)) is None:
                found.add(number)
            else:
                found.update(*(self.tables_below(each) for each in computed.inputs))
        return frozenset(found)

    def part(self, block: Block) -> Blocks:
        """Return a block in it or below it, with the computed readings of this one."""
        computed = dict[int, ComputedReading]()
        for number in {*block.readings} & self.computed.keys():
            computed[number] = self.computed[number]
            for each in self.computed[number].inputs:
                computed.update(self.part(each).computed)
        return Blocks(root=block, computed=computed)

    def linear(self) -> frozenset[int]:
        """Return the tables of which each changed row changes the block alone, whatever other rows change.

        They are in the block, in a UNION, or on the preserved side of a join, and in one place only.
        """
        blocks = [self.root, *(block for each in self.computed.values() for block in each.inputs)]
        places = Counter(number for block in blocks for number in block.readings)
        return frozenset(number for number in self._linear(self.root) if places[number] == 1)

    def _linear(self, block: Block) -> frozenset[int]:
        found = set[int]()
        for number in block.readings:
            computed = self.computed.get(number)
            if computed is None:
                found.add(number)
            elif computed.kind is Kind.UNION:
                found.update(*map(self._linear, computed.inputs))
            elif computed.kind is Kind.JOIN:
                found |= self._linear(computed.inputs[0])
        return frozenset(found)

    def below_computed(self) -> frozenset[int]:
        """Return the readings of tables that are below computed readings."""
        return self.tables() - {*self.root.readings}

    def fixed(self) -> dict[int, ComputedReading]:
        """Return the tables that must not change, each with the computed reading that is computed whole."""
        return {
            table: each
            for each in self.computed.values()
            if each.kind is Kind.FIXED
            for table in self.tables_below(each.inputs[0])
        }

    def refused(self) -> dict[int, str]:
        """Return the tables whose changes are not applied to the rows of the block, each with the reason.

        The reason is followed by the name of the table. Changes of linear tables are always applied: rows
        with other values than before are only among the removed ones, and then they are not in the result.
        """
        linear = self.linear()
        met = {
            table: f"{value}, which is not reproducible, is combined with"
            for table, value in self.with_unstable().items()
            if table not in linear
        }
        return met | {table: f"{each.words} reads" for table, each in self.fixed().items()}

    def unstable_below(self, block: Block) -> str:
        """Return a value in a block or below it that is not reproducible, or nothing."""
        readings = (self.computed[number] for number in block.readings if number in self.computed)
        return next((found for each in readings if (found := self._unstable(each))), "")

    def _unstable(self, reading: ComputedReading) -> str:
        below = (found for each in reading.inputs if (found := self.unstable_below(each)))
        return reading.unstable or next(below, "")

    def with_unstable(self) -> dict[int, str]:
        """Return the tables whose rows meet values that are not reproducible, each with one of these.

        These values are computed from rows of the table, or joined with what results from them. So the old
        rows of the block may not be computed again.
        """
        return dict(self._with_unstable(self.root, ""))

    def _with_unstable(self, block: Block, above: str) -> Iterator[tuple[int, str]]:
        for number in block.readings:
            others = (other for other in block.readings if other != number and other in self.computed)
            met = above or next(
                (found for each in others if (found := self._unstable(self.computed[each]))), ""
            )
            if (computed := self.computed.get(number)) is None:
                yield from [(number, met)] if met else []
                continue
            if computed.kind is not Kind.UNION:
                met = met or self._unstable(computed)
            for each in computed.inputs:
                yield from self._with_unstable(each, met)

    def finds(self, block: Block, position: int) -> bool:
        """Return whether rows of a block with given values of a column can be found without all its rows."""
        column = block.columns[position]
        if column is None:
            return False
        reading = self.computed.get(column.reading)
        return reading is None or self._finds(reading, int(column.column[1:]))

    def _finds(self, reading: ComputedReading, position: int) -> bool:
        if reading.kind is Kind.FIXED:
            return True
        if reading.kind is Kind.UNION:
            return all(self.finds(each, position) for each in reading.inputs if each.readings)
        if (passed := reading.passed[position]) is None:
            return False
        number, below = passed
        if number == 1 and not reading.pairs:
            return False
        if reading.kind is Kind.GROUPS:
            return below in reading.keys
        if reading.kind is Kind.WINDOW and not reading.keys:
            return False
        return self.finds(reading.inputs[number], below)

    def key_columns(self) -> frozenset[KeyColumn]:
        """Return the columns of tables by which rows are looked up."""
        inputs = [block for each in self.computed.values() for block in each.inputs]
        columns = {
            column for block in (self.root, *inputs) for key in block.joins.keys for column in key.columns
        }
        for each in self.computed.values():
            pairs = ((number, position) for pair in each.pairs for number, position in enumerate(pair.sides))
            for number, position in (*pairs, *((0, key) for key in each.keys)):
                columns.update(filter(None, [each.inputs[number].columns[position]]))
        return frozenset(found for column in columns for found in self.columns_of_tables(column))

    def columns_of_tables(self, column: KeyColumn) -> Iterator[KeyColumn]:
        """Yield the columns of tables that have the values of a column of a reading."""
        if (reading := self.computed.get(column.reading)) is None:
            yield column
            return
        position = int(column.column[1:])
        if reading.kind is Kind.UNION:
            below = [each.columns[position] for each in reading.inputs]
        elif reading.passed and (passed := reading.passed[position]) is not None:
            below = [reading.inputs[passed[0]].columns[passed[1]]]
        else:
            below = []
        for each in below:
            if each is not None:
                yield from self.columns_of_tables(each)
