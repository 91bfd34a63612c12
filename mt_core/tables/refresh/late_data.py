"""Late data: the partitions of a table whose source rows changed after they were refreshed, and what a refresh does about them.

What a refresh leaves behind is written in its snapshot, so the next one looks only at what changed since. Rules:
docs/decisions/0034-late-data.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from mt_core.errors import QueryFailed, SourcesChanged
from mt_core.maintenance.changes import ChangeKind, SourceChange
from mt_core.maintenance.strategy import Way
from mt_core.model.cadence import Cadence
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.run import RunKind
from mt_core.model.storage import Snapshot
from mt_core.model.table import MaterializedTable, TableDefinition, TableIdentifier
from mt_core.tables.definition.options import IGNORE, LATE_DATA, REFRESH, REPORT
from mt_core.tables.engine import Maintenance, RefreshEngine, SourceVector, StorageMetadata
from mt_core.tables.refresh.outlook import touched_by
from mt_core.tables.runs.due import is_due, scope_of
from mt_core.tables.runs.ledger import Claimed, Ledger
from mt_core.tables.services import query_of

MOST_BETWEEN = 10
"""Refreshes that did not look for late rows up to which what changed since each of them is read."""
MOST_LEFT = 1000
"""Partitions that a snapshot names as left behind."""
POINTS_AHEAD = 400
"""Schedule times to come whose partitions are not late yet."""
NO_PARTITION = Scope.of(())
_NAMED = 10
_HANDLINGS = {
    REFRESH: "each refresh on schedule takes partitions whose source rows changed too",
    REPORT: "each refresh on schedule names partitions whose source rows changed",
    IGNORE: "each refresh on schedule takes its own partitions only",
}
_Specs = frozenset[PartitionSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateData:
    """What a refresh on schedule takes besides its own partitions, and which late ones it leaves behind, None if it cannot tell.

    `told` says in words what there is to tell.
    """

    taken: Scope = NO_PARTITION
    left: Scope | None = None
    told: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The newest refresh of which it is known which partitions were `behind` at its `vector` when it had ended.

    `later` are the scopes and vectors of the refreshes after it, oldest first.
    """

    vector: SourceVector
    behind: _Specs
    later: tuple[tuple[Scope, SourceVector], ...]


