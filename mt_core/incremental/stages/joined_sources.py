"""Joined sources: what a run with states reads of the sources besides their changed rows, from metadata.

The change of a state joins the changed rows with whole small readings, with rows that are looked up in other
readings, and with whole relations where look-ups are refused or have no key. The estimate follows the plan of
look-ups that the run would make of the same facts.

A look-up decodes its key columns in all files, as far as their limits do not exclude them, and the pages of
the other columns that have a found row. Found rows are expected to be scattered, so each is in a page of its
own until all pages are read. If a look-up finds more rows than the driver holds, it is refused: the terms
that need its rows, or rows that these would have found, read whole relations. Below a computed reading there
are no such jobs. If the block is linear in all tables that changed, a job over whole tables computes its
terms; otherwise the run would fail, and all tables are counted, as by a recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.local_limits import MOST_BYTES, MOST_COMPARED, MOST_LOCAL, MOST_ROWS
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind
from mt_core.incremental.stages.computed_facts import facts_of_readings, rows_of
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.look_ups import (
    LookUpPlan,
    SourceFacts,
    look_up_plan,
)
from mt_core.incremental.stages.stage_plan import StagePlan

SELECTED = 0.1
"""A guess of the share of rows that a filter of a reading selects."""
ROWS_OF_PAGE = 20_000
"""The usual number of rows in a page of a Parquet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSources:
    """What a run with states reads besides the changed rows.

    `size` is an estimate in bytes. `looked_up` has the sources and columns of the look-ups, such as `orders
    by customer_id`, and `whole` the sources that are read whole.
    """

    size: int
    looked_up: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Describe them for users."""
        whole = [f"all of {', '.join(self.whole)}"] if self.whole else []
        return f"joins about {self.size:,} bytes: {', '.join([*self.looked_up, *whole])}"

    @property
    def is_empty(self) -> bool:
        return not self.looked_up and not self.whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Bytes that are read of a reading: of rows with some values of the columns `by`, or of all rows."""

    reading: int
    size: float
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReadings:
    """The readings of a query, and how they have changed.

    `names` are the sources of all readings. The others are by the number of a reading: `changes` are those
    that change rows, `facts` describe the sources, and `scopes` what the query reads of them.
    """

    names: Sequence[str]
    changes: Mapping[int, SourceChange]
    facts: Mapping[int, SourceFacts]
    scopes: Mapping[int, ReadingScope]

    def joined_by(self, plan: StagePlan) -> JoinedSources:
        """Return what a run with the stages of *plan* reads besides the changed rows."""
        return self._joined_by(plan.blocks, plan.read_whole(frozenset(self.changes)))

    def joined_by_rows(self, rows: Blocks) -> JoinedSources:
        """Return what a run that changes the *rows* of a result reads besides the changed rows."""
        return self._joined_by([rows], ())

    def _joined_by(self, through: Sequence[Blocks], rest: Collection[int]) -> JoinedSources:
        reads = [read for blocks in through for read in self._of_blocks(blocks)]
        reads += self._whole(rest)
        # A run looks up the keys of a source together for all its readings.
        looked_up = dict[tuple[str, tuple[str, ...]], float]()
        for each in reads:
            if each.by:
                key = self.names[each.reading], each.by
                looked_up[key] = max(looked_up.get(key, 0), each.size)
        return JoinedSources(
            size=round(sum(looked_up.values()) + sum(each.size for each in reads if not each.by)),
            looked_up=tuple(f"{name} by {_listed(by)}" for name, by in looked_up),
            whole=tuple(dict.fromkeys(self.names[each.reading] for each in reads if not each.by)),
        )

    def _of_blocks(self, blocks: Blocks) -> list[_Read]:
        if (reads := self.reads_of(blocks)) is not None:
            reads.change(blocks.root)
            if not reads.is_refused:
                return reads.found
        tables = blocks.tables()
        changed = tables & self.changes.keys()
        if not changed <= blocks.linear():
            return self._whole(tables)
        # Jobs compute the terms of tables in which the block is linear.
        return [read for term in sorted(changed) for read in self._whole(tables - {term})]

    def reads_of(self, blocks: Blocks) -> ReadsOfStage | None:
        """Return what the changes read through *blocks*, or None if the driver does not hold them."""
        changed = blocks.tables() & self.changes.keys()
        rows = {number: count for number in changed if (count := self._rows(number)) is not None}
        if rows.keys() != changed:
            return None
        facts = facts_of_readings(blocks, self.facts)
        return ReadsOfStage(readings=self, blocks=blocks, facts=facts, rows=rows)

    def _rows(self, reading: int) -> int | None:
        """Return about how many changed rows of a reading the driver holds, or None if they are too many."""
        change, facts = self.changes[reading], self.facts[reading]
        if change.kind is ChangeKind.APPENDS:
            is_small = (change.rows or 0) <= MOST_ROWS and (change.size or 0) <= MOST_BYTES
            return change.rows if is_small else None
        if change.rows is None:
            # Most rows of rewritten files may be copies. How many is not known before they are read.
            share = 1.0 if change.size is None else change.size / max(1, facts.size)
            return min(MOST_LOCAL, round(share * facts.rows))
        return change.rows if change.rows <= MOST_LOCAL else None

    def _whole(self, readings: Collection[int]) -> list[_Read]:
        return [_Read(reading=number, size=self.facts[number].size) for number in sorted(readings)]

    def columns(self, reading: int) -> int:
        """Return how many columns the query reads."""
        scope = self.scopes.get(reading)
        return self.facts[reading].columns if scope is None else max(1, len(scope.columns))

    def filters(self, reading: int) -> bool:
        """Return whether the query reads only some rows of a reading, by a filter of its own."""
        return bool(self.scopes[reading].filters) if reading in self.scopes else False


