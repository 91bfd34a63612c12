"""Jobs of suspended tables count as open."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.drop_index("jobs_open", "jobs")
    where = sa.text("status IN ('CREATED', 'RUNNING', 'RESTARTING', 'SUSPENDED')")
    op.create_index("jobs_open", "jobs", ["started_at"], sqlite_where=where, postgresql_where=where)
