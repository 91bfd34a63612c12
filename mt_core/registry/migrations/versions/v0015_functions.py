"""Functions created by statements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "functions",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("body", TEXT, nullable=False),
    )
