"""The gateways that use the registry, with their leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "gateways",
        sa.Column("owner", TEXT, primary_key=True),
        sa.Column("lease_until", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False),
    )
