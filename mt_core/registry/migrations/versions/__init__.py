"""The Alembic revisions."""
