"""Joined sources: what a run with states reads of the sources besides their changed rows, from metadata.

The change of a state joins the changed rows with whole small readings, with rows that are looked up in other
readings, and with whole relations where look-ups are refused or have no key. The estimate follows the plan of
look-ups that the run would make of the same facts.

A look-up decodes its key columns in all files, as far as their limits do not exclude them, and the pages of
the other columns that have a found row. Found rows are expected to be scattered, so each is in a page of its
own until all pages are read. If a look-up finds more rows than the driver holds, it is refused: the terms
that need its rows, or rows that these would have found, read whole relations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.local_limits import MOST_BYTES, MOST_LOCAL, MOST_ROWS
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.join_blocks import JoinBlock
from mt_core.incremental.stages.look_ups import LookUp, LookUpPlan, SourceFacts, look_up_plan
from mt_core.incremental.stages.stage_plan import Stage, StagePlan

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
        reads = [read for stage in plan.stages for read in self._of_stage(stage)]
        reads += self._whole(plan.rest)
        return JoinedSources(
            size=round(sum(each.size for each in reads)),
            looked_up=tuple(
                dict.fromkeys(
                    f"{self.names[each.reading]} by {_listed(each.by)}" for each in reads if each.by
                )
            ),
            whole=tuple(dict.fromkeys(self.names[each.reading] for each in reads if not each.by)),
        )

    def _of_stage(self, stage: Stage) -> Iterator[_Read]:
        changed = stage.readings & self.changes.keys()
        rows = {number: count for number in changed if (count := self._rows(number)) is not None}
        # A change that the driver does not hold makes jobs of all terms.
        blocks = stage.blocks if rows.keys() == changed else ()
        for block in blocks:
            yield from self._of_block(block, changed, rows)
        for term in sorted(changed.difference(*(block.terms for block in blocks))):
            yield from self._whole(stage.readings - {term})

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

    def _of_block(
        self, block: JoinBlock, changed: frozenset[int], rows: Mapping[int, int]
    ) -> Iterator[_Read]:
        terms = changed & block.terms
        if not terms:
            return
        plan = look_up_plan(
            block,
            changed=changed,
            facts=self.facts,
            rows=rows,
            filtered=frozenset(number for number in block.readings if self._filters(number)),
        )
        for number in sorted(plan.whole):
            share = self._columns(number) / max(1, self.facts[number].columns)
            yield _Read(reading=number, size=self.facts[number].size * share)
        looked_up = _answered(plan)
        for edge, look_up in looked_up.items():
            if edge[1] not in plan.whole:
                yield self._read_of(look_up)
        for term in sorted(terms):
            before = plan.before(term)
            found = {number for number, step in before.items() if (step, number) in looked_up}
            yield from self._whole(block.readings - {term} - plan.whole - found)

    def _read_of(self, look_up: LookUp) -> _Read:
        facts, keys = self.facts[look_up.to], tuple(match.to for match in look_up.matches)
        of_pages = min(1, ROWS_OF_PAGE * look_up.expected / max(1, facts.rows))
        others = max(0, self._columns(look_up.to) - len(keys))
        of_column = facts.size / max(1, facts.columns)
        return _Read(reading=look_up.to, size=of_column * (len(keys) + of_pages * others), by=keys)

    def _whole(self, readings: Collection[int]) -> list[_Read]:
        return [_Read(reading=number, size=self.facts[number].size) for number in sorted(readings)]

    def _columns(self, reading: int) -> int:
        """Return how many columns the query reads."""
        scope = self.scopes.get(reading)
        return self.facts[reading].columns if scope is None else max(1, len(scope.columns))

    def _filters(self, reading: int) -> bool:
        return bool(self.scopes[reading].filters) if reading in self.scopes else False


def _listed(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"


def _answered(plan: LookUpPlan) -> dict[tuple[int, int], LookUp]:
    """Return the look-ups that are not refused, by the readings from which and to which they go."""
    answered: dict[tuple[int, int], LookUp] = {}
    for each in plan.look_ups:
        if each.expected <= MOST_LOCAL and plan.sources(each) <= answered.keys():
            answered[each.of, each.to] = each
    return answered
