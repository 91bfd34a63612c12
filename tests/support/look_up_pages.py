"""Which rows a change of several sources looks up, as a page: from the recorded plans of TPC-H and TPC-DS.

`python -m tests.support.look_up_pages` writes the page again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.reading_scopes import read_scopes
from mt_core.incremental.stages.blocks import Block
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.joined_sources import ChangedReadings, ReadsOfStage
from mt_core.incremental.stages.look_ups import LookUp, LookUpPlan
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from tests.support.tpc_facts import CHANGED_ROWS, facts_of
from tests.support.tpc_plans import FOLDER, RecordedQuery, recorded_queries
from tests.support.tpc_strategies import TITLES, unlimited_forecasts

PAGE = FOLDER / "look_ups.md"
HEAD = """\
# Which rows the change of a state looks up

`python -m tests.support.look_up_pages` writes this page from the recorded plans, for the sizes of both suites
at scale 1 and changes of about a tenth of a percent of the facts, the orders and the customers. *Terms* are
the readings whose changed rows are joined with others; a reading that the query has twice has its number.
Readings that are *whole* are taken from memory, where each reduces the readings behind `>`. A look-up finds
rows of the reading behind `→` by the named columns of it; the numbers are those of the rows that give keys,
and of the rows that are expected. `*` marks a reading with a filter. A state has a line for each of its
blocks; an operator between them, such as an outer join, is a reading of the block above. Look-ups into whole
readings, and blocks of a single reading, are left out.

The first table of a suite has the estimated share of the sources' bytes that a run reads besides the changed
rows, with look-ups and with whole relations, and what it joins. A source that is read twice counts twice.
"""


@dataclass(frozen=True)
class BlockOfQuery:
    """A block of a state of a query."""

    reads: ReadsOfStage
    block: Block

    @cached_property
    def rows(self) -> Mapping[int, int]:
        """The numbers of the changed rows of each changed reading."""
        return self.reads.changed_rows(self.block)

    @cached_property
    def plan(self) -> LookUpPlan:
        return self.reads.look_ups(self.block, self.rows)

    def name(self, number: int) -> str:
        if (computed := self.reads.blocks.computed.get(number)) is not None:
            return computed.words
        names = self.reads.readings.names
        name = names[number] if names.count(names[number]) == 1 else f"{names[number]} {number}"
        return f"{name}*" if self.reads.readings.filters(number) else name

    def column(self, number: int, column: str) -> str:
        """Return the name of a column of a table that a column of a reading has the values of."""
        of = KeyColumn(reading=number, column=column, type="")
        return next((each.column for each in self.reads.blocks.columns_of_tables(of)), column)

    def names(self, numbers: Iterable[int]) -> str:
        return ", ".join(self.name(number) for number in sorted(numbers))


def page() -> str:
    """Return the page, as Markdown."""
    return "\n".join([HEAD, *(line for suite in TITLES for line in _suite(suite))])


def _suite(suite: str) -> Iterator[str]:
    yield f"## {TITLES[suite]}\n"
    yield from _shares(suite)
    yield "| query | state | terms | whole | look-ups |"
    yield "|---|---|---|---|---|"
    for name, forecasts in unlimited_forecasts(suite).items():
        if (stages := forecasts.stages) is None:
            continue
        readings = changed_readings(suite, recorded_queries(suite)[name].without_limit(), stages)
        for stage in stages.stages:
            for cells in _rows(readings, stage):
                yield f"| {' | '.join((name, stage.words, *cells))} |"
    yield ""


def _shares(suite: str) -> Iterator[str]:
    """Yield what each query reads besides the changed rows."""
    yield "| query | look-ups | whole relations | joins |"
    yield "|---|---|---|---|"
    for name, forecasts in unlimited_forecasts(suite).items():
        if (stages := forecasts.stages) is None:
            continue
        readings = changed_readings(suite, recorded_queries(suite)[name].without_limit(), stages)
        joined = readings.joined_by(stages)
        size = sum({readings.names[number]: each.size for number, each in readings.facts.items()}.values())
        shares = (f"{each / size:.0%}" for each in (joined.size, _size_of_whole(readings, stages)))
        yield f"| {name} | {' | '.join(shares)} | {str(joined).partition(': ')[2]} |"
    yield ""


def _size_of_whole(readings: ChangedReadings, stages: StagePlan) -> int:
    """Return the bytes of all other readings in the term of each changed one, and of the rest."""
    terms = ((stage, term) for stage in stages.stages for term in stage.readings & readings.changes.keys())
    whole = [number for stage, term in terms for number in stage.readings - {term}]
    return sum(readings.facts[number].size for number in (*whole, *stages.rest))


def changed_readings(suite: str, query: RecordedQuery, stages: StagePlan) -> ChangedReadings:
    """Return the readings of a query with the facts and the change of `tpc_facts`."""
    columns: dict[int, set[str]] = {number: set() for number in range(len(query.readings))}
    for each in (column for stage in stages.stages for column in stage.blocks.key_columns()):
        columns[each.reading].add(each.column)
    facts = {number: facts_of(suite, name, columns[number]) for number, name in enumerate(query.readings)}
    changed = CHANGED_ROWS[suite]
    return ChangedReadings(
        names=query.readings,
        changes={
            number: SourceChange(kind=ChangeKind.ROWS, rows=changed[name])
            for number, name in enumerate(query.readings)
            if name in changed
        },
        facts=facts,
        scopes=read_scopes(query.trees),
    )


def _rows(readings: ChangedReadings, stage: Stage) -> Iterator[tuple[str, str, str]]:
    reads = readings.reads_of(stage.blocks)
    assert reads is not None
    below = [block for each in stage.blocks.computed.values() for block in each.inputs]
    for block in (BlockOfQuery(reads, each) for each in (stage.blocks.root, *below)):
        if block.rows and len(block.block.readings) > 1:
            yield block.names(block.rows), _whole(block), "<br>".join(_look_ups(block)) or "none"


def _whole(block: BlockOfQuery) -> str:
    reduced: dict[int, list[str]] = {number: [] for number in sorted(block.plan.whole)}
    for each in block.plan.reductions:
        reduced[each.by].append(block.name(each.of))
    return "<br>".join(
        f"{block.name(number)} > {', '.join(names)}" if names else block.name(number)
        for number, names in reduced.items()
    )


def _look_ups(block: BlockOfQuery) -> Iterator[str]:
    for each in block.plan.look_ups:
        if each.to in block.plan.whole:
            continue
        columns = ", ".join(block.column(each.to, match.to) for match in each.matches)
        words = f"{block.name(each.of)} → {block.name(each.to)} by {columns}"
        reduced = ", ".join(block.name(number) for number in each.reduced_by)
        words += f": {_keys(block, each):,} → {each.expected:,}"
        yield f"{words}, reduced by {reduced}" if reduced else words


def _keys(block: BlockOfQuery, look_up: LookUp) -> int:
    """Return how many rows give the keys of a look-up."""
    found = sum(
        each.expected for each in block.plan.look_ups if each.to == look_up.of and each.of != look_up.to
    )
    return found + block.rows.get(look_up.of, 0)


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
