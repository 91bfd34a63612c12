"""The strategy of a refresh, its row changes, and the bytes that it read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("runs", sa.Column("strategy", TEXT))
    for name in ("rows_inserted", "rows_updated", "rows_deleted", "bytes_read"):
        op.add_column("runs", sa.Column(name, sa.BigInteger))
