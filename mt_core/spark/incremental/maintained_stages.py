"""Maintained stages: the rows of a query from the states of its stages, and the new states.

A query with stages (`mt_core.incremental.stages`) is computed in two steps. The lowest aggregates are kept
as states: bags of partial sums, which add up to the groups. The rest of the query is computed over the
states. A change of a source changes a state by the partial sums over the rows that came, less those over the
rows that went. If several readings of an aggregate have changed, the change is a sum of terms, one for each:
its changed rows with the changed readings before it at their new versions and those after it at their old
versions (`mt_core.incremental.delta` has the same sum for texts). So a refresh reads the changed rows and
what they are joined with, and the states; the rest of the query costs what it costs over so few rows.

A recomputation that keeps states does the same with all rows instead of changed ones: it sums up the
aggregates over the new versions, and computes its rows from these.

Few rows are added up and computed in the driver by inline plans, which start no job. Nothing of the table is
written here, but states are: no other run reads them unless the table is published with their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import Images, same
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from mt_core.incremental.strategy import NotApplied, ResultUnchanged
from mt_core.model.storage import BATCH, RUN_ID, publish_name
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, collect_or_keep
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.replace_rows import AllRows, Change, DeleteModes
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.reading_images import ReadingImages
from mt_core.spark.incremental.reading_versions import ReadingVersions, check_unchanged
from mt_core.spark.incremental.row_images import ImageViews
from mt_core.spark.incremental.staged_query import StagedQuery
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
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
    session: SparkSession, lineage: Lineage, write: Write, kept: KeptStates, modes: DeleteModes | None
) -> Iterator[StagedRows]:
    """Yield the rows of a *write* with stages, and write the states of these.

    *modes* says how rows may be deleted in place; None if the table is rewritten. Raises SourcesChanged or
    NotApplied if the changes cannot be applied, and ResultUnchanged if the query reads none of them.
    """
    assert write.stages is not None
    check_unchanged(lineage, write.vector)
    with ExitStack() as stack:
        run = _Run(
            session=session,
            lineage=lineage,
            write=write,
            plan=write.stages,
            query=StagedQuery.of_lineage(session, lineage),
            kept=kept,
            stack=stack,
        )
        if write.maintenance is None:
            yield run.recomputed()
        else:
            yield run.maintained(write.maintenance, modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A state of a stage: its partial sums before the run and the changes of them, None for none of either.

    `changes` of a recomputation are all groups.
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
    kept: KeptStates
    stack: ExitStack
    _schemas: dict[str, StructType] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- all rows

    def recomputed(self) -> StagedRows:
        """Compute all groups, and all rows from them."""
        versions = ReadingVersions.at(self.session, self.lineage, pins(self.write.vector))
        states = []
        for stage in self.plan.stages:
            leaves = {number: versions.rows(number) for number in stage.readings}
            groups = collect_or_keep(self.query.groups(stage.places[0], leaves))
            # Columns of partial sums may be NULL in one computation and not in another.
            groups = replace(groups, schema=self.schema(stage))
            states.append(_State(stage=stage, before=None, changes=groups))
        written = self._written({state.stage.name: StateChange(whole=state.parts[0]) for state in states})
        return StagedRows(change=AllRows(rows=self._rest(states, versions)), modes=None, states=written)

    # --------------------------------------------------------------------------------------- changed rows

    def maintained(self, maintenance: Maintenance, modes: DeleteModes | None) -> StagedRows:
        """Change the states, and compute the rows from them."""
        changes, old, new = maintenance.changes, pins(maintenance.since), pins(self.write.vector)
        before = ReadingVersions.at(self.session, self.lineage, old)
        after = ReadingVersions.at(self.session, self.lineage, new)
        changed = frozenset(
            number for number, change in changes.by_reading().items() if change.kind.changes_rows
        )
        read = ReadingImages(session=self.session, lineage=self.lineage, changes=changes, old=old, new=new)
        below = frozenset[int]().union(*(stage.readings for stage in self.plan.touched(changed)))
        images = read.of(changed & below, self.stack)
        changed -= {number for number, views in images.items() if views.few and not views.net.count()}
        terms = _Terms(
            run=self,
            before=before,
            after=after,
            changed=changed,
            images=images,
        )
        states = [self._changed(stage, terms) for stage in self.plan.stages]
        if not changed & self.plan.rest and all(state.changes is None for state in states):
            raise ResultUnchanged
        written = self._written({state.stage.name: self._change(state) for state in states})
        in_place = self._in_place(states, maintenance, modes)
        if in_place is not None:
            return StagedRows(change=in_place, modes=modes, states=written)
        return StagedRows(change=AllRows(rows=self._rest(states, after)), modes=None, states=written)

    def _changed(self, stage: Stage, terms: _Terms) -> _State:
        kept = self.kept.read(stage.name, self.schema(stage))
        if kept is None:
            raise NoState(f"the state of {stage.words} cannot be read")
        changes = terms.of(stage) if stage.readings & terms.changed else None
        return _State(stage=stage, before=kept, changes=changes if changes and changes.count() else None)

    def _change(self, state: _State) -> StateChange | None:
        """Return the new groups of a stage, or None if it has not changed."""
        if state.changes is None:
            return None
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
        self, states: Sequence[_State], maintenance: Maintenance, modes: DeleteModes | None
    ) -> Replacement | None:
        """Return the replacement of the rows of changed groups, or None if the table is rewritten.

        The rows of the table are those of the groups of a single stage.
        """
        keys, state = maintenance.strategy.keys, states[0]
        if modes is None or not keys or len(states) > 1 or state.changes is None or state.before is None:
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
        rows = self._rest([part], None)
        gone = self.stack.enter_context(temporary_view(values.frame))
        return Replacement(keys=tuple(names), values=values, gone=gone, rows=rows)

    # ----------------------------------------------------------------------------------------------- both

    def _rest(self, states: Sequence[_State], versions: ReadingVersions | None) -> DataFrame | ComputedRows:
        """Return the rows of the query, from its states and from the readings above them at *versions*."""
        given = {
            f"state{number}part{part}": rows
            for number, state in enumerate(states)
            for part, rows in enumerate(state.parts)
        }

        def rest(at: Mapping[str, str]) -> DataFrame:
            bags = {}
            for number, state in enumerate(states):
                parts = (at[f"state{number}part{part}"] for part in range(len(state.parts)))
                bag = self.session.sql(_union(parts))
                bags.update(dict.fromkeys(state.stage.places, bag))
            leaves = {} if versions is None else {each: versions.rows(each) for each in self.plan.rest}
            return self._stored(self.query.rest(bags, leaves))

        purpose = repr(("rest", [state.stage.name for state in states], self.write.columns))
        few = None if self.plan.rest else PLANS.run(self.session, self.lineage, purpose, rest, given)
        return few or rest(self._views(given))

    def _stored(self, rows: DataFrame) -> DataFrame:
        """Return *rows* with the columns of the table, in its types."""
        write, fields = self.write, rows.schema.fields
        produced = [Column(name=each.name, type=sql_type(each.dataType)) for each in fields]
        names = stored_order(write.table, produced, write.columns, write.query_types)
        pairs = zip(names, write.columns, strict=True)
        return rows.select(*(col(quote(name)).cast(each.type).alias(each.name) for name, each in pairs))

    def _written(self, changes: Mapping[str, StateChange | None]) -> WrittenStates:
        summary = self.write.summary
        batch = int(summary[BATCH]) if BATCH in summary else None
        return self.kept.write(publish_name(summary[RUN_ID], batch), changes)

    def schema(self, stage: Stage) -> StructType:
        """Return the columns of the partial sums of a stage."""
        if stage.name not in self._schemas:
            self._schemas[stage.name] = self.query.schema(stage.places[0])
        return self._schemas[stage.name]

    def _views(self, given: Mapping[str, ComputedRows]) -> dict[str, str]:
        return {name: self._view(rows) for name, rows in given.items()}

    def _view(self, rows: ComputedRows) -> str:
        return self.stack.enter_context(temporary_view(rows.frame))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """The terms of the changes of states, one for each of the readings that have *changed*."""

    run: _Run
    before: ReadingVersions
    after: ReadingVersions
    changed: frozenset[int]
    images: Mapping[int, ImageViews]

    def of(self, stage: Stage) -> ComputedRows:
        """Return the change of the partial sums of a stage, without groups that have not changed."""
        rows = self._local(stage) or collect_or_checkpoint(self._sum(stage, self.images))
        return replace(rows, schema=self.run.schema(stage))

    def _local(self, stage: Stage) -> ComputedRows | None:
        """Return the change of a stage with a single reading, of which few rows changed, or None."""
        if len(stage.readings) > 1:
            return None
        (number,) = stage.readings
        views = self.images.get(number)
        if views is None or not views.few:
            return None

        def change(at: Mapping[str, str]) -> DataFrame:
            return self._sum(stage, {number: views.of(at["rows"])})

        purpose = f"change {stage.name} {number} {views.only_added}"
        return PLANS.run(self.run.session, self.run.lineage, purpose, change, {"rows": views.net})

    def _sum(self, stage: Stage, images: Mapping[int, Images]) -> DataFrame:
        session, terms, schema = self.run.session, list[str](), self.run.schema(stage)
        stack = self.run.stack
        for number in sorted(stage.readings & self.changed):
            others = {
                other: (self.before if other in self.changed and other > number else self.after).rows(other)
                for other in stage.readings - {number}
            }
            for sign, rows in self._changed_rows(number, images.get(number)):
                groups = self.run.query.groups(stage.places[0], {**others, number: rows}, number)
                view = stack.enter_context(temporary_view(groups))
                terms.append(f"SELECT {', '.join(_signed(schema, sign))} FROM {view}")
        return session.sql(_added_up(schema, stage.keys, terms))

    def _changed_rows(self, number: int, images: Images | None) -> Iterator[tuple[int, DataFrame]]:
        """Yield the rows of a reading that came and those that went, each with the sign of its sums."""
        session = self.run.session
        if images is None:
            yield 1, self.after.appended(number, self.before)
            return
        yield 1, session.sql(f"SELECT * FROM {images.added}")
        if not images.only_added:
            yield -1, session.sql(f"SELECT * FROM {images.removed}")


def _union(relations: Iterable[str]) -> str:
    return " UNION ALL ".join(f"SELECT * FROM {relation}" for relation in relations)


def _signed(schema: StructType, sign: int) -> Iterator[str]:
    """Yield SELECT items for partial sums, negated if *sign* is negative."""
    for name in map(quote, schema.names):
        yield name if sign > 0 or name.startswith("`k") else f"-{name} AS {name}"


def _added_up(schema: StructType, keys: int, terms: Sequence[str]) -> str:
    """Return a query for the sums of partial sums by group, without the groups in which nothing changed.

    A group of which as many rows came as went may have other sums.
    """
    fields = [(quote(each.name), sql_type(each.dataType)) for each in schema.fields]
    by = [name for name, _ in fields[:keys]]
    sums = [f"CAST(sum({name}) AS {type_}) AS {name}" for name, type_ in fields[keys:]]
    unchanged = " AND ".join(f"coalesce(sum({name}), 0) = 0" for name, _ in fields[keys:])
    text = f"SELECT {', '.join([*by, *sums])} FROM ({' UNION ALL '.join(terms)})"
    return f"{text}{' GROUP BY ' + ', '.join(by) if by else ''} HAVING NOT ({unchanged})"