@dataclass(slots=True, kw_only=True)
class ReadsOfStage:
    """What a change of `rows` of tables reads through `blocks`. `facts` are those of all readings.

    The methods follow the run: each returns an estimate of how many rows it gives, and adds to `found`.
    """

    readings: ChangedReadings
    blocks: Blocks
    facts: Mapping[int, SourceFacts]
    rows: Mapping[int, int]
    found: list[_Read] = field(default_factory=list)
    is_refused: bool = False
    _changes: dict[int, int] = field(default_factory=dict)

    def change(self, block: Block) -> int:
        """Return how many rows of a block change."""
        rows = self.changed_rows(block)
        return self._joined(block, rows) if rows else 0

    def changed_rows(self, block: Block) -> dict[int, int]:
        """Return how many rows of each changed reading of a block change."""
        rows = {number: self._changed_rows(block, number) for number in block.readings}
        return {number: count for number, count in rows.items() if count}

    def look_ups(self, block: Block, rows: Mapping[int, int]) -> LookUpPlan:
        """Return the look-ups for some *rows* of readings of a block."""
        return look_up_plan(
            block.joins,
            changed=frozenset(rows),
            facts=self.facts,
            rows=rows,
            filtered=frozenset(number for number in block.readings if self.readings.filters(number)),
        )

    def _changed_rows(self, block: Block, number: int) -> int:
        if (computed := self.blocks.computed.get(number)) is None:
            return self.rows.get(number, 0)
        if number not in self._changes:
            self._changes[number] = self._change_of(computed, self._share(block, computed))
        return self._changes[number]

    def _share(self, block: Block, computed: ComputedReading) -> float:
        """Return how many of the keys at which a reading may have changed other readings of a block have."""
        keys = {*computed.keys, *(pair.left for pair in computed.pairs)}
        columns = {f"c{each}" for each, below in enumerate(computed.passed) if below and below[1] in keys}
        reducing = {
            column.reading
            for key in block.joins.keys
            if any(each.reading == computed.number and each.column in columns for each in key.columns)
            for column in key.columns
        }
        return SELECTED if any(map(self.readings.filters, reducing)) else 1

    def _change_of(self, computed: ComputedReading, share: float) -> int:
        if computed.kind is Kind.FIXED:
            return 0
        changed = [self.change(block) for block in computed.inputs]
        if computed.kind not in (Kind.UNION, Kind.FULL):
            changed = [math.ceil(each * share) for each in changed]
        match computed.kind:
            case _ if not any(changed):
                return 0
            case Kind.UNION:
                return sum(changed)
            case Kind.JOIN:
                rows = self._matching(computed.inputs[0], _of(computed, 0), changed[1]) if changed[1] else 0
                others = self._matching(computed.inputs[1], _of(computed, 1), changed[0] + rows)
                if not computed.pairs:
                    self.is_refused |= (changed[0] + rows) * others > MOST_COMPARED
                return changed[0] + rows
            case Kind.FULL:
                return sum(
                    self._matching(block, _of(computed, number), sum(changed))
                    for number, block in enumerate(computed.inputs)
                )
            case _:
                rows = self._matching(computed.inputs[0], computed.keys, changed[0])
                return rows if computed.kind is Kind.WINDOW else changed[0]

    def _matching(self, block: Block, positions: Collection[int], keys: int) -> int:
        """Return how many rows of a block have one of *keys* in the columns at *positions*."""
        columns = [
            column
            for position in positions
            if (column := block.columns[position]) is not None and self.blocks.finds(block, position)
        ]
        if not columns:
            self._read_small(self.blocks.tables_below(block))
            return rows_of(block, self.facts)
        first = columns[0].reading
        by = tuple(dict.fromkeys(each.column for each in columns if each.reading == first))
        rows = self._look_up(first, by, keys, self._selected(first, self._expected(columns, keys)))
        return self._joined(block, {first: rows}) if len(block.readings) > 1 else rows

    def _expected(self, columns: Sequence[KeyColumn], keys: int) -> int:
        facts = self.facts[columns[0].reading]
        values = math.prod(facts.values_of(each) for each in columns if each.reading == columns[0].reading)
        return round(min(facts.rows, keys * facts.rows / max(1, min(facts.rows, values))))

    def _joined(self, block: Block, rows: Mapping[int, int]) -> int:
        """Return how many rows of a block some *rows* of its readings give, by look-ups of the others."""
        plan = self.look_ups(block, rows)
        self._read_whole(plan.whole)
        looked_up = dict[tuple[int, int], int]()
        for each in plan.look_ups:
            sources = plan.sources(each)
            if not sources <= looked_up.keys():
                continue
            # The plan does not know how many rows filters select.
            expected = rows.get(each.of, 0) + sum(plan.expected(step) for step in sources)
            keys = rows.get(each.of, 0) + sum(looked_up[step] for step in sources)
            found = self._selected(each.to, math.ceil(keys * each.expected / max(1, expected)))
            if found > MOST_LOCAL:
                continue
            looked_up[each.of, each.to] = found
            if each.to not in plan.whole:
                self._look_up(each.to, tuple(match.to for match in each.matches), keys, found)
        for term in sorted(rows):
            steps = plan.before(term)
            reached = {number for number, step in steps.items() if (step, number) in looked_up}
            others = block.joins.readings - {term} - plan.whole - reached
            # A job joins whole tables for a state, but computes no readings below it.
            read = self._read_whole if block is self.blocks.root else self._read_small
            read(others - self.blocks.computed.keys())
            self._read_small(others & self.blocks.computed.keys())
        return max(sum(rows.values()), *looked_up.values(), 0)

    def _selected(self, number: int, rows: int) -> int:
        """Return how many rows of a reading its filter selects."""
        return math.ceil(rows * SELECTED) if self.readings.filters(number) else rows

    def _look_up(self, number: int, by: tuple[str, ...], keys: int, expected: int) -> int:
        """Return how many rows of a reading have one of *keys* in the columns *by*."""
        if (computed := self.blocks.computed.get(number)) is not None:
            return self._matching_computed(computed, [int(name[1:]) for name in by], keys)
        facts = self.facts[number]
        if expected > MOST_LOCAL or (facts.is_small and number not in self.rows):
            self._read_small([number])
            return expected
        # A filter applies to rows that are read.
        read = expected / self._selected(number, 1000) * 1000
        of_pages = min(1, ROWS_OF_PAGE * read / max(1, facts.rows))
        others = max(0, self.readings.columns(number) - len(by))
        of_column = facts.size / max(1, facts.columns)
        self.found.append(_Read(reading=number, size=of_column * (len(by) + of_pages * others), by=by))
        return expected

    def _matching_computed(self, computed: ComputedReading, positions: Sequence[int], keys: int) -> int:
        inputs = computed.inputs
        if computed.kind is Kind.UNION:
            return sum(self._matching(block, positions, keys) for block in inputs if block.readings)
        if computed.kind is Kind.FIXED:
            self._read_small([computed.number])
            return keys
        passed = [below for position in positions if (below := computed.passed[position]) is not None]
        if computed.kind is Kind.GROUPS:
            return self._matching(inputs[0], [each for _, each in passed if each in computed.keys], keys)
        if computed.kind is Kind.WINDOW:
            rows = self._matching(inputs[0], [each for _, each in passed], keys)
            if not {each for _, each in passed} & {*computed.keys}:
                rows = self._matching(inputs[0], computed.keys, rows)
            return rows
        side = min((number for number, _ in passed), default=0)
        rows = self._matching(inputs[side], [each for number, each in passed if number == side], keys)
        others = self._matching(inputs[1 - side], _of(computed, 1 - side), rows)
        return others if side else rows

    def _read_small(self, numbers: Collection[int]) -> None:
        """Read readings whole that the driver has to hold."""
        for number in sorted(numbers):
            if (computed := self.blocks.computed.get(number)) is not None:
                for block in computed.inputs:
                    self._read_small(self.blocks.tables_below(block))
            else:
                self.is_refused |= not self.facts[number].is_small
                self._read_whole([number])

    def _read_whole(self, numbers: Collection[int]) -> None:
        """Read readings whole, those that are small once and only the columns of the query."""
        for number in sorted(numbers):
            if (computed := self.blocks.computed.get(number)) is not None:
                for block in computed.inputs:
                    self._read_whole(self.blocks.tables_below(block))
                continue
            facts = self.facts[number]
            is_kept = facts.is_small and number not in self.rows
            share = self.readings.columns(number) / max(1, facts.columns) if is_kept else 1
            read = _Read(reading=number, size=facts.size * share)
            if not is_kept or read not in self.found:
                self.found.append(read)


def _of(computed: ComputedReading, side: int) -> tuple[int, ...]:
    return tuple(pair.sides[side] for pair in computed.pairs)


def _listed(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
