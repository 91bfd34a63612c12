"""Workflow definitions in 32 shards instead of 16."""

from __future__ import annotations

from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

SHARDS = 32


def upgrade() -> None:
    connection = op.get_bind()
    workflow_ids = connection.execute(sa.text("SELECT workflow_id FROM workflow_definitions")).scalars().all()
    moved = [{"id": each, "shard": sha256(each.encode()).digest()[0] % SHARDS} for each in workflow_ids]
    if moved:
        connection.execute(
            sa.text("UPDATE workflow_definitions SET shard = :shard WHERE workflow_id = :id"), moved
        )
