"""Migrations of the registry: one Alembic revision per change, run when a registry is opened."""
