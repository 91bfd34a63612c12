"""Request keys per table, and refreshes of single points that run after all others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("solo", sa.Boolean, nullable=False, server_default=sa.text("false")))
    op.execute(sa.text("UPDATE runs SET solo = true WHERE body LIKE '%\"solo\": true%'"))
    for name in ("runs_one_per_key", "runs_by_key", "runs_by_schedule_time"):
        op.drop_index(name, "runs")
    keyed = "request_key IS NOT NULL"
    live = f"{keyed} AND status NOT IN ('FAILED', 'CANCELED')"
    _partial_index("runs_one_per_key", ["table_id", "request_key"], live, unique=True)
    _partial_index("runs_by_key", ["table_id", "request_key", "seq"], keyed)
    _partial_index("runs_queued", ["solo", "seq"], "status = 'QUEUED'")


def _partial_index(name: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, "runs", columns, unique=unique, sqlite_where=where, postgresql_where=where)
