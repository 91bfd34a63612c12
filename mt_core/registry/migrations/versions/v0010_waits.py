"""Runs that wait for runs of other tables, and until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("runs", sa.Column("waits_until", TEXT))
    where = sa.text("waits_until IS NOT NULL AND status = 'QUEUED'")
    op.create_index("runs_waiting", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
