"""Materialized tables: identifiers, columns, the stored definition, and the status with its transitions.

A table has two halves. `TableDefinition` is the statement with names and defaults resolved; only users change
it, so its JSON decides the fingerprint and a refresh can be repeated years later. `MaterializedTable` is the
registry's row, which the gateway changes with every command and refresh: status, covered points, failing
points, doubts, the command in progress. Two invariants hold. A status moves only along `TRANSITIONS`. Every
change of a row raises `revision` by a compare-and-set, and every claim of a run raises `claim`, so that a
replaced gateway or worker cannot write. Rows of any earlier release must load: new fields have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from mt_core.base.identifiers import Namespace, display_name, namespace_of, namespace_text, sql_name
from mt_core.base.versions import check_keys, check_version
from mt_core.errors import IllegalStatus
from mt_core.model.cadence import Cadence, Grid, fresh_until, period_at
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.model.partition import DoubtedPartitions
from mt_core.model.transform import Transform

DEFINITION_VERSION = 1
FORMATTER_PREFIX = "partition.fields."
FORMATTER_SUFFIX = ".date-formatter"
_RECORDED = frozenset({"query_types", "sources", "streams", "cron", "transforms"})


class RefreshMode(StrEnum):
    """How a table is refreshed (FLIP-435)."""

    FULL = "FULL"
    CONTINUOUS = "CONTINUOUS"


class RefreshStatus(StrEnum):
    """The status of a table: whether scheduled refreshes maintain it."""

    INITIALIZING = "INITIALIZING"
    ACTIVATED = "ACTIVATED"
    SUSPENDED = "SUSPENDED"


class SuspendedBy(StrEnum):
    """What suspended a table: a user, its own failures, or the end of the streaming job that maintains it."""

    USER = "user"
    FAILURES = "failures"
    JOB = "job"


TRANSITIONS: Mapping[RefreshStatus, frozenset[RefreshStatus]] = {
    RefreshStatus.INITIALIZING: frozenset({RefreshStatus.ACTIVATED}),
    RefreshStatus.ACTIVATED: frozenset({RefreshStatus.SUSPENDED}),
    RefreshStatus.SUSPENDED: frozenset({RefreshStatus.ACTIVATED}),
}


@dataclass(frozen=True, slots=True, order=True)
class TableIdentifier:
    """A fully qualified name; `namespace` has one or more levels, and a level may contain a dot."""

    catalog: str
    namespace: Namespace
    name: str

    def __str__(self) -> str:
        return display_name(self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The catalog, the levels of the namespace, and the name."""
        return (self.catalog, *self.namespace, self.name)

    @property
    def sql(self) -> str:
        """The name with each part in backquotes."""
        return sql_name(self.parts)

    def to_json(self) -> dict[str, str]:
        return {"catalog": self.catalog, "namespace": namespace_text(self.namespace), "name": self.name}

    @classmethod
    def from_json(cls, body: Mapping[Any, Any]) -> TableIdentifier:
        return cls(body["catalog"], namespace_of(body["namespace"]), body["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `type` is Spark SQL's spelling, such as `decimal(10,2)`."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A CREATE MATERIALIZED TABLE with names and defaults resolved: what only users change of a table.

    `query_types` maps the table's columns to the types of the query at definition time; `sources` are the
    tables that the query read then. `streams` are the unbounded sources, which do not store their rows: only
    a streaming job can maintain such a table.
    `partition_keys` are the columns whose values name partitions; `transforms` only determine the layout of
    the files.
    """

    columns: tuple[Column, ...]
    original_query: str
    expanded_query: str
    # Exactly one of `freshness` and `cron` is set.
    freshness: Freshness | None
    refresh_mode: RefreshMode
    logical_refresh_mode: str
    zone: str
    cron: Cron | None = None
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    catalog: str = ""
    namespace: Namespace = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    query_types: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    @property
    def partitioning(self) -> tuple[str, ...]:
        """The items of PARTITIONED BY as text: partition columns first, then transforms."""
        return (*self.partition_keys, *map(str, self.transforms))

    @property
    def cadence(self) -> Cadence:
        """How often the table is refreshed."""
        return self.cron if self.cron is not None else self.interval

    @property
    def interval(self) -> Freshness:
        """The freshness of a table without a cron; every CONTINUOUS table has one."""
        assert self.freshness is not None, "a table with a cron is FULL and has a cadence, not an interval"
        return self.freshness

    def grid(self) -> Grid:
        """Return the schedule times of the table."""
        return self.cadence.grid(self.zone)

    def fresh_until(self, instant: datetime) -> datetime:
        """Return until when rows read at *instant* are as fresh as declared."""
        return fresh_until(self.cadence, self.zone, instant)

    def period_at(self, instant: datetime) -> timedelta:
        """Return the time between the schedule times around *instant*."""
        return period_at(self.cadence, self.zone, instant)

    @property
    def date_formatters(self) -> dict[str, str]:
        """Partition columns and their patterns for formatting schedule times.

        Empty for a CONTINUOUS table, which has no schedule times.
        """
        return {} if self.refresh_mode is RefreshMode.CONTINUOUS else self.declared_formatters

    @property
    def declared_formatters(self) -> dict[str, str]:
        """Partition columns and their patterns, from options `partition.fields.<column>.date-formatter`."""
        return {
            key.removeprefix(FORMATTER_PREFIX).removesuffix(FORMATTER_SUFFIX): pattern
            for key, pattern in self.options.items()
            if key.startswith(FORMATTER_PREFIX) and key.endswith(FORMATTER_SUFFIX)
        }

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["version"] = DEFINITION_VERSION
        freshness = self.freshness
        body["freshness"] = (
            None if freshness is None else {"amount": freshness.amount, "unit": freshness.unit}
        )
        body["cron"] = None if self.cron is None else self.cron.expression
        body["options"], body["settings"] = dict(self.options), dict(self.settings)
        body["namespace"] = namespace_text(self.namespace)
        body["query_types"], body["sources"] = dict(self.query_types), list(self.sources)
        body["streams"] = list(self.streams)
        body["transforms"] = list(body["transforms"])
        return {key: value for key, value in body.items() if value or key not in _RECORDED}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TableDefinition:
        check_version("The definition of the table", body, {DEFINITION_VERSION})
        check_keys("The definition of the table", body, {"version", *(each.name for each in fields(cls))})
        facts = {key: value for key, value in body.items() if key != "version"}
        facts["columns"] = tuple(Column(**column) for column in facts["columns"])
        facts["partition_keys"] = tuple(facts["partition_keys"])
        facts["transforms"] = tuple(map(Transform.from_json, facts.get("transforms", ())))
        facts["namespace"] = namespace_of(facts["namespace"])
        facts["sources"] = tuple(facts.get("sources", ()))
        facts["streams"] = tuple(facts.get("streams", ()))
        facts["freshness"] = Freshness(**facts["freshness"]) if facts["freshness"] else None
        facts["cron"] = Cron(facts["cron"]) if facts.get("cron") else None
        facts["refresh_mode"] = RefreshMode(facts["refresh_mode"])
        return cls(**facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A command in progress on a table: stored before its first effect and cleared by its last."""

    command: str
    step: str
    token: int
    owner: str
    lease_until: datetime
    started_at: datetime
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exclusive(self) -> bool:
        """Whether runs of the table wait until the command ends."""
        return self.command in {"ALTER", "CREATE", "MAINTENANCE"}


Span = tuple[datetime, datetime]
"""All points of a grid from the first to the last, both inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedTable:
    """A row of the registry."""

    table_id: str
    identifier: TableIdentifier
    definition: TableDefinition
    created_at: datetime
    status: RefreshStatus = RefreshStatus.INITIALIZING
    # The command that last changed the status, and when.
    status_by: str = "CREATE"
    status_at: datetime
    # Why the table was suspended; None if a command suspended it.
    status_reason: str | None = None
    # The latest consecutive schedule times that failed because of the query or its data. For a CONTINUOUS
    # table, these are the request times of its runs.
    failed_times: tuple[datetime, ...] = ()
    location: str
    # No grid point up to `covered_until`, nor any within the `covered` spans after it, needs a refresh.
    covered_until: datetime
    covered: tuple[Span, ...] = ()
    # Points that failed in a refresh of their own, ordered by their last attempt, oldest first.
    failing: tuple[datetime, ...] = ()
    # The scheduler that has the workflow, and the refresh handler of the workflow (None: no workflow exists).
    scheduler: str = ""
    handler: str | None = None
    # The options of the last RESUME WITH.
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    # The fingerprint for which the whole table still has to be computed (None: no rebuild is due).
    rebuild_due: str | None = None
    # Why rows of the table may be wrong, so that each refresh computes all of them (None: no doubt).
    doubt: str | None = None
    # The partitions in doubt after the last refresh, and the last snapshot for which a verification has
    # cleared them.
    doubted: DoubtedPartitions | None = None
    cleared: str | None = None
    intent: Intent | None = None
    # Until when a delayed call of a failed command may still change the workflow (None: no call can).
    repair_until: datetime | None = None
    # Incremented by every change of the row.
    revision: int = 0
    # Incremented by every claim on the storage.
    claim: int = 0

    @property
    def token(self) -> int:
        """The number that orders the operations on the table's workflow.

        This is the token of the command in progress, or the revision if there is none.
        """
        return self.intent.token if self.intent is not None else self.revision

    @property
    def suspended_by(self) -> SuspendedBy | None:
        """What suspended the table, None if it is not suspended. Users give no reason."""
        if self.status is not RefreshStatus.SUSPENDED:
            return None
        if self.status_reason is None:
            return SuspendedBy.USER
        return SuspendedBy.JOB if self.definition.streams else SuspendedBy.FAILURES

    @property
    def is_watched(self) -> bool:
        """Whether the source watcher refreshes the table when its sources change.

        All other CONTINUOUS tables are maintained by a streaming job.
        """
        return self.definition.refresh_mode is RefreshMode.CONTINUOUS and not self.definition.streams

    @property
    def continuous_job(self) -> str | None:
        """The id of the job that refreshes the table continuously, or None if there is none.

        A job of the source watcher gets a new id with each CREATE and RESUME. A streaming job exists as long
        as its table.
        """
        if self.definition.streams:
            return stream_job(self.table_id)
        if (
            self.definition.refresh_mode is not RefreshMode.CONTINUOUS
            or self.status is not RefreshStatus.ACTIVATED
        ):
            return None
        return uuid5(NAMESPACE_OID, f"{self.table_id} {self.status_at.isoformat()}").hex

    def advance(
        self, target: RefreshStatus, *, by: str, at: datetime, reason: str | None = None
    ) -> MaterializedTable:
        """Return the table with status *target*; raise IllegalStatus if `TRANSITIONS` does not allow it."""
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(
                f"Materialized table {self.identifier} is {self.status} and cannot become {target}.",
                table=str(self.identifier),
            )
        return replace(self, status=target, status_by=by, status_at=at, status_reason=reason, failed_times=())


def stream_job(table_id: str) -> str:
    """Return the id of a table's streaming job, whether or not the table has one."""
    return uuid5(NAMESPACE_OID, f"{table_id} stream").hex
