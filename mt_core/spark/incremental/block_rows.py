"""Block rows: the change of a block of a query, and the rows of a block that have given keys.

A block (`mt_core.incremental.stages.blocks`) joins readings of tables with computed readings. It treats both
alike: a reading says its change and returns its rows with given keys at the new version. So the terms of the
change are those of a join of tables, over the rows that `semi_join_reducer` looks up.

A computed reading costs most where its change is computed, at all keys at which it may have changed. Most of
these vanish in a join with a table of which few rows qualify. So the keys are first *reduced* to those that
such tables have, at the new version or among their removed rows, and the change is computed for these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Generic

from mt_core.incremental.local_limits import MOST_COMPARED
from mt_core.incremental.stages.blocks import Block
from mt_core.incremental.stages.look_ups import Match, SourceFacts, look_up_plan
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.incremental.bags import Bags, Change, Computed, Tables, Wanted
from mt_core.spark.incremental.semi_join_reducer import R, SemiJoinReducer


@dataclass(frozen=True, slots=True, kw_only=True)
class Term(Generic[R]):
    """A term of the change of a block: the changed rows of a reading, and the rows that they are joined with.

    `leaves` lacks the readings of which too many rows match.
    """

    reading: int
    changed: Change[R]
    leaves: Mapping[int, R]

    @property
    def is_empty(self) -> bool:
        return not self.changed.count() or not all(rows.count() for rows in self.leaves.values())


@dataclass(frozen=True, kw_only=True)
class BlockRows(Generic[R]):
    """The rows of a *block* in a run, over readings of *tables* and *computed* readings, by number.

    Its columns are `c0`, `c1` and so on.
    """

    block: Block
    bags: Bags[R]
    tables: Tables[R]
    computed: Mapping[int, Computed[R]]

    # --------------------------------------------------------------------------------------------- change

    def change(self) -> Change[R]:
        """Return the net change of the block."""
        return self._change

    @cached_property
    def _change(self) -> Change[R]:
        if (operator := self._only_operator) is not None:
            return operator.change(None)
        signed = list[tuple[int, R]]()
        for term in self.terms():
            if not term.is_empty:
                self._check_complete({term.reading: term.changed.added, **term.leaves})
                signed += (
                    (sign, self._joined({**term.leaves, term.reading: rows}))
                    for sign, rows in term.changed.signed()
                )
        return self.bags.net(self.block.place, signed)

    def terms(self) -> list[Term[R]]:
        """Return the terms of the change. Readings that have not changed have none."""
        changes = self._changes
        if not changes or len(self.block.readings) == 1:
            # Nothing is looked up, so the facts of sources are not read.
            return [
                Term(reading=number, changed=change, leaves={}) for number, change in sorted(changes.items())
            ]
        reducer = self._reducer(changes)
        return [
            Term(
                reading=number,
                changed=Change(added=reducer.changes[number][0], removed=reducer.changes[number][1]),
                leaves=reducer.leaves(number),
            )
            for number in sorted(changes)
        ]

    @cached_property
    def _changes(self) -> dict[int, Change[R]]:
        """The changes of the readings that have changed."""
        changes, touched = dict[int, Change[R]](), dict[int, R]()
        for number in self.block.readings:
            operator = self.computed.get(number)
            if operator is None:
                changes[number] = self._change_of_table(number)
            elif (keys := operator.touched()) is None:
                changes[number] = operator.change(None)
            elif keys.count():
                touched[number] = keys
        changes = {number: change for number, change in changes.items() if change.count()}
        for number, keys in touched.items():
            within = self._reduced(number, keys, changes)
            change = self.computed[number].change(within) if within is None or within.count() else None
            if change is not None and change.count():
                changes[number] = change
        return changes

    def _change_of_table(self, number: int) -> Change[R]:
        if number not in self.tables.changed_readings:
            nothing = self.tables.together(number, ())
            return Change(added=nothing, removed=nothing)
        change = self.tables.change(number)
        if change is None:
            raise TooManyRows(f"too many rows of reading {number} changed")
        return Change(added=change[0], removed=change[1])

    def _reduced(self, number: int, keys: R, changes: Mapping[int, Change[R]]) -> R | None:
        """Return those of the touched *keys* of a computed reading that tables beside it have.

        None if no table leaves any of them out.
        """
        tables, columns, reduced = self.tables, self.computed[number].key_columns, keys
        for other in sorted(self.block.readings, key=lambda each: self._facts(each).rows):
            matches = tuple(self._key_matches(number, columns, other))
            selects = self._facts(other).is_small or other in tables.filtered
            if other in self.computed or not matches or not selects or not reduced.count():
                continue
            rows = tables.matching(other, reduced, matches)
            if rows is not None:
                parts = [rows]
                if other in changes:
                    parts += changes[other].added, changes[other].removed
                reduced = tables.semi_join(reduced, tables.together(other, parts), matches)
        return reduced if reduced.count() < keys.count() else None

    def _key_matches(self, number: int, columns: Mapping[str, str], other: int) -> Sequence[Match]:
        """Return which columns of the touched keys of a computed reading are equal to those of a table."""
        return [
            Match(of=columns[own.column], to=column.column, null_safe=each.null_safe)
            for each in self.block.joins.keys
            for own in each.columns
            if own.reading == number and own.column in columns and (column := each.of(other)) is not None
        ]

    # ------------------------------------------------------------------------------------------ given keys

    def matching(self, wanted: Sequence[Wanted[R]]) -> R:
        """Return exactly the rows of the new version that meet all conditions *wanted*."""
        if not all(each.keys.count() for each in wanted):
            return self.nothing()
        if (operator := self._only_operator) is not None:
            return operator.matching(wanted)
        leaves = self._leaves(wanted)
        rows = self.nothing() if leaves is None else self._joined(leaves)
        for each in wanted:
            rows = self.bags.among(rows, each) if rows.count() else rows
        return rows

    def over_whole_tables(self) -> R:
        """Return all rows of a block that is not linear, over all rows of its tables."""
        leaves = {number: rows for number in self.block.readings if (rows := self.whole(number)) is not None}
        self._check_complete(leaves)
        return self.bags.rows(self.block.place, leaves, {})

    def check_unchanged(self) -> None:
        """Raise TooManyRows if a table of a block that is computed whole has changed."""
        changed = sorted(self.tables.changed_readings & {*self.block.readings})
        if changed:
            raise TooManyRows(f"reading {changed[0]} of an operator without a key changed")

    def nothing(self) -> R:
        """Return no rows."""
        return self.bags.together(self.block.place, ())

    def _leaves(self, wanted: Sequence[Wanted[R]]) -> dict[int, R] | None:
        """Return the rows of the readings that can join to wanted rows, or None if there are none."""
        first = self._first(wanted)
        if first is None:
            whole = {number: self.whole(number) for number in self.block.readings}
            leaves = {number: rows for number, rows in whole.items() if rows is not None}
        else:
            number, parts = first
            rows = self._matching(number, parts)
            if not rows.count():
                return None
            start = Change(added=rows, removed=self.together(number, ()))
            reducer = self._reducer({number: start})
            leaves = {**reducer.leaves(number), number: reducer.changes[number][0]}
        self._check_complete(leaves)
        return leaves

    def _first(self, wanted: Sequence[Wanted[R]]) -> tuple[int, list[Wanted[R]]] | None:
        """Return the reading of which the fewest rows are wanted, and which; None if all are of all."""
        parts = {number: self._parts(number, wanted) for number in self.block.readings}
        parts = {number: each for number, each in parts.items() if each}
        if not parts:
            return None
        return min(parts.items(), key=lambda item: self._expected(item[0], item[1][0]))

    def _parts(self, number: int, wanted: Sequence[Wanted[R]]) -> list[Wanted[R]]:
        """Return the parts of *wanted* that are columns of a reading, the most selective first."""
        own = {
            f"c{position}": column.column
            for position, column in enumerate(self.block.columns)
            if column is not None and column.reading == number
        }
        parts = [part for each in wanted if (part := part_of(each, own)) is not None]
        return sorted(parts, key=lambda part: self._expected(number, part))

    def _expected(self, number: int, wanted: Wanted[R]) -> float:
        """Return about how many rows of a reading are wanted."""
        facts = self._facts(number)
        columns = {
            column.column: facts.values_of(column)
            for column in self.block.columns
            if column is not None and column.reading == number
        }
        values = prod(columns[name] for name in {each.to for each in wanted.matches})
        return wanted.keys.count() * facts.rows / max(1, min(facts.rows, values))

    def _matching(self, number: int, parts: Sequence[Wanted[R]]) -> R:
        """Return rows of a reading, at least those that are wanted."""
        if number in self.computed:
            return self.computed[number].matching(parts)
        first, *others = parts
        rows = self.tables.matching(number, first.keys, first.matches)
        if rows is None:
            raise TooManyRows(f"too many rows of reading {number} have keys of a change")
        for each in others:
            inverse = [Match(of=key.to, to=key.of, null_safe=key.null_safe) for key in each.matches]
            rows = self.tables.semi_join(rows, each.keys, inverse)
        return rows

    # ----------------------------------------------------------------------------------------------- both

    @cached_property
    def _only_operator(self) -> Computed[R] | None:
        """The computed reading that is all of the block, if there is one."""
        operators = [self.computed[number] for number in self.block.readings if number in self.computed]
        return next((each for each in operators if each.place == self.block.place), None)

    def _joined(self, leaves: Mapping[int, R]) -> R:
        """Return the rows of the block over rows of its readings."""
        joined = {number: rows.count() for number, rows in leaves.items()}
        if not all(joined.values()):
            return self.nothing()
        if self.block.joins.compared(joined) > MOST_COMPARED:
            raise TooManyRows("a join without equal columns compares too many rows")
        tables = {number: rows for number, rows in leaves.items() if number not in self.computed}
        operators = {self.computed[number].place: leaves[number] for number in leaves.keys() - tables.keys()}
        return self.bags.rows(self.block.place, tables, operators)

    def _reducer(self, changes: Mapping[int, Change[R]]) -> SemiJoinReducer[R]:
        readings = self.block.joins.readings
        plan = look_up_plan(
            self.block.joins,
            changed=frozenset(changes),
            facts={number: self._facts(number) for number in readings},
            rows={number: change.count() for number, change in changes.items()},
            filtered=self.tables.filtered & readings,
        )
        pairs = {number: (change.added, change.removed) for number, change in changes.items()}
        return SemiJoinReducer.of(plan, readings, pairs, _Relations(rows=self, changes=changes))

    def _facts(self, number: int) -> SourceFacts:
        operator = self.computed.get(number)
        return self.tables.facts(number) if operator is None else operator.facts

    def whole(self, number: int) -> R | None:
        """Return all rows of a reading at the new version, or None if these are too many."""
        operator = self.computed.get(number)
        return self.tables.whole(number) if operator is None else operator.matching(())

    def together(self, number: int, parts: Sequence[R]) -> R:
        """Return all rows of *parts*, which are rows of a reading."""
        operator = self.computed.get(number)
        if operator is None:
            return self.tables.together(number, parts)
        return self.bags.together(operator.place, parts)

    def _check_complete(self, leaves: Mapping[int, R]) -> None:
        missing = sorted({*self.block.readings} - leaves.keys())
        if missing:
            raise TooManyRows(f"too many rows of reading {missing[0]} are joined with a change")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relations(Generic[R]):
    """The readings of a block for its reducer. Those in `changes` have changed."""

    rows: BlockRows[R]
    changes: Mapping[int, Change[R]]

    def whole(self, number: int) -> R | None:
        return self.rows.whole(number)

    def matching(self, number: int, keys: R, matches: Sequence[Match]) -> R | None:
        operator = self.rows.computed.get(number)
        if operator is None:
            return self.rows.tables.matching(number, keys, matches)
        return operator.matching([Wanted(keys=keys, matches=tuple(matches))])

    def before(self, number: int, rows: R) -> R:
        if number not in self.rows.computed:
            return self.rows.tables.before(number, rows)
        return self.rows.bags.before(rows, self.changes[number], complete=False)

    def semi_join(self, rows: R, others: R, matches: Sequence[Match]) -> R:
        return self.rows.tables.semi_join(rows, others, matches)

    def together(self, number: int, parts: Sequence[R]) -> R:
        return self.rows.together(number, parts)


def part_of(wanted: Wanted[R], columns: Mapping[str, str]) -> Wanted[R] | None:
    """Return the part of a condition on some *columns*, by other names of these. None if there is none."""
    matches = tuple(
        Match(of=each.of, to=columns[each.to], null_safe=each.null_safe)
        for each in wanted.matches
        if each.to in columns
    )
    return Wanted(keys=wanted.keys, matches=matches) if matches else None
