"""Stage changes: how the states of a query change with its sources.

A state is an aggregate over a block (`block_rows`), whose change is a sum of terms, one for each changed
reading. The partial sums over rows that went are subtracted.

If the rows of a term are few, it is an inline plan over them. This plan depends neither on the term nor on
the sign, so it is planned and compiled once for a stage, and executed for each. The partial sums are added up
by another plan. One job computes the terms that remain, over whole tables where look-ups were refused. It
computes no operator twice, so it only has terms of tables in which the block is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import Images
from mt_core.incremental.stages.blocks import Block, Kind, Place
from mt_core.incremental.stages.computed_facts import facts_of_readings
from mt_core.incremental.stages.stage_plan import Stage
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, no_rows, together
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.block_rows import BlockRows, Term
from mt_core.spark.incremental.computed_reading import RunReadings
from mt_core.spark.incremental.scalar_values import ScalarValues
from mt_core.spark.incremental.spark_bags import SparkBags
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_versions import ReadingVersions

MOST_JOINED_ROWS = 400_000
"""The maximum number of rows that a term joins inline. More are joined by a job, which uses all cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChanges:
    """The changes of the states of a *query* by its changed readings, between two versions of its sources.

    *relations* have the images of these readings, without those of large appends. *values* are those of the
    scalar subqueries below the states, which have not changed.
    """

    session: SparkSession
    lineage: Lineage
    query: StagedQuery
    before: ReadingVersions
    after: ReadingVersions
    relations: LocalRelations
    values: ScalarValues
    stack: ExitStack

    @property
    def changed(self) -> frozenset[int]:
        return self.relations.changed_readings

    def of(self, stage: Stage, columns: StructType) -> ComputedRows:
        """Return the change of the partial sums of a stage, without groups that have not changed.

        *columns* are those of the partial sums. Raises NotApplied if operators that are not linear would have
        to read too many rows.
        """
        return replace(self._alone(stage, columns) or self._sum(stage, columns), schema=columns)

    def _alone(self, stage: Stage, columns: StructType) -> ComputedRows | None:
        """Return the change of a stage with a single reading, of which few rows changed, by one plan."""
        number, *others = stage.blocks.root.readings
        views = self.relations.images.get(number)
        if others or views is None or not views.few:
            return None

        def change(at: Mapping[str, str]) -> DataFrame:
            rows = self._images(views.of(at["rows"]))
            signed = ((sign, self._groups_over(stage, {number: frame}, at)) for sign, frame in rows)
            return self._by_query(stage, columns, signed)

        purpose = f"change {stage.name} {number} {views.only_added}"
        inputs = {"rows": views.net, **self.values.inputs(stage.values)}
        return PLANS.run(self.session, self.lineage, purpose, change, inputs)

    def _sum(self, stage: Stage, columns: StructType) -> ComputedRows:
        """Return the sum of all terms of a stage."""
        parts: dict[int, list[ComputedRows]] = {1: [], -1: []}
        left = list[tuple[int, DataFrame]]()
        terms = self._terms(stage)
        if terms is None:
            for number in sorted(stage.readings & self.changed):
                left += self._of_whole_tables(stage, number)
        for term in terms or ():
            groups = self._groups(stage, term)
            if groups is None:
                left += self._of_term(stage, term)
            else:
                for sign, partials in groups.items():
                    parts[sign].append(partials)
        signed = [(sign, together(self.session, columns, each)) for sign, each in parts.items() if each]
        if left:
            job = collect_or_checkpoint(self._by_query(stage, columns, left))
            if not signed:
                return job
            signed.append((1, job))
        return self._added_up(stage, columns, signed) if signed else no_rows(self.session, columns)

    def _terms(self, stage: Stage) -> Sequence[Term[ComputedRows]] | None:
        """Return the terms of a stage, or None if a job must read whole tables.

        Raises TooManyRows if a job would have to compute operators twice.
        """
        changed = stage.readings & self.changed
        is_linear = changed <= stage.blocks.linear()
        if all(self.relations.change(number) is not None for number in changed):
            try:
                return self._block(stage).terms()
            except TooManyRows:
                if not is_linear:
                    raise
        elif not is_linear:
            raise TooManyRows("more rows changed than the driver holds")
        return None

    def _block(self, stage: Stage) -> BlockRows[ComputedRows]:
        """Return the rows that a stage aggregates."""
        values = self.values.by_place(stage.values)
        bags = SparkBags(session=self.session, lineage=self.lineage, query=self.query, values=values)
        tables = {number: self.relations.facts(number) for number in stage.readings}
        facts = facts_of_readings(stage.blocks, tables)
        return RunReadings(bags=bags, tables=self.relations).block(stage.blocks, facts)

    # ----------------------------------------------------------------------------------------------- few rows

    def _groups(self, stage: Stage, term: Term[ComputedRows]) -> dict[int, ComputedRows] | None:
        """Return the partial sums of a term by their sign, or None if a job must compute them."""
        if term.is_empty:
            return {}
        joined = sum(rows.count() for rows in term.leaves.values())
        if len(term.leaves) + 1 < len(stage.blocks.root.readings) or joined > MOST_JOINED_ROWS:
            return None
        numbers = stage.blocks.root.readings

        def groups(at: Mapping[str, str]) -> DataFrame:
            rows = {each: self.session.table(at[f"r{each}"]) for each in numbers}
            return self._groups_over(stage, rows, at)

        found = dict[int, ComputedRows]()
        for sign, rows in term.changed.signed():
            given = {**term.leaves, term.reading: rows}
            inputs = {f"r{each}": given[each] for each in numbers} | self.values.inputs(stage.values)
            partials = PLANS.run(self.session, self.lineage, f"groups {stage.name}", groups, inputs)
            if partials is None:
                return None
            found[sign] = partials
        return found

    def _groups_over(
        self, stage: Stage, rows: Mapping[int, DataFrame], at: Mapping[str, str] | None = None
    ) -> DataFrame:
        """Return the partial sums of a stage over rows of its readings, tables and computed ones.

        *at* has the inputs of an inline plan, by name.
        """
        computed, operators = stage.blocks.computed, self.values.operators(stage.values, at)
        operators |= {computed[number].place: frame for number, frame in rows.items() if number in computed}
        leaves = {number: frame for number, frame in rows.items() if number not in computed}
        return self.query.groups(stage.places[0], leaves, operators)

    def _added_up(
        self, stage: Stage, columns: StructType, parts: Sequence[tuple[int, ComputedRows]]
    ) -> ComputedRows:
        """Return the sum of partial sums, each with its sign."""

        def text(at: Mapping[str, str]) -> str:
            terms = (_signed(columns, sign, at[f"part{each}"]) for each, (sign, _) in enumerate(parts))
            return _added_up(columns, stage.keys, terms)

        given = {f"part{each}": replace(part, schema=columns) for each, (_, part) in enumerate(parts)}
        few = PLANS.sql(self.session, None, text, given)
        if few is not None:
            return few
        views = {name: self.stack.enter_context(temporary_view(part.frame)) for name, part in given.items()}
        return collect_or_checkpoint(self.session.sql(text(views)))

    # ------------------------------------------------------------------------------------------------ by jobs

    def _by_query(
        self, stage: Stage, columns: StructType, signed: Iterable[tuple[int, DataFrame]]
    ) -> DataFrame:
        """Return the sum of partial sums of a stage, each with its sign."""
        terms = [
            _signed(columns, sign, self.stack.enter_context(temporary_view(groups)))
            for sign, groups in signed
        ]
        return self.session.sql(_added_up(columns, stage.keys, terms))

    def _of_term(self, stage: Stage, term: Term[ComputedRows]) -> Iterator[tuple[int, DataFrame]]:
        """Yield the partial sums of a term, over whole tables where too many rows match."""
        leaves = {number: rows.frame for number, rows in term.leaves.items()}
        # Only tables are missing. If too many rows of a computed reading match, there are no terms.
        for number in {*stage.blocks.root.readings} - {term.reading, *leaves}:
            leaves[number] = self._whole(number, term.reading)
        for sign, rows in term.changed.signed():
            yield sign, self._groups_over(stage, {**leaves, term.reading: rows.frame})

    def _of_whole_tables(self, stage: Stage, number: int) -> Iterator[tuple[int, DataFrame]]:
        """Yield the partial sums over the changed rows of a table and whole other tables."""
        others = {each: self._whole(each, number) for each in stage.readings - {number}}
        for sign, rows in self._changed_rows(number):
            leaves = {**others, number: rows}
            branches = self._branches(stage, stage.blocks.root, number, leaves)
            yield sign, self.query.groups(stage.places[0], leaves, branches)

    def _branches(
        self, stage: Stage, block: Block, number: int, leaves: Mapping[int, DataFrame]
    ) -> dict[Place, DataFrame]:
        """Return the rows of each UNION that reads a table: only those of the branch that does.

        The values below the stage are among them.
        """
        found, blocks = self.values.operators(stage.values), stage.blocks
        for computed in (blocks.computed[each] for each in block.readings if each in blocks.computed):
            for branch in computed.inputs:
                if number in blocks.tables_below(branch):
                    below = self._branches(stage, branch, number, leaves)
                    if computed.kind is Kind.UNION:
                        found[computed.place] = self.query.rows(branch.place, leaves, below)
                    else:
                        found |= below
        return found

    def _whole(self, number: int, term: int) -> DataFrame:
        """Return all rows of a reading at its version in the term of another one."""
        is_old = number in self.changed and number > term
        return (self.before if is_old else self.after).rows(number)

    def _changed_rows(self, number: int) -> Iterator[tuple[int, DataFrame]]:
        """Yield the rows of a reading that came and those that went, each with the sign of its sums."""
        images = self.relations.images.get(number)
        if images is None:
            yield 1, self.after.appended(number, self.before)
        else:
            yield from self._images(images)

    def _images(self, images: Images) -> Iterator[tuple[int, DataFrame]]:
        yield 1, self.session.sql(f"SELECT * FROM {images.added}")
        if not images.only_added:
            yield -1, self.session.sql(f"SELECT * FROM {images.removed}")


def _signed(columns: StructType, sign: int, relation: str) -> str:
    """Return a query for the partial sums in a relation, negated if *sign* is negative."""
    items = (
        name if sign > 0 or name.startswith("`k") else f"-{name} AS {name}"
        for name in map(quote, columns.names)
    )
    return f"SELECT {', '.join(items)} FROM {relation}"


def _added_up(columns: StructType, keys: int, terms: Iterable[str]) -> str:
    """Return a query for the sums of partial sums by group, without the groups in which nothing changed.

    A group of which as many rows came as went may have other sums.
    """
    fields = [(quote(each.name), sql_type(each.dataType)) for each in columns.fields]
    by = [name for name, _ in fields[:keys]]
    sums = [f"CAST(sum({name}) AS {type_}) AS {name}" for name, type_ in fields[keys:]]
    unchanged = " AND ".join(f"coalesce(sum({name}), 0) = 0" for name, _ in fields[keys:])
    text = f"SELECT {', '.join([*by, *sums])} FROM ({' UNION ALL '.join(terms)})"
    return f"{text}{' GROUP BY ' + ', '.join(by) if by else ''} HAVING NOT ({unchanged})"
