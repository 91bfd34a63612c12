"""The schema of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

# Compared byte by byte on both databases, so that instants and names sort alike.
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_tables()
    _create_runs()
    _index_runs()
    _create_jobs()
    _create_workflows()
    _create_catalog_objects()
    op.create_table(
        "gateways",
        sa.Column("owner", TEXT, primary_key=True),
        sa.Column("lease_until", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False),
    )


def _create_tables() -> None:
    op.create_table(
        "materialized_tables",
        sa.Column("table_id", TEXT, primary_key=True),
        sa.Column("catalog", TEXT, nullable=False),
        sa.Column("namespace", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("claim", sa.BigInteger, nullable=False),
        sa.Column("exclusive", sa.Boolean, nullable=False),
        sa.Column("continuous", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("body", TEXT, nullable=False),
    )
    op.create_index(
        "materialized_tables_name", "materialized_tables", ["catalog", "namespace", "name"], unique=True
    )
    for column in ("exclusive", "continuous"):
        op.create_index(
            f"materialized_tables_{column}",
            "materialized_tables",
            ["table_id"],
            sqlite_where=sa.text(f"{column} = 1"),
            postgresql_where=sa.text(column),
        )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("table_id", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("claim", sa.BigInteger, nullable=False),
        sa.Column("requested_at", TEXT, nullable=False),
        sa.Column("request_key", TEXT),
        sa.Column("schedule_time", TEXT),
        sa.Column("last_point", TEXT),
        sa.Column("solo", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("owner", TEXT),
        sa.Column("lease_until", TEXT),
        sa.Column("waits_until", TEXT),
        sa.Column("covered_by", TEXT),
        sa.Column("strategy", TEXT),
        *(
            sa.Column(name, sa.BigInteger)
            for name in ("rows_inserted", "rows_updated", "rows_deleted", "bytes_read")
        ),
        sa.Column("body", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )


def _index_runs() -> None:
    op.create_index("runs_run_id", "runs", ["run_id"], unique=True)
    op.create_index("runs_of_table", "runs", ["table_id", "seq"])
    op.create_index("runs_of_table_by_status", "runs", ["table_id", "status", "seq"])
    op.create_index("runs_by_status", "runs", ["status", "seq"])
    keyed, queued = "request_key IS NOT NULL", "status = 'QUEUED'"
    live = f"{keyed} AND status NOT IN ('FAILED', 'CANCELED')"
    _partial_index("runs_one_running", "runs", ["table_id"], "status = 'RUNNING'", unique=True)
    _partial_index("runs_one_per_key", "runs", ["table_id", "request_key"], live, unique=True)
    _partial_index("runs_by_key", "runs", ["table_id", "request_key", "seq"], keyed)
    _partial_index("runs_by_last_point", "runs", ["table_id", "last_point"], "last_point IS NOT NULL")
    _partial_index("runs_queued", "runs", ["solo", "seq"], queued)
    _partial_index("runs_waiting", "runs", ["seq"], f"waits_until IS NOT NULL AND {queued}")
    _partial_index("runs_covered", "runs", ["covered_by"], "covered_by IS NOT NULL")
    _partial_index(
        "runs_of_table_by_strategy", "runs", ["table_id", "strategy", "seq"], "strategy IS NOT NULL"
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", TEXT, primary_key=True),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("started_at", TEXT, nullable=False),
        sa.Column("finished_at", TEXT),
        sa.Column("hooks_due", sa.Boolean, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("definition", TEXT),
    )
    op.create_index("jobs_by_start", "jobs", ["started_at", "job_id"])
    _partial_index(
        "jobs_open", "jobs", ["started_at"], "status IN ('CREATED', 'RUNNING', 'RESTARTING', 'SUSPENDED')"
    )
    op.create_index(
        "jobs_with_hooks",
        "jobs",
        ["started_at"],
        sqlite_where=sa.text("hooks_due = 1"),
        postgresql_where=sa.text("hooks_due"),
    )


def _create_workflows() -> None:
    op.create_table(
        "workflow_definitions",
        sa.Column("workflow_id", TEXT, primary_key=True),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("body", TEXT, nullable=False),
    )
    op.create_index("workflow_definitions_by_shard", "workflow_definitions", ["shard", "workflow_id"])
    op.create_table(
        "tombstones",
        sa.Column("table_id", TEXT, primary_key=True),
        sa.Column("dropped_at", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False),
    )


def _create_catalog_objects() -> None:
    for kind in ("catalogs", "connector_tables", "functions"):
        op.create_table(
            kind,
            sa.Column("name", TEXT, primary_key=True),
            sa.Column("body", TEXT, nullable=False),
        )


def _partial_index(
    name: str, table: str, columns: list[str], condition: str, *, unique: bool = False
) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)
