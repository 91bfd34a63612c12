"""Stream definitions of detached jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("definition", TEXT))
    op.drop_index("jobs_open", "jobs")
    where = sa.text("status IN ('CREATED', 'RUNNING', 'RESTARTING')")
    op.create_index("jobs_open", "jobs", ["started_at"], sqlite_where=where, postgresql_where=where)
