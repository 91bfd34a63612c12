"""Late data: the partitions of a table whose source rows changed after they were refreshed,
and what a refresh does about them.

A snapshot says of every partition that the table has which version of the sources its rows are those of:
its own version, but for those that the run left behind (`late`), which are known to be older, and those of
which nobody knows (`doubted`). So the next run looks only at what changed since that version. It takes what
it finds, or writes it down again; what it cannot find out stays in doubt until it is computed, or compared.
Rules: docs/decisions/0034-late-data.md.
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
from mt_core.incremental.strategy import Way
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
    """What a refresh on schedule takes besides its own partitions, and which late ones it leaves behind,
    None if it cannot tell.

    `doubted` are the partitions in doubt before it takes any, None if it did not look.
    `told` says in words what there is to tell.
    """

    taken: Scope = NOTHING
    left: Scope | None = None
    doubted: DoubtedPartitions | None = None
    told: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The newest refresh that says which partitions were `behind` at its `sources`, and which `doubted`,
    when it had ended.

    `later` are the scopes and sources of the refreshes after it, oldest first;
    sources are the JSON of their vectors.
    """

    sources: str
    behind: _Specs
    doubted: DoubtedPartitions = NOT_DOUBTED
    later: tuple[tuple[Scope, str], ...] = ()

    @property
    def doubted_now(self) -> DoubtedPartitions:
        """The partitions that were in doubt and were not refreshed since."""
        doubted = self.doubted
        for scope, _ in self.later:
            doubted = doubted.without(scope)
        return doubted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """The partitions with rows that changed after the refresh that wrote them,
    and those of which that is not known.
    """

    specs: _Specs
    doubted: DoubtedPartitions


def late_data(
    claimed: Claimed, ledger: Ledger, engine: RefreshEngine, metadata: StorageMetadata, vector: SourceVector
) -> LateData:
    """Return what a claimed run finds.

    One for a point that is not due, or for one that failed, takes its own partition only.
    """
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

        It takes as many late partitions as make *most* with its own, and one at least, the newest first;
        0: none.
        """
        # A run of an older point looks at the sources of now as well: what was covered since is not to come.
        until = max(until, self.table.covered_until, *(last for _, last in self.table.covered or ()))
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
        known = known_of(self.engine.metadata.ancestors(self.metadata), self.table.cleared)
        if known is None:
            return LateData(left=NOTHING, doubted=NOT_DOUBTED)
        if isinstance(known, str):
            behind = _Behind(specs=frozenset(), doubted=self._all_in_doubt(known, until))
        elif vector.unpinnable:
            return self._unseen(vector.unpinnable, own, until)
        else:
            try:
                behind = self._behind(known, job_id, until)
            except (QueryFailed, SourcesChanged) as error:
                return self._unseen(str(error), own, until)
        return self._taken(behind, own, until=until, most=most, handling=handling)

    def _unseen(self, reason: str, own: Scope, until: datetime) -> LateData:
        """Return what a run finds that could not look: the next one looks at what changed since
        the same versions.
        """
        doubted = self._all_in_doubt(reason, until).without(own)
        return LateData(doubted=doubted, told=_doubted_text(doubted))

    def _taken(self, behind: _Behind, own: Scope, *, until: datetime, most: int, handling: str) -> LateData:
        doubted, late = behind.doubted.without(own), self._late(behind.specs, own, until)
        # Where its own are as many as fit, one more is taken, so that none waits for ever.
        room = max(1, most - len(own.specs or ())) if most and handling in (REFRESH, RECOMPUTE) else 0
        if handling == RECOMPUTE and room and doubted:
            return self._recomputed(doubted, late, room)
        taken, left = late[:room], late[room:]
        if len(left) > MOST_LEFT:
            doubted = self._all_in_doubt(f"more than {MOST_LEFT} partitions have late rows", until).without(
                own
            )
            left = left[:MOST_LEFT]
        told = (_told(taken, left, handling), _doubted_text(doubted))
        return LateData(
            taken=Scope.of(taken),
            left=Scope.of(left),
            doubted=doubted,
            told="; ".join(filter(None, told)) or None,
        )

    def _recomputed(self, doubted: DoubtedPartitions, late: list[PartitionSpec], room: int) -> LateData:
        """Return what a run takes that computes partitions in doubt: all rows where any partition may be."""
        text = f"{_unknown(doubted.reason)}; partitions in doubt are computed: {doubted}"
        if doubted.scope.specs is None:
            return LateData(taken=WHOLE, left=NOTHING, doubted=doubted, told=text)
        both = [*late, *sorted(doubted.scope.specs - set(late), reverse=True)]
        left = Scope.of(late[room:])
        told = (_told(late[:room], late[room:], REFRESH), text)
        return LateData(
            taken=Scope.of(both[:room]), left=left, doubted=doubted, told="; ".join(filter(None, told))
        )

    def _behind(self, known: Known, job_id: str, until: datetime) -> _Behind:
        touched, behind, doubted = self._touched(known.sources, job_id), known.behind, known.doubted
        if isinstance(touched, str):
            doubted = self._all_in_doubt(touched, until)
        else:
            behind |= touched
        for scope, sources in known.later:
            if not doubted and not any(scope.covers(spec) for spec in behind):
                continue
            # Of more refreshes than that the partitions stay behind, and are refreshed once more.
            touched = "" if len(known.later) > MOST_BETWEEN else self._touched(sources, job_id)
            if not isinstance(touched, str):
                behind = frozenset(spec for spec in behind if not scope.covers(spec))
                behind |= {spec for spec in touched if scope.covers(spec)}
                doubted = doubted.without(scope)
        return _Behind(specs=behind, doubted=doubted)

    def _all_in_doubt(self, reason: str, until: datetime) -> DoubtedPartitions:
        """Return all partitions that some refresh wrote as partitions in doubt."""
        found = self._written()
        if found.specs is not None:
            return DoubtedPartitions(scope=found, reason=reason)
        uncovered = scope_of(self.table, self.ledger.uncovered(self.table, until)).specs or frozenset()
        besides = Scope.of(uncovered - self._refreshed(uncovered, until))
        return DoubtedPartitions(scope=WHOLE, reason=reason).without(besides)

    def _written(self) -> Scope:
        """Return the partitions that refreshes wrote; all if one wrote them,
        or the history does not go back to the first.
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
        """Return the partitions with rows that changed between a vector, given as JSON, and now,
        or why they are not known.
        """
        definition, since = self.table.definition, SourceVector.of_text(sources)
        query, names = query_of(definition), sorted(definition.date_formatters)
        changes = self.engine.changes.changes_since(query, since, self.vector)
        if isinstance(changes, str):
            return changes
        strategy = touched_by(changes, changes.changes, names)
        if strategy.way is Way.NOTHING:
            return frozenset()
        if strategy.way is Way.RECOMPUTE:
            return strategy.reason
        change = Maintenance(strategy=strategy, changes=changes, since=since, base=self.metadata.main or "")
        found = self.engine.writes.touched_partitions(job_id, query, self.vector, change)
        return frozenset(PartitionSpec.of(dict(zip(names, values, strict=True))) for values in found)

    def _late(self, behind: _Specs, own: Scope, until: datetime) -> list[PartitionSpec]:
        """Return those of *behind* that no refresh on schedule takes anyway and that the table has,
        newest first.
        """
        others = (
            behind
            - (own.specs or frozenset())
            - (scope_of(self.table, self.table.failing).specs or frozenset())
        )
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

        The whole table has no partition yet of a schedule time that no run has covered:
        it may have been left out on purpose.
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


