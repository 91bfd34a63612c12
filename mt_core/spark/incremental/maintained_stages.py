"""Maintained stages: the rows of a query from the states of its stages, and the new states.

A query with stages (`mt_core.incremental.stages`) is computed in two steps. The lowest aggregates are kept
as states: bags of partial sums, which add up to the groups. The rest of the query is computed over the
states. A change of a source changes a state by the partial sums over the rows that came, less those over the
rows that went (`block_changes`). So a refresh reads the changed rows and what they are joined with, and the
states; the rest of the query costs what it costs over so few rows.

A recomputation that keeps states does the same with all rows instead of changed ones: it sums up the
aggregates over the new versions, and computes its rows from these.

Few rows are added up and computed in the driver by inline plans, which start no job. Nothing of the table is
written here, but states are: no other run reads them unless the table is published with their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import same
from mt_core.incremental.stages.blocks import Place
from mt_core.incremental.stages.stage_plan import Stage, StagePlan, Value
from mt_core.incremental.strategy import NotApplied, ResultUnchanged, Way
from mt_core.model.storage import BATCH, RUN_ID, publish_name
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.computed_rows import (
    ComputedRows,
    collect_or_checkpoint,
    collect_or_keep,
    no_rows,
)
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.replace_rows import AddedRows, AllRows, Change, DeleteModes
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.block_changes import BlockChanges
from mt_core.spark.incremental.maintained_block import RowsOfRun
from mt_core.spark.incremental.scalar_values import ScalarValues
from mt_core.spark.incremental.stage_changes import GroupsOutput
from mt_core.spark.incremental.table_change import counts_checked
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.keyed_readings import KeyedReadings
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import ReadingVersions, check_unchanged
from mt_core.spark.states.kept_states import KeptStates, StateChange, WrittenStates
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Maintenance, Write


class NoState(NotApplied):
    """The state of a stage cannot be read."""

    what = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The rows of a run, and the states that its publish has to name."""

    change: Change
    modes: DeleteModes | None
    states: WrittenStates


