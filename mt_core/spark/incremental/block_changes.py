"""Block changes: what a change of sources changes in the rows of a block, or in what is computed from them.

The change of a block (`block_rows`) is a sum of terms, one for each changed reading. What is computed over
the rows of a term is an *output*, such as the partial sums of an aggregate. An output is linear: it is
computed over the rows that came and over those that went, and the parts are added up with their signs.

If the rows of a term are few, an inline plan computes its part. This plan depends neither on the term nor on
the sign, so it is planned and compiled once for an output, and executed for each. Another plan adds up the
parts. A single job computes what remains, over whole tables where look-ups were refused, and adds it to the
parts. It computes no operator twice. So it either joins whole tables with computed readings whose rows are
few, or it has terms of tables in which the block is linear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.delta import Images
from mt_core.incremental.local_limits import MOST_COMPARED
from mt_core.incremental.stages.blocks import Block, Blocks, Kind, Place
from mt_core.incremental.stages.computed_facts import facts_of_readings
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, no_rows, together
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.incremental.block_rows import BlockRows, Term
from mt_core.spark.incremental.computed_reading import RunReadings
from mt_core.spark.incremental.scalar_values import ScalarValues
from mt_core.spark.incremental.spark_bags import SparkBags
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.spark.readings.row_images import ImageViews

MOST_JOINED_ROWS = 400_000
"""The maximum number of rows that a term joins inline. More are joined by a job, which uses all cores."""


class Output(Protocol):
    """What is computed over the rows of a block, part by part, and added up.

    `purpose` identifies it among the outputs of a query. Its parts have `columns`.
    """

    @property
    def purpose(self) -> str: ...

    @property
    def columns(self) -> StructType: ...

    def over(self, leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]) -> DataFrame:
        """Return the part over rows of the block's readings: tables by number, operators by place."""
        ...

    def sum(self, signed: Iterable[tuple[int, DataFrame]]) -> DataFrame:
        """Return the sum of parts, each with its sign, without what does not change.

        The query depends on the class of the output, the signs, and the columns of the parts alone.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """The parts of a change, each with its sign: `few` are computed, and a job has to compute the `many`."""

    few: list[tuple[int, ComputedRows]] = field(default_factory=list)
    many: list[tuple[int, DataFrame]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to add up."""
        return not self.many and not any(rows.count() for _, rows in self.few)


