"""A column and index for continuously refreshed tables, which a gateway queries more often than
all others.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None

INDEX = "materialized_tables_continuous"


def upgrade() -> None:
    # No release before this one stored such a table.
    continuous = sa.Column("continuous", sa.Boolean, nullable=False, server_default=sa.text("false"))
    op.add_column("materialized_tables", continuous)
    op.create_index(
        INDEX,
        "materialized_tables",
        ["table_id"],
        sqlite_where=sa.text("continuous = 1"),
        postgresql_where=sa.text("continuous"),
    )
