"""Jobs of statements that change data."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", TEXT, primary_key=True),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("started_at", TEXT, nullable=False),
        sa.Column("finished_at", TEXT),
        sa.Column("hooks_due", sa.Boolean, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("body", TEXT, nullable=False),
    )
    op.create_index("jobs_by_start", "jobs", ["started_at", "job_id"])
    where = sa.text("status IN ('RUNNING', 'RESTARTING')")
    op.create_index("jobs_open", "jobs", ["started_at"], sqlite_where=where, postgresql_where=where)
    op.create_index(
        "jobs_with_hooks",
        "jobs",
        ["started_at"],
        sqlite_where=sa.text("hooks_due = 1"),
        postgresql_where=sa.text("hooks_due"),
    )