def late_data(
    claimed: Claimed, ledger: Ledger, engine: RefreshEngine, metadata: StorageMetadata, vector: SourceVector
) -> LateData:
    """Return what a claimed run finds. One for a point that is not due, or for one that failed, takes its own partition only."""
    run, table = claimed.run, claimed.table
    if run.kind is not RunKind.PERIODIC or not run.points:
        return LateData()
    takes = not run.solo and any(is_due(table, point) for point in run.points)
    rows = LateRows(ledger=ledger, engine=engine, table=table, metadata=metadata, vector=vector)
    most = ledger.max_partitions if takes else 0
    return rows.found(run.scope, until=max(run.points), most=most, job_id=run.job_id or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRows:
    """Looks for the late rows of a table with date-formatters, at the source versions of *vector*."""

    ledger: Ledger
    engine: RefreshEngine
    table: MaterializedTable
    metadata: StorageMetadata
    vector: SourceVector

    def found(self, own: Scope, *, until: datetime, most: int, job_id: str) -> LateData:
        """Return what a run of *own*, which are the partitions of schedule times up to *until*, finds.

        It takes as many late partitions as make *most* with its own, the newest first.
        """
        handling = handling_of(self.table.definition)
        vector = self.vector
        if handling == IGNORE or own.specs is None or vector.unstable or vector.unpinnable or vector.unversioned:
            return LateData()
        if isinstance(late_obstacles(self.engine, self.table.definition), str):
            return LateData()
        known = _known(self.engine.ancestors(self.metadata))
        if known is None:
            return LateData(left=NO_PARTITION)
        try:
            behind = self._behind(known, job_id)
        except (QueryFailed, SourcesChanged) as error:
            return LateData(told=_unknown(str(error)))
        if isinstance(behind, str):
            left = self._late(known.behind, own, until)
            return LateData(left=Scope.of(left[:MOST_LEFT]), told=_unknown(behind))
        late = self._late(behind, own, until)
        room = max(0, most - len(own.specs)) if handling == REFRESH else 0
        taken, left = late[:room], late[room : room + MOST_LEFT]
        return LateData(taken=Scope.of(taken), left=Scope.of(left), told=_told(taken, len(late) - room, late, handling))

    def _behind(self, known: _Known, job_id: str) -> _Specs | str:
        """Return the partitions with rows that changed after the refresh that wrote them, or why they are not known."""
        touched = self._touched(known.vector, job_id)
        if isinstance(touched, str):
            return touched
        behind = known.behind | touched
        for scope, vector in known.later:
            again = frozenset(spec for spec in behind if scope.covers(spec))
            if not again:
                continue
            if len(known.later) > MOST_BETWEEN:
                return f"{len(known.later)} refreshes since the last one that looked for them did not"
            touched = self._touched(vector, job_id)
            if isinstance(touched, str):
                return touched
            behind = (behind - again) | (again & touched)
        return behind

    def _touched(self, since: SourceVector, job_id: str) -> _Specs | str:
        """Return the partitions with rows that changed between *since* and now, or why they are not known."""
        definition = self.table.definition
        query, names = query_of(definition), sorted(definition.date_formatters)
        changes = self.engine.changes_since(query, since, self.vector)
        if isinstance(changes, str):
            return changes
        strategy = touched_by(changes, changes.changes, names)
        if strategy.way is Way.NOTHING:
            return frozenset()
        if strategy.way is Way.RECOMPUTE:
            return strategy.reason
        change = Maintenance(strategy=strategy, changes=changes, since=since, base=self.metadata.main or "")
        found = self.engine.touched_partitions(job_id, query, self.vector, change)
        return frozenset(PartitionSpec.of(dict(zip(names, values, strict=True))) for values in found)

    def _late(self, behind: _Specs, own: Scope, until: datetime) -> list[PartitionSpec]:
        """Return those of *behind* that no refresh on schedule takes anyway and that the table has, newest first."""
        others = behind - (own.specs or frozenset()) - (scope_of(self.table, self.table.failing).specs or frozenset())
        # The history of a table is long, and rows of the present day come all the time.
        others -= self._to_come(until) if others else frozenset()
        return sorted(self._refreshed(others, until), reverse=True) if others else []

    def _to_come(self, until: datetime) -> _Specs:
        """Return the partitions of the next schedule times after *until*."""
        definition, points = self.table.definition, [until]
        while len(points) <= POINTS_AHEAD:
            points.append(_point_after(points[-1], definition.cadence, definition.zone))
        return scope_of(self.table, points[1:]).specs or frozenset()

    def _refreshed(self, specs: _Specs, until: datetime) -> _Specs:
        """Return those of *specs* that a refresh of them, or of the whole table, wrote, were it without rows.

        The whole table has no partition yet of a schedule time that no run has covered: it may have been left out on purpose.
        """
        named, whole = set[PartitionSpec](), False
        for snapshot in self.engine.ancestors(self.metadata):
            if snapshot.created and not whole:
                return frozenset(named)
            if snapshot.scope is not None and snapshot.scope.whole:
                whole = True
            elif snapshot.scope is not None:
                named |= {spec for spec in specs if snapshot.scope.covers(spec)}
        uncovered = scope_of(self.table, self.ledger.uncovered(self.table, until)).specs or frozenset()
        return (specs - uncovered) | named


# Each refresh asks for hundreds of points, all but the last of which the one before it has asked for.
@lru_cache(maxsize=4_096)
def _point_after(point: datetime, cadence: Cadence, zone: str) -> datetime:
    return cadence.grid(zone).after(point)


def handling_of(definition: TableDefinition) -> str:
    """Return what a table does about late rows."""
    return definition.options.get(LATE_DATA, REFRESH)


def late_obstacles(engine: RefreshEngine, definition: TableDefinition) -> Mapping[str, str] | str:
    """Return why late rows of a source are never known, by its name; a text if none of any source are."""
    query = engine.read_shape(query_of(definition))
    if isinstance(query, str):
        return query
    names, rows = sorted(definition.date_formatters), SourceChange(kind=ChangeKind.ROWS)
    obstacles = {}
    for source in dict.fromkeys(query.readings):
        strategy = touched_by(query, {source: rows}, names)
        if strategy.way is Way.RECOMPUTE:
            obstacles[source] = strategy.reason
    if obstacles and len(obstacles) == len(set(query.readings)):
        return "; ".join(obstacles.values())
    return obstacles


def late_lines(engine: RefreshEngine, definition: TableDefinition) -> tuple[str, ...]:
    """Return the lines of EXPLAIN CREATE about late rows."""
    if not definition.date_formatters:
        return ()
    handling = handling_of(definition)
    obstacles = {} if handling == IGNORE else late_obstacles(engine, definition)
    if isinstance(obstacles, str):
        return (f"  late:     never known: {obstacles}",)
    return (
        f"  late:     {handling}: {_HANDLINGS[handling]}",
        *(f"    never known: {reason}" for reason in obstacles.values()),
    )


def late_warnings(engine: RefreshEngine, identifier: TableIdentifier, definition: TableDefinition) -> tuple[str, ...]:
    """Warn of sources whose late rows are never known."""
    if not definition.date_formatters or handling_of(definition) == IGNORE:
        return ()
    obstacles = late_obstacles(engine, definition)
    reasons = (obstacles,) if isinstance(obstacles, str) else obstacles.values()
    return tuple(
        f"Late rows are not refreshed in {identifier}, since they are never known: {reason}. REFRESH MATERIALIZED TABLE … "
        "PARTITION (…) refreshes the partitions that it names."
        for reason in reasons
    )


def _known(history: Iterable[Snapshot]) -> _Known | None:
    """Return what the history of a table says of late rows; None if nothing has been refreshed that could be late."""
    later: list[tuple[Scope, SourceVector]] = []
    for snapshot in history:
        if snapshot.created:
            return None
        if snapshot.scope is None or snapshot.sources is None:
            continue
        vector = SourceVector.from_json(json.loads(snapshot.sources))
        behind = NO_PARTITION if snapshot.scope.whole else snapshot.late
        if behind is not None:
            return _Known(vector=vector, behind=behind.specs or frozenset(), later=tuple(reversed(later)))
        # A compaction repeats what the snapshot before it says.
        if (snapshot.scope, vector) not in later[-1:]:
            later.append((snapshot.scope, vector))
    return None


def _unknown(reason: str) -> str:
    return f"late rows are not known: {reason}"


def _told(taken: list[PartitionSpec], left: int, late: list[PartitionSpec], handling: str) -> str | None:
    if not late:
        return None
    named = ", ".join(map(str, late[:_NAMED])) + (f" and {len(late) - _NAMED} more" if len(late) > _NAMED else "")
    text = f"late rows in {len(late)} earlier partition{'s' if len(late) > 1 else ''}: {named}"
    if handling == REPORT:
        return f"{text}; '{LATE_DATA}' = '{REPORT}' leaves them"
    return f"{text}; {left} of them follow in the next refresh" if left > 0 and taken else text
