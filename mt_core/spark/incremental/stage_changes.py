"""Stage changes: how the states of a query change with its sources.

If several readings of an aggregate have changed, the change is a sum of terms, one for each: its changed rows
with the changed readings before it at their new versions and those after it at their old versions
(`mt_core.incremental.delta` has the same sum for texts). The partial sums over rows that went are subtracted.

The rows that a term joins are looked up by the keys of the changed rows (`semi_join_reducer`). If they are
few, the term is an inline plan over them. This plan depends neither on the term nor on the sign, so it is
planned and compiled once for the terms of a block, and executed for each. The partial sums are added up by
another plan. One job computes the terms that remain, over whole relations where look-ups were refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import Images
from mt_core.incremental.stages.join_blocks import JoinBlock
from mt_core.incremental.stages.look_ups import look_up_plan
from mt_core.incremental.stages.stage_plan import Stage
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, no_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.semi_join_reducer import SemiJoinReducer
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations, together
from mt_core.spark.readings.reading_versions import ReadingVersions

MOST_JOINED_ROWS = 400_000
"""The maximum number of rows that a term joins inline. More are joined by a job, which uses all cores."""
Leaves = Mapping[int, ComputedRows]
"""Local rows of readings, by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChanges:
    """The changes of the states of a *query* by its *changed* readings, between two versions of its sources.

    *relations* have the images of these readings, without those of large appends.
    """

    session: SparkSession
    lineage: Lineage
    query: StagedQuery
    before: ReadingVersions
    after: ReadingVersions
    changed: frozenset[int]
    relations: LocalRelations
    stack: ExitStack

    def of(self, stage: Stage, columns: StructType) -> ComputedRows:
        """Return the change of the partial sums of a stage, without groups that have not changed.

        *columns* are those of the partial sums.
        """
        return replace(self._alone(stage, columns) or self._sum(stage, columns), schema=columns)

    def _alone(self, stage: Stage, columns: StructType) -> ComputedRows | None:
        """Return the change of a stage with a single reading, of which few rows changed, by one plan."""
        number, *others = stage.readings
        views = self.relations.images.get(number)
        if others or views is None or not views.few:
            return None

        def change(at: Mapping[str, str]) -> DataFrame:
            return self._terms(stage, columns, {number: {}}, {number: views.of(at["rows"])})

        purpose = f"change {stage.name} {number} {views.only_added}"
        return PLANS.run(self.session, self.lineage, purpose, change, {"rows": views.net})

    def _sum(self, stage: Stage, columns: StructType) -> ComputedRows:
        """Return the sum of all terms of a stage."""
        parts: dict[int, list[ComputedRows]] = {1: [], -1: []}
        left: dict[int, Leaves] = {number: {} for number in stage.readings & self.changed}
        for block in stage.blocks:
            changed = block.readings & self.changed
            if changed and all(self.relations.change(number) is not None for number in changed):
                reducer = self._reducer(block, changed)
                for number in sorted(block.terms & changed):
                    left[number] = reducer.leaves(number)
                    groups = self._groups(stage, block, number, reducer.changes[number], left[number])
                    if groups is not None:
                        del left[number]
                        for sign, partials in groups.items():
                            parts[sign].append(partials)
        signed = [(sign, together(self.session, columns, each)) for sign, each in parts.items() if each]
        if left:
            job = collect_or_checkpoint(self._terms(stage, columns, left, self.relations.images))
            if not signed:
                return job
            signed.append((1, job))
        return self._added_up(stage, columns, signed) if signed else no_rows(self.session, columns)

    # ----------------------------------------------------------------------------------------------- few rows

    def _reducer(self, block: JoinBlock, changed: frozenset[int]) -> SemiJoinReducer[ComputedRows]:
        relations, facts = self.relations, self.relations.readings.facts
        plan = look_up_plan(
            block,
            changed=changed,
            facts={number: facts(number) for number in block.readings},
            rows={number: sum(each.count() for each in relations.changed(number)) for number in changed},
            filtered=relations.readings.filtered & block.readings,
        )
        return SemiJoinReducer.of(plan, block.readings, changed, relations)

    def _groups(
        self,
        stage: Stage,
        block: JoinBlock,
        number: int,
        changed: tuple[ComputedRows, ComputedRows],
        leaves: Leaves,
    ) -> dict[int, ComputedRows] | None:
        """Return the partial sums of a term by their sign, or None if a job must compute them."""
        signed = {sign: rows for sign, rows in zip((1, -1), changed, strict=True) if rows.count()}
        rows_of = {other: rows.count() for other, rows in leaves.items()}
        if not signed or not all(rows_of.values()):
            return {}
        if len(leaves) + 1 < len(block.readings) or sum(rows_of.values()) > MOST_JOINED_ROWS:
            return None
        place, numbers, relations = stage.places[0], sorted(stage.readings), self.relations
        # All terms of a block have the same branches of UNIONs. In the others there are no rows.
        branch = min(block.terms)
        others = {each: relations.together(each, ()) for each in numbers if each not in block.readings}

        def groups(at: Mapping[str, str]) -> DataFrame:
            leaves = {each: self.session.table(at[f"r{each}"]) for each in numbers}
            return self.query.groups(place, leaves, changed=branch)

        found = dict[int, ComputedRows]()
        for sign, rows in signed.items():
            given = {**others, **leaves, number: rows}
            inputs = {f"r{each}": given[each] for each in numbers}
            partials = PLANS.run(self.session, self.lineage, f"groups {stage.name} {branch}", groups, inputs)
            if partials is None:
                return None
            found[sign] = partials
        return found

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

    def _terms(
        self, stage: Stage, columns: StructType, numbers: Mapping[int, Leaves], images: Mapping[int, Images]
    ) -> DataFrame:
        """Return the sum of the terms of some readings, over local rows where there are any."""
        terms = list[str]()
        for number, leaves in numbers.items():
            others = {
                other: leaves[other].frame if other in leaves else self._whole(other, number)
                for other in stage.readings - {number}
            }
            for sign, rows in self._changed_rows(number, images.get(number)):
                groups = self.query.groups(stage.places[0], {**others, number: rows}, changed=number)
                terms.append(_signed(columns, sign, self.stack.enter_context(temporary_view(groups))))
        return self.session.sql(_added_up(columns, stage.keys, terms))

    def _whole(self, number: int, term: int) -> DataFrame:
        """Return all rows of a reading at its version in the term of another one."""
        is_old = number in self.changed and number > term
        return (self.before if is_old else self.after).rows(number)

    def _changed_rows(self, number: int, images: Images | None) -> Iterator[tuple[int, DataFrame]]:
        """Yield the rows of a reading that came and those that went, each with the sign of its sums."""
        if images is None:
            yield 1, self.after.appended(number, self.before)
            return
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