@dataclass(frozen=True, kw_only=True)
class BlockChanges:
    """The changes of blocks of a *query* by its changed readings, between two versions of its sources.

    *since* are the old versions, by source name. *relations* have the images of the changed readings, without
    those of large appends. *values* are those of the scalar subqueries in the blocks, which have not changed.
    """

    session: SparkSession
    lineage: Lineage
    query: StagedQuery
    since: Mapping[str, str]
    relations: LocalRelations
    values: ScalarValues

    @property
    def changed(self) -> frozenset[int]:
        return self.relations.changed_readings

    def only_adds(self, blocks: Blocks) -> bool:
        """Return whether no part of a change is subtracted."""
        changed = blocks.tables() & self.changed
        images = [each for number in changed if (each := self.relations.images.get(number)) is not None]
        return changed <= blocks.linear() and all(each.only_added for each in images)

    def of(self, blocks: Blocks, values: Collection[int], output: Output) -> ComputedRows:
        """Return the change of an output of *blocks*, which have the scalar subqueries *values*.

        Raises NotApplied if operators that are not linear would have to read too many rows.
        """
        views = self._only_images(blocks)
        if views is None:
            return self.sum(output, self.parts(blocks, values, output))

        def change(at: Mapping[str, str]) -> DataFrame:
            return output.sum(self._only_parts(blocks, values, output, views, at))

        purpose = f"change {output.purpose} {views.only_added}"
        inputs = {"rows": views.net, **self.values.inputs(values)}
        return PLANS.computed(self.session, self.lineage, purpose, change, inputs)

    def parts(self, blocks: Blocks, values: Collection[int], output: Output) -> Signed:
        """Return the parts of the change of an output, as `of` adds them up."""
        views = self._only_images(blocks)
        if views is not None and views.only_added:

            def added(at: Mapping[str, str]) -> DataFrame:
                [(_, part)] = self._only_parts(blocks, values, output, views, at)
                return part

            inputs = {"rows": views.net, **self.values.inputs(values)}
            rows = PLANS.run(self.session, self.lineage, f"added {output.purpose}", added, inputs)
            if rows is not None:
                return Signed(few=[(1, rows)])
        parts, terms = Signed(), self._terms(blocks, values)
        if terms is None:
            for number in sorted(blocks.tables() & self.changed):
                parts.many.extend(self._of_whole_tables(blocks, values, output, number))
        for term in terms or ():
            few = self._of_few_rows(blocks, values, output, term)
            if few is None:
                parts.many.extend(self._of_whole_readings(blocks, values, output, term))
            else:
                parts.few.extend(few)
        return parts

    def rows(self, blocks: Blocks, values: Collection[int]) -> BlockRows[ComputedRows]:
        """Return the rows of *blocks* in this run, which have the scalar subqueries *values*."""
        bags = SparkBags(
            session=self.session,
            lineage=self.lineage,
            query=self.query,
            values=self.values.by_place(values),
        )
        tables = blocks.tables() if blocks.computed else ()
        facts = facts_of_readings(blocks, {number: self.relations.facts(number) for number in tables})
        return RunReadings(bags=bags, tables=self.relations).block(blocks, facts)

    def sum(self, output: Output, parts: Signed) -> ComputedRows:
        """Return the sum of the parts of an output."""
        columns = output.columns
        few = {sign: [part for each, part in parts.few if each == sign] for sign in (1, -1)}
        signed = [(sign, together(self.session, columns, each)) for sign, each in few.items() if each]
        if parts.many:
            frames = [*parts.many, *((sign, rows.frame) for sign, rows in signed)]
            return collect_or_checkpoint(output.sum(frames))
        if not signed:
            return no_rows(self.session, columns)

        def added_up(at: Mapping[str, str]) -> DataFrame:
            return output.sum((sign, self.session.table(at[f"part{sign}"])) for sign, _ in signed)

        purpose = f"sum {type(output).__name__} {[sign for sign, _ in signed]}"
        inputs = {f"part{sign}": rows for sign, rows in signed}
        return PLANS.computed(self.session, None, purpose, added_up, inputs)

    def _terms(self, blocks: Blocks, values: Collection[int]) -> Sequence[Term[ComputedRows]] | None:
        """Return the terms of a change, or None if a job must read whole tables.

        Raises TooManyRows if a job would have to compute operators twice.
        """
        changed = blocks.tables() & self.changed
        is_linear = changed <= blocks.linear()
        if all(self.relations.change(number) is not None for number in changed):
            try:
                return self.rows(blocks, values).terms()
            except TooManyRows:
                if not is_linear:
                    raise
        elif not is_linear:
            raise TooManyRows("more rows changed than the driver holds")
        return None

    # ----------------------------------------------------------------------------------------------- few rows

    def _only_images(self, blocks: Blocks) -> ImageViews | None:
        """Return the images of the only reading of a block, or None if there are others or many rows."""
        number, *others = blocks.root.readings
        views = self.relations.images.get(number)
        return None if others or views is None or not views.few else views

    def _only_parts(
        self,
        blocks: Blocks,
        values: Collection[int],
        output: Output,
        views: ImageViews,
        at: Mapping[str, str],
    ) -> Iterator[tuple[int, DataFrame]]:
        """Yield the parts over the changed rows of the only reading.

        *at* has the inputs of an inline plan, by name.
        """
        (number,) = blocks.root.readings
        for sign, rows in self._images(views.of(at["rows"])):
            yield sign, self._over(blocks, values, output, {number: rows}, at)

    def _of_few_rows(
        self, blocks: Blocks, values: Collection[int], output: Output, term: Term[ComputedRows]
    ) -> list[tuple[int, ComputedRows]] | None:
        """Return the parts of a term, or None if a job must compute them."""
        if term.is_empty:
            return []
        if not _is_joined_inline(blocks.root, term):
            return None
        numbers = blocks.root.readings

        def part(at: Mapping[str, str]) -> DataFrame:
            rows = {each: self.session.table(at[f"r{each}"]) for each in numbers}
            return self._over(blocks, values, output, rows, at)

        parts = list[tuple[int, ComputedRows]]()
        for sign, changed in term.changed.signed():
            rows = {**term.leaves, term.reading: changed}
            inputs = {f"r{each}": rows[each] for each in numbers} | self.values.inputs(values)
            computed = PLANS.run(self.session, self.lineage, f"part {output.purpose}", part, inputs)
            if computed is None:
                return None
            parts.append((sign, computed))
        return parts

    def _over(
        self,
        blocks: Blocks,
        values: Collection[int],
        output: Output,
        rows: Mapping[int, DataFrame],
        at: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Return an output over rows of the readings of its block, tables and computed ones.

        *at* has the inputs of an inline plan, by name.
        """
        computed, operators = blocks.computed, self.values.operators(values, at)
        operators |= {computed[number].place: frame for number, frame in rows.items() if number in computed}
        leaves = {number: frame for number, frame in rows.items() if number not in computed}
        return output.over(leaves, operators)

    # ------------------------------------------------------------------------------------------------ by jobs

    def _of_whole_readings(
        self, blocks: Blocks, values: Collection[int], output: Output, term: Term[ComputedRows]
    ) -> Iterator[tuple[int, DataFrame]]:
        """Yield the parts of a term, over whole tables where too many rows match."""
        leaves = {number: rows.frame for number, rows in term.leaves.items()}
        # Only tables are missing. If too many rows of a computed reading match, there are no terms.
        for number in {*blocks.root.readings} - {term.reading, *leaves}:
            leaves[number] = self._whole(number, term.reading)
        for sign, rows in term.changed.signed():
            yield sign, self._over(blocks, values, output, {**leaves, term.reading: rows.frame})

    def _of_whole_tables(
        self, blocks: Blocks, values: Collection[int], output: Output, number: int
    ) -> Iterator[tuple[int, DataFrame]]:
        """Yield the parts over the changed rows of a table and whole other tables."""
        others = {each: self._whole(each, number) for each in blocks.tables() - {number}}
        for sign, rows in self.changed_rows(number):
            leaves = {**others, number: rows}
            operators = self.values.operators(values)
            operators |= self._branches(blocks, blocks.root, number, leaves, operators)
            yield sign, output.over(leaves, operators)

    def _branches(
        self,
        blocks: Blocks,
        block: Block,
        number: int,
        leaves: Mapping[int, DataFrame],
        values: Mapping[Place, DataFrame],
    ) -> dict[Place, DataFrame]:
        """Return the rows of each UNION that reads a table: only those of the branch that does."""
        found = dict[Place, DataFrame]()
        for computed in (blocks.computed[each] for each in block.readings if each in blocks.computed):
            for branch in computed.inputs:
                if number in blocks.tables_below(branch):
                    below = self._branches(blocks, branch, number, leaves, values)
                    if computed.kind is Kind.UNION:
                        rows = self.query.rows(branch.place, leaves, {**values, **below})
                        found[computed.place] = rows
                    else:
                        found |= below
        return found

    def _whole(self, number: int, term: int) -> DataFrame:
        """Return all rows of a reading at its version in the term of another one."""
        is_old = number in self.changed and number > term
        return (self._before if is_old else self.relations.readings.versions).rows(number)

    @cached_property
    def _before(self) -> ReadingVersions:
        """The readings at the old versions, which may have expired where no job reads them."""
        return ReadingVersions.at(self.session, self.lineage, self.since)

    def changed_rows(self, number: int) -> Iterator[tuple[int, DataFrame]]:
        """Yield the rows of a reading that came and those that went, each with the sign of its part."""
        images = self.relations.images.get(number)
        if images is None:
            yield 1, self.relations.readings.versions.appended(number, self.since)
        else:
            yield from self._images(images)

    def _images(self, images: Images) -> Iterator[tuple[int, DataFrame]]:
        yield 1, self.session.sql(f"SELECT * FROM {images.added}")
        if not images.only_added:
            yield -1, self.session.sql(f"SELECT * FROM {images.removed}")


def _is_joined_inline(block: Block, term: Term[ComputedRows]) -> bool:
    """Return whether an inline plan joins the rows of a term, of which a job has to read none."""
    joined = {number: rows.count() for number, rows in term.leaves.items()}
    if len(joined) + 1 < len(block.readings) or sum(joined.values()) > MOST_JOINED_ROWS:
        return False
    return block.joins.compared({**joined, term.reading: term.changed.count()}) <= MOST_COMPARED
