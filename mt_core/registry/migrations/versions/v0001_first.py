"""Tables, runs, workflow definitions and tombstones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
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
    _index_runs_partially()
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
        sa.Column("body", TEXT, nullable=False),
    )
    op.create_index(
        "materialized_tables_name", "materialized_tables", ["catalog", "namespace", "name"], unique=True
    )
    op.create_index(
        "materialized_tables_exclusive",
        "materialized_tables",
        ["table_id"],
        sqlite_where=sa.text("exclusive = 1"),
        postgresql_where=sa.text("exclusive"),
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
        sa.Column("owner", TEXT),
        sa.Column("lease_until", TEXT),
        sa.Column("covered_by", TEXT),
        sa.Column("body", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )


def _index_runs() -> None:
    op.create_index("runs_run_id", "runs", ["run_id"], unique=True)
    op.create_index("runs_of_table", "runs", ["table_id", "seq"])
    op.create_index("runs_of_table_by_status", "runs", ["table_id", "status", "seq"])
    op.create_index("runs_by_status", "runs", ["status", "seq"])


def _index_runs_partially() -> None:
    keyed = "request_key IS NOT NULL"
    _partial_index("runs_one_running", ["table_id"], "status = 'RUNNING'", unique=True)
    _partial_index(
        "runs_one_per_key", ["request_key"], f"{keyed} AND status NOT IN ('FAILED', 'CANCELED')", unique=True
    )
    _partial_index("runs_by_key", ["request_key", "seq"], keyed)
    _partial_index("runs_by_last_point", ["table_id", "last_point"], "last_point IS NOT NULL")
    _partial_index("runs_by_schedule_time", ["table_id", "schedule_time"], "kind = 'PERIODIC'")
    _partial_index("runs_covered", ["covered_by"], "covered_by IS NOT NULL")


def _partial_index(name: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, "runs", columns, unique=unique, sqlite_where=where, postgresql_where=where)
