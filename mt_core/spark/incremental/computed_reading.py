"""Computed readings of a run: the changes and the rows of operators that are not linear.

No output of such an operator is kept. It is computed at the keys that changed, from the rows of its inputs
that have them: once over those of the new version, and once over those of the old one, which are the new rows
less the change. The difference is the change of the operator. At keys that did not change both are equal, so
more keys than necessary do no harm; but for each key *all* rows that have it must be there.

- *Joins* with a preserved side are linear in it. Its changed rows need only their partners at the new
  version. Where the other side changed, the preserved rows with these keys are read, as they were before
  their change.
- *Full joins, groups and windows* are computed twice. NULL is one of their keys: rows with it have an output
  of their own.
- *UNIONs* add up their branches.
- *Operators without a key* are computed whole, so the tables below them must be small and must not change.
  Groups and windows whose keys do not find rows are computed from all rows, which must be few.

Rows with given values are found by columns that the operator passes on. A NULL that is wanted may stand for
a missing partner, so the other side of a join is not searched for it. A window is computed over whole
partitions: where other columns than its keys are wanted, the partitions of these rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Generic

from mt_core.incremental.local_limits import MOST_COMPARED
from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind, Place
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.incremental.bags import Bags, Change, Tables, Wanted
from mt_core.spark.incremental.block_rows import BlockRows, part_of
from mt_core.spark.incremental.semi_join_reducer import R


@dataclass(frozen=True, kw_only=True)
class OperatorRows(Generic[R]):
    """The rows of a computed *reading* in a run, over the rows of the blocks below it, its *inputs*."""

    reading: ComputedReading
    facts: SourceFacts
    bags: Bags[R]
    inputs: tuple[BlockRows[R], ...]

    @property
    def place(self) -> Place:
        return self.reading.place

    # --------------------------------------------------------------------------------------------- change

    @property
    def key_columns(self) -> Mapping[str, str]:
        keys = {position: f"k{number}" for number, position in enumerate(self._keys[0])}
        return {
            f"c{own}": keys[passed[1]]
            for own, passed in enumerate(self.reading.passed)
            if passed is not None and passed[0] == 0 and passed[1] in keys
        }

    @cached_property
    def _keys(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the keys in the output of each input. They are none if it has no keys."""
        pairs = self.reading.pairs
        match self.reading.kind:
            case Kind.JOIN | Kind.FULL:
                return tuple(each.left for each in pairs), tuple(each.right for each in pairs)
            case Kind.GROUPS | Kind.WINDOW:
                return (self.reading.keys,)
            case _:
                return ((),) * len(self.inputs)

    def touched(self) -> R | None:
        # Nothing more is read for the change of a full join whose keys are reduced: both sides have them.
        return None if self.reading.kind is Kind.FULL or not self._keys[0] else self._touched

    @cached_property
    def _touched(self) -> R:
        """The keys of all changed rows of the inputs, NULL included."""
        parts = [
            (rows, _names(positions))
            for each, positions in zip(self.inputs, self._keys, strict=True)
            if positions
            for _, rows in each.change().signed()
        ]
        return self.bags.keys(parts, [True] * len(self._keys[0]))

    def change(self, within: R | None) -> Change[R]:
        if self.reading.kind is Kind.FIXED:
            self.inputs[0].check_unchanged()
            return self._net([])
        changes = [each.change() for each in self.inputs]
        if not any(change.count() for change in changes):
            return self._net([])
        match self.reading.kind:
            case Kind.UNION:
                return self._net([part for change in changes for part in change.signed()])
            case Kind.JOIN:
                return self._net([*self._by_left(within), *self._by_right(within)])
            case _:
                keys = self._touched if within is None else within
                return self._net(
                    self._twice([self._wanted_keys(keys, side) for side in range(len(self.inputs))])
                )

    def _by_left(self, within: R | None) -> list[tuple[int, R]]:
        """Return what the changed rows of the preserved side change, which need their partners only."""
        change = self._at_keys(self.inputs[0].change(), within)
        signed = change.signed()
        if not signed:
            return []
        partners = self.inputs[1].matching(self._partners([rows for _, rows in signed], 0))
        return [(sign, self._operated(rows, partners)) for sign, rows in signed]

    def _by_right(self, within: R | None) -> list[tuple[int, R]]:
        """Return what the changed rows of the other side change, with old rows of the preserved side."""
        left, right = self.inputs
        changed = [rows for _, rows in right.change().signed()]
        if not changed:
            return []
        wanted = self._partners(changed, 1)
        if within is not None and self._keys[0]:
            wanted += self._wanted_keys(within, 0)
        preserved = self._before(left, left.matching(wanted), wanted)
        if not preserved.count():
            return []
        wanted = self._partners([preserved], 0)
        new = right.matching(wanted)
        old = self._before(right, new, wanted)
        return [(1, self._operated(preserved, new)), (-1, self._operated(preserved, old))]

    def _twice(self, wanted: Sequence[Sequence[Wanted[R]]]) -> list[tuple[int, R]]:
        """Return the rows over the wanted rows of the inputs, and those over the old versions of these."""
        new = [each.matching(rows) for each, rows in zip(self.inputs, wanted, strict=True)]
        old = [
            self._before(each, rows, wanted_rows)
            for each, rows, wanted_rows in zip(self.inputs, new, wanted, strict=True)
        ]
        return [(1, self._operated(*new)), (-1, self._operated(*old))]

    def _before(self, block: BlockRows[R], rows: R, wanted: Sequence[Wanted[R]]) -> R:
        """Return the rows of an input that meet conditions *wanted* as they were before its change."""
        change = self._meeting(block.change(), wanted)
        return self.bags.before(rows, change, complete=True) if change.count() else rows

    def _meeting(self, change: Change[R], wanted: Sequence[Wanted[R]]) -> Change[R]:
        added, removed = change.added, change.removed
        for each in wanted:
            added, removed = (
                self.bags.among(rows, each) if rows.count() else rows for rows in (added, removed)
            )
        return Change(added=added, removed=removed)

    def _at_keys(self, change: Change[R], within: R | None) -> Change[R]:
        return change if within is None else self._meeting(change, self._wanted_keys(within, 0))

    def _wanted_keys(self, keys: R, side: int) -> list[Wanted[R]]:
        """Return the condition that rows of an input have some of the *keys*; none without keys."""
        return _wanted(keys, self._keys[side], [True] * len(self._keys[side]))

    def _net(self, signed: Sequence[tuple[int, R]]) -> Change[R]:
        return self.bags.net(self.place, signed)

    # ------------------------------------------------------------------------------------------ given keys

    def matching(self, wanted: Sequence[Wanted[R]]) -> R:
        if self.reading.kind is Kind.UNION:
            # Its columns and those of its branches have the same names.
            return self.bags.together(self.place, [each.matching(wanted) for each in self.inputs])
        is_whole = self.reading.kind is Kind.FIXED
        rows = self._whole if is_whole else self._operated(*self._inputs_of(wanted))
        for each in wanted:
            rows = self.bags.among(rows, each) if rows.count() else rows
        return rows

    @cached_property
    def _whole(self) -> R:
        return self.inputs[0].over_whole_tables()

    def _inputs_of(self, wanted: Sequence[Wanted[R]]) -> list[R]:
        """Return rows of the inputs from which all wanted rows can be computed, and perhaps others."""
        match self.reading.kind:
            case Kind.JOIN | Kind.FULL:
                return self._joined_inputs(wanted)
            case Kind.WINDOW:
                return [self._partitions(wanted)]
            case _:
                return [self.inputs[0].matching(self._parts(wanted, 0, self._keys[0]))]

    def _joined_inputs(self, wanted: Sequence[Wanted[R]]) -> list[R]:
        left, right = self.inputs
        in_left, in_right = self._parts(wanted, 0), self._without_null(self._parts(wanted, 1))
        if self.reading.kind is Kind.FULL:
            in_left = self._without_null(in_left)
        if in_left:
            rows = left.matching(in_left)
            return [rows, right.matching(self._partners([rows], 0))]
        if in_right and self.reading.pairs:
            rows = right.matching(in_right)
            return [left.matching(self._partners([rows], 1)), rows]
        return [left.matching(()), right.matching(())]

    def _partitions(self, wanted: Sequence[Wanted[R]]) -> R:
        """Return the rows of all partitions of a window that have wanted rows."""
        (child,), keys = self.inputs, self._keys[0]
        by_key = self._parts(wanted, 0, keys)
        if by_key or not keys:
            return child.matching(by_key)
        passed = self._parts(wanted, 0)
        if not passed:
            return child.matching(())
        rows = child.matching(passed)
        return child.matching(
            self._wanted_keys(self.bags.keys([(rows, _names(keys))], [True] * len(keys)), 0)
        )

    def _parts(
        self, wanted: Sequence[Wanted[R]], side: int, positions: Sequence[int] | None = None
    ) -> list[Wanted[R]]:
        """Return the parts of *wanted* on columns that an input passes on, by default at all positions."""
        columns = {
            f"c{own}": f"c{passed[1]}"
            for own, passed in enumerate(self.reading.passed)
            if passed is not None and passed[0] == side and (positions is None or passed[1] in positions)
        }
        return [part for each in wanted if (part := part_of(each, columns)) is not None]

    def _without_null(self, wanted: Sequence[Wanted[R]]) -> list[Wanted[R]]:
        """Return those of *wanted* that no row without a partner meets."""
        return [
            each
            for each in wanted
            if not self.bags.have_null(each.keys, [match.of for match in each.matches if match.null_safe])
        ]

    def _partners(self, rows: Sequence[R], side: int) -> list[Wanted[R]]:
        """Return the condition that rows of the other side of a join have the keys of *rows*."""
        null_safe = [each.null_safe for each in self.reading.pairs]
        if not null_safe:
            return []
        keys = self.bags.keys([(part, _names(self._keys[side])) for part in rows], null_safe)
        return _wanted(keys, self._keys[1 - side], null_safe)

    # ----------------------------------------------------------------------------------------------- both

    def _operated(self, *inputs: R) -> R:
        """Return the output of the operator over rows of its inputs."""
        if self._gives_nothing(inputs):
            return self.bags.together(self.place, ())
        if (
            self.reading.kind is Kind.JOIN
            and not self.reading.pairs
            and prod(rows.count() for rows in inputs) > MOST_COMPARED
        ):
            raise TooManyRows(f"{self.reading.words} compares too many rows")
        return self.bags.rows(
            self.place, {}, {each.block.place: rows for each, rows in zip(self.inputs, inputs, strict=True)}
        )

    def _gives_nothing(self, inputs: Sequence[R]) -> bool:
        """Return whether the operator has no output because inputs have no rows."""
        return not any(rows.count() for rows in (inputs[:1] if self.reading.kind is Kind.JOIN else inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReadings(Generic[R]):
    """The computed readings of a run, over *tables*."""

    bags: Bags[R]
    tables: Tables[R]

    def block(self, blocks: Blocks, facts: Mapping[int, SourceFacts]) -> BlockRows[R]:
        """Return the rows of the root of *blocks*. *facts* are those of its computed readings."""
        return self._block(blocks.root, blocks, facts)

    def _block(self, block: Block, blocks: Blocks, facts: Mapping[int, SourceFacts]) -> BlockRows[R]:
        computed = {
            number: OperatorRows(
                reading=reading,
                facts=facts[number],
                bags=self.bags,
                inputs=tuple(self._block(each, blocks, facts) for each in reading.inputs),
            )
            for number in block.readings
            if (reading := blocks.computed.get(number)) is not None
        }
        return BlockRows(block=block, bags=self.bags, tables=self.tables, computed=computed)


def _names(positions: Sequence[int]) -> list[str]:
    return [f"c{position}" for position in positions]


def _wanted(keys: R, positions: Sequence[int], null_safe: Sequence[bool]) -> list[Wanted[R]]:
    """Return the condition that the columns at *positions* have some of the *keys*; none without keys."""
    matches = tuple(
        Match(of=f"k{number}", to=f"c{position}", null_safe=safe)
        for number, (position, safe) in enumerate(zip(positions, null_safe, strict=True))
    )
    return [Wanted(keys=keys, matches=matches)] if matches else []