# Each refresh asks for hundreds of points, all but the last of which the one before it has asked for.
@lru_cache(maxsize=4_096)
def _point_after(point: datetime, cadence: Cadence, zone: str) -> datetime:
    return cadence.grid(zone).after(point)


def handling_of(definition: TableDefinition) -> str:
    """Return what a table does about late rows."""
    return definition.options.get(LATE_DATA, REFRESH)


def late_obstacles(reader: ChangeReader, definition: TableDefinition) -> Mapping[str, str] | str:
    """Return why late rows of a source are never known, by its name; a text if none of any source are."""
    query = reader.read_shape(query_of(definition))
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
    """Warn of sources whose late rows are never known."""
    if not definition.date_formatters or handling_of(definition) == IGNORE:
        return ()
    obstacles = late_obstacles(reader, definition)
    reasons = (obstacles,) if isinstance(obstacles, str) else obstacles.values()
    return tuple(
        f"Late rows are not refreshed in {identifier}, since they are never known: {reason}. "
        "REFRESH MATERIALIZED TABLE … PARTITION (…) refreshes the partitions that it names."
        for reason in reasons
    )


def known_of(history: Iterable[Snapshot], cleared: str | None) -> Known | str | None:
    """Return what the history of a table says of late rows, newest first;
    a text if it does not say anything any more.

    None: nothing has been refreshed that could be late.
    No partition is in doubt up to the snapshot *cleared*.
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
            return Known(
                sources=snapshot.sources,
                behind=behind.specs or frozenset(),
                doubted=NOT_DOUBTED if is_clear or snapshot.doubted is None else snapshot.doubted,
                later=tuple(reversed(later)),
            )
        # A compaction repeats what the snapshot before it says.
        if (snapshot.scope, snapshot.sources) not in later[-1:]:
            later.append((snapshot.scope, snapshot.sources))
    return "the last refresh that looked for them is no longer in the table's history"


def _repeats(compaction: Snapshot, before: Iterable[Snapshot], snapshot_id: str | None) -> bool:
    """Return whether a snapshot, if it is one of a compaction, repeats what *snapshot_id* says;
    *before* are those before it.
    """
    if not compaction.replace or snapshot_id is None:
        return False
    repeated = takewhile(lambda each: each.run_id == compaction.run_id, before)
    return any(each.snapshot_id == snapshot_id for each in repeated)


def _first_of(refreshes: list[tuple[Scope, str]]) -> Known | None:
    """Return what is known of a table that has only the partitions of *refreshes*, newest first,
    none of which looked.
    """
    if not refreshes:
        return None
    return Known(sources=refreshes[-1][1], behind=frozenset(), later=tuple(reversed(refreshes)))


def _unknown(reason: str) -> str:
    return f"late rows are not known: {reason}"


def _doubted_text(doubted: DoubtedPartitions) -> str | None:
    return f"{_unknown(doubted.reason)}; in doubt: {doubted}" if doubted else None


def _told(taken: list[PartitionSpec], left: list[PartitionSpec], handling: str) -> str | None:
    """Return what is said of partitions with late rows: those that a run takes, and those that it leaves."""
    if handling == REPORT and left:
        return f"{_late_rows(left)}; '{LATE_DATA}' = '{REPORT}' leaves them"
    if left and not taken:
        follow = plural(len(left), "partition with late rows follows", "partitions with late rows follow")
        return f"{len(left)} earlier {follow} in the next refresh: {named(left)}"
    rest = (
        f"; {len(left)} more {plural(len(left), 'follows', 'follow')} in the next refresh: {named(left)}"
        if left
        else ""
    )
    return f"{_late_rows(taken)}{rest}" if taken else None


def _late_rows(specs: list[PartitionSpec]) -> str:
    return f"late rows in {len(specs)} earlier {plural(len(specs), 'partition')}: {named(specs)}"
