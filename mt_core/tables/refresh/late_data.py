"""Late data: partitions whose source rows changed after the partitions were refreshed.

A table with date-formatters is refreshed one partition at a time, so its partitions contain different
versions of the sources. A snapshot records the version of every partition. It is the snapshot's own version,
with two exceptions: partitions that the run left behind (`late`), which are known to be older, and partitions
whose version is unknown (`doubted`). The next run therefore only looks at what has changed since that
version. It refreshes the late partitions, or records them again. A partition whose state it cannot determine
remains in doubt until it is recomputed or verified.

Limits bound what one run reads and writes: it compares up to `MOST_BETWEEN` vectors, and its snapshot names
up to `MOST_LEFT` partitions. Beyond that all partitions are in doubt, which is always correct. For the rules,
see docs/design/schedules-and-the-ledger.md#late-data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import takewhile

from mt_core.base.plural import plural
from mt_core.errors import QueryFailed, SourcesChanged
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.strategy import NotApplied, Way
from mt_core.model.cadence import Cadence
from mt_core.model.partition import (
    NOT_DOUBTED,
    NOTHING,
    WHOLE,
    DoubtedPartitions,
    PartitionSpec,
    Scope,
    named,
)
from mt_core.model.run import RunKind
from mt_core.model.storage import Snapshot, StorageMetadata
from mt_core.model.table import MaterializedTable, TableDefinition, TableIdentifier
from mt_core.tables.definition.options import IGNORE, LATE_DATA, RECOMPUTE, REFRESH, REPORT
from mt_core.tables.engine import ChangeReader, Maintenance, RefreshEngine, SourceVector
from mt_core.tables.refresh.change_plan import ChangesUntil
from mt_core.tables.refresh.forecast import by_reading, touched_by
from mt_core.tables.runs.due import is_due, scope_of
from mt_core.tables.runs.ledger import ClaimedRun, Ledger
from mt_core.tables.services import query_of

MOST_BETWEEN = 10
"""The maximum number of refreshes without a search for late rows whose changes are read one by one."""
MOST_LEFT = 1000
"""The maximum number of late partitions that a snapshot names."""
POINTS_AHEAD = 400
"""The number of future schedule times whose partitions do not count as late yet."""
_HANDLINGS = {
    REFRESH: "each refresh on schedule takes partitions whose source rows changed too",
    RECOMPUTE: (
        "each refresh on schedule takes partitions whose source rows changed, or may have changed, too"
    ),
    REPORT: "each refresh on schedule names partitions whose source rows changed",
    IGNORE: "each refresh on schedule takes its own partitions only",
}
_Specs = frozenset[PartitionSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateData:
    """The late partitions that a scheduled refresh adds to its own, and those that it leaves to later ones.

    `left` is None if they cannot be determined. `doubted` are the partitions in doubt before the refresh,
    None if it did not search. `message` is for users, None if there is nothing to report.
    """

    taken: Scope = NOTHING
    left: Scope | None = None
    doubted: DoubtedPartitions | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRowsRecord:
    """The newest refresh that recorded late rows, and its findings when it ended.

    `sources` are the versions that it read, `behind` the partitions with older rows, and `doubted` the
    partitions in doubt. `later` lists the scopes and sources of the refreshes since then, oldest first.
    Sources are the JSON of a source vector.
    """

    sources: str
    behind: _Specs
    doubted: DoubtedPartitions = NOT_DOUBTED
    later: tuple[tuple[Scope, str], ...] = ()

    @property
    def doubted_now(self) -> DoubtedPartitions:
        """The partitions in doubt that have not been refreshed since."""
        doubted = self.doubted
        for scope, _ in self.later:
            doubted = doubted.without(scope)
        return doubted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """Partitions with rows that have changed since their last refresh, and partitions in doubt."""

    specs: _Specs
    doubted: DoubtedPartitions


def late_data(
    claimed: ClaimedRun,
    ledger: Ledger,
    engine: RefreshEngine,
    metadata: StorageMetadata,
    vector: SourceVector,
) -> LateData:
    """Return the late partitions that a claimed run refreshes and those that it leaves to later runs.

    A run for a schedule time that is not due, or that failed when it was refreshed separately, refreshes only
    its own partition.
    """
    run, table = claimed.run, claimed.table
    if run.kind is not RunKind.PERIODIC or not run.points:
        return LateData()
    takes = not run.solo and any(is_due(table, point) for point in run.points)
    rows = LateRows(ledger=ledger, engine=engine, table=table, metadata=metadata, vector=vector)
    most = ledger.max_partitions if takes else 0
    return rows.search(run.scope, until=max(run.points), most=most, job_id=run.job_id or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRows:
    """Searches a table with date-formatters for late rows, at the source versions of *vector*."""

    ledger: Ledger
    engine: RefreshEngine
    table: MaterializedTable
    metadata: StorageMetadata
    vector: SourceVector

    def search(self, own: Scope, *, until: datetime, most: int, job_id: str) -> LateData:
        """Return the late data for a run of the partitions *own*, whose schedule times end at *until*.

        The run also refreshes the newest late partitions: at least one, and up to *most* together with its
        own, or none if *most* is 0.
        """
        # A run of an older point reads the current sources too: later points that are covered are not future.
        until = max(until, self.table.covered_until, *(last for _, last in self.table.covered))
        handling, vector = handling_of(self.table.definition), self.vector
        if own.specs is None:
            return LateData()
        if handling == IGNORE:
            return LateData(doubted=NOT_DOUBTED)
        if (
            vector.unstable
            or vector.unversioned
            or isinstance(late_obstacles(self.engine.changes, self.table.definition), str)
        ):
            return LateData()
        known = recorded_late_rows(self.engine.metadata.ancestors(self.metadata), self.table.cleared)
        if known is None:
            return LateData(left=NOTHING, doubted=NOT_DOUBTED)
        if isinstance(known, str):
            behind = _Behind(specs=frozenset(), doubted=self._all_in_doubt(known, until))
        elif vector.unpinnable:
            return self._not_searched(vector.unpinnable, own, until)
        else:
            try:
                behind = self._behind(known, job_id, until)
            except (QueryFailed, SourcesChanged) as error:
                return self._not_searched(str(error), own, until)
        return self._taken(behind, own, until=until, most=most, handling=handling)

    def _not_searched(self, reason: str, own: Scope, until: datetime) -> LateData:
        """Return the late data of a run that could not search: everything is in doubt.

        The next run searches from the same versions as this one.
        """
        doubted = self._all_in_doubt(reason, until).without(own)
        return LateData(doubted=doubted, message=_doubted_text(doubted))

    def _taken(self, behind: _Behind, own: Scope, *, until: datetime, most: int, handling: str) -> LateData:
        doubted, late = behind.doubted.without(own), self._late(behind.specs, own, until)
        # At least one is refreshed even if the run's own partitions reach the limit, so that none waits
        # forever.
        room = max(1, most - len(own.specs or ())) if most and handling in (REFRESH, RECOMPUTE) else 0
        if handling == RECOMPUTE and room and doubted:
            return self._recomputed(doubted, late, room)
        taken, left = late[:room], late[room:]
        if len(left) > MOST_LEFT:
            doubted = self._all_in_doubt(f"more than {MOST_LEFT} partitions have late rows", until).without(
                own
            )
            left = left[:MOST_LEFT]
        message = (_message(taken, left, handling), _doubted_text(doubted))
        return LateData(
            taken=Scope.of(taken),
            left=Scope.of(left),
            doubted=doubted,
            message="; ".join(filter(None, message)) or None,
        )

    def _recomputed(self, doubted: DoubtedPartitions, late: list[PartitionSpec], room: int) -> LateData:
        """Return the late data of a run that recomputes the partitions in doubt.

        If every partition may be in doubt, the run recomputes the whole table.
        """
        text = f"{_unknown(doubted.reason)}; partitions in doubt are computed: {doubted}"
        if doubted.scope.specs is None:
            return LateData(taken=WHOLE, left=NOTHING, doubted=doubted, message=text)
        both = [*late, *sorted(doubted.scope.specs - set(late), reverse=True)]
        left = Scope.of(late[room:])
        message = (_message(late[:room], late[room:], REFRESH), text)
        return LateData(
            taken=Scope.of(both[:room]), left=left, doubted=doubted, message="; ".join(filter(None, message))
        )

    def _behind(self, known: LateRowsRecord, job_id: str, until: datetime) -> _Behind:
        touched, behind, doubted = self._touched(known.sources, job_id), known.behind, known.doubted
        if isinstance(touched, str):
            doubted = self._all_in_doubt(touched, until)
        else:
            behind |= touched
        for scope, sources in known.later:
            if not doubted and not any(scope.covers(spec) for spec in behind):
                continue
            # With more than MOST_BETWEEN refreshes, their partitions count as late and are refreshed once
            # more.
            touched = "" if len(known.later) > MOST_BETWEEN else self._touched(sources, job_id)
            if not isinstance(touched, str):
                behind = frozenset(spec for spec in behind if not scope.covers(spec))
                behind |= {spec for spec in touched if scope.covers(spec)}
                doubted = doubted.without(scope)
        return _Behind(specs=behind, doubted=doubted)

    def _all_in_doubt(self, reason: str, until: datetime) -> DoubtedPartitions:
        """Return all partitions that any refresh has written, as partitions in doubt."""
        written = self._written()
        if written.specs is not None:
            return DoubtedPartitions(scope=written, reason=reason)
        uncovered = scope_of(self.table, self.ledger.uncovered(self.table, until)).specs or frozenset()
        besides = Scope.of(uncovered - self._refreshed(uncovered, until))
        return DoubtedPartitions(scope=WHOLE, reason=reason).without(besides)

    def _written(self) -> Scope:
        """Return the partitions that refreshes have written.

        This is the whole table if one refresh wrote all of it, or if the first refreshes have expired from
        the history.
        """
        specs: set[PartitionSpec] = set()
        for snapshot in self.engine.metadata.ancestors(self.metadata):
            if snapshot.created:
                return Scope.of(specs)
            if snapshot.scope is not None and snapshot.scope.specs is None:
                return WHOLE
            specs |= (snapshot.scope.specs if snapshot.scope is not None else None) or frozenset()
        return WHOLE

    def _touched(self, sources: str, job_id: str) -> _Specs | str:
        """Return the partitions whose rows may have changed since the source vector *sources* (JSON).

        If the partitions cannot be determined, the result is the reason as a string.
        """
        definition, since = self.table.definition, SourceVector.of_text(sources)
        query, names = query_of(definition), sorted(definition.date_formatters)
        until = ChangesUntil(reader=self.engine.changes, job_id=job_id, query=query, vector=self.vector)
        changes = until.since(since)
        if isinstance(changes, str):
            return changes
        strategy = touched_by(changes, changes.by_reading(), names)
        if strategy.way is Way.NOTHING:
            return frozenset()
        if strategy.way is Way.RECOMPUTE:
            return strategy.reason
        change = Maintenance(strategy=strategy, changes=changes, since=since, base=self.metadata.main or "")
        try:
            partitions = self.engine.writes.touched_partitions(job_id, query, self.vector, change)
        except NotApplied as error:
            return str(error)
        return frozenset(PartitionSpec.of(dict(zip(names, values, strict=True))) for values in partitions)

    def _late(self, behind: _Specs, own: Scope, until: datetime) -> list[PartitionSpec]:
        """Return those partitions of *behind* that the run may refresh, newest first.

        The table must contain them, and no other scheduled refresh is going to refresh them.
        """
        others = (
            behind
            - (own.specs or frozenset())
            - (scope_of(self.table, self.table.failing).specs or frozenset())
        )
        # Most changes affect only the current day; the long history is not needed then.
        others -= self._to_come(until) if others else frozenset()
        return sorted(self._refreshed(others, until), reverse=True) if others else []

    def _to_come(self, until: datetime) -> _Specs:
        """Return the partitions of the next schedule times after *until*."""
        definition, points = self.table.definition, [until]
        while len(points) <= POINTS_AHEAD:
            points.append(_point_after(points[-1], definition.cadence, definition.zone))
        return scope_of(self.table, points[1:]).specs or frozenset()

    def _refreshed(self, specs: _Specs, until: datetime) -> _Specs:
        """Return the partitions of *specs* that a refresh has covered, even if they had no rows.

        A refresh of the whole table counts too, except for schedule times that no run has covered: their
        partitions may have been left out on purpose.
        """
        named, whole = set[PartitionSpec](), False
        for snapshot in self.engine.metadata.ancestors(self.metadata):
            if snapshot.created and not whole:
                return frozenset(named)
            if snapshot.scope is not None and snapshot.scope.whole:
                whole = True
            elif snapshot.scope is not None:
                named |= {spec for spec in specs if snapshot.scope.covers(spec)}
        uncovered = scope_of(self.table, self.ledger.uncovered(self.table, until)).specs or frozenset()
        return (specs - uncovered) | named


# Each refresh needs hundreds of schedule times, and the previous refresh needed all but the last of them.
@lru_cache(maxsize=4_096)
def _point_after(point: datetime, cadence: Cadence, zone: str) -> datetime:
    return cadence.grid(zone).after(point)


def handling_of(definition: TableDefinition) -> str:
    """Return how a table handles late rows, which is the value of its option `refresh.late-data`."""
    return definition.options.get(LATE_DATA, REFRESH)


def late_obstacles(reader: ChangeReader, definition: TableDefinition) -> Mapping[str, str] | str:
    """Return why late rows cannot be detected, by source name, or one reason for all sources."""
    query = reader.read_shape(query_of(definition))
    if isinstance(query, str):
        return query
    names, rows = sorted(definition.date_formatters), SourceChange(kind=ChangeKind.ROWS)
    obstacles = {}
    for source in dict.fromkeys(query.readings):
        strategy = touched_by(query, by_reading(query, {source: rows}), names)
        if strategy.way is Way.RECOMPUTE:
            obstacles[source] = strategy.reason
    if obstacles and len(obstacles) == len(set(query.readings)):
        return "; ".join(obstacles.values())
    return obstacles


def late_lines(reader: ChangeReader, definition: TableDefinition) -> tuple[str, ...]:
    """Return the lines of EXPLAIN CREATE about late rows."""
    if not definition.date_formatters:
        return ()
    handling = handling_of(definition)
    obstacles = {} if handling == IGNORE else late_obstacles(reader, definition)
    if isinstance(obstacles, str):
        return (f"  late:     never known: {obstacles}",)
    return (
        f"  late:     {handling}: {_HANDLINGS[handling]}",
        *(f"    never known: {reason}" for reason in obstacles.values()),
    )


def late_warnings(
    reader: ChangeReader, identifier: TableIdentifier, definition: TableDefinition
) -> tuple[str, ...]:
    """Return warnings about sources whose late rows cannot be detected."""
    if not definition.date_formatters or handling_of(definition) == IGNORE:
        return ()
    obstacles = late_obstacles(reader, definition)
    reasons = (obstacles,) if isinstance(obstacles, str) else obstacles.values()
    return tuple(
        f"Late rows are not refreshed in {identifier}, since they are never known: {reason}. "
        "REFRESH MATERIALIZED TABLE … PARTITION (…) refreshes the partitions that it names."
        for reason in reasons
    )


def recorded_late_rows(history: Iterable[Snapshot], cleared: str | None) -> LateRowsRecord | str | None:
    """Return what *history*, newest first, records about late rows, or the reason why it records nothing.

    The result is None if nothing was refreshed that could be late. At the snapshot *cleared*, no partition
    was in doubt.
    """
    later: list[tuple[Scope, str]] = []
    snapshots, is_cleared = iter(history), False
    for snapshot in snapshots:
        is_cleared |= snapshot.snapshot_id == cleared
        if snapshot.created:
            return _first_of(later)
        if snapshot.scope is None or snapshot.sources is None:
            continue
        behind = NOTHING if snapshot.scope.whole else snapshot.late
        if behind is not None:
            is_clear = is_cleared or snapshot.scope.whole or _repeats(snapshot, snapshots, cleared)
            return LateRowsRecord(
                sources=snapshot.sources,
                behind=behind.specs or frozenset(),
                doubted=NOT_DOUBTED if is_clear or snapshot.doubted is None else snapshot.doubted,
                later=tuple(reversed(later)),
            )
        # A compaction repeats the summary of its predecessor, so it is not another refresh.
        if (snapshot.scope, snapshot.sources) not in later[-1:]:
            later.append((snapshot.scope, snapshot.sources))
    return "the last refresh that looked for them is no longer in the table's history"


def _repeats(compaction: Snapshot, before: Iterable[Snapshot], snapshot_id: str | None) -> bool:
    """Return whether *compaction* is a compaction that repeats the summary of *snapshot_id*.

    *before* are its ancestors, newest first.
    """
    if not compaction.replace or snapshot_id is None:
        return False
    repeated = takewhile(lambda each: each.run_id == compaction.run_id, before)
    return any(each.snapshot_id == snapshot_id for each in repeated)


def _first_of(refreshes: list[tuple[Scope, str]]) -> LateRowsRecord | None:
    """Return the record for a table that only *refreshes* have written, none of which searched for late rows.

    *refreshes* are sorted newest first.
    """
    if not refreshes:
        return None
    return LateRowsRecord(sources=refreshes[-1][1], behind=frozenset(), later=tuple(reversed(refreshes)))


def _unknown(reason: str) -> str:
    return f"late rows are not known: {reason}"


def _doubted_text(doubted: DoubtedPartitions) -> str | None:
    return f"{_unknown(doubted.reason)}; in doubt: {doubted}" if doubted else None


def _message(taken: list[PartitionSpec], left: list[PartitionSpec], handling: str) -> str | None:
    """Return the message about late partitions that a run refreshes and those that it leaves."""
    if handling == REPORT and left:
        return f"{_late_rows_text(left)}; '{LATE_DATA}' = '{REPORT}' leaves them"
    if left and not taken:
        follow = plural(len(left), "partition with late rows follows", "partitions with late rows follow")
        return f"{len(left)} earlier {follow} in the next refresh: {named(left)}"
    rest = (
        f"; {len(left)} more {plural(len(left), 'follows', 'follow')} in the next refresh: {named(left)}"
        if left
        else ""
    )
    return f"{_late_rows_text(taken)}{rest}" if taken else None


def _late_rows_text(specs: list[PartitionSpec]) -> str:
    return f"late rows in {len(specs)} earlier {plural(len(specs), 'partition')}: {named(specs)}"
