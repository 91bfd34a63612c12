"""Which rows a change of several sources looks up, as a page: from the recorded plans of TPC-H and TPC-DS.

`python -m tests.support.look_up_pages` writes the page again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.reading_scopes import read_scopes
from mt_core.incremental.stages.join_blocks import JoinBlock
from mt_core.incremental.stages.joined_sources import ChangedReadings
from mt_core.incremental.stages.look_ups import LookUp, LookUpPlan, look_up_plan
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
and of the rows that are expected. `*` marks a reading with a filter. Look-ups into whole readings, and states
of a single reading, are left out.

The first table of a suite has the estimated share of the sources' bytes that a run reads besides the changed
rows, with look-ups and with whole relations, and what it joins. A source that is read twice counts twice.
"""


@dataclass(frozen=True)
class BlockOfQuery:
    """A block of a state of a query."""

    readings: ChangedReadings
    block: JoinBlock

    @cached_property
    def rows(self) -> Mapping[int, int]:
        """The numbers of the changed rows of each changed reading."""
        changes = self.readings.changes
        return {number: changes[number].rows or 0 for number in self.block.readings & changes.keys()}

    @cached_property
    def filtered(self) -> frozenset[int]:
        return frozenset(number for number in self.block.readings if self.readings.scopes[number].filters)

    @cached_property
    def plan(self) -> LookUpPlan:
        return look_up_plan(
            self.block,
            changed=frozenset(self.rows),
            facts=self.readings.facts,
            rows=self.rows,
            filtered=self.filtered,
        )

    def name(self, number: int) -> str:
        names = self.readings.names
        name = names[number] if names.count(names[number]) == 1 else f"{names[number]} {number}"
        return f"{name}*" if number in self.filtered else name

    def names(self, numbers: frozenset[int]) -> str:
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
        without = replace(stages, stages=tuple(replace(each, blocks=()) for each in stages.stages))
        size = sum({readings.names[number]: each.size for number, each in readings.facts.items()}.values())
        shares = (f"{each.size / size:.0%}" for each in (joined, readings.joined_by(without)))
        yield f"| {name} | {' | '.join(shares)} | {str(joined).partition(': ')[2]} |"
    yield ""


def changed_readings(suite: str, query: RecordedQuery, stages: StagePlan) -> ChangedReadings:
    """Return the readings of a query with the facts and the change of `tpc_facts`."""
    columns: dict[int, set[str]] = {number: set() for number in range(len(query.readings))}
    for key in (key for stage in stages.stages for block in stage.blocks for key in block.keys):
        for each in key.columns:
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
    blocks = [BlockOfQuery(readings, each) for each in stage.blocks]
    for block in blocks:
        terms = frozenset(block.rows) & block.block.terms
        if terms and len(block.block.readings) > 1:
            yield block.names(terms), _whole(block), "<br>".join(_look_ups(block)) or "none"
    without = stage.readings.difference(*(block.block.terms for block in blocks))
    if without:
        yield ", ".join(readings.names[number] for number in sorted(without)), "", "no block"


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
        columns = ", ".join(match.to for match in each.matches)
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
