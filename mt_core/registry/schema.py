"""The tables of the registry after the newest migration.

Values that statements search, sort or sum by are stored in columns; all others are in a JSON body.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    literal_column,
    select,
    text,
    union_all,
)

from mt_core.model.run import RunKind, RunStatus

METADATA = MetaData()

# The newest migration: a registry that has it can be opened without loading the others.
NEWEST = "0016"

# Text is compared byte by byte in both databases, so that instants and names sort identically.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")
SEQUENCE = BigInteger().with_variant(Integer, "sqlite")

TABLES = Table(
    "materialized_tables",
    METADATA,
    Column("table_id", TEXT, primary_key=True),
    Column("catalog", TEXT, nullable=False),
    Column("namespace", TEXT, nullable=False),
    Column("name", TEXT, nullable=False),
    Column("status", TEXT, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("claim", BigInteger, nullable=False),
    Column("exclusive", Boolean, nullable=False),
    Column("continuous", Boolean, nullable=False, server_default=text("false")),
    Column("changed", BigInteger, nullable=False, server_default=text("0")),
    Column("body", TEXT, nullable=False),
    Index("materialized_tables_by_change", "changed"),
    Index("materialized_tables_name", "catalog", "namespace", "name", unique=True),
    Index(
        "materialized_tables_exclusive",
        "table_id",
        sqlite_where=text("exclusive = 1"),
        postgresql_where=text("exclusive"),
    ),
    Index(
        "materialized_tables_continuous",
        "table_id",
        sqlite_where=text("continuous = 1"),
        postgresql_where=text("continuous"),
    ),
    implicit_returning=False,
)

RUNS = Table(
    "runs",
    METADATA,
    Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
    Column("run_id", TEXT, nullable=False),
    Column("table_id", TEXT, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("status", TEXT, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("claim", BigInteger, nullable=False),
    Column("requested_at", TEXT, nullable=False),
    Column("request_key", TEXT),
    Column("schedule_time", TEXT),
    Column("last_point", TEXT),
    Column("solo", Boolean, nullable=False, server_default=text("false")),
    Column("owner", TEXT),
    Column("lease_until", TEXT),
    Column("waits_until", TEXT),
    Column("covered_by", TEXT),
    Column("strategy", TEXT),
    Column("rows_inserted", BigInteger),
    Column("rows_updated", BigInteger),
    Column("rows_deleted", BigInteger),
    Column("bytes_read", BigInteger),
    Column("started_at", TEXT),
    Column("finished_at", TEXT),
    Column("reason_code", TEXT),
    Column("changed", BigInteger, nullable=False, server_default=text("0")),
    Column("body", TEXT, nullable=False),
    Index("runs_run_id", "run_id", unique=True),
    Index("runs_of_table", "table_id", "seq"),
    Index("runs_of_table_by_status", "table_id", "status", "seq"),
    Index("runs_by_status", "status", "seq"),
    Index("runs_by_change", "changed"),
    implicit_returning=False,
    sqlite_autoincrement=True,
)

DEFINITIONS = Table(
    "workflow_definitions",
    METADATA,
    Column("workflow_id", TEXT, primary_key=True),
    Column("shard", Integer, nullable=False),
    Column("body", TEXT, nullable=False),
    Index("workflow_definitions_by_shard", "shard", "workflow_id"),
    implicit_returning=False,
)

TOMBSTONES = Table(
    "tombstones",
    METADATA,
    Column("table_id", TEXT, primary_key=True),
    Column("dropped_at", TEXT, nullable=False),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
)

CATALOGS = Table(
    "catalogs",
    METADATA,
    Column("name", TEXT, primary_key=True),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
)

CONNECTOR_TABLES = Table(
    "connector_tables",
    METADATA,
    Column("name", TEXT, primary_key=True),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
)

FUNCTIONS = Table(
    "functions",
    METADATA,
    Column("name", TEXT, primary_key=True),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
)

JOBS_OPEN = text("status IN ('CREATED', 'RUNNING', 'RESTARTING', 'SUSPENDED')")
JOBS = Table(
    "jobs",
    METADATA,
    Column("job_id", TEXT, primary_key=True),
    Column("status", TEXT, nullable=False),
    Column("started_at", TEXT, nullable=False),
    Column("finished_at", TEXT),
    Column("hooks_due", Boolean, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("body", TEXT, nullable=False),
    Column("definition", TEXT),
    Index("jobs_by_start", "started_at", "job_id"),
    Index("jobs_open", "started_at", sqlite_where=JOBS_OPEN, postgresql_where=JOBS_OPEN),
    Index(
        "jobs_with_hooks",
        "started_at",
        sqlite_where=text("hooks_due = 1"),
        postgresql_where=text("hooks_due"),
    ),
    implicit_returning=False,
)

# A gateway takes its lease before it migrates, so this table must remain as earlier releases have it.
GATEWAYS = Table(
    "gateways",
    METADATA,
    Column("owner", TEXT, primary_key=True),
    Column("lease_until", TEXT, nullable=False),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
)

# The tables that were deleted, or whose runs were, with the change number of the last deletion.
DELETIONS = Table(
    "deletions",
    METADATA,
    Column("table_id", TEXT, primary_key=True),
    Column("changed", BigInteger, nullable=False),
    Column("deleted_at", TEXT, nullable=False),
    Index("deletions_by_change", "changed"),
    implicit_returning=False,
)

NOTICES = Table(
    "notices",
    METADATA,
    Column("number", SEQUENCE, primary_key=True, autoincrement=True),
    Column("kind", TEXT, nullable=False),
    Column("at", TEXT, nullable=False),
    Column("body", TEXT, nullable=False),
    implicit_returning=False,
    sqlite_autoincrement=True,
)

HOURS = Table(
    "freshness_hours",
    METADATA,
    Column("table_id", TEXT, primary_key=True),
    Column("hour", TEXT, primary_key=True),
    Column("worst_s", Double, nullable=False),
    Column("late_s", Double, nullable=False),
    Column("fault", TEXT),
    Column("batches", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Index("freshness_hours_by_hour", "hour"),
    implicit_returning=False,
)

for _name, _columns, _condition, _unique in (
    ("runs_one_running", ("table_id",), "status = 'RUNNING'", True),
    (
        "runs_one_per_key",
        ("table_id", "request_key"),
        "request_key IS NOT NULL AND status NOT IN ('FAILED', 'CANCELED')",
        True,
    ),
    ("runs_by_key", ("table_id", "request_key", "seq"), "request_key IS NOT NULL", False),
    ("runs_by_last_point", ("table_id", "last_point"), "last_point IS NOT NULL", False),
    ("runs_queued", ("solo", "seq"), "status = 'QUEUED'", False),
    ("runs_waiting", ("seq",), "waits_until IS NOT NULL AND status = 'QUEUED'", False),
    ("runs_covered", ("covered_by",), "covered_by IS NOT NULL", False),
    ("runs_of_table_by_strategy", ("table_id", "strategy", "seq"), "strategy IS NOT NULL", False),
    ("runs_by_finish", ("finished_at",), "finished_at IS NOT NULL", False),
):
    Index(
        _name,
        *(RUNS.c[column] for column in _columns),
        unique=_unique,
        sqlite_where=text(_condition),
        postgresql_where=text(_condition),
    )


_MAXIMA = union_all(
    *(
        select(func.max(table.alias(f"changed_{table.name}").c.changed).label("number"))
        for table in (TABLES, RUNS, DELETIONS)
    )
).subquery("changes")
LAST_CHANGE = select(func.coalesce(func.max(_MAXIMA.c.number), literal_column("0"))).scalar_subquery()
NEXT_CHANGE = LAST_CHANGE + literal_column("1")
"""The value of the column `changed` in a row that a statement writes."""


def word(value: RunStatus | RunKind) -> ColumnElement[str]:
    """Return *value* as a literal, because a planner cannot match a parameter with a partial index."""
    return literal_column(f"'{value.value}'", Text)