@contextmanager
def staged_rows(
    session: SparkSession,
    lineage: Lineage,
    write: Write,
    kept: KeptStates,
    stored: Any,
    modes: DeleteModes | None,
) -> Iterator[StagedRows]:
    """Yield the rows that a *write* with stages gives the *stored* Iceberg table, and write the states.

    *modes* says how rows may be deleted in place; None if the table is rewritten. Raises SourcesChanged or
    NotApplied if the changes cannot be applied, and ResultUnchanged if the query reads none of them.
    """
    assert write.stages is not None
    check_unchanged(lineage, write.vector)
    with ExitStack() as stack:
        query = StagedQuery.of_lineage(session, lineage)
        run = _Run(
            session=session,
            lineage=lineage,
            write=write,
            plan=write.stages,
            query=query,
            values=ScalarValues(session=session, query=query),
            kept=kept,
            stored=stored,
            stack=stack,
        )
        if write.maintenance is None:
            yield run.recomputed()
        else:
            with counts_checked():
                yield run.maintained(write.maintenance, modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A state of a stage: its partial sums before the run and the changes of them, None for none of either.

    A state that is computed anew has all groups as its `changes`.
    """

    stage: Stage
    before: ComputedRows | None
    changes: ComputedRows | None

    @property
    def parts(self) -> list[ComputedRows]:
        return [part for part in (self.before, self.changes) if part is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    session: SparkSession
    lineage: Lineage
    write: Write
    plan: StagePlan
    query: StagedQuery
    values: ScalarValues
    kept: KeptStates
    stored: Any
    stack: ExitStack
    _schemas: dict[str, StructType] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- all rows

    def recomputed(self) -> StagedRows:
        """Compute all groups, and all rows from them."""
        versions = ReadingVersions.at(self.session, self.lineage, pins(self.write.vector))
        states = dict[str, _State]()
        for each in self.plan.in_order():
            if isinstance(each, Stage):
                states[each.name] = self._anew(each, versions)
            else:
                self.values.put(each, None, self._value(each, states, versions, None))
        written = self._written({name: self._change(state) for name, state in states.items()})
        return StagedRows(change=AllRows(rows=self._rest(states, versions)), modes=None, states=written)

    def _anew(self, stage: Stage, versions: ReadingVersions) -> _State:
        """Return the state of a stage, computed from its readings at *versions*."""
        leaves = {number: versions.rows(number) for number in stage.readings}
        values = self.values.operators(stage.values)
        groups = collect_or_keep(self.query.groups(stage.places[0], leaves, values))
        # Columns of partial sums may be NULL in one computation and not in another.
        return _State(stage=stage, before=None, changes=replace(groups, schema=self.schema(stage)))

    # --------------------------------------------------------------------------------------- changed rows

    def maintained(self, maintenance: Maintenance, modes: DeleteModes | None) -> StagedRows:
        """Change the states, and compute the rows from them."""
        changes, old, new = maintenance.changes, pins(maintenance.since), pins(self.write.vector)
        exact = frozenset[int]().union(*(each.below_computed() for each in self.plan.blocks))
        read = ReadingImages(
            session=self.session, lineage=self.lineage, changes=changes, old=old, new=new, exact=exact
        )
        tables = frozenset[int]().union(*(each.tables() for each in self.plan.blocks))
        relations = LocalRelations.of(read, tables, self.stack)
        changed, readings = relations.changed_readings, relations.readings
        after = readings.versions
        of_blocks = BlockChanges(
            session=self.session,
            lineage=self.lineage,
            query=self.query,
            since=old,
            relations=relations,
            values=self.values,
        )
        states = dict[str, _State]()
        for each in self.plan.in_order():
            if isinstance(each, Value):
                self._valued(each, states, changed, after, readings)
            elif each.values & self.values.changed:
                states[each.name] = self._anew(each, after)
            else:
                states[each.name] = self._changed(each, of_blocks)
        table = None
        if self._rows_may_differ(states, changed):
            table = self._change_of_table(states, maintenance, modes, of_blocks)
        if table is None and all(state.changes is None for state in states.values()):
            raise ResultUnchanged
        written = self._written({name: self._change(state) for name, state in states.items()})
        columns = self.session.table(self.write.table.sql).schema
        change, modes = table or (AddedRows(rows=no_rows(self.session, columns)), None)
        return StagedRows(change=change, modes=modes, states=written)

    def _rows_may_differ(self, states: Mapping[str, _State], changed: frozenset[int]) -> bool:
        """Return whether anything has changed that the query reads but for values that are the same."""
        above = (state for name, state in states.items() if name not in self.plan.inner)
        return (
            bool(changed & self.plan.above)
            or bool(self.values.changed)
            or any(state.changes is not None for state in above)
        )

    def _change_of_table(
        self,
        states: Mapping[str, _State],
        maintenance: Maintenance,
        modes: DeleteModes | None,
        of_blocks: BlockChanges,
    ) -> tuple[Change, DeleteModes | None] | None:
        """Return the change of the table and its modes, or None if no row changes."""
        strategy = maintenance.strategy
        if (
            self.plan.rows is not None
            and not self.values.changed
            and (strategy.keys or strategy.way is Way.APPEND)
        ):
            rows = RowsOfRun(
                write=self.write,
                maintenance=maintenance,
                stored=self.stored,
                changes=of_blocks,
                stack=self.stack,
            )
            return rows.change(self.plan.rows, self.values.rows, modes)
        in_place = self._in_place(states, maintenance, modes)
        if in_place is not None:
            return in_place, modes
        readings = of_blocks.relations.readings
        return AllRows(rows=self._rest(states, readings.versions, readings)), None

    def _valued(
        self,
        value: Value,
        states: Mapping[str, _State],
        changed: frozenset[int],
        versions: ReadingVersions,
        readings: KeyedReadings,
    ) -> None:
        """Set the value of a scalar subquery, which is computed only if something below it *changed*."""
        kept = self.kept.read(value.name, self.values.schema(value))
        if kept is None:
            raise NoState("the value of a scalar subquery cannot be read")
        kept = kept if kept.few else collect_or_checkpoint(kept.frame)
        is_same = (
            not value.rest & changed
            and not value.values & self.values.changed
            and all(states[name].changes is None for name in value.stages)
        )
        self.values.put(value, kept, None if is_same else self._value(value, states, versions, readings))

    def _changed(self, stage: Stage, of_blocks: BlockChanges) -> _State:
        columns = self.schema(stage)
        kept = self.kept.read(stage.name, columns)
        if kept is None:
            raise NoState(f"the state of {stage.words} cannot be read")
        if not stage.readings & of_blocks.changed:
            return _State(stage=stage, before=kept, changes=None)
        groups = GroupsOutput(session=self.session, query=self.query, stage=stage, columns=columns)
        # Columns of partial sums may be NULL in one computation and not in another.
        changes = replace(of_blocks.of(stage.blocks, stage.values, groups), schema=columns)
        return _State(stage=stage, before=kept, changes=changes if changes.count() else None)

    def _change(self, state: _State) -> StateChange | None:
        """Return the new groups of a stage, or None if it has not changed."""
        if state.changes is None:
            return None
        if state.before is None:
            return StateChange(whole=state.changes)
        return StateChange(whole=self._folded(state), added=state.changes)

    def _folded(self, state: _State) -> DataFrame | ComputedRows:
        place = state.stage.places[0]

        def folded(at: Mapping[str, str]) -> DataFrame:
            return self.query.folded(place, self.session.sql(_union(at.values())))

        given = {f"part{number}": part for number, part in enumerate(state.parts)}
        few = PLANS.run(self.session, self.lineage, f"state {state.stage.name}", folded, given)
        if few is None:
            frame = folded(self._views(given))
            if not all(part.few for part in state.parts):
                return frame
            few = collect_or_checkpoint(frame)
        return replace(few, schema=self.schema(state.stage))

    def _in_place(
        self, states: Mapping[str, _State], maintenance: Maintenance, modes: DeleteModes | None
    ) -> Replacement | None:
        """Return the replacement of the rows of changed groups, or None if the table is rewritten.

        With keys, the rows of the table are those of the groups of a single stage.
        """
        keys = maintenance.strategy.keys
        if modes is None or not keys or self.plan.rows is not None:
            return None
        state = states[self.plan.stages[0].name]
        if state.changes is None or state.before is None:
            return None
        if not maintenance.in_place and state.changes.count() > maintenance.most_in_place:
            return None
        names = [self.write.columns[position].name for position in keys]
        columns = [f"k{number}" for number in range(state.stage.keys)]
        view = self._view(state.changes)
        items = ", ".join(
            f"CAST({quote(column)} AS {self.write.columns[position].type}) AS {quote(name)}"
            for column, position, name in zip(columns, keys, names, strict=True)
        )
        values = collect_or_checkpoint(self.session.sql(f"SELECT DISTINCT {items} FROM {view}"))
        touched = self.session.sql(
            f"SELECT q.* FROM {self._view(state.before)} AS q "
            f"LEFT SEMI JOIN {view} AS k ON {same('q', columns)}"
        )
        part = _State(stage=state.stage, before=collect_or_checkpoint(touched), changes=state.changes)
        rows = self._rest({state.stage.name: part}, None)
        gone = self.stack.enter_context(temporary_view(values.frame))
        return Replacement(keys=tuple(names), values=values, gone=gone, rows=rows)

    # ----------------------------------------------------------------------------------------------- both

    def _rest(
        self,
        states: Mapping[str, _State],
        versions: ReadingVersions | None,
        readings: KeyedReadings | None = None,
    ) -> DataFrame | ComputedRows:
        """Return the rows of the query, as `_tree` does."""
        above = {name: state for name, state in states.items() if name not in self.plan.inner}
        return self._tree(0, above, self.plan.above, self.values.rows, versions, readings)

    def _value(
        self,
        value: Value,
        states: Mapping[str, _State],
        versions: ReadingVersions,
        readings: KeyedReadings | None,
    ) -> DataFrame | ComputedRows:
        """Return the rows of a scalar subquery, as `_tree` does."""
        below = {name: states[name] for name in sorted(value.stages)}
        return self._tree(value.tree, below, value.rest, value.values, versions, readings)

    def _tree(
        self,
        tree: int,
        states: Mapping[str, _State],
        above: frozenset[int],
        values: Iterable[int],
        versions: ReadingVersions | None,
        readings: KeyedReadings | None,
    ) -> DataFrame | ComputedRows:
        """Return the rows of a tree, from states, from the readings *above* them at *versions*, and *values*.

        If all these readings are small, *readings* has their rows.
        """
        given = {
            f"state{number}part{part}": rows
            for number, state in enumerate(states.values())
            for part, rows in enumerate(state.parts)
        }

        def rows(
            at: Mapping[str, str], leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]
        ) -> DataFrame:
            bags = {}
            for number, state in enumerate(states.values()):
                parts = (at[f"state{number}part{part}"] for part in range(len(state.parts)))
                bag = self.session.sql(_union(parts))
                bags.update(dict.fromkeys(state.stage.places, bag))
            found = self.query.rest(bags, leaves, operators, tree=tree)
            return found if tree else self._stored(found)

        def inline(at: Mapping[str, str]) -> DataFrame:
            leaves = {each: self.session.table(at[f"reading{each}"]) for each in above}
            return rows(at, leaves, self.values.operators(values, at))

        small = self._small(above, readings) if all(part.few for part in given.values()) else None
        if small is not None:
            purpose = repr(("rest", tree, [*states], None if tree else self.write.columns))
            inputs = {**given, **small, **self.values.inputs(values)}
            few = PLANS.run(self.session, self.lineage, purpose, inline, inputs)
            if few is not None:
                return few
        leaves = {} if versions is None else {each: versions.rows(each) for each in above}
        return rows(self._views(given), leaves, self.values.operators(values))

    def _small(self, above: frozenset[int], readings: KeyedReadings | None) -> dict[str, ComputedRows] | None:
        """Return the rows of the readings *above* states, or None if some are large."""
        rows = dict[str, ComputedRows]()
        for number in sorted(above):
            whole = None if readings is None else readings.whole(number)
            if whole is None:
                return None
            rows[f"reading{number}"] = whole
        return rows

    def _stored(self, rows: DataFrame) -> DataFrame:
        """Return *rows* with the columns of the table, in its types."""
        write, fields = self.write, rows.schema.fields
        produced = [Column(name=each.name, type=sql_type(each.dataType)) for each in fields]
        names = stored_order(write.table, produced, write.columns, write.query_types)
        pairs = zip(names, write.columns, strict=True)
        return rows.select(*(col(quote(name)).cast(each.type).alias(each.name) for name, each in pairs))

    def _written(self, changes: Mapping[str, StateChange | None]) -> WrittenStates:
        """Write the *changes* of the states, and the values that have changed."""
        summary, values = self.write.summary, self.values
        batch = int(summary[BATCH]) if BATCH in summary else None
        changed = {
            each.name: StateChange(whole=values.rows[each.tree]) if each.tree in values.changed else None
            for each in self.plan.values
        }
        return self.kept.write(publish_name(summary[RUN_ID], batch), {**changes, **changed})

    def schema(self, stage: Stage) -> StructType:
        """Return the columns of the partial sums of a stage."""
        if stage.name not in self._schemas:
            self._schemas[stage.name] = self.query.schema(stage.places[0])
        return self._schemas[stage.name]

    def _views(self, given: Mapping[str, ComputedRows]) -> dict[str, str]:
        return {name: self._view(rows) for name, rows in given.items()}

    def _view(self, rows: ComputedRows) -> str:
        return self.stack.enter_context(temporary_view(rows.frame))


def _union(relations: Iterable[str]) -> str:
    return " UNION ALL ".join(f"SELECT * FROM {relation}" for relation in relations)
