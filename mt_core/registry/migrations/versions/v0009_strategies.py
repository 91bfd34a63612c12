"""An index for the last refreshes of a table by strategy."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    where = sa.text("strategy IS NOT NULL")
    columns = ["table_id", "strategy", "seq"]
    op.create_index("runs_of_table_by_strategy", "runs", columns, sqlite_where=where, postgresql_where=where)
